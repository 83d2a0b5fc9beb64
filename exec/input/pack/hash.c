#include "exec/input/pack/hash.h"

#include <xxhash.h>

uint64_t hash_bytes(const void *data, int64_t size)
{
    return XXH3_64bits(data, (size_t)size);
}
