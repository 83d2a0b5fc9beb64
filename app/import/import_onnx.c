#include <fcntl.h>

#include "app/cli/command.h"
#include "app/import/import.h"
#include "core/base/file.h"
#include "models/networks.h"

struct onnx_request {
    struct request head;
    const char *to; /* the network file to write; NULL: printed */
    bool overwrite;
    int32_t unknown; /* a word of unknown_words */
};

static const char *const unknown_words[] = {"refuse", "bytes", NULL};

/* How each of our files begins. */
#define OWN_FILE "# Written by foretrain import onnx"

/* A draft of foretrain-read: {network: the text of a network file, values: how many each layer
 * gives by ONNX's shapes, notes: lines}.  What the file means to us must be what ONNX says. */
static int compare(const char *file, const struct json *values, const struct model *model,
                   struct err *err)
{
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        int64_t theirs = -1;
        json_as_integer(json_item(values, i), &theirs);
        if (shape_elements(layer->out) != theirs)
            return err_add(err, "%s: layer '%s' gives %lld values, but %lld by ONNX", file,
                           layer->name, (long long)shape_elements(layer->out), (long long)theirs);
    }
    return 0;
}

static void summarise(const struct model *model, const char *file, const struct json *notes,
                      const char *to, struct text *out)
{
    struct shape in = model->input;
    text_add(out,
             "%s: %d layers, %lld parameters, %.4g multiply-adds forward for one input of "
             "%dx%dx%d\n",
             file, model->layer_count, (long long)model_parameters(model),
             (double)model_flops(model, PASS_FORWARD) / 2, in.channels, in.height, in.width);
    for (int64_t i = 0; i < json_count_items(notes); i++)
        text_add(out, "%s\n", json_as_text(json_item(notes, i)));
    text_add(out, "written to %s\n", to);
}

/* Through the same checks as any network file. */
static int give(const struct onnx_request *request, const struct json *draft, struct text *out,
                struct err *err)
{
    const char *file = request->head.argument.item[0];
    const char *network = json_as_text(json_get(draft, "network"));
    AUTORELEASE(text) struct text text = {0};
    text_add(&text, OWN_FILE "\n%s", network ? network : "");
    AUTORELEASE(err) struct err found = {0};
    struct model *model = network_read_text(file, text.data, &found);
    err_warn_all(err, &found);
    if (!model)
        err_add(err, "%s: as a network file it is refused: %s", file, found.text);
    int failed = model ? compare(file, json_get(draft, "values"), model, err) : -1;
    if (!failed && request->to)
        failed = (!request->overwrite && file_check_own(request->to, OWN_FILE, err)) ||
                 file_write(request->to, &text, NULL, err);
    if (!failed && request->to)
        summarise(model, file, json_get(draft, "notes"), request->to, out);
    else if (!failed)
        text_append(out, text.data, text.length);
    model_free(model);
    return failed;
}

static int import_onnx(const void *record, struct text *out, struct err *err)
{
    const struct onnx_request *request = record;
    const char *path = request->head.argument.item[0];
    int file = open(strcmp(path, "-") ? path : "/dev/stdin", O_RDONLY | O_CLOEXEC);
    if (file < 0 || file_is_directory(path))
        return err_add_code(err, 66, "%s: cannot be opened: %s", path,
                            strerror(file < 0 ? errno : EISDIR));
    AUTORELEASE(json)
    struct json *draft = import_run_reader("onnx", path, file, request->unknown, 0, err);
    close(file);
    return draft ? give(request, draft, out, err) : -1;
}

#define AT(member) offsetof(struct onnx_request, member)

static const struct option options[] = {
    OPTION_ROW("to", 'o', OPTION_OUTPUT, AT(to), "NETWORK.yaml", NULL,
               "The network file to write (default: standard output)"),
    ROW_REPLACE(AT(overwrite), "to"),
    OPTION_ROW("unknown", 0, OPTION_WORD, AT(unknown), NULL, unknown_words,
               "Operations that are not known: refuse them, or count the bytes they move "
               "(default: refuse)"),
    ROW_LAST};

const struct command command_import_onnx = {
    .name = "onnx",
    .synopsis = "FILE.onnx [options]",
    .help = "a network from an ONNX file, for predictions and, if it is a ResNet, training",
    .examples = "foretrain import onnx net.onnx --to net.yaml\n"
                "foretrain predict job.yaml --set model.network=net.yaml",
    RECORD(options, struct onnx_request, NULL),
    TAKES(1, 1),
    .run = import_onnx,
};
