#include "models/network_record.h"

#include "models/networks.h"

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
           "width of a window that is no square; out says the "
           "output"),
    NUMBER("stride", stride, 4096, "between windows; 1 when not given"),
    ROW("padding", padding, "0", "on each side of the input", .kind = FIELD_INTEGER,
        .maximum = 4096),
    NUMBER("groups", groups, NETWORK_SIDE, "of a convolution: channels apart from each other"),
    WORDS("bias", FIELD_BOOLEAN, bias, "false", "of a convolution or linear"),
    WORDS("weights_of", FIELD_TEXT, weights_of, "",
          "a layer above whose weights it uses, and whose bias if both have one"),
    ROW("relu", relu, "false", "a ReLU follows, which 6 stops there", .kind = FIELD_WORD,
        .words = relu_words),
    NUMBER("inner", inner, NETWORK_SIDE, "of a matmul: terms that each value of it sums"),
    NUMBER("rows", rows, 1e12, "of an embedding: its table's"),
    NUMBER("experts", experts, 65536,
           "of a convolution: sets of weights, one of which each position uses; 1 when not given"),
    NUMBER("parameters", parameters, 1e12, "of an add or other: trained values"),
    NUMBER("flops", flops, 4e12, "of other: forward, for one image"),
    NUMBER("elements", elements, 1e11,
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
    {"relu", KIND(CONVOLUTION) | KIND(LINEAR) | KIND(BATCH_NORM), 0},
    {"inner", KIND(MATMUL), KIND(MATMUL)},
    {"rows", KIND(EMBEDDING), KIND(EMBEDDING)},
    {"parameters", KIND(ADD) | KIND(OTHER), 0},
    {"flops", KIND(OTHER), 0},
    {"elements", KIND(OTHER), 0},
    {0},
};
