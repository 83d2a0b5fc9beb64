#include <sys/stat.h>

#include "app/cli/command.h"
#include "core/base/claim.h"
#include "core/base/file.h"
#include "exec/input/input.h"
#include "exec/input/pack/pack.h"

enum {
    SIDE_MOST = 4096, /* [pixels] of the shorter side */
    THREADS_MOST = 1024
};

static const char *const split_words[] = {"train", "validation", NULL};

static int32_t cores(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > THREADS_MOST ? THREADS_MOST : (int32_t)count;
}

/* A line that is rewritten, on a terminal. */
static void show_progress(int64_t done, int64_t count)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%3.0f %%  %" PRId64 " of %" PRId64 " images%s",
                100.0 * (double)done / (double)count, done, count, done == count ? "\n" : "");
}

struct pack_answer {
    const char *path;
    const struct pack_summary *summary;
};

COLUMNS(summary_columns, NULL, struct pack_summary)
{
    COLUMN("split", split, .words = split_words, .help = "training or validation images");
    COLUMN("images", images, .help = "images in the pack");
    COLUMN("left_out", left_out, .help = "corrupt images, left out");
    COLUMN("classes", classes, .help = "classes of images");
    COLUMN("images_in_smallest_class", least, .help = "images in the smallest class");
    COLUMN("images_in_largest_class", most, .help = "images in the largest class");
    COLUMN("shorter_side", shorter, .help = "longest shorter side of an image, in pixels");
    COLUMN("bytes", bytes, .help = "size of the pack");
}

COLUMNS(data_columns, "data/2", struct pack_answer)
{
    COLUMN("path", path, .help = "of the pack");
    COLUMN_MEMBERS(summary, &summary_columns);
}

static void print_summary(const char *path, const struct pack_summary *summary, bool json,
                          struct text *out)
{
    if (!json) {
        text_add(out,
                 "%s: %" PRId64 " images of %d classes for %s, shorter side at most %d\n%" PRId64
                 " to %" PRId64 " images in a class, %s",
                 path, summary->images, summary->classes,
                 summary->split == SPLIT_TRAIN ? "training" : "validation", summary->shorter,
                 summary->least, summary->most, unit_text(UNIT_BYTES, (double)summary->bytes));
        if (summary->left_out)
            text_add(out, "; %" PRId64 " corrupt image%s left out", summary->left_out,
                     base_plural(summary->left_out));
        text_add(out, "\n");
        return;
    }
    answer_print(out, &data_columns, &(struct pack_answer){path, summary});
}

struct data_request {
    struct request head;
    const char *to;
    int32_t shorter; /* side of packed images [pixels] */
    int32_t split;   /* enum split */
    int32_t threads; /* 0: to pack one per core, to measure one */
    int32_t image;   /* [pixels] */
    bool strict;
};

static const struct data_request defaults = {.shorter = 256, .image = 224};

#define AT(member) offsetof(struct data_request, member)

static int pack(const void *record, struct text *out, struct err *err)
{
    const struct data_request *request = record;
    struct pack_summary summary;
    struct pack_job job = {
        .from = request->head.argument.item[0],
        .to = request->to,
        .split = (enum split)request->split,
        .shorter = request->shorter,
        .threads = request->threads ? request->threads : cores(),
        .strict = request->strict,
        .progress = show_progress,
    };
    if (!job.to)
        return err_usage(err, "--to is needed: the file to write, as in --to train.ftp");
    if (job.shorter < 1 || job.shorter > SIDE_MOST)
        return err_usage(err, "--image: must be 1 to %d pixels", SIDE_MOST);
    if (job.threads > THREADS_MOST)
        return err_usage(err, "--threads: must be at most %d", THREADS_MOST);
    if (claim_input_all(job.from, err) || pack_write(&job, &summary, err))
        return -1;
    print_summary(job.to, &summary, request->head.json, out);
    return 0;
}

static int check(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    struct pack_summary summary;
    const char *path = request->argument.item[0];
    if (pack_check(path, &summary, err))
        return -1;
    print_summary(path, &summary, request->json, out);
    if (!request->json)
        text_add(out, "all of it is what was written\n");
    return 0;
}

/* ---- tokens ---- */

struct tokens_answer {
    const char *path;
    int64_t tokens;
    int32_t vocabulary;
};

COLUMNS(tokens_columns, "data-tokens/1", struct tokens_answer)
{
    COLUMN("path", path, .help = "of the file");
    COLUMN("tokens", tokens, .help = "numbers of 16 bits in it");
    COLUMN("vocabulary", vocabulary, .help = "numbers that a token may be: model.vocab");
}

/* Each byte of the files is a token. */
static int tokens(const void *record, struct text *out, struct err *err)
{
    const struct data_request *request = record;
    const struct texts *from = &request->head.argument;
    AUTORELEASE(text) struct text wide = {0};
    struct tokens_answer answer = {.path = request->to, .vocabulary = 256};
    if (!request->to)
        return err_usage(err, "--to is needed: the file to write, as in --to train.bin");
    for (int32_t i = 0; i < from->count; i++) {
        AUTORELEASE(text) struct text bytes = {0};
        if (file_read(from->item[i], &bytes, err))
            return -1;
        AUTOFREE char *pair = base_alloc(2 * bytes.length, 1);
        for (int64_t k = 0; k < bytes.length; k++)
            pair[2 * k] = bytes.data[k];
        text_append(&wide, pair, 2 * bytes.length);
    }
    answer.tokens = wide.length / 2;
    if (answer.tokens == 0)
        return err_add(err, "%s: no text, so no tokens", from->item[0]);
    if (file_write(request->to, &wide, NULL, err))
        return -1;
    if (request->head.json)
        answer_print(out, &tokens_columns, &answer);
    else
        text_add(out, "%s: %" PRId64 " tokens, each a byte: model.vocab is %d\n", request->to,
                 answer.tokens, answer.vocabulary);
    return 0;
}

static const struct option tokens_options[] = {
    OPTION_ROW("to", 't', OPTION_OUTPUT, AT(to), "FILE", NULL,
               "The file to write; replaced when complete"),
    ROW_JSON, ROW_LAST};

static const struct command data_tokens = {
    .name = "tokens",
    .synopsis = "FILE... --to FILE.bin [options]",
    .help = "write the bytes of text files as tokens: a flat file of numbers of 16 bits",
    .examples = "foretrain data tokens book.txt --to train.bin\n"
                "foretrain data tokens *.txt --to train.bin",
    RECORD(tokens_options, struct data_request, &defaults),
    TAKES(1, INT32_MAX),
    ANSWERS(&tokens_columns),
    .run = tokens,
};

/* ---- speed ---- */

/* Kinds of paths: a pack, a folder of class folders, or tar files. */
static enum dataset_source source_of(const char *path)
{
    struct stat status;
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".ftp") == 0)
        return SOURCE_PACK;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode) ? SOURCE_IMAGEFOLDER
                                                               : SOURCE_WEBDATASET;
}

/* The rate of batches, after those that fill the slots. */
struct speed {
    int64_t images;
    double wall, cpu; /* [s] */
};

static struct speed measure(const struct dataset *dataset, int32_t threads)
{
    const double least = 3; /* [s] */
    struct input_job job = {
        .ranks = 1, .local = 8 * threads, .threads = threads, .prefetch = 2, .augment = true};
    int64_t side = dataset_image(dataset);
    AUTOFREE float *images = base_alloc(3 * side * side * job.local, sizeof(*images));
    AUTOFREE int32_t *label = base_alloc(job.local, sizeof(*label));
    struct input *input = input_new(dataset, &job);
    input_next(input, images, label);
    struct speed speed = {0, -base_seconds(CLOCK_MONOTONIC),
                          -base_seconds(CLOCK_PROCESS_CPUTIME_ID)};
    while (base_seconds(CLOCK_MONOTONIC) + speed.wall < least) {
        input_next(input, images, label);
        speed.images += job.local;
    }
    speed.wall += base_seconds(CLOCK_MONOTONIC);
    speed.cpu += base_seconds(CLOCK_PROCESS_CPUTIME_ID);
    input_free(input);
    return speed;
}

struct speed_answer {
    const char *path, *source;
    int32_t image, threads;
    int64_t images, corrupt;
    double rate, thread; /* images/s, and per second of processor time */
};

COLUMNS(speed_columns, "data-speed/2", struct speed_answer)
{
    COLUMN("path", path, .help = "of the images");
    COLUMN("source", source, .help = "kind of data");
    COLUMN("image", image, .help = "side of a cropped image, in pixels");
    COLUMN("threads", threads, .help = "threads that read");
    COLUMN("images", images, .help = "images that were read");
    COLUMN("corrupt", corrupt, .help = "corrupt images among them");
    COLUMN("images_per_s", rate, .help = "speed of all threads");
    COLUMN("images_per_cpu_s", thread, .help = "speed in a second of processor time");
}

static void print_speed(const struct data_request *request, const struct dataset *dataset,
                        const struct speed *speed, int32_t threads, struct text *out)
{
    const char *path = request->head.argument.item[0];
    const struct speed_answer answer = {
        path,
        dataset_source_names[source_of(path)],
        dataset_image(dataset),
        threads,
        speed->images,
        dataset_corrupt(dataset, NULL),
        (double)speed->images / speed->wall,
        (double)speed->images / speed->cpu,
    };
    if (request->head.json) {
        answer_print(out, &speed_columns, &answer);
        return;
    }
    text_add(out, "%s: %.0f images/s with %d thread%s, %.0f per second of processor time\n", path,
             answer.rate, threads, base_plural(threads), answer.thread);
    text_add(out, "for predictions: --set 'input.rate=%.0f images/s'\n", answer.thread);
}

static int show_speed(const void *record, struct text *out, struct err *err)
{
    const struct data_request *request = record;
    const char *path = request->head.argument.item[0];
    int32_t threads = request->threads ? request->threads : 1;
    struct dataset_spec spec = {
        .source = source_of(path), .path = path, .validation_path = path, .image = request->image};
    if (threads > THREADS_MOST || request->image < 1 || request->image > SIDE_MOST)
        return err_usage(err, "expected at most %d --threads and 1 to %d pixels of --image",
                         THREADS_MOST, SIDE_MOST);
    struct dataset *dataset = dataset_open(&spec, SPLIT_TRAIN, err);
    if (!dataset)
        return -1;
    struct speed speed = measure(dataset, threads);
    print_speed(request, dataset, &speed, threads, out);
    dataset_close(dataset);
    return 0;
}

static const struct option pack_options[] = {
    OPTION_ROW("to", 't', OPTION_OUTPUT, AT(to), "FILE", NULL,
               "The pack to write; replaced when complete"),
    OPTION_ROW("image", 0, OPTION_INTEGER, AT(shorter), "PIXELS", NULL,
               "Make shorter sides smaller to this; validation at 224 wants 256 (default: 256)"),
    OPTION_ROW("split", 0, OPTION_WORD, AT(split), NULL, split_words,
               "What the images are for (default: train)"),
    OPTION_ROW("threads", 0, OPTION_INTEGER, AT(threads), "N", NULL,
               "Threads that decode (default: one per core)"),
    OPTION_ROW("strict-data", 0, OPTION_FLAG, AT(strict),
               .help = "Refuse corrupt images instead of leaving them out"),
    ROW_JSON,
    ROW_LAST};

static const struct option speed_options[] = {OPTION_ROW("threads", 0, OPTION_INTEGER, AT(threads),
                                                         "N", NULL,
                                                         "Threads that read (default: 1)"),
                                              ROW_IMAGE(AT(image)), ROW_JSON, ROW_LAST};

static const struct option check_options[] = {ROW_JSON, ROW_LAST};

static const struct command data_pack = {
    .name = "pack",
    .synopsis = "FOLDER|TAR --to FILE.ftp [options]",
    .help = "decode the images of a folder of class folders, or of tar files, into one file",
    .examples = "foretrain data pack imagenet/train --to train.ftp\n"
                "foretrain data pack imagenet/val --split validation --to val.ftp\n"
                "foretrain data pack 'train-{000..146}.tar' --to train.ftp",
    RECORD(pack_options, struct data_request, &defaults),
    TAKES(1, 1),
    ANSWERS(&data_columns),
    .run = pack,
};
static const struct command data_check = {
    .name = "check",
    .synopsis = "FILE.ftp [options]",
    .help = "whether all of a pack is what was written",
    .examples = "foretrain data check train.ftp",
    RECORD(check_options, struct request, NULL),
    TAKES(1, 1),
    .run = check,
};

static const struct command data_speed = {
    .name = "speed",
    .synopsis = "FOLDER|TAR|FILE.ftp [options]",
    .help = "how many training images a second can be read, for input.rate of a scenario",
    .examples = "foretrain data speed imagenet/train\n"
                "foretrain data speed train.ftp --threads 8",
    RECORD(speed_options, struct data_request, &defaults),
    TAKES(1, 1),
    ANSWERS(&speed_columns),
    .run = show_speed,
};

static const struct command *const kinds[] = {&data_pack, &data_check, &data_speed, &data_tokens,
                                              NULL};

const struct command command_data = {
    .name = "data",
    .help = "pack images for training, check a pack, how fast images are read; text as tokens",
    .sub = kinds,
};
