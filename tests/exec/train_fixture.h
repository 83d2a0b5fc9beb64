#pragma once

/** @file
 * Jobs for programs that train on several ranks.
 */

#include "core/schedule/iteration.h"
#include "exec/train/train.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/exec/ranks.h"

/** A job with all it borrows; for HELD(). */
struct fixture {
    struct scenario scenario;
    struct model *model;
    struct plan plan;
    struct schedule *schedule[2]; /**< of each phase */
    struct train_job job;
};

/** Fill @f with the job that @text says, of one phase or two, on @grid. */
static inline void fixture_open(struct fixture *f, const char *text, struct grid grid,
                                const struct device_ops *device_ops,
                                const struct comm_ops *comm_ops)
{
    HELD(err) err = {0};
    check(!scenario_read_text(&f->scenario, "job", text, &err), "the job is right");
    f->model = network_build(f->scenario.model.network, (int32_t)f->scenario.model.image,
                             (int32_t)f->scenario.model.classes, &err);
    fputs(err.text ? err.text : "", stdout);
    f->plan = plan_build(&f->scenario, grid_ranks(grid));
    for (int32_t i = 0; i < f->plan.phase_count; i++) {
        struct iteration iteration = {.model = f->model,
                                      .scenario = &f->scenario,
                                      .grid = grid,
                                      .devices_per_node = 1,
                                      .batch = f->plan.phase[i].batch_per_device,
                                      .micro_batch = f->plan.phase[i].micro_batch,
                                      .bucket = (int64_t)f->scenario.allreduce.bucket};
        f->schedule[i] = iteration_build(&iteration);
    }
    f->job = (struct train_job){.scenario = &f->scenario,
                                .model = f->model,
                                .plan = &f->plan,
                                .schedule = (const struct schedule *const *)f->schedule,
                                .device_ops = device_ops,
                                .comm_ops = comm_ops,
                                .threads = 1};
}

/** Release what @f holds. */
static inline void fixture_release(struct fixture *f)
{
    schedule_free(f->schedule[0]);
    schedule_free(f->schedule[1]);
    plan_release(&f->plan);
    model_free(f->model);
    scenario_release(&f->scenario);
}
