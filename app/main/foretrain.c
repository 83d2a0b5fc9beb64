/** @file
 * foretrain: the front end.  Finds the command and lets it answer.
 */

#include <malloc.h>

#include "app/cli/command.h"
#include "app/process/process.h"

static const struct command *const commands[] = {
    &command_predict, &command_new,     &command_check,  &command_compare,   &command_sweep,
    &command_plan,    &command_explain, &command_train,  &command_evaluate,  &command_validate,
    &command_inspect, &command_data,    &command_import, &command_calibrate, &command_collective,
    &command_show,    &command_list,    &command_schema, &command_env,       NULL,
};

const struct command command_foretrain = {
    .name = "foretrain",
    .examples = "foretrain new job --platform dgx-h100 --nodes 16 --to job.yaml\n"
                "foretrain predict job.yaml --report answer.html\n"
                "foretrain compare job.yaml job.yaml --set-b cluster.nodes=64",
    .sub = commands,
};

int main(int argc, char **argv)
{
    process_start();
    mallopt(M_MMAP_THRESHOLD, 2 << 20);  /* schedules go back to the system when they are freed */
    mallopt(M_TRIM_THRESHOLD, 16 << 20); /* and not the arrays of each draw */
    if (argc < 2 ||
        (strcmp(argv[1], "--version") && strcmp(argv[1], "-V") && strcmp(argv[1], "-v")))
        return command_dispatch(&command_foretrain, argc - 1, argv + 1);
    struct text out = {0};
    command_version(&out);
    return command_finish(&out, &(struct err){0});
}
