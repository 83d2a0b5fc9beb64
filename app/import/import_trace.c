#include "app/import/import_job.h"
#include "core/platform/platform.h"

/* What the lists distinguish. */
enum activity { ACTIVITY_COMPUTE, ACTIVITY_COMMUNICATION, ACTIVITY_COPY, ACTIVITY_COUNT };

static const char *const activity_names[] = {"compute", "communication", "copies"};

/* One event on a device, or a step. */
struct event {
    const char *name; /* borrowed from the JSON */
    double begin, seconds;
    int64_t external;       /* of the operation that launched it; -1: not known */
    int64_t device;         /* distinct for each */
    const char *op, *layer; /* what our own traces tell of it, borrowed, or NULL */
    enum work work;
};

/* An operation of PyTorch. */
struct operation {
    const char *name; /* borrowed */
    int64_t external, process;
    double begin;
    bool launched;       /* something on a device */
    double seconds;      /* of that */
    double flops, bytes; /* of a matrix product with shapes, else 0 */
    int32_t dtype;       /* of its inputs, enum dtype */
};

/* A step of a process; or, without a length, when it launched something. */
struct stretch {
    int64_t process;
    double begin, seconds;
};

/* What is kept of a trace. */
struct summary {
    struct event *event;
    struct operation *operation;
    struct stretch *step;
    int64_t rank_steps;   /* of the rank whose step came first */
    int64_t devices;      /* that computed or communicated; once added up at least 1 */
    const char *schedule; /* borrowed, or NULL */
    int64_t convolutions; /* operations, forward */
    int64_t events, operations, steps;
    int64_t impossible; /* events whose begin or duration is missing or impossible */
};

OWN_RELEASE(summary, it->event, it->operation, it->step)

static enum activity activity_of(enum work work)
{
    return work == WORK_COMMUNICATION ? ACTIVITY_COMMUNICATION
           : work == WORK_COPY        ? ACTIVITY_COPY
                                      : ACTIVITY_COMPUTE;
}

static int64_t external_of(const struct json *event)
{
    int64_t id = -1;
    const struct json *arguments = json_get(event, "args");
    if (!json_as_integer(json_get(arguments, "External id"), &id))
        json_as_integer(json_get(arguments, "external id"), &id); /* before 1.12 */
    return id;
}

/* Entry @axis of shape @tensor in "Input Dims", or 0. */
static double extent(const struct json *shapes, int64_t tensor, int64_t axis)
{
    double value = 0;
    json_as_real(json_item(json_item(shapes, tensor), axis), &value);
    return value > 0 ? value : 0;
}

/* The dtype of tensor @index from PyTorch's name of it, or -1. */
static int32_t dtype_of(const struct json *arguments, int64_t index)
{
    const struct json *types = json_get(arguments, "Input type");
    const char *type = json_as_text(json_item(types, index));
    if (!type)
        return -1;
    return !strcmp(type, "float")           ? DTYPE_FP32
           : !strcmp(type, "c10::Half")     ? DTYPE_FP16
           : !strcmp(type, "c10::BFloat16") ? DTYPE_BF16
                                            : -1;
}

/* aten::mm [m k][k n], aten::addmm [bias][m k][k n], aten::bmm [b m k][b k n]. */
static void read_product(struct operation *operation, const struct json *arguments)
{
    const char *name = operation->name;
    bool bias = !strcmp(name, "aten::addmm"), batched = !strcmp(name, "aten::bmm");
    if (!bias && !batched && strcmp(name, "aten::mm") != 0)
        return;
    const struct json *shapes = json_get(arguments, "Input Dims");
    int32_t dtype = dtype_of(arguments, bias);
    double batch = batched ? extent(shapes, 0, 0) : 1, m = extent(shapes, bias, batched);
    double k = extent(shapes, bias, 1 + batched), n = extent(shapes, 1 + bias, 1 + batched);
    if (dtype < 0)
        return;
    operation->flops = 2 * batch * m * k * n;
    operation->bytes = batch * (m * k + k * n + m * n) * (dtype == DTYPE_FP32 ? 4 : 2);
    operation->dtype = dtype;
}

static double begin_of(const struct json *event)
{
    double begin = NAN;
    json_as_real(json_get(event, "ts"), &begin);
    return begin * 1e-6;
}

static int64_t process_of(const struct json *event)
{
    int64_t process = 0;
    json_as_integer(json_get(event, "pid"), &process);
    return process;
}

static void add_operation(struct summary *summary, const struct json *event, const char *name)
{
    struct operation operation = {.name = name,
                                  .external = external_of(event),
                                  .process = process_of(event),
                                  .begin = begin_of(event)};
    summary->convolutions += !strcmp(name, "aten::convolution");
    if (operation.external < 0)
        return;
    read_product(&operation, json_get(event, "args"));
    summary->operation =
        base_room(summary->operation, summary->operations, sizeof(*summary->operation));
    summary->operation[summary->operations++] = operation;
}

static const char *argument_of(const struct json *event, const char *key)
{
    return json_as_text(json_get(json_get(event, "args"), key));
}

/* Whether @category is @name, or what PyTorch called it before 1.12. */
static bool is_category(const char *category, const char *name, const char *before)
{
    return !strcmp(category, name) || !strcmp(category, before);
}

static void add_event(struct summary *summary, const struct json *event)
{
    static const double most = 1e12; /* [us], 12 days.  Our choice */
    double microseconds = -1;
    const char *phase = json_as_text(json_get(event, "ph"));
    const char *name = json_as_text(json_get(event, "name"));
    const char *category = json_as_text(json_get(event, "cat"));
    if (!phase || strcmp(phase, "X") != 0 || !name || !category)
        return;
    json_as_real(json_get(event, "dur"), &microseconds);
    if (!(microseconds >= 0 && microseconds <= most && isfinite(begin_of(event))))
        summary->impossible++;
    else if (is_category(category, "user_annotation", "Operator") &&
             !strncmp(name, "ProfilerStep#", 13)) {
        summary->step = base_room(summary->step, summary->steps, sizeof(*summary->step));
        summary->step[summary->steps++] =
            (struct stretch){process_of(event), begin_of(event), microseconds * 1e-6};
    } else if (is_category(category, "kernel", "Kernel") ||
               is_category(category, "gpu_memcpy", "Memcpy") ||
               is_category(category, "gpu_memset", "Memset")) {
        summary->event = base_room(summary->event, summary->events, sizeof(*summary->event));
        int64_t device = -1;
        json_as_integer(json_get(json_get(event, "args"), "device"), &device);
        summary->event[summary->events++] = (struct event){
            .name = name,
            .begin = begin_of(event),
            .device = (process_of(event) << 10) + (device & 1023),
            .seconds = microseconds * 1e-6,
            .external = external_of(event),
            .op = argument_of(event, "op"),
            .layer = argument_of(event, "layer"),
        };
    } else if (is_category(category, "cpu_op", "Operator")) {
        add_operation(summary, event, name);
    }
}

/* --- what it adds up to --- */

static int compare_moments(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    int order = (x->process > y->process) - (x->process < y->process);
    return order ? order : (x->begin > y->begin) - (x->begin < y->begin);
}

/* Whether one of @moment (count, sorted) is in @step. */
static bool has_work(const struct stretch *step, const struct stretch *moment, int64_t count)
{
    int64_t low = 0, high = count;
    struct stretch begin = {step->process, step->begin, 0};
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (compare_moments(&moment[middle], &begin) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && moment[low].process == step->process &&
           moment[low].begin < step->begin + step->seconds;
}

/* When operations launched what is on devices, or (@events) when that began, sorted. */
static struct stretch *find_moments(const struct summary *summary, bool events, int64_t *count)
{
    int64_t most = events ? summary->events : summary->operations;
    struct stretch *moment = base_alloc(most + 1, sizeof(*moment));
    *count = 0;
    for (int64_t i = 0; i < most; i++) {
        const struct operation *operation = events ? NULL : &summary->operation[i];
        if (!operation)
            moment[(*count)++] = (struct stretch){0, summary->event[i].begin, 0};
        else if (operation->launched)
            moment[(*count)++] = (struct stretch){operation->process, operation->begin, 0};
    }
    qsort(moment, (size_t)*count, sizeof(*moment), compare_moments);
    return moment;
}

/* A step that launches nothing, as where the profiler ended, is none; what earlier ones launched
 * may begin in it while it is short. */
static void leave_out_stubs(struct import *import, struct summary *summary)
{
    static const double least = 0.1; /* of the longest step.  Our choice */
    int64_t launches, begins, kept = 0;
    AUTOFREE struct stretch *launch = find_moments(summary, false, &launches);
    AUTOFREE struct stretch *begin = find_moments(summary, true, &begins);
    double longest = 0;
    for (int64_t i = 0; i < summary->steps; i++)
        longest = fmax(longest, summary->step[i].seconds);
    for (int64_t i = 0; i < summary->steps; i++) {
        struct stretch step = summary->step[i], any = {0, step.begin, step.seconds};
        if (has_work(&step, launch, launches) ||
            (step.seconds > least * longest && has_work(&any, begin, begins)))
            summary->step[kept++] = step;
    }
    int64_t left = summary->steps - kept;
    if (kept && left)
        import_note(import, "%" PRId64 " step%s without work left out", left, base_plural(left));
    summary->steps = kept ? kept : summary->steps;
    for (int64_t i = 0; i < summary->steps; i++)
        summary->rank_steps += summary->step[i].process == summary->step[0].process;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct event *)a)->name, ((const struct event *)b)->name);
}

ORDER_BY(compare_operations, struct operation, external)

static void find_kinds(struct summary *summary)
{
    if (summary->operations)
        qsort(summary->operation, (size_t)summary->operations, sizeof(struct operation),
              compare_operations);
    for (int64_t i = 0; i < summary->events; i++) {
        struct event *event = &summary->event[i];
        struct operation key = {.external = event->external};
        struct operation *found =
            summary->operations && key.external >= 0
                ? bsearch(&key, summary->operation, (size_t)summary->operations, sizeof(key),
                          compare_operations)
                : NULL;
        if (found) {
            found->launched = true;
            found->seconds += event->seconds;
        }
        event->work = event->op ? work_of_words(event->op, event->layer)
                                : work_of_event(event->name, found ? found->name : NULL);
    }
}

static void tell_kernels(struct import *import, struct summary *summary)
{
    double total[ACTIVITY_COUNT] = {0};
    struct import_result *result = &import->result;
    if (summary->events)
        qsort(summary->event, (size_t)summary->events, sizeof(struct event), compare_names);
    for (int64_t i = 0; i < summary->events;) {
        const struct event *first = &summary->event[i];
        double sum = 0, least = first->seconds;
        int64_t count = 0;
        for (; i < summary->events && !strcmp(summary->event[i].name, first->name); i++, count++) {
            sum += summary->event[i].seconds;
            least = fmin(least, summary->event[i].seconds);
        }
        total[activity_of(first->work)] += sum;
        result->kernel = base_room(result->kernel, result->kernels, sizeof(*result->kernel));
        result->kernel[result->kernels++] = (struct import_kernel){
            base_copy(first->name), activity_names[activity_of(first->work)], count, sum, least};
    }
    import_note(import, "%" PRId64 " events on the device, of %" PRId64 " names", summary->events,
                result->kernels);
    for (int32_t i = 0; i < ACTIVITY_COUNT; i++)
        import_note(import, "%s: %s in all", activity_names[i], unit_text(UNIT_SECONDS, total[i]));
}

static void tell_steps(struct import *import, const struct summary *summary)
{
    double sum = 0, least = INFINITY;
    for (int64_t i = 0; i < summary->steps; i++) {
        sum += summary->step[i].seconds;
        least = fmin(least, summary->step[i].seconds);
    }
    if (!summary->steps)
        return;
    import->result.steps = summary->steps;
    import->result.step_mean = sum / (double)summary->steps;
    import->result.step_least = least;
    import_note(import, "%" PRId64 " step%s%s, mean %s, least %s", summary->rank_steps,
                base_plural(summary->rank_steps),
                summary->steps > summary->rank_steps ? " of each rank" : "",
                unit_text(UNIT_SECONDS, sum / (double)summary->steps),
                unit_text(UNIT_SECONDS, least));
}

/* Seconds at the full roofline of @device, or 0 when it has no such arithmetic. */
static double roof(const struct device *device, const struct operation *product)
{
    double peak = device->peak[product->dtype].value;
    return peak > 0 ? fmax(product->flops / peak, product->bytes / device->memory_bandwidth.value)
                    : 0;
}

static void tell_products(struct import *import, const struct summary *summary,
                          const struct device *device)
{
    double flops = 0, seconds = 0, ideal = 0;
    int64_t matched = 0;
    for (int64_t i = 0; i < summary->operations; i++) {
        const struct operation *product = &summary->operation[i];
        if (!(product->flops > 0 && product->seconds > 0))
            continue;
        matched++;
        flops += product->flops;
        seconds += product->seconds;
        ideal += device ? roof(device, product) : 0;
    }
    if (!matched)
        return;
    import_note(import, "%" PRId64 " matrix products with shapes: %.4g TFLOP/s in their kernels",
                matched, flops / seconds * 1e-12);
    import->result.flops = flops / seconds;
    if (ideal > 0) {
        import_note(import, "they reach %.3g %% of the roofline of %s", 100 * ideal / seconds,
                    import->device);
        import->result.efficiency = ideal / seconds;
    }
}

ORDER_BY(compare_devices, struct event, device)

/* What the events of a device add up to, the mean of all devices. */
static struct work_sum add_up_devices(struct summary *summary)
{
    struct work_sum mean = {0};
    AUTOFREE struct work_span *span = base_alloc(summary->events, sizeof(*span));
    qsort(summary->event, (size_t)summary->events, sizeof(*summary->event), compare_devices);
    for (int64_t i = 0, count = 0; i < summary->events; i++) {
        const struct event *event = &summary->event[i];
        span[count++] =
            (struct work_span){event->begin, event->begin + event->seconds, event->work};
        if (i + 1 < summary->events && event[1].device == event->device)
            continue;
        struct work_sum sum = work_add_up(span, count);
        double busy = 0;
        for (int32_t work = 0; work < WORK_COUNT; work++) {
            mean.busy[work] += sum.busy[work];
            busy += work == WORK_COPY ? 0 : sum.busy[work];
        }
        mean.exposed += sum.exposed;
        summary->devices += busy > 0;
        count = 0;
    }
    summary->devices += summary->devices == 0;
    for (int32_t work = 0; work < WORK_COUNT; work++)
        mean.busy[work] /= (double)summary->devices;
    mean.exposed /= (double)summary->devices;
    return mean;
}

/* The events beside what the job of @request predicts. */
static int compare_job(struct import *import, const struct import_request *request,
                       struct summary *summary, struct err *err)
{
    if (!request->job)
        return 0;
    if (!summary->steps || !summary->events)
        return err_add(err,
                       "%s:1: no %s: --job compares steps; profile with schedule= and step(), and "
                       "with CUDA activities",
                       import->file, summary->steps ? "event on a device" : "ProfilerStep");
    struct profile profile = {.steps = summary->rank_steps,
                              .operations = summary->convolutions > 0,
                              .schedule = summary->schedule,
                              .own = summary->schedule != NULL};
    profile.sum = add_up_devices(summary);
    if (summary->devices > 1)
        import_note(import, "%" PRId64 " devices: the mean of them is compared", summary->devices);
    profile.convolutions = (double)summary->convolutions / (double)summary->devices;
    for (int64_t i = 0; i < summary->steps; i++)
        profile.seconds +=
            summary->step[i].seconds * (double)summary->rank_steps / (double)summary->steps;
    double mean = profile.seconds / (double)summary->rank_steps;
    for (int64_t i = 0; i < summary->steps; i++)
        profile.spread += pow(summary->step[i].seconds / mean - 1, 2);
    profile.spread = sqrt(profile.spread / fmax(1, (double)summary->steps - 1));
    for (int64_t i = 0; i < summary->operations; i++)
        profile.operations |= work_of_event("", summary->operation[i].name) == WORK_LINEAR;
    return import_compare_job(import, request, &profile, err);
}

static int read_trace(struct import *import, const struct import_request *request,
                      const struct json *root, struct err *err)
{
    AUTORELEASE(summary) struct summary summary = {0};
    const struct json *events = json_count_items(root) >= 0 ? root : json_get(root, "traceEvents");
    for (int64_t i = 0; i < json_count_items(events); i++)
        add_event(&summary, json_item(events, i));
    if (!summary.events && !summary.steps)
        return err_add(err,
                       "%s:1: no 'traceEvents' with an event of category kernel or a "
                       "ProfilerStep: give what PyTorch's profiler exports, with CUDA "
                       "activities",
                       import->file);
    const struct json *device_list = json_get(root, "deviceProperties");
    const char *model = json_as_text(json_get(json_item(device_list, 0), "name"));
    summary.schedule = json_as_text(json_get(json_get(root, "foretrain"), "schedule_hash"));
    for (int64_t i = 0; i < summary.events; i++)
        if (summary.schedule && strstr(summary.event[i].name, " more"))
            return err_add(err, "%s: one event is '%s' micro-batches; trace them with --grain full",
                           import->file, summary.event[i].name);
    AUTORELEASE(device) struct device device = {0};
    if (model)
        import_set_device(import, model);
    if (import->device && device_read(&device, import->device, err))
        return -1;
    import->no_platform = true;
    find_kinds(&summary);
    leave_out_stubs(import, &summary);
    tell_steps(import, &summary);
    tell_kernels(import, &summary);
    if (summary.impossible)
        import_warn(import, "%" PRId64 " event%s left out: no possible 'ts' and 'dur'",
                    summary.impossible, base_plural(summary.impossible));
    if (!summary.events)
        import_warn(import, "nothing ran on a device: record with ProfilerActivity.CUDA");
    tell_products(import, &summary, import->device ? &device : NULL);
    return compare_job(import, request, &summary, err);
}

int import_trace(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    AUTORELEASE(json)
    struct json *root = import_load(import->file, &text, err)
                            ? NULL
                            : json_read(import->file, text.data, text.length, err);
    return root ? read_trace(import, request, root, err) : -1;
}
