#include "app/predict/options.h"

struct option_list predict_set(const struct predict_options *options,
                               const struct price_file *prices)
{
    struct option_list set = {0};
    AUTOFREE char *assignment = price_assignment(prices);
    if (assignment)
        option_list_add(&set, assignment);
    option_list_add_all(&set, &options->set);
    return set;
}

struct wish predict_wish(const struct predict_options *options)
{
    return (struct wish){.order = (enum rank_order)options->order,
                         .ignore_memory = options->ignore_memory,
                         .memory = options->memory};
}

int predict_open_job(struct job *job, const char *path, const struct predict_options *options,
                     const struct draw *draw, struct err *err)
{
    struct wish wish = predict_wish(options);
    return job_open(job, options->files, path, options->set.item, options->set.count, draw, &wish,
                    err);
}

/* Without folding, every rank draws its own noise; else all are as slow as the slowest, in each
 * iteration. */
static bool draws_noise(const struct predict_options *options, const struct noise *noise)
{
    bool each_rank = options->grain == GRAIN_AUTO || options->grain == GRAIN_FULL;
    return noise_is_any(noise) && each_rank && options->backend != BACKEND_ANALYTIC;
}

int32_t predict_iterations(const struct predict_options *options, const struct run *run)
{
    if (options->iterations != PREDICT_CHOOSE)
        return options->iterations;
    return run->input_workers == 0 && !draws_noise(options, &run->noise) ? 1 : 2;
}
