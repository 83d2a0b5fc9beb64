#include "app/predict/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 400 /* for a point: 5 % of them are 20 */ };

static void put_range(struct json *row, const char *key, double value, struct interval likely)
{
    static const char *const end[] = {"", "_low", "_high"};
    const double number[] = {value, likely.low, likely.high};
    bool seconds = strlen(key) > 2 && !strcmp(key + strlen(key) - 2, "_s");
    for (int i = 0; i < 3; i++) {
        char *name = base_format("%.*s%s%s", (int)strlen(key) - (seconds ? 2 : 0), key, end[i],
                                 seconds ? "_s" : "");
        json_put_real(row, name, number[i]);
        free(name);
    }
}

static struct json *row_of(const struct result *result, bool torus, bool own)
{
    const struct breakdown *step = &result->step;
    const struct scaling *scaling = result->strong.batch ? &result->strong : &result->weak;
    struct json *row = json_new_object();
    json_put_integer(row, "nodes", result->nodes);
    json_put_integer(row, "devices", result->devices);
    json_put_text(row, "own", own ? "this job" : NULL);
    put_range(row, "step_s", step->time, result->step_likely);
    json_put_real(row, "compute_s", step->compute);
    json_put_real(row, "slower_ranks_s", step->slower);
    json_put_real(row, "exposed_row_s", torus ? step->exposed_row : NAN);
    json_put_real(row, "exposed_column_s", torus ? step->exposed_column : NAN);
    json_put_real(row, "exposed_world_s", torus ? NAN : step->exposed_communication);
    json_put_real(row, "input_wait_s", step->input_wait);
    json_put_real(row, "other_s", step->other);
    put_range(row, "images_per_s", result->images_per_s, result->images_likely);
    put_range(row, "scaling_efficiency", scaling->efficiency, scaling->likely);
    put_range(row, "time_to_train_s", result->time_to_train_s, result->train_likely);
    return row;
}

static struct json *row_at(int32_t nodes, const char *path, const struct predict_options *options,
                           enum backend_choice backend, bool torus)
{
    struct prediction prediction = {0};
    struct predict_options own = *options;
    struct err why = {0};
    struct json *row;
    char *set = base_format("cluster.nodes=%d", nodes);
    own.set = (struct option_list){0};
    option_list_add_all(&own.set, &options->set);
    option_list_add(&own.set, set);
    option_list_add(&own.set, "allreduce.grid=null");
    if (prediction_screen(&prediction, path, &own, backend, DRAWS, &why)) {
        char *reason = base_format("%.*s", (int)strcspn(why.text, "\n"), why.text);
        row = json_new_object();
        json_put_integer(row, "nodes", nodes);
        json_put_text(row, "reason", reason);
        free(reason);
    } else {
        row = row_of(&prediction.result, torus, false);
    }
    prediction_release(&prediction);
    option_list_release(&own.set);
    err_release(&why);
    free(set);
    return row;
}

struct json *curve_rows(const struct prediction *prediction, const char *path,
                        const struct predict_options *options)
{
    const struct result *result = &prediction->result;
    bool simulated = strcmp(result->backend, "sim") == 0, torus = result->grid.columns > 0;
    struct json *rows = json_new_array();
    for (int32_t nodes = 1; nodes < result->nodes; nodes *= 2)
        json_append(
            rows, row_at(nodes, path, options, simulated ? BACKEND_SIM : BACKEND_ANALYTIC, torus));
    json_append(rows, row_of(result, torus, true));
    return rows;
}
