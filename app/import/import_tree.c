#include "app/import/import_tree.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_LIMIT = 16 /* switches above a host */ };

/* A name in the search tree. */
struct named {
    const char *name; /* the vertex's */
    int32_t index;
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

int32_t tree_add(struct tree *tree, const char *name, enum tree_kind kind, int32_t above)
{
    struct named key = {.name = name};
    struct named **found = tfind(&key, &tree->names, compare);
    int32_t index = found ? (*found)->index : tree->count;
    if (!found && tree->count == TREE_HOSTS) {
        tree->overflow = true;
        return -1;
    }
    if (!found) {
        tree->vertex = base_room(tree->vertex, tree->count, sizeof(*tree->vertex));
        tree->vertex[tree->count++] =
            (struct tree_vertex){.name = base_copy(name), .kind = (int32_t)kind, .above = -1};
        tree->hosts += kind == TREE_HOST;
        struct named *entry = base_alloc(1, sizeof(*entry));
        *entry = (struct named){tree->vertex[index].name, index};
        if (!tsearch(entry, &tree->names, compare))
            base_out_of_memory(0);
    }
    if (above >= 0)
        tree->vertex[index].above = above;
    return index;
}

/* The switches at each height; hosts are at height 0. */
struct heights {
    int32_t *height, *below; /* (count) of each vertex: its height, the hosts below it */
    int32_t top;             /* the largest height */
};

/* @return 0, or -1: the switches above @host form a circle, or are too many. */
static int climb(const struct tree *tree, struct heights *heights, int32_t host)
{
    int32_t height = 0;
    for (int32_t at = tree->vertex[host].above; at >= 0; at = tree->vertex[at].above) {
        if (++height > DEPTH_LIMIT)
            return -1;
        if (heights->height[at] < height)
            heights->height[at] = height;
        if (heights->top < height)
            heights->top = height;
        heights->below[at]++;
    }
    return 0;
}

/* The switches of one height taken together. */
struct level {
    int32_t switches, least, most; /* hosts below one */
    int32_t uplinks;               /* the fewest of one; 0: not known */
    double speed;                  /* the slowest; 0: not known */
};

static struct level describe(const struct tree *tree, const struct heights *heights, int32_t height)
{
    struct level level = {0};
    for (int32_t i = 0; i < tree->count; i++) {
        const struct tree_vertex *vertex = &tree->vertex[i];
        int32_t below = heights->below[i];
        if (vertex->kind != TREE_SWITCH || heights->height[i] != height)
            continue;
        if (!level.switches++ || below < level.least)
            level.least = below;
        if (below > level.most)
            level.most = below;
        if (vertex->uplinks && (!level.uplinks || vertex->uplinks < level.uplinks))
            level.uplinks = vertex->uplinks;
        if (vertex->speed > 0 && (!(level.speed > 0) || vertex->speed < level.speed))
            level.speed = vertex->speed;
    }
    return level;
}

static void add_tier(struct import *import, const struct level *level, int32_t height)
{
    static const char *const names[] = {"rack", "pod", "hall", "site"};
    const char *name = names[import->tier_count];
    int64_t under = import->tier_count ? import->tier[import->tier_count - 1].nodes : 1;
    int64_t nodes = (level->most + under - 1) / under * under;
    import_note(import, "%d switches at height %d, %d to %d nodes below each", level->switches,
                height, level->least, level->most);
    if (nodes >= import->nodes || (import->tier_count && nodes == under))
        return;
    if (level->least != nodes)
        import_assume(import, "every %s has %" PRId64 " nodes, as the largest", name, nodes);
    struct import_tier *tier = &import->tier[import->tier_count++];
    tier->uplink.name = base_copy(name);
    tier->nodes = nodes;
    tier->uplinks = level->uplinks;
    if (level->speed > 0)
        import_set(&tier->uplink.bandwidth, level->speed, PROVENANCE_DATASHEET,
                   "%s: the slowest uplink", import->base_name);
}

static void find_tiers(const struct tree *tree, const struct heights *heights,
                       struct import *import)
{
    for (int32_t height = 1; height <= heights->top; height++) {
        struct level level = describe(tree, heights, height);
        if (level.switches > 1 && import->tier_count < IMPORT_TIER_LIMIT)
            add_tier(import, &level, height);
    }
    if (!import->tier_count)
        import_note(import, "one switch for all, as far as a platform can tell: no tiers");
}

int tree_understand(const struct tree *tree, struct import *import, struct err *err)
{
    struct heights heights = {.height = base_alloc(tree->count, sizeof(int32_t)),
                              .below = base_alloc(tree->count, sizeof(int32_t))};
    int failed = 0;
    for (int32_t i = 0; i < tree->count && !failed; i++)
        if (tree->vertex[i].kind == TREE_HOST && climb(tree, &heights, i))
            failed = err_add(err, "%s: more than %d switches above '%s': they form a circle",
                             import->file, DEPTH_LIMIT, tree->vertex[i].name);
    if (!failed && tree->overflow)
        failed = err_add(err, "%s: more than %d hosts and switches", import->file, TREE_HOSTS);
    if (!failed && (!tree->hosts || !heights.top))
        failed = err_add(err, "%s: no host is below a switch: nothing to import", import->file);
    if (!failed) {
        import->nodes = tree->hosts;
        import_note(import, "%d nodes below %d switches", tree->hosts, tree->count - tree->hosts);
        find_tiers(tree, &heights, import);
    }
    free(heights.height);
    free(heights.below);
    return failed;
}

void tree_release(struct tree *tree)
{
    tdestroy(tree->names, free);
    for (int32_t i = 0; i < tree->count; i++)
        free(tree->vertex[i].name);
    free(tree->vertex);
    *tree = (struct tree){0};
}
