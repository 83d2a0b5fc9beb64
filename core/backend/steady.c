#include "core/backend/steady.h"

struct steady steady_new(const struct schedule *schedule, struct slowdown slowdown,
                         const struct trace *trace)
{
    struct steady steady = {.schedule = schedule,
                            .slowdown = slowdown,
                            .seconds = lanes_alone(schedule, slowdown, trace),
                            .when = base_alloc(2 * schedule->step_count, sizeof(struct when))};
    if (slowdown.compute == 0 && slowdown.communication == 0)
        steady.chains = chains_new(schedule);
    return steady;
}

static double last_end(const struct steady *steady, int32_t iteration)
{
    int32_t steps = steady->schedule->step_count;
    double end = 0;
    for (int32_t id = 0; id < steps; id++)
        end = steady->when[iteration * steps + id].end > end
                  ? steady->when[iteration * steps + id].end
                  : end;
    return end;
}

static double chains_of_steps(const struct steady *steady, double factor)
{
    const struct chains *chains = &steady->chains;
    memset(chains->seconds, 0, chains->count * sizeof(*chains->seconds));
    for (int32_t id = 0; id < steady->schedule->step_count; id++) {
        bool computes = steady->schedule->turn[id].lane % LANE_COUNT == LANE_COMPUTE;
        chains->seconds[chains->of[id]][0] += (computes ? factor : 1) * steady->seconds[id];
    }
    double step[CHAINS_WIDE];
    chains_step(chains, step);
    return step[0];
}

double steady_step(const struct steady *steady, double factor)
{
    if (steady->chains.count)
        return chains_of_steps(steady, factor);
    lanes_run(steady->schedule, steady->slowdown, steady->seconds, factor, 2, steady->when);
    return last_end(steady, 1) - last_end(steady, 0);
}

void steady_trace(const struct steady *steady, struct trace *trace)
{
    int32_t steps = steady->schedule->step_count;
    lanes_run(steady->schedule, steady->slowdown, steady->seconds, 1, 2, steady->when);
    trace->ranks = grid_ranks(steady->schedule->grid);
    int32_t each = trace->ranks / schedule_stages(steady->schedule);
    for (int32_t i = 0; i < 2 * steps; i++) {
        struct when when = steady->when[i];
        int32_t rank = steady->schedule->step[i % steps].stage * each;
        trace_add(trace, (struct span){i / steps, rank, i % steps, when.begin, when.end});
        trace_finish(trace, i / steps, when.end);
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
    free(steady->when);
    chains_release(&steady->chains);
    *steady = (struct steady){0};
}
