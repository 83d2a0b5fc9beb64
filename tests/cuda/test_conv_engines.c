#define OWN_MAIN
#include "core/schedule/memory.h"
#include "exec/cuda/conv/conv_cudnn_engine.h"
#include "tests/core/own.h"
#include "tests/test.h"

/* cuDNN itself, without a GPU: it is told what device to answer for, and asked for engines for
 * every convolution of our networks.  Nothing is run. */

/* What the library itself never gives back is no leak of ours; that all descriptors are released is
 * tested over a library in software (test_conv_plans.c). */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libcudnn\nleak:libcublas\nleak:libnvrtc\n";
}

/* The values that CUDA reports of a device; Source: NVIDIA's CUDA programming guide, technical
 * specifications per compute capability, and the data sheets of the GPUs.  Clocks are boost. */
static const char described[] =
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"regsPerBlock\": 65536, \"multiProcessorCount\": %d, \"warpSize\": 32, "
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %d, "
    "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"pciDeviceId\": 0, "
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"totalGlobalMem\": %lld, "
    "\"smClockRateKHz\": %d, \"memClockRateKHz\": %d, \"l2CacheSize\": %d, \"cudaDeviceId\": 0, "
    "\"deviceVer\": %d, \"driverVer\": 13000, \"deviceName\": \"%s\"}";

struct described {
    const char *name;
    int version, processors, shared, clock, memory_clock, cache;
    long long memory;
};

static const struct described h200 = {"NVIDIA H200", 900,     132,      232448,
                                      1980000,       3201000, 62914560, 151397597184LL};
static const struct described h100 = {
    "NVIDIA H100 80GB HBM3", 900, 132, 232448, 1980000, 2619000, 52428800, 85029158912LL};
static const struct described a100 = {
    "NVIDIA A100-SXM4-80GB", 800, 108, 166912, 1410000, 1593000, 41943040, 85899345920LL};

static struct conv_target target_of(struct conv_builder *builder, const struct described *device)
{
    struct conv_target target = {0};
    AUTOFREE char *text =
        base_format(described, device->processors, device->shared, device->memory, device->clock,
                    device->memory_clock, device->cache, device->version, device->name);
    target.property = conv_builder_new(builder, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    conv_builder_set(builder, target.property, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                     CUDNN_TYPE_CHAR, (int64_t)strlen(text), text);
    conv_builder_finalize(builder, target.property);
    return target;
}

/* Channels as the device pads them, to 4 of images in 16 bits. */
static int32_t padded(int32_t channels, bool images)
{
    return images ? 4 : (channels + 7) / 8 * 8;
}

/* A linear layer is a convolution of one pixel. */
static struct conv_shape shape_of(const struct layer *layer, enum dtype type, int32_t batch)
{
    bool linear = layer->op == LAYER_LINEAR, images = layer->first && type != DTYPE_FP32;
    int32_t pixels = layer->in.height * layer->in.width;
    return (struct conv_shape){.type = type,
                               .batch = batch,
                               .in_channels =
                                   padded(layer->in.channels, images) * (linear ? pixels : 1),
                               .in_height = linear ? 1 : layer->in.height,
                               .in_width = linear ? 1 : layer->in.width,
                               .out_channels = padded(layer->out.channels, false),
                               .out_height = layer->out.height,
                               .out_width = layer->out.width,
                               .kernel = linear ? 1 : layer->kernel,
                               .stride = linear ? 1 : layer->stride,
                               .padding = linear ? 0 : layer->padding};
}

/* The library says which values each setting of @choice may have. */
static void assert_settings_known(struct conv_builder *builder, const struct conv_target *target,
                                  cudnnBackendDescriptor_t graph, const struct conv_choice *choice)
{
    struct conv_range range[CONV_KNOBS];
    int32_t ranges = conv_ranges(builder, target, graph, choice->engine, range);
    assert_true(ranges >= choice->knobs); /* others are left to the library */
    for (int32_t i = 0; i < choice->knobs; i++) {
        int32_t j = 0;
        while (j < ranges && range[j].type != choice->knob[i].type)
            j++;
        assert_true(j < ranges && range[j].least <= range[j].most && range[j].stride > 0);
    }
}

/* Make plans for @op on @shape until one is within the limit of workspace.
 * @return engines that were offered, or 0 where none gives such a plan. */
static int32_t ask(const struct conv_target *target, enum conv_op op,
                   const struct conv_shape *shape)
{
    HELD(conv_builder) builder = {.err = &err};
    AUTOFREE struct conv_candidate *list = NULL;
    bool found = false;
    cudnnBackendDescriptor_t graph = conv_graph(&builder, target, op, shape);
    assert_ok(graph, err);
    int32_t count = conv_candidates(&builder, target, graph, shape->type, &list);
    for (int32_t i = 0; i < count && !found; i++) {
        HELD(conv_builder) trial = {0}, again = {0};
        int64_t workspace = 0, rebuilt = -1;
        found = conv_make_plan(&trial, target, list[i].config, &workspace) &&
                workspace <= MEMORY_WORKSPACE_LIMIT;
        if (found) { /* the line of a cache file says all there is to know of an engine */
            cudnnBackendDescriptor_t config = conv_config(&again, target, graph, &list[i].choice);
            assert_non_null(conv_make_plan(&again, target, config, &rebuilt));
            assert_int_equal(rebuilt, workspace);
            assert_settings_known(&again, target, graph, &list[i].choice);
        }
    }
    return found ? count : 0;
}

/* What a network's convolutions and linear layers, without repetitions, were offered. */
struct cover {
    int32_t shapes, fewest; /* fewest engines */
};

/* Every one of them must have a plan for each op, but for the gradient of images. */
static struct cover cover(const struct described *device, const char *network, int32_t image,
                          enum dtype type, int32_t batch)
{
    HELD(conv_builder) owner = {0};
    struct conv_target target = target_of(&owner, device);
    OWN(model) *model = network_of(network, image, image > 64 ? 1000 : 10);
    struct cover cover = {.fewest = INT32_MAX};
    assert_false(owner.failed);
    AUTOFREE struct conv_shape *seen = base_alloc(model->layer_count, sizeof *seen);
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        struct conv_shape shape = shape_of(layer, type, batch);
        bool fresh = layer->op == LAYER_CONVOLUTION || layer->op == LAYER_LINEAR;
        for (int32_t j = 0; fresh && j < cover.shapes; j++)
            fresh = memcmp(&seen[j], &shape, sizeof shape) != 0;
        if (!fresh)
            continue;
        seen[cover.shapes++] = shape;
        for (int32_t op = 0; op < CONV_OP_COUNT; op++) {
            if (op == CONV_BACKWARD_DATA && layer->first)
                continue;
            int32_t engines = ask(&target, (enum conv_op)op, &shape);
            cover.fewest = engines < cover.fewest ? engines : cover.fewest;
            if (!engines)
                fail_msg("%s, %s: no engine for %s of %s in %s", device->name, network,
                         conv_names[op], layer->name, dtype_names[type]);
        }
    }
    print_message("%s, %s, %s: %d shapes, at least %d engines each\n", device->name, network,
                  dtype_names[type], cover.shapes, cover.fewest);
    return cover;
}

TEST(every_layer_of_resnet50_has_engines)
{
    const struct described *const devices[] = {&h200, &h100, &a100};
    for (int32_t i = 0; i < 3 * DTYPE_COUNT; i++) {
        struct cover got = cover(devices[i / DTYPE_COUNT], "resnet50", 224, i % DTYPE_COUNT, 256);
        assert_int_equal(got.shapes, 24); /* 23 convolutions and the classifier */
    }
}

/* Among them is a linear layer of 25088 numbers. */
TEST(every_layer_of_vgg16_has_engines)
{
    for (int32_t type = 0; type < DTYPE_COUNT; type++)
        cover(&h200, "vgg16", 224, (enum dtype)type, 64);
}

TEST(networks_for_small_images_have_engines)
{
    for (int32_t type = 0; type < DTYPE_COUNT; type++) {
        cover(&h200, "resnet20", 32, (enum dtype)type, 128); /* as all of its family, deep or not */
        cover(&h200, "toy", 32, (enum dtype)type, 7);
    }
}

/* Nothing that rounds on the way, or sums in an order of its own each time, is let through. */
TEST(unfit_engines_are_left_out)
{
    static const struct conv_shape shape = {DTYPE_FP32, 256, 64, 56, 56, 64, 56, 56, 3, 1, 1};
    const uint32_t never = UINT32_C(1) << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    const uint32_t rounds = UINT32_C(1) << CUDNN_NUMERICAL_NOTE_TENSOR_CORE |
                            UINT32_C(1) << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
                            UINT32_C(1) << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    for (int32_t type = 0; type < DTYPE_COUNT; type++) {
        HELD(conv_builder) builder = {0};
        struct conv_target target = target_of(&builder, &h200);
        struct conv_shape typed = shape;
        AUTOFREE struct conv_candidate *list = NULL;
        typed.type = (enum dtype)type;
        cudnnBackendDescriptor_t graph =
            conv_graph(&builder, &target, CONV_BACKWARD_FILTER, &typed);
        int32_t cores = 0, count = conv_candidates(&builder, &target, graph, typed.type, &list);
        assert_true(count > 0);
        for (int32_t i = 0; i < count; i++) {
            assert_int_equal(list[i].choice.notes & never, 0);
            assert_true(typed.type != DTYPE_FP32 || (list[i].choice.notes & rounds) == 0);
            cores += (list[i].choice.notes & rounds) != 0;
            for (int32_t j = 0; j < i; j++)
                assert_false(list[i].choice.engine == list[j].choice.engine &&
                             list[i].choice.knobs == list[j].choice.knobs &&
                             memcmp(list[i].choice.knob, list[j].choice.knob,
                                    sizeof list[i].choice.knob) == 0);
        }
        assert_true(typed.type == DTYPE_FP32 || cores > 0);
    }
}

/* What the library says of a shape that does not fit reaches the user. */
TEST(faults_are_told_in_the_librarys_words)
{
    static const struct conv_shape shape = {DTYPE_FP16, 256, 64, 56, 56, 64, 57, 56, 3, 1, 1};
    HELD(conv_builder) builder = {.err = &err};
    struct conv_target target = target_of(&builder, &h200);
    assert_null(conv_graph(&builder, &target, CONV_FORWARD, &shape));
    assert_int_equal(err.count, 1);
    assert_has(err.text, "cuDNN cannot");
    assert_message(&err, 69, "CUDNN_STATUS_");
}

int main(void)
{
    conv_keep_compiler();
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests_name("conv_engines", tests, NULL, NULL);
}
