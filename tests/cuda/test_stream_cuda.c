#include "exec/cuda/runtime/check.h"
#include "exec/cuda/runtime/stream_cuda.h"
#include "tests/child.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

/* Four hours in steps of seven seconds.  From where times are counted, the two ends of the last
 * millisecond are as far apart as they are from each other. */
TEST(times_stay_exact_for_hours)
{
    enum { STEPS = 2058, STEP_S = 7 };
    struct stream *stream = cuda_stream_ops.stream_new();
    struct event *origin = cuda_stream_ops.event_new(), *begin = cuda_stream_ops.event_new(),
                 *end = cuda_stream_ops.event_new();
    cuda_stream_ops.record(stream, origin);
    for (int i = 0; i < STEPS; i++) {
        fake_pass(STEP_S);
        cuda_stream_ops.record(stream, begin);
        fake_pass(1e-3);
        cuda_stream_ops.record(stream, end);
        double between = cuda_stream_ops.seconds(begin, end);
        double counted =
            cuda_stream_ops.seconds(origin, end) - cuda_stream_ops.seconds(origin, begin);
        assert_true(between >= 1e-3 && fabs(counted - between) <= 5e-6);
    }
    double all = cuda_stream_ops.seconds(origin, end);
    assert_true(all >= STEPS * STEP_S && all <= STEPS * STEP_S + 60); /* and what it really took */
    cuda_stream_ops.record(stream, origin);
    assert_true(cuda_stream_ops.seconds(begin, origin) < 60);
    cuda_stream_ops.record(stream, end);
    assert_true(cuda_stream_ops.seconds(origin, end) < 60); /* it began anew */
    cuda_stream_ops.event_free(origin);
    cuda_stream_ops.event_free(begin);
    cuda_stream_ops.event_free(end);
    cuda_stream_ops.stream_free(stream);
    assert_int_equal(fake_objects(), 0);
}

/* A stream that waits for an event runs what was issued on it later after what was recorded. */
TEST(streams_wait_for_events)
{
    float *memory, pinned[2];
    struct stream *first = cuda_stream_ops.stream_new(), *second = cuda_stream_ops.stream_new();
    struct event *written = cuda_stream_ops.event_new(), *read = cuda_stream_ops.event_new();
    assert_int_equal(cudaMalloc((void **)&memory, sizeof(*memory)), cudaSuccess);
    pinned[0] = 3;
    fake_lazy(true);
    cudaMemcpyAsync(memory, &pinned[0], sizeof(float), cudaMemcpyHostToDevice,
                    cuda_stream_handle(first));
    cuda_stream_ops.record(first, written);
    cuda_stream_ops.wait(second, written);
    cuda_stream_ops.wait(second, read); /* never recorded: holds nothing up */
    cudaMemcpyAsync(&pinned[1], memory, sizeof(float), cudaMemcpyDeviceToHost,
                    cuda_stream_handle(second));
    cuda_stream_ops.record(second, read);
    cuda_stream_ops.synchronize(read);
    assert_true(pinned[1] == 3.0F);
    cuda_stream_ops.event_free(written);
    cuda_stream_ops.event_free(read);
    cuda_stream_ops.stream_free(first);
    cuda_stream_ops.stream_free(second);
    fake_lazy(false);
    cudaFree(memory);
    assert_int_equal(fake_objects(), 0);
}

static int fail_a_launch(const void *argument)
{
    void *memory;
    (void)argument;
    fake_capacity(1);
    cudaMalloc(&memory, 2); /* stands for a launch: it leaves an error behind */
    CUDA_CHECK_LAUNCHES("conv1 forward");
    return 0;
}

/* The message has the launches and the line that asked. */
TEST(a_failed_launch_is_told_with_its_place)
{
    HELD(text) said = {0};
    assert_int_equal(child_run(fail_a_launch, NULL, STDERR_FILENO, &said), 70);
    assert_has(said.data, ": conv1 forward, " __FILE__ ":");
}
