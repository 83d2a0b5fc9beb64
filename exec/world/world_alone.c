/* The control plane of a build without MPI: a job of one process. */

#include "exec/world/plane.h"

struct exec_world plane_start(int *argc, char ***argv)
{
    return (struct exec_world){.ranks = 1, .local_ranks = 1};
}

void plane_stop(void)
{
}

void plane_abort(int code)
{
}

void world_sum(double *value, int32_t count)
{
}

void world_max(int64_t *value, int32_t count)
{
}

void world_broadcast(void *data, int64_t bytes, int32_t root)
{
}

int64_t world_gather(const void *mine, int64_t bytes, void **all)
{
    *all = base_alloc(bytes, 1);
    if (bytes > 0)
        memcpy(*all, mine, (size_t)bytes);
    return bytes;
}

void world_barrier(void)
{
}

void world_heartbeat_start(double timeout_s, const char *advice)
{
}

void world_describe(struct text *out, int32_t rank)
{
    text_add(out, "rank %d of 1", rank);
}

void world_heartbeat_stop(void)
{
}

struct clock_offset clock_compare(void)
{
    return (struct clock_offset){0};
}
