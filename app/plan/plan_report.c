#include "app/plan/plan_report.h"

#include <math.h>
#include <string.h>

#include "config.h"
#include "core/base/unit.h"

/* ---- in words ---- */

static const char *price_unit(const struct search *search)
{
    return search->currency ? search->currency : aim_names[AIM_DEVICE_HOURS];
}

/* "17 nodes of dgx-h100, nccl, bucket 64 MiB, 16, then 32 images a device" */
static char *label(const struct search *search, int64_t candidate)
{
    const struct candidate *c = &search->list[candidate];
    struct text text = {0};
    text_add(&text, "%lld node%s of %s, %s, bucket %s, ", (long long)c->nodes,
             base_plural(c->nodes), c->platform, c->algorithm, c->bucket);
    for (int32_t i = 0; i < search->question.phases; i++)
        text_add(&text, "%s%lld", i ? ", then " : "",
                 (long long)candidate_batch(&search->question, c, i));
    text_add(&text, " image%s a device", base_plural(c->batch));
    return text.data;
}

/* "429.5 s (382.7 s to 517.9 s)" */
static void print_range(struct text *out, enum unit unit, struct range range, const char *word)
{
    text_add(out, "%s%s%s (%s to %s)", unit_text(unit, range.value), word ? " " : "",
             word ? word : "", unit_text(unit, range.low), unit_text(unit, range.high));
}

static void print_limit(struct text *out, enum unit unit, double limit, const char *before,
                        const char *after)
{
    if (isinf(limit))
        return;
    text_add(out, "%s%s%s%s", before, unit_text(unit, limit), *after ? " " : "", after);
}

int plan_verdict(const struct search *search, struct err *err)
{
    const struct candidate *best = &search->list[search->best];
    struct range time = best->usage.seconds, price = search_price(search, best);
    AUTORELEASE(text) struct text why = {0};
    if (search_keeps(search, best))
        return 0;
    if (time.high > search->within) {
        text_add(&why, "; of 100 runs 95 end within %s", unit_text(UNIT_SECONDS, time.high));
        print_limit(&why, UNIT_SECONDS, search->within, ", not within ", "");
        text_add(&why, ", and without any waiting for communication one would take %s",
                 unit_text(UNIT_SECONDS, best->least));
    }
    if (price.high > search->budget) {
        text_add(&why, "; it takes up to %.4g", price.high);
        print_limit(&why, UNIT_NONE, search->budget, ", not ", price_unit(search));
    }
    AUTOFREE char *name = label(search, search->best);
    err_add_code(err, 1, "no plan keeps the limits; the nearest is %s%s", name, why.data);
    return -1;
}

/* ---- for programs ---- */

static void put_count(struct json *json, const char *key, int64_t count)
{
    json_put(json, key, count ? json_new_integer(count) : json_new_real(NAN));
}

static void put_candidate(struct json *json, const struct search *search, int64_t candidate)
{
    const struct candidate *c = &search->list[candidate];
    AUTOFREE char *name = label(search, candidate);
    json_put_text(json, "name", name);
    json_put_text(json, "platform", c->platform);
    json_put_integer(json, "nodes", c->nodes);
    json_put_integer(json, "devices", c->devices);
    put_count(json, "columns", c->grid.columns);
    put_count(json, "rows", c->grid.rows);
    json_put_text(json, "algorithm", c->algorithm);
    json_put_text(json, "bucket", c->bucket);
    struct json *batches = json_put_array(json, "batch_per_device");
    for (int32_t i = 0; i < search->question.phases; i++)
        json_append_integer(batches, candidate_batch(&search->question, c, i));
    json_put_real(json, "epochs", c->epochs);
    range_put(json, "time_s", c->usage.seconds);
    range_put(json, "device_hours", c->hours);
    bill_put(json, &c->bill);
    json_put_boolean(json, "keeps", search_keeps(search, c));
    json_put_real(json, "time_over_closed_form", c->usage.seconds.value / c->closed);
    json_put_text(json, "backend", backend_words[c->backend]);
    json_put_text(json, "reason", c->reason);
}

static struct json *candidate_json(const struct search *search, int64_t candidate)
{
    struct json *json = json_new_object();
    AUTORELEASE(option_list)
    struct option_list words = candidate_set(&search->question, &search->list[candidate]);
    put_candidate(json, search, candidate);
    struct json *set = json_put_array(json, "set");
    for (int32_t i = 0; i < words.count; i++)
        json_append_text(set, words.item[i]);
    return json;
}

static struct json *swing_json(const struct search *search, const struct swing *swing)
{
    struct json *json = json_new_object();
    AUTOFREE char *name = label(search, swing->best);
    json_put_real(json, "time_s", swing->time);
    json_put_real(json, "time_high_s", swing->high);
    json_put_real(json, "price", swing->price);
    json_put_text(json, "best", name);
    json_put_boolean(json, "keeps", swing->kept);
    return json;
}

static struct json *doubts_json(const struct search *search)
{
    struct json *rows = json_new_array();
    for (int32_t i = 0; i < search->doubt_count; i++) {
        const struct doubtful *doubt = &search->doubt[i];
        struct json *row = json_append_object(rows);
        json_put_text(row, "input", doubt->input);
        json_put_text(row, "range", doubt->range);
        json_put(row, "low", swing_json(search, &doubt->low));
        json_put(row, "high", swing_json(search, &doubt->high));
        json_put_boolean(row, "changes",
                         doubt->low.best != search->best || doubt->high.best != search->best);
    }
    return rows;
}

/* How many candidates came to what. */
struct tally {
    int64_t refused, simulated;
    int64_t first; /* that makes no job */
};

static struct tally tally_of(const struct search *search)
{
    struct tally t = {0};
    for (int64_t i = 0; i < search->count; i++) {
        const struct candidate *c = &search->list[i];
        if (c->status != FINDING_OK && t.refused++ == 0)
            t.first = i;
        t.simulated += c->status == FINDING_OK && c->backend == BACKEND_SIM;
    }
    return t;
}

struct json *plan_json(const struct search *search)
{
    struct json *json = json_new_object();
    struct tally tally = tally_of(search);
    json_put_text(json, "schema", "foretrain/plan/1");
    json_put_text(json, "version", FORETRAIN_VERSION);
    json_put_text(json, "target", search->question.target);
    json_put_real(json, "within_s", search->within);
    json_put_real(json, "budget", search->budget);
    json_put_text(json, "aim", aim_names[search->aim]);
    json_put_text(json, "price_unit", price_unit(search));
    json_put_boolean(json, "met", search_keeps(search, &search->list[search->best]));
    json_put(json, "best", candidate_json(search, search->best));
    if (search->next >= 0)
        json_put(json, "next", candidate_json(search, search->next));
    struct json *front = json_put_array(json, "front");
    for (int64_t i = 0; i < search->front_count; i++)
        json_append(front, candidate_json(search, search->front[i]));
    json_put(json, "sensitivity", doubts_json(search));
    json_put_integer(json, "candidates", search->count);
    json_put_integer(json, "refused", tally.refused);
    json_put_integer(json, "simulated", tally.simulated);
    return json;
}

struct json *plan_rows(const struct search *search)
{
    struct json *rows = json_new_array();
    for (int64_t i = -2; i < search->front_count; i++) {
        int64_t at = i == -2 ? search->best : i == -1 ? search->next : search->front[i];
        if (at < 0)
            continue;
        struct json *row = json_append_object(rows);
        json_put_text(row, "plan", i == -2 ? "best" : i == -1 ? "next" : "front");
        put_candidate(row, search, at);
    }
    return rows;
}

/* ---- for people ---- */

static void print_question(struct text *out, const struct search *search, bool kept)
{
    if (kept)
        text_add(out, "The plan with the least %s", aim_names[search->aim]);
    else
        text_add(out, "No plan was found");
    if (search->question.target)
        text_add(out, " to %s", search->question.target);
    print_limit(out, UNIT_SECONDS, search->within, " within ", "");
    print_limit(out, UNIT_NONE, search->budget, " for at most ", price_unit(search));
    text_add(out, ".  It %s that in 95 of 100\nruns: the upper end of its 90 %% interval %s.%s\n",
             kept ? "keeps" : "would have to keep", kept ? "does" : "would",
             search->currency ? "" : "  Nothing is priced: no --prices are given.");
}

/* What is not searched of a job with several phases. */
static void print_phases(struct text *out, const struct question *question)
{
    if (question->phases < 2)
        return;
    text_add(out, "Phases are not searched one by one: each takes all nodes, its epochs are the "
                  "job's, and\ntheir batches stay as ");
    for (int32_t i = 0; i < question->phases; i++)
        text_add(out, "%s%.4g", i ? " : " : "", question->share[i]);
    text_add(out, ".\n");
}

static void print_candidate(struct text *out, const struct search *search, const char *what,
                            int64_t candidate)
{
    const struct candidate *c = &search->list[candidate];
    AUTOFREE char *name = label(search, candidate);
    text_add(out, "\n%s: %s\n  %d devices", what, name, c->devices);
    if (c->grid.columns)
        text_add(out, " in %d columns x %d rows", c->grid.columns, c->grid.rows);
    text_add(out, ", %.4g epochs; back end %s\n  ", c->epochs, backend_words[c->backend]);
    print_range(out, UNIT_SECONDS, c->usage.seconds, NULL);
    text_add(out, ", ");
    print_range(out, UNIT_NONE, c->hours, aim_names[AIM_DEVICE_HOURS]);
    if (search->currency) {
        text_add(out, ", ");
        print_range(out, UNIT_NONE, c->bill.cost, search->currency);
    }
    if (!isnan(c->bill.energy.value)) {
        text_add(out, ", ");
        print_range(out, UNIT_NONE, c->bill.energy, "kWh");
    }
    text_add(out, "\n");
}

static void print_front(struct text *out, const struct search *search)
{
    text_add(
        out,
        "\nThe front: no other plan is more than %g %% better in all of time, %s and energy\n\n"
        "  %12s  %26s  %10s  %24s  plan\n",
        100 * PLAN_NEAR, search->currency ? "cost" : "device-hours", "time", "90 % interval",
        search->currency ? search->currency : "hours", "bounds");
    for (int64_t i = 0; i < search->front_count; i++) {
        const struct candidate *c = &search->list[search->front[i]];
        struct range price = search_price(search, c);
        AUTORELEASE(text) struct text interval = {0};
        text_add(&interval, "%s to %s", unit_text(UNIT_SECONDS, c->usage.seconds.low),
                 unit_text(UNIT_SECONDS, c->usage.seconds.high));
        AUTOFREE char *bounds = base_format("%.4g to %.4g", price.low, price.high);
        AUTOFREE char *name = label(search, search->front[i]);
        text_add(out, "  %12s  %26s  %10.4g  %24s  %s\n",
                 unit_text(UNIT_SECONDS, c->usage.seconds.value), interval.data, price.value,
                 bounds, name);
    }
}

static void print_end(struct text *out, const struct search *search, const char *end,
                      const struct swing *swing)
{
    AUTOFREE char *name = label(search, swing->best);
    if (swing->best != search->best)
        text_add(out, "      %s: the best is %s\n", end, name);
    if (!swing->kept)
        text_add(out, "      %s: no plan of the front keeps the limits\n", end);
}

static void print_swing(struct text *out, const struct swing *swing)
{
    if (isnan(swing->time)) {
        text_add(out, "  %12s  %9s", "no job", "");
        return;
    }
    text_add(out, "  %12s  %9.4g", unit_text(UNIT_SECONDS, swing->time), swing->price);
}

static void print_doubts(struct text *out, const struct search *search)
{
    const char *price = search->currency ? search->currency : "hours";
    text_add(out,
             "\nThe best plan with one uncertain input at either end, all else in the middle\n\n"
             "  %-30s  %-22s  %12s  %9s  %12s  %9s\n",
             "input", "ends", "low: time", price, "high: time", price);
    for (int32_t i = 0; i < search->doubt_count; i++) {
        const struct doubtful *row = &search->doubt[i];
        text_add(out, "  %-30s  %-22s", row->input, row->range);
        print_swing(out, &row->low);
        print_swing(out, &row->high);
        text_add(out, "\n");
        print_end(out, search, "low", &row->low);
        print_end(out, search, "high", &row->high);
    }
}

void plan_print(struct text *out, const struct search *search)
{
    const struct tally t = tally_of(search);
    AUTORELEASE(option_list)
    struct option_list set = candidate_set(&search->question, &search->list[search->best]);
    bool kept = search_keeps(search, &search->list[search->best]);
    print_question(out, search, kept);
    print_phases(out, &search->question);
    print_candidate(out, search, kept ? "Best" : "Nearest", search->best);
    if (search->next >= 0)
        print_candidate(out, search, "Next best", search->next);
    print_front(out, search);
    print_doubts(out, search);
    text_add(out, "\n%lld plans in closed form, of them %lld on the simulator, too.\n",
             (long long)(search->count - t.refused), (long long)t.simulated);
    if (t.refused) {
        AUTOFREE char *name = label(search, t.first);
        text_add(out, "%lld more make no job; the first, %s:\n  %s\n", (long long)t.refused, name,
                 search->list[t.first].reason);
    }
    text_add(out, "The %s alone:\n  foretrain predict ", kept ? "best" : "nearest");
    text_add_word(out, search->question.path);
    for (int32_t i = 0; i < set.count; i++) {
        text_add(out, " --set ");
        text_add_word(out, set.item[i]);
    }
    text_add(out, "\n");
}
