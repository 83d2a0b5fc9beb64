#pragma once

/** @file
 * What a device makes of a picture, in plain loops: from struct crop alone, in floats.
 */

#include "exec/input/picture/crop.h"

/** Crop, resize, flip and normalise the pixels of a picture to @image (@size, @size, 3).  Fails the
 * process when the crop reads beyond the picture. */
void crop_reference(const uint8_t *pixels, const struct crop *crop, const struct tint *tint,
                    int32_t size, float *image);
