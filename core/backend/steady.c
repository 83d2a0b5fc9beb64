#include "core/backend/steady.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"

struct steady steady_new(const struct schedule *schedule, const struct trace *trace)
{
    struct steady steady = {.schedule = schedule,
                            .seconds = base_alloc(schedule->step_count, sizeof(double)),
                            .ends = base_alloc(2 * schedule->step_count, sizeof(double))};
    for (int64_t i = 0; i < trace->span_count; i++) {
        const struct span *span = &trace->span[i];
        if (span->iteration == trace->iterations - 1 && span->rank == trace->span[0].rank)
            steady.seconds[span->step] = span->end - span->begin;
    }
    return steady;
}

double steady_step(const struct steady *steady, double factor)
{
    const struct schedule *schedule = steady->schedule;
    int32_t steps = schedule->step_count;
    double lane[LANE_COUNT] = {0}, end[2] = {0};
    for (int32_t iteration = 0; iteration < 2; iteration++)
        for (int32_t id = 0; id < steps; id++) {
            const struct step *step = &schedule->step[id];
            double begin = lane[step->lane];
            for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
                struct dep dep = schedule->dep[i];
                if (dep.distance <= iteration)
                    begin =
                        fmax(begin, steady->ends[(iteration - dep.distance) * steps + dep.step]);
            }
            double done = begin + (step->kind == STEP_COMPUTE ? factor : 1) * steady->seconds[id];
            steady->ends[iteration * steps + id] = lane[step->lane] = done;
            end[iteration] = fmax(end[iteration], done);
        }
    return end[1] - end[0];
}

void steady_trace(const struct steady *steady, struct trace *trace)
{
    int32_t steps = steady->schedule->step_count;
    trace->ranks = grid_ranks(steady->schedule->grid);
    for (int32_t i = 0; i < 2 * steps; i++) {
        double end = steady->ends[i];
        trace_add(trace,
                  (struct span){i / steps, 0, i % steps, end - steady->seconds[i % steps], end});
        trace_finish(trace, i / steps, end);
    }
}

static double slower_step(void *context, double factor)
{
    return steady_step(context, factor);
}

double steady_waiting(const struct steady *steady, const struct noise *noise, int32_t ranks)
{
    if (!noise_is_any(noise))
        return 0;
    return noise_expect(noise, ranks, slower_step, (void *)(size_t)steady) - steady_step(steady, 1);
}

void steady_release(struct steady *steady)
{
    free(steady->seconds);
    free(steady->ends);
    *steady = (struct steady){0};
}
