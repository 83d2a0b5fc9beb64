#include "app/measure/measure.h"

#include "app/train/train_answers.h"

/* --- starting --- */

static const char hosts_of_lab[] = "FORETRAIN_LAB"; /* where tools/lab.py started this process */

bool measure_in_lab(void)
{
    return getenv(hosts_of_lab);
}

/* Word @index of @list, which commas divide; with its length, or 0: there are fewer. */
static const char *pick(const char *list, int32_t index, size_t *length)
{
    for (; index > 0 && (list = strchr(list, ',')); index--)
        list++;
    *length = list ? strcspn(list, ",") : 0;
    return list;
}

int measure_hosts(const struct point *point, char **hosts, struct err *err)
{
    AUTORELEASE(text) struct text list = {0};
    for (int32_t rank = 0; measure_in_lab() && rank < grid_ranks(point->grid); rank++) {
        size_t length;
        const char *name =
            pick(getenv(hosts_of_lab), grid_place(point->grid, point->order, rank), &length);
        if (!length)
            return err_usage(err, "%d ranks: this lab has fewer devices", grid_ranks(point->grid));
        text_add(&list, rank ? ",%.*s" : "%.*s", (int)length, name);
    }
    *hosts = list.data;
    list = (struct text){0};
    return 0;
}

static void add_words(struct launch *launch, const struct exchange_options *options,
                      const struct point *point, const struct sizes *sizes)
{
    AUTORELEASE(text) struct text list = {0};
    texts_add(&launch->words, "collective");
    texts_add(&launch->words, "--grid=%dx%d", point->grid.columns, point->grid.rows);
    texts_add(&launch->words, "--algorithm=%s", algorithm_names[options->algorithm]);
    texts_add(&launch->words, "--group=%d", point->devices_per_node);
    if (options->chunk)
        texts_add(&launch->words, "--chunk=%s", options->chunk);
    texts_add(&launch->words, "--repeats=%d", options->repeats);
    texts_add(&launch->words, "--gradients=%s", dtype_names[options->gradients]);
    for (int32_t i = 0; i < sizes->count; i++)
        text_add(&list, "%s%lldB", i ? "," : "", (long long)sizes->item[i]);
    texts_add(&launch->words, "--bytes=%s", list.data);
}

/* --- reading --- */

static void find_reason(struct measured *measured, int32_t wanted)
{
    size_t room = sizeof(measured->reason);
    if (measured->clean < wanted)
        snprintf(measured->reason, room,
                 "%d of %d runs disturbed: other processes had %.0f %% of the processors, the "
                 "host %.0f %%",
                 measured->runs - measured->clean, measured->runs, 100.0 * measured->foreign,
                 100.0 * measured->steal);
    else if (measured->spread > MEASURE_SPREAD_LIMIT)
        snprintf(measured->reason, room, "quartiles %.0f %% apart", 100.0 * measured->spread);
    measured->disturbed = measured->reason[0] != '\0';
}

static void sum_up(const struct timing_sample *told, int32_t wanted, struct measured *measured)
{
    AUTOFREE double *time = base_alloc(measured->runs, sizeof(*time));
    int32_t count = 0;
    for (int32_t i = 0; i < measured->runs; i++) {
        measured->clean += !told[i].disturbed;
        measured->steal += told[i].steal / measured->runs;
        measured->foreign += told[i].foreign / measured->runs;
        measured->retransmits += told[i].retransmits;
    }
    for (int32_t i = 0; i < measured->runs; i++)
        if (!told[i].disturbed || measured->clean < wanted)
            time[count++] = told[i].time_s;
    measured->minimum_s = base_quantile(time, count, 0);
    measured->maximum_s = base_quantile(time, count, 1);
    measured->time_s = base_quantile(time, count, 0.25);
    measured->median_s = base_quantile(time, count, 0.5);
    measured->spread = (base_quantile(time, count, 0.75) - measured->time_s) / measured->median_s;
}

static bool read_size(const struct json *json, int64_t bytes, int32_t wanted,
                      struct measured *measured)
{
    const struct json *samples = json_get(json, "samples");
    int64_t count = json_count_items(samples), told_bytes;
    if (count < 1 || count > INT32_MAX || !json_as_integer(json_get(json, "bytes"), &told_bytes) ||
        told_bytes != bytes)
        return false;
    AUTOFREE struct timing_sample *told = base_alloc(count, sizeof(*told));
    bool good = true;
    for (int64_t i = 0; i < count && good; i++)
        good = answer_read(&sample_columns, json_item(samples, i), &told[i]);
    *measured = (struct measured){.runs = (int32_t)count};
    if (good) {
        sum_up(told, wanted, measured);
        find_reason(measured, wanted);
    }
    return good;
}

static int read_answer(const struct launch *launch, const struct sizes *sizes, int32_t wanted,
                       struct measured *measured, struct err *err)
{
    AUTORELEASE(json) struct json *json = launch_read_json(launch, err);
    const struct json *list = json_get(json, "sizes");
    bool good = json && json_count_items(list) == sizes->count;
    for (int32_t i = 0; i < sizes->count && good; i++)
        good = read_size(json_item(list, i), sizes->item[i], wanted, &measured[i]);
    if (!good && !err->count)
        err_add_code(err, 70, "foretrain-exec did not answer with its measurements");
    return good ? 0 : -1;
}

int measure_collective(const struct exchange_options *options, const struct point *point,
                       const struct sizes *sizes, struct measured *measured, struct err *err)
{
    AUTOFREE char *hosts = NULL;
    if (measure_hosts(point, &hosts, err))
        return -1;
    AUTORELEASE(launch) struct launch launch = {.hosts = hosts, .yields = true};
    if (launch_keep(&launch, false, err) || launch_begin(&launch, grid_ranks(point->grid), err))
        return -1;
    add_words(&launch, options, point, sizes);
    int code = launch_run(&launch, err);
    if (code < 0)
        return -1;
    AUTOFREE char *words = code ? launch_line(&launch) : NULL;
    if (code)
        return err_add_code(err, code > 128 ? 70 : code,
                            "foretrain-exec failed with exit code %d; by hand: %s", code, words);
    return read_answer(&launch, sizes, options->repeats, measured, err);
}
