#include "app/cli/command.h"
#include "app/page/html.h"
#include "app/plan/search.h"
#include "app/predict/assumption.h"
#include "app/process/child.h"
#include "app/process/cores.h"

/* ---- in words ---- */

static const char *price_unit(const struct search *search)
{
    return search->currency ? search->currency : aim_names[AIM_DEVICE_HOURS];
}

/* A message with exit code 1 if no plan keeps the limits: by how much the nearest misses them. */
static int plan_verdict(const struct search *search, struct err *err)
{
    const struct candidate *best = &search->list[search->best];
    struct range time = best->figures.usage.seconds, price = search_price(search, best);
    AUTORELEASE(text) struct text why = {0};
    if (search_keeps(search, best))
        return 0;
    if (time.high > search->within) {
        text_add(&why, "; of 100 runs 95 end within %s", unit_text(UNIT_SECONDS, time.high));
        if (isfinite(search->within))
            text_add(&why, ", not within %s", unit_text(UNIT_SECONDS, search->within));
        text_add(&why, ", and without any waiting for communication one would take %s",
                 unit_text(UNIT_SECONDS, best->figures.least));
    }
    if (price.high > search->budget)
        text_add(&why, "; it takes up to %.4g, not %.4g %s", price.high, search->budget,
                 price_unit(search));
    AUTOFREE char *name = candidate_name(&search->question, best);
    return err_add_code(err, 1, "no plan keeps the limits; the nearest is %s%s", name, why.data);
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
    struct texts set;
};

/* Beside the best one. */
struct shown_mesh {
    const struct candidate *candidate;
    const char *recompute;
    struct figures figures;
    struct range step;
    double data, other;
    char *difference; /* owned */
};

struct shown {
    const struct search *search;
    const char *price_unit;
    bool met;
    struct shown_plan *plan; /* (plans) best, next if there is one, front; owned */
    const struct shown_plan *best, *next, *front;
    int32_t plans, fronts;
    struct shown_mesh *mesh; /* (meshes) the shortest step first; owned */
    int32_t meshes;
    struct layout *layout; /* (layouts) on the nodes of the best; owned */
    int32_t layouts;
};

COLUMNS(candidate_columns, NULL, struct candidate)
{
    COLUMN("platform", platform, .help = "name or path of the platform");
    COLUMN("nodes", nodes, .help = "nodes in use");
    COLUMN("devices", figures.devices, .help = "devices of all nodes");
    COLUMN("columns", figures.grid.columns, .zero = true,
           .help = "ranks in a row; null if the job has no rows");
    COLUMN("rows", figures.grid.rows, .zero = true, .help = "ranks in a column");
    COLUMN("algorithm", algorithm, .null = true,
           .help = "of the all-reduce; null: that of the job, which is not searched");
    COLUMN("bucket", bucket, .null = true,
           .help = "bytes of gradients that are exchanged together; null: those of the job");
    COLUMN_MEMBERS(figures, &figures_columns);
    COLUMN("mfu", figures.use, .null = true,
           .help = "FLOP of the network over the peak of the devices; null of pictures");
    COLUMN("tokens_per_s_per_device", figures.tokens, .null = true,
           .help = "without padding; null of pictures");
    COLUMN("currency", figures.bill.currency, .null = true, .help = "of the cost");
    COLUMN("prices", figures.bill.origin, .null = true, .help = "price file: name, date and path");
    COLUMN("backend", backend, .words = backend_words,
           .help = "analytic or sim: where the numbers come from");
    COLUMN("reason", reason, .null = true, .help = "why it was not simulated as intended, or null");
}

COLUMNS(plan_row_columns, NULL, struct shown_plan)
{
    COLUMN("plan", role, .null = true, .help = "best, next (best); null: another of the front");
    COLUMN("name", name, .help = "platform, nodes, algorithm, bucket and batches in words");
    COLUMN_MEMBERS(candidate, &candidate_columns);
    COLUMN_ITEMS("batch_per_device", batch, phases, .help = "samples per device of each phase");
    COLUMN("keeps", keeps, .help = "the upper ends of its time and price keep the limits");
    COLUMN("time_over_closed_form", over_closed, .help = "time_to_train_s over the first search's");
}

COLUMNS(whole_columns, NULL, struct shown_plan)
{
    COLUMN_ROWS(&plan_row_columns);
    COLUMN_ITEMS("set", set.item, set.count, .help = "assignments that make the job this plan's");
}

COLUMNS(mesh_columns, NULL, struct candidate)
{
    COLUMN("tensor", mesh[MESH_TENSOR], .help = "devices that share each layer");
    COLUMN("context", mesh[MESH_CONTEXT], .help = "devices that share each sequence");
    COLUMN("expert", mesh[MESH_EXPERT], .help = "devices that share experts");
    COLUMN("pipeline", mesh[MESH_PIPELINE], .help = "stages");
    COLUMN("chunks", mesh[MESH_CHUNKS], .help = "parts of the network that each stage has");
    COLUMN("micro_batch", mesh[MESH_MICRO], .help = "samples that pass through a stage at once");
    COLUMN("sharding", mesh[MESH_SHARDING], .help = "stage of ZeRO; 0: nothing is sharded");
}

COLUMNS(shown_mesh_columns, NULL, struct shown_mesh)
{
    COLUMN_MEMBERS(candidate, &mesh_columns);
    COLUMN("recompute", recompute, .help = "none, norms, latent, selective or full");
    COLUMN("step_s", step, .help = "one training step of the last phase");
    COLUMN("mfu", figures.use, .null = true, .help = "FLOP of the network over peak of devices");
    COLUMN("tokens_per_s_per_device", figures.tokens, .null = true, .help = "without padding");
    COLUMN("compute_s", figures.parts.compute, .help = "with what is computed again");
    COLUMN("bubble_s", figures.parts.bubble, .help = "waiting for other stages");
    COLUMN("exposed_tensor_s", figures.parts.exposed_tensor,
           .help = "waiting for what devices that share layers exchange");
    COLUMN("exposed_data_s", data, .help = "waiting for gradients and weights");
    COLUMN("other_s", other, .help = "slowed and slower computing, optimizer and the rest");
    COLUMN("difference", difference,
           .help = "what is longer than in the best mesh by most; of that: best");
}

COLUMNS(layout_columns, NULL, struct layout)
{
    COLUMN("memory_bytes", memory, .help = "what a device needs");
    COLUMN("step_s", step, .help = "predicted, or the least that a step takes");
    COLUMN("fits", fits, .help = "the memory of a device is enough");
    COLUMN("predicted", predicted, .help = "false: the step is a lower bound");
}

COLUMNS(tally_columns, NULL, struct mesh_tally)
{
    COLUMN("considered", considered, .help = "meshes of all platforms and numbers of nodes");
    COLUMN("divided", divided,
           .help = "meshes that do not share heads, blocks, devices and samples evenly");
    COLUMN("memory", memory, .help = "meshes that do not fit the memory of a device");
    COLUMN("slower", slower, .help = "meshes whose least possible step is longer than the best");
    COLUMN("predicted", predicted, .help = "meshes that were predicted");
}

COLUMNS(swing_columns, NULL, struct swing)
{
    COLUMN("time_to_train_s", time, .null = true,
           .help = "of the best plan at this end; null: such a job cannot be");
    COLUMN("time_to_train_s_high", high, .null = true, .help = "upper end of its interval");
    COLUMN("price", price, .null = true, .help = "cost of the best plan, or device-hours");
    COLUMN("keeps", kept, .help = "the plan that would be the best keeps the limits");
    COLUMN("best", name, .help = "name of the plan that would be the best");
}

COLUMNS(doubt_columns, NULL, struct doubtful)
{
    COLUMN("input", input, .help = "an uncertain input of the best plan");
    COLUMN("range", range, .help = "where the ends of the input are");
    COLUMN_OBJECT("low", low, &swing_columns);
    COLUMN_OBJECT("high", high, &swing_columns);
    COLUMN("changes", changes, .help = "another plan would be the best at one of the ends");
}

COLUMNS(asked_columns, NULL, struct search)
{
    COLUMN("target", question.target, .null = true,
           .help = "accuracy of --target; null: what the job says");
    COLUMN("within_s", within, .null = true, .help = "deadline; null: none");
    COLUMN("budget", budget, .null = true, .help = "in price_unit; null: none");
    COLUMN("aim", aim, .words = aim_names,
           .help = "what the best plan has least of: cost, device-hours or time");
}

COLUMNS(swings_columns, NULL, struct search)
{
    COLUMN_ITEMS("sensitivity", doubt, doubt_count, .table = &doubt_columns);
}

COLUMNS(count_columns, NULL, struct search)
{
    COLUMN_OBJECT("mesh_search", mesh_tally, &tally_columns);
    COLUMN("candidates", count, .help = "plans that were tried");
    COLUMN("refused", tally.refused, .help = "plans that make no job");
    COLUMN("simulated", tally.simulated, .help = "plans that were simulated, too");
    COLUMN("beyond", tally.beyond,
           .help = "plans with a batch that no published run converged with");
    COLUMN("fixed_batch", images, .zero = true,
           .help = "images or samples a step of all plans, since no run says which batch "
                   "converges; null: batches were searched");
}

COLUMNS(plan_columns, "plan/2", struct shown)
{
    COLUMN_MEMBERS(search, &asked_columns);
    COLUMN("price_unit", price_unit, .help = "currency of the prices, or device-hours");
    COLUMN("met", met, .help = "the best plan keeps the limits; if not it is the nearest");
    COLUMN_OBJECT("best", best, &whole_columns);
    COLUMN_INSIDE("next", next, &whole_columns, true);
    COLUMN_ITEMS("front", front, fronts, .table = &whole_columns);
    COLUMN_MEMBERS(search, &swings_columns);
    COLUMN_ITEMS("meshes", mesh, meshes, .table = &shown_mesh_columns);
    COLUMN_ITEMS("layouts", layout, layouts, .table = &layout_columns);
    COLUMN_MEMBERS(search, &count_columns);
}

static void add_plan(struct shown *shown, int64_t at, const char *role)
{
    const struct search *search = shown->search;
    const struct candidate *c = &search->list[at];
    struct shown_plan *plan = &shown->plan[shown->plans++];
    *plan = (struct shown_plan){.candidate = c,
                                .role = role,
                                .name = candidate_name(&search->question, c),
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

ORDER_BY(by_step, struct shown_mesh, step.value)

/* What makes the step of @mesh longer than that of @best, in words. */
static char *difference_of(const struct shown_mesh *mesh, const struct shown_mesh *best)
{
    const struct breakdown *a = &mesh->figures.parts, *b = &best->figures.parts;
    bool again = mesh->candidate->mesh[MESH_AGAIN] > best->candidate->mesh[MESH_AGAIN];
    const struct {
        const char *name;
        double more;
    } part[] = {
        {again ? "recompute" : "compute", a->compute - b->compute},
        {"bubble", a->bubble - b->bubble},
        {"exchange in layers", breakdown_inside(a) - breakdown_inside(b)},
        {"data exchange", mesh->data - best->data},
        {"other", mesh->other - best->other},
    };
    size_t most = 0;
    for (size_t i = 1; i < ARRAY_SIZE(part); i++)
        most = part[i].more > part[most].more ? i : most;
    if (part[most].more < 1e-9 * best->step.value)
        return base_copy("nothing");
    return base_format("%s +%s", part[most].name, unit_text(UNIT_SECONDS, part[most].more));
}

static void add_meshes(struct shown *shown)
{
    const struct search *search = shown->search;
    shown->mesh = base_alloc(search->count, sizeof(*shown->mesh));
    for (int64_t i = 0; i < search->count; i++) {
        const struct candidate *c = &search->list[i];
        const struct breakdown *b = &c->figures.parts;
        double data = b->exposed_communication - breakdown_inside(b);
        if (search_beside(search, i))
            shown->mesh[shown->meshes++] = (struct shown_mesh){
                c,    recompute_names[c->mesh[MESH_AGAIN]], c->figures, c->figures.step,
                data, b->slowed + b->slower + b->other,     NULL};
    }
    if (shown->meshes)
        qsort(shown->mesh, (size_t)shown->meshes, sizeof(*shown->mesh), by_step);
    for (int32_t i = 0; i < shown->meshes; i++)
        shown->mesh[i].difference =
            i ? difference_of(&shown->mesh[i], shown->mesh) : base_copy("best");
}

/* Those of other nodes would be another picture. */
static void add_layouts(struct shown *shown)
{
    const struct search *search = shown->search;
    const struct candidate *best = &search->list[search->best];
    shown->layout = base_alloc(search->layouts, sizeof(*shown->layout));
    for (int64_t i = 0; i < search->layouts; i++)
        if (search->layout[i].nodes == best->nodes &&
            !strcmp(search->layout[i].platform, best->platform))
            shown->layout[shown->layouts++] = search->layout[i];
}

static struct shown shown_of(const struct search *search)
{
    struct shown shown = {.search = search,
                          .price_unit = price_unit(search),
                          .met = search_keeps(search, &search->list[search->best])};
    add_plans(&shown);
    add_meshes(&shown);
    add_layouts(&shown);
    return shown;
}

static void shown_release(struct shown *shown)
{
    for (int32_t i = 0; i < shown->plans; i++) {
        free(shown->plan[i].name);
        free(shown->plan[i].batch);
        texts_release(&shown->plan[i].set);
    }
    for (int32_t i = 0; i < shown->meshes; i++)
        free(shown->mesh[i].difference);
    free(shown->plan);
    free(shown->mesh);
    free(shown->layout);
}

/* The answer. */
static struct json *plan_json(const struct search *search)
{
    AUTORELEASE(shown) struct shown shown = shown_of(search);
    return answer_json(&plan_columns, &shown);
}

/* ---- for people ---- */

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
static void print_batches(struct text *out, const struct search *search)
{
    int64_t beyond = search->tally.beyond;
    const struct candidate *best = &search->list[search->best];
    if (search->question.global)
        text_add(out, "All meshes have the %lld samples of a step that the job has.\n",
                 (long long)search->question.global[search->question.phases - 1]);
    else if (search->images)
        text_add(out,
                 "Which batch converges is not known for this network: all plans have the job's "
                 "%lld %ss\na step and its epochs.  --batch gives batches to choose from.\n",
                 (long long)search->images, question_input(&search->question));
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

/* What to know of the answer: a line each. */
static void print_notes(struct text *out, const struct search *search)
{
    const struct tally t = search->tally;
    const struct mesh_tally *m = &search->mesh_tally;
    if (isfinite(search->within) || isfinite(search->budget))
        text_add(out, "A plan keeps a limit if 95 of 100 runs do: if the upper end of its 90 %% "
                      "interval does.\n");
    text_add(out, "%s", search->currency ? "" : "Nothing is priced: no --prices are given.\n");
    print_phases(out, &search->question);
    print_batches(out, search);
    if (search->question.global)
        text_add(out,
                 "%lld meshes: %lld share something unevenly, %lld do not fit a device, %lld are "
                 "slower even at best, %lld were predicted.\n",
                 (long long)m->considered, (long long)m->divided, (long long)m->memory,
                 (long long)m->slower, (long long)m->predicted);
    text_add(out, "%lld plan%s in closed form, ", (long long)(search->count - t.refused),
             base_plural(search->count - t.refused));
    text_add(out, t.simulated ? "%lld of them simulated, too.\n" : "none simulated.\n",
             (long long)t.simulated);
    if (t.refused) {
        AUTOFREE char *name = candidate_name(&search->question, &search->list[t.first]);
        const char *reason = search->list[t.first].reason, *at = strstr(reason, "error: ");
        text_add(out, "%lld more make%s no job; the first, %s: %s\n", (long long)t.refused,
                 t.refused == 1 ? "s" : "", name, at ? at + strlen("error: ") : reason);
    }
}

/* The key of what a plan costs. */
static const char *price_key(const struct json *all)
{
    const char *hours = aim_names[AIM_DEVICE_HOURS];
    return strcmp(html_word(all, "price_unit"), hours) == 0 ? "device_hours" : "cost";
}

/* ---- the answer ---- */

static void add_limits(struct text *out, const struct json *all)
{
    double within = html_number(all, "within_s", -1), budget = html_number(all, "budget", -1);
    if (isfinite(within))
        text_add(out, " within %s", unit_text(UNIT_SECONDS, within));
    if (isfinite(budget))
        text_add(out, " for at most %.4g %s", budget, html_word(all, "price_unit"));
}

static char *answer_of(const struct json *all)
{
    const struct json *best = json_get(all, "best");
    const char *target = html_word(all, "target"), *key = price_key(all);
    bool kept = json_truth(json_get(all, "met"));
    struct text out = {0};
    text_add(&out, kept ? "The plan with the least %s" : "No plan trains", html_word(all, "aim"));
    text_add(&out, "%s%s", *target ? " to " : "", target);
    add_limits(&out, all);
    text_add(&out, kept ? " is %s. It takes " : "; the nearest is %s. It takes ",
             html_word(best, "name"));
    for (int i = 0; i < 2; i++) {
        const char *name = i ? key : "time_to_train_s";
        enum unit unit = i ? UNIT_NONE : UNIT_SECONDS;
        double value = html_number(best, name, -1),
               ends[] = {html_end(best, name, false), html_end(best, name, true)};
        text_add(&out, "%s%s%s%s (90 %%: %s to %s)%s", i ? " and " : "",
                 unit_likely(unit, value, value, ends[0], ends[1]), i ? " " : "",
                 i ? html_word(all, "price_unit") : "",
                 unit_likely(unit, ends[0], value, ends[0], ends[1]),
                 unit_likely(unit, ends[1], value, ends[0], ends[1]), i ? "." : "");
    }
    return out.data;
}

/* ---- rows of tables ---- */

static bool is_same(const struct json *a, const struct json *b)
{
    return b && strcmp(html_word(a, "name"), html_word(b, "name")) == 0;
}

/* Best, next best and the rest of the front; or only the first two. */
static struct json *plans_of(const struct json *all, bool front)
{
    const struct json *best = json_get(all, "best"), *next = json_get(all, "next");
    const struct json *list = json_get(all, "front");
    struct json *rows = json_new_array();
    json_append(rows, json_share(best));
    if (next)
        json_append(rows, json_share(next));
    for (int64_t i = 0; i < json_count_items(list) && front; i++)
        if (!is_same(json_item(list, i), best) && !is_same(json_item(list, i), next))
            json_append(rows, json_share(json_item(list, i)));
    return rows;
}

/* END_time_s, END_price, END_keeps, and END_best if it is not @best. */
static void put_swing(struct json *row, const char *end, const struct json *swing, const char *best)
{
    const char *other = html_word(swing, "best");
    AUTOFREE char *time = base_format("%s_time_s", end), *price = base_format("%s_price", end);
    AUTOFREE char *plan = base_format("%s_best", end), *keeps = base_format("%s_keeps", end);
    json_put_real(row, time, html_number(swing, "time_to_train_s", -1));
    json_put_real(row, price, html_number(swing, "price", -1));
    json_put(row, keeps, json_new_boolean(json_truth(json_get(swing, "keeps"))));
    json_put_text(row, plan, strcmp(other, best) ? other : NULL);
}

static struct json *swings_of(const struct json *all)
{
    const struct json *list = json_get(all, "sensitivity");
    const char *best = html_word(json_get(all, "best"), "name");
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < json_count_items(list); i++) {
        const struct json *item = json_item(list, i);
        struct json *row = json_append_object(rows);
        json_put_text(row, "input", html_word(item, "input"));
        json_put_text(row, "range", html_word(item, "range"));
        put_swing(row, "low", json_get(item, "low"), best);
        put_swing(row, "high", json_get(item, "high"), best);
    }
    return rows;
}

/* ---- tables ---- */

static const char mesh_words[] =
    "tensor, context, expert, pipeline, chunks, micro_batch: micro, sharding, recompute, step_s~, "
    "mfu, tokens_per_s_per_device: tokens/s each, bubble_s, exposed_tensor_s: tensor, "
    "exposed_data_s: data, difference";
static const char mesh_title[] =
    "The best meshes of these nodes; difference: what is longer than in the best";
static const char front_title[] = "Best, next best and the front of time, cost and energy";
static const char swing_title[] =
    "The best plan with one uncertain input at either end, all else in the middle";

/* The columns of plans; on a @page the name stands first. */
static char *plan_words(const struct json *all, bool page)
{
    return base_format("plan: , %stime_to_train_s~: time, %s~: %s, keeps: in limits, energy_kwh, "
                       "devices, epochs%s",
                       page ? "name, " : "", price_key(all), html_word(all, "price_unit"),
                       page ? "" : ", nccl: NCCL, backend, name");
}

/* ", KEY" if that of some mesh is not 1. */
static const char *mesh_word(const struct json *meshes, const char *key)
{
    for (int64_t i = 0; i < json_count_items(meshes); i++)
        if (html_number(json_item(meshes, i), key + 2, -1) != 1)
            return key;
    return "";
}

/* The columns of meshes on a page, which has not the room of a terminal. */
static char *page_mesh_words(const struct json *meshes)
{
    return base_format("tensor%s%s, pipeline%s, micro_batch: micro-batch, sharding, recompute, "
                       "step_s~, mfu, tokens_per_s_per_device: tokens/s each, difference",
                       mesh_word(meshes, ", context"), mesh_word(meshes, ", expert"),
                       mesh_word(meshes, ", chunks"));
}

/* The columns of what each uncertain input moves. */
static char *swing_words(const struct json *all)
{
    const char *unit = html_word(all, "price_unit");
    return base_format(
        "input: uncertain input, range: ends, low_time_s: low: time, low_price: %s, high_time_s: "
        "high: time, high_price: %s, low_keeps: low: in limits, high_keeps: high: in limits, "
        "low_best: low: the best is, high_best: high: the best is",
        unit, unit);
}

static void print_table(struct text *out, const char *title, const char *words,
                        const struct json *rows)
{
    if (json_count_items(rows) <= 0)
        return;
    text_add(out, "\n%s\n\n", title);
    columns_print(out, words, rows);
}

/* The `predict` that answers the same of the best. */
static void add_command(struct text *out, const struct search *search, const struct json *all)
{
    const struct json *set = json_get(json_get(all, "best"), "set");
    text_add(out, "foretrain predict ");
    text_add_word(out, search->question.path);
    for (int64_t i = 0; i < json_count_items(set); i++) {
        text_add(out, " --set ");
        text_add_word(out, json_as_text(json_item(set, i)));
    }
}

/* Append all of it for people. */
static void plan_print(struct text *out, const struct search *search)
{
    AUTORELEASE(json) struct json *all = plan_json(search), *plans = plans_of(all, true);
    AUTORELEASE(json) struct json *swings = swings_of(all);
    AUTOFREE char *answer = answer_of(all), *plan = plan_words(all, false),
                  *swing = swing_words(all);
    text_add(out, "%s\n", answer);
    print_notes(out, search);
    print_table(out, front_title, plan, plans);
    print_table(out, mesh_title, mesh_words, json_get(all, "meshes"));
    print_table(out, swing_title, swing, swings);
    text_add(out, "\nThe best plan as a prediction:\n  ");
    add_command(out, search, all);
    text_add(out, "\n");
}

/* Write the answer as a page to @file. */
static int plan_page(const char *file, const struct search *search, struct err *err)
{
    struct page page = {0};
    AUTORELEASE(json) struct json *all = plan_json(search), *two = plans_of(all, false);
    AUTORELEASE(json) struct json *plans = plans_of(all, true), *swings = swings_of(all);
    AUTORELEASE(text) struct text notes = {0};
    AUTOFREE char *answer = answer_of(all), *plan = plan_words(all, true),
                  *swing = swing_words(all);
    AUTOFREE char *title = base_format("Plan of %s", search->question.path);
    print_notes(&notes, search);
    html_answer(&page, title, answer);
    html_paragraph(&page, NULL, notes.data);
    html_table(&page, "best", "best and next best", two, plan, false);
    const struct json *meshes = json_get(all, "meshes");
    if (json_count_items(meshes) > 0) {
        AUTOFREE char *words = page_mesh_words(meshes);
        html_section(&page, "Which meshes are nearly as good?");
        html_picture(&page, "layouts", -1);
        html_table(&page, "meshes", mesh_title, meshes, words, false);
    }
    if (json_count_items(plans) > 1) {
        html_section(&page, "What does less time cost?");
        html_picture(&page, "front", -1);
        html_table(&page, "front", front_title, plans, plan, true);
    }
    if (json_count_items(swings) > 0) {
        html_section(&page, "What would change it?");
        html_picture(&page, "sensitivity", -1);
        html_table(&page, "sensitivity", swing_title, swings, swing, true);
    }
    AUTORELEASE(text) struct text command = {0};
    add_command(&command, search, all);
    html_section(&page, "The best plan as a prediction");
    html_paragraph(&page, "command", command.data);
    return html_write(&page, file, title, all, err);
}

struct plan_request {
    struct request head;
    struct predict_options predict;
    const char *target, *report;
    double within, budget;
    const char *given[DECISION_COUNT];
    struct texts prices;
    int32_t workers; /* 0: the cores */
};

static int print(struct text *out, const struct plan_request *request, const struct search *search,
                 struct err *err)
{
    if (request->head.json) {
        AUTORELEASE(json) struct json *json = plan_json(search);
        json_print(out, json);
    } else if (!csv_is_answer(&request->head)) {
        plan_print(out, search);
    }
    AUTORELEASE(shown) struct shown shown = shown_of(search);
    return csv_write(&request->head, answer_list(&plan_row_columns, shown.plan, shown.plans), NULL,
                     out, err) ||
           (request->report && plan_page(request->report, search, err)) ||
           plan_verdict(search, err);
}

static int run(const void *record, struct text *out, struct err *err)
{
    const struct plan_request *request = record;
    AUTORELEASE(search)
    struct search search = {
        .question = {.path = request->head.argument.item[0],
                     .options = &request->predict,
                     .target = request->target,
                     .workers = request->workers ? request->workers : cores_available()},
        .within = request->within,
        .budget = request->budget,
        .prices = &request->prices,
        .draws = request->report,
    };
    for (int i = 0; i < DECISION_COUNT; i++)
        search.given[i] = request->given[i];
    return search_make(&search, err) || print(out, request, &search, err);
}

#define AT(member) offsetof(struct plan_request, member)
#define ROW_GIVEN(name, decision, argument, meaning)                                               \
    OPTION_ROW(name, 0, OPTION_TEXT, AT(given[decision]), argument, NULL, meaning)

static const struct option options[] = {
    OPTION_ROW("target", 0, OPTION_TEXT, AT(target), "ACCURACY", NULL,
               "Short for --set training.target=ACCURACY: 75.9 %"),
    OPTION_ROW("within", 0, OPTION_REAL, AT(within), "TIME", NULL,
               "The deadline, 10 min or 2 h, which 95 of 100 runs must keep", .unit = UNIT_SECONDS,
               .example = "a time as in --within \"10 min\""),
    OPTION_ROW("budget", 0, OPTION_REAL, AT(budget), "N", NULL,
               "What a run may cost at most, in the currency of the prices, or without prices in "
               "device-hours; without --within the fastest plan for it",
               .example = "a number as in --budget 500"),
    ROW_GIVEN(
        "platforms", DECISION_PLATFORM, "NAMES",
        "To choose from: dgx-h100,dgx-a100; all: every one of the library (default: the job's)"),
    ROW_GIVEN("nodes", DECISION_NODES, "NUMBERS",
              "To choose from: 4..64:x2, 32,48 (default: up to the platform's, and refined)"),
    ROW_GIVEN("batch", DECISION_BATCH, "NUMBERS",
              "Images per device in the last phase, to which other phases keep their ratio "
              "(default: 8..512:x2, and refined)"),
    ROW_GIVEN("algorithms", DECISION_ALGORITHM, "NAMES",
              "To choose from (default: nccl,torus2d,ring,hierarchical)"),
    ROW_GIVEN("buckets", DECISION_BUCKET, "SIZES", "To choose from (default: 4MiB..256MiB:x4)"),
    ROW_GIVEN("tensor", DECISION_TENSOR, "NUMBERS",
              "Of transformers, devices that share layers: 1..8:x2 (default: all that can be)"),
    ROW_GIVEN("context", DECISION_CONTEXT, "NUMBERS",
              "Of transformers, devices that share sequences (default: as in the job)"),
    ROW_GIVEN("expert", DECISION_EXPERT, "NUMBERS",
              "Of transformers with experts, devices that share them (default: all that can be)"),
    ROW_GIVEN("pipeline", DECISION_PIPELINE, "NUMBERS",
              "Of transformers, stages to choose from (default: all that can be)"),
    ROW_GIVEN("chunks", DECISION_CHUNKS, "NUMBERS",
              "Parts of the network that each stage has (default: all that can be)"),
    ROW_GIVEN("micro-batch", DECISION_MICRO_BATCH, "NUMBERS",
              "Samples that pass through a stage at once (default: all that can be)"),
    ROW_GIVEN("sharding", DECISION_SHARDING, "NUMBERS",
              "What ranks have a shard of, 0 for nothing (default: 0..3)"),
    ROW_GIVEN("recompute", DECISION_RECOMPUTE, "WORDS",
              "What is computed again (default: none,selective,full)"),
    OPTION_ROW("prices", 0, OPTION_TEXTS, AT(prices), "[PLATFORM=]NAME", NULL,
               "A name in prices/ or a file, of all platforms or of one: the plan is by cost; may "
               "be repeated (default: by device-hours)"),
    ROW_SET(AT(predict.set)),
    OPTION_ROW("backend", 'b', OPTION_WORD, AT(predict.backend), NULL, backend_words,
               "Closed form alone (default: closed form, then the simulator for the best plans)"),
    ROW_GRAIN(AT(predict.grain)),
    ROW_ORDER(AT(predict.order)),
    OPTION_ROW("jobs", 0, OPTION_INTEGER, AT(workers), "N", NULL,
               "Plans at a time (default: the cores of the machine)"),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    ROW_CSV("best, next best and front"),
    ROW_LAST};

static const struct plan_request defaults = {
    .predict = {PREDICT_COMMAND}, .within = INFINITY, .budget = INFINITY};

const struct command command_plan = {
    .name = "plan",
    .synopsis = "JOB --within TIME [options]",
    .help = "which platform, nodes, algorithm and batch meet a deadline for the least cost",
    .examples = "foretrain plan job.yaml --target \"75.9 %\" --within \"10 min\" --platforms "
                "dgx-h100,dgx-a100\n"
                "foretrain plan job.yaml --within 1h --platforms all --csv front.csv\n"
                "foretrain plan job.yaml --budget 500 --prices example-h100 --platforms dgx-h100",
    RECORD(options, struct plan_request, &defaults),
    TAKES(1, 1),
    .jobs = true,
    ANSWERS(&plan_columns),
    .run = run,
};
