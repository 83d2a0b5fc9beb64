#include "app/calibrate/calibrate_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/study/fit.h"
#include "core/base/base.h"
#include "core/config/field_write.h"

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

/* Steps of several trials share one row; more work never takes less time. */
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
    for (int32_t i = 0; i < all; i++) {
        struct machine_step *last = fit->rows ? &row[fit->rows - 1] : NULL;
        if (last && same_shape(last, &row[i]) && last->amount == row[i].amount) {
            int32_t both = last->alike + row[i].alike;
            last->time_s = (last->alike * last->time_s + row[i].alike * row[i].time_s) / both;
            last->spread = fmax(last->spread, row[i].spread);
            last->alike = both;
        } else {
            row[fit->rows++] = row[i];
        }
    }
    for (int32_t i = 1; i < fit->rows; i++)
        if (same_shape(&row[i - 1], &row[i]))
            row[i].time_s = fmax(row[i].time_s, row[i - 1].time_s);
}

/* A copy reads its bytes and writes them. */
double device_copy_speed(const struct machine_copy *copy)
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
        if (known < 0) {
            known = fit->classes++;
            fit->class[known] = (struct device_fit_class){
                .op = fit->row[i].op, .layer = fit->row[i].layer, .dtype = fit->row[i].dtype};
        }
        fit->class[known].rows++;
    }
}

double device_fit_predict(const struct device_fit *fit, const struct machine_step *row)
{
    int32_t class = class_of(fit, row);
    double efficiency =
        class < 0 ? row->flops > 0 ? fit->math : fit->memory : fit->class[class].efficiency;
    return roof(fit, row) / efficiency + row->kernels * fit->overhead;
}

double device_fit_trial(const struct device_fit *fit, const struct machine_trial *trial)
{
    double seconds = 0;
    for (int32_t i = 0; i < trial->steps; i++)
        seconds += trial->step[i].alike * device_fit_predict(fit, &trial->step[i]);
    return seconds;
}

static bool has_arithmetic(const struct device_fit_class *class)
{
    return class->layer == LAYER_CONVOLUTION || class->layer == LAYER_LINEAR;
}

/* The median of the classes with arithmetic, or of those without; of all where there are none. */
static double typical(const struct device_fit *fit, bool arithmetic)
{
    AUTOFREE double *value = base_alloc(fit->classes, sizeof(*value));
    int32_t count = 0;
    for (int32_t i = 0; i < fit->classes; i++)
        if (has_arithmetic(&fit->class[i]) == arithmetic)
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

static void conclude(struct device_fit *fit, const struct fit *solved)
{
    int32_t n = solved->parameters;
    fit->overhead = exp(solved->parameter[fit->classes]);
    fit->overhead_sd = sqrt(fmax(solved->covariance[fit->classes * n + fit->classes], 0));
    for (int32_t i = 0; i < fit->classes; i++) {
        struct device_fit_class *class = &fit->class[i];
        class->efficiency = fmin(fmax(exp(solved->parameter[i]), lowest_efficiency), 1);
        class->efficiency_sd = sqrt(fmax(solved->covariance[i * n + i], 0));
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

int device_fit_make(struct device_fit *fit, const struct machine *machine, struct err *err)
{
    collect(fit, machine);
    find_peaks(fit, machine);
    find_classes(fit);
    fit->between =
        machine->together.between > 0 ? machine->together.between : median_between(machine);
    AUTOFREE struct fit_row *row = base_alloc(fit->rows, sizeof(*row));
    for (int32_t i = 0; i < fit->rows; i++)
        row[i] = (struct fit_row){.group = class_of(fit, &fit->row[i]),
                                  .roof = roof(fit, &fit->row[i]),
                                  .kernels = fit->row[i].kernels,
                                  .slowest = 1,
                                  .seconds = fit->row[i].time_s};
    struct fit_problem problem = {row, fit->rows, fit->classes, 1};
    AUTORELEASE(fit) struct fit solved = {0};
    if (fit_solve(&solved, &problem, err))
        return -1;
    conclude(fit, &solved);
    return 0;
}

/* --- the file --- */

/* The caller frees it. */
static char *bandwidth_source(const struct device_fit *fit, const char *measured)
{
    if (!(fit->copied > fit->moved))
        return base_format("the fastest that any step moved its bytes, caches included, %s",
                           measured);
    return base_format("a copy of %s, read and written, %s",
                       unit_text(UNIT_BYTES, (double)fit->copied_bytes), measured);
}

static void write_numbers(struct text *out, const struct device_fit *fit,
                          const struct device_text *text)
{
    AUTOFREE char *of_steps = base_format("the fastest that any step computed, %s", text->source);
    AUTOFREE char *of_memory = bandwidth_source(fit, text->source);
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
    text_add(out, "\n# What steps of shapes that were not measured reach.\nclasses:\n");
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

void device_fit_write(struct text *out, const struct device_fit *fit, const struct machine *machine,
                      const struct device_text *text)
{
    text_add(out, CALIBRATE_FILE " device.\n");
    field_write_line(out, 0, "name", text->name);
    field_write_line(out, 0, "description", text->description);
    write_numbers(out, fit, text);
    write_fit(out, fit, text);
    write_together(out, &machine->together, text);
    text_add(out, "fusion: %s\n", machine->fusion);
    write_classes(out, fit, text);
    text_add(out,
             "\n# Steps as they were measured, before the roofline: images, or the optimizer's "
             "parameters.\nmeasured:\n");
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

void device_fit_release(struct device_fit *fit)
{
    free(fit->row);
    free(fit->class);
    *fit = (struct device_fit){0};
}
