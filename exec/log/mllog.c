#include "exec/log/mllog.h"

#include <math.h>
#include <string.h>

#include "core/base/json.h"

#define POINT "POINT_IN_TIME"
#define START "INTERVAL_START"
#define END   "INTERVAL_END"

/* One line; takes ownership of @value and @metadata, which may be NULL. */
static void put_line(struct mllog *log, double unix_s, const char *type, const char *key,
                     struct json *value, struct json *metadata)
{
    AUTORELEASE(json) struct json *line = json_new_object();
    AUTORELEASE(text) struct text text = {0};
    json_put_text(line, "namespace", "");
    json_put_integer(line, "time_ms", (int64_t)(unix_s * 1e3));
    json_put_text(line, "event_type", type);
    json_put_text(line, "key", key);
    if (value)
        json_put(line, "value", value);
    else
        json_put_text(line, "value", NULL);
    json_put(line, "metadata", metadata ? metadata : json_new_object());
    text_add(&text, ":::MLLOG ");
    json_print_line(&text, line, 9);
    text_append(&text, "\n", 1);
    log_file_take(&log->file, &text);
}

static void put_real(struct mllog *log, const char *key, double value)
{
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, json_new_real(value), NULL);
}

static void put_integer(struct mllog *log, const char *key, int64_t value)
{
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, json_new_integer(value), NULL);
}

static void put_text(struct mllog *log, const char *key, const char *value)
{
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, json_new_text(value), NULL);
}

/* MLPerf counts epochs in whole numbers.  An epoch ends within a step, so a number within one step
 * of a whole number is rounded; evaluations of foretrain may be elsewhere. */
static void put_epochs(const struct mllog *log, struct json *metadata, const char *key,
                       double epochs)
{
    double batch = (double)(log->global_batch > 0 ? log->global_batch : 1);
    double step = batch / (double)log->scenario->training.train_images;
    if (fabs(epochs - rint(epochs)) <= step && rint(epochs) > 0)
        json_put_integer(metadata, key, (int64_t)rint(epochs));
    else
        json_put_real(metadata, key, epochs);
}

static struct json *epoch_metadata(const struct mllog *log, double epoch)
{
    struct json *metadata = json_new_object();
    put_epochs(log, metadata, "epoch_num", epoch);
    return metadata;
}

/* first_epoch_num counts from 1: the epoch of the block's first step. */
static struct json *block_metadata(const struct mllog *log)
{
    struct json *metadata = json_new_object();
    double every = log->scenario->training.evaluate_every, end = log->plan->epochs;
    if (every > 0) /* a resumed run may begin anywhere */
        end = fmin(end, (floor(log->block_epoch / every * (1 + 1e-12)) + 1) * every);
    json_put_integer(metadata, "first_epoch_num", (int64_t)floor(log->block_epoch) + 1);
    put_epochs(log, metadata, "epoch_count", end - log->block_epoch);
    return metadata;
}

static void begin_block(struct mllog *log, double epoch)
{
    log->in_block = true;
    log->block_epoch = epoch;
    put_line(log, base_seconds(CLOCK_REALTIME), START, "block_start", NULL, block_metadata(log));
}

static void end_block(struct mllog *log, double unix_s)
{
    struct json *metadata = json_new_object();
    if (log->in_block) {
        json_put_integer(metadata, "first_epoch_num", (int64_t)floor(log->block_epoch) + 1);
        put_line(log, unix_s, END, "block_stop", NULL, metadata);
    } else {
        json_free(metadata);
    }
    log->in_block = false;
}

/* ---- the job ---- */

static void put_submission(struct mllog *log)
{
    const struct scenario *s = log->scenario;
    bool resnet = strncmp(s->model.network, "resnet50", 8) == 0;
    put_text(log, "submission_benchmark", resnet ? "resnet" : s->model.network);
    put_text(log, "submission_division", "open");
    put_text(log, "submission_org", "none: a run of foretrain, not a submission");
    put_text(log, "submission_platform", s->cluster.platform);
    put_text(log, "submission_status", "research");
}

/* A key of the optimizer: "lars_opt_momentum", "sgd_opt_momentum". */
static void put_option(struct mllog *log, const char *name, struct json *value)
{
    bool lars = log->scenario->training.optimizer == OPTIMIZER_LARS;
    AUTOFREE char *key = base_format("%s_opt_%s", lars ? "lars" : "sgd", name);
    put_line(log, base_seconds(CLOCK_REALTIME), POINT, key, value, NULL);
}

static double peak_rate(const struct mllog *log)
{
    const struct scenario *s = log->scenario;
    double batches = s->training.learning_rate.base_batch
                         ? (double)log->plan->phase[0].global_batch /
                               (double)s->training.learning_rate.base_batch
                         : 1;
    return s->training.learning_rate.base * batches;
}

static int64_t decay_steps(const struct mllog *log)
{
    int64_t steps = 0;
    for (int32_t i = 0; i < log->plan->phase_count; i++)
        steps += log->plan->phase[i].steps;
    const struct phase *first = &log->plan->phase[0];
    double warmup = log->scenario->training.warmup_epochs / first->epochs * (double)first->steps;
    return steps - (int64_t)rint(warmup);
}

static void put_optimizer(struct mllog *log)
{
    const struct scenario *s = log->scenario;
    bool lars = s->training.optimizer == OPTIMIZER_LARS;
    put_text(log, "opt_name", lars ? "lars" : "sgd");
    put_option(log, "base_learning_rate", json_new_real(peak_rate(log)));
    put_option(log, "momentum", json_new_real(s->training.momentum));
    put_option(log, "weight_decay", json_new_real(s->training.weight_decay));
    if (s->training.learning_rate.decay == DECAY_POLYNOMIAL &&
        s->training.learning_rate.cycles == 1 && s->training.collapse.epochs == 0) {
        put_option(log, "end_learning_rate",
                   json_new_real(s->training.learning_rate.final * peak_rate(log)));
        put_option(log, "learning_rate_decay_poly_power",
                   json_new_real(s->training.learning_rate.power));
        put_option(log, "learning_rate_decay_steps", json_new_integer(decay_steps(log)));
    }
    if (lars) {
        put_real(log, "lars_epsilon", 0);
        put_real(log, "lars_opt_learning_rate_warmup_epochs", s->training.warmup_epochs);
        return;
    }
    const struct phase *first = &log->plan->phase[0];
    put_real(log, "opt_learning_rate_warmup_epochs", s->training.warmup_epochs);
    put_integer(log, "model_bn_span", first->micro_batch * s->training.norm_group);
}

static void put_job(struct mllog *log)
{
    const struct scenario *s = log->scenario;
    const struct phase *first = &log->plan->phase[0];
    put_integer(log, "seed", s->seed);
    mllog_batch(log, first->global_batch);
    put_integer(log, "gradient_accumulation_steps", first->batch_per_device / first->micro_batch);
    put_optimizer(log);
    put_integer(log, "train_samples", s->training.train_images);
    put_integer(log, "eval_samples", s->training.validation_images);
}

/* ---- the run ---- */

int mllog_open(struct mllog *log, const char *directory, const char *run,
               const struct scenario *scenario, const struct plan *plan, int32_t ranks,
               struct err *err)
{
    *log = (struct mllog){.run = run,
                          .scenario = scenario,
                          .plan = plan,
                          .ranks = ranks,
                          .opened_unix_s = base_seconds(CLOCK_REALTIME)};
    return log_file_open(&log->file, directory, "mllog.txt", err);
}

static bool is_stop(const char *line, int64_t step)
{
    return strstr(line, "\"key\": \"run_stop\"") != NULL;
}

void mllog_start(struct mllog *log, int64_t step, double epoch)
{
    log_file_cut(&log->file, is_stop, step);
    log->started = true;
    if (step > 0 && !log_file_is_empty(&log->file)) {
        log->global_batch = MLLOG_BATCH_TOLD;
        put_integer(log, "foretrain_resumed", step);
    } else {
        put_line(log, log->opened_unix_s, POINT, "cache_clear", json_new_boolean(false), NULL);
        put_line(log, log->opened_unix_s, START, "init_start", NULL, NULL);
        put_submission(log);
        put_text(log, "foretrain_run", log->run);
        put_text(log, "foretrain_scenario_sha256", log->scenario->sha256);
        put_integer(log, "foretrain_ranks", log->ranks);
        put_job(log);
        put_line(log, base_seconds(CLOCK_REALTIME), END, "init_stop", NULL, NULL);
        put_line(log, base_seconds(CLOCK_REALTIME), START, "run_start", NULL, NULL);
    }
    begin_block(log, epoch);
    log_file_flush(&log->file);
}

void mllog_batch(struct mllog *log, int64_t global_batch)
{
    if (global_batch != log->global_batch && log->global_batch != MLLOG_BATCH_TOLD)
        put_integer(log, "global_batch_size", global_batch);
    log->global_batch = global_batch;
}

void mllog_evaluation(struct mllog *log, double epoch, double accuracy, double seconds, bool more)
{
    double end = base_seconds(CLOCK_REALTIME);
    put_line(log, end - seconds, START, "eval_start", NULL, epoch_metadata(log, epoch));
    put_line(log, end, POINT, "eval_accuracy", json_new_real(accuracy), epoch_metadata(log, epoch));
    put_line(log, end, END, "eval_stop", NULL, epoch_metadata(log, epoch));
    end_block(log, end);
    if (more)
        begin_block(log, epoch);
    log_file_flush(&log->file);
}

int mllog_close(struct mllog *log, double epoch, const char *status, struct err *err)
{
    if (log->started) {
        struct json *metadata = epoch_metadata(log, epoch);
        end_block(log, base_seconds(CLOCK_REALTIME));
        json_put_text(metadata, "status", status);
        put_line(log, base_seconds(CLOCK_REALTIME), END, "run_stop", NULL, metadata);
    }
    return log_file_close(&log->file, err);
}
