#include "app/answer/predict_page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DRAWS = 400 /* for a point: 5 % of them are 20 */ };

static void put_range(struct json *row, const char *key, double value, struct interval likely)
{
    AUTOFREE char *low = base_format("%s_low", key), *high = base_format("%s_high", key);
    json_put_real(row, key, value);
    json_put_real(row, low, likely.low);
    json_put_real(row, high, likely.high);
}

static const struct scaling *scaling_of(const struct result *result)
{
    return result->strong.batch ? &result->strong : &result->weak;
}

static struct json *row_of(const struct result *result, bool torus, bool own)
{
    const struct breakdown *step = &result->step;
    const struct scaling *scaling = scaling_of(result);
    struct json *row = json_new_object();
    json_put_integer(row, "nodes", result->nodes);
    json_put_integer(row, "devices", result->devices);
    json_put_text(row, "own", own ? "this job" : NULL);
    json_put_text(row, "backend", own ? result->backend : backend_words[BACKEND_ANALYTIC]);
    put_range(row, "step_s", step->time, result->step_likely);
    json_put_real(row, "compute_s", step->compute);
    json_put_real(row, "slowed_s", step->slowed > 0 ? step->slowed : NAN);
    json_put_real(row, "slower_ranks_s", step->slower);
    json_put_real(row, "exposed_row_s", torus ? step->exposed_row : NAN);
    json_put_real(row, "exposed_column_s", torus ? step->exposed_column : NAN);
    json_put_real(row, "exposed_world_s", torus ? NAN : step->exposed_communication);
    json_put_real(row, "input_wait_s", step->input_wait);
    json_put_real(row, "other_s", step->other);
    put_range(row, result_speed(result), result->images_per_s, result->images_likely);
    put_range(row, "scaling_efficiency", scaling->efficiency, scaling->likely);
    put_range(row, "time_to_train_s", result->time_to_train_s, result->train_likely);
    return row;
}

/* ---- what the simulator makes of the job, over what the closed form makes of it ---- */

struct trim {
    double exposed; /* communication that nothing hides */
    double train, efficiency;
};

/* By how much that makes a step of @result longer. */
static double longer(const struct trim *trim, const struct result *result)
{
    return 1 + (trim->exposed - 1) * result->step.exposed_communication / result->step.time;
}

static struct trim trim_of(const struct result *result, const struct result *closed)
{
    double exposed = result->step.exposed_communication / closed->step.exposed_communication;
    struct trim trim = {isfinite(exposed) ? exposed : 1, 1, 1};
    double factor = longer(&trim, closed);
    trim.train = result->time_to_train_s / closed->time_to_train_s / factor;
    trim.efficiency = scaling_of(result)->efficiency / scaling_of(closed)->efficiency * factor;
    return trim;
}

static void multiply(double factor, double *value, struct interval *likely)
{
    *value *= factor;
    likely->low *= factor;
    likely->high *= factor;
}

/* None becomes better than the baseline that was not. */
static void limit(double *value, double before)
{
    *value = *value > fmax(1, before) ? fmax(1, before) : *value;
}

static void multiply_efficiency(double factor, struct scaling *scaling)
{
    struct scaling before = *scaling;
    multiply(factor, &scaling->efficiency, &scaling->likely);
    limit(&scaling->efficiency, before.efficiency);
    limit(&scaling->likely.low, before.likely.low);
    limit(&scaling->likely.high, before.likely.high);
}

static void apply(const struct trim *trim, struct result *result)
{
    struct breakdown *step = &result->step;
    double factor = longer(trim, result);
    multiply(factor, &step->time, &result->step_likely);
    step->exposed_row *= trim->exposed;
    step->exposed_column *= trim->exposed;
    step->exposed_tensor *= trim->exposed;
    step->exposed_communication *= trim->exposed;
    multiply(1 / factor, &result->images_per_s, &result->images_likely);
    multiply(factor * trim->train, &result->time_to_train_s, &result->train_likely);
    multiply_efficiency(trim->efficiency / factor, &result->weak);
    multiply_efficiency(trim->efficiency / factor, &result->strong);
}

/* ---- points ---- */

/* The job in closed form, on @nodes; 0: as it is.  With @further settings, or NULL. */
static int predict_at(struct prediction *prediction, int32_t nodes, const char *path,
                      const struct predict_options *options, const char *further, struct err *err)
{
    struct predict_options own = *options;
    own.set = (struct option_list){0};
    option_list_add_all(&own.set, &options->set);
    AUTOFREE char *set = base_format("cluster.nodes=%d", nodes);
    if (nodes > 0) {
        option_list_add(&own.set, set);
        option_list_add(&own.set, "allreduce.grid=null");
    }
    if (further)
        option_list_add(&own.set, further);
    int failed = prediction_screen(prediction, path, &own, BACKEND_ANALYTIC, DRAWS, err);
    option_list_release(&own.set);
    return failed;
}

/* Where the recipe does not know the batch of @nodes there is a step, but no time to train. */
static struct json *row_at(int32_t nodes, const char *path, const struct predict_options *options,
                           const struct trim *trim, bool torus)
{
    struct prediction prediction = {0};
    AUTORELEASE(err) struct err why = {0}, again = {0};
    struct json *row;
    int failed = predict_at(&prediction, nodes, path, options, NULL, &why);
    if (failed) {
        prediction_release(&prediction);
        failed = predict_at(&prediction, nodes, path, options, "training.extrapolate=true", &again);
        prediction.result.time_to_train_s = NAN;
        prediction.result.train_likely = (struct interval){NAN, NAN};
    }
    if (failed) {
        row = json_new_object();
        json_put_integer(row, "nodes", nodes);
    } else {
        apply(trim, &prediction.result);
        row = row_of(&prediction.result, torus, false);
    }
    if (why.count)
        json_put_text(row, "reason", err_reason(&why));
    prediction_release(&prediction);
    return row;
}

struct json *curve_rows(const struct prediction *prediction, const char *path,
                        const struct predict_options *options, double *exposed)
{
    const struct result *result = &prediction->result;
    struct trim trim = {1, 1, 1};
    struct prediction closed = {0};
    AUTORELEASE(err) struct err why = {0};
    *exposed = NAN;
    if (result->nodes > 1 && strcmp(result->backend, backend_words[BACKEND_SIM]) == 0 &&
        !predict_at(&closed, 0, path, options, NULL, &why)) {
        trim = trim_of(result, &closed.result);
        *exposed = trim.exposed;
    }
    prediction_release(&closed);
    struct json *rows = json_new_array();
    bool torus = result->grid.columns > 0, shown = false;
    double begun = base_seconds(CLOCK_MONOTONIC);
    for (int32_t nodes = 1; nodes < result->nodes; nodes *= 2) {
        if (base_seconds(CLOCK_MONOTONIC) - begun > 2 && isatty(STDERR_FILENO))
            shown = fprintf(stderr, "\r\033[Kpredicting %d nodes for the page", nodes) > 0;
        json_append(rows, row_at(nodes, path, options, &trim, torus));
    }
    fputs(shown ? "\r\033[K" : "", stderr);
    json_append(rows, row_of(result, torus, true));
    return rows;
}
