/** @file
 * The closed form for pages: what app/page/whatif.js calls.  Built for WebAssembly alone.
 *
 * Texts that are handed over lie in memory of core_text(), which the callee takes over.
 */

#include "app/wasm/host.h"

#include "app/predict/predict.h"

#define EXPORT(name) __attribute__((export_name(name))) /* clang's, for wasm32 */

EXPORT("text") char *core_text(int32_t size)
{
    return base_alloc(size, 1);
}

EXPORT("file") void core_file(char *name, char *text)
{
    host_add_file(name, text);
}

static void say(struct text *out, const char *key, enum unit unit, double value)
{
    text_add(out, "%s\t%.17g\t%s\n", key, value, unit_text(unit, value));
}

static void say_all(struct text *out, struct prediction *prediction)
{
    const struct result *result = &prediction->result;
    const struct scaling *scaling = result->strong.batch ? &result->strong : &result->weak;
    say(out, "devices", UNIT_NONE, result->devices);
    say(out, "memory_bytes", UNIT_BYTES, (double)result->memory_total);
    say(out, "step_s", UNIT_SECONDS, result->step.time);
    say(out, "compute_s", UNIT_SECONDS, result->step.compute);
    say(out, "exposed_communication_s", UNIT_SECONDS, result->step.exposed_communication);
    say(out, result_speed(result), result->images_unit, result->images_per_s);
    say(out, "scaling_efficiency", UNIT_FRACTION, scaling->efficiency);
    say(out, "time_to_train_s", UNIT_SECONDS, result->time_to_train_s);
    const struct memory_plan *m = &result->memory;
    const int64_t part[] = {m->weights, m->gradients, m->momentum,  m->activations,
                            m->loss,    m->input,     m->workspace, m->reserve};
    static const char *const keys[] = {"weights_bytes",     "gradients_bytes", "optimizer_bytes",
                                       "activations_bytes", "loss_bytes",      "input_bytes",
                                       "workspace_bytes",   "reserve_bytes"};
    for (size_t i = 0; i < ARRAY_SIZE(part); i++)
        say(out, keys[i], UNIT_BYTES, (double)part[i]);
    prediction_find_bound(prediction);
    text_add(out, "sentence\t0\tIt is %s.\n", result->sentence);
    if (result->grid.columns > 0)
        text_add(out, "grid\t0\t%dx%d\n", (int)result->grid.columns, (int)result->grid.rows);
}

/* @sets: lines "key=JSON".  @return lines "key TAB number TAB text", or "! message"; borrowed. */
EXPORT("predict")
const char *core_predict(char *sets, int32_t order, int32_t noise, int32_t ignore_memory,
                         int32_t iterations)
{
    static struct text out;
    struct predict_options options = {.backend = BACKEND_ANALYTIC,
                                      .order = order,
                                      .noise = noise,
                                      .ignore_memory = ignore_memory,
                                      .iterations = iterations,
                                      .traced_ranks = 4};
    for (char *line = strtok(sets, "\n"); line; line = strtok(NULL, "\n"))
        texts_add(&options.set, "%s", line);
    struct prediction prediction = {0};
    AUTORELEASE(err) struct err err = {0};
    text_release(&out);
    if (prediction_screen(&prediction, "job", &options, BACKEND_ANALYTIC, 0, &err))
        text_add(&out, "! %s", err.text ? err.text : "no answer");
    else
        say_all(&out, &prediction);
    prediction_release(&prediction);
    texts_release(&options.set);
    free(sets);
    return out.data;
}
