#include "core/report/toll.h"

#include <math.h>

#include "core/base/unit.h"

static double only_if(bool condition, double value)
{
    return condition ? value : NAN;
}

void toll_put(struct json *json, const struct toll *toll)
{
    const struct failures *f = &toll->failures;
    bool any = toll->any, fails = any && isfinite(f->mtbf), saves = fails && f->cost > 0;
    double saving = failures_checkpoints(f, toll->work) * f->cost;
    struct json *object = json_put_object(json, "failures");
    json_put_real(object, "mtbf_s", only_if(fails, f->mtbf));
    json_put_real(object, "expected", only_if(any, fails ? toll->total / f->mtbf : 0));
    json_put_real(object, "restart_s", only_if(fails, f->restart));
    json_put_real(object, "checkpoint_s", only_if(any, f->cost));
    json_put_real(object, "checkpoints", only_if(any, failures_checkpoints(f, toll->work)));
    json_put_real(object, "interval_s", only_if(any && f->interval > 0, f->interval));
    json_put_real(object, "interval_epochs", only_if(any && toll->every > 0, toll->every));
    json_put_text(object, "interval_from", !any ? NULL : toll->chosen ? "daly" : "job");
    json_put_real(object, "daly_s", only_if(saves, failures_daly(f->mtbf, f->cost)));
    json_put_real(object, "young_s", only_if(saves, failures_young(f->mtbf, f->cost)));
    json_put_real(object, "saving_s", only_if(any, saving));
    json_put_real(object, "failing_s", only_if(fails, toll->total - toll->work - saving));
    json_put_real(object, "without_s", only_if(any, toll->work));
    json_put_interval(object, "without_interval_s", only_if(any, toll->work_likely.low),
                      toll->work_likely.high);
}

static void print_row(struct text *out, const char *label, double seconds, const char *note)
{
    text_add(out, "  %-24s%16s%s%s\n", label, unit_text(UNIT_SECONDS, seconds), *note ? "   " : "",
             note);
}

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
    print_row(out, "  checkpoints", count * f->cost, note.data);
}

void toll_print(struct text *out, const struct toll *toll)
{
    const struct failures *f = &toll->failures;
    if (!toll->any)
        return;
    print_row(out, "  without failures", toll->work, "and without checkpoints");
    if (!isnan(toll->work_likely.low))
        text_add(out, "  %-24s%16s to %s\n", "    90 % interval",
                 unit_text(UNIT_SECONDS, toll->work_likely.low),
                 unit_text(UNIT_SECONDS, toll->work_likely.high));
    print_checkpoints(out, toll);
    if (!isfinite(f->mtbf))
        return;
    AUTORELEASE(text) struct text note = {0};
    text_add(&note, "%.3g expected, one in %s, restarts of %s", toll->total / f->mtbf,
             unit_text(UNIT_SECONDS, f->mtbf), unit_text(UNIT_SECONDS, f->restart));
    print_row(out, "  failures",
              toll->total - toll->work - failures_checkpoints(f, toll->work) * f->cost, note.data);
}
