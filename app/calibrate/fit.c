#include "app/calibrate/fit.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>

#include "core/base/base.h"

enum { REWEIGHTINGS = 12, ITERATIONS = 100 };

/* Minimum: a fit of few runs would otherwise look more certain than runs repeat. */
static const double smallest_residual = 0.005;

/* Seconds of @row with @efficiency and @overhead. */
static double fit_predict(const struct fit_row *row, double efficiency, double overhead)
{
    return row->roof / efficiency + row->kernels * overhead;
}

/* Residuals: one per row, then one that keeps the overhead near its prior. */
static int residuals(const gsl_vector *x, void *data, gsl_vector *f)
{
    const struct fit_problem *p = data;
    double overhead = exp(gsl_vector_get(x, p->groups));
    for (int32_t i = 0; i < p->rows; i++) {
        const struct fit_row *row = &p->row[i];
        double efficiency = exp(gsl_vector_get(x, row->group));
        gsl_vector_set(f, i, log(fit_predict(row, efficiency, overhead) / row->seconds));
    }
    gsl_vector_set(f, p->rows, gsl_vector_get(x, p->groups) - log(FIT_OVERHEAD_PRIOR));
    return GSL_SUCCESS;
}

static int jacobian(const gsl_vector *x, void *data, gsl_matrix *J)
{
    const struct fit_problem *p = data;
    double overhead = exp(gsl_vector_get(x, p->groups));
    gsl_matrix_set_zero(J);
    for (int32_t i = 0; i < p->rows; i++) {
        const struct fit_row *row = &p->row[i];
        double efficiency = exp(gsl_vector_get(x, row->group));
        double scale = 1 / fit_predict(row, efficiency, overhead);
        gsl_matrix_set(J, i, row->group, -scale * row->roof / efficiency);
        gsl_matrix_set(J, i, p->groups, scale * row->kernels * overhead);
    }
    gsl_matrix_set(J, p->rows, p->groups, 1);
    return GSL_SUCCESS;
}

/* Start from the medians of what explains rows with the prior's overhead: no outlier moves them. */
static void start(gsl_vector *x, const struct fit_problem *p)
{
    AUTOFREE double *value = base_alloc(p->rows, sizeof(*value));
    for (int32_t g = 0; g < p->groups; g++) {
        int32_t count = 0;
        for (const struct fit_row *row = p->row; row < p->row + p->rows; row++)
            if (row->group == g)
                value[count++] = row->roof / fmax(row->seconds - row->kernels * FIT_OVERHEAD_PRIOR,
                                                  0.1 * row->seconds);
        gsl_vector_set(x, g, log(base_median(value, count)));
    }
    gsl_vector_set(x, p->groups, log(FIT_OVERHEAD_PRIOR));
}

/* The standard deviation from the middle half of the residuals, over the degrees of freedom.  A
 * group of one row meets it exactly, whatever the scatter is. */
static double spread(const gsl_vector *f, const struct fit_problem *p)
{
    const double normal = 1.4826;
    AUTOFREE double *value = base_alloc(p->rows, sizeof(*value));
    AUTOFREE int32_t *rows = base_alloc(p->groups, sizeof(*rows));
    int32_t count = 0, groups = 0;
    for (int32_t i = 0; i < p->rows; i++)
        groups += ++rows[p->row[i].group] == 2;
    for (int32_t i = 0; i < p->rows; i++)
        if (rows[p->row[i].group] > 1)
            value[count++] = fabs(gsl_vector_get(f, i));
    double freedom = count ? (double)count / (count - groups) : 1;
    return fmax(normal * base_median(value, count) * sqrt(freedom), smallest_residual);
}

/* Source: Huber, Robust Estimation of a Location Parameter, 1964; 1.345 for 95 % efficiency. */
static void weigh(gsl_vector *weight, const gsl_vector *f, double residual,
                  const struct fit_problem *p)
{
    for (int32_t i = 0; i < p->rows; i++) {
        double distance = fabs(gsl_vector_get(f, i)) / residual;
        gsl_vector_set(weight, i, fmin(1, 1.345 / fmax(distance, 1e-9)) / (residual * residual));
    }
    gsl_vector_set(weight, p->rows, 1 / (FIT_OVERHEAD_PRIOR_SD * FIT_OVERHEAD_PRIOR_SD));
}

/* GSL's objects of one fit. */
struct solver {
    gsl_multifit_nlinear_workspace *work;
    gsl_multifit_nlinear_fdf fdf;
    gsl_vector *x, *f, *weight;
    gsl_matrix *covariance;
};

static struct solver solver_new(const struct fit_problem *p)
{
    size_t n = (size_t)p->rows + 1, parameters = (size_t)p->groups + 1;
    gsl_multifit_nlinear_parameters settings = gsl_multifit_nlinear_default_parameters();
    return (struct solver){
        .work = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &settings, n, parameters),
        .fdf = {.f = residuals, .df = jacobian, .n = n, .p = parameters, .params = (void *)p},
        .x = gsl_vector_alloc(parameters),
        .f = gsl_vector_alloc(n),
        .weight = gsl_vector_alloc(n),
        .covariance = gsl_matrix_alloc(parameters, parameters),
    };
}

static void solver_release(struct solver *solver)
{
    gsl_multifit_nlinear_free(solver->work);
    gsl_vector_free(solver->x);
    gsl_vector_free(solver->f);
    gsl_vector_free(solver->weight);
    gsl_matrix_free(solver->covariance);
}

/* Fit, weigh by the residuals, fit again. */
static int solve(struct solver *s, const struct fit_problem *p)
{
    int failed = 0;
    start(s->x, p);
    for (int32_t i = 0; i < REWEIGHTINGS && !failed; i++) {
        residuals(s->x, (void *)p, s->f);
        weigh(s->weight, s->f, spread(s->f, p), p);
        gsl_multifit_nlinear_winit(s->x, s->weight, &s->fdf, s->work);
        /* If the start is already the solution, no step is better. */
        int info = GSL_SUCCESS;
        int status =
            gsl_multifit_nlinear_driver(ITERATIONS, 1e-10, 1e-10, 0, NULL, NULL, &info, s->work);
        failed = status == GSL_EMAXITER && info != GSL_ENOPROG;
        gsl_vector_memcpy(s->x, gsl_multifit_nlinear_position(s->work));
    }
    gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(s->work), 0, s->covariance);
    return failed;
}

int fit_solve(const struct fit_problem *problem, double *value, double *sd, struct err *err)
{
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    struct solver solver = solver_new(problem);
    int failed = solve(&solver, problem);
    for (int32_t i = 0; i <= problem->groups; i++) {
        value[i] = gsl_vector_get(solver.x, i);
        sd[i] = sqrt(fmax(gsl_matrix_get(solver.covariance, i, i), 0));
    }
    solver_release(&solver);
    gsl_set_error_handler(handler);
    return failed ? err_add(err, "the fit does not converge") : 0;
}
