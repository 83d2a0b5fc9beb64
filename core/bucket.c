#include "core/bucket.h"
