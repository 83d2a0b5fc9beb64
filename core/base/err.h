#pragma once

/** @file
 * Messages for the user, written by the function that detects the fault.
 *
 * A function that can fail through the user's fault takes a struct err * as its last parameter,
 * adds one message (or several: all faults of a file at once) and returns -1.  Its callers add
 * nothing and pass -1 on.  Outputs are set only on success.
 */

#include <stdint.h>

enum {
    ERR_MESSAGE_LIMIT = 20, /**< messages kept; further ones are only counted */
};

/** Start from {0}.  Release with err_release(). */
struct err {
    char *text;        /**< the messages, one or more lines each, ending in newline; owned */
    int32_t count;     /**< messages added, kept or not */
    int32_t exit_code; /**< sysexits code for the program: of the first message; 65 unless set */
    char *warning;     /**< lines that make nothing fail, each ending in newline; owned */
};

/** Add a message with exit code 65 (bad data); the newline at its end is added.
 * @return -1, so that `return err_add(...)` reads well. */
int err_add(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Add a message with another exit code: 64 usage, 66 no input, 69 unavailable, 70 internal,
 * 73 cannot create, 74 input/output.  @return -1. */
int err_add_code(struct err *err, int32_t exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The same with exit code 64. */
#define err_usage(err, ...) err_add_code(err, 64, __VA_ARGS__)

/** Fail with @exit_code, whatever was added: somebody else has said why.  @return -1. */
int err_exit(struct err *err, int32_t exit_code);

/** The first line of the first message, to be quoted in another one: what follows in @err is cut
 * off.  "" if there is none.  Borrowed. */
char *err_reason(struct err *err);

/** Add a warning, once however often it is given; nothing fails. */
void err_warn(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Add the warnings of @from. */
void err_warn_all(struct err *err, const struct err *from);

/** Release messages and warnings; the struct may be used again. */
void err_release(struct err *err);
