#include <string.h>

#include "app/import/import.h"
#include "app/import/import_hostlist.h"
#include "app/import/import_tree.h"
#include "core/config/yaml.h"

/* A file as it is read. */
struct reading {
    struct tree *tree;
    const char *file;
    int64_t names; /* so far: a name that is listed again costs as much time as a new one */
};

/* Where the names of a list belong. */
struct belonging {
    struct tree *tree;
    int32_t above;
    bool hosts;
};

static void add_name(void *context, const char *name)
{
    struct belonging *to = context;
    tree_add(to->tree, name, to->hosts ? TREE_HOST : TREE_SWITCH, to->above);
}

static int32_t characters(const char *text, int64_t bytes)
{
    int32_t count = 0;
    for (int64_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* Set the switch @above for the names of @list, which is part of the line at @origin and begins at
 * its column. */
static int add_list(struct reading *reading, const char *above, bool hosts, const char *list,
                    const struct origin *origin, struct err *err)
{
    struct hostlist_fault fault;
    struct belonging to = {.tree = reading->tree, .hosts = hosts};
    int64_t left = TREE_HOSTS - reading->names;
    int64_t names = hostlist_count(list, left > 1 ? left - 1 : 0, &fault);
    if (names < 0) {
        struct origin at = *origin;
        at.column += characters(list, fault.at);
        return origin_error(&at, err,
                            "%s; expected a list of names such as tux[0-3,12],rack[0-7]_n[00-41], "
                            "of at most %d names in a file",
                            fault.what, TREE_HOSTS);
    }
    reading->names += names + 1; /* the switch's */
    to.above = tree_add(reading->tree, above, TREE_SWITCH, -1);
    hostlist_each(list, add_name, &to);
    return 0;
}

/* What a line says; parts of it. */
struct line {
    const char *name, *nodes, *switches;
};

/* "SwitchName=s0 Nodes=tux[0-3] LinkSpeed=100" or "BlockName=b0 Nodes=...".
 * @return NULL, or the word that is none of these with @what. */
static const char *cut_line(struct line *line, char *text, const char **what)
{
    char *word[16];
    int32_t count = import_split(text, word, 16);
    for (int32_t i = 0; i < count; i++) {
        char *value = strchr(word[i], '=');
        *what = "expected KEY=VALUE, as in 'SwitchName=s0 Nodes=tux[0-3]'";
        if (!value)
            return word[i];
        *value++ = '\0';
        if (!strcasecmp(word[i], "SwitchName") || !strcasecmp(word[i], "BlockName"))
            line->name = value;
        else if (!strcasecmp(word[i], "Nodes"))
            line->nodes = value;
        else if (!strcasecmp(word[i], "Switches"))
            line->switches = value;
        *what = "unknown key; expected SwitchName, BlockName, Nodes, Switches, LinkSpeed or "
                "BlockSizes";
        if (value != line->name && value != line->nodes && value != line->switches &&
            strcasecmp(word[i], "LinkSpeed") && strcasecmp(word[i], "BlockSizes"))
            return word[i];
    }
    *what = "names without SwitchName= or BlockName= before them";
    if (!line->name && (line->nodes || line->switches))
        return line->nodes ? line->nodes : line->switches;
    return NULL;
}

static int read_line(struct reading *reading, int32_t number, char *text, struct err *err)
{
    const char *what, *where;
    struct line line = {0};
    AUTOFREE char *whole = base_copy(text);
    for (char *c = whole; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' '; /* no terminal obeys a file */
    struct origin origin = {reading->file, whole, number, 1, 1, false};
    text[strcspn(text, "#")] = '\0';
    where = cut_line(&line, text, &what);
    origin.column = 1 + characters(whole, where ? where - text : 0);
    int failed = where ? origin_error(&origin, err, "%s", what) : 0;
    const char *list[] = {line.nodes, line.switches};
    for (int i = 0; i < 2 && !failed; i++) {
        if (!list[i])
            continue;
        origin.column = 1 + characters(whole, list[i] - text);
        failed = add_list(reading, line.name, i == 0, list[i], &origin, err);
    }
    return failed;
}

static int read_lines(struct reading *reading, char *rest, struct err *err)
{
    int32_t number = 0;
    for (char *line; (line = import_next_line(&rest));)
        if (read_line(reading, ++number, line, err))
            return -1;
    if (reading->tree->hosts)
        return 0;
    return err_add(err,
                   "%s:%d: no line 'SwitchName=... Nodes=...' up to here: give Slurm's "
                   "topology.conf or topology.yaml",
                   reading->file, number);
}

/* --- YAML --- */

static const struct node *get_scalar(const struct node *node, const char *key)
{
    const struct node *child = node->kind == NODE_MAPPING ? node_get(node, key) : NULL;
    return child && child->text ? child : NULL;
}

/* Where the user's file has @node. */
static struct origin origin_of(const struct node *node)
{
    struct origin origin = node->origin;
    origin.line--;
    return origin;
}

/* The list that is child @key of @item, if there is one. */
static int take_list(struct reading *reading, const char *above, const struct node *item,
                     const char *key, struct err *err)
{
    const struct node *list = get_scalar(item, key);
    if (!list)
        return 0;
    struct origin origin = origin_of(list);
    origin.width = 1;
    const char *found = strstr(origin.source, list->text);
    if (found) /* on one line */
        origin.column = 1 + characters(origin.source, found - origin.source);
    return add_list(reading, above, strcmp(key, "nodes") == 0, list->text, &origin, err);
}

/* A list of {switch: s0, nodes: ..., children: ...} or {block: b0, nodes: ...}. */
static int read_members(struct reading *reading, const struct node *list, const char *key,
                        struct err *err)
{
    for (int32_t i = 0; i < list->child_count; i++) {
        const struct node *item = list->child[i], *name = get_scalar(item, key);
        struct origin origin = origin_of(item);
        if (!name)
            return origin_error(&origin, err,
                                "expected a mapping with 'switch' or 'block', its name");
        if (take_list(reading, name->text, item, "nodes", err) ||
            take_list(reading, name->text, item, "children", err))
            return -1;
    }
    return 0;
}

static int read_topologies(struct reading *reading, const struct node *list, struct err *err)
{
    for (int32_t i = 0; i < list->child_count && list->kind == NODE_SEQUENCE; i++) {
        const struct node *item = list->child[i];
        const struct node *shape = item->kind == NODE_MAPPING ? node_get(item, "tree") : NULL;
        const struct node *switches =
            shape && shape->kind == NODE_MAPPING ? node_get(shape, "switches") : NULL;
        if (switches && read_members(reading, switches, "switch", err))
            return -1;
        shape = item->kind == NODE_MAPPING ? node_get(item, "block") : NULL;
        const struct node *blocks =
            shape && shape->kind == NODE_MAPPING ? node_get(shape, "blocks") : NULL;
        if (blocks && read_members(reading, blocks, "block", err))
            return -1;
        if (reading->tree->hosts)
            return 0;
    }
    struct origin origin = origin_of(list);
    return origin_error(&origin, err,
                        "expected a list of topologies, one with tree.switches or block.blocks, "
                        "as in Slurm's topology.yaml");
}

/* The project's files are mappings, Slurm's is a list: a key is put on a line before it, and
 * origin_of() subtracts that line. */
static int read_yaml(struct reading *reading, const char *text, struct err *err)
{
    AUTORELEASE(text) struct text whole = {0};
    if (!strncmp(text, "---", 3))
        text += strcspn(text, "\n");
    text_add(&whole, "topologies:\n%s", text);
    AUTORELEASE(yaml) struct document *document = yaml_read_text(reading->file, whole.data, err);
    const struct node *list = document ? node_get(yaml_root(document), "topologies") : NULL;
    return list ? read_topologies(reading, list, err) : -1;
}

int import_slurm(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    AUTORELEASE(tree) struct tree tree = {0};
    struct reading reading = {.tree = &tree, .file = import->file};
    size_t length = strlen(import->file);
    bool yaml = length > 5 && !strcmp(import->file + length - 5, ".yaml");
    int failed = import_load(import->file, &text, err);
    if (!failed)
        failed = yaml ? read_yaml(&reading, text.data, err) : read_lines(&reading, text.data, err);
    if (!failed)
        failed = tree_understand(&tree, import, err);
    if (!failed) {
        import->description = base_copy("from Slurm's topology");
        import_note(import, "Slurm's LinkSpeed is for people only and is not taken");
    }
    return failed;
}
