#include "app/cli/command.h"
#include "app/page/html.h"
#include "app/predict/explain.h"
#include "app/predict/predict.h"
#include "app/predict/uncertainty.h"
#include "app/process/child.h"
#include "core/price/price.h"
#include "core/schedule/memory.h"

enum {
    COMPARE_MOST = 4 /* jobs: as many columns as fit beside each other */
};

/* Those of a job that a table shows (core/base/columns.h). */
#define COMPARE_FIGURES                                                                            \
    "step_s~, images_per_s~, samples_per_s~, time_to_train_s~, device_hours~, cost~, currency, "   \
    "energy_kwh~, carbon_kg~, memory_bytes: memory of a device, "                                  \
    "weak_scaling_efficiency~: weak scaling, strong_scaling_efficiency~: strong scaling"

/* One job. */
struct column {
    const char *name, *path, *network; /* borrowed */
    struct texts own;                  /* assignments to this job alone; borrowed */
    struct predict_options options;    /* with the assignments to all and to this one; owned list */
    struct prediction prediction;
    const struct price_file *prices; /* of its tariffs; NULL: none */
    struct figures figures;
    double memory;                  /* of a device, for the arrays of training [bytes] */
    struct explanation explanation; /* of its last phase, once it is asked for */
    bool explained;
};

/* What two times may differ by. */
enum difference {
    DIFFERENCE_IMAGES,     /* data to train on: epochs, size of the data set */
    DIFFERENCE_DEVICES,    /* their number, mean over the time */
    DIFFERENCE_SPEED,      /* images/s of a device in the baseline */
    DIFFERENCE_EFFICIENCY, /* images/s of a device in the run over that in the baseline */
    DIFFERENCE_REST,       /* start-up and evaluations */
    DIFFERENCE_FAILURES,   /* failures and checkpoints */
    DIFFERENCE_COUNT
};

/* By what two times differ. */
struct time_factor {
    const char *name; /* of difference_names */
    double factor;
};

/* Two jobs. */
struct pair {
    int32_t a, b;           /* columns */
    double ratio;           /* time of b over that of a */
    struct interval likely; /* of the ratio; NAN: not known */
    double faster;          /* probability that a is faster, ties counting half; NAN: not known */
    int32_t draws;          /* that both have */
    struct time_factor factor[DIFFERENCE_COUNT]; /* their product is the ratio */
    char *cause; /* what makes most of the difference; NULL: they take equally long; owned */
};

/* All.  Start from {0} with the prices; release with comparison_release(). */
struct comparison {
    struct tariffs tariffs; /* of all jobs or of some */
    struct column column[COMPARE_MOST];
    int32_t count;
    struct pair pair[COMPARE_MOST * (COMPARE_MOST - 1) / 2];
    int32_t pair_count;
    char *sentence; /* the fastest against the next; owned */
    struct texts warning;
};

static const char *const compare_names[COMPARE_MOST] = {"A", "B", "C", "D"};

static const char *const difference_names[DIFFERENCE_COUNT] = {
    [DIFFERENCE_IMAGES] = "data to train on",
    [DIFFERENCE_DEVICES] = "number of devices",
    [DIFFERENCE_SPEED] = "speed of a device in the baseline",
    [DIFFERENCE_EFFICIENCY] = "scaling efficiency",
    [DIFFERENCE_REST] = "start-up and evaluation",
    [DIFFERENCE_FAILURES] = "failures and checkpoints",
};

/* Append job @path with @own assignments after those of @options, both borrowed. */
static void comparison_add(struct comparison *comparison, const char *path,
                           const struct predict_options *options, const struct texts *own)
{
    struct column *column = &comparison->column[comparison->count];
    *column = (struct column){
        .name = compare_names[comparison->count++], .path = path, .own = *own, .options = *options};
    column->options.set = (struct texts){0};
    texts_add_all(&column->options.set, &options->set);
    texts_add_all(&column->options.set, own);
}

/* ---- figures ---- */

/* Of the phase that needs most. */
static double find_memory(const struct prediction *prediction)
{
    int64_t most = 0;
    for (int32_t i = 0; i < job_phases(&prediction->job); i++) {
        struct memory_plan plan = prediction_memory(prediction, i);
        most = memory_total(&plan) > most ? memory_total(&plan) : most;
    }
    return (double)most;
}

static void find_figures(struct column *column, struct err *err)
{
    struct scaling *strong = &column->prediction.result.strong;
    price_check_device(column->prices, column->prediction.job.platform->device.name, err);
    column->figures = figures_of(&column->prediction, column->prices);
    column->memory = find_memory(&column->prediction);
    if (!strong->batch)
        *strong = (struct scaling){.efficiency = NAN, .likely = {NAN, NAN}};
}

/* ---- pairs ---- */

/* Whether @ratio is another one than 1 in the digits that are printed. */
static bool compare_differs(double ratio)
{
    return fabs(ratio - 1) > 5e-4;
}

/* The ratio of the times of each draw that both have, by the random numbers behind them. */
static void compare_draws(struct pair *pair, const struct doubts *a, const struct doubts *b)
{
    double *ratio = base_alloc(a->draws + 1, sizeof(*ratio)), faster = 0;
    for (int32_t i = 0, k = 0; i < a->draws && k < b->draws;) {
        if (a->number[i] == b->number[k]) {
            double one = b->seconds[k++] / a->seconds[i++];
            faster += one > 1 ? 1 : one == 1 ? 0.5 : 0;
            ratio[pair->draws++] = one;
        } else if (a->number[i] < b->number[k]) {
            i++;
        } else {
            k++;
        }
    }
    pair->faster = pair->draws ? faster / pair->draws : NAN;
    pair->likely = uncertainty_interval(pair->draws ? ratio : NULL, pair->draws);
    free(ratio);
}

/* A run as a product: time = images / (devices * speed * efficiency) * rest * failures. */
static void find_parts(const struct prediction *p, double part[DIFFERENCE_COUNT])
{
    const struct result *result = &p->result;
    const struct task *baseline = &p->task[baseline_of(p)];
    double images = 0, spent = 0;
    double work = result->toll.work, steps = work - result->evaluation_s - result->startup_s;
    for (int32_t i = 0; i < result->plan.phase_count; i++) {
        const struct phase *phase = &result->plan.phase[i];
        images += (double)phase->steps * (double)phase->global_batch;
        spent += (double)(phase->steps * phase->devices) * result->phase_step_time[i];
    }
    double speed = point_images(&baseline->point) / baseline->step;
    part[DIFFERENCE_IMAGES] = images;
    part[DIFFERENCE_DEVICES] = steps / spent;
    part[DIFFERENCE_SPEED] = 1 / speed;
    part[DIFFERENCE_EFFICIENCY] = spent * speed / images;
    part[DIFFERENCE_REST] = work / steps;
    part[DIFFERENCE_FAILURES] = result->time_to_train_s / work;
}

/* Warnings of the files were printed when they were predicted. */
static int explain(struct column *column, struct err *err)
{
    char *warning = err->warning;
    if (column->explained)
        return 0;
    column->explained = true;
    err->warning = NULL;
    int failed = explanation_make(&column->explanation, column->path, &column->options, 0, err);
    free(err->warning);
    err->warning = warning;
    return failed;
}

/* Why @slow loses more efficiency than @fast. */
static int find_loss(struct column *fast, struct column *slow, char **cause, struct err *err)
{
    if (explain(fast, err) || explain(slow, err))
        return -1;
    struct cause worst = {0};
    enum cause_kind kind = CAUSE_COUNT;
    for (int i = 0; i < CAUSE_COUNT; i++) {
        struct cause more =
            explanation_difference(&fast->explanation, &slow->explanation, (enum cause_kind)i);
        if (more.points > worst.points) {
            worst = more;
            kind = (enum cause_kind)i;
        }
    }
    *cause = base_format(
        "%s%s%s", kind < CAUSE_COUNT ? cause_names[kind] : difference_names[DIFFERENCE_EFFICIENCY],
        worst.link ? " on the " : "", worst.link ? worst.link : "");
    return 0;
}

static int compare_pair(struct pair *pair, struct column *a, struct column *b, struct err *err)
{
    const struct result *first = &a->prediction.result, *second = &b->prediction.result;
    double of_a[DIFFERENCE_COUNT], of_b[DIFFERENCE_COUNT];
    int most = 0;
    pair->ratio = second->time_to_train_s / first->time_to_train_s;
    compare_draws(pair, &first->doubts, &second->doubts);
    find_parts(&a->prediction, of_a);
    find_parts(&b->prediction, of_b);
    for (int i = 0; i < DIFFERENCE_COUNT; i++) {
        pair->factor[i] = (struct time_factor){difference_names[i], of_b[i] / of_a[i]};
        bool more = pair->ratio > 1 ? pair->factor[i].factor > pair->factor[most].factor
                                    : pair->factor[i].factor < pair->factor[most].factor;
        most = more ? i : most;
    }
    if (!compare_differs(pair->ratio))
        return 0;
    if (most == DIFFERENCE_EFFICIENCY)
        return pair->ratio > 1 ? find_loss(a, b, &pair->cause, err)
                               : find_loss(b, a, &pair->cause, err);
    pair->cause = base_copy(difference_names[most]);
    return 0;
}

/* ---- warnings ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void warn_pair(struct comparison *c, const struct pair *pair)
{
    const struct job *a = &c->column[pair->a].prediction.job;
    const struct job *b = &c->column[pair->b].prediction.job;
    const struct scenario *s = &a->scenario, *t = &b->scenario;
    const char *one = compare_names[pair->a], *two = compare_names[pair->b];
    struct shape read = a->model->input, other = b->model->input;
    if (strcmp(s->model.network, t->model.network) || memcmp(&read, &other, sizeof(read)) != 0)
        texts_add(&c->warning,
                  "%s trains %s on %dx%dx%d, %s %s on %dx%dx%d: their times do not buy the same",
                  one, s->model.network, read.channels, read.height, read.width, two,
                  t->model.network, other.channels, other.height, other.width);
    if (s->training.target != t->training.target ||
        s->training.train_images != t->training.train_images)
        texts_add(&c->warning,
                  "%s and %s have other targets or data sets: their times do not buy the same", one,
                  two);
    if (strcmp(a->platform->device.name, b->platform->device.name) ||
        !same_text(a->resolved.software, b->resolved.software))
        texts_add(&c->warning,
                  "%s and %s have other devices or software, whose errors may differ: the interval "
                  "of their ratio is too narrow",
                  one, two);
    const struct price_file *prices = c->column[pair->a].prices;
    if (prices && prices == c->column[pair->b].prices && !prices->low.devices.count &&
        strcmp(a->platform->device.name, b->platform->device.name) != 0)
        texts_add(&c->warning,
                  "%s and %s have other devices, and both are priced by %s: --prices %s=FILE gives "
                  "a platform its own",
                  one, two, prices->low.name, b->platform->name);
}

/* ---- all ---- */

/* Faults of jobs are those of the predictions, which follow. */
static int find_prices(struct comparison *c, struct err *err)
{
    for (int32_t i = 0; i < c->count && c->tariffs.count; i++) {
        struct column *column = &c->column[i];
        AUTORELEASE(err) struct err ignored = {0};
        struct job job = {0};
        if (predict_open_job(&job, column->path, &column->options, &draw_centre, &ignored))
            return 0;
        column->prices = tariffs_find(&c->tariffs, job.platform->name, column->name);
        struct texts set = predict_set(&column->options, column->prices);
        texts_release(&column->options.set);
        column->options.set = set;
        job_release(&job);
    }
    return tariffs_check(&c->tariffs, err);
}

/* The unknown inputs of all jobs.  Faults are those of the predictions, which follow. */
static int gather(struct comparison *c, struct unknowns *all, struct err *err)
{
    int failed = 0;
    for (int32_t i = 0; i < c->count && !failed; i++) {
        const struct column *column = &c->column[i];
        struct job job = {0};
        AUTORELEASE(err) struct err ignored = {0};
        if (!predict_open_job(&job, column->path, &column->options, &draw_centre, &ignored)) {
            failed = unknowns_merge(all, &job.unknowns, err);
            job_release(&job);
        }
    }
    return failed;
}

static int predict_all(struct comparison *c, const struct unknowns *shared, struct err *err)
{
    for (int32_t i = 0; i < c->count; i++) {
        struct column *column = &c->column[i];
        column->prediction.shared = shared->count ? shared : NULL;
        if (prediction_make(&column->prediction, column->path, &column->options, err))
            return -1;
        find_figures(column, err);
        const struct result *result = &column->prediction.result;
        column->network = result->scenario->model.network;
        for (int32_t k = 0; k < result->warning.count; k++)
            texts_add(&c->warning, "%s: %s", column->name, result->warning.item[k]);
    }
    return 0;
}

static double seconds_of(const struct comparison *c, int32_t i)
{
    return c->column[i].prediction.result.time_to_train_s;
}

/* The pair of the fastest job and the next. */
static const struct pair *closest(const struct comparison *c, int32_t fastest)
{
    const struct pair *best = NULL;
    for (int32_t i = 0; i < c->pair_count; i++) {
        const struct pair *pair = &c->pair[i];
        if ((pair->a == fastest || pair->b == fastest) &&
            (!best || fabs(log(pair->ratio)) < fabs(log(best->ratio))))
            best = pair;
    }
    return best;
}

/* Append "98 %", or what it is over or under: some hundred draws tell no more. */
static void compare_print_probability(struct text *out, double probability)
{
    if (probability > 0.99 || probability < 0.01)
        text_add(out, "%s", probability > 0.5 ? "over 99 %" : "under 1 %");
    else
        text_add(out, "%.0f %%", 100 * probability);
}

/* Which is fastest, by how much, how surely and why. */
static void conclude(struct comparison *c)
{
    int32_t fastest = 0;
    for (int32_t i = 1; i < c->count; i++)
        fastest = seconds_of(c, i) < seconds_of(c, fastest) ? i : fastest;
    const struct pair *pair = closest(c, fastest);
    bool turned = pair->b == fastest;
    const char *fast = compare_names[fastest], *slow = compare_names[turned ? pair->a : pair->b];
    struct text text = {0};
    bool differs = compare_differs(pair->ratio);
    double ratio = turned ? 1 / pair->ratio : pair->ratio;
    double low = turned ? 1 / pair->likely.high : pair->likely.low;
    double high = turned ? 1 / pair->likely.low : pair->likely.high;
    if (!differs)
        text_add(&text, "%s and %s take equally long", fast, slow);
    else
        text_add(&text, "%s is faster than %s, which takes %s times as long", fast, slow,
                 unit_likely(UNIT_NONE, ratio, ratio, low, high));
    if (!isnan(pair->faster) && pair->likely.low < pair->likely.high) {
        text_add(&text, " (90 %% interval%s %s to %s); %s is faster with a probability of ",
                 differs ? "" : " of the ratio", unit_likely(UNIT_NONE, low, ratio, low, high),
                 unit_likely(UNIT_NONE, high, ratio, low, high), fast);
        compare_print_probability(&text, turned ? 1 - pair->faster : pair->faster);
    }
    if (pair->cause)
        text_add(&text, "; most of the difference: %s", pair->cause);
    c->sentence = text.data;
}

static bool without_draws(const struct comparison *c)
{
    for (int32_t i = 0; i < c->pair_count; i++)
        if (isnan(c->pair[i].faster))
            return true;
    return false;
}

static int compare_all(struct comparison *c, struct err *err)
{
    for (int32_t a = 0; a < c->count; a++)
        for (int32_t b = a + 1; b < c->count; b++) {
            struct pair *pair = &c->pair[c->pair_count++];
            *pair = (struct pair){.a = a, .b = b};
            if (compare_pair(pair, &c->column[a], &c->column[b], err))
                return -1;
            warn_pair(c, pair);
        }
    if (without_draws(c))
        texts_add(&c->warning, "no probability and no interval of a ratio where a job has no "
                               "interval: on device ideal");
    conclude(c);
    return 0;
}

static void comparison_release(struct comparison *comparison)
{
    for (int32_t i = 0; i < comparison->count; i++) {
        struct column *column = &comparison->column[i];
        prediction_release(&column->prediction);
        explanation_release(&column->explanation);
        texts_release(&column->options.set);
    }
    for (int32_t i = 0; i < comparison->pair_count; i++)
        free(comparison->pair[i].cause);
    texts_release(&comparison->warning);
    free(comparison->sentence);
    tariffs_release(&comparison->tariffs);
    *comparison = (struct comparison){0};
}

/* ---- JSON ---- */

COLUMNS(setting_columns, NULL, struct result)
{
    COLUMN("platform", platform, .help = "name of its platform");
    COLUMN("backend", backend, .help = "analytic or sim");
    COLUMN("grain", grain, .help = "as in a result");
    COLUMN("devices", devices, .help = "devices in use");
    COLUMN("nodes", nodes, .help = "nodes in use");
    COLUMN("nccl_model", nccl, .null = true,
           .help = "version, algorithms and protocols of NCCL's model; null: the job uses none");
}

COLUMNS(job_columns, NULL, struct column)
{
    COLUMN("name", name, .help = "A, B, C or D: in the order of the command line");
    COLUMN("scenario", path, .help = "path of the job");
    COLUMN_ITEMS("set", own.item, own.count, .help = "assignments to this job alone");
    COLUMN("network", network, .help = "network that is trained");
    COLUMN_MEMBERS(prediction.result, &setting_columns);
    COLUMN_MEMBERS(figures, &figures_columns);
    COLUMN("memory_bytes", memory, .help = "arrays of training on a device, without libraries");
    COLUMN("weak_scaling_efficiency", prediction.result.weak.efficiency,
           LIKELY(prediction.result.weak.likely), .help = "as in a result");
    COLUMN("strong_scaling_efficiency", prediction.result.strong.efficiency,
           LIKELY(prediction.result.strong.likely), .null = true, .help = "as in a result");
    COLUMN("currency", figures.bill.currency, .null = true, .help = "of the cost");
    COLUMN("prices", figures.bill.origin, .null = true, .help = "price file: name, date and path");
}

COLUMNS(factor_columns, NULL, struct time_factor)
{
    COLUMN("name", name, .help = "what the times differ by");
    COLUMN("factor", factor, .help = "by how much: the product of all is the ratio");
}

COLUMNS(pair_columns, NULL, struct pair)
{
    COLUMN("a", a, .words = compare_names, .help = "name of a job");
    COLUMN("b", b, .words = compare_names, .help = "name of a later job");
    COLUMN("faster_probability", faster, .null = true,
           .help = "that a takes less time, ties counting half; null: a job has no interval");
    COLUMN("ratio", ratio, LIKELY(likely), .help = "time of b over time of a");
    COLUMN("draws", draws, .help = "draws that both jobs have");
    COLUMN_ARRAY("factors", factor, .table = &factor_columns);
    COLUMN("cause", cause, .null = true, .help = "what makes most of the difference; null: none");
}

COLUMNS(compare_columns, "compare/2", struct comparison)
{
    COLUMN_ITEMS("jobs", column, count, .table = &job_columns);
    COLUMN_ITEMS("pairs", pair, pair_count, .table = &pair_columns);
    COLUMN("sentence", sentence, .help = "the fastest job against the next, in words");
    COLUMN_ITEMS("warnings", warning.item, warning.count,
                 .help = "of the predictions, and what makes jobs hard to compare");
}

/* ---- text, and the same on a page ---- */

/* "A: job.yaml with KEY=VALUE; resnet50 on 16 devices in 4 nodes of abci; back end sim" */
static struct json *job_texts(const struct json *jobs)
{
    struct json *list = json_new_array();
    for (int64_t i = 0; i < json_count_items(jobs); i++) {
        const struct json *job = json_item(jobs, i), *set = json_get(job, "set");
        AUTORELEASE(text) struct text text = {0};
        const char *nccl = html_word(job, "nccl_model"), *prices = html_word(job, "prices");
        text_add(&text, "%s: %s", html_word(job, "name"), html_word(job, "scenario"));
        for (int64_t k = 0; k < json_count_items(set); k++)
            text_add(&text, "%s%s", k ? ", " : " with ", json_as_text(json_item(set, k)));
        double devices = html_number(job, "devices", -1), nodes = html_number(job, "nodes", -1);
        text_add(&text, "; %s on %.0f device%s in %.0f node%s of %s; back end %s, grain %s%s%s",
                 html_word(job, "network"), devices, base_plural((int64_t)devices), nodes,
                 base_plural((int64_t)nodes), html_word(job, "platform"), html_word(job, "backend"),
                 html_word(job, "grain"), *nccl ? "; " : "", nccl);
        text_add(&text, "%s%s", *prices ? "; prices " : "", prices);
        json_append(list, json_new_text(text.data));
    }
    return list;
}

/* A row for each number and each end of its interval, with the cell of each job by its name. */
static struct json *figure_rows(const struct json *jobs)
{
    struct json *rows = json_new_array();
    AUTORELEASE(columns) struct columns lines = columns_of(COMPARE_FIGURES, jobs);
    for (const struct columns_item *l = lines.item; l < lines.item + lines.count; l++) {
        struct json *row = json_append_object(rows);
        AUTOFREE char *label = base_format("%s%s", l->end ? "  " : "", l->label);
        json_put_text(row, "quantity", label);
        for (int64_t i = 0; i < json_count_items(jobs); i++) {
            AUTOFREE char *cell = columns_cell(l, json_item(jobs, i));
            json_put_text(row, html_word(json_item(jobs, i), "name"), cell);
        }
    }
    return rows;
}

/* "B over A" */
static char *pair_name(const struct json *pair)
{
    return base_format("%s over %s", html_word(pair, "b"), html_word(pair, "a"));
}

/* Pairs with their names, and their probability in words. */
static struct json *ratio_rows(const struct json *pairs)
{
    static const char *const keys[] = {"ratio", "ratio_low", "ratio_high"};
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(pairs); i++) {
        const struct json *pair = json_item(pairs, i);
        struct json *row = json_append_object(rows);
        AUTOFREE char *label = pair_name(pair);
        double faster = html_number(pair, "faster_probability", -1);
        AUTORELEASE(text) struct text probability = {0};
        bool turned = faster < 0.5;
        if (!isnan(faster)) {
            text_add(&probability, "%s with a probability of ",
                     html_word(pair, turned ? "b" : "a"));
            compare_print_probability(&probability, turned ? 1 - faster : faster);
        }
        json_put_text(row, "times", label);
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            json_put_real(row, keys[k], html_number(pair, keys[k], -1));
        json_put_text(row, "faster", probability.data);
        json_put_text(row, "cause", json_as_text(json_get(pair, "cause")));
    }
    return rows;
}

/* A row for each factor, with that of each pair by its name. */
static struct json *rows_of_factors(const struct json *pairs)
{
    struct json *rows = json_new_array();
    for (int i = 0; i < DIFFERENCE_COUNT; i++) {
        struct json *row = json_append_object(rows);
        json_put_text(row, "name", difference_names[i]);
        for (int64_t k = 0; k < json_count_items(pairs); k++) {
            const struct json *pair = json_item(pairs, k);
            AUTOFREE char *label = pair_name(pair);
            json_put_real(row, label,
                          html_number(json_item(json_get(pair, "factors"), i), "factor", -1));
        }
    }
    return rows;
}

/* A table, and on a page the picture above it, one for each of @pictures rows. */
struct table {
    const char *name, *heading, *words, *columns, *picture;
    struct json *rows; /* owned */
    int64_t pictures;  /* 0: one for all */
};

enum { TABLES = 3 };

static void list_tables(const struct json *all, struct table table[TABLES])
{
    const struct json *jobs = json_get(all, "jobs"), *pairs = json_get(all, "pairs");
    table[0] = (struct table){
        "pairs",
        "Which is faster, and how surely?",
        "The time of one job over that of another. What is uncertain in both in the same way "
        "cancels. An interval that does not cross 1 settles which is faster.",
        "times, ratio~, faster, cause: most of the difference",
        "ratios",
        ratio_rows(pairs),
        0};
    table[1] = (struct table){"figures",
                              "How long does each take?",
                              "The figures of each job.",
                              "quantity: , A, B, C, D",
                              "times",
                              figure_rows(jobs),
                              0};
    table[2] = (struct table){
        "factors",
        "What makes the difference?",
        "The factors of each pair; their product is the ratio of the times.",
        "name: because of the, B over A, C over A, D over A, C over B, D over B, D over C",
        "factors",
        rows_of_factors(pairs),
        json_count_items(pairs)};
}

/* Append everything as text. */
static void comparison_print(struct text *out, const struct json *all)
{
    AUTORELEASE(json) struct json *texts = job_texts(json_get(all, "jobs"));
    const struct json *warnings = json_get(all, "warnings");
    struct table table[TABLES];
    list_tables(all, table);
    text_add(out, "%s\n\n", html_word(all, "sentence"));
    for (int64_t i = 0; i < json_count_items(texts); i++)
        text_add(out, "%s\n", json_as_text(json_item(texts, i)));
    for (int i = 0; i < TABLES; i++) {
        text_add(out, "\n%s\n\n", table[i].words);
        columns_print(out, table[i].columns, table[i].rows);
        json_free(table[i].rows);
    }
    for (int64_t i = 0; i < json_count_items(warnings); i++)
        text_add(out, "%swarning: %s\n", i ? "" : "\n", json_as_text(json_item(warnings, i)));
}

/* Write it as a page to @file. */
static int comparison_page(const char *file, const struct json *all, struct err *err)
{
    struct page page = {0};
    struct table table[TABLES];
    AUTORELEASE(json) struct json *texts = job_texts(json_get(all, "jobs"));
    AUTOFREE char *title =
        base_format("%.0f jobs beside each other", (double)json_count_items(texts));
    list_tables(all, table);
    html_answer(&page, title, html_word(all, "sentence"));
    html_list(&page, "The jobs:", texts);
    html_list(&page, "Warnings:", json_get(all, "warnings"));
    for (int i = 0; i < TABLES; i++) {
        html_section(&page, table[i].heading);
        html_paragraph(&page, NULL, table[i].words);
        for (int64_t k = table[i].pictures ? 0 : -1; k < table[i].pictures; k++)
            html_picture(&page, table[i].picture, k);
        html_table(&page, table[i].name, table[i].name, table[i].rows, table[i].columns, false);
        json_free(table[i].rows);
    }
    return html_write(&page, file, title, all, err);
}

struct compare_request {
    struct request head;
    struct predict_options predict;
    struct texts own[COMPARE_MOST]; /* assignments to one job */
    struct texts prices;
    const char *report;
};

static int check_own(const struct compare_request *request, struct err *err)
{
    int32_t jobs = request->head.argument.count;
    for (int32_t i = jobs; i < COMPARE_MOST; i++)
        if (request->own[i].count)
            return err_usage(err, "--set-%c: there are only %d jobs", 'a' + i, jobs);
    return 0;
}

static int compare(const void *record, struct text *out, struct err *err)
{
    const struct compare_request *request = record;
    AUTORELEASE(comparison) struct comparison comparison = {0};
    AUTORELEASE(unknowns) struct unknowns shared = {0};
    int failed = check_own(request, err) || tariffs_read(&comparison.tariffs, request->prices.item,
                                                         request->prices.count, err);
    for (int32_t i = 0; i < request->head.argument.count && !failed; i++)
        comparison_add(&comparison, request->head.argument.item[i], &request->predict,
                       &request->own[i]);
    failed = failed || find_prices(&comparison, err) || gather(&comparison, &shared, err) ||
             predict_all(&comparison, &shared, err) || compare_all(&comparison, err);
    if (!failed) {
        AUTORELEASE(json) struct json *json = answer_json(&compare_columns, &comparison);
        if (request->head.json)
            json_print(out, json);
        else if (!csv_is_answer(&request->head))
            comparison_print(out, json);
        failed = csv_write(&request->head, json_share(json_get(json, "jobs")), NULL, out, err) ||
                 (request->report && comparison_page(request->report, json, err));
    }
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct compare_request, member)
#define ROW_OWN(name, job, index)                                                                  \
    OPTION_ROW(name, 0, OPTION_TEXTS, AT(own[index]), "KEY=VALUE", NULL,                           \
               "Override one key of the " job " job alone, after --set; may be repeated")

static const struct option options[] = {
    ROW_SET_ALL(AT(predict.set)),
    ROW_OWN("set-a", "first", 0),
    ROW_OWN("set-b", "second", 1),
    ROW_OWN("set-c", "third", 2),
    ROW_OWN("set-d", "fourth", 3),
    OPTION_ROW("prices", 0, OPTION_TEXTS, AT(prices), "[PLATFORM=|JOB=]NAME", NULL,
               "A name in prices/ or a file, of all jobs, of those on a platform or of A, B, C or "
               "D; may be repeated: adds cost, energy and carbon"),
    ROWS_BACKEND(predict),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    ROW_CSV("the figures of each job"),
    ROW_LAST};

static const struct compare_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_compare = {
    .name = "compare",
    .heading = "decide",
    .synopsis = "JOB JOB [JOB [JOB]] [options]",
    .help = "jobs beside each other: which is faster, by how much, how certain, and why",
    .examples =
        "foretrain compare job.yaml job.yaml --set-b cluster.nodes=64 --prices example-h100\n"
        "foretrain compare a.yaml b.yaml --json",
    RECORD(options, struct compare_request, &defaults),
    TAKES(2, COMPARE_MOST),
    .jobs = true,
    ANSWERS(&compare_columns),
    .run = compare,
};
