#include "tests/exec/device_run.h"

/* Numbers of different arrays come from different streams of the seed. */
enum { STREAM_IMAGES = 1, STREAM_LABELS, STREAM_NORMS };

static void next_batch(void *context, float *images, int32_t *label)
{
    struct device_run *run = context;
    int64_t which = run->given++ % run->job.batches, batch = run->job.batch;
    int64_t elements = batch * shape_elements(run->job.model->layer[0].in);
    memcpy(images, run->images + which * elements, (size_t)elements * sizeof(float));
    memcpy(label, run->label + which * batch, (size_t)batch * sizeof(int32_t));
}

static bool reads_tokens(const struct model *model)
{
    return model->layer[0].op == LAYER_EMBEDDING;
}

/* A class or token. */
static int32_t number_below(const struct device_run_job *job, uint64_t stream, int64_t i)
{
    return (int32_t)(base_uniform(job->seed, stream, (uint64_t)i, 0) * job->model->classes);
}

static void make_data(struct device_run *run)
{
    const struct device_run_job *job = &run->job;
    int64_t labels = (int64_t)job->batches * job->batch;
    int64_t elements = labels * shape_elements(job->model->layer[0].in);
    run->images = base_alloc(elements, sizeof(float));
    run->label = base_alloc(labels, sizeof(int32_t));
    bool tokens = reads_tokens(job->model);
    for (int64_t i = 0; i < elements; i++)
        run->images[i] = tokens ? (float)number_below(job, STREAM_IMAGES, i)
                                : (float)base_normal(job->seed, STREAM_IMAGES, (uint64_t)i, 0);
    for (int64_t i = 0; i < labels; i++)
        run->label[i] = number_below(job, STREAM_LABELS, i);
}

static void make_weights(struct device_run *run)
{
    run->layout = layout_build(run->job.model);
    run->layout.squares = reads_tokens(run->job.model); /* of AdamW */
    run->weights = weights_new(&run->layout, 0);
    if (run->job.blank)
        return;
    layout_initialise(&run->layout, run->job.seed, true, run->weights.parameter,
                      run->weights.statistics);
    for (int32_t t = 0; t < run->job.model->tensor_count; t++) {
        struct parameter p = run->layout.parameter[t];
        bool norm = p.kind == PARAMETER_SCALE || p.kind == PARAMETER_SHIFT;
        for (int64_t i = p.offset; norm && i < p.offset + p.elements; i++)
            run->weights.parameter[i] +=
                (float)(0.2 * base_normal(run->job.seed, STREAM_NORMS, (uint64_t)i, 0) +
                        (p.kind == PARAMETER_SHIFT ? run->job.shift : 0));
    }
}

int device_run_open(struct device_run *run, const struct device_run_job *job, struct err *err)
{
    *run = (struct device_run){.job = *job};
    run->job.batches = job->batches ? job->batches : 1;
    run->scenario.model.compute = job->compute;
    run->scenario.model.gradients = job->gradients;
    run->scenario.training.momentum = 0.9;
    run->scenario.training.weight_decay = 1e-4;
    run->scenario.training.label_smoothing = 0.1;
    if (reads_tokens(job->model)) {
        run->scenario.training.optimizer = OPTIMIZER_ADAMW;
        run->scenario.training.beta2 = 0.95;
        run->scenario.training.clip = 1;
        run->scenario.training.label_smoothing = 0;
    }
    run->scenario.training.batch_norm.momentum = 0.1;
    run->scenario.training.batch_norm.epsilon = 1e-5;
    make_data(run);
    make_weights(run);
    struct device_job device_job = {.model = job->model,
                                    .scenario = &run->scenario,
                                    .source = {.next = next_batch, .context = run},
                                    .batch = job->batch,
                                    .micro_batches = job->micro_batches,
                                    .slots = 2,
                                    .padded = run->layout.parameters + job->padding,
                                    .ranks = job->ranks ? job->ranks : 1,
                                    .threads = job->threads,
                                    .attention = job->attention,
                                    .rate = job->rate,
                                    .rate_count = job->rate_count};
    if (job->ops->open(&run->state, &device_job, err))
        return -1;
    run->stream = job->ops->streams->stream_new();
    if (!job->blank)
        job->ops->write(run->state, &run->weights);
    return 0;
}

static void issue(struct device_run *run, struct step *step, enum compute_op op, int32_t layer,
                  int32_t micro)
{
    *step = (struct step){.kind = STEP_COMPUTE, .lane = LANE_COMPUTE};
    step->compute.op = op;
    step->compute.layer = layer;
    step->compute.micro = micro;
    run->job.ops->issue(run->state, run->stream, step, run->iteration);
}

/* Returns the place of the next step. */
static struct step *issue_pass(struct device_run *run, struct step *step, int32_t micro)
{
    const struct model *model = run->job.model;
    for (int32_t i = 0; i < model->layer_count; i++)
        issue(run, step++, COMPUTE_FORWARD, i, micro);
    issue(run, step++, COMPUTE_LOSS, -1, micro);
    for (int32_t i = model->layer_count - 1; i >= 0; i--) {
        enum layer_op op = model->layer[i].op;
        bool filter = op == LAYER_CONVOLUTION || op == LAYER_LINEAR;
        if (!filter || !model->layer[i].first)
            issue(run, step++, COMPUTE_BACKWARD_DATA, i, micro);
        if (filter)
            issue(run, step++, COMPUTE_BACKWARD_FILTER, i, micro);
    }
    return step;
}

static void wait_for_stream(struct device_run *run)
{
    struct event *event = run->job.ops->streams->event_new();
    run->job.ops->streams->record(run->stream, event);
    run->job.ops->streams->synchronize(event);
    run->job.ops->streams->event_free(event);
}

struct step *device_run_issue(struct device_run *run)
{
    const struct device_ops *ops = run->job.ops;
    const struct update update = {.learning_rate = run->job.learning_rate,
                                  .weight_decay = run->scenario.training.weight_decay,
                                  .loss_scale = run->job.loss_scale > 0 ? run->job.loss_scale : 4};
    int64_t steps = 2 + run->job.micro_batches * (1 + 3 * (int64_t)run->job.model->layer_count);
    struct step *step = base_alloc(steps, sizeof(*step)), *next = step;
    ops->prepare(run->state, run->iteration, &update);
    *next = (struct step){.kind = STEP_INPUT, .lane = LANE_INPUT};
    ops->issue(run->state, run->stream, next++, run->iteration);
    for (int32_t micro = 0; micro < run->job.micro_batches; micro++)
        next = issue_pass(run, next, micro);
    issue(run, next, COMPUTE_OPTIMIZER, -1, 0);
    return step;
}

struct outcome device_run_step(struct device_run *run)
{
    struct step *steps = device_run_issue(run);
    wait_for_stream(run);
    free(steps);
    return run->job.ops->outcome(run->state, run->iteration++);
}

void device_run_score(struct device_run *run, float *scores)
{
    run->job.ops->score(run->state, run->stream, run->images,
                        run->job.batch / run->job.micro_batches, scores);
    wait_for_stream(run);
}

void device_run_close(struct device_run *run)
{
    if (run->stream)
        run->job.ops->streams->stream_free(run->stream);
    run->job.ops->close(run->state);
    layout_release(&run->layout);
    weights_release(&run->weights);
    free(run->images);
    free(run->label);
    *run = (struct device_run){0};
}
