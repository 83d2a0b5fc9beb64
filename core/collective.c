#include "core/collective.h"
