#include "core/report/toll.h"

#include "core/report/report.h"

/* More failures than this are drawn together.  Our choice. */
enum { DRAWN_MOST = 1000 };

double failures_young(double mtbf, double cost)
{
    return sqrt(2 * cost * mtbf);
}

double failures_daly(double mtbf, double cost)
{
    double x = cost / (2 * mtbf);
    return x < 1 ? failures_young(mtbf, cost) * (1 + sqrt(x) / 3 + x / 9) - cost : mtbf;
}

/* A run in stretches that each end with a checkpoint. */
struct stretches {
    double count, length; /* equal ones [s] */
    double last;          /* the one that is shorter [s]; 0: there is none */
};

static struct stretches divide(const struct failures *f, double work)
{
    if (!(f->interval > 0 && f->interval < work))
        return (struct stretches){.last = work + f->cost};
    double count = floor(work / f->interval * (1 + 1e-12)), rest = work - count * f->interval;
    bool whole = rest < 1e-9 * f->interval;
    return (struct stretches){count, f->interval + f->cost, whole ? 0 : rest + f->cost};
}

double failures_checkpoints(const struct failures *failures, double work)
{
    struct stretches s = divide(failures, work);
    return s.count + (s.last > 0);
}

static double expected(const struct failures *f, double length)
{
    return isinf(f->mtbf) ? length : f->mtbf * exp(f->restart / f->mtbf) * expm1(length / f->mtbf);
}

double failures_expected(const struct failures *failures, double work)
{
    struct stretches s = divide(failures, work);
    return (s.count > 0 ? s.count * expected(failures, s.length) : 0) + expected(failures, s.last);
}

/* ---- one run ---- */

/* Random numbers of one run. */
struct luck {
    uint64_t seed, number, next;
};

static double uniform(struct luck *luck)
{
    return base_uniform(luck->seed, luck->number, luck->next++, 0);
}

/* Times that fail come before others: how long one is that fails within @length. */
static double time_to_failure(double mtbf, double length, struct luck *luck)
{
    return -mtbf * log1p(uniform(luck) * expm1(-length / mtbf));
}

/* Mean and variance. */
struct moments {
    double mean, variance;
};

/* Of the time to a failure that comes within @length. */
static struct moments failed(double mtbf, double length)
{
    double x = length / mtbf, s = 2 * sinh(x / 2);
    if (x < 1e-3) /* where the differences below would be rounding */
        return (struct moments){length / 2, length * length / 12};
    return (struct moments){mtbf * (1 - x / expm1(x)), mtbf * mtbf * (1 - x / s * (x / s))};
}

/* Of the failures of an attempt of @length until it succeeds, and of the time that they take. */
static struct moments all_failed(double mtbf, double length)
{
    double count = expm1(length / mtbf); /* mean of a geometric distribution */
    struct moments each = failed(mtbf, length);
    return (struct moments){count * each.mean,
                            count * each.variance + count * (1 + count) * each.mean * each.mean};
}

/* What a stretch that fails takes beyond its own length: the time to its failure, restarts with the
 * work until one succeeds. */
static struct moments beyond(const struct failures *f, double length)
{
    struct moments first = failed(f->mtbf, length);
    struct moments more = all_failed(f->mtbf, f->restart + length);
    return (struct moments){first.mean + f->restart + more.mean, first.variance + more.variance};
}

static double draw_beyond(const struct failures *f, double length, struct luck *luck)
{
    double again = f->restart + length, first = time_to_failure(f->mtbf, length, luck);
    double count = floor(log(uniform(luck)) / log1p(-exp(-again / f->mtbf)));
    double sum = first + f->restart;
    if (count > DRAWN_MOST) {
        struct moments each = failed(f->mtbf, again);
        return sum + count * each.mean +
               sqrt(count * each.variance) * base_normal(luck->seed, luck->number, luck->next++, 0);
    }
    for (int i = 0; i < (int)count; i++)
        sum += time_to_failure(f->mtbf, again, luck);
    return sum;
}

/* Stretches that succeed are passed over together. */
static double draw_all(const struct failures *f, double count, double length, struct luck *luck)
{
    double fails = -expm1(-length / f->mtbf), sum = count * length;
    if (isinf(f->mtbf) || !(count > 0))
        return sum;
    if (count * fails > DRAWN_MOST) {
        struct moments one = beyond(f, length);
        double mean = fails * one.mean;
        double variance = fails * one.variance + fails * (1 - fails) * one.mean * one.mean;
        return sum + count * mean +
               sqrt(count * variance) * base_normal(luck->seed, luck->number, luck->next++, 0);
    }
    for (double i = 0;; i++) {
        i += floor(log(uniform(luck)) * -f->mtbf / length);
        if (!(i < count))
            return sum;
        sum += draw_beyond(f, length, luck);
    }
}

double failures_draw(const struct failures *failures, double work, uint64_t seed, uint64_t number)
{
    struct stretches s = divide(failures, work);
    struct luck luck = {seed, number, 0};
    double most = fmax(s.length, s.last) + failures->restart;
    if (most / failures->mtbf > 500) /* beyond what exp() can tell */
        return FAILURES_LONGEST;
    double sum = draw_all(failures, s.count, s.length, &luck);
    return fmin(sum + draw_all(failures, s.last > 0, s.last, &luck), FAILURES_LONGEST);
}

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

SHARED_COLUMNS(toll_columns, NULL, struct toll_answer)
{
    COLUMN("mtbf_s", mtbf, .null = true,
           .help = "mean time between failures of what the job uses; null: nothing fails");
    COLUMN("expected", expected, .null = true,
           .help = "failures expected in the run; null (with the keys below) if no checkpoint cost "
                   "is given");
    COLUMN("restart_s", restart, .null = true, .help = "from a failure until work begins again");
    COLUMN("checkpoint_s", checkpoint, .null = true,
           .help = "time that training stands still for a checkpoint");
    COLUMN("checkpoints", checkpoints, .null = true,
           .help = "checkpoints of the run, one of them at its end");
    COLUMN("interval_s", interval, .null = true, .help = "work between checkpoints; null: one");
    COLUMN("interval_epochs", epochs, .null = true,
           .help = "work between checkpoints in epochs, as training.checkpoint.every");
    COLUMN("interval_from", from, .null = true, .help = "job: interval given; daly: the best one");
    COLUMN("daly_s", daly, .null = true, .help = "best interval by Daly's formula");
    COLUMN("young_s", young, .null = true, .help = "best interval by Young's formula");
    COLUMN("saving_s", saving, .null = true, .help = "time of all checkpoints together");
    COLUMN("failing_s", failing, .null = true, .help = "time of restarts and of work done again");
    COLUMN("without_s", without, LIKELY(without_likely), .null = true,
           .help = "time_to_train_s without failures and checkpoints");
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
