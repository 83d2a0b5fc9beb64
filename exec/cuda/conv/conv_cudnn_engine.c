#include "exec/cuda/conv/conv_cudnn_engine.h"

#include <dlfcn.h>

#include "core/base/base.h"
#include "exec/cuda/conv/conv_check.h"

void conv_keep_compiler(void)
{
    AUTOFREE char *name = base_format("libnvrtc.so.%d", CUDART_VERSION / 1000);
    dlopen(name, RTLD_LAZY | RTLD_NODELETE);
}

/* ---- what an engine says of itself ---- */

static uint32_t bit(cudnnBackendNumericalNote_t note)
{
    return UINT32_C(1) << note;
}

static void read_knobs(struct conv_builder *builder, cudnnBackendDescriptor_t config,
                       struct conv_choice *choice)
{
    cudnnBackendDescriptor_t knob[CONV_KNOBS];
    for (int32_t i = 0; i < CONV_KNOBS; i++)
        knob[i] = conv_builder_new(builder, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice->knobs = (int32_t)conv_builder_get(builder, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, CONV_KNOBS, knob);
    for (int32_t i = 0; i < choice->knobs; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        conv_builder_get(builder, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                         1, &type);
        conv_builder_get(builder, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                         &choice->knob[i].value);
        choice->knob[i].type = (int64_t)type;
    }
}

static struct conv_choice describe(struct conv_builder *builder, cudnnBackendDescriptor_t config)
{
    struct conv_choice choice = {.engine = -1};
    cudnnBackendDescriptor_t engine = conv_builder_new(builder, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t index = -1;
    conv_builder_get(builder, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &engine);
    conv_builder_get(builder, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    int64_t notes =
        conv_builder_get(builder, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                         CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, note);
    for (int64_t i = 0; i < notes; i++)
        choice.notes |= bit(note[i]);
    choice.engine = (int32_t)index;
    read_knobs(builder, config, &choice);
    return choice;
}

static bool may_be_used(const struct conv_choice *choice, enum dtype type)
{
    uint32_t unwanted = bit(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    if (type == DTYPE_FP32)
        unwanted |= bit(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) |
                    bit(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) |
                    bit(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    return (choice->notes & unwanted) == 0;
}

/* ---- lists of engines ---- */

/* Append the engines of one mode; a mode that fails has none. */
static void ask(struct conv_builder *builder, const struct conv_target *target,
                cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, enum dtype type,
                struct conv_candidate *list, int32_t *count)
{
    AUTORELEASE(conv_builder) struct conv_builder question = {0};
    cudnnBackendDescriptor_t answer[CONV_CANDIDATES];
    cudnnBackendDescriptor_t heuristics =
        conv_builder_new(&question, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    conv_builder_set(&question, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    conv_builder_set(&question, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                     &mode);
    if (!target->handle)
        conv_builder_set(&question, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->property);
    conv_builder_finalize(&question, heuristics);
    for (int32_t i = 0; i < CONV_CANDIDATES; i++)
        answer[i] = conv_builder_new(builder, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t answers = conv_builder_get(&question, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, CONV_CANDIDATES, answer);
    for (int64_t i = 0; i < answers; i++) {
        AUTORELEASE(conv_builder) struct conv_builder reading = {0};
        struct conv_candidate next = {answer[i], describe(&reading, answer[i])};
        bool wanted = !reading.failed && may_be_used(&next.choice, type);
        for (int32_t j = 0; wanted && j < *count; j++)
            wanted = !conv_choice_same(&list[j].choice, &next.choice);
        if (wanted)
            list[(*count)++] = next;
    }
}

int32_t conv_candidates(struct conv_builder *builder, const struct conv_target *target,
                        cudnnBackendDescriptor_t graph, enum dtype type,
                        struct conv_candidate **list)
{
    static const cudnnBackendHeurMode_t mode[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                  CUDNN_HEUR_MODE_FALLBACK};
    int32_t count = 0;
    *list = base_alloc(3 * (int64_t)CONV_CANDIDATES, sizeof **list);
    for (int32_t i = 0; i < 3; i++)
        ask(builder, target, graph, mode[i], type, *list, &count);
    return count;
}

/* ---- from a choice to a plan ---- */

static cudnnBackendDescriptor_t knob_choice(struct conv_builder *builder, struct conv_knob knob)
{
    const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)knob.type;
    cudnnBackendDescriptor_t made = conv_builder_new(builder, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    conv_builder_set(builder, made, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                     &type);
    conv_builder_set(builder, made, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                     &knob.value);
    conv_builder_finalize(builder, made);
    return made;
}

static cudnnBackendDescriptor_t engine_of(struct conv_builder *builder,
                                          const struct conv_target *target,
                                          cudnnBackendDescriptor_t graph, int64_t index)
{
    cudnnBackendDescriptor_t engine = conv_builder_new(builder, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    conv_builder_set(builder, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    conv_builder_set(builder, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    if (!target->handle)
        conv_builder_set(builder, engine, CUDNN_ATTR_ENGINE_DEVICEPROP,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->property);
    conv_builder_finalize(builder, engine);
    return engine;
}

int32_t conv_ranges(struct conv_builder *builder, const struct conv_target *target,
                    cudnnBackendDescriptor_t graph, int32_t engine,
                    struct conv_range range[CONV_KNOBS])
{
    cudnnBackendDescriptor_t info[CONV_KNOBS];
    cudnnBackendDescriptor_t made = engine_of(builder, target, graph, engine);
    for (int32_t i = 0; i < CONV_KNOBS; i++)
        info[i] = conv_builder_new(builder, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    int64_t count = conv_builder_get(builder, made, CUDNN_ATTR_ENGINE_KNOB_INFO,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, CONV_KNOBS, info);
    for (int64_t i = 0; i < count; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        range[i] = (struct conv_range){.stride = 1};
        conv_builder_get(builder, info[i], CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                         &type);
        conv_builder_get(builder, info[i], CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 1,
                         &range[i].least);
        conv_builder_get(builder, info[i], CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, 1,
                         &range[i].most);
        conv_builder_get(builder, info[i], CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 1,
                         &range[i].stride);
        range[i].type = (int64_t)type;
    }
    return builder->failed ? 0 : (int32_t)count;
}

cudnnBackendDescriptor_t conv_config(struct conv_builder *builder, const struct conv_target *target,
                                     cudnnBackendDescriptor_t graph,
                                     const struct conv_choice *choice)
{
    cudnnBackendDescriptor_t knob[CONV_KNOBS];
    cudnnBackendDescriptor_t engine = engine_of(builder, target, graph, choice->engine);
    for (int32_t i = 0; i < choice->knobs; i++)
        knob[i] = knob_choice(builder, choice->knob[i]);
    cudnnBackendDescriptor_t config = conv_builder_new(builder, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    conv_builder_set(builder, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &engine);
    if (choice->knobs)
        conv_builder_set(builder, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, choice->knobs, knob);
    conv_builder_finalize(builder, config);
    return builder->failed ? NULL : config;
}

cudnnBackendDescriptor_t conv_make_plan(struct conv_builder *builder,
                                        const struct conv_target *target,
                                        cudnnBackendDescriptor_t config, int64_t *workspace)
{
    cudnnBackendDescriptor_t plan =
        conv_builder_new(builder, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (target->handle)
        conv_builder_set(builder, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                         &target->handle);
    else
        conv_builder_set(builder, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target->property);
    conv_builder_set(builder, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    conv_builder_finalize(builder, plan);
    conv_builder_get(builder, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                     workspace);
    return builder->failed ? NULL : plan;
}

char *conv_engine_name(const struct conv_choice *choice)
{
    bool cores = choice->notes & bit(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    bool winograd = choice->notes & bit(CUDNN_NUMERICAL_NOTE_WINOGRAD);
    bool fourier = choice->notes & bit(CUDNN_NUMERICAL_NOTE_FFT);
    return base_format("engine %d%s%s%s", choice->engine, cores ? ", tensor cores" : "",
                       winograd ? ", Winograd" : "", fourier ? ", Fourier transform" : "");
}

/* ---- running ---- */

cudnnStatus_t conv_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, enum conv_op op,
                           cudaStream_t stream, const struct conv_call *call, struct err *err)
{
    AUTORELEASE(conv_builder) struct conv_builder builder = {.err = err};
    const enum conv_array written = conv_written(op);
    const int64_t id[] = {CONV_X, CONV_W, CONV_Y};
    const void *const pointer[] = {written == CONV_ARRAY_X ? call->dx : call->x,
                                   written == CONV_ARRAY_W ? call->dw : call->w,
                                   written == CONV_ARRAY_Y ? call->y : call->dy};
    cudnnBackendDescriptor_t pack =
        conv_builder_new(&builder, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    conv_builder_set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, id);
    conv_builder_set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3,
                     pointer);
    conv_builder_set(&builder, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                     &call->workspace);
    conv_builder_finalize(&builder, pack);
    if (builder.failed)
        return builder.status;
    cudnnStatus_t status = cudnnSetStream(handle, stream);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(handle, plan, pack);
    if (status != CUDNN_STATUS_SUCCESS)
        conv_status(status, "run a convolution", err);
    return status;
}
