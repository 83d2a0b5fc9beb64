#include "app/explore/finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_LENGTH = 500 /* a row stays one line that people can read */ };

const char *const finding_status_names[] = {"", "ok", "refused", "failed", NULL};

#define DESCRIBED struct finding
static const struct answer_column finding_rows[] = {
    COLUMN("step_s", step, .null = true,
           .help = "one training step of the last phase; null, as all numbers of the point, where "
                   "it has no answer"),
    COLUMN("images_per_s", images_per_s, .null = true, .help = "of all devices, in the last phase"),
    COLUMN("scaling_efficiency", efficiency, .null = true, .help = "as in a result"),
    COLUMN("time_to_train_s", seconds, .null = true, .help = "to the target, or of all epochs"),
    COLUMN("epochs", epochs, .null = true, .help = "of all phases; to a target those expected"),
    COLUMN("device_hours", device_hours, .null = true,
           .help = "of all devices of each phase together"),
    COLUMN("cost", cost, .null = true,
           .help = "at the prices of --prices, in their currency; null without them"),
    COLUMN("energy_kwh", energy, .null = true, .help = "at the power of --prices"),
    COLUMN("simulated_over_closed_form", ratio, .null = true,
           .help = "simulated step over that in closed form; null: not both"),
    COLUMN("backend", backend, .words = backend_words,
           .help = "analytic or sim: where the numbers come from"),
    COLUMN("status", status, .words = finding_status_names,
           .help = "ok, refused (such a job cannot be) or failed"),
    COLUMN("reason", reason, .null = true,
           .help = "of a refusal or failure; of an ok point: why it was not simulated as it should "
                   "have been"),
};
const struct answer_columns finding_columns = COLUMNS(NULL, finding_rows);
#undef DESCRIBED

static void take(struct finding *finding, const struct prediction *prediction,
                 const struct price_file *prices)
{
    const struct result *result = &prediction->result;
    const struct usage usage = prediction_usage(prediction);
    const struct bill bill = price_bill(prices, &usage);
    double step = prediction_last(prediction)->step;
    finding->status = FINDING_OK;
    finding->step = (struct range){result->step_likely.low, step, result->step_likely.high};
    finding->images_per_s = result->images_per_s;
    finding->efficiency =
        result->strong.batch ? result->strong.efficiency : result->weak.efficiency;
    finding->seconds = (struct range){result->train_likely.low, result->time_to_train_s,
                                      result->train_likely.high};
    finding->epochs = result->plan.epochs;
    finding->device_hours = usage.devices * usage.seconds.value / 3600;
    finding->cost = bill.cost.value;
    finding->energy = bill.energy.value;
}

static void forget(struct finding *finding)
{
    const struct range none = {NAN, NAN, NAN};
    finding->step = finding->seconds = none;
    finding->images_per_s = finding->efficiency = finding->epochs = finding->device_hours = NAN;
    finding->cost = finding->energy = finding->ratio = NAN;
}

void finding_fail(struct finding *finding, enum backend_choice backend, struct err *err)
{
    const char *reason = err->text ? err_reason(err) : "no reason is known";
    forget(finding);
    finding->backend = backend;
    finding->code = err->exit_code ? err->exit_code : 70;
    finding->status = finding->code >= 64 && finding->code < 70 ? FINDING_REFUSED : FINDING_FAILED;
    finding->reason = strndup(reason, REASON_LENGTH);
}

void finding_find(struct finding *finding, const char *path, const struct predict_options *options,
                  enum backend_choice backend, int32_t draws, const struct price_file *prices,
                  struct err *err)
{
    AUTORELEASE(prediction) struct prediction prediction = {0};
    AUTORELEASE(err) struct err own = {0};
    if (prediction_screen(&prediction, path, options, backend, draws, &own)) {
        finding_fail(finding, backend, &own);
    } else {
        forget(finding);
        finding->backend = backend;
        take(finding, &prediction, prices);
        price_check_device(prices, platform_device(prediction.job.platform)->name, &own);
    }
    err_warn_all(err, &own);
}

bool finding_read(struct finding *finding, const struct json *row)
{
    int64_t code;
    if (!answer_read(&finding_columns, row, finding) || finding->status == FINDING_NONE ||
        !json_as_integer(json_get(row, "code"), &code))
        return false;
    finding->code = (int32_t)code;
    return true;
}

void finding_release(struct finding *finding)
{
    free(finding->reason);
    *finding = (struct finding){0};
}
