#include "core/yaml.h"
