#include "core/report/toll.h"

#include <math.h>

#include "core/base/unit.h"
#include "core/report/report.h"

static double only_if(bool condition, double value)
{
    return condition ? value : NAN;
}

struct toll_answer toll_answer(const struct toll *toll)
{
    const struct failures *f = &toll->failures;
    bool any = toll->any, fails = any && isfinite(f->mtbf), saves = fails && f->cost > 0;
    double saving = failures_checkpoints(f, toll->work) * f->cost;
    return (struct toll_answer){
        .mtbf = only_if(fails, f->mtbf),
        .expected = only_if(any, fails ? toll->total / f->mtbf : 0),
        .restart = only_if(fails, f->restart),
        .checkpoint = only_if(any, f->cost),
        .checkpoints = only_if(any, failures_checkpoints(f, toll->work)),
        .interval = only_if(any && f->interval > 0, f->interval),
        .epochs = only_if(any && toll->every > 0, toll->every),
        .from = !any           ? NULL
                : toll->chosen ? "daly"
                               : "job",
        .daly = only_if(saves, failures_daly(f->mtbf, f->cost)),
        .young = only_if(saves, failures_young(f->mtbf, f->cost)),
        .saving = only_if(any, saving),
        .failing = only_if(fails, toll->total - toll->work - saving),
        .without = only_if(any, toll->work),
        .without_likely = {only_if(any, toll->work_likely.low),
                           only_if(any, toll->work_likely.high)},
    };
}

#define DESCRIBED struct toll_answer
static const struct answer_column toll_rows[] = {
    COLUMN("mtbf_s", mtbf, .null = true,
           .help = "mean time between failures of what the job uses; null: nothing fails"),
    COLUMN("expected", expected, .null = true,
           .help = "failures expected in the run; null (with the keys below) if no checkpoint cost "
                   "is given"),
    COLUMN("restart_s", restart, .null = true,
           .help = "from a failure until the lost work begins again"),
    COLUMN("checkpoint_s", checkpoint, .null = true,
           .help = "time that training stands still for a checkpoint"),
    COLUMN("checkpoints", checkpoints, .null = true,
           .help = "checkpoints of the run, one of them at its end"),
    COLUMN("interval_s", interval, .null = true,
           .help = "work between checkpoints; null: only one, at the end"),
    COLUMN("interval_epochs", epochs, .null = true,
           .help = "work between checkpoints in epochs, as training.checkpoint.every"),
    COLUMN("interval_from", from, .null = true,
           .help = "job: the interval is given; daly: it is the best"),
    COLUMN("daly_s", daly, .null = true, .help = "best interval by Daly's formula"),
    COLUMN("young_s", young, .null = true, .help = "best interval by Young's formula"),
    COLUMN("saving_s", saving, .null = true, .help = "time of all checkpoints together"),
    COLUMN("failing_s", failing, .null = true,
           .help = "time of restarts and of work that is done again"),
    COLUMN("without_s", without, LIKELY(without_likely), .null = true,
           .help = "time_to_train_s without failures and checkpoints"),
};
const struct answer_columns toll_columns = COLUMNS(NULL, toll_rows);
#undef DESCRIBED

static void print_checkpoints(struct text *out, const struct toll *toll)
{
    const struct failures *f = &toll->failures;
    double count = failures_checkpoints(f, toll->work);
    AUTORELEASE(text) struct text note = {0};
    text_add(&note, "%.0f of %s", count, unit_text(UNIT_SECONDS, f->cost));
    if (toll->every > 0)
        text_add(&note, ", every %s or %.3g epochs", unit_text(UNIT_SECONDS, f->interval),
                 toll->every);
    else
        text_add(&note, ", at the end");
    if (isfinite(f->mtbf) && toll->chosen)
        text_add(&note, ": the best, by Daly; Young: %s",
                 unit_text(UNIT_SECONDS, failures_young(f->mtbf, f->cost)));
    else if (isfinite(f->mtbf))
        text_add(&note, "; best by Daly: %s",
                 unit_text(UNIT_SECONDS, failures_daly(f->mtbf, f->cost)));
    report_row(out, "  checkpoints", UNIT_SECONDS, count * f->cost, note.data);
}

void toll_print(struct text *out, const struct toll *toll)
{
    const struct failures *f = &toll->failures;
    if (!toll->any)
        return;
    report_row(out, "  without failures", UNIT_SECONDS, toll->work, "and without checkpoints");
    report_interval(out, "    90 % interval", UNIT_SECONDS, toll->work, toll->work_likely);
    print_checkpoints(out, toll);
    if (!isfinite(f->mtbf))
        return;
    AUTORELEASE(text) struct text note = {0};
    text_add(&note, "%.3g expected, one in %s, restarts of %s", toll->total / f->mtbf,
             unit_text(UNIT_SECONDS, f->mtbf), unit_text(UNIT_SECONDS, f->restart));
    report_row(out, "  failures", UNIT_SECONDS,
               toll->total - toll->work - failures_checkpoints(f, toll->work) * f->cost, note.data);
}
