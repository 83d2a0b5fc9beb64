#include "app/plan/candidate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/explore/crew.h"
#include "app/predict/predict.h"

const char *const decision_keys[DECISION_COUNT] = {
    [DECISION_PLATFORM] = "cluster.platform",
    [DECISION_NODES] = "cluster.nodes",
    [DECISION_BATCH] = "training.phases[*].batch_per_device",
    [DECISION_ALGORITHM] = "allreduce.algorithm",
    [DECISION_BUCKET] = "allreduce.bucket",
};

enum { REASON = CREW_LINE / 8 /* characters of one: a character may take six in JSON */ };

/* Some candidates on their way through the crew. */
struct round {
    const struct question *question;
    struct candidate *list;
    const int64_t *at;
    int64_t count, done;
    enum backend_choice backend;
    bool final;
    bool shown; /* a line on the terminal */
};

static void add(struct option_list *set, char *text)
{
    option_list_add(set, text);
    free(text);
}

int64_t candidate_batch(const struct question *q, const struct candidate *c, int32_t index)
{
    return llround(fmax(1, (double)c->batch * q->share[index]));
}

struct option_list candidate_set(const struct question *q, const struct candidate *c)
{
    struct option_list set = {0};
    option_list_add_all(&set, &q->options->set);
    if (q->target)
        add(&set, base_format("training.target=%s", q->target));
    add(&set, base_format("cluster.platform=%s", c->platform));
    add(&set, base_format("cluster.nodes=%lld", (long long)c->nodes));
    for (const char *const *key = batch_keys; key[1]; key++)
        option_list_add(&set, *key);
    for (int32_t i = 0; i < q->phases; i++)
        add(&set, base_format("training.phases[%d].batch_per_device=%lld", i,
                              (long long)candidate_batch(q, c, i)));
    if (q->phases > 1)
        option_list_add(&set, "training.phases[*].nodes=null");
    option_list_add(&set, "allreduce.grid=null");
    add(&set, base_format("allreduce.algorithm=%s", c->algorithm));
    add(&set, base_format("allreduce.bucket=%s", c->bucket));
    return set;
}

/* ---- in a worker ---- */

/* The time of @p if no step of it waited for a collective, or computed longer beside one, nor for a
 * sharded optimizer: how many share it follows from the algorithm. */
static double least_of(const struct prediction *p)
{
    bool sharded = p->job.scenario.training.sharded;
    AUTOFREE double *step = base_alloc(p->task_count, sizeof(*step));
    for (int32_t i = 0; i < p->task_count; i++) {
        const struct task *task = &p->task[i];
        struct breakdown b = task_breakdown(task);
        double rest = b.exposed_communication + b.slowed + (sharded ? b.other : 0);
        step[i] = task->step - (i < baseline_of(p) ? rest : 0);
    }
    return prediction_seconds(p, step, 0);
}

/* What a worker answers, in this order. */
enum { DEVICES, COLUMNS, ROWS, EPOCHS, MEAN_NODES, MEAN_DEVICES, LOW, TIME, HIGH, LEAST, NUMBERS };

static void put_numbers(struct json *json, const struct prediction *p)
{
    const struct usage usage = prediction_usage(p);
    const struct job *job = &p->job;
    const struct grid grid = prediction_last(p)->point.grid;
    bool matters = grid_matters(job->resolved.algorithm, job->resolved.order, job->platform);
    const double number[NUMBERS] = {
        [DEVICES] = p->result.devices,    [COLUMNS] = matters ? grid.columns : 0,
        [ROWS] = matters ? grid.rows : 0, [EPOCHS] = p->result.plan.epochs,
        [MEAN_NODES] = usage.nodes,       [MEAN_DEVICES] = usage.devices,
        [LOW] = usage.seconds.low,        [TIME] = usage.seconds.value,
        [HIGH] = usage.seconds.high,      [LEAST] = least_of(p),
    };
    struct json *numbers = json_put_array(json, "numbers");
    for (int i = 0; i < NUMBERS; i++)
        json_append_real(numbers, number[i]);
}

static int32_t draws_of(const struct round *round)
{
    return !round->question->unknown ? CANDIDATE_DRAWS
           : round->final            ? UNKNOWN_FINALIST_DRAWS
                                     : UNKNOWN_DRAWS;
}

static void predict(void *context, int64_t index, struct text *lines)
{
    const struct round *round = context;
    const struct question *q = round->question;
    struct predict_options options = *q->options;
    AUTORELEASE(prediction) struct prediction p = {0};
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(json) struct json *json = json_new_object();
    options.set = candidate_set(q, &round->list[round->at[index]]);
    int failed = prediction_screen(&p, q->path, &options, round->backend, draws_of(round), &err);
    if (!failed && isnan(p.result.train_likely.high))
        failed = err_add(&err, "nothing is known of what its devices compute: no interval");
    json_put_integer(json, "index", index);
    json_put_integer(json, "code", failed ? err.exit_code : 0);
    if (failed) {
        char *reason = err_reason(&err);
        reason[strnlen(reason, REASON)] = '\0';
        json_put_text(json, "reason", reason);
    } else {
        put_numbers(json, &p);
    }
    json_print_line(lines, json, 17);
    text_add(lines, "\n");
    option_list_release(&options.set);
}

/* ---- here ---- */

static void fail(const struct round *round, struct candidate *c, int64_t code, const char *reason)
{
    free(c->reason);
    c->reason = base_copy(reason);
    c->final = c->status == FINDING_OK;
    if (c->final)
        return;
    c->code = (int32_t)code;
    c->status = code >= 64 && code < 70 ? FINDING_REFUSED : FINDING_FAILED;
    c->backend = (int32_t)round->backend;
}

static void take_numbers(const struct round *round, struct candidate *c, const struct json *numbers)
{
    double n[NUMBERS] = {0};
    for (int i = 0; i < NUMBERS; i++)
        json_as_real(json_item(numbers, i), &n[i]);
    c->final = round->final;
    c->status = FINDING_OK;
    c->backend = (int32_t)round->backend;
    c->devices = (int32_t)n[DEVICES];
    c->grid = (struct grid){(int32_t)n[COLUMNS], (int32_t)n[ROWS]};
    c->epochs = n[EPOCHS];
    c->usage = (struct usage){n[MEAN_NODES], n[MEAN_DEVICES], {n[LOW], n[TIME], n[HIGH]}};
    c->least = n[LEAST];
    if (!c->final)
        c->closed = n[TIME];
}

static int take(void *context, const char *lines, int64_t length, struct err *err)
{
    struct round *round = context;
    for (int64_t begin = 0; begin < length; round->done++) {
        int64_t end = (int64_t)strcspn(lines + begin, "\n"), index = 0, code = 70;
        AUTORELEASE(json) struct json *json = json_read("a worker", lines + begin, end, err);
        if (!json)
            return -1;
        json_as_integer(json_get(json, "index"), &index);
        json_as_integer(json_get(json, "code"), &code);
        struct candidate *c = &round->list[round->at[index]];
        if (code)
            fail(round, c, code, json_as_text(json_get(json, "reason")));
        else
            take_numbers(round, c, json_get(json, "numbers"));
        begin += end + 1;
    }
    return 0;
}

/* A candidate whose worker died. */
static int lose(void *context, int64_t index, const char *how, struct err *err)
{
    struct round *round = context;
    AUTOFREE char *reason = base_format("the process that predicted it did not end well: %s", how);
    fail(round, &round->list[round->at[index]], 70, reason);
    return 0;
}

static void tick(void *context)
{
    struct round *round = context;
    if (!isatty(STDERR_FILENO))
        return;
    round->shown = true;
    fprintf(stderr, "\r\033[K%s %lld of %lld plans",
            round->backend == BACKEND_SIM ? "simulating" : "trying", (long long)round->done,
            (long long)round->count);
}

int candidates_predict(const struct question *question, struct candidate *list, const int64_t *at,
                       int64_t chosen, enum backend_choice backend, bool final, struct err *err)
{
    struct round round = {question, list, at, chosen, 0, backend, final, false};
    int32_t workers = question->workers;
    if (backend == BACKEND_SIM) /* each simulation has processes of its own, two at a time */
        workers = (workers + 1) / 2;
    if (chosen == 0)
        return 0;
    int failed = crew_run(&(struct crew){.workers = chosen < workers ? (int32_t)chosen : workers,
                                         .context = &round,
                                         .work = predict,
                                         .take = take,
                                         .lose = lose,
                                         .tick = tick},
                          chosen, err);
    if (round.shown)
        fputs("\r\033[K", stderr);
    return failed;
}
