/** @file
 * Trains a network on one device on fixed random batches: how long a step takes, or what it
 * computes.
 *
 * Usage: device_step DEVICE NETWORK IMAGE BATCH THREADS [DIRECTORY SEED] [KEY=VALUE]...
 *
 * For each line "step" on standard input one step is run, for each line "sgemm" a product of two
 * matrices of 2048 x 2048 by oneDNN; the answer to each is one line: seconds, by the clock.
 * With DIRECTORY instead, steps are run without weight decay, the loss of each is a line, and what
 * the first started from and came to is written there: raw fp32 files (parameters, averaged
 * gradients, images, scores before the step; statistics after it), tensors in torchvision's order,
 * and labels as int32.
 *
 * Keys: compute, gradients (types; fp32), scale (of the loss; 4), rate (0.01), classes (1000),
 * batches (taken in turn; 1), steps (with DIRECTORY; 1), shift (see device_run.h; 2), layers and
 * dropout (of a transformer; as it was published).  IMAGE is the length of GPT-2's sequences.
 */

#include "config.h"
#ifdef HAVE_ONEDNN
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#endif

#include "exec/measure/devices.h"
#include "models/networks.h"
#include "tests/exec/device_run.h"
#include "tests/own.h"

static void save(const char *directory, const char *name, const void *data, int64_t size)
{
    AUTOFREE char *path = base_format("%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, (size_t)size, file) != (size_t)size || fclose(file)) {
        perror(path);
        exit(74);
    }
}

/* Flat arrays are packed from the last layer to the first. */
static void save_tensors(const struct device_run *run, const char *directory, const char *name,
                         const float *flat)
{
    int64_t done = 0;
    AUTOFREE float *ordered = base_alloc(run->layout.parameters, sizeof(float));
    for (int32_t t = 0; t < run->job.model->tensor_count; t++) {
        struct parameter p = run->layout.parameter[t];
        memcpy(ordered + done, flat + p.offset, (size_t)p.elements * sizeof(float));
        done += p.elements;
    }
    save(directory, name, ordered, done * (int64_t)sizeof(float));
}

/* Returns the loss. */
static double step(struct device_run *run)
{
    struct outcome outcome = device_run_step(run);
    if (outcome.overflow) {
        fprintf(stderr, "device_step: a gradient is not finite\n");
        exit(1);
    }
    return outcome.loss;
}

static void train_on(struct device_run *run, int32_t steps)
{
    for (int32_t i = 0; i < steps; i++)
        printf("%.9g\n", step(run));
}

/* After one step from rest the momentum is the averaged gradient, in whatever type it travelled. */
static void save_first_step(struct device_run *run, const char *directory)
{
    const int64_t size = sizeof(float);
    train_on(run, 1);
    run->job.ops->read(run->state, &(struct weights){.momentum = run->weights.momentum,
                                                     .statistics = run->weights.statistics});
    save_tensors(run, directory, "gradients", run->weights.momentum);
    save(directory, "statistics", run->weights.statistics, run->layout.statistic_count * size);
}

static void dump(struct device_run *run, const char *directory, int32_t steps)
{
    const struct device_run_job *job = &run->job;
    const int64_t size = sizeof(float);
    int64_t images = (int64_t)job->batches * job->batch;
    int64_t scores_size = (int64_t)job->batch * job->model->classes * size;
    AUTOFREE float *scores = base_alloc(scores_size, 1);
    run->scenario.training.weight_decay = 0;
    save_tensors(run, directory, "parameters", run->weights.parameter);
    save(directory, "images", run->images, images * shape_elements(job->model->layer[0].in) * size);
    save(directory, "labels", run->label, images * (int64_t)sizeof(int32_t));
    device_run_score(run, scores);
    save(directory, "scores", scores, scores_size);
    save_first_step(run, directory);
    train_on(run, steps - 1);
}

static void multiply(int threads)
{
#ifdef HAVE_ONEDNN
    enum { SIDE = 2048 };
    static float *a, *b, *c;
    if (!a) {
        a = base_alloc(SIDE * SIDE, sizeof(float));
        b = base_alloc(SIDE * SIDE, sizeof(float));
        c = base_alloc(SIDE * SIDE, sizeof(float));
    }
    omp_set_num_threads(threads);
    dnnl_sgemm('N', 'N', SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
#else
    (void)threads;
    fprintf(stderr, "device_step: built without oneDNN, which has sgemm\n");
    exit(69);
#endif
}

static void serve(struct device_run *run)
{
    char line[16];
    while (fgets(line, sizeof(line), stdin)) {
        double begin = base_seconds(CLOCK_MONOTONIC);
        if (strcmp(line, "step\n") == 0)
            step(run);
        else
            multiply(run->job.threads);
        printf("%.6f\n", base_seconds(CLOCK_MONOTONIC) - begin);
        fflush(stdout);
    }
}

/* What KEY=VALUE words say. */
struct keys {
    struct device_run_job job;
    struct transformer network;
    int32_t classes, steps;
};

/* Returns the type called @name, or leaves with a message. */
static enum dtype dtype_of(const char *name)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(dtype_names[i], name) == 0)
            return (enum dtype)i;
    fprintf(stderr, "device_step: no type is called '%s'\n", name);
    exit(64);
}

static void read_key(struct keys *keys, const char *word)
{
    struct device_run_job *job = &keys->job;
    const char *value = strchr(word, '=') + 1;
    size_t length = (size_t)(value - word);
    if (strncmp(word, "compute=", length) == 0)
        job->compute = dtype_of(value);
    else if (strncmp(word, "gradients=", length) == 0)
        job->gradients = dtype_of(value);
    else if (strncmp(word, "scale=", length) == 0)
        job->loss_scale = atof(value);
    else if (strncmp(word, "rate=", length) == 0)
        job->learning_rate = atof(value);
    else if (strncmp(word, "shift=", length) == 0)
        job->shift = atof(value);
    else if (strncmp(word, "batches=", length) == 0)
        job->batches = atoi(value);
    else if (strncmp(word, "classes=", length) == 0)
        keys->classes = atoi(value);
    else if (strncmp(word, "layers=", length) == 0)
        keys->network.layers = atoi(value);
    else if (strncmp(word, "dropout=", length) == 0)
        keys->network.dropout = strcmp(value, "true") == 0 ? CHOICE_TRUE : CHOICE_FALSE;
    else if (strncmp(word, "steps=", length) == 0)
        keys->steps = atoi(value);
    else {
        fprintf(stderr, "device_step: no key is called '%s'\n", word);
        exit(64);
    }
}

/* Reads words with '=' and moves the others to the front.  Returns how many those are. */
static int read_keys(struct keys *keys, int argc, char **argv)
{
    int positional = 0;
    for (int i = 0; i < argc; i++)
        if (i > 0 && strchr(argv[i], '='))
            read_key(keys, argv[i]);
        else
            argv[positional++] = argv[i];
    return positional;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct device_run run = {0};
    struct keys keys = {.job = {.micro_batches = 1, .learning_rate = 0.01, .shift = 2},
                        .classes = 1000,
                        .steps = 1};
    argc = read_keys(&keys, argc, argv);
    if (argc < 6)
        return 64;
    keys.network.sequence = strncmp(argv[2], "gpt2", 4) == 0 ? atoi(argv[3]) : 0;
    struct device_run_job job = keys.job;
    job.ops = device_find(argv[1]);
    job.model = network_open(NULL, argv[2], atoi(argv[3]), keys.classes, &keys.network, &err);
    job.batch = atoi(argv[4]);
    job.threads = atoi(argv[5]);
    job.seed = argc > 7 ? (uint64_t)atoi(argv[7]) : 0;
    if (!job.ops || !job.model || device_run_open(&run, &job, &err)) {
        fprintf(stderr, "device_step: %s\n", err.count ? err.text : "no such device");
        return 69;
    }
    if (argc > 6)
        dump(&run, argv[6], keys.steps);
    else
        serve(&run);
    device_run_close(&run);
    model_free((struct model *)job.model);
    return 0;
}
