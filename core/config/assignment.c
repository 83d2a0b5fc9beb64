#include <stdlib.h>
#include <string.h>

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
    origin_error(origin, err, "'%s' is not an index of this list of %d, counted from 0", name,
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
    child = document_add_node(document, NODE_MAPPING);
    child->key = base_copy(name);
    child->key_origin = child->origin = *origin;
    node_add(node, child);
    return child;
}

/* The node named by the key of the assignment. */
static struct node *find_target(struct document *document, const struct document_text *source,
                                const char *assignment, struct err *err)
{
    struct node *node = document->root;
    const char *start = assignment, *end;
    do {
        end = start + strcspn(start, ".=");
        struct origin origin = part_origin(source, start - assignment, end - start);
        if (end == start) {
            origin_error(&origin, err, "a part of the key is empty");
            return NULL;
        }
        char *name = strndup(start, (size_t)(end - start));
        node = child_to_set(document, node, name, &origin, err);
        free(name);
        if (node && *end == '=')
            node->key_origin = origin;
        start = end + 1;
    } while (node && *end == '.');
    return node;
}

/* The old value takes the new one's place, and is released with the document. */
static void swap_values(struct node *a, struct node *b)
{
    struct node old = *a;
    a->kind = b->kind;
    a->text = b->text;
    a->origin = b->origin;
    a->child = b->child;
    a->child_count = b->child_count;
    b->text = old.text;
    b->child = old.child;
}

int yaml_set(struct document *document, const char *assignment, struct err *err)
{
    struct document_text *source =
        document_add_text(document, "--set", assignment, (int64_t)strlen(assignment), false, err);
    if (!source)
        return -1;
    struct origin whole = part_origin(source, 0, (int64_t)strlen(source->line[0]));
    const char *equals = strchr(assignment, '=');
    if (!equals || source->line_count > 1)
        return origin_error(&whole, err, "key=value is expected, as in cluster.nodes=512");
    char *padded = base_copy(assignment); /* so that columns count from the key on */
    memset(padded, ' ', (size_t)(equals + 1 - assignment));
    struct node *value = document_parse(document, source, padded, (int64_t)strlen(padded), err);
    free(padded);
    struct node *target = value ? find_target(document, source, assignment, err) : NULL;
    if (!target)
        return -1;
    swap_values(target, value);
    if (node_is_null(target))
        take_away(document->root, target);
    return 0;
}
