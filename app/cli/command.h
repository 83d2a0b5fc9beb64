#pragma once

/** @file
 * A command: its name, its options, and the function that answers.
 *
 * A command appends its result to a text and its faults to a struct err; it never prints.  So
 * stdout gets a complete result or nothing.
 */

#include "app/cli/request.h"
#include "core/config/field.h"

/** One command.  All texts are static. */
struct command {
    const char *name;
    const char *heading;            /**< above it in the list of commands; NULL: none */
    const char *synopsis;           /**< what follows the name: "JOB [options]" */
    const char *help;               /**< one sentence without full stop */
    const char *examples;           /**< lines without indentation, or "" */
    const struct option *options;   /**< ended by a row of zeros; with ROW_HELP */
    size_t size;                    /**< of the record, which begins with struct request */
    const void *defaults;           /**< the record before any option is read; NULL: zeros */
    const struct field_table *keys; /**< listed by --help as the keys of JOB; or NULL */
    int32_t minimum, maximum;       /**< number of arguments that are not options */
    bool jobs;                      /**< arguments are jobs: of "-" and pipes a copy is made, for
                                         children read them again */
    const struct answer_columns *const *answers; /**< with --json; NULL-terminated, or NULL */
    bool ranks; /**< a rank of many runs it: whether outputs can be written, the front end checks */
    const char *missing; /**< "GSL (-Dgsl=enabled)": a build without it refuses the
                              command, with any words (exit code 69); NULL: nothing */

    /** Answer @record into @out.  @return 0, or -1 with a message. */
    int (*run)(const void *record, struct text *out, struct err *err);

    const struct command *const *sub; /**< subcommands, NULL-terminated; then only name, heading,
                                           help and examples are set */
};

/** Three members of a command: its table, the type of its record, and the record's defaults. */
#define RECORD(table, type, before) .options = table, .size = sizeof(type), .defaults = before

/** A member of a command: the tables of what it answers with --json. */
#define ANSWERS(...)                                                                               \
    .answers = (const struct answer_columns *const[])                                              \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/** Two members of a command: how many arguments it takes that are no options; without it, none. */
#define TAKES(least, most) .minimum = least, .maximum = most

/** The commands of foretrain, each in its own file. */
extern const struct command command_predict, command_show, command_check, command_collective,
    command_schema, command_env, command_calibrate, command_explain, command_train,
    command_evaluate, command_inspect, command_data, command_validate, command_import, command_list,
    command_new, command_compare, command_show_step, command_show_collective, command_sweep,
    command_plan, command_import_onnx;

/** Those of foretrain-exec.  All ranks run them together; only rank 0 fills the result. */
extern const struct command exec_train, exec_evaluate, exec_collective, exec_measure,
    exec_workspace;

/** Append version, commit unless it is a release, and the parts built or left out. */
void command_version(struct text *out);

/** foretrain itself, with these as subcommands. */
extern const struct command command_foretrain;

/** Find @argv[0] among the subcommands of @all and run it with the rest, into @out and @err.
 * "help" and --help list them, "help NAME" is "NAME --help"; no words or an unknown command are a
 * message with exit code 64. */
void command_answer(const char *program, const struct command *all, int argc, char **argv,
                    struct text *out, struct err *err);

/** command_answer() to stdout, with messages on stderr.  @return the exit code. */
int command_dispatch(const struct command *all, int argc, char **argv);

/** Print @out on stdout, warnings and messages of @err on stderr, and release both.
 * @return the exit code: 0 when there are no messages, 74 when stdout cannot be written. */
int command_finish(struct text *out, struct err *err);
