#include "core/scenario/scenario_change.h"

#include "core/config/field_rows.h"

const struct scenario_rule scenario_rules[] = {
    {"version", CHANGE_NEVER},
    {"model", CHANGE_NEVER},
    {"model.precision", CHANGE_KNOWINGLY},
    {"cluster", CHANGE_FREELY},
    {"parallel", CHANGE_FREELY},
    {"training", CHANGE_KNOWINGLY}, /* phases, rates, optimizer's numbers, batch norm, ... */
    {"training.dataset", CHANGE_NEVER},
    {"training.dataset.validation_images", CHANGE_KNOWINGLY},
    {"training.dataset.path", CHANGE_KNOWINGLY}, /* the same images may lie elsewhere */
    {"training.dataset.validation_path", CHANGE_KNOWINGLY},
    {"training.dataset.augment", CHANGE_KNOWINGLY},
    {"training.dataset.strict", CHANGE_FREELY},
    {"training.optimizer.name", CHANGE_NEVER},
    {"training.startup", CHANGE_FREELY},
    {"training.target", CHANGE_FREELY}, /* no run has one, nor the two below */
    {"training.recipe", CHANGE_FREELY},
    {"training.extrapolate", CHANGE_FREELY},
    {"training.evaluate_every", CHANGE_FREELY},
    {"training.checkpoint", CHANGE_FREELY},
    {"allreduce", CHANGE_FREELY},
    {"baseline", CHANGE_FREELY},
    {"noise", CHANGE_FREELY},
    {"seed", CHANGE_KNOWINGLY},
    {"input", CHANGE_FREELY},
    {"measured", CHANGE_FREELY}, /* for calibrate */
    {NULL, CHANGE_KNOWINGLY},
};

/* Whether @key is @path, or below it. */
static bool is_within(const char *key, const char *path)
{
    return strcmp(key, path) == 0 || path_below(key, path);
}

/* A longer path is more precise, whatever the order. */
enum scenario_change scenario_change_of(const char *key)
{
    const struct scenario_rule *found = NULL, *rule = scenario_rules;
    for (; rule->path; rule++)
        if (is_within(key, rule->path) && (!found || strlen(rule->path) > strlen(found->path)))
            found = rule;
    return found ? found->change : CHANGE_KNOWINGLY;
}

struct json *scenario_values(const struct scenario *scenario, const struct plan *plan)
{
    struct scenario resolved = *scenario;
    const struct scenario_phase *given = scenario->training.phase.item;
    AUTOFREE struct scenario_phase *phase = base_alloc(plan->phase_count, sizeof(*phase));
    for (int32_t i = 0; i < plan->phase_count; i++)
        phase[i] = (struct scenario_phase){.epochs = given[i].epochs,
                                           .global_batch = plan->phase[i].global_batch};
    resolved.training.phase.item = phase;
    return field_values(&scenario_table, &resolved);
}

int scenario_check_key(const char *key, struct err *err)
{
    AUTOFREE const char **names = base_alloc(scenario_table.count + 1, sizeof(*names));
    bool known = false;
    for (int32_t i = 0; i < scenario_table.count && !known; i++) {
        const struct field *field = &scenario_table.field[i];
        names[i] = field->path;
        known = is_within(field->path, key) ||
                (field->kind == FIELD_LIST && path_below(key, field->path));
    }
    const char *nearest = known ? NULL : base_nearest(key, names);
    if (known)
        return 0;
    return err_usage(err, "'%s' is no key of a job%s%s%s", key, nearest ? "; did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
}

/* ---- comparing ---- */

/* What was found so far. */
struct comparison {
    const struct json *before, *now;
    const char *const *allowed;
    int32_t count;
    struct text refused, taken, free;
};

static char *print(const struct json *value, int32_t digits)
{
    struct text text = {0};
    if (value)
        json_print_line(&text, value, digits);
    else
        text_add(&text, "not given");
    return text.data;
}

static bool is_allowed(const struct comparison *comparison, const char *key)
{
    for (int32_t i = 0; i < comparison->count; i++)
        if (is_within(key, comparison->allowed[i]))
            return true;
    return false;
}

/* A checkpoint may be anybody's: its keys do not reach the terminal as they are. */
static char *printable(const char *key)
{
    char *copy = base_copy(key);
    for (char *c = copy; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return copy;
}

static void add_change(struct comparison *comparison, const char *found)
{
    enum scenario_change change = scenario_change_of(found);
    AUTOFREE char *key = printable(found);
    AUTOFREE char *old = print(json_get(comparison->before, found), 15);
    AUTOFREE char *new = print(json_get(comparison->now, found), 15);
    if (change == CHANGE_FREELY)
        text_add(&comparison->free, "%s %s: %s -> %s", comparison->free.length ? "," : "", key, old,
                 new);
    else if (change == CHANGE_KNOWINGLY && is_allowed(comparison, found))
        text_add(&comparison->taken, "note: changed as allowed: %s: %s -> %s\n", key, old, new);
    else
        text_add(&comparison->refused, "\n  %s: %s -> %s: %s%s", key, old, new,
                 change == CHANGE_NEVER ? "a run cannot change it"
                                        : "to change it knowingly: --allow-change ",
                 change == CHANGE_NEVER ? "" : key);
}

static void compare_key(struct comparison *comparison, const char *key)
{
    AUTOFREE char *old = print(json_get(comparison->before, key), 17);
    AUTOFREE char *new = print(json_get(comparison->now, key), 17);
    if (strcmp(old, new) != 0)
        add_change(comparison, key);
}

int scenario_compare(const char *name, const struct json *before, const struct json *now,
                     const char *const *allowed, int32_t count, struct text *notes, struct err *err)
{
    struct comparison comparison = {before, now, allowed, count, {0}, {0}, {0}};
    for (const char *key = NULL; (key = json_next_key(now, key));)
        compare_key(&comparison, key);
    for (const char *key = NULL; (key = json_next_key(before, key));)
        if (!json_get(now, key))
            compare_key(&comparison, key);
    if (comparison.taken.length)
        text_append(notes, comparison.taken.data, comparison.taken.length);
    if (comparison.free.length)
        text_add(notes, "note: changed, the result stays:%s\n", comparison.free.data);
    int failed = 0;
    if (comparison.refused.length)
        failed = err_add(err, "%s: the job is not the one that wrote it:%s", name,
                         comparison.refused.data);
    text_release(&comparison.refused);
    text_release(&comparison.taken);
    text_release(&comparison.free);
    return failed;
}
