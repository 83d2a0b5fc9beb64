#include "core/config/document.h"

#include <libgen.h>
#include <sys/stat.h>

#include "core/base/claim.h"
#include "core/config/unknown.h"

enum { FILE_LIMIT = 4 << 20 /* [bytes] of one file */ };

struct node *document_add_node(struct document *document, enum node_kind kind,
                               const struct origin *origin)
{
    document->node = base_room(document->node, document->node_count, sizeof(struct node *));
    struct node *node = base_alloc(1, sizeof(*node));
    node->kind = kind;
    node->origin = node->key_origin = *origin;
    document->node[document->node_count++] = node;
    return node;
}

void node_add(struct node *parent, struct node *child)
{
    BASE_NEXT(parent->child, parent->child_count) = child;
}

void node_swap(struct node *a, struct node *b)
{
    struct node old = *a;
    a->kind = b->kind;
    a->text = b->text;
    a->origin = b->origin;
    a->child = b->child;
    a->child_count = b->child_count;
    b->kind = old.kind;
    b->text = old.text;
    b->child = old.child;
    b->child_count = old.child_count;
}

struct node *node_get(const struct node *node, const char *key)
{
    if (node->kind == NODE_MAPPING)
        for (int32_t i = 0; i < node->child_count; i++)
            if (strcmp(node->child[i]->key, key) == 0)
                return node->child[i];
    return NULL;
}

struct json *node_json(const struct node *node)
{
    if (node->kind == NODE_SCALAR)
        return json_new_text(node->text);
    bool mapping = node->kind == NODE_MAPPING;
    struct json *json = mapping ? json_new_object() : json_new_array();
    for (int32_t i = 0; i < node->child_count; i++) {
        if (mapping)
            json_put(json, node->child[i]->key, node_json(node->child[i]));
        else
            json_append(json, node_json(node->child[i]));
    }
    return json;
}

/* ---- texts ---- */

int32_t document_character(const char *text, const char *end)
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
    char *start = source->text;
    for (char *c = start; c; start = c + 1) {
        c = strchr(start, '\n');
        BASE_NEXT(source->line, source->line_count) = start;
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
        int32_t step = document_character(text + i, text + length);
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
    return origin_error(&origin, err,
                        (unsigned char)text[at] < ' '
                            ? "byte 0x%02x is a control character, which YAML excludes"
                            : "byte 0x%02x is not UTF-8 text",
                        (unsigned char)text[at]);
}

/* A job that somebody else wrote may name any file as its platform: lines are shown of a file here,
 * of one that is named like ours, of what was typed. */
static bool is_hidden(const char *name)
{
    static const char *const endings[] = {".yaml", ".yml", ".json"};
    const char *dot = strrchr(name, '.');
    for (int i = 0; i < 3; i++)
        if (dot && !strcmp(dot, endings[i]))
            return false;
    return strchr(name, '/') && strncmp(name, "/dev/", 5) != 0;
}

struct document_text *document_add_text(struct document *document, const char *name,
                                        const char *text, int64_t length, bool numbered,
                                        struct err *err)
{
    struct document_text *source = base_alloc(1, sizeof(*source));
    source->name = base_copy(name);
    source->numbered = numbered;
    source->hidden = numbered && is_hidden(name);
    BASE_NEXT(document->part, document->part_count) = source;
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

/* @return 1: of @files; 0: of the disk; -1 with errno set, EFBIG if the file is too large. */
static int read_bytes(const struct files *files, const char *path, struct text *out)
{
    size_t length = 0;
    AUTOFREE char *known = files ? files->read(files->context, path, &length) : NULL;
    FILE *file = known || (files && files->alone) ? NULL : fopen(path, "rb");
    if (known)
        text_append(out, known, (int64_t)length);
    if (!known && files && files->alone)
        errno = ENOENT;
    if (!file)
        return known ? 1 : -1;
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

static int cannot_read(const struct document *document, const char *path, const struct chain *chain,
                       struct err *err)
{
    bool named = chain->asked && document->find && errno == ENOENT;
    AUTOFREE char *message =
        base_format("cannot read '%s': %s%s", path, strerror(errno),
                    named ? "; a name of the library has no folder and no .yaml" : "");
    return chain->asked ? origin_report(chain->asked, 66, message, err)
                        : err_add_code(err, 66, "error: %s", message);
}

static struct node *parse_root(struct document *document, const char *name, const char *text,
                               int64_t length, struct err *err)
{
    struct document_text *source = document_add_text(document, name, text, length, true, err);
    struct node *root = source ? document_parse(document, source, text, length, err) : NULL;
    if (!root || root->kind == NODE_MAPPING)
        return root;
    origin_error(&root->origin, err, "keys and values are expected here, as in 'version: 1'");
    return NULL;
}

void node_remove(struct node *node, const struct node *child)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < node->child_count; i++)
        if (node->child[i] != child)
            node->child[kept++] = node->child[i];
    node->child_count = kept;
}

bool node_is_null(const struct node *node)
{
    return node->kind == NODE_SCALAR && (!strcmp(node->text, "null") || !strcmp(node->text, "~"));
}

/* Put the keys of @over into @base; null removes a key of @base. */
static void merge(struct node *base, const struct node *over)
{
    for (int32_t i = 0; i < over->child_count; i++) {
        struct node *child = over->child[i];
        struct node *old = node_get(base, child->key);
        if (!old)
            node_add(base, child);
        else if (old->kind == NODE_MAPPING && child->kind == NODE_MAPPING &&
                 !node_is_unknown(old) && !node_is_unknown(child))
            merge(old, child);
        else if (node_is_null(child))
            node_remove(base, old);
        else
            for (int32_t k = 0; k < base->child_count; k++)
                base->child[k] = base->child[k] == old ? child : base->child[k];
    }
    base->origin = over->origin;
    base->key_origin = over->key_origin;
}

static struct node *read_path(struct document *document, const char *path, struct chain *chain,
                              struct err *err);

/* @name seen from the folder of @path.  The caller frees it. */
static char *path_beside(const char *path, const char *name)
{
    AUTOFREE char *copy = base_copy(path);
    const char *folder = dirname(copy);
    bool as_it_is = *name == '/' || strcmp(folder, ".") == 0;
    return as_it_is ? base_copy(name) : base_format("%s/%s", folder, name);
}

static bool is_word(const char *text)
{
    const char *dot = strrchr(text, '.');
    return !strchr(text, '/') && !(dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".json")));
}

static bool is_file(const struct files *files, const char *path)
{
    struct stat status;
    return !(files && files->alone) && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The file of the name that @extends gives.  The caller frees it. */
static char *find_named(const struct document *document, const struct node *extends,
                        struct err *err)
{
    AUTORELEASE(err) struct err found = {0};
    if (!document->find && !(document->files && document->files->alone)) {
        origin_report(&extends->origin, 66,
                      "there is no such file here; only platforms and devices extend others by "
                      "name: 'foretrain show platform FILE' or 'show device FILE' reads one",
                      err);
        return NULL;
    }
    char *path = files_find(document->files, document->find, extends->text, &found);
    if (!path)
        origin_report(&extends->origin, found.exit_code, err_reason(&found), err);
    // cppcheck-suppress returnDanglingLifetime
    return path; /* of its own, not of @found */
}

static struct node *read_extended(struct document *document, const struct node *extends,
                                  const char *path, const struct chain *outer, struct err *err)
{
    if (extends->kind != NODE_SCALAR || !*extends->text) {
        origin_error(&extends->origin, err, "extends takes the path of another file");
        return NULL;
    }
    AUTOFREE char *beside = path_beside(path, extends->text), *named = NULL;
    bool by_name = is_word(extends->text) && !is_file(document->files, beside);
    if (by_name && !(named = find_named(document, extends, err)))
        return NULL;
    return read_path(document, by_name ? named : beside,
                     &(struct chain){.outer = outer, .asked = &extends->origin}, err);
}

/* The name of memory where @path leads there ("/memfd:stdin (deleted)"), else @path; owned. */
static char *shown_name(const char *path)
{
    static const char memory[] = "/memfd:", end[] = " (deleted)";
    char link[PATH_MAX];
    ssize_t length = readlink(path, link, sizeof(link) - 1);
    link[length > 0 ? length : 0] = '\0';
    if (strncmp(link, memory, strlen(memory)) || length < (ssize_t)(sizeof(memory) + sizeof(end)))
        return base_copy(path);
    link[length - (ssize_t)strlen(end)] = '\0';
    return base_copy(link + strlen(memory));
}

static struct node *read_path(struct document *document, const char *path, struct chain *chain,
                              struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    struct node *root = NULL;
    if (!realpath(path, chain->real)) /* memory has none; what is missing shows when it is opened */
        snprintf(chain->real, sizeof(chain->real), "%s", path);
    int known = read_bytes(document->files, path, &text);
    if (known < 0)
        cannot_read(document, path, chain, err);
    if (known < 0 || (!known && claim_input(path, err)))
        return NULL;
    int32_t files = 0;
    for (const struct chain *outer = chain->outer; outer; outer = outer->outer) {
        bool circle = !strcmp(outer->real, chain->real);
        if (!circle && ++files < DOCUMENT_DEPTH_LIMIT)
            continue;
        origin_error(chain->asked, err,
                     circle ? "extends forms a circle: '%s' is being read"
                            : "more than 64 files extend one another: '%s' is one too many",
                     path);
        return NULL;
    }
    AUTOFREE char *name = shown_name(path);
    root = parse_root(document, name, text.data, text.length, err);
    struct node *extends = root ? node_get(root, "extends") : NULL;
    if (!extends)
        return root;
    struct node *base = read_extended(document, extends, root->origin.file, chain, err);
    if (!base)
        return NULL;
    node_remove(root, extends);
    merge(base, root);
    return base;
}

/* ---- the interface ---- */

static struct document *finish(struct document *document)
{
    if (document->root)
        return document;
    yaml_free(document);
    return NULL;
}

char *files_find(const struct files *files, char *(*find)(const char *name, struct err *err),
                 const char *name, struct err *err)
{
    return files && files->alone ? base_copy(name) : find(name, err);
}

struct document *yaml_read_file(const struct files *files, const char *path,
                                char *(*find)(const char *name, struct err *err), struct err *err)
{
    struct document *document = base_alloc(1, sizeof(*document));
    document->find = find;
    document->files = files;
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

void yaml_release(struct document **document)
{
    yaml_free(*document);
}

struct node *yaml_root(const struct document *document)
{
    return document->root;
}

const char *yaml_source(const struct document *document)
{
    return document->text.data;
}
