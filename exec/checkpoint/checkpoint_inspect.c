#include <sys/stat.h>

#include "core/base/columns.h"
#include "exec/checkpoint/checkpoint_parts.h"

struct shown_tensor {
    const char *file, *type;
    char *name;     /* owned */
    int64_t *shape; /* (rank) owned */
    int32_t rank;
    double minimum, mean, maximum; /* of the finite elements; NaN: there are none */
    int64_t not_finite;
};

struct shown_file {
    const char *name, *checksum, *right;
    int64_t bytes;
};

struct answer {
    const char *path, *notes;
    struct json *progress;       /* owned */
    struct shown_file *file;     /* (files) owned */
    struct shown_tensor *tensor; /* (tensors) owned */
    int32_t files, tensors;
};

COLUMNS(file_columns, NULL, struct shown_file)
{
    COLUMN("name", name, .help = "of the file");
    COLUMN("bytes", bytes, .help = "size of the file");
    COLUMN("checksum", checksum, .null = true, .help = "its kind; null: not of a checkpoint");
    COLUMN("verdict", right, .help = "of the checksum: right, WRONG or no checksum");
}

COLUMNS(tensor_columns, NULL, struct shown_tensor)
{
    COLUMN("file", file, .help = "file that holds it");
    COLUMN("name", name, .help = "of the tensor, as in torchvision");
    COLUMN("type", type, .help = "of its elements");
    COLUMN_ITEMS("shape", shape, rank, .help = "elements along each axis");
    COLUMN("minimum", minimum, .null = true, .help = "of the finite elements");
    COLUMN("mean", mean, .null = true, .help = "of the finite elements");
    COLUMN("maximum", maximum, .null = true, .help = "of the finite elements");
    COLUMN("not_finite", not_finite, .help = "elements that are infinite or not a number");
}

SHARED_COLUMNS(inspect_columns, "inspect/2", struct answer)
{
    COLUMN("path", path, .help = "of the checkpoint or file");
    COLUMN("notes", notes, .null = true, .help = "how the checkpoint was chosen");
    COLUMN("progress", progress, .absent = true, .help = "the content of state.json");
    COLUMN_ITEMS("files", file, files, .table = &file_columns);
    COLUMN_ITEMS("tensors", tensor, tensors, .table = &tensor_columns);
}

static void answer_release(struct answer *answer)
{
    for (int32_t i = 0; i < answer->tensors; i++) {
        free(answer->tensor[i].name);
        free(answer->tensor[i].shape);
    }
    free(answer->tensor);
    free(answer->file);
    json_free(answer->progress);
}

static void summarise(struct shown_tensor *shown, const struct safetensors_tensor *tensor,
                      const char *data)
{
    enum { PIECE = 4096 };
    float piece[PIECE];
    double sum = 0;
    int64_t width = tensor->elements ? tensor->bytes / tensor->elements : 0;
    shown->minimum = INFINITY;
    shown->maximum = -INFINITY;
    for (int64_t done = 0; done < tensor->elements; done += PIECE) {
        int64_t part = tensor->elements - done < PIECE ? tensor->elements - done : PIECE;
        safetensors_widen(tensor->type, data + done * width, part, piece);
        for (int64_t i = 0; i < part; i++) {
            if (!isfinite(piece[i])) {
                shown->not_finite++;
                continue;
            }
            shown->minimum = fmin(shown->minimum, (double)piece[i]);
            shown->maximum = fmax(shown->maximum, (double)piece[i]);
            sum += (double)piece[i];
        }
    }
    int64_t finite = tensor->elements - shown->not_finite;
    if (finite == 0)
        shown->minimum = shown->maximum = NAN;
    shown->mean = finite ? sum / (double)finite : (double)NAN;
}

static int add_tensors(struct answer *answer, const char *file, const char *path,
                       const struct text *content, struct err *err)
{
    struct safetensors header;
    if (safetensors_read_header(&header, path, content->data, content->length, err))
        return -1;
    for (int64_t i = 0; i < header.count; i++) {
        const struct safetensors_tensor *tensor = &header.tensor[i];
        struct shown_tensor *shown = &BASE_NEXT(answer->tensor, answer->tensors);
        *shown = (struct shown_tensor){.file = file,
                                       .type = safetensors_type_names[tensor->type],
                                       .name = base_copy(tensor->name),
                                       .shape = base_alloc(tensor->rank, sizeof(*shown->shape)),
                                       .rank = tensor->rank};
        memcpy(shown->shape, tensor->shape, (size_t)tensor->rank * sizeof(*shown->shape));
        summarise(shown, tensor, content->data + header.data + tensor->begin);
    }
    safetensors_release(&header);
    return 0;
}

/* @entry is NULL for a single file. */
static void add_file(struct answer *answer, const char *file, int64_t bytes,
                     const struct manifest_entry *entry, bool right)
{
    const char *verdict = !entry ? "no checksum" : right ? "right" : "WRONG";
    BASE_NEXT(answer->file, answer->files) =
        (struct shown_file){file, entry ? CHECKSUM_NAME : NULL, verdict, bytes};
}

static int add_progress(struct answer *answer, const char *path, const struct text *content,
                        struct err *err)
{
    struct progress checked;
    if (!state_read_text(&checked, path, content->data, content->length, err))
        answer->progress = json_read(path, content->data, content->length, err);
    return answer->progress ? 0 : -1;
}

/* All readable parts, also if others are damaged. */
static int inspect_checkpoint(const char *path, struct answer *answer, struct err *err)
{
    struct manifest manifest;
    if (manifest_read(&manifest, path, err))
        return -1;
    int failed = 0;
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
        AUTOFREE char *file = NULL;
        AUTORELEASE(text) struct text content = {0};
        if (!manifest.entry[i].present)
            continue;
        bool wrong = manifest_read_file(&manifest, path, i, &file, &content, err);
        failed |= wrong;
        add_file(answer, checkpoint_file_names[i], content.length, &manifest.entry[i], !wrong);
        if (content.data && i == CHECKPOINT_STATE)
            failed |= add_progress(answer, file, &content, err);
        else if (content.data && i < CHECKPOINT_STATE)
            failed |= add_tensors(answer, checkpoint_file_names[i], file, &content, err);
    }
    return failed ? -1 : 0;
}

static int inspect_file(const char *path, struct answer *answer, struct err *err)
{
    AUTORELEASE(text) struct text content = {0};
    if (file_read(path, &content, err))
        return -1;
    add_file(answer, path, content.length, NULL, true);
    return add_tensors(answer, path, path, &content, err);
}

static void print_text(struct text *out, const struct answer *answer)
{
    AUTORELEASE(json) struct json *files = answer_list(&file_columns, answer->file, answer->files);
    AUTORELEASE(json)
    struct json *tensors = answer_list(&tensor_columns, answer->tensor, answer->tensors);
    text_add(out, "%s%-20s %s\n", answer->notes ? answer->notes : "", "path", answer->path);
    for (const char *key = NULL; (key = json_next_key(answer->progress, key));) {
        AUTOFREE char *label = answer_label(key);
        AUTOFREE char *cell =
            columns_cell(&(struct columns_item){.key = (char *)(size_t)key}, answer->progress);
        text_add(out, "%-20s %s\n", label, cell);
    }
    text_add(out, "\n");
    columns_print(out, "name: file, bytes, checksum, verdict", files);
    text_add(out, "\n");
    columns_print(out, "file, name, type, shape, minimum, mean, maximum, not_finite", tensors);
}

int checkpoint_inspect(const char *path, bool as_json, const char *notes, struct text *out,
                       struct err *err)
{
    struct stat found;
    AUTORELEASE(answer)
    struct answer answer = {.path = path, .notes = notes};
    bool is_file = stat(path, &found) == 0 && !S_ISDIR(found.st_mode);
    int failed =
        is_file ? inspect_file(path, &answer, err) : inspect_checkpoint(path, &answer, err);
    if (as_json)
        answer_print(out, &inspect_columns, &answer);
    else
        print_text(out, &answer);
    return failed;
}
