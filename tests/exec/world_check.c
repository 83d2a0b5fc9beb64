/** @file
 * What ranks tell each other beside gradients, and what happens when one of them does not answer.
 *
 * Usage: world_check calls
 *        world_check abort|patient|hang|busy TIMEOUT RANK
 *
 * calls: every call gives what its header says.  The others do steps of an exchange each under
 * heartbeats of TIMEOUT seconds; in step 5 RANK ends the job with exit code 70, takes twice TIMEOUT
 * but says that it goes on, sleeps for good, or holds the lock of world_lock() for good.  Only
 * "patient" ends well.
 */

#include "tests/exec/ranks.h"
#include "tests/exec/world_exchange.h"
#include "tests/own.h"

static void check_numbers(struct exec_world self)
{
    double sum[2] = {self.rank + 1, 0.5};
    int64_t most[3] = {self.rank, -self.rank, INT64_C(1) << 40};
    int32_t n = self.ranks;
    world_sum(sum, 2);
    check(sum[0] == n * (n + 1) / 2.0 && sum[1] == n * 0.5, "sums");
    world_max(most, 3);
    check(most[0] == n - 1 && most[1] == 0 && most[2] == INT64_C(1) << 40, "maxima");
}

static void check_broadcast(struct exec_world self, int64_t bytes, int32_t root)
{
    AUTOFREE char *data = base_alloc(bytes + 1, 1);
    int64_t wrong = 0;
    for (int64_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 7 + self.rank);
    data[bytes] = 'x';
    world_broadcast(data, bytes, root);
    for (int64_t i = 0; i < bytes; i++)
        wrong += data[i] != (char)(i * 7 + root);
    check(wrong == 0 && data[bytes] == 'x', "a broadcast");
}

/* Rank r has 1000 r bytes, so rank 0 has none, each with the value r. */
static void check_gather(struct exec_world self)
{
    void *all;
    int64_t mine = 1000 * (int64_t)self.rank, wrong = 0, at = 0;
    AUTOFREE char *data = base_alloc(mine, 1);
    memset(data, self.rank, (size_t)mine);
    int64_t total = world_gather(data, mine, &all);
    check(total == (self.rank ? 0 : 500 * (int64_t)self.ranks * (self.ranks - 1)), "gathered size");
    check((all != NULL) == (self.rank == 0), "rank 0 alone gathers");
    for (int32_t rank = 0; self.rank == 0 && rank < self.ranks; rank++)
        for (int64_t i = 0; i < 1000 * (int64_t)rank; i++)
            wrong += ((const char *)all)[at++] != rank;
    check(wrong == 0, "gathered bytes stand in the order of ranks");
    free(all);
}

static void check_progress(void)
{
    struct liveness before = world_last_progress();
    world_at(12, 3);
    world_progress("this test");
    struct liveness after = world_last_progress();
    check(after.count == before.count + 2 && after.step == 12 && after.bucket == 3, "progress");
    check(strcmp(after.what, "this test") == 0 && after.age_s >= 0 && !after.waiting, "its place");
}

static void check_calls(struct exec_world self)
{
    check(self.local_ranks == self.ranks && self.local_rank == self.rank, "one machine");
    world_heartbeat_start(2, NULL);
    check_numbers(self);
    check_broadcast(self, 100000, self.ranks - 1);
    check_broadcast(self, 0, 0);
    check_gather(self);
    struct clock_offset offset = clock_compare(); /* on one machine there is one */
    check(offset.seconds == 0 && offset.error == 0, "one clock");
    check_progress();
    world_barrier();
    world_heartbeat_stop();
    world_heartbeat_stop(); /* does nothing */
    world_heartbeat_start(2, NULL);
    check_numbers(self);
}

static void misbehave(const char *how, double timeout)
{
    if (!strcmp(how, "abort"))
        world_abort(70);
    for (double waited = 0; !strcmp(how, "patient") && waited < 2 * timeout; waited += 0.1) {
        usleep(100000);
        world_progress("a long computation");
    }
    if (!strcmp(how, "busy"))
        world_lock();
    while (!strcmp(how, "hang") || !strcmp(how, "busy"))
        sleep(1);
}

/* Ten steps of one bucket. */
static void train(const char *how, double timeout, int32_t culprit)
{
    struct exec_world self = world_self();
    struct exchange_state *exchange = exchange_open();
    for (int32_t step = 0; step < 10; step++) {
        if (step == 5 && self.rank == culprit)
            misbehave(how, timeout);
        usleep(300000); /* some beats in between */
        exchange_step(exchange, step);
    }
    exchange_close(exchange);
}

int main(int argc, char **argv)
{
    struct exec_world self = world_start(&argc, &argv);
    if (argc == 4) {
        world_heartbeat_start(atof(argv[2]), "the last checkpoint is intact");
        train(argv[1], atof(argv[2]), atoi(argv[3]));
    } else {
        check_calls(self);
    }
    return ranks_end();
}
