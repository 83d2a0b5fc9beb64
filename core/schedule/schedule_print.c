#include "core/schedule/schedule.h"

static void print_what(struct text *out, const struct step *step)
{
    switch (step->kind) {
    case STEP_COMPUTE:
        text_add(out, "%s %s, %" PRId64 " FLOP, %" PRId64 " B, %" PRId32 " kernels",
                 compute_op_names[step->compute.op],
                 step->compute.products ? product_names[step->compute.products]
                                        : dtype_names[step->compute.dtype],
                 step->compute.flops, step->compute.bytes, step->compute.kernels);
        if (step->compute.exchanges)
            text_add(out, ", %" PRId32 " exchanges", step->compute.exchanges);
        break;
    case STEP_COLLECTIVE:
        text_add(out, "%s %s, %s, %" PRId64 " B", axis_names[step->collective.axis],
                 collective_op_names[step->collective.op],
                 algorithm_names[step->collective.algorithm], step->collective.bytes);
        if (step->collective.op == COLLECTIVE_SEND)
            text_add(out, " to stage %" PRId32, step->collective.to);
        if (step->collective.channels > 1)
            text_add(out, " over %" PRId32 " rings", step->collective.channels);
        if (step->collective.chunks > 1)
            text_add(out, " in %" PRId32 " chunks", step->collective.chunks);
        break;
    case STEP_REPEAT:
        text_add(out, "%" PRId32 " times what follows step %" PRId32, step->repeat.times,
                 step->repeat.since);
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

/* What people call the lanes; asking for each step would take long. */
static void find_lanes(const struct schedule *schedule, const char *lane[LANE_COUNT])
{
    for (int32_t i = 0; i < LANE_COUNT; i++)
        lane[i] = schedule_lane(schedule, (enum lane)i);
}

void schedule_print(struct text *out, const struct schedule *schedule)
{
    assert(schedule->sealed);
    text_add(out,
             "schedule %016" PRIx64 ": %" PRId32 " steps, grid of %" PRId32 " columns x %" PRId32
             " rows",
             schedule_hash(schedule), schedule->step_count, schedule->grid.columns,
             schedule->grid.rows);
    if (schedule->grid.tensor > 1)
        text_add(out, " x %" PRId32 " parts of layers", schedule->grid.tensor);
    if (schedule->grid.context > 1)
        text_add(out, " x %" PRId32 " parts of sequences", schedule->grid.context);
    if (schedule->grid.expert > 1)
        text_add(out, " (experts in %" PRId32 " parts)", schedule->grid.expert);
    if (schedule->grid.pipeline > 1)
        text_add(out, " x %" PRId32 " stages", schedule->grid.pipeline);
    text_add(out, "\n");
    const char *lane[LANE_COUNT];
    find_lanes(schedule, lane);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (schedule->grid.pipeline > 1)
            text_add(out, "%4" PRId32 "  stage %-4" PRId32, id, step->stage);
        else
            text_add(out, "%4" PRId32, id);
        text_add(out, "  %-10s  %-10s  %-40s  ", schedule_lane(schedule, step->lane),
                 step_kind_names[step->kind], step->name);
        print_what(out, step);
        print_deps(out, schedule, step);
        text_add(out, "\n");
    }
}

/* ---- for programs ---- */

struct shown_step {
    int32_t id;
    const char *name, *lane;
    enum step_kind kind;
    const struct step *staged, *sent;                         /* of a pipeline, else NULL */
    const struct step *compute, *collective, *input, *repeat; /* of its kind, the others NULL */
    const struct dep *dep;                                    /* (deps) */
    int32_t deps;
};

struct shown_schedule {
    uint64_t hash;
    struct grid grid;
    struct shown_step *step; /* (steps) owned */
    int32_t steps;
};

COLUMNS(dep_columns, NULL, struct dep)
{
    COLUMN("step", step, .help = "id of a step that must have ended");
    COLUMN("iterations_ago", distance, .help = "0: of the same iteration");
}

COLUMNS(compute_columns, NULL, struct step)
{
    COLUMN("op", compute.op, .words = compute_op_names, .help = "kind of compute, or collective");
    COLUMN("precision", compute.dtype, .words = dtype_names, .help = "type of the arithmetic");
    COLUMN("flop", compute.flops, .help = "floating-point operations");
    COLUMN("bytes", compute.bytes,
           .help = "memory traffic of a compute step, the full vector of a collective on one rank, "
                   "or the decoded images");
    COLUMN("kernels", compute.kernels, .help = "kernels launched");
    COLUMN("exchanges", compute.exchanges,
           .help = "of batch norm's sums with another device of the node");
}

COLUMNS(collective_columns, NULL, struct step)
{
    COLUMN("op", collective.op, .words = collective_op_names,
           .help = "kind of compute, or collective");
    COLUMN("content", collective.content, .words = content_names,
           .help = "gradients, parameters or norms of a sharded optimizer");
    COLUMN("axis", collective.axis, .words = axis_names, .help = "row, column, world or tensor");
    COLUMN("algorithm", collective.algorithm, .words = algorithm_names,
           .help = "of the collective");
    COLUMN("bucket", collective.bucket, .help = "bucket of gradients, from 0");
    COLUMN("bytes", collective.bytes, .help = "full vector on one rank");
    COLUMN("channels", collective.channels, .zero = true,
           .help = "rings that run side by side; null: one");
    COLUMN("chunks", collective.chunks, .zero = true,
           .help = "chunks in which a tree sends the vector; null: one");
}

COLUMNS(staged_columns, NULL, struct step)
{
    COLUMN("stage", stage, .help = "of a pipeline: whose ranks run it");
}

COLUMNS(sent_columns, NULL, struct step)
{
    COLUMN("to_stage", collective.to, .help = "the stage that receives what is sent");
}

COLUMNS(repeat_columns, NULL, struct step)
{
    COLUMN("since", repeat.since, .help = "the step behind which what it repeats begins");
    COLUMN("times", repeat.times, .help = "how often more that runs");
}

COLUMNS(input_columns, NULL, struct step)
{
    COLUMN("images", input.images, .help = "to decode and copy");
    COLUMN("bytes", input.bytes, .help = "decoded images");
}

COLUMNS(step_columns, NULL, struct shown_step)
{
    COLUMN("id", id, .help = "place in the list, from 0");
    COLUMN("name", name, .help = "what it does");
    COLUMN("lane", lane,
           .help = "compute, row, column or input: steps of a lane run one at a time");
    COLUMN("kind", kind, .words = step_kind_names, .help = "compute, collective, input or repeat");
    COLUMN_OPTIONAL(staged, &staged_columns);
    COLUMN_OPTIONAL(sent, &sent_columns);
    COLUMN_OPTIONAL(compute, &compute_columns);
    COLUMN_OPTIONAL(collective, &collective_columns);
    COLUMN_OPTIONAL(input, &input_columns);
    COLUMN_OPTIONAL(repeat, &repeat_columns);
    COLUMN_ITEMS("after", dep, deps, .table = &dep_columns);
}

SHARED_COLUMNS(schedule_columns, "schedule/2", struct shown_schedule)
{
    COLUMN("schedule_hash", hash, .help = "of the schedule; traces carry the same");
    COLUMN("grid.columns", grid.columns, .help = "ranks in a row");
    COLUMN("grid.rows", grid.rows, .help = "ranks in a column");
    COLUMN_ITEMS("steps", step, steps, .table = &step_columns);
}

static struct shown_step shown(const struct schedule *schedule, const char *const *lane, int32_t id)
{
    const struct step *step = &schedule->step[id];
    return (struct shown_step){
        .id = id,
        .name = step->name,
        .lane = lane[step->lane],
        .kind = step->kind,
        .staged = schedule_stages(schedule) > 1 ? step : NULL,
        .sent = step->lane >= LANE_SEND ? step : NULL,
        .compute = step->kind == STEP_COMPUTE ? step : NULL,
        .collective = step->kind == STEP_COLLECTIVE ? step : NULL,
        .input = step->kind == STEP_INPUT ? step : NULL,
        .repeat = step->kind == STEP_REPEAT ? step : NULL,
        .dep = schedule->dep + step->dep_begin,
        .deps = step->dep_end - step->dep_begin,
    };
}

void schedule_print_json(struct text *out, const struct schedule *schedule)
{
    const char *lane[LANE_COUNT];
    find_lanes(schedule, lane);
    AUTOFREE struct shown_step *step = base_alloc(schedule->step_count, sizeof(*step));
    for (int32_t id = 0; id < schedule->step_count; id++)
        step[id] = shown(schedule, lane, id);
    answer_print(out, &schedule_columns,
                 &(struct shown_schedule){schedule_hash(schedule), schedule->grid, step,
                                          schedule->step_count});
}
