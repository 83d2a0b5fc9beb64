#include "tests/cuda/fake/fake_cudnn.h"

#include "core/base/base.h"
#include "exec/cuda/conv/conv_check.h"
#include "tests/cuda/conv_loops.h"
#include "tests/cuda/fake/fake_cudnn_inner.h"
#include "tests/cuda/fake/fake_runtime.h"

struct fake_cudnn fake_cudnn;

struct cudnnContext {
    cudaStream_t stream;
};

/* ---- the calls that need no device ---- */

size_t cudnnGetVersion(void)
{
    return 12345;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_IN_SOFTWARE";
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    char *text = base_format("no more is known\nand more of it");
    strncpy(message, text, size - 1);
    free(text);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    if (fake_cudnn.no_start)
        return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = base_alloc(1, sizeof **handle);
    fake_cudnn.alive++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    fake_cudnn.alive--;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

static struct fake_descriptor *descriptor_new(cudnnBackendDescriptorType_t type)
{
    struct fake_descriptor *made = base_alloc(1, sizeof *made);
    made->type = type;
    fake_cudnn.alive++;
    return made;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor)
{
    *descriptor = descriptor_new(type);
    return CUDNN_STATUS_SUCCESS;
}

static void forget(struct fake_descriptor *descriptor)
{
    for (int32_t i = 0; i < descriptor->attributes; i++)
        free(descriptor->attribute[i].items);
    for (int32_t i = 0; i < descriptor->owns; i++)
        cudnnBackendDestroyDescriptor(descriptor->owned[i]);
    descriptor->attributes = descriptor->owns = 0;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    forget(descriptor);
    free(descriptor);
    fake_cudnn.alive--;
    return CUDNN_STATUS_SUCCESS;
}

size_t fake_item_size(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return 4; /* enumerations and fp32 */
    }
}

const struct fake_attribute *fake_find(const struct fake_descriptor *descriptor,
                                       cudnnBackendAttributeName_t name)
{
    for (int32_t i = 0; i < descriptor->attributes; i++)
        if (descriptor->attribute[i].name == name)
            return &descriptor->attribute[i];
    return NULL;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *items)
{
    struct fake_descriptor *descriptor = to;
    const struct fake_descriptor *const *other = items;
    if (descriptor->finalized || fake_find(descriptor, name) ||
        descriptor->attributes == FAKE_ATTRIBUTES)
        return CUDNN_STATUS_BAD_PARAM;
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
        if (!other[i]->finalized)
            return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    struct fake_attribute *attribute = &descriptor->attribute[descriptor->attributes++];
    *attribute =
        (struct fake_attribute){name, type, count, base_alloc(count, fake_item_size(type))};
    memcpy(attribute->items, items, (size_t)count * fake_item_size(type));
    return CUDNN_STATUS_SUCCESS;
}

/* Make @to what @from is. */
static void copy(const struct fake_descriptor *from, struct fake_descriptor *to)
{
    forget(to);
    to->finalized = false;
    for (int32_t i = 0; i < from->attributes; i++)
        cudnnBackendSetAttribute(to, from->attribute[i].name, from->attribute[i].type,
                                 from->attribute[i].count, from->attribute[i].items);
    to->finalized = true;
}

int64_t fake_integer(const struct fake_descriptor *descriptor, cudnnBackendAttributeName_t name,
                     int32_t place)
{
    const struct fake_attribute *attribute = fake_find(descriptor, name);
    if (!attribute || place >= attribute->count)
        return INT64_MIN;
    switch (fake_item_size(attribute->type)) {
    case sizeof(bool):
        return ((const bool *)attribute->items)[place];
    case sizeof(int32_t):
        return ((const int32_t *)attribute->items)[place];
    default:
        return ((const int64_t *)attribute->items)[place];
    }
}

const struct fake_descriptor *fake_part(const struct fake_descriptor *descriptor,
                                        cudnnBackendAttributeName_t name, int32_t place)
{
    const struct fake_attribute *attribute = fake_find(descriptor, name);
    if (!attribute || attribute->type != CUDNN_TYPE_BACKEND_DESCRIPTOR || place >= attribute->count)
        return NULL;
    return ((const struct fake_descriptor *const *)attribute->items)[place];
}

/* ---- engines ---- */

static const struct fake_descriptor *engine_of(const struct fake_descriptor *plan)
{
    return fake_part(fake_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0),
                     CUDNN_ATTR_ENGINECFG_ENGINE, 0);
}

/* The settings of FAKE_FAST, and values the library names for them. */
static const struct {
    int64_t type, least, most, stride;
} knobs[] = {{FAKE_HALF, 0, 2, 2}, {FAKE_TILE, 1, 6, 1}};
enum { KNOBS = sizeof knobs / sizeof *knobs };

/* The value of a setting of @plan; negative: it has none. */
static int64_t knob_of(const struct fake_descriptor *plan, int64_t type)
{
    const struct fake_descriptor *config =
        fake_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    for (int32_t i = 0;; i++) {
        const struct fake_descriptor *knob =
            fake_part(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, i);
        if (!knob || fake_integer(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 0) == type)
            return knob ? fake_integer(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0) : -1;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t made)
{
    struct fake_descriptor *descriptor = made;
    struct fake_reading reading;
    bool good = !descriptor->finalized;
    if (descriptor->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        good = good && fake_read_graph(descriptor, &reading);
    if (descriptor->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
        int64_t index = fake_integer(descriptor, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        good = good && index >= 0 && index < FAKE_ENGINES;
    }
    if (descriptor->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        int64_t index = fake_integer(engine_of(descriptor), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        if (index == FAKE_UNBUILT || fake_cudnn.unbuilt[index] ||
            (index == FAKE_FAST && knob_of(descriptor, FAKE_TILE) == FAKE_TILE_UNBUILT))
            return CUDNN_STATUS_NOT_SUPPORTED;
        for (int32_t i = 0; i < KNOBS; i++)
            good = good && (index == FAKE_FAST) == (knob_of(descriptor, knobs[i].type) >= 0);
    }
    descriptor->finalized = good;
    return good ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

/* An engine with its knobs, as the library offers it in @config; @tile: the value of FAKE_TILE. */
static void offer(const struct fake_descriptor *graph, int64_t index, int64_t tile,
                  struct fake_descriptor *config)
{
    struct fake_descriptor *engine = descriptor_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    struct fake_descriptor *knob[KNOBS];
    cudnnBackendSetAttribute(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    cudnnBackendSetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    engine->finalized = true;
    forget(config);
    config->owned[config->owns++] = engine;
    for (int32_t i = 0; i < KNOBS; i++) {
        int64_t value = knobs[i].type == FAKE_TILE ? tile : 0;
        knob[i] = descriptor_new(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        cudnnBackendSetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                                 &knobs[i].type);
        cudnnBackendSetAttribute(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                                 &value);
        knob[i]->finalized = true;
        config->owned[config->owns++] = knob[i];
    }
    config->finalized = false;
    cudnnBackendSetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                             &engine);
    if (index == FAKE_FAST)
        cudnnBackendSetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, KNOBS, knob);
    config->finalized = true;
}

/* What each mode of the heuristics offers: engine and value of FAKE_TILE. */
static int64_t answer(const struct fake_descriptor *heuristics, int64_t room, void *configs)
{
    static const struct {
        cudnnBackendHeurMode_t mode;
        int64_t engine, value;
    } row[] = {{CUDNN_HEUR_MODE_A, FAKE_WRONG, 0},
               {CUDNN_HEUR_MODE_A, FAKE_HUGE, 0},
               {CUDNN_HEUR_MODE_A, FAKE_FAST, 4},
               {CUDNN_HEUR_MODE_A, FAKE_UNBUILT, 0},
               {CUDNN_HEUR_MODE_B, FAKE_FAST, 4},
               {CUDNN_HEUR_MODE_B, FAKE_UNSTEADY, 0},
               {CUDNN_HEUR_MODE_A, FAKE_UNCAPTURED, 0},
               {CUDNN_HEUR_MODE_B, FAKE_FICKLE, 0},
               {CUDNN_HEUR_MODE_B, FAKE_FAST, 3},
               {CUDNN_HEUR_MODE_FALLBACK, FAKE_UNRUN, 0},
               {CUDNN_HEUR_MODE_FALLBACK, FAKE_WORKSPACE, 0},
               {CUDNN_HEUR_MODE_FALLBACK, FAKE_SLOW, 0}};
    struct fake_descriptor **config = configs;
    int64_t mode = fake_integer(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, 0), count = 0;
    const struct fake_descriptor *graph =
        fake_part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    fake_cudnn.questions++;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if ((int64_t)row[i].mode == mode && !fake_cudnn.hidden[row[i].engine] && count < room)
            offer(graph, row[i].engine, row[i].value, config[count++]);
    return count;
}

static int64_t notes(const struct fake_descriptor *engine, void *items)
{
    cudnnBackendNumericalNote_t *note = items;
    int64_t count = 0;
    note[count++] = CUDNN_NUMERICAL_NOTE_WINOGRAD;
    if (fake_integer(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0) == FAKE_UNSTEADY)
        note[count++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    return count;
}

static int64_t ranges(const struct fake_descriptor *engine, int64_t room, void *items)
{
    struct fake_descriptor **info = items;
    int64_t count = 0;
    bool has = fake_integer(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0) == FAKE_FAST;
    for (; has && count < KNOBS && count < room; count++) {
        struct fake_descriptor *to = info[count];
        cudnnBackendSetAttribute(to, CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                                 &knobs[count].type);
        cudnnBackendSetAttribute(to, CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 1,
                                 &knobs[count].least);
        cudnnBackendSetAttribute(to, CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, 1,
                                 &knobs[count].most);
        cudnnBackendSetAttribute(to, CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 1,
                                 &knobs[count].stride);
        to->finalized = true;
    }
    return count;
}

static int64_t workspace_of(const struct fake_descriptor *plan)
{
    int64_t index = fake_integer(engine_of(plan), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    bool huge = index == FAKE_HUGE || knob_of(plan, FAKE_TILE) == FAKE_TILE_HUGE;
    return huge ? INT64_C(2) << 30 : index == FAKE_WORKSPACE ? FAKE_WORKSPACE_BYTES : 0;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const from,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room,
                                       int64_t *count, void *items)
{
    const struct fake_descriptor *descriptor = from;
    const struct fake_attribute *attribute = fake_find(descriptor, name);
    if (!descriptor->finalized)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        *count = answer(descriptor, room, items);
    } else if (name == CUDNN_ATTR_ENGINE_KNOB_INFO) {
        *count = ranges(descriptor, room, items);
    } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
        *count = notes(descriptor, items);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *count = 1;
        *(int64_t *)items = workspace_of(descriptor);
    } else if (!attribute) {
        *count = 0;
    } else {
        *count = attribute->count < room ? attribute->count : room;
        for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < *count; i++)
            copy(((struct fake_descriptor **)attribute->items)[i],
                 ((struct fake_descriptor **)items)[i]);
        if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
            memcpy(items, attribute->items, (size_t)*count * fake_item_size(type));
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running ---- */

struct issue {
    enum fake_engine engine;
    int64_t tile, half;
    enum conv_op op;
    struct conv_shape shape;
    struct conv_call call;
};

/* Spoil the result as the engine does. */
static void spoil(const struct issue *issue)
{
    enum conv_array written = conv_written(issue->op);
    int64_t size = conv_elements(&issue->shape, written) * dtype_size(issue->shape.type);
    unsigned char *to = written == CONV_ARRAY_X   ? issue->call.dx
                        : written == CONV_ARRAY_W ? issue->call.dw
                                                  : issue->call.y;
    if (issue->engine == FAKE_WRONG ||
        issue->tile == FAKE_TILE_WRONG) /* little-endian: of the exponent, so 0 is spoilt too */
        to[size - 1] ^= 0x40;
    if (fake_cudnn.unwritten)
        memset(to + size / 2, 0xff, (size_t)dtype_size(issue->shape.type));
    if (issue->engine == FAKE_FICKLE && fake_cudnn.runs[FAKE_FICKLE] % 2)
        to[0] ^= 1;
}

static double seconds_of(const struct issue *issue)
{
    static const double of_tile[] = {[FAKE_TILE_WRONG] = 0.1, [2] = 0.4, [3] = 0.5, [4] = 2};
    switch (issue->engine) {
    case FAKE_SLOW:
        return 2;
    case FAKE_WORKSPACE:
        return 1;
    case FAKE_FAST: /* the one setting does not help without the other */
        return of_tile[issue->tile] * (issue->half && issue->tile == 2 ? 0.5 : 1);
    default:
        return 0;
    }
}

static void run(void *argument)
{
    const struct issue *issue = argument;
    if (fake_cudnn.waits)
        nanosleep(&(struct timespec){1, 100000000}, NULL);
    fake_cudnn.waits = false;
    fake_pass(seconds_of(issue)); /* load is no matter */
    if (issue->engine == FAKE_WORKSPACE)
        memset(issue->call.workspace, 0xff, FAKE_WORKSPACE_BYTES);
    conv_loops(issue->op, &issue->shape, &issue->call);
    fake_cudnn.runs[issue->engine]++;
    spoil(issue);
}

static void *pointer(const struct fake_descriptor *pack, int64_t id)
{
    const struct fake_attribute *ids = fake_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct fake_attribute *pointers = fake_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int64_t i = 0; i < ids->count && i < pointers->count; i++)
        if (((const int64_t *)ids->items)[i] == id)
            return ((void *const *)pointers->items)[i];
    return NULL;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t execution,
                                  cudnnBackendDescriptor_t variants)
{
    const struct fake_descriptor *plan = execution, *pack = variants, *engine = engine_of(plan);
    struct issue issue = {
        .engine = (enum fake_engine)fake_integer(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0),
        .tile = knob_of(plan, FAKE_TILE),
        .half = knob_of(plan, FAKE_HALF)};
    struct fake_reading reading;
    if (!plan->finalized || !pack->finalized ||
        !fake_read_graph(fake_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0), &reading))
        return CUDNN_STATUS_BAD_PARAM;
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    if (handle->stream)
        cudaStreamIsCapturing(handle->stream, &captured);
    if (issue.engine == FAKE_UNRUN || fake_cudnn.unrun[issue.engine] ||
        (issue.engine == FAKE_UNCAPTURED && captured != cudaStreamCaptureStatusNone))
        return CUDNN_STATUS_EXECUTION_FAILED;
    void *x = pointer(pack, reading.x), *w = pointer(pack, reading.w),
         *y = pointer(pack, reading.y);
    issue.op = reading.op;
    issue.shape = reading.shape;
    issue.call = (struct conv_call){.x = x, .w = w, .dy = y, .y = y, .dx = x, .dw = w};
    const struct fake_attribute *workspace = fake_find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    issue.call.workspace = workspace ? *(void *const *)workspace->items : NULL;
    fake_enqueue_c(handle->stream, run, &issue, sizeof issue);
    return CUDNN_STATUS_SUCCESS;
}
