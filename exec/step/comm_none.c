#include "exec/step/comm_none.h"

#include <stddef.h>

static int check(const struct schedule *schedule, struct err *err)
{
    if (grid_ranks(schedule->grid) == 1)
        return 0;
    return err_add_code(err, 69,
                        "ranks on CPUs exchange gradients over MPI, and this foretrain-exec was "
                        "built without it (libopenmpi-dev): use one rank, -n 1");
}

static struct comm_state *open_none(struct grid grid, int32_t ctas)
{
    return NULL;
}

static void close_none(struct comm_state *state)
{
}

/* The sum over one rank is its own data. */
static void issue(struct comm_state *state, struct stream *stream, enum axis axis,
                  const struct collective *collective, enum dtype payload, void *data)
{
}

static int64_t messages(struct comm_state *state)
{
    return 0;
}

const struct comm_ops comm_none_ops = {.name = "none",
                                       .check = check,
                                       .open = open_none,
                                       .close = close_none,
                                       .issue = issue,
                                       .messages = messages};
