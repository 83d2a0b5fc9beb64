#pragma once

/** @file
 * YAML 1.2 (and so JSON) files as a tree that keeps the place of each value.
 *
 * The only file that includes libfyaml is yaml.c.  Scalars stay text: the fields that read them
 * give them a type, so YAML's own guesses ("no" is false) never apply.  Duplicate keys are errors.
 */

#include "core/base/json.h"

/** Shape of a node. */
enum node_kind { NODE_SCALAR, NODE_SEQUENCE, NODE_MAPPING };

/** Where something was written. */
struct origin {
    const char *file;   /**< path as the user gave it, or "--set"; borrowed from the document */
    const char *source; /**< the source line, without newline; borrowed from the document */
    int32_t line;       /**< from 1; 0 for "--set", which has no lines */
    int32_t column;     /**< from 1, in characters */
    int32_t width;      /**< [characters] to underline, at least 1 */
    bool hidden;        /**< the line is not shown: the file may be anybody's */
};

/** One value.  In a mapping each child carries its key.  A value left out is a scalar with the
 * text "". */
struct node {
    enum node_kind kind;
    char *text;               /**< the scalar's text; NULL for other kinds; owned by the document */
    char *key;                /**< the key in the parent mapping, or NULL; owned by the document */
    struct origin origin;     /**< of the value */
    struct origin key_origin; /**< of the key; of the value where there is none in a file */
    struct node **child;      /**< in order of the file */
    int32_t child_count;
    bool drawn; /**< the file says less than this one value: see core/config/unknown.h */
};

/** A file, or several merged by `extends:`.  Owns all nodes, texts and source lines. */
struct document;

/** Files that are somewhere else than on a disk. */
struct files {
    /** The text of the file @name (the caller frees it) and its @length; NULL: not among these. */
    char *(*read)(void *context, const char *name, size_t *length);
    void *context;
    bool alone; /**< no file on a disk counts, and names are asked for as they are written */
};

/** The path of @name: by @find, or of @files (NULL: none) that stand alone @name itself.  The
 * caller frees it. */
char *files_find(const struct files *files, char *(*find)(const char *name, struct err *err),
                 const char *name, struct err *err);

/** Read @path, of @files first (NULL: none), else on disk.  A top-level `extends: other.yaml`
 * (relative to the file) is read first and this file's keys replace its keys, mapping by mapping;
 * sequences and scalars replace whole, and null removes a key.  `extends: word` without a folder
 * and an ending may also be a name: @find (NULL: only paths are known) gives its file, which the
 * caller frees, or NULL with a message.
 * @return the document, to be released with yaml_free(), or NULL with located messages: not
 * readable (exit code 66), syntax, duplicate key, extends in a circle or through more than 64
 * files, more than 100000 nodes or 64 levels (aliases expanded), bytes that are not UTF-8 text. */
struct document *yaml_read_file(const struct files *files, const char *path,
                                char *(*find)(const char *name, struct err *err), struct err *err);

/** Read @text as the content of a file called @name; `extends` is refused. */
struct document *yaml_read_text(const char *name, const char *text, struct err *err);

/** Release everything; accepts NULL. */
void yaml_free(struct document *document);

/** yaml_free() of @document, for AUTORELEASE(yaml). */
void yaml_release(struct document **document);

/** The top node; never NULL. */
struct node *yaml_root(const struct document *document);

/** The text of the outermost file, of each it extends and of each assignment, to hash; borrowed. */
const char *yaml_source(const struct document *document);

/** Apply "cluster.nodes=512": replace or add one key, or remove it with null; the value is parsed
 * as YAML (flow style is allowed).  A number indexes a sequence, as "training.phases[0].epochs=10"
 * or "training.phases.0.epochs=10"; so does the `name` of an item; "[*]" means every item.
 * @return 0, or -1: no "=", empty part, more than 64 of them, index out of range, a scalar on the
 * way. */
int yaml_set(struct document *document, const char *assignment, struct err *err);

/** yaml_set() of an assignment that begins with @prefix ("platform."), which keys here lack. */
int yaml_set_below(struct document *document, const char *prefix, const char *assignment,
                   struct err *err);

/** The child of mapping @node with that key, or NULL. */
struct node *node_get(const struct node *node, const char *key);

/** All of @node as JSON, with scalars as texts; the caller frees it. */
struct json *node_json(const struct node *node);

/** Add a message "file:line:column: error: ..." (exit code 65) with the source line and a caret.
 * Control characters in the message become blanks.  @return -1. */
int origin_error(const struct origin *origin, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
