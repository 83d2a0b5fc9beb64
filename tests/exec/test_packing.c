#include "exec/step/packing.h"

#include "core/schedule/iteration.h"
#include "tests/core/own.h"
#include "tests/test.h"

enum { ALIGNMENT = 64 };

/* A schedule of nothing but all-reduces of buckets of @elements (count) in fp16. */
static struct schedule *schedule_of(struct grid grid, enum algorithm algorithm,
                                    const int64_t *elements, int32_t count)
{
    struct schedule *schedule = schedule_new(grid);
    for (int32_t i = 0; i < count; i++)
        schedule_add_all_reduce(schedule, algorithm, 1, i, 2 * elements[i], -1);
    return schedule;
}

static struct packing pack(struct grid grid, int64_t alignment, const int64_t *elements,
                           int32_t count)
{
    OWN(schedule) *schedule = schedule_of(grid, ALGORITHM_TORUS2D, elements, count);
    struct packing packing = packing_build(schedule, 0, DTYPE_FP16, alignment);
    assert_int_equal(packing.buckets, count);
    return packing;
}

static void expect_buckets(const struct packing *packing, const int64_t *offset)
{
    for (int32_t i = 0; i < packing->buckets; i++) {
        assert_int_equal(packing->bucket[i].offset, offset[i]);
        assert_int_equal(packing->bucket[i].elements, offset[i + 1] - offset[i]);
    }
    assert_int_equal(packing->elements, offset[packing->buckets]);
}

TEST(without_alignment_buckets_lie_as_they_are_cut)
{
    const struct grid grids[] = {{.columns = 1, .rows = 2},
                                 {.columns = 2, .rows = 1},
                                 {.columns = 3, .rows = 2},
                                 {.columns = 48, .rows = 72}};
    for (size_t i = 0; i < sizeof(grids) / sizeof(*grids); i++) {
        HELD(packing) packing = pack(grids[i], 0, (int64_t[]){1001, 7, 1001, 13}, 4);
        expect_buckets(&packing, (int64_t[]){0, 1001, 1008, 2009, 2022});
        assert_int_equal(packing.exchanged, 2022);
    }
}

TEST(borders_go_down_and_the_end_goes_up_to_a_unit)
{
    HELD(packing)
    packing = pack(grid_of(3, 2), ALIGNMENT, (int64_t[]){333, 667}, 2);
    expect_buckets(&packing, (int64_t[]){0, 192, 1152});
    assert_int_equal(packing.exchanged, 1000);
    HELD(packing)
    column = pack(grid_of(1, 2), ALIGNMENT, (int64_t[]){333, 667}, 2);
    expect_buckets(&column, (int64_t[]){0, 320, 1024});
    HELD(packing)
    square = pack(grid_of(2, 2), ALIGNMENT, (int64_t[]){256, 384}, 2);
    expect_buckets(&square, (int64_t[]){0, 256, 640});
}

TEST(buckets_of_less_than_a_unit_go_with_the_next)
{
    HELD(packing)
    packing = pack(grid_of(3, 1), ALIGNMENT, (int64_t[]){100, 20, 500, 1}, 4);
    expect_buckets(&packing, (int64_t[]){0, 0, 0, 576, 768});
    assert_int_equal(packing.exchanged, 621);
}

TEST(buckets_have_their_size_with_every_algorithm)
{
    const enum algorithm algorithms[] = {ALGORITHM_NCCL, ALGORITHM_TORUS2D, ALGORITHM_RING};
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++) {
        OWN(schedule) *schedule = schedule_of(grid_of(2, 3), algorithms[i], (int64_t[]){90, 11}, 2);
        HELD(packing) packing = packing_build(schedule, 0, DTYPE_FP16, 0);
        expect_buckets(&packing, (int64_t[]){0, 90, 101});
        HELD(packing) wide = packing_build(schedule, 0, DTYPE_FP32, 0);
        expect_buckets(&wide, (int64_t[]){0, 45, 50}); /* 5.5 of fp32 are no whole number */
    }
}

TEST(one_rank_has_nothing_to_pack)
{
    OWN(schedule) *schedule = schedule_of(grid_of(1, 1), ALGORITHM_TORUS2D, (int64_t[]){90}, 1);
    HELD(packing) packing = packing_build(schedule, 0, DTYPE_FP16, ALIGNMENT);
    assert_int_equal(packing.buckets, 0);
    assert_int_equal(packing.elements, 0);
}

/* Blocks follow each other and cover the slice; only unaligned ones differ in length. */
TEST(blocks_of_a_row_make_up_the_bucket)
{
    for (int32_t columns = 1; columns <= 17; columns++)
        for (int64_t elements = 0; elements < 100; elements++) {
            struct slice slice = {10, elements};
            int64_t next = slice.offset, longest = (elements + columns - 1) / columns;
            for (int32_t rank = columns; rank < 2 * columns; rank++) { /* the second row */
                struct slice block = packing_block(slice, grid_of(columns, 2), AXIS_ROW, rank);
                assert_int_equal(block.offset, next);
                assert_true(block.elements == longest || block.elements == elements / columns);
                assert_true(block.elements <= longest);
                longest = block.elements; /* no later one is longer */
                next += block.elements;
            }
            assert_int_equal(next, slice.offset + elements);
        }
}

/* Every bucket of a real job: aligned, nothing before it is ready, and less than a unit more. */
static void check_job(const struct model *model, struct grid grid, int64_t limit)
{
    struct scenario scenario = {.model.gradients = DTYPE_FP16};
    scenario.allreduce.algorithm = ALGORITHM_TORUS2D;
    struct iteration iteration = {.model = model,
                                  .scenario = &scenario,
                                  .grid = grid,
                                  .devices_per_node = 1,
                                  .batch = 1,
                                  .micro_batch = 1,
                                  .bucket = limit};
    OWN(schedule) *schedule = iteration_build(&iteration);
    HELD(packing) cut = packing_build(schedule, 0, DTYPE_FP16, 0);
    HELD(packing) packing = packing_build(schedule, 0, DTYPE_FP16, ALIGNMENT);
    int64_t unit = (int64_t)ALIGNMENT * grid.columns, gradients = model_parameters(model);
    assert_int_equal(cut.elements, gradients);
    assert_int_equal(packing.exchanged, gradients);
    assert_in_range(packing.elements - gradients, 0, unit - 1);
    for (int32_t i = 0; i < packing.buckets; i++) {
        struct slice slice = packing.bucket[i];
        assert_int_equal(slice.offset % unit, 0);
        assert_int_equal(slice.elements % unit, 0);
        assert_in_range(cut.bucket[i].offset - slice.offset, 0, unit - 1);
        for (int32_t rank = 0; rank < grid.columns; rank++) {
            struct slice block = packing_block(slice, grid, AXIS_ROW, rank);
            assert_int_equal(block.offset, slice.offset + rank * block.elements);
            assert_int_equal(block.offset % ALIGNMENT, 0);
        }
    }
}

TEST(buckets_of_real_jobs_are_aligned)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    const struct grid grids[] = {{.columns = 2, .rows = 1},
                                 {.columns = 1, .rows = 2},
                                 {.columns = 3, .rows = 2},
                                 {.columns = 8, .rows = 4},
                                 {.columns = 72, .rows = 48}};
    for (size_t i = 0; i < sizeof(grids) / sizeof(*grids); i++)
        for (int64_t limit = 0; limit < 5000000; limit += 999998)
            check_job(model, grids[i], limit);
}

/* The numbers that exec/step/packing.h says. */
TEST(resnet_50_grows_by_little)
{
    const int64_t gradients = 25557032;
    HELD(packing) packing = pack(grid_of(8, 1), ALIGNMENT, &gradients, 1);
    assert_int_equal(packing.elements - gradients, 472);
    HELD(packing) large = pack(grid_of(72, 48), ALIGNMENT, &gradients, 1);
    assert_int_equal(large.elements - gradients, 3544);
}
