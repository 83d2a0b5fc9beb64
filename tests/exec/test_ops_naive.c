#include "exec/cpu/ops_naive.h"

#include <math.h>

#include "core/base/base.h"
#include "tests/test.h"

/* Small whole numbers: every sum below is exact in fp32, so results are compared with ==. */
static float *whole_numbers(int64_t count, uint64_t seed)
{
    float *array = base_alloc(count, sizeof(*array));
    for (int64_t i = 0; i < count; i++)
        array[i] = (float)(int32_t)(base_uniform(seed, 0, (uint64_t)i, 0) * 7) - 3;
    return array;
}

static double dot(int64_t count, const float *a, const float *b)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static struct layer convolution(int32_t in, int32_t out, int32_t height, int32_t width,
                                int32_t kernel, int32_t stride, int32_t padding)
{
    return (struct layer){.op = LAYER_CONVOLUTION,
                          .in = {in, height, width},
                          .out = {out, (height + 2 * padding - kernel) / stride + 1,
                                  (width + 2 * padding - kernel) / stride + 1},
                          .kernel = kernel,
                          .stride = stride,
                          .padding = padding};
}

enum { BATCH = 2, LINEAR_COUNT = 9 };

/* The shapes of all convolutions of the known networks, small; then linear layers. */
static struct layer linear_layer(int32_t index)
{
    struct layer layers[LINEAR_COUNT] = {
        convolution(3, 4, 8, 6, 3, 1, 1),
        convolution(3, 2, 9, 7, 3, 2, 1),
        convolution(2, 3, 8, 7, 3, 2, 1),
        convolution(4, 5, 5, 5, 1, 1, 0),
        convolution(4, 2, 7, 8, 1, 2, 0),
        convolution(3, 2, 15, 14, 7, 2, 3),
        convolution(1, 1, 2, 2, 5, 1, 2),
        {.op = LAYER_LINEAR, .in = {3, 4, 5}, .out = {6, 1, 1}},
        {.op = LAYER_LINEAR, .in = {7, 1, 1}, .out = {3, 1, 1}},
    };
    layers[0].bias = layers[8].bias = true;
    return layers[index];
}

/* One layer with data for all its arrays. */
struct arrays {
    struct layer layer;
    int64_t in, out, weights, parameters;
    float *x, *w, *y, *dx, *dw, *dy;
};

static struct arrays arrays_new(struct layer layer)
{
    struct arrays a = {.layer = layer};
    int64_t taps = layer.op == LAYER_LINEAR
                       ? shape_elements(layer.in)
                       : (int64_t)layer.in.channels * layer.kernel * layer.kernel;
    a.in = BATCH * shape_elements(layer.in);
    a.out = BATCH * shape_elements(layer.out);
    a.weights = layer.out.channels * taps;
    a.parameters = a.weights + (layer.bias ? layer.out.channels : 0);
    a.x = whole_numbers(a.in, 1);
    a.w = whole_numbers(a.parameters, 2);
    a.dy = whole_numbers(a.out, 3);
    a.y = whole_numbers(a.out, 4); /* garbage: outputs are overwritten */
    a.dx = whole_numbers(a.in, 5);
    a.dw = whole_numbers(a.parameters, 6);
    return a;
}

static void arrays_release(struct arrays *a)
{
    free(a->x);
    free(a->w);
    free(a->y);
    free(a->dx);
    free(a->dw);
    free(a->dy);
}

static float pixel(const struct arrays *a, int32_t image, int32_t c, int32_t h, int32_t w)
{
    struct shape in = a->layer.in;
    if (h < 0 || h >= in.height || w < 0 || w >= in.width)
        return 0;
    return a->x[((image * in.channels + c) * in.height + h) * in.width + w];
}

/* One output straight from the definition. */
static float defined_output(const struct arrays *a, int32_t image, int32_t o, int32_t h, int32_t w)
{
    const struct layer *l = &a->layer;
    float sum = l->bias ? a->w[a->weights + o] : 0;
    for (int32_t c = 0; c < l->in.channels; c++)
        for (int32_t i = 0; i < l->kernel * l->kernel; i++)
            sum += a->w[(o * l->in.channels + c) * l->kernel * l->kernel + i] *
                   pixel(a, image, c, h * l->stride - l->padding + i / l->kernel,
                         w * l->stride - l->padding + i % l->kernel);
    return sum;
}

TEST(convolves_as_defined)
{
    for (int32_t index = 0; index < LINEAR_COUNT; index++) {
        HELD(arrays) a = arrays_new(linear_layer(index));
        struct shape out = a.layer.out;
        naive_forward(&a.layer, BATCH, a.x, a.w, a.y);
        for (int32_t i = 0; a.layer.op == LAYER_CONVOLUTION && i < a.out; i++) {
            int32_t plane = i / (out.height * out.width);
            assert_true(a.y[i] == defined_output(&a, plane / out.channels, plane % out.channels,
                                                 i / out.width % out.height, i % out.width));
        }
    }
}

/* A linear layer's outputs are dot products with its rows of weights. */
TEST(multiplies_as_defined)
{
    HELD(arrays) a = arrays_new(linear_layer(8));
    int64_t in = shape_elements(a.layer.in), out = a.layer.out.channels;
    naive_forward(&a.layer, BATCH, a.x, a.w, a.y);
    for (int64_t i = 0; i < a.out; i++) {
        double expected = dot(in, a.x + i / out * in, a.w + i % out * in);
        assert_true(a.y[i] == (float)expected + a.w[a.weights + i % out]);
    }
}

/* For y = A x: <A x, g> = <x, transpose(A) g>, and likewise for y as a function of the weights. */
TEST(gradients_are_the_transpose)
{
    for (int32_t index = 0; index < LINEAR_COUNT; index++) {
        HELD(arrays) a = arrays_new(linear_layer(index));
        naive_forward(&a.layer, BATCH, a.x, a.w, a.y);
        naive_backward_filter(&a.layer, BATCH, a.x, a.dy, a.dw);
        assert_true(dot(a.out, a.y, a.dy) == dot(a.parameters, a.w, a.dw));
        a.layer.bias = false;
        naive_forward(&a.layer, BATCH, a.x, a.w, a.y);
        naive_backward_data(&a.layer, BATCH, a.w, a.dy, a.dx);
        assert_true(dot(a.out, a.y, a.dy) == dot(a.in, a.x, a.dx));
    }
}

static struct layer pool(enum layer_op op, int32_t size, int32_t kernel, int32_t stride,
                         int32_t padding)
{
    struct layer layer = convolution(3, 3, size, size, kernel, stride, padding);
    layer.op = op;
    return layer;
}

/* Windows of 4, 2 and 1 pixels: the averages are exact. */
TEST(average_pool_gradient_is_the_transpose)
{
    const struct layer layers[] = {pool(LAYER_AVERAGE_POOL, 6, 2, 2, 0),
                                   pool(LAYER_AVERAGE_POOL, 4, 4, 1, 0),
                                   pool(LAYER_AVERAGE_POOL, 5, 2, 2, 1)};
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        HELD(arrays) a = arrays_new(layers[i]);
        naive_pool(&a.layer, BATCH, a.x, a.y);
        naive_pool_backward(&a.layer, BATCH, a.x, a.dy, a.dx);
        assert_true(dot(a.out, a.y, a.dy) == dot(a.in, a.x, a.dx));
    }
}

/* With distinct whole numbers a step of 1/4 changes no maximum, so differences are exact. */
TEST(max_pool_gradient_is_the_finite_difference)
{
    const struct layer layers[] = {pool(LAYER_MAX_POOL, 8, 2, 2, 0),
                                   pool(LAYER_MAX_POOL, 7, 3, 2, 1)};
    for (size_t n = 0; n < sizeof(layers) / sizeof(*layers); n++) {
        HELD(arrays) a = arrays_new(layers[n]);
        for (int64_t i = 0; i < a.in; i++)
            a.x[i] = (float)(i * 7919 % 1009); /* both prime: all different */
        naive_pool_backward(&a.layer, BATCH, a.x, a.dy, a.dx);
        for (int64_t i = 0; i < a.in; i++) {
            float kept = a.x[i];
            a.x[i] = kept + 0.25F;
            naive_pool(&a.layer, BATCH, a.x, a.y);
            double above = dot(a.out, a.y, a.dy);
            a.x[i] = kept - 0.25F;
            naive_pool(&a.layer, BATCH, a.x, a.y);
            assert_true((above - dot(a.out, a.y, a.dy)) * 2 == (double)a.dx[i]);
            a.x[i] = kept;
        }
    }
}

TEST(the_first_of_equal_maxima_gets_the_gradient)
{
    const struct layer layer = {
        .op = LAYER_MAX_POOL, .in = {1, 2, 2}, .out = {1, 1, 1}, .kernel = 2, .stride = 2};
    const float x[] = {-1, 5, 5, 5}, dy[] = {3};
    float dx[4];
    naive_pool_backward(&layer, 1, x, dy, dx);
    assert_true(dx[0] == 0 && dx[1] == 3 && dx[2] == 0 && dx[3] == 0);
}

static const struct layer batch_norm = {
    .op = LAYER_BATCH_NORM, .in = {3, 4, 5}, .out = {3, 4, 5}, .stride = 1};

TEST(batch_norm_gives_mean_shift_and_deviation_scale)
{
    const float w[] = {2, 1, 0.5F, 0, 3, -1};
    float statistics[6], *x = whole_numbers(BATCH * 60, 1), *y = whole_numbers(BATCH * 60, 2);
    naive_batch_norm(&batch_norm, BATCH, 1e-5, x, w, statistics, y);
    for (int32_t c = 0; c < 3; c++) {
        double sum = 0, square = 0;
        for (int32_t i = 0; i < BATCH * 20; i++) {
            double value = (double)y[i / 20 * 60 + c * 20 + i % 20];
            sum += value;
            square += value * value;
        }
        double mean = sum / (BATCH * 20);
        /* fp32 rounding of y; the deviation also lacks the epsilon of 1e-5 */
        assert_near(mean, (double)w[3 + c], 1e-6);
        assert_near(sqrt(square / (BATCH * 20) - mean * mean), (double)w[c], 1e-5);
    }
    free(x);
    free(y);
}

static double batch_norm_objective(const float *x, const float *w, const float *dy)
{
    float statistics[6], y[BATCH * 60];
    naive_batch_norm(&batch_norm, BATCH, 1e-5, x, w, statistics, y);
    return dot(BATCH * 60, y, dy);
}

static double batch_norm_difference(float *value, const float *x, const float *w, const float *dy)
{
    const float kept = *value, step = 0x1p-6F;
    *value = kept + step;
    double above = batch_norm_objective(x, w, dy);
    *value = kept - step;
    double difference = (above - batch_norm_objective(x, w, dy)) / (2 * (double)step);
    *value = kept;
    return difference;
}

/* The outputs' rounding (2^-24 of about 2, 120 times) over a step of 2^-6 and the square of the
 * step leave 1e-3 of gradients of about 3. */
TEST(batch_norm_gradient_is_the_finite_difference)
{
    float w[] = {2, 1, 0.5F, 0, 3, -1}, dw[6], dx[BATCH * 60], statistics[6], y[BATCH * 60];
    AUTOFREE float *x = whole_numbers(BATCH * 60, 1), *dy = whole_numbers(BATCH * 60, 2);
    naive_batch_norm(&batch_norm, BATCH, 1e-5, x, w, statistics, y);
    naive_batch_norm_backward(&batch_norm, BATCH, x, w, statistics, dy, dx, dw);
    for (int32_t i = 0; i < BATCH * 60; i++)
        assert_near((double)dx[i], batch_norm_difference(&x[i], x, w, dy), 1e-3);
    for (int32_t i = 0; i < 6; i++)
        assert_near((double)dw[i], batch_norm_difference(&w[i], x, w, dy), 1e-3);
}

TEST(relu_cuts_and_masks)
{
    float y[] = {-2, 0, 3}, dy[] = {5, 6, 7};
    naive_relu(3, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 3);
    naive_relu_backward(3, y, dy);
    assert_true(dy[0] == 0 && dy[1] == 0 && dy[2] == 7);
}

TEST(loss_of_no_opinion_is_the_logarithm_of_the_classes)
{
    const float x[10] = {1, 1, 1, 1, 1, 7, 7, 7, 7, 7};
    const int32_t label[] = {0, 3};
    float dx[10];
    for (double smoothing = 0; smoothing < 0.5; smoothing += 0.25)
        assert_near(naive_loss(2, 5, x, label, smoothing, dx), log(5), 1e-12);
}

/* The loss is computed in double; what is left is the square of the step, 1e-6. */
TEST(loss_gradient_is_the_finite_difference)
{
    const int32_t label[] = {0, 3};
    const float step = 0x1p-10F;
    float *x = whole_numbers(10, 1), dx[10], ignored[10];
    naive_loss(2, 5, x, label, 0.1, dx);
    for (int32_t i = 0; i < 10; i++) {
        float kept = x[i];
        x[i] = kept + step;
        double above = naive_loss(2, 5, x, label, 0.1, ignored);
        x[i] = kept - step;
        double below = naive_loss(2, 5, x, label, 0.1, ignored);
        x[i] = kept;
        assert_near((double)dx[i], (above - below) / (2 * (double)step), 1e-6);
    }
    free(x);
}

/* A smoothed label is a distribution; no loss is below its entropy, which is reached where the
 * softmax is that distribution.  Source: Szegedy et al. 2016, section 7; the numbers from
 * -p log p - (1 - p) log((1 - p) / (classes - 1)), p = 1 - smoothing + smoothing / classes. */
TEST(loss_of_a_smoothed_label_has_its_entropy_as_floor)
{
    static const struct {
        int32_t classes;
        double smoothing, entropy;
    } floors[] = {{10, 0.1, 0.5002880}, {1000, 0.1, 1.0148480}, {2, 0.2, 0.3250830}};
    for (size_t i = 0; i < sizeof(floors) / sizeof(*floors); i++) {
        int32_t classes = floors[i].classes, label = classes - 1;
        double rest = floors[i].smoothing / classes;
        AUTOFREE float *x = base_alloc(classes, sizeof(*x)), *dx = base_alloc(classes, sizeof(*dx));
        for (int32_t c = 0; c < classes; c++)
            x[c] = (float)(7 + log(c == label ? 1 - floors[i].smoothing + rest : rest));
        double least = naive_loss(1, classes, x, &label, floors[i].smoothing, dx);
        assert_near(least, floors[i].entropy, 1e-6);
        for (int32_t c = 0; c < classes; c++)
            assert_near((double)dx[c], 0, 1e-6);
        for (int32_t trial = 0; trial < 100; trial++) {
            int32_t c = trial % classes;
            float kept = x[c];
            x[c] += trial % 2 ? 0.1F : -0.1F;
            assert_true(naive_loss(1, classes, x, &label, floors[i].smoothing, dx) > least);
            x[c] = kept;
        }
    }
}
