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

/** The platform that is called so. */
static inline struct platform *platform_of(const char *name)
{
    struct err err = {0};
    struct platform *platform = platform_read(name, &err);
    assert_ok(platform, err);
    return platform;
}

/** The network that is called so, for images of @image pixels a side. */
static inline struct model *network_of(const char *name, int32_t image, int32_t classes)
{
    struct err err = {0};
    struct model *model = network_build(name, image, classes, &err);
    assert_ok(model && err.count == 0, err);
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
