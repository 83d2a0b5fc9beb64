#include "core/platform.h"
