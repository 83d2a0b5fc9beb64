#include "core/field.h"
