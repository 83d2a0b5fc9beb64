#include "models/networks.h"
