#include "models/networks.h"

#include "core/config/field.h"

/* A layer as the file says it. */
struct entry {
    char *name, *add, *in, *out, *weights_of;
    int32_t kind; /* enum layer_op */
    int32_t relu; /* 0: none, 1: a ReLU, 2: one that stops at 6 */
    struct field_list inputs;
    int64_t channels, kernel, kernel_width, stride, padding, groups, inner, rows, experts;
    int64_t parameters, flops, elements;
    bool bias, frozen;
};

/* The whole file. */
struct file {
    int64_t version;
    char *name, *input;
    struct field_list layers;
};

/* Which kinds have a key, as bits 1 << enum layer_op. */
struct key_kinds {
    const char *key;
    unsigned takes, needs;
};

/* The keys that some kinds do not take, ended by a row without one. */
extern const struct key_kinds network_keys[];

static const char *const relu_words[] = {"false", "true", "6", NULL};

/* Rows by kind: key, member of struct RECORD, what stands there if nothing is given, ... */
#define ROW(key, member, before, what, ...)                                                        \
    {                                                                                              \
        .path = key, .offset = offsetof(struct RECORD, member), .fallback = before, .help = what,  \
        __VA_ARGS__                                                                                \
    }
#define NUMBER(key, member, most, what)                                                            \
    ROW(key, member, "", what, .kind = FIELD_INTEGER, .minimum = 1, .maximum = most)
#define WORDS(key, type, member, before, what) ROW(key, member, before, what, .kind = type)

#define RECORD entry
static const struct field layer_rows[] = {
    WORDS("name", FIELD_TEXT, name, NULL, "by which others read it, torchvision's for training"),
    ROW("kind", kind, NULL,
        "what it computes; a linear layer at every position is a convolution with kernel 1",
        .kind = FIELD_WORD, .words = layer_op_names),
    WORDS("inputs", FIELD_TEXTS, inputs, "",
          "layers above whose values it reads, or input; the one right above when not given"),
    WORDS("add", FIELD_TEXT, add, "",
          "what a batch-norm adds before its ReLU; the layer may follow below"),
    WORDS("in", FIELD_TEXT, in, "", "another view of its first input, such as 768x1x196"),
    WORDS("out", FIELD_TEXT, out, "",
          "its output, where that does not follow: channels x height x width, or features x 1 x "
          "positions"),
    NUMBER("channels", channels, NETWORK_SIDE, "of a convolution, linear or embedding: outputs"),
    NUMBER("kernel", kernel, 4096, "height and width of a window"),
    NUMBER("kernel_width", kernel_width, 4096,
           "width of a window that is no square; out says the output"),
    NUMBER("stride", stride, 4096, "between windows; 1 when not given"),
    ROW("padding", padding, "0", "on each side of the input", .kind = FIELD_INTEGER,
        .maximum = 4096),
    NUMBER("groups", groups, NETWORK_SIDE, "of a convolution: channels apart from each other"),
    WORDS("bias", FIELD_BOOLEAN, bias, "false", "of a convolution or linear"),
    WORDS("weights_of", FIELD_TEXT, weights_of, "",
          "a layer above whose weights it uses, and whose bias if both have one"),
    WORDS("frozen", FIELD_BOOLEAN, frozen, "false",
          "its weights are not trained; a batch-norm's statistics stay as they are, too"),
    ROW("relu", relu, "false", "a ReLU follows, which 6 stops there", .kind = FIELD_WORD,
        .words = relu_words),
    NUMBER("inner", inner, NETWORK_SIDE, "of a matmul: terms that each value of it sums"),
    NUMBER("rows", rows, NETWORK_PARAMETERS, "of an embedding: its table's"),
    NUMBER("experts", experts, 65536,
           "of a convolution: sets of weights, one of which each position uses; 1 when not given"),
    NUMBER("parameters", parameters, NETWORK_PARAMETERS, "of an add or other: trained values"),
    NUMBER("flops", flops, NETWORK_FLOPS,
           "of other, or of a part of a matmul: forward, for one image"),
    NUMBER("elements", elements, NETWORK_ELEMENTS,
           "of other: values it reads and writes forward, for one image; those of its inputs and "
           "output when not given"),
};
static const struct field_table layer_table = FIELD_TABLE("layer", layer_rows, struct entry);

#undef RECORD
#define RECORD file
static const struct field file_rows[] = {
    ROW("version", version, NULL, "version of this format", .kind = FIELD_INTEGER, .minimum = 1,
        .maximum = 1),
    WORDS("name", FIELD_TEXT, name, NULL, "what it is called"),
    WORDS("input", FIELD_TEXT, input, NULL,
          "shape of one image, such as 3x224x224, or of one sequence, such as 1x1x128"),
    ROW("layers", layers, NULL, "in the order in which they run; the last gives the output",
        .kind = FIELD_LIST, .minimum = 1, .maximum = NETWORK_LAYERS, .table = &layer_table),
};
const struct field_table network_table = FIELD_TABLE("network", file_rows, struct file);

#define KIND(op) (1u << LAYER_##op)
#define CONVOLVE (KIND(CONVOLUTION) | KIND(TRANSPOSED))
#define WINDOWS  (CONVOLVE | KIND(MAX_POOL) | KIND(AVERAGE_POOL))
#define NORMS    (KIND(BATCH_NORM) | KIND(LAYER_NORM) | KIND(RMS_NORM) | KIND(GROUP_NORM))

const struct key_kinds network_keys[] = {
    {"add", KIND(BATCH_NORM), 0},
    {"out", ~(KIND(BATCH_NORM) | KIND(LINEAR)), KIND(MATMUL)},
    {"channels", CONVOLVE | KIND(LINEAR) | KIND(EMBEDDING),
     CONVOLVE | KIND(LINEAR) | KIND(EMBEDDING)},
    {"kernel", WINDOWS, CONVOLVE | KIND(MAX_POOL)},
    {"kernel_width", CONVOLVE | KIND(MAX_POOL), 0},
    {"stride", WINDOWS, 0},
    {"padding", CONVOLVE | KIND(MAX_POOL), 0},
    {"groups", CONVOLVE, 0},
    {"experts", KIND(CONVOLUTION), 0},
    {"bias", CONVOLVE | KIND(LINEAR), 0},
    {"weights_of", CONVOLVE | KIND(LINEAR) | NORMS | KIND(EMBEDDING), 0},
    {"frozen", CONVOLVE | KIND(LINEAR) | NORMS | KIND(EMBEDDING), 0},
    {"relu", CONVOLVE | KIND(LINEAR) | KIND(BATCH_NORM), 0},
    {"inner", KIND(MATMUL), KIND(MATMUL)},
    {"rows", KIND(EMBEDDING), KIND(EMBEDDING)},
    {"parameters", KIND(ADD) | KIND(OTHER), 0},
    {"flops", KIND(OTHER) | KIND(MATMUL), 0},
    {"elements", KIND(OTHER), 0},
    {0},
};

bool network_takes(enum layer_op op, const char *key)
{
    const struct key_kinds *k = network_keys;
    while (k->key && strcmp(k->key, key) != 0)
        k++;
    return k->takes >> op & 1;
}

/* A file on its way to a model. */
struct reader {
    const struct node *root;
    const struct entry *entry;
    int32_t count;
    const struct entry **sorted; /* (count) by name */
    struct model *model;
    int32_t at; /* the layer that is being read */
    double parameters, flops, elements;
    struct err *err;
};

static const struct node *node_at(const struct reader *r, const char *key)
{
    AUTOFREE char *path = base_format("layers.%d%s%s", r->at, *key ? "." : "", key);
    const struct node *node = field_origin(r->root, path);
    return node;
}

__attribute__((format(printf, 3, 4))) static int refuse(const struct reader *r, const char *key,
                                                        const char *format, ...)
{
    const struct node *node = node_at(r, key);
    va_list list;
    va_start(list, format);
    AUTOFREE char *message = base_format_list(format, list);
    va_end(list);
    origin_error(node ? &node->origin : &node_at(r, "name")->origin, r->err, "%s", message);
    return -1;
}

static int check_keys(const struct reader *r)
{
    int failed = 0;
    const struct entry *e = &r->entry[r->at];
    for (const struct key_kinds *k = network_keys; k->key; k++) {
        bool given = node_at(r, k->key) != NULL;
        if (given && !(k->takes >> e->kind & 1))
            failed = refuse(r, k->key, "'%s' has no effect on %s", k->key, layer_op_names[e->kind]);
        if (!given && k->needs >> e->kind & 1)
            failed = refuse(r, "kind", "%s needs the key '%s'", layer_op_names[e->kind], k->key);
    }
    return failed;
}

static int read_shape(const struct reader *r, const char *key, const char *text,
                      struct shape *shape)
{
    int length = 0;
    if (sscanf(text, "%8" SCNd32 "x%8" SCNd32 "x%8" SCNd32 "%n", &shape->channels, &shape->height,
               &shape->width, &length) == 3 &&
        !text[length] && shape->channels >= 1 && shape->height >= 1 && shape->width >= 1 &&
        shape->channels <= NETWORK_SIDE && shape->height <= NETWORK_SIDE &&
        shape->width <= NETWORK_SIDE &&
        (double)shape->channels * shape->height * shape->width <= NETWORK_ELEMENTS)
        return 0;
    static const char message[] =
        "'%s' is no shape; write channels x height x width as in 3x224x224, at most 1e15 values";
    if (r->at >= 0)
        return refuse(r, key, message, text);
    return origin_error(&field_origin(r->root, key)->origin, r->err, message, text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->name, (*(const struct entry *const *)b)->name);
}

/* The layer called @name, -1 for the images. */
static int find(const struct reader *r, const char *key, const char *name, int32_t *index)
{
    *index = -1;
    if (strcmp(name, "input") == 0)
        return 0;
    const struct entry wanted = {.name = (char *)name}, *pointer = &wanted;
    const struct entry *const *found =
        bsearch(&pointer, r->sorted, (size_t)r->count, sizeof(*r->sorted), by_name);
    if (found) {
        *index = (int32_t)(*found - r->entry);
        return 0;
    }
    const char **names = base_alloc(r->count + 1, sizeof(*names));
    for (int32_t i = 0; i < r->count; i++)
        names[i] = r->entry[i].name;
    const char *nearest = base_nearest(name, names);
    refuse(r, key, "no layer is called '%s'%s%s%s", name, nearest ? "; did you mean '" : "",
           nearest ? nearest : "", nearest ? "'?" : "");
    free(names);
    return -1;
}

/* Where the value of @index is complete: a batch norm may add one that follows. */
static int32_t complete_at(const struct reader *r, int32_t index)
{
    int32_t added = -1;
    if (index >= 0 && r->entry[index].add)
        find(r, "add", r->entry[index].add, &added);
    return added > index ? added : index;
}

static int read_inputs(const struct reader *r, struct layer *layer)
{
    const struct entry *e = &r->entry[r->at];
    layer->input_count = 1;
    layer->input[0] = r->at - 1;
    bool given = e->inputs.count > 0;
    if (e->inputs.count > LAYER_INPUTS)
        return refuse(r, "inputs", "%d inputs; a layer has at most %d", e->inputs.count,
                      LAYER_INPUTS);
    if (given)
        layer->input_count = e->inputs.count;
    for (int32_t i = 0; i < layer->input_count; i++) {
        AUTOFREE char *key = base_format(given ? "inputs.%d" : "name", i);
        int failed = 0;
        if (given)
            failed = find(r, key, ((char *const *)e->inputs.item)[i], &layer->input[i]);
        int32_t from = layer->input[i];
        if (!failed && from >= r->at)
            failed = refuse(r, key, "layer '%s' does not come before '%s', which reads it",
                            r->entry[from].name, e->name);
        else if (!failed && complete_at(r, from) >= r->at)
            failed =
                refuse(r, key, "'%s' is complete once '%s' is added to it: list '%s' below that",
                       r->entry[from].name, r->entry[from].add, e->name);
        if (failed)
            return -1;
    }
    bool pair = e->kind == LAYER_MATMUL || e->kind == LAYER_MULTIPLY;
    int32_t least = pair || (e->kind == LAYER_ADD && !e->parameters) ? 2 : 1;
    bool many = e->kind == LAYER_ADD || e->kind == LAYER_CONCAT || e->kind == LAYER_OTHER;
    if (layer->input_count < least || (!many && layer->input_count > least))
        return refuse(r, given ? "inputs" : "kind", "%s reads %s%d value%s, not %d",
                      layer_op_names[e->kind], many ? "at least " : "", least, base_plural(least),
                      layer->input_count);
    return 0;
}

/* Windows that fit along each side, unless the file says how many do. */
static int check_window(const struct reader *r, const struct layer *layer)
{
    int32_t shorter = layer->in.height < layer->in.width ? layer->in.height : layer->in.width;
    bool given = layer->out.height > 0, spreads = layer->op == LAYER_TRANSPOSED;
    if (layer->kernel_width && !given)
        return refuse(r, "kernel_width", "a window that is no square needs the key 'out'");
    if (layer->padding >= layer->kernel && !given)
        return refuse(r, "padding", "padding must be less than the kernel, %d", layer->kernel);
    if (!given && !spreads && shorter + 2 * layer->padding < layer->kernel)
        return refuse(r, "kernel", "a window of %d does not fit an input of %dx%d", layer->kernel,
                      layer->in.height, layer->in.width);
    if (!given && spreads && 2 * layer->padding >= layer->kernel)
        return refuse(r, "padding", "padding leaves nothing of a window of %d", layer->kernel);
    if (layer->op == LAYER_MAX_POOL && given && layer->out.channels != layer->in.channels)
        return refuse(r, "out", "a max pool keeps its %d channels", layer->in.channels);
    if (layer->in.channels % layer->groups || layer->out.channels % layer->groups)
        return refuse(r, "groups", "%d channels to %d do not divide into %d groups",
                      layer->in.channels, layer->out.channels, layer->groups);
    return 0;
}

static int check_pool(const struct reader *r, struct layer *layer)
{
    const struct entry *e = &r->entry[r->at];
    struct shape in = layer->in;
    if (e->kernel && !e->out) {
        if (check_window(r, layer))
            return -1;
        layer->out.height = (in.height - layer->kernel) / layer->stride + 1;
        layer->out.width = (in.width - layer->kernel) / layer->stride + 1;
        return 0;
    }
    if (!e->out)
        layer->out = (struct shape){in.channels, 1, 1};
    if (layer->out.channels != in.channels || layer->out.height > in.height ||
        layer->out.width > in.width)
        return refuse(r, "out",
                      "an average pool of %dx%dx%d keeps channels and has no larger sides",
                      in.channels, in.height, in.width);
    if (!e->kernel)
        layer->kernel = in.height / layer->out.height;
    return 0;
}

/* That the values which go in are those which come out. */
static int check_sizes(const struct reader *r, const struct layer *layer)
{
    double in = 0, out = (double)shape_elements(layer->out);
    struct shape first = model_shape(r->model, layer->input[0]);
    for (int32_t i = 0; i < layer->input_count; i++) {
        struct shape next = model_shape(r->model, layer->input[i]);
        double elements = (double)shape_elements(next);
        in += elements;
        if (layer->op == LAYER_ADD && elements != (double)shape_elements(first))
            return refuse(r, "inputs", "add takes inputs of equal sizes, not %.0f and %.0f values",
                          (double)shape_elements(first), elements);
        if (layer->op == LAYER_MULTIPLY && elements > (double)shape_elements(first))
            return refuse(
                r, "inputs",
                "multiply repeats its second input, which has %.0f values and not at most %.0f",
                elements, (double)shape_elements(first));
        if (layer->op == LAYER_MATMUL && fmod(elements, (double)layer->inner) != 0)
            return refuse(r, "inner", "an input of %.0f values is not made of sums of %lld terms",
                          elements, (long long)layer->inner);
        if (layer->op == LAYER_CONCAT && !layer->out.channels &&
            (next.height != first.height || next.width != first.width))
            return refuse(r, "inputs", "inputs of %dx%d and %dx%d do not join by channels: say out",
                          first.height, first.width, next.height, next.width);
    }
    if (layer->op == LAYER_ADD || layer->op == LAYER_MULTIPLY)
        in = (double)shape_elements(first);
    if (layer->op == LAYER_EMBEDDING && in > NETWORK_SIDE)
        return refuse(r, "kind", "an embedding takes at most %d values", NETWORK_SIDE);
    if (layer->op == LAYER_EMBEDDING)
        in *= layer->out.channels;
    bool free_out =
        layer->op == LAYER_MATMUL || layer->op == LAYER_PERMUTE || layer->op == LAYER_OTHER;
    if (layer->out.height && !free_out && in != out)
        return refuse(r, "out", "%.0f values do not become %.0f", in, out);
    return 0;
}

/* As many weights, which are no third layer's. */
static int find_owner(const struct reader *r, struct layer *layer)
{
    const char *name = r->entry[r->at].weights_of;
    int32_t index;
    if (!name)
        return 0;
    if (find(r, "weights_of", name, &index))
        return -1;
    if (index < 0 || index >= r->at)
        return refuse(r, "weights_of", "'%s' is no layer above, whose weights '%s' might use", name,
                      layer->name);
    const struct layer *owner = &r->model->layer[index];
    if (owner->weights_of)
        return refuse(r, "weights_of", "'%s' itself uses the weights of '%s': name that", name,
                      r->model->layer[owner->weights_of - 1].name);
    if (layer_weights(owner) != layer_weights(layer))
        return refuse(r, "weights_of", "'%s' has %lld weights, not %lld", name,
                      (long long)layer_weights(owner), (long long)layer_weights(layer));
    if (owner->frozen != layer->frozen)
        return refuse(r, "weights_of", "the weights of '%s' are either trained or frozen", name);
    layer->weights_of = index + 1;
    return 0;
}

/* Everything that model_add() takes for granted. */
static int check_layer(const struct reader *r, struct layer *layer)
{
    struct shape seen = model_shape(r->model, layer->input[0]);
    if (layer->in.channels && shape_elements(layer->in) != shape_elements(seen))
        return refuse(r, "in", "the input has %lld values, not %lld",
                      (long long)shape_elements(seen), (long long)shape_elements(layer->in));
    if (!layer->in.channels)
        layer->in = seen;
    switch (layer->op) {
    case LAYER_CONVOLUTION:
    case LAYER_TRANSPOSED:
    case LAYER_MAX_POOL:
        return check_window(r, layer);
    case LAYER_AVERAGE_POOL:
        return check_pool(r, layer);
    case LAYER_LINEAR:
    case LAYER_BATCH_NORM:
        return 0;
    default:
        return check_sizes(r, layer);
    }
}

static double windows(const struct layer *layer, int32_t side)
{
    if (layer->op == LAYER_TRANSPOSED)
        return (double)(side - 1) * layer->stride + layer->kernel - 2 * layer->padding;
    return floor((double)(side + 2 * layer->padding - layer->kernel) / layer->stride) + 1;
}

/* In floating point, for the counts themselves might not fit. */
static int check_limits(struct reader *r, const struct layer *layer)
{
    double positions = 1, in = (double)shape_elements(layer->in), out = (double)layer->out.channels;
    double weights = (double)layer->constants + (double)layer->rows * out;
    double flops = (double)layer->flops;
    if (layer->out.height)
        positions = (double)layer->out.height * layer->out.width;
    else if (layer->op == LAYER_CONVOLUTION || layer->op == LAYER_TRANSPOSED)
        positions = windows(layer, layer->in.height) * windows(layer, layer->in.width);
    if (layer_has_arithmetic(layer)) {
        double each = layer->op == LAYER_LINEAR ? in : (double)layer->in.channels / layer->groups;
        weights = each * out * layer->kernel *
                  (layer->kernel_width ? layer->kernel_width : layer->kernel);
        flops = 2 * weights * positions;
        weights *= layer->experts > 1 ? layer->experts : 1;
    } else if (layer->op == LAYER_MATMUL) {
        flops = fmax(flops, 2 * (double)shape_elements(layer->out) * (double)layer->inner);
    }
    r->parameters += weights;
    r->flops += flops;
    r->elements += in * layer->input_count + out * positions + (double)layer->elements +
                   (layer->op == LAYER_EMBEDDING ? in * out : 0);
    if (r->parameters > NETWORK_PARAMETERS || r->flops > NETWORK_FLOPS ||
        r->elements > NETWORK_ELEMENTS)
        return refuse(
            r, "name",
            "up to here more than %g parameters, or for one image more than %g FLOP or %g values",
            NETWORK_PARAMETERS, NETWORK_FLOPS, NETWORK_ELEMENTS);
    return 0;
}

static int add_layer(struct reader *r)
{
    const struct entry *e = &r->entry[r->at];
    struct layer layer = {
        .op = (enum layer_op)e->kind,
        .out.channels = (int32_t)e->channels,
        .kernel = (int32_t)e->kernel,
        .kernel_width = (int32_t)e->kernel_width,
        .stride = e->stride ? (int32_t)e->stride : 1,
        .padding = (int32_t)e->padding,
        .groups = e->groups ? (int32_t)e->groups : 1,
        .bias = e->bias,
        .frozen = e->frozen,
        .relu = e->relu > 0,
        .capped = e->relu == 2,
        .inner = e->inner,
        .rows = e->rows,
        .experts = (int32_t)e->experts,
        .constants = e->parameters,
        .flops = e->flops,
        .elements = e->elements,
    };
    if (layer.op == LAYER_LINEAR)
        layer.kernel = 1;
    snprintf(layer.name, sizeof(layer.name), "%s", e->name);
    if (e->kind == LAYER_OP_COUNT)
        return refuse(r, "kind", "'none' is no kind of layer");
    if (check_keys(r) || (e->in && read_shape(r, "in", e->in, &layer.in)) ||
        (e->out && read_shape(r, "out", e->out, &layer.out)) || read_inputs(r, &layer))
        return -1;
    if (e->out && e->channels && layer.out.channels != e->channels)
        return refuse(r, "out", "'%s' has not the %lld channels", e->out, (long long)e->channels);
    if (check_layer(r, &layer) || check_limits(r, &layer) || find_owner(r, &layer))
        return -1;
    model_add(r->model, layer);
    return 0;
}

/* Whether @name can be written without quotes and fits into @size bytes. */
static bool is_name(const char *name, size_t size)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    return *name && strlen(name) < size && !name[strspn(name, letters)];
}

static int check_names(struct reader *r)
{
    int failed = 0;
    for (r->at = 0; r->at < r->count; r->at++) {
        const char *name = r->entry[r->at].name;
        r->sorted[r->at] = &r->entry[r->at];
        if (!is_name(name, LAYER_NAME) || !strcmp(name, "input"))
            failed = refuse(
                r, "name",
                "'%s' is no name of a layer: 1 to %d letters, digits, _ . / - +, and not 'input'",
                name, LAYER_NAME - 1);
    }
    qsort(r->sorted, (size_t)r->count, sizeof(*r->sorted), by_name);
    for (int32_t i = 1; i < r->count && !failed; i++) {
        if (strcmp(r->sorted[i - 1]->name, r->sorted[i]->name) != 0)
            continue;
        ptrdiff_t one = r->sorted[i - 1] - r->entry, two = r->sorted[i] - r->entry;
        r->at = (int32_t)(one > two ? one : two);
        failed = refuse(r, "name", "two layers are called '%s'", r->sorted[i]->name);
    }
    return failed;
}

/* What batch norms add, once all layers exist. */
static int connect_residuals(struct reader *r)
{
    for (r->at = 0; r->at < r->count; r->at++) {
        const char *add = r->entry[r->at].add;
        int32_t added;
        if (!add)
            continue;
        if (find(r, "add", add, &added))
            return -1;
        if (added == r->at)
            return refuse(r, "add", "'%s' adds itself", add);
        if (added > r->at && complete_at(r, added) > added)
            return refuse(r, "add", "'%s' itself adds what comes later", add);
        if (added < r->at && complete_at(r, added) >= r->at)
            return refuse(r, "add", "'%s' is complete only later", add);
        int64_t elements = shape_elements(model_shape(r->model, added));
        if (elements != shape_elements(r->model->layer[r->at].out))
            return refuse(r, "add", "'%s' has %lld values, not %lld", add, (long long)elements,
                          (long long)shape_elements(r->model->layer[r->at].out));
        model_add_residual(r->model, r->at, added);
    }
    return 0;
}

static void warn_of_unread(const struct reader *r)
{
    const struct model *model = r->model;
    for (int32_t i = 0; i < r->count - 1; i++)
        if (model->layer[i].readers == 0)
            err_warn(r->err, "%s:%d: warning: nothing reads layer '%s'", r->root->origin.file,
                     field_origin(r->root, "layers")->child[i]->origin.line, model->layer[i].name);
}

static int read_layers(struct reader *r)
{
    if (check_names(r))
        return -1;
    for (r->at = 0; r->at < r->count; r->at++)
        if (add_layer(r))
            return -1;
    return connect_residuals(r);
}

static struct model *build(const struct file *file, const struct node *root, int32_t image,
                           struct err *err)
{
    struct reader r = {.root = root,
                       .entry = file->layers.item,
                       .count = file->layers.count,
                       .model = model_new(file->name, 1, 1),
                       .at = -1,
                       .err = err};
    r.sorted = base_alloc(r.count, sizeof(*r.sorted));
    struct shape *input = &r.model->input;
    int failed = read_shape(&r, "input", file->input, input);
    if (image && input->height > 1 && input->height == input->width)
        input->height = input->width = image;
    if (!failed && !is_name(file->name, sizeof(r.model->name)))
        failed = origin_error(&field_origin(root, "name")->origin, err,
                              "'%s' is no name: 1 to %d letters, digits, _ . / - +", file->name,
                              (int)sizeof(r.model->name) - 1);
    failed = failed || read_layers(&r);
    if (!failed && model_parameters(r.model) == 0)
        failed = origin_error(&field_origin(root, "layers")->origin, err,
                              "no layer has parameters: there is nothing to train");
    free(r.sorted);
    if (failed) {
        model_free(r.model);
        return NULL;
    }
    warn_of_unread(&r);
    struct shape in = r.model->input, out = r.model->layer[r.count - 1].out;
    r.model->image = in.height > 1 && in.height == in.width ? in.height : 0;
    r.model->classes = (int32_t)(shape_elements(out) < INT32_MAX ? shape_elements(out) : INT32_MAX);
    return r.model;
}

bool network_is_file(const char *name)
{
    return strchr(name, '/') || strstr(name, ".yaml");
}

/* Takes over @document, which may be NULL. */
static struct model *read_document(struct document *document, int32_t image, struct err *err)
{
    if (!document)
        return NULL;
    struct file file = {0};
    struct model *model = NULL;
    if (!field_read(&network_table, yaml_root(document), &file, err))
        model = build(&file, yaml_root(document), image, err);
    field_release(&network_table, &file);
    yaml_free(document);
    return model;
}

struct model *network_read(const struct files *files, const char *path, int32_t image,
                           struct err *err)
{
    const char *ending = strrchr(path, '.');
    if (ending && !strcasecmp(ending, ".onnx")) {
        err_add_code(err, 65,
                     "%s: 'foretrain import onnx %s --to net.yaml' makes a network file of it",
                     path, path);
        return NULL;
    }
    return read_document(yaml_read_file(files, path, NULL, err), image, err);
}

struct model *network_read_text(const char *name, const char *text, struct err *err)
{
    return read_document(yaml_read_text(name, text, err), 0, err);
}
