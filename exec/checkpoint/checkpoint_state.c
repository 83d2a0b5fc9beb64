#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "core/base/json.h"
#include "core/scenario/scenario.h"
#include "exec/checkpoint/checkpoint_parts.h"

#define SCHEMA "foretrain/checkpoint/2"

enum kind { KIND_INT64, KIND_INT32, KIND_REAL, KIND_FINITE, KIND_TEXT };

/* One member of state.json. */
struct row {
    const char *key;
    enum kind kind;
    size_t offset, size;      /* of the member; size for texts */
    int64_t minimum, maximum; /* of integers */
};

#define AT(member)   offsetof(struct progress, member)
#define SIZE(member) sizeof(((struct progress *)NULL)->member)

/* The limits are those of scenarios. */
static const struct row rows[] = {
    {"run", KIND_TEXT, AT(run), SIZE(run), 0, 0},
    {"network", KIND_TEXT, AT(network), SIZE(network), 0, 0},
    {"image", KIND_INT32, AT(image), 0, 1, 4096},
    {"classes", KIND_INT32, AT(classes), 0, 1, 1000000},
    {"step", KIND_INT64, AT(step), 0, 0, INT64_MAX},
    {"position", KIND_INT64, AT(position), 0, 0, INT64_MAX},
    {"epoch", KIND_FINITE, AT(epoch), 0, 0, 0},
    {"loss_scale", KIND_FINITE, AT(loss_scale), 0, 0, 0},
    {"good_steps", KIND_INT64, AT(good_steps), 0, 0, INT64_MAX},
    {"skipped_steps", KIND_INT64, AT(skipped_steps), 0, 0, INT64_MAX},
    {"seed", KIND_INT64, AT(seed), 0, INT64_MIN, INT64_MAX},
    {"ranks", KIND_INT32, AT(ranks), 0, 1, SCENARIO_DEVICE_LIMIT},
    {"loss", KIND_REAL, AT(loss), 0, 0, 0},
    {"top1", KIND_REAL, AT(top1), 0, 0, 0},
    {"top5", KIND_REAL, AT(top5), 0, 0, 0},
    {"scenario_sha256", KIND_TEXT, AT(scenario_sha256), SIZE(scenario_sha256), 0, 0},
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

static int read_integer(const struct row *row, void *member, const char *name,
                        const struct json *value, struct err *err)
{
    int64_t number;
    if (!json_as_integer(value, &number) || number < row->minimum || number > row->maximum)
        return err_add(err, "%s: '%s' must be a whole number from %" PRId64 " to %" PRId64, name,
                       row->key, row->minimum, row->maximum);
    if (row->kind == KIND_INT32)
        *(int32_t *)member = (int32_t)number;
    else
        *(int64_t *)member = number;
    return 0;
}

static int read_real(const struct row *row, void *member, const char *name,
                     const struct json *value, struct err *err)
{
    double number;
    if (!json_as_real(value, &number) || (row->kind == KIND_FINITE && !isfinite(number)))
        return err_add(err, "%s: '%s' must be a number%s", name, row->key,
                       row->kind == KIND_FINITE ? "" : " or null");
    *(double *)member = number;
    return 0;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static int read_text(const struct row *row, void *member, const char *name,
                     const struct json *value, struct err *err)
{
    const char *text = json_as_text(value);
    if (!text || strlen(text) >= row->size || !is_plain(text))
        return err_add(err, "%s: '%s' must be a text of at most %zu plain characters", name,
                       row->key, row->size - 1);
    memcpy(member, text, strlen(text) + 1);
    return 0;
}

static int read_member(const struct row *row, struct progress *progress, const char *name,
                       const struct json *value, struct err *err)
{
    void *member = (char *)progress + row->offset;
    if (!value)
        return err_add(err, "%s: '%s' is missing", name, row->key);
    if (row->kind == KIND_TEXT)
        return read_text(row, member, name, value, err);
    if (row->kind == KIND_REAL || row->kind == KIND_FINITE)
        return read_real(row, member, name, value, err);
    return read_integer(row, member, name, value, err);
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
