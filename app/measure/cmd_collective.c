#include "app/cli/command.h"
#include "app/measure/collective_table.h"
#include "app/predict/task.h"
#include "app/process/child.h"
#include "core/backend/cards.h"
#include "core/backend/nccl_use.h"
#include "core/platform/software.h"
#include "core/schedule/iteration.h"

/* Words of --backend here: those that predict, then the one that measures. */
enum { MEASURE = BACKEND_CHOICE_COUNT, WAYS };

static const char *const way_names[] = {"analytic", "sim", "exec", NULL};
static_assert(ARRAY_SIZE(way_names) == WAYS + 1, "one name per way");

struct collective_request {
    struct request head;
    struct predict_options predict;
    struct exchange_options exchange;
    const char *backends; /* "sim,exec" */
    const char *bytes, *grid, *platform, *software;
    int32_t nodes; /* 0: not given */
};

/* The parsed request. */
struct order {
    const struct collective_request *request;
    struct platform *platform;
    struct software *software; /* or NULL */
    struct sizes sizes;
    int64_t chunk;
    enum backend_choice backend[WAYS]; /* (count); MEASURE among them */
    int32_t count;
    bool measures;
};

/* The answers of one back end. */
struct answers {
    struct task *task;         /* (sizes) */
    struct measured *measured; /* (sizes), of MEASURE */
};

/* --- what is asked for --- */

static int add_way(struct order *order, const char *word, struct err *err)
{
    int32_t way = base_find_word(word, way_names);
    if (way < 0)
        return option_unknown(err, "back end", word, way_names);
    for (int32_t k = 0; k < order->count; k++)
        if ((int32_t)order->backend[k] == way)
            return err_usage(err, "--backend: %s is given twice", word);
    order->backend[order->count++] = (enum backend_choice)way;
    order->measures |= way == MEASURE;
    return 0;
}

static int read_ways(struct order *order, struct err *err)
{
    const char *given = order->request->backends;
    if (!given) {
        char *warning;
        order->backend[order->count++] = task_backend(&order->request->predict, &warning);
        if (warning)
            fprintf(stderr, "warning: %s\n", warning);
        free(warning);
        return 0;
    }
    char *copy = base_copy(given), *rest = copy;
    int failed = 0;
    for (char *word; !failed && (word = strsep(&rest, ","));)
        failed = add_way(order, word, err);
    free(copy);
    return failed;
}

static int read_platform(struct order *order, struct err *err)
{
    bool predicts = order->count > order->measures;
    if (order->measures && !launch_has_mpi)
        return err_add_code(err, 69,
                            "back end exec: ranks exchange over MPI, without which this foretrain "
                            "was built (libopenmpi-dev)");
    if (!order->request->platform && predicts)
        return err_usage(err, "--platform is needed; 'foretrain env' says where they are");
    if (!order->request->platform)
        return 0;
    order->platform = platform_read_for(order->request->platform, order->request->nodes, err);
    return order->platform ? 0 : -1;
}

static int read_order(struct order *order, struct err *err)
{
    const struct collective_request *request = order->request;
    if (sizes_read(&order->sizes, request->bytes ? request->bytes : "100MB", err) ||
        chunk_read(&order->chunk, request->exchange.chunk, err) || read_ways(order, err))
        return -1;
    bool nccl = request->exchange.algorithm == ALGORITHM_NCCL;
    if (request->software && !nccl)
        return err_usage(err, "--software says the version of NCCL: it needs --algorithm nccl");
    if (request->software && !(order->software = software_read(NULL, request->software, err)))
        return -1;
    if (order->measures && nccl)
        return err_usage(
            err,
            "algorithm nccl is a model of NCCL and cannot be measured here; use ring or another");
    if (order->measures && request->exchange.channels)
        return err_add_code(
            err, 69,
            "several rings side by side are for predictions; ranks on CPUs run one: --channels=1");
    if (!order->measures && request->exchange.gradients)
        return err_usage(err, "--gradients has no effect without exec in --backend");
    if (order->measures && request->exchange.repeats > REPEATS_MOST)
        return err_usage(err, "--repeats: expected 1 to %d", REPEATS_MOST);
    return read_platform(order, err);
}

/* --- one back end --- */

static struct all_reduce how_of(const struct order *order)
{
    return (struct all_reduce){(enum algorithm)order->request->exchange.algorithm,
                               order->request->exchange.channels, order->chunk};
}

/* One grid serves all sizes of a table. */
static int64_t largest(const struct sizes *sizes)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < sizes->count; i++)
        bytes = sizes->item[i] > bytes ? sizes->item[i] : bytes;
    return bytes;
}

static int make_task(struct task *task, const struct order *order, int64_t bytes, struct err *err)
{
    const struct collective_request *request = order->request;
    struct placement placement = {.nodes = request->nodes,
                                  .order = (enum rank_order)request->predict.order,
                                  .chosen_for = largest(&order->sizes),
                                  .memory = request->predict.memory};
    if (request->grid && grid_parse("--grid", request->grid, &placement.grid, err))
        return -1;
    if (point_collective(&task->point, order->platform, placement, how_of(order), bytes, err))
        return -1;
    if (order->software && order->software->nccl && task->point.fabric->nccl.version)
        task->point.fabric->nccl.version = (int32_t)order->software->nccl;
    task->point.run.iterations = 1;
    task->what = base_format("an all-reduce of %lld B", (long long)bytes);
    return 0;
}

/* Without a platform: as many ranks as the grid has, on this machine. */
static int make_local_task(struct task *task, const struct order *order, int64_t bytes,
                           struct err *err)
{
    const struct collective_request *request = order->request;
    struct point *point = &task->point;
    if (!request->grid)
        return err_usage(err, "how many ranks? give --grid CxR");
    if (grid_parse("--grid", request->grid, &point->grid, err))
        return -1;
    point->nodes = 1;
    point->devices_per_node = grid_ranks(point->grid);
    point->schedule =
        iteration_build_all_reduce(how_of(order), point->grid, point->devices_per_node, bytes, err);
    return point->schedule ? 0 : -1;
}

static int answer(const struct order *order, int32_t way, struct answers *answers, struct err *err)
{
    int32_t count = order->sizes.count;
    int failed = 0;
    answers->task = base_alloc(count, sizeof(*answers->task));
    for (int32_t i = 0; i < count && !failed; i++)
        failed = order->platform
                     ? make_task(&answers->task[i], order, order->sizes.item[i], err)
                     : make_local_task(&answers->task[i], order, order->sizes.item[i], err);
    if (failed)
        return -1;
    if ((int32_t)order->backend[way] != MEASURE)
        return task_run_all(answers->task, count, order->backend[way], &order->request->predict,
                            err);
    answers->measured = base_alloc(count, sizeof(*answers->measured));
    return measure_collective(&order->request->exchange, &answers->task->point, &order->sizes,
                              answers->measured, err);
}

/* --- the table --- */

static int32_t count_rounds(const struct schedule *schedule)
{
    int32_t rounds = 0;
    for (int32_t i = 0; i < schedule->step_count; i++) {
        struct collective collective = schedule_collective(schedule, i);
        rounds += collective_rounds(&collective);
    }
    return rounds;
}

/* "tree LL128"; NULL for algorithms with rounds. */
static const char *choice(const struct task *task)
{
    struct run run = task->point.run;
    run.fabric = task->point.fabric;
    int32_t way = nccl_way(&run, &task->point.schedule->step[0]);
    return way ? nccl_way_words[way] : NULL;
}

static struct table_row make_row(const struct order *order, int32_t way, int32_t size,
                                 const struct answers *answers)
{
    const struct task *task = &answers->task[size];
    int64_t bytes = order->sizes.item[size];
    struct table_row row = {
        .backend = way_names[order->backend[way]],
        .bytes = bytes,
        .steps = count_rounds(task->point.schedule),
        .choice = choice(task),
    };
    if (answers->measured) {
        row.measured = &answers->measured[size];
        row.grain = measure_in_lab() ? "lab" : "this machine";
        row.time_s = row.measured->time_s;
    } else {
        row.grain = task->quiet->grain;
        row.time_s = trace_step_time(task->quiet);
    }
    return row;
}

static void fill_table(struct table *table, const struct order *order,
                       const struct answers *answers)
{
    const struct collective_request *request = order->request;
    const struct point *point = &answers[0].task->point;
    *table = (struct table){
        .platform = order->request->platform,
        .software = order->software ? order->software->name : NULL,
        .nccl = request->exchange.algorithm == ALGORITHM_NCCL ? point->fabric->nccl.version : 0,
        .algorithm = algorithm_names[request->exchange.algorithm],
        .gradients = order->measures ? dtype_names[request->exchange.gradients] : NULL,
        .converts = order->measures && request->exchange.gradients,
        .judged = order->measures && measure_in_lab(),
        .ranks = grid_ranks(point->grid),
        .choice = &point->choice,
        .why = point->choice.why,
        .order = (enum rank_order)request->predict.order,
        .cards = order->platform ? cards_text(point->fabric, point->schedule, false) : NULL,
        .row = base_alloc((int64_t)order->count * order->sizes.count, sizeof(*table->row)),
    };
    if (grid_matters((enum algorithm)request->exchange.algorithm,
                     (enum rank_order)request->predict.order, order->platform))
        table->grid = point->grid;
    for (int32_t size = 0; size < order->sizes.count; size++)
        for (int32_t way = 0; way < order->count; way++)
            table->row[table->count++] = make_row(order, way, size, &answers[way]);
}

static int report(const struct table *table, const struct collective_request *request,
                  struct text *out, struct err *err)
{
    if (request->head.json)
        answer_print(out, &collective_columns, table);
    else if (!csv_is_answer(&request->head))
        table_print(out, table);
    if (csv_write(&request->head, answer_list(&collective_row_columns, table->row, table->count),
                  NULL, out, err))
        return -1;
    switch (table_verdict(table)) {
    case VERDICT_FAIL:
        return err_add_code(err, 1, "a prediction is off by more than its tolerance");
    case VERDICT_DISTURBED:
        return err_add_code(err, 75,
                            "disturbed: a measurement cannot judge its prediction; try again when "
                            "fewer other programs run");
    default:
        return 0;
    }
}

static int run(const struct order *order, struct text *out, struct err *err)
{
    struct answers answers[WAYS] = {0};
    struct table table = {0};
    int failed = 0;
    for (int32_t i = 0; i < order->count && !failed; i++)
        failed = answer(order, i, &answers[i], err);
    if (!failed) {
        fill_table(&table, order, answers);
        AUTOFREE char *backends =
            order->count > 1 ? base_copy(order->request->backends)
                             : base_format("%s, %s", table.row[0].backend, table.row[0].grain);
        table.backends = backends;
        table_compare(&table);
        failed = report(&table, order->request, out, err);
        table_release(&table);
    }
    for (int32_t i = 0; i < order->count; i++) {
        for (int32_t k = 0; k < order->sizes.count && answers[i].task; k++)
            task_release(&answers[i].task[k]);
        free(answers[i].task);
        free(answers[i].measured);
    }
    return failed ? -1 : 0;
}

static int collective(const void *record, struct text *out, struct err *err)
{
    const struct collective_request *request = record;
    struct order order = {.request = request};
    int failed = read_order(&order, err) || run(&order, out, err);
    platform_free(order.platform);
    software_free(order.software);
    sizes_release(&order.sizes);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct collective_request, member)

static const struct option options[] = {
    ROW_PLATFORM(AT(platform)),
    ROW_GRID(AT(grid)),
    OPTION_ROW("nodes", 'n', OPTION_INTEGER, AT(nodes), "N", NULL,
               "Nodes, when no grid says how many ranks"),
    ROW_ORDER(AT(predict.order), .needs = "platform"),
    ROW_BYTES(AT(bytes)),
    ROW_ALGORITHM(AT(exchange.algorithm)),
    OPTION_ROW("channels", 0, OPTION_WORD, AT(exchange.channels), NULL, channel_names,
               "Rings side by side, each by another device of a node (default: 1)"),
    ROW_CHUNK(AT(exchange.chunk)),
    OPTION_ROW("software", 0, OPTION_TEXT, AT(software), "NAME", NULL,
               "Profile whose version of NCCL counts, as cluster.software (default: NCCL 2.27)"),
    OPTION_ROW("backend", 'b', OPTION_TEXT, AT(backends), "LIST", NULL,
               "analytic, sim (default when installed), exec (really run), or several: sim,exec"),
    ROW_GRADIENTS(AT(exchange.gradients)),
    ROW_REPEATS(AT(exchange.repeats)),
    ROW_GRAIN(AT(predict.grain)),
    ROW_JSON,
    ROW_CSV("the rows"),
    ROW_LAST};

static const struct collective_request defaults = {.predict = {PREDICT_COMMAND},
                                                   .exchange = {EXCHANGE_DEFAULTS}};

const struct command command_collective = {
    .name = "collective",
    .synopsis = "[--platform NAME] (--grid CxR | --nodes N) [options]",
    .help = "time of one all-reduce, with the columns of nccl-tests",
    .examples = "foretrain collective --platform t1-torus --grid 64x64 --algorithm torus2d\n"
                "foretrain collective --platform abci --nodes 272 --bytes 1MB..128MB:x2\n"
                "foretrain collective --grid 2x1 --bytes 8MB --backend exec",
    RECORD(options, struct collective_request, &defaults),
    ANSWERS(&collective_columns),
    .run = collective,
};
