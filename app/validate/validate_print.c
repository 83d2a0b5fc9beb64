#include <assert.h>
#include <math.h>

#include "app/validate/validate.h"
#include "app/validate/validate_run.h"
#include "core/base/unit.h"

static const char *const groups[] = {"step", "kind", "lane", "part", "collective"};
static_assert(ARRAY_SIZE(groups) == VALIDATE_GROUP_COUNT, "one name per group");

static const char *const verdicts[] = {"pass", "fail", "disturbed"};
static_assert(ARRAY_SIZE(verdicts) == VALIDATE_VERDICT_COUNT, "one name per verdict");

static void add_seconds(struct text *out, double seconds)
{
    text_add(out, "  %11s", unit_text(UNIT_SECONDS, seconds));
}

static void add_row(struct text *out, const struct validate_row *row)
{
    text_add(out, "  %-34s", row->name);
    add_seconds(out, row->predicted_s);
    add_seconds(out, row->measured_s);
    add_seconds(out, row->quartile_s);
    if (isfinite(row->error))
        text_add(out, "  %+8.1f %%\n", 100 * row->error);
    else
        text_add(out, "  %10s\n", "-");
}

void validation_print(struct text *out, const struct validation *validation)
{
    static const char *const heading[] = {
        "", "steps by kind", "lanes, busy", "the step, on the rank that ends last",
        "collectives, from the last rank's entering to the last one's leaving"};
    static_assert(ARRAY_SIZE(heading) == VALIDATE_GROUP_COUNT, "one each");
    text_add(out, "%-36s  %11s  %11s  %11s  %10s\n", "", "predicted", "measured", "quartile",
             "error");
    for (int32_t i = 0; i < validation->count; i++) {
        enum validate_group group = validation->row[i].group;
        if (i > 0 && group != validation->row[i - 1].group)
            text_add(out, "%s\n", heading[group]);
        add_row(out, &validation->row[i]);
    }
    text_add(out, "\nmedian and lower quartile of %d steps, error of the %s",
             validation->iterations, validation->lab ? "quartile" : "median");
    if (isfinite(validation->likely.low))
        text_add(out, "; the prediction's 90 %% interval, %s to %s, %s",
                 unit_text(UNIT_SECONDS, validation->likely.low),
                 unit_text(UNIT_SECONDS, validation->likely.high),
                 validation->inside ? "holds the median" : "does not hold the median");
    text_add(out, "\nstep time: %s (tolerance %g %%)\n", verdicts[validation->verdict],
             100 * validation->tolerance);
}

#define DESCRIBED struct validate_row
static const struct answer_column row_rows[] = {
    COLUMN("group", group, .words = groups, .help = "step, kind, lane, part or collective"),
    COLUMN("name", name, .help = "what took the time"),
    COLUMN("predicted_s", predicted_s, .help = "predicted time in one step"),
    COLUMN("measured_s", measured_s, .help = "median over the steps"),
    COLUMN("lower_quartile_s", quartile_s, .help = "lower quartile over the steps"),
    COLUMN("error", error, .null = true,
           .help = "of the prediction, relative to what error_of says; null: either took no time"),
};
static const struct answer_columns row_columns = COLUMNS(NULL, row_rows);
#undef DESCRIBED

#define DESCRIBED struct validation
static const struct answer_column comparison_rows[] = {
    COLUMN("measured_steps", iterations, .help = "training steps behind each median"),
    COLUMN_ITEMS("step_times_s", time, iterations, .help = "each measured step, in their order"),
    COLUMN("error_of", error_of, .help = "what errors are relative to: median, or lower quartile"),
    COLUMN("step_s", step_s, LIKELY(likely), .help = "predicted time of a training step"),
    COLUMN("inside_interval", inside, .help = "the measured step is in the predicted interval"),
    COLUMN("tolerance", tolerance, .help = "on the step's error, as a fraction"),
    COLUMN("verdict", verdict, .words = verdicts,
           .help = "on the step time: pass, fail or disturbed"),
    COLUMN_ITEMS("rows", row, count, .table = &row_columns),
};
static const struct answer_columns comparison_columns = COLUMNS(NULL, comparison_rows);
#undef DESCRIBED

#define DESCRIBED struct trace
static const struct answer_column trace_rows[] = {
    COLUMN("schedule_hash", schedule_hash, .help = "of the schedule of both sides"),
    COLUMN("backend", backend, .help = "of the prediction: analytic or sim"),
    COLUMN("grain", grain, .help = "of the prediction, as in a result"),
};
static const struct answer_columns trace_columns = COLUMNS(NULL, trace_rows);
#undef DESCRIBED

#define DESCRIBED struct validate_notes
static const struct answer_column note_rows[] = {
    COLUMN("late_s", late_s, .negative = true,
           .help = "how late device replay ended its steps, mean; null: another device"),
    COLUMN("latest_s", latest_s, .negative = true, .help = "how late the latest step ended"),
    COLUMN("trace_error_s", clock_s, .negative = true,
           .help = "how far the clocks of two ranks may be apart"),
    COLUMN("steal", steal, .negative = true,
           .help = "part of the processors' time that the host had meanwhile"),
    COLUMN("foreign", foreign, .negative = true,
           .help = "part of it that other processes of this machine had"),
    COLUMN("idle", idle, .negative = true, .help = "part of it that nobody had"),
    COLUMN("drops", drops, .negative = true,
           .help = "packets that a lab's links dropped; null: no lab"),
    COLUMN("retransmits", retransmits, .negative = true,
           .help = "TCP segments that a lab's hosts sent again; null: no lab"),
};
static const struct answer_columns note_columns = COLUMNS(NULL, note_rows);
#undef DESCRIBED

#define DESCRIBED struct validation_answer
static const struct answer_column answer_rows[] = {
    COLUMN("scenario_sha256", sha256, .null = true,
           .help = "of the scenario's text and the overrides; null: no job"),
    COLUMN("platform", platform, .null = true, .help = "platform of the prediction; null: no job"),
    COLUMN_MEMBERS(predicted, &trace_columns),
    COLUMN("device", device, .null = true,
           .help = "device that was run: cpu, cpu-naive, cuda or replay; null: none was"),
    COLUMN("lab", lab, .help = "it ran in the platform's lab"),
    COLUMN("ranks", ranks, .help = "ranks that were measured"),
    COLUMN_MEMBERS(validation, &comparison_columns),
    COLUMN_MEMBERS(notes, &note_columns),
};
const struct answer_columns validation_columns = COLUMNS("validation/2", answer_rows);
