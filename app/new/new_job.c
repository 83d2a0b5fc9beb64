#include <math.h>
#include <string.h>

#include "app/cli/measure_list.h"
#include "app/new/new.h"
#include "core/base/unit.h"
#include "core/config/field_write.h"
#include "core/convergence/convergence.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"
#include "models/networks.h"

/* That of mixed precision; of bf16 alone, where units for matrices make it worth while. */
static enum dtype type_for(const struct device *device)
{
    const struct quantity *peak = device->peak;
    return peak[DTYPE_FP16].value > 0                            ? DTYPE_FP16
           : peak[DTYPE_BF16].value > 4 * peak[DTYPE_FP32].value ? DTYPE_BF16
                                                                 : DTYPE_FP32;
}

/* That in which the software's gradients travel, where the device has such a type. */
static enum dtype gradients_for(const struct device *device, const struct software *software)
{
    return software && type_for(device) == DTYPE_FP16 ? (enum dtype)software->gradients
                                                      : type_for(device);
}

static void add_model(struct text *out, const struct new_request *request,
                      const struct measure_network *network, const struct device *device,
                      const struct software *software)
{
    bool imagenet = network->image > 32, file = network_is_file(network->name);
    bool own = file || !network->image; /* its own size */
    AUTOFREE char *name = file ? new_reference(request, network->name) : base_copy(network->name);
    text_add(out, "model:\n  network: ");
    field_write_text(out, name);
    text_add(out, "    # foretrain list networks\n");
    if (imagenet && !own)
        text_add(out, "  image: %d\n", network->image);
    else if (!own)
        text_add(out, "  image: %d\n  classes: %d\n", network->image, network->classes);
    text_add(out, "  precision: {compute: %s, gradients: %s}\n", dtype_names[type_for(device)],
             dtype_names[gradients_for(device, software)]);
}

/* Whether @recipe is that of a round whose @software the user names. */
static bool is_recipe_of(const char *recipe, const char *software)
{
    static const char prefix[] = "mlperf-";
    return software && !strncmp(software, prefix, strlen(prefix)) &&
           !strcmp(software + strlen(prefix), recipe);
}

/* The recipe of @network that ended at the accuracy @text, that of @software's round or the first,
 * or NULL with a message. */
static const char *find_recipe(const char *text, const char *network, const char *software,
                               struct err *err)
{
    if (strcmp(network, "resnet50")) {
        err_add_code(
            err, 64,
            "--target %s: published runs are of resnet50, not %s; give the epochs of yours, "
            "or its points (training.recipe.points)",
            text, network);
        return NULL;
    }
    AUTORELEASE(err) struct err why = {0};
    double target = 0;
    if (unit_parse(UNIT_FRACTION, text, &target, &why)) {
        err_add_code(err, 64, "--target: %s", err_reason(&why));
        return NULL;
    }
    const char *recipe = NULL;
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++)
        if (fabs(row->target - target) < 1e-9 && (!recipe || is_recipe_of(row->recipe, software)))
            recipe = row->recipe;
    if (recipe)
        return recipe;
    if (target > 1) {
        err_add_code(err, 64, "--target %s: an accuracy is at most 100 %%; did you mean '%s%%'?",
                     text, text);
        return NULL;
    }
    err_add_code(err, 64,
                 "--target %s: no published runs ended there; foretrain show convergence lists "
                 "those there are, and training.recipe.points takes points of your own",
                 text);
    return NULL;
}

/* What a GPU may run that is not tuned as MLPerf's submissions are. */
static const char any_software[] = "pytorch";

/* Goyal et al., arXiv 1706.02677: 90 epochs of SGD with warm-up reached 76.3 % with 8192 images a
 * step, and (recalled) as much with 256. */
static const struct {
    double accuracy;
    int64_t least, most;
    int epochs;
} sgd = {0.763, 256, 8192, 90};

/* Whether the epochs are those of SGD: what the user names is no round of MLPerf, whose recipes are
 * of LARS. */
static bool takes_sgd(const struct new_request *request)
{
    AUTORELEASE(err) struct err ignored = {0};
    double target = 1;
    return request->software && !strncmp(request->software, any_software, strlen(any_software)) &&
           !unit_parse(UNIT_FRACTION, request->target, &target, &ignored) && target <= sgd.accuracy;
}

static void add_recipe(struct text *out, const struct new_request *request, const char *recipe,
                       int64_t global_batch)
{
    text_add(out, "  target: ");
    field_write_text(out, request->target);
    if (takes_sgd(request)) {
        text_add(out,
                 "\n  # SGD as in arXiv 1706.02677, which ended at 76.3 %%; runs with LARS took "
                 "fewer: recipe: %s\n  recipe: {points: [{batch: %lld, epochs: %d}, {batch: %lld, "
                 "epochs: %d}]}\n",
                 recipe, (long long)sgd.least, sgd.epochs, (long long)sgd.most, sgd.epochs);
        if (global_batch < sgd.least || global_batch > sgd.most)
            text_add(out, "  extrapolate: true    # no run of it had %lld images a step\n",
                     (long long)global_batch);
        return;
    }
    text_add(out, "\n  recipe: %s    # epochs of its runs, with LARS; foretrain show convergence\n",
             recipe);
    struct convergence curve = convergence_of(recipe);
    if (convergence_is_outside(&curve, global_batch))
        text_add(out, "  extrapolate: true    # no run of the recipe had %lld images a step\n",
                 (long long)global_batch);
}

/* Transformers of text and what they are trained with; pictures learn with SGD, which needs no
 * word.
 */
static void add_optimizer(struct text *out, const char *network)
{
    bool bert = !strncmp(network, "bert-", 5) && !strstr(network, "squad");
    text_add(out, "  optimizer: {name: %s, clip: 1}    # as usual for such a network%s\n",
             bert ? "lamb" : "adamw",
             bert ? ": arXiv 1904.00962; with small batches adamw" : "; lamb, adafactor, ...");
}

static void add_training(struct text *out, const struct new_request *request,
                         const struct measure_network *network, const char *recipe,
                         int64_t global_batch)
{
    text_add(out, "training:\n");
    if (network->image > 32)
        text_add(out, "  dataset: imagenet\n");
    else if (!network->image)
        text_add(out, "  dataset: {train_images: 1000000}    # samples: an example\n");
    else
        text_add(out, "  dataset: {train_images: 50000, validation_images: 10000}    # CIFAR-10\n");
    if (recipe)
        add_recipe(out, request, recipe, global_batch);
    text_add(out, network->image ? "  evaluate_every: 4 epochs\n  phases:" : "  phases:");
    if (recipe)
        text_add(out, "\n    - {batch_per_device: %d}\n", request->batch);
    else
        text_add(out,
                 "    # epochs are yours to decide: a larger global batch needs more of them\n"
                 "    - {epochs: %d, batch_per_device: %d}\n",
                 network->image ? 90 : 1, request->batch);
    if (!network->image && !network_is_file(network->name))
        add_optimizer(out, network->name);
}

static void add_cluster(struct text *out, const struct new_request *request,
                        const struct software *software)
{
    AUTOFREE char *platform = new_reference(request, request->platform);
    text_add(out, "cluster:\n  platform: ");
    field_write_text(out, platform);
    text_add(out, "\n  nodes: %d\n", request->nodes);
    if (request->shared)
        text_add(out, "  placement: {one_of: [contiguous, scattered]}    # which nodes it gets\n");
    if (!software)
        return;
    text_add(out, "  software: ");
    if (request->software) {
        AUTOFREE char *name = new_reference(request, request->software);
        field_write_text(out, name);
    } else if (strcmp(software->name, any_software))
        text_add(out, "{one_of: [%s, %s]}", software->name, any_software);
    else
        text_add(out, "%s", any_software);
    text_add(out, "    # how fast kernels are; foretrain list software\n");
}

static void add_exchange(struct text *out, const char *algorithm, const struct software *software,
                         int64_t bytes)
{
    text_add(out, "allreduce:\n  algorithm: %s    # foretrain list algorithms\n", algorithm);
    if (!software) {
        text_add(out, "  bucket: 16 MiB\n  overlap: backward\n");
        return;
    }
    if (software->groups > 1)
        text_add(out, "  bucket: %lld B\n", (long long)(bytes / software->groups + 1));
    text_add(out, "  overlap: %s    # under %s, which makes %lld all-reduce%s a step\n",
             software->overlap == OVERLAP_NONE ? "none" : "backward", software->name,
             (long long)software->groups, base_plural(software->groups));
}

static int add_job(const struct new_request *request, const struct platform *platform,
                   const struct measure_network *network, const struct software *software,
                   struct text *out, struct err *err)
{
    int32_t devices = platform_devices_per_node(platform);
    struct grid grid = grid_nearest_square(request->nodes * devices);
    const char *recipe = request->target
                             ? find_recipe(request->target, network->name, request->software, err)
                             : NULL;
    if (request->shared && !platform_sharing(platform).nodes)
        return err_add_code(err, 64, "--shared has no effect: no nodes of %s share uplinks",
                            platform_name(platform));
    if (platform_check_extent(platform, request->nodes, devices, grid, err) ||
        (request->target && !recipe))
        return -1;
    struct model *model =
        network_open(NULL, network->name, network->image, network->classes, NULL, err);
    if (!model)
        return -1;
    const struct device *device = platform_device(platform);
    int64_t bytes = model_parameters(model) * dtype_size(gradients_for(device, software));
    model_free(model);
    AUTORELEASE(err) struct err lacking = {0};
    bool nccl = !platform_check_nccl(platform, &lacking);
    const char *algorithm = nccl ? "nccl" : platform_nodes(platform) ? "ring" : "torus2d";
    text_add(out,
             "# A training job, written by foretrain new job; man 5 foretrain-scenario has all "
             "keys.\nversion: 1\n");
    add_model(out, request, network, device, software);
    add_cluster(out, request, software);
    add_training(out, request, network, recipe, (int64_t)request->batch * request->nodes * devices);
    if (software && network->image > 32 && software_startup(software, request->nodes) > 0)
        text_add(out,
                 "  startup: %.3g s    # beyond steps and evaluations; assumed as on one node, the "
                 "first reading of the images shared by the nodes\n",
                 software_startup(software, request->nodes));
    add_exchange(out, algorithm, software, bytes);
    if (network->image > 32)
        text_add(out,
                 "# input: {workers: 16, rate: 130 images/s}    # of each device: example values; "
                 "without input, images are always ready\n");
    return 0;
}

/* That of the request, else the newest for the device, else what any GPU may run.
 * @return 0, with *@software NULL for other devices, or -1. */
static int find_software(const struct new_request *request, const struct platform *platform,
                         struct software **software, struct err *err)
{
    const struct device *device = platform_device(platform);
    AUTOFREE char *name =
        request->software ? base_copy(request->software) : platform_newest_software(device->name);
    if (!name && device->compute_capability)
        name = base_copy(any_software);
    *software = name ? software_read(NULL, name, err) : NULL;
    return name && (!*software || software_check_device(*software, device, err)) ? -1 : 0;
}

int new_job(const struct new_request *request, struct text *out, struct err *err)
{
    if (!request->platform || request->nodes < 1 || request->batch < 1)
        return err_add_code(err, 64,
                            "a job needs --platform NAME and --nodes N, as in: foretrain new job "
                            "--platform dgx-h100 --nodes 16");
    AUTORELEASE(measure_list) struct measure_list list = {0};
    AUTORELEASE(platform) struct platform *platform = NULL;
    int failed = measure_list_read(&list, request->network, NULL, err);
    if (!failed)
        platform = platform_read(request->platform, err);
    struct software *software = NULL;
    failed = failed || !platform || find_software(request, platform, &software, err) ||
             add_job(request, platform, &list.network[0], software, out, err);
    software_free(software);
    return failed ? -1 : 0;
}
