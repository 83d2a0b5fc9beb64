#include <stdlib.h>
#include <string.h>

#include "app/cli/command.h"
#include "core/base/json.h"
#include "core/platform/platform.h"
#include "core/platform/software.h"
#include "core/scenario/scenario.h"

/* One value of an answer; the rows of one object stand together.  A type with a question mark may
 * be null. */
struct row {
    const char *path, *type, *help;
};

static const struct row result_rows[] = {
    {"schema", "string", "foretrain/result/1"},
    {"version", "string", "of foretrain"},
    {"scenario_sha256", "string", "of the scenario's text and the overrides"},
    {"schedule_hash", "string", "of the last phase's schedule; traces carry the same"},
    {"backend", "string", "analytic or sim"},
    {"grain", "string", "closed-form, folded, full, smoothed (with /N: N rounds merged) or coarse"},
    {"platform", "string", "name of the platform"},
    {"platform_hash", "string",
     "of every number of the platform and its device, and of the steps that were measured"},
    {"nodes", "integer", "nodes in use"},
    {"devices", "integer", "devices in use"},
    {"grid.columns", "integer?", "ranks in a row; null if the job has no rows"},
    {"grid.rows", "integer?", "ranks in a column"},
    {"step.time_s", "number", "one training step of the last phase"},
    {"step.compute_s", "number", "forward, loss and backward of a device that nothing slows down"},
    {"step.exposed_communication_s", "number", "waiting for a collective"},
    {"step.exposed_row_s", "number?", "the part waiting for a row's; null if the job has no rows"},
    {"step.exposed_column_s", "number?", "the part waiting for a column's"},
    {"step.slower_ranks_s", "number", "waiting for the slowest device to compute"},
    {"step.input_wait_s", "number", "waiting for images"},
    {"step.other_s", "number", "optimizer and the rest"},
    {"step_interval_s[]", "number",
     "90 % interval of step.time_s: low, then high; empty without GSL"},
    {"images_per_s", "number", "of all devices, in the last phase"},
    {"throughput_interval[]", "number", "90 % interval of images_per_s"},
    {"scaling_efficiency", "number", "images/s per device over the baseline's"},
    {"scaling_efficiency_interval[]", "number",
     "its 90 % interval; what is uncertain in both the job and the baseline moves both"},
    {"scaling", "string",
     "what scaling_efficiency is: weak, at equal images per device, or strong, at an equal global "
     "batch, if the last phase gives that"},
    {"weak_scaling_efficiency", "number", "at equal images per device"},
    {"weak_scaling_interval[]", "number", "its 90 % interval"},
    {"strong_scaling_efficiency", "number?",
     "at an equal global batch; null if the last phase gives none"},
    {"strong_scaling_interval[]", "number", "its 90 % interval"},
    {"baseline.devices", "integer", "devices of the baseline of scaling_efficiency"},
    {"baseline.batch_per_device", "integer", "images on each of them"},
    {"baseline.images_per_s", "number", "of all devices of the baseline"},
    {"exchanges[].name", "string", "an all-reduce, or part of one, of the last phase's step"},
    {"exchanges[].bucket", "integer", "of gradients, from 0"},
    {"exchanges[].axis", "string", "row, column or world: which ranks take part"},
    {"exchanges[].bytes", "integer", "the full vector on one rank"},
    {"exchanges[].ready_s", "number", "all that it needs is there, since the step began"},
    {"exchanges[].begin_s", "number", "it begins"},
    {"exchanges[].end_s", "number", "it ends"},
    {"exchanges[].exposed_s", "number",
     "the part that nothing hides; together step.exposed_communication_s"},
    {"phases[].epochs", "number", "passes over the training images"},
    {"phases[].batch_per_device", "integer", "images per device and step"},
    {"phases[].global_batch", "integer", "images per step"},
    {"phases[].steps", "integer", "training steps"},
    {"phases[].step_time_s", "number", "one step"},
    {"epochs", "number", "of all phases"},
    {"evaluation_s", "number", "all evaluations"},
    {"startup_s", "number", "before the first step runs at full speed, as the scenario states it"},
    {"time_to_train_s", "number", "all steps and evaluations"},
    {"time_to_train_interval_s[]", "number", "its 90 % interval"},
    {"unknown_inputs[].input", "string", "an input that the files leave unknown, by its key"},
    {"unknown_inputs[].range", "string", "what they say of it"},
    {"interval_shares[].input", "string", "an uncertain input: unknown, or left open by a fit"},
    {"interval_shares[].step", "number?",
     "its part of the variance of the step, alone (first-order Sobol index)"},
    {"interval_shares[].throughput", "number?", "the same for images_per_s"},
    {"interval_shares[].weak_scaling", "number?", "the same for weak_scaling_efficiency"},
    {"interval_shares[].strong_scaling", "number?", "the same for strong_scaling_efficiency"},
    {"interval_shares[].time_to_train", "number?", "the same for time_to_train_s"},
    {"draws.count", "integer", "draws of everything uncertain; 0: no intervals"},
    {"draws.impossible", "integer", "more of them that make no job, such as a batch too large"},
    {"draws.simulated", "integer", "of them that were simulated as well"},
    {"draws.simulated_over_closed_form_low", "number?",
     "least simulated step over the one that entered the interval"},
    {"draws.simulated_over_closed_form_high", "number?", "the greatest"},
    {"bound_by", "string", "compute, communication, input or slow devices"},
    {"sentence", "string", "the same in words"},
    {"assumptions[]", "string", "what nobody measured or published"},
    {"warnings[]", "string", "what makes the result doubtful"},
};

static const struct row validation_rows[] = {
    {"schema", "string", "foretrain/validation/1"},
    {"version", "string", "of foretrain"},
    {"scenario_sha256", "string?", "of the scenario's text and the overrides; null without a job"},
    {"schedule_hash", "string", "of the schedule of both sides"},
    {"platform", "string?", "that the prediction is for; null without a job"},
    {"backend", "string", "of the prediction: analytic or sim"},
    {"grain", "string", "of the prediction, as in a result"},
    {"device", "string?", "that was run: cpu, cpu-naive, cuda or replay; null when nothing was"},
    {"lab", "boolean", "it ran in the platform's lab"},
    {"ranks", "integer", "ranks that were measured"},
    {"measured_steps", "integer", "training steps behind each median"},
    {"step_times_s[]", "number", "each of them, in their order"},
    {"error_of", "string", "what errors are relative to: median, or lower quartile (in a lab)"},
    {"step_interval_s[]", "number",
     "90 % interval of the predicted step time: low, then high; empty without GSL, or when the "
     "prediction was read from a file"},
    {"inside_interval", "boolean", "the measured step lies in it"},
    {"tolerance", "number", "on the step's error, as a fraction"},
    {"verdict", "string", "of the step time: pass, fail or disturbed"},
    {"rows[].group", "string", "step, kind, lane, part or collective"},
    {"rows[].name", "string", "what took the time"},
    {"rows[].predicted_s", "number", "in one step"},
    {"rows[].measured_s", "number", "median over the steps"},
    {"rows[].lower_quartile_s", "number", "lower quartile over the steps"},
    {"rows[].error", "number?",
     "of the prediction, relative to what error_of says; null where either took no time"},
    {"late_s", "number?", "how late device replay ended its steps, mean; null for others"},
    {"latest_s", "number?", "the same of the step that ended latest"},
    {"trace_error_s", "number?", "how far the clocks of two ranks may be apart"},
    {"steal", "number?", "part of the processors' time that the host had meanwhile"},
    {"foreign", "number?", "part of it that other processes of this machine had"},
    {"idle", "number?", "part of it that nobody had"},
    {"drops", "integer?", "packets that a lab's links threw away; null without a lab"},
    {"retransmits", "integer?", "TCP segments that a lab's hosts sent again; null without a lab"},
};

static const struct row dry_run_rows[] = {
    {"schema", "string", "foretrain/dry-run/1"},
    {"version", "string", "of foretrain"},
    {"scenario_sha256", "string", "of the scenario's text and the overrides"},
    {"network", "string", "that is trained"},
    {"device", "string", "that each rank would compute on: cpu, cpu-naive, cuda or replay"},
    {"ranks", "integer", "that would be started"},
    {"memory.batch", "integer", "images of one rank, in the phase that has most"},
    {"memory.micro_batch", "integer", "of them, images that pass through the network at once"},
    {"memory.weights_bytes", "integer", "masters, and the copy to compute with"},
    {"memory.gradients_bytes", "integer", "of the weights"},
    {"memory.momentum_bytes", "integer", "of the optimizer"},
    {"memory.activations_bytes", "integer",
     "values of all layers for backward, and the gradients of two; no more than that"},
    {"memory.activations_least_bytes", "integer",
     "the same where every batch norm that a GPU's convolutions can apply as they read is applied, "
     "and so not written; which are, its clock decides"},
    {"memory.images_bytes", "integer", "read ahead and in use"},
    {"memory.workspace", "string",
     "what workspace_bytes is: exact (of oneDNN on this machine), at most (of convolutions on a "
     "GPU; engines that need more are not used) or not counted"},
    {"memory.workspace_bytes", "integer", "of libraries, beside the arrays; 0 when not counted"},
    {"memory.total_bytes", "integer", "activations_bytes and all others"},
    {"platform_device.name", "string", "the device of the job's platform"},
    {"platform_device.memory_bytes", "integer", "that it has"},
    {"platform_device.largest_batch", "integer?",
     "images at once that fit into it; null where ranks would compute on another kind of device"},
    {"command[]", "string", "words of the command that would be run"},
};

static const struct row explain_rows[] = {
    {"schema", "string", "foretrain/explain/1"},
    {"version", "string", "of foretrain"},
    {"runs[].scenario", "string", "path of the job"},
    {"runs[].platform", "string", "name of its platform"},
    {"runs[].backend", "string", "analytic or sim"},
    {"runs[].grain", "string", "as in a result"},
    {"runs[].phase", "integer", "that is explained, from 1"},
    {"runs[].devices", "integer", "devices in use"},
    {"runs[].batch_per_device", "integer", "images on each of them"},
    {"runs[].step_time_s", "number", "one training step"},
    {"runs[].baseline_devices", "integer", "devices of the baseline"},
    {"runs[].baseline_batch_per_device", "integer", "images on each of them"},
    {"runs[].baseline_step_time_s", "number", "one training step of the baseline"},
    {"runs[].efficiency", "number", "device time of an image in the baseline over that in the run"},
    {"runs[].causes[].name", "string", "what the lost time is spent on"},
    {"runs[].causes[].link", "string?", "kind of link that limits it; null: none does"},
    {"runs[].causes[].seconds", "number",
     "per step of the run, less the baseline's for as many images"},
    {"runs[].causes[].points", "number", "percent of the step, which are points of efficiency"},
    {"runs[].warning", "string?", "about the back end; null: none"},
    {"causes[].name", "string", "of the loss of the only run, or of the second beyond the first"},
    {"causes[].link", "string?", "kind of link that limits it; null: none does"},
    {"causes[].seconds", "number", "per step"},
    {"causes[].points", "number", "of efficiency"},
    {"sentence", "string", "the largest cause in words"},
};

/* Schemas of printed objects, not of files. */
static const struct answer {
    const char *title;
    const struct row *row;
    int32_t count;
} answers[] = {
    {"foretrain/result/1", result_rows, sizeof(result_rows) / sizeof(*result_rows)},
    {"foretrain/validation/1", validation_rows, sizeof(validation_rows) / sizeof(*validation_rows)},
    {"foretrain/dry-run/1", dry_run_rows, sizeof(dry_run_rows) / sizeof(*dry_run_rows)},
    {"foretrain/explain/1", explain_rows, sizeof(explain_rows) / sizeof(*explain_rows)},
};

static bool same_name(const struct row *a, const struct row *b, size_t skip)
{
    size_t length = strcspn(a->path + skip, ".[");
    return length == strcspn(b->path + skip, ".[") &&
           !strncmp(a->path + skip, b->path + skip, length);
}

static void put_type(struct json *json, const char *type)
{
    size_t length = strcspn(type, "?");
    char *name = base_format("%.*s", (int)length, type);
    if (type[length]) {
        struct json *both = json_new_array();
        json_append_text(both, name);
        json_append_text(both, "null");
        json_put(json, "type", both);
    } else {
        json_put_text(json, "type", name);
    }
    free(name);
}

/* The schema of all @row (@count) that share their first @skip characters. */
static struct json *describe(const struct row *row, int32_t count, size_t skip)
{
    struct json *json = json_new_object();
    const char *rest = row->path + skip;
    if (!*rest) {
        put_type(json, row->type);
        json_put_text(json, "description", row->help);
    } else if (*rest == '[') {
        json_put_text(json, "type", "array");
        json_put(json, "items", describe(row, count, skip + strlen("[]")));
    } else {
        skip += *rest == '.';
        struct json *properties = json_new_object();
        struct json *required = json_new_array();
        for (int32_t begin = 0, end; begin < count; begin = end) {
            for (end = begin + 1; end < count && same_name(&row[begin], &row[end], skip);)
                end++;
            size_t length = strcspn(row[begin].path + skip, ".[");
            char *name = base_format("%.*s", (int)length, row[begin].path + skip);
            json_put(properties, name, describe(&row[begin], end - begin, skip + length));
            json_append_text(required, name);
            free(name);
        }
        json_put_text(json, "type", "object");
        json_put(json, "properties", properties);
        json_put(json, "required", required);
    }
    return json;
}

static void print_answer_schema(struct text *out, const struct answer *answer)
{
    struct json *json = describe(answer->row, answer->count, 0);
    json_put_text(json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_put_text(json, "title", answer->title);
    json_print(out, json);
    json_free(json);
}

/* scdoc: an underscore would start underlined text. */
static void add_escaped(struct text *out, const char *text)
{
    for (; *text; text++)
        text_add(out, strchr("_*\\#", *text) ? "\\%c" : "%c", *text);
}

static void add_entry(struct text *out, const char *prefix, const char *path, const char *type,
                      const char *fallback, const char *help)
{
    text_add(out, "*");
    add_escaped(out, prefix);
    add_escaped(out, path);
    text_add(out, "* (");
    add_escaped(out, type);
    text_add(out, "%s", fallback && *fallback ? ", default " : "");
    add_escaped(out, fallback ? fallback : ", required");
    text_add(out, ")\n\t");
    add_escaped(out, help);
    text_add(out, ".\n\n");
}

/* "ring | tree", "quantity such as 25 GB/s"; the caller frees it. */
static char *type_name(const struct field *field)
{
    static const char *const names[FIELD_KIND_COUNT] = {
        [FIELD_INTEGER] = "whole number",
        [FIELD_REAL] = "number",
        [FIELD_TEXT] = "text",
        [FIELD_WORD] = "word",
        [FIELD_BOOLEAN] = "true or false",
        [FIELD_QUANTITY] = "quantity",
        [FIELD_TEXTS] = "list of texts",
        [FIELD_LIST] = "list",
    };
    struct text type = {0};
    for (const char *const *word = field->words; word && *word; word++)
        text_add(&type, "%s%s", type.length ? " | " : "", *word);
    if (!field->words)
        text_add(&type, "%s", names[field->kind]);
    if (field->unit != UNIT_NONE)
        text_add(&type, " such as %s", unit_example(field->unit));
    return type.data;
}

static void print_table_manual(struct text *out, const struct field_table *table,
                               const char *prefix)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct field *field = &table->field[i];
        char *type = type_name(field);
        add_entry(out, prefix, field->path, type, field->fallback, field->help);
        free(type);
        if (field->kind != FIELD_LIST)
            continue;
        char *inner = base_format("%s%s[].", prefix, field->path);
        print_table_manual(out, field->table, inner);
        free(inner);
    }
}

static void print_answer_manual(struct text *out, const struct answer *answer)
{
    for (int32_t i = 0; i < answer->count; i++) {
        const struct row *row = &answer->row[i];
        char *type = base_format("%.*s%s", (int)strcspn(row->type, "?"), row->type,
                                 strchr(row->type, '?') ? " or null" : "");
        add_entry(out, "", row->path, type, "", row->help);
        free(type);
    }
}

struct schema_request {
    struct request head;
    bool manual;
};

static int schema(const void *record, struct text *out, struct err *err)
{
    const struct schema_request *request = record;
    static const char *const words[] = {"scenario",   "platform", "device",  "software", "result",
                                        "validation", "dry-run",  "explain", NULL};
    enum { TABLES = 4 };
    const struct field_table *const tables[] = {&scenario_table, &platform_table, &device_table,
                                                &software_table};
    const char *given = request->head.argument.item[0];
    int32_t kind = 0;
    while (words[kind] && strcmp(words[kind], given) != 0)
        kind++;
    if (!words[kind])
        return option_unknown(err, "schema", given, words);
    if (kind >= TABLES && request->manual)
        print_answer_manual(out, &answers[kind - TABLES]);
    else if (kind >= TABLES)
        print_answer_schema(out, &answers[kind - TABLES]);
    else if (request->manual)
        print_table_manual(out, tables[kind], "");
    else
        field_schema(out, tables[kind], tables[kind] != &software_table);
    return 0;
}

#define AT(member) offsetof(struct schema_request, member)

static const struct option options[] = {
    OPTION_ROW("man", 0, OPTION_FLAG, AT(manual),
               .help = "Print the keys as text for a manual page"),
    ROW_LAST};

const struct command command_schema = {
    .name = "schema",
    .synopsis =
        "scenario | platform | device | software | result | validation | dry-run | explain  "
        "[options]",
    .help = "the JSON Schema of a file, for editors and programs",
    .examples = "foretrain schema scenario > foretrain.schema.json",
    RECORD(options, struct schema_request, NULL),
    .minimum = 1,
    .maximum = 1,
    .run = schema,
};
