#include "exec/input/files/file.h"
#include "tests/fuzz/fuzz.h"

/* Give each block that says it is a header the checksum of one: nothing would come past it. */
static void sum_up(uint8_t *data, size_t size)
{
    for (size_t block = 0; block + 512 <= size; block += 512) {
        uint8_t *header = data + block;
        char digits[12] = "";
        unsigned sum = 0;
        if (memcmp(header + 257, "ustar", 5) != 0)
            continue;
        memset(header + 148, ' ', 8);
        for (int32_t i = 0; i < 512; i++)
            sum += header[i];
        snprintf(digits, sizeof(digits), "%06o", sum);
        memcpy(header + 148, digits, 7);
    }
}

/* A tar file is listed and every image in it can be read, or there is a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(err) err = {0};
    struct catalog catalog;
    HELD(buffer) bytes = {0};
    AUTOFREE uint8_t *copy = base_alloc((int64_t)size + 1, 1);
    memcpy(copy, data, size);
    sum_up(copy, size);
    if (catalog_open_shards(&catalog, memory_file(copy, size), &err) == 0) {
        for (int64_t i = 0; i < catalog.count; i++) {
            int32_t label = catalog.ops->label(catalog.listing, i);
            if (label < 0 || label >= catalog.classes ||
                catalog.ops->fetch(catalog.listing, i, &bytes, &err) < 0)
                abort();
            free(catalog.ops->name(catalog.listing, i));
        }
        catalog_close(&catalog);
    } else if (err.count == 0 || !err.text) {
        abort();
    }
    return 0;
}
