/* Residual networks.
 * Source: He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015: section 3
 * for ImageNet (v1), section 4.2 for CIFAR-10, here with projections (option B); the stride on the
 * 3x3 convolution of a bottleneck (v1.5), names and order of parameters: torchvision.
 */

#include "models/build.h"

enum { STAGES = 4 };

enum kind {
    BASIC,      /* 7x7 stem and four stages from 64 channels, blocks of two convolutions */
    BOTTLENECK, /* the same with blocks of three */
    CIFAR,      /* 3x3 stem and three stages from 16 channels, blocks of two */
};

/* The properties that distinguish residual networks. */
struct variant {
    int32_t depth;
    enum kind kind;
    int32_t blocks[STAGES];
};

static const struct variant variants[] = {
    {18, BASIC, {2, 2, 2, 2}},        {34, BASIC, {3, 4, 6, 3}},
    {50, BOTTLENECK, {3, 4, 6, 3}},   {101, BOTTLENECK, {3, 4, 23, 3}},
    {152, BOTTLENECK, {3, 8, 36, 3}}, {8, CIFAR, {1, 1, 1}},
    {20, CIFAR, {3, 3, 3}},           {32, CIFAR, {5, 5, 5}},
    {44, CIFAR, {7, 7, 7}},           {56, CIFAR, {9, 9, 9}},
    {110, CIFAR, {18, 18, 18}},
};

static const struct variant *find_plan(int32_t depth)
{
    for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
        if (variants[i].depth == depth)
            return &variants[i];
    assert(!"a depth of ours is unknown");
    return NULL;
}

/* A block while it is built. */
struct block {
    struct model *model;
    char name[32];
    int32_t from, at; /* the block's input, and the last added layer */
    int32_t stride;
};

/* Convolution number @number of the main branch, and its batch norm. */
static void add_pair(struct block *b, int32_t number, struct layer convolution)
{
    convolution.op = LAYER_CONVOLUTION;
    convolution.padding = convolution.kernel / 2;
    char role[8];
    snprintf(role, sizeof(role), "c%d", number);
    b->at = build_layer(b->model, b->at, b->name, role, convolution, "%s.conv%d", b->name, number);
    b->at = build_layer(b->model, b->at, b->name, role,
                        (struct layer){.op = LAYER_BATCH_NORM, .stride = 1, .relu = true},
                        "%s.bn%d", b->name, number);
}

/* The residual branch, which has a convolution of its own where the shape changes. */
static void add_residual(struct block *b)
{
    struct shape in = model_shape(b->model, b->from), out = model_shape(b->model, b->at);
    int32_t added = b->from;
    if (memcmp(&in, &out, sizeof(in)) != 0) {
        added = build_layer(b->model, b->from, b->name, "ds",
                            (struct layer){.op = LAYER_CONVOLUTION,
                                           .out.channels = out.channels,
                                           .kernel = 1,
                                           .stride = b->stride},
                            "%s.downsample.0", b->name);
        added = build_layer(b->model, added, b->name, "ds",
                            (struct layer){.op = LAYER_BATCH_NORM, .stride = 1}, "%s.downsample.1",
                            b->name);
    }
    model_add_residual(b->model, b->at, added);
}

static void add_basic(struct block *b, int32_t width)
{
    struct layer first = {.out.channels = width, .kernel = 3, .stride = b->stride};
    struct layer second = {.out.channels = width, .kernel = 3, .stride = 1};
    add_pair(b, 1, first);
    add_pair(b, 2, second);
}

static void add_bottleneck(struct block *b, int32_t width, bool v1)
{
    struct layer reduce = {.out.channels = width, .kernel = 1, .stride = v1 ? b->stride : 1};
    struct layer middle = {.out.channels = width, .kernel = 3, .stride = v1 ? 1 : b->stride};
    struct layer expand = {.out.channels = 4 * width, .kernel = 1, .stride = 1};
    add_pair(b, 1, reduce);
    add_pair(b, 2, middle);
    add_pair(b, 3, expand);
}

static int32_t add_stem(struct model *model, bool small)
{
    int32_t at = build_layer(model, -1, "stem", "stem",
                             (struct layer){.op = LAYER_CONVOLUTION,
                                            .out.channels = small ? 16 : 64,
                                            .kernel = small ? 3 : 7,
                                            .stride = small ? 1 : 2,
                                            .padding = small ? 1 : 3},
                             "conv1");
    at = build_layer(model, at, "stem", "stem",
                     (struct layer){.op = LAYER_BATCH_NORM, .stride = 1, .relu = true}, "bn1");
    if (small)
        return at;
    return build_layer(model, at, "stem", "stem",
                       (struct layer){.op = LAYER_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1},
                       "maxpool");
}

int32_t resnet_smallest(int32_t depth)
{
    return find_plan(depth)->kind == CIFAR ? 8 : 32; /* 32: halved five times */
}

void resnet_build(struct model *model, int32_t depth, bool v1)
{
    const struct variant *variant = find_plan(depth);
    int32_t at = add_stem(model, variant->kind == CIFAR);
    int32_t width = model_shape(model, at).channels;
    for (int32_t stage = 0; stage < STAGES; stage++) {
        for (int32_t i = 0; i < variant->blocks[stage]; i++) {
            struct block b = {.model = model, .from = at, .at = at};
            b.stride = stage > 0 && i == 0 ? 2 : 1;
            snprintf(b.name, sizeof(b.name), "layer%d.%d", stage + 1, i);
            if (variant->kind == BOTTLENECK)
                add_bottleneck(&b, width << stage, v1);
            else
                add_basic(&b, width << stage);
            add_residual(&b);
            at = b.at;
        }
    }
    build_head(model, at);
}
