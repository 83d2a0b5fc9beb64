#include "core/job/grid_choice.h"

#include <assert.h>

#include "core/backend/analytic.h"

/* Of one all-reduce by the closed form. */
static double seconds_on(const struct grid_question *q, struct fabric *fabric, struct grid grid)
{
    struct err err = {0};
    AUTORELEASE(trace) struct trace trace = {0};
    struct run run = {.fabric = fabric, .device = platform_device(q->platform), .iterations = 1};
    struct schedule *schedule = schedule_new(grid);
    schedule->column_algorithm = q->column_algorithm;
    schedule_add_all_reduce(schedule, ALGORITHM_TORUS2D, 0, 0, q->bytes, -1);
    int failed =
        schedule_seal(schedule, &err) || backend_analytic.run(&run, schedule, &trace, &err);
    assert(!failed);
    (void)failed;
    double seconds = trace_step_time(&trace);
    schedule_free(schedule);
    return seconds;
}

/* Negative: the platform has no such nodes. */
static double grid_seconds(const struct grid_question *q, struct grid grid)
{
    const int64_t parts[] = {q->nodes, q->devices_per_node, q->order, q->column_algorithm,
                             q->bytes, grid.columns,        grid.rows};
    uint64_t what = base_hash(platform_hash(q->platform), parts, sizeof(parts));
    double seconds;
    if (memory_find(q->memory, what, &seconds))
        return seconds;
    AUTORELEASE(err) struct err err = {0};
    struct fabric *fabric = platform_fabric(q->platform, q->nodes, q->devices_per_node, grid, &err);
    if (!fabric)
        return -1;
    fabric_set_order(fabric, grid, q->order);
    seconds = seconds_on(q, fabric, grid);
    memory_keep(q->memory, what, seconds);
    fabric_free(fabric);
    return seconds;
}

struct grid_choice grid_choose(const struct grid_question *q)
{
    bool rows = q->order == RANK_ORDER_ROW;
    struct grid_choice square = {.grid = grid_nearest_square(q->nodes * q->devices_per_node),
                                 .why = "nearest to a square"};
    struct grid_choice node = {
        .grid = {rows ? q->devices_per_node : q->nodes, rows ? q->nodes : q->devices_per_node},
        .why = rows ? "a row is a node" : "a column is a node"};
    if (q->column_algorithm == ALGORITHM_NCCL)
        return node;
    if (!platform_nodes(q->platform) || q->devices_per_node == 1)
        return square;
    if (node.grid.columns == square.grid.columns)
        return node;
    node.seconds = square.other_seconds = grid_seconds(q, node.grid);
    square.seconds = node.other_seconds = grid_seconds(q, square.grid);
    node.other = square.grid;
    if (node.seconds < 0)
        return (struct grid_choice){.grid = square.grid, .why = square.why};
    square.other = node.grid;
    return node.seconds <= square.seconds ? node : square;
}

char *grid_choice_text(const struct grid_choice *choice)
{
    struct text text = {0};
    text_add(&text, "grid %d x %d: %s", choice->grid.columns, choice->grid.rows, choice->why);
    if (choice->other.columns)
        text_add(&text, "; %d x %d takes %.3g times as long", choice->other.columns,
                 choice->other.rows, choice->other_seconds / choice->seconds);
    return text.data;
}
