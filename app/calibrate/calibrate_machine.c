#include "app/calibrate/calibrate_machine.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <sys/utsname.h>

#include "app/process/cores.h"
#include "app/process/launch.h"
#include "core/base/columns.h"
#include "core/base/file.h"
#include "core/config/field_write.h"
#include "core/platform/device_table.h"

/* From measured steps to a device file: peaks, one efficiency for each class of steps, one cost per
 * kernel, and the steps themselves. */

/* One class, fitted. */
struct device_fit_class {
    int32_t op, layer, dtype; /* as in struct device_class */
    double efficiency, efficiency_sd;
    double residual; /* standard deviation of a step's log time about the fit */
    int32_t rows;
};

/* The device of a machine, as fitted to its steps.  Start from {0}; release with
 * device_fit_release(). */
struct device_fit {
    struct machine_step *row;       /* (rows) by shape, op, type and amount; texts borrowed */
    struct device_fit_class *class; /* (classes) owned */
    int32_t rows, classes;
    double peak[DTYPE_COUNT]; /* the highest speed of any step [FLOP/s]; 0: no such step */
    double moved;             /* the highest memory traffic of any step [bytes/s] */
    double copied;            /* memory traffic of the largest copy [bytes/s]; 0: there is none */
    int64_t copied_bytes;     /* size of that copy, read once and written once */
    double bandwidth;         /* the larger of the two */
    double math, memory;      /* medians of the classes with arithmetic, and without */
    double overhead;          /* [s] per kernel */
    double overhead_sd;       /* of its logarithm */
    double between;           /* [s] from an iteration to the next, median of the trials */
    double other_networks;    /* standard deviation of log time of shapes that were not measured */
};

/* The texts of a device file.  Owned. */
struct device_text {
    char *name;        /* of the file */
    char *description; /* one line for people */
    char *source;      /* origin, date and command of the measurement */
    double memory;     /* [bytes] */
    char *memory_source;
    int32_t compute_capability; /* of CUDA: 10 * major + minor; 0: none */
    double spread;              /* of all times between rounds, relative standard deviation */
};

OWN_RELEASE(device_fit, it->row, it->class)

/* What an efficiency may be in a file. */
static const double lowest_efficiency = 1e-4;

/* --- rows --- */

static int compare_rows(const void *a, const void *b)
{
    const struct machine_step *x = a, *y = b;
    int order = strcmp(x->shape, y->shape);
    if (!order)
        order = x->op != y->op ? x->op - y->op : x->dtype - y->dtype;
    return order ? order : (x->amount > y->amount) - (x->amount < y->amount);
}

static bool same_shape(const struct machine_step *a, const struct machine_step *b)
{
    return a->op == b->op && a->dtype == b->dtype && !strcmp(a->shape, b->shape);
}

/* Equal steps share one row, with their mean; more work never takes less time. */
static void collect(struct device_fit *fit, const struct machine *machine)
{
    int32_t all = 0;
    for (int32_t i = 0; i < machine->trials; i++)
        all += machine->trial[i].steps;
    struct machine_step *row = fit->row = base_alloc(all, sizeof(*fit->row));
    for (int32_t i = 0, k = 0; i < machine->trials; i++)
        for (int32_t s = 0; s < machine->trial[i].steps; s++)
            row[k++] = machine->trial[i].step[s];
    qsort(row, (size_t)all, sizeof(*row), compare_rows);
    for (int32_t i = 0, alike = 0; i < all; i++) {
        struct machine_step *last = fit->rows ? &row[fit->rows - 1] : NULL;
        if (last && same_shape(last, &row[i]) && last->amount == row[i].amount) {
            last->time_s += (row[i].time_s - last->time_s) / ++alike;
            last->flops += (row[i].flops - last->flops) / alike; /* what is added up differs */
            last->bytes += (row[i].bytes - last->bytes) / alike;
            last->spread = fmax(last->spread, row[i].spread);
        } else {
            row[fit->rows++] = row[i];
            alike = 1;
        }
    }
    for (int32_t i = 1; i < fit->rows; i++)
        if (same_shape(&row[i - 1], &row[i]))
            row[i].time_s = fmax(row[i].time_s, row[i - 1].time_s);
}

/* Memory traffic of a copy, reads and writes [bytes/s]. */
static double device_copy_speed(const struct machine_copy *copy)
{
    return 2 * (double)copy->bytes / copy->time_s;
}

static void find_peaks(struct device_fit *fit, const struct machine *machine)
{
    for (int32_t i = 0; i < fit->rows; i++) {
        const struct machine_step *row = &fit->row[i];
        double *peak = &fit->peak[row->dtype];
        *peak = fmax(*peak, (double)row->flops / row->time_s);
        fit->moved = fmax(fit->moved, (double)row->bytes / row->time_s);
    }
    if (machine->copies) {
        const struct machine_copy *largest = &machine->copy[machine->copies - 1];
        fit->copied = device_copy_speed(largest);
        fit->copied_bytes = largest->bytes;
    }
    fit->bandwidth = fmax(fit->moved, fit->copied);
}

/* --- the fit --- */

static double roof(const struct device_fit *fit, const struct machine_step *row)
{
    double math = row->flops > 0 ? (double)row->flops / fit->peak[row->dtype] : 0;
    return fmax(math, (double)row->bytes / fit->bandwidth);
}

/* -1: there is none. */
static int32_t class_of(const struct device_fit *fit, const struct machine_step *row)
{
    for (int32_t i = 0; i < fit->classes; i++)
        if (fit->class[i].op == row->op && fit->class[i].layer == row->layer &&
            fit->class[i].dtype == row->dtype)
            return i;
    return -1;
}

static void find_classes(struct device_fit *fit)
{
    fit->class = base_alloc(fit->rows, sizeof(*fit->class));
    for (int32_t i = 0; i < fit->rows; i++) {
        int32_t known = class_of(fit, &fit->row[i]);
        if (!(roof(fit, &fit->row[i]) > 0))
            continue; /* a kernel that does nothing says nothing of an efficiency */
        if (known < 0) {
            known = fit->classes++;
            fit->class[known] = (struct device_fit_class){
                .op = fit->row[i].op, .layer = fit->row[i].layer, .dtype = fit->row[i].dtype};
        }
        fit->class[known].rows++;
    }
}

/* Seconds of @row by the fit alone, as for a step of a shape that was not measured. */
static double device_fit_predict(const struct device_fit *fit, const struct machine_step *row)
{
    int32_t class = class_of(fit, row);
    double efficiency =
        class < 0 ? row->flops > 0 ? fit->math : fit->memory : fit->class[class].efficiency;
    return roof(fit, row) / efficiency + row->kernels * fit->overhead;
}

/* Seconds of all steps of @trial by the fit alone. */
static double device_fit_trial(const struct device_fit *fit, const struct machine_trial *trial)
{
    double seconds = 0;
    for (int32_t i = 0; i < trial->steps; i++)
        seconds += device_fit_predict(fit, &trial->step[i]);
    return seconds;
}

/* What each row reaches. */
static void find_speeds(const struct device_fit *fit)
{
    for (struct machine_step *row = fit->row; row < fit->row + fit->rows; row++) {
        row->flops_per_s = (double)row->flops / row->time_s;
        row->bytes_per_s = (double)row->bytes / row->time_s;
        row->roofline = roof(fit, row) / row->time_s;
    }
}

/* The median of the classes with arithmetic, or of those without; of all where there are none. */
static double typical(const struct device_fit *fit, bool arithmetic)
{
    AUTOFREE double *value = base_alloc(fit->classes, sizeof(*value));
    int32_t count = 0;
    for (int32_t i = 0; i < fit->classes; i++)
        if ((fit->class[i].layer == LAYER_CONVOLUTION || fit->class[i].layer == LAYER_LINEAR) ==
            arithmetic)
            value[count++] = fit->class[i].efficiency;
    for (int32_t i = 0; i < fit->classes && !count; i++)
        value[i] = fit->class[i].efficiency;
    return base_median(value, count ? count : fit->classes);
}

/* The standard deviation from the middle half of a class's rows. */
static double scatter(const struct device_fit *fit, int32_t class)
{
    const double normal = 1.4826;
    AUTOFREE double *value = base_alloc(fit->rows, sizeof(*value));
    int32_t count = 0;
    for (int32_t i = 0; i < fit->rows; i++)
        if (class_of(fit, &fit->row[i]) == class)
            value[count++] = fabs(log(device_fit_predict(fit, &fit->row[i]) / fit->row[i].time_s));
    return normal * base_median(value, count);
}

/* Model: seconds = roof / efficiency of the class + kernels * overhead.  Logarithms of efficiency
 * and overhead are fitted to those of the seconds, by Levenberg and Marquardt with weights after
 * Huber, so that a disturbed run does not shift the others.  Runs of one batch size cannot separate
 * the two: the overhead stays near its prior unless the runs determine it.  Deterministic. */

/* Cost of a kernel, without knowledge from runs [s].  Assumed: 2 to 5 us to launch a kernel or to
 * start it from a graph, and about as much for its ramp-up and tail. */
static const double overhead_prior = 8e-6;
/* Its uncertainty: standard deviation of its logarithm. */
static const double overhead_prior_sd = 0.5;

enum { REWEIGHTINGS = 12, ITERATIONS = 100 };

/* Minimum: a fit of few runs would otherwise look more certain than runs repeat. */
static const double smallest_residual = 0.005;

/* A step with work to do. */
struct fit_row {
    int32_t group;  /* shares an efficiency */
    double roof;    /* time of all kernels at the full roofline [s] */
    double kernels; /* how many */
    double seconds; /* measured, above 0 */
};

/* Every group has at least one row. */
struct fit_problem {
    const struct fit_row *row; /* (rows) borrowed */
    int32_t rows, groups;
};

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
    gsl_vector_set(f, p->rows, gsl_vector_get(x, p->groups) - log(overhead_prior));
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
static void start_at_medians(gsl_vector *x, const struct fit_problem *p)
{
    AUTOFREE double *value = base_alloc(p->rows, sizeof(*value));
    for (int32_t g = 0; g < p->groups; g++) {
        int32_t count = 0;
        for (const struct fit_row *row = p->row; row < p->row + p->rows; row++)
            if (row->group == g)
                value[count++] = row->roof / fmax(row->seconds - row->kernels * overhead_prior,
                                                  0.1 * row->seconds);
        gsl_vector_set(x, g, log(base_median(value, count)));
    }
    gsl_vector_set(x, p->groups, log(overhead_prior));
}

/* The standard deviation from the middle half of the residuals, over the degrees of freedom.  A
 * group of one row meets it exactly, whatever the scatter is. */
static double residual_of(const gsl_vector *f, const struct fit_problem *p)
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
    gsl_vector_set(weight, p->rows, 1 / (overhead_prior_sd * overhead_prior_sd));
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
    start_at_medians(s->x, p);
    for (int32_t i = 0; i < REWEIGHTINGS && !failed; i++) {
        residuals(s->x, (void *)p, s->f);
        weigh(s->weight, s->f, residual_of(s->f, p), p);
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

static double deviation(const struct solver *solver, int32_t i)
{
    return sqrt(fmax(gsl_matrix_get(solver->covariance, i, i), 0));
}

static void conclude(struct device_fit *fit, const struct solver *solver)
{
    fit->overhead = exp(gsl_vector_get(solver->x, fit->classes));
    fit->overhead_sd = deviation(solver, fit->classes);
    for (int32_t i = 0; i < fit->classes; i++) {
        double efficiency = exp(gsl_vector_get(solver->x, i));
        fit->class[i].efficiency = fmin(fmax(efficiency, lowest_efficiency), 1);
        fit->class[i].efficiency_sd = deviation(solver, i);
    }
    for (int32_t i = 0; i < fit->classes; i++)
        fit->class[i].residual = scatter(fit, i);
    fit->math = typical(fit, true);
    fit->memory = typical(fit, false);
}

static double median_between(const struct machine *machine)
{
    AUTOFREE double *value = base_alloc(machine->trials, sizeof(*value));
    for (int32_t i = 0; i < machine->trials; i++)
        value[i] = machine->trial[i].between_s;
    return base_median(value, machine->trials);
}

/* Fit the steps of @machine, whose texts are borrowed, into zeroed @fit.
 * @return 0, or -1: no convergence. */
static int device_fit_make(struct device_fit *fit, const struct machine *machine, struct err *err)
{
    collect(fit, machine);
    find_peaks(fit, machine);
    find_speeds(fit);
    find_classes(fit);
    fit->between =
        machine->together.between > 0 ? machine->together.between : median_between(machine);
    AUTOFREE struct fit_row *row = base_alloc(fit->rows, sizeof(*row));
    struct fit_problem problem = {row, 0, fit->classes};
    for (int32_t i = 0; i < fit->rows; i++)
        if (roof(fit, &fit->row[i]) > 0)
            row[problem.rows++] = (struct fit_row){.group = class_of(fit, &fit->row[i]),
                                                   .roof = roof(fit, &fit->row[i]),
                                                   .kernels = fit->row[i].kernels,
                                                   .seconds = fit->row[i].time_s};
    gsl_error_handler_t *handler = gsl_set_error_handler_off();
    struct solver solver = solver_new(&problem);
    int failed = solve(&solver, &problem) ? err_add(err, "the fit does not converge") : 0;
    if (!failed)
        conclude(fit, &solver);
    solver_release(&solver);
    gsl_set_error_handler(handler);
    return failed;
}

/* Of shapes that were not measured, where one network alone was: how far off the classes of each of
 * 8 networks (ResNet 20, 34, 50 and 101, VGG 11 and 16, AlexNet, MobileNet v2) are on the others,
 * root mean square of 56 logarithms. Source: this project, 2026-11-29, a core with AVX-512. */
static const double usual_other_networks = 0.55;

static bool same_network(const struct machine_trial *a, const struct machine_trial *b)
{
    return a->image == b->image && !strcmp(a->network, b->network);
}

/* How far the classes of @others are off on those shapes of the network of @left that none of
 * theirs is; of the logarithm.  NAN: it has none. */
static double left_out(const struct device_fit *others, const struct machine *machine,
                       const struct machine_trial *left)
{
    double fitted = 0, measured = 0;
    for (const struct machine_trial *t = machine->trial; t < machine->trial + machine->trials; t++)
        for (int32_t i = 0; i < t->steps && same_network(t, left); i++) {
            bool known = false;
            for (int32_t k = 0; k < others->rows && !known; k++)
                known = same_shape(&others->row[k], &t->step[i]);
            fitted += known ? 0 : device_fit_predict(others, &t->step[i]);
            measured += known ? 0 : t->step[i].time_s;
        }
    return measured > 0 ? log(fitted / measured) : NAN;
}

/* Each network by the classes of the others; the usual deviation counts as one more. */
static double leave_out(const struct machine *machine)
{
    struct machine others = *machine;
    AUTOFREE struct machine_trial *trial = base_alloc(machine->trials, sizeof(*trial));
    double squares = pow(usual_other_networks, 2);
    int32_t networks = 1;
    others.trial = trial;
    for (int32_t i = 0; i < machine->trials; i++) {
        AUTORELEASE(device_fit) struct device_fit fit = {0};
        AUTORELEASE(err) struct err ignored = {0};
        int32_t first = 0;
        while (!same_network(&machine->trial[first], &machine->trial[i]))
            first++;
        others.trials = 0;
        for (int32_t k = 0; k < machine->trials; k++)
            if (!same_network(&machine->trial[k], &machine->trial[i]))
                trial[others.trials++] = machine->trial[k];
        if (first < i || !others.trials || device_fit_make(&fit, &others, &ignored))
            continue;
        double error = left_out(&fit, machine, &machine->trial[i]);
        networks += !isnan(error);
        squares += isnan(error) ? 0 : error * error;
    }
    return sqrt(squares / networks);
}

/* --- the file --- */

static void write_numbers(struct text *out, const struct device_fit *fit,
                          const struct device_text *text)
{
    AUTOFREE char *of_steps = base_format("the fastest that any step computed, %s", text->source);
    AUTOFREE char *of_memory =
        fit->copied > fit->moved
            ? base_format("a copy of %s, read and written, %s",
                          unit_text(UNIT_BYTES, (double)fit->copied_bytes), text->source)
            : base_format("the fastest that any step moved its bytes, caches included, %s",
                          text->source);
    double lowest = INFINITY;
    text_add(out, "peak:\n");
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (fit->peak[d] > 0)
            lowest = fmin(lowest, fit->peak[d]);
    for (enum dtype d = 0; d < DTYPE_COUNT; d++) {
        double peak = fit->peak[d] > 0 || d != DTYPE_FP32 ? fit->peak[d] : lowest;
        if (!(peak > 0))
            continue;
        field_write_quantity(
            out, 2, dtype_names[d], fit->peak[d] > 0 ? PROVENANCE_MEASURED : PROVENANCE_ASSUMED, 0,
            fit->peak[d] > 0 ? of_steps : "no step computed in it: as the slowest that did",
            "%.5g GFLOP/s", 1e-9 * peak);
    }
    field_write_quantity(out, 0, "memory_bandwidth", PROVENANCE_MEASURED, 0, of_memory, "%.5g GB/s",
                         1e-9 * fit->bandwidth);
    field_write_quantity(out, 0, "memory", PROVENANCE_MEASURED, 0, text->memory_source, "%.4g GB",
                         1e-9 * text->memory);
    if (text->compute_capability)
        text_add(out, "compute_capability: %d\n", text->compute_capability);
}

static void write_together(struct text *out, const struct machine_together *together,
                           const struct device_text *text)
{
    AUTOFREE char *source = base_format("of ranks that train together, %s", text->source);
    if (together->jitter > 0)
        field_write_quantity(out, 0, "jitter", PROVENANCE_MEASURED, 0, source, "%.3g %%",
                             100 * together->jitter);
    if (together->launch > 0)
        field_write_quantity(out, 0, "collective_launch", PROVENANCE_MEASURED, 0, source, "%.4g us",
                             1e6 * together->launch);
}

static void write_fit(struct text *out, const struct device_fit *fit,
                      const struct device_text *text)
{
    AUTOFREE char *with =
        base_format("median of the classes below with arithmetic, %s", text->source);
    AUTOFREE char *without =
        base_format("median of the classes below without arithmetic, %s", text->source);
    AUTOFREE char *fitted =
        base_format("fitted with the classes below, standard deviation %.0f %%, %s",
                    100 * fit->overhead_sd, text->source);
    AUTOFREE char *between = base_format(
        "from the last step of an iteration to the first of the next, %s", text->source);
    field_write_quantity(out, 0, "math_efficiency", PROVENANCE_MEASURED, text->spread, with,
                         "%.4g %%", 100 * fmax(fit->math, 1e-3));
    field_write_quantity(out, 0, "memory_efficiency", PROVENANCE_MEASURED, text->spread, without,
                         "%.4g %%", 100 * fmax(fit->memory, 1e-3));
    field_write_quantity(out, 0, "kernel_overhead", PROVENANCE_MEASURED, 0, fitted, "%.4g us",
                         1e6 * fit->overhead);
    field_write_quantity(out, 0, "iteration_overhead", PROVENANCE_MEASURED, 0, between, "%.4g us",
                         1e6 * fit->between);
}

static void write_classes(struct text *out, const struct device_fit *fit,
                          const struct device_text *text)
{
    text_add(out,
             "\n# What steps of shapes that were not measured reach, and how far a network of them "
             "is off: each measured one\n# by the classes of the others.\nother_networks: %.3g "
             "%%\nclasses:\n",
             100 * fmin(fit->other_networks, 10));
    for (int32_t i = 0; i < fit->classes; i++) {
        const struct device_fit_class *class = &fit->class[i];
        text_add(out, "  - op: %s\n    layer: %s\n    dtype: %s\n", compute_op_names[class->op],
                 layer_op_names[class->layer], dtype_names[class->dtype]);
        field_write_quantity(out, 4, "efficiency", PROVENANCE_MEASURED, 0, text->source, "%.4g %%",
                             100 * class->efficiency);
        text_add(out, "    efficiency_sd: %.3g %%\n    residual: %.3g %%\n    rows: %d\n",
                 100 * fmin(class->efficiency_sd, 10), 100 * fmin(class->residual, 10),
                 class->rows);
    }
}

/* Append the device file. */
static void device_fit_write(struct text *out, const struct device_fit *fit,
                             const struct machine *machine, const struct device_text *text)
{
    text_add(out, CALIBRATE_FILE " device.\n");
    field_write_line(out, 0, "name", text->name);
    field_write_line(out, 0, "description", text->description);
    write_numbers(out, fit, text);
    write_fit(out, fit, text);
    write_together(out, &machine->together, text);
    text_add(out, "fusion: %s\n", fusion_names[machine->fusion]);
    write_classes(out, fit, text);
    text_add(out, "\n# Steps as they were measured, before the roofline: images, or the "
                  "optimizer's parameters.\nmeasured:\n");
    field_write_line(out, 2, "source", text->source);
    text_add(out, "  threads: %d\n  steps:\n", machine->threads);
    for (int32_t i = 0; i < fit->rows; i++) {
        const struct machine_step *row = &fit->row[i];
        text_add(out,
                 "    - {op: %s, shape: \"%s\", dtype: %s, amount: %lld, time: %.6g us, spread: "
                 "%.3g %%}\n",
                 compute_op_names[row->op], row->shape, dtype_names[row->dtype],
                 (long long)row->amount, 1e6 * row->time_s, 100 * row->spread);
    }
}

/* "AMD EPYC", the processor's own name; the caller frees it. */
static char *processor_name(void)
{
    char line[256], *name = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !name && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        name = base_copy(colon + 1 + strspn(colon + 1, " "));
    }
    if (file)
        fclose(file);
    return name ? name : base_copy("a processor");
}

OWN_RELEASE(device_text, it->name, it->description, it->source, it->memory_source)

/* The output of nvidia-smi for the first GPU; "" if it fails, without a message. */
static struct text ask_driver(struct err *err)
{
    AUTORELEASE(launch) struct launch launch = {0};
    texts_add(&launch.words, "nvidia-smi");
    texts_add(&launch.words, "--query-gpu=name,memory.total,compute_cap");
    texts_add(&launch.words, "--format=csv,noheader,nounits");
    texts_add(&launch.words, "--id=0");
    bool good = !launch_keep(&launch, true, err) && !launch_run(&launch, err);
    return good ? launch_read(launch.output) : (struct text){0};
}

static int describe_gpu(struct device_text *words, struct err *err)
{
    char name[128] = "";
    double mebibytes = 0;
    int major = 0, minor = 0;
    AUTORELEASE(text) struct text told = ask_driver(err);
    int found =
        told.data ? sscanf(told.data, "%127[^,], %lf, %d.%d", name, &mebibytes, &major, &minor) : 0;
    if (err->count)
        return -1;
    if (found != 4 || !(mebibytes > 0))
        return err_add_code(
            err, 69,
            "nvidia-smi does not name the GPU; it comes with the driver, and must be in $PATH");
    words->description = base_format("%s", name);
    words->memory = mebibytes * 1048576;
    words->memory_source = base_copy("nvidia-smi, memory.total");
    words->compute_capability = 10 * major + minor;
    return 0;
}

int calibrate_check_gpu(const struct calibrate_request *request, struct err *err)
{
    AUTORELEASE(device_text) struct device_text words = {0};
    return request->machine.compute.device == DEVICE_CUDA ? describe_gpu(&words, err) : 0;
}

static void describe_processor(struct device_text *words, const struct machine *machine,
                               const struct calibrate_request *request)
{
    AUTOFREE char *processor = processor_name();
    int64_t room = cores_available() / machine->threads;
    int64_t ranks =
        request->machine.compute.started > room ? request->machine.compute.started : room;
    words->description = base_format("%d thread%s of %s", machine->threads,
                                     machine->threads == 1 ? "" : "s", processor);
    words->memory =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / fmax(1, (double)ranks);
    words->memory_source =
        base_format("what the kernel has of physical memory, shared by %lld ranks of %d threads",
                    (long long)(ranks > 1 ? ranks : 1), machine->threads);
}

static int find_words(struct device_text *words, const struct machine *machine,
                      const struct calibrate_request *request, struct err *err)
{
    words->name = request->directory ? request_yaml_name("--out", request->directory, err)
                                     : base_copy("here");
    if (!words->name)
        return -1;
    AUTOFREE char *command = calibrate_command(request);
    AUTOFREE char *what = base_format("%s, quickest of %d rounds", command, machine->rounds);
    words->source = calibrate_source(what);
    if (request->machine.compute.device == DEVICE_CUDA)
        return describe_gpu(words, err);
    describe_processor(words, machine, request);
    return 0;
}

/* --- the answer --- */

static void print_copies(struct text *out, const struct machine *machine)
{
    for (int32_t i = 0; i < machine->copies; i++)
        text_add(out, "%s%s%s %.3g GB/s", i ? ", of " : "\na copy of ",
                 unit_text(UNIT_BYTES, (double)machine->copy[i].bytes),
                 i ? "" : " reads and writes", 1e-9 * device_copy_speed(&machine->copy[i]));
}

struct shown_device {
    const char *device, *written;
    const struct machine *machine;
    const struct device_fit *fit;
    double spread;
};

COLUMNS(trial_columns, NULL, struct machine_trial)
{
    COLUMN_ROWS(&machine_trial_columns);
    COLUMN("by_classes_s", by_classes, .help = "time of an iteration by the fit alone");
}

COLUMNS(round_columns, NULL, struct machine)
{
    COLUMN("threads", threads, .help = "threads of a rank");
    COLUMN("rounds", rounds, .help = "rounds of all networks and batches");
    COLUMN("apart", apart, .null = true,
           .help = "how far the two fastest rounds are apart; null: one round");
    COLUMN("steal", share.steal, .help = "part of the processors that the host had meanwhile");
    COLUMN("foreign", share.foreign, .help = "part that other processes had meanwhile");
    COLUMN_ITEMS("copies", copy, copies, .table = &machine_copy_columns);
    COLUMN_ITEMS("trials", trial, trials, .table = &trial_columns);
}

COLUMNS(class_columns, NULL, struct device_fit_class)
{
    COLUMN("op", op, .words = compute_op_names, .help = "kind of compute");
    COLUMN("layer", layer, .words = layer_op_names, .help = "kind of layer");
    COLUMN("dtype", dtype, .words = dtype_names, .help = "type of the arithmetic");
    COLUMN("efficiency", efficiency, .help = "part of the roofline that such steps reach");
    COLUMN("efficiency_sd", efficiency_sd, .null = true, .help = "relative standard deviation");
    COLUMN("residual", residual, .null = true, .help = "of a step's time about the fit");
    COLUMN("shapes", rows, .help = "shapes that were measured");
}

COLUMNS(kernel_columns, NULL, struct machine_step)
{
    COLUMN("op", op, .words = compute_op_names, .help = "kind of compute");
    COLUMN("shape", shape, .help = "of the layer");
    COLUMN("dtype", dtype, .words = dtype_names, .help = "type of the arithmetic");
    COLUMN("amount", amount, .help = "images, or parameters of the optimizer");
    COLUMN("kernels", kernels, .help = "that the step starts");
    COLUMN("time_s", time_s, .help = "in the fastest round");
    COLUMN("spread", spread, .help = "between the quartiles of its times");
    COLUMN("flops_per_s", flops_per_s, .zero = true, .help = "that it computes; null: nothing");
    COLUMN("bytes_per_s", bytes_per_s, .help = "that it moves");
    COLUMN("roofline_share", roofline,
           .help = "part of the fastest arithmetic or traffic of all steps");
}

COLUMNS(fit_columns, NULL, struct device_fit)
{
    COLUMN("kernel_overhead_s", overhead, .help = "time of a kernel beside its work");
    COLUMN("kernel_overhead_sd", overhead_sd, .null = true, .help = "of its logarithm");
    COLUMN("iteration_overhead_s", between, .help = "from an iteration to the next");
    COLUMN("memory_bandwidth", bandwidth, .help = "bytes per second");
    COLUMN("other_networks", other_networks,
           .help = "standard deviation of the logarithm of times of shapes that were not measured");
    COLUMN("steps", rows, .help = "steps of different shapes that were measured");
    COLUMN_ITEMS("classes", class, classes, .table = &class_columns);
    COLUMN_ITEMS("shapes", row, rows, .table = &kernel_columns);
}

SHARED_COLUMNS(machine_device_columns, "machine-device/1", struct shown_device)
{
    COLUMN("device", device, .help = "cpu, cpu-naive or cuda");
    COLUMN_MEMBERS(machine, &round_columns);
    COLUMN("spread", spread, .help = "relative standard deviation of times between rounds");
    COLUMN_MEMBERS(fit, &fit_columns);
    COLUMN("written", written, .null = true, .help = "the device file; null: none");
}

static void print_rounds(struct text *out, const struct machine *machine)
{
    if (machine->rounds > 1)
        text_add(out, "quickest of %d rounds, the next %.1f %% apart at most", machine->rounds,
                 100 * machine->apart);
    else
        text_add(out, "one round: no spread known");
    text_add(out, "; meanwhile other processes had %.0f %% of the processors, the host %.0f %%\n",
             100 * machine->share.foreign, 100 * machine->share.steal);
}

static void print_people(struct text *out, const struct device_fit *fit,
                         const struct machine *machine, bool kernels, const struct json *all)
{
    if (kernels) {
        columns_print(out,
                      "op: step, shape, dtype: type, amount, time_s, flops_per_s, bytes_per_s, "
                      "roofline_share: of the roofline",
                      json_get(all, "shapes"));
        text_add(out, "\n");
        print_rounds(out, machine);
        return;
    }
    columns_print(out,
                  "op: steps, layer, dtype: type, shapes, efficiency, efficiency_sd: +-, residual",
                  json_get(all, "classes"));
    text_add(out,
             "\na kernel costs %.3g us +- %.0f %%, and an iteration %.3g us; the fastest step "
             "moved %.3g GB/s",
             1e6 * fit->overhead, 100 * fit->overhead_sd, 1e6 * fit->between, 1e-9 * fit->moved);
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (fit->peak[d] > 0)
            text_add(out, ", computed %.4g GFLOP/s in %s", 1e-9 * fit->peak[d], dtype_names[d]);
    print_copies(out, machine);
    text_add(out, "\n\n");
    columns_print(out,
                  "network, image: size, batch, time_s: iteration, by_classes_s: by the classes",
                  json_get(all, "trials"));
    text_add(out, "\nof shapes that were not measured, a network is off by %.0f %%\n",
             100 * fit->other_networks);
    print_rounds(out, machine);
}

/* --- the whole --- */

static int write_device(const struct device_fit *fit, const struct machine *machine,
                        const struct calibrate_request *request, double spread, struct err *err)
{
    AUTORELEASE(device_text) struct device_text words = {.spread = spread};
    AUTORELEASE(text) struct text text = {0};
    if (find_words(&words, machine, request, err))
        return -1;
    device_fit_write(&text, fit, machine, &words);
    return request->directory ? file_write(request->directory, &text, device_check_file, err) : 0;
}

int calibrate_device_of(const struct machine *machine, const struct calibrate_request *request,
                        double spread, struct text *out, struct err *err)
{
    AUTORELEASE(device_fit) struct device_fit fit = {0};
    int failed = device_fit_make(&fit, machine, err);
    fit.other_networks = failed ? 0 : leave_out(machine);
    failed = failed || write_device(&fit, machine, request, spread, err);
    for (int32_t i = 0; i < machine->trials && !failed; i++)
        machine->trial[i].by_classes = device_fit_trial(&fit, &machine->trial[i]);
    struct shown_device shown = {device_words[request->machine.compute.device], request->directory,
                                 machine, &fit, spread};
    AUTORELEASE(json)
    struct json *json = failed ? NULL : answer_json(&machine_device_columns, &shown);
    if (!failed && request->head.json) {
        json_print(out, json);
    } else if (!failed) {
        print_people(out, &fit, machine, request->kernels, json);
        if (request->directory)
            text_add(out, "%d measured steps written to %s\n", fit.rows, request->directory);
    }
    return failed ? -1 : 0;
}

int calibrate_device(const struct calibrate_request *request, struct text *out, struct err *err)
{
    AUTORELEASE(machine) struct machine machine = {0};
    AUTOFREE char *name =
        request->directory ? request_yaml_name("--out", request->directory, err) : NULL;
    int failed =
        request->directory && (!name || calibrate_check_file(request->directory, request, err));
    failed = failed || calibrate_check_gpu(request, err);
    struct budget budget = budget_open(request->budget, request->strict);
    budget_part(&budget, "steps of training", 1);
    failed = failed || machine_measure(&machine, &request->machine, request->list, &budget, err);
    budget_close(&budget);
    failed = failed || calibrate_device_of(&machine, request, machine_spread(&machine), out, err);
    return failed ? -1 : 0;
}

char *calibrate_source(const char *what)
{
    struct utsname host;
    char date[16] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (uname(&host))
        snprintf(host.nodename, sizeof(host.nodename), "this machine");
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d", &utc);
    char *source =
        base_format("measured by foretrain calibrate on %s, %s: %s", host.nodename, date, what);
    for (char *c = source; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '\'';
    return source;
}

char *calibrate_command(const struct calibrate_request *request)
{
    struct text line = {0};
    text_add(&line,
             "foretrain calibrate %s --device %s --networks %s --batch %s --threads %d --precision "
             "%s --repeats %d",
             request->cluster ? "cluster" : "device", device_words[request->machine.compute.device],
             request->machine.networks, request->machine.batches, request->machine.compute.threads,
             dtype_names[request->machine.dtype], request->machine.repeats);
    if (request->machine.compute.started)
        text_add(&line, " --ranks %d", request->machine.compute.started);
    return line.data;
}

int calibrate_check_file(const char *path, const struct calibrate_request *request, struct err *err)
{
    return (!request->overwrite && file_check_own(path, CALIBRATE_FILE, err)) ||
           file_check_place(path, err);
}
