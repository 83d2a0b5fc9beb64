#include "app/cli/request.h"

#include <assert.h>
#include <string.h>

#include "core/base/base.h"

const char *const backend_words[] = {"analytic", "sim", NULL};
static_assert(ARRAY_SIZE(backend_words) == BACKEND_CHOICE_COUNT + 1, "a word per back end");

const char *const noise_words[] = {"expected", "drawn", "none", NULL};
static_assert(ARRAY_SIZE(noise_words) == NOISE_CHOICE_COUNT + 1, "a word each");

const char *const device_words[] = {"cpu", "cpu-naive", "cuda", "replay", NULL};

const char *const nodes_keys[] = {"cluster.nodes", NULL};
const char *const platform_keys[] = {"cluster.platform", NULL};
const char *const batch_keys[] = {"training.phases[*].global_batch=null",
                                  "training.phases[*].round=null",
                                  "training.phases[*].batch_per_device", NULL};
const char *const algorithm_keys[] = {"allreduce.algorithm", NULL};

/* Without folding, every rank draws its own noise; else all are as slow as the slowest, in each
 * iteration. */
static bool draws_noise(const struct predict_options *options, const struct noise *noise)
{
    bool each_rank = options->grain == GRAIN_AUTO || options->grain == GRAIN_FULL;
    return noise_is_any(noise) && each_rank && options->backend != BACKEND_ANALYTIC;
}

struct wish request_wish(const struct predict_options *options)
{
    return (struct wish){.order = (enum rank_order)options->order,
                         .ignore_memory = options->ignore_memory};
}

int32_t request_iterations(const struct predict_options *options, const struct run *run)
{
    if (options->iterations != REQUEST_CHOOSE)
        return options->iterations;
    return run->input_workers == 0 && !draws_noise(options, &run->noise) ? 1 : 2;
}

char *request_yaml_name(const char *option, const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/'), *first = slash ? slash + 1 : path;
    size_t length = strlen(first);
    if (length > 5 && !strcmp(first + length - 5, ".yaml"))
        return base_format("%.*s", (int)length - 5, first);
    err_add_code(err, 64, "%s %s: expected a name that ends in .yaml", option, path);
    return NULL;
}
