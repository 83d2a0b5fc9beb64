#include "core/cost.h"
