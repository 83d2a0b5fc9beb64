#include "tests/cuda/fake/fake_cudnn_inner.h"

#include <string.h>

/* The sizes of a tensor with channels last, packed, on 16 bytes.  @return whether it is one. */
static bool read_any_tensor(const struct fake_descriptor *tensor, int32_t size[4], int32_t *type,
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

/* Whether it is in no memory. */
static bool is_virtual(const struct fake_descriptor *tensor)
{
    return fake_integer(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) == 1;
}

/* See read_any_tensor(): one that lies in memory. */
static bool read_tensor(const struct fake_descriptor *tensor, int32_t size[4], int32_t *type,
                        int64_t *id)
{
    return read_any_tensor(tensor, size, type, id) && !is_virtual(tensor);
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
        !read_any_tensor(fake_part(operation, names->x, 0), x, &type[0], &reading->x) ||
        !read_tensor(fake_part(operation, names->w, 0), w, &type[1], &reading->w) ||
        !read_tensor(fake_part(operation, names->y, 0), y, &type[2], &reading->y))
        return false;
    reading->op = names->op;
    reading->in_memory = !is_virtual(fake_part(operation, names->x, 0));
    s->type = type[1] == CUDNN_DATA_HALF       ? DTYPE_FP16
              : type[1] == CUDNN_DATA_BFLOAT16 ? DTYPE_BF16
                                               : DTYPE_FP32;
    bool uncut = names->op == CONV_BACKWARD_DATA && !reading->in_memory;
    if (uncut && type[0] == CUDNN_DATA_FLOAT)
        type[0] = type[1]; /* nothing is rounded on the way */
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

/* The ids and types of a pointwise operation's tensors: x, b (per channel, in memory), y (in none),
 * all of x's shape but b. */
struct pointwise {
    int64_t x, b, y;
    int32_t size[4], x_type, b_type, y_type;
    bool reads_memory;
};

static bool read_pointwise(const struct fake_descriptor *operation, cudnnPointwiseMode_t mode,
                           struct pointwise *p)
{
    const struct fake_descriptor *how, *x, *b, *y;
    int32_t out[4], channels[4];
    if (!operation || operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        return false;
    how = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    x = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0);
    b = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0);
    y = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0);
    if (!how || fake_integer(how, CUDNN_ATTR_POINTWISE_MODE, 0) != (int64_t)mode ||
        fake_integer(how, CUDNN_ATTR_POINTWISE_MATH_PREC, 0) != CUDNN_DATA_FLOAT ||
        (b != NULL) != (mode != CUDNN_POINTWISE_RELU_FWD) ||
        !read_any_tensor(x, p->size, &p->x_type, &p->x) ||
        !read_any_tensor(y, out, &p->y_type, &p->y) || !is_virtual(y) ||
        memcmp(out, p->size, sizeof out) != 0)
        return false;
    p->reads_memory = !is_virtual(x);
    if (!b)
        return true;
    return read_tensor(b, channels, &p->b_type, &p->b) && channels[0] == 1 &&
           channels[1] == p->size[1] && channels[2] == 1 && channels[3] == 1;
}

/* The operations of a graph, one after the other. */
static const struct fake_descriptor *next(const struct fake_descriptor *graph, int32_t *at)
{
    return fake_part(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, (*at)++);
}

/* The sum of @x and @more, both of x's shape, which @x becomes; in no memory.  @more lies there,
 * and becomes its id, if it is INT64_MIN. */
static bool read_add(const struct fake_descriptor *operation, const struct conv_shape *s,
                     int64_t *x, int64_t *more)
{
    static const cudnnBackendAttributeName_t name[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                       CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
    const int32_t want[] = {s->batch, s->in_channels, s->in_height, s->in_width};
    const bool given = *more == INT64_MIN;
    int64_t id[3];
    if (!operation || operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        return false;
    const struct fake_descriptor *how =
        fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    if (!how || fake_integer(how, CUDNN_ATTR_POINTWISE_MODE, 0) != CUDNN_POINTWISE_ADD ||
        fake_integer(how, CUDNN_ATTR_POINTWISE_MATH_PREC, 0) != CUDNN_DATA_FLOAT)
        return false;
    for (int32_t i = 0; i < 3; i++) {
        const struct fake_descriptor *tensor = fake_part(operation, name[i], 0);
        const bool lies = i == 1 && given;
        int32_t size[4], type;
        if (!read_any_tensor(tensor, size, &type, &id[i]) || is_virtual(tensor) == lies ||
            type != (lies ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT) ||
            memcmp(size, want, sizeof size) != 0)
            return false;
    }
    bool right = id[0] == *x && (given || id[1] == *more);
    *x = id[2];
    *more = id[1];
    return right;
}

/* Factors applied to @x, in memory, which becomes the result of two operations. */
static bool read_scale(const struct fake_descriptor *graph, int32_t *at, const struct conv_shape *s,
                       int64_t *x, int64_t *scale, int64_t *shift, int64_t *result)
{
    const int32_t size[] = {s->batch, s->in_channels, s->in_height, s->in_width};
    const int32_t half = CUDNN_DATA_HALF, wide = CUDNN_DATA_FLOAT; /* as cuDNN has engines for */
    struct pointwise p[2];
    if (!read_pointwise(next(graph, at), CUDNN_POINTWISE_MUL, &p[0]) ||
        !read_pointwise(next(graph, at), CUDNN_POINTWISE_ADD, &p[1]))
        return false;
    *x = p[0].x;
    *scale = p[0].b;
    *shift = p[1].b;
    *result = p[1].y;
    return p[0].reads_memory && !p[1].reads_memory && p[1].x == p[0].y && p[0].x_type == half &&
           p[0].b_type == half && p[1].b_type == half && p[0].y_type == wide &&
           p[1].y_type == wide && memcmp(p[0].size, size, sizeof size) == 0;
}

/* The ReLU of @value gives the convolution's x, of fp16, which lies in memory if it is @written. */
static bool read_cut(const struct fake_descriptor *operation, int64_t value, bool written,
                     int64_t result)
{
    int32_t size[4], type;
    int64_t id[2];
    if (!operation || operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        return false;
    const struct fake_descriptor *how =
        fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    const struct fake_descriptor *y = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0);
    return how && fake_integer(how, CUDNN_ATTR_POINTWISE_MODE, 0) == CUDNN_POINTWISE_RELU_FWD &&
           fake_integer(how, CUDNN_ATTR_POINTWISE_MATH_PREC, 0) == CUDNN_DATA_FLOAT &&
           read_any_tensor(fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0), size,
                           &type, &id[0]) &&
           id[0] == value && type == CUDNN_DATA_FLOAT && read_any_tensor(y, size, &type, &id[1]) &&
           id[1] == result && type == CUDNN_DATA_HALF && is_virtual(y) != written;
}

/* What stands before the convolution, whose x it gives: see conv_graph(). */
static bool read_applying(const struct fake_descriptor *graph, enum conv_op op,
                          struct fake_reading *reading)
{
    const struct conv_shape *s = &reading->shape;
    int64_t read = reading->x, value, more;
    int32_t at = 0;
    if (!read_scale(graph, &at, s, &reading->x, &reading->scale, &reading->shift, &value))
        return false;
    more = reading->residual = INT64_MIN;
    if (conv_ops[op].pairs &&
        !read_scale(graph, &at, s, &reading->residual, &reading->residual_scale,
                    &reading->residual_shift, &more))
        return false;
    if (conv_ops[op].adds && !read_add(next(graph, &at), s, &value, &more))
        return false;
    if (conv_ops[op].adds)
        reading->value = read;
    if (conv_ops[op].adds && !conv_ops[op].pairs)
        reading->residual = more;
    return read_cut(next(graph, &at), value, conv_ops[op].adds, read);
}

static bool read_sums(const struct fake_descriptor *operation, struct fake_reading *reading)
{
    int32_t y[4], size[4], type;
    int64_t id;
    if (operation->type != CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR ||
        fake_integer(operation, CUDNN_ATTR_OPERATION_GENSTATS_MODE, 0) !=
            CUDNN_GENSTATS_SUM_SQSUM ||
        fake_integer(operation, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, 0) != CUDNN_DATA_FLOAT ||
        !read_tensor(fake_part(operation, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, 0), y, &type, &id) ||
        id != reading->y)
        return false;
    bool good = read_tensor(fake_part(operation, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, 0), size,
                            &type, &reading->sum) &&
                size[1] == y[1] && type == CUDNN_DATA_FLOAT;
    return good && read_tensor(fake_part(operation, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, 0),
                               size, &type, &reading->squares);
}

/* Batch norm @k formed again: four operations whose result is @result. */
static bool read_norm(const struct fake_descriptor *graph, int32_t *at, int32_t k,
                      struct fake_reading *reading, int64_t *result)
{
    static const cudnnPointwiseMode_t mode[] = {CUDNN_POINTWISE_SUB, CUDNN_POINTWISE_MUL,
                                                CUDNN_POINTWISE_MUL, CUDNN_POINTWISE_ADD};
    const struct conv_shape *s = &reading->shape;
    const int32_t size[] = {s->batch, s->in_channels, s->in_height, s->in_width};
    struct pointwise p[4];
    for (int32_t i = 0; i < 4; i++) {
        if (!read_pointwise(next(graph, at), mode[i], &p[i]))
            return false;
        if (i > 0 ? p[i].reads_memory || p[i].x != p[i - 1].y : !p[i].reads_memory)
            return false;
        if (p[i].b_type != CUDNN_DATA_FLOAT || p[i].y_type != CUDNN_DATA_FLOAT)
            return false;
        reading->norm[k][i] = p[i].b;
    }
    reading->seen[k] = p[0].x;
    *result = p[3].y;
    return p[0].x_type == CUDNN_DATA_HALF && memcmp(p[0].size, size, sizeof size) == 0;
}

/* The ReLU's backward: dz, in memory, is the convolution's result where @shifted is positive. */
static bool read_relu(const struct fake_descriptor *operation, int64_t shifted,
                      struct fake_reading *reading)
{
    const struct fake_descriptor *how, *dy, *x, *dx;
    int32_t size[4], type;
    int64_t id;
    if (!operation || operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        return false;
    how = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    dy = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, 0);
    x = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0);
    dx = fake_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, 0);
    if (!how || !dy || !x ||
        fake_integer(how, CUDNN_ATTR_POINTWISE_MODE, 0) != CUDNN_POINTWISE_RELU_BWD ||
        fake_integer(dy, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0) != reading->x ||
        fake_integer(x, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0) != shifted ||
        !read_tensor(dx, size, &type, &id) || type != CUDNN_DATA_HALF)
        return false;
    reading->x = id;
    return true;
}

static bool read_norm_sums(const struct fake_descriptor *sums, int32_t k,
                           struct fake_reading *reading)
{
    static const cudnnBackendAttributeName_t given[] = {
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC};
    static const cudnnBackendAttributeName_t derived[] = {
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS};
    int32_t size[4], type;
    int64_t id;
    if (!sums || sums->type != CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR ||
        fake_integer(sums, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, 0) != CUDNN_DATA_FLOAT)
        return false;
    for (int32_t i = 0; i < 3; i++)
        if (!read_tensor(fake_part(sums, given[i], 0), size, &type, &id) ||
            id != reading->norm[k][i])
            return false;
    if (!read_tensor(fake_part(sums, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, 0), size, &type,
                     &id) ||
        id != reading->seen[k] ||
        !read_tensor(fake_part(sums, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, 0), size, &type,
                     &id) ||
        id != reading->x)
        return false;
    for (int32_t i = 0; i < 5; i++)
        if (!read_tensor(fake_part(sums, derived[i], 0), size, &type, &reading->derived[k][i]) ||
            size[1] != reading->shape.in_channels || type != CUDNN_DATA_FLOAT)
            return false;
    return true;
}

/* What stands behind a convolution whose result is cut: see conv_graph(). */
static bool read_back(const struct fake_descriptor *graph, enum conv_op op,
                      struct fake_reading *reading)
{
    int64_t value, second;
    int32_t at = 1;
    reading->op = op;
    reading->other = reading->residual = INT64_MIN;
    if ((conv_ops[op].adds &&
         !read_add(next(graph, &at), &reading->shape, &reading->x, &reading->other)) ||
        !read_norm(graph, &at, 0, reading, &value))
        return false;
    if (conv_ops[op].norms > 1 && (!read_norm(graph, &at, 1, reading, &second) ||
                                   !read_add(next(graph, &at), &reading->shape, &value, &second)))
        return false;
    if (conv_ops[op].adds && conv_ops[op].norms == 1 &&
        !read_add(next(graph, &at), &reading->shape, &value, &reading->residual))
        return false;
    if (!read_relu(next(graph, &at), value, reading))
        return false;
    for (int32_t k = 0; k < conv_ops[op].norms; k++)
        if (!read_norm_sums(next(graph, &at), k, reading))
            return false;
    return true;
}

/* The op with @count operations, where that is not a convolution alone; CONV_OP_COUNT: none. */
static enum conv_op op_of(int64_t count)
{
    static const enum conv_op op[] = {
        [2] = CONV_FORWARD_SUMS,           [4] = CONV_BACKWARD_FILTER_APPLIED,
        [5] = CONV_FORWARD_APPLIED_SUMS,   [6] = CONV_FORWARD_ADD_SUMS,
        [7] = CONV_BACKWARD_DATA_NORM,     [8] = CONV_FORWARD_ADD_TWO_SUMS,
        [9] = CONV_BACKWARD_DATA_ADD_NORM, [14] = CONV_BACKWARD_DATA_ADD_NORMS};
    const int64_t most = sizeof op / sizeof *op;
    return count < most && op[count] != CONV_FORWARD ? op[count] : CONV_OP_COUNT;
}

bool fake_read_graph(const struct fake_descriptor *graph, struct fake_reading *reading)
{
    const struct fake_attribute *operations = fake_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    *reading = (struct fake_reading){0};
    if (!operations || !fake_find(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
        return false;
    const int64_t count = operations->count;
    if (count == 1)
        return read_convolution(fake_part(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0), reading) &&
               reading->in_memory;
    const enum conv_op op = op_of(count);
    if (op == CONV_OP_COUNT)
        return false;
    const bool filter = op == CONV_BACKWARD_FILTER_APPLIED, sums = conv_ops[op].sums;
    const enum conv_op inner = conv_ops[op].norms ? CONV_BACKWARD_DATA
                               : filter           ? CONV_BACKWARD_FILTER
                                                  : CONV_FORWARD;
    int32_t at = conv_ops[op].applies ? (int32_t)count - 1 - sums : 0;
    if (!read_convolution(next(graph, &at), reading) || reading->op != inner ||
        reading->in_memory != (op == CONV_FORWARD_SUMS || (sums && conv_ops[op].adds)) ||
        (sums && !read_sums(next(graph, &at), reading)))
        return false;
    reading->op = op;
    if (conv_ops[op].norms)
        return read_back(graph, op, reading);
    return !conv_ops[op].applies || read_applying(graph, op, reading);
}
