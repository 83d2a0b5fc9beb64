#include <inttypes.h>
#include <math.h>

#include "exec/train/train_loop.h"

/* All ranks find the same; one reports it. */
static bool tells(const struct loop *loop, struct err *err)
{
    err_exit(err, 70);
    return loop->world.rank == 0;
}

int loop_check_divergence(const struct loop *loop, struct err *err)
{
    const struct loss_scale *scale = &loop->scale;
    if (!loop->diverged)
        return 0;
    if (!tells(loop, err))
        return -1;
    const char *advice =
        "training has diverged, and no checkpoint is written; resume an older one, "
        "or start again, with a smaller training.learning_rate.base";
    if (scale->in_a_row < LOSS_SCALE_SKIP_LIMIT)
        return err_add_code(err, 70,
                            "step %" PRId64 ": the gradients were infinite or NaN, in fp32 and "
                            "with a fixed loss scale (%g): %s",
                            loop->diverged, scale->value, advice);
    return err_add_code(err, 70,
                        "step %" PRId64 ": the gradients were infinite or NaN for %d steps in a "
                        "row (loss scale %g): %s",
                        loop->diverged, LOSS_SCALE_SKIP_LIMIT, scale->value, advice);
}

static bool are_finite(const float *value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(value[i]))
            return false;
    return true;
}

int loop_check_finite(const struct loop *loop, struct err *err)
{
    const struct weights *weights = &loop->weights;
    const struct layout *layout = &loop->layout;
    if (are_finite(weights->parameter, layout->parameters) &&
        are_finite(weights->momentum, layout->parameters) &&
        are_finite(weights->statistics, layout->statistic_count))
        return 0;
    if (!tells(loop, err))
        return -1;
    return err_add_code(err, 70,
                        "step %" PRId64 ": weights, momentum or statistics of batch norm are "
                        "infinite or NaN: training has diverged, and no checkpoint is written; "
                        "resume an older one, or start again, with a smaller "
                        "training.learning_rate.base",
                        loop->progress.step);
}

int loop_check_end(const struct loop *loop, struct err *err)
{
    const struct loss_scale *scale = &loop->scale;
    if (scale->in_a_row < 2 || loop->result->interrupted)
        return 0;
    if (!tells(loop, err))
        return -1;
    return err_add_code(err, 70,
                        "the last %" PRId64 " steps were skipped, since their gradients "
                        "overflowed (loss scale now %g): they trained nothing; the weights are "
                        "those of the last good step",
                        scale->in_a_row, scale->value);
}
