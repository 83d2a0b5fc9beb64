#include "exec/input/input.h"

#include "core/base/base.h"
#include "tests/test.h"

/* Whether one epoch has every index once. */
static void check_epoch(uint64_t seed, int64_t count, uint64_t epoch)
{
    AUTOFREE uint8_t *seen = base_alloc(count, 1);
    for (int64_t i = 0; i < count; i++) {
        struct sample sample = sampler_at(seed, count, (int64_t)epoch * count + i);
        assert_true(sample.epoch == epoch);
        assert_in_range(sample.index, 0, count - 1);
        assert_int_equal(seen[sample.index]++, 0);
    }
}

TEST(every_index_stands_once_in_an_epoch)
{
    for (int64_t count = 1; count <= 300; count++)
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            check_epoch(7, count, epoch);
    check_epoch(1, 50000, 11);
    check_epoch(2, 1281167, 89);
}

/* Positions at which two epochs have the same image. */
static int64_t agreements(int64_t count, uint64_t seed_a, uint64_t seed_b, int64_t epoch_a,
                          int64_t epoch_b)
{
    int64_t same = 0;
    for (int64_t i = 0; i < count; i++)
        same += sampler_at(seed_a, count, epoch_a * count + i).index ==
                sampler_at(seed_b, count, epoch_b * count + i).index;
    return same;
}

TEST(epochs_and_seeds_have_orders_of_their_own)
{
    /* One agreement is expected of independent orders; more than 12 has a chance of 1e-10. */
    assert_in_range(agreements(10000, 1, 1, 0, 1), 0, 12);
    assert_in_range(agreements(10000, 1, 2, 0, 0), 0, 12);
    assert_in_range(agreements(10000, 3, 3, 4, 90), 0, 12);
    assert_int_equal(agreements(10000, 5, 5, 6, 6), 10000);
}

/* Chi-squared of how often each index stands at one place, over many seeds. */
static double unevenness(int64_t count, int64_t place, int64_t seeds)
{
    AUTOFREE int64_t *times = base_alloc(count, sizeof(*times));
    double expected = (double)seeds / (double)count, sum = 0;
    for (int64_t seed = 0; seed < seeds; seed++)
        times[sampler_at((uint64_t)seed, count, place).index]++;
    for (int64_t i = 0; i < count; i++)
        sum += ((double)times[i] - expected) * ((double)times[i] - expected) / expected;
    return sum;
}

TEST(every_place_may_have_every_image)
{
    /* Chi-squared has mean n - 1 and variance 2 (n - 1): within 5 deviations. */
    static const int64_t counts[] = {2, 3, 5, 10, 64, 100, 997};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        int64_t count = counts[i], freedom = count - 1;
        double chance = 5 * __builtin_sqrt(2.0 * (double)freedom);
        assert_true(unevenness(count, 0, 200 * count) < (double)freedom + chance);
        assert_true(unevenness(count, count / 2, 200 * count) < (double)freedom + chance);
        assert_true(unevenness(count, count - 1, 200 * count) < (double)freedom + chance);
    }
}

TEST(neighbours_are_not_kept_together)
{
    const int64_t count = 20000;
    int64_t followed = 0, previous = -2;
    double distance = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t index = sampler_at(9, count, i).index;
        followed += index == previous + 1;
        if (i)
            distance += (double)llabs(index - previous) / (double)count;
        previous = index;
    }
    assert_in_range(followed, 0, 12); /* one is expected */
    /* The mean distance of two random places is 1/3, its deviation 0.2357 / sqrt(n). */
    assert_true(distance / (double)count > 0.3333 - 0.01);
    assert_true(distance / (double)count < 0.3333 + 0.01);
}
