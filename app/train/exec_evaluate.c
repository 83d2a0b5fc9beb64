#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/train/exec_command.h"
#include "app/train/exec_job.h"
#include "config.h"
#include "core/base/json.h"

/* A request with the job and the assignments that stand beside the first checkpoint. */
struct found {
    struct request request;
    char *job;   /* owned */
    char *lines; /* of job.set; owned */
};

/* The directory that holds @path. */
static char *parent(const char *path)
{
    char *copy = base_copy(path);
    size_t length = strlen(copy);
    while (length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    char *slash = strrchr(copy, '/');
    if (!slash) {
        free(copy);
        return base_copy(".");
    }
    *(slash == copy ? slash + 1 : slash) = '\0';
    return copy;
}

/* The assignments the run was started with come first, the user's after them. */
static void read_lines(struct found *found, const char *path)
{
    size_t size = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (getdelim(&found->lines, &size, '\0', file) > 0)
        for (char *save, *line = strtok_r(found->lines, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save))
            option_list_add(&found->request.set, line);
    fclose(file);
}

static int find_job(struct found *found, const struct request *request, struct err *err)
{
    found->request = *request;
    if (request->job)
        return 0;
    char *directory = parent(request->argument.item[0]);
    char *set = base_format("%s/job.set", directory);
    found->job = base_format("%s/job.yaml", directory);
    found->request.job = found->job;
    found->request.set = (struct option_list){0};
    read_lines(found, set);
    for (int32_t i = 0; i < request->set.count; i++)
        option_list_add(&found->request.set, request->set.item[i]);
    int failed =
        access(found->job, R_OK)
            ? err_add_code(err, 66, "%s is missing: name the scenario with --job JOB", found->job)
            : 0;
    free(set);
    free(directory);
    return failed;
}

static void release_job(struct found *found)
{
    if (found->job)
        option_list_release(&found->request.set);
    free(found->job);
    free(found->lines);
}

static void print(struct text *out, const struct request *request,
                  const struct evaluation *evaluation)
{
    double images = (double)evaluation->images;
    int32_t members = request->argument.count;
    if (!request->json) {
        text_add(out, "%s %d, %" PRId64 " images: top-1 %.2f %%, top-5 %.2f %%, loss %.4f\n",
                 members > 1 ? "ensemble of" : "checkpoints:", members, evaluation->images,
                 100 * (double)evaluation->top1 / images, 100 * (double)evaluation->top5 / images,
                 evaluation->loss);
        return;
    }
    struct json *json = json_new_object();
    json_put_text(json, "schema", "foretrain/evaluation/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put_integer(json, "checkpoints", members);
    json_put_integer(json, "images", evaluation->images);
    json_put_integer(json, "top1_images", evaluation->top1);
    json_put_integer(json, "top5_images", evaluation->top5);
    json_put_real(json, "top1", (double)evaluation->top1 / images);
    json_put_real(json, "top5", (double)evaluation->top5 / images);
    json_put_real(json, "loss", evaluation->loss);
    json_print(out, json);
    json_free(json);
}

static int evaluate(const struct request *request, struct text *out, struct err *err)
{
    struct exec_job job = {0};
    struct found found = {0};
    struct evaluation evaluation = {0};
    int failed = find_job(&found, request, err) ||
                 exec_job_open(&job, &found.request, false, err) ||
                 train_evaluate(&job.train, request->argument.item, request->argument.count,
                                &evaluation, err);
    if (!failed && world_self().rank == 0)
        print(out, request, &evaluation);
    exec_job_close(&job);
    release_job(&found);
    return failed ? -1 : 0;
}

static const struct option *const options[] = {
    &option_job_row,
    &option_set_row,
    &option_json_row,
    &option_threads_row,
    &option_device_row,
    &option_help_row,
    NULL,
};

const struct command exec_evaluate = {
    .name = "evaluate",
    .synopsis = "CHECKPOINT... [options]",
    .help = "top-1 and top-5 on the validation images; several checkpoints vote",
    .examples = "foretrain-exec evaluate run1/snapshot-1 run1/snapshot-2",
    .options = options,
    .minimum = 1,
    .maximum = 1000,
    .run = evaluate,
};
