#include "exec/cuda/conv/conv_cudnn_graph.h"

#include "core/base/base.h"
#include "exec/cuda/conv/conv_check.h"

/* ---- descriptors ---- */

void conv_status(cudnnStatus_t status, const char *what, struct err *err)
{
    if (!err)
        return;
    char reason[512] = "";
    cudnnGetLastErrorString(reason, sizeof reason);
    reason[strcspn(reason, "\n")] = '\0'; /* the rest is a trace of its own calls */
    err_add_code(err, 69, "cuDNN cannot %s: %s%s%s", what, cudnnGetErrorString(status),
                 reason[0] ? ": " : "", reason);
}

static void judge(struct conv_builder *builder, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return;
    builder->failed = true;
    builder->status = status;
    conv_status(status, what, builder->err);
}

cudnnBackendDescriptor_t conv_builder_new(struct conv_builder *builder,
                                          cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (builder->failed)
        return NULL;
    judge(builder, cudnnBackendCreateDescriptor(type, &made), "make a descriptor");
    if (builder->failed)
        return NULL;
    builder->made =
        base_grow(builder->made, builder->count + 1, &builder->capacity, sizeof *builder->made);
    return builder->made[builder->count++] = made;
}

void conv_builder_set(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const void *items)
{
    if (!builder->failed)
        judge(builder, cudnnBackendSetAttribute(descriptor, name, type, count, items),
              "describe an operation");
}

int64_t conv_builder_get(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, void *items)
{
    int64_t there = 0;
    if (!builder->failed)
        judge(builder, cudnnBackendGetAttribute(descriptor, name, type, count, &there, items),
              "say what it offers");
    return builder->failed ? 0 : there;
}

void conv_builder_finalize(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor)
{
    if (!builder->failed)
        judge(builder, cudnnBackendFinalize(descriptor), "do that");
}

void conv_builder_release(struct conv_builder *builder)
{
    while (builder->count > 0) /* the last first: it may be built on earlier ones */
        cudnnBackendDestroyDescriptor(builder->made[--builder->count]);
    free(builder->made);
    *builder = (struct conv_builder){0};
}

/* ---- tensors ---- */

static const cudnnDataType_t data_type[] = {[DTYPE_FP32] = CUDNN_DATA_FLOAT,
                                            [DTYPE_FP16] = CUDNN_DATA_HALF,
                                            [DTYPE_BF16] = CUDNN_DATA_BFLOAT16};

/* (n, c, h, w) in cuDNN's order, channels last in memory: NHWC, and in the same way KRSC. */
static cudnnBackendDescriptor_t tensor(struct conv_builder *builder, enum conv_operand operand,
                                       cudnnDataType_t type, int64_t n, int64_t c, int64_t h,
                                       int64_t w)
{
    const int64_t size[] = {n, c, h, w}, stride[] = {c * h * w, 1, c * w, c};
    const int64_t id = operand, alignment = 16;
    cudnnBackendDescriptor_t made = conv_builder_new(builder, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                     &alignment);
    conv_builder_finalize(builder, made);
    return made;
}

/* ---- operations ---- */

static cudnnBackendDescriptor_t window(struct conv_builder *builder, const struct conv_shape *shape)
{
    const int64_t two = 2, one[] = {1, 1}, stride[] = {shape->stride, shape->stride};
    const int64_t padding[] = {shape->padding, shape->padding};
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        int64_t count;
        const void *items;
    } row[] = {
        {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, padding},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, padding},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, one},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride},
    };
    cudnnBackendDescriptor_t made = conv_builder_new(builder, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        conv_builder_set(builder, made, row[i].name, row[i].type, row[i].count, row[i].items);
    conv_builder_finalize(builder, made);
    return made;
}

/* cuDNN's names of the parts of a convolution, by what it writes. */
static const struct names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
} convolution_names[] = {
    [CONV_ARRAY_Y] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [CONV_ARRAY_X] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [CONV_ARRAY_W] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* The convolution of @op. */
static cudnnBackendDescriptor_t convolution(struct conv_builder *builder, enum conv_op op,
                                            const struct conv_shape *s)
{
    const struct names *names = &convolution_names[conv_written(op)];
    const cudnnDataType_t type = data_type[s->type];
    const float one = 1.0F, zero = 0.0F;
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendDescriptor_t part;
    } row[] = {{names->window, window(builder, s)},
               {names->x,
                tensor(builder, CONV_X, type, s->batch, s->in_channels, s->in_height, s->in_width)},
               {names->w, tensor(builder, CONV_W, type, s->out_channels, s->in_channels, s->kernel,
                                 s->kernel)},
               {names->y, tensor(builder, CONV_Y, type, s->batch, s->out_channels, s->out_height,
                                 s->out_width)}};
    cudnnBackendDescriptor_t made = conv_builder_new(builder, names->type);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        conv_builder_set(builder, made, row[i].name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &row[i].part);
    conv_builder_set(builder, made, names->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    conv_builder_set(builder, made, names->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    conv_builder_finalize(builder, made);
    return made;
}

cudnnBackendDescriptor_t conv_graph(struct conv_builder *builder, const struct conv_target *target,
                                    enum conv_op op, const struct conv_shape *shape)
{
    cudnnBackendDescriptor_t operation = convolution(builder, op, shape);
    cudnnBackendDescriptor_t made =
        conv_builder_new(builder, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (target->handle)
        conv_builder_set(builder, made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                         &target->handle);
    conv_builder_set(builder, made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                     &operation);
    conv_builder_finalize(builder, made);
    return builder->failed ? NULL : made;
}
