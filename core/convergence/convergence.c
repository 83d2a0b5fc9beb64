#include "core/convergence/convergence.h"

#include "core/base/base.h"

const char *const convergence_recipes[] = {"rcp-nvidia", "rcp-google", "v0.5",
                                           "v0.6",       "v0.7",       NULL};

int64_t convergence_largest(void)
{
    int64_t largest = 0;
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++)
        largest = row->batch > largest ? row->batch : largest;
    for (const struct convergence_accuracy *row = convergence_accuracies; row->work; row++) {
        int64_t batch = row->batch_end ? row->batch_end : row->batch;
        largest = batch > largest ? batch : largest;
    }
    return largest;
}

/* ---- E0 (1 + B / Bc) ---- */

/* MLPerf's reference convergence points, of all recipes. */
struct reference {
    double batch[CONVERGENCE_POINTS], epochs[CONVERGENCE_POINTS];
    int32_t count;
    double spread; /* root mean square of their standard deviations */
};

static struct reference reference_points(void)
{
    struct reference all = {.count = 0};
    double squares = 0;
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++)
        if (strncmp(row->recipe, "rcp-", 4) == 0) {
            assert(all.count < CONVERGENCE_POINTS);
            all.batch[all.count] = (double)row->batch;
            all.epochs[all.count++] = row->epochs;
            squares += row->spread * row->spread;
        }
    all.spread = sqrt(squares / all.count);
    return all;
}

/* Mean of log E - log(1 + B / Bc) over all points but @skip, which is log E0, and its variance. */
static double try_batch(const struct reference *all, int32_t skip, double batch, double *variance)
{
    double sum = 0, squares = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < all->count; i++) {
        double rest = log(all->epochs[i]) - log1p(all->batch[i] / batch);
        count += i != skip;
        sum += i != skip ? rest : 0;
        squares += i != skip ? rest * rest : 0;
    }
    *variance = squares / count - sum / count * (sum / count);
    return sum / count;
}

/* The variance has one minimum over the logarithm of Bc: golden section. */
static struct convergence_fit fit_without(const struct reference *all, int32_t skip)
{
    double low = log(1), high = log(1e9), variance[2];
    const double golden = (sqrt(5) - 1) / 2;
    while (high - low > 1e-9) {
        double a = high - golden * (high - low), b = low + golden * (high - low);
        try_batch(all, skip, exp(a), &variance[0]);
        try_batch(all, skip, exp(b), &variance[1]);
        if (variance[0] < variance[1])
            high = b;
        else
            low = a;
    }
    struct convergence_fit fit = {.batch = exp((low + high) / 2)};
    fit.epochs = exp(try_batch(all, skip, fit.batch, &variance[0]));
    return fit;
}

static struct convergence_fit fit_all(const struct reference *points)
{
    const struct reference all = *points;
    struct convergence_fit fit = fit_without(&all, -1);
    double miss[CONVERGENCE_POINTS] = {0}, squares = 0;
    for (int32_t i = 0; i < all.count; i++) {
        struct convergence_fit other = fit_without(&all, i);
        miss[i] = fabs(log(other.epochs * (1 + all.batch[i] / other.batch) / all.epochs[i]));
        squares += miss[i] * miss[i];
    }
    fit.median = base_median(miss, all.count);
    fit.largest = miss[all.count - 1];
    fit.rms = sqrt(squares / all.count);
    fit.spread = all.spread;
    return fit;
}

struct convergence_fit convergence_fit(void)
{
    struct reference all = reference_points();
    return fit_all(&all);
}

struct convergence_fit convergence_fit_to(const struct convergence_point *point, int32_t count)
{
    struct reference all = {.count = count};
    double squares = 0;
    assert(count >= 3 && count <= CONVERGENCE_POINTS);
    for (int32_t i = 0; i < count; i++) {
        all.batch[i] = (double)point[i].batch;
        all.epochs[i] = point[i].epochs;
        squares += point[i].spread * point[i].spread;
    }
    all.spread = sqrt(squares / count);
    return fit_all(&all);
}

/* ---- a curve ---- */

void convergence_add(struct convergence *curve, struct convergence_point point)
{
    assert(curve->count < CONVERGENCE_POINTS);
    if (curve->count == 0)
        curve->fit = convergence_fit();
    if (!(point.spread > 0))
        point.spread = curve->fit.spread;
    curve->point[curve->count++] = point;
}

bool convergence_is_lars(const char *recipe)
{
    return strcmp(recipe, "v0.5");
}

struct convergence convergence_of(const char *recipe)
{
    struct convergence curve = {.count = 0};
    for (const struct convergence_row *row = convergence_rows; row->recipe; row++)
        if (strcmp(row->recipe, recipe) == 0) {
            convergence_add(&curve,
                            (struct convergence_point){row->batch, row->epochs, row->spread});
            curve.target = row->target;
        }
    return curve;
}

bool convergence_is_outside(const struct convergence *curve, int64_t batch)
{
    return batch < curve->point[0].batch || batch > curve->point[curve->count - 1].batch;
}

/* A random walk over the logarithm of the batch that passes through the points: between two that
 * are a factor of 4 apart, as most reference points are, its standard deviation in the middle is
 * the error of the fit.  @variance is that of the walk with one of 1 for each factor of e. */
static double curve_spread(const struct convergence *curve, double epochs, double variance)
{
    return curve->fit.rms * epochs * sqrt(4 * variance / log(4));
}

static struct convergence_need need_outside(const struct convergence *curve, int32_t i,
                                            int64_t batch)
{
    const struct convergence_point *end = &curve->point[i];
    double from = (double)end->batch, to = (double)batch, critical = curve->fit.batch;
    double epochs = to > from ? end->epochs + curve->fit.epochs * (to - from) / critical
                              : end->epochs * (critical + to) / (critical + from);
    return (struct convergence_need){
        epochs, hypot(end->spread, curve_spread(curve, epochs, fabs(log(to / from))))};
}

static double between(double a, double b, double t)
{
    return (1 - t) * a + t * b;
}

struct convergence_need convergence_epochs(const struct convergence *curve, int64_t batch)
{
    int32_t last = curve->count - 1, i = 0;
    if (batch <= curve->point[0].batch)
        return need_outside(curve, 0, batch);
    if (batch >= curve->point[last].batch)
        return need_outside(curve, last, batch);
    while (batch >= curve->point[i + 1].batch)
        i++;
    const struct convergence_point *a = &curve->point[i], *b = a + 1;
    double h = log((double)b->batch / (double)a->batch);
    double t = log((double)batch / (double)a->batch) / h;
    double epochs =
        between(a->epochs, b->epochs, (double)(batch - a->batch) / (double)(b->batch - a->batch));
    return (struct convergence_need){epochs, hypot(between(a->spread, b->spread, t),
                                                   curve_spread(curve, epochs, h * t * (1 - t)))};
}

/* ---- evaluations ---- */

double convergence_end(double schedule, double every, double uniform)
{
    double again = CONVERGENCE_EXTRA / (1 + CONVERGENCE_EXTRA); /* of each evaluation */
    return fmax(1, round(schedule)) + every * floor(log(uniform) / log(again));
}
