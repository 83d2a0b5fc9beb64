#include "core/config/document.h"

#include <assert.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 4 << 20 /* [bytes] of one file */ };

struct node *document_add_node(struct document *document, enum node_kind kind)
{
    document->node = base_grow(document->node, document->node_count + 1, &document->node_capacity,
                               sizeof(struct node *));
    struct node *node = base_alloc(1, sizeof(*node));
    node->kind = kind;
    document->node[document->node_count++] = node;
    return node;
}

void node_add(struct node *parent, struct node *child)
{
    int32_t count = parent->child_count++;
    if ((count & (count - 1)) == 0) { /* full at powers of two */
        int64_t capacity = count;
        parent->child = base_grow(parent->child, count ? 2 * count : 1, &capacity, sizeof(child));
    }
    parent->child[count] = child;
}

struct node *node_get(const struct node *node, const char *key)
{
    if (node->kind == NODE_MAPPING)
        for (int32_t i = 0; i < node->child_count; i++)
            if (strcmp(node->child[i]->key, key) == 0)
                return node->child[i];
    return NULL;
}

/* ---- texts ---- */

/* The length of the UTF-8 character at @text, or 0 when there is none, or one YAML forbids. */
static int32_t character_length(const char *text, const char *end)
{
    unsigned char first = (unsigned char)*text;
    if (first < 0x80)
        return (first >= ' ' && first != 0x7f) || first == '\t' || first == '\r' || first == '\n';
    if (first < 0xc2 || first > 0xf4)
        return 0;
    int32_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (end - text < length)
        return 0;
    for (int32_t i = 1; i < length; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    unsigned char second = (unsigned char)text[1];
    bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                 (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
    return wrong ? 0 : length; /* too long a form, a surrogate, or beyond Unicode */
}

static void split_lines(struct document_text *source)
{
    int64_t capacity = 0;
    char *start = source->text;
    for (char *c = start; c; start = c + 1) {
        c = strchr(start, '\n');
        source->line =
            base_grow(source->line, source->line_count + 1, &capacity, sizeof(*source->line));
        source->line[source->line_count++] = start;
        if (!c)
            break;
        *c = '\0';
    }
}

/* Keep @text for messages; characters that could garble a terminal become '?'. @return the position
 * of the first byte that is not text, or -1. */
static int64_t copy_text(struct document_text *source, const char *text, int64_t length)
{
    int64_t wrong = -1;
    struct text copy = {0};
    text_append(&copy, text, length);
    for (int64_t i = 0; i < length;) {
        int32_t step = character_length(text + i, text + length);
        if (step == 0) {
            wrong = wrong < 0 ? i : wrong;
            copy.data[i] = '?';
        } else if (copy.data[i] == '\t' || copy.data[i] == '\r') {
            copy.data[i] = ' ';
        }
        i += step ? step : 1;
    }
    source->text = copy.data;
    split_lines(source);
    return wrong;
}

static int bad_byte(const struct document_text *source, const char *text, int64_t at,
                    struct err *err)
{
    struct origin origin = {.file = source->name, .column = 1, .width = 1};
    int32_t line = 0;
    for (int64_t i = 0; i < at; i++) {
        origin.column++;
        if (text[i] == '\n') {
            line++;
            origin.column = 1;
        } else if (((unsigned char)text[i] & 0xc0) == 0x80) {
            origin.column--;
        }
    }
    origin.line = source->numbered ? line + 1 : 0;
    origin.source = source->line[line];
    return origin_error(&origin, err, "byte 0x%02x is not UTF-8 text", (unsigned char)text[at]);
}

/* Add a text to the document.  NULL, with a message: it holds bytes that are not text. */
static struct document_text *add_text(struct document *document, const char *name, const char *text,
                                      int64_t length, bool numbered, struct err *err)
{
    struct document_text *source = base_alloc(1, sizeof(*source));
    source->name = base_copy(name);
    source->numbered = numbered;
    document->part = base_grow(document->part, document->part_count + 1, &document->part_capacity,
                               sizeof(source));
    document->part[document->part_count++] = source;
    if (document->part_count > 1)
        text_add(&document->text, "\n");
    text_append(&document->text, text, length);
    int64_t wrong = copy_text(source, text, length);
    if (wrong >= 0) {
        bad_byte(source, text, wrong, err);
        return NULL;
    }
    return source;
}

/* ---- files ---- */

/* @return -1 with errno set, EFBIG if the file is too large. */
static int read_bytes(const char *path, struct text *out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return -1;
    char chunk[4096];
    size_t count;
    text_append(out, NULL, 0);
    while (out->length <= FILE_LIMIT && (count = fread(chunk, 1, sizeof(chunk), file)) > 0)
        text_append(out, chunk, (int64_t)count);
    int reason = ferror(file) ? errno : out->length > FILE_LIMIT ? EFBIG : 0;
    fclose(file);
    errno = reason;
    return reason ? -1 : 0;
}

/* A file being read, and the file whose `extends` names it. */
struct chain {
    char real[PATH_MAX];
    const struct chain *outer;
    const struct origin *asked; /* NULL for the outermost */
};

static int cannot_read(const char *path, const struct chain *chain, struct err *err)
{
    char *message = base_format("cannot read '%s': %s", path, strerror(errno));
    if (chain->asked)
        origin_report(chain->asked, 66, message, err);
    else
        err_add_code(err, 66, "error: %s", message);
    free(message);
    return -1;
}

static struct node *parse_root(struct document *document, const char *name, const char *text,
                               int64_t length, struct err *err)
{
    struct document_text *source = add_text(document, name, text, length, true, err);
    struct node *root = source ? document_parse(document, source, text, length, err) : NULL;
    if (!root || root->kind == NODE_MAPPING)
        return root;
    origin_error(&root->origin, err, "keys and values are expected here, as in 'version: 1'");
    return NULL;
}

static void remove_child(struct node *node, const struct node *child)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < node->child_count; i++)
        if (node->child[i] != child)
            node->child[kept++] = node->child[i];
    node->child_count = kept;
}

static void replace_child(struct node *node, const struct node *old, struct node *child)
{
    for (int32_t i = 0; i < node->child_count; i++)
        if (node->child[i] == old)
            node->child[i] = child;
}

static bool is_null(const struct node *node)
{
    return node->kind == NODE_SCALAR && (!strcmp(node->text, "null") || !strcmp(node->text, "~"));
}

/* Remove @gone from the mapping that holds it, below @node.  Returns whether it was found. */
static bool take_away(struct node *node, const struct node *gone)
{
    for (int32_t i = 0; i < node->child_count; i++) {
        struct node *child = node->child[i];
        if (child == gone && node->kind == NODE_MAPPING) {
            remove_child(node, gone);
            return true;
        }
        if (take_away(child, gone))
            return true;
    }
    return false;
}

/* Put the keys of @over into @base; null removes a key of @base. */
static void merge(struct node *base, const struct node *over)
{
    for (int32_t i = 0; i < over->child_count; i++) {
        struct node *child = over->child[i];
        struct node *old = node_get(base, child->key);
        if (!old)
            node_add(base, child);
        else if (old->kind == NODE_MAPPING && child->kind == NODE_MAPPING)
            merge(old, child);
        else if (is_null(child))
            remove_child(base, old);
        else
            replace_child(base, old, child);
    }
    base->origin = over->origin;
    base->key_origin = over->key_origin;
}

static struct node *read_path(struct document *document, const char *path, struct chain *chain,
                              struct err *err);

static struct node *read_extended(struct document *document, const struct node *extends,
                                  const char *path, const struct chain *outer, struct err *err)
{
    if (extends->kind != NODE_SCALAR || !*extends->text) {
        origin_error(&extends->origin, err, "extends takes the path of another file");
        return NULL;
    }
    char *copy = base_copy(path);
    const char *folder = dirname(copy);
    bool as_it_is = *extends->text == '/' || strcmp(folder, ".") == 0;
    char *base = as_it_is ? base_copy(extends->text) : base_format("%s/%s", folder, extends->text);
    struct node *root =
        read_path(document, base, &(struct chain){.outer = outer, .asked = &extends->origin}, err);
    free(base);
    free(copy);
    return root;
}

static struct node *read_path(struct document *document, const char *path, struct chain *chain,
                              struct err *err)
{
    struct text text = {0};
    struct node *root = NULL;
    if (!realpath(path, chain->real) || read_bytes(path, &text)) {
        cannot_read(path, chain, err);
        text_release(&text);
        return NULL;
    }
    for (const struct chain *outer = chain->outer; outer; outer = outer->outer) {
        if (strcmp(outer->real, chain->real))
            continue;
        text_release(&text);
        origin_error(chain->asked, err, "extends forms a circle: '%s' is being read", path);
        return NULL;
    }
    root = parse_root(document, path, text.data, text.length, err);
    text_release(&text);
    struct node *extends = root ? node_get(root, "extends") : NULL;
    if (!extends)
        return root;
    struct node *base = read_extended(document, extends, path, chain, err);
    if (!base)
        return NULL;
    remove_child(root, extends);
    merge(base, root);
    return base;
}

/* ---- assignments ---- */

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
        add_text(document, "--set", assignment, (int64_t)strlen(assignment), false, err);
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
    if (is_null(target))
        take_away(document->root, target);
    return 0;
}

/* ---- the interface ---- */

static struct document *finish(struct document *document)
{
    if (document->root)
        return document;
    yaml_free(document);
    return NULL;
}

struct document *yaml_read_file(const char *path, struct err *err)
{
    struct document *document = base_alloc(1, sizeof(*document));
    document->root = read_path(document, path, &(struct chain){.outer = NULL}, err);
    return finish(document);
}

struct document *yaml_read_text(const char *name, const char *text, struct err *err)
{
    struct document *document = base_alloc(1, sizeof(*document));
    struct node *root = parse_root(document, name, text, (int64_t)strlen(text), err);
    struct node *extends = root ? node_get(root, "extends") : NULL;
    if (extends)
        origin_error(&extends->key_origin, err, "extends works only in files");
    document->root = extends ? NULL : root;
    return finish(document);
}

void yaml_free(struct document *document)
{
    if (!document)
        return;
    for (int64_t i = 0; i < document->node_count; i++) {
        free(document->node[i]->text);
        free(document->node[i]->key);
        free(document->node[i]->child);
        free(document->node[i]);
    }
    for (int64_t i = 0; i < document->part_count; i++) {
        free(document->part[i]->name);
        free(document->part[i]->text);
        free(document->part[i]->line);
        free(document->part[i]);
    }
    free(document->node);
    free(document->part);
    text_release(&document->text);
    free(document);
}

struct node *yaml_root(const struct document *document)
{
    return document->root;
}

const char *yaml_source(const struct document *document)
{
    return document->text.data;
}
