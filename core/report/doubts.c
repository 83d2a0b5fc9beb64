#include "core/report/doubts.h"

enum { SHOWN = 8 /* inputs in the table */ };

static double most(const struct doubt *doubt)
{
    double largest = 0;
    for (int32_t i = 0; i < OUTCOME_COUNT; i++)
        largest = fmax(largest, doubt->share[i]); /* which leaves NAN out */
    return largest;
}

/* The inputs in order of their largest share in any outcome; the caller frees it. */
static int32_t *sorted_inputs(const struct doubts *doubts)
{
    int32_t *order = base_alloc(doubts->count + 1, sizeof(*order));
    for (int32_t i = 0; i < doubts->count; i++) {
        int32_t at = i;
        for (; at > 0 && most(&doubts->item[order[at - 1]]) < most(&doubts->item[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

COLUMNS(unknown_columns, NULL, struct doubt)
{
    COLUMN("input", key, .help = "key of an input that the files leave unknown");
    COLUMN("range", range, .help = "what the files say of it");
}

/* First-order Sobol indices, 0 up to the noise of the draws. */
COLUMNS(share_columns, NULL, struct doubt)
{
    COLUMN("input", key, .help = "an uncertain input: unknown, or left open by a fit");
    COLUMN("step", share[OUTCOME_STEP], .null = true,
           .help = "part of the variance of step_s that it makes alone; 0: no more than "
                   "chance would give");
    COLUMN("throughput", share[OUTCOME_IMAGES], .null = true,
           .help = "part of the variance of images_per_s");
    COLUMN("weak_scaling", share[OUTCOME_WEAK], .null = true,
           .help = "part of the variance of weak_scaling_efficiency");
    COLUMN("strong_scaling", share[OUTCOME_STRONG], .null = true,
           .help = "part of the variance of strong_scaling_efficiency");
    COLUMN("time_to_train", share[OUTCOME_TRAIN], .null = true,
           .help = "part of the variance of time_to_train_s");
}

SHARED_COLUMNS(doubts_columns, NULL, struct doubts)
{
    COLUMN_ITEMS("unknown_inputs", item, unknown, .table = &unknown_columns);
    COLUMN_ITEMS("interval_shares", item, count, .table = &share_columns);
    COLUMN("draws.count", draws, .help = "draws of everything uncertain; 0: no intervals");
    COLUMN("draws.impossible", impossible,
           .help = "further draws that make no job, such as a batch too large");
    COLUMN("draws.simulated", simulated, .help = "draws that were simulated as well");
    COLUMN("draws.simulated_over_closed_form_low", control.low, .null = true, .zero = true,
           .help = "least simulated step over the one that entered the interval");
    COLUMN("draws.simulated_over_closed_form_high", control.high, .null = true, .zero = true,
           .help = "greatest simulated step over the one that entered the interval");
}

static void print_share(struct text *out, double share)
{
    if (isnan(share) || share <= 0)
        text_add(out, "%12s", "-");
    else
        text_add(out, "%10.0f %%", 100 * share);
}

static void print_draws(struct text *out, const struct doubts *doubts)
{
    text_add(out, "  %" PRId32 " draws", doubts->draws);
    if (doubts->impossible)
        text_add(out, "; %" PRId32 " more make no job and are left out: %s", doubts->impossible,
                 doubts->reason);
    if (doubts->simulated)
        text_add(
            out, "; %" PRId32 " of them simulated: a step %+.1f %% to %+.1f %% of the closed form",
            doubts->simulated, 100 * (doubts->control.low - 1), 100 * (doubts->control.high - 1));
    text_add(out, "\n");
}

static void print_table(struct text *out, const struct doubts *doubts, const int32_t *order)
{
    bool strong = doubts->count > 0 && !isnan(doubts->item[0].share[OUTCOME_STRONG]);
    enum outcome efficiency = strong ? OUTCOME_STRONG : OUTCOME_WEAK;
    text_add(out, "\n%-62s%12s%12s%12s\n", "what makes the intervals wide", "step", "efficiency",
             "to train");
    for (int32_t i = 0; i < doubts->count && i < SHOWN; i++) {
        const struct doubt *doubt = &doubts->item[order[i]];
        if (most(doubt) <= 0)
            break;
        AUTOFREE char *what = base_format("%s%s%s", doubt->key, doubt->range ? ": " : "",
                                          doubt->range ? doubt->range : "");
        text_add(out, "  %-60s", what);
        print_share(out, doubt->share[OUTCOME_STEP]);
        print_share(out, doubt->share[efficiency]);
        print_share(out, doubt->share[OUTCOME_TRAIN]);
        text_add(out, "\n");
    }
    print_draws(out, doubts);
}

void doubts_print(struct text *out, const struct doubts *doubts)
{
    if (!doubts->draws || !doubts->count)
        return;
    AUTOFREE int32_t *order = sorted_inputs(doubts);
    const struct doubt *first = &doubts->item[order[0]];
    if (doubts->unknown)
        print_table(out, doubts, order);
    else if (most(first) > 0)
        text_add(out, "largest source of uncertainty: %s\n", first->key);
}

void doubts_print_brief(struct text *out, const struct doubts *doubts)
{
    enum { FIRST = 3 };
    if (!doubts->draws || !doubts->count)
        return;
    AUTOFREE int32_t *order = sorted_inputs(doubts);
    for (int32_t i = 0; i < doubts->count && i < FIRST; i++)
        if (most(&doubts->item[order[i]]) > 0)
            text_add(out, "%s%s", i ? "; " : "most uncertain: ", doubts->item[order[i]].key);
    text_add(out, "\n");
}

void doubts_release(struct doubts *doubts)
{
    for (int32_t i = 0; i < doubts->count; i++) {
        free(doubts->item[i].key);
        free(doubts->item[i].range);
    }
    free(doubts->item);
    free(doubts->reason);
    free(doubts->seconds);
    free(doubts->step);
    free(doubts->number);
    *doubts = (struct doubts){0};
}
