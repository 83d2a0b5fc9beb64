#include "core/report/doubts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *const outcome_names[OUTCOME_COUNT] = {"step", "throughput", "weak_scaling",
                                                  "strong_scaling", "time_to_train"};

enum { SHOWN = 8 /* inputs in the table */ };

/* Below this an input is not worth a line. */
#define SHARE_SHOWN 0.01

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

void doubts_put(struct json *json, const struct doubts *doubts)
{
    struct json *unknown = json_new_array(), *shares = json_new_array(), *draws = json_new_object();
    for (int32_t i = 0; i < doubts->count; i++) {
        const struct doubt *doubt = &doubts->item[i];
        struct json *share = json_append_object(shares);
        json_put_text(share, "input", doubt->key);
        for (int32_t k = 0; k < OUTCOME_COUNT; k++)
            json_put_real(share, outcome_names[k], doubt->share[k]);
        if (!doubt->range)
            continue;
        struct json *input = json_append_object(unknown);
        json_put_text(input, "input", doubt->key);
        json_put_text(input, "range", doubt->range);
    }
    json_put_integer(draws, "count", doubts->draws);
    json_put_integer(draws, "impossible", doubts->impossible);
    json_put_integer(draws, "simulated", doubts->simulated);
    json_put_real(draws, "simulated_over_closed_form_low",
                  doubts->simulated ? doubts->control.low : NAN);
    json_put_real(draws, "simulated_over_closed_form_high",
                  doubts->simulated ? doubts->control.high : NAN);
    json_put(json, "unknown_inputs", unknown);
    json_put(json, "interval_shares", shares);
    json_put(json, "draws", draws);
}

static void print_share(struct text *out, double share)
{
    if (isnan(share))
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
        if (most(doubt) < SHARE_SHOWN)
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
    else if (most(first) >= SHARE_SHOWN)
        text_add(out, "most of the intervals' width: %s\n", first->key);
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
    free(doubts->number);
    *doubts = (struct doubts){0};
}
