#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "exec/checkpoint/checkpoint_parts.h"

/* The statistics of one tensor's elements. */
struct summary {
    double minimum, mean, maximum; /* of the finite ones; NaN: there are none */
    int64_t not_finite;
};

/* Where the answer goes: one of the two. */
struct answer {
    struct text *text;
    struct json *files, *tensors;
};

static struct summary summarise(const struct safetensors_tensor *tensor, const char *data)
{
    enum { PIECE = 4096 };
    float piece[PIECE];
    struct summary summary = {.minimum = INFINITY, .maximum = -INFINITY};
    double sum = 0;
    int64_t width = tensor->elements ? tensor->bytes / tensor->elements : 0;
    for (int64_t done = 0; done < tensor->elements; done += PIECE) {
        int64_t part = tensor->elements - done < PIECE ? tensor->elements - done : PIECE;
        safetensors_widen(tensor->type, data + done * width, part, piece);
        for (int64_t i = 0; i < part; i++) {
            if (!isfinite(piece[i])) {
                summary.not_finite++;
                continue;
            }
            summary.minimum = fmin(summary.minimum, (double)piece[i]);
            summary.maximum = fmax(summary.maximum, (double)piece[i]);
            sum += (double)piece[i];
        }
    }
    int64_t finite = tensor->elements - summary.not_finite;
    if (finite == 0)
        summary.minimum = summary.maximum = NAN;
    summary.mean = finite ? sum / (double)finite : (double)NAN;
    return summary;
}

static struct json *shape_json(const struct safetensors_tensor *tensor)
{
    struct json *shape = json_new_array();
    for (int32_t i = 0; i < tensor->rank; i++)
        json_append_integer(shape, tensor->shape[i]);
    return shape;
}

static void tell_tensor(const struct answer *answer, const char *file,
                        const struct safetensors_tensor *tensor, const struct summary *summary)
{
    if (answer->text) {
        AUTORELEASE(text) struct text shape = {0};
        safetensors_print_shape(&shape, tensor);
        text_add(answer->text, "  %-44s %-4s %-20s %12.5g %12.5g %12.5g", tensor->name,
                 safetensors_type_names[tensor->type], shape.data, summary->minimum, summary->mean,
                 summary->maximum);
        if (summary->not_finite)
            text_add(answer->text, "  %" PRId64 " NOT FINITE", summary->not_finite);
        text_add(answer->text, "\n");
        return;
    }
    struct json *entry = json_append_object(answer->tensors);
    json_put_text(entry, "file", file);
    json_put_text(entry, "name", tensor->name);
    json_put_text(entry, "type", safetensors_type_names[tensor->type]);
    json_put(entry, "shape", shape_json(tensor));
    json_put_real(entry, "minimum", summary->minimum);
    json_put_real(entry, "mean", summary->mean);
    json_put_real(entry, "maximum", summary->maximum);
    json_put_integer(entry, "not_finite", summary->not_finite);
}

static int tell_tensors(const struct answer *answer, const char *file, const char *path,
                        const struct text *content, struct err *err)
{
    struct safetensors header;
    int64_t elements = 0;
    if (safetensors_read_header(&header, path, content->data, content->length, err))
        return -1;
    for (int64_t i = 0; i < header.count; i++)
        elements += header.tensor[i].elements;
    if (answer->text)
        text_add(answer->text,
                 "\n%s: %" PRId64 " tensors, %" PRId64 " elements\n"
                 "  %-44s %-4s %-20s %12s %12s %12s\n",
                 file, header.count, elements, "name", "type", "shape", "minimum", "mean",
                 "maximum");
    for (int64_t i = 0; i < header.count; i++) {
        const struct safetensors_tensor *tensor = &header.tensor[i];
        struct summary summary = summarise(tensor, content->data + header.data + tensor->begin);
        tell_tensor(answer, file, tensor, &summary);
    }
    safetensors_release(&header);
    return 0;
}

/* @entry is NULL for a single file. */
static void tell_file(const struct answer *answer, const char *file, int64_t bytes,
                      const struct manifest_entry *entry, bool right)
{
    const char *kind = entry ? checksum_names[entry->kind] : NULL;
    const char *verdict = !entry ? "no checksum" : right ? "right" : "WRONG";
    if (answer->text) {
        text_add(answer->text, "%-20s %12" PRId64 " bytes  %s%s%s\n", file, bytes, kind ? kind : "",
                 kind ? " " : "", verdict);
        return;
    }
    struct json *object = json_append_object(answer->files);
    json_put_text(object, "name", file);
    json_put_integer(object, "bytes", bytes);
    json_put_text(object, "checksum", kind);
    if (entry)
        json_put_boolean(object, "right", right);
}

static int tell_progress(struct json *object, struct text *text, const char *path,
                         const struct text *content, struct err *err)
{
    struct progress p;
    if (state_read_text(&p, path, content->data, content->length, err))
        return -1;
    if (!text) {
        struct json *state = json_read(path, content->data, content->length, err);
        json_put(object, "progress", state);
        return 0;
    }
    text_add(text, "%-20s %s, %d x %d pixels, %d classes\n", "network", p.network, p.image, p.image,
             p.classes);
    text_add(text, "%-20s %" PRId64 " (%.3f epochs, %" PRId64 " images), seed %" PRId64 "\n",
             "step", p.step, p.epoch, p.position, p.seed);
    text_add(text, "%-20s %.5g", "loss", p.loss);
    if (p.top1 >= 0)
        text_add(text, "; last evaluation: top-1 %.2f %%, top-5 %.2f %%", 100 * p.top1,
                 100 * p.top5);
    text_add(text, "\n%-20s %g, %" PRId64 " good steps, %" PRId64 " skipped\n", "loss scale",
             p.loss_scale, p.good_steps, p.skipped_steps);
    text_add(text, "%-20s %d ranks, scenario %.12s\n", "written by", p.ranks, p.scenario_sha256);
    return 0;
}

/* A file of a checkpoint in memory. */
struct loaded {
    char *path; /* NULL: not in the checkpoint */
    struct text content;
    bool right;
};

static int load_files(struct loaded *file, const char *path, const struct manifest *manifest,
                      struct err *err)
{
    int failed = 0;
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
        if (!manifest->entry[i].present)
            continue;
        file[i].path = base_format("%s/%s", path, checkpoint_file_names[i]);
        if (!file_read(file[i].path, &file[i].content, err))
            file[i].right =
                !manifest_check(&manifest->entry[i], file[i].path, &file[i].content, err);
        failed |= !file[i].right;
    }
    return failed;
}

static void release_files(struct loaded *file)
{
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++) {
        free(file[i].path);
        text_release(&file[i].content);
    }
}

/* All readable parts, also if others are damaged. */
static int inspect_checkpoint(const char *path, const struct answer *answer, struct json *object,
                              struct err *err)
{
    struct manifest manifest;
    struct loaded file[CHECKPOINT_FILE_COUNT] = {0};
    if (manifest_read(&manifest, path, err))
        return -1;
    int failed = load_files(file, path, &manifest, err);
    const struct loaded *state = &file[CHECKPOINT_STATE];
    if (state->content.data)
        failed |= tell_progress(object, answer->text, state->path, &state->content, err);
    for (int32_t i = 0; i < CHECKPOINT_FILE_COUNT; i++)
        if (file[i].path)
            tell_file(answer, checkpoint_file_names[i], file[i].content.length, &manifest.entry[i],
                      file[i].right);
    for (int32_t i = 0; i < CHECKPOINT_STATE; i++)
        if (file[i].content.data)
            failed |=
                tell_tensors(answer, checkpoint_file_names[i], file[i].path, &file[i].content, err);
    release_files(file);
    return failed ? -1 : 0;
}

static int inspect_file(const char *path, const struct answer *answer, struct err *err)
{
    AUTORELEASE(text) struct text content = {0};
    if (file_read(path, &content, err))
        return -1;
    tell_file(answer, path, content.length, NULL, true);
    return tell_tensors(answer, path, path, &content, err);
}

int checkpoint_inspect(const char *path, bool as_json, const char *notes, struct text *out,
                       struct err *err)
{
    struct stat found;
    struct answer answer = {
        .text = as_json ? NULL : out, .files = json_new_array(), .tensors = json_new_array()};
    AUTORELEASE(json) struct json *object = json_new_object();
    json_put_text(object, "schema", "foretrain/inspect/1");
    json_put_text(object, "path", path);
    json_put_text(object, "notes", notes);
    if (!as_json)
        text_add(out, "%s%-20s %s\n", notes ? notes : "", "path", path);
    bool is_file = stat(path, &found) == 0 && !S_ISDIR(found.st_mode);
    int failed =
        is_file ? inspect_file(path, &answer, err) : inspect_checkpoint(path, &answer, object, err);
    json_put(object, "files", answer.files);
    json_put(object, "tensors", answer.tensors);
    if (as_json)
        json_print(out, object);
    return failed;
}
