#include "app/calibrate/calibrate_machine.h"
#include "app/cli/command.h"

static int check_options(const struct calibrate_request *request, struct err *err)
{
    int32_t repeats = request->machine.repeats;
    if (repeats < STEPS_REPEATS_LEAST || repeats > REPEATS_MOST)
        return err_usage(err, "--repeats: expected %d to %d", STEPS_REPEATS_LEAST, REPEATS_MOST);
    if (request->machine.compute.device == DEVICE_REPLAY)
        return err_usage(err, "--device replay computes nothing to measure");
    return 0;
}

static int measure(const void *record, struct text *out, struct err *err)
{
    if (check_options(record, err))
        return -1;
    struct calibrate_request whole = *(const struct calibrate_request *)record;
    whole.exchange.repeats = whole.machine.repeats;
    AUTORELEASE(measure_list) struct measure_list list = {0};
    whole.list = &list;
    if (measure_list_read(&list, whole.machine.networks, whole.machine.batches, err))
        return -1;
    return (whole.cluster ? calibrate_cluster : calibrate_device)(&whole, out, err);
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

/* Shapes of several kinds, each at three batches, in about a minute on one core. */
#define DEFAULTS                                                                                   \
    .budget = CALIBRATE_BUDGET, .machine = {.networks = "resnet20,resnet18@64",                    \
                                            .batches = "4,16,64",                                  \
                                            .compute.threads = 1,                                  \
                                            .repeats = REQUEST_REPEATS}

static const struct calibrate_request device_defaults = {DEFAULTS};
static const struct calibrate_request kernels_defaults = {DEFAULTS, .kernels = true};
static const struct calibrate_request cluster_defaults = {DEFAULTS, .cluster = true,
                                                          .bytes = "1KiB..4MiB:x4"};

static const struct command calibrate_device_command = {
    .name = "device",
    .synopsis = "[options]",
    .help = "measure how fast this machine's device computes",
    .examples = "foretrain calibrate device -o my-cpu.yaml",
    RECORD(device_options, struct calibrate_request, &device_defaults),
    ANSWERS(&machine_device_columns),
    .run = measure,
};
static const struct command calibrate_kernels_command = {
    .name = "kernels",
    .synopsis = "[options]",
    .help = "measure each shape of kernels on this machine's device",
    .examples = "foretrain calibrate kernels --networks transformer:layers=1:hidden=512:heads=8:"
                "vocab=4096:sequence=128 --batch 1,4,16",
    RECORD(device_options, struct calibrate_request, &kernels_defaults),
    ANSWERS(&machine_device_columns),
    .run = measure,
};
static const struct command calibrate_cluster_command = {
    .name = "cluster",
    .synopsis = "[options]",
    .help = "measure how ranks on this machine compute, exchange and disturb each other",
    .examples =
        "foretrain calibrate cluster -n 2 -o my-machine.yaml --platform-device ./my-cpu.yaml",
    RECORD(cluster_options, struct calibrate_request, &cluster_defaults),
    ANSWERS(&machine_cluster_columns),
    .run = measure,
};

static const struct command *const kinds[] = {&calibrate_device_command, &calibrate_kernels_command,
                                              &calibrate_cluster_command, NULL};

const struct command command_calibrate = {
    .name = "calibrate",
    .help = "measure this machine",
    .sub = kinds,
};
