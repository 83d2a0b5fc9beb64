#include "exec/measure/timing.h"

#include <sys/resource.h>

#include "exec/cpu/device_naive.h"
#include "exec/cpu/stream.h"
#include "exec/measure/devices.h"
#include "exec/step/packing.h"
#include "exec/world/world.h"

/* Counters of this machine since it started [s], and of this host. */
struct counters {
    double all, steal, busy; /* of all processors */
    double own;              /* of this process */
    double retransmits;
};

/* One all-reduce, ready to run again and again. */
struct timing {
    const struct schedule *schedule;
    const struct comm_ops *ops;
    struct comm_state *comm;
    struct stream *stream;
    struct event *end;
    enum dtype payload; /* that numbers travel in */
    int64_t elements;
    int64_t vectors, next; /* of data, in turns */
    float *data;           /* (vectors, elements) */
    struct counters first; /* from before the first run */
};

/* --- what may disturb --- */

static const double shortest_window = 0.1; /* [s]: ten ticks of each processor */

static void read_processors(struct counters *counters)
{
    /* user nice system idle iowait irq softirq steal [1/100 s] */
    double time[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &time[0], &time[1], &time[2], &time[3],
               &time[4], &time[5], &time[6], &time[7]) == 8) {
        double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
        for (int32_t i = 0; i < 8; i++)
            counters->all += tick * time[i];
        counters->steal = tick * time[7]; /* the rest is idle and iowait */
        counters->busy = tick * (time[0] + time[1] + time[2] + time[5] + time[6]);
    }
    fclose(file);
}

/* The columns of the line of names and of the line of numbers match. */
static double tcp_retransmits(void)
{
    char names[1024] = "", numbers[1024] = "";
    FILE *file = fopen("/proc/self/net/snmp", "r");
    for (char line[1024]; file && fgets(line, sizeof(line), file);)
        if (!strncmp(line, "Tcp:", 4))
            memcpy(*names ? numbers : names, line, sizeof(line));
    if (file)
        fclose(file);
    char *rest[2] = {names, numbers};
    for (char *name; (name = strsep(&rest[0], " \n"));) {
        char *number = strsep(&rest[1], " \n");
        if (number && !strcmp(name, "RetransSegs"))
            return strtod(number, NULL);
    }
    return 0.0;
}

static struct counters count(void)
{
    struct counters counters = {0};
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    read_processors(&counters);
    counters.own = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (world_self().local_rank == 0) /* ranks of one host share its counters */
        counters.retransmits = tcp_retransmits();
    return counters;
}

/* The kernel counts in ticks: a short run is judged by all the time since before the first. */
static void judge(const struct counters *before, const struct counters *first,
                  struct timing_sample *sample)
{
    struct counters after = count();
    double retransmits = after.retransmits - before->retransmits;
    if (sample->time_s < shortest_window)
        before = first;
    double sum[] = {after.own - before->own, retransmits};
    double all = after.all - before->all, free_part = 0.0;
    world_sum(sum, 2);
    if (all > 0.0) {
        sample->steal = (after.steal - before->steal) / all;
        sample->foreign = (after.busy - before->busy - sum[0]) / all;
        free_part = 1.0 - (after.busy - before->busy) / all - sample->steal;
    }
    sample->foreign = sample->foreign > 0.0 ? sample->foreign : 0.0;
    sample->retransmits = (int64_t)sum[1];
    sample->disturbed = sample->steal > TIMING_STEAL_LIMIT ||
                        (sample->foreign > TIMING_FOREIGN_LIMIT && free_part < TIMING_FREE_LIMIT);
}

/* --- the timed all-reduce --- */

static void issue(struct timing *timing, float *data)
{
    const struct schedule *schedule = timing->schedule;
    for (int32_t i = 0; i < schedule->step_count; i++) {
        const struct step *step = &schedule->step[i];
        struct collective collective = schedule_collective(schedule, i);
        struct slice slice = {0, timing->elements};
        if (step->collective.axis == AXIS_COLUMN)
            slice = packing_block(slice, schedule->grid, AXIS_ROW, world_self().rank);
        collective.elements = slice.elements;
        timing->ops->issue(timing->comm, timing->stream, step->collective.axis, &collective,
                           timing->payload, data + slice.offset);
    }
    cpu_stream_ops.record(timing->stream, timing->end);
}

/* Every rank adds to some elements, and every sum is one that bf16 can hold, whatever the order. */
enum { SUMMED = 16 };

static void fill(const struct timing *timing, float *data)
{
    struct exec_world self = world_self();
    int32_t turn = self.rank;
    for (int64_t i = 0; i < timing->elements; i++) {
        data[i] = turn < SUMMED ? (float)(turn + 1) : 0;
        turn = turn + 1 < self.ranks ? turn + 1 : 0;
    }
}

/* The next vector; all of them are filled when the first one's turn comes. */
static float *take_vector(struct timing *timing)
{
    int64_t which = timing->next++ % timing->vectors;
    for (int64_t i = 0; which == 0 && i < timing->vectors; i++)
        fill(timing, timing->data + i * timing->elements);
    return timing->data + which * timing->elements;
}

static int64_t count_wrong(const struct timing *timing, const float *data)
{
    int32_t summed = world_self().ranks < SUMMED ? world_self().ranks : SUMMED;
    int64_t wrong = 0;
    if (timing->schedule->step[0].collective.op == COLLECTIVE_ALL_GATHER)
        return 0; /* an exchange that sums nothing */
    for (int64_t i = 0; i < timing->elements; i++)
        wrong += data[i] != (float)(summed * (summed + 1) / 2);
    return wrong;
}

static int run_once(struct timing *timing, struct timing_sample *sample, struct err *err)
{
    float *data = take_vector(timing);
    world_barrier();
    struct counters before = count();
    world_barrier();
    double begin = base_seconds(CLOCK_MONOTONIC);
    issue(timing, data);
    cpu_stream_ops.synchronize(timing->end);
    int64_t worst[] = {(int64_t)(1e9 * (base_seconds(CLOCK_MONOTONIC) - begin)),
                       count_wrong(timing, data)};
    world_max(worst, 2);
    sample->time_s = 1e-9 * (double)worst[0];
    judge(&before, &timing->first, sample);
    world_broadcast(sample, sizeof(*sample), 0); /* what rank 0 has seen counts */
    if (worst[1])
        return err_add_code(err, 70, "the sum of an all-reduce is wrong in %lld elements",
                            (long long)worst[1]);
    return 0;
}

static int32_t repeat(struct timing *timing, int32_t repeats, struct timing_sample *sample,
                      struct err *err)
{
    int32_t runs = 0, clean = 0;
    timing->first = count();
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * shortest_window)}, NULL);
    for (int32_t i = 0; i < TIMING_WARM_UP; i++)
        if (run_once(timing, &sample[0], err))
            return -1;
    while (clean < repeats && runs < TIMING_BOUND * repeats) {
        if (run_once(timing, &sample[runs], err))
            return -1;
        clean += !sample[runs++].disturbed;
    }
    return runs;
}

int32_t timing_run(const struct schedule *schedule, enum dtype payload, int32_t repeats,
                   struct timing_sample *sample, struct err *err)
{
    const struct comm_ops *ops = transport_find(device_naive_ops.name);
    int32_t ranks = grid_ranks(schedule->grid), found = world_self().ranks;
    int64_t bytes = 0, size = payload == DTYPE_FP32 ? 4 : 2;
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (bytes < schedule->step[i].collective.bytes)
            bytes = schedule->step[i].collective.bytes;
    if (ranks != found)
        return err_usage(err, "a grid of %d ranks, but the job has %d", ranks, found);
    if (bytes % size)
        return err_usage(err, "%lld B are not whole %s numbers: give a multiple of %lld",
                         (long long)bytes, dtype_names[payload], (long long)size);
    if (ops->check && ops->check(schedule, err))
        return -1;
    int64_t held = bytes / size * (int64_t)sizeof(float);
    int64_t vectors = held > 0 ? TIMING_MEMORY / held : TIMING_VECTORS;
    vectors = vectors > TIMING_VECTORS ? TIMING_VECTORS : vectors > 0 ? vectors : 1;
    struct timing timing = {
        .schedule = schedule,
        .ops = ops,
        .comm = ranks > 1 ? ops->open(schedule->grid, 0) : NULL,
        .stream = cpu_stream_ops.stream_new(),
        .end = cpu_stream_ops.event_new(),
        .payload = payload,
        .elements = bytes / size,
        .vectors = vectors,
        .data = base_alloc(vectors * (bytes / size), sizeof(float)),
    };
    int32_t runs = repeat(&timing, repeats, sample, err);
    cpu_stream_ops.event_free(timing.end);
    cpu_stream_ops.stream_free(timing.stream);
    if (timing.comm)
        ops->close(timing.comm);
    free(timing.data);
    return runs;
}
