#include "exec/cuda/device_cuda.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* Iterations that the CUDA device launches whole, and where their learning rates come from. */

enum { WALKED = 7 };

static struct rate rate_of(int32_t iteration)
{
    return (struct rate){.learning_rate = 0.01 * (iteration + 1),
                         .weight_decay = 0.003 * (iteration + 1)};
}

/* For WALKED batches, with a schedule of @scheduled rates, which are gone when it is open. */
static void open_scheduled(struct device_run *run, const struct model *model, int32_t scheduled)
{
    struct device_run_job job = cuda_run_toy_job(model);
    struct rate rate[WALKED];
    for (int32_t i = 0; i < WALKED; i++)
        rate[i] = rate_of(i);
    job.batches = WALKED;
    job.rate = rate;
    job.rate_count = scheduled;
    cuda_run_open(run, job);
    memset(rate, 0xff, sizeof(rate));
    run->job.rate = NULL;
}

/* Where the device has a schedule, what it is told beside would spoil all weights. */
static void prepare(const struct device_run *run, int32_t iteration)
{
    struct rate rate = rate_of(iteration);
    bool scheduled = iteration < run->job.rate_count;
    struct update update = {.learning_rate = scheduled ? NAN : rate.learning_rate,
                            .weight_decay = scheduled ? NAN : rate.weight_decay,
                            .loss_scale = 1 << iteration};
    device_cuda_ops.prepare(run->state, iteration, &update);
}

/* Walk a real schedule for WALKED iterations, each on other images and with another learning rate,
 * of which the device knows the first @scheduled when it is opened; steps are issued one by one in
 * the first @single iterations. */
static struct weights walk(const struct model *model, int32_t single, int32_t scheduled,
                           double loss[WALKED])
{
    CUDA_RUN run;
    open_scheduled(&run, model, scheduled);
    OWN(schedule) *schedule = cuda_run_schedule(&run);
    struct walk walk = {.schedule = schedule,
                        .device_ops = &device_cuda_ops,
                        .device = run.state,
                        .single = single};
    OWN(walker) *walker = walker_new(&walk);
    int32_t depth = walk_depth(schedule);
    assert_int_equal(depth, 2); /* slots of device_run_open() */
    for (int32_t i = 0; i < WALKED + depth; i++) {
        if (i >= depth) {
            walker_finish(walker, i - depth, NULL);
            loss[i - depth] = device_cuda_ops.outcome(run.state, i - depth).loss;
        }
        if (i >= WALKED)
            continue;
        prepare(&run, i);
        walker_issue(walker, i, i);
    }
    return cuda_run_read(&run);
}

TEST(iterations_launched_whole_give_the_same_bits)
{
    OWN(model) *model = cuda_run_toy();
    double expected[WALKED], loss[WALKED];
    HELD(weights) one_by_one = walk(model, WALKED, 0, expected);
    for (int32_t lazy = 0; lazy < 2; lazy++) {
        int64_t launched = fake_launches();
        fake_lazy(lazy);
        HELD(weights) whole = walk(model, 2, 0, loss);
        HELD(weights) again = walk(model, lazy ? WALKED : 0, 0, loss);
        fake_lazy(false);
        assert_int_equal(fake_launches() - launched, WALKED - 2 + (lazy ? 0 : WALKED));
        assert_memory_equal(loss, expected, sizeof(loss));
        cuda_run_same_bits(model, &whole, &one_by_one);
        cuda_run_same_bits(model, &again, &one_by_one);
    }
    assert_true(expected[0] != expected[1]);
}

/* All iterations, those that are not launched, some of the launched ones; one by one. */
TEST(iterations_find_their_rates_in_the_schedule)
{
    static const struct {
        int32_t single, scheduled;
    } given[] = {{2, WALKED}, {2, 2}, {2, 5}, {0, WALKED}, {WALKED, WALKED}};
    OWN(model) *model = cuda_run_toy();
    double expected[WALKED], loss[WALKED];
    HELD(weights) told = walk(model, WALKED, 0, expected);
    for (size_t i = 0; i < 2 * ARRAY_SIZE(given); i++) {
        fake_lazy(i % 2);
        HELD(weights) weights = walk(model, given[i / 2].single, given[i / 2].scheduled, loss);
        fake_lazy(false);
        assert_memory_equal(loss, expected, sizeof(loss));
        cuda_run_same_bits(model, &weights, &told);
    }
}
