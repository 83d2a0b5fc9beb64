#include "app/predict/prediction.h"

#include "app/predict/uncertainty.h"

/* Streams of random numbers: one for a platform's numbers, one for the failures themselves. */
enum { SEED_MTBF = 3, SEED_LUCK = 4 };

static const char EVERY[] = "training.checkpoint.every";
static const char RESTART[] = "training.checkpoint.restart";

/* A job on one node needs no network. */
static const struct quantity *mtbf_of(const struct prediction *p, bool network)
{
    const struct platform *platform = p->job.platform;
    const struct quantity *mtbf = network ? &platform->network_mtbf : &platform->node.mtbf;
    bool counts = mtbf->value > 0 && (!network || prediction_last(p)->point.nodes > 1);
    return counts ? mtbf : NULL;
}

/* Weights and what the optimizer keeps; statistics of batch norm are few. */
static double checkpoint_bytes(const struct prediction *p)
{
    enum dtype master = (enum dtype)p->job.scenario.model.master;
    return (double)(model_parameters(p->job.model) * dtype_size(master) + p->job.resolved.state);
}

/* The time between failures, and how uncertain it is. */
static void find_rate(struct prediction *p)
{
    struct toll *toll = &p->result.toll;
    const struct quantity *node = mtbf_of(p, false), *network = mtbf_of(p, true);
    double rate = 0;
    if (node)
        rate += prediction_usage(p).nodes / node->value;
    if (network)
        rate += 1 / network->value;
    toll->failures.mtbf = rate > 0 ? 1 / rate : INFINITY;
    toll->spread =
        fmax(node ? uncertainty_quantity(node) : 0, network ? uncertainty_quantity(network) : 0);
}

static int find_cost(struct prediction *p, struct err *err)
{
    const struct scenario *s = &p->job.scenario;
    struct failures *f = &p->result.toll.failures;
    double bandwidth = s->training.checkpoint.bandwidth;
    if (isfinite(f->mtbf) && !(bandwidth > 0))
        bandwidth = s->input.storage;
    f->cost = s->training.checkpoint.cost;
    if (!(f->cost > 0) && bandwidth > 0)
        f->cost = checkpoint_bytes(p) / bandwidth;
    p->result.toll.any = f->cost > 0;
    if (isfinite(f->mtbf) && !(f->cost > 0))
        return job_blame(&p->job, "cluster.platform", 65, err,
                         "something of it fails, and what a checkpoint costs is not known: give "
                         "training.checkpoint.cost (such as 10 s) or "
                         "training.checkpoint.bandwidth");
    f->restart = scenario_is_given(s, RESTART) ? s->training.checkpoint.restart
                                               : s->training.startup + f->cost;
    if (isinf(f->mtbf) && scenario_is_given(s, RESTART))
        return job_blame(&p->job, RESTART, 65, err,
                         "no effect: nothing that the job uses fails; the platform needs node.mtbf "
                         "or network.mtbf");
    return 0;
}

/* As given; else, where something fails, the best, which is at least a step. */
static void find_interval(struct prediction *p)
{
    struct toll *toll = &p->result.toll;
    struct failures *f = &toll->failures;
    double epochs = p->result.plan.epochs;
    toll->every = p->job.scenario.training.checkpoint.every;
    toll->chosen = isfinite(f->mtbf) && !scenario_is_given(&p->job.scenario, EVERY);
    if (toll->chosen) {
        double best = fmax(failures_daly(f->mtbf, f->cost), prediction_last(p)->step);
        toll->every = best < toll->work ? best / toll->work * epochs : 0;
    }
    f->interval = toll->every / epochs * toll->work;
}

int failing_find(struct prediction *p, struct err *err)
{
    struct result *result = &p->result;
    struct toll *toll = &result->toll;
    *toll = (struct toll){.work = result->time_to_train_s,
                          .total = result->time_to_train_s,
                          .work_likely = {NAN, NAN}};
    find_rate(p);
    if (find_cost(p, err) || !toll->any)
        return err->count ? -1 : 0;
    find_interval(p);
    toll->total = failures_expected(&toll->failures, toll->work);
    if (!(toll->total <= FAILURES_LONGEST))
        return job_blame(
            &p->job, toll->chosen ? "cluster.platform" : EVERY, 65, err,
            "the job never ends: something fails every %s, and between checkpoints are %s; without "
            "%s they are as near as is best",
            unit_text(UNIT_SECONDS, toll->failures.mtbf),
            unit_text(UNIT_SECONDS, toll->every > 0 ? toll->failures.interval : toll->work), EVERY);
    result->time_to_train_s = toll->total;
    return 0;
}

double failing_draw(const struct prediction *p, double work, double epochs, int32_t number)
{
    const struct toll *toll = &p->result.toll;
    struct failures f = toll->failures;
    if (!toll->any)
        return work;
    f.interval = toll->every / (epochs > 0 ? epochs : p->result.plan.epochs) * work;
    f.mtbf *= exp(toll->spread * base_normal(SEED_MTBF, (uint64_t)number, 0, 0));
    return failures_draw(&f, work, SEED_LUCK, (uint64_t)number);
}

bool failing_depends_on(const struct prediction *p, const struct quantity *quantity)
{
    return quantity == mtbf_of(p, false) || quantity == mtbf_of(p, true);
}

void failing_assumptions(struct prediction *p)
{
    struct result *result = &p->result;
    const struct toll *toll = &result->toll;
    if (!toll->any || isinf(toll->failures.mtbf))
        return;
    texts_add(&result->assumption,
              "failures come at a constant rate, one independently of another");
    if (!scenario_is_given(result->scenario, RESTART))
        texts_add(&result->assumption, "a restart takes training.startup and the cost of a "
                                       "checkpoint, as training.checkpoint.restart is not given");
}
