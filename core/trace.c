#include "core/trace.h"
