#include "exec/cuda/conv/conv_cudnn_graph.h"

#include <stdlib.h>
#include <string.h>

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
    const bool nowhere =
        operand % CONV_SECOND >= CONV_SCALED && operand % CONV_SECOND <= CONV_ENDED;
    cudnnBackendDescriptor_t made = conv_builder_new(builder, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1,
                     &alignment);
    if (nowhere)
        conv_builder_set(builder, made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                         &nowhere);
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

/* The tensor @operand of x's shape. */
static cudnnBackendDescriptor_t of_x(struct conv_builder *builder, int32_t operand,
                                     const struct conv_shape *s, cudnnDataType_t type)
{
    return tensor(builder, (enum conv_operand)operand, type, s->batch, s->in_channels, s->in_height,
                  s->in_width);
}

/* Descriptors of which another is made, by cuDNN's names. */
struct named {
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptor_t part;
};

static void set_parts(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor,
                      const struct named *named, size_t count)
{
    for (size_t i = 0; i < count; i++)
        conv_builder_set(builder, descriptor, named[i].name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                         &named[i].part);
}

/* @mode of @count tensors. */
static cudnnBackendDescriptor_t pointwise(struct conv_builder *builder, cudnnPointwiseMode_t mode,
                                          const struct named *named, size_t count)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = conv_builder_new(builder, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    conv_builder_set(builder, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    conv_builder_set(builder, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1,
                     &compute);
    conv_builder_finalize(builder, how);
    cudnnBackendDescriptor_t made =
        conv_builder_new(builder, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_parts(builder, made, &(struct named){CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how}, 1);
    set_parts(builder, made, named, count);
    conv_builder_finalize(builder, made);
    return made;
}

/* y = @mode of x and, unless NULL, b. */
static cudnnBackendDescriptor_t forward(struct conv_builder *builder, cudnnPointwiseMode_t mode,
                                        cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                        cudnnBackendDescriptor_t y)
{
    const struct named named[] = {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                                  {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y},
                                  {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b}};
    return pointwise(builder, mode, named, b ? 3 : 2);
}

enum { MOST = 16 };

/* Operations of a graph. */
struct operations {
    cudnnBackendDescriptor_t list[MOST];
    int64_t count;
};

/* @x with batch norm's factors applied, in fp32.  @second: 0, or CONV_SECOND. */
static cudnnBackendDescriptor_t scale(struct conv_builder *builder, const struct conv_shape *s,
                                      int32_t second, cudnnBackendDescriptor_t x,
                                      struct operations *operations)
{
    const cudnnDataType_t type = data_type[s->type], wide = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t scaled = of_x(builder, second + CONV_SCALED, s, wide);
    cudnnBackendDescriptor_t shifted = of_x(builder, second + CONV_SHIFTED, s, wide);
    cudnnBackendDescriptor_t factor[2];
    for (int32_t i = 0; i < 2; i++)
        factor[i] = tensor(builder, (enum conv_operand)(second + (i ? CONV_SHIFT : CONV_SCALE)),
                           type, 1, s->in_channels, 1, 1);
    operations->list[operations->count++] =
        forward(builder, CUDNN_POINTWISE_MUL, x, factor[0], scaled);
    operations->list[operations->count++] =
        forward(builder, CUDNN_POINTWISE_ADD, scaled, factor[1], shifted);
    return shifted;
}

/* *@x plus @more, as the tensor @result of fp32, which *@x becomes. */
static void add(struct conv_builder *builder, const struct conv_shape *s,
                struct operations *operations, cudnnBackendDescriptor_t *x,
                cudnnBackendDescriptor_t more, enum conv_operand result)
{
    cudnnBackendDescriptor_t sum = of_x(builder, result, s, CUDNN_DATA_FLOAT);
    operations->list[operations->count++] = forward(builder, CUDNN_POINTWISE_ADD, *x, more, sum);
    *x = sum;
}

/* What the convolution of @op reads instead of @x: batch norm's factors and ReLU applied, and what
 * is added between them.  Intermediate values are fp32, so that only the result is rounded. */
static cudnnBackendDescriptor_t apply(struct conv_builder *builder, enum conv_op op,
                                      const struct conv_shape *s, cudnnBackendDescriptor_t x,
                                      struct operations *operations)
{
    const cudnnDataType_t type = data_type[s->type];
    cudnnBackendDescriptor_t value = scale(builder, s, 0, x, operations), result, more;
    if (conv_ops[op].adds) {
        more = of_x(builder, CONV_RESIDUAL, s, type);
        if (conv_ops[op].pairs)
            more = scale(builder, s, CONV_SECOND, more, operations);
        add(builder, s, operations, &value, more, CONV_ENDED);
    }
    result = of_x(builder, conv_ops[op].adds ? CONV_VALUE : CONV_APPLIED, s, type);
    operations->list[operations->count++] =
        forward(builder, CUDNN_POINTWISE_RELU_FWD, value, NULL, result);
    return result;
}

/* The convolution of @op on @x; its y goes to @y. */
static cudnnBackendDescriptor_t convolution(struct conv_builder *builder, enum conv_op op,
                                            const struct conv_shape *s, cudnnBackendDescriptor_t x,
                                            cudnnBackendDescriptor_t *y)
{
    const struct names *names = &convolution_names[conv_written(op)];
    const cudnnDataType_t type = data_type[s->type];
    const float one = 1.0F, zero = 0.0F;
    cudnnBackendDescriptor_t w =
        tensor(builder, CONV_W, type, s->out_channels, s->in_channels, s->kernel, s->kernel);
    *y = tensor(builder, CONV_Y, type, s->batch, s->out_channels, s->out_height, s->out_width);
    const struct named part[] = {
        {names->window, window(builder, s)}, {names->x, x}, {names->w, w}, {names->y, *y}};
    cudnnBackendDescriptor_t made = conv_builder_new(builder, names->type);
    set_parts(builder, made, part, 4);
    conv_builder_set(builder, made, names->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    conv_builder_set(builder, made, names->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    conv_builder_finalize(builder, made);
    return made;
}

/* Sums of @y and of y * y per channel. */
static cudnnBackendDescriptor_t statistics(struct conv_builder *builder, int64_t channels,
                                           cudnnBackendDescriptor_t y)
{
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const struct named part[] = {{CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y},
                                 {CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC,
                                  tensor(builder, CONV_SUM, compute, 1, channels, 1, 1)},
                                 {CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC,
                                  tensor(builder, CONV_SQUARES, compute, 1, channels, 1, 1)}};
    cudnnBackendDescriptor_t made =
        conv_builder_new(builder, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    conv_builder_set(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1,
                     &mode);
    conv_builder_set(builder, made, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                     1, &compute);
    set_parts(builder, made, part, 3);
    conv_builder_finalize(builder, made);
    return made;
}

/* Of a batch norm, (1, channels, 1, 1) in fp32. */
static cudnnBackendDescriptor_t of_norm(struct conv_builder *builder, int32_t operand,
                                        const struct conv_shape *s)
{
    return tensor(builder, (enum conv_operand)operand, CUDNN_DATA_FLOAT, 1, s->in_channels, 1, 1);
}

/* What the sums of a batch norm's backward read besides the gradient. */
enum { GIVEN = 4 };

/* The result of a batch norm formed again in fp32, by four operations; @given is what its sums
 * read.  @second: 0, or CONV_SECOND. */
static cudnnBackendDescriptor_t normalise(struct conv_builder *builder, const struct conv_shape *s,
                                          int32_t second, struct operations *operations,
                                          struct named given[GIVEN])
{
    const cudnnDataType_t wide = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t seen = of_x(builder, second + CONV_SEEN, s, data_type[s->type]);
    cudnnBackendDescriptor_t mean = of_norm(builder, second + CONV_MEAN, s);
    cudnnBackendDescriptor_t deviation = of_norm(builder, second + CONV_DEVIATION, s);
    cudnnBackendDescriptor_t gamma = of_norm(builder, second + CONV_GAMMA, s);
    const struct {
        cudnnPointwiseMode_t mode;
        cudnnBackendDescriptor_t b;
        int32_t result;
    } row[] = {{CUDNN_POINTWISE_SUB, mean, CONV_CENTRED},
               {CUDNN_POINTWISE_MUL, deviation, CONV_NORMAL},
               {CUDNN_POINTWISE_MUL, gamma, CONV_SCALED},
               {CUDNN_POINTWISE_ADD, of_norm(builder, second + CONV_BETA, s), CONV_SHIFTED}};
    cudnnBackendDescriptor_t value = seen;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        cudnnBackendDescriptor_t result = of_x(builder, second + row[i].result, s, wide);
        operations->list[operations->count++] =
            forward(builder, row[i].mode, value, row[i].b, result);
        value = result;
    }
    given[0] = (struct named){CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, mean};
    given[1] = (struct named){CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, deviation};
    given[2] = (struct named){CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, gamma};
    given[3] = (struct named){CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, seen};
    return value;
}

/* Sums over @dz, and what was @given, of batch norm's backward. */
static cudnnBackendDescriptor_t norm_sums(struct conv_builder *builder, const struct conv_shape *s,
                                          int32_t second, const struct named given[GIVEN],
                                          cudnnBackendDescriptor_t dz)
{
    static const cudnnBackendAttributeName_t derived[CONV_DERIVED_COUNT] = {
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS};
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const struct named gradient = {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dz};
    struct named left[CONV_DERIVED_COUNT];
    for (int32_t i = 0; i < CONV_DERIVED_COUNT; i++)
        left[i] = (struct named){derived[i], of_norm(builder, second + CONV_DERIVED + i, s)};
    cudnnBackendDescriptor_t made =
        conv_builder_new(builder, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
    conv_builder_set(builder, made, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC,
                     CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set_parts(builder, made, given, GIVEN);
    set_parts(builder, made, &gradient, 1);
    set_parts(builder, made, left, CONV_DERIVED_COUNT);
    conv_builder_finalize(builder, made);
    return made;
}

/* Back through the ReLU and to the sums of the batch norms before a convolution, which gives
 * @uncut. */
static void go_back(struct conv_builder *builder, enum conv_op op, const struct conv_shape *s,
                    cudnnBackendDescriptor_t uncut, struct operations *operations)
{
    const cudnnDataType_t type = data_type[s->type];
    struct named given[2][GIVEN];
    cudnnBackendDescriptor_t dz = of_x(builder, CONV_X, s, type), value;
    if (conv_ops[op].adds)
        add(builder, s, operations, &uncut, of_x(builder, CONV_OTHER, s, type), CONV_JOINED);
    value = normalise(builder, s, 0, operations, given[0]);
    if (conv_ops[op].pairs)
        add(builder, s, operations, &value,
            normalise(builder, s, CONV_SECOND, operations, given[1]), CONV_ENDED);
    else if (conv_ops[op].adds)
        add(builder, s, operations, &value, of_x(builder, CONV_RESIDUAL, s, type), CONV_ENDED);
    const struct named relu[] = {{CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, uncut},
                                 {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, value},
                                 {CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dz}};
    operations->list[operations->count++] = pointwise(builder, CUDNN_POINTWISE_RELU_BWD, relu, 3);
    for (int32_t k = 0; k < conv_ops[op].norms; k++)
        operations->list[operations->count++] =
            norm_sums(builder, s, k * CONV_SECOND, given[k], dz);
}

cudnnBackendDescriptor_t conv_graph(struct conv_builder *builder, const struct conv_target *target,
                                    enum conv_op op, const struct conv_shape *shape)
{
    bool norms = conv_ops[op].norms;
    cudnnDataType_t type = norms ? CUDNN_DATA_FLOAT : data_type[shape->type];
    cudnnBackendDescriptor_t x = of_x(builder, norms ? CONV_UNCUT : CONV_X, shape, type), y;
    struct operations operations = {.count = 0};
    if (conv_ops[op].applies)
        x = apply(builder, op, shape, x, &operations);
    operations.list[operations.count++] = convolution(builder, op, shape, x, &y);
    if (conv_ops[op].sums)
        operations.list[operations.count++] = statistics(builder, shape->out_channels, y);
    if (norms)
        go_back(builder, op, shape, x, &operations);
    cudnnBackendDescriptor_t made =
        conv_builder_new(builder, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (target->handle)
        conv_builder_set(builder, made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                         &target->handle);
    conv_builder_set(builder, made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     operations.count, operations.list);
    conv_builder_finalize(builder, made);
    return builder->failed ? NULL : made;
}
