#include "core/config/unknown.h"

#include "core/base/unit.h"
#include "core/config/document.h"

/* A document on its way to one value for each key. */
struct settling {
    struct unknowns *unknowns;
    struct document *document;
    struct err *err;
};

bool node_is_unknown(const struct node *node)
{
    return node_get(node, "low") || node_get(node, "high") || node_get(node, "one_of") ||
           (node_get(node, "spread") && node_get(node, "value") && !node_get(node, "source"));
}

/* ---- numbers ---- */

/* A number as the file has it. */
struct number {
    double value; /* SI */
    enum unit unit;
    bool whole;
};

static bool measures(enum unit unit, const char *text, double *value)
{
    AUTORELEASE(err) struct err ignored = {0};
    return unit_parse(unit, text, value, &ignored) == 0;
}

static bool is_whole(const char *text)
{
    return *text && !text[strspn(text, "0123456789")];
}

/* What @a and @b measure, if it is the same. */
static bool read_numbers(const struct node *a, const struct node *b, struct number *first,
                         struct number *second)
{
    for (int32_t unit = 0; unit < UNIT_COUNT; unit++)
        if (a->kind == NODE_SCALAR && b->kind == NODE_SCALAR &&
            measures((enum unit)unit, a->text, &first->value) &&
            measures((enum unit)unit, b->text, &second->value)) {
            first->unit = second->unit = (enum unit)unit;
            first->whole = second->whole =
                unit == UNIT_BYTES || (is_whole(a->text) && is_whole(b->text));
            return true;
        }
    return false;
}

/* As a file would have it; the caller frees it. */
static char *write_number(struct number number, double value)
{
    static const struct {
        double scale;
        const char *unit;
    } forms[] = {
        [UNIT_NONE] = {1, ""},
        [UNIT_AMOUNT] = {1, ""},
        [UNIT_FRACTION] = {1, ""},
        [UNIT_BYTES] = {1, " B"},
        [UNIT_BYTES_PER_SECOND] = {1, " B/s"},
        [UNIT_SECONDS] = {1, " s"},
        [UNIT_FLOPS] = {1e-9, " GFLOP/s"},
        [UNIT_EPOCHS] = {1, ""},
        [UNIT_IMAGES_PER_SECOND] = {1, " images/s"},
        [UNIT_SAMPLES_PER_SECOND] = {1, " samples/s"},
        [UNIT_WATTS] = {1, " W"},
        [UNIT_CARBON] = {3.6e9, " g/kWh"},
    };
    static_assert(ARRAY_SIZE(forms) == UNIT_COUNT, "one per unit");
    return base_format("%.17g%s", number.whole ? round(value) : value * forms[number.unit].scale,
                       forms[number.unit].unit);
}

/* Below which a standard normal number stays with probability @p. */
static double normal_quantile(double p)
{
    double low = -9, high = 9;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(erfc(-middle * M_SQRT1_2) / 2 < p ? &low : &high) = middle;
    }
    return low;
}

/* ---- one unknown ---- */

/* NAN: the centre. */
static double next_quantile(const struct unknowns *unknowns)
{
    bool given = unknowns->quantile && unknowns->count < unknowns->quantile_count;
    return given ? unknowns->quantile[unknowns->count] : NAN;
}

double unknown_choice(double quantile, double values)
{
    return floor(fmin(quantile * values, values - 1));
}

static struct unknown *add(struct unknowns *u, const char *path, int32_t choices, char *range)
{
    BASE_NEXT(u->item, u->count) =
        (struct unknown){.key = base_copy(path), .choices = choices, .range = range};
    return &u->item[u->count - 1];
}

/* The drawn number is where @like was. */
static struct node *number_node(struct settling *s, const struct node *like, char *text)
{
    struct node *node = document_add_node(s->document, NODE_SCALAR, &like->origin);
    node->text = text;
    return node;
}

static struct node *draw_between(struct settling *s, const char *path, const struct node *node)
{
    const struct node *low = node_get(node, "low"), *high = node_get(node, "high");
    struct number first, second;
    if (!low || !high) {
        origin_error(&node->origin, s->err, "'%s' is missing: an unknown number is between both",
                     low ? "high" : "low");
        return NULL;
    }
    if (!read_numbers(low, high, &first, &second) || first.value >= second.value) {
        origin_error(&low->origin, s->err,
                     "low and high are two numbers of the same unit, the lower one first");
        return NULL;
    }
    double quantile = next_quantile(s->unknowns), width = second.value - first.value;
    double value = first.value + (isnan(quantile) ? 0.5 : quantile) * width;
    if (first.whole && !isnan(quantile)) /* each whole number equally likely */
        value = first.value + unknown_choice(quantile, width + 1);
    add(s->unknowns, path, 2, base_format("%s to %s", low->text, high->text))->values =
        first.whole ? width + 1 : 0;
    return number_node(s, node, write_number(first, value));
}

/* As the file might have it on one line. */
static void write_node(struct text *out, const struct node *node)
{
    bool mapping = node->kind == NODE_MAPPING;
    if (node->kind == NODE_SCALAR) {
        text_add(out, "%s", node->text);
        return;
    }
    text_add(out, mapping ? "{" : "[");
    for (int32_t i = 0; i < node->child_count; i++) {
        text_add(out, "%s%s%s", i ? ", " : "", mapping ? node->child[i]->key : "",
                 mapping ? ": " : "");
        write_node(out, node->child[i]);
    }
    text_add(out, mapping ? "}" : "]");
}

enum { SHORT = 40 /* characters that are shown of one choice */ };

static void add_choice(struct text *range, const struct node *choice)
{
    AUTORELEASE(text) struct text text = {0};
    write_node(&text, choice);
    if (text.length <= SHORT)
        text_add(range, "%s", text.data);
    else
        text_add(range, "that of line %d", choice->origin.line);
}

/* Then what is drawn would depend on what was drawn before. */
static bool holds_unknown(const struct node *node)
{
    bool holds = node_is_unknown(node);
    for (int32_t i = 0; i < node->child_count && !holds; i++)
        holds = holds_unknown(node->child[i]);
    return holds;
}

static struct node *draw_one(struct settling *s, const char *path, const struct node *node)
{
    const struct node *list = node_get(node, "one_of");
    if (list->kind != NODE_SEQUENCE || list->child_count < 2) {
        origin_error(&list->origin, s->err,
                     "one_of takes a list of two or more values, as in one_of: [16, 32]");
        return NULL;
    }
    if (holds_unknown(list)) {
        origin_error(&list->origin, s->err, "an unknown input cannot be inside another one");
        return NULL;
    }
    double quantile = next_quantile(s->unknowns);
    int32_t count = list->child_count;
    int32_t index = isnan(quantile) ? 0 : (int32_t)unknown_choice(quantile, count);
    struct text range = {0};
    for (int32_t i = 0; i < count; i++) {
        text_add(&range, "%s", i == 0 ? "" : i < count - 1 ? ", " : " or ");
        add_choice(&range, list->child[i]);
    }
    struct unknown *unknown = add(s->unknowns, path, count, range.data);
    unknown->listed = true;
    unknown->values = count;
    return list->child[index];
}

static struct node *draw_about(struct settling *s, const char *path, const struct node *node)
{
    const struct node *value = node_get(node, "value"), *spread = node_get(node, "spread");
    struct number centre;
    double sd;
    if (spread->kind != NODE_SCALAR || !measures(UNIT_FRACTION, spread->text, &sd) || sd <= 0 ||
        sd > 10) {
        origin_error(&spread->origin, s->err, "a spread is above 0 and at most 10, as in 40 %%");
        return NULL;
    }
    if (!read_numbers(value, value, &centre, &centre) || centre.value <= 0) {
        origin_error(&value->origin, s->err, "a spread belongs to a number above 0");
        return NULL;
    }
    double quantile = next_quantile(s->unknowns);
    double drawn = centre.value * (isnan(quantile) ? 1 : exp(sd * normal_quantile(quantile)));
    add(s->unknowns, path, 0, base_format("%s, spread %s", value->text, spread->text));
    return number_node(s, node, write_number(centre, centre.whole ? fmax(1, drawn) : drawn));
}

/* Keys that may stand beside @node's own; refuses others. */
static int check_beside(const struct settling *s, const struct node *node, bool *sourced)
{
    static const char *const forms[][5] = {{"one_of", "source", "kind", NULL},
                                           {"low", "high", "source", "kind", NULL},
                                           {"value", "spread", NULL}};
    const char *const *known = forms[node_get(node, "one_of")                          ? 0
                                     : node_get(node, "low") || node_get(node, "high") ? 1
                                                                                       : 2];
    *sourced = false;
    for (int32_t i = 0; i < node->child_count; i++) {
        const struct node *child = node->child[i];
        int32_t k = 0;
        while (known[k] && strcmp(known[k], child->key))
            k++;
        if (!known[k])
            return origin_error(&child->key_origin, s->err,
                                "'%s' has no place in an unknown input; the forms are {low: 16, "
                                "high: 64}, {one_of: [16, 32]} and {value: 10 us, spread: 40 %%}",
                                child->key);
        *sourced |= !strcmp(child->key, "source") || !strcmp(child->key, "kind");
    }
    return 0;
}

/* @node becomes the value that was drawn, with its source where the file gives one. */
static void replace(struct node *node, struct node *drawn, bool sourced)
{
    static const char *const gone[] = {"low", "high", "one_of", "value", "spread"};
    if (sourced) {
        for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
            if (node_get(node, gone[i]))
                node_remove(node, node_get(node, gone[i]));
        free(drawn->key);
        drawn->key = base_copy("value");
        node_add(node, drawn);
    } else {
        node_swap(node, drawn); /* the document releases the old one */
    }
    node->drawn = drawn->drawn = true;
}

static int settle_unknown(struct settling *s, const char *path, struct node *node)
{
    bool sourced;
    if (!s->unknowns)
        return origin_error(&node->origin, s->err,
                            "%s is not known here, and only predictions can be made without it; "
                            "give it one value, or --set %s=VALUE",
                            path, path);
    if (s->unknowns->count == UNKNOWN_LIMIT)
        return origin_error(&node->origin, s->err, "a job has at most %d unknown inputs",
                            UNKNOWN_LIMIT);
    if (check_beside(s, node, &sourced))
        return -1;
    struct node *drawn = node_get(node, "one_of") ? draw_one(s, path, node)
                         : node_get(node, "low") || node_get(node, "high")
                             ? draw_between(s, path, node)
                             : draw_about(s, path, node);
    if (!drawn)
        return -1;
    replace(node, drawn, sourced);
    return 0;
}

/* ---- all of them ---- */

static int settle(struct settling *s, const char *path, struct node *node)
{
    if (node != s->document->root && node_is_unknown(node) && settle_unknown(s, path, node))
        return -1;
    int failed = 0;
    for (int32_t i = 0; i < node->child_count; i++) {
        struct node *child = node->child[i];
        bool dotted = *path && path[strlen(path) - 1] != '.';
        AUTOFREE char *below = node->kind == NODE_SEQUENCE
                                   ? base_format("%s[%d]", path, i)
                                   : base_format("%s%s%s", path, dotted ? "." : "", child->key);
        failed |= settle(s, below, child);
        if (node->kind == NODE_MAPPING && child->drawn && node_is_null(child)) {
            node_remove(node, child); /* "one of them is that it is not given" */
            i--;
        }
    }
    return failed;
}

int unknowns_settle(struct unknowns *unknowns, struct document *document, const char *prefix,
                    struct err *err)
{
    return settle(&(struct settling){unknowns, document, err}, prefix, document->root) ? -1 : 0;
}

int32_t unknowns_find(const struct unknowns *unknowns, const char *key)
{
    for (int32_t i = 0; i < unknowns->count; i++)
        if (!strcmp(unknowns->item[i].key, key))
            return i;
    return -1;
}

int unknowns_merge(struct unknowns *all, const struct unknowns *more, struct err *err)
{
    for (int64_t i = 0; i < more->count; i++) {
        const struct unknown *item = &more->item[i];
        if (unknowns_find(all, item->key) >= 0)
            continue;
        if (all->count == UNKNOWN_LIMIT)
            return err_add_code(err, 65, "the jobs have more than %d unknown inputs together",
                                UNKNOWN_LIMIT);
        struct unknown *copy = add(all, item->key, item->choices, base_copy(item->range));
        copy->listed = item->listed;
        copy->values = item->values;
    }
    return 0;
}

void unknowns_release(struct unknowns *unknowns)
{
    for (int64_t i = 0; i < unknowns->count; i++) {
        free(unknowns->item[i].key);
        free(unknowns->item[i].range);
    }
    free(unknowns->item);
    unknowns->item = NULL;
    unknowns->count = 0;
}
