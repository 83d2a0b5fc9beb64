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
    AUTORELEASE(job) struct job job = {0};
    struct wish wish = {.ignore_memory = request->ignore_memory};
    if (job_open(&job, path, request->set.item, request->set.count, &draw_centre, &wish, err))
        return -1;
    struct extent cluster = job.resolved.cluster;
    int failed = 0;
    if (request->explain)
        failed = scenario_explain(out, path, request->set.item, request->set.count, err);
    else {
        int64_t devices = extent_devices(cluster);
        text_add(out, "%s: ok: %s on %lld device%s of %s", scenario_name(&job.scenario),
                 job.model->name, (long long)devices, base_plural(devices),
                 platform_name(job.platform));
        if (grid_matters(job.resolved.algorithm, job.resolved.order, job.platform))
            text_add(out, ", grid %d x %d", cluster.grid.columns, cluster.grid.rows);
        text_add(out, ", %d phase%s\n", job_phases(&job), base_plural(job_phases(&job)));
    }
    for (int64_t i = 0; i < job.unknowns.count && !request->explain; i++)
        text_add(out, "  unknown: %s, %s\n", job.unknowns.item[i].key, job.unknowns.item[i].range);
    return failed;
}

static int check_platform(const char *name, struct text *out, struct err *err)
{
    struct unknowns unknowns = {0};
    AUTORELEASE(platform)
    struct platform *platform = platform_read_changed(name, NULL, 0, &unknowns, err);
    unknowns_release(&unknowns);
    if (!platform)
        return -1;
    text_add(out, "%s: ok: platform %s\n", name, platform_name(platform));
    return 0;
}

static int check_device(const char *file, struct text *out, struct err *err)
{
    AUTORELEASE(device) struct device device = {0};
    if (device_read(&device, file, err))
        return -1;
    text_add(out, "%s: ok: device %s\n", file, device.name);
    return 0;
}

/* Of a file that is no job. */
static int check_other(const struct check_request *request, const char *file,
                       enum scenario_other kind, struct text *out, struct err *err)
{
    if (request->explain || request->ignore_memory || request->set.count)
        return err_add_code(err, 64, "%s is a %s: only checks of jobs take options", file,
                            kind == OTHER_DEVICE ? "device" : "platform");
    return kind == OTHER_DEVICE ? check_device(file, out, err) : check_platform(file, out, err);
}

static int check(const void *record, struct text *out, struct err *err)
{
    const struct check_request *request = record;
    const char *file = request->head.argument.count ? request->head.argument.item[0] : NULL;
    if (file && request->platform)
        return err_add_code(err, 64, "give a file or --platform, not both");
    if (!file && !request->platform)
        return err_add_code(err, 64, "nothing to check: give a file or --platform NAME");
    enum scenario_other kind = file ? platform_file_kind(file) : OTHER_PLATFORM;
    return kind == OTHER_NONE
               ? check_job(request, out, err)
               : check_other(request, file ? file : request->platform, kind, out, err);
}

#define AT(member) offsetof(struct check_request, member)

static const struct option options[] = {
    ROW_SET_SHORT(AT(set)),
    OPTION_ROW("explain", 'e', OPTION_FLAG, AT(explain),
               .help = "Print every value and where it comes from"),
    ROW_IGNORE_MEMORY(AT(ignore_memory)), ROW_PLATFORM(AT(platform)), ROW_LAST};

const struct command command_check = {
    .name = "check",
    .synopsis = "FILE [options], or --platform NAME",
    .help = "report every fault of a scenario, a platform or a device; run nothing",
    .examples = "foretrain check job.yaml --explain\n"
                "foretrain check cluster.yaml\n"
                "foretrain check --platform abci",
    RECORD(options, struct check_request, NULL),
    .keys = &scenario_table,
    TAKES(0, 1),
    .jobs = true,
    .run = check,
};
