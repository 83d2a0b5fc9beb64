#include "core/phase.h"
