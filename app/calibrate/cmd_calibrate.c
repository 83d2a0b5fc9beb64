#include "app/calibrate/calibrate_machine.h"
#include "app/cli/command.h"
#include "app/cli/measure_list.h"

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

/* By default shapes of several kinds, each at three batches, in about a minute on one core. */
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
    return measure(record, false, out, err);
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

static const struct option device_options[] = {ROWS_MACHINE, ROW_REPLACE(AT(overwrite), "out"),
                                               ROW_LAST};

static const struct option cluster_options[] = {
    ROWS_MACHINE,
    OPTION_ROW("ranks", 'n', OPTION_INTEGER, AT(machine.compute.started), "N", NULL,
               "Ranks of the cluster (default: as many as have cores of their own)"),
    OPTION_ROW("oversubscribe", 0, OPTION_FLAG, AT(oversubscribe),
               .help = "Allow more ranks than cores"),
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
    .help = "measure how fast this machine's device computes",
    .examples = "foretrain calibrate device -o my-cpu.yaml",
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
    .help = "measure this machine",
    .sub = kinds,
};
