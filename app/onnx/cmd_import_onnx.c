#include <string.h>

#include "app/cli/command.h"
#include "app/onnx/network.h"
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

static void set_name(struct model *model, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t size = sizeof(model->name), length = strcspn(base, ".");
    size_t i = 0;
    for (; i < length && i < size - 1; i++) {
        char c = base[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        model->name[i] = plain || c == '-' ? c : '_';
    }
    model->name[i] = '\0';
    if (i == 0)
        memcpy(model->name, "onnx", sizeof("onnx"));
}

/* What the file means to us must be what ONNX says. */
static int compare(const struct onnx_network *network, const struct model *again, struct err *err)
{
    for (int32_t i = 0; i < again->layer_count; i++) {
        const struct layer *ours = &again->layer[i], *theirs = &network->model->layer[i];
        if (shape_elements(ours->out) != shape_elements(theirs->out))
            return err_add(err, "%s: layer '%s' gives %lld values, but %lld by ONNX", network->file,
                           ours->name, (long long)shape_elements(ours->out),
                           (long long)shape_elements(theirs->out));
    }
    return 0;
}

static void summarise(const struct model *model, const struct onnx_network *network, const char *to,
                      struct text *out)
{
    struct shape in = model->input;
    text_add(out,
             "%s: %d layers, %lld parameters, %.4g multiply-adds forward for one input of "
             "%dx%dx%d\n",
             network->file, model->layer_count, (long long)model_parameters(model),
             (double)model_flops(model, PASS_FORWARD) / 2, in.channels, in.height, in.width);
    text_add(out, "%s", network->note.data ? network->note.data : "");
    text_add(out, "written to %s\n", to);
}

/* Through the same checks as any network file. */
static int give(const struct onnx_request *request, const struct onnx_network *network,
                struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    text_add(&text, OWN_FILE "\n");
    network_print(&text, network->model);
    AUTORELEASE(err) struct err found = {0};
    struct model *again = network_read_text(network->file, text.data, &found);
    err_warn_all(err, &found);
    if (!again)
        err_add(err, "%s: as a network file it is refused: %s", network->file, found.text);
    int failed = again ? compare(network, again, err) : -1;
    if (!failed && request->to)
        failed = (!request->overwrite && file_check_own(request->to, OWN_FILE, err)) ||
                         file_write(request->to, &text, NULL, err)
                     ? -1
                     : 0;
    if (!failed && request->to)
        summarise(again, network, request->to, out);
    else if (!failed)
        text_append(out, text.data, text.length);
    model_free(again);
    return failed;
}

static int import_onnx(const void *record, struct text *out, struct err *err)
{
    const struct onnx_request *request = record;
    const char *path = request->head.argument.item[0];
    AUTORELEASE(onnx_graph) struct onnx_graph graph = {0};
    AUTORELEASE(onnx_network)
    struct onnx_network network = {
        .graph = &graph, .file = path, .bytes_of_unknown = request->unknown > 0};
    if (onnx_graph_read(&graph, path, err) || onnx_network_read(&network, err))
        return -1;
    set_name(network.model, path);
    return give(request, &network, out, err) ? -1 : 0;
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
