#include "tests/exec/input/crop_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void demand(int holds, const char *what)
{
    if (holds)
        return;
    printf("crop: %s\n", what);
    exit(1);
}

static void check_span(const struct crop_span *span, int32_t size)
{
    demand(span->begin >= 0 && span->end <= size && span->begin < span->end,
           "pixels that count are pixels of the picture");
    demand(span->length > 0, "something is shown");
}

static float weight(const struct crop_span *span, int32_t size, int32_t result, int32_t pixel)
{
    float scale = span->length / (float)size;
    float centre = span->start + ((float)result + 0.5F) * scale;
    return fmaxf(0, 1 - fabsf((float)pixel + 0.5F - centre) / fmaxf(scale, 1));
}

static void one(const uint8_t *pixels, const struct crop *crop, const struct tint *tint,
                int32_t size, int32_t column, int32_t row, float *to)
{
    float sum[3] = {0}, total = 0;
    for (int32_t y = crop->y.begin; y < crop->y.end; y++) {
        float share = weight(&crop->y, size, row, y);
        for (int32_t x = crop->x.begin; share > 0 && x < crop->x.end; x++) {
            float both = share * weight(&crop->x, size, column, x);
            total += both;
            for (int32_t c = 0; both > 0 && c < 3; c++)
                sum[c] += both * (float)pixels[3 * ((int64_t)y * crop->width + x) + c];
        }
    }
    for (int32_t c = 0; c < 3; c++)
        to[c] = sum[c] / total * tint->scale[c] + tint->shift[c];
}

void crop_reference(const uint8_t *pixels, const struct crop *crop, const struct tint *tint,
                    int32_t size, float *image)
{
    check_span(&crop->x, crop->width);
    check_span(&crop->y, crop->height);
    for (int32_t row = 0; row < size; row++)
        for (int32_t column = 0; column < size; column++)
            one(pixels, crop, tint, size, crop->flip ? size - 1 - column : column, row,
                image + (int64_t)3 * (row * size + column));
}
