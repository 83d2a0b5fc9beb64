#include "app/measure/collective_table.h"

static const char *const names[] = {"-", "pass", "fail", "disturbed"};
static_assert(ARRAY_SIZE(names) == VERDICT_COUNT, "one name per verdict");

static const struct table_row *measurement_of(const struct table *table, int64_t bytes)
{
    for (int32_t i = 0; i < table->count; i++)
        if (table->row[i].measured && table->row[i].bytes == bytes)
            return &table->row[i];
    return NULL;
}

static void compare(const struct table *table, struct table_row *row)
{
    const struct table_row *measurement = measurement_of(table, row->bytes);
    if (row->measured || !measurement)
        return;
    row->error = row->time_s / measurement->time_s - 1.0;
    if (table->judged && row->bytes >= TABLE_JUDGED_BYTES) {
        /* The wake-up of processes affects short messages. */
        row->tolerance = row->bytes >= 8000000 ? 0.05 : 0.15;
        row->verdict = measurement->measured->disturbed     ? VERDICT_DISTURBED
                       : fabs(row->error) <= row->tolerance ? VERDICT_PASS
                                                            : VERDICT_FAIL;
    }
    row->judgement = names[row->verdict];
}

/* Several back ends, or one that measures, need extra columns. */
static bool is_wide(const struct table *table)
{
    for (int32_t i = 0; i < table->count; i++)
        if (table->row[i].measured)
            return true;
    return table->count > 1 && table->row[0].backend != table->row[1].backend;
}

/* Source: nccl-tests, doc/PERFORMANCE.md: busbw = algbw * 2 (n - 1) / n for all-reduce. */
void table_compare(struct table *table)
{
    bool wide = is_wide(table);
    for (int32_t i = 0; i < table->count; i++) {
        struct table_row *row = &table->row[i];
        row->algbw = row->time_s > 0.0 ? (double)row->bytes / row->time_s : 0.0;
        row->busbw = row->algbw * 2.0 * (table->ranks - 1.0) / table->ranks;
        row->error = row->tolerance = NAN;
        row->verdict = VERDICT_NONE;
        compare(table, row);
    }
    table->backend = wide ? table->backends : table->row[0].backend;
    table->grain = table->row[0].grain;
    table->verdict = wide ? names[table_verdict(table)] : NULL;
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
             table->platform ? table->platform : "this machine", table->ranks,
             base_plural(table->ranks));
    if (table->grid.columns)
        text_add(out, " as %d x %d%s", table->grid.columns, table->grid.rows,
                 table->order == RANK_ORDER_COLUMN ? ", columns within nodes" : "");
    text_add(out, "; %s\n", table->backends);
    if (table->choice->why) {
        AUTOFREE char *why = grid_choice_text(table->choice);
        text_add(out, "# %s\n", why);
    }
    if (table->cards)
        text_add(out, "# %s\n", table->cards);
    if (table->nccl)
        text_add(out, "# NCCL %d.%d%s%s\n", table->nccl / 100, table->nccl % 100,
                 table->software ? " of " : ", as no --software says another",
                 table->software ? table->software : "");
    text_add(out, "# algbw = bytes / time, busbw = algbw * 2(n-1)/n\n");
    if (table->converts)
        text_add(out, "# gradients travel in %s%s\n", table->gradients,
                 predicts(table)
                     ? ": exec converts them, those that predict know only the bytes that travel"
                     : "");
}

static void print_row(struct text *out, const struct table_row *row)
{
    text_add(out, "%13lld %14.3f %12.4f %12.4f %7d", (long long)row->bytes, 1e6 * row->time_s,
             1e-9 * row->algbw, 1e-9 * row->busbw, row->steps);
}

static void print_narrow(struct text *out, const struct table *table)
{
    text_add(out, "#%12s %14s %12s %12s %7s\n", "bytes", "time", "algbw", "busbw", "steps");
    text_add(out, "#%12s %14s %12s %12s\n", "(B)", "(us)", "(GB/s)", "(GB/s)");
    for (int32_t i = 0; i < table->count; i++) {
        const struct table_row *row = &table->row[i];
        print_row(out, row);
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
        print_row(out, row);
        if (row->measured)
            print_measured(out, row->measured);
        else if (row->judgement)
            text_add(out, " %+8.2f  %s\n", 100.0 * row->error, row->judgement);
        else
            text_add(out, "\n");
    }
}

void table_print(struct text *out, const struct table *table)
{
    print_heading(out, table);
    if (table->verdict)
        print_wide(out, table);
    else
        print_narrow(out, table);
}

COLUMNS(measured_columns, NULL, struct measured)
{
    COLUMN("minimum_s", minimum_s, .help = "shortest of the measured runs");
    COLUMN("median_s", median_s, .help = "median of the runs that count");
    COLUMN("maximum_s", maximum_s, .help = "longest of the runs that count");
    COLUMN("spread", spread, .help = "from the lower to the upper quartile, as a fraction");
    COLUMN("runs", runs, .help = "runs that were made");
    COLUMN("clean", clean, .help = "runs that nothing disturbed");
    COLUMN("steal", steal, .help = "part of the processors' time that the host had meanwhile");
    COLUMN("foreign", foreign, .help = "part of it that other processes of this machine had");
    COLUMN("retransmits", retransmits, .help = "TCP segments that were sent again");
    COLUMN("disturbed", disturbed, .help = "the runs cannot judge a prediction");
    COLUMN("reason", reason, .help = "why the runs cannot judge a prediction, or empty");
}

SHARED_COLUMNS(collective_row_columns, NULL, struct table_row)
{
    COLUMN("backend", backend, .help = "analytic, sim or exec");
    COLUMN("grain", grain, .help = "as in a result; lab or this machine where it was measured");
    COLUMN("bytes", bytes, .help = "size of the vector on each rank");
    COLUMN("time_s", time_s, .help = "predicted time, or lower quartile of the measured runs");
    COLUMN("algbw", algbw, .help = "bytes per second");
    COLUMN("busbw", busbw, .help = "algbw times 2(n - 1)/n, as nccl-tests has it");
    COLUMN("steps", steps, .help = "rounds");
    COLUMN("choice", choice, .absent = true, .help = "NCCL's algorithm and protocol");
    COLUMN("error", error, .absent = true, .help = "of a prediction relative to its measurement");
    COLUMN("tolerance", tolerance, .absent = true,
           .help = "of the error, where there is a verdict");
    COLUMN("verdict", judgement, .absent = true,
           .help = "on the error: pass, fail, disturbed, or - for none");
    COLUMN_OPTIONAL(measured, &measured_columns);
}

SHARED_COLUMNS(collective_columns, "collective/2", struct table)
{
    COLUMN("platform", platform, .null = true, .help = "its name; null: this machine");
    COLUMN("algorithm", algorithm, .help = "of the all-reduce");
    COLUMN("software", software, .null = true,
           .help = "profile that says the version of NCCL; null: the default");
    COLUMN("nccl_version", nccl, .zero = true,
           .help = "100 * major + minor of the NCCL whose model is used; null: not by NCCL");
    COLUMN("backend", backend, .help = "analytic, sim or exec, or a list of them");
    COLUMN("grain", grain, .help = "grain of the first row");
    COLUMN("ranks", ranks, .help = "ranks that take part");
    COLUMN("grid.columns", grid.columns, .zero = true,
           .help = "ranks in a row; null where rows mean nothing");
    COLUMN("grid.rows", grid.rows, .zero = true, .help = "ranks in a column");
    COLUMN("grid.why", why, .null = true, .help = "why this grid was chosen; null: it was given");
    COLUMN("order", order, .words = rank_order_names,
           .help = "row or column: along which ranks fill the nodes");
    COLUMN("cards", cards, .null = true,
           .help = "how many network cards of a node work; null: not on this platform");
    COLUMN("gradients", gradients, .absent = true,
           .help = "type in which they travel, where something is measured");
    COLUMN("verdict", verdict, .absent = true,
           .help = "worst verdict of the rows, where several back ends or a measurement have some");
    COLUMN_ITEMS("rows", row, count, .table = &collective_row_columns);
}

RELEASE(table, it->row, it->cards)
