#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/import/import.h"
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
    const char *op, *layer; /* what our own traces tell of it, borrowed, or NULL */
    enum work work;
};

/* An operation of PyTorch. */
struct operation {
    const char *name; /* borrowed */
    int64_t external;
};

/* A matrix product with its shapes. */
struct product {
    const char *name; /* borrowed */
    int64_t external;
    double flops, bytes, seconds; /* seconds of its kernels */
    int32_t dtype;                /* enum dtype */
};

/* What is kept of a trace. */
struct summary {
    struct event *event;
    struct product *product;
    struct operation *operation;
    double *step;         /* [s] */
    int64_t rank;         /* whose step came first */
    int64_t rank_steps;   /* of it */
    const char *schedule; /* borrowed, or NULL */
    int64_t convolutions; /* operations, forward */
    int64_t events, products, operations, steps;
};

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
    if (!json_as_integer(json_get(arguments, "External id"), &id) &&
        !json_as_integer(json_get(arguments, "external id"), &id)) /* before 1.12 */
        id = -1;
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
static void add_product(struct summary *summary, const struct json *event, const char *name)
{
    bool bias = !strcmp(name, "aten::addmm"), batched = !strcmp(name, "aten::bmm");
    const struct json *arguments = json_get(event, "args");
    if (!bias && !batched && strcmp(name, "aten::mm") != 0)
        return;
    const struct json *shapes = json_get(arguments, "Input Dims");
    int32_t dtype = dtype_of(arguments, bias);
    double batch = batched ? extent(shapes, 0, 0) : 1, m = extent(shapes, bias, batched);
    double k = extent(shapes, bias, 1 + batched), n = extent(shapes, 1 + bias, 1 + batched);
    if (!(batch * m * k * n > 0) || dtype < 0 || external_of(event) < 0)
        return;
    summary->product = base_room(summary->product, summary->products, sizeof(*summary->product));
    summary->product[summary->products++] = (struct product){
        .name = name,
        .external = external_of(event),
        .flops = 2 * batch * m * k * n,
        .bytes = batch * (m * k + k * n + m * n) * (dtype == DTYPE_FP32 ? 4 : 2),
        .dtype = dtype,
    };
}

static void add_operation(struct summary *summary, const struct json *event, const char *name)
{
    summary->convolutions += !strcmp(name, "aten::convolution");
    if (external_of(event) < 0)
        return;
    summary->operation =
        base_room(summary->operation, summary->operations, sizeof(*summary->operation));
    summary->operation[summary->operations++] = (struct operation){name, external_of(event)};
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
    double microseconds, begin = 0;
    const char *phase = json_as_text(json_get(event, "ph"));
    const char *name = json_as_text(json_get(event, "name"));
    const char *category = json_as_text(json_get(event, "cat"));
    if (!phase || strcmp(phase, "X") != 0 || !name || !category ||
        !json_as_real(json_get(event, "dur"), &microseconds) || !(microseconds >= 0))
        return;
    if (is_category(category, "user_annotation", "Operator") &&
        !strncmp(name, "ProfilerStep#", 13)) {
        summary->step = base_room(summary->step, summary->steps, sizeof(*summary->step));
        int64_t rank = 0;
        json_as_integer(json_get(event, "pid"), &rank);
        summary->rank = summary->steps ? summary->rank : rank;
        summary->rank_steps += rank == summary->rank;
        summary->step[summary->steps++] = microseconds * 1e-6;
    } else if (is_category(category, "kernel", "Kernel") ||
               is_category(category, "gpu_memcpy", "Memcpy") ||
               is_category(category, "gpu_memset", "Memset")) {
        summary->event = base_room(summary->event, summary->events, sizeof(*summary->event));
        json_as_real(json_get(event, "ts"), &begin);
        summary->event[summary->events++] = (struct event){
            .name = name,
            .begin = begin * 1e-6,
            .seconds = microseconds * 1e-6,
            .external = external_of(event),
            .op = argument_of(event, "op"),
            .layer = argument_of(event, "layer"),
        };
    } else if (is_category(category, "cpu_op", "Operator")) {
        add_operation(summary, event, name);
        add_product(summary, event, name);
    }
}

/* --- what it adds up to --- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct event *)a)->name, ((const struct event *)b)->name);
}

static int compare_external(const void *a, const void *b)
{
    int64_t x = ((const struct product *)a)->external, y = ((const struct product *)b)->external;
    return (x > y) - (x < y);
}

static int compare_operations(const void *a, const void *b)
{
    int64_t x = ((const struct operation *)a)->external;
    int64_t y = ((const struct operation *)b)->external;
    return (x > y) - (x < y);
}

static void find_kinds(struct summary *summary)
{
    if (summary->operations)
        qsort(summary->operation, (size_t)summary->operations, sizeof(struct operation),
              compare_operations);
    for (int64_t i = 0; i < summary->events; i++) {
        struct event *event = &summary->event[i];
        struct operation key = {.external = event->external};
        const struct operation *found =
            summary->operations && key.external >= 0
                ? bsearch(&key, summary->operation, (size_t)summary->operations, sizeof(key),
                          compare_operations)
                : NULL;
        event->work = event->op ? work_of_words(event->op, event->layer)
                                : work_of_event(event->name, found ? found->name : NULL);
    }
}

static void tell_kernels(struct import *import, struct summary *summary)
{
    double total[ACTIVITY_COUNT] = {0};
    struct json *list = json_new_array();
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
        struct json *object = json_append_object(list);
        json_put_text(object, "name", first->name);
        json_put_text(object, "activity", activity_names[activity_of(first->work)]);
        json_put_integer(object, "count", count);
        json_put_real(object, "total_s", sum);
        json_put_real(object, "least_s", least);
    }
    import_note(import, "%" PRId64 " events on the device, of %" PRId64 " names", summary->events,
                json_count_items(list));
    for (int32_t i = 0; i < ACTIVITY_COUNT; i++)
        import_note(import, "%s: %s in all", activity_names[i], unit_text(UNIT_SECONDS, total[i]));
    json_put(import->result, "kernels", list);
}

static void tell_steps(struct import *import, const struct summary *summary)
{
    double sum = 0, least = INFINITY;
    for (int64_t i = 0; i < summary->steps; i++) {
        sum += summary->step[i];
        least = fmin(least, summary->step[i]);
    }
    json_put_integer(import->result, "steps", summary->steps);
    json_put_real(import->result, "step_mean_s",
                  summary->steps ? sum / (double)summary->steps : NAN);
    json_put_real(import->result, "step_least_s", least);
    if (!summary->steps)
        return;
    import_note(import, "%" PRId64 " step%s%s, mean %s, least %s", summary->rank_steps,
                base_plural(summary->rank_steps),
                summary->steps > summary->rank_steps ? " of each rank" : "",
                unit_text(UNIT_SECONDS, sum / (double)summary->steps),
                unit_text(UNIT_SECONDS, least));
}

/* Seconds at the full roofline of @device, or 0 when it has no such arithmetic. */
static double roof(const struct device *device, const struct product *product)
{
    double peak = device->peak[product->dtype].value;
    return peak > 0 ? fmax(product->flops / peak, product->bytes / device->memory_bandwidth.value)
                    : 0;
}

static void tell_products(struct import *import, struct summary *summary,
                          const struct device *device)
{
    double flops = 0, seconds = 0, ideal = 0;
    int64_t matched = 0;
    if (summary->products)
        qsort(summary->product, (size_t)summary->products, sizeof(struct product),
              compare_external);
    for (int64_t i = 0; i < summary->events; i++) {
        struct product key = {.external = summary->event[i].external};
        struct product *found = summary->products && key.external >= 0
                                    ? bsearch(&key, summary->product, (size_t)summary->products,
                                              sizeof(key), compare_external)
                                    : NULL;
        if (found)
            found->seconds += summary->event[i].seconds;
    }
    for (int64_t i = 0; i < summary->products; i++) {
        const struct product *product = &summary->product[i];
        bool timed = product->seconds > 0;
        matched += timed;
        flops += timed ? product->flops : 0;
        seconds += product->seconds;
        ideal += timed && device ? roof(device, product) : 0;
    }
    if (!matched)
        return;
    import_note(import, "%" PRId64 " matrix products with shapes: %.4g TFLOP/s in their kernels",
                matched, flops / seconds * 1e-12);
    json_put_real(import->result, "matrix_flops_per_s", flops / seconds);
    if (ideal > 0) {
        import_note(import, "they reach %.3g %% of the roofline of %s", 100 * ideal / seconds,
                    import->device);
        json_put_real(import->result, "matrix_efficiency", ideal / seconds);
    }
}

/* The events beside what the job of @request predicts. */
static int compare_job(struct import *import, const struct import_request *request,
                       const struct summary *summary, struct err *err)
{
    if (!request->job)
        return 0;
    if (!summary->steps || !summary->events)
        return err_add(err,
                       "%s:1: no %s: --job compares steps; profile with schedule= and step(), and "
                       "with CUDA activities",
                       import->file, summary->steps ? "event on a device" : "ProfilerStep");
    struct profile profile = {.steps = summary->steps,
                              .convolutions = summary->convolutions,
                              .operations = summary->convolutions > 0,
                              .schedule = summary->schedule};
    AUTOFREE struct work_span *span = base_alloc(summary->events, sizeof(*span));
    for (int64_t i = 0; i < summary->events; i++) {
        const struct event *event = &summary->event[i];
        span[i] = (struct work_span){event->begin, event->begin + event->seconds, event->work};
        profile.own |= event->op != NULL;
    }
    for (int64_t i = 0; i < summary->steps; i++)
        profile.seconds += summary->step[i];
    for (int64_t i = 0; i < summary->operations; i++)
        profile.operations |= work_of_event("", summary->operation[i].name) == WORK_LINEAR;
    profile.sum = work_add_up(span, summary->events);
    return import_compare_job(import, request, &profile, err);
}

static int read_trace(struct import *import, const struct import_request *request,
                      const struct json *root, struct err *err)
{
    struct summary summary = {0};
    const struct json *events = json_count_items(root) >= 0 ? root : json_get(root, "traceEvents");
    for (int64_t i = 0; i < json_count_items(events); i++)
        add_event(&summary, json_item(events, i));
    int failed = 0;
    if (!summary.events && !summary.steps)
        failed = err_add(err,
                         "%s:1: no 'traceEvents' with an event of category kernel or a "
                         "ProfilerStep: give what PyTorch's profiler exports, with CUDA "
                         "activities",
                         import->file);
    const struct json *device_list = json_get(root, "deviceProperties");
    const char *model = json_as_text(json_get(json_item(device_list, 0), "name"));
    summary.schedule = json_as_text(json_get(json_get(root, "foretrain"), "schedule_hash"));
    struct device device = {0};
    if (!failed && model)
        import_set_device(import, model);
    if (!failed && import->device)
        failed = device_read(&device, import->device, err);
    if (!failed) {
        import->result = json_new_object();
        import->no_platform = true;
        find_kinds(&summary);
        tell_steps(import, &summary);
        tell_kernels(import, &summary);
        if (!summary.events)
            import_warn(import, "nothing ran on a device: record with ProfilerActivity.CUDA");
        tell_products(import, &summary, import->device ? &device : NULL);
        failed = compare_job(import, request, &summary, err);
    }
    device_release(&device);
    free(summary.event);
    free(summary.product);
    free(summary.operation);
    free(summary.step);
    return failed;
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
