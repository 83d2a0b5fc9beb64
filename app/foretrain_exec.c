/** @file
 * foretrain-exec: trains for real, one process per rank.  mpirun or srun starts it; without them it
 * is a job of one rank.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/command.h"
#include "app/job.h"
#include "config.h"
#include "core/json.h"
#include "exec/exec.h"

/* What the user asked for; the rows of other programs find their members in the first one. */
struct order {
    struct request request;
    bool same_data;
    int32_t iterations;
    const char *learning_rate, *trace_out;
};

/* The order with everything it names, ready to run. */
struct task {
    struct job job;
    struct point point;
    struct exec_job exec;
};

#define AT(member) offsetof(struct order, member)

static const struct option iterations_row = {
    "iterations", 'i', OPTION_INTEGER, AT(iterations), "N", NULL, "Training steps (default: 10)"};
static const struct option learning_rate_row = {"learning-rate",
                                                'r',
                                                OPTION_TEXT,
                                                AT(learning_rate),
                                                "RATE",
                                                NULL,
                                                "The same for all steps (default: 0.05)"};
static const struct option same_data_row = {
    "same-data", 0, OPTION_FLAG, AT(same_data),
    .help = "Give all ranks one batch; the losses are then those of one rank"};
static const struct option trace_out_row = {
    "trace-out",
    'o',
    OPTION_TEXT,
    AT(trace_out),
    "FILE",
    NULL,
    "Write when each step ran, in the format of foretrain-sim"};

static const struct option *const options[] = {
    &option_set_row, &option_phase_row, &iterations_row,  &learning_rate_row,
    &same_data_row,  &trace_out_row,    &option_help_row, NULL,
};

static void print_help(struct text *out)
{
    text_add(out, "foretrain-exec: train on synthetic data and print one JSON object.\n\n"
                  "  $ mpirun -n 4 foretrain-exec JOB\n\n"
                  "Usage: [mpirun -n RANKS] foretrain-exec JOB [options]\n\n");
    option_help(out, options);
    text_add(out, "\nTrains with SGD in fp32.  Warm-up, evaluation, input workers and noise of JOB "
                  "are for predictions.\n");
}

static int check_ability(const struct scenario *scenario, struct err *err)
{
    const int32_t dtype[] = {scenario->model.compute, scenario->model.gradients,
                             scenario->model.master};
    static const char *const key[] = {"compute", "gradients", "master"};
    for (int32_t i = 0; i < 3; i++)
        if (dtype[i] != DTYPE_FP32)
            return err_add_code(err, 69,
                                "%s: error: the cpu-naive device trains in fp32 only; use --set "
                                "model.precision.%s=fp32",
                                scenario->path, key[i]);
    if (scenario->allreduce.algorithm == ALGORITHM_NCCL)
        return err_add_code(err, 69,
                            "%s: error: algorithm nccl is a model of NCCL, for predictions; the "
                            "cpu-naive device exchanges over MPI: use --set "
                            "allreduce.algorithm=ring or another",
                            scenario->path);
    if (scenario->training.optimizer != OPTIMIZER_SGD)
        return err_add_code(err, 69,
                            "%s: error: the cpu-naive device trains with SGD only; use --set "
                            "training.optimizer.name=sgd",
                            scenario->path);
    return 0;
}

static int parse_rate(const char *text, double *rate, struct err *err)
{
    char *end;
    *rate = strtod(text, &end);
    if (end == text || *end || !isfinite(*rate) || *rate < 0)
        return err_add_code(err, 64, "--learning-rate: expected a number of at least 0, got '%s'",
                            text);
    return 0;
}

static int check_order(const struct order *order, struct err *err)
{
    if (order->request.argument.count != 1)
        return err_add_code(err, 64, "expected one JOB; --help says more");
    if (order->iterations < 1)
        return err_add_code(err, 64, "--iterations: expected at least 1");
    return 0;
}

static int prepare(const struct order *order, struct task *task, struct err *err)
{
    double rate;
    const struct option_list *set = &order->request.set;
    if (check_order(order, err) || parse_rate(order->learning_rate, &rate, err) ||
        job_read(&task->job, order->request.argument.item[0], set->item, set->count, err))
        return -1;
    const struct scenario *scenario = &task->job.scenario;
    if (check_ability(scenario, err) ||
        job_point(&task->job, order->request.phase, &task->point, err))
        return -1;
    task->exec = (struct exec_job){
        .model = task->job.model,
        .schedule = task->point.schedule,
        .batch = (int32_t)task->point.batch,
        .iterations = order->iterations,
        .seed = (uint64_t)scenario->seed,
        .same_data = order->same_data,
        .learning_rate = rate,
        .momentum = scenario->training.momentum,
        .weight_decay = scenario->training.weight_decay,
        .label_smoothing = scenario->training.label_smoothing,
    };
    return 0;
}

static int write_trace(const char *path, const struct trace *trace, struct err *err)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return err_add_code(err, 73, "cannot write %s: %s", path, strerror(errno));
    int status = trace_write(file, trace, err);
    fclose(file);
    return status;
}

static void print_result(struct text *out, const struct task *task, const struct trace *trace,
                         const struct exec_result *result)
{
    struct json *json = json_new_object(), *steps = json_new_array();
    char *hash = base_format("%016" PRIx64, trace->schedule_hash);
    double step_time = trace_step_time(trace);
    json_put_text(json, "schema", "foretrain/exec/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put_text(json, "scenario_sha256", task->job.scenario.sha256);
    json_put_text(json, "schedule_hash", hash);
    json_put_text(json, "backend", trace->backend);
    json_put_text(json, "grain", trace->grain);
    json_put_text(json, "network", task->job.model->name);
    json_put_integer(json, "ranks", trace->ranks);
    json_put_integer(json, "batch_per_device", task->exec.batch);
    json_put_integer(json, "iterations", trace->iterations);
    json_put_integer(json, "messages", trace->messages);
    json_put_real(json, "loss_first", result->loss[0]);
    json_put_real(json, "loss_last", result->loss[result->iterations - 1]);
    json_put_real(json, "step_time_s", step_time);
    json_put_real(json, "images_per_s", (double)task->exec.batch * trace->ranks / step_time);
    for (int32_t i = 0; i < result->iterations; i++) {
        struct json *step = json_new_object();
        json_put_real(step, "loss", result->loss[i]);
        json_put_real(step, "end_s", trace->iteration_end[i]);
        json_append(steps, step);
    }
    json_put(json, "steps", steps);
    json_print(out, json);
    json_free(json);
    free(hash);
}

/* On all ranks together. */
static void train(const struct order *order, const struct task *task, struct exec_world world,
                  struct text *out, struct err *err)
{
    struct trace trace = {0};
    struct exec_result result = {0};
    if (!exec_run(&task->exec, &trace, &result, err) && world.rank == 0) {
        print_result(out, task, &trace, &result);
        if (order->trace_out)
            write_trace(order->trace_out, &trace, err);
    }
    exec_result_release(&result);
    trace_release(&trace);
}

static void answer(struct order *order, struct exec_world world, int argc, char **argv,
                   struct text *out, struct err *err)
{
    struct task task = {0};
    if (!option_parse(options, argc, argv, order, &order->request.argument, err) &&
        !order->request.help)
        prepare(order, &task, err);
    if (exec_first_failure(err->count > 0) < 0) {
        if (order->request.help)
            print_help(out);
        else
            train(order, &task, world, out, err);
    }
    point_release(&task.point);
    job_release(&task.job);
}

int main(int argc, char **argv)
{
    struct exec_world world = exec_start(&argc, &argv);
    struct text out = {0};
    struct err err = {0};
    struct order order = {.request = request_default(), .iterations = 10, .learning_rate = "0.05"};
    answer(&order, world, argc - 1, argv + 1, &out, &err);

    /* Ranks mostly find the same faults: one of them speaks. */
    int32_t code = err.count ? err.exit_code : 0, first = exec_first_failure(err.count > 0);
    if (world.rank != (first < 0 ? 0 : first)) {
        text_release(&out);
        err_release(&err);
    } else {
        code = command_finish(&out, &err);
    }
    option_release(options, &order);
    option_list_release(&order.request.argument);
    exec_stop();
    return code;
}
