#pragma once

/** @file
 * What core makes: for OWN() of tests/own.h, and without errors.
 */

#include "core/platform/software.h"
#include "core/schedule/schedule.h"
#include "models/networks.h"
#include "tests/assert.h"
#include "tests/own.h"

/** By OWN(). */
OWNED(document, yaml_free)
OWNED(fabric, fabric_free)
OWNED(json, json_free)
OWNED(model, model_free)
OWNED(platform, platform_free)
OWNED(schedule, schedule_free)
OWNED(software, software_free)

/** A grid without further axes. */
static inline struct grid grid_of(int32_t columns, int32_t rows)
{
    return (struct grid){.columns = columns, .rows = rows};
}

/** An ideal torus, or ring where rows = 1, of 75 GB/s and 1 us along rows, 25 GB/s and 5 us along
 * columns. */
static inline struct fabric *ideal_torus(struct grid grid)
{
    static const struct link_kind kind[] = {{"row", 75e9, 1e-6}, {"column", 25e9, 5e-6}};
    bool ring = grid.rows == 1;
    return fabric_lay_torus(grid, ring ? 1 : 2, kind + ring, 0);
}

/** A device of which one FLOP takes a picosecond, and nothing else any time. */
static inline const struct device *ideal_device(void)
{
    static struct device device = {
        .memory_bandwidth.value = 1e30, .math_efficiency.value = 1, .memory_efficiency.value = 1};
    for (enum dtype dtype = 0; dtype < DTYPE_COUNT; dtype++)
        device.peak[dtype].value = 1e12;
    return &device;
}

/** The platform that is called so. */
static inline struct platform *platform_of(const char *name)
{
    struct err fault = {0};
    struct platform *platform = platform_read(name, &fault);
    assert_ok(platform, fault);
    return platform;
}

/** The network that is called so, for images of @image pixels a side. */
static inline struct model *network_of(const char *name, int32_t image, int32_t classes)
{
    struct err fault = {0};
    struct model *model = network_build(name, image, classes, &fault);
    assert_ok(model && fault.count == 0, fault);
    return model;
}

/** A step behind step @after, or behind none if that is -1; collectives are of 1000 bytes. */
static inline int32_t add_step(struct schedule *schedule, enum step_kind kind, enum lane lane,
                               int32_t after)
{
    struct dep dep = {.step = after};
    struct step step = {.kind = kind, .lane = lane, .name = "step"};
    if (kind == STEP_COLLECTIVE) {
        step.collective.axis = AXIS_WORLD;
        step.collective.bytes = 1000;
    }
    return schedule_add(schedule, step, &dep, after >= 0);
}

/** A compute step of @seconds on ideal_device() that waits for @after (-1: nothing).  @return its
 * id. */
static inline int32_t add_compute(struct schedule *schedule, double seconds, int32_t after)
{
    struct step step = {.lane = LANE_COMPUTE, .compute = {.flops = llround(seconds * 1e12)}};
    return schedule_add(schedule, step, &(struct dep){after, 0}, after >= 0);
}

/** Seal; the test fails when that does.  @return @schedule. */
static inline struct schedule *sealed(struct schedule *schedule)
{
    struct err fault = {0};
    assert_ok(schedule_seal(schedule, &fault) == 0, fault);
    return schedule;
}

/** A ResNet-50 step of 12 ms forward and 8 blocks of 3 ms backward, each followed by the all-reduce
 * of an eighth of the fp16 gradients, on a square torus.  Sealed. */
static inline struct schedule *overlapped_resnet(struct grid grid)
{
    struct schedule *schedule = schedule_new(grid);
    int32_t last = add_compute(schedule, 12e-3, -1);
    for (int32_t b = 0; b < 8; b++) {
        last = add_compute(schedule, 3e-3, last);
        schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, b, 6389258, last);
    }
    return sealed(schedule);
}

/** What it takes on ideal_torus() of so many ranks a side [s].  Source: closed form; ASTRA-sim 2
 * agrees to 0.01 %. */
static const double overlapped_resnet_s[][2] = {
    {8, 36.2890e-3}, {16, 36.3697e-3}, {32, 36.5525e-3}};
