#include <malloc.h>
#include <simgrid/actor.h>
#include <simgrid/barrier.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <simgrid/semaphore.h>

#include "core/backend/lanes.h"
#include "core/traffic/workload.h"
#include "sim/engine.h"
#include "sim/sim.h"

/* From when on a lane works at which speed: @factor seconds for each of its own. */
struct stretch {
    double begin, done, factor; /* done: of its work until then [s] */
};

/* Of one rank.  Start with pace_init() and free its stretches. */
struct pace {
    struct slowdown slowdown;
    bool any;                   /* whether there is a slowdown at all */
    bool computes;              /* now */
    int32_t flights;            /* collectives that are in flight now */
    double since, computed;     /* when `computes` changed, and seconds computed until then */
    sg_sem_t works[LANE_COUNT]; /* what a working lane waits for; NULL: it does not work */
    struct stretch *stretch;    /* (stretches) of what the compute lane worked last */
    int32_t stretches;
};

/* Start without work. */
static void pace_init(struct pace *pace, struct slowdown slowdown)
{
    *pace = (struct pace){.slowdown = slowdown,
                          .any = slowdown.compute > 0 || slowdown.communication > 0};
}

/* One that is awake already is woken once too often, and goes on with its work. */
static void wake(struct pace *pace, enum lane lane)
{
    if (pace->works[lane])
        sg_sem_release(pace->works[lane]);
}

/* How long the rank has computed until now [s]. */
static double pace_computed(const struct pace *pace)
{
    return pace->computed + (pace->computes ? simgrid_get_clock() - pace->since : 0);
}

/* From now on the rank computes, or does not. */
static void pace_compute(struct pace *pace, bool computes)
{
    if (pace->computes == computes)
        return;
    pace->computed = pace_computed(pace);
    pace->since = simgrid_get_clock();
    pace->computes = computes;
    wake(pace, LANE_ROW);
    wake(pace, LANE_COLUMN);
    wake(pace, LANE_TENSOR);
}

/* Now a collective starts (1) or ends (-1). */
static void pace_fly(struct pace *pace, int32_t change)
{
    bool before = pace->flights > 0;
    pace->flights += change;
    if (before != (pace->flights > 0))
        wake(pace, LANE_COMPUTE);
}

static double factor_of(const struct pace *pace, enum lane lane)
{
    if (lane == LANE_COMPUTE)
        return pace->flights > 0 ? 1 + pace->slowdown.compute : 1;
    return pace->computes ? 1 + pace->slowdown.communication : 1;
}

/* Sleep on @wake until @lane has done what takes @seconds alone, from @begin (now) on.
 * @return when that is. */
static double pace_work(struct pace *pace, enum lane lane, sg_sem_t wake, double begin,
                        double seconds)
{
    double done = 0;
    if (lane == LANE_COMPUTE)
        pace->stretches = 0;
    while (seconds > 0) {
        double factor = factor_of(pace, lane), end = begin + seconds * factor;
        double left = end - simgrid_get_clock();
        if (lane == LANE_COMPUTE) {
            pace->stretch = base_room(pace->stretch, pace->stretches, sizeof(*pace->stretch));
            pace->stretch[pace->stretches++] = (struct stretch){begin, done, factor};
        }
        pace->works[lane] = wake;
        bool ended = left <= 0 || sg_sem_acquire_timeout(wake, left);
        pace->works[lane] = NULL;
        if (ended)
            return end;
        double now = simgrid_get_clock();
        done += (now - begin) / factor;
        seconds -= (now - begin) / factor;
        begin = now;
    }
    return begin;
}

/* When the first @seconds of what the compute lane worked last were done. */
static double pace_when(const struct pace *pace, double seconds)
{
    const struct stretch *stretch = pace->stretch, *last = stretch + pace->stretches - 1;
    while (stretch < last && stretch[1].done <= seconds)
        stretch++;
    double when = stretch->begin + (seconds - stretch->done) * stretch->factor;
    return stretch < last ? fmin(when, stretch[1].begin) : when;
}

/* ---- messages whose links nobody else crosses ---- */

enum { NOBODY = -1, SEVERAL = -2 };

/* What sends one message after the other in each relation (relations): a lane, or, where some of
 * its collectives have channels, the relation alone. */
static int32_t *find_queues(const struct workload *workload)
{
    const struct traffic *traffic = &workload->traffic;
    bool channels[LANE_COUNT] = {false};
    int32_t *queue = base_alloc(traffic->relation_count, sizeof(*queue));
    for (int32_t i = 0; i < workload->steps; i++) {
        int32_t first = workload_step(workload, i)->program;
        int32_t lane = workload_step(workload, i)->lane;
        for (int32_t p = first; p >= 0 && p < first + traffic->program[first].channels; p++) {
            channels[lane] |= p > first;
            for (int32_t k = traffic->program[p].begin; k < traffic->program[p].end; k++)
                queue[traffic->round[k].relation] = lane;
        }
    }
    for (int32_t p = 0; p < traffic->relation_count; p++)
        queue[p] = channels[queue[p]] ? LANE_COUNT + p : queue[p];
    return queue;
}

/* Who uses each link (links): queue * classes + class, or SEVERAL. */
static int32_t *find_users(const struct traffic *traffic, const int32_t *queue)
{
    int32_t *user = base_alloc(traffic->link_count, sizeof(*user));
    for (int32_t l = 0; l < traffic->link_count; l++)
        user[l] = NOBODY;
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        const struct relation *relation = &traffic->relation[p];
        for (int32_t c = 0; c < relation->ranks; c++) {
            int32_t own = queue[p] * relation->ranks + c;
            for (int32_t i = relation->path[c]; i < relation->path[c + 1]; i++) {
                int32_t *known = &user[relation->link[i]];
                *known = *known == NOBODY || *known == own ? own : SEVERAL;
            }
        }
    }
    return user;
}

/* A link that occurs k times has a k-th of its bandwidth. */
static double rate_of(const struct traffic *traffic, const struct relation *relation, int32_t class,
                      const int32_t *user)
{
    double rate = INFINITY;
    for (int32_t i = relation->path[class]; i < relation->path[class + 1]; i++) {
        int32_t link = relation->link[i], times = 0;
        if (user[link] == SEVERAL)
            return 0;
        for (int32_t k = relation->path[class]; k < relation->path[class + 1]; k++)
            times += relation->link[k] == link;
        rate = fmin(rate, traffic->bandwidth[link] / times);
    }
    return rate;
}

/* How fast the message of each class goes in each relation (relations * classes) if all its links
 * are its own [bytes/s]; 0: they are shared, or it sends none.  The caller frees it. */
static double *alone_rates(const struct workload *workload)
{
    const struct traffic *traffic = &workload->traffic;
    AUTOFREE int32_t *queue = find_queues(workload), *user = find_users(traffic, queue);
    double *rate = base_alloc((int64_t)traffic->relation_count * traffic->ranks, sizeof(*rate));
    for (int32_t p = 0; p < traffic->relation_count; p++)
        for (int32_t c = 0; c < traffic->ranks; c++)
            if (traffic->relation[p].to[c] >= 0)
                rate[p * traffic->ranks + c] = rate_of(traffic, &traffic->relation[p], c, user);
    return rate;
}

/* The traffic of @workload without the messages that have a @rate, to be released with
 * alone_release(); borrows the rest. */
static struct traffic alone_others(const struct workload *workload, const double *rate)
{
    struct traffic others = workload->traffic;
    int32_t ranks = others.ranks;
    size_t size = (size_t)ranks * sizeof(int32_t);
    others.relation = base_alloc(others.relation_count, sizeof(*others.relation));
    for (int32_t p = 0; p < others.relation_count; p++) {
        const struct relation *all = &workload->traffic.relation[p];
        struct relation *relation = &others.relation[p];
        *relation = *all;
        relation->to = base_alloc(ranks, sizeof(*relation->to));
        relation->from = base_alloc(ranks, sizeof(*relation->from));
        memcpy(relation->to, all->to, size);
        memcpy(relation->from, all->from, size);
        for (int32_t c = 0; c < ranks; c++)
            if (rate[p * ranks + c] > 0)
                relation->to[c] = relation->from[all->to[c]] = -1;
    }
    return others;
}

static void alone_release(struct traffic *others)
{
    for (int32_t p = 0; p < others->relation_count; p++) {
        free(others->relation[p].to);
        free(others->relation[p].from);
    }
    free(others->relation);
}

/* ---- lane ---- */

/* One end of a message over links of its own. */
struct end {
    struct walker *walker;
    double time; /* when the rank enters the round, then when the message has arrived [s] */
    bool known;  /* the latter */
};

/* Where the messages of a relation to a class meet their receiver.  Those over shared links are
 * SimGrid's: they have a queue, and the class a host.  For others it is enough to know when both
 * ends are there. */
struct meeting {
    sg_host_t host;
    sg_mailbox_t queue;
    struct end *first; /* the end that is there already, or NULL */
};

struct walker {
    struct entity *entity;
    enum lane lane;
    double clock;    /* [s], at or ahead of SimGrid's */
    double slowdown; /* of compute in this iteration */
    sg_host_t host;  /* where the actor is */
    sg_sem_t wake;
    sg_comm_t leaving; /* a message that was handed over and may be on its way; or NULL */
    bool leaves;       /* such a message is `sent` */
    struct end sent, received;
    const struct end *awaited; /* that it waits for, or NULL */
    bool carried;              /* its actor sleeps, and whoever brings that end goes on with it */
    struct walker *next;       /* of those that may go on */
    int32_t round, end, times; /* of its collective: the next, behind the last, how often it ran */
    double bytes;              /* of the collective */
    bool entered;              /* the round */
    int32_t wanted;            /* step of another lane it sleeps for, or -1 */
    int32_t step, iteration;
    bool finished;

    /* Where lanes slow the compute lane down, its steps that nobody waits for are paid together. */
    bool works;
    double began, work; /* since when, and how much [s] */
    double mark;        /* when what is repeated began [s] */
};

/* The state of one class: its lanes and how often each awaited step has finished. */
struct entity {
    struct stage *stage;
    int32_t class;
    int32_t place; /* its stage of a pipeline */
    bool traced;
    int32_t *done; /* (steps) */
    struct pace pace;
    struct trace unpaid; /* its spans: in seconds of work */
    struct walker walker[LANE_COUNT];
};

struct stage {
    const struct workload *workload;
    struct trace *trace;
    struct entity *entity;   /* (classes) */
    struct meeting *meeting; /* (relations, classes) */
    struct traffic others;   /* over shared links */
    double *rate;            /* (relations, classes) of messages over links of their own, or 0 */
    sg_bar_t (*together)[LANE_COUNT]; /* (stages) where its classes wait for each other before a
                                         step of NCCL */
    bool shares;                      /* whether any message does share links */
    struct walker *ready;             /* carried ones that may go on */
    sg_host_t home;                   /* where actors start */
    bool *awaited;                    /* (steps) whether another lane depends on it */
    bool *marked;                     /* (steps) whether what is repeated begins behind it */
    sim_progress *progress;
};

static struct meeting *meeting(const struct stage *stage, int32_t relation, int32_t class)
{
    return &stage->meeting[relation * stage->workload->classes + class];
}

static void catch_up(struct walker *walker)
{
    if (walker->clock > simgrid_get_clock())
        sg_actor_sleep_until(walker->clock);
}

/* Compute until now what was begun. */
static void pay_work(struct walker *walker)
{
    struct entity *entity = walker->entity;
    if (!walker->works)
        return;
    walker->works = false;
    walker->clock =
        pace_work(&entity->pace, LANE_COMPUTE, walker->wake, walker->began, walker->work);
    for (int64_t i = 0; i < entity->unpaid.span_count; i++) {
        struct span span = entity->unpaid.span[i];
        span.begin = walker->work > 0 ? pace_when(&entity->pace, span.begin) : walker->clock;
        span.end = walker->work > 0 ? pace_when(&entity->pace, span.end) : walker->clock;
        trace_add(entity->stage->trace, span);
    }
    trace_release(&entity->unpaid);
}

/* The lane computes nothing now. */
static void end_work(struct walker *walker)
{
    pay_work(walker);
    if (walker->lane != LANE_COMPUTE || !walker->entity->pace.any)
        return;
    catch_up(walker);
    pace_compute(&walker->entity->pace, false);
}

static void wait_for(struct walker *walker, int32_t step, int32_t iteration)
{
    if (walker->entity->done[step] > iteration)
        return;
    pay_work(walker);
    if (walker->entity->done[step] > iteration)
        return;
    catch_up(walker);
    if (walker->lane == LANE_COMPUTE)
        pace_compute(&walker->entity->pace, false);
    while (walker->entity->done[step] <= iteration) {
        walker->wanted = step;
        sg_sem_acquire(walker->wake);
    }
    walker->clock = simgrid_get_clock();
}

/* Steps of a lane run in order, so only other lanes are waited for, and never other stages. */
static void wait_for_deps(struct walker *walker, int32_t step)
{
    const struct workload *workload = walker->entity->stage->workload;
    const struct workload_step *own = workload_step(workload, step);
    for (int32_t i = own->dep; i < own->dep + own->deps; i++) {
        struct dep dep = workload->dep[i];
        enum lane lane =
            workload_lane(workload_step(workload, step - dep.step), walker->entity->place);
        if (lane != walker->lane && lane != LANE_COUNT)
            wait_for(walker, step - dep.step, walker->iteration - dep.distance);
    }
}

static void announce(struct walker *walker, int32_t step)
{
    struct entity *entity = walker->entity;
    if (!entity->stage->awaited[step])
        return;
    pay_work(walker);
    catch_up(walker);
    entity->done[step]++;
    for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
        struct walker *other = &entity->walker[lane];
        if (other->wanted == step) {
            other->wanted = -1;
            sg_sem_release(other->wake);
        }
    }
}

/* Both ends of a message wait for its latency before they meet, so that the bytes start to flow one
 * latency after the later of the two.  SimGrid's own latency would also weigh the flow: it gives
 * flows bandwidth in proportion to 1 / latency, as TCP does, and these are to share equally. */
static void pay_latency(struct walker *walker, double begin, double latency)
{
    walker->clock = begin + latency;
    catch_up(walker);
}

/* What @walker waits for is there. */
static void resume(struct walker *walker)
{
    struct stage *stage = walker->entity->stage;
    if (!walker->carried) {
        sg_sem_release(walker->wake);
        return;
    }
    walker->next = stage->ready;
    stage->ready = walker;
}

/* The later end knows when the message has arrived: @latency and @seconds later. */
static void meet(struct meeting *place, struct end *end, double latency, double seconds)
{
    struct end *first = place->first;
    place->first = first ? NULL : end;
    if (!first)
        return;
    first->time = end->time = fmax(first->time, end->time) + latency + seconds;
    first->known = end->known = true;
    if (first->walker->awaited == first)
        resume(first->walker);
}

/* If it has not, the walker waits for it from now on. */
static bool has_ended(struct walker *walker, const struct end *end)
{
    walker->awaited = end->known ? NULL : end;
    walker->clock = end->known ? fmax(walker->clock, end->time) : walker->clock;
    return end->known;
}

static void wait_for_end(struct walker *walker, const struct end *end)
{
    while (!has_ended(walker, end))
        sg_sem_acquire(walker->wake);
}

/* The messages of a lane leave one after the other. */
static void wait_until_left(struct walker *walker)
{
    if (walker->leaving) {
        sg_comm_wait(walker->leaving);
        walker->clock = fmax(walker->clock, simgrid_get_clock());
    }
    if (walker->leaves)
        wait_for_end(walker, &walker->sent);
    walker->leaving = NULL;
    walker->leaves = false;
}

/* Rarely enough to cost nothing. */
static void report(const struct stage *stage)
{
    enum { EVERY = 4096 /* messages, a hundredth of a second */ };
    if (stage->progress && stage->trace->messages % EVERY == 0)
        stage->progress(stage->trace->messages, stage->workload->messages);
}

/* The messages of a round that share links. */
static void share(struct walker *walker, const struct round *round, double bytes)
{
    const struct stage *stage = walker->entity->stage;
    const struct relation *relation = &stage->others.relation[round->relation];
    int32_t class = walker->entity->class, to = relation->to[class], from = relation->from[class];
    long size = lround(bytes * PLATFORM_BYTE_SCALE);
    const struct meeting *here = meeting(stage, round->relation, class);
    if (walker->host != here->host)
        sg_actor_set_host(sg_actor_self(), here->host);
    walker->host = here->host;
    sg_mailbox_t there = to < 0 ? NULL : meeting(stage, round->relation, to)->queue;
    double begin = walker->clock;
    double send_latency = to < 0 ? INFINITY : round->merged * relation->latency[class];
    double receive_latency = from < 0 ? INFINITY : round->merged * relation->latency[from];
    if (send_latency <= receive_latency) {
        pay_latency(walker, begin, send_latency);
        walker->leaving = sg_mailbox_put_async(there, walker, size);
        if (from >= 0) {
            pay_latency(walker, begin, receive_latency);
            sg_mailbox_get(here->queue);
        }
    } else {
        pay_latency(walker, begin, receive_latency);
        void *message;
        sg_comm_t received = sg_mailbox_get_async(here->queue, &message);
        if (to >= 0) {
            pay_latency(walker, begin, send_latency);
            walker->leaving = sg_mailbox_put_async(there, walker, size);
        }
        sg_comm_wait(received);
    }
    walker->clock = fmax(walker->clock, simgrid_get_clock());
}

/* Come to the place where a message of the round from class @from meets class @to. */
static void enter(struct walker *walker, struct end *end, const struct round *round, double bytes,
                  int32_t from, int32_t to)
{
    const struct stage *stage = walker->entity->stage;
    const struct relation *relation = &stage->workload->traffic.relation[round->relation];
    double rate = stage->rate[round->relation * relation->ranks + from];
    *end = (struct end){.walker = walker, .time = walker->clock};
    meet(meeting(stage, round->relation, to), end, round->merged * relation->latency[from],
         (double)lround(bytes * PLATFORM_BYTE_SCALE) / (rate * PLATFORM_BYTE_SCALE));
}

/* Come to where the messages of @round over links of its own meet their other ends. */
static void enter_round(struct walker *walker, const struct round *round)
{
    const struct stage *stage = walker->entity->stage;
    const struct relation *all = &stage->workload->traffic.relation[round->relation];
    const struct relation *others = &stage->others.relation[round->relation];
    int32_t class = walker->entity->class, to = all->to[class], from = all->from[class];
    double bytes = round->share * walker->bytes;
    walker->entered = true;
    walker->leaves = to >= 0 && others->to[class] < 0;
    walker->received = (struct end){.known = true};
    if (walker->leaves)
        enter(walker, &walker->sent, round, bytes, class, to);
    if (from >= 0 && others->from[class] < 0)
        enter(walker, &walker->received, round, bytes, from, class);
    if (to >= 0) {
        stage->trace->messages++;
        report(stage);
    }
}

/* Whether the rank leaves @round before its message has arrived. */
static bool is_eager(const struct walker *walker, const struct round *round)
{
    double most = round->merged * walker->entity->stage->workload->eager;
    bool last = walker->round + 1 == walker->end && walker->times + 1 == round->times;
    return last && round->share * walker->bytes <= most;
}

/* Go on until an end is waited for (false), or messages share links or the last was sent (true). */
static bool advance(struct walker *walker)
{
    const struct stage *stage = walker->entity->stage;
    int32_t class = walker->entity->class;
    while (walker->round < walker->end) {
        const struct round *round = &stage->workload->traffic.round[walker->round];
        const struct relation *others = &stage->others.relation[round->relation];
        if (!walker->entered && (others->to[class] >= 0 || others->from[class] >= 0))
            return true;
        if (!walker->entered)
            enter_round(walker, round);
        bool stays = walker->leaves && !is_eager(walker, round);
        if (!has_ended(walker, &walker->received) || (stays && !has_ended(walker, &walker->sent)))
            return false;
        walker->leaves = walker->leaves && !stays;
        walker->entered = false;
        walker->times = walker->times + 1 < round->times ? walker->times + 1 : 0;
        walker->round += !walker->times;
    }
    return true;
}

/* Advance, and meanwhile all others that may: where links are shared, only itself, because the
 * least change in the order of flows changes rounding, and static routes can make much of that. */
static void go_on(struct walker *walker)
{
    struct stage *stage = walker->entity->stage;
    if (stage->shares) {
        while (!advance(walker))
            sg_sem_acquire(walker->wake);
        return;
    }
    walker->carried = true;
    resume(walker);
    for (struct walker *next; (next = stage->ready);) {
        stage->ready = next->next;
        next->carried = !advance(next);
        if (!next->carried && next != walker)
            sg_sem_release(next->wake);
    }
    while (walker->carried)
        sg_sem_acquire(walker->wake);
}

static void run_program(struct walker *walker, const struct program *program, double bytes)
{
    wait_until_left(walker);
    walker->round = program->begin;
    walker->end = program->end;
    walker->bytes = bytes;
    for (go_on(walker); walker->round < walker->end; go_on(walker)) {
        const struct stage *stage = walker->entity->stage;
        const struct round *round = &stage->workload->traffic.round[walker->round];
        enter_round(walker, round);
        share(walker, round, round->share * bytes);
        wait_for_end(walker, &walker->received);
        if (!is_eager(walker, round))
            wait_until_left(walker);
    }
}

/* An actor called @name that runs @code for @data. */
static void start_actor(const char *name, sg_host_t home, void *data, xbt_main_func_t code)
{
    sg_actor_t actor = sg_actor_init(name, home);
    sg_actor_set_data(actor, data);
    sg_actor_start_(actor, code, 0, NULL);
}

/* Of @entity's @lane, from @clock on, at home. */
static struct walker walker_of(struct entity *entity, enum lane lane, double clock)
{
    return (struct walker){.entity = entity,
                           .lane = lane,
                           .clock = clock,
                           .host = entity->stage->home,
                           .wake = sg_sem_init(0),
                           .wanted = -1};
}

/* A further channel of a collective, with an actor of its own. */
struct branch {
    struct walker walker;
    const struct program *program;
    double bytes;
    sg_sem_t done;
};

static void walk_branch(int argc, char **argv)
{
    AUTOFREE struct branch *branch = sg_actor_self_get_data();
    run_program(&branch->walker, branch->program, branch->bytes);
    catch_up(&branch->walker);
    sg_sem_release(branch->done);
    wait_until_left(&branch->walker);
    sg_sem_destroy(branch->walker.wake);
}

static void start_branch(const struct walker *walker, const struct program *program, double bytes,
                         sg_sem_t done)
{
    struct branch *branch = base_alloc(1, sizeof(*branch));
    *branch = (struct branch){walker_of(walker->entity, walker->lane, walker->clock), program,
                              bytes, done};
    start_actor("channel", branch->walker.host, branch, walk_branch);
}

static void run_collective(struct walker *walker, int32_t id)
{
    const struct workload *workload = walker->entity->stage->workload;
    const struct workload_step *step = workload_step(workload, id);
    const struct program *program = &workload->traffic.program[step->program];
    double bytes = step->bytes;
    sg_sem_t done = program->channels > 1 ? sg_sem_init(0) : NULL;
    for (int32_t i = 1; i < program->channels; i++)
        start_branch(walker, program + i, bytes, done);
    run_program(walker, program, bytes);
    for (int32_t i = 1; i < program->channels; i++)
        sg_sem_acquire(done);
    if (!done)
        return;
    sg_sem_destroy(done);
    walker->clock = fmax(walker->clock, simgrid_get_clock());
}

/* Without messages: on all ranks at once, as NCCL. */
static void run_together(struct walker *walker, double seconds)
{
    const struct stage *stage = walker->entity->stage;
    catch_up(walker);
    sg_barrier_wait(stage->together[walker->entity->place][walker->lane]);
    walker->clock = simgrid_get_clock() + seconds;
}

static void run_exchange(struct walker *walker, int32_t id)
{
    const struct workload *workload = walker->entity->stage->workload;
    walker->clock += workload->launch;
    if (workload_step(workload, id)->program < 0)
        run_together(walker, workload_step(workload, id)->seconds);
    else
        run_collective(walker, id);
}

/* Beside compute it goes on for what it lost. */
static void fly(struct walker *walker, int32_t id)
{
    struct pace *pace = &walker->entity->pace;
    double slower = pace->slowdown.communication;
    catch_up(walker);
    pace_fly(pace, 1);
    double before = pace_computed(pace);
    run_exchange(walker, id);
    catch_up(walker);
    double lost = (pace_computed(pace) - before) * slower / (1 + slower);
    walker->clock = pace_work(pace, walker->lane, walker->wake, walker->clock, lost);
    pace_fly(pace, -1);
}

static struct span span_of(const struct walker *walker, double begin, double end)
{
    return (struct span){.iteration = walker->iteration,
                         .rank = walker->entity->stage->workload->member[walker->entity->class],
                         .step = walker->step,
                         .begin = begin,
                         .end = end};
}

/* Compute a step for @seconds, to be paid with those that follow. */
static void work(struct walker *walker, double seconds)
{
    if (!walker->works) {
        catch_up(walker);
        pace_compute(&walker->entity->pace, true);
        walker->began = walker->clock;
        walker->work = 0;
        walker->works = true;
    }
    double before = walker->work;
    walker->work += seconds;
    if (walker->entity->traced)
        trace_add(&walker->entity->unpaid, span_of(walker, before, walker->work));
}

static void run_step(struct walker *walker, int32_t id)
{
    const struct stage *stage = walker->entity->stage;
    const struct workload_step *step = workload_step(stage->workload, id);
    double seconds = step->seconds * walker->slowdown;
    walker->step = id;
    wait_for_deps(walker, id);
    if (step->since >= 0)
        end_work(walker);
    double begin = walker->clock;
    if (step->since >= 0)
        walker->clock += step->again * (walker->clock - walker->mark);
    else if (walker->lane == LANE_COMPUTE && walker->entity->pace.any)
        work(walker, seconds);
    else if (walker->lane == LANE_COMPUTE)
        walker->clock += seconds;
    else if (walker->lane == LANE_INPUT)
        walker->clock += step->seconds;
    else if (walker->entity->pace.any && walker->lane < LANE_SEND)
        fly(walker, id);
    else
        run_exchange(walker, id);
    if (walker->entity->traced && !walker->works)
        trace_add(stage->trace, span_of(walker, begin, walker->clock));
    announce(walker, id);
    if (stage->marked[id]) {
        pay_work(walker);
        walker->mark = walker->clock;
    }
}

static double slowdown(const struct workload *workload, int32_t class, int32_t iteration)
{
    if (workload->slowest > 0)
        return workload->slowest;
    return noise_factor(&workload->noise, workload->member[class], iteration);
}

static void walk(int argc, char **argv)
{
    struct walker *walker = sg_actor_self_get_data();
    const struct stage *stage = walker->entity->stage;
    const struct workload *workload = stage->workload;
    AUTOFREE bool *own = base_alloc(workload->kinds, sizeof(*own));
    for (int32_t i = 0; i < workload->kinds; i++)
        own[i] = workload_lane(&workload->kind[i], walker->entity->place) == walker->lane;
    for (int32_t i = 0; i < workload->iterations; i++) {
        walker->iteration = i;
        walker->slowdown = slowdown(workload, walker->entity->class, i);
        for (int32_t id = 0; id < workload->steps; id++)
            if (own[workload->step[id]])
                run_step(walker, id);
        pay_work(walker);
        trace_finish(stage->trace, i, walker->clock);
    }
    wait_until_left(walker);
    if (walker->lane == LANE_COMPUTE)
        pace_compute(&walker->entity->pace, false);
    walker->finished = true;
}

/* Spans are kept for the first class of each stage, the last, and evenly between. */
static bool is_traced(const struct workload *workload, int32_t class)
{
    int32_t classes = workload->classes, limit = workload->traced;
    int32_t stage = workload_stage(workload, class);
    if (limit == 0 || limit >= classes ||
        (workload->stages > 1 &&
         workload->member[class] == stage * (workload->ranks / workload->stages)))
        return true;
    if (limit == 1)
        return class == 0;
    int64_t nearest = ((int64_t) class * (limit - 1) + (classes - 1) / 2) / (classes - 1);
    return nearest * (classes - 1) / (limit - 1) == class;
}

static void start_entity(struct stage *stage, int32_t class)
{
    const struct workload *workload = stage->workload;
    struct entity *entity = &stage->entity[class];
    *entity = (struct entity){
        .stage = stage,
        .class = class,
        .place = workload_stage(workload, class),
        .traced = is_traced(workload, class),
        .done = base_alloc(workload->steps, sizeof(*entity->done)),
    };
    bool used[LANE_COUNT + 1] = {false};
    for (int32_t i = 0; i < workload->kinds; i++)
        used[workload_lane(&workload->kind[i], entity->place)] = true;
    pace_init(&entity->pace, workload->beside);
    for (enum lane lane = 0; lane < LANE_COUNT; lane++) {
        struct walker *walker = &entity->walker[lane];
        *walker = (struct walker){.wanted = -1, .finished = true};
        if (!used[lane])
            continue;
        *walker = walker_of(entity, lane, 0);
        start_actor(lane_name(lane), stage->home, walker, walk);
    }
}

static void find_places(struct stage *stage)
{
    const struct traffic *others = &stage->others;
    AUTORELEASE(directory) struct directory directory = directory_new();
    AUTOFREE int32_t *host = platform_hosts(others);
    stage->home = directory_find(&directory, PLATFORM_HOME);
    stage->meeting =
        base_alloc((int64_t)others->relation_count * others->ranks, sizeof(*stage->meeting));
    for (int32_t p = 0; p < others->relation_count; p++) {
        for (int32_t c = 0; c < others->ranks; c++) {
            if (others->relation[p].to[c] < 0 && others->relation[p].from[c] < 0)
                continue;
            stage->shares = true;
            AUTOFREE char *name = platform_host_name(host[p], c),
                          *queue = base_format("%d.%d", p, c);
            meeting(stage, p, c)->host = directory_find(&directory, name);
            meeting(stage, p, c)->queue = sg_mailbox_by_name(queue);
        }
    }
}

static void read_steps(struct stage *stage)
{
    const struct workload *workload = stage->workload;
    stage->awaited = base_alloc(workload->steps, sizeof(*stage->awaited));
    stage->marked = base_alloc(workload->steps, sizeof(*stage->marked));
    for (int32_t id = 0; id < workload->steps; id++) {
        const struct workload_step *own = workload_step(workload, id);
        if (own->since >= 0)
            stage->marked[own->since] = true;
        for (int32_t i = own->dep; i < own->dep + own->deps; i++) {
            int32_t other = id - workload->dep[i].step;
            const struct workload_step *before = workload_step(workload, other);
            if (before->lane != own->lane || before->to >= 0) /* received on another lane */
                stage->awaited[other] = true;
        }
    }
}

/* SimGrid ends a run in which no actor can continue; then some actor has not finished. */
static int check_finished(const struct stage *stage, struct err *err)
{
    const struct workload *workload = stage->workload;
    for (int32_t c = 0; c < workload->classes; c++) {
        for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
            const struct walker *walker = &stage->entity[c].walker[lane];
            if (!walker->finished)
                return err_add_code(err, 70,
                                    "simulator: deadlock: rank %d waits for ever in step %d of "
                                    "iteration %d",
                                    workload->member[c], walker->step, walker->iteration);
        }
    }
    return 0;
}

static void release_stage(struct stage *stage)
{
    for (int32_t c = 0; c < stage->workload->classes; c++) {
        for (int32_t lane = 0; lane < LANE_COUNT; lane++) {
            if (stage->entity[c].walker[lane].wake)
                sg_sem_destroy(stage->entity[c].walker[lane].wake);
        }
        free(stage->entity[c].pace.stretch);
        free(stage->entity[c].done);
    }
    for (int32_t i = 0; i < stage->workload->stages * LANE_COUNT; i++)
        sg_barrier_destroy(stage->together[i / LANE_COUNT][i % LANE_COUNT]);
    free(stage->together);
    alone_release(&stage->others);
    free(stage->rate);
    free(stage->entity);
    free(stage->meeting);
    free(stage->awaited);
    free(stage->marked);
}

enum { HEAP_STEP = 1 << 17 /* [bytes] as glibc extends it */ };

static void run_actors(struct stage *stage)
{
    const struct workload *workload = stage->workload;
    int32_t classes = workload->classes;
    AUTOFREE int32_t *members = base_alloc(workload->stages, sizeof(*members));
    stage->entity = base_alloc(classes, sizeof(*stage->entity));
    stage->together = base_alloc(workload->stages, sizeof(*stage->together));
    for (int32_t c = 0; c < classes; c++)
        members[workload_stage(workload, c)]++;
    for (int32_t i = 0; i < workload->stages * LANE_COUNT; i++)
        stage->together[i / LANE_COUNT][i % LANE_COUNT] =
            sg_barrier_init((unsigned)members[i / LANE_COUNT]);
    find_places(stage);
    read_steps(stage);
    /* Without a reserve of the heap, stacks are new memory, which SimGrid need not clear. */
    mallopt(M_TOP_PAD, 0);
    for (int32_t c = 0; c < classes; c++)
        start_entity(stage, c);
    mallopt(M_TOP_PAD, HEAP_STEP);
    report(stage);
    simgrid_run();
}

int sim_run(const struct workload *workload, sim_progress *progress, struct trace *trace,
            struct err *err)
{
    snprintf(trace->backend, sizeof(trace->backend), "sim");
    snprintf(trace->grain, sizeof(trace->grain), "%s", workload->grain);
    trace->schedule_hash = workload->schedule_hash;
    trace->ranks = workload->ranks;
    trace->entities = workload->classes;
    struct stage stage = {.workload = workload, .trace = trace, .progress = progress};
    stage.rate = alone_rates(workload);
    stage.others = alone_others(workload, stage.rate);
    int failed = engine_start(&stage.others, err);
    if (!failed) {
        run_actors(&stage);
        failed = check_finished(&stage, err);
        release_stage(&stage);
    }
    if (failed)
        trace_release(trace);
    return failed;
}
