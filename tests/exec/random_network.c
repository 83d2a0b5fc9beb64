#include "tests/exec/random_network.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/base.h"

/* Draws numbers one after the other. */
struct dice {
    uint64_t seed, drawn;
};

static int32_t roll(struct dice *dice, int32_t from, int32_t to)
{
    return from + (int32_t)(base_uniform(dice->seed, 1, dice->drawn++, 0) * (to - from + 1));
}

/* A network while it grows. */
struct sapling {
    struct model *model;
    struct dice dice;
    int32_t unit; /* channels are multiples of it */
    int32_t convolutions;
};

static struct shape last_out(const struct sapling *s)
{
    return s->model->layer[s->model->layer_count - 1].out;
}

static struct shape grow(struct sapling *s, struct layer layer)
{
    snprintf(layer.name, sizeof(layer.name), "l%d", s->model->layer_count);
    layer.first = s->model->layer_count == 0;
    int32_t index = model_add(s->model, layer); /* may move the array */
    return s->model->layer[index].out;
}

static struct shape grow_convolution(struct sapling *s, struct layer like)
{
    like.op = LAYER_CONVOLUTION;
    like.padding = like.kernel / 2;
    return grow(s, like);
}

static void grow_norm(struct sapling *s, bool relu, bool residual, bool projection)
{
    grow(s, (struct layer){.op = LAYER_BATCH_NORM,
                           .in = last_out(s),
                           .stride = 1,
                           .relu = relu,
                           .residual = residual,
                           .projection = projection});
}

static int32_t channels(struct sapling *s)
{
    return s->unit * roll(&s->dice, 1, 3);
}

static void grow_block(struct sapling *s)
{
    struct shape in = last_out(s);
    bool projection = roll(&s->dice, 0, 1);
    int32_t stride = projection && in.height > 2 ? roll(&s->dice, 1, 2) : 1;
    int32_t out = projection ? channels(s) : in.channels, inner = roll(&s->dice, 1, 2);
    struct shape at = grow_convolution(s, (struct layer){.in = in,
                                                         .out.channels = channels(s),
                                                         .kernel = 1 + 2 * roll(&s->dice, 0, 1),
                                                         .stride = stride,
                                                         .fork = true});
    grow_norm(s, true, false, false);
    for (int32_t i = 0; i < inner; i++) {
        bool last = i == inner - 1;
        at = grow_convolution(s, (struct layer){.in = at,
                                                .out.channels = last ? out : channels(s),
                                                .kernel = 1 + 2 * roll(&s->dice, 0, 1),
                                                .stride = 1});
        grow_norm(s, true, last, false);
    }
    if (!projection)
        return;
    grow_convolution(
        s, (struct layer){
               .in = in, .out.channels = out, .kernel = 1, .stride = stride, .projection = true});
    grow_norm(s, false, false, true);
}

static void grow_plain(struct sapling *s, struct shape in)
{
    bool norm = roll(&s->dice, 0, 1);
    grow_convolution(s, (struct layer){.in = in,
                                       .out.channels = channels(s),
                                       .kernel = 1 + 2 * roll(&s->dice, 0, 1),
                                       .stride = 1,
                                       .bias = !norm,
                                       .relu = !norm});
    if (norm)
        grow_norm(s, roll(&s->dice, 0, 3) > 0, false, false);
}

static void grow_pool(struct sapling *s)
{
    int32_t kernel = roll(&s->dice, 2, 3);
    grow(s, (struct layer){.op = LAYER_MAX_POOL,
                           .in = last_out(s),
                           .kernel = kernel,
                           .stride = 2,
                           .padding = kernel / 3});
}

static void grow_head(struct sapling *s)
{
    struct shape in = last_out(s);
    if (roll(&s->dice, 0, 2) > 0)
        in = grow(s, (struct layer){.op = LAYER_AVERAGE_POOL,
                                    .in = in,
                                    .out = {.height = 1, .width = 1},
                                    .kernel = in.height,
                                    .stride = 1});
    if (roll(&s->dice, 0, 1))
        in = grow(s, (struct layer){.op = LAYER_LINEAR,
                                    .in = in,
                                    .out.channels = 20,
                                    .kernel = 1,
                                    .stride = 1,
                                    .bias = true,
                                    .relu = true});
    grow(s, (struct layer){.op = LAYER_LINEAR,
                           .in = in,
                           .out.channels = s->model->classes,
                           .kernel = 1,
                           .stride = 1,
                           .bias = true});
}

struct model *random_network(uint64_t seed)
{
    struct sapling s = {.dice = {seed, 0}};
    int32_t image = roll(&s.dice, 6, 13);
    s.model = model_new("random", image, roll(&s.dice, 2, 9));
    s.unit = seed % 3 == 0 ? roll(&s.dice, 1, 7) : 16;
    grow_plain(&s, (struct shape){3, image, image});
    if (roll(&s.dice, 0, 1))
        grow_pool(&s);
    int32_t parts = roll(&s.dice, 1, 3);
    for (int32_t i = 0; i < parts; i++) {
        if (roll(&s.dice, 0, 2) > 0)
            grow_block(&s);
        else
            grow_plain(&s, last_out(&s));
    }
    grow_head(&s);
    return s.model;
}

static int32_t networks(int32_t usual)
{
    const char *wanted = getenv("FORETRAIN_TEST_NETWORKS");
    char *end = NULL;
    int32_t count = wanted ? (int32_t)strtol(wanted, &end, 10) : usual;
    if (count >= 1 && !(end && *end))
        return count;
    fprintf(stderr, "FORETRAIN_TEST_NETWORKS=%s is no number above 0\n", wanted);
    exit(64);
}

bool random_seed(uint64_t *seed, int32_t usual)
{
    enum { LONE = 12 };
    int32_t count = networks(usual);
    *seed = *seed ? *seed + 1 : count == 1 ? LONE : 1;
    return *seed <= (count == 1 ? LONE : (uint64_t)count);
}
