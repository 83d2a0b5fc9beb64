#include "models/network_record.h"

#include "models/networks.h"

static const char *const relu_words[] = {"false", "true", "6", NULL};

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))
#define MEMBER(name) offsetof(struct entry, name)
#define NUMBER(key, member, most, what)                                                            \
    {                                                                                              \
        .path = key, .kind = FIELD_INTEGER, .offset = MEMBER(member), .fallback = "",              \
        .minimum = 1, .maximum = most, .help = what                                                \
    }
#define WORDS(key, type, member, before, what)                                                     \
    {                                                                                              \
        .path = key, .kind = type, .offset = MEMBER(member), .fallback = before, .help = what      \
    }

static const struct field layer_rows[] = {
    WORDS("name", FIELD_TEXT, name, NULL, "by which others read it, torchvision's for training"),
    {.path = "kind",
     .kind = FIELD_WORD,
     .offset = MEMBER(kind),
     .words = layer_op_names,
     .help = "what it computes; a linear layer at every position is a convolution with kernel 1"},
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
    NUMBER("stride", stride, 4096, "between windows; 1 when not given"),
    {.path = "padding",
     .kind = FIELD_INTEGER,
     .offset = MEMBER(padding),
     .fallback = "0",
     .maximum = 4096,
     .help = "on each side of the input"},
    NUMBER("groups", groups, NETWORK_SIDE, "of a convolution: channels apart from each other"),
    WORDS("bias", FIELD_BOOLEAN, bias, "false", "of a convolution or linear"),
    {.path = "relu",
     .kind = FIELD_WORD,
     .offset = MEMBER(relu),
     .fallback = "false",
     .words = relu_words,
     .help = "a ReLU follows, which 6 stops there"},
    NUMBER("inner", inner, NETWORK_SIDE, "of a matmul: terms that each value of it sums"),
    NUMBER("rows", rows, 1e12, "of an embedding: its table's"),
    NUMBER("parameters", parameters, 1e12, "of an add or other: trained values"),
    NUMBER("flops", flops, 4e12, "of other: forward, for one image"),
    NUMBER("elements", elements, 1e11,
           "of other: values it reads and writes forward, for one image; those of its inputs and "
           "output when not given"),
};
static const struct field_table layer_table = {"layer", layer_rows, COUNT(layer_rows),
                                               sizeof(struct entry)};

static const struct field file_rows[] = {
    {.path = "version",
     .kind = FIELD_INTEGER,
     .offset = offsetof(struct file, version),
     .minimum = 1,
     .maximum = 1,
     .help = "version of this format"},
    {.path = "name",
     .kind = FIELD_TEXT,
     .offset = offsetof(struct file, name),
     .help = "what it is called"},
    {.path = "input",
     .kind = FIELD_TEXT,
     .offset = offsetof(struct file, input),
     .help = "shape of one image, such as 3x224x224, or of one sequence, such as 1x1x128"},
    {.path = "layers",
     .kind = FIELD_LIST,
     .offset = offsetof(struct file, layers),
     .minimum = 1,
     .maximum = NETWORK_LAYERS,
     .table = &layer_table,
     .help = "in the order in which they run; the last gives the output"},
};
const struct field_table network_table = {"network", file_rows, COUNT(file_rows),
                                          sizeof(struct file)};

#define KIND(op) (1u << LAYER_##op)
#define WINDOWS  (KIND(CONVOLUTION) | KIND(MAX_POOL) | KIND(AVERAGE_POOL))

const struct key_kinds network_keys[] = {
    {"add", KIND(BATCH_NORM), 0},
    {"out", ~(KIND(CONVOLUTION) | KIND(MAX_POOL) | KIND(BATCH_NORM) | KIND(LINEAR)), KIND(MATMUL)},
    {"channels", KIND(CONVOLUTION) | KIND(LINEAR) | KIND(EMBEDDING),
     KIND(CONVOLUTION) | KIND(LINEAR) | KIND(EMBEDDING)},
    {"kernel", WINDOWS, KIND(CONVOLUTION) | KIND(MAX_POOL)},
    {"stride", WINDOWS, 0},
    {"padding", KIND(CONVOLUTION) | KIND(MAX_POOL), 0},
    {"groups", KIND(CONVOLUTION), 0},
    {"bias", KIND(CONVOLUTION) | KIND(LINEAR), 0},
    {"relu", KIND(CONVOLUTION) | KIND(LINEAR) | KIND(BATCH_NORM), 0},
    {"inner", KIND(MATMUL), KIND(MATMUL)},
    {"rows", KIND(EMBEDDING), KIND(EMBEDDING)},
    {"parameters", KIND(ADD) | KIND(OTHER), 0},
    {"flops", KIND(OTHER), 0},
    {"elements", KIND(OTHER), 0},
    {0},
};
