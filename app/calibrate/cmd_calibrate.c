#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/calibrate/calibrate_machine.h"
#include "app/cli/command.h"
#include "app/cli/measure_list.h"
#include "app/study/software_fit.h"
#include "core/base/claim.h"
#include "core/base/file.h"
#include "core/base/json.h"

static void print_fits(struct text *out, const struct software_fit *c)
{
    text_add(out, "%-14s %-22s %-9s %4s %16s %18s %9s\n", "software", "device", "fusion", "runs",
             "efficiency", "per kernel", "residual");
    for (int32_t i = 0; i < c->groups; i++) {
        const struct software_fit_group *g = &c->group[i];
        text_add(out, "%-14s %-22s %-9s %4d %7.1f %% +- %4.1f %8.2f us +- %4.1f %7.1f %%\n",
                 g->software, g->device, g->fusion, g->rows, 100 * g->efficiency,
                 100 * g->efficiency * g->efficiency_sd, 1e6 * g->overhead,
                 1e6 * g->overhead * g->overhead_sd, 100 * g->residual);
    }
    text_add(out, "%-14s %-22s %-9s %4s %7.1f %% +- %4.1f %8.2f us +- %4.1f\n", "any",
             "(a device without runs)", "", "", 100 * c->pool.efficiency,
             100 * c->pool.efficiency * c->pool.efficiency_sd, 1e6 * c->pool.overhead[LAUNCH_GRAPH],
             1e6 * c->pool.overhead[LAUNCH_GRAPH] * c->pool.overhead_sd[LAUNCH_GRAPH]);
    text_add(out, "\n%d runs fitted, median error %.1f %%", c->rows, 100 * c->median_error);
    if (c->several)
        text_add(out, "; %d on several nodes left out", c->several);
    if (c->doubtful)
        text_add(out, "; %d in doubt left out", c->doubtful);
    text_add(out, "\n");
}

static double median_check(const struct software_fit *c)
{
    AUTOFREE double *error = base_alloc(c->checks, sizeof(*error));
    for (int32_t i = 0; i < c->checks; i++)
        error[i] = fabs(c->check[i].predicted / c->check[i].measured - 1);
    return base_median(error, c->checks);
}

static void print_checks(struct text *out, const struct software_fit *c, const char *family)
{
    text_add(out, "\npredicted from the data sheet, without any run of %s:\n", family);
    for (int32_t i = 0; i < c->checks; i++) {
        const struct software_fit_check *check = &c->check[i];
        text_add(out, "%-24s %-14s %-16s batch %4lld  %8.2f ms, measured %8.2f ms, %+6.1f %%\n",
                 check->run->file, check->run->software, check->run->device,
                 (long long)check->run->batch, 1e3 * check->predicted, 1e3 * check->measured,
                 100 * (check->predicted / check->measured - 1));
    }
    text_add(out, "%d runs, median error %.1f %%\n", c->checks, 100 * median_check(c));
}

static struct json *group_json(const struct software_fit_group *g)
{
    struct json *fit = json_new_object();
    json_put_text(fit, "software", g->software);
    json_put_text(fit, "device", g->device);
    json_put_text(fit, "fusion", g->fusion);
    json_put_integer(fit, "runs", g->rows);
    json_put_real(fit, "efficiency", g->efficiency);
    json_put_real(fit, "efficiency_sd", g->efficiency_sd);
    json_put_real(fit, "kernel_overhead_s", g->overhead);
    json_put_real(fit, "overhead_sd", g->overhead_sd);
    json_put_real(fit, "correlation", g->correlation);
    json_put_real(fit, "residual", g->residual);
    return fit;
}

static struct json *pool_json(const struct software_fit_pool *pool)
{
    struct json *rest = json_new_object();
    json_put_real(rest, "efficiency", pool->efficiency);
    json_put_real(rest, "efficiency_sd", pool->efficiency_sd);
    json_put_real(rest, "kernel_overhead_s", pool->overhead[LAUNCH_GRAPH]);
    json_put_real(rest, "overhead_sd", pool->overhead_sd[LAUNCH_GRAPH]);
    return rest;
}

static struct json *check_json(const struct software_fit_check *check)
{
    struct json *row = json_new_object();
    json_put_text(row, "job", check->run->file);
    json_put_text(row, "software", check->run->software);
    json_put_text(row, "device", check->run->device);
    json_put_integer(row, "batch_per_device", check->run->batch);
    json_put_real(row, "predicted_s", check->predicted);
    json_put_real(row, "measured_s", check->measured);
    json_put_real(row, "error", check->predicted / check->measured - 1);
    return row;
}

static struct json *startup_json(const struct software_fit *c)
{
    struct json *all = json_new_object();
    struct software_fit_startup startup;
    for (int32_t i = 0; i < c->softwares; i++)
        if (software_fit_startup(c, c->software[i], &startup))
            json_put_real(all, c->software[i], startup.seconds);
    return all;
}

static void print_json(struct text *out, const struct software_fit *c, bool written)
{
    struct json *json = json_new_object(), *fits = json_new_array(), *checks = json_new_array();
    for (int32_t i = 0; i < c->groups; i++)
        json_append(fits, group_json(&c->group[i]));
    for (int32_t i = 0; i < c->checks; i++)
        json_append(checks, check_json(&c->check[i]));
    json_put_text(json, "schema", "foretrain/calibration/2");
    json_put(json, "fits", fits);
    json_put(json, "fallback", pool_json(&c->pool));
    json_put(json, "startup_s", startup_json(c));
    json_put_integer(json, "runs", c->rows);
    json_put_integer(json, "left_out_several_nodes", c->several);
    json_put_integer(json, "left_out_in_doubt", c->doubtful);
    json_put_real(json, "median_error", c->median_error);
    json_put_real(json, "residual", c->residual);
    json_put(json, "checks", checks);
    json_put_integer(json, "profiles_written", written ? c->softwares : 0);
    json_print(out, json);
    json_free(json);
}

static int write_profile(const struct software_fit *c, const char *software, const char *path,
                         struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    software_fit_profile(&text, c, software);
    return file_write(path, &text, NULL, err);
}

/* Every file is looked at before the first is written. */
static int write_profiles(const struct software_fit *c, const struct calibrate_request *request,
                          struct err *err)
{
    const char *directory = request->to;
    if (mkdir(directory, 0777) && errno != EEXIST)
        return err_add_code(err, 73, "cannot create %s: %s", directory, strerror(errno));
    int failed = 0;
    for (int32_t i = 0; i < c->softwares; i++)
        if (strchr(c->software[i], '/'))
            failed = err_add(err, "software '%s' cannot be the name of a file", c->software[i]);
    for (int32_t i = 0; i < 2 * c->softwares && !failed; i++) {
        const char *software = c->software[i % c->softwares];
        AUTOFREE char *path = base_format("%s/%s.yaml", directory, software);
        if (i >= c->softwares)
            failed = write_profile(c, software, path, err);
        else if (!request->overwrite)
            failed = file_check_own(path, SOFTWARE_FIT_PROFILE, err);
    }
    return failed;
}

static void print_people(struct text *out, const struct software_fit *c,
                         const struct calibrate_request *request)
{
    print_fits(out, c);
    if (c->checks)
        print_checks(out, c, request->without);
    if (request->to)
        text_add(out, "%d profiles written to %s\n", c->softwares, request->to);
}

static int answer(const struct calibrate_request *request, const struct runs *runs,
                  struct text *out, struct err *err)
{
    AUTORELEASE(software_fit) struct software_fit c = {0};
    if (software_fit_make(&c, runs, request->without, err))
        return -1;
    int failed =
        request->without && !c.checks
            ? err_add_code(err, 64, "--without: there is no run on one node of family '%s'",
                           request->without)
            : 0;
    if (!failed && request->to)
        failed = write_profiles(&c, request, err);
    if (!failed && request->head.json)
        print_json(out, &c, request->to != NULL);
    else if (!failed)
        print_people(out, &c, request);
    return failed;
}

/* --- this machine --- */

static int check_options(const struct calibrate_request *request, struct err *err)
{
    int32_t repeats = request->machine.repeats;
    if (repeats < STEPS_REPEATS_LEAST || repeats > REPEATS_MOST)
        return err_add_code(err, 64, "--repeats: expected %d to %d", STEPS_REPEATS_LEAST,
                            REPEATS_MOST);
    if (request->machine.compute.device == DEVICE_REPLAY)
        return err_add_code(err, 64, "--device replay computes nothing to measure");
    if (!request->budget)
        return err_add_code(err, 64, "--budget: must be at least 1 s");
    return 0;
}

/* Defaults of the measurement: shapes of several kinds, each at three batches, in about a minute on
 * one core. */
static struct calibrate_request complete(const struct calibrate_request *request)
{
    struct calibrate_request whole = *request;
    whole.exchange.repeats = whole.machine.repeats;
    if (whole.budget < 0)
        whole.budget = CALIBRATE_BUDGET;
    if (!whole.machine.networks)
        whole.machine.networks = "resnet20,resnet18@64";
    if (!whole.machine.batches)
        whole.machine.batches = "4,16,64";
    if (!whole.machine.compute.threads)
        whole.machine.compute.threads = 1;
    return whole;
}

static int measure(const struct calibrate_request *request, bool cluster, struct text *out,
                   struct err *err)
{
    if (check_options(request, err))
        return -1;
    struct calibrate_request whole = complete(request);
    whole.cluster = cluster;
    struct measure_list list = {0};
    int failed = measure_list_read(&list, whole.machine.networks, whole.machine.batches, err);
    measure_list_release(&list);
    if (failed)
        return -1;
    return cluster ? calibrate_cluster(&whole, out, err) : calibrate_device(&whole, out, err);
}

static int run_device(const void *record, struct text *out, struct err *err)
{
    const struct calibrate_request *request = record;
    if (!request->from)
        return measure(request, false, out, err);
    AUTORELEASE(runs) struct runs runs = {0};
    if (claim_input_all(request->from, err) || runs_read(&runs, request->from, err))
        return -1;
    return answer(request, &runs, out, err);
}

static int run_cluster(const void *record, struct text *out, struct err *err)
{
    return measure(record, true, out, err);
}

#define AT(member) offsetof(struct calibrate_request, member)

/* What both measure, and for how long. */
#define ROWS_MACHINE                                                                               \
    OPTION_ROW("out", 'o', OPTION_OUTPUT, AT(directory), "FILE.yaml", NULL,                        \
               "Write what was measured as a device or platform"),                                 \
        ROW_NETWORKS(AT(machine.networks)), ROW_BATCHES(AT(machine.batches)),                      \
        OPTION_ROW("threads", 0, OPTION_INTEGER, AT(machine.compute.threads), "N", NULL,           \
                   "Threads per rank (default: 1)"),                                               \
        ROW_DEVICE(AT(machine.compute.device)), ROW_DTYPE(AT(machine.dtype)),                      \
        ROW_REPEATS(AT(machine.repeats)),                                                          \
        OPTION_ROW("budget", 0, OPTION_INTEGER, AT(budget), "SECONDS", NULL,                       \
                   "Time to measure for; what it leaves open is written as a spread (default: "    \
                   "120)"),                                                                        \
        OPTION_ROW("strict", 0, OPTION_FLAG, AT(strict),                                           \
                   .help = "Refuse what other processes disturbed, instead of a wide spread"),     \
        ROW_JSON

static const struct option device_options[] = {
    ROWS_MACHINE,
    OPTION_ROW("from", 'f', OPTION_TEXT, AT(from), "DIR", NULL,
               "Measure nothing: fit to jobs that ran, which say measured.step",
               .bars = "out|networks|batch|threads|device|precision|repeats|budget|strict"),
    OPTION_ROW("to", 0, OPTION_FOLDER, AT(to), "DIR", NULL, "Write a profile per software to DIR",
               "from", .holds = "*.yaml"),
    OPTION_ROW("without", 0, OPTION_TEXT, AT(without), "FAMILY", NULL,
               "Predict the runs of that device family instead of fitting to them", "from"),
    ROW_REPLACE(AT(overwrite), "out|to"),
    ROW_LAST};

static const struct option cluster_options[] = {
    ROWS_MACHINE,
    OPTION_ROW("ranks", 'n', OPTION_INTEGER, AT(machine.compute.started), "N", NULL,
               "Ranks of the cluster (default: as many as have cores of their own)"),
    OPTION_ROW("oversubscribe", 0, OPTION_FLAG, AT(oversubscribe),
               .help = "Ranks may be more than the cores, which they then share by turns"),
    OPTION_ROW("bytes", 0, OPTION_TEXT, AT(bytes), "SIZES", NULL,
               "Messages to time: 1MB,4MB or a range 1KiB..4MiB:x4 (the default)"),
    ROW_GRADIENTS(AT(exchange.gradients)),
    OPTION_ROW("platform-device", 0, OPTION_TEXT, AT(device), "DEVICE", NULL,
               "Of the cluster's file: the device, by name or path (default: measured too)"),
    ROW_REPLACE(AT(overwrite), "out"),
    ROW_LAST};

static const struct calibrate_request defaults = {.machine = {.repeats = REQUEST_REPEATS},
                                                  .budget = -1};

static const struct command calibrate_device_command = {
    .name = "device",
    .synopsis = "[options]",
    .help = "measure this machine's device, or fit how fast devices compute to runs on one node",
    .examples = "foretrain calibrate device -o my-cpu.yaml\n"
                "foretrain calibrate device --from jobs\n"
                "foretrain calibrate device --from jobs --to profiles    (for cluster.software)\n"
                "foretrain calibrate device --from jobs --without H100   (predict it instead)",
    RECORD(device_options, struct calibrate_request, &defaults),
    ANSWERS(&machine_device_columns),
    .run = run_device,
};
static const struct command calibrate_cluster_command = {
    .name = "cluster",
    .synopsis = "[options]",
    .help = "measure how ranks on this machine compute, exchange and disturb each other",
    .examples =
        "foretrain calibrate cluster -n 2 -o my-machine.yaml --platform-device ./my-cpu.yaml",
    RECORD(cluster_options, struct calibrate_request, &defaults),
    ANSWERS(&machine_cluster_columns),
    .run = run_cluster,
};

static const struct command *const kinds[] = {&calibrate_device_command, &calibrate_cluster_command,
                                              NULL};

const struct command command_calibrate = {
    .name = "calibrate",
    .help = "measure this machine, or fit how fast devices compute to runs on one node",
    .sub = kinds,
};
