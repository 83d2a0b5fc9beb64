#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/platform/platform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any text is either a platform that can be printed and released or gets at least one message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text text = {0}, out = {0};
    struct err err = {0};
    text_append(&text, (const char *)data, (int64_t)size);
    struct platform *platform = platform_read_text("fuzz.yaml", text.data, &err);
    if (platform)
        platform_print(&out, platform);
    else if (err.count == 0 || !err.text)
        abort();
    platform_free(platform);
    err_release(&err);
    text_release(&out);
    text_release(&text);
    return 0;
}
