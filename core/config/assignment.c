#include "core/config/document.h"

/* Remove @gone from the mapping that holds it, below @node.  Returns whether it was found. */
static bool take_away(struct node *node, const struct node *gone)
{
    for (int32_t i = 0; i < node->child_count; i++) {
        struct node *child = node->child[i];
        if (child == gone && node->kind == NODE_MAPPING) {
            node_remove(node, gone);
            return true;
        }
        if (take_away(child, gone))
            return true;
    }
    return false;
}

static struct origin part_origin(const struct document_text *source, int64_t start, int64_t length)
{
    return (struct origin){
        .file = source->name,
        .source = source->line[0],
        .column = (int32_t)start + 1,
        .width = length > 0 ? (int32_t)length : 1,
    };
}

static struct node *sequence_item(const struct node *sequence, const char *name,
                                  const struct origin *origin, struct err *err)
{
    char *end;
    long index = strtol(name, &end, 10);
    if (!*end && *name != '-' && *name != '+' && index < sequence->child_count)
        return sequence->child[index];
    for (int32_t i = 0; i < sequence->child_count; i++) {
        const struct node *own = node_get(sequence->child[i], "name");
        if (own && own->kind == NODE_SCALAR && !strcmp(own->text, name))
            return sequence->child[i];
    }
    origin_error(origin, err,
                 "'%s' is not an index of this list of %d, counted from 0, and no name in it", name,
                 sequence->child_count);
    return NULL;
}

/* The child called @name, made when a mapping has none. */
static struct node *child_to_set(struct document *document, struct node *node, const char *name,
                                 const struct origin *origin, struct err *err)
{
    if (node->kind == NODE_SEQUENCE)
        return sequence_item(node, name, origin, err);
    if (node->kind == NODE_SCALAR) {
        origin_error(origin, err, "'%s' cannot be set inside the single value '%s'", name,
                     node->text);
        return NULL;
    }
    struct node *child = node_get(node, name);
    if (child)
        return child;
    child = document_add_node(document, NODE_MAPPING, origin);
    child->key = base_copy(name);
    node_add(node, child);
    return child;
}

/* One assignment on its way down the document. */
struct assigning {
    struct document *document;
    const struct document_text *source;
    const char *text; /* "cluster.nodes=512" */
    const char
        *value; /* the same with blanks before the value, so that columns count from the key */
    struct err *err;
};

static int give_value(const struct assigning *a, struct node *target)
{
    struct node *value =
        document_parse(a->document, a->source, a->value, (int64_t)strlen(a->value), a->err);
    if (!value)
        return -1;
    node_swap(target, value);
    if (node_is_null(target))
        take_away(a->document->root, target);
    return 0;
}

static int assign(const struct assigning *a, struct node *node, const char *start);

/* @node is what the part before @after names. */
static int go_on(const struct assigning *a, struct node *node, const char *after,
                 const struct origin *origin)
{
    if (*after != '=')
        return assign(a, node, after + 1);
    node->key_origin = *origin;
    return give_value(a, node);
}

/* Give the value to what the key from @start on names below @node: "a.b", "a[0]", "a.0", or "a[*]"
 * for every item. */
static int assign(const struct assigning *a, struct node *node, const char *start)
{
    const char *end = start + strcspn(start, ".[]="), *after = end + (*end == ']');
    struct origin origin = part_origin(a->source, start - a->text, end - start);
    bool index = start > a->text && start[-1] == '[';
    if (end == start)
        return origin_error(&origin, a->err, "a part of the key is empty");
    if (index != (*end == ']') || !*after || !strchr(".[=", *after))
        return origin_error(&origin, a->err, "an index is written as in training.phases[0]");
    if (index && node->kind == NODE_MAPPING)
        return origin_error(&origin, a->err,
                            "an index names an item of a list; there is no list here");
    AUTOFREE char *name = base_format("%.*s", (int)(end - start), start);
    int failed = 0;
    if (node->kind == NODE_SEQUENCE && !strcmp(name, "*")) {
        for (int32_t i = 0; i < node->child_count && !failed; i++)
            failed = go_on(a, node->child[i], after, &origin);
    } else {
        struct node *child = child_to_set(a->document, node, name, &origin, a->err);
        failed = child ? go_on(a, child, after, &origin) : -1;
    }
    return failed;
}

int yaml_set(struct document *document, const char *assignment, struct err *err)
{
    return yaml_set_below(document, "", assignment, err);
}

int yaml_set_below(struct document *document, const char *prefix, const char *assignment,
                   struct err *err)
{
    struct document_text *source =
        document_add_text(document, "--set", assignment, (int64_t)strlen(assignment), false, err);
    if (!source)
        return -1;
    struct origin whole = part_origin(source, 0, (int64_t)strlen(source->line[0]));
    const char *equals = strchr(assignment, '=');
    if (!equals || source->line_count > 1)
        return origin_error(&whole, err, "key=value is expected, as in cluster.nodes=512");
    int32_t parts = 1;
    for (const char *c = assignment; c < equals; c++)
        parts += *c == '.' || *c == '[';
    if (parts > DOCUMENT_DEPTH_LIMIT)
        return origin_error(&whole, err, "the key has %d parts; at most %d lead to a value", parts,
                            DOCUMENT_DEPTH_LIMIT);
    AUTOFREE char *value = base_copy(assignment);
    memset(value, ' ', (size_t)(equals + 1 - assignment));
    struct assigning a = {document, source, assignment, value, err};
    return assign(&a, document->root, assignment + strlen(prefix));
}
