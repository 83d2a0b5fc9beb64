#include "models/networks.h"

#include "core/schedule/model.h"
#include "models/build.h"

/* Networks of pictures as texts: words, apart by spaces, are layers one after another.
 *
 * 64k3s2p1g8: a convolution to 64 channels (0: the classes): kernel (1), stride (1), padding (half
 * the kernel) and groups (1; d: as many as channels).  k1x7: height and width of a kernel that
 * keeps the sides; t: transposed.  At its end n is a batch norm, nothing or r a batch norm with
 * ReLU, c one that stops at 6, s a batch norm and SiLU, h one and hard swish, b a bias, ! neither.
 * @1: the weights of the first convolution with this tag, a number below 16.
 *
 * max3s2p1: a max pool; with c at its end, parts of windows count.  avg, avg2: an average pool of
 * the whole, or of windows of 2; avg3s1: around each value.  fc4096, fc: a linear layer with bias;
 * without a number it gives the classes.  se8: squeeze and excitation by 8 channels, seh8: by a
 * hard sigmoid.
 *
 * freeze: from here no weights are trained, norms: batch norms are not, up to the end.
 *
 * bn ln relu hswish gelu drop shuffle scale; cut64: the first 64 channels; up2: twice the sides;
 * fold2: squares of 2 become channels; att3w7: 3 heads of attention inside windows of 7;
 * roi7x512: 512 boxes with sides of 7, beside each other.
 *
 * ( a | b ) concatenates branches, [ a | b ] adds two, < a > computes beside the main path,
 * ( a )*2 repeats; an empty branch is the value before the group; ]r is a ReLU behind it, ]*3
 * repeats all. */

enum { SHARED = 16, WORD = 32, BRANCHES = 8 };

/* A text on its way to layers. */
struct notation {
    struct model *model;
    const char *text;       /* what is left of it */
    int32_t shared[SHARED]; /* 1 + the layer that has the weights of each tag; 0: none yet */
    int32_t tag;            /* of the convolution that is read; 0: none */
    bool frozen, norms;     /* no weights, or none of batch norms, are trained */
};

static struct shape shape_at(const struct notation *n, int32_t at)
{
    return model_shape(n->model, at);
}

static int32_t add(struct notation *n, int32_t from, struct layer layer)
{
    layer.stride = layer.stride ? layer.stride : 1;
    layer.frozen = n->frozen || (n->norms && layer.op == LAYER_BATCH_NORM);
    return build_layer(n->model, from, "body", "body", layer, "%s%d", layer_op_names[layer.op],
                       n->model->layer_count);
}

/* @layer with two inputs. */
static int32_t pair(struct notation *n, struct layer layer, int32_t one, int32_t two)
{
    layer.input[0] = one;
    layer.input[1] = two;
    layer.input_count = 2;
    layer.stride = 1;
    snprintf(layer.name, sizeof(layer.name), "%s%d", layer_op_names[layer.op],
             n->model->layer_count);
    return model_add(n->model, layer);
}

/* The number behind @letter in the token @word, or @missing. */
static int32_t number(const char *word, char letter, int32_t missing)
{
    const char *found = strchr(word, letter);
    return found && isdigit((unsigned char)found[1]) ? atoi(found + 1) : missing;
}

/* A ReLU, where the layer before does not carry it. */
static int32_t relu(struct notation *n, int32_t at)
{
    struct layer *layer = &n->model->layer[at];
    bool carries = layer_has_arithmetic(layer) || layer->op == LAYER_BATCH_NORM;
    if (!carries || layer->readers > 0)
        return add(n, at, (struct layer){.op = LAYER_RELU});
    layer->relu = true;
    return at;
}

static int32_t gate(struct notation *n, int32_t at, enum gate_kind gate)
{
    return add(n, at, (struct layer){.op = LAYER_SILU, .gate = gate});
}

/* The end of a convolution: ! nothing, b bias, n batch norm, r c with a ReLU, s h with a gate. */
static int32_t finish(struct notation *n, int32_t at, char end)
{
    struct layer norm = {
        .op = LAYER_BATCH_NORM, .relu = end == 'r' || end == 'c', .capped = end == 'c'};
    if (strchr("nrcsh", end))
        at = add(n, at, norm);
    return end == 's' ? gate(n, at, GATE_SILU) : end == 'h' ? gate(n, at, GATE_HARD_SWISH) : at;
}

/* "64k3s2r": channels, then kernel, width of the kernel, stride, padding, groups. */
static int32_t convolution(struct notation *n, int32_t at, const char *word)
{
    struct shape in = shape_at(n, at);
    int32_t kernel = number(word, 'k', 1), width = number(word, 'x', kernel);
    char end = word[strlen(word) - 1];
    bool transposed = strchr(word, 't'), plain = isdigit((unsigned char)end) || end == 'd';
    int32_t channels = atoi(word);
    struct layer layer = {.op = transposed ? LAYER_TRANSPOSED : LAYER_CONVOLUTION,
                          .out.channels = channels ? channels : n->model->classes,
                          .kernel = kernel,
                          .stride = number(word, 's', 1),
                          .padding = number(word, 'p', transposed ? 0 : kernel / 2),
                          .groups = strchr(word, 'd') ? in.channels : number(word, 'g', 1),
                          .bias = end == 'b'};
    if (width != kernel) { /* keeps height and width */
        layer.kernel_width = width;
        layer.out.height = in.height;
        layer.out.width = in.width;
    }
    if (n->tag)
        layer.weights_of = n->shared[n->tag];
    at = add(n, at, layer);
    if (n->tag && !n->shared[n->tag])
        n->shared[n->tag] = at + 1;
    return finish(n, at, plain ? 'r' : end);
}

/* "max3s2p1", with c: a part of a window at the end counts. */
static int32_t max_pool(struct notation *n, int32_t at, const char *word)
{
    struct shape in = shape_at(n, at);
    struct layer layer = {.op = LAYER_MAX_POOL,
                          .kernel = number(word, 'x', 2),
                          .stride = number(word, 's', 2),
                          .padding = number(word, 'p', 0)};
    if (word[strlen(word) - 1] == 'c') {
        int32_t room = 2 * layer.padding - layer.kernel + layer.stride - 1;
        layer.out = (struct shape){in.channels, (in.height + room) / layer.stride + 1,
                                   (in.width + room) / layer.stride + 1};
    }
    return add(n, at, layer);
}

/* "avg": of the whole; "avg2": of windows apart; "avg3s1": of each value's surroundings. */
static int32_t average_pool(struct notation *n, int32_t at, const char *word)
{
    struct shape in = shape_at(n, at);
    int32_t window = number(word, 'g', in.height);
    if (number(word, 's', 0) == 1)
        return add(n, at, (struct layer){.op = LAYER_OTHER});
    struct layer layer = {.op = LAYER_AVERAGE_POOL,
                          .out = {.height = in.height / window, .width = in.width / window},
                          .kernel = window,
                          .stride = window};
    return add(n, at, layer);
}

/* By @word: "se8", with ReLU and sigmoid; "seh8": hard sigmoid; "ses8": SiLU for ReLU. */
static int32_t squeeze(struct notation *n, int32_t from, const char *word, int32_t channels)
{
    bool silu = word[2] == 's';
    struct layer in = {.op = LAYER_CONVOLUTION,
                       .out.channels = channels,
                       .kernel = 1,
                       .bias = true,
                       .relu = !silu};
    struct layer out = {.op = LAYER_CONVOLUTION,
                        .out.channels = shape_at(n, from).channels,
                        .kernel = 1,
                        .bias = true};
    int32_t at = add(n, average_pool(n, from, "avg"), in);
    at = add(n, silu ? gate(n, at, GATE_SILU) : at, out);
    at = gate(n, at, word[2] == 'h' ? GATE_HARD_SIGMOID : GATE_SIGMOID);
    return pair(n, (struct layer){.op = LAYER_MULTIPLY}, from, at);
}

/* "att3w7": three heads of attention inside windows of 7 x 7, with a bias for each distance. */
static int32_t attention(struct notation *n, int32_t from, int32_t heads, int32_t window)
{
    struct shape in = shape_at(n, from);
    int32_t down = (in.height - 1) / window + 1, across = (in.width - 1) / window + 1;
    int32_t area = window * window, distances = 2 * window - 1;
    struct shape windows = {in.channels, down * window, across * window};
    struct layer dense = {
        .op = LAYER_CONVOLUTION, .out.channels = in.channels, .kernel = 1, .bias = true};
    struct layer scores = {.op = LAYER_MATMUL,
                           .out = {heads * down * across, area, area},
                           .inner = in.channels / heads};
    struct layer context = {.op = LAYER_MATMUL, .out = windows, .inner = area};
    struct layer bias = {.op = LAYER_ADD, .constants = (int64_t)heads * distances * distances};
    int32_t at = add(n, from, (struct layer){.op = LAYER_PERMUTE, .out = windows});
    int32_t query = add(n, at, dense), key = add(n, at, dense), value = add(n, at, dense);
    at = add(n, pair(n, scores, query, key), bias);
    at = pair(n, context, add(n, at, (struct layer){.op = LAYER_SOFTMAX}), value);
    at = add(n, at, dense);
    return add(n, at, (struct layer){.op = LAYER_PERMUTE, .out = in});
}

/* Kinds without a window: a word, its kind, and whether channels, sides or parameters change. */
static int32_t simple(struct notation *n, int32_t at, const char *word, int32_t value)
{
    struct shape in = shape_at(n, at);
    static const struct {
        const char *word;
        enum layer_op op;
    } kinds[] = {{"bn", LAYER_BATCH_NORM}, {"ln", LAYER_LAYER_NORM},   {"gelu", LAYER_GELU},
                 {"drop", LAYER_DROPOUT},  {"shuffle", LAYER_PERMUTE}, {"cut", LAYER_PERMUTE},
                 {"roi", LAYER_PERMUTE},   {"fold", LAYER_PERMUTE},    {"up", LAYER_OTHER},
                 {"scale", LAYER_OTHER}};
    size_t i = 0;
    while (i < ARRAY_SIZE(kinds) && strncmp(word, kinds[i].word, strlen(kinds[i].word)) != 0)
        i++;
    assert(i < ARRAY_SIZE(kinds));
    struct layer layer = {.op = kinds[i].op, .relu = kinds[i].op == LAYER_BATCH_NORM};
    int32_t count = number(word, 'x', 0); /* of the boxes that are cut out */
    if (count)
        layer.out = (struct shape){in.channels, value, value * count};
    if (!strncmp(word, "cut", 3))
        layer.out = (struct shape){value, in.height, in.width};
    if (!strncmp(word, "fold", 4))
        layer.out =
            (struct shape){in.channels * value * value, in.height / value, in.width / value};
    if (!strncmp(word, "up", 2))
        layer.out = (struct shape){in.channels, value * in.height, value * in.width};
    if (!strcmp(word, "scale")) {
        layer.constants = in.channels;
        layer.attends = ATTENDS_SCALE;
    }
    return add(n, at, layer);
}

static int32_t layer_of(struct notation *n, int32_t at, char *word)
{
    int32_t value = atoi(word + strcspn(word, "0123456789"));
    char *tag = strchr(word, '@');
    bool freeze = !strcmp(word, "freeze"), norms = !strcmp(word, "norms");
    n->frozen = freeze || (n->frozen && !norms);
    n->norms = n->norms || norms;
    if (freeze || norms)
        return at;
    n->tag = tag ? atoi(tag + 1) : 0;
    if (tag)
        *tag = '\0';
    if (isdigit((unsigned char)*word))
        return convolution(n, at, word);
    if (!strncmp(word, "max", 3))
        return max_pool(n, at, word + 2);
    if (!strncmp(word, "att", 3))
        return attention(n, at, value, number(word, 'w', 7));
    if (!strncmp(word, "avg", 3))
        return average_pool(n, at, word);
    if (!strncmp(word, "se", 2))
        return squeeze(n, at, word, value);
    if (!strncmp(word, "fc", 2))
        return add(n, at,
                   (struct layer){.op = LAYER_LINEAR,
                                  .out.channels = value ? value : n->model->classes,
                                  .kernel = 1,
                                  .bias = true});
    return !strcmp(word, "relu")     ? relu(n, at)
           : !strcmp(word, "hswish") ? gate(n, at, GATE_HARD_SWISH)
                                     : simple(n, at, word, value);
}

static int32_t chain(struct notation *n, int32_t at);

/* The branches of a group that begins with @open, joined. */
static int32_t group(struct notation *n, int32_t at, char open)
{
    int32_t end[BRANCHES] = {0}, count = 0;
    struct layer join = {.op = LAYER_CONCAT, .stride = 1};
    do {
        assert(count < BRANCHES);
        end[count++] = chain(n, at);
    } while (*n->text++ == '|');
    if (open == '<')
        return at;
    if (count == 1)
        return end[0];
    if (open == '[') {
        const struct layer *main = &n->model->layer[end[0]];
        if (main->op != LAYER_BATCH_NORM || main->readers || main->residual)
            return pair(n, (struct layer){.op = LAYER_ADD}, end[0], end[1]);
        model_add_residual(n->model, end[0], end[1]);
        return end[0];
    }
    memcpy(join.input, end, sizeof(end));
    join.input_count = count;
    snprintf(join.name, sizeof(join.name), "concat%d", n->model->layer_count);
    return model_add(n->model, join);
}

static int32_t chain(struct notation *n, int32_t at)
{
    char word[WORD];
    for (;;) {
        n->text += strspn(n->text, " ");
        if (!*n->text || strchr("|)]>", *n->text))
            return at;
        if (strchr("([<", *n->text)) {
            const char *begin = n->text;
            int32_t times = 1;
            for (int32_t i = 0; i < times; i++) {
                n->text = begin + 1;
                at = group(n, at, *begin);
                bool rectified = *n->text == 'r';
                at = rectified ? relu(n, at) : at;
                n->text += rectified;
                times = *n->text == '*' ? atoi(n->text + 1) : 1;
            }
            n->text += strcspn(n->text, " )]>|");
            continue;
        }
        size_t length = strcspn(n->text, " ");
        assert(length < sizeof(word));
        memcpy(word, n->text, length);
        word[length] = '\0';
        n->text += length;
        at = layer_of(n, at, word);
    }
}

/* Append the layers of @text, which is ours, to @model. */
static void notation_build(struct model *model, const char *text)
{
    struct notation n = {.model = model, .text = text};
    chain(&n, -1);
    assert(!*n.text);
}

enum { NAMES = 256 }; /* of all networks, at most */

const char *const network_names[] = {
    "resnet18",    "resnet34",    "resnet50",    "resnet101",    "resnet152",
    "resnet18_v1", "resnet34_v1", "resnet50_v1", "resnet101_v1", "resnet152_v1",
    "resnet8",     "resnet20",    "resnet32",    "resnet44",     "resnet56",
    "resnet110",   "vgg16",       "toy",         NULL,
};

/* What networks whose names begin so are; the first that fits counts. */
static const struct {
    const char *begins, *help;
} help[] = {
    {"resnet18", "basic blocks, for ImageNet"},
    {"resnet34", "basic blocks, for ImageNet"},
    {"resnet50", "bottlenecks, for ImageNet"},
    {"resnet101", "bottlenecks, for ImageNet"},
    {"resnet152", "bottlenecks, for ImageNet"},
    {"resnet", "residual network of 6n + 2 layers, for images of 32 pixels"},
    {"vgg16", "VGG-16, configuration D, for ImageNet"},
    {"toy", "three convolutions and a linear layer, for tests and teaching"},
};

/* Equal but for - and _ . */
static bool same(const char *a, const char *b, size_t length)
{
    size_t i = 0;
    while (i < length && b[i] &&
           (a[i] == b[i] || (a[i] == '_' && b[i] == '-') || (a[i] == '-' && b[i] == '_')))
        i++;
    return i == length && !b[i];
}

/* The entry of network_names for @name, or NULL.  "resnet50_v1.5" is "resnet50". */
static const char *find_name(const char *name)
{
    static const char suffix[] = "_v1.5";
    size_t length = strlen(name), tail = sizeof(suffix) - 1;
    bool long_form = strncmp(name, "resnet", 6) == 0 && length > tail &&
                     strcmp(name + length - tail, suffix) == 0;
    if (long_form)
        length -= tail;
    for (const char *const *known = network_names; *known; known++)
        if (same(name, *known, length) && !(long_form && strchr(*known, '_')))
            return *known;
    return NULL;
}

static const struct transformer_preset *find_transformer(const char *name)
{
    for (const struct transformer_preset *preset = transformer_presets; preset->name; preset++)
        if (same(name, preset->name, strlen(name)))
            return preset;
    return NULL;
}

bool network_is_transformer(const char *name)
{
    return find_transformer(name);
}

static const struct picture *find_picture(const char *name)
{
    for (const struct picture *picture = pictures; picture->name; picture++)
        if (same(name, picture->name, strlen(name)))
            return picture;
    return NULL;
}

void network_list(struct text *out)
{
    for (const char *const *name = network_names; *name; name++) {
        size_t i = 0;
        while (strncmp(*name, help[i].begins, strlen(help[i].begins)) != 0)
            i++;
        text_add(out, "%-22s %s%s\n", *name, help[i].help,
                 strstr(*name, "_v1") ? ", as first published (2015)" : "");
    }
    for (const struct picture *picture = pictures; picture->name; picture++)
        text_add(out, "%-22s %s\n", picture->name, picture->help);
    for (const struct transformer_preset *preset = transformer_presets; preset->name; preset++)
        text_add(out, "%-22s %s\n", preset->name, preset->help);
}

static int refuse_name(const char *name, struct err *err)
{
    if (strcasestr(name, "mamba") || strcasestr(name, "jamba"))
        return err_add(err,
                       "network '%s' has state-space layers, which no layer here has; foretrain "
                       "list networks has those that are known",
                       name);
    const char *names[NAMES] = {0};
    size_t count = 0;
    for (; network_names[count]; count++)
        names[count] = network_names[count];
    for (int32_t i = 0; pictures[i].name; i++)
        names[count++] = pictures[i].name;
    for (int32_t i = 0; transformer_presets[i].name; i++)
        names[count++] = transformer_presets[i].name;
    const char *nearest = base_nearest(name, names);
    if (nearest)
        return err_add(err, "unknown network '%s'; did you mean '%s'?", name, nearest);
    return err_add(
        err,
        "unknown network '%s'; foretrain list networks has those that are known; a file "
        "lists the layers of any other, as mine.yaml, which foretrain import onnx writes",
        name);
}

bool network_is_known(const char *name, struct err *err)
{
    return find_name(name) || find_transformer(name) || find_picture(name) ||
           !refuse_name(name, err);
}

/* "resnet50_v1": 50; 0 for other networks. */
static int32_t resnet_depth(const char *name)
{
    int depth;
    return sscanf(name, "resnet%d", &depth) == 1 ? depth : 0;
}

static int32_t smallest_image(const char *name)
{
    if (resnet_depth(name))
        return resnet_smallest(resnet_depth(name));
    return strcmp(name, "toy") == 0 ? 8 : 32; /* 32: halved five times */
}

/* Whether a network takes images of @image pixels; if not, @err says why. */
static bool fits(const struct picture *entry, int32_t image, struct err *err)
{
    int32_t smallest = entry->smallest ? entry->smallest : 32; /* halved five times */
    if (image < smallest)
        err_add(err, "%s needs images of at least %" PRId32 " pixels, not %" PRId32, entry->name,
                smallest, image);
    else if (entry->multiple && image % entry->multiple)
        err_add(err, "%s needs images whose side is a multiple of %" PRId32 " pixels, not %" PRId32,
                entry->name, entry->multiple, image);
    else
        return true;
    return false;
}

static struct model *build_pictures(const char *name, int32_t image, int32_t classes,
                                    struct err *err)
{
    const char *known = find_name(name);
    const struct picture *picture = find_picture(name),
                         ours = {.name = known, .smallest = known ? smallest_image(known) : 0};
    if (!known && !picture) {
        refuse_name(name, err);
        return NULL;
    }
    if (known)
        picture = &ours;
    image = image ? image : picture->side ? picture->side : 224;
    if (!fits(picture, image, err))
        return NULL;
    struct model *model = model_new(picture->name, image, classes);
    if (!known)
        notation_build(model, picture->layers);
    else if (resnet_depth(known))
        resnet_build(model, resnet_depth(known), strstr(known, "_v1"));
    else if (strcmp(known, "vgg16") == 0)
        vgg_build(model);
    else
        toy_build(model);
    return model;
}

struct model *network_open(const struct files *files, const char *name, int32_t image,
                           int32_t classes, const struct transformer *keys, struct err *err)
{
    static const struct transformer none = {0};
    bool any = keys && memcmp(keys, &none, sizeof(none)) != 0;
    const struct transformer_preset *preset = find_transformer(name);
    if (preset)
        return transformer_build(preset, image ? image : 224, classes, keys ? keys : &none, err);
    if (any) {
        if (network_is_file(name) || network_is_known(name, err))
            err_add(err, "keys of transformers, as model.sequence, have no effect on %s", name);
        return NULL;
    }
    return network_is_file(name) ? network_read(files, name, image, err)
                                 : build_pictures(name, image, classes, err);
}

struct model *network_build(const char *name, int32_t image, int32_t classes, struct err *err)
{
    return network_open(NULL, network_is_file(name) ? "" : name, image, classes, NULL, err);
}
