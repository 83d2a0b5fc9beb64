#include "app/import/import_job.h"

#include "app/job/job.h"
#include "core/backend/analytic.h"
#include "core/backend/cost.h"
#include "core/base/file.h"
#include "core/config/field_write.h"
#include "core/platform/device_table.h"

/* A step as the profile has it or as it is predicted. */
struct side {
    double work[WORK_COUNT]; /* [s] */
    double exposed, gaps, step;
};

/* Of one kind, what the job's schedule asks for. */
struct demand {
    double roof;   /* at the full roofline [s] */
    double beside; /* kernels' overhead and batch norm's exchanges [s] */
    int32_t kernels;
};

/* --- prediction --- */

static struct work_sum add_up_trace(const struct trace *trace, const struct schedule *schedule)
{
    AUTOFREE struct work_span *span = base_alloc(trace->span_count, sizeof(*span));
    int64_t count = 0;
    for (int64_t i = 0; i < trace->span_count; i++)
        if (trace->span[i].rank == 0 && trace->span[i].iteration == trace->iterations - 1)
            span[count++] = (struct work_span){trace->span[i].begin, trace->span[i].end,
                                               work_of_step(&schedule->step[trace->span[i].step])};
    return work_add_up(span, count);
}

/* What is neither computation nor exposed communication. */
static void find_gaps(struct side *side)
{
    side->gaps = side->step - side->exposed;
    for (int32_t work = 0; work < WORK_COPY; work++)
        side->gaps -= side->work[work];
}

/* The time of a compute step in its kernels, as a profiler sees it. */
static double in_kernels(const struct run *run, const struct step *step)
{
    double overhead = step->compute.kernels * run->device->kernel_overhead.value;
    double beside = (1 + run->contention) * (cost_added(run->device, step) + overhead);
    return fmax(0, run_local_seconds(run, step) - beside);
}

/* A linear layer of a transformer is a convolution of a schedule, and none of a framework. */
static bool is_linear(const struct model *model, const struct step *step)
{
    return step->compute.layer >= 0 && layer_is_dense(&model->layer[step->compute.layer]);
}

static int predict(struct side *side, const struct job *job, const struct point *point, bool steps,
                   struct err *err)
{
    AUTORELEASE(trace) struct trace trace = {0};
    struct run run = point->run;
    run.noise = (struct noise){0};
    if (backend_analytic.run(&run, point->schedule, &trace, err))
        return -1;
    struct work_sum sum = add_up_trace(&trace, point->schedule);
    memcpy(side->work, sum.busy, sizeof(side->work));
    side->exposed = sum.exposed;
    side->step = trace_step_time(&trace);
    for (int32_t work = 0; work < WORK_COPY && !steps; work++)
        side->work[work] = 0;
    for (int32_t id = 0; id < point->schedule->step_count && !steps; id++) {
        const struct step *step = &point->schedule->step[id];
        if (step->kind == STEP_COMPUTE)
            side->work[is_linear(job->model, step) ? WORK_LINEAR : work_of_step(step)] +=
                in_kernels(&run, step);
    }
    find_gaps(side);
    return 0;
}

/* --- table --- */

/* Rounding leaves less than this, which would print with a sign. */
static double settled(double value)
{
    return fabs(value) < 1e-9 ? 0 : value;
}

static void add_row(struct import *import, const char *name, double measured, double predicted)
{
    struct text *table = &import->comparison;
    import->result.work[import->result.works++] = (struct import_work){name, measured, predicted};
    text_add(table, "%-26s %12.3f %15.3f", name, 1e3 * settled(measured), 1e3 * settled(predicted));
    if (settled(measured) > 0 && settled(predicted) > 0)
        text_add(table, " %+8.1f %%", 100 * settled(predicted / measured - 1));
    text_add(table, "\n");
}

static void tell(struct import *import, const struct side *measured, const struct side *predicted)
{
    text_add(&import->comparison, "%-26s %12s %15s %10s\n", "kind, a step", "profile [ms]",
             "predicted [ms]", "error");
    for (int32_t work = 0; work < WORK_COUNT; work++)
        if (measured->work[work] > 0 || predicted->work[work] > 0)
            add_row(import, work_names[work], measured->work[work], predicted->work[work]);
    add_row(import, "exposed communication", measured->exposed, predicted->exposed);
    add_row(import, "gaps between computation", measured->gaps, predicted->gaps);
    add_row(import, "step", measured->step, predicted->step);
}

/* --- device --- */

static double roof_of(const struct step *step, const struct device *device)
{
    return fmax((double)step->compute.flops / device->peak[step->compute.dtype].value,
                (double)step->compute.bytes / device->memory_bandwidth.value);
}

static struct demand demand_of(const struct schedule *schedule, const struct device *device,
                               enum work work)
{
    struct demand demand = {0};
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COMPUTE || (work < WORK_COUNT && work_of_step(step) != work))
            continue;
        demand.roof += roof_of(step, device);
        demand.beside +=
            cost_added(device, step) + step->compute.kernels * device->kernel_overhead.value;
        demand.kernels += step->compute.kernels;
    }
    return demand;
}

/* Whether a step before @id is of the same class. */
static bool told(const struct schedule *schedule, int32_t id)
{
    const struct step *step = &schedule->step[id];
    for (int32_t i = 0; i < id; i++) {
        const struct step *other = &schedule->step[i];
        if (other->kind == STEP_COMPUTE && other->compute.op == step->compute.op &&
            (other->compute.layer < 0) == (step->compute.layer < 0) &&
            (step->compute.layer < 0 || other->compute.layer_op == step->compute.layer_op) &&
            other->compute.dtype == step->compute.dtype)
            return true;
    }
    return false;
}

static void add_class(struct text *out, int32_t op, int32_t layer, int32_t dtype, double efficiency,
                      const char *source)
{
    text_add(out, "  - op: %s\n    layer: %s\n    dtype: %s\n", compute_op_names[op],
             layer_op_names[layer], dtype_names[dtype]);
    field_write_quantity(out, 4, "efficiency", PROVENANCE_MEASURED, 0, source, "%.5g", efficiency);
}

/* What earlier traces found, and how far off this one's step is with all of them. */
struct others {
    struct device device; /* of the file that they wrote; without a name: there are none */
    double miss;          /* relative to the step */
};

/* Traces count alike: the mean of logarithms of @own and of what @others have. */
static double join(const struct others *others, double own, double theirs)
{
    double n = fmax(1, others->device.profiles.count);
    return exp((n * log(theirs) + log(own)) / (n + 1));
}

static bool has_class(const struct schedule *schedule, const struct device *device,
                      const struct device_class *class)
{
    bool found = false;
    for (int32_t id = 0; id < schedule->step_count && !found; id++)
        found = schedule->step[id].kind == STEP_COMPUTE &&
                device_find_class(device, &schedule->step[id]) == class;
    return found;
}

/* Those that only other traces have. */
static void add_others(struct text *out, const struct schedule *schedule,
                       const struct device *device)
{
    const struct device_class *class = device->classes.item;
    for (int32_t i = 0; i < device->classes.count; i++)
        if (!has_class(schedule, device, &class[i]))
            add_class(out, class[i].op, class[i].layer, class[i].dtype, class[i].efficiency.value,
                      class[i].efficiency.source);
}

static int add_classes(struct text *out, const struct import *import, const struct point *point,
                       const struct side *measured, bool own, struct others *others,
                       struct err *err)
{
    const struct schedule *schedule = point->schedule;
    text_add(out, "classes:\n");
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COMPUTE)
            continue;
        enum work work = work_of_step(step);
        struct demand demand = demand_of(schedule, point->run.device, work);
        double seconds = measured->work[work] / (1 + point->run.contention);
        double efficiency = demand.roof / (seconds - (own ? demand.beside : 0));
        if (!(seconds > 0))
            continue;
        if (!(efficiency > 0 && efficiency <= 1))
            return err_add(err,
                           "%s: %s take %.4g ms of a step, less than %s can do them in: another "
                           "job, or another device?",
                           import->file, work_names[work], 1e3 * seconds, point->run.device->name);
        const struct device_class *theirs = device_find_class(&others->device, step);
        double all = theirs ? join(others, efficiency, theirs->efficiency.value) : efficiency;
        others->miss +=
            roof_of(step, point->run.device) * (1 / all - 1 / efficiency) / measured->step;
        if (told(schedule, id))
            continue;
        AUTOFREE char *source = base_format("%s in %s%s", work_names[work], import->base_name,
                                            theirs ? ", with earlier traces" : "");
        add_class(out, (int32_t)step->compute.op,
                  step->compute.layer < 0 ? LAYER_OP_COUNT : (int32_t)step->compute.layer_op,
                  (int32_t)step->compute.dtype, fmax(all, 1e-4), source);
    }
    add_others(out, schedule, &others->device);
    return 0;
}

/* Of one step no spread is known: its network is as uncertain as any other. */
static void add_profiles(struct text *out, const char *network, int64_t batch,
                         const struct profile *profile, const struct others *others)
{
    const struct device_profile own = {(char *)(intptr_t)network, batch, profile->spread};
    const struct device_profile *theirs = others->device.profiles.item;
    int32_t count = others->device.profiles.count;
    if (count + (profile->steps > 1))
        text_add(out,
                 "profiles:    # as uncertain as here; other networks and batches are more so\n");
    for (int32_t i = profile->steps > 1 ? -1 : 0; i < count; i++) {
        const struct device_profile *row = i < 0 ? &own : &theirs[i];
        text_add(out, "  - network: ");
        field_write_text(out, row->network);
        text_add(out, "\n    batch: %" PRId64 "\n    spread: %.3g %%\n", row->batch,
                 100 * hypot(row->spread, others->miss));
    }
}

/* Own files extend one of the library, whose data sheet stays. */
static bool same_hardware(const struct device *a, const struct device *b)
{
    const struct quantity *x = &a->memory_bandwidth, *y = &b->memory_bandwidth;
    bool same = fabs(x->value / y->value - 1) < 0.01;
    for (int32_t i = 0; i < DTYPE_COUNT; i++)
        if (a->peak[i].value > 0 && b->peak[i].value > 0)
            same = same && fabs(a->peak[i].value / b->peak[i].value - 1) < 0.01;
    return same;
}

static void others_release(struct others *others)
{
    device_release(&others->device);
}

static int read_others(struct others *others, const char *path, const struct device *own,
                       struct err *err)
{
    if (device_read(&others->device, path, err))
        return -1;
    return same_hardware(&others->device, own)
               ? 0
               : err_add(err, "--with %s is of other hardware than %s", path, own->name);
}

static int write_device(struct import *import, const struct import_request *request,
                        const char *network, const struct point *point, const struct side *measured,
                        const struct profile *profile, struct err *err)
{
    bool own = profile->own;
    AUTORELEASE(text) struct text text = {0};
    AUTORELEASE(others) struct others others = {0};
    const struct device *device = point->run.device;
    AUTOFREE char *name = request_yaml_name("--to", request->to, err);
    if (!name || (request->with && read_others(&others, request->with, device, err)))
        return -1;
    int32_t kernels = demand_of(point->schedule, device, WORK_COUNT).kernels;
    AUTOFREE char *description = base_format("%s, as %s shows it", device->name, import->base_name);
    AUTOFREE char *source = base_format(
        "gaps between computation in %s, for each kernel that is predicted", import->base_name);
    text_add(&text, IMPORT_FILE " trace\n");
    field_write_line(&text, 0, "extends", device->name);
    field_write_line(&text, 0, "name", name);
    field_write_line(&text, 0, "description", description);
    if (!own) {
        double overhead = fmax(0, measured->gaps) / fmax(1, kernels);
        if (request->with && overhead > 0 && others.device.kernel_overhead.value > 0)
            overhead = join(&others, overhead, others.device.kernel_overhead.value);
        field_write_quantity(&text, 0, "kernel_overhead", PROVENANCE_MEASURED, 0, source, "%.4g us",
                             1e6 * overhead);
        field_write_quantity(&text, 0, "iteration_overhead", PROVENANCE_MEASURED, 0,
                             "contained in kernel_overhead", "0 s");
    }
    int failed =
        device->measured.steps.count > 0
            ? err_usage(err, "%s has measured steps of its own, which a profile cannot replace",
                        device->name)
            : add_classes(&text, import, point, measured, own, &others, err);
    add_profiles(&text, network, point->batch, profile, &others);
    if (!failed && !request->overwrite)
        failed = file_check_own(request->to, IMPORT_FILE, err);
    return failed || file_write(request->to, &text, device_check_file, err);
}

/* --- another job? --- */

static void check_device_of(struct import *import, const struct device *own)
{
    AUTORELEASE(device) struct device device = {0};
    AUTORELEASE(err) struct err ignored = {0};
    if (import->device && !device_read(&device, import->device, &ignored) &&
        !same_hardware(&device, own))
        import_warn(import, "the profile is of %s, the job's platform has %s", import->device,
                    own->name);
}

static int64_t convolutions_of(const struct schedule *schedule, const struct model *model)
{
    int64_t count = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        count += step->kind == STEP_COMPUTE && step->compute.op == COMPUTE_FORWARD &&
                 step->compute.layer_op == LAYER_CONVOLUTION && !is_linear(model, step);
    }
    return count;
}

/* Networks by what frameworks never merge: their convolutions. */
static void warn_of_another(struct import *import, const struct job *job,
                            const struct profile *profile, const struct point *point)
{
    const char *network = job->scenario.model.network;
    int64_t predicted = convolutions_of(point->schedule, job->model);
    double measured = profile->convolutions / (double)profile->steps;
    AUTOFREE char *hash = base_format("%016" PRIx64, schedule_hash(point->schedule));
    check_device_of(import, point->run.device);
    if (profile->operations && fabs(measured - (double)predicted) > 0.02 * (double)predicted)
        import_warn(import,
                    "the profile has %.4g convolutions a step, network %s of the job has %" PRId64
                    ": is it of another network?",
                    measured, network, predicted);
    if (profile->schedule && strcmp(profile->schedule, hash) != 0)
        import_warn(import,
                    "the trace is of schedule %s, the job's is %s: it has another network than %s, "
                    "or another batch, number of devices or all-reduce",
                    profile->schedule, hash, network);
}

int import_compare_job(struct import *import, const struct import_request *request,
                       const struct profile *profile, struct err *err)
{
    AUTORELEASE(job) struct job job = {0};
    AUTORELEASE(point) struct point point = {0};
    double steps = (double)profile->steps;
    struct side measured = {.exposed = profile->sum.exposed / steps,
                            .step = profile->seconds / steps};
    struct side predicted = {0};
    for (int32_t work = 0; work < WORK_COUNT; work++)
        measured.work[work] = profile->sum.busy[work] / steps;
    for (char *c = import->base_name; *c; c++) /* it stands in the file as it is */
        if (!strchr("._-", *c) && !isalnum((unsigned char)*c))
            *c = '_';
    find_gaps(&measured);
    if (measured.gaps < -0.02 * measured.step)
        return err_add(
            err,
            "%s: a step takes %.4g ms, but computation and exposed communication of a "
            "device %.4g ms: kernels belong to more steps or devices than the file tells",
            import->file, 1e3 * measured.step, 1e3 * (measured.step - measured.gaps));
    const char *alone[] = {"cluster.software=null"}; /* which the device file replaces */
    if (job_open(&job, NULL, request->job, alone, request->to != NULL, &draw_centre,
                 &(struct wish){0}, err))
        return -1;
    if (job_point(&job, JOB_LAST, &point, err) ||
        predict(&predicted, &job, &point, profile->own, err))
        return -1;
    bool rated = job.software && !model_has_layout(job.model);
    if (rated && request->to)
        return err_usage(err,
                         "--to: kernels of %s are as fast as software %s says, which no device "
                         "file replaces; without --to cluster.speed is found",
                         job.scenario.model.network, job.software->name);
    warn_of_another(import, &job, profile, &point);
    tell(import, &measured, &predicted);
    if (rated)
        import_note(import, "a step is as long with about --set cluster.speed=%.3g",
                    predicted.step / measured.step * job.scenario.cluster.speed);
    if (!request->to)
        return 0;
    import->written = true;
    import_note(import,
                "the device file says how fast software is, in place of cluster.software: predict "
                "with --set platform.device=%s --set cluster.software=null",
                request->to);
    return write_device(import, request, job.scenario.model.network, &point, &measured, profile,
                        err);
}
