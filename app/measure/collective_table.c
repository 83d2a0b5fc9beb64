#include "app/measure/collective_table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static const char *const names[] = {"-", "pass", "fail", "disturbed"};
static_assert(ARRAY_SIZE(names) == VERDICT_COUNT, "one name per verdict");

const char *verdict_name(enum verdict verdict)
{
    return names[verdict];
}

double table_tolerance(int64_t bytes)
{
    return bytes >= 8000000 ? 0.05 : 0.15;
}

static const struct table_row *measurement_of(const struct table *table, int64_t bytes)
{
    for (int32_t i = 0; i < table->count; i++)
        if (table->row[i].measured && table->row[i].bytes == bytes)
            return &table->row[i];
    return NULL;
}

void table_compare(struct table *table)
{
    for (int32_t i = 0; i < table->count; i++) {
        struct table_row *row = &table->row[i];
        const struct table_row *measurement = measurement_of(table, row->bytes);
        if (row->measured || !measurement)
            continue;
        row->compared = true;
        row->error = row->time_s / measurement->time_s - 1.0;
        if (!table->judged || row->bytes < TABLE_JUDGED_BYTES)
            row->verdict = VERDICT_NONE;
        else if (measurement->measured->disturbed)
            row->verdict = VERDICT_DISTURBED;
        else
            row->verdict =
                fabs(row->error) <= table_tolerance(row->bytes) ? VERDICT_PASS : VERDICT_FAIL;
    }
}

enum verdict table_verdict(const struct table *table)
{
    int32_t count[VERDICT_COUNT] = {0};
    for (int32_t i = 0; i < table->count; i++)
        count[table->row[i].verdict]++;
    if (count[VERDICT_FAIL])
        return VERDICT_FAIL;
    if (count[VERDICT_DISTURBED])
        return VERDICT_DISTURBED;
    return count[VERDICT_PASS] ? VERDICT_PASS : VERDICT_NONE;
}

/* Source: nccl-tests, doc/PERFORMANCE.md: busbw = algbw * 2 (n - 1) / n for all-reduce. */
static double bus_factor(const struct table *table)
{
    double ranks = grid_ranks(table->grid);
    return 2.0 * (ranks - 1.0) / ranks;
}

static double algorithm_bandwidth(const struct table_row *row)
{
    return row->time_s > 0.0 ? (double)row->bytes / row->time_s : 0.0;
}

/* Several back ends, or one that measures, need extra columns. */
static bool is_wide(const struct table *table)
{
    for (int32_t i = 0; i < table->count; i++)
        if (table->row[i].measured)
            return true;
    return table->count > 1 && table->row[0].backend != table->row[1].backend;
}

static bool predicts(const struct table *table)
{
    for (int32_t i = 0; i < table->count; i++)
        if (!table->row[i].measured)
            return true;
    return false;
}

static void print_heading(struct text *out, const struct table *table)
{
    text_add(out, "# all-reduce, %s, %s: %d rank%s", table->algorithm,
             table->platform ? table->platform : "this machine", grid_ranks(table->grid),
             base_plural(grid_ranks(table->grid)));
    if (table->has_rows)
        text_add(out, " as %d x %d%s", table->grid.columns, table->grid.rows,
                 table->order == RANK_ORDER_COLUMN ? ", columns within nodes" : "");
    text_add(out, "; %s\n", table->backends);
    if (table->choice->why) {
        AUTOFREE char *why = grid_choice_text(table->choice);
        text_add(out, "# %s\n", why);
    }
    if (table->cards)
        text_add(out, "# %s\n", table->cards);
    text_add(out, "# algbw = bytes / time, busbw = algbw * 2(n-1)/n\n");
    if (table->converts)
        text_add(out, "# gradients travel in %s%s\n", table->gradients,
                 predicts(table)
                     ? ": exec converts them, those that predict know only the bytes that travel"
                     : "");
}

static void print_row(struct text *out, const struct table *table, const struct table_row *row)
{
    double algbw = algorithm_bandwidth(row);
    text_add(out, "%13lld %14.3f %12.4f %12.4f %7d", (long long)row->bytes, 1e6 * row->time_s,
             1e-9 * algbw, 1e-9 * algbw * bus_factor(table), row->steps);
}

static void print_narrow(struct text *out, const struct table *table)
{
    text_add(out, "#%12s %14s %12s %12s %7s\n", "bytes", "time", "algbw", "busbw", "steps");
    text_add(out, "#%12s %14s %12s %12s %7s\n", "(B)", "(us)", "(GB/s)", "(GB/s)", "");
    for (int32_t i = 0; i < table->count; i++) {
        const struct table_row *row = &table->row[i];
        print_row(out, table, row);
        text_add(out, "%s%s\n", row->choice ? "  " : "", row->choice ? row->choice : "");
    }
}

static void print_measured(struct text *out, const struct measured *measured)
{
    text_add(out,
             " %8s  %s: lower quartile of %d, %.1f %% to the upper; other processes %.0f %%, "
             "steal %.1f %%, %lld sent again%s%s\n",
             "", measured->disturbed ? "disturbed" : "clean",
             measured->disturbed ? measured->runs : measured->clean, 100.0 * measured->spread,
             100.0 * measured->foreign, 100.0 * measured->steal, (long long)measured->retransmits,
             measured->disturbed ? "; " : "", measured->reason);
}

static void print_wide(struct text *out, const struct table *table)
{
    text_add(out, "#%8s %13s %14s %12s %12s %7s %8s  %s\n", "backend", "bytes", "time", "algbw",
             "busbw", "steps", "error", "verdict");
    text_add(out, "#%8s %13s %14s %12s %12s %7s %8s\n", "", "(B)", "(us)", "(GB/s)", "(GB/s)", "",
             "(%)");
    for (int32_t i = 0; i < table->count; i++) {
        const struct table_row *row = &table->row[i];
        text_add(out, "%9s ", row->backend);
        print_row(out, table, row);
        if (row->measured)
            print_measured(out, row->measured);
        else if (row->compared)
            text_add(out, " %+8.2f  %s\n", 100.0 * row->error, verdict_name(row->verdict));
        else
            text_add(out, "\n");
    }
}

void table_print(struct text *out, const struct table *table)
{
    print_heading(out, table);
    if (is_wide(table))
        print_wide(out, table);
    else
        print_narrow(out, table);
}

static void put_measured(struct json *json, const struct measured *measured)
{
    json_put_real(json, "minimum_s", measured->minimum_s);
    json_put_real(json, "median_s", measured->median_s);
    json_put_real(json, "maximum_s", measured->maximum_s);
    json_put_real(json, "spread", measured->spread);
    json_put_integer(json, "runs", measured->runs);
    json_put_integer(json, "clean", measured->clean);
    json_put_real(json, "steal", measured->steal);
    json_put_real(json, "foreign", measured->foreign);
    json_put_integer(json, "retransmits", measured->retransmits);
    json_put_integer(json, "drops", measured->drops);
    json_put_boolean(json, "disturbed", measured->disturbed);
    json_put_text(json, "reason", measured->reason);
}

static struct json *make_row(const struct table *table, const struct table_row *row)
{
    struct json *json = json_new_object();
    double algbw = algorithm_bandwidth(row);
    json_put_text(json, "backend", row->backend);
    json_put_text(json, "grain", row->grain);
    json_put_integer(json, "bytes", row->bytes);
    json_put_real(json, "time_s", row->time_s);
    json_put_real(json, "algbw", algbw);
    json_put_real(json, "busbw", algbw * bus_factor(table));
    json_put_integer(json, "steps", row->steps);
    if (row->choice)
        json_put_text(json, "choice", row->choice);
    if (row->compared) {
        json_put_real(json, "error", row->error);
        if (row->verdict != VERDICT_NONE)
            json_put_real(json, "tolerance", table_tolerance(row->bytes));
        json_put_text(json, "verdict", verdict_name(row->verdict));
    }
    if (row->measured)
        put_measured(json, row->measured);
    return json;
}

struct json *table_rows(const struct table *table)
{
    struct json *rows = json_new_array();
    for (int32_t i = 0; i < table->count; i++)
        json_append(rows, make_row(table, &table->row[i]));
    return rows;
}

void table_print_json(struct text *out, const struct table *table)
{
    AUTORELEASE(json) struct json *json = json_new_object();
    json_put_text(json, "schema", "foretrain/collective/1");
    json_put_text(json, "platform", table->platform);
    json_put_text(json, "algorithm", table->algorithm);
    json_put_text(json, "backend", is_wide(table) ? table->backends : table->row[0].backend);
    json_put_text(json, "grain", table->row[0].grain);
    json_put_integer(json, "ranks", grid_ranks(table->grid));
    struct json *grid = json_put_object(json, "grid");
    json_put(grid, "columns",
             table->has_rows ? json_new_integer(table->grid.columns) : json_new_text(NULL));
    json_put(grid, "rows",
             table->has_rows ? json_new_integer(table->grid.rows) : json_new_text(NULL));
    json_put_text(grid, "why", table->choice->why);
    json_put_text(json, "order", rank_order_names[table->order]);
    json_put_text(json, "cards", table->cards);
    if (table->gradients)
        json_put_text(json, "gradients", table->gradients);
    if (is_wide(table))
        json_put_text(json, "verdict", verdict_name(table_verdict(table)));
    json_put(json, "rows", table_rows(table));
    json_print(out, json);
}

void table_release(struct table *table)
{
    for (int32_t i = 0; i < table->count; i++)
        free(table->row[i].choice);
    free(table->row);
    free(table->cards);
    *table = (struct table){0};
}
