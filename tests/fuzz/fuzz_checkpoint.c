#include "exec/checkpoint/checkpoint_parts.h"
#include "tests/fuzz/fuzz.h"

static void check(int failed, const struct err *err)
{
    if (failed ? !err->text : err->count != 0)
        abort();
}

/* Any bytes are a MANIFEST, a state.json, or neither, and what is neither gets a message.  What was
 * read and written again is read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    HELD(text) text = {0}, out = {0};
    struct err err = {0};
    struct manifest manifest;
    struct progress progress;
    text_append(&text, (const char *)data, (int64_t)size);
    int failed = manifest_read_text(&manifest, "fuzz", text.data, text.length, &err);
    check(failed, &err);
    if (!failed) {
        manifest_print(&out, &manifest);
        check(manifest_read_text(&manifest, "again", out.data, out.length, &err), &err);
        out.length = 0;
    }
    err_release(&err);
    failed = state_read_text(&progress, "fuzz", text.data, text.length, &err);
    check(failed, &err);
    if (!failed) {
        state_print(&out, &progress);
        if (state_read_text(&progress, "again", out.data, out.length, &err))
            abort();
    }
    err_release(&err);
    return 0;
}
