#include "core/schedule/memory.h"
#include "exec/cuda/device_cuda.h"
#include "exec/cuda/runtime/check.h"
#include "tests/child.h"
#include "tests/cuda/cuda_run.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/exec/random_network.h"
#include "tests/test.h"

/* What the CUDA device does that needs no other to compare with. */

enum { NETWORKS = 24 };

TEST(what_is_written_is_read_again)
{
    for (uint64_t seed = 0; random_seed(&seed, NETWORKS);) {
        OWN(model) *model = random_network(seed);
        CUDA_RUN run;
        cuda_run_open(&run, cuda_run_toy_job(model));
        for (int64_t i = 0; i < run.layout.parameters; i++)
            run.weights.momentum[i] = (float)i;
        device_cuda_ops.write(run.state, &run.weights);
        HELD(weights) weights = cuda_run_read(&run);
        cuda_run_same_bits(model, &weights, &run.weights);
    }
}

static float *step_of(struct device_run_job job, int32_t ranks, double *norm)
{
    CUDA_RUN run;
    job.ranks = ranks;
    cuda_run_open(&run, job);
    *norm = device_run_step(&run).norm;
    return cuda_run_gradients(&run);
}

/* Of a step whose gradients 256 ranks would have added: they are a sixteenth of what one rank has
 * in fp16, the same in other types, and the optimizer divides by what is left to 256. */
TEST(ranks_divide_before_and_after_they_add)
{
    OWN(model) *model = cuda_run_toy();
    for (enum dtype type = 0; type < DTYPE_COUNT; type++) {
        struct device_run_job job = cuda_run_toy_job(model);
        double alone, norm, share = type == DTYPE_FP16 ? 1 / 16.0 : 1;
        job.gradients = type;
        job.loss_scale = 256;
        AUTOFREE float *one = step_of(job, 1, &alone), *many = step_of(job, 256, &norm);
        for (int64_t i = 0; i < model_parameters(model); i++)
            assert_near((double)many[i], share * (double)one[i], 0x1p-25);
        assert_relative(norm * 256, alone, 1e-4);
    }
}

/* More than what begins on 256 bytes would leave behind the gradients anyway. */
enum { PADDING = 999 };

static void expect_zeros_behind_gradients(const struct device_run *run)
{
    static const char zeros[PADDING * sizeof(float)];
    char read[PADDING * sizeof(float)];
    size_t size = (size_t)dtype_size(run->job.gradients), count = (size_t)run->layout.parameters;
    const char *gradients = device_cuda_ops.gradients(run->state);
    assert_int_equal((uintptr_t)gradients % 256, 0);
    assert_int_equal(
        cudaMemcpy(read, gradients + count * size, PADDING * size, cudaMemcpyDeviceToHost),
        cudaSuccess);
    assert_memory_equal(read, zeros, PADDING * size);
}

/* What three steps come to. */
static struct weights train_padded(struct device_run_job job, int64_t padding)
{
    CUDA_RUN run;
    job.padding = padding;
    cuda_run_open(&run, job);
    for (int32_t i = 0; i < 3; i++)
        assert_false(device_run_step(&run).overflow);
    struct weights weights = cuda_run_read(&run);
    device_cuda_ops.write(run.state, &weights);
    HELD(weights) again = cuda_run_read(&run);
    cuda_run_same_bits(job.model, &again, &weights);
    if (padding > 0)
        expect_zeros_behind_gradients(&run);
    return weights;
}

TEST(padding_stays_zero_and_changes_nothing)
{
    OWN(model) *model = cuda_run_toy();
    for (enum dtype type = 0; type < DTYPE_COUNT; type++)
        for (int32_t micro_batches = 1; micro_batches <= 2; micro_batches++) {
            struct device_run_job job = cuda_run_toy_job(model);
            job.gradients = type;
            job.micro_batches = micro_batches;
            HELD(weights) usual = train_padded(job, 0), padded = train_padded(job, PADDING);
            cuda_run_same_bits(model, &usual, &padded);
        }
}

TEST(a_step_that_overflows_changes_no_weights)
{
    OWN(model) *model = cuda_run_toy();
    CUDA_RUN run;
    cuda_run_open(&run, cuda_run_toy_job(model));
    size_t size = (size_t)run.layout.parameters * sizeof(float);
    assert_false(device_run_step(&run).overflow);
    HELD(weights) before = cuda_run_read(&run);
    run.job.loss_scale = 1e12;
    struct outcome outcome = device_run_step(&run);
    HELD(weights) after = cuda_run_read(&run);
    assert_true(outcome.overflow && !isfinite(outcome.norm) && isfinite(outcome.loss));
    assert_memory_equal(before.parameter, after.parameter, size);
    assert_memory_equal(before.momentum, after.momentum, size);
    run.job.loss_scale = 4;
    outcome = device_run_step(&run);
    assert_true(!outcome.overflow && isfinite(outcome.norm));
}

/* The loss along the gradient g, from w - h * g to w + h * g, rises by 2 * h * |g|^2. */
TEST(the_loss_rises_along_the_gradient_as_it_should)
{
    OWN(model) *model = cuda_run_toy();
    CUDA_RUN run;
    struct device_run_job job = cuda_run_toy_job(model);
    job.compute = job.gradients = DTYPE_FP32;
    job.learning_rate = 0;
    cuda_run_open(&run, job);
    device_run_step(&run);
    AUTOFREE float *gradient = cuda_run_gradients(&run);
    AUTOFREE float *moved = base_alloc(run.layout.parameters, sizeof(float));
    double square = 0, loss[2], passes = 4.0 * job.micro_batches; /* 4: the loss scale */
    for (int64_t i = 0; i < run.layout.parameters; i++)
        square += pow((double)gradient[i] / passes, 2);
    double h = 0.005 / square;
    for (int32_t side = 0; side < 2; side++) {
        for (int64_t i = 0; i < run.layout.parameters; i++)
            moved[i] = (float)((double)run.weights.parameter[i] +
                               (side ? h : -h) * (double)gradient[i] / passes);
        device_cuda_ops.write(run.state, &(struct weights){.parameter = moved});
        loss[side] = device_run_step(&run).loss;
    }
    assert_near((loss[1] - loss[0]) / (2 * h * square), 1, 2e-3);
}

/* ---- noise, memory, failures ---- */

static struct device_job job_of(const struct model *model, const struct scenario *scenario,
                                int32_t batch)
{
    return (struct device_job){.model = model,
                               .scenario = scenario,
                               .batch = batch,
                               .micro_batches = 1,
                               .slots = 2,
                               .ranks = 1};
}

/* Two steps on noise, with or without inference between them. */
static double train_on_noise(const struct model *model, uint64_t rank, bool scores)
{
    CUDA_RUN run;
    float score[2 * 4];
    cuda_run_open(&run, cuda_run_toy_job(model));
    struct device_job job = job_of(model, &run.scenario, 4);
    job.micro_batches = 2;
    job.rank = (int32_t)rank;
    device_cuda_ops.close(run.state);
    assert_int_equal(device_cuda_ops.open(&run.state, &job, &err), 0);
    device_cuda_ops.write(run.state, &run.weights);
    double first = device_run_step(&run).loss;
    if (scores)
        device_run_score(&run, score);
    double second = device_run_step(&run).loss;
    device_run_step(&run);
    assert_true(device_run_step(&run).loss < first); /* it learns it by heart */
    return second;
}

TEST(without_a_source_it_trains_on_its_own_noise)
{
    OWN(model) *model = cuda_run_toy();
    double loss = train_on_noise(model, 0, false);
    assert_true(train_on_noise(model, 0, true) == loss);
    assert_true(train_on_noise(model, 1, false) != loss);
}

static void assert_refused(struct device_run_job job, const char *says, const char *way_out)
{
    CUDA_RUN run;
    job.ops = &device_cuda_ops;
    assert_int_equal(device_run_open(&run, &job, &err), -1);
    assert_has(err.text, says);
    assert_message(&err, 69, way_out);
}

TEST(what_is_missing_is_told_with_a_way_out)
{
    OWN(model) *model = cuda_run_toy();
    struct device_run_job job = cuda_run_toy_job(model);
    fake_devices(0);
    assert_refused(job, "no NVIDIA driver", "--device cpu");
    fake_devices(1);
    /* Room for so many rates is too much, which are never read; plans are found in less. */
    job.rate = &(struct rate){0};
    job.rate_count = 1 << 25;
    fake_capacity(1 << 27);
    assert_refused(job, "GB are free", "--set training.micro_batch=1");
    fake_capacity((size_t)1 << 30);
}

/* The plan of core/schedule/memory.h knows neither bit masks (6 % of activations) nor what images
 * take while they are converted and padded to 4 or 8 channels; but it counts the values of
 * projections' batch norms, which the device never writes. */
static void never_asked(void *context, uint8_t *pixels, struct crop *crop, int32_t *label)
{
    (void)context, (void)pixels, (void)crop, (void)label;
    abort();
}

TEST(it_takes_the_memory_that_was_planned)
{
    static const char *const name[] = {"resnet20", "resnet18", "resnet50", "vgg16"};
    static const struct {
        enum dataset_source data;
        struct device_source source;
    } given[] = {
        {SOURCE_SYNTHETIC, {0}},
        {SOURCE_PACK, {.next_pictures = never_asked}},
    };
    for (size_t i = 0; i < 2 * ARRAY_SIZE(name); i++) {
        struct scenario scenario = {.model.compute = DTYPE_FP16, .model.gradients = DTYPE_FP16};
        scenario.training.data.source = given[i % 2].data;
        OWN(model) *model = network_of(name[i / 2], i / 2 ? 224 : 32, 1000);
        struct device_job job = job_of(model, &scenario, 256);
        job.source = given[i % 2].source;
        struct memory_plan plan =
            memory_plan(&(struct memory_case){model, &scenario, {0}, 1, job.batch, job.batch});
        double ratio = (double)device_cuda_bytes(&job) / (double)memory_total(&plan);
        if (!(ratio > 0.95 && ratio < 1.15))
            fail_msg("%s takes %.3f of the memory that was planned for case %zu", name[i / 2],
                     ratio, i % 2);
    }
}

/* A quarter of ResNet-50's masters and momentum, and all of its gathered copies of weights but the
 * stem's in their place; batch norm and biases, 0.2 MB, are on every rank. */
TEST(a_shard_takes_less)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    for (int32_t i = 0; i < 2; i++) {
        struct scenario scenario = {.model.compute = i ? DTYPE_FP32 : DTYPE_FP16};
        scenario.model.gradients = scenario.model.compute;
        const struct slice shard = {0, 25557248 / 4};
        struct device_job job = job_of(model, &scenario, 8);
        struct memory_plan plan =
            memory_plan(&(struct memory_case){model, &scenario, {0}, 1, 8, 8});
        int64_t planned = memory_total(&plan), whole = device_cuda_bytes(&job);
        plan = memory_plan(&(struct memory_case){model, &scenario, {0}, 4, 8, 8});
        planned -= memory_total(&plan);
        job.shard = &shard;
        job.shards = 1;
        job.padded = 25557248;
        int64_t saved = whole - device_cuda_bytes(&job);
        /* in fp32 there are no copies of weights any more */
        planned += i ? INT64_C(4) * 25557032 : 0;
        double ratio = (double)saved / (double)planned;
        if (!(ratio > 0.98 && ratio < 1.02))
            fail_msg("%.3f of the memory that a shard saves by plan in case %d", ratio, i);
    }
}

TEST(a_schedule_takes_eight_bytes_per_iteration)
{
    OWN(model) *model = cuda_run_toy();
    struct scenario scenario = {.model.compute = DTYPE_FP16, .model.gradients = DTYPE_FP16};
    struct rate rate[4096] = {{0}};
    struct device_job job = job_of(model, &scenario, 4);
    int64_t bytes = device_cuda_bytes(&job);
    job.rate_count = 4096;
    assert_int_equal(device_cuda_bytes(&job), bytes);
    job.rate = rate;
    assert_int_equal(device_cuda_bytes(&job), bytes + INT64_C(8) * 4096);
}

enum { LATE_MS = 30 };

/* The whole of a picture, after a while. */
static void give_late(void *context, uint8_t *pixels, struct crop *crop, int32_t *label)
{
    const struct device_run_job *job = context;
    int32_t side = job->model->layer[0].in.width;
    struct crop_span all = {.length = (float)side, .end = side};
    nanosleep(&(struct timespec){.tv_nsec = LATE_MS * 1000000}, NULL);
    memset(pixels, 100, (size_t)(job->batch * crop_place(side)));
    for (int32_t i = 0; i < job->batch; i++) {
        crop[i] = (struct crop){.height = side, .width = side, .x = all, .y = all};
        label[i] = i;
    }
}

TEST(waiting_for_pictures_is_time_of_the_input_step)
{
    OWN(model) *model = cuda_run_toy();
    struct device_run_job run = cuda_run_toy_job(model);
    struct scenario scenario = {.model.compute = DTYPE_FP16, .model.gradients = DTYPE_FP16};
    struct device_job job = job_of(model, &scenario, run.batch);
    job.source = (struct device_source){
        .next_pictures = give_late, .tint = {.scale = {1, 1, 1}}, .context = &run};
    const struct step input = {.kind = STEP_INPUT, .lane = LANE_INPUT};
    struct device_state *device;
    assert_int_equal(device_cuda_ops.open(&device, &job, &err), 0);
    struct stream *stream = device_cuda_ops.streams->stream_new();
    struct event *begin = device_cuda_ops.streams->event_new(),
                 *end = device_cuda_ops.streams->event_new();
    double seconds = 0; /* where others have the processor, some waits are shorter */
    for (int32_t i = 0; i < 50 && seconds < 0.5e-3 * LATE_MS; i++) {
        device_cuda_ops.streams->record(stream, begin);
        device_cuda_ops.issue(device, stream, &input, i);
        device_cuda_ops.streams->record(stream, end);
        device_cuda_ops.streams->synchronize(end);
        seconds = device_cuda_ops.streams->seconds(begin, end);
    }
    assert_true(seconds >= 0.5e-3 * LATE_MS);
    device_cuda_ops.streams->event_free(begin);
    device_cuda_ops.streams->event_free(end);
    device_cuda_ops.streams->stream_free(stream);
    device_cuda_ops.close(device);
    assert_int_equal(fake_objects(), 0);
}

static int fail_a_call(const void *argument)
{
    cuda_check(cudaErrorMemoryAllocation, argument, "a file", 1);
    return 0;
}

TEST(a_failure_of_cuda_ends_the_process)
{
    HELD(text) said = {0};
    assert_int_equal(child_run(fail_a_call, "a call", STDERR_FILENO, &said), 70);
    assert_has(said.data, "a call, a file:1");
    cuda_check(cudaSuccess, "a call", "a file", 1);
}
