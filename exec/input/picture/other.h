#pragma once

/** @file
 * PNG and WebP files, which are decoded as a whole.
 *
 * They become RGB as Pillow's convert("RGB") makes it: palettes and grey are expanded, 16 bits keep
 * the upper 8, transparency is left out, gamma and colour profiles are ignored.  Of an animation
 * the file is refused.
 */

#include "core/base/err.h"
#include "exec/input/picture/picture.h"

/** What a file is by its first bytes. */
enum other { OTHER_NONE, OTHER_PNG, OTHER_WEBP };

/** What the file of @size bytes is. */
enum other other_of(const uint8_t *data, int64_t size);

/** Find @width and @height [pixels] of a file.
 * @return 0, or -1 with a message that begins with @name: damaged, more pixels than
 * PICTURE_PIXEL_LIMIT and its size allow, a build without the library. */
int other_open(enum other other, const char *name, const uint8_t *data, int64_t size,
               int32_t *width, int32_t *height, struct err *err);

/** Decode such a file into @pixels and describe it in @picture; with @shrink 2, 4 or 8 each pixel
 * is the mean of as many on both sides.
 * @return 0, or -1 with a message: damaged, or it ends early. */
int other_read(enum other other, const char *name, const uint8_t *data, int64_t size,
               int32_t shrink, struct buffer *pixels, struct picture *picture, struct err *err);
