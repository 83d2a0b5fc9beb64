#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "tests/exec/input/fixture.h"
#include "tests/own.h"

const struct form form_camera = {
    .width = 480, .height = 360, .components = 3, .subsampling = 2, .quality = 90, .seed = 1};

uint8_t form_byte(const struct form *form, int32_t x, int32_t y, int32_t component)
{
    double s = form->seed, c = component;
    double wave = sin(0.031 * x + 0.017 * y * (1 + c) + s) * cos(0.023 * y - 0.011 * x + 2 * s + c);
    uint64_t place = (uint64_t)y << 16 | (uint64_t)x;
    double grain = base_uniform(form->seed, place, (uint64_t)component, 0) - 0.5;
    return (uint8_t)(128 + 100 * wave + 20 * grain);
}

static void set_colours(struct jpeg_compress_struct *jpeg, const struct form *form)
{
    static const J_COLOR_SPACE space[] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    jpeg->image_width = (JDIMENSION)form->width;
    jpeg->image_height = (JDIMENSION)form->height;
    jpeg->input_components = form->components;
    jpeg->in_color_space = space[form->components];
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, form->quality, TRUE);
    if (form->components == 3) {
        jpeg->comp_info[0].h_samp_factor = form->subsampling == 1 ? 1 : 2;
        jpeg->comp_info[0].v_samp_factor = form->subsampling == 2 ? 2 : 1;
    }
    if (form->progressive)
        jpeg_simple_progression(jpeg);
}

uint8_t *fixture_jpeg(const struct form *form, int64_t *size)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    uint8_t *data = NULL;
    unsigned long length = 0;
    uint8_t *row = base_alloc((int64_t)form->width * form->components, 1);
    jpeg.err = jpeg_std_error(&manager);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &data, &length);
    set_colours(&jpeg, form);
    jpeg_start_compress(&jpeg, TRUE);
    for (int32_t y = 0; y < form->height; y++) {
        for (int32_t x = 0; x < form->width; x++)
            for (int32_t c = 0; c < form->components; c++)
                row[x * form->components + c] = form_byte(form, x, y, c);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
    *size = (int64_t)length;
    return data;
}

void fixture_write_jpeg(const char *path, const struct form *form)
{
    int64_t size;
    AUTOFREE uint8_t *data = fixture_jpeg(form, &size);
    fixture_write(path, data, size);
}
