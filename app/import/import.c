#include "app/import/import.h"

#include "core/base/gzip.h"

enum {
    FILE_LIMIT = 1 << 30, /* [bytes] */
    RATIO_LIMIT = 200,    /* of what compressed text may hold: traces shrink to a tenth or less */
};

static int read_stream(FILE *file, const char *path, struct text *out, struct err *err)
{
    char block[1 << 14];
    for (size_t count; (count = fread(block, 1, sizeof(block), file)) > 0;) {
        if (out->length + (int64_t)count > FILE_LIMIT)
            return err_add(err, "%s: larger than 1 GiB; keep only a few steps", path);
        text_append(out, block, (int64_t)count);
    }
    if (ferror(file))
        return err_add_code(err, 66, "%s: cannot be read: %s", path, strerror(errno));
    int64_t ratio = RATIO_LIMIT * out->length;
    if (gzip_expand(out, ratio < FILE_LIMIT ? ratio : FILE_LIMIT, path, err))
        return -1;
    if (out->length == 0)
        return err_add(err, "%s: the file is empty", path);
    if (memchr(out->data, '\0', (size_t)out->length))
        return err_add(err, "%s: not a text (byte 0 in it); unpack it first if it is compressed",
                       path);
    return 0;
}

int import_load(const char *path, struct text *out, struct err *err)
{
    FILE *file = fopen(strcmp(path, "-") ? path : "/dev/stdin", "rb");
    if (!file)
        return err_add_code(err, 66, "%s: cannot be opened: %s", path, strerror(errno));
    int failed = read_stream(file, path, out, err);
    fclose(file);
    return failed;
}

/* Append a line to one list of what the answer says. */
#define SAY(name, list)                                                                            \
    void import_##name(struct import *import, const char *format, ...)                             \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, format);                                                               \
        AUTOFREE char *line = base_format_list(format, arguments);                                 \
        va_end(arguments);                                                                         \
        text_add(&import->list, "%s\n", line);                                                     \
    }
SAY(note, understood)
SAY(assume, assumed)
SAY(warn, warning)

void import_set(struct quantity *quantity, double value, enum provenance provenance,
                const char *format, ...)
{
    if (quantity->source)
        return;
    va_list arguments;
    va_start(arguments, format);
    quantity->source = base_format_list(format, arguments);
    va_end(arguments);
    quantity->value = value;
    quantity->provenance = provenance;
}

int32_t import_add_link(struct import *import, const char *name)
{
    for (int32_t i = 0; i < import->link_count; i++)
        if (!strcmp(import->link[i].name, name))
            return i;
    if (import->link_count == IMPORT_LINK_LIMIT)
        return IMPORT_LINK_LIMIT - 1;
    import->link[import->link_count].name = base_copy(name);
    return import->link_count++;
}

void import_connect(struct import *import, int32_t a, int32_t b, int32_t link)
{
    const struct cable *cable = import->wiring.cable;
    for (int32_t i = 0; i < import->wiring.cable_count; i++)
        if ((cable[i].end[0] == a && cable[i].end[1] == b) ||
            (cable[i].end[0] == b && cable[i].end[1] == a))
            return;
    if (a != b)
        wiring_add(&import->wiring, a, b, link);
}

/* Whether @model has @word, not as a part of a longer one, as A4000 has A40. */
static bool has_word(const char *model, const char *word)
{
    for (const char *at = model; (at = strcasestr(at, word)); at++)
        if (!isalnum(at[strlen(word)]) && (at == model || !isalnum(at[-1])))
            return true;
    return false;
}

void import_set_device(struct import *import, const char *model)
{
    bool other = has_word(model, "Laptop") || has_word(model, "MIG"); /* less than the name says */
    for (const struct driver *driver = known_drivers; driver->device && !other; driver++) {
        bool all = has_word(model, driver->word[0]);
        for (int32_t k = 1; k < 3 && driver->word[k]; k++)
            all = all && strcasestr(model, driver->word[k]);
        if (!all)
            continue;
        free(import->device);
        import->device = base_copy(driver->device);
        import_note(import, "device '%s': %s of platforms/devices", model, import->device);
        return;
    }
    import_warn(import, "device '%s' has no file in platforms/devices", model);
}

OWN_RELEASE(link_record, it->name, it->bandwidth.source, it->efficiency.source, it->latency.source)

void import_release(struct import *import)
{
    for (int32_t i = 0; i < import->link_count; i++)
        link_record_release(&import->link[i]);
    for (int32_t i = 0; i < import->tier_count; i++)
        link_record_release(&import->tier[i].uplink);
    link_record_release(&import->nic);
    free(import->inside.source);
    free(import->between.source);
    free(import->nccl.bandwidth.source);
    free(import->nccl.why);
    free(import->base);
    free(import->base_name);
    free(import->description);
    free(import->device);
    wiring_release(&import->wiring);
    text_release(&import->understood);
    text_release(&import->assumed);
    text_release(&import->warning);
    text_release(&import->comparison);
    for (int64_t i = 0; i < import->result.kernels; i++)
        free(import->result.kernel[i].name);
    free(import->result.kernel);
    *import = (struct import){0};
}
