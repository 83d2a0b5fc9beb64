#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/cli/command.h"
#include "app/job/job.h"
#include "app/new/new.h"
#include "core/base/file.h"

char *new_name(const struct new_request *request)
{
    if (!request->to)
        return base_copy("mine");
    const char *slash = strrchr(request->to, '/'), *name = slash ? slash + 1 : request->to;
    const char *dot = strrchr(name, '.');
    return base_format("%.*s", (int)(dot && dot > name ? (size_t)(dot - name) : strlen(name)),
                       name);
}

char *new_reference(const struct new_request *request, const char *name)
{
    bool elsewhere = request->to && strchr(request->to, '/');
    char *whole = elsewhere && strpbrk(name, "/.") ? realpath(name, NULL) : NULL;
    return whole ? whole : base_copy(name);
}

static int check_platform(const char *path, struct err *err)
{
    struct platform *platform = platform_read(path, err);
    platform_free(platform);
    return platform ? 0 : -1;
}

static int check_device(const char *path, struct err *err)
{
    struct device device = {0};
    int failed = device_read(&device, path, err);
    device_release(&device);
    return failed;
}

static int check_job(const char *path, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    return job_open(&job, NULL, path, NULL, 0, &draw_centre, &(struct wish){0}, err);
}

static int deliver(const struct new_request *request, struct text *text, const char *next,
                   int (*check)(const char *path, struct err *err), struct text *out,
                   struct err *err)
{
    if (!request->to) {
        text_append(out, text->data, text->length);
        return 0;
    }
    if (!request->overwrite && access(request->to, F_OK) == 0)
        return err_add_code(err, 73, "%s exists already; --overwrite replaces it", request->to);
    if (file_write(request->to, text, check, err))
        return -1;
    text_add(out, "written: %s\nnext: foretrain %s %s\n", request->to, next, request->to);
    return 0;
}

static int run_device(const void *record, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    int failed = new_device(record, &text, err) ||
                 deliver(record, &text, "show device", check_device, out, err);
    return failed ? -1 : 0;
}

static int run_platform(const void *record, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    int failed = new_platform(record, &text, err) ||
                 deliver(record, &text, "show platform", check_platform, out, err);
    return failed ? -1 : 0;
}

static int run_job(const void *record, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    int failed =
        new_job(record, &text, err) || deliver(record, &text, "predict", check_job, out, err);
    return failed ? -1 : 0;
}

#define AT(member) offsetof(struct new_request, member)
#define ROW_TO                                                                                     \
    OPTION_ROW("to", 0, OPTION_OUTPUT, AT(to), "FILE.yaml", NULL,                                  \
               "The file to write (default: standard output)")
#define ROW_OVERWRITE                                                                              \
    OPTION_ROW("overwrite", 0, OPTION_FLAG, AT(overwrite),                                         \
               .help = "Replace the file if it exists", .needs = "to")
#define ROW_COUNT                                                                                  \
    OPTION_ROW("nodes", 'n', OPTION_INTEGER, AT(nodes), "N", NULL, "How many there are")

#define ROW_INSIDE(missing)                                                                        \
    OPTION_ROW("inside", 0, OPTION_TEXT, AT(inside), "KIND:RATE", NULL,                            \
               "What joins the devices of a node, one way: nvlink:900GB/s, xgmi:64GB/s@mesh, "     \
               "pcie5" missing)

static const struct option device_options[] = {
    OPTION_ROW("peak", 0, OPTION_TEXTS, AT(peak), "TYPE=RATE", NULL,
               "FLOP/s of fp32, fp16 or bf16 without sparsity: bf16=2250T; may be repeated"),
    OPTION_ROW("memory", 0, OPTION_TEXT, AT(memory), "SIZE@RATE", NULL,
               "Size and bandwidth of its memory: 180GB@8TB/s"),
    OPTION_ROW("nvlink", 0, OPTION_TEXT, AT(nvlink), "RATE", NULL,
               "Of NVLink one way, half of what data sheets say: 900GB/s", .bars = "inside"),
    ROW_INSIDE(),
    OPTION_ROW("pcie", 0, OPTION_INTEGER, AT(pcie), "N", NULL,
               "Generation of its PCI Express slot of 16 lanes"),
    OPTION_ROW("compute-capability", 0, OPTION_INTEGER, AT(capability), "N", NULL,
               "Of CUDA, 10 * major + minor: 100 (default: by the rate of NVLink)"),
    ROW_TO,
    ROW_OVERWRITE,
    ROW_LAST};

static const struct option platform_options[] = {
    ROW_COUNT,
    OPTION_ROW("gpus", 0, OPTION_TEXT, AT(gpus), "NxNAME", NULL,
               "Devices of a node, by a name of 'foretrain list devices' or a file: 8xh100"),
    OPTION_ROW("nics", 0, OPTION_TEXT, AT(nics), "NxRATE", NULL,
               "Network cards of a node: 8x400Gb/s"),
    ROW_INSIDE(" (default: as the device file says)"),
    OPTION_ROW("fabric", 0, OPTION_TEXT, AT(fabric), "KIND", NULL,
               "What the network is: infiniband, roce, efa, slingshot, omni-path or tcp (default: "
               "infiniband; below 56 Gb/s tcp)"),
    OPTION_ROW("leaves", 0, OPTION_INTEGER, AT(leaves), "N", NULL,
               "Leaf switches that share the nodes evenly (default: only the cards limit)"),
    OPTION_ROW("uplinks", 0, OPTION_INTEGER, AT(uplinks), "N", NULL,
               "Cables from each leaf to the spines, each as fast as a card (default: as many as "
               "cards)",
               "leaves"),
    ROW_TO,
    ROW_OVERWRITE,
    ROW_LAST};

static const struct option job_options[] = {
    ROW_PLATFORM(AT(platform)),
    ROW_COUNT,
    OPTION_ROW("network", 0, OPTION_TEXT, AT(network), "NAME", NULL,
               "One of 'foretrain list networks' (default: resnet50), or a file: ./mine.yaml"),
    OPTION_ROW("batch", 0, OPTION_INTEGER, AT(batch), "N", NULL,
               "Images per device and step (default: 32)"),
    OPTION_ROW("target", 0, OPTION_TEXT, AT(target), "ACCURACY", NULL,
               "End at this accuracy instead of after 90 epochs: 75.9 %"),
    OPTION_ROW(
        "software", 0, OPTION_TEXT, AT(software), "NAME", NULL,
        "One of 'foretrain list software' (default, for GPUs: one of MLPerf's newest with runs "
        "on the device, and PyTorch)"),
    OPTION_ROW("shared", 0, OPTION_FLAG, AT(shared),
               .help = "Other jobs are there, too: its nodes may be anywhere"),
    ROW_TO,
    ROW_OVERWRITE,
    ROW_LAST};

static const struct new_request defaults = {.network = "resnet50", .batch = 32};

static const struct command new_device_command = {
    .name = "device",
    .synopsis = "NAME --peak TYPE=RATE --memory SIZE@RATE [options]",
    .help = "a device file from the numbers of a data sheet",
    .examples = "foretrain new device b200 --peak bf16=2250T --memory 180GB@8TB/s --nvlink "
                "900GB/s --pcie 5 --to b200.yaml\n"
                "foretrain new platform --nodes 16 --gpus 8x./b200.yaml --nics 8x400Gb/s --to "
                "mine.yaml",
    RECORD(device_options, struct new_request, &defaults),
    TAKES(1, 1),
    .run = run_device,
};
static const struct command new_platform_command = {
    .name = "platform",
    .synopsis = "--nodes N --gpus NxNAME [--nics NxRATE] [options]",
    .help = "a platform file from a few numbers; what they leave open is assumed, and says so",
    .examples = "foretrain new platform --nodes 16 --gpus 8xh100 --nics 8x400Gb/s --leaves 4 "
                "--uplinks 16 --to mine.yaml",
    RECORD(platform_options, struct new_request, &defaults),
    .run = run_platform,
};
static const struct command new_job_command = {
    .name = "job",
    .synopsis = "--platform NAME --nodes N [options]",
    .help = "a job file for a platform",
    .examples = "foretrain new job --platform ./mine.yaml --nodes 16 --to job.yaml\n"
                "foretrain new job --platform dgx-h100 --nodes 16 --target 75.9% --to job.yaml\n"
                "foretrain new job --platform dgx-a100 --nodes 2 --software pytorch --to job.yaml",
    RECORD(job_options, struct new_request, &defaults),
    .run = run_job,
};

static const struct command *const kinds[] = {&new_device_command, &new_platform_command,
                                              &new_job_command, NULL};

const struct command command_new = {
    .name = "new",
    .help = "first drafts of a device, a platform and a job, to be completed by hand",
    .sub = kinds,
};
