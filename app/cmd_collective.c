#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/task.h"
#include "core/json.h"

enum { SIZE_LIMIT = 1000 /**< of one command: a mistyped factor must not run for hours */ };

/* What --bytes asks for. */
struct sizes {
    int64_t *item; /* (count) [bytes] */
    int32_t count;
    int64_t capacity;
};

static int add_size(struct sizes *sizes, double bytes, struct err *err)
{
    if (bytes < 1.0 || bytes >= 9e18)
        return err_add_code(err, 64, "--bytes: at least 1 B and less than 9 EB");
    if (sizes->count == SIZE_LIMIT)
        return err_add_code(err, 64, "--bytes: more than %d sizes", SIZE_LIMIT);
    sizes->item = base_grow(sizes->item, sizes->count + 1, &sizes->capacity, sizeof(*sizes->item));
    sizes->item[sizes->count++] = llround(bytes);
    return 0;
}

/* "1MB..64MB:x2"; @dots points at the two dots. */
static int add_range(struct sizes *sizes, char *text, char *dots, struct err *err)
{
    double first, last, factor;
    char *colon = strstr(dots, ":x");
    char *end = NULL;
    factor = colon ? strtod(colon + 2, &end) : 0.0;
    if (!colon || *end || !(factor > 1.0))
        return err_add_code(err, 64, "--bytes: expected a range as in 1MB..64MB:x2, got '%s'",
                            text);
    *dots = *colon = '\0';
    if (unit_parse(UNIT_BYTES, text, &first, err) || unit_parse(UNIT_BYTES, dots + 2, &last, err))
        return -1;
    int failed = 0;
    for (double bytes = first; bytes <= last && !failed; bytes *= factor)
        failed = add_size(sizes, bytes, err);
    return failed;
}

static int read_sizes(struct sizes *sizes, const char *text, struct err *err)
{
    char *copy = base_copy(text);
    int failed = 0;
    char *rest = copy;
    for (char *word; !failed && (word = strsep(&rest, ","));) {
        char *dots = strstr(word, "..");
        double bytes;
        if (dots)
            failed = add_range(sizes, word, dots, err);
        else
            failed = unit_parse(UNIT_BYTES, word, &bytes, err) || add_size(sizes, bytes, err);
    }
    if (failed)
        err->exit_code = 64; /* the unit was found wrong, but on the command line */
    free(copy);
    return failed ? -1 : 0;
}

static int make_task(struct task *task, const struct request *request,
                     const struct platform *platform, int64_t bytes, struct err *err)
{
    struct placement placement = {.nodes = request->nodes};
    if (request->grid && grid_parse(request->grid, &placement.grid, err))
        return -1;
    if (point_collective(&task->point, platform, placement, (enum algorithm)request->algorithm,
                         bytes, err))
        return -1;
    task->child.what = base_format("an all-reduce of %lld B", (long long)bytes);
    child_add(&task->child, "--collective=%lldB", (long long)bytes);
    child_add(&task->child, "--platform=%s", request->platform);
    child_add(&task->child, "--algorithm=%s", algorithm_names[request->algorithm]);
    if (request->grid)
        child_add(&task->child, "--grid=%s", request->grid);
    if (request->nodes)
        child_add(&task->child, "--nodes=%d", request->nodes);
    return 0;
}

static int32_t count_rounds(const struct schedule *schedule)
{
    int32_t rounds = 0;
    for (int32_t i = 0; i < schedule->step_count; i++) {
        struct collective collective = schedule_collective(schedule, i);
        rounds += collective_rounds(&collective);
    }
    return rounds;
}

/* "tree LL128"; NULL when the rounds say it all.  The caller frees it. */
static char *choice(const struct task *task, int64_t bytes)
{
    if (task->point.schedule->step[0].collective.algorithm != ALGORITHM_NCCL)
        return NULL;
    struct nccl_choice chosen =
        nccl_choose(&task->point.fabric->nccl, COLLECTIVE_ALL_REDUCE, bytes);
    return base_format("%s %s", nccl_algorithm_name(chosen.algorithm),
                       nccl_protocol_name(chosen.protocol));
}

/* Source: nccl-tests, doc/PERFORMANCE.md: busbw = algbw * 2 (n - 1) / n for all-reduce. */
static double bus_factor(const struct task *task)
{
    double ranks = grid_ranks(task->point.grid);
    return 2.0 * (ranks - 1.0) / ranks;
}

static void print_text(struct text *out, const struct task *task, const struct sizes *sizes,
                       const struct request *request)
{
    struct grid grid = task->point.grid;
    text_add(out, "# all-reduce, %s, %s: %d ranks as %d x %d; %s, %s\n",
             algorithm_names[request->algorithm], request->platform, grid_ranks(grid), grid.columns,
             grid.rows, task->trace->backend, task->trace->grain);
    text_add(out, "# algbw = bytes / time, busbw = algbw * 2(n-1)/n\n");
    text_add(out, "#%12s %14s %12s %12s %7s\n", "bytes", "time", "algbw", "busbw", "steps");
    text_add(out, "#%12s %14s %12s %12s %7s\n", "(B)", "(us)", "(GB/s)", "(GB/s)", "");
    for (int32_t i = 0; i < sizes->count; i++) {
        double time = trace_step_time(task[i].trace);
        double algbw = time > 0.0 ? (double)sizes->item[i] / time : 0.0;
        char *chosen = choice(&task[i], sizes->item[i]);
        text_add(out, "%13lld %14.3f %12.4f %12.4f %7d%s%s\n", (long long)sizes->item[i],
                 1e6 * time, 1e-9 * algbw, 1e-9 * algbw * bus_factor(task),
                 count_rounds(task[i].point.schedule), chosen ? "  " : "", chosen ? chosen : "");
        free(chosen);
    }
}

static void print_json(struct text *out, const struct task *task, const struct sizes *sizes,
                       const struct request *request)
{
    struct json *json = json_new_object();
    json_put_text(json, "schema", "foretrain/collective/1");
    json_put_text(json, "platform", request->platform);
    json_put_text(json, "algorithm", algorithm_names[request->algorithm]);
    json_put_text(json, "backend", task->trace->backend);
    json_put_text(json, "grain", task->trace->grain);
    json_put_integer(json, "ranks", grid_ranks(task->point.grid));
    struct json *grid = json_new_object();
    json_put_integer(grid, "columns", task->point.grid.columns);
    json_put_integer(grid, "rows", task->point.grid.rows);
    json_put(json, "grid", grid);
    struct json *rows = json_new_array();
    for (int32_t i = 0; i < sizes->count; i++) {
        double time = trace_step_time(task[i].trace);
        struct json *row = json_new_object();
        json_put_integer(row, "bytes", sizes->item[i]);
        json_put_real(row, "time_s", time);
        json_put_real(row, "algbw", (double)sizes->item[i] / time);
        json_put_real(row, "busbw", (double)sizes->item[i] / time * bus_factor(task));
        json_put_integer(row, "steps", count_rounds(task[i].point.schedule));
        char *chosen = choice(&task[i], sizes->item[i]);
        if (chosen)
            json_put_text(row, "choice", chosen);
        free(chosen);
        json_append(rows, row);
    }
    json_put(json, "rows", rows);
    json_print(out, json);
    json_free(json);
}

static int run_sizes(const struct request *request, const struct platform *platform,
                     const struct sizes *sizes, struct text *out, struct err *err)
{
    struct task *task = base_alloc(sizes->count, sizeof(*task));
    char *warning;
    enum backend_choice backend = task_backend(request, &warning);
    if (warning)
        fprintf(stderr, "warning: %s\n", warning);
    free(warning);
    int failed = 0;
    for (int32_t i = 0; i < sizes->count && !failed; i++) {
        failed = make_task(&task[i], request, platform, sizes->item[i], err);
        task[i].point.run.iterations = 1;
    }
    if (!failed)
        failed = task_run_all(task, sizes->count, backend, request, err);
    if (!failed && request->json)
        print_json(out, task, sizes, request);
    else if (!failed)
        print_text(out, task, sizes, request);
    for (int32_t i = 0; i < sizes->count; i++)
        task_release(&task[i]);
    free(task);
    return failed;
}

static int collective(const struct request *request, struct text *out, struct err *err)
{
    if (!request->platform)
        return err_add_code(err, 64, "--platform is needed; 'foretrain env' says where they are");
    struct sizes sizes = {0};
    struct platform *platform = NULL;
    int failed = read_sizes(&sizes, request->bytes ? request->bytes : "100MB", err);
    if (!failed)
        platform = platform_read(request->platform, err);
    if (platform)
        failed = run_sizes(request, platform, &sizes, out, err);
    platform_free(platform);
    free(sizes.item);
    return failed;
}

static const struct option *const options[] = {
    &option_platform_row,  &option_grid_row,
    &option_nodes_row,     &option_bytes_row,
    &option_algorithm_row, &option_backend_row,
    &option_grain_row,     &option_json_row,
    &option_help_row,      NULL,
};

const struct command command_collective = {
    .name = "collective",
    .synopsis = "--platform NAME (--grid CxR | --nodes N) [options]",
    .help = "time of one all-reduce, with the columns of nccl-tests",
    .examples = "foretrain collective --platform t1-torus --grid 64x64 --algorithm torus2d\n"
                "foretrain collective --platform abci --nodes 272 --bytes 1MB..128MB:x2",
    .options = options,
    .minimum = 0,
    .maximum = 0,
    .run = collective,
};
