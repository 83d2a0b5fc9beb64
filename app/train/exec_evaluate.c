#include <libgen.h>

#include "app/train/exec_job.h"
#include "app/train/train_answers.h"
#include "exec/world/world.h"

/* A request with the job and the assignments from the first checkpoint's directory. */
struct found {
    struct train_request request;
    char *job; /* owned */
};

/* The assignments the run was started with come first, the user's after them. */
static void read_lines(struct found *found, const char *path)
{
    AUTOFREE char *lines = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    if (getdelim(&lines, &size, '\0', file) > 0)
        for (char *save, *line = strtok_r(lines, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save))
            texts_add(&found->request.set, "%s", line);
    fclose(file);
}

static int find_job(struct found *found, const struct train_request *request,
                    const char *checkpoint, struct err *err)
{
    found->request = *request;
    if (request->job)
        return 0;
    AUTOFREE char *copy = base_copy(checkpoint);
    const char *directory = dirname(copy);
    AUTOFREE char *set = base_format("%s/job.set", directory);
    found->job = base_format("%s/job.yaml", directory);
    found->request.job = found->job;
    found->request.set = (struct texts){0};
    read_lines(found, set);
    texts_add_all(&found->request.set, &request->set);
    return access(found->job, R_OK)
               ? err_add_code(err, 66, "%s is missing: name the scenario with --job JOB",
                              found->job)
               : 0;
}

/* What rank 0 takes @path for. */
static char *find_checkpoint(const char *path, struct err *err)
{
    AUTORELEASE(text) struct text notes = {0};
    char *found = world_self().rank == 0 ? checkpoint_find(path, &notes, err) : NULL;
    fputs(notes.data ? notes.data : "", stderr);
    if (world_agree(err->count > 0, err))
        return NULL;
    return exec_job_share(found);
}

static void print(struct text *out, const char *const *path, int32_t members, bool pictures,
                  const struct evaluation *evaluation)
{
    double images = (double)evaluation->images;
    if (members > 1)
        text_add(out, "ensemble of %d", members);
    else
        text_add(out, "%s", path[0]);
    text_add(out, ", %" PRId64 " %s: top-1 %.2f %%, top-5 %.2f %%, loss %.4f", evaluation->images,
             pictures ? "images" : "tokens", 100 * (double)evaluation->top1 / images,
             100 * (double)evaluation->top5 / images, evaluation->loss);
    text_add(out, pictures ? "\n" : ", perplexity %.4g\n", exp(evaluation->loss));
}

static void add_score(struct train_scores *scores, const char *const *path, int32_t members,
                      struct evaluation evaluation)
{
    double images = (double)evaluation.images;
    BASE_NEXT(scores->item, scores->count) =
        (struct train_score){path, members, evaluation, (double)evaluation.top1 / images,
                             (double)evaluation.top5 / images};
}

/* The checkpoints @path (count) vote, with the job from the first one's directory. */
static int score(const struct train_request *request, const char *const *path, int32_t count,
                 struct train_scores *scores, struct text *out, struct err *err)
{
    struct exec_job job = {0};
    struct found found = {0};
    struct evaluation evaluation = {0};
    int failed = find_job(&found, request, path[0], err) ||
                 exec_job_open(&job, &found.request, false, err) ||
                 train_evaluate(&job.train, path, count, &evaluation, err);
    if (!failed && request->head.json)
        add_score(scores, path, count, evaluation);
    else if (!failed && world_self().rank == 0)
        print(out, path, count, model_reads_pictures(job.train.model), &evaluation);
    exec_job_close(&job);
    if (found.job)
        texts_release(&found.request.set);
    free(found.job);
    return failed ? -1 : 0;
}

static int evaluate_paths(const struct train_request *request, const char *const *path,
                          struct train_scores *scores, struct text *out, struct err *err)
{
    int32_t count = request->head.argument.count;
    if (request->ensemble)
        return score(request, path, count, scores, out, err);
    for (int32_t i = 0; i < count; i++)
        if (score(request, path + i, 1, scores, out, err))
            return -1;
    return 0;
}

static int evaluate(const void *record, struct text *out, struct err *err)
{
    const struct train_request *request = record;
    int32_t count = request->head.argument.count;
    if (request->compute.device == DEVICE_REPLAY)
        return err_usage(err, "--device replay has no weights: it can only train");
    AUTORELEASE(texts) struct texts path = {0};
    struct train_scores scores = {NULL, 0};
    for (int32_t i = 0; i < count; i++) {
        char *found = find_checkpoint(request->head.argument.item[i], err);
        if (!found)
            return -1;
        texts_take(&path, found);
    }
    int failed = evaluate_paths(request, path.item, &scores, out, err);
    if (!failed && request->head.json && world_self().rank == 0)
        answer_print(out, &evaluation_columns, &scores);
    free(scores.item);
    return failed ? -1 : 0;
}

static const struct option options[] = {ROWS_EVALUATE, ROW_LAST};

const struct command exec_evaluate = {
    .name = "evaluate",
    .synopsis = "PATH... [options]",
    .help = "top-1 and top-5 on the validation samples, of checkpoints or the newest of runs",
    .examples = "foretrain-exec evaluate run1\n"
                "foretrain-exec evaluate --ensemble run1/snapshot-1 run1/snapshot-2",
    RECORD(options, struct train_request, &train_defaults),
    TAKES(1, 1000),
    .run = evaluate,
};
