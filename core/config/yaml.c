#include "core/config/yaml.h"

#include <libfyaml.h>

#include "core/config/document.h"

enum {
    NODE_LIMIT = 100000, /* aliases expanded: an alias bomb ends here */
    ANCHOR_LIMIT = 1000, /* they are searched one by one */
};

/* The meaning of `&name`. */
struct anchor {
    char *name;
    struct node *node;
};

struct reader {
    struct document *document;
    const struct document_text *source;
    const char *text;
    struct fy_parser *parser;
    struct fy_diag *diag;
    struct origin last; /* of the last event, for faults that libfyaml does not locate */
    struct anchor *anchor;
    int64_t anchor_count;
    struct err *err;
};

static struct origin origin_at(const struct document_text *source, int32_t line, int32_t column)
{
    if (line >= source->line_count) /* the end of the text, one line after the last */
        line = source->line_count - 1;
    return (struct origin){
        .file = source->name,
        .source = source->line[line],
        .line = source->numbered ? line + 1 : 0,
        .column = column + 1,
        .width = 1,
        .hidden = source->hidden,
    };
}

static void widen(struct origin *origin, const struct fy_mark *start, const struct fy_mark *end)
{
    if (end->line > start->line)
        origin->width = (int32_t)strlen(origin->source); /* printing clips it at the line's end */
    else if (end->column > start->column)
        origin->width = end->column - start->column;
}

static struct origin event_origin(const struct reader *reader, struct fy_event *event)
{
    const struct fy_mark *start = fy_event_start_mark(event);
    const struct fy_mark *end = fy_event_end_mark(event);
    bool empty = start && end && start->input_pos == end->input_pos; /* in libfyaml 0.8 */
    if (!start || !end || (empty && event->type == FYET_SCALAR))
        return reader->last; /* a missing value is located at its key */
    struct origin origin = origin_at(reader->source, start->line, start->column);
    widen(&origin, start, end);
    return origin;
}

/* libfyaml's message for a tab is about keys; we name the likely cause. */
static int tab_error(const struct reader *reader)
{
    int32_t line = 0;
    for (const char *start = reader->text; start; line++) {
        int32_t spaces = (int32_t)strspn(start, " ");
        if (start[spaces] == '\t') {
            struct origin origin = origin_at(reader->source, line, spaces);
            return origin_error(&origin, reader->err, "a tab indents this line; YAML needs spaces");
        }
        start = strchr(start, '\n');
        start = start ? start + 1 : NULL;
    }
    return 0;
}

static int syntax_error(struct reader *reader)
{
    if (tab_error(reader))
        return -1;
    bool located = false;
    struct fy_diag_error *error;
    void *position = NULL;
    while ((error = fy_diag_errors_iterate(reader->diag, &position))) {
        int32_t line = error->line > 0 ? error->line - 1 : 0;
        struct origin origin = origin_at(reader->source, line, error->column - 1);
        origin_error(&origin, reader->err, "%s", error->msg);
        located = true;
    }
    if (!located)
        origin_error(&reader->last, reader->err, "this cannot be read as YAML");
    return -1;
}

/* NULL: the text is wrong, and a message was added. */
static struct fy_event *next_event(struct reader *reader)
{
    struct fy_event *event = fy_parser_parse(reader->parser);
    if (!event) {
        syntax_error(reader);
        return NULL;
    }
    reader->last = event_origin(reader, event);
    return event;
}

static struct node *new_node(struct reader *reader, enum node_kind kind)
{
    if (reader->document->node_count >= NODE_LIMIT) {
        origin_error(&reader->last, reader->err, "more than %d values (with aliases expanded)",
                     NODE_LIMIT);
        return NULL;
    }
    return document_add_node(reader->document, kind, &reader->last);
}

/* The bytes of @token one by one: fy_token_get_text() of libfyaml 0.7.12 leaks when a text is put
 * together from many pieces.  Those of letters beyond ASCII are negative, too; -1 (0xff) is in no
 * UTF-8 text. */
static struct text token_text(struct fy_token *token)
{
    struct text text = {0};
    text_append(&text, NULL, 0);
    struct fy_token_iter *iterator = token ? fy_token_iter_create(token) : NULL;
    for (int byte; iterator && (byte = fy_token_iter_getc(iterator)) != -1;) {
        char piece = (char)byte;
        text_append(&text, &piece, 1);
    }
    if (iterator)
        fy_token_iter_destroy(iterator);
    return text;
}

/* NULL, with a message: an escape wrote a NUL, which would hide the rest of the text. */
static char *scalar_text(const struct reader *reader, struct fy_token *token)
{
    struct text text = token_text(token);
    if ((int64_t)strlen(text.data) == text.length)
        return text.data;
    text_release(&text);
    origin_error(&reader->last, reader->err, "a NUL character cannot be part of a text");
    return NULL;
}

static int keep_anchor(struct reader *reader, char *name, struct node *node)
{
    if (!name)
        return 0;
    if (reader->anchor_count == ANCHOR_LIMIT) {
        free(name);
        return origin_error(&node->origin, reader->err, "more than %d anchors", ANCHOR_LIMIT);
    }
    BASE_NEXT(reader->anchor, reader->anchor_count) = (struct anchor){name, node};
    return 0;
}

static struct node *copy_node(struct reader *reader, const struct node *from, int32_t depth)
{
    if (depth > DOCUMENT_DEPTH_LIMIT) {
        origin_error(&reader->last, reader->err, "more than %d levels", DOCUMENT_DEPTH_LIMIT);
        return NULL;
    }
    struct node *node = new_node(reader, from->kind);
    if (!node)
        return NULL;
    node->text = base_copy(from->text);
    node->origin = from->origin;
    for (int32_t i = 0; i < from->child_count; i++) {
        struct node *child = copy_node(reader, from->child[i], depth + 1);
        if (!child)
            return NULL;
        child->key = base_copy(from->child[i]->key);
        child->key_origin = from->child[i]->key_origin;
        node_add(node, child);
    }
    return node;
}

static struct node *expand_alias(struct reader *reader, const char *name, int32_t depth)
{
    for (int64_t i = reader->anchor_count; i-- > 0;)
        if (strcmp(reader->anchor[i].name, name) == 0)
            return copy_node(reader, reader->anchor[i].node, depth);
    origin_error(&reader->last, reader->err, "there is no anchor '&%s' before this alias", name);
    return NULL;
}

static struct node *read_node(struct reader *reader, struct fy_event *event, int32_t depth);

static int read_sequence(struct reader *reader, struct node *sequence, int32_t depth)
{
    for (;;) {
        struct fy_event *event = next_event(reader);
        if (!event)
            return -1;
        if (event->type == FYET_SEQUENCE_END) {
            fy_parser_event_free(reader->parser, event);
            return 0;
        }
        struct node *child = read_node(reader, event, depth + 1);
        if (!child)
            return -1;
        node_add(sequence, child);
    }
}

/* Set *key to the next key, or to NULL at the end of the mapping. */
static int read_key(struct reader *reader, char **key)
{
    *key = NULL;
    struct fy_event *event = next_event(reader);
    if (!event)
        return -1;
    int result = 0;
    if (event->type == FYET_SCALAR)
        result = (*key = scalar_text(reader, event->scalar.value)) ? 0 : -1;
    else if (event->type != FYET_MAPPING_END)
        result = origin_error(&reader->last, reader->err, "a key must be a plain word");
    fy_parser_event_free(reader->parser, event);
    return result;
}

static int compare_keys(const void *a, const void *b)
{
    const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;
    int order = strcmp(x->key, y->key);
    if (order)
        return order;
    if (x->key_origin.line != y->key_origin.line)
        return x->key_origin.line < y->key_origin.line ? -1 : 1;
    return x->key_origin.column - y->key_origin.column;
}

static int refuse_duplicates(struct reader *reader, const struct node *mapping)
{
    int result = 0;
    int64_t count = mapping->child_count;
    AUTOFREE struct node **sorted = base_alloc(count, sizeof(*sorted));
    for (int64_t i = 0; i < count; i++)
        sorted[i] = mapping->child[i];
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_keys);
    for (int64_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            result = origin_error(&sorted[i]->key_origin, reader->err, "duplicate key '%s'",
                                  sorted[i]->key);
    return result;
}

static int read_mapping(struct reader *reader, struct node *mapping, int32_t depth)
{
    for (;;) {
        char *key;
        if (read_key(reader, &key))
            return -1;
        if (!key)
            return refuse_duplicates(reader, mapping);
        struct origin key_origin = reader->last;
        struct fy_event *event = next_event(reader);
        struct node *child = event ? read_node(reader, event, depth + 1) : NULL;
        if (!child) {
            free(key);
            return -1;
        }
        child->key = key;
        child->key_origin = key_origin;
        node_add(mapping, child);
    }
}

/* Fill @node, which @reader->last still locates, up to its end. */
static int read_children(struct reader *reader, struct node *node, int32_t depth)
{
    if (depth > DOCUMENT_DEPTH_LIMIT)
        return origin_error(&node->origin, reader->err, "more than %d levels",
                            DOCUMENT_DEPTH_LIMIT);
    if (node->kind == NODE_SEQUENCE ? read_sequence(reader, node, depth)
                                    : read_mapping(reader, node, depth))
        return -1;
    if (reader->last.source == node->origin.source && reader->last.column > node->origin.column)
        node->origin.width = reader->last.column + reader->last.width - node->origin.column;
    else if (node->kind == NODE_MAPPING && node->child_count > 0)
        node->origin.width = node->child[0]->key_origin.width;
    return 0;
}

static struct node *read_value(struct reader *reader, struct fy_event *event, int32_t depth)
{
    if (event->type == FYET_ALIAS) {
        AUTOFREE char *name = token_text(event->alias.anchor).data;
        struct node *node = expand_alias(reader, name, depth);
        return node;
    }
    if (event->type != FYET_SCALAR)
        return new_node(reader, event->type == FYET_SEQUENCE_START ? NODE_SEQUENCE : NODE_MAPPING);
    struct node *node = new_node(reader, NODE_SCALAR);
    if (!node)
        return NULL;
    node->text = scalar_text(reader, event->scalar.value);
    return node->text ? node : NULL;
}

/* Takes over @event. */
static struct node *read_node(struct reader *reader, struct fy_event *event, int32_t depth)
{
    struct fy_token *tag = fy_event_get_tag_token(event);
    struct fy_token *anchor = event->type == FYET_ALIAS ? NULL : fy_event_get_anchor_token(event);
    char *name = anchor ? token_text(anchor).data : NULL;
    bool alias = event->type == FYET_ALIAS;
    struct node *node = NULL;
    if (tag)
        origin_error(&reader->last, reader->err, "tags such as '!!int' mean nothing here");
    else
        node = read_value(reader, event, depth);
    fy_parser_event_free(reader->parser, event);
    if (node && node->kind != NODE_SCALAR && !alias && read_children(reader, node, depth))
        node = NULL;
    if (!node) {
        free(name);
        return NULL;
    }
    return keep_anchor(reader, name, node) ? NULL : node;
}

static struct node *read_stream(struct reader *reader)
{
    struct node *root = NULL;
    for (;;) {
        struct fy_event *event = next_event(reader);
        if (!event)
            return NULL;
        enum fy_event_type type = event->type;
        if (type == FYET_SCALAR || type == FYET_ALIAS || type == FYET_SEQUENCE_START ||
            type == FYET_MAPPING_START) {
            root = read_node(reader, event, 1);
            if (!root)
                return NULL;
            continue;
        }
        fy_parser_event_free(reader->parser, event);
        if (type == FYET_DOCUMENT_START && root) {
            origin_error(&reader->last, reader->err,
                         "a second document starts here; a file holds one");
            return NULL;
        }
        if (type == FYET_STREAM_END) {
            if (!root)
                origin_error(&reader->last, reader->err,
                             reader->last.line ? "this is empty: keys and values are expected "
                                                 "here, as in 'version: 1'"
                                               : "there is no value here");
            return root;
        }
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static void release_reader(struct reader *reader)
{
    for (int64_t i = 0; i < reader->anchor_count; i++)
        free(reader->anchor[i].name);
    free(reader->anchor);
    if (reader->parser)
        fy_parser_destroy(reader->parser);
    fy_diag_destroy(reader->diag);
}

struct node *document_parse(struct document *document, const struct document_text *source,
                            const char *text, int64_t length, struct err *err)
{
    struct fy_diag_cfg diag;
    fy_diag_cfg_default(&diag);
    diag.fp = NULL; /* collected, not printed */
    struct reader reader = {
        .document = document,
        .source = source,
        .text = text,
        .diag = fy_diag_create(&diag),
        .last = origin_at(source, 0, 0),
        .err = err,
    };
    fy_diag_set_collect_errors(reader.diag, true);
    enum fy_parse_cfg_flags json =
        ends_with(source->name, ".json") ? FYPCF_JSON_FORCE : FYPCF_JSON_NONE;
    reader.parser = fy_parser_create(&(struct fy_parse_cfg){
        .diag = reader.diag,
        .flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | json,
    });
    struct node *root = NULL;
    if (!reader.parser || fy_parser_set_string(reader.parser, text, (size_t)length))
        err_add_code(err, 70, "%s: libfyaml could not start", source->name);
    else
        root = read_stream(&reader);
    release_reader(&reader);
    return root;
}
