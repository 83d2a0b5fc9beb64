/* Kernels of pools, images and loss against plain loops, the CPU's pictures and naive_loss(). */
#include "exec/cuda/kernels/kernels.h"

#include "exec/cpu/ops_naive.h"
#include "exec/input/picture/picture.h"
#include "tests/cuda/array.h"

/* ---- pools ---- */

enum { BATCH = 3 };

/* Of maximum pools kernel, stride, padding; of adaptive average pools nothing; then channels,
 * height and width of inputs and outputs. */
static const struct size pools[] = {
    SIZE(3, 2, 1, 16, 9, 7, 5, 4), SIZE(3, 2, 1, 64, 14, 14, 7, 7), SIZE(3, 2, 1, 64, 12, 12, 6, 6),
    SIZE(2, 2, 0, 8, 7, 5, 3, 2),  SIZE(2, 2, 0, 8, 6, 6, 3, 3),    SIZE(3, 2, 0, 24, 7, 5, 3, 2),
    SIZE(3, 1, 1, 8, 5, 5, 5, 5),  SIZE(2, 3, 0, 8, 8, 8, 3, 3),    SIZE(0, 0, 0, 72, 7, 7, 1, 1),
    SIZE(0, 0, 0, 16, 5, 1, 3, 2), SIZE(0, 0, 0, 8, 7, 10, 7, 4),   {0}};

static struct layer pool_of(const int32_t *size)
{
    return (struct layer){.op = size[0] ? LAYER_MAX_POOL : LAYER_AVERAGE_POOL,
                          .in = {size[3], size[4], size[5]},
                          .out = {size[3], size[6], size[7]},
                          .kernel = size[0],
                          .stride = size[1],
                          .padding = size[2]};
}

/* What output @i of @out along a side of @in elements reads. */
struct window {
    int32_t origin, first, end;
};

static struct window window_of(const struct layer *l, int32_t i, int32_t in, int32_t out)
{
    int32_t origin = i * l->stride - l->padding, end = origin + l->kernel;
    if (l->op == LAYER_AVERAGE_POOL)
        return (struct window){0, i * in / out, ((i + 1) * in + out - 1) / out};
    return (struct window){origin, origin < 0 ? 0 : origin, end < in ? end : in};
}

/* Output @i, and what its gradient @dy adds to @dx. */
static double pool_once(const struct layer *l, int64_t i, const float *x, double dy, double *dx,
                        uint8_t *winner)
{
    int64_t c = i % l->in.channels, pixel = i / l->in.channels, line = pixel / l->out.width;
    struct window down = window_of(l, (int32_t)(line % l->out.height), l->in.height, l->out.height);
    struct window right = window_of(l, (int32_t)(pixel % l->out.width), l->in.width, l->out.width);
    double sum = 0, area = (down.end - down.first) * (right.end - right.first);
    int64_t best = -1;
    for (int32_t h = down.first; h < down.end; h++)
        for (int32_t w = right.first; w < right.end; w++) {
            int64_t image = line / l->out.height;
            int64_t at = ((image * l->in.height + h) * l->in.width + w) * l->in.channels + c;
            if (l->op == LAYER_AVERAGE_POOL)
                dx[at] += dy / area;
            sum += (double)x[at] / area;
            if (best >= 0 && !(x[at] > x[best]))
                continue;
            best = at;
            *winner = (uint8_t)((h - down.origin) * l->kernel + w - right.origin);
        }
    if (l->op == LAYER_AVERAGE_POOL)
        return sum;
    dx[best] += dy;
    return (double)x[best];
}

static void pool(const int32_t *size, enum dtype type)
{
    const struct layer l = pool_of(size);
    int64_t in = BATCH * shape_elements(l.in), out = BATCH * shape_elements(l.out);
    HELD(array) x = array_random(type, in, 1, 0, 1), dy = array_random(type, out, 2, 0, 1);
    HELD(array) y = array_blank(type, out), dx = array_blank(type, in);
    AUTOFREE uint8_t *winner = base_alloc(out, 1);
    AUTOFREE double *want = base_alloc(in, sizeof(*want));
    for (int64_t i = 0; i < in; i++) /* as behind a ReLU: many maxima are equal */
        array_set(&x, i, fmaxf(x.value[i], 0));
    kernel_pool(NULL, type, &l, BATCH, l.in.channels, x.data, winner, y.data);
    kernel_pool_backward(NULL, type, &l, BATCH, l.in.channels, winner, dy.data, dx.data);
    for (int64_t i = 0; i < out; i++) {
        uint8_t first = 0;
        double value = pool_once(&l, i, x.value, (double)dy.value[i], want, &first);
        expect(y, i, value, l.op == LAYER_MAX_POOL ? 0 : 1e-6);
        if (l.op == LAYER_MAX_POOL)
            array_holds("winner", i, winner[i] == first);
    }
    for (int64_t i = 0; i < in; i++)
        expect(dx, i, want[i], 1e-6);
}

/* ---- images ---- */

/* Channels of the images, and of the device's. */
static const struct size widths[] = {SIZE(3, 8), SIZE(11, 16), SIZE(3, 4), {0}};

static void images(const int32_t *size, enum dtype type)
{
    enum { PIXELS = 301 };
    HELD(array) in = array_random(DTYPE_FP32, (int64_t)PIXELS * size[0], 1, 0, 1);
    HELD(array) out = array_blank(type, (int64_t)PIXELS * size[1]);
    kernel_images(NULL, type, PIXELS, size[0], in.data, size[1], out.data);
    for (int64_t i = 0; i < out.count; i++) {
        int64_t pixel = i / size[1], c = i % size[1];
        expect(out, i, c < size[0] ? (double)in.value[pixel * size[0] + c] : 0, 0);
    }
}

/* What the CPU's pipeline makes of the same crop. */
static void resize_on_cpu(const struct crop *crop, const uint8_t *pixel, int32_t size, float *image)
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
    struct picture picture = {.pixel = pixel,
                              .stride = (int64_t)3 * crop->width,
                              .box = {.width = crop->width, .height = crop->height}};
    HELD(resize) resize = resize_new(&view, 1, crop->width, crop->height);
    HELD(buffer) row = {0};
    resize_run(&resize, &picture, &tint_imagenet, &row, image);
}

static void pictures(const int32_t *size, enum dtype type)
{
    enum { SIDE = 24, PICTURES = 5, PLACE = 3 * 60 * 50, BYTES = PICTURES * PLACE };
    const int32_t channels = size[1];
    const struct crop crop[PICTURES] = {
        {50, 60, {0, 60, 0, 60}, {0, 50, 0, 50}, 0},           /* the whole, made smaller */
        {50, 60, {7.5F, 30.5F, 7, 38}, {3.25F, 40, 3, 44}, 1}, /* a part, flipped */
        {17, 20, {1, 8.5F, 1, 10}, {2, 9, 2, 11}, 0},          /* made larger */
        {17, 20, {3, 12.5F, 3, 16}, {0, 17, 0, 17}, 1},        /* to the edges */
        {17, 20, {4, 4, 4, 8}, {2.5F, 6, 2, 9}, 0}};           /* with others all around */
    AUTOFREE uint8_t *pixel = base_alloc(BYTES + 64, 1);       /* what the CPU may read beyond */
    AUTOFREE float *image = base_alloc(3 * SIDE * SIDE, sizeof(*image));
    HELD(array) out = array_blank(type, (int64_t)PICTURES * SIDE * SIDE * channels);
    for (int64_t i = 0; i < BYTES; i++)
        pixel[i] = (uint8_t)(255 * base_uniform(1, 0, (uint64_t)i, 0));
    kernel_augment(NULL, type, PICTURES, SIDE, channels, pixel, PLACE, crop, &tint_imagenet,
                   out.data);
    for (int64_t i = 0; i < out.count; i++) {
        int64_t at = i / channels, c = i % channels, inside = at % (SIDE * SIDE);
        int64_t which = at / (SIDE * SIDE);
        if (inside == 0 && c == 0)
            resize_on_cpu(&crop[which], pixel + which * PLACE, SIDE, image);
        expect(out, i, c < 3 ? (double)image[inside * 3 + c] : 0, 1e-4);
    }
}

/* ---- loss ---- */

/* Images, classes, channels, smoothing [%], spread of the scores [tenths]. */
static const struct size losses[] = {SIZE(1, 2, 8, 0, 10),
                                     SIZE(5, 10, 16, 10, 20),
                                     SIZE(13, 1000, 1000, 10, 10),
                                     SIZE(4, 1001, 1008, 0, 300),
                                     SIZE(257, 7, 8, 5, 1),
                                     SIZE(300, 40, 40, 10, 3000),
                                     {0}};

static void loss(const int32_t *size, enum dtype type)
{
    const float scale = 128;
    const int32_t batch = size[0], classes = size[1], channels = size[2];
    const double smoothing = size[3] / 100.0;
    HELD(array) x = array_random(type, (int64_t)batch * channels, 1, 0, size[4] / 10.0);
    HELD(array) dx = array_blank(type, x.count), each = array_blank(DTYPE_FP32, batch);
    HELD(array) scores = array_blank(DTYPE_FP32, (int64_t)batch * classes);
    HELD(array) sum = array_random(DTYPE_FP32, 1, 1, 10, 0);
    AUTOFREE int32_t *label = base_alloc(batch, sizeof(*label));
    AUTOFREE float *slope = base_alloc(scores.count, sizeof(*slope));
    for (int32_t i = 0; i < batch; i++)
        label[i] = i * 7 % classes;
    for (int64_t i = 0; i < scores.count; i++)
        scores.value[i] = x.value[i / classes * channels + i % classes];
    kernel_scores(NULL, type, batch, classes, channels, x.data, scores.data);
    kernel_loss(NULL, type, batch, classes, channels, x.data, label, smoothing, &scale, 0.25F,
                each.data, sum.data, dx.data);
    const struct some_scores all = {batch, classes, 0, classes, classes, scores.value, label};
    double mean = naive_loss(&all, smoothing, 0, NULL, slope);
    expect(sum, 0, 10 + 0.25 * mean, 1e-6 * (1 + mean));
    for (int64_t i = 0; i < scores.count; i++)
        array_holds("scores", i, array_at(&scores, i) == scores.value[i]);
    for (int64_t i = 0; i < x.count; i++) {
        int64_t c = i % channels;
        double want = c < classes ? (double)(scale * slope[i / channels * classes + c]) : 0;
        expect(dx, i, want, 1e-6 * (double)scale / batch);
    }
}

static void loss_of_a_nan(const int32_t *size, enum dtype type)
{
    const float scale = 1;
    const int32_t label[] = {*size};
    float x[8] = {0, 1, NAN, 2}, dx[8], each[1], sum = 0;
    kernel_loss(NULL, type, 1, 4, 8, x, label, 0, &scale, 1, each, &sum, dx);
    assert_true(isnan(sum));
    for (int32_t i = 0; i < 4; i++)
        assert_true(isnan(dx[i]));
}

int main(void)
{
    static const struct size label[] = {SIZE(1), {0}};
    static const struct row rows[] = {
        {"pools", pool, pools, DTYPE_FP32, DTYPE_BF16},
        {"images with padding", images, widths, DTYPE_FP32, DTYPE_BF16},
        {"pictures as on the CPU", pictures, widths, DTYPE_FP32, DTYPE_BF16},
        {"loss and scores", loss, losses, DTYPE_FP32, DTYPE_BF16},
        {"loss of what is not a number", loss_of_a_nan, label, DTYPE_FP32, DTYPE_FP32}};
    return rows_run(rows, ARRAY_SIZE(rows));
}
