#include "app/cli/command.h"
#include "app/explore/axes.h"
#include "app/explore/finding.h"
#include "app/page/html.h"
#include "app/predict/assumption.h"
#include "app/process/child.h"
#include "app/process/cores.h"

/* A sweep: every point of a cross product of axes in closed form, and the simulator where it
 * matters.
 *
 * The closed form screens all points.  Then the simulator runs those on the front of time and
 * device-hours, their neighbours in the grid of points and a random part, and, until nothing moves,
 * the points that come onto the front because a simulated one has left it.  So each point on the
 * front is simulated, and the others say what the screening is worth.  Which points are checked
 * depends on the answers alone, not on how many workers there are. */

enum {
    SWEEP_DRAWS = 100, /* behind an interval; `predict` has 400, at four times the cost */
    RANDOM_SEED = 1
};

/* The part of all points that is simulated whatever they are.  Our choice. */
#define SWEEP_RANDOM 0.02

/* Why a point was simulated: the first reason that holds. */
enum sweep_check { CHECK_NONE, CHECK_FRONT, CHECK_NEIGHBOUR, CHECK_RANDOM };

static const char *const sweep_check_names[] = {"", "front", "neighbour", "random"};

/* What to do. */
struct sweep_plan {
    const char *job;                       /* borrowed */
    const struct predict_options *predict; /* whose backend is -1: closed form, then checks;
                                                borrowed */
    const struct price_file *prices;       /* or NULL; borrowed */
    int32_t workers;                       /* at least 1 */
};

/* Start from {0}; release with sweep_release(). */
struct sweep {
    struct sweep_plan plan;
    struct axes axes;
    struct finding *found;   /* (axes.points) by the screening back end; owned */
    struct finding *checked; /* (axes.points) by the simulator; owned */
    enum sweep_check *check; /* (axes.points) owned */
    bool *front;             /* (axes.points) on the front, by what sweep_row() has; owned */
};

/* ---- the front: no other point is better in one number and as good in the other ---- */

/* A point with two numbers of which less is better. */
struct place {
    double time;  /* [s] */
    double hours; /* of devices */
    int64_t point;
};

/* In the order of time, then hours. */
static int compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
                              : (x->hours > y->hours) - (x->hours < y->hours);
}

/* What is in the row of @point: the simulator's finding where there is one, with the ratio of both;
 * a point whose check failed has the reason of that.  Borrows from @sweep. */
static struct finding sweep_row(const struct sweep *sweep, int64_t point)
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

/* Equal points are all on the front; those without an answer are not. */
static void find_front(struct sweep *sweep)
{
    AUTOFREE struct place *place = base_alloc(sweep->axes.points, sizeof(*place));
    int64_t known = 0;
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        struct finding row = sweep_row(sweep, i);
        double time = row.figures.usage.seconds.value, hours = row.figures.device_hours.value;
        sweep->front[i] = false;
        if (row.status == FINDING_OK && !isnan(time) && !isnan(hours))
            place[known++] = (struct place){time, hours, i};
    }
    qsort(place, (size_t)known, sizeof(*place), compare);
    struct place best = {NAN, INFINITY, -1};
    for (int64_t i = 0; i < known; i++) {
        const struct place *own = &place[i];
        sweep->front[own->point] =
            own->hours < best.hours || (own->hours == best.hours && own->time == best.time);
        if (own->hours < best.hours)
            best = *own;
    }
}

/* ---- rounds ---- */

/* One round of points on one back end. */
struct round {
    const struct sweep *sweep;
    struct finding *found; /* (axes.points) where what it finds belongs; borrowed */
    int64_t *point;        /* (count) owned */
    int64_t count;
};

/* What the command line sets at a point. */
static struct texts texts_of(const void *context, int64_t index)
{
    const struct round *round = context;
    struct texts set = {0};
    texts_add_all(&set, &round->sweep->plan.predict->set);
    axes_assign(&round->sweep->axes, round->point[index], &set);
    return set;
}

static void take(void *context, int64_t index, struct finding finding)
{
    const struct round *round = context;
    round->found[round->point[index]] = finding;
}

/* Do the points that have no answer yet: to screen all in closed form, or on the simulator if that
 * was asked for; or to check those that are wanted.  @return how many, or -1. */
static int64_t run_round(struct sweep *sweep, bool checks, struct err *err)
{
    const struct sweep_plan *plan = &sweep->plan;
    int64_t points = sweep->axes.points;
    AUTOFREE int64_t *point = base_alloc(points, sizeof(*point));
    struct round round = {sweep, checks ? sweep->checked : sweep->found, point, 0};
    for (int64_t i = 0; i < points; i++)
        if (round.found[i].status == FINDING_NONE && (!checks || sweep->check[i] != CHECK_NONE))
            point[round.count++] = i;
    int failed =
        findings_find(&(struct findings){.job = plan->job,
                                         .options = plan->predict,
                                         .prices = plan->prices,
                                         .backend = checks || plan->predict->backend == BACKEND_SIM
                                                        ? BACKEND_SIM
                                                        : BACKEND_ANALYTIC,
                                         .draws = SWEEP_DRAWS,
                                         .workers = plan->workers,
                                         .warnings = err,
                                         .noun = "points",
                                         .context = &round,
                                         .set = texts_of,
                                         .take = take},
                      round.count, err);
    return failed ? -1 : round.count;
}

/* ---- checks ---- */

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
    while ((more = run_round(sweep, true, err)) > 0) {
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
                return err_usage(
                    err,
                    "--set %s has no effect: --scan gives %s its values; leave one of them out",
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

/* Points that make no job are no failure. */
static int sweep_run(struct sweep *sweep, const struct sweep_plan *plan, const struct texts *given,
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
    int failed = run_round(sweep, false, err) < 0 || (has_checks(sweep, err) && check(sweep, err));
    find_front(sweep);
    return failed ? -1 : 0;
}

static void sweep_release(struct sweep *sweep)
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

/* ---- what points have in common ---- */

/* How the simulated steps are to those in closed form. */
struct control {
    int64_t count, failed;
    double low, median, high; /* NAN: none */
    int64_t before, after;    /* the fastest point in closed form, and in the rows; -1: none */
};

static double time_of(const struct finding *finding)
{
    return finding->figures.usage.seconds.value;
}

static bool faster(const struct finding *a, const struct finding *than)
{
    return a->status == FINDING_OK && (!than || time_of(a) < time_of(than));
}

static struct control control_of(const struct sweep *sweep)
{
    struct control c = {0, 0, NAN, NAN, NAN, -1, -1};
    AUTOFREE double *ratio = base_alloc(sweep->axes.points, sizeof(*ratio));
    struct finding best = {0};
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        struct finding row = sweep_row(sweep, i);
        if (faster(&sweep->found[i], c.before < 0 ? NULL : &sweep->found[c.before]))
            c.before = i;
        if (faster(&row, c.after < 0 ? NULL : &best)) {
            c.after = i;
            best = row;
        }
        if (sweep->checked[i].status == FINDING_OK)
            ratio[c.count++] = row.ratio;
        else
            c.failed += sweep->checked[i].status != FINDING_NONE;
    }
    if (c.count) {
        c.median = base_median(ratio, c.count);
        c.low = ratio[0];
        c.high = ratio[c.count - 1];
    }
    return c;
}

/* The reason and the exit code of the first point without an answer, if no point has one. */
static int sweep_verdict(const struct sweep *sweep, struct err *err)
{
    const struct finding *first = NULL;
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        const struct finding *found = &sweep->found[i];
        if (found->status == FINDING_OK)
            return 0;
        if (!first && found->status != FINDING_NONE)
            first = found;
    }
    return first ? err_add_code(err, first->code,
                                "no point of the sweep has an answer; the first: %s", first->reason)
                 : 0;
}

/* ---- for programs ---- */

/* A whole number as one, as programs expect it of cluster.nodes. */
static struct json *value_json(const char *text)
{
    char *end;
    long long whole = strtoll(text, &end, 10);
    return *text && !*end && llabs(whole) < (1LL << 53) ? json_new_integer(whole)
                                                        : json_new_text(text);
}

/* A row for each of the points at @list (count), or of all: its number from 1, the scanned keys as
 * they were given, the members of a finding, whether it is on the front. */
static struct json *rows_of(const struct sweep *sweep, const int64_t *list, int64_t count)
{
    struct json *rows = json_new_array();
    for (int64_t i = 0; i < count; i++) {
        struct json *row = json_append_object(rows);
        int64_t point = list ? list[i] : i;
        struct finding finding = sweep_row(sweep, point);
        json_put_integer(row, "point", point + 1);
        for (int32_t k = 0; k < sweep->axes.count; k++)
            json_put_text(row, sweep->axes.item[k].key, axes_value(&sweep->axes, point, k));
        answer_put(row, &finding_columns, &finding);
        json_put_text(row, "front", sweep->front[point] ? "yes" : NULL);
    }
    return rows;
}

struct shown_point {
    int64_t point; /* from 1 */
    struct json *set;
    struct finding finding; /* borrowed */
};

struct shown_check {
    int64_t point;
    const char *why;
    double closed, simulated; /* [s] */
};

struct shown {
    struct shown_point *point; /* (points) owned, with their sets */
    int64_t *front;            /* (fronts) owned */
    struct shown_check *check; /* (checks) owned */
    int64_t points, fronts, checks;
    struct control control;
    bool stays;
};

COLUMNS(point_columns, NULL, struct shown_point)
{
    COLUMN("point", point, .help = "place of the point in the whole sweep, from 1");
    COLUMN("set", set, .help = "value of each scanned key");
    COLUMN_MEMBERS(finding, &finding_columns);
}

COLUMNS(check_columns, NULL, struct shown_check)
{
    COLUMN("point", point, .help = "a point that was simulated");
    COLUMN("why", why, .help = "front, neighbour (of one on the front) or random");
    COLUMN("closed_form_step_s", closed, .null = true, .help = "step of the point in closed form");
    COLUMN("simulated_step_s", simulated, .null = true, .help = "step of the point simulated");
}

COLUMNS(sweep_columns, "sweep/2", struct shown)
{
    COLUMN_ITEMS("points", point, points, .table = &point_columns);
    COLUMN_ITEMS("front", front, fronts, .help = "points unbeaten in both time and device-hours");
    COLUMN("control.simulated", control.count, .help = "points that were also simulated");
    COLUMN("control.failed", control.failed, .help = "points whose simulation failed");
    COLUMN("control.simulated_over_closed_form_low", control.low, .null = true,
           .help = "least ratio of their steps");
    COLUMN("control.simulated_over_closed_form_median", control.median, .null = true,
           .help = "median ratio of their steps");
    COLUMN("control.simulated_over_closed_form_high", control.high, .null = true,
           .help = "greatest ratio of their steps");
    COLUMN("control.fastest_stays", stays,
           .help = "the fastest point in closed form is the fastest with simulated ones, too");
    COLUMN_ITEMS("control.points", check, checks, .table = &check_columns);
}

static struct json *set_of(const struct sweep *sweep, int64_t point)
{
    struct json *set = json_new_object();
    for (int32_t k = 0; k < sweep->axes.count; k++)
        json_put(set, sweep->axes.item[k].key, value_json(axes_value(&sweep->axes, point, k)));
    return set;
}

static void add_point(struct shown *shown, const struct sweep *sweep, int64_t i)
{
    shown->point[shown->points++] =
        (struct shown_point){i + 1, set_of(sweep, i), sweep_row(sweep, i)};
    if (sweep->front[i])
        shown->front[shown->fronts++] = i + 1;
    if (sweep->checked[i].status != FINDING_NONE)
        shown->check[shown->checks++] = (struct shown_check){
            i + 1, sweep_check_names[sweep->check[i]], sweep->found[i].figures.step.value,
            sweep->checked[i].figures.step.value};
}

/* The answer. */
static struct json *sweep_json(const struct sweep *sweep)
{
    int64_t count = sweep->axes.points;
    struct shown shown = {.point = base_alloc(count, sizeof(*shown.point)),
                          .front = base_alloc(count, sizeof(*shown.front)),
                          .check = base_alloc(count, sizeof(*shown.check)),
                          .control = control_of(sweep)};
    shown.stays = shown.control.before == shown.control.after;
    for (int64_t i = 0; i < count; i++)
        add_point(&shown, sweep, i);
    struct json *json = answer_json(&sweep_columns, &shown);
    for (int64_t i = 0; i < shown.points; i++)
        json_free(shown.point[i].set);
    free(shown.point);
    free(shown.front);
    free(shown.check);
    return json;
}

/* ---- for people ---- */

/* Points of the front in the order of time. */
static int64_t *list_front(const struct sweep *sweep, int64_t *count)
{
    int64_t *list = base_alloc(sweep->axes.points, sizeof(*list));
    *count = 0;
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        if (!sweep->front[i])
            continue;
        struct finding row = sweep_row(sweep, i);
        int64_t at = (*count)++;
        for (; at > 0; at--) {
            struct finding before = sweep_row(sweep, list[at - 1]);
            if (!faster(&row, &before))
                break;
            list[at] = list[at - 1];
        }
        list[at] = i;
    }
    return list;
}

/* The columns of a table of points (core/base/columns.h). */
static char *point_words(const struct sweep *sweep)
{
    struct text words = {0};
    for (int32_t i = 0; i < sweep->axes.count; i++)
        text_add(&words, "%s: %s, ", sweep->axes.item[i].key, sweep->axes.item[i].key);
    text_add(&words, "step_s, images_per_s, samples_per_s, scaling_efficiency, time_to_train_s, "
                     "device_hours, front, cost, energy_kwh, nccl: NCCL, backend");
    return words.data;
}

static void name_point(struct text *out, const struct sweep *sweep, int64_t point)
{
    for (int32_t i = 0; i < sweep->axes.count; i++)
        text_add(out, "%s%s=%s", i ? ", " : "", sweep->axes.item[i].key,
                 axes_value(&sweep->axes, point, i));
}

/* "12.5 min (90 %: 11.8 min to 14 min) and 341.2 device-hours" */
static void print_merit(struct text *out, const struct sweep *sweep, int64_t point)
{
    struct finding row = sweep_row(sweep, point);
    const struct range t = row.figures.usage.seconds, h = row.figures.device_hours;
    text_add(out, "%s", unit_likely(UNIT_SECONDS, t.value, t.value, t.low, t.high));
    if (isfinite(t.low))
        text_add(out, " (90 %%: %s to %s)",
                 unit_likely(UNIT_SECONDS, t.low, t.value, t.low, t.high),
                 unit_likely(UNIT_SECONDS, t.high, t.value, t.low, t.high));
    text_add(out, " and %s device-hours", unit_likely(UNIT_NONE, h.value, h.value, h.low, h.high));
}

/* Of the points that differ from @best on @axis alone, that with the most epochs; or @best. */
static int64_t most_epochs(const struct sweep *sweep, int64_t best, int32_t axis)
{
    int64_t stride = axes_stride(&sweep->axes, axis), most = best;
    int32_t values = sweep->axes.item[axis].value.count;
    for (int64_t k = 0, first = best - best / stride % values * stride; k < values; k++) {
        struct finding row = sweep_row(sweep, first + k * stride);
        if (row.status == FINDING_OK && row.figures.epochs > sweep_row(sweep, most).figures.epochs)
            most = first + k * stride;
    }
    return most;
}

/* Images/s, or samples/s. */
static double speed_of(const struct finding *row)
{
    const struct figures *f = &row->figures;
    return isnan(f->images_per_s.value) ? f->samples_per_s.value : f->images_per_s.value;
}

/* Of a step. */
static double images_of(const struct finding *row)
{
    return row->figures.step.value * speed_of(row);
}

/* Why the shortest time to a target is at a finite batch. */
static void print_epochs(struct text *out, const struct sweep *sweep, int64_t best)
{
    for (int32_t i = 0; i < sweep->axes.count; i++) {
        int64_t most = most_epochs(sweep, best, i);
        const struct finding a = sweep_row(sweep, best), b = sweep_row(sweep, most);
        if (most == best || images_of(&b) < 1.01 * images_of(&a)) /* another target, say */
            continue;
        text_add(out,
                 "Why %s=%s and not %s: more images in a step take more epochs, %.1f instead of "
                 "%.1f (%.2f times), and are not as much faster, %.0f images/s instead of %.0f "
                 "(%.2f times).\n",
                 sweep->axes.item[i].key, axes_value(&sweep->axes, best, i),
                 axes_value(&sweep->axes, most, i), b.figures.epochs, a.figures.epochs,
                 b.figures.epochs / a.figures.epochs, speed_of(&b), speed_of(&a),
                 speed_of(&b) / speed_of(&a));
    }
}

/* The fastest point with a batch that a published run converged with. */
static void print_known(struct text *out, const struct sweep *sweep, double images)
{
    int64_t known = -1;
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        struct finding row = sweep_row(sweep, i), best = {0};
        if (known >= 0)
            best = sweep_row(sweep, known);
        if (row.figures.batch == BATCH_CONVERGES && faster(&row, known < 0 ? NULL : &best))
            known = i;
    }
    text_add(out, "No published run converged with %.0f images a step (foretrain show convergence)",
             images);
    text_add(out, known < 0 ? "" : "; with fewer the fastest point is ");
    if (known >= 0) {
        name_point(out, sweep, known);
        text_add(out, ": ");
        print_merit(out, sweep, known);
    }
    text_add(out, ".\n");
}

/* Append a sentence if the fastest point has more images in a step than another one with the same
 * epochs: those that the job gives do not follow from the batch. */
static void sweep_print_given(struct text *out, const struct sweep *sweep)
{
    int64_t fastest = control_of(sweep).after;
    if (fastest < 0)
        return;
    struct finding best = sweep_row(sweep, fastest);
    double least = images_of(&best);
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        struct finding row = sweep_row(sweep, i);
        if (row.status == FINDING_OK && row.figures.epochs == best.figures.epochs)
            least = fmin(least, images_of(&row));
    }
    if (best.figures.batch == BATCH_BEYOND)
        print_known(out, sweep, images_of(&best));
    if (least < 0.99 * images_of(&best))
        text_add(out,
                 "The epochs are those of the job: %g, with %.0f %s a step as with %.0f; %s.\n",
                 best.figures.epochs, images_of(&best),
                 isnan(best.figures.tokens) ? "images" : "samples", least,
                 best.figures.batch == BATCH_NOT_KNOWN
                     ? "which batch converges is not known for this network"
                     : "training.target takes them from the batch");
}

/* Nothing where no point has its algorithm. */
static void print_nccl(struct text *out, const struct sweep *sweep)
{
    int32_t oldest = INT32_MAX, newest = 0;
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        int32_t version = sweep_row(sweep, i).figures.nccl.version;
        oldest = version && version < oldest ? version : oldest;
        newest = version > newest ? version : newest;
    }
    if (!newest)
        return;
    text_add(out, "Algorithm nccl is that of NCCL %d.%d", oldest / 100, oldest % 100);
    if (newest > oldest)
        text_add(out, " to %d.%d", newest / 100, newest % 100);
    text_add(out, ", as cluster.software says; another version may choose other ways.\n");
}

/* Append which NCCL the points with its algorithm are of, and what the simulator says of the
 * closed form. */
static void sweep_print_control(struct text *out, const struct sweep *sweep)
{
    struct control c = control_of(sweep);
    print_nccl(out, sweep);
    if (c.count + c.failed == 0) {
        text_add(out, "No point was simulated beside the closed form.\n");
        return;
    }
    text_add(out,
             "The simulator checked %lld point%s: its steps take %.3f to %.3f times those of the "
             "closed form, in the median %.3f; the fastest point %s.\n",
             (long long)c.count, base_plural(c.count), c.low, c.high, c.median,
             c.before == c.after ? "stays the same" : "is another one");
    if (c.failed)
        text_add(out, "%lld more could not be simulated.\n", (long long)c.failed);
}

/* Which points have no answer, and why. */
static void print_failures(struct text *out, const struct sweep *sweep)
{
    enum { NAMED = 10 };
    int64_t failed = 0;
    for (int64_t i = 0; i < sweep->axes.points; i++) {
        if (sweep->found[i].status <= FINDING_OK || failed++ >= NAMED)
            continue;
        text_add(out, "No answer to ");
        name_point(out, sweep, i);
        text_add(out, ": %s\n", sweep->found[i].reason);
    }
    if (failed > NAMED)
        text_add(out, "No answer to %lld more points.\n", (long long)failed - NAMED);
}

/* "The fastest of 12 points is ...", the front being @list (count). */
static char *answer_of(const struct sweep *sweep, const int64_t *list, int64_t count)
{
    struct text out = {0};
    if (!count)
        return base_copy("No point has an answer.");
    text_add(&out, "The fastest of %lld points is ", (long long)sweep->axes.points);
    name_point(&out, sweep, list[0]);
    text_add(&out, ": ");
    print_merit(&out, sweep, list[0]);
    text_add(&out, ".");
    return out.data;
}

/* What to know of the answer: a line each. */
static void print_notes(struct text *out, const struct sweep *sweep, const int64_t *list,
                        int64_t count)
{
    if (count) {
        print_epochs(out, sweep, list[0]);
        sweep_print_given(out, sweep);
    }
    sweep_print_control(out, sweep);
    print_failures(out, sweep);
}

static const char front_title[] = "Points that no other one beats in both time and device-hours";

/* Append the front, the fastest point, and what the simulator adds to the closed form. */
static void sweep_print(struct text *out, const struct sweep *sweep)
{
    enum { SHOWN = 40 };
    int64_t count;
    AUTOFREE int64_t *list = list_front(sweep, &count);
    AUTOFREE char *answer = answer_of(sweep, list, count), *words = point_words(sweep);
    AUTORELEASE(json) struct json *rows = rows_of(sweep, list, count < SHOWN ? count : SHOWN);
    text_add(out, "%s\n", answer);
    if (count) {
        text_add(out, "\n%s (%lld of %lld; --csv FILE writes all):\n\n", front_title,
                 (long long)count, (long long)sweep->axes.points);
        columns_print(out, words, rows);
        text_add(out, "\n");
    }
    print_notes(out, sweep, list, count);
}

/* Write the answer as a page to @file. */
static int sweep_page(const char *file, const struct sweep *sweep, struct err *err)
{
    struct page page = {0};
    int64_t count;
    AUTOFREE int64_t *list = list_front(sweep, &count);
    AUTORELEASE(json) struct json *all = sweep_json(sweep), *front = rows_of(sweep, list, count);
    AUTORELEASE(json) struct json *rows = rows_of(sweep, NULL, sweep->axes.points);
    AUTORELEASE(text) struct text notes = {0};
    AUTOFREE char *answer = answer_of(sweep, list, count), *words = point_words(sweep);
    AUTOFREE char *title = base_format("Sweep of %s", sweep->plan.job);
    print_notes(&notes, sweep, list, count);
    html_answer(&page, title, answer);
    html_paragraph(&page, NULL, notes.data);
    html_section(&page, "How does the time change?");
    if (count)
        html_picture(&page, "points", -1);
    html_table(&page, "points", "all points", rows, words, true);
    if (count) {
        html_section(&page, "How much time do device-hours buy?");
        html_picture(&page, "sweep_front", -1);
        html_table(&page, "front", front_title, front, words, false);
    }
    return html_write(&page, file, title, all, err);
}

struct sweep_request {
    struct request head;
    struct predict_options predict;
    struct texts axis;
    int32_t workers; /* 0: the cores */
    const char *prices, *report;
};

static int print(struct text *out, const struct sweep_request *request, const struct sweep *sweep,
                 struct err *err)
{
    if (request->head.json) {
        AUTORELEASE(json) struct json *json = sweep_json(sweep);
        json_print(out, json);
    } else if (!csv_is_answer(&request->head)) {
        sweep_print(out, sweep);
    }
    return csv_write(&request->head, rows_of(sweep, NULL, sweep->axes.points), NULL, out, err) ||
           (request->report && sweep_page(request->report, sweep, err));
}

static int run(const void *record, struct text *out, struct err *err)
{
    const struct sweep_request *request = record;
    AUTORELEASE(sweep) struct sweep sweep = {0};
    AUTORELEASE(price) struct price_file prices = {0};
    AUTORELEASE(texts) struct texts set = {0};
    struct predict_options options = request->predict;
    struct sweep_plan plan = {
        .job = request->head.argument.item[0],
        .predict = &options,
        .workers = request->workers ? request->workers : cores_available(),
    };
    if (request->axis.count == 0)
        return err_usage(err, "a sweep needs an axis, as in --scan cluster.nodes=8..1024:x2 or "
                              "--list allreduce.algorithm=nccl,torus2d");
    if (request->prices && price_read(&prices, request->prices, err))
        return -1;
    plan.prices = request->prices ? &prices : NULL;
    options.set = set = predict_set(&request->predict, plan.prices);
    int failed = sweep_run(&sweep, &plan, &request->axis, err) ||
                 print(out, request, &sweep, err) || sweep_verdict(&sweep, err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct sweep_request, member)

static const struct option options[] = {
    OPTION_ROW(
        "scan", 0, OPTION_TEXTS, AT(axis), "KEY=RANGE", NULL,
        "An axis: 8..1024:x2 (times), 16..64:16 (plus), 1..5; 2us..16us:x2; may be repeated"),
    OPTION_ROW("list", 0, OPTION_TEXTS, AT(axis), "KEY=VALUES", NULL,
               "An axis: nccl,torus2d; may be repeated; keys as --set takes them"),
    ROW_SET_ALL(AT(predict.set)),
    OPTION_ROW("backend", 'b', OPTION_WORD, AT(predict.backend), NULL, backend_words,
               "Closed form alone, or every point simulated (default: closed form, then the "
               "simulator for the best points, their neighbours and 2 % of the others)"),
    ROW_GRAIN(AT(predict.grain)),
    ROW_ORDER(AT(predict.order)),
    ROW_IGNORE_MEMORY(AT(predict.ignore_memory)),
    OPTION_ROW("jobs", 0, OPTION_INTEGER, AT(workers), "N", NULL,
               "Points at a time (default: the cores of the machine)"),
    ROW_PRICES(AT(prices)),
    ROW_REPORT(AT(report)),
    ROW_JSON,
    ROW_CSV("all points, a line each,"),
    ROW_LAST};

static const struct sweep_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_sweep = {
    .name = "sweep",
    .synopsis = "JOB --scan KEY=RANGE [options]",
    .help = "many predictions: every combination of values, the best ones simulated",
    .examples = "foretrain sweep job.yaml --scan cluster.nodes=8..1024:x2 --list "
                "allreduce.algorithm=nccl,torus2d\n"
                "foretrain sweep job.yaml --list cluster.platform=dgx-h100,dgx-a100 --csv all.csv",
    RECORD(options, struct sweep_request, &defaults),
    TAKES(1, 1),
    ANSWERS(&sweep_columns),
    .jobs = true,
    .run = run,
};
