#include "app/show/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convergence/convergence.h"

/* A line of the first table. */
struct line {
    const char *recipe;
    double target;
    int64_t batch;
    struct convergence_need need;
    struct interval likely; /* of the epochs */
    double formula;         /* of reference points; NAN: for other recipes */
    char from[32];          /* "17 runs", "published", "between points", "beyond points" */
    const char *source;     /* of the point; NULL: not a point */
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
    line.likely.low = line.need.epochs - ninety * line.need.spread;
    line.likely.high = line.need.epochs + ninety * line.need.spread;
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

/* All that is answered. */
struct answer {
    struct line *line; /* owned */
    int32_t lines;
    struct convergence_fit fit;
    double extra; /* evaluations */
    const struct convergence_accuracy *accuracy;
    int32_t accuracies;
};

static void add_line(struct answer *answer, struct line line)
{
    answer->line = base_room(answer->line, answer->lines, sizeof(line));
    answer->line[answer->lines++] = line;
}

static struct answer make_answer(const struct show_convergence *what)
{
    struct convergence points = {.count = 0};
    struct answer answer = {
        .fit = fit_of(what), .extra = CONVERGENCE_EXTRA, .accuracy = convergence_accuracies};
    while (convergence_accuracies[answer.accuracies].work)
        answer.accuracies++;
    if (what->points)
        read_points(what->points, &points);
    for (int32_t i = 0; i < points.count; i++) {
        struct line line = describe(measured, &points, points.point[i].batch);
        snprintf(line.from, sizeof(line.from), "measured");
        add_line(&answer, line);
    }
    for (int32_t r = 0; convergence_recipes[r] && !what->accuracies && !what->points; r++) {
        if (what->recipe >= 0 && what->recipe != r)
            continue;
        struct convergence curve = convergence_of(convergence_recipes[r]);
        int64_t batch = what->batch ? what->batch : next_batch(&curve, 0);
        for (; batch; batch = what->batch ? 0 : next_batch(&curve, batch))
            add_line(&answer, describe(convergence_recipes[r], &curve, batch));
    }
    return answer;
}

/* A number, or @missing for 0; the caller frees it. */
static char *known(double value, const char *missing)
{
    return value > 0 ? base_format("%.10g", value) : base_copy(missing);
}

/* ---- text ---- */

static void print_line(struct text *out, const struct line *line)
{
    AUTOFREE char *formula =
        isnan(line->formula) ? base_copy("-") : base_format("%.1f", line->formula);
    AUTOFREE char *target =
        line->target > 0 ? base_format("%.4g %%", 100 * line->target) : base_copy("-");
    text_add(out, "%-11s %8s %9lld %8.1f %8.1f %8.1f %9s  %s\n", line->recipe, target,
             (long long)line->batch, line->need.epochs, line->likely.low, line->likely.high,
             formula, line->from);
}

static void print_lines(const struct show_convergence *what, const struct answer *answer,
                        struct text *out)
{
    struct convergence_fit fit = answer->fit;
    text_add(out, "%-11s %8s %9s %8s %8s %8s %9s  %s\n", "recipe", "top-1", "batch", "epochs",
             "low", "high", "formula", "from");
    for (int32_t i = 0; i < answer->lines; i++)
        print_line(out, &answer->line[i]);
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

/* ---- for programs ---- */

#define DESCRIBED struct line
static const struct answer_column line_rows[] = {
    COLUMN("recipe", recipe, .help = "name of the published runs, or measured"),
    COLUMN("target", target, .zero = true,
           .help = "top-1 accuracy at which they ended; null: of --points"),
    COLUMN("batch", batch, .help = "images per step of all devices"),
    COLUMN("epochs", need.epochs, LIKELY(likely), .help = "mean number that a run needs"),
    COLUMN("epochs_spread", need.spread, .help = "standard deviation, of runs and of the curve"),
    COLUMN("formula_epochs", formula, .null = true,
           .help = "the epochs by the formula; null: not a reference recipe"),
    COLUMN("from", from, .help = "runs behind a point, or where the batch lies between points"),
    COLUMN("source", source, .null = true, .help = "of a point; null: not a point"),
};
static const struct answer_columns line_columns = COLUMNS(NULL, line_rows);
#undef DESCRIBED

#define DESCRIBED struct convergence_accuracy
static const struct answer_column accuracy_rows[] = {
    COLUMN("work", work, .help = "who reached it"),
    COLUMN("batch", batch, .zero = true, .help = "images per step; null: not known"),
    COLUMN("batch_end", batch_end, .zero = true,
           .help = "images per step at the end, where the batch grew"),
    COLUMN("epochs", epochs, .zero = true, .help = "of the run; null: not known"),
    COLUMN("accuracy", accuracy, .help = "top-1, a fraction"),
    COLUMN("note", note, .null = true, .help = "what was special"),
    COLUMN("source", source, .help = "publication"),
};
static const struct answer_columns accuracy_columns = COLUMNS(NULL, accuracy_rows);
#undef DESCRIBED

#define DESCRIBED struct answer
static const struct answer_column answer_rows[] = {
    COLUMN_ITEMS("epochs", line, lines, .table = &line_columns),
    COLUMN("formula.epochs", fit.epochs, .help = "E0 of E0 (1 + batch / Bc)"),
    COLUMN("formula.batch", fit.batch, .help = "Bc of E0 (1 + batch / Bc)"),
    COLUMN("formula.median", fit.median,
           .help = "median of the errors at reference points left out of the fit"),
    COLUMN("formula.largest", fit.largest, .help = "largest of these errors"),
    COLUMN("formula.rms", fit.rms, .help = "root mean square of these errors"),
    COLUMN("further_evaluations", extra,
           .help = "evaluations of a run beyond that at the end of its schedule, mean"),
    COLUMN_ITEMS("accuracies", accuracy, accuracies, .table = &accuracy_columns),
};
const struct answer_columns convergence_columns = COLUMNS("convergence/2", answer_rows);
#undef DESCRIBED

struct json *show_convergence_rows(const struct show_convergence *what)
{
    struct answer answer = make_answer(what);
    struct json *rows = what->accuracies
                            ? answer_list(&accuracy_columns, answer.accuracy, answer.accuracies)
                            : answer_list(&line_columns, answer.line, answer.lines);
    free(answer.line);
    return rows;
}

void show_convergence(const struct show_convergence *what, struct text *out)
{
    bool all = what->recipe < 0 && !what->batch && !what->points;
    struct answer answer = make_answer(what);
    if (what->json)
        answer_print(out, &convergence_columns, &answer);
    if (!what->json && !what->accuracies)
        print_lines(what, &answer, out);
    if (!what->json && !what->accuracies && all)
        text_add(out, "\n");
    if (!what->json && (what->accuracies || all))
        print_accuracies(out);
    free(answer.line);
}
