#include "core/fabric.h"
