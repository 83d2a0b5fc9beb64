#include "exec/measure/measure.h"

#include "core/schedule/optimizer.h"
#include "exec/step/layout.h"
#include "exec/step/walk.h"
#include "exec/world/world.h"

enum { WARM_UP = 2 };

/* One measurement while it runs. */
struct measuring {
    const struct measure_job *job;
    struct device_state *device;
    struct walker *walker;
    float *image;    /* (batch, height, width, channels) noise */
    double *busy;    /* (steps, iterations), and what follows; owned */
    double *whole;   /* (iterations) sum of them */
    double *wall;    /* (iterations) */
    double *input;   /* (iterations) */
    double *between; /* (iterations) before them */
    int64_t pixels;
    int32_t count; /* iterations measured */
};

static double spread(double *value, int32_t count)
{
    double middle = base_quantile(value, count, 0.5);
    return middle > 0
               ? (base_quantile(value, count, 0.75) - base_quantile(value, count, 0.25)) / middle
               : 0;
}

/* --- running --- */

static void next_batch(void *context, float *images, int32_t *label)
{
    const struct measuring *m = context;
    memcpy(images, m->image, (size_t)m->pixels * sizeof(*images));
    for (int32_t i = 0; i < m->job->batch; i++)
        label[i] = i % m->job->model->classes;
}

static void write_weights(const struct measuring *m)
{
    AUTORELEASE(layout) struct layout layout = layout_build(m->job->model);
    layout.squares = optimizer_cost(m->job->scenario).state > 1;
    AUTORELEASE(weights) struct weights weights = weights_new(&layout, 0);
    layout_initialise(&layout, 1, false, weights.parameter, weights.statistics);
    m->job->device_ops->write(m->device, &weights);
}

static int open_device(struct measuring *m, struct err *err)
{
    const struct measure_job *job = m->job;
    struct device_job device_job = {
        .model = job->model,
        .scenario = job->scenario,
        .batch = job->batch,
        .micro_batches = 1,
        .slots = walk_depth(job->schedule),
        .ranks = 1,
        .threads = job->threads,
    };
    m->pixels = job->batch * shape_elements(job->model->layer[0].in);
    if (!job->device_ops->makes_noise) { /* else no image has to come from the host's memory */
        device_job.source = (struct device_source){.next = next_batch, .context = m};
        m->image = base_alloc(m->pixels, sizeof(*m->image));
    }
    for (int64_t i = 0; m->image && i < m->pixels; i++)
        m->image[i] = model_reads_pictures(job->model) ? (float)base_normal(1, 0, (uint64_t)i, 0)
                                                       : (float)(i % job->model->classes);
    return job->device_ops->open(&m->device, &device_job, err);
}

static void issue(const struct measuring *m, int32_t iteration)
{
    struct update update = {.learning_rate = 1e-4, .weight_decay = 1e-4, .loss_scale = 1};
    m->job->device_ops->prepare(m->device, iteration, &update);
    walker_issue(m->walker, iteration, iteration + 1);
}

static void note(struct measuring *m, int32_t iteration)
{
    const struct schedule *schedule = m->job->schedule;
    int32_t at = iteration - WARM_UP, count = m->job->iterations;
    AUTORELEASE(trace) struct trace trace = {0};
    struct walk_times times = walker_finish(m->walker, iteration, at >= 0 ? &trace : NULL);
    if (at >= 0)
        m->between[at] = times.input_wait_s; /* images are there at once */
    for (int32_t id = 0; at >= 0 && id < schedule->step_count; id++) {
        if (schedule->step[id].lane != LANE_COMPUTE)
            continue;
        struct walk_step step = walker_step(m->walker, iteration, id);
        m->busy[id * count + at] = step.busy;
        m->whole[at] += step.busy;
        m->wall[at] += step.seconds;
    }
    for (int64_t i = 0; i < trace.span_count; i++)
        if (schedule->step[trace.span[i].step].kind == STEP_INPUT)
            m->input[at] = trace.span[i].end - trace.span[i].begin;
}

static bool any_rank(bool mine)
{
    int64_t any = mine;
    world_max(&any, 1);
    return any;
}

/* As in training, the next iteration is always issued before one ends. */
static void walk(struct measuring *m)
{
    const struct measure_job *job = m->job;
    int32_t all = WARM_UP + job->iterations;
    struct walk walk = {.schedule = job->schedule,
                        .device_ops = job->device_ops,
                        .device = m->device,
                        .single = INT32_MAX};
    m->walker = walker_new(&walk);
    world_barrier();
    double end = base_seconds(CLOCK_MONOTONIC) + job->seconds;
    issue(m, 0);
    for (int32_t i = 0; i < all; i++) {
        if (i + 1 < all)
            issue(m, i + 1);
        if (job->seconds > 0 && i + 2 < all && i + 2 >= WARM_UP + MEASURE_LEAST &&
            any_rank(base_seconds(CLOCK_MONOTONIC) >
                     end)) /* asked while two iterations are on their way */
            all = i + 2;
        note(m, i);
    }
    m->count = all - WARM_UP;
    walker_free(m->walker);
}

/* --- summing up --- */

static double mean_over_ranks(double value)
{
    world_sum(&value, 1);
    return value / world_self().ranks;
}

static double worst_over_ranks(double value)
{
    int64_t parts = (int64_t)(1e9 * value);
    world_max(&parts, 1);
    return 1e-9 * (double)parts;
}

/* The median of a step's times in the iterations that took no longer than @limit. */
static double quicker_half(const struct measuring *m, const double *whole, const double *time,
                           double limit)
{
    int32_t count = 0;
    AUTOFREE double *value = base_alloc(m->count, sizeof(*value));
    for (int32_t i = 0; i < m->count; i++)
        if (whole[i] <= limit)
            value[count++] = time[i];
    return base_quantile(value, count, 0.5);
}

static void sum_up(struct measuring *m, struct measure_result *result)
{
    int32_t count = m->count, row = m->job->iterations;
    const struct schedule *schedule = m->job->schedule;
    AUTOFREE double *sorted = base_alloc(count, sizeof(*sorted));
    double busy = 0, wall = 0;
    memcpy(sorted, m->whole, (size_t)count * sizeof(*sorted));
    double limit = base_quantile(sorted, count, 0.5);
    result->step = base_alloc(schedule->step_count, sizeof(*result->step));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        if (schedule->step[id].lane != LANE_COMPUTE)
            continue;
        struct measure_step *step = &result->step[id];
        step->time_s = quicker_half(m, m->whole, m->busy + id * row, limit);
        step->spread = spread(m->busy + id * row, count);
        result->time_s += step->time_s;
    }
    for (int32_t i = 0; i < count; i++) {
        busy += m->whole[i];
        wall += m->wall[i];
    }
    result->time_s = mean_over_ranks(result->time_s);
    result->wall_s = mean_over_ranks(base_quantile(m->wall, count, 0.5));
    result->spread = worst_over_ranks(spread(sorted, count));
    result->waited = worst_over_ranks(wall > busy ? 1 - busy / wall : 0);
    result->input_s = base_quantile(m->input, count, 0.5);
    result->between_s = mean_over_ranks(base_quantile(m->between, count, 0));
    result->iterations = count;
}

int measure_run(const struct measure_job *job, struct measure_result *result, struct err *err)
{
    struct measuring m = {.job = job};
    int64_t steps = job->schedule->step_count, count = job->iterations;
    int64_t failed = open_device(&m, err) != 0;
    world_max(&failed, 1);
    failed = failed || err->count;
    if (!failed) {
        m.busy = base_alloc((steps + 4) * count, sizeof(*m.busy));
        m.whole = m.busy + steps * count;
        m.wall = m.whole + count;
        m.input = m.wall + count;
        m.between = m.input + count;
        write_weights(&m);
        walk(&m);
        sum_up(&m, result);
    }
    job->device_ops->close(m.device);
    free(m.image);
    free(m.busy);
    return failed ? -1 : 0;
}

int32_t measure_copies(const struct device_ops *ops, struct measure_copy *copy)
{
    if (!ops->measure)
        return 0;
    for (int32_t i = 0; i < MEASURE_COPIES; i++) {
        copy[i].bytes = (int64_t)16384 << 4 * i;
        world_barrier();
        copy[i].time_s = mean_over_ranks(ops->measure->copy(copy[i].bytes));
    }
    return MEASURE_COPIES;
}

void measure_release(struct measure_result *result)
{
    free(result->step);
    *result = (struct measure_result){0};
}
