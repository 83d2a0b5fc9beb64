#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/measure_list.h"
#include "app/new/new.h"
#include "core/base/unit.h"
#include "core/convergence/convergence.h"
#include "core/platform/platform.h"

static void add_model(struct text *out, const struct measure_network *network, bool fp16)
{
    bool imagenet = network->image > 32;
    const char *type = fp16 ? "fp16" : "fp32";
    text_add(out, "model:\n  network: %s    # foretrain list networks\n", network->name);
    if (imagenet)
        text_add(out, "  image: %d\n", network->image);
    else
        text_add(out, "  image: %d\n  classes: %d\n", network->image, network->classes);
    text_add(out, "  precision: {compute: %s, gradients: %s}\n", type, type);
}

/* The first recipe of @network that ended at the accuracy @text, or NULL with a message. */
static const char *find_recipe(const char *text, const char *network, struct err *err)
{
    if (strcmp(network, "resnet50")) {
        err_add_code(
            err, 64,
            "--target %s: published runs are of resnet50, not %s; give the epochs of yours, "
            "or its points (training.recipe.points)",
            text, network);
        return NULL;
    }
    struct err why = {0};
    double target = 0;
    if (unit_parse(UNIT_FRACTION, text, &target, &why)) {
        err_add_code(err, 64, "--target: %.*s", (int)strcspn(why.text, "\n"), why.text);
        err_release(&why);
        return NULL;
    }
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++)
        if (fabs(row->target - target) < 1e-9)
            return row->recipe;
    err_add_code(err, 64,
                 "--target %s: no published runs ended there; foretrain show convergence lists "
                 "those there are, and training.recipe.points takes points of your own",
                 text);
    return NULL;
}

static void add_training(struct text *out, const struct measure_network *network, int32_t batch,
                         const char *target, const char *recipe)
{
    text_add(out, "training:\n");
    if (network->image > 32)
        text_add(out, "  dataset: imagenet\n");
    else
        text_add(out, "  dataset: {train_images: 50000, validation_images: 10000}    # CIFAR-10\n");
    if (recipe) {
        text_add(out, "  target: ");
        new_add_text(out, target);
        text_add(out,
                 "\n  recipe: %s    # says how many epochs it takes; foretrain show convergence\n"
                 "  evaluate_every: 4 epochs\n"
                 "  phases:\n    - {batch_per_device: %d}\n",
                 recipe, batch);
        return;
    }
    text_add(out,
             "  phases:    # epochs are yours to decide: a larger global batch needs more of them\n"
             "    - {epochs: 90, batch_per_device: %d}\n",
             batch);
}

static int add_job(const struct new_request *request, const struct platform *platform,
                   const struct measure_network *network, struct text *out, struct err *err)
{
    int32_t devices = platform_devices_per_node(platform);
    struct grid grid = grid_nearest_square(request->nodes * devices);
    const char *recipe = request->target ? find_recipe(request->target, network->name, err) : NULL;
    if (platform_check_extent(platform, request->nodes, devices, grid, err) ||
        (request->target && !recipe))
        return -1;
    struct err lacking = {0};
    bool fp16 = platform_device(platform)->peak[DTYPE_FP16].value > 0;
    bool nccl = !platform_check_nccl(platform, &lacking);
    const char *algorithm = nccl ? "nccl" : platform_nodes(platform) ? "ring" : "torus2d";
    err_release(&lacking);
    text_add(out,
             "# A training job, written by foretrain new job; man 5 foretrain-scenario has all "
             "keys.\nversion: 1\n");
    add_model(out, network, fp16);
    text_add(out, "cluster:\n  platform: ");
    char *platform_name = new_reference(request, request->platform);
    new_add_text(out, platform_name);
    free(platform_name);
    text_add(out,
             "\n  nodes: %d\n"
             "  # software: mlperf-v4.0    # foretrain list software\n",
             request->nodes);
    add_training(out, network, request->batch, request->target, recipe);
    text_add(out, "allreduce:\n  algorithm: %s    # foretrain list algorithms\n", algorithm);
    text_add(out, "  bucket: 16 MiB\n  overlap: backward\n");
    return 0;
}

int new_job(const struct new_request *request, struct text *out, struct err *err)
{
    if (!request->platform || request->nodes < 1 || request->batch < 1)
        return err_add_code(err, 64,
                            "a job needs --platform NAME and --nodes N, as in: foretrain new job "
                            "--platform dgx-h100 --nodes 16");
    struct measure_list list = {0};
    struct platform *platform = NULL;
    int failed = measure_list_read(&list, request->network, NULL, err);
    if (!failed)
        platform = platform_read(request->platform, err);
    failed = failed || !platform || add_job(request, platform, &list.network[0], out, err);
    platform_free(platform);
    measure_list_release(&list);
    return failed ? -1 : 0;
}
