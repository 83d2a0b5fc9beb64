#include "app/show/show.h"

#include "app/job/job.h"
#include "models/networks.h"

enum { IMAGENET_CLASSES = 1000 };

static void print_text(struct text *out, const struct model *model)
{
    struct shape in = model->input;
    AUTOFREE char *size = model->image ? base_format("%d pixels", model->image)
                                       : base_format("%dx%dx%d", in.channels, in.height, in.width);
    text_add(out, "%-28s %-12s %-16s %12s %14s %14s %14s\n", "layer", "kind", "output",
             "parameters", "forward", "backward-data", "backward-filter");
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        AUTOFREE char *shape =
            base_format("%dx%dx%d", layer->out.channels, layer->out.height, layer->out.width);
        text_add(out, "%-28s %-12s %-16s %12lld %14lld %14lld %14lld\n", layer->name,
                 layer_op_names[layer->op], shape, (long long)layer->parameters,
                 (long long)layer_flops(layer, PASS_FORWARD),
                 (long long)layer_flops(layer, PASS_BACKWARD_DATA),
                 (long long)layer_flops(layer, PASS_BACKWARD_FILTER));
    }
    text_add(out, "%-58s %12lld %14lld %14lld %14lld\n", "sum", (long long)model_parameters(model),
             (long long)model_flops(model, PASS_FORWARD),
             (long long)model_flops(model, PASS_BACKWARD_DATA),
             (long long)model_flops(model, PASS_BACKWARD_FILTER));
    text_add(out,
             "\n%s at %s: %d layers, %d tensors, %lld parameters, %lld multiply-adds "
             "forward.\nColumns are FLOP per image; one multiply-add is two.\n",
             model->name, size, model->layer_count, model->tensor_count,
             (long long)model_parameters(model), (long long)model_flops(model, PASS_FORWARD) / 2);
}

/* ---- for programs ---- */

struct shown_flops {
    int64_t forward, backward_data, backward_filter;
};

struct shown_layer {
    const struct layer *layer;
    const char *input[LAYER_INPUTS];
    const char *const *inputs;
    int32_t input_count;
    struct shown_flops flops;
};

struct shown_model {
    const char *name;
    int64_t parameters;
    int32_t image, tensors;
    struct shown_flops flops;
    struct shown_layer *layer; /* (layers) owned */
    int32_t layers;
};

#define FLOPS                                                                                      \
    COLUMN("flops.forward", flops.forward, .help = "FLOP of an image forward"),                    \
        COLUMN("flops.backward_data", flops.backward_data,                                         \
               .help = "FLOP of an image for gradients of values"),                                \
        COLUMN("flops.backward_filter", flops.backward_filter,                                     \
               .help = "FLOP of an image for gradients of parameters")

#define DESCRIBED struct layer
static const struct answer_column shape_rows[] = {
    COLUMN("name", name, .help = "of the layer"),
    COLUMN("kind", op, .words = layer_op_names, .help = "of the layer"),
    COLUMN("channels", out.channels, .help = "of its output"),
    COLUMN("height", out.height, .help = "of its output"),
    COLUMN("width", out.width, .help = "of its output"),
    COLUMN("parameters", parameters, .help = "weights and biases"),
};
static const struct answer_columns shape_columns = COLUMNS(NULL, shape_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_layer
static const struct answer_column layer_rows[] = {
    COLUMN_MEMBERS(layer, &shape_columns),
    COLUMN_ITEMS("inputs", inputs, input_count, .help = "names of layers, or input"),
    FLOPS,
};
static const struct answer_columns layer_columns = COLUMNS(NULL, layer_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_model
static const struct answer_column model_rows[] = {
    COLUMN("name", name, .help = "of the network"),
    COLUMN("image", image, .zero = true, .help = "side of an image; null: not a square image"),
    COLUMN("parameters", parameters, .help = "weights and biases"),
    COLUMN("tensors", tensors, .help = "tensors of parameters"),
    FLOPS,
    COLUMN_ITEMS("layers", layer, layers, .table = &layer_columns),
};
const struct answer_columns model_columns = COLUMNS("model/2", model_rows);
#undef DESCRIBED

static void describe(struct shown_layer *shown, const struct model *model,
                     const struct layer *layer)
{
    shown->layer = layer;
    shown->inputs = shown->input;
    shown->input_count = layer->input_count;
    for (int32_t i = 0; i < layer->input_count; i++)
        shown->input[i] = layer->input[i] < 0 ? "input" : model->layer[layer->input[i]].name;
    shown->flops = (struct shown_flops){layer_flops(layer, PASS_FORWARD),
                                        layer_flops(layer, PASS_BACKWARD_DATA),
                                        layer_flops(layer, PASS_BACKWARD_FILTER)};
}

static void print_json(struct text *out, const struct model *model)
{
    AUTOFREE struct shown_layer *layer = base_alloc(model->layer_count, sizeof(*layer));
    for (int32_t i = 0; i < model->layer_count; i++)
        describe(&layer[i], model, &model->layer[i]);
    answer_print(
        out, &model_columns,
        &(struct shown_model){
            .name = model->name,
            .parameters = model_parameters(model),
            .image = model->image,
            .tensors = model->tensor_count,
            .flops = {model_flops(model, PASS_FORWARD), model_flops(model, PASS_BACKWARD_DATA),
                      model_flops(model, PASS_BACKWARD_FILTER)},
            .layer = layer,
            .layers = model->layer_count,
        });
}

static int refuse_job(const char *path, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    AUTORELEASE(err) struct err ignored = {0};
    if (job_read(&job, NULL, path, NULL, 0, &draw_centre, &ignored))
        return 0;
    const char *network = job.scenario.model.network;
    return err_add_code(err, 64, "%s is a job; 'foretrain show model %s' shows its network", path,
                        network);
}

int show_model(const char *name, int32_t image, int32_t sequence, enum show_model_form form,
               struct text *out, struct err *err)
{
    const struct transformer keys = {.sequence = sequence};
    if (network_is_file(name) && refuse_job(name, err))
        return -1;
    struct model *model = network_open(NULL, name, image, IMAGENET_CLASSES, &keys, err);
    if (!model)
        return -1;
    if (form == SHOW_MODEL_JSON)
        print_json(out, model);
    else if (form == SHOW_MODEL_YAML)
        network_print(out, model);
    else
        print_text(out, model);
    model_free(model);
    return 0;
}
