#include "tests/core/trial.h"

#include "core/backend/floor.h"
#include "core/job/resolve.h"
#include "tests/core/own.h"
#include "tests/test.h"

/* What people change to see what it does, on every platform and by every algorithm, in closed form:
 * a change for the better never makes a step longer, a change of a tenth never makes it more than
 * a fifth longer or shorter, and no step is shorter than its bytes take over the narrowest cut.
 * Where a choice is made, the reason is named: NCCL chooses without knowing the fabric. */

static const double slack = 1e-12, jump = 0.2;

/* Of platforms that are alike, each tries one algorithm in so many. */
enum { SHARES = 4 };

/* Of ResNet-50 (He et al. 2015), with the weights of batch norm. */
static const double parameters = 25557032;

/* What was found on all platforms, and the numbers of the one at hand. */
struct findings {
    int32_t points, excused, faults;
    int32_t alike; /* platforms before with the same numbers */
    struct number_list numbers;
};

/* A step, what was chosen for it, and how long it takes. */
struct point {
    struct trial trial;
    struct text chosen;
    double seconds;
};

/* --- choices --- */

/* On a cluster only torus2d has a grid that is chosen. */
static void choose_grid(struct trial *trial)
{
    trial->grid = (struct grid){.columns = trial->devices, .rows = trial->nodes};
    if (trial->algorithm == ALGORITHM_TORUS2D || !trial->platform->nodes)
        trial->grid = grid_choose(&(struct grid_question){
                                      .platform = trial->platform,
                                      .nodes = trial->nodes,
                                      .devices_per_node = trial->devices,
                                      .bytes = trial->bucket,
                                  })
                          .grid;
}

static void print_choices(struct text *out, const struct trial *trial, const struct fabric *fabric,
                          const struct schedule *schedule)
{
    int32_t buckets = 0;
    if (trial->algorithm == ALGORITHM_TORUS2D || !trial->platform->nodes)
        text_add(out, "grid of %d columns; ", trial->grid.columns);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COLLECTIVE)
            continue;
        buckets = step->collective.bucket + 1;
        if (step->collective.algorithm != ALGORITHM_NCCL || schedule_first_like(schedule, id) < id)
            continue;
        struct nccl_choice choice =
            nccl_choose(&fabric->nccl, step->collective.op, step->collective.bytes);
        text_add(out, "%s %s over %d cards; ", nccl_algorithm_name(choice.algorithm),
                 nccl_protocol_name(choice.protocol), fabric->nccl.inter_channels);
    }
    text_add(out, "%d buckets; fusion %d", buckets,
             (int)device_fusion(&trial->platform->device, trial->batch));
}

/* --- cuts --- */

static double find(const struct number_list *list, const char *section, const char *key)
{
    AUTOFREE char *path = base_format("%s.%s", section, key);
    double value = 0;
    for (int32_t i = 0; i < list->count; i++)
        if (!strcmp(list->number[i].path, path))
            value = list->number[i].value ? *list->number[i].value : (double)*list->number[i].count;
    return value;
}

static double rate_of(const struct number_list *list, const char *section)
{
    return find(list, section, "bandwidth") * find(list, section, "efficiency");
}

/* What leaves a rank, a node, or a group of nodes, by the platform's numbers [bytes/s]: an
 * all-reduce sends at least one whole vector out of each set of ranks that is not all. */
static double narrowest_cut(const struct trial *trial, const struct number_list *list)
{
    double rate = INFINITY;
    if (!trial->platform->nodes)
        rate = 2 * rate_of(list, "ring") +
               (trial->grid.columns > 1) * 2 * rate_of(list, "torus.row") +
               (trial->grid.rows > 1) * 2 * rate_of(list, "torus.column");
    else if (trial->nodes > 1)
        rate = find(list, "node", "nics") * rate_of(list, "network.nic");
    for (int32_t t = 0; t < FABRIC_TIER_LIMIT; t++) {
        AUTOFREE char *tier = base_format("network.tiers[%d]", t);
        double nodes = find(list, tier, "nodes");
        if (nodes > 0 && trial->nodes > nodes)
            rate = fmin(rate, find(list, tier, "uplinks") * rate_of(list, tier));
    }
    return rate;
}

/* --- points --- */

static void print_fault(struct findings *findings, const struct trial *trial, const char *format,
                        ...) __attribute__((format(printf, 3, 4)));
static void print_fault(struct findings *findings, const struct trial *trial, const char *format,
                        ...)
{
    va_list list;
    struct text text = {0};
    va_start(list, format);
    char *what = base_format_list(format, list);
    va_end(list);
    trial_print(&text, trial);
    print_message("%s: %s\n", text.data, what);
    text_release(&text);
    free(what);
    findings->faults++;
}

static void check_floors(struct findings *findings, const struct trial *trial,
                         const struct fabric *fabric, const struct schedule *schedule,
                         double seconds)
{
    struct run run = trial_run(trial, fabric);
    double cut =
        parameters * dtype_size(trial->gradients) / narrowest_cut(trial, &findings->numbers);
    struct floor floor = floor_iteration(&run, schedule, NULL);
    if (seconds < cut * (1 - slack))
        print_fault(findings, trial, "%g s, the bytes need %g s", seconds, cut);
    if (seconds < floor.seconds * (1 - slack))
        print_fault(findings, trial, "%g s, the floor is %g s", seconds, floor.seconds);
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.algorithm == ALGORITHM_NCCL &&
            run_nccl(&run, step).seconds <
                (1 - 1e-9) * floor_collective(fabric, schedule, id).seconds)
            print_fault(findings, trial, "step %d is shorter than its floor", id);
    }
}

static struct point point_new(struct findings *findings, struct trial trial)
{
    choose_grid(&trial);
    struct point point = {.trial = trial};
    OWN(fabric) *fabric = trial_fabric(&trial);
    const struct schedule *schedule = trial_schedule(&trial);
    point.seconds = trial_step(&trial, fabric);
    print_choices(&point.chosen, &trial, fabric, schedule);
    check_floors(findings, &trial, fabric, schedule, point.seconds);
    findings->points++;
    return point;
}

static void point_release(struct point *point)
{
    text_release(&point->chosen);
}

/* @seconds are those of @point after @what, which should be from @least to @most of what it was. */
static void expect(struct findings *findings, const struct point *point, struct trial changed,
                   const char *what, double least, double most)
{
    HELD(point) after = point_new(findings, changed);
    double ratio = after.seconds / point->seconds;
    bool wrong = ratio < least * (1 - slack) || ratio > most * (1 + slack);
    if (wrong && strcmp(point->chosen.data, after.chosen.data) != 0)
        findings->excused++;
    else if (wrong)
        print_fault(findings, &point->trial, "%s makes %.9g s %.9g s, %g of it: not %g to %g (%s)",
                    what, point->seconds, after.seconds, ratio, least, most, after.chosen.data);
    if (wrong && getenv("WHAT_IF"))
        print_message("%s %s %d nodes %d: %s: %g of %g s: %s -> %s\n", point->trial.platform->name,
                      algorithm_names[point->trial.algorithm], point->trial.nodes,
                      point->trial.nccl, what, ratio, point->seconds, point->chosen.data,
                      after.chosen.data);
}

/* --- numbers --- */

static void change_number(struct findings *findings, const struct point *point,
                          const struct number *number, double factor, double limit)
{
    bool longer = number_is_rate(number) == (factor < 1);
    AUTOFREE char *what = base_format("%s x %g", number->path, factor);
    double before = number_scale(number, factor);
    expect(findings, point, point->trial, what, longer ? 1 : 1 / limit, longer ? limit : 1);
    number_set(number, before);
}

/* What is not a device's, but for one algorithm: it computes the same under each.  Algorithms take
 * turns: with one a number is much better and a little worse, with the next the other way round. */
static void change_numbers(struct findings *findings, const struct point *point)
{
    for (int32_t i = 0; i < findings->numbers.count; i++) {
        const struct number *number = &findings->numbers.number[i];
        bool device = !strncmp(number->path, "device.", 7);
        if (!number->value || (device && point->trial.algorithm != ALGORITHM_RING))
            continue;
        double far = number_is_rate(number) ? 2 : 10, near = 1 / 1.1;
        if ((i + (int32_t)point->trial.algorithm) % 2)
            far = 1 / far, near = 1.1;
        change_number(findings, point, number, far, INFINITY);
        change_number(findings, point, number, near, 1 + jump);
    }
}

/* What runs beside each other: the more it costs, the longer the step, at most by that part. */
static void change_slowdowns(struct findings *findings, const struct point *point)
{
    struct device *device = &point->trial.platform->device;
    double *const value[] = {&device->compute_slowdown.value, &device->communication_slowdown.value,
                             &device->collective_launch.value};
    static const char *const name[] = {"compute_slowdown", "communication_slowdown",
                                       "collective_launch"};
    for (int i = 0; i < 6; i++) {
        double before[] = {*value[0], *value[1], *value[2]};
        bool launch = i % 3 == 2, both = i >= 3;
        double start = launch ? 1e-5 : 0.1;
        if (both) /* beside the other two */
            *value[0] = *value[1] = 0.5, *value[2] = 1e-5;
        *value[i % 3] = start;
        struct point from = point_new(findings, point->trial);
        if (!both) {
            *value[i % 3] = 0;
            expect(findings, &from, point->trial, name[i % 3], launch ? 0 : 1 / 1.1, 1);
        }
        for (double more = 1.1; more <= 10; more += 5.8) {
            *value[i % 3] = more * start;
            double most = launch ? more : (1 + more * start) / (1 + start);
            expect(findings, &from, point->trial, name[i % 3], 1, most);
        }
        point_release(&from);
        for (int k = 0; k < 3; k++)
            *value[k] = before[k];
    }
}

/* --- the harness --- */

static void change_uplinks(struct findings *findings, const struct point *point)
{
    for (int32_t i = 0; i < findings->numbers.count; i++) {
        const struct number *number = &findings->numbers.number[i];
        if (!strncmp(number->path, "network.", 8) && strstr(number->path, ".bandwidth"))
            change_number(findings, point, number, 1e-5, INFINITY); /* nothing else counts then */
        if (!strstr(number->path, ".uplinks"))
            continue;
        for (double parts = 2; parts <= 16 && (double)*number->count >= parts; parts *= 2)
            change_number(findings, point, number, 1 / parts, INFINITY);
    }
}

static void change_job(struct findings *findings, const struct point *point)
{
    struct trial other = point->trial;
    other.batch *= 2;
    expect(findings, point, other, "batch x 2", 1, 2);
    other.batch = 35;
    expect(findings, point, other, "batch 35 for 32", 1, 1 + jump);
    other = point->trial;
    other.gradients = DTYPE_FP32;
    expect(findings, point, other, "gradients of 32 bits", 1, INFINITY);
    other.bucket *= 2;
    expect(findings, point, other, "gradients of 32 bits in as many buckets", 1, 2);
    other = point->trial;
    other.bucket = other.bucket / 10 * 11;
    expect(findings, point, other, "bucket x 1.1", 1 / (1 + jump), 1 + jump);
    other = point->trial;
    other.overlap = OVERLAP_NONE;
    expect(findings, point, other, "no overlap", 1, 2);
    HELD(point) apart = point_new(findings, other);
    other.bucket *= 2;
    expect(findings, &apart, other, "bucket x 2 without overlap", 0, 1);
}

/* Trees and pairs by distance do not go by nodes: with more of them other links are shared.  So do
 * several rings inside one node, which no longer close there with two; and two nodes of a torus
 * have the links of one dimension, four those of two. */
static bool goes_by_nodes(const struct trial *trial)
{
    bool torus = trial->platform->device.links.kind >= LINKS_TORUS2D;
    if ((trial->channels && trial->nodes == 1) || (torus && trial->nodes == 2))
        return false;
    return trial->algorithm == ALGORITHM_RING || trial->algorithm == ALGORITHM_HIERARCHICAL ||
           trial->algorithm == ALGORITHM_TORUS2D || trial->algorithm == ALGORITHM_NCCL;
}

static void change_nodes(struct findings *findings, const struct point *point)
{
    struct trial other = point->trial;
    int32_t most = (int32_t)other.platform->nodes;
    other.nodes *= 2;
    if (goes_by_nodes(&point->trial) && (!most || other.nodes <= most))
        expect(findings, point, other, "nodes x 2", 1, INFINITY);
    other.nodes = point->trial.nodes * 11 / 10;
    if (other.nodes > point->trial.nodes && (!most || other.nodes <= most))
        expect(findings, point, other, "a tenth more nodes", 1 / (1 + jump), 1 + jump);
}

static void by(struct findings *findings, struct trial trial, enum algorithm algorithm,
               void (*change)(struct findings *findings, const struct point *point))
{
    trial.algorithm = algorithm;
    if (!trial_can_run(&trial) || (trial.channels && trial.devices < 2))
        return;
    HELD(point) point = point_new(findings, trial);
    change(findings, &point);
}

/* With several channels ring is another algorithm, the last.  Platforms with the same numbers share
 * the algorithms, of which the first tries all. */
static void each_algorithm(struct findings *findings, struct trial trial,
                           void (*change)(struct findings *findings, const struct point *point))
{
    for (int32_t a = 0; a <= ALGORITHM_COUNT; a++) {
        trial.channels = a == ALGORITHM_COUNT;
        if (!findings->alike || (a + findings->alike) % SHARES == 0)
            by(findings, trial, trial.channels ? ALGORITHM_RING : (enum algorithm)a, change);
    }
}

/* Who is called with each platform; the numbers of platforms before, by their paths. */
struct visitor {
    void (*visit)(void *findings, struct platform *platform);
    struct findings findings;
    uint64_t kind[256];
    int32_t platforms;
};

static uint64_t kind_of(const struct number_list *list)
{
    HELD(text) paths = {0};
    for (int32_t i = 0; i < list->count; i++)
        text_add(&paths, "%s ", list->number[i].path);
    return base_hash(BASE_HASH_SEED, paths.data, (size_t)paths.length);
}

static void visit(void *context, struct platform *platform)
{
    struct visitor *visitor = context;
    struct findings *findings = &visitor->findings;
    findings->numbers = trial_numbers(platform);
    visitor->kind[visitor->platforms] = kind_of(&findings->numbers);
    findings->alike = 0;
    for (int32_t i = 0; i < visitor->platforms; i++)
        findings->alike += visitor->kind[i] == visitor->kind[visitor->platforms];
    visitor->platforms++;
    visitor->visit(&visitor->findings, platform);
    free(visitor->findings.numbers.number);
}

static void on_all(void (*try)(void *findings, struct platform *platform), int32_t least)
{
    struct visitor visitor = {.visit = try};
    trial_each_platform(visit, &visitor);
    const struct findings *found = &visitor.findings;
    print_message("%d points, %d with another choice, %d faults\n", found->points, found->excused,
                  found->faults);
    assert_true(found->points >= least);
    assert_int_equal(found->faults, 0);
}

/* Also where the optimizer is sharded, and among as many nodes as fill racks. */
TEST_EACH(numbers_that_are_better_never_make_a_step_longer, on_all(see, 10000), void *context,
          struct platform *platform)
{
    const struct findings *findings = context;
    struct trial trial = trial_new(platform, 2);
    each_algorithm(context, trial, change_numbers);
    if (findings->alike)
        return;
    int32_t most = (int32_t)platform->nodes;
    struct trial large = trial_new(platform, most > 0 && most < 36 ? most : 36);
    by(context, large, ALGORITHM_NCCL, change_numbers);
    trial.sharded = true;
    by(context, trial, ALGORITHM_TORUS2D, change_numbers);
    by(context, trial, ALGORITHM_NCCL, change_numbers);
}

TEST_EACH(more_work_never_makes_a_step_shorter, on_all(see, 1000), void *context,
          struct platform *platform)
{
    each_algorithm(context, trial_new(platform, 2), change_job);
}

TEST_EACH(more_nodes_never_make_a_step_shorter, on_all(see, 1000), void *context,
          struct platform *platform)
{
    for (int32_t nodes = 1; nodes <= 20 && (nodes <= platform->nodes || !platform->nodes);
         nodes = nodes == 4 ? 10 : 2 * nodes)
        each_algorithm(context, trial_new(platform, nodes), change_nodes);
}

TEST_EACH(more_uplinks_never_make_a_step_longer, on_all(see, 100), void *context,
          struct platform *platform)
{
    for (int32_t nodes = 8; nodes <= 80; nodes *= 3)
        if (platform->nodes >= nodes)
            each_algorithm(context, trial_new(platform, nodes), change_uplinks);
}

/* --- every number counts --- */

/* Whether another value of @number changes a step by any algorithm, on @nodes nodes. */
static bool moves(struct platform *platform, const struct number *number, int32_t nodes)
{
    struct trial trial = trial_new(platform, nodes);
    bool moved = false;
    for (int32_t a = 0; a < (int)DTYPE_COUNT * ALGORITHM_COUNT && !moved; a++) {
        trial.algorithm = (enum algorithm)(a % ALGORITHM_COUNT);
        trial.compute = (enum dtype)(a / ALGORITHM_COUNT);
        trial.batch = trial.compute == DTYPE_FP32 ? 1 : 32;
        bool computes = platform->device.peak[trial.compute].value > 0;
        if (!computes || (nodes * trial.devices > 1 && !trial_can_run(&trial)))
            continue;
        trial.overlap = strstr(number->path, "_slowdown") ? OVERLAP_BACKWARD : OVERLAP_NONE;
        double before = trial_seconds(&trial);
        double was = number_scale(number, number_is_rate(number) ? 1e-3 : 1e3);
        if (was == 0)
            number_set(number, 1e-3);
        moved = trial_seconds(&trial) != before;
        number_set(number, was);
    }
    return moved;
}

/* Whether any message takes a cable of this kind: those between sockets have other ways if each
 * has a card and the devices have links of their own. */
static bool is_used(struct platform *platform, int32_t kind)
{
    struct trial trial = trial_new(platform, platform->nodes < 2 ? 1 : 2);
    OWN(fabric) *fabric = trial_fabric(&trial);
    bool used = false;
    for (int32_t i = 0; i < fabric->ranks * fabric->ranks && !used; i++) {
        int32_t from = i / fabric->ranks, to = i % fabric->ranks;
        if (from == to)
            continue;
        struct route route;
        fabric_route(fabric, from, to, &route);
        for (int32_t k = 0; k < route.count; k++)
            used = used || fabric->link[route.link[k]].tier == kind;
    }
    return used;
}

/* What is no time (how much fits, and how many there are), or has nothing to do here. */
static bool is_idle(struct platform *platform, const struct number *number)
{
    int32_t kind;
    if (sscanf(number->path, "node.links[%d]", &kind) == 1 && !is_used(platform, kind))
        return true;
    static const char *const elsewhere[] = {
        /* read by drafts of platforms, or by profiles of software */
        "device.memory", "device.links.bandwidth", "device.peak.tf32", "device.sustained",
        /* of jobs that say model.precision.products */
        "device.peak.fp8", "device.peak.fp4", "device.sustained_fp8"};
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(*elsewhere); i++)
        if (!strcmp(number->path, elsewhere[i]))
            return true;
    return (number->count && !strstr(number->path, ".uplinks")) ||
           (!strcmp(number->path, "transport.inside") && platform_devices_per_node(platform) == 1);
}

TEST_EACH(every_number_moves_a_step, on_all(see, 500), void *context, struct platform *platform)
{
    struct findings *findings = context;
    int32_t most = platform->nodes ? (int32_t)platform->nodes : 16;
    for (int32_t i = 0; i < findings->numbers.count; i++) {
        const struct number *number = &findings->numbers.number[i];
        findings->points++;
        if (!is_idle(platform, number) && !moves(platform, number, 1) &&
            !moves(platform, number, most < 2 ? most : 2) &&
            !moves(platform, number, most < 200 ? most : 200)) {
            print_message("%s: %s has no effect\n", platform->name, number->path);
            findings->faults++;
        }
    }
}

TEST_EACH(more_slowdown_never_makes_a_step_shorter, on_all(see, 1000), void *context,
          struct platform *platform)
{
    each_algorithm(context, trial_new(platform, 2), change_slowdowns);
}
