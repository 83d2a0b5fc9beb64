#include "core/unit.h"
