#include <assert.h>
#include <stddef.h>

#include "exec/input/picture/jpeg.h"

/* For builds without libjpeg: only the query may be called. */

bool decoder_present(void)
{
    return false;
}

struct decoder *decoder_new(void)
{
    assert(false && "built without libjpeg");
    return NULL;
}

void decoder_free(struct decoder *decoder)
{
}

int decoder_open(struct decoder *decoder, const char *name, const uint8_t *data, int64_t size,
                 int32_t *width, int32_t *height, struct err *err)
{
    return err_add_code(err, 69, "%s: this build cannot read JPEG", name);
}

int decoder_read(struct decoder *decoder, struct box box, int32_t shrink, struct buffer *pixels,
                 struct picture *picture, struct err *err)
{
    return err_add_code(err, 69, "this build cannot read JPEG");
}
