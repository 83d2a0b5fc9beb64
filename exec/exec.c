#include "exec/exec.h"

#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base.h"
#include "exec/cpu/comm_mpi.h"
#include "exec/cpu/device_naive.h"
#include "exec/walk.h"

struct exec_world exec_start(int *argc, char ***argv)
{
    int provided, rank, ranks;
    MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (provided < MPI_THREAD_SERIALIZED) {
        fprintf(stderr, "foretrain-exec: this MPI was built without support for threads\n");
        MPI_Abort(MPI_COMM_WORLD, 69);
    }
    return (struct exec_world){.rank = rank, .ranks = ranks};
}

void exec_stop(void)
{
    MPI_Finalize();
}

int32_t exec_first_failure(bool failed)
{
    int rank, first;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int candidate = failed ? rank : INT_MAX;
    MPI_Allreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return first == INT_MAX ? -1 : first;
}

static int check_ranks(const struct exec_job *job, int32_t ranks, struct err *err)
{
    struct grid grid = job->schedule->grid;
    if (grid_ranks(grid) == ranks)
        return 0;
    return err_add_code(err, 64,
                        "the grid of %d x %d needs %d ranks, but %d were started: use mpirun -n %d",
                        grid.columns, grid.rows, grid_ranks(grid), ranks, grid_ranks(grid));
}

static int check_gradients(const struct exec_job *job, struct err *err)
{
    int64_t exchanged = walk_exchanged(job->schedule), gradients = model_parameters(job->model);
    if (grid_ranks(job->schedule->grid) == 1 || exchanged == gradients)
        return 0;
    return err_add_code(err, 69,
                        "the buckets hold %" PRId64 " whole fp32 numbers, but %s has %" PRId64
                        " gradients: the cpu-naive device needs gradients in fp32 and buckets of a "
                        "multiple of 4 bytes",
                        exchanged, job->model->name, gradients);
}

static struct device_job describe(const struct exec_job *job, struct exec_world world)
{
    return (struct device_job){
        .model = job->model,
        .batch = job->batch,
        .slots = walk_depth(job->schedule),
        .iterations = job->iterations,
        .ranks = world.ranks,
        .seed = job->seed,
        .data_seed = base_hash(job->seed, &world.rank, job->same_data ? 0 : sizeof(world.rank)),
        .learning_rate = job->learning_rate,
        .momentum = job->momentum,
        .weight_decay = job->weight_decay,
        .label_smoothing = job->label_smoothing,
    };
}

/* Append the spans of all ranks to @trace of rank 0. */
static void gather_spans(const struct trace *mine, struct exec_world world, struct trace *trace)
{
    MPI_Datatype span_type;
    int *count = base_alloc(world.ranks, sizeof(*count));
    int *offset = base_alloc(world.ranks, sizeof(*offset));
    int own = (int)mine->span_count;
    MPI_Type_contiguous(sizeof(struct span), MPI_BYTE, &span_type);
    MPI_Type_commit(&span_type);
    MPI_Gather(&own, 1, MPI_INT, count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int32_t i = 1; i < world.ranks; i++)
        offset[i] = offset[i - 1] + count[i - 1];
    int64_t total = world.rank == 0 ? offset[world.ranks - 1] + count[world.ranks - 1] : 0;
    struct span *span = base_alloc(total, sizeof(*span));
    MPI_Gatherv(mine->span, own, span_type, span, count, offset, span_type, 0, MPI_COMM_WORLD);
    for (int64_t i = 0; i < total; i++) {
        trace_add(trace, span[i]);
        trace_finish(trace, span[i].iteration, span[i].end);
    }
    MPI_Type_free(&span_type);
    free(span);
    free(count);
    free(offset);
}

static void gather(const struct walk *walk, const struct trace *mine, struct exec_world world,
                   struct trace *trace, struct exec_result *result)
{
    int64_t sent = walk->comm_ops->messages(walk->comm), messages = 0;
    double *loss = base_alloc(walk->iterations, sizeof(*loss));
    double *sum = base_alloc(walk->iterations, sizeof(*sum));
    for (int32_t i = 0; i < walk->iterations; i++)
        loss[i] = walk->device_ops->loss(walk->device, i) / world.ranks;
    MPI_Reduce(loss, sum, walk->iterations, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&sent, &messages, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    gather_spans(mine, world, trace);
    free(loss);
    if (world.rank != 0) {
        free(sum);
        return;
    }
    *result = (struct exec_result){.iterations = walk->iterations, .loss = sum};
    trace->messages = messages;
    trace->ranks = trace->entities = world.ranks;
    trace->schedule_hash = schedule_hash(walk->schedule);
    snprintf(trace->backend, sizeof(trace->backend), "exec");
    snprintf(trace->grain, sizeof(trace->grain), "real");
}

int exec_run(const struct exec_job *job, struct trace *trace, struct exec_result *result,
             struct err *err)
{
    struct exec_world world;
    struct trace mine = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
    struct walk walk = {.schedule = job->schedule,
                        .rank = world.rank,
                        .iterations = job->iterations,
                        .device_ops = &device_naive_ops,
                        .comm_ops = &comm_mpi_ops};
    struct device_job device_job = describe(job, world);
    if (check_ranks(job, world.ranks, err) || check_gradients(job, err) ||
        walk.device_ops->open(&walk.device, &device_job, err))
        return -1;
    walk.comm = walk.comm_ops->open(job->schedule->grid);
    MPI_Barrier(MPI_COMM_WORLD);
    walk_run(&walk, &mine);
    gather(&walk, &mine, world, trace, result);
    walk.comm_ops->close(walk.comm);
    walk.device_ops->close(walk.device);
    trace_release(&mine);
    return 0;
}

void exec_result_release(struct exec_result *result)
{
    free(result->loss);
    *result = (struct exec_result){0};
}
