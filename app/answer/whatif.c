#include "app/answer/predict_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/yaml.h"
#include "models/networks.h"

/* ---- the files ---- */

/* Takes @path, which may be NULL, and applies those of @set (or NULL) that change a scenario. */
static bool put_file(struct json *files, const char *name, char *path,
                     char *(*find)(const char *name, struct err *err),
                     const struct option_list *set, struct err *err)
{
    struct document *document = path ? yaml_read_file(NULL, path, find, err) : NULL;
    for (int32_t i = 0; document && set && i < set->count; i++)
        if (scenario_takes(set->item[i]))
            yaml_set(document, set->item[i], err);
    if (document)
        json_put(files, name, node_json(yaml_root(document)));
    yaml_free(document);
    free(path);
    return document != NULL;
}

static bool put_named(struct json *files, const struct job *job, const struct option_list *set,
                      struct err *err)
{
    const struct scenario *s = &job->scenario;
    char *name = scenario_path_at(s, "cluster.platform", s->cluster.platform);
    bool good = !platform_files(files, name, set->item, set->count, err);
    free(name);
    if (good && s->cluster.software) {
        name = job->without_layout ? base_copy(job->software->name)
                                   : scenario_path_at(s, "cluster.software", s->cluster.software);
        good = put_file(files, "software", platform_find_software(name, err),
                        platform_find_software, NULL, err);
        free(name);
    }
    if (good && network_is_file(s->model.network))
        good = put_file(files, "network", scenario_path_at(s, "model.network", s->model.network),
                        NULL, NULL, err);
    return good;
}

/* What the files say after the assignments; NULL: one of them cannot be read again. */
static struct json *read_files(const struct prediction *prediction, const char *path,
                               const struct predict_options *options)
{
    struct json *files = json_new_object();
    AUTORELEASE(err) struct err err = {0};
    bool good = put_file(files, "job", base_copy(path), NULL, &options->set, &err) &&
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
    struct json *pair = json_append_array(control.values);
    json_append_text(pair, value);
    json_append_text(pair, words);
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
    int32_t most = platform_nodes(prediction->job.platform);
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

/* A quantity of the platform, if it is one that moves. */
static void add_link(void *context, const struct quantity *quantity, enum unit unit)
{
    static const struct {
        const char *path, *label;
    } link[] = {
        {"network.nic.bandwidth", "network card"}, {"transport.between", "latency between nodes"},
        {"torus.row.bandwidth", "links of rows"},  {"torus.column.bandwidth", "links of columns"},
        {"ring.bandwidth", "links of the ring"},
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
    AUTOFREE char *words =
        tier ? base_format("%s, %.*s", label, (int)(end - path), path) : base_copy(label);
    add_scaled(context, key, words, unit, quantity->value, 1. / 8, 8);
}

/* Some numbers may not fit the switches of a group, which the core then says. */
static void add_uplinks(struct json *controls, const struct platform *platform)
{
    for (int32_t tier = 0; platform_uplinks(platform, tier) > 0; tier++) {
        AUTOFREE char *key = base_format("platform.network.tiers[%d].uplinks", tier);
        AUTOFREE char *label = base_format("number of uplinks, network.tiers[%d]", tier);
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
    AUTOFREE char *label = base_format("%s%s", global ? "global batch" : "images per device",
                                       last > 0 ? " in the last phase" : "");
    add_scaled(controls, key, label, UNIT_NONE,
               (double)(global ? phase->global_batch : phase->batch_per_device), 1. / 16, 16);
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
    if (ranks <= 0)
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

static struct json *wishes(const struct predict_options *options)
{
    struct json *list = json_new_array();
    json_append_integer(list, options->order);
    json_append_integer(list, options->noise);
    json_append_integer(list, options->ignore_memory);
    json_append_integer(list, options->iterations);
    return list;
}

struct json *whatif_json(const struct prediction *prediction, const char *path,
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
    add_scaled(controls, "allreduce.bucket", "bucket", UNIT_BYTES, (double)job->resolved.bucket,
               1. / 64, 64);
    add_algorithm(controls, job->resolved.algorithm);
    add_grid(controls, prediction->result.grid);
    json_put(whatif, "wishes", wishes(options));
    json_put(whatif, "controls", controls);
    json_put(whatif, "files", files);
    return whatif;
}

static bool fits(const struct json *whatif)
{
    AUTORELEASE(text) struct text line = {0};
    json_print_line(&line, whatif, 17);
    return line.length <= PAGE_DATA_LIMIT;
}

void whatif_section(struct page *page, const struct json *whatif)
{
    if (!whatif || !fits(whatif))
        return;
    page->whatif = whatif;
    html_section(page, "What if?");
    html_paragraph(page, "small",
                   "The job in closed form, without contention and usually early, again for other "
                   "numbers, computed in this page. Sliders start at the job; one that moves nodes "
                   "or algorithm lets foretrain choose the grid.");
    html_add(&page->body, "<div id=\"whatif\"></div>\n");
}
