#include "exec/input/picture/view.h"

#include <math.h>

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
