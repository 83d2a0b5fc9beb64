#include "app/show/show_convergence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/convergence/convergence.h"

/* A line of the first table. */
struct line {
    const char *recipe;
    double target;
    int64_t batch;
    struct convergence_need need;
    double low, high;
    double formula;     /* of reference points; NAN: for other recipes */
    char from[32];      /* "17 runs", "published", "between points", "beyond points" */
    const char *source; /* of the point; NULL: not a point */
};

/* ---- measured points ---- */

static const char measured[] = "measured";

/* One run of "32:3.5,64:4"; moves @text behind it.  Returns whether it is one. */
static bool read_run(const char **text, int64_t *batch, double *epochs)
{
    char *end;
    *batch = strtoll(*text, &end, 10);
    if (end == *text || *end != ':' || *batch < 1)
        return false;
    *text = end + 1;
    *epochs = strtod(*text, &end);
    if (end == *text || (*end && *end != ',') || !(*epochs > 0 && *epochs < 1e6))
        return false;
    *text = end + (*end == ',' && end[1]);
    return true;
}

/* The runs of each batch as a point, smaller batches first. */
static bool read_points(const char *text, struct convergence *curve)
{
    double sum[CONVERGENCE_POINTS] = {0}, squares[CONVERGENCE_POINTS] = {0}, epochs;
    int32_t runs[CONVERGENCE_POINTS] = {0}, i;
    int64_t batch;
    while (*text) {
        if (!read_run(&text, &batch, &epochs))
            return false;
        for (i = curve->count; i > 0 && curve->point[i - 1].batch > batch;)
            i--;
        if (i == 0 || curve->point[i - 1].batch < batch) {
            if (curve->count == CONVERGENCE_POINTS)
                return false;
            for (int32_t k = curve->count++; k > i; k--) {
                curve->point[k] = curve->point[k - 1];
                sum[k] = sum[k - 1];
                squares[k] = squares[k - 1];
                runs[k] = runs[k - 1];
            }
            curve->point[i] = (struct convergence_point){.batch = batch};
            sum[i] = squares[i] = runs[i] = 0;
            i++;
        }
        sum[i - 1] += epochs;
        squares[i - 1] += epochs * epochs;
        runs[i - 1]++;
    }
    for (i = 0; i < curve->count; i++) {
        double mean = curve->point[i].epochs = sum[i] / runs[i];
        curve->point[i].spread =
            runs[i] > 1 ? sqrt(fmax(0, squares[i] - runs[i] * mean * mean) / (runs[i] - 1)) : 0;
    }
    if (curve->count < 3)
        return false;
    curve->fit = convergence_fit_to(curve->point, curve->count);
    return true;
}

int show_convergence_check(const struct show_convergence *what, struct err *err)
{
    struct convergence curve = {.count = 0};
    bool chosen = what->recipe >= 0 || what->batch;
    if (what->accuracies && (chosen || what->points))
        return err_add_code(err, 64,
                            "--accuracies: has neither recipes nor batches to choose from");
    if (what->points && chosen)
        return err_add_code(err, 64, "--points takes the place of recipes");
    if (what->points && !read_points(what->points, &curve))
        return err_add_code(err, 64, "--points '%s': must be BATCH:EPOCHS,... with 3 to %d batches",
                            what->points, CONVERGENCE_POINTS);
    return 0;
}

static struct convergence_fit fit_of(const struct show_convergence *what)
{
    struct convergence curve = {.count = 0};
    if (!what->points)
        return convergence_fit();
    read_points(what->points, &curve);
    return curve.fit;
}

/* ---- lines ---- */

static const struct convergence_row *find_point(const char *recipe, int64_t batch)
{
    const struct convergence_row *row = convergence_rows;
    while (row->recipe && (strcmp(row->recipe, recipe) != 0 || row->batch != batch))
        row++;
    return row->recipe ? row : NULL;
}

static struct line describe(const char *recipe, const struct convergence *curve, int64_t batch)
{
    const double ninety = 1.645; /* standard deviations of a normal distribution */
    const struct convergence_row *point = find_point(recipe, batch);
    struct line line = {.recipe = recipe,
                        .target = curve->target,
                        .batch = batch,
                        .need = convergence_epochs(curve, batch),
                        .formula = strncmp(recipe, "rcp-", 4) && recipe != measured
                                       ? NAN
                                       : curve->fit.epochs * (1 + (double)batch / curve->fit.batch),
                        .source = point ? point->source : NULL};
    line.low = line.need.epochs - ninety * line.need.spread;
    line.high = line.need.epochs + ninety * line.need.spread;
    if (point && point->runs)
        snprintf(line.from, sizeof(line.from), "%lld runs", (long long)point->runs);
    else
        snprintf(line.from, sizeof(line.from), "%s",
                 point                                  ? "published"
                 : convergence_is_outside(curve, batch) ? "beyond points"
                                                        : "between points");
    return line;
}

/* The smallest batch above @batch that is a point, or a power of two behind the first; 0: none. */
static int64_t next_batch(const struct convergence *curve, int64_t batch)
{
    int64_t power = 1;
    int32_t i = 0;
    while (i < curve->count && curve->point[i].batch <= batch)
        i++;
    while (power <= batch)
        power *= 2;
    if (i == curve->count)
        return 0;
    return batch && power < curve->point[i].batch ? power : curve->point[i].batch;
}

/* Call @add for each line that is asked for. */
static void each_line(const struct show_convergence *what,
                      void (*add)(void *context, const struct line *line), void *context)
{
    struct convergence points = {.count = 0};
    if (what->points)
        read_points(what->points, &points);
    for (int32_t i = 0; i < points.count; i++) {
        struct line line = describe(measured, &points, points.point[i].batch);
        snprintf(line.from, sizeof(line.from), "measured");
        add(context, &line);
    }
    for (int32_t r = 0; convergence_recipes[r] && !what->accuracies && !what->points; r++) {
        if (what->recipe >= 0 && what->recipe != r)
            continue;
        struct convergence curve = convergence_of(convergence_recipes[r]);
        int64_t batch = what->batch ? what->batch : next_batch(&curve, 0);
        for (; batch; batch = what->batch ? 0 : next_batch(&curve, batch)) {
            struct line line = describe(convergence_recipes[r], &curve, batch);
            add(context, &line);
        }
    }
}

/* A number, or @missing for 0; the caller frees it. */
static char *known(double value, const char *missing)
{
    return value > 0 ? base_format("%.10g", value) : base_copy(missing);
}

/* ---- text ---- */

static void print_line(void *context, const struct line *line)
{
    AUTOFREE char *formula =
        isnan(line->formula) ? base_copy("-") : base_format("%.1f", line->formula);
    AUTOFREE char *target =
        line->target > 0 ? base_format("%.4g %%", 100 * line->target) : base_copy("-");
    text_add(context, "%-11s %8s %9lld %8.1f %8.1f %8.1f %9s  %s\n", line->recipe, target,
             (long long)line->batch, line->need.epochs, line->low, line->high, formula, line->from);
}

static void print_lines(const struct show_convergence *what, struct text *out)
{
    struct convergence_fit fit = fit_of(what);
    text_add(out, "%-11s %8s %9s %8s %8s %8s %9s  %s\n", "recipe", "top-1", "batch", "epochs",
             "low", "high", "formula", "from");
    each_line(what, print_line, out);
    if (what->points) {
        text_add(
            out,
            "\nformula: %.3g (1 + batch / %.3g), fitted to the points; one that is left out is "
            "missed by %.1f %% in the\nmedian, %.1f %% at most, %.1f %% root mean square.\n",
            fit.epochs, fit.batch, 100 * fit.median, 100 * fit.largest, 100 * fit.rms);
        return;
    }
    text_add(
        out,
        "\nepochs: mean of runs of resnet50 on imagenet; 90 %% lie between low and high.  A run "
        "ends at an\nevaluation: predictions add %g evaluations in the mean.\nformula: %.1f (1 "
        "+ batch / %.0f), fitted to the points of rcp-nvidia and rcp-google; a point that\nis "
        "left out is missed by %.1f %% in the median, %.1f %% at most, %.1f %% root mean "
        "square.\n",
        CONVERGENCE_EXTRA, fit.epochs, fit.batch, 100 * fit.median, 100 * fit.largest,
        100 * fit.rms);
}

static void print_accuracies(struct text *out)
{
    text_add(out, "%-33s %14s %6s %8s  %s\n", "work", "batch", "epochs", "top-1", "note; source");
    for (const struct convergence_accuracy *row = convergence_accuracies; row->work; row++) {
        AUTOFREE char *first = known((double)row->batch, "?"),
                      *last = known((double)row->batch_end, "");
        AUTOFREE char *batch = base_format("%s%s%s", first, *last ? " -> " : "", last);
        AUTOFREE char *epochs = known(row->epochs, "?");
        text_add(out, "%-33s %14s %6s %6.2f %%  %s%s%s\n", row->work, batch, epochs,
                 100 * row->accuracy, row->note ? row->note : "", row->note ? "; " : "",
                 row->source);
    }
}

/* ---- JSON ---- */

static void put_known(struct json *json, const char *key, int64_t value)
{
    json_put(json, key, value > 0 ? json_new_integer(value) : json_new_text(NULL));
}

static void put_line(void *context, const struct line *line)
{
    struct json *json = json_append_object(context);
    json_put_text(json, "recipe", line->recipe);
    json_put_real(json, "target", line->target > 0 ? line->target : NAN);
    json_put_integer(json, "batch", line->batch);
    json_put_real(json, "epochs", line->need.epochs);
    json_put_real(json, "spread", line->need.spread);
    json_put_real(json, "low", line->low);
    json_put_real(json, "high", line->high);
    json_put_real(json, "formula", line->formula);
    json_put_text(json, "from", line->from);
    json_put_text(json, "source", line->source);
}

static struct json *accuracies_json(void)
{
    struct json *list = json_new_array();
    for (const struct convergence_accuracy *row = convergence_accuracies; row->work; row++) {
        struct json *json = json_append_object(list);
        json_put_text(json, "work", row->work);
        put_known(json, "batch", row->batch);
        put_known(json, "batch_end", row->batch_end);
        json_put_real(json, "epochs", row->epochs > 0 ? row->epochs : NAN);
        json_put_real(json, "accuracy", row->accuracy);
        json_put_text(json, "note", row->note);
        json_put_text(json, "source", row->source);
    }
    return list;
}

static void print_json(const struct show_convergence *what, struct text *out)
{
    struct convergence_fit fit = fit_of(what);
    struct json *json = json_new_object(), *lines = json_new_array();
    each_line(what, put_line, lines);
    json_put_text(json, "schema", "foretrain/convergence/1");
    json_put(json, "epochs", lines);
    struct json *formula = json_put_object(json, "formula");
    json_put_real(formula, "epochs", fit.epochs);
    json_put_real(formula, "batch", fit.batch);
    json_put_real(formula, "median", fit.median);
    json_put_real(formula, "largest", fit.largest);
    json_put_real(formula, "rms", fit.rms);
    json_put_real(json, "further_evaluations", CONVERGENCE_EXTRA);
    json_put(json, "accuracies", accuracies_json());
    json_print(out, json);
    json_free(json);
}

struct json *show_convergence_rows(const struct show_convergence *what)
{
    if (what->accuracies)
        return accuracies_json();
    struct json *lines = json_new_array();
    each_line(what, put_line, lines);
    return lines;
}

void show_convergence(const struct show_convergence *what, struct text *out)
{
    bool all = what->recipe < 0 && !what->batch && !what->points;
    if (what->json) {
        print_json(what, out);
        return;
    }
    if (!what->accuracies)
        print_lines(what, out);
    if (!what->accuracies && all)
        text_add(out, "\n");
    if (what->accuracies || all)
        print_accuracies(out);
}
