#include "app/study/published_run.h"

#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>

double published_error(const struct published_answer *answer)
{
    return answer->predicted / answer->measured - 1;
}

static bool counts(const struct published_answer *answer, enum published_role role)
{
    return !answer->refusal && answer->measured > 0 && answer->job.role == role;
}

static bool is_inside(const struct published_answer *answer)
{
    return answer->likely.low <= answer->measured && answer->measured <= answer->likely.high;
}

struct published_summary published_sum_up(const struct published_answer *answer, int32_t count,
                                          enum published_role role)
{
    struct published_summary s = {0, NAN, NAN, NAN, NAN};
    AUTOFREE double *error = base_alloc(count, sizeof(*error));
    int32_t inside = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!counts(&answer[i], role))
            continue;
        error[s.rows++] = fabs(published_error(&answer[i]));
        inside += is_inside(&answer[i]);
    }
    if (s.rows) {
        s.median = base_median(error, s.rows);
        s.p90 = gsl_stats_quantile_from_sorted_data(error, 1, (size_t)s.rows, 0.9);
        s.worst = error[s.rows - 1];
        s.coverage = (double)inside / s.rows;
    }
    return s;
}

static void print_row(struct text *out, const struct published_answer *a)
{
    text_add(out, "%-5s %-37.37s %6d %5d %9.3f ", a->row->round, a->row->system, a->job.devices,
             a->job.batch, 1e3 * a->predicted);
    if (a->measured > 0)
        text_add(out, "%9.3f %+6.1f %% ", 1e3 * a->measured, 100 * published_error(a));
    else
        text_add(out, "%9s %8s ", "-", "-");
    text_add(out, "%8.2f ... %-8.2f %s\n", 1e3 * a->likely.low, 1e3 * a->likely.high,
             published_role_names[a->job.role]);
}

static void print_summary(struct text *out, const struct published_answer *answer, int32_t count,
                          enum published_role role)
{
    struct published_summary s = published_sum_up(answer, count, role);
    text_add(out, "%-11s %3d rows", published_role_names[role], s.rows);
    if (s.rows)
        text_add(out,
                 ": error median %.1f %%, 90th percentile %.1f %%, worst %.1f %%; %.0f %% of "
                 "the measured values lie inside their 90 %% interval",
                 100 * s.median, 100 * s.p90, 100 * s.worst, 100 * s.coverage);
    text_add(out, "\n");
}

void published_print(struct text *out, const struct published_answer *answer, int32_t count)
{
    text_add(out, "%-5s %-37s %6s %5s %9s %9s %8s  %-20s %s\n", "round", "system", "GPUs", "batch",
             "predicted", "measured", "error", "90 % interval", "role");
    text_add(out, "%-5s %-37s %6s %5s %9s %9s\n", "", "", "", "each", "ms/step", "ms/step");
    for (int32_t i = 0; i < count; i++)
        if (!answer[i].refusal)
            print_row(out, &answer[i]);
    for (int32_t i = 0; i < count; i++)
        if (answer[i].refusal)
            text_add(out, "refused, line %d: %s\n", answer[i].row->line, answer[i].refusal);
    text_add(out, "\n");
    for (int32_t role = 0; role < PUBLISHED_ROLE_COUNT; role++)
        print_summary(out, answer, count, (enum published_role)role);
}

static struct json *row_json(const struct published_answer *a)
{
    struct json *row = json_new_object();
    json_put_text(row, "round", a->row->round);
    json_put_text(row, "submitter", a->row->submitter);
    json_put_text(row, "system", a->row->system);
    json_put_text(row, "family", a->row->family);
    json_put_integer(row, "line", a->row->line);
    json_put_integer(row, "nodes", a->job.nodes);
    json_put_integer(row, "devices", a->job.devices);
    json_put_integer(row, "batch_per_device", a->job.batch);
    json_put_real(row, "predicted_s", a->predicted);
    json_put_real(row, "measured_s", a->measured);
    json_put_real(row, "error", published_error(a));
    struct json *interval = json_put_array(row, "interval_s");
    json_append_real(interval, a->likely.low);
    json_append_real(interval, a->likely.high);
    json_put_boolean(row, "inside", is_inside(a));
    json_put_text(row, "role", published_role_names[a->job.role]);
    json_put_text(row, "left_open", a->job.open.data);
    json_put_text(row, "software", a->job.software);
    json_put_text(row, "backend", a->backend);
    json_put_text(row, "grain", a->grain);
    json_put_real(row, "exposed_communication_s", a->exposed);
    json_put_real(row, "startup_s", a->startup);
    json_put_real(row, "evaluation_s", a->evaluation);
    json_put_real(row, "measured_evaluation_s", a->row->eval_s);
    json_put_real(row, "time_to_train_s", a->train);
    json_put_real(row, "measured_time_to_train_s", 60 * a->row->train_min);
    return row;
}

static struct json *refusal_json(const struct published_answer *a)
{
    struct json *row = json_new_object();
    json_put_text(row, "round", a->row->round);
    json_put_text(row, "system", a->row->system);
    json_put_integer(row, "line", a->row->line);
    json_put_text(row, "reason", a->refusal);
    return row;
}

static struct json *summary_json(const struct published_answer *answer, int32_t count,
                                 enum published_role role)
{
    struct published_summary s = published_sum_up(answer, count, role);
    struct json *summary = json_new_object();
    json_put_integer(summary, "rows", s.rows);
    json_put_real(summary, "median", s.median);
    json_put_real(summary, "p90", s.p90);
    json_put_real(summary, "worst", s.worst);
    json_put_real(summary, "coverage", s.coverage);
    return summary;
}

struct json *published_rows(const struct published_answer *answer, int32_t count)
{
    struct json *rows = json_new_array();
    for (int32_t i = 0; i < count; i++)
        json_append(rows, answer[i].refusal ? refusal_json(&answer[i]) : row_json(&answer[i]));
    return rows;
}

struct json *published_json(const struct published_answer *answer, int32_t count)
{
    struct json *all = json_new_object();
    struct json *rows = json_new_array(), *refused = json_new_array();
    for (int32_t i = 0; i < count; i++) {
        if (answer[i].refusal)
            json_append(refused, refusal_json(&answer[i]));
        else
            json_append(rows, row_json(&answer[i]));
    }
    struct json *summary = json_new_object();
    for (int32_t role = PUBLISHED_ROLE_COUNT; role-- > 0;)
        json_put(summary, published_role_names[role],
                 summary_json(answer, count, (enum published_role)role));
    json_put_text(all, "schema", "foretrain/published/1");
    json_put(all, "rows", rows);
    json_put(all, "refused", refused);
    json_put(all, "summary", summary);
    return all;
}
