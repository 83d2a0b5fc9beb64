#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/job/job.h"
#include "app/train/train_answers.h"
#include "core/schedule/iteration.h"
#include "exec/world/world.h"

struct exec_collective_request {
    struct request head;
    struct exchange_options exchange;
    const char *grid, *bytes;
    int32_t group; /* ranks in a node; 0: one */
};

/* Only rank 0 has @rows. */
static int time_size(const struct exec_collective_request *request, struct grid grid, int64_t bytes,
                     struct json *rows, struct err *err)
{
    struct all_reduce how = {.algorithm = (enum algorithm)request->exchange.algorithm};
    if (chunk_read(&how.chunk, request->exchange.chunk, err))
        return -1;
    struct schedule *schedule =
        iteration_build_all_reduce(how, grid, request->group ? request->group : 1, bytes, err);
    if (!schedule)
        return -1;
    AUTOFREE struct timing_sample *sample =
        base_alloc((int64_t)TIMING_BOUND * request->exchange.repeats, sizeof(*sample));
    int32_t count = timing_run(schedule, (enum dtype)request->exchange.gradients,
                               request->exchange.repeats, sample, err);
    if (count >= 0 && rows) {
        struct json *row = json_append_object(rows);
        json_put_integer(row, "bytes", bytes);
        json_put(row, "samples", answer_list(&sample_columns, sample, count));
    }
    schedule_free(schedule);
    return count < 0 ? -1 : 0;
}

static int check(const struct exec_collective_request *request, struct grid *grid,
                 struct sizes *sizes, struct err *err)
{
    *grid = grid_nearest_square(world_self().ranks);
    if (request->exchange.algorithm == ALGORITHM_NCCL)
        return err_add_code(err, 69,
                            "algorithm nccl is a model of NCCL, for predictions; exec "
                            "exchanges over MPI: use ring or another");
    if (request->grid && grid_parse("--grid", request->grid, grid, err))
        return -1;
    return sizes_read(sizes, request->bytes ? request->bytes : "100MB", err);
}

static int collective(const void *record, struct text *out, struct err *err)
{
    const struct exec_collective_request *request = record;
    struct grid grid;
    AUTORELEASE(sizes) struct sizes sizes = {0};
    struct json *rows = world_self().rank ? NULL : json_new_array();
    int failed = check(request, &grid, &sizes, err);
    for (int32_t i = 0; i < sizes.count && !failed; i++)
        failed = time_size(request, grid, sizes.item[i], rows, err);
    if (rows) {
        AUTORELEASE(json) struct json *json = json_new_object();
        json_put_text(json, "schema", "foretrain/exec-collective/1");
        json_put_text(json, "algorithm", algorithm_names[request->exchange.algorithm]);
        json_put_text(json, "gradients", dtype_names[request->exchange.gradients]);
        json_put_integer(json, "columns", grid.columns);
        json_put_integer(json, "rows", grid.rows);
        json_put(json, "sizes", rows);
        if (!failed)
            json_print(out, json);
    }
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct exec_collective_request, member)

static const struct option options[] = {
    ROW_GRID(AT(grid)),
    ROW_ALGORITHM(AT(exchange.algorithm)),
    ROW_CHUNK(AT(exchange.chunk)),
    ROW_BYTES(AT(bytes)),
    OPTION_ROW("group", 0, OPTION_INTEGER, AT(group), "N", NULL,
               "Ranks in a node, for hierarchical (default: 1)"),
    ROW_GRADIENTS(AT(exchange.gradients)),
    ROW_REPEATS(AT(exchange.repeats)),
    ROW_LAST};

static const struct exec_collective_request defaults = {.exchange = {EXCHANGE_DEFAULTS}};

const struct command exec_collective = {
    .name = "collective",
    .synopsis = "[--grid CxR] [options]",
    .help = "time all-reduces and print one JSON object with every run",
    .examples = "mpirun -n 4 foretrain-exec collective --grid 2x2 --algorithm torus2d --bytes 8MB",
    RECORD(options, struct exec_collective_request, &defaults),
    .run = collective,
};
