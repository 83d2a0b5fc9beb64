#include "app/explore/sweep.h"

/* ---- the front: no other point is better in one number and as good in the other ---- */

/* Two numbers of a point, of which less is better; NAN: the point does not count. */
struct merit {
    double time;  /**< [s] */
    double hours; /**< of devices */
};

/* A point on its way through the order of time, then hours. */
struct place {
    struct merit merit;
    int64_t point;
};

static int compare(const void *a, const void *b)
{
    const struct merit *x = &((const struct place *)a)->merit,
                       *y = &((const struct place *)b)->merit;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
                              : (x->hours > y->hours) - (x->hours < y->hours);
}

/* Set @on (count) to whether each of @merit (count) is on the front; equal points are. */
static void front_find(const struct merit *merit, int64_t count, bool *on)
{
    AUTOFREE struct place *place = base_alloc(count, sizeof(*place));
    int64_t known = 0;
    for (int64_t i = 0; i < count; i++) {
        on[i] = false;
        if (!isnan(merit[i].time) && !isnan(merit[i].hours))
            place[known++] = (struct place){merit[i], i};
    }
    qsort(place, (size_t)known, sizeof(*place), compare);
    struct merit best = {NAN, INFINITY};
    for (int64_t i = 0; i < known; i++) {
        const struct merit *own = &place[i].merit;
        on[place[i].point] =
            own->hours < best.hours || (own->hours == best.hours && own->time == best.time);
        if (own->hours < best.hours)
            best = *own;
    }
}

/* ---- sweep ---- */

const char *const sweep_check_names[] = {"", "front", "neighbour", "random", NULL};

enum { RANDOM_SEED = 1 };

/* One round of points on one back end. */
struct round {
    struct sweep *sweep;
    enum backend_choice backend;
    int64_t *point; /* (count) owned */
    int64_t count;
};

static enum backend_choice screening(const struct sweep *sweep)
{
    return sweep->plan.predict->backend == BACKEND_SIM ? BACKEND_SIM : BACKEND_ANALYTIC;
}

/* Where what @backend finds out belongs: checks are apart from the screening. */
static struct finding *room_of(struct sweep *sweep, int32_t backend)
{
    return backend == (int32_t)screening(sweep) ? sweep->found : sweep->checked;
}

struct finding sweep_row(const struct sweep *sweep, int64_t point)
{
    const struct finding *found = &sweep->found[point], *checked = &sweep->checked[point];
    struct finding row = *found;
    if (checked->status == FINDING_OK) {
        row = *checked;
        row.ratio = checked->figures.step.value / found->figures.step.value;
    } else if (checked->status != FINDING_NONE) {
        row.reason = checked->reason;
    }
    return row;
}

/* What the command line sets at @point; texts_release() it. */
static struct texts set_at(const struct sweep *sweep, int64_t point)
{
    struct texts set = {0};
    texts_add_all(&set, &sweep->plan.predict->set);
    axes_assign(&sweep->axes, point, &set);
    return set;
}

/* ---- rounds ---- */

static struct texts set_of(const void *context, int64_t index)
{
    const struct round *round = context;
    return set_at(round->sweep, round->point[index]);
}

static void take(void *context, int64_t index, struct finding finding)
{
    const struct round *round = context;
    room_of(round->sweep, finding.backend)[round->point[index]] = finding;
}

/* Do the points of @round that have no answer yet. */
static int run_round(struct round *round, struct err *err)
{
    const struct sweep_plan *plan = &round->sweep->plan;
    const struct finding *room = room_of(round->sweep, (int32_t)round->backend);
    int64_t open = 0;
    for (int64_t i = 0; i < round->count; i++)
        if (room[round->point[i]].status == FINDING_NONE)
            round->point[open++] = round->point[i];
    int failed = findings_find(&(struct findings){.job = plan->job,
                                                  .options = plan->predict,
                                                  .prices = plan->prices,
                                                  .backend = round->backend,
                                                  .draws = SWEEP_DRAWS,
                                                  .workers = plan->workers,
                                                  .warnings = err,
                                                  .noun = "points",
                                                  .context = round,
                                                  .set = set_of,
                                                  .take = take},
                               open, err);
    free(round->point);
    return failed;
}

/* All points in closed form, or on the simulator if that was asked for. */
static int screen(struct sweep *sweep, struct err *err)
{
    struct round round = {.sweep = sweep,
                          .backend = screening(sweep),
                          .point = base_alloc(sweep->axes.points, sizeof(int64_t))};
    for (int64_t i = 0; i < sweep->axes.points; i++)
        round.point[round.count++] = i;
    return run_round(&round, err);
}

/* ---- checks ---- */

static void find_front(struct sweep *sweep)
{
    int64_t points = sweep->axes.points;
    AUTOFREE struct merit *merit = base_alloc(points, sizeof(*merit));
    for (int64_t i = 0; i < points; i++) {
        struct finding row = sweep_row(sweep, i);
        bool ok = row.status == FINDING_OK;
        merit[i] = (struct merit){ok ? row.figures.usage.seconds.value : NAN,
                                  ok ? row.figures.device_hours.value : NAN};
    }
    front_find(merit, points, sweep->front);
}

static void want(struct sweep *sweep, int64_t point, enum sweep_check why)
{
    if (sweep->check[point] == CHECK_NONE && sweep->found[point].status == FINDING_OK)
        sweep->check[point] = why;
}

static void want_neighbours(struct sweep *sweep, int64_t point)
{
    for (int32_t i = 0; i < sweep->axes.count; i++) {
        int64_t stride = axes_stride(&sweep->axes, i);
        int64_t values = sweep->axes.item[i].value.count, at = point / stride % values;
        if (at > 0)
            want(sweep, point - stride, CHECK_NEIGHBOUR);
        if (at + 1 < values)
            want(sweep, point + stride, CHECK_NEIGHBOUR);
    }
}

/* Simulate what is wanted.  Returns how many points that was, or -1. */
static int64_t check_wanted(struct sweep *sweep, struct err *err)
{
    struct round round = {.sweep = sweep,
                          .backend = BACKEND_SIM,
                          .point = base_alloc(sweep->axes.points, sizeof(int64_t))};
    bool any = false;
    for (int64_t i = 0; i < sweep->axes.points; i++)
        if (sweep->check[i] != CHECK_NONE && sweep->checked[i].status == FINDING_NONE)
            round.point[round.count++] = i;
    any = round.count > 0;
    return run_round(&round, err) ? -1 : any;
}

static int check(struct sweep *sweep, struct err *err)
{
    int64_t points = sweep->axes.points, more;
    find_front(sweep);
    for (int64_t i = 0; i < points; i++)
        if (sweep->front[i])
            want(sweep, i, CHECK_FRONT);
    for (int64_t i = 0; i < points; i++)
        if (sweep->front[i])
            want_neighbours(sweep, i);
    for (int64_t i = 0; i < points; i++)
        if (base_uniform(RANDOM_SEED, (uint64_t)i, 0, 0) < SWEEP_RANDOM)
            want(sweep, i, CHECK_RANDOM);
    while ((more = check_wanted(sweep, err)) > 0) {
        find_front(sweep);
        for (int64_t i = 0; i < points; i++)
            if (sweep->front[i])
                want(sweep, i, CHECK_FRONT);
    }
    return more < 0 ? -1 : 0;
}

/* ---- all of it ---- */

/* An axis decides its key at each point, so an assignment to the same has no effect. */
static int check_set(const struct sweep *sweep, struct err *err)
{
    const struct texts *set = &sweep->plan.predict->set;
    for (int32_t i = 0; i < sweep->axes.count; i++)
        for (int32_t k = 0; k < set->count; k++) {
            const char *key = sweep->axes.item[i].key;
            if (!strncmp(set->item[k], key, strlen(key)) && set->item[k][strlen(key)] == '=')
                return err_add_code(err, 64,
                                    "--set %s has no effect: --scan gives %s its values; leave one "
                                    "of them out",
                                    set->item[k], key);
        }
    return 0;
}

/* Whether there is anything to check with. */
static bool has_checks(struct sweep *sweep, struct err *err)
{
    char *warning;
    const struct simulator *simulator = sweep->plan.predict->simulator;
    if (sweep->plan.predict->backend >= 0)
        return false;
    if (simulator->is_there(simulator))
        return true;
    (void)task_backend(sweep->plan.predict, &warning);
    err_warn(err, "warning: %s", warning);
    free(warning);
    return false;
}

int sweep_run(struct sweep *sweep, const struct sweep_plan *plan, const struct texts *given,
              struct err *err)
{
    sweep->plan = *plan;
    if (axes_read(&sweep->axes, "--scan", given, err) || check_set(sweep, err) ||
        axes_check(&sweep->axes, err))
        return -1;
    int64_t points = sweep->axes.points;
    sweep->found = base_alloc(points, sizeof(*sweep->found));
    sweep->checked = base_alloc(points, sizeof(*sweep->checked));
    sweep->check = base_alloc(points, sizeof(*sweep->check));
    sweep->front = base_alloc(points, sizeof(*sweep->front));
    int failed = screen(sweep, err) || (has_checks(sweep, err) && check(sweep, err));
    find_front(sweep);
    return failed ? -1 : 0;
}

void sweep_release(struct sweep *sweep)
{
    for (int64_t i = 0; i < sweep->axes.points && sweep->found; i++) {
        finding_release(&sweep->found[i]);
        finding_release(&sweep->checked[i]);
    }
    free(sweep->found);
    free(sweep->checked);
    free(sweep->check);
    free(sweep->front);
    axes_release(&sweep->axes);
    *sweep = (struct sweep){0};
}
