#include "core/schedule/optimizer.h"
#include "exec/step/graph.h"
#include "exec/train/train_loop.h"

/* The images that are this rank's: first ... end - 1. */
struct share {
    int64_t first, end;
};

static struct share own_range(const struct dataset *dataset, struct exec_world world)
{
    int64_t count = dataset_count(dataset);
    return (struct share){count * world.rank / world.ranks, count * (world.rank + 1) / world.ranks};
}

/* One chunk in progress. */
struct chunk {
    float *images;  /* (chunk, image, image, 3) */
    int32_t *label; /* (chunk); -1: it cannot be read */
    float *scores;  /* (chunk, target_count(), classes) */
    struct share range;
};

/* By @threads threads. */
static void read_chunk(const struct dataset *dataset, int32_t threads, struct chunk *chunk)
{
    int64_t size = dataset_floats(dataset);
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = chunk->range.first; i < chunk->range.end; i++) {
        int64_t place = i - chunk->range.first;
        if (dataset_read(dataset, i, 0, false, chunk->images + place * size, &chunk->label[place]))
            chunk->label[place] = -1;
    }
}

/* Softmax of @score (classes) in place. */
static void softmax(int32_t classes, float *score)
{
    double largest = score[0], sum = 0;
    for (int32_t i = 1; i < classes; i++)
        largest = fmax(largest, score[i]);
    for (int32_t i = 0; i < classes; i++)
        sum += exp(score[i] - largest);
    for (int32_t i = 0; i < classes; i++)
        score[i] = (float)(exp(score[i] - largest) / sum);
}

/* Number of classes with a higher probability than the right one, or an equal one and a lower
 * index. */
static int32_t rank_of(int32_t classes, const float *probability, int32_t label)
{
    int32_t before = 0;
    for (int32_t i = 0; i < classes; i++)
        before += probability[i] > probability[label] ||
                  (i < label && !(probability[i] < probability[label]));
    return before;
}

static void count_image(struct evaluation *evaluation, int32_t classes, const float *probability,
                        int32_t label)
{
    int32_t before = rank_of(classes, probability, label);
    evaluation->images++;
    evaluation->top1 += before < 1;
    evaluation->top5 += before < 5;
    evaluation->loss -= log(fmax((double)probability[label], 1e-45));
}

static void take_chunk(const struct model *model, const struct chunk *chunk, struct share own,
                       float *probability, struct evaluation *evaluation)
{
    int32_t classes = model->classes;
    int64_t each = target_count(model);
    int64_t count = chunk->range.end - chunk->range.first;
    AUTOFREE int32_t *target = base_alloc(count * each, sizeof(*target));
    target_fill(model, count, chunk->images, chunk->label, target);
    for (int64_t i = 0; i < count * each; i++) {
        float *score = chunk->scores + i * classes;
        if (chunk->label[i / each] < 0)
            continue;
        softmax(classes, score);
        if (!probability) {
            count_image(evaluation, classes, score, target[i]);
            continue;
        }
        int64_t row = (chunk->range.first - own.first) * each + i;
        float *sum = probability + row * classes;
        for (int32_t c = 0; c < classes; c++)
            sum[c] += score[c];
    }
}

static void add_up(struct evaluation *evaluation)
{
    double sum[] = {(double)evaluation->images, (double)evaluation->top1, (double)evaluation->top5,
                    evaluation->loss};
    if (world_self().ranks > 1)
        world_sum(sum, 4);
    *evaluation = (struct evaluation){.images = (int64_t)sum[0],
                                      .top1 = (int64_t)sum[1],
                                      .top5 = (int64_t)sum[2],
                                      .loss = sum[0] > 0 ? sum[3] / sum[0] : 0};
}

struct evaluation evaluate_images(const struct train_job *job, struct device_state *device,
                                  struct stream *stream, const struct dataset *dataset,
                                  int32_t size, float *probability)
{
    const struct device_ops *ops = job->device_ops;
    int64_t scores = target_count(job->model) * job->model->classes;
    int64_t workers = job->scenario->input.workers;
    int32_t threads = workers > 0 ? (int32_t)workers : 1;
    int64_t image = dataset_floats(dataset);
    struct share own = own_range(dataset, world_self());
    struct evaluation evaluation = {0};
    struct event *done = ops->streams->event_new();
    struct chunk chunk[2]; /* one is scored while the other is read */
    for (int32_t i = 0; i < 2; i++)
        chunk[i] = (struct chunk){.images = base_alloc(size * image, sizeof(float)),
                                  .label = base_alloc(size, sizeof(int32_t)),
                                  .scores = base_alloc(size * scores, sizeof(float))};
    int32_t turn = 0;
    for (int64_t first = own.first; first < own.end + size; first += size, turn ^= 1) {
        chunk[turn].range = (struct share){first, first + size < own.end ? first + size : own.end};
        read_chunk(dataset, threads, &chunk[turn]);
        if (first > own.first) {
            ops->streams->synchronize(done);
            take_chunk(job->model, &chunk[turn ^ 1], own, probability, &evaluation);
            world_progress("evaluation");
        }
        int32_t count = (int32_t)(chunk[turn].range.end - first);
        if (count > 0)
            ops->score(device, stream, chunk[turn].images, count, chunk[turn].scores);
        ops->streams->record(stream, done);
    }
    ops->streams->synchronize(done);
    ops->streams->event_free(done);
    for (int32_t i = 0; i < 2; i++) {
        free(chunk[i].images);
        free(chunk[i].label);
        free(chunk[i].scores);
    }
    add_up(&evaluation);
    return evaluation;
}

/* ---- an ensemble ---- */

/* Add the probabilities of the checkpoint @path for this rank's images. */
static int add_member(const struct train_job *job, const struct layout *layout, const char *path,
                      struct device_state *device, const struct dataset *dataset, int32_t chunk,
                      float *probability, struct err *err)
{
    struct progress progress;
    struct weights weights = {.parameter = base_alloc(layout->parameters, sizeof(float)),
                              .statistics = base_alloc(layout->statistic_count, sizeof(float))};
    int failed = checkpoint_read(path, layout, &progress, &weights, err);
    if (!failed) {
        struct stream *stream = job->device_ops->streams->stream_new();
        job->device_ops->write(device, &weights);
        evaluate_images(job, device, stream, dataset, chunk, probability);
        job->device_ops->streams->stream_free(stream);
    }
    free(weights.parameter);
    free(weights.statistics);
    return world_agree(failed, err);
}

/* Count by the summed probabilities; an image that cannot be read is left out. */
static void count_all(const struct dataset *dataset, const struct model *model, int32_t members,
                      float *probability, struct evaluation *evaluation)
{
    int64_t each = target_count(model), classes = model->classes;
    struct share own = own_range(dataset, world_self());
    AUTOFREE float *image = base_alloc(dataset_floats(dataset), sizeof(float));
    AUTOFREE int32_t *target = base_alloc(each, sizeof(*target));
    int32_t label;
    for (int64_t i = own.first; i < own.end; i++) {
        float *sum = probability + (i - own.first) * each * classes;
        for (int64_t c = 0; c < each * classes; c++)
            sum[c] /= (float)members;
        if (dataset_read(dataset, i, 0, false, image, &label))
            continue;
        target_fill(model, 1, image, &label, target);
        for (int64_t p = 0; p < each; p++)
            count_image(evaluation, model->classes, sum + p * classes, target[p]);
    }
    add_up(evaluation);
}

static struct device_job scoring_job(const struct train_job *job)
{
    const int64_t usual = 32; /* images at once: enough to keep the arithmetic busy */
    return (struct device_job){.model = job->model,
                               .scenario = job->scenario,
                               .batch = (int32_t)phase_micro_batch(job->scenario, usual),
                               .micro_batches = 1,
                               .slots = 1,
                               .ranks = world_self().ranks,
                               .attention = job->attention,
                               .threads = job->threads};
}

/* The type was checked when ranks opened their devices. */
struct evaluation evaluate_whole(const struct train_job *job, const struct weights *weights,
                                 const struct dataset *dataset)
{
    AUTORELEASE(err) struct err err = {0};
    const struct device_ops *ops = job->device_ops;
    struct device_job scoring = scoring_job(job);
    struct device_state *device = NULL;
    int failed = ops->open(&device, &scoring, &err);
    assert(!failed);
    (void)failed;
    ops->write(device, &(struct weights){.parameter = weights->parameter});
    struct stream *stream = ops->streams->stream_new();
    struct evaluation evaluation =
        evaluate_images(job, device, stream, dataset, scoring.batch, NULL);
    ops->streams->stream_free(stream);
    ops->close(device);
    return evaluation;
}

int train_evaluate(const struct train_job *job, const char *const *path, int32_t count,
                   struct evaluation *evaluation, struct err *err)
{
    struct device_state *device = NULL;
    struct device_job device_job = scoring_job(job);
    struct dataset_spec spec = train_dataset_spec(job->scenario, job->model);
    struct dataset *dataset = dataset_open(&spec, SPLIT_VALIDATION, err);
    AUTORELEASE(layout) struct layout layout = layout_build(job->model);
    layout.squares = optimizer_cost(job->scenario).state > 1;
    int failed = !dataset || job->device_ops->open(&device, &device_job, err);
    if (!world_agree(failed, err)) {
        struct share own = own_range(dataset, world_self());
        AUTOFREE float *probability =
            base_alloc((own.end - own.first) * target_count(job->model) * job->model->classes,
                       sizeof(*probability));
        for (int32_t i = 0; i < count && !failed; i++)
            failed = add_member(job, &layout, path[i], device, dataset, device_job.batch,
                                probability, err);
        if (!failed)
            count_all(dataset, job->model, count, probability, evaluation);
    }
    job->device_ops->close(device);
    dataset_close(dataset);
    return failed || err->exit_code > 0 ? -1 : 0;
}
