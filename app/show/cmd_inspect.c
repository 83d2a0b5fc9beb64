#include <sys/stat.h>

#include "app/cli/command.h"
#include "exec/checkpoint/checkpoint.h"
#include "models/networks.h"

/* Whether the optimizer of the job of checkpoint @path has second moments. */
static bool has_squares(const char *path)
{
    AUTORELEASE(err) struct err err = {0};
    AUTORELEASE(json) struct json *job = checkpoint_read_job(path, &err);
    const char *name = job ? json_as_text(json_get(job, "training.optimizer.name")) : NULL;
    return name && (strcmp(name, "adamw") == 0 || strcmp(name, "lamb") == 0);
}

/* Whether checkpoint @path has the tensors of its network; a damaged one was already reported. */
static int check_network(const char *path, struct text *out, struct err *err)
{
    struct progress progress;
    if (err->count > 0 || checkpoint_read_progress(path, &progress, err))
        return -1;
    if (base_find_word(progress.network, network_names) < 0) {
        if (out)
            text_add(out, "\n%s is a network from a file, with which nothing was compared\n",
                     progress.network);
        return 0;
    }
    struct model *model = network_build(progress.network, progress.image, progress.classes, err);
    if (!model)
        return -1;
    AUTORELEASE(layout) struct layout layout = layout_build(model);
    layout.squares = has_squares(path);
    int failed = checkpoint_read(path, &layout, &progress, &(struct weights){0}, err);
    if (!failed && out)
        text_add(out, "\nall tensors of %s are there, with their shapes\n", model->name);
    model_free(model);
    return failed;
}

static int inspect(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    AUTORELEASE(text) struct text notes = {0};
    struct stat found;
    const char *given = request->argument.item[0];
    bool file = stat(given, &found) == 0 && !S_ISDIR(found.st_mode);
    AUTOFREE char *path = file ? base_copy(given) : checkpoint_find(given, &notes, err);
    int failed = path ? checkpoint_inspect(path, request->json, notes.data, out, err) : -1;
    if (path && !file)
        failed |= check_network(path, request->json ? NULL : out, err);
    return failed;
}

static const struct option options[] = {ROW_JSON, ROW_LAST};

const struct command command_inspect = {
    .name = "inspect",
    .synopsis = "PATH [options]",
    .help = "what is in a checkpoint, the latest of a run, or a .safetensors file",
    .examples = "foretrain inspect runs/toy\n"
                "foretrain inspect runs/toy/ckpt-000040 --json",
    RECORD(options, struct request, NULL),
    TAKES(1, 1),
    ANSWERS(&inspect_columns),
    .run = inspect,
};
