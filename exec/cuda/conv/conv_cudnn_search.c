#include "exec/cuda/conv/conv_cudnn_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/base.h"
#include "core/schedule/memory.h"
#include "exec/cuda/conv/conv_clock.h"
#include "exec/cuda/conv/conv_cudnn_engine.h"
#include "exec/cuda/conv/conv_cudnn_trial.h"

enum {
    RUNS = 5, /* of each candidate */
    FINALISTS = 4,
    /* Seconds: no candidate is begun later, if one that was timed is right.  The library lists its
     * best first, and a network has about a hundred plans. */
    PATIENCE = 1,
    TUNING_RUNS = 1000 /* of the engine as it was found: the time for varying its settings */
};

/* That time at most [s]; and a change must leave less than this part of the time, else it may be
 * noise. */
static const double tuning_most = 0.5, better = 0.99;

/* A candidate on its way through the trial. */
struct runner {
    struct conv_builder builder; /* owns the plan */
    cudnnBackendDescriptor_t plan;
    struct conv_choice choice;
};

/* Build and time runner->choice, which @config is.
 * @return whether it runs; an entry in @err: the device failed. */
static bool qualify(struct conv_trial *trial, const struct conv_target *target,
                    cudnnBackendDescriptor_t config, struct runner *runner, struct err *err)
{
    runner->plan = conv_make_plan(&runner->builder, target, config, &runner->choice.workspace);
    if (!runner->plan || runner->choice.workspace > MEMORY_WORKSPACE_LIMIT ||
        conv_trial_reserve(trial, runner->choice.workspace))
        return false;
    runner->choice.seconds = conv_trial_time(trial, runner->plan, RUNS, err);
    return isfinite(runner->choice.seconds);
}

static int by_seconds(const void *a, const void *b)
{
    const struct runner *left = a, *right = b;
    return (left->choice.seconds > right->choice.seconds) -
           (left->choice.seconds < right->choice.seconds);
}

/* Check what was timed, the fastest first, until there are enough; the others are released, since a
 * slower one cannot become the fastest.  @wrong counts.  @return how many are left, all right. */
static int32_t verify(struct conv_trial *trial, struct runner *runner, int32_t count,
                      int32_t *wrong, struct err *err)
{
    int32_t right = 0;
    qsort(runner, (size_t)count, sizeof *runner, by_seconds);
    for (int32_t i = 0; i < count; i++) {
        bool wanted = right == 0 || (right < FINALISTS &&
                                     runner[i].choice.seconds <= 1.5 * runner[0].choice.seconds);
        enum conv_verdict verdict = CONV_REFUSED;
        if (wanted && !err->count)
            verdict = conv_trial_check(trial, runner[i].plan, err);
        *wrong += verdict == CONV_WRONG;
        if (verdict == CONV_RIGHT)
            runner[right++] = runner[i];
        else
            conv_builder_release(&runner[i].builder);
    }
    return right;
}

/* Time finalists again, in turns.  The first of @runner is then the fastest of all. */
static void final(struct conv_trial *trial, struct runner *runner, int32_t count, struct err *err)
{
    for (int32_t i = 0; i < count; i++)
        runner[i].choice.seconds = INFINITY;
    for (int32_t round = 0; round < CONV_CLOCK_ROUNDS; round++)
        for (int32_t i = 0; i < count && !err->count; i++) {
            double seconds = conv_trial_time(trial, runner[i].plan, CONV_CLOCK_RUNS, err);
            if (seconds < runner[i].choice.seconds)
                runner[i].choice.seconds = seconds;
        }
    qsort(runner, (size_t)count, sizeof *runner, by_seconds);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Time candidates of @list from *@tried on while there is patience, and check them.
 * @return how many are right, the first ones of @runner. */
static int32_t try_some(struct conv_trial *trial, const struct conv_target *target,
                        const struct conv_candidate *list, int32_t count, int32_t *tried,
                        struct runner *runner, int32_t *wrong, struct err *err)
{
    int32_t runners = 0;
    const double end = now() + PATIENCE;
    for (; *tried < count && !err->count && !(runners && now() > end); ++*tried) {
        runner[runners] = (struct runner){.choice = list[*tried].choice};
        if (qualify(trial, target, list[*tried].config, &runner[runners], err))
            runners++;
        else
            conv_builder_release(&runner[runners].builder);
    }
    return verify(trial, runner, runners, wrong, err);
}

/* What is not as it should be with the engines for @op, of which @tried were tried. */
static void report(enum conv_op op, const struct conv_shape *shape, int32_t tried, bool right,
                   bool wrong, const char *fault, struct err *err)
{
    char *name = base_format("%s, %s, %d x %d x %d to %d x %d x %d, window %d, batch %d",
                             conv_names[op], dtype_names[shape->type], shape->in_channels,
                             shape->in_height, shape->in_width, shape->out_channels,
                             shape->out_height, shape->out_width, shape->kernel, shape->batch);
    if (!right && wrong)
        err_add_code(err, 69,
                     "cuDNN's engines for a convolution (%s) give wrong results: %s; another "
                     "version of cuDNN may not",
                     name, fault);
    else if (!right || wrong)
        fprintf(stderr, "foretrain-exec: of cuDNN's %d engines for a convolution (%s) %s: %s\n",
                tried, name, right ? "some give wrong results" : "none can be used",
                fault[0] ? fault : "no plan can be made in the memory that is left");
    free(name);
}

/* Try the @count candidates; @best keeps engine -1 if none is usable. */
static int compete(const struct conv_target *target, enum conv_op op,
                   const struct conv_shape *shape, const struct conv_candidate *list, int32_t count,
                   struct conv_choice *best, struct err *err)
{
    struct conv_trial *trial;
    struct runner *runner = base_alloc(count, sizeof *runner);
    int32_t runners = 0, wrong = 0, tried = 0;
    if (conv_trial_open(&trial, target->handle, op, shape, true, err)) {
        free(runner);
        return -1;
    }
    while (!runners && tried < count && !err->count)
        runners = try_some(trial, target, list, count, &tried, runner, &wrong, err);
    if (runners && !err->count)
        final(trial, runner, runners, err);
    if (runners)
        *best = runner[0].choice;
    if (!err->count)
        report(op, shape, tried, runners > 0, wrong > 0, conv_trial_fault(trial), err);
    for (int32_t i = 0; i < runners; i++)
        conv_builder_release(&runner[i].builder);
    conv_trial_close(trial);
    free(runner);
    return err->count ? -1 : 0;
}

int conv_search(const struct conv_target *target, enum conv_op op, const struct conv_shape *shape,
                struct conv_choice *choice, struct err *err)
{
    struct conv_builder builder = {.err = err};
    struct conv_candidate *list = NULL;
    int failed = -1;
    cudnnBackendDescriptor_t graph = conv_graph(&builder, target, op, shape);
    *choice = (struct conv_choice){.engine = -1};
    if (graph) {
        int32_t count = conv_candidates(&builder, target, graph, shape->type, &list);
        failed = count ? compete(target, op, shape, list, count, choice, err) : 0;
    }
    free(list);
    conv_builder_release(&builder);
    return failed;
}

/* ---- settings ---- */

/* An engine whose settings are varied. */
struct tuning {
    struct conv_trial *trial;
    const struct conv_target *target;
    cudnnBackendDescriptor_t graph;
    struct runner best;
    double end; /* by now() */
};

/* Set knob @index of the best, which may be a further one, to @knob; that is the best from now on
 * if it is faster and right.  @return whether it is. */
static bool change(struct tuning *tuning, int32_t index, struct conv_knob knob, struct err *err)
{
    struct runner next = {.choice = tuning->best.choice};
    next.choice.knob[index] = knob;
    next.choice.knobs += index == next.choice.knobs;
    cudnnBackendDescriptor_t config =
        conv_config(&next.builder, tuning->target, tuning->graph, &next.choice);
    bool gains = qualify(tuning->trial, tuning->target, config, &next, err) &&
                 next.choice.seconds < better * tuning->best.choice.seconds &&
                 conv_trial_check(tuning->trial, next.plan, err) == CONV_RIGHT;
    conv_builder_release(gains ? &tuning->best.builder : &next.builder);
    if (gains)
        tuning->best = next;
    return gains;
}

/* Try all values of one setting.  @return whether one was better. */
static bool vary(struct tuning *tuning, const struct conv_range *range, struct err *err)
{
    const struct conv_choice *choice = &tuning->best.choice;
    int32_t index = 0;
    bool gains = false;
    while (index < choice->knobs && choice->knob[index].type != range->type)
        index++;
    if (index == CONV_KNOBS || range->stride <= 0)
        return false;
    for (int64_t value = range->least; value <= range->most; value += range->stride)
        if ((index == choice->knobs || value != choice->knob[index].value) && !err->count &&
            now() < tuning->end)
            gains = change(tuning, index, (struct conv_knob){range->type, value}, err) || gains;
    return gains;
}

/* Change one setting after the other, from @first, which runs, until nothing is better. */
static void descend(struct tuning *tuning, const struct runner *first,
                    const struct conv_range *range, int32_t ranges, struct err *err)
{
    const double most = TUNING_RUNS * first->choice.seconds;
    tuning->best.choice = first->choice;
    tuning->end = now() + (most < tuning_most ? most : tuning_most);
    for (bool gains = true; gains;) {
        gains = false;
        for (int32_t i = 0; i < ranges; i++)
            gains = vary(tuning, &range[i], err) || gains;
    }
}

int conv_tune(const struct conv_target *target, enum conv_op op, const struct conv_shape *shape,
              struct conv_choice *choice, struct err *err)
{
    struct conv_builder builder = {.err = err};
    struct conv_range range[CONV_KNOBS];
    struct runner pair[2] = {{.choice = *choice}};
    struct tuning tuning = {.target = target};
    tuning.graph = conv_graph(&builder, target, op, shape);
    int32_t ranges = conv_ranges(&builder, target, tuning.graph, choice->engine, range);
    if (!builder.failed && !conv_trial_open(&tuning.trial, target->handle, op, shape, true, err)) {
        cudnnBackendDescriptor_t config =
            conv_config(&pair[0].builder, target, tuning.graph, choice);
        if (qualify(tuning.trial, target, config, &pair[0], err)) {
            descend(&tuning, &pair[0], range, ranges, err);
            pair[1] = tuning.best;
            final(tuning.trial, pair, pair[1].plan ? 2 : 1, err);
            *choice = pair[0].choice;
        }
    }
    for (int32_t i = 0; i < 2; i++)
        conv_builder_release(&pair[i].builder);
    conv_trial_close(tuning.trial);
    conv_builder_release(&builder);
    return err->count ? -1 : 0;
}
