#include <stdlib.h>

#include "exec/world/world.h"
#include "tests/exec/world_exchange.h"

struct exchange_state *exchange_open(void)
{
    return NULL;
}

void exchange_step(struct exchange_state *exchange, int64_t step)
{
    double one = 1;
    (void)exchange;
    world_sum(&one, 1);
    world_at(step, 0);
}

void exchange_close(struct exchange_state *exchange)
{
    (void)exchange;
}
