#include "app/import/import_fit.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>

#include "core/base/base.h"

/* Precision of printed times: a smaller scatter has no meaning. */
static const double finest_residual = 0.005;

/* One line through rows @first to @last.  Parameters stay at 0 or above: if one would not, only the
 * other is fitted.  @return the sum of squares of relative residuals. */
static double fit_piece(struct curve_piece *piece, const struct curve *curve, int32_t first,
                        int32_t last)
{
    const double *x = curve->size + first, *y = curve->seconds + first;
    size_t n = (size_t)(last - first + 1);
    double weight[CURVE_ROWS], one[CURVE_ROWS], chi2;
    for (size_t i = 0; i < n; i++) {
        weight[i] = 1 / (y[i] * y[i]);
        one[i] = 1;
    }
    *piece = (struct curve_piece){.from = x[0], .to = x[n - 1], .rows = (int32_t)n};
    gsl_fit_wlinear(x, 1, weight, 1, y, 1, n, &piece->latency, &piece->per_byte,
                    &piece->latency_variance, &piece->covariance, &piece->per_byte_variance, &chi2);
    if (piece->latency < 0 || !(piece->per_byte >= 0)) {
        bool constant = !(piece->per_byte >= 0);
        piece->latency = piece->per_byte = 0;
        piece->latency_variance = piece->per_byte_variance = piece->covariance = 0;
        gsl_fit_wmul(constant ? one : x, 1, weight, 1, y, 1, n,
                     constant ? &piece->latency : &piece->per_byte,
                     constant ? &piece->latency_variance : &piece->per_byte_variance, &chi2);
    }
    double scale = n > 2 ? fmax(chi2 / (double)(n - 2), 0) : 0;
    piece->latency_variance *= scale;
    piece->covariance *= scale;
    piece->per_byte_variance *= scale;
    return chi2;
}

/* Schwarz's criterion of @pieces lines that leave @chi2 over @rows. */
static double criterion(double chi2, int32_t rows, int32_t pieces)
{
    double n = rows, parameters = 3 * pieces - 1;
    return n * log(fmax(chi2 / n, finest_residual * finest_residual)) + parameters * log(n);
}

/* Where the lines end: row numbers. */
struct cut {
    int32_t pieces, last[CURVE_PIECES];
    double criterion, chi2;
};

static void try_cut(struct cut *best, const double *chi2, int32_t n, struct cut cut)
{
    int32_t first = 0;
    for (int32_t i = 0; i < cut.pieces; i++) {
        cut.chi2 += chi2[first * n + cut.last[i]];
        first = cut.last[i] + 1;
    }
    cut.criterion = criterion(cut.chi2, n, cut.pieces);
    if (cut.criterion < best->criterion)
        *best = cut;
}

static struct cut find_cut(const struct curve *curve)
{
    int32_t n = curve->count, least = CURVE_PIECE_ROWS;
    AUTOFREE double *chi2 = base_alloc((int64_t)n * n, sizeof(*chi2));
    struct curve_piece piece;
    for (int32_t a = 0; a < n; a++)
        for (int32_t b = a + least - 1; b < n; b++)
            chi2[a * n + b] = fit_piece(&piece, curve, a, b);
    chi2[n - 1] = fit_piece(&piece, curve, 0, n - 1);
    struct cut best = {.criterion = INFINITY};
    try_cut(&best, chi2, n, (struct cut){.pieces = 1, .last = {n - 1}});
    for (int32_t a = least - 1; a + least < n; a++) {
        try_cut(&best, chi2, n, (struct cut){.pieces = 2, .last = {a, n - 1}});
        for (int32_t b = a + least; b + least < n; b++)
            try_cut(&best, chi2, n, (struct cut){.pieces = 3, .last = {a, b, n - 1}});
    }
    return best;
}

int curve_fit_lines(struct curve_fit *fit, const struct curve *curve, struct err *err)
{
    int32_t n = curve->count;
    if (n < 2 || curve->size[0] == curve->size[n - 1])
        return err_add(err,
                       "a line needs the times of at least two sizes; there are %d rows: "
                       "measure from 8 B to 1 GiB",
                       n);
    struct cut cut = find_cut(curve);
    *fit = (struct curve_fit){.pieces = cut.pieces};
    for (int32_t i = 0, first = 0; i < cut.pieces; first = cut.last[i++] + 1)
        fit_piece(&fit->piece[i], curve, first, cut.last[i]);
    if (!(fit->piece[cut.pieces - 1].per_byte > 0))
        return err_add(err, "the times do not grow with the size up to %g B: measure larger sizes",
                       curve->size[n - 1]);
    return 0;
}

void curve_fit_from(struct curve_piece *piece, const struct curve *curve, int32_t first)
{
    fit_piece(piece, curve, first, curve->count - 1);
}

double curve_spread(double squares, int32_t rows)
{
    if (rows < 3)
        return CURVE_UNKNOWN;
    double normal = gsl_cdf_ugaussian_Pinv(0.95), t = gsl_cdf_tdist_Pinv(0.95, rows - 2);
    return sqrt(squares / (rows - 2)) * t / normal;
}
