#include "core/floor.h"
