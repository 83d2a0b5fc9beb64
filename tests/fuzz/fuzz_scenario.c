#include "core/scenario/scenario.h"
#include "tests/fuzz/fuzz.h"

/* Any text is either a scenario that can be released or gets at least one message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(text) text = {0};
    HELD(err) err = {0};
    struct scenario scenario;
    text_append(&text, (const char *)data, (int64_t)size);
    const char *name = size % 2 ? "fuzz.yaml" : "fuzz.json"; /* both ways libfyaml reads */
    if (scenario_read_text(&scenario, name, text.data, &err) == 0)
        scenario_release(&scenario);
    else if (err.count == 0 || !err.text)
        abort();
    return 0;
}
