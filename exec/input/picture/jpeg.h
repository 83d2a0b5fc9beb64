#pragma once

/** @file
 * JPEG files, as a whole or a part of them.
 *
 * Grey, YCbCr, RGB, CMYK and YCCK files, baseline or progressive, become RGB; CMYK is stored
 * inverted where the file has Adobe's marker.  A file that ends early or is damaged inside the
 * decoded part is refused, not filled with grey.  A part decodes to the same pixels as in the
 * whole.  PNG and WebP files, by any name, are decoded by exec/input/picture/other.h.
 */

#include "core/base/err.h"
#include "exec/input/picture/picture.h"

enum {
    JPEG_SCAN_LIMIT = 100, /**< of one file.  Our choice: libjpeg's progressive files have 10 */
};

/** A decoder; one thread at a time. */
struct decoder;

/** Whether this build can decode JPEG. */
bool decoder_present(void);

/** A decoder.  Only where decoder_present(). */
struct decoder *decoder_new(void);

void decoder_free(struct decoder *decoder);

/** Begin with a file of @size bytes, borrowed until the next call of decoder_open(), and find its
 * @width and @height [pixels].
 * @return 0, or -1: not a JPEG, a damaged header, more pixels than PICTURE_PIXEL_LIMIT
 * and PICTURE_PIXELS_PER_BYTE allow, more than JPEG_SCAN_LIMIT scans; the message begins with
 * @name. */
int decoder_open(struct decoder *decoder, const char *name, const uint8_t *data, int64_t size,
                 int32_t *width, int32_t *height, struct err *err);

/** Decode the part of the opened file that covers @box into @pixels and describe it in @picture,
 * at most once per decoder_open().  With @shrink 2, 4 or 8 the file is decoded at that fraction of
 * its size (rounded up), which costs less; @box is in pixels of that size.
 * @return 0, or -1: damaged, or it ends early. */
int decoder_read(struct decoder *decoder, struct box box, int32_t shrink, struct buffer *pixels,
                 struct picture *picture, struct err *err);
