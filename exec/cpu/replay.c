#include "exec/cpu/replay.h"

#include <sys/prctl.h>

#include "core/schedule/iteration.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"
#include "exec/step/graph.h"
#include "exec/world/world.h"

struct device_state {
    struct device_job job;
    int64_t parameters;
    int32_t sharding;         /* its stage: see job.shard; 0: none */
    float *gradient;          /* (parameters) */
    float *weights;           /* (parameters) that are gathered beside gradients; else NULL */
    float *norms;             /* of a sharded optimizer, and of all stages */
    float *moved[LANE_COUNT]; /* what each lane brings from rank to rank, of a part of a network */
    bool summed;              /* gradients, where the next iteration gathers them like parameters */
    bool probed;              /* the gradients of this iteration begin with probes */
    double free[LANE_COUNT];  /* when each lane's last step should have ended; on its thread only */
    struct outcome *outcome;  /* (slots) of the compute lane */
    int32_t compute_steps;    /* of the iteration that runs, so far; on the compute lane only */
};

/* A step on its way through a stream. */
struct call {
    struct device_state *state;
    const struct stream *stream;
    const struct step *step;
    int32_t iteration;
    double issued; /* when */
};

/* The most numbers that one collective or message brings of activations: those of a value, of
 * weights that two stages use, or of a softmax over words that ranks share; or of blocks. */
static int64_t most_moved(const struct device_job *job)
{
    int64_t micro = job->batch / job->micro_batches;
    int64_t most = job->part->parts * micro * target_count(job->model) * LOSS_SUMS;
    for (int32_t i = 0; i < job->model->layer_count; i++) {
        const struct layer *layer = &job->model->layer[i];
        int64_t count = micro * shape_elements(layer->out), weights = layer_weights(layer);
        count = count > weights ? count : weights;
        most = most > count ? most : count;
    }
    int64_t blocks = 0;
    for (int32_t t = 0; t < job->model->tensor_count; t++)
        if (iteration_is_apart(job->model, job->scenario, t))
            blocks += job->model->tensor[t].elements;
    return most > blocks ? most : blocks;
}

static int open_replay(struct device_state **out, const struct device_job *job, struct err *err)
{
    struct device_state *state = base_alloc(1, sizeof(*state));
    *state = (struct device_state){.job = *job, .parameters = model_parameters(job->model)};
    state->gradient = base_alloc(state->parameters, sizeof(float));
    for (int64_t i = 0; i < state->parameters; i++)
        ((volatile float *)state->gradient)[i] = 0; /* pages that were never written are shared */
    state->sharding = job->shard ? (int32_t)job->scenario->parallel.sharding : 0;
    state->weights = state->sharding == 3 ? base_alloc(state->parameters, sizeof(float)) : NULL;
    for (int32_t i = 0; i < LANE_COUNT && job->part && part_is_split(job->part); i++)
        state->moved[i] = base_alloc(most_moved(job), sizeof(float));
    if (job->shard || job->joint_norms || (job->part && job->part->parts > 1))
        state->norms =
            base_alloc(2 * (int64_t)job->model->tensor_count +
                           iteration_vectors(job->model, job->scenario) + job->part->stages,
                       sizeof(float));
    state->outcome = base_alloc(job->slots, sizeof(*state->outcome));
    *out = state;
    return 0;
}

static void close_replay(struct device_state *state)
{
    if (!state)
        return;
    free(state->gradient);
    free(state->weights);
    free(state->norms);
    for (int32_t i = 0; i < LANE_COUNT; i++)
        free(state->moved[i]);
    free(state->outcome);
    free(state);
}

/* ---- gradients that can be checked ---- */

/* In @slice. */
static void check_probes(const struct device_state *state, struct slice slice)
{
    int64_t first = (slice.offset + REPLAY_PROBE_STRIDE - 1) / REPLAY_PROBE_STRIDE;
    int64_t end = slice.offset + slice.elements;
    for (int64_t i = first * REPLAY_PROBE_STRIDE; i < end; i += REPLAY_PROBE_STRIDE) {
        if (state->gradient[i] == (float)state->job.ranks || state->job.ranks > REPLAY_PROBE_RANKS)
            continue;
        fprintf(stderr,
                "foretrain-exec: rank %d: the all-reduces made gradient %lld of %lld %g, where "
                "%d ranks had a 1 each\n",
                state->job.rank, (long long)i, (long long)state->parameters, state->gradient[i],
                state->job.ranks);
        world_abort(70);
    }
}

/* ---- steps ---- */

/* Otherwise the kernel may wake a thread 50 us late, to wake several at once. */
static void wake_on_time(void)
{
    static _Thread_local bool done;
    if (!done)
        prctl(PR_SET_TIMERSLACK, 1UL);
    done = true;
}

static void sleep_until(double time)
{
    struct timespec end = {.tv_sec = (time_t)time, .tv_nsec = (long)(1e9 * fmod(time, 1))};
    wake_on_time();
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

static struct outcome *outcome_of(const struct device_state *state, int32_t iteration)
{
    return &state->outcome[iteration % state->job.slots];
}

static double predicted(const struct device_state *state, const struct step *step,
                        int32_t iteration)
{
    const struct run *run = state->job.run;
    double seconds = state->job.time_scale * run_local_seconds(run, step);
    if (step->kind == STEP_COMPUTE)
        seconds *= noise_factor(&run->noise, state->job.rank, iteration);
    return seconds;
}

/* The outcome holds the mean over the steps so far. */
static void note_late(struct device_state *state, const struct step *step, int32_t iteration,
                      double late)
{
    struct outcome *outcome = outcome_of(state, iteration);
    outcome->late_s += (late - outcome->late_s) / ++state->compute_steps;
    outcome->latest_s = fmax(outcome->latest_s, late);
    if (step->role == ROLE_OPTIMIZER)
        state->compute_steps = 0;
}

/* Where each micro-batch scatters its gradients, those of the one before are no longer needed by
 * the time of its loss.  Of gathered weights there is no value, but each rank has its shard. */
static void work(struct device_state *state, const struct step *step)
{
    const struct slice all = {0, state->parameters};
    bool ends = step->compute.op == COMPUTE_OPTIMIZER;
    bool again = step->compute.op == COMPUTE_LOSS && state->sharding >= 2;
    if (step->compute.op != COMPUTE_FORWARD && !ends && (again || !state->probed)) {
        if (state->summed && !state->probed)
            check_probes(state, all);
        for (int64_t i = 0; i < state->parameters; i += REPLAY_PROBE_STRIDE)
            state->gradient[i] = 1;
    }
    if (ends && !state->job.shard)
        check_probes(state, all);
    for (int32_t i = 0; i < state->job.shards && ends && state->weights; i++)
        check_probes(state, state->job.shard[i]);
    state->probed = !ends && (state->probed || step->compute.op != COMPUTE_FORWARD);
    state->summed |= step->role == ROLE_OPTIMIZER && state->job.shard && !state->weights;
}

static void run_step(void *argument)
{
    const struct call *call = argument;
    struct device_state *state = call->state;
    double *free_at = &state->free[call->step->lane];
    double begin = fmax(fmax(*free_at, call->issued), cpu_stream_released(call->stream));
    *free_at = begin + predicted(state, call->step, call->iteration);
    if (call->step->kind == STEP_COMPUTE)
        work(state, call->step);
    if (world_now() < *free_at)
        sleep_until(*free_at);
    if (call->step->kind == STEP_COMPUTE)
        note_late(state, call->step, call->iteration, world_now() - *free_at);
}

static void issue(struct device_state *state, struct stream *stream, const struct step *step,
                  int32_t iteration)
{
    struct call call = {state, stream, step, iteration, world_now()};
    cpu_stream_issue(stream, run_step, &call, sizeof(call));
}

static void prepare(struct device_state *state, int32_t iteration, const struct update *update)
{
    *outcome_of(state, iteration) = (struct outcome){0};
}

static void *gradients(struct device_state *state)
{
    return state->gradient;
}

static void *shared(struct device_state *state, enum collective_content content)
{
    bool norms = content == CONTENT_NORMS || content == CONTENT_STEPS;
    return norms ? state->norms : state->weights ? state->weights : state->gradient;
}

/* Of the lane, where one thing moves at a time. */
static void *activation(struct device_state *state, const struct step *step, bool receives)
{
    return state->moved[step->lane + receives];
}

static struct outcome outcome(const struct device_state *state, int32_t iteration)
{
    return *outcome_of(state, iteration);
}

/* ---- around training ---- */

static void score(struct device_state *state, struct stream *stream, const float *images,
                  int32_t count, float *scores)
{
    memset(scores, 0, (size_t)count * (size_t)state->job.model->classes * sizeof(float));
}

/* There are no weights. */
static void read_weights(const struct device_state *state, const struct weights *weights)
{
}

static void write_weights(struct device_state *state, const struct weights *weights)
{
}

const struct device_ops device_replay_ops = {
    .name = "replay",
    .rehearses = true,
    .open = open_replay,
    .close = close_replay,
    .streams = &cpu_stream_ops,
    .prepare = prepare,
    .issue = issue,
    .gradients = gradients,
    .shared = shared,
    .activation = activation,
    .outcome = outcome,
    .score = score,
    .read = read_weights,
    .write = write_weights,
};
