#include "core/base.h"
