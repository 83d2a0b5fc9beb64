#include "tests/cuda/fake/fake_cudnn_inner.h"

/* The sizes of a tensor with channels last, packed, on 16 bytes.  @return whether it is one. */
static bool read_tensor(const struct fake_descriptor *tensor, int32_t size[4], int32_t *type,
                        int64_t *id)
{
    if (!tensor || tensor->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        return false;
    for (int32_t i = 0; i < 4; i++)
        size[i] = (int32_t)fake_integer(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
    const int64_t stride[] = {(int64_t)size[1] * size[2] * size[3], 1, (int64_t)size[1] * size[3],
                              size[1]};
    for (int32_t i = 0; i < 4; i++)
        if (size[i] < 1 || fake_integer(tensor, CUDNN_ATTR_TENSOR_STRIDES, i) != stride[i])
            return false;
    *type = (int32_t)fake_integer(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, 0);
    *id = fake_integer(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    return fake_integer(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0) == 16;
}

static bool read_window(const struct fake_descriptor *window, struct conv_shape *shape)
{
    if (!window || window->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR ||
        fake_integer(window, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 0) != CUDNN_DATA_FLOAT ||
        fake_integer(window, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 0) != CUDNN_CROSS_CORRELATION ||
        fake_integer(window, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) != 2)
        return false;
    shape->stride = (int32_t)fake_integer(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 0);
    shape->padding = (int32_t)fake_integer(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0);
    for (int32_t i = 0; i < 2; i++)
        if (fake_integer(window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i) != shape->stride ||
            fake_integer(window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) != shape->padding ||
            fake_integer(window, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i) != shape->padding ||
            fake_integer(window, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) != 1)
            return false;
    return true;
}

/* How each kind of convolution calls its parts. */
static const struct names {
    cudnnBackendDescriptorType_t type;
    enum conv_op op;
    cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
} kinds[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CONV_FORWARD,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CONV_BACKWARD_DATA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CONV_BACKWARD_FILTER,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static float factor(const struct fake_descriptor *operation, cudnnBackendAttributeName_t name)
{
    const struct fake_attribute *attribute = fake_find(operation, name);
    return attribute && attribute->type == CUDNN_TYPE_FLOAT ? *(const float *)attribute->items
                                                            : -1.0F;
}

static int32_t outputs(int32_t in, const struct conv_shape *s)
{
    return (in + 2 * s->padding - s->kernel) / s->stride + 1;
}

static bool read_convolution(const struct fake_descriptor *operation, struct fake_reading *reading)
{
    const struct names *names = kinds;
    while (names < kinds + 3 && names->type != operation->type)
        names++;
    int32_t x[4], w[4], y[4], type[3];
    struct conv_shape *s = &reading->shape;
    if (names == kinds + 3 || !read_window(fake_part(operation, names->window, 0), s) ||
        !read_tensor(fake_part(operation, names->x, 0), x, &type[0], &reading->x) ||
        !read_tensor(fake_part(operation, names->w, 0), w, &type[1], &reading->w) ||
        !read_tensor(fake_part(operation, names->y, 0), y, &type[2], &reading->y))
        return false;
    reading->op = names->op;
    s->type = type[1] == CUDNN_DATA_HALF       ? DTYPE_FP16
              : type[1] == CUDNN_DATA_BFLOAT16 ? DTYPE_BF16
                                               : DTYPE_FP32;
    s->batch = x[0];
    s->in_channels = x[1];
    s->in_height = x[2];
    s->in_width = x[3];
    s->out_channels = y[1];
    s->out_height = y[2];
    s->out_width = y[3];
    s->kernel = w[2];
    return type[0] == type[1] && type[0] == type[2] && y[0] == x[0] && w[0] == y[1] &&
           w[1] == x[1] && w[2] == w[3] && outputs(x[2], s) == y[2] && outputs(x[3], s) == y[3] &&
           factor(operation, names->alpha) == 1.0F && factor(operation, names->beta) == 0.0F;
}

bool fake_read_graph(const struct fake_descriptor *graph, struct fake_reading *reading)
{
    const struct fake_attribute *operations = fake_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    *reading = (struct fake_reading){0};
    return operations && operations->count == 1 &&
           fake_find(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) &&
           read_convolution(fake_part(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0), reading);
}
