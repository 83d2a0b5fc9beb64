#include "exec/input/picture/picture.h"

#include "core/base/base.h"

enum { TRIALS = 10 };

static const double area_least = 0.08, aspect_least = 3.0 / 4, aspect_most = 4.0 / 3;

/* Random numbers of one image, drawn in order. */
struct draw {
    uint64_t seed, epoch;
    int64_t index;
    uint64_t count;
};

/* Uniform between two numbers. */
static double draw_between(struct draw *draw, double from, double to)
{
    uint64_t which = (uint64_t)draw->index << 8 | draw->count++;
    return from + (to - from) * base_uniform(draw->seed, draw->epoch, 1, which);
}

/* Uniform among 0 ... limit. */
static double draw_whole(struct draw *draw, double limit)
{
    return floor(draw_between(draw, 0, limit + 1));
}

/* The fallback if ten trials did not fit: the middle, with the nearest aspect. */
static void fall_back(struct view *view, double width, double height)
{
    view->width = fmin(width, rint(height * aspect_most));
    view->height = fmin(height, rint(width / aspect_least));
    view->x = floor((width - view->width) / 2);
    view->y = floor((height - view->height) / 2);
}

static bool try_crop(struct view *view, struct draw *draw, double width, double height)
{
    double area = width * height * draw_between(draw, area_least, 1);
    double aspect = exp(draw_between(draw, log(aspect_least), log(aspect_most)));
    view->width = rint(sqrt(area * aspect));
    view->height = rint(sqrt(area / aspect));
    if (view->width < 1 || view->width > width || view->height < 1 || view->height > height)
        return false;
    view->y = draw_whole(draw, height - view->height);
    view->x = draw_whole(draw, width - view->width);
    return true;
}

struct view view_random(int32_t width, int32_t height, int32_t image, uint64_t seed, uint64_t epoch,
                        int64_t index)
{
    struct draw draw = {seed, epoch, index, 0};
    struct view view = {
        .target_width = image, .target_height = image, .columns = image, .rows = image};
    view.flip = draw_between(&draw, 0, 1) < 0.5;
    bool found = false;
    for (int32_t i = 0; i < TRIALS && !found; i++)
        found = try_crop(&view, &draw, width, height);
    if (!found)
        fall_back(&view, width, height);
    return view;
}

/* The whole picture, its shorter side @shorter pixels. */
static struct view shorter_side(int32_t width, int32_t height, int32_t shorter)
{
    int64_t least = width < height ? width : height;
    return (struct view){
        .width = width,
        .height = height,
        .target_width = (int32_t)((int64_t)shorter * width / least),
        .target_height = (int32_t)((int64_t)shorter * height / least),
    };
}

struct view view_middle(int32_t width, int32_t height, int32_t image)
{
    struct view view = shorter_side(width, height, (int32_t)lround(image * 256.0 / 224.0));
    view.left = (int32_t)rint((view.target_width - image) / 2.0);
    view.top = (int32_t)rint((view.target_height - image) / 2.0);
    view.columns = view.rows = image;
    return view;
}

struct view view_whole(int32_t width, int32_t height, int32_t shorter)
{
    int32_t least = width < height ? width : height;
    struct view view = shorter_side(width, height, shorter < least ? shorter : least);
    view.columns = view.target_width;
    view.rows = view.target_height;
    return view;
}

int32_t view_shrink(const struct view *view)
{
    for (int32_t shrink = 8; shrink > 1; shrink /= 2)
        if (view->width >= (double)shrink * view->target_width &&
            view->height >= (double)shrink * view->target_height)
            return shrink;
    return 1;
}

#define MEAN(x) ((float)(255 * (x)))
#define TINT(r, g, b, dr, dg, db)                                                                  \
    {                                                                                              \
        .scale = {1 / MEAN(dr), 1 / MEAN(dg), 1 / MEAN(db)},                                       \
        .shift = {(float)-((r) / (dr)), (float)-((g) / (dg)), (float)-((b) / (db))},               \
    }

const struct tint tint_imagenet = TINT(0.485, 0.456, 0.406, 0.229, 0.224, 0.225);
const struct tint tint_none = {.scale = {1, 1, 1}};

/* One direction of a resizing: @count results from number @skip on, of a rectangle that begins at
 * @start; @scale pixels of the picture, from @begin to @end, make up one. */
struct line {
    double start, scale;
    int32_t begin, end, skip, count, taps;
};

/* Half the width of the triangle, and of a pixel of the result, in pixels of the picture. */
static double reach(double scale)
{
    return fmax(scale, 1);
}

/* @start ... @length of @size pixels become @target; of these @count from @skip on. */
static struct line line_of(double start, double length, int32_t size, int32_t target, int32_t skip,
                           int32_t count)
{
    struct line line = {.start = start,
                        .scale = length / target,
                        .begin = (int32_t)fmax(0, floor(start)),
                        .end = (int32_t)fmin(size, ceil(start + length)),
                        .skip = skip,
                        .count = count};
    int32_t taps = (int32_t)ceil(2 * reach(line.scale)) + 1, all = line.end - line.begin;
    line.taps = taps < all ? taps : all;
    return line;
}

static struct line columns_of(const struct view *view, int32_t shrink, int32_t width)
{
    return line_of(view->x / shrink, view->width / shrink, width, view->target_width, view->left,
                   view->columns);
}

static struct line rows_of(const struct view *view, int32_t shrink, int32_t height)
{
    return line_of(view->y / shrink, view->height / shrink, height, view->target_height, view->top,
                   view->rows);
}

static double centre_of(const struct line *line, int32_t i)
{
    return line->start + (line->skip + i + 0.5) * line->scale;
}

/* The first pixel that counts for result @i. */
static int32_t from_of(const struct line *line, int32_t i)
{
    return (int32_t)fmax(line->begin, floor(centre_of(line, i) - reach(line->scale) + 0.5));
}

/* The first of its taps: they are all within the line. */
static int32_t first_of(const struct line *line, int32_t i)
{
    int32_t from = from_of(line, i);
    return from + line->taps > line->end ? line->end - line->taps : from;
}

struct box picture_need(const struct view *view, int32_t shrink, int32_t width, int32_t height)
{
    struct line x = columns_of(view, shrink, width), y = rows_of(view, shrink, height);
    struct box need = {.x = first_of(&x, 0), .y = first_of(&y, 0)};
    need.width = first_of(&x, x.count - 1) + x.taps - need.x;
    need.height = first_of(&y, y.count - 1) + y.taps - need.y;
    return need;
}

/* The part of @line that its results show, where @size pixels from @first on are stored. */
static struct crop_span span_of(const struct line *line, int32_t first, int32_t size)
{
    int32_t begin = line->begin - first, end = line->end - first;
    return (struct crop_span){.start = (float)(line->start + line->skip * line->scale - first),
                              .length = (float)(line->count * line->scale),
                              .begin = begin > 0 ? begin : 0,
                              .end = end < size ? end : size};
}

struct crop picture_crop(const struct view *view, int32_t shrink, int32_t width, int32_t height,
                         const struct box *box)
{
    struct line x = columns_of(view, shrink, width), y = rows_of(view, shrink, height);
    return (struct crop){.height = box->height,
                         .width = box->width,
                         .x = span_of(&x, box->x, box->width),
                         .y = span_of(&y, box->y, box->height),
                         .flip = view->flip};
}

/* The weights of result @i, zero where a pixel does not count. */
static void weigh(struct direction *axis, int32_t i, const struct line *line)
{
    double centre = centre_of(line, i), scale = line->scale;
    int32_t from = from_of(line, i), first = first_of(line, i);
    int32_t to = (int32_t)fmin(line->end, floor(centre + reach(scale) + 0.5));
    float *weight = axis->weight + (int64_t)i * axis->taps;
    double sum = 0;
    for (int32_t j = from; j < to; j++)
        sum += fmax(0, 1 - fabs(j + 0.5 - centre) / reach(scale));
    for (int32_t j = from; j < to; j++)
        weight[j - first] = (float)(fmax(0, 1 - fabs(j + 0.5 - centre) / reach(scale)) / sum);
    axis->first[i] = first;
}

static struct direction axis_new(struct line line)
{
    struct direction axis = {.count = line.count, .taps = line.taps};
    axis.first = base_alloc(line.count, sizeof(*axis.first));
    axis.weight = base_alloc((int64_t)line.count * line.taps, sizeof(*axis.weight));
    for (int32_t i = 0; i < line.count; i++)
        weigh(&axis, i, &line);
    return axis;
}

struct resize resize_new(const struct view *view, int32_t shrink, int32_t width, int32_t height)
{
    return (struct resize){.need = picture_need(view, shrink, width, height),
                           .x = axis_new(columns_of(view, shrink, width)),
                           .y = axis_new(rows_of(view, shrink, height)),
                           .flip = view->flip};
}

/* Red, green, blue, and a fourth element that is ignored. */
typedef float pixel __attribute__((vector_size(16)));

/* The compiler makes vectors of the inner loops (see meson.build), which changes no result: no sum
 * is reordered, and without fused multiply-add nothing is contracted. */

/* @sum (count) = the rows, weighted. */
static inline __attribute__((always_inline)) void add_rows(const uint8_t *row, int64_t stride,
                                                           const float *weight, int32_t taps,
                                                           int64_t count, float *restrict sum)
{
    memset(sum, 0, (size_t)count * sizeof(*sum));
    for (int32_t t = 0; t < taps; t++, row += stride) {
        const uint8_t *restrict from = row;
        float share = weight[t];
        for (int64_t i = 0; i < count; i++)
            sum[i] += share * (float)from[i];
    }
}

/* One row of the result from @row of floats, whose first pixel is @offset of the picture. */
static inline __attribute__((always_inline)) void add_columns(const struct direction *axis,
                                                              const float *row, int32_t offset,
                                                              const struct tint *tint, bool flip,
                                                              float *image)
{
    const pixel scale = {tint->scale[0], tint->scale[1], tint->scale[2], 0};
    const pixel shift = {tint->shift[0], tint->shift[1], tint->shift[2], 0};
    for (int32_t i = 0; i < axis->count; i++) {
        const float *weight = axis->weight + (int64_t)i * axis->taps;
        const float *from = row + (int64_t)3 * (axis->first[i] - offset);
        pixel total = {0};
        for (int32_t t = 0; t < axis->taps; t++) {
            pixel one;
            memcpy(&one, from + (int64_t)3 * t, sizeof(one));
            total += one * weight[t];
        }
        total = total * scale + shift;
        memcpy(image + (int64_t)3 * (flip ? axis->count - 1 - i : i), &total, 3 * sizeof(float));
    }
}

static inline __attribute__((always_inline)) void run(const struct resize *resize,
                                                      const struct picture *picture,
                                                      const struct tint *tint, float *row,
                                                      float *image)
{
    const struct direction *x = &resize->x, *y = &resize->y;
    const uint8_t *corner = picture->pixel + (int64_t)3 * (resize->need.x - picture->box.x);
    for (int32_t i = 0; i < y->count; i++) {
        add_rows(corner + (y->first[i] - picture->box.y) * picture->stride, picture->stride,
                 y->weight + (int64_t)i * y->taps, y->taps, (int64_t)3 * resize->need.width, row);
        add_columns(x, row, resize->need.x, tint, resize->flip, image + (int64_t)3 * i * x->count);
    }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void run_avx2(const struct resize *resize,
                                                     const struct picture *picture,
                                                     const struct tint *tint, float *row,
                                                     float *image)
{
    run(resize, picture, tint, row, image);
}
#endif

void resize_run(const struct resize *resize, const struct picture *picture, const struct tint *tint,
                struct buffer *row, float *image)
{
    const struct box *need = &resize->need, *box = &picture->box;
    assert(need->x >= box->x && need->y >= box->y);
    assert(need->x + need->width <= box->x + box->width);
    assert(need->y + need->height <= box->y + box->height);
    float *room = buffer_reserve(row, (int64_t)(3 * sizeof(float)) * need->width);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        run_avx2(resize, picture, tint, room, image);
        return;
    }
#endif
    run(resize, picture, tint, room, image);
}

RELEASE(resize, it->x.first, it->x.weight, it->y.first, it->y.weight)
