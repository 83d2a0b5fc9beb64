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

/* As steady_step(), of CHAINS_WIDE factors, where there are chains. */
static void chains_of_steps(const struct steady *steady, const double *factor, double *step)
{
    const struct chains *chains = &steady->chains;
    memset(chains->seconds, 0, chains->count * sizeof(*chains->seconds));
    for (int32_t id = 0; id < steady->schedule->step_count; id++) {
        bool computes = steady->schedule->turn[id].lane % LANE_COUNT == LANE_COMPUTE;
        double *seconds = chains->seconds[chains->of[id]], own = steady->seconds[id];
        for (int k = 0; k < CHAINS_WIDE; k++)
            seconds[k] += (computes ? factor[k] : 1) * own;
    }
    chains_step(chains, step);
}

double steady_step(const struct steady *steady, double factor)
{
    double all[CHAINS_WIDE] = {factor};
    if (steady->chains.count) {
        chains_of_steps(steady, all, all);
        return all[0];
    }
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

static void slower_steps(void *context, const double *factor, int32_t count, double *step)
{
    const struct steady *steady = context;
    if (steady->chains.count)
        chains_of_steps(steady, factor, step);
    for (int32_t k = 0; k < count && !steady->chains.count; k++)
        step[k] = steady_step(steady, factor[k]);
}

double steady_waiting(const struct steady *steady, const struct noise *noise, int32_t ranks)
{
    if (!noise_is_any(noise))
        return 0;
    int32_t wide = steady->chains.count ? CHAINS_WIDE : 1;
    return noise_expect(noise, ranks, slower_steps, wide, (void *)(size_t)steady) -
           steady_step(steady, 1);
}

void steady_release(struct steady *steady)
{
    free(steady->seconds);
    free(steady->when);
    chains_release(&steady->chains);
    *steady = (struct steady){0};
}
