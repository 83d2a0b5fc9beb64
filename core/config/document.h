#pragma once

/** @file
 * Inner side of yaml.h: how a document is built from the texts of several files.
 *
 * yaml.c turns one text into nodes and is the only file that includes libfyaml; document.c reads
 * files and merges them; assignment.c applies assignments.
 */

#include "core/config/yaml.h"

enum {
    DOCUMENT_DEPTH_LIMIT = 64 /**< levels of a text, parts of an assignment's key, files of which
                                   each extends the next */
};

/** One text that nodes come from. */
struct document_text {
    char *name;         /**< for messages; owned */
    char *text;         /**< the lines, each ending with NUL; owned */
    char **line;        /**< (line_count) starts of the lines; owned */
    int32_t line_count; /**< at least 1 */
    bool numbered;      /**< false for an assignment, which has no line numbers */
    bool hidden;        /**< messages do not show its lines */
};

/** See yaml.h. */
struct document {
    struct node *root;
    char *(*find)(const char *name, struct err *err); /**< of yaml_read_file(), or NULL */
    const struct files *files;                        /**< likewise */
    struct text text;                                 /**< all texts read, for hashing */
    struct document_text **part;                      /**< (part_count) owned */
    int64_t part_count;
    struct node **node; /**< (node_count) owned */
    int64_t node_count;
};

/** A new node of the document; value and key are at @origin until the key has its own place. */
struct node *document_add_node(struct document *document, enum node_kind kind,
                               const struct origin *origin);

/** Add a text to the document, @numbered unless it is an assignment.
 * @return it, or NULL with a message: it holds bytes that are not text. */
struct document_text *document_add_text(struct document *document, const char *name,
                                        const char *text, int64_t length, bool numbered,
                                        struct err *err);

/** The length of the UTF-8 character at @text, or 0: none before @end, or one that YAML forbids. */
int32_t document_character(const char *text, const char *end);

/** Make @child the last child of @parent. */
void node_add(struct node *parent, struct node *child);

/** Take @child out of the children of @node. */
void node_remove(struct node *node, const struct node *child);

/** Exchange the values of @a and @b; @a gets the place of its new one, too. */
void node_swap(struct node *a, struct node *b);

/** Whether the node removes the key it is given for: null or ~. */
bool node_is_null(const struct node *node);

/** Read @text (length characters); messages show the lines of @source.
 * @return the top node of any kind, or NULL with located messages. */
struct node *document_parse(struct document *document, const struct document_text *source,
                            const char *text, int64_t length, struct err *err);

/** Add @message as origin_error() does, with another exit code.  @return -1. */
int origin_report(const struct origin *origin, int32_t exit_code, const char *message,
                  struct err *err);
