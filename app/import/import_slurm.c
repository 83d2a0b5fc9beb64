#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/import/import.h"
#include "app/import/import_tree.h"
#include "core/config/yaml.h"

/* Call @visit for each name of "tux[0-3,12],login": the list is cut on the way.
 * @return 0, or -1: brackets that do not close, a range that runs backwards. */
static int each_host(char *list, void (*visit)(void *context, const char *name), void *context)
{
    for (char *item = list; *item;) {
        char *open = item + strcspn(item, "[,"), *close = open;
        if (*open != '[') {
            bool more = *open == ',';
            *open = '\0';
            if (*item)
                visit(context, item);
            item = open + more;
            continue;
        }
        close = strchr(open, ']');
        if (!close)
            return -1;
        *open = *close = '\0';
        char *state = NULL, *end = close + 1 + strcspn(close + 1, ",");
        bool more = *end == ',';
        *end = '\0';
        for (char *range = strtok_r(open + 1, ",", &state); range;
             range = strtok_r(NULL, ",", &state)) {
            long low = 0, high = 0;
            char *dash = strchr(range, '-');
            int width = (int)strcspn(range, "-");
            low = high = strtol(range, NULL, 10);
            if (dash)
                high = strtol(dash + 1, NULL, 10);
            if (!isdigit((unsigned char)*range) || high < low || high - low >= TREE_HOSTS)
                return -1;
            for (long i = low; i <= high; i++) {
                char *name = base_format("%s%0*ld%s", item, width, i, close + 1);
                visit(context, name);
                free(name);
            }
        }
        item = end + more;
    }
    return 0;
}

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

static int add_list(struct tree *tree, const char *above, bool hosts, const char *list)
{
    char *copy = base_copy(list);
    struct belonging to = {tree, tree_add(tree, above, TREE_SWITCH, -1), hosts};
    int failed = each_host(copy, add_name, &to);
    free(copy);
    return failed;
}

static int bad_list(struct err *err, const char *file, int32_t line, const char *list)
{
    return err_add(err, "%s:%d: '%s' is no list of names such as tux[0-3,12] (at most %d)", file,
                   line, list, TREE_HOSTS);
}

/* "SwitchName=s0 Nodes=tux[0-3] LinkSpeed=100" or "BlockName=b0 Nodes=...". */
static int read_line(struct tree *tree, const char *file, int32_t number, char *line,
                     struct err *err)
{
    char *word[16];
    const char *name = NULL, *nodes = NULL, *switches = NULL;
    line[strcspn(line, "#")] = '\0';
    int32_t count = import_split(line, word, 16);
    for (int32_t i = 0; i < count; i++) {
        char *value = strchr(word[i], '=');
        if (!value)
            return err_add(err,
                           "%s:%d: expected KEY=VALUE, got '%s', as in 'SwitchName=s0 "
                           "Nodes=tux[0-3]'",
                           file, number, word[i]);
        *value++ = '\0';
        if (!strcasecmp(word[i], "SwitchName") || !strcasecmp(word[i], "BlockName"))
            name = value;
        else if (!strcasecmp(word[i], "Nodes"))
            nodes = value;
        else if (!strcasecmp(word[i], "Switches"))
            switches = value;
        else if (strcasecmp(word[i], "LinkSpeed") && strcasecmp(word[i], "BlockSizes"))
            return err_add(err,
                           "%s:%d: unknown key '%s'; expected SwitchName, BlockName, Nodes, "
                           "Switches, LinkSpeed or BlockSizes",
                           file, number, word[i]);
    }
    if (count && !name && (nodes || switches))
        return err_add(err, "%s:%d: names without SwitchName= or BlockName= before them", file,
                       number);
    if (name && nodes && add_list(tree, name, true, nodes))
        return bad_list(err, file, number, nodes);
    if (name && switches && add_list(tree, name, false, switches))
        return bad_list(err, file, number, switches);
    return 0;
}

static int read_lines(struct tree *tree, const char *file, char *rest, struct err *err)
{
    int32_t number = 0;
    for (char *line; (line = import_next_line(&rest));)
        if (read_line(tree, file, ++number, line, err))
            return -1;
    if (tree->hosts)
        return 0;
    return err_add(err,
                   "%s:%d: no line 'SwitchName=... Nodes=...' up to here: give Slurm's "
                   "topology.conf or topology.yaml",
                   file, number);
}

/* --- YAML --- */

static const char *get_text(const struct node *node, const char *key)
{
    const struct node *child = node->kind == NODE_MAPPING ? node_get(node, key) : NULL;
    return child && child->text ? child->text : NULL;
}

/* A fault of @node, on the line that the user's file has it. */
static int refuse(const struct node *node, struct err *err, const char *why)
{
    struct origin origin = node->origin;
    origin.line--;
    return origin_error(&origin, err, "%s", why);
}

/* A list of {switch: s0, nodes: ..., children: ...} or {block: b0, nodes: ...}. */
static int read_members(struct tree *tree, const struct node *list, const char *key,
                        struct err *err)
{
    for (int32_t i = 0; i < list->child_count; i++) {
        const struct node *item = list->child[i];
        const char *name = get_text(item, key), *nodes = get_text(item, "nodes");
        const char *children = get_text(item, "children");
        if (!name)
            return refuse(item, err, "expected a mapping with 'switch' or 'block', its name");
        if ((nodes && add_list(tree, name, true, nodes)) ||
            (children && add_list(tree, name, false, children)))
            return refuse(item, err,
                          "'nodes' or 'children' is no list of names such as "
                          "tux[0-3,12]");
    }
    return 0;
}

static int read_topologies(struct tree *tree, const struct node *list, struct err *err)
{
    for (int32_t i = 0; i < list->child_count && list->kind == NODE_SEQUENCE; i++) {
        const struct node *item = list->child[i];
        const struct node *shape = item->kind == NODE_MAPPING ? node_get(item, "tree") : NULL;
        const struct node *switches =
            shape && shape->kind == NODE_MAPPING ? node_get(shape, "switches") : NULL;
        if (switches && read_members(tree, switches, "switch", err))
            return -1;
        shape = item->kind == NODE_MAPPING ? node_get(item, "block") : NULL;
        const struct node *blocks =
            shape && shape->kind == NODE_MAPPING ? node_get(shape, "blocks") : NULL;
        if (blocks && read_members(tree, blocks, "block", err))
            return -1;
        if (tree->hosts)
            return 0;
    }
    return refuse(list, err,
                  "expected a list of topologies, one with tree.switches or "
                  "block.blocks, as in Slurm's topology.yaml");
}

/* The project's files are mappings, Slurm's is a list: a key goes on a line before it, which
 * refuse() takes off again. */
static int read_yaml(struct tree *tree, const char *file, const char *text, struct err *err)
{
    struct text whole = {0};
    if (!strncmp(text, "---", 3))
        text += strcspn(text, "\n");
    text_add(&whole, "topologies:\n%s", text);
    struct document *document = yaml_read_text(file, whole.data, err);
    const struct node *list = document ? node_get(yaml_root(document), "topologies") : NULL;
    int failed = list ? read_topologies(tree, list, err) : -1;
    yaml_free(document);
    text_release(&whole);
    return failed;
}

int import_slurm(struct import *import, const struct request *request, struct err *err)
{
    struct text text = {0};
    struct tree tree = {0};
    size_t length = strlen(import->file);
    (void)request;
    bool yaml = length > 5 && !strcmp(import->file + length - 5, ".yaml");
    int failed = import_load(import->file, &text, err);
    if (!failed)
        failed = yaml ? read_yaml(&tree, import->file, text.data, err)
                      : read_lines(&tree, import->file, text.data, err);
    if (!failed)
        failed = tree_understand(&tree, import, err);
    if (!failed) {
        import->description = base_copy("from Slurm's topology");
        import_note(import, "Slurm's LinkSpeed is for people only and is not taken");
    }
    tree_release(&tree);
    text_release(&text);
    return failed;
}
