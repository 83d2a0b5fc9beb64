#include "app/plan/plan_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/predict/assumption.h"
#include "core/base/columns.h"
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
    double low = range.low, high = range.high;
    text_add(out, "%s%s%s (%s to %s)", unit_likely(unit, range.value, range.value, low, high),
             word ? " " : "", word ? word : "", unit_likely(unit, low, range.value, low, high),
             unit_likely(unit, high, range.value, low, high));
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
    struct range time = best->figures.usage.seconds, price = search_price(search, best);
    AUTORELEASE(text) struct text why = {0};
    if (search_keeps(search, best))
        return 0;
    if (time.high > search->within) {
        text_add(&why, "; of 100 runs 95 end within %s", unit_text(UNIT_SECONDS, time.high));
        print_limit(&why, UNIT_SECONDS, search->within, ", not within ", "");
        text_add(&why, ", and without any waiting for communication one would take %s",
                 unit_text(UNIT_SECONDS, best->figures.least));
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

struct shown_plan {
    const struct candidate *candidate;
    const char *role; /* "best", "next"; NULL: of the front */
    char *name;       /* owned */
    int64_t *batch;   /* (phases) owned */
    int32_t phases;
    bool keeps;
    double over_closed;
    struct option_list set;
};

struct shown_swing {
    const struct swing *swing;
    char *best; /* owned */
};

struct shown_doubt {
    const char *input, *range;
    struct shown_swing low, high;
    bool changes;
};

/* How many candidates came to what. */
struct tally {
    int64_t count, refused, simulated, beyond;
    int64_t first; /* that makes no job */
};

struct shown {
    const struct search *search;
    const char *target, *aim, *price_unit;
    double within, budget;
    int64_t images;
    bool met;
    struct shown_plan *plan; /* (plans) best, next if there is one, front; owned */
    const struct shown_plan *best, *next, *front;
    int32_t plans, fronts;
    struct shown_doubt *doubt; /* (doubts) owned */
    int32_t doubts;
    struct tally tally;
};

#define DESCRIBED struct candidate
static const struct answer_column candidate_rows[] = {
    COLUMN("platform", platform, .help = "name or path of the platform"),
    COLUMN("nodes", nodes, .help = "nodes in use"),
    COLUMN("devices", figures.devices, .help = "devices of all nodes"),
    COLUMN("columns", figures.grid.columns, .zero = true,
           .help = "ranks in a row; null if the job has no rows"),
    COLUMN("rows", figures.grid.rows, .zero = true, .help = "ranks in a column"),
    COLUMN("algorithm", algorithm, .help = "of the all-reduce"),
    COLUMN("bucket", bucket, .help = "bytes of gradients that are exchanged together"),
    COLUMN_MEMBERS(figures, &figures_columns),
    COLUMN("currency", figures.bill.currency, .null = true, .help = "of the cost"),
    COLUMN("prices", figures.bill.origin, .null = true, .help = "price file: name, date and path"),
    COLUMN("backend", backend, .words = backend_words,
           .help = "analytic or sim: where the numbers come from"),
    COLUMN("reason", reason, .null = true,
           .help = "why it was not simulated as it should have been; else null"),
};
static const struct answer_columns candidate_columns = COLUMNS(NULL, candidate_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_plan
static const struct answer_column plan_rows_of[] = {
    COLUMN("plan", role, .null = true, .help = "best, next (best); null: another of the front"),
    COLUMN("name", name, .help = "platform, nodes, algorithm, bucket and batches in words"),
    COLUMN_MEMBERS(candidate, &candidate_columns),
    COLUMN_ITEMS("batch_per_device", batch, phases, .help = "images per device of each phase"),
    COLUMN("keeps", keeps, .help = "the upper ends of its time and price keep the limits"),
    COLUMN("time_over_closed_form", over_closed,
           .help = "time_to_train_s over that of the first search"),
};
static const struct answer_columns plan_row_columns = COLUMNS(NULL, plan_rows_of);

static const struct answer_column whole_rows[] = {
    COLUMN_ROWS(&plan_row_columns),
    COLUMN_ITEMS("set", set.item, set.count, .help = "assignments that make the job this plan's"),
};
static const struct answer_columns whole_columns = COLUMNS(NULL, whole_rows);
#undef DESCRIBED

#define DESCRIBED struct swing
static const struct answer_column swing_rows[] = {
    COLUMN("time_to_train_s", time, .null = true,
           .help = "of the best plan at this end; null: such a job cannot be"),
    COLUMN("time_to_train_s_high", high, .null = true, .help = "upper end of its interval"),
    COLUMN("price", price, .null = true, .help = "cost of the best plan, or device-hours"),
    COLUMN("keeps", kept, .help = "the plan that would be the best keeps the limits"),
};
static const struct answer_columns swing_columns = COLUMNS(NULL, swing_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_swing
static const struct answer_column end_rows[] = {
    COLUMN_MEMBERS(swing, &swing_columns),
    COLUMN("best", best, .help = "name of the plan that would be the best"),
};
static const struct answer_columns end_columns = COLUMNS(NULL, end_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_doubt
static const struct answer_column doubt_rows[] = {
    COLUMN("input", input, .help = "an uncertain input of the best plan"),
    COLUMN("range", range, .help = "where the ends of the input are"),
    COLUMN_OBJECT("low", low, &end_columns),
    COLUMN_OBJECT("high", high, &end_columns),
    COLUMN("changes", changes, .help = "another plan would be the best at one of the ends"),
};
static const struct answer_columns doubt_columns = COLUMNS(NULL, doubt_rows);
#undef DESCRIBED

#define DESCRIBED struct shown
static const struct answer_column shown_rows[] = {
    COLUMN("target", target, .null = true, .help = "accuracy of --target; null: what the job says"),
    COLUMN("within_s", within, .null = true, .help = "deadline; null: none"),
    COLUMN("budget", budget, .null = true, .help = "in price_unit; null: none"),
    COLUMN("aim", aim, .help = "what the best plan has least of: cost, device-hours or time"),
    COLUMN("price_unit", price_unit, .help = "currency of the prices, or device-hours"),
    COLUMN("met", met, .help = "the best plan keeps the limits; if not it is the nearest"),
    COLUMN_OBJECT("best", best, &whole_columns),
    COLUMN_INSIDE("next", next, &whole_columns, true),
    COLUMN_ITEMS("front", front, fronts, .table = &whole_columns),
    COLUMN_ITEMS("sensitivity", doubt, doubts, .table = &doubt_columns),
    COLUMN("candidates", tally.count, .help = "plans that were tried"),
    COLUMN("refused", tally.refused, .help = "plans that make no job"),
    COLUMN("simulated", tally.simulated, .help = "plans that were simulated, too"),
    COLUMN("beyond", tally.beyond,
           .help = "plans with a batch that no published run converged with"),
    COLUMN("fixed_batch", images, .zero = true,
           .help = "images a step of all plans, since no run says which batch converges; null: "
                   "batches were searched"),
};
const struct answer_columns plan_columns = COLUMNS("plan/2", shown_rows);
#undef DESCRIBED

static struct tally tally_of(const struct search *search)
{
    struct tally t = {.count = search->count};
    for (int64_t i = 0; i < search->count; i++) {
        const struct candidate *c = &search->list[i];
        if (c->status != FINDING_OK && t.refused++ == 0)
            t.first = i;
        t.beyond += c->status == FINDING_OK && search_beyond(c);
        t.simulated += c->status == FINDING_OK && c->backend == BACKEND_SIM;
    }
    return t;
}

static void add_plan(struct shown *shown, int64_t at, const char *role)
{
    const struct search *search = shown->search;
    const struct candidate *c = &search->list[at];
    struct shown_plan *plan = &shown->plan[shown->plans++];
    *plan = (struct shown_plan){.candidate = c,
                                .role = role,
                                .name = label(search, at),
                                .batch = base_alloc(search->question.phases, sizeof(int64_t)),
                                .phases = search->question.phases,
                                .keeps = search_keeps(search, c),
                                .over_closed = c->figures.usage.seconds.value / c->closed,
                                .set = candidate_set(&search->question, c)};
    for (int32_t i = 0; i < plan->phases; i++)
        plan->batch[i] = candidate_batch(&search->question, c, i);
}

static void add_plans(struct shown *shown)
{
    const struct search *search = shown->search;
    shown->fronts = (int32_t)search->front_count;
    shown->plan = base_alloc(2 + shown->fronts, sizeof(*shown->plan));
    add_plan(shown, search->best, "best");
    if (search->next >= 0)
        add_plan(shown, search->next, "next");
    shown->best = shown->plan;
    shown->next = search->next >= 0 ? shown->plan + 1 : NULL;
    shown->front = shown->plan + shown->plans;
    for (int32_t i = 0; i < shown->fronts; i++)
        add_plan(shown, search->front[i], NULL);
}

static void add_doubts(struct shown *shown)
{
    const struct search *search = shown->search;
    shown->doubts = search->doubt_count;
    shown->doubt = base_alloc(shown->doubts, sizeof(*shown->doubt));
    for (int32_t i = 0; i < shown->doubts; i++) {
        const struct doubtful *doubt = &search->doubt[i];
        shown->doubt[i] = (struct shown_doubt){doubt->input,
                                               doubt->range,
                                               {&doubt->low, label(search, doubt->low.best)},
                                               {&doubt->high, label(search, doubt->high.best)},
                                               doubt->low.best != search->best ||
                                                   doubt->high.best != search->best};
    }
}

static struct shown shown_of(const struct search *search)
{
    struct shown shown = {.search = search,
                          .target = search->question.target,
                          .aim = aim_names[search->aim],
                          .price_unit = price_unit(search),
                          .within = search->within,
                          .budget = search->budget,
                          .images = search->images,
                          .met = search_keeps(search, &search->list[search->best]),
                          .tally = tally_of(search)};
    add_plans(&shown);
    add_doubts(&shown);
    return shown;
}

static void shown_release(struct shown *shown)
{
    for (int32_t i = 0; i < shown->plans; i++) {
        free(shown->plan[i].name);
        free(shown->plan[i].batch);
        option_list_release(&shown->plan[i].set);
    }
    for (int32_t i = 0; i < shown->doubts; i++) {
        free(shown->doubt[i].low.best);
        free(shown->doubt[i].high.best);
    }
    free(shown->plan);
    free(shown->doubt);
}

struct json *plan_json(const struct search *search)
{
    AUTORELEASE(shown) struct shown shown = shown_of(search);
    return answer_json(&plan_columns, &shown);
}

struct json *plan_rows(const struct search *search)
{
    AUTORELEASE(shown) struct shown shown = shown_of(search);
    return answer_list(&plan_row_columns, shown.plan, shown.plans);
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
    if (!kept)
        text_add(out, "The nearest is the plan whose upper end misses a limit by the least.\n");
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

/* Why batches are those they are. */
static void print_batches(struct text *out, const struct search *search, int64_t beyond)
{
    const struct candidate *best = &search->list[search->best];
    if (search->images)
        text_add(out,
                 "Which batch converges is not known for this network: all plans have the job's "
                 "%lld images\na step and its epochs.  --batch gives batches to choose from.\n",
                 (long long)search->images);
    else if (best->figures.batch == BATCH_NOT_KNOWN)
        text_add(out, "Which batch converges is not known for this network: the epochs are the "
                      "job's with every batch.\n");
    else if (search_beyond(best))
        text_add(out, "No published run converged with so many images a step (foretrain show "
                      "convergence).\n");
    else if (beyond)
        text_add(out,
                 "%lld plan%s more images a step than any published run converged with: none of "
                 "them is chosen.\n",
                 (long long)beyond, beyond == 1 ? " has" : "s have");
}

static void print_candidate(struct text *out, const struct search *search, const char *what,
                            int64_t candidate)
{
    const struct candidate *c = &search->list[candidate];
    AUTOFREE char *name = label(search, candidate);
    text_add(out, "\n%s: %s\n  %d devices", what, name, c->figures.devices);
    if (c->figures.grid.columns)
        text_add(out, " in %d columns x %d rows", c->figures.grid.columns, c->figures.grid.rows);
    text_add(out, ", %.4g epochs; back end %s", c->figures.epochs, backend_words[c->backend]);
    struct nccl_use nccl = c->figures.nccl;
    if (nccl.version)
        text_add(out, "; NCCL %d.%d, %s", nccl.version / 100, nccl.version % 100,
                 nccl_way_words[nccl.way]);
    text_add(out, "\n  ");
    print_range(out, UNIT_SECONDS, c->figures.usage.seconds, NULL);
    text_add(out, ", ");
    print_range(out, UNIT_NONE, c->figures.device_hours, aim_names[AIM_DEVICE_HOURS]);
    if (search->currency) {
        text_add(out, ", ");
        print_range(out, UNIT_NONE, c->figures.bill.cost, search->currency);
    }
    if (!isnan(c->figures.bill.energy.value)) {
        text_add(out, ", ");
        print_range(out, UNIT_NONE, c->figures.bill.energy, "kWh");
    }
    text_add(out, "\n");
}

static void print_front(struct text *out, const struct search *search)
{
    AUTORELEASE(json) struct json *all = plan_json(search);
    AUTOFREE char *columns =
        search->currency
            ? base_format("time_to_train_s~: time, cost~: %s, keeps: in limits, name: plan",
                          search->currency)
            : base_copy(
                  "time_to_train_s~: time, device_hours~: hours, keeps: in limits, name: plan");
    text_add(
        out,
        "\nThe front: no other plan is more than %g %% better in all of time, %s and energy\n\n",
        100 * PLAN_NEAR, search->currency ? "cost" : "device-hours");
    columns_print(out, columns, json_get(all, "front"));
}

static void print_end(struct text *out, const struct search *search, const char *end,
                      const struct swing *swing)
{
    AUTOFREE char *name = label(search, swing->best);
    if (swing->best != search->best)
        text_add(out, "      %s: the best is %s\n", end, name);
    if (!swing->kept && search_keeps(search, &search->list[search->best]))
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
    print_batches(out, search, t.beyond);
    print_candidate(out, search, kept ? "Best" : "Nearest", search->best);
    if (search->next >= 0)
        print_candidate(out, search,
                        search->list[search->next].platform == search->list[search->best].platform
                            ? "Best with other nodes"
                            : "Best on another platform",
                        search->next);
    print_front(out, search);
    print_doubts(out, search);
    text_add(out, "\n%lld plan%s in closed form, of them %lld on the simulator, too.\n",
             (long long)(search->count - t.refused), base_plural(search->count - t.refused),
             (long long)t.simulated);
    if (t.refused) {
        AUTOFREE char *name = label(search, t.first);
        text_add(out, "%lld more make%s no job; the first, %s:\n  %s\n", (long long)t.refused,
                 t.refused == 1 ? "s" : "", name, search->list[t.first].reason);
    }
    text_add(out, "The %s alone:\n  foretrain predict ", kept ? "best" : "nearest");
    text_add_word(out, search->question.path);
    for (int32_t i = 0; i < set.count; i++) {
        text_add(out, " --set ");
        text_add_word(out, set.item[i]);
    }
    text_add(out, "\n");
}
