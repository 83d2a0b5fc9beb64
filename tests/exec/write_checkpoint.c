/** @file
 * Writes checkpoints for tests of other languages: write_checkpoint NETWORK IMAGE CLASSES DIRECTORY
 * NAME KEEP.  Reads what it wrote, prints CPU time of both, and fails when writing took more than
 * $CPU_LIMIT_S.
 */

#include "exec/checkpoint/checkpoint.h"
#include "models/networks.h"
#include "tests/core/own.h"

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 7)
        return 64;
    OWN(model) *model = network_open(NULL, argv[1], atoi(argv[2]), atoi(argv[3]), NULL, &err);
    if (!model)
        return fputs(err.text, stderr), 65;
    HELD(layout) layout = layout_build(model);
    HELD(weights) weights = weights_new(&layout, 0);
    layout_initialise(&layout, 1, 0, weights.parameter, weights.statistics);
    struct progress progress = {.step = 40,
                                .position = 40 * 256,
                                .epoch = 0.5,
                                .loss_scale = 1,
                                .seed = 1,
                                .ranks = 4,
                                .image = model->image,
                                .classes = model->classes,
                                .loss = 0.25,
                                .top1 = 0.5,
                                .top5 = 0.75};
    snprintf(progress.network, sizeof(progress.network), "%s", model->name);
    double begin = cpu_seconds();
    int failed =
        checkpoint_write(argv[4], argv[5], atoi(argv[6]), &layout, &progress, &weights, &err);
    double taken = cpu_seconds() - begin;
    const char *limit = getenv("CPU_LIMIT_S");
    printf("write_cpu_s %.3f\n", taken);
    AUTOFREE char *path = base_format("%s/%s", argv[4], argv[5]);
    begin = cpu_seconds();
    failed = failed || checkpoint_read(path, &layout, &progress, &weights, &err);
    printf("read_cpu_s %.3f\n", cpu_seconds() - begin);
    if (!failed && limit && taken > atof(limit))
        failed = err_add_code(&err, 1, "writing took more than %s s of CPU time", limit);
    if (failed)
        fputs(err.text, stderr);
    return failed ? err.exit_code : 0;
}
