/** @file
 * Tells a run that never was, for tests of what is told: write_log JOB DIRECTORY FROM TO END
 * does steps FROM + 1 ... TO, evaluates every 10 steps, writes a checkpoint every 20, and ends with
 * "success" or "killed", which closes nothing.  Each step is said to take $STEP_S.
 * Prints CPU time per step.
 */

#include "exec/log/log.h"
#include "tests/own.h"

static void tell(struct log *log, const struct scenario *scenario, const struct plan *plan,
                 int64_t step)
{
    int64_t batch = plan->phase[0].global_batch;
    const char *seconds = getenv("STEP_S");
    double epoch = (double)(step * batch) / (double)scenario->training.train_images;
    struct log_step line = {.step = step,
                            .global_batch = batch,
                            .epoch = epoch,
                            .loss = step == 7 ? (double)NAN : 7.0 / (double)step,
                            .learning_rate = 0.1,
                            .weight_decay = 5e-5,
                            .loss_scale = 1024,
                            .gradient_norm = step == 7 ? INFINITY : 1.0 / 3,
                            .seconds = seconds ? atof(seconds) : 1e-4,
                            .input_wait_s = 1e-5,
                            .exposed_communication_s = 2e-5,
                            .skipped = step == 7};
    log_step(log, &line);
    if (step % 10 == 0)
        log_evaluation(log, &(struct log_evaluation){.step = step,
                                                     .epoch = epoch,
                                                     .loss = 2,
                                                     .top1 = (double)step / 1000,
                                                     .top5 = (double)step / 500,
                                                     .images = 50,
                                                     .seconds = 0.01});
    if (step % 20 == 0)
        log_checkpoint(log, "a \"quoted\" path/ckpt");
}

static int tell_run(const struct scenario *scenario, const struct plan *plan, char **argv,
                    struct err *err)
{
    struct log *log;
    int64_t total = 0, from = atoll(argv[3]), to = atoll(argv[4]);
    for (int32_t i = 0; i < plan->phase_count; i++)
        total += plan->phase[i].steps;
    if (log_open(&log, argv[2], "0123456789abcdef", "images", 1, plan, total, err))
        return -1;
    log_start(log, from);
    double begin = base_seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t step = from + 1; step <= to; step++)
        tell(log, scenario, plan, step);
    if (to > from)
        printf("step_cpu_us %.2f\n",
               (base_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin) * 1e6 / (double)(to - from));
    fflush(stdout);
    if (strcmp(argv[5], "killed") == 0)
        _exit(0);
    return log_close(log, err);
}

int main(int argc, char **argv)
{
    HELD(err) err = {0};
    struct scenario scenario;
    if (argc != 6)
        return 64;
    if (scenario_read(&scenario, NULL, argv[1], NULL, 0, NULL, &err) == 0) {
        HELD(plan) plan = plan_build(&scenario, 4);
        tell_run(&scenario, &plan, argv, &err);
        scenario_release(&scenario);
    }
    int code = err.exit_code;
    if (err.text)
        fputs(err.text, stderr);
    return code;
}
