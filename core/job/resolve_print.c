#include "core/job/resolve.h"
#include "core/schedule/pipeline.h"

char *resolved_cut_text(const struct resolved *resolved)
{
    if (resolved->cut == 0)
        return NULL;
    return base_format("%d of %d tensors are larger than a bucket of %lld B and are cut, in %lld "
                       "all-reduces a step; DDP and Horovod never cut one",
                       resolved->cut, resolved->tensors, (long long)resolved->bucket,
                       (long long)resolved->all_reduces);
}

/* What one stage has, in words. */
static char *describe_stage(const struct scenario *scenario, const struct model *model,
                            const struct pipeline *pipeline, int32_t stage, int64_t micros)
{
    struct model *own = pipeline_stage(pipeline, model, stage);
    int32_t layers = 0;
    double flops = 0, all = 0;
    for (int32_t i = 0; i < own->layer_count; i++)
        layers += own->layer[i].input_count > 0;
    for (enum pass pass = 0; pass < PASS_COUNT; pass++) {
        flops += (double)model_flops(own, pass);
        all += (double)model_flops(model, pass);
    }
    char *text = base_format(
        "%d layers, %.4g parameters, %.3g %% of FLOP, values of up to %lld micro-batches%s", layers,
        (double)model_parameters(own), 100 * flops / all,
        (long long)pipeline_in_flight(pipeline, (enum pipeline_order)scenario->parallel.schedule,
                                      stage, micros),
        pipeline->chunks > 1 ? " of a chunk" : "");
    model_free(own);
    return text;
}

char *resolved_stages(const struct scenario *scenario, const struct model *model, int64_t micros)
{
    AUTORELEASE(pipeline) struct pipeline pipeline = {0};
    AUTORELEASE(err) struct err err = {0};
    struct text text = {0};
    char *before = NULL;
    if (scenario->parallel.pipeline < 2 || pipeline_build(&pipeline, model, scenario, &err))
        return NULL;
    for (int32_t s = 0, first = 0; s <= pipeline.stages; s++) {
        char *here =
            s < pipeline.stages ? describe_stage(scenario, model, &pipeline, s, micros) : NULL;
        bool ends = before && (!here || strcmp(here, before) != 0);
        AUTOFREE char *name = ends && first < s - 1 ? base_format("stages %d-%d", first, s - 1)
                                                    : base_format("stage %d", first);
        if (ends)
            text_add(&text, "%-12s %s\n", name, before);
        first = ends ? s : first;
        free(before);
        before = here;
    }
    return text.data;
}

static void print_extent(struct text *out, const char *name, struct extent extent, bool grid)
{
    int64_t devices = extent_devices(extent);
    text_add(out, "%-10s %lld device%s in %d node%s of %d", name, (long long)devices,
             base_plural(devices), extent.nodes, base_plural(extent.nodes),
             extent.devices_per_node);
    if (grid)
        text_add(out, ", grid of %d column%s x %d row%s", extent.grid.columns,
                 base_plural(extent.grid.columns), extent.grid.rows, base_plural(extent.grid.rows));
    if (extent.grid.tensor > 1)
        text_add(out, ", %d of which share each layer", extent.grid.tensor);
    if (extent.grid.context > 1)
        text_add(out, ", %d of which share each sequence", extent.grid.context);
    if (extent.grid.expert > 1)
        text_add(out, ", %d of which share experts", extent.grid.expert);
    if (extent.grid.pipeline > 1)
        text_add(out, ", in %d stages", extent.grid.pipeline);
    text_add(out, "\n");
}

void resolved_print(struct text *out, const struct resolved *resolved, bool grid)
{
    print_extent(out, "cluster", resolved->cluster, grid);
    print_extent(out, "baseline", resolved->baseline, grid);
    if (resolved->choice.why) {
        AUTOFREE char *why = grid_choice_text(&resolved->choice);
        text_add(out, "%-10s %s\n", "grid", why);
    }
    if (grid)
        text_add(out, "%-10s ranks fill nodes along the %s\n", "order",
                 resolved->order == RANK_ORDER_ROW ? "rows" : "columns");
    text_add(out, "%s", resolved->stages ? resolved->stages : "");
    text_add(out, "%-10s %s", "all-reduce", algorithm_names[resolved->algorithm]);
    if (resolved->algorithm == ALGORITHM_TORUS2D)
        text_add(out, ", %s in columns", algorithm_names[resolved->column_algorithm]);
    if (resolved->algorithm == ALGORITHM_RING)
        text_add(out, " over %d channel%s", resolved->channels, resolved->channels > 1 ? "s" : "");
    text_add(out, ", at most %lld B at a time\n", (long long)resolved->bucket);
    text_add(out, "%-10s %s, %s of state", "optimizer", resolved->optimizer,
             unit_text(UNIT_BYTES, (double)resolved->state));
    if (resolved->shards > 1)
        text_add(out, ", sharded over %d devices%s", resolved->shards,
                 resolved->sharding == 3   ? " with gradients and weights"
                 : resolved->sharding == 2 ? " with gradients"
                                           : "");
    text_add(out, "\n");
    AUTOFREE char *cut = resolved_cut_text(resolved);
    if (cut)
        text_add(out, "%-10s %s\n", "bucket", cut);
    for (int32_t i = 0; i < resolved->plan.phase_count; i++) {
        const struct phase *phase = &resolved->plan.phase[i];
        text_add(out,
                 "phase %-4d %g epochs, %lld steps of %lld %s: %lld times %lld, %lld at once\n",
                 i + 1, phase->epochs, (long long)phase->steps, (long long)phase->global_batch,
                 resolved->inputs, (long long)(phase->global_batch / phase->batch_per_device),
                 (long long)phase->batch_per_device, (long long)phase->micro_batch);
        if (phase->devices != extent_devices(resolved->cluster))
            print_extent(out, "", resolved->phase[i], grid);
        if (phase->need.epochs > 0)
            text_add(
                out,
                "%-10s the target takes %.4g epochs with this batch alone, %.3g more or less\n", "",
                phase->need.epochs, phase->need.spread);
    }
    text_add(out, "%-10s at most %lld %s at once fit a device\n", "memory",
             (long long)resolved->most_images, resolved->inputs);
    text_add(out, "%-10s %s\n", "software",
             resolved->software ? resolved->software : "the device's");
    text_add(out, "%-10s compute varies by %g %%; %g %% of devices are %g %% slower\n", "noise",
             100 * resolved->noise.compute_cv, 100 * resolved->noise.straggler_fraction,
             100 * resolved->noise.straggler_slowdown);
}
