#include "exec/input/sampler.h"

#include <assert.h>
#include <math.h>

#include "core/base/base.h"

enum { ROUNDS = 8 };

/* Numbers below left * right as pairs; left is about the root of the count, so few numbers are too
 * large and the walk is short. */
struct radix {
    int64_t left, right;
};

static struct radix split_count(int64_t count)
{
    int64_t left = (int64_t)sqrt((double)count);
    while (left * left < count)
        left++;
    return (struct radix){left, (count + left - 1) / left};
}

static int64_t shift(uint64_t seed, uint64_t epoch, int32_t round, int64_t value, int64_t below)
{
    double uniform = base_uniform(seed, epoch, (uint64_t)round, (uint64_t)value);
    return (int64_t)(uniform * (double)below);
}

static int64_t permute(uint64_t seed, uint64_t epoch, struct radix radix, int64_t number)
{
    int64_t left = number / radix.right, right = number % radix.right;
    for (int32_t i = 0; i < ROUNDS; i++) {
        if (i % 2)
            right = (right + shift(seed, epoch, i, left, radix.right)) % radix.right;
        else
            left = (left + shift(seed, epoch, i, right, radix.left)) % radix.left;
    }
    return left * radix.right + right;
}

struct sample sampler_at(uint64_t seed, int64_t count, int64_t position)
{
    assert(count >= 1 && position >= 0);
    struct radix radix = split_count(count);
    struct sample sample = {(uint64_t)(position / count), position % count};
    do
        sample.index = permute(seed, sample.epoch, radix, sample.index);
    while (sample.index >= count);
    return sample;
}
