#include "tests/exec/random_network.h"

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
    int32_t at;   /* the layer that the next one reads */
};

static void grow(struct sapling *s, struct layer layer)
{
    snprintf(layer.name, sizeof(layer.name), "l%d", s->model->layer_count);
    layer.input[0] = s->at;
    layer.input_count = 1;
    if (layer.op == LAYER_CONVOLUTION)
        layer.padding = layer.kernel / 2;
    s->at = model_add(s->model, layer);
}

static void grow_norm(struct sapling *s, bool relu)
{
    grow(s, (struct layer){.op = LAYER_BATCH_NORM, .stride = 1, .relu = relu});
}

static int32_t channels(struct sapling *s)
{
    return s->unit * roll(&s->dice, 1, 3);
}

static void grow_block(struct sapling *s)
{
    int32_t from = s->at;
    struct shape in = model_shape(s->model, from);
    bool projection = roll(&s->dice, 0, 1);
    int32_t stride = projection && in.height > 2 ? roll(&s->dice, 1, 2) : 1;
    int32_t out = projection ? channels(s) : in.channels, inner = roll(&s->dice, 1, 2);
    grow(s, (struct layer){.op = LAYER_CONVOLUTION,
                           .out.channels = channels(s),
                           .kernel = 1 + 2 * roll(&s->dice, 0, 1),
                           .stride = stride});
    grow_norm(s, true);
    for (int32_t i = 0; i < inner; i++) {
        grow(s, (struct layer){.op = LAYER_CONVOLUTION,
                               .out.channels = i == inner - 1 ? out : channels(s),
                               .kernel = 1 + 2 * roll(&s->dice, 0, 1),
                               .stride = 1});
        grow_norm(s, true);
    }
    int32_t adds = s->at, added = s->at = from;
    if (projection) {
        grow(s, (struct layer){
                    .op = LAYER_CONVOLUTION, .out.channels = out, .kernel = 1, .stride = stride});
        grow_norm(s, false);
        added = s->at;
    }
    model_add_residual(s->model, adds, added);
    s->at = adds;
}

static void grow_plain(struct sapling *s)
{
    bool norm = roll(&s->dice, 0, 1);
    grow(s, (struct layer){.op = LAYER_CONVOLUTION,
                           .out.channels = channels(s),
                           .kernel = 1 + 2 * roll(&s->dice, 0, 1),
                           .stride = 1,
                           .bias = !norm,
                           .relu = !norm});
    if (norm)
        grow_norm(s, roll(&s->dice, 0, 3) > 0);
}

static void grow_linear(struct sapling *s, int32_t out, bool relu)
{
    grow(s, (struct layer){.op = LAYER_LINEAR,
                           .out.channels = out,
                           .kernel = 1,
                           .stride = 1,
                           .bias = true,
                           .relu = relu});
}

static void grow_head(struct sapling *s)
{
    if (roll(&s->dice, 0, 2) > 0)
        grow(s, (struct layer){.op = LAYER_AVERAGE_POOL,
                               .out = {.height = 1, .width = 1},
                               .kernel = model_shape(s->model, s->at).height,
                               .stride = 1});
    if (roll(&s->dice, 0, 1))
        grow_linear(s, 20, true);
    grow_linear(s, s->model->classes, false);
}

struct model *random_network(uint64_t seed)
{
    struct sapling s = {.dice = {seed, 0}, .at = -1};
    int32_t image = roll(&s.dice, 6, 13);
    s.model = model_new("random", image, roll(&s.dice, 2, 9));
    s.unit = seed % 3 == 0 ? roll(&s.dice, 1, 7) : 16;
    grow_plain(&s);
    int32_t kernel = roll(&s.dice, 0, 1) ? roll(&s.dice, 2, 3) : 0;
    if (kernel)
        grow(&s, (struct layer){
                     .op = LAYER_MAX_POOL, .kernel = kernel, .stride = 2, .padding = kernel / 3});
    int32_t parts = roll(&s.dice, 1, 3);
    for (int32_t i = 0; i < parts; i++) {
        if (roll(&s.dice, 0, 2) > 0)
            grow_block(&s);
        else
            grow_plain(&s);
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
