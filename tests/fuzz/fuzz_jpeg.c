#include "exec/input/picture/jpeg.h"
#include "tests/fuzz/fuzz.h"

OWNED(decoder, decoder_free)

/* A file of any bytes becomes a whole picture, here at an eighth of its size, or a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(err) err = {0};
    HELD(buffer) pixels = {0};
    OWN(decoder) *decoder = decoder_new();
    int32_t width = 0, height = 0;
    int status = decoder_open(decoder, "fuzz.jpg", data, (int64_t)size, &width, &height, &err);
    if (status == 0) {
        struct picture picture = {0};
        struct box whole = {.width = (width + 7) / 8, .height = (height + 7) / 8};
        status = decoder_read(decoder, whole, 8, &pixels, &picture, &err);
        volatile uint8_t last = 0;
        if (status == 0)
            last = picture.pixel[(picture.box.height - 1) * picture.stride + picture.box.width - 1];
        (void)last;
    }
    if (status && (err.count == 0 || !err.text))
        abort();
    return 0;
}
