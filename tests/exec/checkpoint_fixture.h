#pragma once

/** @file
 * What the tests of checkpoints share: a scratch directory, a network with weights, and looks at
 * what was written.
 */

#include <dirent.h>

#include "exec/checkpoint/checkpoint.h"
#include "tests/assert.h"
#include "tests/core/own.h"

enum { FIXTURE_RANKS = 4 };

/** A scratch directory, a network and weights. */
struct fixture {
    char directory[64];
    struct model *model;
    struct layout layout;
    struct weights weights;
    struct progress progress;
};

/** Remove the directory @path with all that is in it. */
static inline void remove_tree(const char *path)
{
    AUTOFREE char *command = base_format("rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/** Weights that are all different, shifted by @seed. */
static inline void fill_weights(const struct layout *layout, struct weights *weights, int32_t seed)
{
    for (int64_t i = 0; i < layout->parameters; i++) {
        weights->parameter[i] = (float)(i % 8191) / 64 - (float)seed;
        weights->momentum[i] = (float)(i % 127) * (float)(seed + 1);
    }
    for (int64_t i = 0; i < layout->statistic_count; i++)
        weights->statistics[i] = (float)i + (float)seed;
    for (int64_t i = 0; i < FIXTURE_RANKS * layout->statistic_count; i++)
        weights->rank_statistics[i] = (float)i * 0.5F - (float)seed;
}

/** A fixture for @network in a new directory below $TMPDIR or /tmp. */
static inline struct fixture *fixture_new(const char *network, int32_t image, int32_t classes)
{
    struct fixture *f = base_alloc(1, sizeof(*f));
    const char *place = getenv("TMPDIR");
    snprintf(f->directory, sizeof(f->directory), "%s/checkpoint-XXXXXX", place ? place : "/tmp");
    assert_non_null(mkdtemp(f->directory));
    f->model = network_of(network, image, classes);
    f->layout = layout_build(f->model);
    f->weights = weights_new(&f->layout, FIXTURE_RANKS);
    fill_weights(&f->layout, &f->weights, 0);
    f->progress = (struct progress){.step = 123,
                                    .position = 123 * 256,
                                    .epoch = 0.1,
                                    .loss_scale = 1024,
                                    .good_steps = 17,
                                    .skipped_steps = 2,
                                    .seed = 5,
                                    .ranks = FIXTURE_RANKS,
                                    .image = image,
                                    .classes = classes,
                                    .loss = 1.0 / 3,
                                    .top1 = -1,
                                    .top5 = -1,
                                    .scenario_sha256 = "abc"};
    snprintf(f->progress.network, sizeof(f->progress.network), "%s", f->model->name);
    return f;
}

/** A file in the directory of @f. */
static inline void put(const struct fixture *f, const char *name, const char *content)
{
    AUTOFREE char *path = base_format("%s/%s", f->directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

/** Release, and remove the directory. */
static inline void fixture_free(struct fixture *f)
{
    remove_tree(f->directory);
    layout_release(&f->layout);
    model_free(f->model);
    weights_release(&f->weights);
    free(f);
}

/** Write checkpoint @name. */
static inline int write_named(const struct fixture *f, const char *name, int32_t keep,
                              struct err *err)
{
    return checkpoint_write(f->directory, name, keep, &f->layout, &f->progress, &f->weights, err);
}

/** Whether checkpoint @name can be read and holds the weights of @seed. */
static inline bool holds(const struct fixture *f, const char *name, int32_t seed)
{
    HELD(err) err = {0};
    struct progress progress;
    HELD(weights) read = weights_new(&f->layout, FIXTURE_RANKS);
    HELD(weights) wanted = weights_new(&f->layout, FIXTURE_RANKS);
    AUTOFREE char *path = base_format("%s/%s", f->directory, name);
    fill_weights(&f->layout, &wanted, seed);
    size_t bytes = (size_t)f->layout.parameters * sizeof(float);
    bool same = checkpoint_read(path, &f->layout, &progress, &read, &err) == 0 &&
                memcmp(read.parameter, wanted.parameter, bytes) == 0 &&
                memcmp(read.momentum, wanted.momentum, bytes) == 0 &&
                memcmp(read.statistics, wanted.statistics,
                       (size_t)f->layout.statistic_count * sizeof(float)) == 0 &&
                memcmp(read.rank_statistics, wanted.rank_statistics,
                       FIXTURE_RANKS * (size_t)f->layout.statistic_count * sizeof(float)) == 0;
    if (err.text)
        print_message("%s", err.text);
    return same;
}

/** How many entries @directory has. */
static inline int32_t count_entries(const char *directory)
{
    int32_t count = 0;
    DIR *open = opendir(directory);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    return count;
}

/** A case (tests/test.h) with a new fixture @f. */
#define TEST_ON_DISK(name)                                                                         \
    static void name##_on(struct fixture *f);                                                      \
    TEST_WITH(name, fixture_setup, fixture_teardown)                                               \
    {                                                                                              \
        name##_on(*state);                                                                         \
    }                                                                                              \
    static void name##_on(__attribute__((unused)) struct fixture *f)

/** For TEST_ON_DISK(). */
static inline int fixture_setup(void **state)
{
    *state = fixture_new("toy", 8, 3);
    return 0;
}

/** The same. */
static inline int fixture_teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

/** Whether @name lies in the fixture's directory. */
static inline bool is_there(const struct fixture *f, const char *name)
{
    AUTOFREE char *path = base_format("%s/%s", f->directory, name);
    return access(path, F_OK) == 0;
}
