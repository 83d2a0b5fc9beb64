#include "core/schedule/schedule.h"

#include <assert.h>
#include <inttypes.h>

static void print_what(struct text *out, const struct step *step)
{
    switch (step->kind) {
    case STEP_COMPUTE:
        text_add(out, "%s %s, %" PRId64 " FLOP, %" PRId64 " B, %" PRId32 " kernels",
                 compute_op_names[step->compute.op], dtype_names[step->compute.dtype],
                 step->compute.flops, step->compute.bytes, step->compute.kernels);
        if (step->compute.exchanges)
            text_add(out, ", %" PRId32 " exchanges", step->compute.exchanges);
        break;
    case STEP_COLLECTIVE:
        text_add(out, "%s %s, %s, %" PRId64 " B", axis_name(step->collective.axis),
                 collective_op_name(step->collective.op),
                 algorithm_names[step->collective.algorithm], step->collective.bytes);
        if (step->collective.channels > 1)
            text_add(out, " over %" PRId32 " rings", step->collective.channels);
        if (step->collective.chunks > 1)
            text_add(out, " in %" PRId32 " chunks", step->collective.chunks);
        break;
    default:
        text_add(out, "%" PRId32 " images, %" PRId64 " B", step->input.images, step->input.bytes);
    }
}

static void print_deps(struct text *out, const struct schedule *schedule, const struct step *step)
{
    for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
        struct dep dep = schedule->dep[i];
        text_add(out, "%s%" PRId32, i == step->dep_begin ? " <- " : ", ", dep.step);
        if (dep.distance > 0)
            text_add(out, "@-%" PRId32, dep.distance);
    }
}

void schedule_print(struct text *out, const struct schedule *schedule)
{
    assert(schedule->sealed);
    text_add(out,
             "schedule %016" PRIx64 ": %" PRId32 " steps, grid of %" PRId32 " columns x %" PRId32
             " rows\n",
             schedule_hash(schedule), schedule->step_count, schedule->grid.columns,
             schedule->grid.rows);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        text_add(out, "%4" PRId32 "  %-10s  %-10s  %-40s  ", id,
                 schedule_lane(schedule, step->lane), step_kind_names[step->kind], step->name);
        print_what(out, step);
        print_deps(out, schedule, step);
        text_add(out, "\n");
    }
}

static struct json *deps_json(const struct schedule *schedule, const struct step *step)
{
    struct json *list = json_new_array();
    for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
        struct json *json = json_append_object(list);
        json_put_integer(json, "step", schedule->dep[i].step);
        json_put_integer(json, "iterations_ago", schedule->dep[i].distance);
    }
    return list;
}

static void put_compute(struct json *json, const struct step *step)
{
    json_put_text(json, "op", compute_op_names[step->compute.op]);
    json_put_text(json, "precision", dtype_names[step->compute.dtype]);
    json_put_integer(json, "flop", step->compute.flops);
    json_put_integer(json, "bytes", step->compute.bytes);
    json_put_integer(json, "kernels", step->compute.kernels);
    json_put_integer(json, "exchanges", step->compute.exchanges);
}

static void put_collective(struct json *json, const struct step *step)
{
    json_put_text(json, "op", collective_op_name(step->collective.op));
    json_put_text(json, "content", content_names[step->collective.content]);
    json_put_text(json, "axis", axis_name(step->collective.axis));
    json_put_text(json, "algorithm", algorithm_names[step->collective.algorithm]);
    json_put_integer(json, "bucket", step->collective.bucket);
    json_put_integer(json, "bytes", step->collective.bytes);
    json_put_integer(json, "channels", step->collective.channels ? step->collective.channels : 1);
    json_put_integer(json, "chunks", step->collective.chunks ? step->collective.chunks : 1);
}

static struct json *step_json(const struct schedule *schedule, int32_t id)
{
    const struct step *step = &schedule->step[id];
    struct json *json = json_new_object();
    json_put_integer(json, "id", id);
    json_put_text(json, "name", step->name);
    json_put_text(json, "lane", schedule_lane(schedule, step->lane));
    json_put_text(json, "kind", step_kind_names[step->kind]);
    if (step->kind == STEP_COMPUTE)
        put_compute(json, step);
    if (step->kind == STEP_COLLECTIVE)
        put_collective(json, step);
    if (step->kind == STEP_INPUT) {
        json_put_integer(json, "images", step->input.images);
        json_put_integer(json, "bytes", step->input.bytes);
    }
    json_put(json, "after", deps_json(schedule, step));
    return json;
}

struct json *schedule_json(const struct schedule *schedule)
{
    struct json *json = json_new_object(), *grid = json_new_object(), *steps = json_new_array();
    AUTOFREE char *hash = base_format("%016" PRIx64, schedule_hash(schedule));
    for (int32_t id = 0; id < schedule->step_count; id++)
        json_append(steps, step_json(schedule, id));
    json_put_integer(grid, "columns", schedule->grid.columns);
    json_put_integer(grid, "rows", schedule->grid.rows);
    json_put_text(json, "schema", "foretrain/schedule/1");
    json_put_text(json, "schedule_hash", hash);
    json_put(json, "grid", grid);
    json_put(json, "steps", steps);
    return json;
}
