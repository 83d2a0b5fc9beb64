#include "app/predict/uncertainty.h"

#include "core/backend/cost.h"
#include "core/backend/floor.h"
#include "core/backend/steady.h"
#include "core/base/random.h"
#include "core/platform/device_table.h"

/* Uncertainty of the spread of devices: it varies between machines by as much as itself. */
#define JITTER_SPREAD 0.5

/* Error on several nodes of a model calibrated on one, as others found: vTrain's error grew from
 * 8.4 to 14.7 %, SimAI's is 2 to 10 %.  (vTrain: Bang et al., MICRO 2024; SimAI: Wang et al., NSDI
 * 2025.) */
#define MODEL_SPREAD 0.05

/* Of NCCL's times on twice as many nodes as were measured, and for each doubling more as errors
 * that do not know of each other add up: tables of 2 nodes predict those of 4 to 8.6 % and of 8 to
 * 15 %. Source: experiments/10_two_nodes; a test compares. */
#define DOUBLING_SPREAD 0.10

/* Sometimes a machine is slower than others of its kind, hardly ever faster.  Of 180 runs on one
 * node 7.8 % take more than 5 % longer than their fit and 1.1 % take as much less; the largest
 * excess is 21 %.  With an excess of 0 to TAIL_LONGEST, all equally likely, that is a share of (7.8
 * % - 1.1 %) / (1 - 5 / 21) of the runs. Source:
 * experiments/published.py experiments/02_published_runs/single_node.csv; a test compares. */
#define TAIL_LONGEST 0.21
#define TAIL_ALONE   0.09

/* Several nodes depend on two more things, a fabric and storage that all share; each is assumed to
 * be slow as often as a machine. */
#define TAIL_TOGETHER (3 * TAIL_ALONE)

/* Fewer runs than this, which scatter more than is usual, do not tell how much they scatter. */
enum { FEW_RUNS = 10 };

enum { DRAWS = 400, SEED = 1 };

/* The streams of random numbers for what only some jobs have: they move no other draw. */
enum { HOPS = 2, COMPUTE_SLOWDOWNS, COMMUNICATION_SLOWDOWNS, LAUNCHES, KINDS, HOSTS };

/* Of the overhead of a kernel without a fit: it was not measured. */
#define OVERHEAD_SPREAD 0.5

/* The standard deviation of the logarithm of a bandwidth with @provenance. */
double uncertainty_tolerance(enum provenance provenance)
{
    /* A measurement repeats to a few percent; well-kept machines reach figures of data sheets or
     * papers to about a tenth; an assumption may be wrong by half. */
    static const double tolerance[] = {
        [PROVENANCE_MEASURED] = 0.03,
        [PROVENANCE_DATASHEET] = 0.10,
        [PROVENANCE_PUBLISHED] = 0.10,
        [PROVENANCE_ASSUMED] = 0.30,
    };
    static_assert(ARRAY_SIZE(tolerance) == PROVENANCE_COUNT, "one each");
    return tolerance[provenance];
}

double uncertainty_quantity(const struct quantity *quantity)
{
    if (quantity->drawn)
        return 0;
    return fmax(uncertainty_tolerance(quantity->provenance), quantity->spread);
}

/* The largest tolerance of a bandwidth. */
struct widest {
    const char *below; /* paths that begin so; NULL: all but the device's */
    double most;
};

static void widen(void *context, const struct quantity *quantity, enum unit unit)
{
    struct widest *widest = context;
    bool counts = widest->below ? !strncmp(quantity->path, widest->below, strlen(widest->below))
                                : strncmp(quantity->path, "device.", 7) != 0;
    if (unit == UNIT_BYTES_PER_SECOND && counts)
        widest->most = fmax(widest->most, uncertainty_quantity(quantity));
}

static double bandwidth_tolerance(const struct platform *platform, const char *below)
{
    struct widest widest = {.below = below};
    platform_each_quantity(platform, widen, &widest);
    return widest.most;
}

/* Of what a message costs: latencies that are not said to be contained elsewhere. */
static void widen_hop(void *context, const struct quantity *quantity, enum unit unit)
{
    double *most = context;
    if (unit == UNIT_SECONDS && quantity->value > 0 && !strncmp(quantity->path, "transport.", 10))
        *most = fmax(*most, uncertainty_quantity(quantity));
}

/* How much machines with the same device and software differ: the scatter about the fits of all
 * devices with enough runs to show it. */
static double machine_scatter(const struct software *software)
{
    enum { ENOUGH = 3 };
    double squares = 0, rows = 0;
    for (int32_t i = 0; i < software->fits.count; i++) {
        const struct software_efficiency *fit =
            &((const struct software_efficiency *)software->fits.item)[i];
        if (fit->rows < ENOUGH)
            continue;
        squares += (double)fit->rows * fit->residual * fit->residual;
        rows += (double)fit->rows;
    }
    return rows > 0 ? sqrt(squares / rows) : 0;
}

/* The numbers of the device file itself, when no software profile is named: where this network was
 * profiled with this batch, its steps are as uncertain as those of the profile. */
static void doubt_device(struct uncertainty *u, const struct job *job, const struct device *device)
{
    const struct plan *plan = &job->resolved.plan;
    int64_t batch = plan->phase[plan->phase_count - 1].batch_per_device;
    double spread = device_profiled(device, job->scenario.model.network, batch);
    if (spread >= 0) {
        u->residual = fmax(spread, uncertainty_tolerance(PROVENANCE_MEASURED));
        return;
    }
    u->efficiency = fmax(uncertainty_quantity(&device->math_efficiency),
                         uncertainty_quantity(&device->memory_efficiency));
    u->overhead = OVERHEAD_SPREAD;
}

/* What is left out has no doubt. */
static double doubt_of(const struct quantity *quantity)
{
    return quantity->value > 0 ? uncertainty_quantity(quantity) : 0;
}

static void doubt_software(struct uncertainty *u, const struct software *software,
                           const struct device *device)
{
    const struct software_efficiency *fit = software_find_fit(software, device->name);
    u->efficiency = fit->efficiency_sd;
    u->overhead = fit->overhead_sd;
    u->correlation = fit->correlation;
    double usual = machine_scatter(software);
    u->residual = fmax(fit->residual, usual);
    if (fit->residual > usual && fit->rows < FEW_RUNS)
        u->freedom = fmax(2, (double)fit->rows - 1);
}

/* Times of NCCL that were measured, on as many nodes or on others. */
static double doubt_nccl(const struct job *job, double fallback)
{
    int32_t measured = (int32_t)job->platform->nccl.measured_nodes;
    if (!measured || job->resolved.algorithm != ALGORITHM_NCCL)
        return fallback;
    double doublings = fabs(log2((double)job->resolved.cluster.nodes / measured));
    return hypot(uncertainty_tolerance(PROVENANCE_MEASURED), DOUBLING_SPREAD * sqrt(doublings));
}

struct uncertainty uncertainty_of(const struct job *job)
{
    struct uncertainty u = {
        .jitter = JITTER_SPREAD,
        .network = bandwidth_tolerance(job->platform, NULL),
        .inside = bandwidth_tolerance(
            job->platform, job->resolved.algorithm == ALGORITHM_NCCL ? "nccl." : "node."),
        .model = MODEL_SPREAD,
        .kinds = 1,
        .draws = DRAWS,
        .seed = SEED,
    };
    platform_each_quantity(job->platform, widen_hop, &u.hop);
    u.network = doubt_nccl(job, u.network);
    u.hop = doubt_nccl(job, u.hop);
    for (int64_t i = 0; i < job->unknowns.count; i++)
        if (!strcmp(job->unknowns.item[i].key, "noise.compute_cv") ||
            !strcmp(job->unknowns.item[i].key, "device.jitter"))
            u.jitter = 0;
    const struct device *device = &job->platform->device;
    u.slowdown = (struct slowdown){doubt_of(&device->compute_slowdown),
                                   doubt_of(&device->communication_slowdown)};
    u.launch = doubt_of(&device->collective_launch);
    u.host = doubt_of(&device->experts_launch); /* of others the fits' scatter contains it */
    if (job->software && software_find_fit(job->software, device->name)->efficiency.path)
        doubt_software(&u, job->software, device);
    else
        doubt_device(&u, job, device);
    if (job->scenario.cluster.speed_spread > 0) { /* steps of this job were measured */
        u.efficiency = u.overhead = u.kinds = u.host = u.freedom = 0;
        u.residual = job->scenario.cluster.speed_spread;
    }
    return u;
}

/* A step in parts that are uncertain in different ways [s]. */
struct parts {
    double roof;     /* compute at the stated efficiency, without overhead */
    double overhead; /* of its kernels */
    double fixed;    /* batch norm's exchanges, and what lies between iterations */
    double exchange; /* bytes of a collective */
    double inside;   /* of one that stays inside of nodes */
    double latency;  /* of its messages */
    double launch;   /* of a collective */
    double input;
};

/* What every draw of one task starts from. */
struct table {
    const struct task *task;
    struct steady steady;
    struct parts *parts; /* (steps) */
    struct parts *chain; /* (chains) those of their steps together */
    double above;        /* what the task's step takes beyond the closed form [s] */
    struct parts all;    /* those of all steps, as often as they run */
    double host;         /* what the host takes at least to launch all kernels [s] */
    double kinds;        /* deviation of the efficiency, since kinds of kernels have other shares
                            than in the runs that it is from */
};

/* A collective, of which not all need be latency; equal ones have equal latency. */
static struct parts split_exchange(const struct table *t, int32_t id)
{
    const struct schedule *schedule = t->steady.schedule;
    int32_t like = schedule_first_like(schedule, id);
    double latency =
        like < id ? t->parts[like].latency : floor_latency(&t->task->point.run, schedule, id);
    double launch = fmin(t->task->point.run.device->collective_launch.value, t->steady.seconds[id]);
    double seconds = t->steady.seconds[id] - launch;
    latency = fmin(latency, seconds);
    const struct grid grid = t->task->point.grid;
    int32_t each = t->task->point.run.fabric->devices_per_node;
    bool inside = grid_axis_nodes(grid, schedule->step[id].collective.axis, each).nodes == 1;
    return (struct parts){.exchange = inside ? 0 : seconds - latency,
                          .inside = inside ? seconds - latency : 0,
                          .latency = latency,
                          .launch = launch};
}

static struct parts split(const struct run *run, double longer, const struct step *step)
{
    if (step->kind != STEP_COMPUTE)
        return (struct parts){.input = run_local_seconds(run, step)};
    double all = longer * cost_compute(run->device, step);
    double fixed = longer * cost_added(run->device, step);
    double each = longer * step->compute.kernels * run->device->kernel_overhead.value;
    double overhead = fmin(each, all - fixed);
    return (struct parts){.roof = all - overhead - fixed, .overhead = overhead, .fixed = fixed};
}

const char *const factor_names[FACTOR_COUNT] = {
    [FACTOR_EFFICIENCY] = "speed of kernels",
    [FACTOR_KINDS] = "kinds of kernels that were fitted to other networks",
    [FACTOR_OVERHEAD] = "cost of starting a kernel",
    [FACTOR_RESIDUAL] = "one machine against another",
    [FACTOR_NETWORK] = "bandwidths of the network",
    [FACTOR_HOP] = "latency of a message",
    [FACTOR_COMPUTE_SLOWDOWN] = "slowdown of compute",
    [FACTOR_COMMUNICATION_SLOWDOWN] = "slowdown of communication",
    [FACTOR_LAUNCH] = "cost of launching a collective",
    [FACTOR_HOST] = "cost of launching a kernel on the host",
    [FACTOR_MODEL] = "what the model leaves out",
    [FACTOR_TAIL] = "something slower than usual",
    [FACTOR_JITTER] = "jitter",
};

/* Draws of other tasks, and of other jobs in a sweep, ask for the same expectations again. */
static double expected_slowest(struct memory *memory, const struct noise *noise, int32_t ranks)
{
    uint64_t what = base_hash(BASE_HASH_SEED, noise, sizeof(*noise));
    double slowest;
    what = base_hash(what, &ranks, sizeof(ranks));
    if (!memory_find(memory, what, &slowest)) {
        slowest = noise_expected_slowest(noise, ranks);
        memory_keep(memory, what, slowest);
    }
    return slowest;
}

const struct factors factors_none = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 1};

/* How much longer a rank computes as drawn: with @waiting as long as the slowest of all. */
static double drawn_local(const struct table *t, const struct factors *d, bool waiting)
{
    struct noise noise = t->task->noise;
    noise.compute_cv *= d->of[FACTOR_JITTER];
    const struct point *point = &t->task->point;
    double slowest =
        waiting ? expected_slowest(point->run.memory, &noise, grid_ranks(point->grid)) : 1;
    return d->of[FACTOR_RESIDUAL] * slowest;
}

/* How much longer the whole step takes. */
static double drawn_longer(const struct table *t, const struct factors *d)
{
    return t->task->point.nodes > 1 ? d->of[FACTOR_MODEL] * d->of[FACTOR_TAIL] : d->alone;
}

/* A step as drawn, some of it taken away: how much longer its parts take. */
struct drawn {
    double local, overhead, network, inside, hop, launch;
    double efficiency; /* how much shorter */
    struct slowdown slowdown;
};

/* A step's kernels as drawn. */
static double drawn_kernels(const struct parts *p, const struct drawn *d)
{
    return p->roof / d->efficiency + d->overhead * p->overhead + p->fixed;
}

static struct drawn drawn_new(const struct table *t, const struct factors *d, bool waiting)
{
    struct slowdown centre = t->steady.slowdown;
    struct drawn drawn = {
        .local = drawn_local(t, d, waiting),
        .overhead = d->of[FACTOR_OVERHEAD],
        .network = d->of[FACTOR_NETWORK],
        .inside = d->inside,
        .hop = t->task->point.nodes > 1 ? d->of[FACTOR_HOP] : 1,
        .launch = d->of[FACTOR_LAUNCH],
        .efficiency = d->of[FACTOR_EFFICIENCY] * pow(d->of[FACTOR_KINDS], t->kinds),
        .slowdown = {fmin(1, d->of[FACTOR_COMPUTE_SLOWDOWN] * centre.compute),
                     fmin(1, d->of[FACTOR_COMMUNICATION_SLOWDOWN] * centre.communication)}};
    double host = d->of[FACTOR_HOST] * t->host, kernels = drawn_kernels(&t->all, &drawn);
    drawn.local = host > kernels ? drawn.local * host / kernels : drawn.local;
    return drawn;
}

static double drawn_seconds(const struct parts *p, const struct drawn *d)
{
    return d->local * drawn_kernels(p, d) + d->network * p->exchange + d->inside * p->inside +
           d->hop * p->latency + d->launch * p->launch + p->input;
}

/* With every step as @drawn. */
static struct steady drawn_steady(const struct table *t, const struct drawn *drawn)
{
    struct steady steady = t->steady;
    for (int32_t id = 0; id < steady.schedule->step_count; id++)
        steady.seconds[id] = drawn_seconds(&t->parts[id], drawn);
    steady.slowdown = drawn->slowdown;
    return steady;
}

/* The closed form in each of @count draws, at most CHAINS_WIDE, into @step. */
static void closed_steps(const struct table *t, const struct factors *d, int32_t count,
                         double *step)
{
    const struct chains *chains = &t->steady.chains;
    struct drawn drawn[CHAINS_WIDE];
    double all[CHAINS_WIDE];
    for (int32_t k = 0; k < CHAINS_WIDE; k++)
        drawn[k] = drawn_new(t, &d[k < count ? k : 0], true);
    for (int32_t c = 0; c < chains->count; c++)
        for (int32_t k = 0; k < CHAINS_WIDE; k++)
            chains->seconds[c][k] = drawn_seconds(&t->chain[c], &drawn[k]);
    if (chains->count)
        chains_step(chains, all);
    for (int32_t k = 0; k < count; k++) {
        struct steady steady = chains->count ? t->steady : drawn_steady(t, &drawn[k]);
        step[k] = chains->count ? all[k] : steady_step(&steady, 1);
    }
}

/* The closed form of a task when everything is as in each of @count draws, into @step. */
static void draw_steps(const struct table *t, const struct factors *d, int32_t count, double *step)
{
    closed_steps(t, d, count, step);
    for (int32_t k = 0; k < count; k++)
        step[k] = drawn_longer(t, &d[k]) * (step[k] + t->above);
}

/* The efficiency is that of runs in which each kind had its share, so the errors of the kinds
 * cancel there: of another network the differences of shares count.  From a tenth of the time in
 * other kinds on, it is a network of its own.  Where single steps were measured, shapes count
 * instead: those that were not. */
static double doubt_kinds(const struct table *t)
{
    const struct schedule *schedule = t->steady.schedule;
    const struct device *device = t->task->point.run.device;
    double part[KERNEL_COUNT] = {0}, sum = 0, apart = 0, squares = 0, other = 0;
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE) {
            double roof = step_runs(&schedule->step[id]) * t->parts[id].roof;
            part[schedule->step[id].compute.kernel] += roof;
            sum += roof;
            other += device_measured(device, &schedule->step[id]) < 0 ? roof : 0;
        }
    if (device->measured.steps.count)
        return sum > 0 ? other / sum * device->other_networks : 0;
    for (int32_t k = 0; k < KERNEL_COUNT && device->rated && sum > 0; k++) {
        double more = part[k] / sum - device->doubt[k].share;
        apart += fabs(more) / 2;
        squares += pow(more * device->doubt[k].spread, 2);
    }
    double own = fmin(1, apart / 0.1) * device->other_networks;
    double node = grid_ranks(t->task->point.grid) > 1 ? device->whole_nodes : 0;
    return sqrt(squares + own * own + node * node + device->with_experts * device->with_experts);
}

static void add_parts(struct parts *sum, const struct parts *more)
{
    for (size_t i = 0; i < sizeof(*sum) / sizeof(double); i++)
        ((double *)sum)[i] += ((const double *)more)[i];
}

static struct table table_new(const struct task *task)
{
    const struct schedule *schedule = task->point.schedule;
    struct table t = {
        .task = task,
        .steady = steady_new(schedule, device_slowdown(task->point.run.device), task->quiet),
        .parts = base_alloc(schedule->step_count, sizeof(struct parts))};
    const struct run *run = &task->point.run;
    bool draws = run->device->experts_launch.value > 0 && schedule_has_experts(schedule);
    double seconds = 0, host = draws ? cost_host(run->device, schedule) : 0;
    double longer = 1 + run->contention;
    for (int32_t id = 0; host > 0 && id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE)
            seconds +=
                step_runs(&schedule->step[id]) * cost_compute(run->device, &schedule->step[id]);
    if (longer * seconds < host * (1 + 1e-9)) /* it waited for the host, as draws will again */
        longer = 1;
    t.host = host;
    for (int32_t id = 0; id < schedule->step_count; id++)
        t.parts[id] = schedule->step[id].kind == STEP_COLLECTIVE
                          ? split_exchange(&t, id)
                          : split(run, longer, &schedule->step[id]);
    t.chain = base_alloc(t.steady.chains.count, sizeof(struct parts));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        for (int32_t k = 0; host > 0 && k < step_runs(&schedule->step[id]); k++)
            add_parts(&t.all, &t.parts[id]);
        if (t.steady.chains.count)
            add_parts(&t.chain[t.steady.chains.of[id]], &t.parts[id]);
    }
    t.kinds = doubt_kinds(&t);
    draw_steps(&t, &factors_none, 1, &seconds);
    t.above = task->step - seconds;
    return t;
}

static void table_release(struct table *t)
{
    steady_release(&t->steady);
    free(t->parts);
    free(t->chain);
}

/* A factor of mean about 1 that is never negative. */
static double factor(struct random *random, double sd)
{
    return exp(sd * random_normal(random));
}

static struct factors draw_all(const struct uncertainty *u, struct random *random)
{
    double efficiency, overhead;
    struct factors d;
    random_normals(random, u->correlation, &efficiency, &overhead);
    d.of[FACTOR_EFFICIENCY] = exp(u->efficiency * efficiency);
    d.of[FACTOR_OVERHEAD] = exp(u->overhead * overhead);
    d.of[FACTOR_JITTER] = factor(random, u->jitter);
    d.of[FACTOR_RESIDUAL] = u->freedom > 0 ? exp(u->residual * random_student(random, u->freedom))
                                           : factor(random, u->residual);
    double network = random_normal(random);
    d.of[FACTOR_NETWORK] = exp(u->network * network);
    d.inside = exp(u->inside * network);
    d.of[FACTOR_MODEL] = factor(random, u->model);
    double luck = random_uniform(random), excess = 1 + TAIL_LONGEST * random_uniform(random);
    d.of[FACTOR_TAIL] = luck < TAIL_TOGETHER ? excess : 1;
    d.alone = luck < TAIL_ALONE ? excess : 1;
    return d;
}

bool uncertainty_is_unknown(const struct device *device)
{
    return !strcmp(device->name, "ideal");
}

static double draw_apart(const struct uncertainty *u, double sd, int32_t k, uint64_t stream)
{
    return exp(sd * base_normal(u->seed, (uint64_t)k, stream, 0));
}

struct factors *uncertainty_factors(const struct uncertainty *u)
{
    assert(u->draws >= 20);
    struct factors *factors = base_alloc(u->draws, sizeof(*factors));
    struct random random;
    random_start(&random, (uint32_t)u->seed);
    for (int32_t k = 0; k < u->draws; k++) {
        factors[k] = draw_all(u, &random);
        double *of = factors[k].of;
        of[FACTOR_HOP] = draw_apart(u, u->hop, k, HOPS);
        of[FACTOR_COMPUTE_SLOWDOWN] = draw_apart(u, u->slowdown.compute, k, COMPUTE_SLOWDOWNS);
        of[FACTOR_COMMUNICATION_SLOWDOWN] =
            draw_apart(u, u->slowdown.communication, k, COMMUNICATION_SLOWDOWNS);
        of[FACTOR_KINDS] = draw_apart(u, u->kinds, k, KINDS);
        of[FACTOR_LAUNCH] = draw_apart(u, u->launch, k, LAUNCHES);
        of[FACTOR_HOST] = draw_apart(u, u->host, k, HOSTS);
    }
    return factors;
}

double uncertainty_kinds(const struct task *task)
{
    AUTORELEASE(table) struct table t = table_new(task);
    return t.kinds;
}

void uncertainty_steps(const struct task *task, int32_t tasks, const struct factors *factors,
                       int32_t count, double *seconds)
{
    for (int32_t i = 0; i < tasks; i++, seconds += count) {
        int32_t like = 0;
        while (task[like].quiet != task[i].quiet)
            like++;
        if (like < i) {
            memcpy(seconds, seconds - (int64_t)(i - like) * count, count * sizeof(*seconds));
            continue;
        }
        AUTORELEASE(table) struct table t = table_new(&task[i]);
        for (int32_t k = 0, left = count; left > 0; k += CHAINS_WIDE, left -= CHAINS_WIDE)
            draw_steps(&t, &factors[k], left < CHAINS_WIDE ? left : CHAINS_WIDE, &seconds[k]);
    }
}

/* Where the closed form as @drawn goes, if waiting for slower ranks makes it @time. */
static struct breakdown closed_breakdown(const struct table *t, const struct drawn *drawn,
                                         double time)
{
    AUTORELEASE(trace) struct trace trace = {0};
    struct steady steady = drawn_steady(t, drawn);
    steady_trace(&steady, &trace);
    return report_breakdown(t->steady.schedule, drawn->slowdown, &trace, time);
}

static struct spending closed_spending(const struct table *t, const struct factors *d)
{
    double time;
    closed_steps(t, d, 1, &time);
    struct drawn drawn = drawn_new(t, d, false);
    struct breakdown all, unslowed, launched, swift;
    all = unslowed = closed_breakdown(t, &drawn, time);
    if (drawn.slowdown.communication > 0) {
        drawn.slowdown.communication = 0;
        unslowed = closed_breakdown(t, &drawn, time);
    }
    launched = unslowed;
    if (t->task->point.run.device->collective_launch.value > 0) {
        drawn.launch = 0;
        launched = closed_breakdown(t, &drawn, time);
    }
    drawn.hop = 0;
    swift = closed_breakdown(t, &drawn, time);
    return (struct spending){
        all,
        wait_share(all.exposed_row, unslowed.exposed_row, launched.exposed_row, swift.exposed_row),
        wait_share(all.exposed_column, unslowed.exposed_column, launched.exposed_column,
                   swift.exposed_column),
        0};
}

void uncertainty_spending(const struct task *task, const struct factors *factors, int32_t count,
                          struct spending *spending)
{
    AUTORELEASE(table) struct table t = table_new(task);
    const struct breakdown base = task_breakdown(task);
    const struct breakdown before = closed_spending(&t, &factors_none).step;
    for (int32_t k = 0; k < count; k++) {
        spending[k] = closed_spending(&t, &factors[k]);
        struct breakdown *step = &spending[k].step;
        breakdown_add(step, &base, &before, 1);
        spending[k].left_out = (drawn_longer(&t, &factors[k]) - 1) * step->time;
        step->time += spending[k].left_out;
    }
}

struct interval uncertainty_likely(const struct task *task, const struct uncertainty *u)
{
    if (uncertainty_is_unknown(task->point.run.device))
        return (struct interval){NAN, NAN};
    AUTOFREE double *seconds = base_alloc(u->draws, sizeof(*seconds));
    AUTOFREE struct factors *factors = uncertainty_factors(u);
    uncertainty_steps(task, 1, factors, u->draws, seconds);
    return uncertainty_interval(seconds, u->draws);
}

struct interval uncertainty_interval(double *sample, int32_t count)
{
    if (!sample)
        return (struct interval){NAN, NAN};
    return (struct interval){base_quantile(sample, count, 0.05),
                             base_quantile(sample, count, 0.95)};
}
