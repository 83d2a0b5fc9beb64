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
    AUTORELEASE(err) struct err err = {0};
    struct fabric *fabric = platform_fabric(q->platform, q->nodes, q->devices_per_node, grid, &err);
    if (!fabric)
        return -1;
    fabric_set_order(fabric, grid, q->order);
    double seconds = seconds_on(q, fabric, grid);
    fabric_free(fabric);
    return seconds;
}

static struct grid_choice choose(const struct grid_question *q)
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

/* Jobs of a sweep, and tasks of a job, ask the same again; the two closed forms are half the cost
 * of a prediction without simulator. */
struct grid_choice grid_choose(const struct grid_question *q)
{
    enum { KEPT = 64 };
    static struct {
        struct grid_question question; /* its platform is not looked at */
        uint64_t platform;
        struct grid_choice choice;
    } kept[KEPT];
    uint64_t platform = platform_hash(q->platform);
    uint64_t place = base_hash(platform, &q->nodes, sizeof(q->nodes));
    place = base_hash(place, &q->bytes, sizeof(q->bytes)) % KEPT;
    const struct grid_question *known = &kept[place].question;
    if (kept[place].platform != platform || known->nodes != q->nodes ||
        known->devices_per_node != q->devices_per_node || known->order != q->order ||
        known->column_algorithm != q->column_algorithm || known->bytes != q->bytes) {
        kept[place].choice = choose(q);
        kept[place].question = *q;
        kept[place].platform = platform;
    }
    return kept[place].choice;
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
