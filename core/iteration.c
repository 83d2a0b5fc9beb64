#include "core/iteration.h"
