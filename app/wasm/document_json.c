/** @file
 * Takes the place of core/config/yaml.c in WebAssembly: document_parse() of JSON, which is all that
 * a page holds, into the same nodes.  Numbers and null stay text, as there.
 */

#include "core/config/document.h"

struct reader {
    struct document *document;
    const struct document_text *source;
    const char *at;
    struct err *err;
};

static void *fail(const struct reader *r, const char *what)
{
    struct origin origin = {.file = r->source->name, .source = r->source->line[0], .width = 1};
    origin_error(&origin, r->err, "JSON: %s before '%.20s'", what, r->at);
    return NULL;
}

static char peek(struct reader *r)
{
    r->at += strspn(r->at, " ");
    return *r->at;
}

/* A quoted text with the escapes of JSON.stringify(). */
static char *read_text(struct reader *r)
{
    static const char letter[] = "ntrbf", meaning[] = "\n\t\r\b\f";
    struct text out = {0};
    text_append(&out, NULL, 0);
    for (r->at++; *r->at && *r->at != '"'; r->at++) {
        char c = *r->at;
        if (c == '\\' && *++r->at) {
            const char *found = strchr(letter, *r->at);
            c = found ? meaning[found - letter] : *r->at;
            if (c == 'u' && strlen(r->at) > 4) { /* control characters alone */
                char digits[5] = {r->at[1], r->at[2], r->at[3], r->at[4]};
                c = (char)strtol(digits, NULL, 16);
                r->at += 4;
            }
        }
        text_append(&out, &c, 1);
    }
    if (*r->at == '"') {
        r->at++;
        return out.data;
    }
    text_release(&out);
    return fail(r, "a text does not end");
}

static struct node *read_value(struct reader *r, int depth);

static struct node *read_item(struct reader *r, enum node_kind kind, int depth)
{
    char *key = NULL;
    if (kind == NODE_MAPPING) {
        if (peek(r) != '"')
            return fail(r, "no key");
        key = read_text(r);
        if (!key || peek(r) != ':') {
            free(key);
            return fail(r, "no colon");
        }
        r->at++;
    }
    struct node *child = read_value(r, depth);
    if (child)
        child->key = key;
    else
        free(key);
    return child;
}

static struct node *read_items(struct reader *r, struct node *node, char end, int depth)
{
    r->at++;
    if (peek(r) == end) {
        r->at++;
        return node;
    }
    for (;;) {
        struct node *child = read_item(r, node->kind, depth + 1);
        if (!child)
            return NULL;
        node_add(node, child);
        char next = peek(r);
        if (next != ',' && next != end)
            return fail(r, "neither comma nor end");
        r->at++;
        if (next == end)
            return node;
    }
}

static struct node *read_value(struct reader *r, int depth)
{
    char c = peek(r);
    if (depth > DOCUMENT_DEPTH_LIMIT)
        return fail(r, "too deep");
    enum node_kind kind = c == '{' ? NODE_MAPPING : c == '[' ? NODE_SEQUENCE : NODE_SCALAR;
    struct origin origin = {.file = r->source->name, .source = r->source->line[0], .width = 1};
    struct node *node = document_add_node(r->document, kind, &origin);
    if (kind != NODE_SCALAR)
        return read_items(r, node, c == '{' ? '}' : ']', depth);
    if (c == '"') {
        node->text = read_text(r);
    } else {
        size_t length = strcspn(r->at, ",]} ");
        node->text = base_format("%.*s", (int)length, r->at);
        r->at += length;
    }
    return node->text ? node : NULL;
}

struct node *document_parse(struct document *document, const struct document_text *source,
                            const char *text, int64_t length, struct err *err)
{
    struct reader reader = {document, source, text, err};
    struct node *root = read_value(&reader, 1);
    return root && peek(&reader) ? fail(&reader, "something follows") : root;
}
