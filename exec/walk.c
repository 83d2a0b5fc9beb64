#include "core/backend.h"
