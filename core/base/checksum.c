#include "core/base/checksum.h"

#include <xxhash.h>

#include "core/base/base.h"

struct checksum *checksum_new(void)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        base_out_of_memory(0);
    XXH3_128bits_reset(state);
    return (struct checksum *)state;
}

void checksum_add(struct checksum *checksum, const void *data, size_t size)
{
    XXH3_128bits_update((XXH3_state_t *)checksum, data, size);
}

void checksum_finish(struct checksum *checksum, char *digits)
{
    XXH3_state_t *state = (XXH3_state_t *)checksum;
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    snprintf(digits, CHECKSUM_DIGITS + 1, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    XXH3_freeState(state);
}

void checksum_of(const void *data, size_t size, char *digits)
{
    struct checksum *checksum = checksum_new();
    checksum_add(checksum, data, size);
    checksum_finish(checksum, digits);
}
