#include "app/cli/command.h"
#include "app/job/job.h"

struct check_request {
    struct request head;
    struct option_list set;
    bool explain, ignore_memory;
    const char *platform;
};

static int check_job(const struct check_request *request, struct text *out, struct err *err)
{
    const char *path = request->head.argument.item[0];
    struct job job = {0};
    struct wish wish = {.ignore_memory = request->ignore_memory};
    if (job_open(&job, path, request->set.item, request->set.count, &draw_centre, &wish, err))
        return -1;
    struct extent cluster = job.resolved.cluster;
    int failed = 0;
    if (request->explain)
        failed = scenario_explain(out, path, request->set.item, request->set.count, err);
    else {
        text_add(out, "%s: ok: %s on %lld devices of %s", scenario_name(&job.scenario),
                 job.model->name, (long long)extent_devices(cluster), platform_name(job.platform));
        if (grid_matters(job.resolved.algorithm, job.resolved.order, job.platform))
            text_add(out, ", grid %d x %d", cluster.grid.columns, cluster.grid.rows);
        text_add(out, ", %d phase%s\n", job_phases(&job), base_plural(job_phases(&job)));
    }
    for (int64_t i = 0; i < job.unknowns.count && !request->explain; i++)
        text_add(out, "  unknown: %s, %s\n", job.unknowns.item[i].key, job.unknowns.item[i].range);
    job_release(&job);
    return failed;
}

static int check(const void *record, struct text *out, struct err *err)
{
    const struct check_request *request = record;
    if (request->head.argument.count && request->platform)
        return err_add_code(err, 64, "give JOB or --platform, not both");
    if (request->head.argument.count)
        return check_job(request, out, err);
    if (!request->platform)
        return err_add_code(err, 64, "nothing to check: give JOB or --platform NAME");
    struct unknowns unknowns = {0};
    struct platform *platform = platform_read_changed(request->platform, NULL, 0, &unknowns, err);
    unknowns_release(&unknowns);
    if (!platform)
        return -1;
    text_add(out, "%s: ok: platform %s\n", request->platform, platform_name(platform));
    platform_free(platform);
    return 0;
}

#define AT(member) offsetof(struct check_request, member)

static const struct option options[] = {
    ROW_SET_SHORT(AT(set)),
    OPTION_ROW("explain", 'e', OPTION_FLAG, AT(explain),
               .help = "Print every value and where it comes from"),
    ROW_IGNORE_MEMORY(AT(ignore_memory)), ROW_PLATFORM(AT(platform)), ROW_LAST};

const struct command command_check = {
    .name = "check",
    .synopsis = "JOB [options], or --platform NAME",
    .help = "report every fault of a scenario or a platform; run nothing",
    .examples = "foretrain check job.yaml --explain\n"
                "foretrain check --platform platforms/abci.yaml",
    RECORD(options, struct check_request, NULL),
    .keys = &scenario_table,
    TAKES(0, 1),
    .jobs = true,
    .run = check,
};
