#include "app/explore/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "core/base/file.h"

/* What the parts of the first line are, for the message. */
static const char *const part[][2] = {
    {"version", "of a sweep with another version of foretrain"},
    {"job_sha256", "of a sweep with another job, or this one before it was changed"},
    {"prices_sha256", "of a sweep with other prices"},
    {"axes", "of a sweep with other axes"},
    {"options", "of a sweep with other options"},
    {"numbers", "of a sweep with other numbers in a platform or software file"},
};

/* Whether @key has the same value in both, or stands in neither. */
static bool same_part(const struct json *a, const struct json *b, const char *key)
{
    const struct json *first = json_get(a, key), *second = json_get(b, key);
    AUTORELEASE(text) struct text own = {0}, other = {0};
    if (first)
        json_print_line(&own, first, 17);
    if (second)
        json_print_line(&other, second, 17);
    return !strcmp(own.data ? own.data : "", other.data ? other.data : "");
}

static int refuse_other(const char *path, const struct json *head, const struct json *found,
                        struct err *err)
{
    const char *what = "no journal of a sweep, or one of another version of foretrain";
    for (size_t i = 0; found && same_part(head, found, "schema") && i < ARRAY_SIZE(part); i++)
        if (!same_part(head, found, part[i][0])) {
            what = part[i][1];
            break;
        }
    return err_add_code(err, 65, "%s is %s; name another file with --journal, or remove this one",
                        path, what);
}

/* One whole line, without its end; @first says whether it is the first of all. */
static int take_line(const char *path, const char *line, int64_t length, int64_t number,
                     const struct json *head, bool (*take)(void *, const struct json *),
                     void *context, struct err *err)
{
    AUTORELEASE(err) struct err found = {0};
    AUTORELEASE(text) struct text own = {0};
    json_print_line(&own, head, 17);
    bool is_head = own.length == length && !memcmp(own.data, line, (size_t)length);
    if (is_head)
        return 0;
    AUTORELEASE(json) struct json *json = json_read(path, line, length, &found);
    int failed = 0;
    if (number == 1)
        failed = refuse_other(path, head, json, err);
    else if (!json || !take(context, json))
        failed = err_add_code(err, 65,
                              "%s:%lld:1: error: this line is damaged, or of another sweep; remove "
                              "it, and its point is done again",
                              path, (long long)number);
    return failed;
}

/* Reads what is there.  @whole: up to where it is complete. */
static int read_lines(const char *path, const struct text *content, const struct json *head,
                      bool (*take)(void *, const struct json *), void *context, int64_t *whole,
                      struct err *err)
{
    int64_t number = 0, at = 0;
    while (at < content->length) {
        const char *line = content->data + at;
        const char *end = memchr(line, '\n', (size_t)(content->length - at));
        if (!end)
            break;
        if (take_line(path, line, end - line, ++number, head, take, context, err))
            return -1;
        at += end - line + 1;
    }
    *whole = at;
    return 0;
}

/* The lock is this process's alone, not that of its children, and goes when it ends, or when it
 * closes the file, by whatever descriptor: all that is read comes from this one.  A file without a
 * name is that of a sweep which has just ended and removed it. */
static int lock(struct journal *journal, struct err *err)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat found;
    journal->fd = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal->fd < 0)
        return err_add_code(err, 73, "cannot write %s: %s", journal->path, strerror(errno));
    bool mine = !fcntl(journal->fd, F_SETLK, &all) || (errno != EACCES && errno != EAGAIN);
    if (mine && (fstat(journal->fd, &found) || found.st_nlink > 0))
        return 0;
    return err_add_code(err, 75,
                        "another sweep is writing %s; wait for it, or name another file with "
                        "--journal",
                        journal->path);
}

/* Append the lines of @text, each with its end, and bring the journal to the disk if it was not
 * for a second.  @return 0, or -1 (exit code 74) with the system's reason. */
static int journal_add(struct journal *journal, const char *text, int64_t length, struct err *err)
{
    while (journal->path && length > 0) {
        ssize_t written = write(journal->fd, text, (size_t)length);
        if (written < 0 && errno != EINTR)
            return err_add_code(err, 74, "cannot write %s: %s", journal->path, strerror(errno));
        text += written > 0 ? written : 0;
        length -= written > 0 ? written : 0;
    }
    if (journal->path && base_seconds(CLOCK_MONOTONIC) - journal->synced > 1) {
        fsync(journal->fd);
        journal->synced = base_seconds(CLOCK_MONOTONIC);
    }
    return 0;
}

/* What was there, without a torn end, or the first line of a new one. */
static int begin(struct journal *journal, const struct json *head,
                 bool (*take)(void *, const struct json *), void *context, struct err *err)
{
    AUTORELEASE(text) struct text content = {0}, line = {0};
    int64_t whole = 0;
    int failed = file_read_open(journal->fd, journal->path, &content, err) ||
                 read_lines(journal->path, &content, head, take, context, &whole, err) ||
                 (whole < content.length && ftruncate(journal->fd, whole) &&
                  err_add_code(err, 74, "cannot write %s: %s", journal->path, strerror(errno)));
    if (!failed && !whole) {
        json_print_line(&line, head, 17);
        text_add(&line, "\n");
        failed = journal_add(journal, line.data, line.length, err);
    }
    return failed ? -1 : 0;
}

/* Open or begin the journal at @path (NULL: none) of the sweep that @head says, and call @take for
 * each point in it; @take returns whether it is one.
 * @return 0, or -1: not writable (exit code 73, 74), of another sweep, a damaged line, no journal
 * (65), another process has it (75). */
static int journal_open(struct journal *journal, const char *path, const struct json *head,
                        bool (*take)(void *context, const struct json *point), void *context,
                        struct err *err)
{
    *journal = (struct journal){base_copy(path), -1, 0};
    return path && (lock(journal, err) || begin(journal, head, take, context, err)) ? -1 : 0;
}

/* Bring it to the disk and close it. */
static void journal_release(struct journal *journal)
{
    if (journal->path && journal->fd >= 0) {
        fsync(journal->fd);
        close(journal->fd);
    }
    free(journal->path);
    *journal = (struct journal){0};
}

int journal_remove(struct journal *journal, struct err *err)
{
    int failed = journal->path && remove(journal->path)
                     ? err_add_code(err, 74, "cannot remove %s: %s", journal->path, strerror(errno))
                     : 0;
    journal_release(journal);
    return failed;
}

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

/* Set @on (count) to whether each of @merit (count) is on the front; equal points are all on it.
 */
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

bool sweep_has(const struct sweep *sweep, int64_t point)
{
    const struct shard *shard = &sweep->plan.shard;
    return !shard->count || point % shard->count == shard->index;
}

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

/* What the command line sets at @point; option_list_release() it. */
static struct option_list set_at(const struct sweep *sweep, int64_t point)
{
    struct option_list set = {0};
    option_list_add_all(&set, &sweep->plan.predict->set);
    axes_assign(&sweep->axes, point, &set);
    return set;
}

/* ---- rounds ---- */

/* A point from a worker or a journal, of which the first one stays. */
static bool take_point(struct sweep *sweep, int64_t point, struct finding *finding)
{
    struct finding *room = &room_of(sweep, finding->backend)[point];
    if (room->status == FINDING_NONE)
        *room = *finding;
    else
        finding_release(finding);
    return true;
}

static bool take_json(void *context, const struct json *json)
{
    struct sweep *sweep = context;
    struct finding finding = {0};
    int64_t point;
    if (json_as_integer(json_get(json, "point"), &point) && point >= 0 &&
        point < sweep->axes.points && finding_read(&finding, json))
        return take_point(sweep, point, &finding);
    finding_release(&finding);
    return false;
}

static struct option_list set_of(const void *context, int64_t index)
{
    const struct round *round = context;
    return set_at(round->sweep, round->point[index]);
}

/* One that lost its process is done again by whoever goes on from the journal. */
static int take(void *context, int64_t index, struct finding finding, bool lost, struct err *err)
{
    const struct round *round = context;
    AUTORELEASE(text) struct text line = {0};
    AUTORELEASE(json) struct json *json = finding_json(&finding);
    json_put_integer(json, "point", round->point[index]);
    json_print_line(&line, json, 17);
    text_add(&line, "\n");
    take_point(round->sweep, round->point[index], &finding);
    return lost ? 0 : journal_add(&round->sweep->journal, line.data, line.length, err);
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

/* All points of this process in closed form, or on the simulator if that was asked for. */
static int screen(struct sweep *sweep, struct err *err)
{
    struct round round = {.sweep = sweep,
                          .backend = screening(sweep),
                          .point = base_alloc(sweep->axes.points, sizeof(int64_t))};
    for (int64_t i = 0; i < sweep->axes.points; i++)
        if (sweep_has(sweep, i))
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

/* ---- which sweep it is ---- */

/* The first line of its journal holds what decides the answers. */
static struct json *axes_json(const struct axes *axes)
{
    struct json *json = json_new_object();
    for (int32_t i = 0; i < axes->count; i++) {
        struct json *values = json_new_array();
        for (int32_t k = 0; k < axes->item[i].value.count; k++)
            json_append_text(values, axes->item[i].value.item[k]);
        json_put(json, axes->item[i].key, values);
    }
    return json;
}

static struct json *options_json(const struct sweep_plan *plan)
{
    const struct predict_options *o = plan->predict;
    struct json *json = json_new_array();
    for (int32_t i = 0; i < o->set.count; i++)
        json_append_text(json, o->set.item[i]);
    json_append_text(json, o->backend == BACKEND_SIM ? "sim" : "analytic");
    json_append_text(json, grain_names[o->grain]);
    json_append_text(json, rank_order_names[o->order]);
    json_append_text(json, noise_words[o->noise]);
    json_append(json, json_new_boolean(o->ignore_memory));
    return json;
}

/* The numbers of the platform at @point, if it has one. */
static uint64_t add_platform(const struct sweep *sweep, int64_t point, uint64_t hash)
{
    AUTORELEASE(option_list) struct option_list set = set_at(sweep, point);
    AUTORELEASE(err) struct err err = {0};
    struct job job;
    if (!job_read(&job, NULL, sweep->plan.job, set.item, set.count, &draw_centre, &err)) {
        uint64_t own = platform_hash(job.platform);
        hash = base_hash(hash, &own, sizeof(own));
        job_release(&job);
    }
    return hash;
}

/* Of all platforms and software profiles that axes name, or of the job's own; and of the job with
 * each network, which may be of another profile (without_layout). */
static char *platforms_text(const struct sweep *sweep)
{
    uint64_t hash = add_platform(sweep, 0, BASE_HASH_SEED);
    for (int32_t i = 0; i < sweep->axes.count; i++) {
        const struct scanned *axis = &sweep->axes.item[i];
        if (strcmp(axis->key, "cluster.platform") != 0 &&
            strcmp(axis->key, "cluster.software") != 0 && strcmp(axis->key, "model.network") != 0)
            continue;
        for (int32_t k = 1; k < axis->value.count; k++)
            hash = add_platform(sweep, k * axes_stride(&sweep->axes, i), hash);
    }
    return base_format("%016llx", (unsigned long long)hash);
}

static int put_file(struct json *json, const char *key, const char *path, struct err *err)
{
    AUTORELEASE(text) struct text content = {0};
    char digits[CHECKSUM_DIGITS + 1];
    if (file_read(path, &content, err))
        return -1;
    checksum_of(CHECKSUM_SHA256, content.data ? content.data : "", (size_t)content.length, digits);
    json_put_text(json, key, digits);
    return 0;
}

/* NULL with a message: a file cannot be read. */
static struct json *head_json(const struct sweep *sweep, struct err *err)
{
    const struct price_file *prices = sweep->plan.prices;
    struct json *json = json_new_object();
    json_put_text(json, "schema", "foretrain/sweep-journal/3");
    json_put_text(json, "version", FORETRAIN_VERSION);
    if (put_file(json, "job_sha256", sweep->plan.job, err) ||
        (prices && put_file(json, "prices_sha256", prices->path, err))) {
        json_free(json);
        return NULL;
    }
    AUTOFREE char *numbers = platforms_text(sweep);
    json_put(json, "axes", axes_json(&sweep->axes));
    json_put(json, "options", options_json(&sweep->plan));
    json_put_text(json, "numbers", numbers);
    return json;
}

/* ---- all of it ---- */

/* An axis decides its key at each point, so an assignment to the same has no effect. */
static int check_set(const struct sweep *sweep, struct err *err)
{
    const struct option_list *set = &sweep->plan.predict->set;
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
    if (sweep->plan.predict->backend >= 0 || sweep->plan.shard.count)
        return false;
    if (simulator->is_there(simulator))
        return true;
    (void)task_backend(sweep->plan.predict, &warning);
    err_warn(err, "warning: %s", warning);
    free(warning);
    return false;
}

static int answer_all(struct sweep *sweep, struct err *err)
{
    struct journal *journal = &sweep->journal;
    AUTORELEASE(json) struct json *head = head_json(sweep, err);
    if (!head || journal_open(journal, sweep->plan.journal, head, take_json, sweep, err))
        return -1;
    int failed = screen(sweep, err) || (has_checks(sweep, err) && check(sweep, err));
    if (failed && err->exit_code == 130 && journal->path)
        err_add(err, "%s keeps what is done; the same command goes on from there", journal->path);
    find_front(sweep);
    return failed ? -1 : 0;
}

int sweep_run(struct sweep *sweep, const struct sweep_plan *plan, const struct option_list *given,
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
    return answer_all(sweep, err);
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
    journal_release(&sweep->journal);
    axes_release(&sweep->axes);
    *sweep = (struct sweep){0};
}
