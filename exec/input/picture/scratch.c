#include "exec/input/picture/scratch.h"

#include "core/base/base.h"
#include "exec/input/picture/jpeg.h"

void *buffer_reserve(struct buffer *buffer, int64_t size)
{
    enum { BEYOND = 64 }; /* vectors are read whole */
    if (buffer->capacity < size + BEYOND) {
        buffer->capacity = size + size / 4 + BEYOND;
        free(buffer->data);
        buffer->data = base_alloc(buffer->capacity, 1);
    }
    return buffer->data;
}

RELEASE(buffer, it->data)

void scratch_release(struct scratch *scratch)
{
    buffer_release(&scratch->bytes);
    buffer_release(&scratch->pixels);
    buffer_release(&scratch->row);
    buffer_release(&scratch->image);
    decoder_free(scratch->decoder);
    scratch->decoder = NULL;
}
