#include "core/err.h"
