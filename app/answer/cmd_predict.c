#include <sys/ioctl.h>

#include "app/cli/command.h"
#include "app/page/html.h"
#include "app/predict/predict.h"
#include "app/process/child.h"
#include "core/config/yaml.h"
#include "core/price/price.h"
#include "core/report/gantt.h"
#include "core/report/picture.h"
#include "core/report/timeline.h"
#include "core/report/toll.h"
#include "models/networks.h"

struct predict_request {
    struct request head;
    struct predict_options predict;
    const char *trace, *spans, *report, *prices;
    double published; /* NAN: nothing is */
    bool brief, assumptions;
    bool step;     /* nothing but the step, as `show step` */
    int32_t width; /* [columns]; 0: the terminal's */
};

/* ---- the page ---- */

enum { DRAWS = 400 /* for a point: 5 % of them are 20 */ };

static void put_range(struct json *row, const char *key, double value, struct interval likely)
{
    AUTOFREE char *low = base_format("%s_low", key), *high = base_format("%s_high", key);
    json_put_real(row, key, value);
    json_put_real(row, low, likely.low);
    json_put_real(row, high, likely.high);
}

static const struct scaling *scaling_of(const struct result *result)
{
    return result->strong.batch ? &result->strong : &result->weak;
}

static struct json *row_of(const struct result *result, bool torus, bool own)
{
    const struct breakdown *step = &result->step;
    const struct scaling *scaling = scaling_of(result);
    struct json *row = json_new_object();
    json_put_integer(row, "nodes", result->nodes);
    json_put_integer(row, "devices", result->devices);
    json_put_text(row, "own", own ? "this job" : NULL);
    json_put_text(row, "backend", own ? result->backend : backend_words[BACKEND_ANALYTIC]);
    put_range(row, "step_s", step->time, result->step_likely);
    json_put_real(row, "compute_s", step->compute);
    json_put_real(row, "slowed_s", step->slowed > 0 ? step->slowed : NAN);
    json_put_real(row, "slower_ranks_s", step->slower);
    json_put_real(row, "exposed_row_s", torus ? step->exposed_row : NAN);
    json_put_real(row, "exposed_column_s", torus ? step->exposed_column : NAN);
    json_put_real(row, "exposed_world_s",
                  torus ? NAN : step->exposed_communication - breakdown_inside(step));
    double inside = breakdown_inside(step);
    json_put_real(row, "exposed_tensor_s", inside > 0 ? inside : NAN);
    json_put_real(row, "bubble_s", step->bubble > 0 ? step->bubble : NAN);
    json_put_real(row, "input_wait_s", step->input_wait);
    json_put_real(row, "other_s", step->other);
    put_range(row, result_speed(result), result->images_per_s, result->images_likely);
    put_range(row, "scaling_efficiency", scaling->efficiency, scaling->likely);
    put_range(row, "time_to_train_s", result->time_to_train_s, result->train_likely);
    return row;
}

/* ---- what the simulator makes of the job, over what the closed form makes of it ---- */

struct trim {
    double exposed; /* communication that nothing hides */
    double train, efficiency;
};

/* By how much that makes a step of @result longer. */
static double longer(const struct trim *trim, const struct result *result)
{
    return 1 + (trim->exposed - 1) * result->step.exposed_communication / result->step.time;
}

static struct trim trim_of(const struct result *result, const struct result *closed)
{
    double exposed = result->step.exposed_communication / closed->step.exposed_communication;
    struct trim trim = {isfinite(exposed) ? exposed : 1, 1, 1};
    double factor = longer(&trim, closed);
    trim.train = result->time_to_train_s / closed->time_to_train_s / factor;
    trim.efficiency = scaling_of(result)->efficiency / scaling_of(closed)->efficiency * factor;
    return trim;
}

static void multiply(double factor, double *value, struct interval *likely)
{
    *value *= factor;
    likely->low *= factor;
    likely->high *= factor;
}

/* None becomes better than the baseline that was not. */
static void multiply_efficiency(double factor, struct scaling *scaling)
{
    double *value[] = {&scaling->efficiency, &scaling->likely.low, &scaling->likely.high};
    for (size_t i = 0; i < ARRAY_SIZE(value); i++) {
        double most = fmax(1, *value[i]), now = factor * *value[i];
        *value[i] = now > most ? most : now;
    }
}

static void apply(const struct trim *trim, struct result *result)
{
    struct breakdown *step = &result->step;
    double factor = longer(trim, result);
    multiply(factor, &step->time, &result->step_likely);
    step->exposed_row *= trim->exposed;
    step->exposed_column *= trim->exposed;
    step->exposed_tensor *= trim->exposed;
    step->exposed_context *= trim->exposed;
    step->exposed_expert *= trim->exposed;
    step->exposed_communication *= trim->exposed;
    multiply(1 / factor, &result->images_per_s, &result->images_likely);
    multiply(factor * trim->train, &result->time_to_train_s, &result->train_likely);
    multiply_efficiency(trim->efficiency / factor, &result->weak);
    multiply_efficiency(trim->efficiency / factor, &result->strong);
}

/* ---- points ---- */

/* The job in closed form, on @nodes; 0: as it is.  With @further settings, or NULL. */
static int predict_at(struct prediction *prediction, int32_t nodes, const char *path,
                      const struct predict_options *options, const char *further, struct err *err)
{
    struct predict_options own = *options;
    own.set = (struct texts){0};
    texts_add_all(&own.set, &options->set);
    if (nodes > 0) {
        texts_add(&own.set, "cluster.nodes=%d", nodes);
        texts_add(&own.set, "allreduce.grid=null");
    }
    if (further)
        texts_add(&own.set, "%s", further);
    int failed = prediction_screen(prediction, path, &own, BACKEND_ANALYTIC, DRAWS, err);
    texts_release(&own.set);
    return failed;
}

/* Where the recipe does not know the batch of @nodes there is a step, but no time to train. */
static struct json *row_at(int32_t nodes, const char *path, const struct predict_options *options,
                           const struct trim *trim, bool torus)
{
    struct prediction prediction = {0};
    AUTORELEASE(err) struct err why = {0}, again = {0};
    struct json *row;
    int failed = predict_at(&prediction, nodes, path, options, NULL, &why);
    if (failed) {
        prediction_release(&prediction);
        failed = predict_at(&prediction, nodes, path, options, "training.extrapolate=true", &again);
        prediction.result.time_to_train_s = NAN;
        prediction.result.train_likely = (struct interval){NAN, NAN};
    }
    if (failed) {
        row = json_new_object();
        json_put_integer(row, "nodes", nodes);
    } else {
        apply(trim, &prediction.result);
        row = row_of(&prediction.result, torus, false);
    }
    if (why.count) {
        const char *reason = err_reason(&why), *at = strstr(reason, "error: ");
        json_put_text(row, "reason", at ? at + strlen("error: ") : reason);
    }
    prediction_release(&prediction);
    return row;
}

/* @prediction of the job at @path with @options, and the same on 1, 2, 4, ... nodes, in closed form
 * and where the program chooses the grid.  If the job was simulated they have the factors that make
 * its closed form its answer: *@exposed that of the communication that nothing hides (NAN: no
 * simulation), and constant ones of efficiency and time to train. */
static struct json *curve_rows(const struct prediction *prediction, const char *path,
                               const struct predict_options *options, double *exposed)
{
    const struct result *result = &prediction->result;
    struct trim trim = {1, 1, 1};
    struct prediction closed = {0};
    AUTORELEASE(err) struct err why = {0};
    *exposed = NAN;
    if (result->nodes > 1 && strcmp(result->backend, backend_words[BACKEND_SIM]) == 0 &&
        !predict_at(&closed, 0, path, options, NULL, &why)) {
        trim = trim_of(result, &closed.result);
        *exposed = trim.exposed;
    }
    prediction_release(&closed);
    struct json *rows = json_new_array();
    bool torus = result->grid.columns > 0, shown = false;
    double begun = base_seconds(CLOCK_MONOTONIC);
    for (int32_t nodes = 1; nodes < result->nodes; nodes *= 2) {
        if (base_seconds(CLOCK_MONOTONIC) - begun > 2 && isatty(STDERR_FILENO))
            shown = fprintf(stderr, "\r\033[Kpredicting %d nodes for the page", nodes) > 0;
        struct json *row = row_at(nodes, path, options, &trim, torus);
        if (!json_get(row, "devices"))
            json_put_integer(row, "devices", (int64_t)nodes * (result->devices / result->nodes));
        json_append(rows, row);
    }
    fputs(shown ? "\r\033[K" : "", stderr);
    json_append(rows, row_of(result, torus, true));
    return rows;
}

/* The expected time to train by the work between checkpoints, around the best and in this job
 * (own): interval_s, checkpoints, time_to_train_s; none if nothing fails.  Owned. */
static struct json *failing_rows(const struct toll *toll)
{
    struct failures f = toll->failures;
    struct json *rows = json_new_array();
    double own = f.interval, best = failures_daly(f.mtbf, f.cost);
    if (!toll->any || isinf(f.mtbf))
        return rows;
    for (int power = -9; power <= 8; power++) { /* in halves; the first is the job's own */
        f.interval = power < -8 ? own : best * pow(2, power / 2.0);
        double time = failures_expected(&f, toll->work);
        bool there = f.interval > 0 && f.interval < toll->work && time <= FAILURES_LONGEST;
        if (!there || (power >= -8 && fabs(f.interval / own - 1) < 1e-9))
            continue;
        struct json *row = json_append_object(rows);
        json_put_real(row, "interval_s", f.interval);
        json_put_real(row, "checkpoints", failures_checkpoints(&f, toll->work));
        json_put_real(row, "time_to_train_s", time);
        json_put_text(row, "own", power < -8 ? "this job" : NULL);
    }
    return rows;
}

/* Append what failures and checkpoints add, if the job of @all, the page's JSON, has any. */
static void failing_add(struct page *page, const struct json *all)
{
    static const struct page_part part = {
        .picture = "checkpoints",
        .rows = "checkpoints",
        .caption = "time to train by work between checkpoints",
        .columns = "interval_s: work between checkpoints, checkpoints, time_to_train_s, own: "};
    const struct json *f = json_get(json_get(all, "result"), "failures");
    if (isnan(html_number(f, "checkpoint_s", -1)))
        return;
    AUTORELEASE(json) struct json *rows = json_new_array();
    json_append(rows, json_share(f));
    html_section(page, "What do failures and checkpoints add?");
    html_table(page, "failures", "failures and checkpoints of the job", rows,
               "mtbf_s: mean time between failures, expected: failures expected, restart_s: "
               "a restart, checkpoints, checkpoint_s: a checkpoint, interval_s: work between "
               "checkpoints, interval_epochs: in epochs, daly_s: best by Daly, young_s: by Young",
               false);
    html_picture(page, "toll", -1);
    html_table(page, "toll", "parts of the time to train", rows,
               "without_s~: without both, saving_s: checkpoints, failing_s: failures", true);
    html_part(page, all, &part);
}

/* ---- the files ---- */

/* Takes @path, which may be NULL. */
static struct document *read_file(char *path, char *(*find)(const char *name, struct err *err),
                                  struct err *err)
{
    struct document *document = path ? yaml_read_file(NULL, path, find, err) : NULL;
    free(path);
    return document;
}

/* Takes @document, which may be NULL, and applies those of @set (or NULL) that begin with @prefix;
 * "": that change a scenario. */
static bool put_file(struct json *files, const char *name, struct document *document,
                     const char *prefix, const struct texts *set, struct err *err)
{
    for (int32_t i = 0; document && set && i < set->count; i++)
        if (!*prefix && scenario_takes(set->item[i]))
            scenario_assign(document, set->item[i], err);
        else if (*prefix && !strncmp(set->item[i], prefix, strlen(prefix)))
            yaml_set_below(document, prefix, set->item[i], err);
    if (document)
        json_put(files, name, node_json(yaml_root(document)));
    yaml_free(document);
    return document != NULL;
}

static char *find_device(const char *name, struct err *err)
{
    return platform_find_device(name, NULL, err);
}

static bool put_named(struct json *files, const struct job *job, const struct texts *set,
                      struct err *err)
{
    const struct scenario *s = &job->scenario;
    AUTOFREE char *platform = scenario_path_at(s, "cluster.platform", s->cluster.platform);
    struct document *document = read_file(platform_find(platform, err), platform_find, err);
    const struct node *device = document ? node_get(yaml_root(document), "device") : NULL;
    bool good = true;
    if (device && device->kind == NODE_SCALAR)
        good = put_file(
            files, "device",
            read_file(platform_find_device(device->text, &device->origin, err), find_device, err),
            "device.", set, err);
    good = put_file(files, "platform", document, "platform.", set, err) && good;
    if (good && s->cluster.software) {
        AUTOFREE char *name = job->without_layout
                                  ? base_copy(job->software->name)
                                  : scenario_path_at(s, "cluster.software", s->cluster.software);
        good = put_file(files, "software",
                        read_file(platform_find_software(name, err), platform_find_software, err),
                        "", NULL, err);
    }
    if (good && network_is_file(s->model.network))
        good =
            put_file(files, "network",
                     read_file(scenario_path_at(s, "model.network", s->model.network), NULL, err),
                     "", NULL, err);
    return good;
}

/* What the files say after the assignments; NULL: one of them cannot be read again. */
static struct json *read_files(const struct prediction *prediction, const char *path,
                               const struct predict_options *options)
{
    struct json *files = json_new_object();
    AUTORELEASE(err) struct err err = {0};
    bool good =
        put_file(files, "job", read_file(base_copy(path), NULL, &err), "", &options->set, &err) &&
        put_named(files, &prediction->job, &options->set, &err);
    if (good)
        return files;
    json_free(files);
    return NULL;
}

/* ---- what can be moved ---- */

struct control {
    struct json *json, *values; /* borrowed */
};

static struct control new_control(struct json *controls, const char *key, const char *label)
{
    struct control control = {json_new_object(), json_new_array()};
    json_put_text(control.json, "key", key);
    json_put_text(control.json, "label", label);
    json_put(control.json, "values", control.values);
    json_append(controls, control.json);
    return control;
}

/* Append a value; @own: that of the job. */
static void add_value(struct control control, const char *value, const char *words, bool own)
{
    if (own)
        json_put_integer(control.json, "start", json_count_items(control.values));
    struct json *pair = json_new_array();
    json_append(control.values, pair);
    json_append(pair, json_new_text(value));
    json_append(pair, json_new_text(words));
}

static void add_quantity(struct control control, enum unit unit, double number, bool own)
{
    static const char *const suffix[UNIT_COUNT] = {
        [UNIT_BYTES] = " B", [UNIT_BYTES_PER_SECOND] = " B/s", [UNIT_SECONDS] = " s"};
    AUTOFREE char *value = suffix[unit] ? base_format("\"%.17g%s\"", number, suffix[unit])
                                        : base_format("%.17g", number);
    add_value(control, value, unit_text(unit, number), own);
}

/* @own and its products with powers of two from @least to @most. */
static void add_scaled(struct json *controls, const char *key, const char *label, enum unit unit,
                       double own, double least, double most)
{
    struct control control = new_control(controls, key, label);
    bool whole = unit == UNIT_NONE || unit == UNIT_BYTES;
    for (double factor = least; factor <= most; factor *= 2)
        if (!whole || factor * own == floor(factor * own))
            add_quantity(control, unit, factor * own, factor == 1);
}

/* Powers of two, and the job's own. */
static void add_nodes(struct json *controls, const struct prediction *prediction)
{
    int32_t own = prediction->job.resolved.cluster.nodes;
    int32_t most = (int32_t)prediction->job.platform->nodes;
    int64_t limit = most > 0 && most < 16 * (int64_t)own ? most : 16 * (int64_t)own;
    struct control control = new_control(controls, "cluster.nodes", "nodes");
    for (int64_t nodes = 1, last = 0; nodes <= limit; last = nodes, nodes *= 2) {
        if (last < own && own < nodes)
            add_quantity(control, UNIT_NONE, own, true);
        add_quantity(control, UNIT_NONE, (double)nodes, nodes == own);
        if (2 * nodes > limit && nodes < own)
            add_quantity(control, UNIT_NONE, own, true);
    }
}

/* Of the tier next to the nodes, 0, @label alone.  Owned. */
static char *uplink_words(const char *label, int32_t tier)
{
    return tier ? base_format("%s, level %d", label, tier + 1) : base_copy(label);
}

/* A quantity of the platform, if it is one that moves. */
static void add_link(void *context, const struct quantity *quantity, enum unit unit)
{
    static const struct {
        const char *path, *label;
    } link[] = {
        {"network.nic.bandwidth", "network card"},   {"transport.between", "latency between nodes"},
        {"torus.row.bandwidth", "links of rows"},    {"torus.column.bandwidth", "links of columns"},
        {"torus.depth.bandwidth", "links of depth"}, {"ring.bandwidth", "links of the ring"},
    };
    const char *path = quantity->path, *end = strrchr(path, '.');
    bool tier = !strncmp(path, "network.tiers", 13) && !strcmp(end, ".bandwidth");
    const char *label = tier ? "each uplink" : NULL;
    for (size_t i = 0; i < ARRAY_SIZE(link); i++)
        if (!strcmp(path, link[i].path))
            label = link[i].label;
    if (!label || !(quantity->value > 0))
        return;
    AUTOFREE char *key = base_format("platform.%s", path);
    AUTOFREE char *words = uplink_words(label, tier ? atoi(path + strlen("network.tiers[")) : 0);
    add_scaled(context, key, words, unit, quantity->value, 1. / 8, 8);
}

/* Some numbers may not fit the switches of a group, which the core then says. */
static void add_uplinks(struct json *controls, const struct platform *platform)
{
    for (int32_t tier = 0; platform_uplinks(platform, tier) > 0; tier++) {
        AUTOFREE char *key = base_format("platform.network.tiers[%d].uplinks", tier);
        AUTOFREE char *label = uplink_words("number of uplinks", tier);
        add_scaled(controls, key, label, UNIT_NONE, (double)platform_uplinks(platform, tier),
                   1. / 8, 8);
    }
}

static void add_batch(struct json *controls, const struct job *job)
{
    int32_t last = job_phases(job) - 1;
    const struct scenario_phase *phase =
        (const struct scenario_phase *)job->scenario.training.phase.item + last;
    bool global = phase->global_batch > 0;
    AUTOFREE char *key =
        base_format("training.phases[%d].%s", last, global ? "global_batch" : "batch_per_device");
    AUTOFREE char *label =
        base_format("%s%s%s", global ? "global batch" : model_inputs(job->model, 0),
                    global ? "" : " per device", last > 0 ? " in the last phase" : "");
    add_scaled(controls, key, label, UNIT_NONE,
               (double)(global ? phase->global_batch : phase->batch_per_device), 1. / 16, 16);
}

/* How layers are shared and divided, of a job that does so. */
static void add_mesh(struct json *controls, const struct scenario *s)
{
    if (s->parallel.tensor > 1)
        add_scaled(controls, "parallel.tensor", "ranks that share a layer", UNIT_NONE,
                   (double)s->parallel.tensor, 1. / 8, 8);
    if (s->parallel.pipeline > 1)
        add_scaled(controls, "parallel.pipeline", "stages", UNIT_NONE, (double)s->parallel.pipeline,
                   1. / 8, 8);
}

static void add_algorithm(struct json *controls, enum algorithm own)
{
    struct control control = new_control(controls, "allreduce.algorithm", "algorithm");
    for (int i = 0; algorithm_names[i]; i++) {
        AUTOFREE char *value = base_format("\"%s\"", algorithm_names[i]);
        add_value(control, value, algorithm_names[i], i == (int)own);
    }
}

static void add_grid(struct json *controls, struct grid own)
{
    int32_t ranks = grid_ranks(own);
    if (own.columns <= 0)
        return;
    struct control control = new_control(controls, "allreduce.grid", "grid, columns x rows");
    for (int32_t columns = 1; columns <= ranks; columns++) {
        if (ranks % columns)
            continue;
        AUTOFREE char *value =
            base_format("{\"columns\": %d, \"rows\": %d}", columns, ranks / columns);
        AUTOFREE char *words = base_format("%dx%d", columns, ranks / columns);
        add_value(control, value, words, columns == own.columns);
    }
}

/* ---- all of it ---- */

/* What stands behind the sliders: "wishes", what @options ask beyond the files; "controls";
 * "files", which the job names, as they are after the assignments of @options.  NULL: this program
 * has no core for browsers, or a file cannot be read again. */
static struct json *whatif_json(const struct prediction *prediction, const char *path,
                                const struct predict_options *options)
{
    const struct job *job = &prediction->job;
    struct json *files = *page_core ? read_files(prediction, path, options) : NULL;
    if (!files)
        return NULL;
    struct json *whatif = json_new_object(), *controls = json_new_array();
    add_nodes(controls, prediction);
    platform_each_quantity(job->platform, add_link, controls);
    add_uplinks(controls, job->platform);
    add_batch(controls, job);
    add_mesh(controls, &job->scenario);
    add_scaled(controls, "allreduce.bucket", "bucket", UNIT_BYTES, (double)job->resolved.bucket,
               1. / 64, 64);
    add_algorithm(controls, job->resolved.algorithm);
    add_grid(controls, prediction->result.grid);
    const int64_t wish[] = {options->order, options->noise, options->ignore_memory,
                            options->iterations};
    struct json *wishes = json_put_array(whatif, "wishes");
    for (size_t i = 0; i < ARRAY_SIZE(wish); i++)
        json_append(wishes, json_new_integer(wish[i]));
    json_put(whatif, "controls", controls);
    json_put(whatif, "files", files);
    return whatif;
}

/* Append the section that app/page/whatif.js brings to life, unless @whatif is NULL or longer than
 * PAGE_DATA_LIMIT; borrowed until the page is written. */
static void whatif_section(struct page *page, const struct json *whatif)
{
    AUTORELEASE(text) struct text line = {0};
    if (whatif)
        json_print_line(&line, whatif, 17);
    if (!whatif || line.length > PAGE_DATA_LIMIT)
        return;
    page->whatif = whatif;
    page->script = whatif_js;
    html_section(page, "What if?");
    html_paragraph(page, "small",
                   "The job in closed form, without contention and usually early, again for other "
                   "numbers, computed in this page. Sliders start at the job; one that moves nodes "
                   "or algorithm lets foretrain choose the grid.");
    html_add(&page->body, "<div id=\"whatif\"></div>\n");
}

/* What is shown, and its result. */
struct answer {
    struct page page;
    const struct json *all, *result;
};

/* ---- the answer ---- */

static void add_likely(struct text *out, enum unit unit, const struct json *object, const char *key)
{
    double value = html_number(object, key, -1);
    double low = html_end(object, key, false), high = html_end(object, key, true);
    text_add(out, "%s", unit_likely(unit, value, value, low, high));
    if (!isnan(low))
        text_add(out, " (90 %%: %s to %s)", unit_likely(unit, low, value, low, high),
                 unit_likely(unit, high, value, low, high));
}

/* A sentence without a table. */
static char *answer_of(const struct json *result)
{
    struct text out = {0};
    double target = html_number(result, "target", -1);
    text_add(&out, "Training");
    if (target > 0)
        text_add(&out, " to %g %%", 100 * target);
    text_add(&out, " takes ");
    add_likely(&out, UNIT_SECONDS, result, "time_to_train_s");
    text_add(&out, ". A step takes ");
    add_likely(&out, UNIT_SECONDS, result, "step_s");
    double devices = html_number(json_get(result, "baseline"), "devices", -1);
    if (devices != html_number(result, "devices", -1)) {
        text_add(&out, "; each device does ");
        add_likely(&out, UNIT_FRACTION, result, "scaling_efficiency");
        text_add(&out, " of the work of one in a job of %.0f", devices);
    }
    double tokens = html_number(result, "tokens_per_s_per_device", -1);
    if (tokens > 0)
        text_add(&out, "; each device trains %.0f tokens/s, %.2g %% of its peak (MFU)", tokens,
                 100 * html_number(result, "mfu", -1));
    text_add(&out, ". It is %s.", html_word(result, "sentence"));
    return out.data;
}

/* "KEY: RANGE" of each. */
static struct json *unknown_texts(const struct json *result)
{
    const struct json *unknown = json_get(result, "unknown_inputs");
    struct json *list = json_new_array();
    for (int64_t i = 0; i < json_count_items(unknown); i++) {
        const struct json *item = json_item(unknown, i);
        AUTOFREE char *text =
            base_format("%s: %s", html_word(item, "input"), html_word(item, "range"));
        json_append(list, json_new_text(text));
    }
    return list;
}

static void add_assumptions(struct answer *answer)
{
    const struct json *r = answer->result, *assumed = json_get(r, "assumptions");
    AUTORELEASE(json) struct json *unknown = unknown_texts(r);
    html_section(&answer->page, "Assumptions");
    html_list(&answer->page, "Unknown, and drawn from a range:", unknown);
    html_add(&answer->page.body,
             "<details><summary>Assumed, for nobody measured or published it: "
             "%d values</summary>\n",
             (int)json_count_items(assumed));
    for (int topic = 0; report_topics[topic]; topic++) {
        AUTORELEASE(json) struct json *list = json_new_array();
        AUTOFREE char *words = base_format("Of the %s:", report_topics[topic]);
        for (int64_t i = 0; i < json_count_items(assumed); i++)
            if (report_topic(json_as_text(json_item(assumed, i))) == topic)
                json_append(list, json_share(json_item(assumed, i)));
        html_list(&answer->page, words, list);
    }
    html_add(&answer->page.body, "</details>\n");
    html_add(&answer->page.body,
             "<p class=\"small\">Job %s; back end %s, grain %s; draws behind the intervals: %.0f; "
             "schedule %s.</p>\n",
             html_word(answer->all, "job"), html_word(r, "backend"), html_word(r, "grain"),
             html_number(json_get(r, "draws"), "count", -1), html_word(r, "schedule_hash"));
}

/* ---- pictures and tables ---- */

/* Points of the curve that make a job. */
static int32_t count_answers(const struct answer *answer)
{
    const struct json *curve = json_get(answer->all, "curve");
    int32_t count = 0;
    for (int64_t i = 0; i < json_count_items(curve); i++)
        count += html_number(json_item(curve, i), "step_s", -1) > 0;
    return count;
}

/* Where the points come from. */
static void add_curve_words(struct answer *answer)
{
    double factor = html_number(answer->all, "curve_exposed_factor", -1);
    AUTORELEASE(text) struct text out = {0};
    if (count_answers(answer) <= 1)
        return;
    text_add(&out, "The curve: ");
    if (html_number(json_get(answer->result, "draws"), "count", -1) > 0)
        text_add(&out, "job and baseline move together in each draw. ");
    text_add(&out, "At other numbers of nodes foretrain chooses the grid; everything else is as in "
                   "the job.");
    if (isfinite(factor))
        text_add(&out, " This job is simulated; the other points are in closed form");
    if (isfinite(factor) && fabs(factor - 1) >= 5e-4)
        text_add(&out,
                 ", scaled to meet the simulation at this job: communication that nothing hides "
                 "takes %.4g times as long",
                 factor);
    text_add(&out, isfinite(factor) ? "." : "");
    html_paragraph(&answer->page, "small", out.data);
}

static void add_curve(struct answer *answer)
{
    static const struct page_part part = {
        .picture = "curve",
        .rows = "curve",
        .caption = "efficiency by number of devices",
        .columns = "devices, scaling_efficiency~, images_per_s, samples_per_s, time_to_train_s, "
                   "backend, reason: no answer because"};
    const struct json *published = json_get(answer->all, "published");
    if (count_answers(answer) <= 1)
        return;
    html_section(&answer->page, "Does it scale?");
    if (json_count_items(published) > 0)
        html_add(&answer->page.body, "<p>Published: %g&#160;%%.</p>\n",
                 100 * html_number(json_item(published, 0), "value", -1));
    html_part(&answer->page, answer->all, &part);
}

static const struct page_part of_a_step[] = {
    {.heading = "Where does the time of a step go?",
     .picture = "steps",
     .rows = "curve",
     .caption = "parts of a step by number of devices",
     .columns = "devices, step_s, compute_s: compute, slowed_s: slowed by the all-reduce, "
                "slower_ranks_s: waits for slower devices, exposed_row_s: waits for rows, "
                "exposed_column_s: waits for columns, exposed_world_s: waits for the all-reduce, "
                "exposed_tensor_s: waits inside of layers, bubble_s: waits for other stages, "
                "input_wait_s: waits for input, other_s: optimizer and other"},
    {.heading = "What happens in one step?",
     .words = "The lanes of a few ranks in the last phase, without jitter. Lines lead from the "
              "compute that a bucket of gradients waits for to its all-reduce. Point at a piece or "
              "a row of the table to see all of its bucket.",
     .picture = "lanes",
     .rows = "lanes",
     .caption = "what the lanes do",
     .columns = "rank, lane, name: what, bucket, begin_s: begins, end_s: ends"},
    {.heading = "What happens in one step?",
     .words = "What a device of each stage computes in the last phase, without jitter; where it "
              "computes nothing it waits for another stage, which is the bubble, or for messages. "
              "Point at a piece to see its micro-batch on its way through all stages.",
     .picture = "stages",
     .rows = "stages",
     .caption = "what the stages do",
     .columns = "rank, lane: stage, name: what, micro_batch, begin_s: begins, end_s: ends"},
    {.rows = "result.exchanges",
     .table = "exchanges",
     .caption = "all-reduces of the rank that ends last",
     .columns = "bucket, name: all-reduce, bytes, ready_s, begin_s: begins, end_s: ends, "
                "exposed_s: nothing hides"},
    {.heading = "Where do the bytes go?",
     .words = "The machine from the outside in, of many alike eight. A colour says how long the "
              "busiest link of a kind needs for the bytes of one step at its full bandwidth, as a "
              "part of the step.",
     .picture = "machine",
     .rows = "links",
     .table = "links",
     .caption = "links by load",
     .columns = "link: kind of link, places, bandwidth, busy_s, share: of the step"},
};

static const struct page_part of_all[] = {
    {.heading = "Does it fit?",
     .words = "What the last phase takes of the memory of one device.",
     .picture = "memory",
     .rows = "memory",
     .caption = "parts of the memory",
     .columns = "weights_bytes: weights, gradients_bytes: gradients, optimizer_bytes: optimizer, "
                "activations_bytes: activations, loss_bytes: loss, input_bytes: input, "
                "workspace_bytes: workspace, reserve_bytes: allocator, total_bytes: together, "
                "device_bytes: has, fits: fits"},
    {.heading = "What makes the intervals wide?",
     .words = "The part of the variance that is gone once an input is known (first-order Sobol "
              "index). To narrow an interval, measure the first ones.",
     .picture = "shares",
     .rows = "result.interval_shares",
     .caption = "parts of the variance",
     .columns = "input: uncertain input, step: of the step, weak_scaling, strong_scaling, "
                "time_to_train"},
    {.heading = "Phases of the training",
     .rows = "result.phases",
     .table = "phases",
     .caption = "phases of the training",
     .columns = "epochs, batch_per_device, global_batch, devices, steps, step_s",
     .open = true},
};

static int write_page(const char *file, const struct json *all, const struct json *whatif,
                      struct err *err)
{
    struct answer answer = {.all = all, .result = json_get(all, "result")};
    double devices = html_number(answer.result, "devices", -1);
    AUTOFREE char *sentence = answer_of(answer.result);
    AUTOFREE char *title =
        base_format("%s on %.0f device%s of %s", html_word(all, "network"), devices,
                    base_plural((int64_t)devices), html_word(answer.result, "platform"));
    html_answer(&answer.page, title, sentence);
    html_list(&answer.page, "Warnings:", json_get(answer.result, "warnings"));
    add_curve(&answer);
    whatif_section(&answer.page, whatif);
    html_section(&answer.page, "The answer in numbers");
    html_figures(&answer.page, answer.result,
                 "step_s~, images_per_s~, samples_per_s~, weak_scaling_efficiency~, "
                 "strong_scaling_efficiency~, time_to_train_s~, evaluation_s, cost~, energy_kwh~, "
                 "carbon_kg~");
    add_curve_words(&answer);
    for (size_t i = 0; i < ARRAY_SIZE(of_a_step); i++)
        html_part(&answer.page, all, &of_a_step[i]);
    failing_add(&answer.page, all);
    for (size_t i = 0; i < ARRAY_SIZE(of_all); i++)
        html_part(&answer.page, all, &of_all[i]);
    add_assumptions(&answer);
    return html_write(&answer.page, file, title, all, err);
}

/* Those of gradients and weights: layers may have thousands, without a bucket of their own. */
static struct json *bucket_rows(const struct json *exchanges)
{
    static const enum axis of_layers[] = {AXIS_TENSOR, AXIS_CONTEXT, AXIS_EXPERT};
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(exchanges); i++) {
        const struct json *row = json_item(exchanges, i);
        bool inside = false;
        for (size_t k = 0; k < ARRAY_SIZE(of_layers); k++)
            inside = inside || !strcmp(html_word(row, "axis"), axis_names[of_layers[k]]);
        if (!inside)
            json_append(rows, json_share(row));
    }
    return rows;
}

/* Write the page of @prediction, whose step has @exchanges: the JSON, the curve of fewer nodes, the
 * lanes of a few ranks and the load of links. */
static int predict_page(const struct predict_request *request, const struct prediction *prediction,
                        const struct report_exchanges *exchanges, struct err *err)
{
    const char *path = request->head.argument.item[0];
    const struct task *last = prediction_last(prediction);
    const struct point *point = &last->point;
    AUTORELEASE(json) struct json *all = json_new_object();
    json_put_text(all, "job", path);
    json_put_text(all, "network", prediction->result.scenario->model.network);
    AUTORELEASE(json)
    struct json *result = result_json(&prediction->result, exchanges);
    json_put(result, "exchanges", bucket_rows(json_get(result, "exchanges")));
    json_put(all, "result", json_share(result));
    json_append(json_put_array(all, "memory"), json_share(json_get(result, "memory")));
    double exposed;
    json_put(all, "curve", curve_rows(prediction, path, &request->predict, &exposed));
    json_put_real(all, "curve_exposed_factor", exposed);
    struct json *published = json_put_array(all, "published");
    if (!isnan(request->published)) {
        struct json *row = json_append_object(published);
        json_put_integer(row, "x", prediction->result.devices);
        json_put_real(row, "value", request->published);
    }
    json_put(all, "checkpoints", failing_rows(&prediction->result.toll));
    json_put(all, schedule_stages(point->schedule) > 1 ? "stages" : "lanes",
             picture_lanes(point->schedule, last->quiet));
    json_put(all, "links",
             picture_links(point->fabric, point->schedule, trace_step_time(last->quiet)));
    AUTORELEASE(json)
    struct json *whatif = whatif_json(prediction, path, &request->predict);
    return write_page(request->report, all, whatif, err);
}

/* ---- the command ---- */

static int32_t find_width(const struct predict_request *request)
{
    struct winsize size;
    if (request->width)
        return request->width;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < GANTT_WIDTH_LEAST)
        return GANTT_WIDTH;
    return size.ws_col;
}

/* The time of a step has the wait that is expected for slower ranks, the picture has not. */
static void print_step(struct text *out, const struct result *result,
                       const struct report_exchanges *list, int32_t width)
{
    text_add(out, "%s on %s: last phase, rank %d, which %s; back end %s, grain %s\n",
             result->scenario->model.network, result->platform, list->rank,
             schedule_stages(list->schedule) > 1 ? "computes most" : "ends last", result->backend,
             result->grain);
    if (result->step.slower > 1e-3 * result->step.time)
        text_add(out, "not drawn: waiting for slower ranks, %s\n",
                 unit_text(UNIT_SECONDS, result->step.slower));
    text_add(out, "\n");
    gantt_print(out, list, width);
}

static int print(struct text *out, const struct predict_request *request,
                 struct prediction *prediction, struct err *err)
{
    const struct task *last = prediction_last(prediction);
    AUTORELEASE(exchanges)
    struct report_exchanges list =
        exchanges_of(&last->point.run, last->point.schedule, last->quiet);
    if (request->head.json || request->report || request->brief)
        prediction_add_warnings(prediction, err);
    if (request->head.json) {
        AUTORELEASE(json) struct json *json = prediction_json(prediction);
        json_print(out, json);
    } else if (request->step && !csv_is_answer(&request->head)) {
        print_step(out, &prediction->result, &list, find_width(request));
    } else if (!csv_is_answer(&request->head)) {
        result_print(out, &prediction->result,
                     request->brief         ? REPORT_BRIEF
                     : request->assumptions ? REPORT_WHOLE
                                            : REPORT_USUAL);
    }
    return csv_write(&request->head, answer_list(&exchange_columns, list.exchange, list.count),
                     &exchange_columns, out, err) ||
           (request->report && predict_page(request, prediction, &list, err));
}

static int predict(const void *record, struct text *out, struct err *err)
{
    const struct predict_request *request = record;
    if (request->width && request->width < GANTT_WIDTH_LEAST)
        return err_usage(err, "--width: at least %d", GANTT_WIDTH_LEAST);
    AUTORELEASE(prediction) struct prediction prediction = {0};
    AUTORELEASE(price) struct price_file prices = {0};
    AUTORELEASE(texts) struct texts set = {0};
    struct predict_options options = request->predict;
    if (request->prices && price_read(&prices, request->prices, err))
        return -1;
    options.set = set = predict_set(&request->predict, request->prices ? &prices : NULL);
    if (prediction_make(&prediction, request->head.argument.item[0], &options, err))
        return -1;
    if (request->prices) {
        price_check_device(&prices, prediction.job.platform->device.name, err);
        struct usage usage = prediction_usage(&prediction);
        prediction.result.bill = price_bill(&prices, &usage);
    }
    const struct task *last = prediction_last(&prediction);
    const struct schedule *schedule = last->point.schedule;
    int failed =
        print(out, request, &prediction, err) ||
        timeline_write_kineto_at(request->trace, schedule, task_trace(last), err) ||
        timeline_write_file(request->spans, timeline_write_spans, schedule, task_trace(last), err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct predict_request, member)

/* How a step is predicted. */
#define ROWS_STEP                                                                                  \
    ROW_SET_ALL(AT(predict.set)), ROWS_BACKEND(predict), ROW_ORDER(AT(predict.order)),             \
        ROW_ITERATIONS(AT(predict.iterations)), ROW_TRACED_RANKS(AT(predict.traced_ranks)),        \
        ROW_JSON

static const struct option options[] = {
    ROWS_STEP,
    ROW_PRICES(AT(prices)),
    OPTION_ROW("trace", 't', OPTION_OUTPUT, AT(trace), "FILE|DIR/", NULL,
               "Write the last phase's steps as Chrome/Kineto JSON: FILE, FILE.gz, or a file for "
               "each rank in DIR/",
               .holds = "rank-*.json"),
    ROW_SPANS(AT(spans)),
    ROW_REPORT(AT(report)),
    OPTION_ROW("published", 0, OPTION_REAL, AT(published), "SHARE", NULL,
               "A scaling efficiency that somebody measured, to draw beside the curve: 91.6%",
               "report", .unit = UNIT_FRACTION, .example = "a share such as 91.6%",
               .most = 2 /* more than any cluster has: "91" is 91 times */),
    ROW_CSV("when each all-reduce of the last phase's step is ready, begins, ends and is exposed"),
    OPTION_ROW("brief", 0, OPTION_FLAG, AT(brief),
               .help = "Print the answer alone: 12 lines, and the bill"),
    OPTION_ROW("assumptions", 0, OPTION_FLAG, AT(assumptions),
               .help = "Print assumptions with their reasons", .bars = "brief"),
    ROW_LAST};

static const struct option step_options[] = {
    ROWS_STEP, ROW_CSV("when each all-reduce is ready, begins, ends and is exposed"),
    OPTION_ROW("width", 'w', OPTION_INTEGER, AT(width), "COLUMNS", NULL,
               "Of the picture (default: the terminal's, else 80)"),
    ROW_LAST};

static const struct predict_request defaults = {.predict = {PREDICT_COMMAND}, .published = NAN};
static const struct predict_request step_defaults = {.predict = {PREDICT_COMMAND}, .step = true};

const struct command command_predict = {
    .name = "predict",
    .heading = "start here",
    .synopsis = "JOB [options]",
    .help = "step time, images/s, scaling efficiency, time to train and what bounds them",
    .examples = "foretrain predict experiments/01_sony_abci/v1-1088.yaml\n"
                "foretrain predict job.yaml --set cluster.nodes=512 --json\n"
                "foretrain predict job.yaml --prices example-h100\n"
                "foretrain predict job.yaml --trace trace.json    (open in ui.perfetto.dev)",
    RECORD(options, struct predict_request, &defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&result_columns),
    .run = predict,
};

const struct command command_show_step = {
    .name = "step",
    .synopsis = "JOB [options]",
    .help = "one training step in time: what is computed, which bucket waits, what is exposed",
    .examples = "foretrain show step experiments/01_sony_abci/v1-1088.yaml",
    RECORD(step_options, struct predict_request, &step_defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&result_columns),
    .run = predict,
};
