#pragma once

/** @file
 * A tree of switches with hosts below, and its racks and tiers as a platform.
 *
 * Above the highest group of a platform everything is one switch without limits, so the top of a
 * tree with one root is no tier.  A platform's groups are equal: unequal ones are all set to the
 * largest, with a note.
 */

#include "app/import/import.h"

enum { TREE_HOSTS = 100000 /**< vertices, at most */ };

/** What a vertex is. */
enum tree_kind { TREE_HOST, TREE_SWITCH };

/** A host or a switch. */
struct tree_vertex {
    char *name;
    int32_t kind;    /**< enum tree_kind */
    int32_t above;   /**< the switch above, or -1 */
    int32_t uplinks; /**< cables to the switches above; 0: not known */
    double speed;    /**< of one of them [bytes/s]; 0: not known */
};

/** Start from {0}; release with tree_release(). */
struct tree {
    struct tree_vertex *vertex; /**< (count) in the order they were named */
    int32_t count, hosts;
    bool overflow; /**< there were more than TREE_HOSTS names */
    void *names;   /**< private: a search tree over names */
};

/** The vertex called @name, added when it is new; @above (or -1: not known yet) is set when it
 * is given.  With too many names, tree_understand() fails later.  @return its index, or -1: too
 * many. */
int32_t tree_add(struct tree *tree, const char *name, enum tree_kind kind, int32_t above);

/** Fill nodes and tiers of @import from @tree.
 * @return 0, or -1: no host below a switch, switches in a circle, too many names. */
int tree_understand(const struct tree *tree, struct import *import, struct err *err);

void tree_release(struct tree *tree);
