#pragma once

/** @file
 * Inner side of yaml.h: how a document is built from the texts of several files.
 *
 * yaml.c turns one text into nodes and is the only file that includes libfyaml; document.c reads
 * files, merges them and applies assignments.
 */

#include "core/base/base.h"
#include "core/config/yaml.h"

/** One text that nodes come from. */
struct document_text {
    char *name;         /**< for messages; owned */
    char *text;         /**< the lines, each ending with NUL; owned */
    char **line;        /**< (line_count) starts of the lines; owned */
    int32_t line_count; /**< at least 1 */
    bool numbered;      /**< false for an assignment, which has no line numbers */
};

/** See yaml.h. */
struct document {
    struct node *root;
    struct text text;            /**< all texts read, for hashing */
    struct document_text **part; /**< (part_count) owned */
    int64_t part_count, part_capacity;
    struct node **node; /**< (node_count) owned */
    int64_t node_count, node_capacity;
};

/** A new node of the document. */
struct node *document_add_node(struct document *document, enum node_kind kind);

/** Make @child the last child of @parent. */
void node_add(struct node *parent, struct node *child);

/** Read @text (length characters); messages show the lines of @source.
 * @return the top node of any kind, or NULL with located messages. */
struct node *document_parse(struct document *document, const struct document_text *source,
                            const char *text, int64_t length, struct err *err);

/** Add @message as origin_error() does, with another exit code.  @return -1. */
int origin_report(const struct origin *origin, int32_t exit_code, const char *message,
                  struct err *err);
