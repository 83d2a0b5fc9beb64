/** @file
 * foretrain: the front end.  Finds the command and lets it answer.
 */

#include <string.h>

#include "app/cli/command.h"
#include "app/lab/lab_on.h"
#include "app/process/process.h"
#include "config.h"

const struct command *const commands[] = {
    &command_predict, &command_compare,    &command_explain,    &command_check,
    &command_show,    &command_list,       &command_collective, &command_schema,
    &command_env,     &command_completion, &command_published,  &command_calibrate,
    &command_lab,     &command_validate,   &command_train,      &command_evaluate,
    &command_inspect, &command_data,       &command_import,     &command_new,
    &command_sweep,   &command_merge,      &command_plan,       NULL,
};

int main(int argc, char **argv)
{
    process_start();
    if (argc > 0 && lab_is_on(argv[0]))
        return lab_on(argv);
    if (argc < 2 ||
        (strcmp(argv[1], "--version") && strcmp(argv[1], "-V") && strcmp(argv[1], "-v")))
        return command_dispatch("foretrain", commands, argc - 1, argv + 1);
    struct text out = {0};
    text_add(&out, "foretrain %s\n", FORETRAIN_VERSION);
    return command_finish(&out, &(struct err){0});
}
