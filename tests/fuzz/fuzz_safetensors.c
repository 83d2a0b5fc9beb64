#include "exec/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

/* Every element of what was read lies in the file, whatever its header says. */
static void touch(const struct safetensors *file, const uint8_t *data, size_t size)
{
    for (int64_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensor[i];
        if (tensor->begin < 0 || file->data + tensor->begin + tensor->bytes > (int64_t)size)
            abort();
        AUTOFREE float *wide = base_alloc(tensor->elements, sizeof(*wide));
        safetensors_widen(tensor->type, data + file->data + tensor->begin, tensor->elements, wide);
    }
}

/* What was read and written again is read as the same. */
static void write_again(const struct safetensors *file)
{
    HELD(safetensors) copy = {0}, again = {0};
    HELD(text) text = {0};
    struct err err = {0};
    for (int64_t i = 0; i < file->count; i++)
        safetensors_add(&copy, file->tensor[i].name, file->tensor[i].type, file->tensor[i].rank,
                        file->tensor[i].shape);
    safetensors_print_header(&text, &copy);
    for (int64_t i = 0; i < copy.bytes; i++)
        text_append(&text, "", 1);
    if (safetensors_read_header(&again, "again", text.data, text.length, &err) ||
        again.count != file->count || again.bytes != file->bytes)
        abort();
}

/* Any bytes are either a file whose tensors lie inside it or get exactly one message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(safetensors) file = {0};
    HELD(err) err = {0};
    AUTOFREE uint8_t *exact =
        malloc(size ? size : 1); /* so that the sanitizer sees a byte too far */
    if (!exact)
        abort();
    memcpy(exact, data, size);
    if (safetensors_read_header(&file, "fuzz", exact, (int64_t)size, &err) == 0) {
        touch(&file, exact, size);
        write_again(&file);
    } else if (err.count != 1 || !err.text) {
        abort();
    }
    return 0;
}
