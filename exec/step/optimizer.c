#include "exec/step/optimizer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"

/* Number of elements whose squares are added at once: small enough for every thread to get a share,
 * large enough to make the sums of sums negligible.  It affects the bits of the result. */
enum { BLOCK = 16384, LANES = 16 };

/* One source, compiled for several instruction sets.  C11 without GNU extensions contracts no
 * multiply-add, so all give the same bits.  Under the thread sanitizer there is one: a program that
 * chooses between several does not start. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define EVERY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EVERY_WIDTH
#endif

/* A stretch of one tensor. */
struct block {
    int64_t first;
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

struct optimizer {
    const struct layout *layout;
    enum optimizer_kind kind;
    double momentum, trust;
    bool nesterov;
    struct block *block; /* (blocks) in the order of tensors */
    int32_t blocks;
    struct squares *square;            /* (blocks) */
    struct coefficients *coefficients; /* (tensors) */
};

static int32_t block_count(int64_t elements)
{
    return (int32_t)((elements + BLOCK - 1) / BLOCK);
}

static void cut(struct optimizer *optimizer)
{
    const struct layout *layout = optimizer->layout;
    int32_t tensors = layout->model->tensor_count;
    for (int32_t t = 0; t < tensors; t++)
        optimizer->blocks += block_count(layout->parameter[t].elements);
    optimizer->block = base_alloc(optimizer->blocks, sizeof(*optimizer->block));
    struct block *block = optimizer->block;
    for (int32_t t = 0; t < tensors; t++) {
        const struct parameter *parameter = &layout->parameter[t];
        for (int64_t done = 0; done < parameter->elements; done += BLOCK) {
            int64_t left = parameter->elements - done;
            *block++ =
                (struct block){parameter->offset + done, (int32_t)(left < BLOCK ? left : BLOCK), t};
        }
    }
}

struct optimizer *optimizer_new(const struct layout *layout, const struct scenario *scenario)
{
    struct optimizer *optimizer = base_alloc(1, sizeof(*optimizer));
    *optimizer = (struct optimizer){.layout = layout,
                                    .kind = (enum optimizer_kind)scenario->training.optimizer,
                                    .momentum = scenario->training.momentum,
                                    .trust = scenario->training.trust,
                                    .nesterov = scenario->training.nesterov};
    cut(optimizer);
    optimizer->square = base_alloc(optimizer->blocks, sizeof(*optimizer->square));
    optimizer->coefficients =
        base_alloc(layout->model->tensor_count, sizeof(*optimizer->coefficients));
    return optimizer;
}

void optimizer_free(struct optimizer *optimizer)
{
    if (!optimizer)
        return;
    free(optimizer->block);
    free(optimizer->square);
    free(optimizer->coefficients);
    free(optimizer);
}

/* The same additions in the same order at every vector width. */
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

static struct coefficients derive(const struct optimizer *optimizer, const struct update *update,
                                  int32_t tensor, double scale, struct squares square)
{
    bool weight = optimizer->layout->parameter[tensor].kind == PARAMETER_WEIGHT;
    double decay = weight ? update->weight_decay : 0, trust = 1;
    if (weight && optimizer->kind == OPTIMIZER_LARS)
        trust =
            trust_ratio(optimizer, decay, scale * sqrt(square.gradient), sqrt(square.parameter));
    double rate = update->learning_rate;
    return (struct coefficients){
        .gradient = (float)(trust * scale),
        .parameter = (float)(trust * decay),
        .keep = (float)optimizer->momentum,
        .look = (float)(optimizer->nesterov ? rate : 0),
        .follow = (float)(optimizer->nesterov ? rate * optimizer->momentum : rate)};
}

/* Coefficients of all tensors.  @return the sum of the squares of all gradients. */
static double derive_all(struct optimizer *optimizer, const struct update *update, double scale)
{
    double total = 0;
    for (int32_t b = 0; b < optimizer->blocks;) {
        int32_t tensor = optimizer->block[b].tensor;
        struct squares square = {0};
        for (; b < optimizer->blocks && optimizer->block[b].tensor == tensor; b++) {
            square.gradient += optimizer->square[b].gradient;
            square.parameter += optimizer->square[b].parameter;
        }
        optimizer->coefficients[tensor] = derive(optimizer, update, tensor, scale, square);
        total += square.gradient;
    }
    return total;
}

struct outcome optimizer_step(struct optimizer *optimizer, const struct update *update,
                              double scale, const float *gradient, float *momentum,
                              float *parameter)
{
    measure(optimizer, gradient, parameter);
    struct outcome outcome = {.norm = scale * sqrt(derive_all(optimizer, update, scale))};
    outcome.overflow = !(outcome.norm <= (double)FLT_MAX); /* also when it is NaN */
    if (outcome.overflow)
        return outcome;
#pragma omp parallel for schedule(static)
    for (int32_t b = 0; b < optimizer->blocks; b++) {
        struct block block = optimizer->block[b];
        update_block(optimizer->coefficients[block.tensor], block.count, gradient + block.first,
                     momentum + block.first, parameter + block.first);
    }
    return outcome;
}
