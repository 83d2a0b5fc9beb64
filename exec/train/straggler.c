#include "exec/train/train_loop.h"

#include "exec/world/world.h"

static const double shortest = 1, longest = 10, share = 0.2; /* [s], [s], of the time */

static struct straggling find(const struct straggler *straggler, int32_t ranks)
{
    struct straggling found = {.rank = 0, .seconds = straggler->seconds};
    double sum = 0;
    for (int32_t rank = 0; rank < ranks; rank++) {
        sum += straggler->wait[rank];
        if (straggler->wait[rank] < straggler->wait[found.rank])
            found.rank = rank;
    }
    double own = straggler->wait[found.rank];
    found.wait_s = (sum - own) / (ranks - 1) - own;
    if (found.wait_s < shortest || found.wait_s < share * straggler->seconds)
        found.rank = -1;
    return found;
}

struct straggling straggler_add(struct straggler *straggler, double wait_s, double seconds)
{
    struct exec_world world = world_self();
    if (world.ranks == 1)
        return (struct straggling){.rank = -1};
    int32_t count = world.ranks + 1;
    AUTOFREE double *now = base_alloc(count, sizeof(*now));
    now[world.rank] = wait_s;
    now[world.ranks] = seconds / world.ranks;
    world_sum(now, count);
    if (!straggler->wait)
        straggler->wait = base_alloc(world.ranks, sizeof(*straggler->wait));
    for (int32_t rank = 0; rank < world.ranks; rank++)
        straggler->wait[rank] += now[rank];
    straggler->seconds += now[world.ranks];
    struct straggling found = find(straggler, world.ranks);
    if (found.rank >= 0 || straggler->seconds > longest)
        straggler_release(straggler);
    return found;
}

void straggler_release(struct straggler *straggler)
{
    free(straggler->wait);
    *straggler = (struct straggler){0};
}
