#include "core/base/checksum.h"

#include <assert.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "core/base/base.h"

#if HAVE_XXHASH
#include <xxhash.h>
#endif

struct checksum {
    enum checksum_kind kind;
    SHA2_CTX sha256;
#if HAVE_XXHASH
    XXH3_state_t *xxh3;
#endif
};

const char *const checksum_names[] = {"xxh3-128", "sha256", NULL};
static_assert(ARRAY_SIZE(checksum_names) == CHECKSUM_KIND_COUNT + 1, "one name each");

enum checksum_kind checksum_preferred(void)
{
    return HAVE_XXHASH ? CHECKSUM_XXH3_128 : CHECKSUM_SHA256;
}

bool checksum_available(enum checksum_kind kind)
{
    return kind == CHECKSUM_SHA256 || HAVE_XXHASH;
}

struct checksum *checksum_new(enum checksum_kind kind)
{
    assert(checksum_available(kind));
    struct checksum *checksum = base_alloc(1, sizeof(*checksum));
    checksum->kind = kind;
#if HAVE_XXHASH
    if (kind == CHECKSUM_XXH3_128) {
        checksum->xxh3 = XXH3_createState();
        if (!checksum->xxh3)
            base_out_of_memory(0);
        XXH3_128bits_reset(checksum->xxh3);
    }
#endif
    if (kind == CHECKSUM_SHA256)
        SHA256Init(&checksum->sha256);
    return checksum;
}

void checksum_add(struct checksum *checksum, const void *data, size_t size)
{
#if HAVE_XXHASH
    if (checksum->xxh3)
        XXH3_128bits_update(checksum->xxh3, data, size);
#endif
    if (checksum->kind == CHECKSUM_SHA256)
        SHA256Update(&checksum->sha256, data, size);
}

void checksum_finish(struct checksum *checksum, char *digits)
{
#if HAVE_XXHASH
    if (checksum->xxh3) {
        XXH128_hash_t hash = XXH3_128bits_digest(checksum->xxh3);
        snprintf(digits, CHECKSUM_DIGITS + 1, "%016llx%016llx", (unsigned long long)hash.high64,
                 (unsigned long long)hash.low64);
        XXH3_freeState(checksum->xxh3);
    }
#endif
    if (checksum->kind == CHECKSUM_SHA256)
        SHA256End(&checksum->sha256, digits);
    free(checksum);
}

void checksum_of(enum checksum_kind kind, const void *data, size_t size, char *digits)
{
    struct checksum *checksum = checksum_new(kind);
    checksum_add(checksum, data, size);
    checksum_finish(checksum, digits);
}
