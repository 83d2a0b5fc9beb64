#include "exec/step/optimizer.h"

#include "exec/step/vectors.h"

struct loss_scale loss_scale_init(const struct scenario *scenario)
{
    return (struct loss_scale){.value = scenario->training.loss_scale.initial};
}

static int skip(struct loss_scale *loss_scale, const struct scenario *scenario)
{
    loss_scale->skipped++;
    loss_scale->in_a_row++;
    loss_scale->good_steps = 0;
    if (scenario->training.loss_scale.dynamic)
        loss_scale->value = fmax(loss_scale->value / 2, SCENARIO_LOSS_SCALE_LEAST);
    bool recovers = scenario->training.loss_scale.dynamic ||
                    scenario->model.compute != DTYPE_FP32 ||
                    scenario->model.gradients != DTYPE_FP32;
    return recovers && loss_scale->in_a_row < LOSS_SCALE_SKIP_LIMIT ? 0 : -1;
}

int loss_scale_update(struct loss_scale *loss_scale, bool overflow, const struct scenario *scenario)
{
    bool dynamic = scenario->training.loss_scale.dynamic;
    if (overflow)
        return skip(loss_scale, scenario);
    loss_scale->in_a_row = 0;
    loss_scale->good_steps++;
    if (dynamic && loss_scale->good_steps >= scenario->training.loss_scale.interval) {
        loss_scale->value = fmin(loss_scale->value * 2, SCENARIO_LOSS_SCALE_MOST);
        loss_scale->good_steps = 0;
    }
    return 0;
}

/* Number of elements whose squares are added at once: small enough for every thread to get a share,
 * large enough to make the sums of sums negligible.  It affects the bits of the result. */
enum { BLOCK = 16384, LANES = 16 };

/* A stretch of one tensor. */
struct block {
    int64_t first; /* in the flat arrays */
    int64_t state; /* in momentum */
    int32_t count;
    int32_t tensor;
};

/* Sums of squares. */
struct squares {
    double gradient, parameter;
};

/* d = gradient * g + parameter * w;  v = keep * v + d;  w -= look * d + follow * v */
struct coefficients {
    float gradient, parameter, keep, look, follow;
};

/* m = keep * m + take * g;  v = keep_square * v + take_square * g * g;
 * w -= follow * m / (correct * sqrt(v) + epsilon) + decay * w */
struct adaptive {
    float gradient, keep, take, keep_square, take_square, correct, epsilon, follow, decay;
};

struct optimizer {
    const struct layout *layout;
    const struct part *part; /* NULL: all tensors count */
    enum optimizer_kind kind;
    double momentum, beta2, trust, clip;
    bool nesterov;
    int64_t updates;     /* that were done, over all of the run */
    int64_t elements;    /* of this rank's moments, second ones behind the first */
    struct block *block; /* (blocks) in the order of tensors */
    int32_t blocks;
    struct squares *square;            /* (blocks) */
    struct squares *sum;               /* (tensors) */
    struct coefficients *coefficients; /* (tensors) */
    struct adaptive *adaptive;         /* (tensors) */
};

/* Blocks of the @part of tensor @t, whose momentum begins at @state. */
static void cut_part(struct optimizer *optimizer, int32_t t, struct slice part, int64_t state)
{
    for (int64_t at = 0; at < part.elements; at += BLOCK) {
        int32_t count = (int32_t)(part.elements - at < BLOCK ? part.elements - at : BLOCK);
        BASE_NEXT(optimizer->block, optimizer->blocks) =
            (struct block){part.offset + at, state + at, count, t};
    }
}

static void cut(struct optimizer *optimizer, const struct slice *shard, int32_t count)
{
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++) {
        const struct parameter *parameter = &optimizer->layout->parameter[t];
        const struct slice all = {parameter->offset, parameter->elements};
        int64_t state = 0;
        for (int32_t i = 0; i < count; state += shard[i++].elements) {
            struct slice part = slice_overlap(all, shard[i]);
            cut_part(optimizer, t, part, state + part.offset - shard[i].offset);
        }
    }
}

struct optimizer *optimizer_new(const struct layout *layout, const struct scenario *scenario,
                                const struct slice *shard, int32_t count)
{
    struct optimizer *optimizer = base_alloc(1, sizeof(*optimizer));
    *optimizer = (struct optimizer){.layout = layout,
                                    .kind = (enum optimizer_kind)scenario->training.optimizer,
                                    .momentum = scenario->training.momentum,
                                    .beta2 = scenario->training.beta2,
                                    .trust = scenario->training.trust,
                                    .clip = scenario->training.clip,
                                    .nesterov = scenario->training.nesterov,
                                    .elements = slice_elements(shard, count)};
    int32_t tensors = layout->model->tensor_count;
    cut(optimizer, shard, count);
    optimizer->square = base_alloc(optimizer->blocks, sizeof(*optimizer->square));
    optimizer->sum = base_alloc(tensors, sizeof(*optimizer->sum));
    optimizer->coefficients = base_alloc(tensors, sizeof(*optimizer->coefficients));
    optimizer->adaptive = base_alloc(tensors, sizeof(*optimizer->adaptive));
    return optimizer;
}

void optimizer_count_once(struct optimizer *optimizer, const struct part *part)
{
    optimizer->part = part;
}

void optimizer_continue(struct optimizer *optimizer, int64_t updates)
{
    optimizer->updates = updates;
}

void optimizer_free(struct optimizer *optimizer)
{
    if (!optimizer)
        return;
    free(optimizer->block);
    free(optimizer->square);
    free(optimizer->sum);
    free(optimizer->coefficients);
    free(optimizer->adaptive);
    free(optimizer);
}

/* Equal additions in equal order at every vector width. */
EVERY_WIDTH static double sum_of_squares(const float *x, int32_t count)
{
    double lane[LANES] = {0}, sum = 0;
    int32_t whole = count / LANES * LANES;
    for (int32_t i = 0; i < whole; i += LANES)
#pragma omp simd
        for (int32_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (int32_t i = whole; i < count; i++)
        lane[i - whole] += (double)x[i] * (double)x[i];
    for (int32_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

EVERY_WIDTH static void update_block(struct coefficients c, int32_t count,
                                     const float *restrict gradient, float *restrict momentum,
                                     float *restrict parameter)
{
#pragma omp simd
    for (int32_t i = 0; i < count; i++) {
        float d = c.gradient * gradient[i] + c.parameter * parameter[i];
        momentum[i] = c.keep * momentum[i] + d;
        parameter[i] -= c.look * d + c.follow * momentum[i];
    }
}

EVERY_WIDTH static void update_moments(struct adaptive c, int32_t count,
                                       const float *restrict gradient, float *restrict moment,
                                       float *restrict square)
{
#pragma omp simd
    for (int32_t i = 0; i < count; i++) {
        float g = c.gradient * gradient[i];
        moment[i] = c.keep * moment[i] + c.take * g;
        square[i] = c.keep_square * square[i] + c.take_square * g * g;
    }
}

EVERY_WIDTH static void update_adaptively(struct adaptive c, int32_t count,
                                          const float *restrict moment,
                                          const float *restrict square, float *restrict parameter)
{
#pragma omp simd
    for (int32_t i = 0; i < count; i++) {
        float along = moment[i] / (c.correct * sqrtf(square[i]) + c.epsilon);
        parameter[i] -= c.follow * along + c.decay * parameter[i];
    }
}

/* Of blocks to those of tensors. */
static void add_squares(struct optimizer *optimizer)
{
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++)
        optimizer->sum[t] = (struct squares){0};
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct squares *sum = &optimizer->sum[optimizer->block[b].tensor];
        sum->gradient += optimizer->square[b].gradient;
        sum->parameter += optimizer->square[b].parameter;
    }
}

static void measure(struct optimizer *optimizer, const float *gradient, const float *parameter)
{
    bool both = optimizer->kind == OPTIMIZER_LARS;
#pragma omp parallel for schedule(static)
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct block block = optimizer->block[b];
        optimizer->square[b] = (struct squares){
            .gradient = sum_of_squares(gradient + block.first, block.count),
            .parameter = both ? sum_of_squares(parameter + block.first, block.count) : 0};
    }
    add_squares(optimizer);
}

/* The sum of the squares of all gradients. */
static double sum_of_gradients(const struct optimizer *optimizer)
{
    double total = 0;
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++)
        if (!optimizer->part || !optimizer->part->place[t].repeated)
            total += optimizer->sum[t].gradient;
    return total;
}

/* LARS's factor of a tensor's step.  For a tensor that is 0, or has a gradient of 0, the factor is
 * 1, as in every implementation. */
static double trust_ratio(const struct optimizer *optimizer, double decay, double gradient,
                          double parameter)
{
    if (gradient <= 0 || parameter <= 0)
        return 1;
    return optimizer->trust * parameter / (gradient + decay * parameter);
}

/* @scaled is the factor of measured gradients, @scale that of gradients. */
static struct coefficients derive(const struct optimizer *optimizer, const struct update *update,
                                  int32_t tensor, double scale, double scaled)
{
    struct squares square = optimizer->sum[tensor];
    bool weight = optimizer->layout->parameter[tensor].kind == PARAMETER_WEIGHT;
    double decay = weight ? update->weight_decay : 0, trust = 1;
    if (weight && optimizer->kind == OPTIMIZER_LARS)
        trust =
            trust_ratio(optimizer, decay, scaled * sqrt(square.gradient), sqrt(square.parameter));
    double rate = update->learning_rate;
    return (struct coefficients){
        .gradient = (float)(trust * scale),
        .parameter = (float)(trust * decay),
        .keep = (float)optimizer->momentum,
        .look = (float)(optimizer->nesterov ? rate : 0),
        .follow = (float)(optimizer->nesterov ? rate * optimizer->momentum : rate)};
}

/* ---- AdamW and LAMB ---- */

/* Without LAMB's factor. */
static struct adaptive derive_adaptive(const struct optimizer *optimizer,
                                       const struct update *update, int32_t tensor, double scale)
{
    bool weight = optimizer->layout->parameter[tensor].kind == PARAMETER_WEIGHT;
    double updates = (double)optimizer->updates;
    return (struct adaptive){
        .gradient = (float)scale,
        .keep = (float)optimizer->momentum,
        .take = (float)(1 - optimizer->momentum),
        .keep_square = (float)optimizer->beta2,
        .take_square = (float)(1 - optimizer->beta2),
        .correct = (float)(1 / sqrt(1 - pow(optimizer->beta2, updates))),
        .epsilon = optimizer->kind == OPTIMIZER_LAMB ? 1e-6F : 1e-8F,
        .follow = (float)(update->learning_rate / (1 - pow(optimizer->momentum, updates))),
        .decay = (float)(update->learning_rate * (weight ? update->weight_decay : 0))};
}

/* The squares of a block's step, without LAMB's factor, and of its weights. */
static struct squares measure_step(const struct adaptive *c, int32_t count, const float *moment,
                                   const float *square, const float *parameter)
{
    struct squares sum = {0};
    for (int32_t i = 0; i < count; i++) {
        float along = moment[i] / (c->correct * sqrtf(square[i]) + c->epsilon);
        double w = (double)parameter[i];
        double step = (double)c->follow * (double)along + (double)c->decay * w;
        sum.gradient += step * step;
        sum.parameter += w * w;
    }
    return sum;
}

/* Of each tensor. */
static void measure_steps(struct optimizer *optimizer, const float *moment, const float *parameter)
{
#pragma omp parallel for schedule(static)
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct block block = optimizer->block[b];
        optimizer->square[b] =
            measure_step(&optimizer->adaptive[block.tensor], block.count, moment + block.state,
                         moment + optimizer->elements + block.state, parameter + block.first);
    }
    add_squares(optimizer);
}

/* Multiply the steps of weights by @rate * |w| / |step|, unless one of the norms is 0. */
static void trust_steps(struct optimizer *optimizer, double rate)
{
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count && rate > 0; t++) {
        struct squares sum = optimizer->sum[t];
        struct adaptive *c = &optimizer->adaptive[t];
        if (optimizer->layout->parameter[t].kind != PARAMETER_WEIGHT || sum.gradient <= 0 ||
            sum.parameter <= 0)
            continue;
        double trust = rate * sqrt(sum.parameter / sum.gradient);
        c->follow = (float)(trust * (double)c->follow);
        c->decay = (float)(trust * (double)c->decay);
    }
}

/* Without a step. */
static void move_moments(struct optimizer *optimizer, const struct update *update, double scale,
                         const float *gradient, float *momentum)
{
    optimizer->updates++;
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++)
        optimizer->adaptive[t] = derive_adaptive(optimizer, update, t, scale);
#pragma omp parallel for schedule(static)
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct block block = optimizer->block[b];
        update_moments(optimizer->adaptive[block.tensor], block.count, gradient + block.first,
                       momentum + block.state, momentum + optimizer->elements + block.state);
    }
}

static void step_adaptively(struct optimizer *optimizer, const float *momentum, float *parameter)
{
#pragma omp parallel for schedule(static)
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct block block = optimizer->block[b];
        update_adaptively(optimizer->adaptive[block.tensor], block.count, momentum + block.state,
                          momentum + optimizer->elements + block.state, parameter + block.first);
    }
}

/* ---- updates ---- */

/* @total is the sum of the squares of all gradients, times 1 / @scaled squared.  Multiplies @scale
 * and @scaled by the factor of clipping. */
static struct outcome judge(const struct optimizer *optimizer, double total, double *scale,
                            double *scaled)
{
    struct outcome outcome = {.norm = *scaled * sqrt(total)};
    outcome.overflow = !(outcome.norm <= (double)FLT_MAX); /* also when it is NaN */
    double clip = optimizer->clip > 0 ? fmin(1, optimizer->clip / (outcome.norm + 1e-6)) : 1;
    *scale *= clip;
    *scaled *= clip;
    return outcome;
}

static struct outcome apply(struct optimizer *optimizer, const struct update *update, double scale,
                            double scaled, double total, const float *gradient, float *momentum,
                            float *parameter)
{
    struct outcome outcome = judge(optimizer, total, &scale, &scaled);
    if (outcome.overflow)
        return outcome;
    if (optimizer->kind > OPTIMIZER_LARS) {
        move_moments(optimizer, update, scale, gradient, momentum);
        if (optimizer->kind == OPTIMIZER_LAMB && update->learning_rate > 0) {
            measure_steps(optimizer, momentum, parameter);
            trust_steps(optimizer, update->learning_rate);
        }
        step_adaptively(optimizer, momentum, parameter);
        return outcome;
    }
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++)
        optimizer->coefficients[t] = derive(optimizer, update, t, scale, scaled);
#pragma omp parallel for schedule(static)
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct block block = optimizer->block[b];
        update_block(optimizer->coefficients[block.tensor], block.count, gradient + block.first,
                     momentum + block.state, parameter + block.first);
    }
    return outcome;
}

struct outcome optimizer_step(struct optimizer *optimizer, const struct update *update,
                              double scale, const float *gradient, float *momentum,
                              float *parameter)
{
    measure(optimizer, gradient, parameter);
    return apply(optimizer, update, scale, scale, sum_of_gradients(optimizer), gradient, momentum,
                 parameter);
}

void optimizer_measure(struct optimizer *optimizer, double scale, const float *gradient,
                       const float *parameter, float *norms)
{
    measure(optimizer, gradient, parameter);
    if (optimizer->kind != OPTIMIZER_LARS) {
        norms[0] = (float)(scale * scale * sum_of_gradients(optimizer));
        return;
    }
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++) {
        norms[2 * t] = (float)(scale * scale * optimizer->sum[t].gradient);
        norms[2 * t + 1] = (float)optimizer->sum[t].parameter;
    }
}

struct outcome optimizer_update(struct optimizer *optimizer, const struct update *update,
                                double scale, const float *norms, const float *gradient,
                                float *momentum, float *parameter)
{
    double total = (double)norms[0];
    if (optimizer->kind == OPTIMIZER_LARS) {
        for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++)
            optimizer->sum[t] = (struct squares){(double)norms[2 * t], (double)norms[2 * t + 1]};
        total = sum_of_gradients(optimizer);
    }
    return apply(optimizer, update, scale, 1, total, gradient, momentum, parameter);
}

struct outcome optimizer_begin(struct optimizer *optimizer, const struct update *update,
                               double scale, const float *norms, const float *gradient,
                               float *momentum, const float *parameter, float *steps)
{
    double scaled = norms ? 1 : scale;
    if (!norms)
        measure(optimizer, gradient, parameter);
    struct outcome outcome =
        judge(optimizer, norms ? (double)norms[0] : sum_of_gradients(optimizer), &scale, &scaled);
    int32_t tensors = optimizer->layout->model->tensor_count;
    memset(steps, 0, 2 * (size_t)tensors * sizeof(*steps));
    if (outcome.overflow)
        return outcome;
    move_moments(optimizer, update, scale, gradient, momentum);
    measure_steps(optimizer, momentum, parameter);
    for (int32_t t = 0; t < tensors; t++) {
        steps[2 * t] = (float)optimizer->sum[t].gradient;
        steps[2 * t + 1] = (float)optimizer->sum[t].parameter;
    }
    return outcome;
}

void optimizer_end(struct optimizer *optimizer, const struct update *update, const float *steps,
                   const float *momentum, float *parameter)
{
    for (int32_t t = 0; t < optimizer->layout->model->tensor_count; t++)
        optimizer->sum[t] = (struct squares){(double)steps[2 * t], (double)steps[2 * t + 1]};
    trust_steps(optimizer, update->learning_rate);
    step_adaptively(optimizer, momentum, parameter);
}
