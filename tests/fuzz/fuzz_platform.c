#include "tests/core/own.h"
#include "tests/fuzz/fuzz.h"

/* Any text is either a platform that can be printed and released or gets at least one message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(text) text = {0}, out = {0};
    HELD(err) err = {0};
    text_append(&text, (const char *)data, (int64_t)size);
    OWN(platform) *platform = platform_read_text("fuzz.yaml", text.data, &err);
    if (platform)
        platform_print(&out, platform);
    else if (err.count == 0 || !err.text)
        abort();
    return 0;
}
