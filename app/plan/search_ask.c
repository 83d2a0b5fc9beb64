#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/job/job.h"
#include "app/plan/search.h"
#include "app/predict/assumption.h"
#include "core/platform/platform.h"
#include "core/scenario/scenario.h"

/* Where the user gives no values.  Our choice. */
enum { NODES_MOST = 1024 /* of platforms of any size */ };
static const char *const usual[DECISION_COUNT] = {
    [DECISION_BATCH] = "8..512:x2",
    [DECISION_ALGORITHM] = "nccl,torus2d,ring,hierarchical",
    [DECISION_BUCKET] = "4MiB..256MiB:x4",
};

/* A decision decides its key in every candidate, so an assignment to the same has no effect. */
static int check_set(const struct search *search, struct err *err)
{
    const struct option_list *set = &search->question.options->set;
    for (int32_t i = 0; i < set->count; i++)
        for (int k = 0; k < DECISION_COUNT; k++) {
            size_t length = strlen(decision_keys[k]);
            if (!strncmp(set->item[i], decision_keys[k], length) && set->item[i][length] == '=')
                return err_add_code(err, 64,
                                    "--set %s has no effect: the plan decides %s; its options say "
                                    "which values it may take",
                                    set->item[i], decision_keys[k]);
        }
    return 0;
}

/* Of a node. */
static int32_t devices_of(const struct job *job)
{
    int64_t given = job->scenario.cluster.devices_per_node;
    return given ? (int32_t)given : platform_devices_per_node(job->platform);
}

/* Images of a step of a phase of @job, as far as they are known. */
static double images_of(const struct job *job, const struct scenario_phase *phase)
{
    int64_t nodes = phase->nodes ? phase->nodes : job->scenario.cluster.nodes;
    return phase->global_batch ? (double)phase->global_batch / (double)nodes
                               : (double)phase->batch_per_device * devices_of(job);
}

/* What candidates keep of the job: how its phases' batches are to each other. */
static void take_job(struct search *search, const struct job *job)
{
    struct question *q = &search->question;
    const struct scenario_phase *phase = job->scenario.training.phase.item;
    q->unknown = job->unknowns.count > 0;
    int64_t nodes = phase[job_phases(job) - 1].nodes;
    if (!q->target && !search->given[DECISION_BATCH] && !batch_has_runs(&job->scenario))
        search->images = llround(images_of(job, &phase[job_phases(job) - 1]) *
                                 (double)(nodes ? nodes : job->scenario.cluster.nodes));
    q->phases = job_phases(job);
    q->share = base_alloc(q->phases, sizeof(*q->share));
    for (int32_t i = 0; i < q->phases; i++)
        q->share[i] = images_of(job, &phase[i]) / images_of(job, &phase[q->phases - 1]);
}

/* The job with @platform, or its own for NULL, and with @value of @decision unless NULL. */
static int read_job_with(const struct search *search, const char *platform, int decision,
                         const char *value, struct job *job, struct err *err)
{
    const struct question *q = &search->question;
    AUTORELEASE(option_list) struct option_list set = {0};
    AUTOFREE char *target = q->target ? base_format("training.target=%s", q->target) : NULL;
    AUTOFREE char *named =
        platform ? base_format("%s=%s", decision_keys[DECISION_PLATFORM], platform) : NULL;
    option_list_add_all(&set, &q->options->set);
    if (target)
        option_list_add(&set, target);
    if (named)
        option_list_add(&set, named);
    AUTOFREE char *decided = value ? base_format("%s=%s", decision_keys[decision], value) : NULL;
    if (decided) {
        option_list_add(&set, "allreduce.grid=null");
        option_list_add(&set, decided);
    }
    return job_read(job, NULL, q->path, set.item, set.count, &draw_centre, err);
}

static int read_job(const struct search *search, const char *platform, struct job *job,
                    struct err *err)
{
    return read_job_with(search, platform, 0, NULL, job, err);
}

/* "abci,dgx-1,...": all of the library. */
static char *library(struct err *err)
{
    struct text list = {0}, names = {0};
    if (platform_list(&list, "", err))
        return NULL;
    for (const char *line = list.data; line && *line; line += strcspn(line, "\n") + 1)
        text_add(&names, "%s%.*s", names.length ? "," : "", (int)strcspn(line, " "), line);
    text_release(&list);
    return names.data ? names.data : base_copy("");
}

static char *platforms_of(const struct search *search, const struct job *job, struct err *err)
{
    const char *given = search->given[DECISION_PLATFORM];
    if (!given)
        return scenario_path_at(&job->scenario, decision_keys[DECISION_PLATFORM],
                                job->scenario.cluster.platform);
    return strcmp(given, "all") ? base_copy(given) : library(err);
}

static int read_axes(struct search *search, const char *platforms, struct err *err)
{
    struct option_list texts = {0};
    char *nodes = base_format("1..%d:x2", NODES_MOST);
    for (int i = 0; i < DECISION_COUNT; i++) {
        const char *value = search->given[i] ? search->given[i] : usual[i];
        value = i == DECISION_PLATFORM ? platforms : value ? value : nodes;
        AUTOFREE char *text = base_format("%s=%s", decision_keys[i], value);
        option_list_add(&texts, text);
    }
    int failed = axes_read(&search->axes, "plan", &texts, err);
    option_list_release(&texts);
    free(nodes);
    for (int i = DECISION_NODES; i <= DECISION_BATCH && !failed; i++) {
        const struct option_list *value = &search->axes.item[i].value;
        for (int32_t k = 0; k < value->count && !failed; k++) {
            char *end;
            if (strtoll(value->item[k], &end, 10) < 1 || *end)
                failed = err_add_code(err, 64, "%s: '%s' is no number from 1 on",
                                      i == DECISION_NODES ? "--nodes" : "--batch", value->item[k]);
        }
    }
    return failed;
}

/* A misspelt algorithm or size would only be one more candidate that makes no job. */
static int check_given(const struct search *search, struct err *err)
{
    for (int i = DECISION_ALGORITHM; i <= DECISION_BUCKET; i++) {
        const struct option_list *value = &search->axes.item[i].value;
        for (int32_t k = 0; k < value->count && search->given[i]; k++) {
            AUTORELEASE(job) struct job job = {0};
            if (read_job_with(search, NULL, i, value->item[k], &job, err))
                return -1;
        }
    }
    return 0;
}

/* What cannot be read but is there is a platform on which no candidate makes a job. */
static int read_sizes(struct search *search, struct err *err)
{
    const struct option_list *platform = &search->axes.item[DECISION_PLATFORM].value;
    search->size = base_alloc(platform->count, sizeof(*search->size));
    search->devices = base_alloc(platform->count, sizeof(*search->devices));
    for (int32_t i = 0; i < platform->count; i++) {
        AUTORELEASE(err) struct err why = {0};
        struct job job = {0};
        search->size[i] = search->devices[i] = 1;
        if (!read_job(search, platform->item[i], &job, &why)) {
            int32_t nodes = platform_nodes(job.platform);
            search->size[i] = nodes ? nodes : NODES_MOST;
            search->devices[i] = devices_of(&job);
            price_check_device(tariffs_find(&search->tariffs, platform->item[i], NULL),
                               platform_device(job.platform)->name, err);
            job_release(&job);
        } else if (why.exit_code == 66) {
            return read_job(search, platform->item[i], &job, err);
        }
    }
    return 0;
}

/* A platform that no price is for could not be compared. */
static int check_priced(const struct search *search, struct err *err)
{
    const struct option_list *platform = &search->axes.item[DECISION_PLATFORM].value;
    for (int32_t i = 0; i < platform->count; i++) {
        const struct price_file *own = tariffs_find(&search->tariffs, platform->item[i], NULL);
        const char *currency = own ? own->low.currency : NULL;
        if (!currency)
            return err_add_code(
                err, 64,
                "--prices has no price of %s; for one platform alone it is given as "
                "--prices %s=FILE",
                platform->item[i], platform->item[i]);
        if (strcmp(currency, search->currency) != 0)
            return err_add_code(err, 64, "--prices are in %s and %s, which cannot be compared",
                                search->currency, currency);
    }
    return 0;
}

static int read_prices(struct search *search, struct err *err)
{
    const struct tariffs *tariffs = &search->tariffs;
    if (tariffs_read(&search->tariffs, search->prices->item, search->prices->count, err))
        return -1;
    for (int32_t i = 0; i < tariffs->count; i++) {
        const struct price_file *file = &tariffs->item[i].file;
        search->currency = search->currency ? search->currency : file->low.currency;
        search->question.unknown |= file->low.mtbf.value < file->high.mtbf.value;
    }
    search->question.tariffs = tariffs;
    search->aim = isinf(search->within) ? AIM_TIME : search->currency ? AIM_COST : AIM_DEVICE_HOURS;
    return search->currency ? check_priced(search, err) : 0;
}

int search_ask(struct search *search, struct err *err)
{
    struct job job = {0};
    if (check_set(search, err) || read_job(search, NULL, &job, err))
        return -1;
    take_job(search, &job);
    AUTOFREE char *platforms = platforms_of(search, &job, err);
    job_release(&job);
    int failed = !platforms || read_axes(search, platforms, err) || check_given(search, err) ||
                 read_prices(search, err) || read_sizes(search, err) ||
                 tariffs_check(&search->tariffs, err);
    return failed ? -1 : 0;
}
