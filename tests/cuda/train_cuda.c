/** @file
 * Train on GPUs in software: the device cuda, the transport nccl and the loop that joins them, with
 * everything below in software.  Steps from the third on are launched as graphs.
 *
 * Usage: train_cuda COLUMNS ROWS ALGORITHM TYPE [OPTIMIZER | FOLDER HOW], on COLUMNS * ROWS ranks;
 * TYPE is that of what is computed and of gradients, OPTIMIZER sgd (unless said) or lars.  With
 * $FORETRAIN_TEST_SHARDED each rank updates its shard.  FOLDER holds JPEG files, as
 * tests/cuda/make_pictures.c writes them; HOW is what the device takes of them: images, or pictures
 * (which it crops); there are two phases, and augmentation ends in the middle of an epoch, unless
 * $FORETRAIN_TEST_AUGMENT.  Rank 0 prints the loss of each step.  What NCCL was told to move is
 * aligned.
 *
 * It trains twice: with the schedule of the learning rate in the device's memory, and told step by
 * step, or with $FORETRAIN_TEST_FOLDER interrupted by a checkpoint there.  With
 * $FORETRAIN_TEST_AT_ONCE all gradients are exchanged at once, after the backward pass.  With
 * $FORETRAIN_TEST_OVERFLOW the loss scale is at first too large, so that steps are skipped.  With
 * $FORETRAIN_TEST_NO_MEMORY the last rank's NCCL has none for gradients.
 */

#include "exec/cuda/device_cuda.h"
#include "exec/cuda/nccl/comm_nccl.h"
#include "tests/cuda/fake/fake_nccl.h"
#include "tests/cuda/fake/fake_runtime.h"
#include "tests/exec/train_fixture.h"

enum { STEPS = 12, INTERRUPTED = 5 };

/* ---- the device, watched ---- */

/* What the device is told, and whether all of it when it is opened, in each phase. */
static struct {
    bool scheduled;
    int32_t count;
} told;

static int open_told(struct device_state **state, const struct device_job *job, struct err *err)
{
    struct device_job inner = *job;
    told.count += job->rate_count;
    if (!told.scheduled) {
        inner.rate = NULL;
        inner.rate_count = 0;
    }
    return device_cuda_ops.open(state, &inner, err);
}

/* With a schedule, what is said beside it would spoil all weights. */
static void prepare_told(struct device_state *state, int32_t iteration, const struct update *update)
{
    struct update said = *update;
    if (told.scheduled)
        said.learning_rate = said.weight_decay = NAN;
    device_cuda_ops.prepare(state, iteration, &said);
}

/* ---- jobs ---- */

/* What is trained on. */
struct data {
    const char *folder; /* NULL: made up */
    const char *how;
};

static char *dataset_text(struct data data)
{
    if (!data.folder)
        return base_format("{source: procedural, train_images: 96, validation_images: 10}");
    return base_format("{source: imagefolder, path: %s, validation_path: %s, train_images: 96, "
                       "validation_images: 96}",
                       data.folder, data.folder);
}

static char *phases_text(struct data data)
{
    if (!data.folder)
        return base_format("  phases: [{epochs: 3, global_batch: 24}]\n"
                           "  learning_rate: {base: 0.04, decay: cosine}\n"
                           "  warmup_epochs: 0.8\n");
    return base_format("  phases: [{epochs: 2, global_batch: 24}, {epochs: 2, global_batch: 48}]\n"
                       "  learning_rate: {base: 0.02}\n"
                       "  collapse: {epochs: 1.6, learning_rate: 0.02, augment: %s}\n",
                       getenv("FORETRAIN_TEST_AUGMENT") ? "true" : "false");
}

static void open_fixture(struct fixture *fixture, struct device_ops *ops, struct grid grid,
                         const char *algorithm, const char *type, const char *optimizer,
                         struct data data)
{
    AUTOFREE char *dataset = dataset_text(data), *phases = phases_text(data);
    AUTOFREE char *text = base_format(
        "version: 1\n"
        "model: {network: toy, image: 16, classes: 4, precision: {compute: %s, gradients: %s}}\n"
        "cluster: {platform: none, nodes: 1, devices_per_node: 1}\n"
        "training:\n"
        "  dataset: %s\n"
        "%s"
        "  micro_batch: 2\n"
        "  evaluate_every: 3\n"
        "  optimizer: {%s}\n"
        "  loss_scale: {%s}\n"
        "%sallreduce: {algorithm: %s, %s, ctas: 8}\n",
        type, type, dataset, phases,
        strcmp(optimizer, "lars") ? "name: sgd" : "name: lars, trust: 0.05",
        getenv("FORETRAIN_TEST_OVERFLOW") ? "initial: 65536, dynamic: true" : "",
        getenv("FORETRAIN_TEST_SHARDED") ? "parallel: {sharding: 1}\n" : "", algorithm,
        getenv("FORETRAIN_TEST_AT_ONCE") ? "bucket: 1 GB, overlap: none"
                                         : "bucket: 20 kB, overlap: backward");
    *ops = device_cuda_ops;
    ops->open = open_told;
    ops->prepare = prepare_told;
    if (data.folder && !strcmp(data.how, "images"))
        ops->crops = false;
    fixture_open(fixture, text, grid, ops, &comm_nccl_ops);
}

/* Steps @from to @to.  @return the checkpoint, which the caller frees. */
static char *train(const struct train_job *job, int32_t from, int32_t to, double loss[STEPS])
{
    HELD(err) err = {0};
    HELD(train_result) result = {0};
    int64_t launches = fake_launches(), steps = to - from;
    told.count = 0;
    check(!train_run(job, &result, &err), err.text ? err.text : "the job runs");
    check(result.steps == steps && result.finished == (to == STEPS), "all steps were done");
    check(told.count == STEPS - from, "the device gets the rates of the steps that are left");
    check(to < STEPS || result.progress.top1 >= 0, "it was evaluated");
    check((result.progress.skipped_steps > 0) == (getenv("FORETRAIN_TEST_OVERFLOW") != NULL),
          "steps are skipped where the loss scale is too large");
    check((result.skipped_images > 2) == (job->scenario->training.data.path != NULL),
          "a file that ends early was replaced, and left out of two evaluations");
    check(fake_launches() - launches == steps - 2 * job->plan->phase_count,
          "steps of a phase from the third on were graphs");
    for (int32_t i = 0; i < steps && i < result.steps; i++)
        loss[from + i] = result.loss[i];
    check(fake_nccl_alive() == 0, "communicators are gone");
    check(fake_objects() == 0, "device memory, streams and events are gone");
    return base_copy(result.checkpoint);
}

/* All steps; in two runs, with a checkpoint in @folder between them, or in one where it is NULL. */
static void train_all(struct train_job *job, bool scheduled, const char *folder, double loss[STEPS])
{
    told.scheduled = scheduled;
    job->directory = folder;
    job->steps = folder ? INTERRUPTED : 0;
    AUTOFREE char *checkpoint = train(job, 0, folder ? INTERRUPTED : STEPS, loss);
    if (folder) {
        job->steps = 0;
        job->resume = checkpoint;
        free(train(job, INTERRUPTED, STEPS, loss));
        job->resume = NULL;
    }
}

/* Each collective, but for what is tried with captures before any memory is registered, is of a
 * multiple of @alignment numbers, from one to another of their kind, inside of what was registered:
 * in steps that are issued and in steps that are captured.  But for all-reduces of @norms numbers.
 */
static void check_collectives(int64_t alignment, int64_t norms)
{
    int32_t collectives = 0;
    long long begin = 0, bytes = 0, count, from, to;
    for (const char *line = fake_nccl_log(); line[0]; line = strchr(line, '\n') + 1) {
        char op[16], type[8];
        sscanf(line, "register %*s %lld @%lld", &bytes, &begin);
        bytes = strncmp(line, "deregister ", 11) ? bytes : 0;
        if (sscanf(line, "%15[a-z-] %*s %lld %7s @%lld>@%lld", op, &count, type, &from, &to) != 5 ||
            (count == 1 && bytes == 0) || (count == norms && !strcmp(op, "all-reduce")))
            continue;
        long long size = strcmp(type, "fp32") ? 2 : 4, last = from > to ? from : to;
        collectives++;
        check(count > 0 && count % alignment == 0, "a collective has aligned numbers");
        check(from % alignment == 0 && to % alignment == 0, "it moves them to aligned places");
        check((from < to ? from : to) * size >= begin, "which begin where it was registered");
        check((last + count) * size <= begin + bytes, "and end there");
        check(!getenv("FORETRAIN_TEST_AT_ONCE") || (last * size == begin && count * size == bytes),
              "it is of all gradients, if they go at once");
    }
    bool exchanged = world_self().ranks > 1;
    check((collectives > 0) == exchanged, "gradients are exchanged");
    check((strstr(fake_nccl_log(), "at most 8 CTAs") != NULL) == exchanged, "as the job limits it");
    bool own = exchanged && !getenv("FORETRAIN_TEST_NO_MEMORY");
    check((strstr(fake_nccl_log(), " of its own\n") != NULL) == own, "in NCCL's memory, if any");
}

int main(int argc, char **argv)
{
    double loss[STEPS] = {0}, again[STEPS] = {0}, resumed[STEPS] = {0};
    const char *folder = getenv("FORETRAIN_TEST_FOLDER");
    HELD(fixture) fixture = {0};
    struct device_ops ops;
    world_start(&argc, &argv);
    if (argc < 5 || argc > 7)
        world_abort(64);
    struct data data = {argc == 7 ? argv[5] : NULL, argc == 7 ? argv[6] : NULL};
    fake_devices(16);
    if (getenv("FORETRAIN_TEST_NO_MEMORY") && world_self().rank == world_self().ranks - 1)
        fake_nccl_refuse_memory();
    open_fixture(&fixture, &ops, (struct grid){.columns = atoi(argv[1]), .rows = atoi(argv[2])},
                 argv[3], argv[4], argc == 6 ? argv[5] : "sgd", data);
    train_all(&fixture.job, true, NULL, loss);
    if (folder)
        train_all(&fixture.job, true, folder, resumed);
    else
        train_all(&fixture.job, false, NULL, again);
    for (int32_t i = 0; i < STEPS; i++) {
        check(folder || loss[i] == again[i], "the same seed gives the same bits");
        check(!folder || loss[i] == resumed[i], "a resumed run gives the same bits");
        if (world_self().rank == 0)
            printf("%.9g\n", loss[i]);
    }
    int64_t norms = iteration_norms(fixture.model, &fixture.scenario) +
                    iteration_vectors(fixture.model, &fixture.scenario);
    check_collectives(comm_nccl_ops.alignment, getenv("FORETRAIN_TEST_SHARDED") ? norms : 0);
    fake_nccl_base(NULL);
    return ranks_end();
}
