#include <math.h>

#include "exec/cuda/device_cuda_state.h"
#include "tests/cuda/conv_naive.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

/* Gradients of weights on a second stream, in iterations that are launched whole. */

enum { WALKED = 6, NETWORKS = 4 };

/* What to walk. */
struct path {
    int32_t ranks, count;
    int32_t single; /* iterations whose steps are issued one by one */
    int32_t slow;   /* kind of graph that takes long; -1: neither */
};

/* @return the kind that the last iteration began with. */
static int32_t walk(struct device_run *run, struct walker *walker, const struct path *path)
{
    int32_t kind = -1;
    for (int32_t i = 0; i < path->count; i++) {
        if (i >= 2) /* slots of device_run_open() */
            walker_finish(walker, i - 2, NULL);
        kind = run->state->side.kind;
        conv_naive.once = kind == path->slow ? 1000 : 0;
        device_cuda_ops.prepare(run->state, i,
                                &(struct update){.learning_rate = 0.01, .loss_scale = 1});
        walker_issue(walker, i, i);
    }
    for (int32_t i = path->count - 2; i < path->count; i++)
        walker_finish(walker, i, NULL);
    conv_naive.once = 0;
    return kind;
}

/* Whether the second stream is told among the choices: once it is decided. */
static void expect_choice(const struct device_run *run)
{
    const struct side *side = &run->state->side;
    struct choice choice[DEVICE_CHOICES], *last;
    last = &choice[device_cuda_ops.choices(run->state, choice) - 1];
    assert_int_equal(strcmp(last->name, "weights-beside") == 0, side->stream && !side->timed);
    if (!side->stream || side->timed)
        return;
    assert_int_equal(last->layers, side->kind);
    assert_true(fabs(last->saved_s - (side->kind ? 1000 : 0)) < 1);
}

/* Walk @path with @model; the weights that are left to @weights, unless that is NULL. */
static int32_t train(const struct model *model, const struct path *path, struct weights *weights)
{
    struct device_run_job job = cuda_run_toy_job(model);
    CUDA_RUN run;
    job.ranks = path->ranks;
    job.batches = WALKED;
    cuda_run_open(&run, job);
    OWN(schedule) *schedule = cuda_run_schedule(&run);
    OWN(walker) *walker = walker_new(&(struct walk){.schedule = schedule,
                                                    .device_ops = &device_cuda_ops,
                                                    .device = run.state,
                                                    .single = path->single});
    assert_int_equal(run.state->side.timed, path->ranks == 1);
    int32_t kind = walk(&run, walker, path);
    expect_choice(&run);
    if (weights)
        *weights = cuda_run_read(&run);
    return kind;
}

/* Whether the work on the second stream runs as late as it may, or as early, and all work at once
 * or late: the bits are those of steps that are issued one by one. */
static void check_order(const struct model *model)
{
    HELD(weights) one_by_one;
    train(model, &(struct path){1, WALKED, WALKED, -1}, &one_by_one);
    for (int32_t order = 0; order < (fake_watches() ? 1 : 4); order++) {
        HELD(weights) whole;
        fake_lazy(order % 2);
        fake_joined_first(order / 2);
        train(model, &(struct path){1, WALKED, 0, -1}, &whole);
        fake_lazy(false);
        fake_joined_first(false);
        cuda_run_same_bits(model, &whole, &one_by_one);
    }
}

TEST(nothing_is_read_too_early_or_written_too_soon)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        for (int32_t merges = 0; merges < 2; merges++) {
            conv_naive = (struct conv_naive){.slow_to_apply = !merges,
                                             .slow_to_norm = !merges,
                                             .slow_to_add = !merges,
                                             .slow_to_end = !merges,
                                             .merges_pools = merges,
                                             .narrows = merges};
            check_order(model);
        }
    }
    OWN(model) *model = cuda_run_network("resnet8", 8, 10);
    check_order(model);
}

/* Until both have been timed they take turns; where there are several ranks, there is no second
 * stream. */
TEST(the_kind_that_takes_less_time_stays)
{
    if (fake_watches())
        skip(); /* the same work again */
    OWN(model) *model = cuda_run_toy();
    const int32_t timed = 2 * SIDE_RUNS;
    for (int32_t count = 2; count < 6; count++)
        assert_int_equal(train(model, &(struct path){1, count, 0, 0}, NULL), (count - 1) % 2);
    for (int32_t more = 3; more < 5; more++) {
        assert_int_equal(train(model, &(struct path){1, timed + more, 0, 0}, NULL), 1);
        assert_int_equal(train(model, &(struct path){1, timed + more, 0, 1}, NULL), 0);
    }
    assert_int_equal(train(model, &(struct path){4, timed + 4, 0, 0}, NULL), 0);
}
