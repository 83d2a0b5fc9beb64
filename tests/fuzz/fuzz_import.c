#include "app/import/import.h"
#include "app/validate/against.h"
#include "tests/fuzz/fuzz.h"

static void score(const char *path)
{
    HELD(text) out = {0};
    HELD(err) err = {0};
    if (against_score(path, true, &out, &err) ? !err.count : !out.length)
        abort();
}

/* Any bytes are a trace, and then told of, or get a message; and so with kept predictions. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = memory_file(data, size);
    score(path);
    struct import_request request = {.ranks = 4};
    HELD(import) import = {.file = path, .base_name = base_copy("fuzz")};
    HELD(text) out = {0};
    HELD(err) err = {0};
    if (import_trace(&import, &request, &err) || import_finish(&import, &request, &out, &err)) {
        if (err.count == 0)
            abort();
    } else if (!out.length) {
        abort();
    }
    return 0;
}
