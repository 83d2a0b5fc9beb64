#include "app/cli/command.h"
#include "app/job/job.h"
#include "core/price/price.h"
#include "models/networks.h"

struct check_request {
    struct request head;
    struct texts set;
    bool explain, ignore_memory;
    const char *platform;
};

static int check_job(const struct check_request *request, struct text *out, struct err *err)
{
    const char *path = request->head.argument.item[0];
    AUTORELEASE(job) struct job job = {0};
    struct wish wish = {.repeat = true, .ignore_memory = request->ignore_memory};
    if (job_open(&job, NULL, path, request->set.item, request->set.count, &draw_centre, &wish, err))
        return -1;
    struct extent cluster = job.resolved.cluster;
    int failed = 0;
    if (request->explain)
        failed = scenario_explain(out, path, request->set.item, request->set.count, err);
    else {
        int64_t devices = extent_devices(cluster);
        text_add(out, "%s: ok: %s on %lld device%s of %s", scenario_name(&job.scenario),
                 job.model->name, (long long)devices, base_plural(devices), job.platform->name);
        if (grid_matters(job.resolved.algorithm, job.resolved.order, job.platform))
            text_add(out, ", grid %d x %d", cluster.grid.columns, cluster.grid.rows);
        text_add(out, ", %d phase%s\n", job_phases(&job), base_plural(job_phases(&job)));
    }
    for (int64_t i = 0; i < job.unknowns.count && !request->explain; i++)
        text_add(out, "  unknown: %s, %s\n", job.unknowns.item[i].key, job.unknowns.item[i].range);
    return failed;
}

static int read_platform(const char *file, struct text *name, struct err *err)
{
    struct unknowns unknowns = {0};
    AUTORELEASE(platform)
    struct platform *platform = platform_read_changed(NULL, file, NULL, 0, &unknowns, err);
    unknowns_release(&unknowns);
    text_add(name, "%s", platform ? platform->name : "");
    return platform ? 0 : -1;
}

static int read_device(const char *file, struct text *name, struct err *err)
{
    AUTORELEASE(device) struct device device = {0};
    int failed = device_read(&device, file, err);
    text_add(name, "%s", failed ? "" : device.name);
    return failed;
}

static int read_software(const char *file, struct text *name, struct err *err)
{
    struct software *software = software_read(NULL, file, err);
    text_add(name, "%s", software ? software->name : "");
    software_free(software);
    return software ? 0 : -1;
}

static int read_network(const char *file, struct text *name, struct err *err)
{
    struct model *model = network_read(NULL, file, 0, err);
    text_add(name, "%s", model ? model->name : "");
    model_free(model);
    return model ? 0 : -1;
}

static int read_prices(const char *file, struct text *name, struct err *err)
{
    AUTORELEASE(price) struct price_file prices = {0};
    int failed = price_read(&prices, file, err);
    text_add(name, "%s", failed ? "" : prices.low.name);
    return failed;
}

/* Of a file that is no job. */
static int check_other(const struct check_request *request, const char *file,
                       enum scenario_other kind, struct text *out, struct err *err)
{
    static int (*const read[])(const char *file, struct text *name,
                               struct err *err) = {[OTHER_PLATFORM] = read_platform,
                                                   [OTHER_DEVICE] = read_device,
                                                   [OTHER_SOFTWARE] = read_software,
                                                   [OTHER_NETWORK] = read_network,
                                                   [OTHER_PRICES] = read_prices};
    AUTORELEASE(text) struct text name = {0};
    if (request->explain || request->ignore_memory || request->set.count)
        return err_usage(err, "%s is a %s file: only checks of jobs take options", file,
                         scenario_other_names[kind]);
    if (read[kind](file, &name, err))
        return -1;
    text_add(out, "%s: ok: %s %s\n", file, scenario_other_names[kind], name.data);
    return 0;
}

static int check(const void *record, struct text *out, struct err *err)
{
    const struct check_request *request = record;
    const char *file = request->head.argument.count ? request->head.argument.item[0] : NULL;
    if (file && request->platform)
        return err_usage(err, "give a file or --platform, not both");
    if (!file && !request->platform)
        return err_usage(err, "nothing to check: give a file or --platform NAME");
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
    .help = "report every fault of a job, or of another file by its keys; run nothing",
    .examples = "foretrain check job.yaml --explain\n"
                "foretrain check cluster.yaml\n"
                "foretrain check --platform abci",
    RECORD(options, struct check_request, NULL),
    .keys = &scenario_table,
    TAKES(0, 1),
    .jobs = true,
    .run = check,
};
