#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/fake/fake_runtime.h"
#include "tests/test.h"

static cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
}

static cudaEvent_t new_event(void)
{
    cudaEvent_t event;
    assert_int_equal(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
    return event;
}

/* What is issued: append a letter to a text. */
struct letter {
    char *text;
    char letter;
};

static void append(void *argument)
{
    const struct letter *letter = argument;
    size_t length = strlen(letter->text);
    letter->text[length] = letter->letter;
    letter->text[length + 1] = 0;
}

static void write_letter(cudaStream_t stream, char *text, char letter)
{
    struct letter argument = {text, letter};
    fake_enqueue_c(stream, append, &argument, sizeof(argument));
}

static void begin(cudaStream_t stream)
{
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

TEST(work_runs_at_once_or_as_late_as_possible)
{
    char text[16] = "";
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event = new_event();
    write_letter(first, text, 'a');
    assert_string_equal(text, "a");
    fake_lazy(true);
    write_letter(first, text, 'b');
    cudaEventRecord(event, first);
    write_letter(first, text, 'c');
    write_letter(second, text, 'd');
    cudaStreamWaitEvent(second, event, 0);
    write_letter(second, text, 'e');
    assert_string_equal(text, "a");
    cudaStreamSynchronize(second);
    assert_string_equal(text, "adbe");
    cudaStreamDestroy(first);
    assert_string_equal(text, "adbec");
    fake_lazy(false);
    cudaStreamDestroy(second);
    cudaEventDestroy(event);
    assert_int_equal(fake_objects(), 0);
}

/* a on the first stream, then b on the second beside c on the first, then d. */
static cudaGraphExec_t capture_fork(cudaStream_t first, cudaStream_t second, char *text)
{
    cudaEvent_t fork = new_event(), join = new_event();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    begin(first);
    write_letter(first, text, 'a');
    cudaEventRecord(fork, first);
    cudaStreamWaitEvent(second, fork, 0);
    write_letter(second, text, 'b');
    cudaEventRecord(join, second);
    write_letter(first, text, 'c');
    cudaStreamWaitEvent(first, join, 0);
    write_letter(first, text, 'd');
    cudaStreamEndCapture(first, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    cudaEventDestroy(fork);
    cudaEventDestroy(join);
    return executable;
}

TEST(a_captured_graph_runs_when_it_is_launched)
{
    char text[16] = "";
    cudaStream_t first = new_stream(), second = new_stream();
    cudaGraphExec_t executable = capture_fork(first, second, text);
    assert_string_equal(text, "");
    cudaGraphLaunch(executable, first);
    assert_string_equal(text, "acbd");
    cudaGraphLaunch(executable, second);
    assert_string_equal(text, "acbdacbd");
    assert_int_equal(fake_launches(), 2);
    cudaGraphExecDestroy(executable);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    assert_int_equal(fake_objects(), 0);
}

TEST(memory_is_limited_and_starts_as_nan)
{
    float *memory, value;
    void *more;
    fake_capacity(1024);
    assert_int_equal(cudaMalloc((void **)&memory, 1000), cudaSuccess);
    assert_int_equal(cudaMalloc(&more, 1000), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    cudaMemcpy(&value, memory + 200, sizeof(value), cudaMemcpyDeviceToHost);
    assert_true(value != value);
    assert_int_equal(fake_in_use(), 1000);
    cudaFree(memory);
    fake_capacity((size_t)1 << 30);
    assert_int_equal(fake_objects(), 0);
}

/* ---- misuse ---- */

static void copies_too_much(void)
{
    void *memory;
    char host[16];
    cudaMalloc(&memory, 8);
    cudaMemcpy(memory, host, sizeof(host), cudaMemcpyHostToDevice);
}

static void frees_twice(void)
{
    void *memory;
    cudaMalloc(&memory, 8);
    cudaFree(memory);
    cudaFree(memory);
}

static void uses_a_destroyed_stream(void)
{
    cudaStream_t stream = new_stream();
    cudaStreamDestroy(stream);
    cudaEventRecord(new_event(), stream);
}

static void leaves_a_capture_open(void)
{
    cudaStream_t stream = new_stream();
    begin(stream);
    cudaStreamDestroy(stream);
}

static void joins_no_more(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t fork = new_event();
    char text[16] = "";
    cudaGraph_t graph;
    begin(first);
    cudaEventRecord(fork, first);
    cudaStreamWaitEvent(second, fork, 0);
    write_letter(second, text, 'b');
    cudaStreamEndCapture(first, &graph);
}

static void waits_for_what_was_before_the_capture(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event = new_event();
    cudaEventRecord(event, second);
    begin(first);
    cudaStreamWaitEvent(first, event, 0);
}

static void waits_for_what_was_in_a_capture(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event = new_event();
    cudaGraph_t graph;
    begin(first);
    cudaEventRecord(event, first);
    cudaStreamEndCapture(first, &graph);
    cudaStreamWaitEvent(second, event, 0);
}

static void the_host_waits_in_a_capture(void)
{
    cudaStream_t stream = new_stream();
    begin(stream);
    cudaStreamSynchronize(stream);
}

static void allocates_in_a_capture(void)
{
    void *memory;
    begin(new_stream());
    cudaMalloc(&memory, 8);
}

static void captures_pageable_memory(void)
{
    cudaStream_t stream = new_stream();
    void *memory;
    char host[8];
    cudaMalloc(&memory, 8);
    begin(stream);
    cudaMemcpyAsync(memory, host, sizeof(host), cudaMemcpyHostToDevice, stream);
}

static void call_cuda(void *argument)
{
    cudaMalloc(argument, 8);
}

static void calls_cuda_in_a_host_function(void)
{
    void *memory;
    cudaLaunchHostFunc(new_stream(), call_cuda, &memory);
}

static void asks_for_the_time_of_nothing(void)
{
    float milliseconds;
    cudaEvent_t event = new_event();
    cudaEventElapsedTime(&milliseconds, event, event);
}

TEST(misuse_ends_the_process_with_a_message)
{
    void (*const misuse[])(void) = {
        copies_too_much,
        frees_twice,
        uses_a_destroyed_stream,
        leaves_a_capture_open,
        joins_no_more,
        waits_for_what_was_before_the_capture,
        waits_for_what_was_in_a_capture,
        the_host_waits_in_a_capture,
        allocates_in_a_capture,
        captures_pageable_memory,
        calls_cuda_in_a_host_function,
        asks_for_the_time_of_nothing,
    };
    for (size_t i = 0; i < sizeof(misuse) / sizeof(*misuse); i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            misuse[i]();
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("misuse %zu went unnoticed", i);
    }
}
