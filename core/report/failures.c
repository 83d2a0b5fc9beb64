#include "core/report/failures.h"

#include <math.h>
#include <stdbool.h>

#include "core/base/base.h"

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
