#include "core/scenario/scenario.h"
#include "exec/checkpoint/checkpoint_parts.h"

#define SCHEMA "foretrain/checkpoint/2"

enum kind { KIND_INT64, KIND_INT32, KIND_REAL, KIND_TEXT };

/* One member of state.json. */
struct row {
    const char *key;
    enum kind kind;
    size_t offset, size;     /* of the member; size for texts */
    double minimum, maximum; /* of numbers */
    bool nan;                /* null, too */
};

#define AT(member) offsetof(struct progress, member)
#define TEXT_AT(member)                                                                            \
    KIND_TEXT, AT(member), sizeof(((struct progress *)NULL)->member), 0, 0, false

/* The limits are those of scenarios. */
static const struct row rows[] = {
    {"run", TEXT_AT(run)},
    {"network", TEXT_AT(network)},
    {"image", KIND_INT32, AT(image), 0, 0, SCENARIO_IMAGE_LIMIT, false}, /* 0: of sequences */
    {"classes", KIND_INT32, AT(classes), 0, 1, SCENARIO_CLASS_LIMIT, false},
    {"step", KIND_INT64, AT(step), 0, 0, SCENARIO_NUMBER_LIMIT, false},
    {"position", KIND_INT64, AT(position), 0, 0, SCENARIO_NUMBER_LIMIT, false},
    {"epoch", KIND_REAL, AT(epoch), 0, 0, 1e6 * SCENARIO_PHASE_LIMIT, false},
    {"loss_scale", KIND_REAL, AT(loss_scale), 0, SCENARIO_LOSS_SCALE_LEAST,
     SCENARIO_LOSS_SCALE_MOST, false},
    {"good_steps", KIND_INT64, AT(good_steps), 0, 0, SCENARIO_NUMBER_LIMIT, false},
    {"skipped_steps", KIND_INT64, AT(skipped_steps), 0, 0, SCENARIO_NUMBER_LIMIT, false},
    {"seed", KIND_INT64, AT(seed), 0, 0, SCENARIO_NUMBER_LIMIT, false},
    {"ranks", KIND_INT32, AT(ranks), 0, 1, SCENARIO_DEVICE_LIMIT, false},
    {"loss", KIND_REAL, AT(loss), 0, 0, DBL_MAX, true},
    {"top1", KIND_REAL, AT(top1), 0, -1, 1, false},
    {"top5", KIND_REAL, AT(top5), 0, -1, 1, false},
    {"scenario_sha256", TEXT_AT(scenario_sha256)},
};

enum { ROW_COUNT = ARRAY_SIZE(rows) };

void state_print(struct text *out, const struct progress *progress)
{
    AUTORELEASE(json) struct json *state = json_new_object();
    json_put_text(state, "schema", SCHEMA);
    for (int32_t i = 0; i < ROW_COUNT; i++) {
        const void *member = (const char *)progress + rows[i].offset;
        if (rows[i].kind == KIND_INT64)
            json_put_integer(state, rows[i].key, *(const int64_t *)member);
        else if (rows[i].kind == KIND_INT32)
            json_put_integer(state, rows[i].key, *(const int32_t *)member);
        else if (rows[i].kind != KIND_TEXT)
            json_put_real(state, rows[i].key, *(const double *)member);
        else
            json_put_text(state, rows[i].key, member);
    }
    json_print(out, state);
}

/* A whole number is compared as one, too: 2^53 + 1 is 2^53 as a double. */
static bool read_number(const struct row *row, void *member, const struct json *value)
{
    double number;
    int64_t whole = 0;
    if (!json_as_real(value, &number) ||
        !(isnan(number) ? row->nan : number >= row->minimum && number <= row->maximum))
        return false;
    if (row->kind == KIND_REAL)
        *(double *)member = number;
    else if (!json_as_integer(value, &whole) || whole > (int64_t)row->maximum)
        return false;
    else if (row->kind == KIND_INT32)
        *(int32_t *)member = (int32_t)whole;
    else
        *(int64_t *)member = whole;
    return true;
}

static bool read_text(const struct row *row, void *member, const struct json *value)
{
    const char *text = json_as_text(value);
    for (const char *c = text; c && *c; c++)
        if (*c < ' ' || *c > '~')
            return false;
    if (!text || strlen(text) >= row->size)
        return false;
    memcpy(member, text, strlen(text) + 1);
    return true;
}

static int read_member(const struct row *row, struct progress *progress, const char *name,
                       const struct json *value, struct err *err)
{
    void *member = (char *)progress + row->offset;
    if (!value)
        return err_add(err, "%s: '%s' is missing", name, row->key);
    if (row->kind == KIND_TEXT)
        return read_text(row, member, value)
                   ? 0
                   : err_add(err, "%s: '%s' must be a text of at most %zu plain characters", name,
                             row->key, row->size - 1);
    return read_number(row, member, value)
               ? 0
               : err_add(err, "%s: '%s' must be a %snumber from %.16g to %.16g%s", name, row->key,
                         row->kind == KIND_REAL ? "" : "whole ", row->minimum, row->maximum,
                         row->nan ? " or null" : "");
}

static bool is_known(const char *key)
{
    for (int32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].key, key) == 0)
            return true;
    return strcmp(key, "schema") == 0;
}

static int read_state(struct progress *progress, const char *name, const struct json *state,
                      struct err *err)
{
    if (json_count_members(state) < 0)
        return err_add(err, "%s: it must be a JSON object", name);
    const char *schema = json_as_text(json_get(state, "schema"));
    if (!schema || strcmp(schema, SCHEMA) != 0)
        return err_add(err,
                       "%s: 'schema' must be \"" SCHEMA "\": not a checkpoint of foretrain, "
                       "or of another version",
                       name);
    for (const char *key = NULL; (key = json_next_key(state, key));)
        if (!is_known(key))
            return err_add(err, "%s: a key that this version of foretrain does not know", name);
    int failed = 0;
    for (int32_t i = 0; i < ROW_COUNT; i++)
        failed |= read_member(&rows[i], progress, name, json_get(state, rows[i].key), err);
    if (!failed &&
        (progress->good_steps > progress->step || progress->skipped_steps > progress->step ||
         progress->position < progress->step))
        failed = err_add(
            err, "%s: 'good_steps' or 'skipped_steps' above 'step', or 'position' below it", name);
    return failed;
}

int state_read_text(struct progress *progress, const char *name, const char *text, int64_t length,
                    struct err *err)
{
    struct progress found = {0};
    AUTORELEASE(json) struct json *state = json_read(name, text, length, err);
    if (!state || read_state(&found, name, state, err))
        return -1;
    *progress = found;
    return 0;
}
