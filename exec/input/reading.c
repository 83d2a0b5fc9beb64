#include "exec/input/reader.h"

struct view reading_view(const struct reading *reading, int32_t image, uint64_t seed, int32_t width,
                         int32_t height)
{
    if (!reading->augment)
        return view_middle(width, height, image);
    return view_random(width, height, image, seed, reading->epoch, reading->index);
}

/* Only the pixels of @box, row after row. */
static void store(const struct picture *picture, const struct box *box, uint8_t *to)
{
    const uint8_t *from = picture->pixel + (box->y - picture->box.y) * picture->stride +
                          (int64_t)3 * (box->x - picture->box.x);
    size_t row = (size_t)3 * (size_t)box->width;
    for (int32_t y = 0; y < box->height; y++, from += picture->stride, to += row)
        memcpy(to, from, row);
}

/* The finished image, except that its colours are bytes. */
static void give_resized(const struct reading *reading, int32_t image, const struct resize *resize,
                         const struct picture *picture)
{
    int64_t count = (int64_t)3 * image * image;
    float *value = buffer_reserve(&reading->scratch->image, count * (int64_t)sizeof(float));
    resize_run(resize, picture, &tint_none, &reading->scratch->row, value);
    for (int64_t i = 0; i < count; i++)
        reading->pixels[i] = (uint8_t)fminf(fmaxf(value[i] + 0.5F, 0), 255);
    struct crop_span all = {.length = (float)image, .end = image};
    *reading->crop = (struct crop){.height = image, .width = image, .x = all, .y = all};
}

void reading_give(const struct reading *reading, int32_t image, const struct view *view,
                  int32_t shrink, int32_t width, int32_t height, const struct picture *picture)
{
    struct box need = picture_need(view, shrink, width, height);
    if (!reading->image && (int64_t)3 * need.width * need.height <= crop_place(image)) {
        store(picture, &need, reading->pixels);
        *reading->crop = picture_crop(view, shrink, width, height, &need);
        return;
    }
    AUTORELEASE(resize) struct resize resize = resize_new(view, shrink, width, height);
    if (reading->image)
        resize_run(&resize, picture, &tint_imagenet, &reading->scratch->row, reading->image);
    else
        give_resized(reading, image, &resize, picture);
}
