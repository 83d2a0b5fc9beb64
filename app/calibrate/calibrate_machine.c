#include "app/calibrate/calibrate_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/process/cores.h"
#include "app/process/launch.h"
#include "core/base/file.h"

/* "AMD EPYC", the processor's own name; the caller frees it. */
static char *processor_name(void)
{
    char line[256], *name = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !name && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        name = base_copy(colon + 1 + strspn(colon + 1, " "));
    }
    if (file)
        fclose(file);
    return name ? name : base_copy("a processor");
}

/* The texts of the file.  Owned. */
struct words {
    char *name, *description, *source, *memory_source;
    double memory;
    int32_t compute_capability;
};

static void release_words(struct words *words)
{
    free(words->name);
    free(words->description);
    free(words->source);
    free(words->memory_source);
}

/* The output of nvidia-smi for the first GPU; "" if it fails, without a message. */
static struct text ask_driver(struct err *err)
{
    AUTORELEASE(launch) struct launch launch = {.output = launch_file(err)};
    launch.talk = launch.output < 0 ? -1 : launch_file(err);
    struct text told = {0};
    launch_add(&launch, "nvidia-smi");
    launch_add(&launch, "--query-gpu=name,memory.total,compute_cap");
    launch_add(&launch, "--format=csv,noheader,nounits");
    launch_add(&launch, "--id=0");
    if (launch.talk >= 0 && launch_run(&launch, err) == 0)
        told = launch_read(launch.output);
    if (launch.output >= 0)
        close(launch.output);
    if (launch.talk >= 0)
        close(launch.talk);
    return told;
}

static int describe_gpu(struct words *words, struct err *err)
{
    char name[128] = "";
    double mebibytes = 0;
    int major = 0, minor = 0;
    AUTORELEASE(text) struct text told = ask_driver(err);
    int found =
        told.data ? sscanf(told.data, "%127[^,], %lf, %d.%d", name, &mebibytes, &major, &minor) : 0;
    if (err->count)
        return -1;
    if (found != 4 || !(mebibytes > 0))
        return err_add_code(err, 69,
                            "nvidia-smi does not name the GPU; it comes with the driver, and must "
                            "be in $PATH");
    words->description = base_format("%s", name);
    words->memory = mebibytes * 1048576;
    words->memory_source = base_copy("nvidia-smi, memory.total");
    words->compute_capability = 10 * major + minor;
    return 0;
}

int calibrate_check_gpu(const struct calibrate_request *request, struct err *err)
{
    struct words words = {0};
    int failed = request->machine.compute.device == DEVICE_CUDA && describe_gpu(&words, err);
    release_words(&words);
    return failed ? -1 : 0;
}

static void describe_processor(struct words *words, const struct machine *machine,
                               const struct calibrate_request *request)
{
    AUTOFREE char *processor = processor_name();
    int64_t room = cores_available() / machine->threads;
    int64_t ranks =
        request->machine.compute.started > room ? request->machine.compute.started : room;
    words->description = base_format("%d thread%s of %s", machine->threads,
                                     machine->threads == 1 ? "" : "s", processor);
    words->memory =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / fmax(1, (double)ranks);
    words->memory_source = base_format("what the kernel has of physical memory, shared by %lld "
                                       "ranks of %d threads",
                                       (long long)(ranks > 1 ? ranks : 1), machine->threads);
}

static int find_words(struct words *words, const struct machine *machine,
                      const struct calibrate_request *request, struct err *err)
{
    words->name = request->directory ? request_yaml_name("--out", request->directory, err)
                                     : base_copy("here");
    if (!words->name)
        return -1;
    AUTOFREE char *command = calibrate_command(request);
    AUTOFREE char *what = base_format("%s, quickest of %d rounds", command, machine->rounds);
    words->source = calibrate_source(what);
    if (request->machine.compute.device == DEVICE_CUDA)
        return describe_gpu(words, err);
    describe_processor(words, machine, request);
    return 0;
}

/* --- the answer --- */

static void print_copies(struct text *out, const struct machine *machine)
{
    for (int32_t i = 0; i < machine->copies; i++)
        text_add(out, "%s%s%s %.3g GB/s", i ? ", of " : "\na copy of ",
                 unit_text(UNIT_BYTES, (double)machine->copy[i].bytes),
                 i ? "" : " reads and writes", 1e-9 * device_copy_speed(&machine->copy[i]));
}

static void print_people(struct text *out, const struct device_fit *fit,
                         const struct machine *machine)
{
    text_add(out, "%-15s %-13s %-5s %6s %19s %9s\n", "steps", "layer", "type", "shapes",
             "efficiency", "residual");
    for (int32_t i = 0; i < fit->classes; i++) {
        const struct device_fit_class *class = &fit->class[i];
        text_add(out, "%-15s %-13s %-5s %6d %9.2f %% +- %3.0f %% %7.1f %%\n",
                 compute_op_names[class->op], layer_op_names[class->layer],
                 dtype_names[class->dtype], class->rows, 100 * class->efficiency,
                 100 * class->efficiency_sd, 100 * class->residual);
    }
    text_add(
        out,
        "\na kernel costs %.3g us +- %.0f %%, and an iteration %.3g us; the fastest step moved "
        "%.3g GB/s",
        1e6 * fit->overhead, 100 * fit->overhead_sd, 1e6 * fit->between, 1e-9 * fit->moved);
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (fit->peak[d] > 0)
            text_add(out, ", computed %.4g GFLOP/s in %s", 1e-9 * fit->peak[d], dtype_names[d]);
    print_copies(out, machine);
    text_add(out, "\n\n%-12s %5s %5s %12s %22s\n", "network", "size", "batch", "iteration",
             "by the classes alone");
    for (int32_t i = 0; i < machine->trials; i++) {
        const struct machine_trial *trial = &machine->trial[i];
        double alone = device_fit_trial(fit, trial);
        text_add(out, "%-12s %5d %5lld %9.2f ms %9.2f ms, %+5.1f %%\n", trial->network,
                 trial->image, (long long)trial->batch, 1e3 * trial->time_s, 1e3 * alone,
                 100 * (alone / trial->time_s - 1));
    }
    if (machine->rounds > 1)
        text_add(out, "\nquickest of %d rounds, the next %.1f %% apart at most", machine->rounds,
                 100 * machine->apart);
    else
        text_add(out, "\none round: no spread known");
    text_add(out, "; meanwhile other processes had %.0f %% of the processors, the host %.0f %%\n",
             100 * machine->share.foreign, 100 * machine->share.steal);
}

struct shown_trial {
    const struct machine_trial *trial;
    double by_classes;
};

struct shown_device {
    const char *device, *written;
    const struct machine *machine;
    const struct device_fit *fit;
    double spread;
    struct shown_trial *trial; /* (trials) owned */
    int32_t trials;
};

#define DESCRIBED struct machine_copy
static const struct answer_column copy_rows[] = {
    COLUMN("bytes", bytes, .help = "that were copied"),
    COLUMN("time_s", time_s, .help = "in the quickest round"),
};
static const struct answer_columns copy_columns = COLUMNS(NULL, copy_rows);
#undef DESCRIBED

#define DESCRIBED struct machine
static const struct answer_column machine_rows[] = {
    COLUMN("threads", threads, .help = "threads of a rank"),
    COLUMN("rounds", rounds, .help = "rounds of all networks and batches"),
    COLUMN("apart", apart, .null = true,
           .help = "how far the two fastest rounds are apart; null: one round"),
    COLUMN("steal", share.steal, .help = "part of the processors that the host had meanwhile"),
    COLUMN("foreign", share.foreign, .help = "part that other processes had meanwhile"),
    COLUMN_ITEMS("copies", copy, copies, .table = &copy_columns),
};
static const struct answer_columns machine_columns = COLUMNS(NULL, machine_rows);
#undef DESCRIBED

#define DESCRIBED struct device_fit_class
static const struct answer_column class_rows[] = {
    COLUMN("op", op, .words = compute_op_names, .help = "kind of compute"),
    COLUMN("layer", layer, .words = layer_op_names, .help = "kind of layer"),
    COLUMN("dtype", dtype, .words = dtype_names, .help = "type of the arithmetic"),
    COLUMN("efficiency", efficiency, .help = "part of the roofline that such steps reach"),
    COLUMN("efficiency_sd", efficiency_sd, .null = true, .help = "relative standard deviation"),
    COLUMN("residual", residual, .null = true, .help = "of a step's time about the fit"),
    COLUMN("shapes", rows, .help = "shapes that were measured"),
};
static const struct answer_columns class_columns = COLUMNS(NULL, class_rows);
#undef DESCRIBED

#define DESCRIBED struct device_fit
static const struct answer_column fit_rows[] = {
    COLUMN("kernel_overhead_s", overhead, .help = "time of a kernel beside its work"),
    COLUMN("kernel_overhead_sd", overhead_sd, .null = true, .help = "of its logarithm"),
    COLUMN("iteration_overhead_s", between, .help = "from an iteration to the next"),
    COLUMN("memory_bandwidth", bandwidth, .help = "bytes per second"),
    COLUMN("steps", rows, .help = "steps of different shapes that were measured"),
    COLUMN_ITEMS("classes", class, classes, .table = &class_columns),
};
static const struct answer_columns fit_columns = COLUMNS(NULL, fit_rows);
#undef DESCRIBED

#define DESCRIBED struct machine_trial
static const struct answer_column trial_rows[] = {
    COLUMN("network", network, .help = "that was trained"),
    COLUMN("image", image, .help = "side of an image, in pixels"),
    COLUMN("batch", batch, .help = "images of a step"),
    COLUMN("time_s", time_s, .help = "of an iteration, in the fastest round"),
    COLUMN("wall_s", wall_s, .help = "of it by the clock"),
    COLUMN("input_s", input_s, .help = "of its input step"),
};
static const struct answer_columns trial_columns = COLUMNS(NULL, trial_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_trial
static const struct answer_column shown_trial_rows[] = {
    COLUMN_MEMBERS(trial, &trial_columns),
    COLUMN("by_classes_s", by_classes, .help = "time of an iteration by the fit alone"),
};
static const struct answer_columns shown_trial_columns = COLUMNS(NULL, shown_trial_rows);
#undef DESCRIBED

#define DESCRIBED struct shown_device
static const struct answer_column device_rows[] = {
    COLUMN("device", device, .help = "cpu, cpu-naive or cuda"),
    COLUMN_MEMBERS(machine, &machine_columns),
    COLUMN("spread", spread, .help = "relative standard deviation of times between rounds"),
    COLUMN_MEMBERS(fit, &fit_columns),
    COLUMN_ITEMS("trials", trial, trials, .table = &shown_trial_columns),
    COLUMN("written", written, .null = true, .help = "the device file; null: none"),
};
const struct answer_columns machine_device_columns = COLUMNS("machine-device/1", device_rows);
#undef DESCRIBED

static void print_json(struct text *out, const struct device_fit *fit,
                       const struct machine *machine, const struct calibrate_request *request)
{
    AUTOFREE struct shown_trial *trial = base_alloc(machine->trials, sizeof(*trial));
    for (int32_t i = 0; i < machine->trials; i++)
        trial[i] =
            (struct shown_trial){&machine->trial[i], device_fit_trial(fit, &machine->trial[i])};
    answer_print(out, &machine_device_columns,
                 &(struct shown_device){device_words[request->machine.compute.device],
                                        request->directory, machine, fit, machine_spread(machine),
                                        trial, machine->trials});
}

/* --- the whole --- */

static int check_device(const char *path, struct err *err)
{
    AUTORELEASE(device) struct device device = {0};
    return device_read(&device, path, err);
}

static int write_device(const struct device_fit *fit, const struct machine *machine,
                        const struct calibrate_request *request, double spread, struct err *err)
{
    struct words words = {0};
    int failed = find_words(&words, machine, request, err);
    if (!failed && request->directory) {
        AUTORELEASE(text) struct text text = {0};
        struct device_text said = {words.name,   words.description,   words.source,
                                   words.memory, words.memory_source, words.compute_capability,
                                   spread};
        device_fit_write(&text, fit, machine, &said);
        failed = file_write(request->directory, &text, check_device, err);
    }
    release_words(&words);
    return failed;
}

int calibrate_device_of(const struct machine *machine, const struct calibrate_request *request,
                        double spread, struct text *out, struct err *err)
{
    AUTORELEASE(device_fit) struct device_fit fit = {0};
    int failed =
        device_fit_make(&fit, machine, err) || write_device(&fit, machine, request, spread, err);
    if (!failed && request->head.json)
        print_json(out, &fit, machine, request);
    else if (!failed) {
        print_people(out, &fit, machine);
        if (request->directory)
            text_add(out, "%d measured steps written to %s\n", fit.rows, request->directory);
    }
    return failed ? -1 : 0;
}

int calibrate_device(const struct calibrate_request *request, struct text *out, struct err *err)
{
    AUTORELEASE(machine) struct machine machine = {0};
    AUTOFREE char *name =
        request->directory ? request_yaml_name("--out", request->directory, err) : NULL;
    int failed =
        request->directory && (!name || calibrate_check_file(request->directory, request, err));
    failed = failed || calibrate_check_gpu(request, err);
    struct budget budget = budget_open(request->budget, request->strict);
    budget_part(&budget, "steps of training", 1);
    failed = failed || machine_measure(&machine, &request->machine, &budget, err);
    budget_close(&budget);
    failed = failed || calibrate_device_of(&machine, request, machine_spread(&machine), out, err);
    return failed ? -1 : 0;
}
