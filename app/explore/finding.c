#include "app/explore/finding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REASON_LENGTH = 500 /* a row stays one line that people can read */ };

const char *const finding_names[FINDING_VALUES] = {
    [FINDING_STEP_S] = "step_s",
    [FINDING_STEP_LOW] = "step_low_s",
    [FINDING_STEP_HIGH] = "step_high_s",
    [FINDING_IMAGES_PER_S] = "images_per_s",
    [FINDING_SCALING] = "scaling_efficiency",
    [FINDING_TIME_S] = "time_to_target_s",
    [FINDING_TIME_LOW] = "time_to_target_low_s",
    [FINDING_TIME_HIGH] = "time_to_target_high_s",
    [FINDING_EPOCHS] = "epochs",
    [FINDING_DEVICE_HOURS] = "device_hours",
    [FINDING_COST] = "cost",
    [FINDING_ENERGY] = "energy_kwh",
    [FINDING_RATIO] = "simulated_over_closed_form",
};

const char *const finding_status_names[] = {"", "ok", "refused", "failed", NULL};

static void take(struct finding *finding, const struct prediction *prediction,
                 const struct price_file *prices)
{
    const struct result *result = &prediction->result;
    const struct usage usage = prediction_usage(prediction);
    const struct bill bill = price_bill(prices, &usage);
    double *value = finding->value;
    finding->status = FINDING_OK;
    value[FINDING_STEP_S] = prediction_last(prediction)->step;
    value[FINDING_STEP_LOW] = result->step_likely.low;
    value[FINDING_STEP_HIGH] = result->step_likely.high;
    value[FINDING_IMAGES_PER_S] = result->images_per_s;
    value[FINDING_SCALING] =
        result->strong.batch ? result->strong.efficiency : result->weak.efficiency;
    value[FINDING_TIME_S] = result->time_to_train_s;
    value[FINDING_TIME_LOW] = result->train_likely.low;
    value[FINDING_TIME_HIGH] = result->train_likely.high;
    value[FINDING_EPOCHS] = result->plan.epochs;
    value[FINDING_DEVICE_HOURS] = usage.devices * usage.seconds.value / 3600;
    value[FINDING_COST] = bill.cost.value;
    value[FINDING_ENERGY] = bill.energy.value;
}

static void forget(struct finding *finding)
{
    for (int i = 0; i < FINDING_VALUES; i++)
        finding->value[i] = NAN;
}

void finding_fail(struct finding *finding, enum backend_choice backend, const struct err *err)
{
    const char *text = err->text ? err->text : "no reason is known";
    size_t length = strcspn(text, "\n");
    forget(finding);
    finding->backend = backend;
    finding->code = err->exit_code ? err->exit_code : 70;
    finding->status = finding->code >= 64 && finding->code < 70 ? FINDING_REFUSED : FINDING_FAILED;
    finding->reason = strndup(text, length < REASON_LENGTH ? length : REASON_LENGTH);
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
    for (const char *line = own.warning; line && *line; line += strcspn(line, "\n") + 1)
        err_warn(err, "%.*s", (int)strcspn(line, "\n"), line);
}

void finding_put(struct json *row, const struct finding *finding)
{
    for (int i = 0; i < FINDING_VALUES; i++)
        json_put_real(row, finding_names[i], finding->value[i]);
    json_put_text(row, "backend", backend_words[finding->backend]);
    json_put_text(row, "status", finding_status_names[finding->status]);
    json_put_text(row, "reason", finding->reason);
}

/* The index of @word in @words, or -1. */
static int32_t find_word(const char *word, const char *const *words)
{
    for (int32_t i = 0; word && words[i]; i++)
        if (!strcmp(words[i], word))
            return i;
    return -1;
}

bool finding_read(struct finding *finding, const struct json *row)
{
    int64_t code;
    int32_t status = find_word(json_as_text(json_get(row, "status")), finding_status_names);
    finding->backend = find_word(json_as_text(json_get(row, "backend")), backend_words);
    if (status < FINDING_OK || finding->backend < 0 ||
        !json_as_integer(json_get(row, "code"), &code))
        return false;
    for (int i = 0; i < FINDING_VALUES; i++)
        if (!json_as_real(json_get(row, finding_names[i]), &finding->value[i]))
            return false;
    finding->status = (enum finding_status)status;
    finding->code = (int32_t)code;
    finding->reason = base_copy(json_as_text(json_get(row, "reason")));
    return true;
}

void finding_release(struct finding *finding)
{
    free(finding->reason);
    *finding = (struct finding){0};
}
