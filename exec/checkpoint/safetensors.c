#include "exec/checkpoint/safetensors.h"

#include "core/base/json.h"
#include "exec/step/half.h"

const char *const safetensors_type_names[] = {"F32", "F16", "BF16", "I64", NULL};
static_assert(ARRAY_SIZE(safetensors_type_names) == SAFETENSORS_TYPE_COUNT + 1, "one name each");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they lie here");

static const int64_t type_bytes[] = {4, 2, 2, 8};
static_assert(ARRAY_SIZE(type_bytes) == SAFETENSORS_TYPE_COUNT, "one size each");

enum { PREFIX = 8, ALIGNMENT = 8, HEADER_LIMIT = 16 << 20 };

static struct safetensors_tensor *append(struct safetensors *file, const char *name)
{
    struct safetensors_tensor *tensor = &BASE_NEXT(file->tensor, file->count);
    *tensor = (struct safetensors_tensor){.name = base_copy(name)};
    return tensor;
}

void safetensors_add(struct safetensors *file, const char *name, enum safetensors_type type,
                     int32_t rank, const int64_t *shape)
{
    assert(rank >= 0 && rank <= SAFETENSORS_RANK_LIMIT);
    struct safetensors_tensor *tensor = append(file, name);
    tensor->type = type;
    tensor->rank = rank;
    tensor->elements = 1;
    for (int32_t i = 0; i < rank; i++) {
        tensor->shape[i] = shape[i];
        tensor->elements *= shape[i];
    }
    tensor->begin = file->bytes;
    tensor->bytes = tensor->elements * type_bytes[type];
    file->bytes += tensor->bytes;
}

static struct json *describe(const struct safetensors_tensor *tensor)
{
    struct json *entry = json_new_object();
    json_put_text(entry, "dtype", safetensors_type_names[tensor->type]);
    struct json *shape = json_put_array(entry, "shape");
    for (int32_t i = 0; i < tensor->rank; i++)
        json_append(shape, json_new_integer(tensor->shape[i]));
    struct json *offsets = json_put_array(entry, "data_offsets");
    json_append(offsets, json_new_integer(tensor->begin));
    json_append(offsets, json_new_integer(tensor->begin + tensor->bytes));
    return entry;
}

void safetensors_print_header(struct text *out, const struct safetensors *file)
{
    struct json *header = json_new_object(), *metadata = json_at(header, "__metadata__");
    json_put_text(metadata, "format", "pt"); /* what PyTorch's reader looks for */
    for (int64_t i = 0; i < file->count; i++)
        json_put(header, file->tensor[i].name, describe(&file->tensor[i]));
    AUTORELEASE(text) struct text json = {0};
    json_print_line(&json, header, 17);
    while (json.length % ALIGNMENT)
        text_append(&json, " ", 1);
    uint64_t length = (uint64_t)json.length;
    text_append(out, (const char *)&length, sizeof(length));
    text_append(out, json.data, json.length);
    json_free(header);
}

static bool is_printable(const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    return true;
}

/* Dimensions of @tensor from @shape and how many bytes they make. */
static int read_shape(struct safetensors_tensor *tensor, const char *file, const struct json *shape,
                      struct err *err)
{
    int64_t rank = json_count_items(shape);
    if (rank < 0 || rank > SAFETENSORS_RANK_LIMIT)
        return err_add(
            err, "%s: tensor '%s': \"shape\" must be a list of at most %d sizes, as [64, 3, 7, 7]",
            file, tensor->name, SAFETENSORS_RANK_LIMIT);
    tensor->rank = (int32_t)rank;
    tensor->elements = 1;
    for (int32_t i = 0; i < rank; i++) {
        int64_t *size = &tensor->shape[i];
        if (!json_as_integer(json_item(shape, i), size) || *size < 0)
            return err_add(
                err, "%s: tensor '%s': size %d of \"shape\" is not a whole number of 0 or more",
                file, tensor->name, i + 1);
        if (__builtin_mul_overflow(tensor->elements, *size, &tensor->elements))
            return err_add(err, "%s: tensor '%s': a shape of more elements than can be counted",
                           file, tensor->name);
    }
    if (__builtin_mul_overflow(tensor->elements, type_bytes[tensor->type], &tensor->bytes))
        return err_add(err, "%s: tensor '%s': a shape of more bytes than can be counted", file,
                       tensor->name);
    return 0;
}

static int read_offsets(struct safetensors_tensor *tensor, const char *file,
                        const struct json *offsets, struct err *err)
{
    int64_t end;
    if (json_count_items(offsets) != 2 || !json_as_integer(json_item(offsets, 0), &tensor->begin) ||
        !json_as_integer(json_item(offsets, 1), &end) || tensor->begin < 0 || end < tensor->begin)
        return err_add(err,
                       "%s: tensor '%s': \"data_offsets\" must be two places in the data, first "
                       "the start and then the end [bytes]",
                       file, tensor->name);
    if (end - tensor->begin != tensor->bytes)
        return err_add(err,
                       "%s: tensor '%s': its shape and type need %" PRId64
                       " bytes, its data_offsets hold %" PRId64,
                       file, tensor->name, tensor->bytes, end - tensor->begin);
    return 0;
}

static int read_type(struct safetensors_tensor *tensor, const char *file, const char *word,
                     struct err *err)
{
    int32_t type = base_find_word(word, safetensors_type_names);
    tensor->type = (enum safetensors_type)type;
    if (type >= 0)
        return 0;
    bool shown = word && is_printable(word);
    return err_add(err,
                   "%s: tensor '%s' is of type '%s'; foretrain reads F32, F16, BF16 and I64: "
                   "convert it to one of these",
                   file, tensor->name, shown ? word : "?");
}

static int read_tensor(struct safetensors_tensor *tensor, const char *file,
                       const struct json *entry, struct err *err)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    if (json_count_members(entry) < 0)
        return err_add(err, "%s: tensor '%s' must be an object with dtype, shape and data_offsets",
                       file, tensor->name);
    for (const char *key = NULL; (key = json_next_key(entry, key));)
        if (base_find_word(key, keys) < 0)
            return err_add(
                err, "%s: tensor '%s' has a key that is none of dtype, shape and data_offsets",
                file, tensor->name);
    if (read_type(tensor, file, json_as_text(json_get(entry, "dtype")), err) ||
        read_shape(tensor, file, json_get(entry, "shape"), err))
        return -1;
    return read_offsets(tensor, file, json_get(entry, "data_offsets"), err);
}

static int check_metadata(const char *file, const struct json *metadata, struct err *err)
{
    if (json_count_members(metadata) < 0)
        return err_add(err, "%s: \"__metadata__\" must be an object of texts", file);
    for (const char *key = NULL; (key = json_next_key(metadata, key));)
        if (!json_as_text(json_get(metadata, key)))
            return err_add(err, "%s: \"__metadata__\" must hold only texts", file);
    return 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct safetensors_tensor *one = a, *other = b;
    if (one->begin != other->begin)
        return one->begin < other->begin ? -1 : 1;
    if (one->bytes != other->bytes) /* empty ones first, so that none seems to overlap */
        return one->bytes < other->bytes ? -1 : 1;
    return strcmp(one->name, other->name);
}

/* Tensors must follow each other from the first byte of the data to the last. */
static int check_places(struct safetensors *file, const char *name, struct err *err)
{
    int64_t end = 0;
    if (file->count > 0)
        qsort(file->tensor, (size_t)file->count, sizeof(*file->tensor), compare_places);
    for (int64_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensor[i];
        if (tensor->begin != end)
            return err_add(err,
                           "%s: tensor '%s' starts at byte %" PRId64
                           " of the data, the one before it ends at %" PRId64,
                           name, tensor->name, tensor->begin, end);
        end += tensor->bytes; /* begin + bytes, which was an int64_t */
    }
    if (end != file->bytes)
        return err_add(err,
                       "%s: its tensors have %" PRId64 " bytes, but %" PRId64
                       " follow the header: the file was truncated or extended",
                       name, end, file->bytes);
    return 0;
}

static int read_entries(struct safetensors *file, const char *name, const struct json *header,
                        struct err *err)
{
    if (json_count_members(header) < 0)
        return err_add(err, "%s: its header must be a JSON object of tensors", name);
    for (const char *key = NULL; (key = json_next_key(header, key));) {
        const struct json *entry = json_get(header, key);
        if (!is_printable(key))
            return err_add(err, "%s: the name of a tensor has control characters", name);
        int failed = strcmp(key, "__metadata__") == 0
                         ? check_metadata(name, entry, err)
                         : read_tensor(append(file, key), name, entry, err);
        if (failed)
            return -1;
    }
    return check_places(file, name, err);
}

int safetensors_read_header(struct safetensors *file, const char *name, const void *content,
                            int64_t size, struct err *err)
{
    uint64_t length;
    if (size < PREFIX)
        return err_add(err,
                       "%s: %" PRId64 " bytes are too few for a safetensors file, which starts "
                       "with the length of its header in 8 bytes",
                       name, size);
    memcpy(&length, content, PREFIX);
    if (length > HEADER_LIMIT || (int64_t)length > size - PREFIX)
        return err_add(err,
                       "%s: not a safetensors file, or truncated: its first 8 bytes announce a "
                       "header of %" PRIu64 " bytes, %" PRId64 " follow and %d are allowed",
                       name, length, size - PREFIX, HEADER_LIMIT);
    if (length == 0 || ((const char *)content)[PREFIX] != '{')
        return err_add(err, "%s: not a safetensors file: its header does not start with '{'", name);
    struct safetensors found = {.data = PREFIX + (int64_t)length,
                                .bytes = size - PREFIX - (int64_t)length};
    AUTORELEASE(json)
    struct json *header = json_read(name, (const char *)content + PREFIX, (int64_t)length, err);
    int failed = header ? read_entries(&found, name, header, err) : -1;
    if (failed) {
        safetensors_release(&found);
        return -1;
    }
    *file = found;
    return 0;
}

void safetensors_release(struct safetensors *file)
{
    for (int64_t i = 0; i < file->count; i++)
        free(file->tensor[i].name);
    free(file->tensor);
    *file = (struct safetensors){0};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    for (int64_t i = 0; i < file->count; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

void safetensors_print_shape(struct text *out, const struct safetensors_tensor *tensor)
{
    text_add(out, "[");
    for (int32_t i = 0; i < tensor->rank; i++)
        text_add(out, "%s%" PRId64, i > 0 ? ", " : "", tensor->shape[i]);
    text_add(out, "]");
}

/* In pieces that are copied first, because the data of another writer may be unaligned. */
static void widen_half(enum dtype dtype, const char *data, int64_t count, float *out)
{
    uint16_t piece[1024];
    for (int64_t done = 0; done < count;) {
        int64_t part = count - done < 1024 ? count - done : 1024;
        memcpy(piece, data + 2 * done, (size_t)part * 2);
        half_to_float(dtype, part, piece, out + done);
        done += part;
    }
}

void safetensors_widen(enum safetensors_type type, const void *data, int64_t count, float *out)
{
    const char *byte = data;
    int64_t integer;
    if (type == SAFETENSORS_F32)
        memcpy(out, data, (size_t)count * 4);
    else if (type != SAFETENSORS_I64)
        widen_half(type == SAFETENSORS_F16 ? DTYPE_FP16 : DTYPE_BF16, byte, count, out);
    for (int64_t i = 0; i < count && type == SAFETENSORS_I64; i++) {
        memcpy(&integer, byte + 8 * i, sizeof(integer));
        out[i] = (float)integer;
    }
}
