/* Kernels of pools, images and the loss against plain loops. */
#define OWN_MAIN
#include "exec/cuda/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "exec/cpu/ops_naive.h"
#include "exec/input/picture/picture.h"
#include "exec/input/picture/scratch.h"
#include "exec/input/picture/view.h"
#include "tests/cuda/array.h"
#include "tests/cuda/fake/emulate_order.h"
#include "tests/test.h"

enum { BATCH = 3 };

/* ---- pools ---- */

/* The element of (image, h, w, c) in an NHWC array. */
static int64_t place(struct shape s, int64_t image, int64_t h, int64_t w, int64_t c)
{
    return ((image * s.height + h) * s.width + w) * s.channels + c;
}

/* Where output (h, w) finds its maximum: the first one of its window; and in which place of it. */
static int64_t winner_of(const struct layer *l, const float *x, int64_t image, int32_t h, int32_t w,
                         int64_t c, int32_t *where)
{
    int64_t best = -1;
    for (int32_t i = 0; i < l->kernel * l->kernel; i++) {
        int32_t row = h * l->stride - l->padding + i / l->kernel;
        int32_t column = w * l->stride - l->padding + i % l->kernel;
        if (row < 0 || row >= l->in.height || column < 0 || column >= l->in.width)
            continue;
        int64_t at = place(l->in, image, row, column, c);
        if (best < 0 || x[at] > x[best]) {
            best = at;
            *where = i;
        }
    }
    return best;
}

/* Mean over the window of an adaptive pool, and its transpose when @dx is there. */
static double average_of(const struct layer *l, const float *x, int64_t image, int32_t h, int32_t w,
                         int64_t c, double dy, double *dx)
{
    int32_t top = h * l->in.height / l->out.height, left = w * l->in.width / l->out.width;
    int32_t bottom = ((h + 1) * l->in.height + l->out.height - 1) / l->out.height;
    int32_t right = ((w + 1) * l->in.width + l->out.width - 1) / l->out.width;
    double sum = 0, area = (bottom - top) * (right - left);
    for (int32_t row = top; row < bottom; row++)
        for (int32_t column = left; column < right; column++) {
            int64_t at = place(l->in, image, row, column, c);
            sum += (double)x[at] / area;
            dx[at] += dy / area;
        }
    return sum;
}

static void check_pool(const struct layer *l, enum dtype type)
{
    int64_t in = BATCH * shape_elements(l->in), out = BATCH * shape_elements(l->out);
    struct array x = array_random(type, in, 1, 0, 1), dy = array_random(type, out, 2, 0, 1);
    struct array y = array_blank(type, out), dx = array_blank(type, in);
    uint8_t *winner = base_alloc(out, 1);
    double *want = base_alloc(in, sizeof(*want));
    for (int64_t i = 0; i < in; i++) /* as behind a ReLU: many maxima are equal */
        if (!(x.value[i] > 0))
            memset((char *)x.data + i * dtype_size(type), 0, (size_t)dtype_size(type));
    array_widen(&x);
    kernel_pool(NULL, type, l, BATCH, l->in.channels, x.data, NULL, winner, y.data);
    kernel_pool_backward(NULL, type, l, BATCH, l->in.channels, winner, dy.data, dx.data);
    array_widen(&y);
    array_widen(&dx);
    for (int64_t i = 0; i < out; i++) {
        int64_t c = i % l->out.channels, pixel = i / l->out.channels;
        int32_t w = (int32_t)(pixel % l->out.width), where = 0;
        int32_t h = (int32_t)(pixel / l->out.width % l->out.height);
        int64_t image = pixel / l->out.width / l->out.height;
        if (l->op == LAYER_MAX_POOL) {
            int64_t at = winner_of(l, x.value, image, h, w, c, &where);
            want[at] += (double)dy.value[i];
            assert_int_equal(winner[i], where);
            array_expect("y", i, type, y.value[i], (double)x.value[at], 0);
        } else {
            double mean = average_of(l, x.value, image, h, w, c, (double)dy.value[i], want);
            array_expect("y", i, type, y.value[i], mean, 1e-6);
        }
    }
    for (int64_t i = 0; i < in; i++)
        array_expect("dx", i, type, dx.value[i], want[i], 1e-6);
    array_free(&x);
    array_free(&dy);
    array_free(&y);
    array_free(&dx);
    free(winner);
    free(want);
}

/* @layer behind a batch norm and ReLU: in kernels of their own, and in merged ones. */
static void check_pooled(const struct layer *layer, enum dtype type)
{
    const int32_t channels = layer->in.channels;
    const int64_t in = BATCH * shape_elements(layer->in), out = BATCH * shape_elements(layer->out);
    const int64_t rows = in / channels, sums = 2 * (int64_t)KERNEL_PARTIALS * channels;
    struct array x = array_random(type, in, 1, 0, 1), dy = array_random(type, out, 2, 0, 1);
    struct array statistics = array_random(DTYPE_FP32, 2 * channels, 3, 1, 0.2);
    struct array factors = array_random(DTYPE_FP32, 3 * channels, 4, 0, 1);
    struct array value = array_blank(type, in), dx[2], y[2], partial[2], gradient[2];
    struct kernel_packed packed[2];
    uint8_t *winner[2];
    uint32_t *mask = base_alloc(in / 32 + 1, sizeof(*mask));
    int32_t count[2];
    for (int32_t i = 0; i < 2; i++) {
        dx[i] = array_blank(type, in);
        y[i] = array_blank(type, out);
        partial[i] = array_blank(DTYPE_FP32, sums);
        winner[i] = base_alloc(out, 1);
        gradient[i] = array_blank(type, 2 * (int64_t)(channels - 3));
        packed[i] = (struct kernel_packed){.from = statistics.data,
                                           .count = channels - 3,
                                           .share = 0.5F,
                                           .type = type,
                                           .gradient = gradient[i].data};
    }
    const float *statistic = statistics.data, *factor = factors.data;
    kernel_apply(NULL, type, rows, channels, x.data, factor, NULL, NULL, 1, mask, value.data);
    kernel_pool(NULL, type, layer, BATCH, channels, value.data, NULL, winner[0], y[0].data);
    kernel_pool_backward(NULL, type, layer, BATCH, channels, winner[0], dy.data, dx[0].data);
    count[0] = kernel_backward_sums(NULL, type, rows, channels, dx[0].data, NULL,
                                    (struct kernel_cut){.mask = mask}, x.data, statistic, NULL,
                                    partial[0].data);
    kernel_backward_apply(NULL, type, rows, channels, dx[0].data, (struct kernel_cut){.mask = mask},
                          x.data, factor, dx[0].data, packed[0]);
    const struct kernel_pooled pooled = {layer, BATCH, winner[0], dy.data, factor};
    kernel_pool(NULL, type, layer, BATCH, channels, x.data, factor, winner[1], y[1].data);
    count[1] =
        kernel_pooled_sums(NULL, type, channels, &pooled, x.data, statistic, partial[1].data);
    kernel_pooled_apply(NULL, type, channels, &pooled, x.data, factor, dx[1].data, packed[1]);
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(gradient[0].data, gradient[1].data,
                        2 * (size_t)(channels - 3) * (size_t)dtype_size(type));
    for (int32_t i = 0; i < 2; i++) {
        array_widen(&y[i]);
        array_widen(&dx[i]);
    }
    int64_t others = 0; /* where a compiler rounds otherwise two elements may change places */
    for (int64_t i = 0; i < out; i++) {
        others += winner[0][i] != winner[1][i];
        array_expect("y", i, type, y[1].value[i], (double)y[0].value[i], 1e-6);
    }
    assert_true(others <= out / 100);
    for (int64_t i = 0; i < in; i++)
        array_expect("dx", i, type, dx[1].value[i], (double)dx[0].value[i], 1e-5);
    for (int64_t i = 0; i < 2 * (int64_t)count[0] * channels; i++)
        array_expect("sum", i, DTYPE_FP32, ((const float *)partial[1].data)[i],
                     (double)((const float *)partial[0].data)[i], 1e-4);
    struct array *all[] = {&x,          &dy,          &statistics, &factors, &value,
                           &dx[0],      &dx[1],       &y[0],       &y[1],    &partial[0],
                           &partial[1], &gradient[0], &gradient[1]};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        array_free(all[i]);
    free(mask);
    free(winner[0]);
    free(winner[1]);
}

TEST(pools_apply_what_they_read)
{
    static const struct layer layers[] = {
        {.op = LAYER_MAX_POOL,
         .in = {64, 12, 12},
         .out = {64, 6, 6},
         .kernel = 3,
         .stride = 2,
         .padding = 1},
        {.op = LAYER_MAX_POOL, .in = {24, 7, 5}, .out = {24, 3, 2}, .kernel = 3, .stride = 2},
        {.op = LAYER_MAX_POOL, .in = {8, 6, 6}, .out = {8, 3, 3}, .kernel = 2, .stride = 2}};
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
        for (int32_t type = 0; type < DTYPE_COUNT; type++)
            check_pooled(&layers[i], (enum dtype)type);
}

TEST(pools_forward_and_backward)
{
    static const struct layer layers[] = {
        {.op = LAYER_MAX_POOL,
         .in = {16, 9, 7},
         .out = {16, 5, 4},
         .kernel = 3,
         .stride = 2,
         .padding = 1},
        {.op = LAYER_MAX_POOL,
         .in = {64, 14, 14},
         .out = {64, 7, 7},
         .kernel = 3,
         .stride = 2,
         .padding = 1},
        {.op = LAYER_MAX_POOL, .in = {8, 7, 5}, .out = {8, 3, 2}, .kernel = 2, .stride = 2},
        {.op = LAYER_MAX_POOL,
         .in = {8, 5, 5},
         .out = {8, 5, 5},
         .kernel = 3,
         .stride = 1,
         .padding = 1},
        {.op = LAYER_MAX_POOL, .in = {8, 8, 8}, .out = {8, 3, 3}, .kernel = 2, .stride = 3},
        {.op = LAYER_AVERAGE_POOL, .in = {72, 7, 7}, .out = {72, 1, 1}, .kernel = 7, .stride = 1},
        {.op = LAYER_AVERAGE_POOL, .in = {16, 5, 1}, .out = {16, 3, 2}, .kernel = 1, .stride = 1},
        {.op = LAYER_AVERAGE_POOL, .in = {8, 7, 10}, .out = {8, 7, 4}, .kernel = 1, .stride = 1},
    };
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++)
        for (int32_t type = 0; type < DTYPE_COUNT; type++)
            check_pool(&layers[i], (enum dtype)type);
}

/* ---- images ---- */

TEST(images_are_converted_and_padded)
{
    enum { PIXELS = 301 };
    static const int32_t from[] = {3, 11, 3}, to[] = {8, 16, 4};
    for (int32_t type = 0; type < DTYPE_COUNT; type++)
        for (int32_t k = 0; k < 3; k++) {
            struct array images = array_random(DTYPE_FP32, PIXELS * from[k], 1, 0, 1);
            struct array out = array_blank((enum dtype)type, (int64_t)PIXELS * to[k]);
            kernel_images(NULL, (enum dtype)type, PIXELS, from[k], images.data, to[k], out.data);
            array_widen(&out);
            for (int64_t i = 0; i < out.count; i++) {
                int64_t pixel = i / to[k], c = i % to[k];
                double want = c < from[k] ? (double)images.value[pixel * from[k] + c] : 0;
                array_expect("image", i, (enum dtype)type, out.value[i], want, 0);
            }
            array_free(&images);
            array_free(&out);
        }
}

/* What the CPU's pipeline makes of the same crop. */
static void resize_on_cpu(const struct crop *crop, const uint8_t *pixels, int32_t size,
                          float *image)
{
    struct view view = {.x = (double)crop->x.start,
                        .y = (double)crop->y.start,
                        .width = (double)crop->x.length,
                        .height = (double)crop->y.length,
                        .target_width = size,
                        .target_height = size,
                        .columns = size,
                        .rows = size,
                        .flip = crop->flip};
    struct resize resize = resize_new(&view, 1, crop->width, crop->height);
    struct picture picture = {.pixel = pixels,
                              .stride = (int64_t)3 * crop->width,
                              .box = {.width = crop->width, .height = crop->height}};
    struct buffer row = {0};
    resize_run(&resize, &picture, &tint_imagenet, &row, image);
    resize_release(&resize);
    buffer_release(&row);
}

TEST(pictures_are_cropped_as_on_the_cpu)
{
    enum { SIZE = 24, PICTURES = 4, FIRST = 3 * 60 * 50, BYTES = FIRST + 3 * 20 * 17 };
    enum { CHANNELS = 16, FEWEST = 4 };
    const struct crop crop[PICTURES] = {
        {0, 50, 60, {0, 60, 0, 60}, {0, 50, 0, 50}, 0},           /* the whole, made smaller */
        {0, 50, 60, {7.5F, 30.5F, 7, 38}, {3.25F, 40, 3, 44}, 1}, /* a part, flipped */
        {0, 17, 20, {1, 8.5F, 1, 10}, {2, 9, 2, 11}, 0},          /* made larger */
        {0, 17, 20, {3, 12.5F, 3, 16}, {0, 17, 0, 17}, 1}         /* to the edges */
    };
    uint8_t *pixels = base_alloc(BYTES + 64, 1); /* what the CPU may read beyond */
    const uint8_t *const picture[PICTURES] = {pixels, pixels, pixels + FIRST, pixels + FIRST};
    float *image = base_alloc(3 * SIZE * SIZE, sizeof(*image));
    for (int64_t i = 0; i < BYTES; i++)
        pixels[i] = (uint8_t)(255 * base_uniform(1, 0, (uint64_t)i, 0));
    for (int32_t k = 0; k < 2 * DTYPE_COUNT; k++) {
        enum dtype type = (enum dtype)(k / 2);
        int32_t channels = k % 2 ? FEWEST : CHANNELS;
        struct array out = array_blank(type, (int64_t)PICTURES * SIZE * SIZE * channels);
        kernel_augment(NULL, type, PICTURES, SIZE, channels, picture, crop, &tint_imagenet,
                       out.data);
        array_widen(&out);
        for (int64_t i = 0; i < out.count; i++) {
            int64_t pixel = i / channels, c = i % channels, inside = pixel % (SIZE * SIZE);
            int64_t which = pixel / (SIZE * SIZE);
            if (inside == 0 && c == 0)
                resize_on_cpu(&crop[which], picture[which], SIZE, image);
            double want = c < 3 ? (double)image[inside * 3 + c] : 0;
            array_expect("image", i, type, out.value[i], want, 1e-4);
        }
        array_free(&out);
    }
    free(pixels);
    free(image);
}

/* What lies beside the rectangle must not count, however much of it is in reach. */
TEST(pixels_outside_the_limits_do_not_count)
{
    enum { SIZE = 4, SIDE = 12, CHANNELS = 8 };
    uint8_t pixels[3 * SIDE * SIDE];
    const uint8_t *const picture[] = {pixels};
    const struct crop crop = {0, SIDE, SIDE, {4, 4, 4, 8}, {2.5F, 6, 2, 9}, 0};
    const struct tint tint = {{1, 2, 3}, {0, 10, 20}};
    struct array out = array_blank(DTYPE_FP32, SIZE * SIZE * CHANNELS);
    for (int32_t i = 0; i < SIDE * SIDE; i++)
        for (int32_t c = 0; c < 3; c++) {
            int32_t x = i % SIDE, y = i / SIDE;
            pixels[3 * i + c] = x >= 4 && x < 8 && y >= 2 && y < 9 ? 100 : 255;
        }
    kernel_augment(NULL, DTYPE_FP32, 1, SIZE, CHANNELS, picture, &crop, &tint, out.data);
    array_widen(&out);
    for (int64_t i = 0; i < out.count; i++) {
        int64_t c = i % CHANNELS;
        double want = c < 3 ? 100 * (double)tint.scale[c] + (double)tint.shift[c] : 0;
        array_expect("image", i, DTYPE_FP32, out.value[i], want, 1e-4);
    }
    array_free(&out);
}

/* ---- loss ---- */

struct loss_case {
    int32_t batch, classes, channels;
    double smoothing;
    double spread; /* of the scores */
};

static void check_loss(enum dtype type, struct loss_case how)
{
    const float scale = 128, share = 0.25F;
    int64_t count = (int64_t)how.batch * how.channels, dense = (int64_t)how.batch * how.classes;
    struct array x = array_random(type, count, 1, 0, how.spread), dx = array_blank(type, count);
    struct array losses = array_blank(DTYPE_FP32, how.batch);
    struct array scores = array_blank(DTYPE_FP32, dense), want = array_blank(DTYPE_FP32, dense);
    int32_t *label = base_alloc(how.batch, sizeof(*label));
    float loss = 10;
    for (int32_t i = 0; i < how.batch; i++)
        label[i] = i * 7 % how.classes;
    kernel_scores(NULL, type, how.batch, how.classes, how.channels, x.data, scores.data);
    kernel_loss(NULL, type, how.batch, how.classes, how.channels, x.data, label, how.smoothing,
                &scale, share, losses.data, &loss, dx.data);
    array_widen(&scores);
    array_widen(&dx);
    double mean =
        naive_loss(how.batch, how.classes, scores.value, label, how.smoothing, want.value);
    array_expect("loss", 0, DTYPE_FP32, loss, 10 + 0.25 * mean, 1e-6 * (1 + mean));
    for (int64_t i = 0; i < count; i++) {
        int64_t image = i / how.channels, c = i % how.channels;
        double slope = c < how.classes ? (double)(scale * want.value[image * how.classes + c]) : 0;
        array_expect("dx", i, type, dx.value[i], slope, 1e-6 * (double)scale / how.batch);
        if (c < how.classes)
            assert_true(scores.value[image * how.classes + c] == x.value[i]);
    }
    array_free(&x);
    array_free(&dx);
    array_free(&losses);
    array_free(&scores);
    array_free(&want);
    free(label);
}

TEST(the_loss_and_its_gradient)
{
    static const struct loss_case cases[] = {
        {1, 2, 8, 0, 1},        {5, 10, 16, 0.1, 2},    {13, 1000, 1000, 0.1, 1},
        {4, 1001, 1008, 0, 30}, {257, 7, 8, 0.05, 0.1}, {300, 40, 40, 0.1, 300},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int32_t type = 0; type < DTYPE_COUNT; type++)
            check_loss((enum dtype)type, cases[i]);
}

TEST(what_is_not_a_number_shows_in_the_loss)
{
    const float scale = 1;
    const int32_t label[] = {1};
    float x[8] = {0, 1, NAN, 2}, dx[8], losses[1], loss = 0;
    kernel_loss(NULL, DTYPE_FP32, 1, 4, 8, x, label, 0, &scale, 1, losses, &loss, dx);
    assert_true(isnan(loss));
    for (int32_t i = 0; i < 4; i++)
        assert_true(isnan(dx[i]));
}

int main(void)
{
    int failed = cmocka_run_group_tests_name("threads in order", tests, NULL, NULL);
    emulate_backwards(true);
    return failed + cmocka_run_group_tests_name("threads in reverse", tests, NULL, NULL);
}
