#include <string.h>

#include "app/new/new.h"
#include "core/base/unit.h"
#include "core/config/field_write.h"
#include "core/platform/platform.h"

/* What the data sheet says. */
struct sheet {
    const struct new_request *request;
    double peak[DTYPE_COUNT]; /* [FLOP/s]; 0: not given */
    double memory, bandwidth;
    struct new_inside inside;
    int32_t capability;
    struct text *out;
};

/* "bf16=2250T": the unit may be left out. */
static int read_peak(struct sheet *sheet, const char *given, struct err *err)
{
    AUTOFREE char *text = base_copy(given);
    char *number = strchr(text, '=');
    if (number)
        *number++ = '\0';
    int32_t dtype = base_find_word(text, dtype_names);
    AUTOFREE char *whole =
        number ? base_format("%s%s", number, strchr(number, '/') ? "" : "FLOP/s") : NULL;
    AUTORELEASE(err) struct err found = {0};
    if (dtype < 0 || !whole || unit_parse(UNIT_FLOPS, whole, &sheet->peak[dtype], &found) ||
        sheet->peak[dtype] < 1)
        return err_add_code(err, 64,
                            "--peak: expected fp32, fp16 or bf16 with its FLOP/s without sparsity, "
                            "as in bf16=2250T, got '%s'",
                            given);
    return 0;
}

/* "180GB@8TB/s". */
static int read_memory(struct sheet *sheet, struct err *err)
{
    AUTOFREE char *text = base_copy(sheet->request->memory);
    char *rate = text ? strchr(text, '@') : NULL;
    if (rate)
        *rate++ = '\0';
    AUTORELEASE(err) struct err found = {0};
    if (!rate || unit_parse(UNIT_BYTES, text, &sheet->memory, &found) ||
        unit_parse(UNIT_BYTES_PER_SECOND, rate, &sheet->bandwidth, &found) || sheet->memory < 1 ||
        sheet->bandwidth < 1)
        return err_add_code(err, 64,
                            "a device needs --memory with its size and bandwidth, as in "
                            "180GB@8TB/s%s%s",
                            text ? ", got " : "", text ? sheet->request->memory : "");
    return 0;
}

static int read_sheet(struct sheet *sheet, struct err *err)
{
    const struct new_request *request = sheet->request;
    for (int32_t i = 0; i < request->peak.count; i++)
        if (read_peak(sheet, request->peak.item[i], err))
            return -1;
    if (!request->peak.count)
        return err_add_code(err, 64,
                            "a device needs --peak, as in: foretrain new device b200 --peak "
                            "bf16=2250T --memory 180GB@8TB/s --nvlink 900GB/s");
    AUTOFREE char *nvlink = request->nvlink ? base_format("nvlink:%s", request->nvlink) : NULL;
    const char *inside = nvlink ? nvlink : request->inside;
    return read_memory(sheet, err) || (inside && new_read_inside(&sheet->inside, inside, err)) ? -1
                                                                                               : 0;
}

static void add_number(const struct sheet *sheet, int32_t indent, const char *key, enum unit unit,
                       double value)
{
    field_write_quantity(sheet->out, indent, key, PROVENANCE_DATASHEET, 0,
                         "given to foretrain new: its data sheet", "%s", unit_text(unit, value));
}

/* A sheet that has one of the types of 16 bits has the same for the other; of fp32 a GPU with
 * matrix units has about a sixteenth, as an A100 and an H100. */
static void add_peaks(const struct sheet *sheet)
{
    const double *peak = sheet->peak;
    double half = peak[DTYPE_BF16] > 0 ? peak[DTYPE_BF16] : peak[DTYPE_FP16];
    text_add(sheet->out, "peak:    # without sparsity\n");
    if (peak[DTYPE_FP32] > 0)
        add_number(sheet, 2, "fp32", UNIT_FLOPS, peak[DTYPE_FP32]);
    else
        field_write_quantity(sheet->out, 2, "fp32", PROVENANCE_ASSUMED, 0,
                             "a sixteenth of 16 bits, as of A100 and H100; --peak fp32 was not "
                             "given",
                             "%s", unit_text(UNIT_FLOPS, half / 16));
    if (peak[DTYPE_FP16] > 0 || (half > 0 && sheet->capability))
        add_number(sheet, 2, "fp16", UNIT_FLOPS, peak[DTYPE_FP16] > 0 ? peak[DTYPE_FP16] : half);
    if (peak[DTYPE_BF16] > 0)
        add_number(sheet, 2, "bf16", UNIT_FLOPS, peak[DTYPE_BF16]);
}

/* NVIDIA's of the generation whose links are as fast. */
static int32_t find_capability(const struct sheet *sheet)
{
    double links =
        sheet->inside.links == LINKS_NVLINK && !sheet->inside.mesh ? sheet->inside.bandwidth : 0;
    return sheet->request->capability ? sheet->request->capability
           : links >= 900e9           ? 100
           : links >= 450e9           ? 90
           : links >= 300e9           ? 80
           : links > 0                ? 70
                                      : 0;
}

static void add_links(const struct sheet *sheet)
{
    const struct new_request *request = sheet->request;
    const struct new_inside *inside = &sheet->inside;
    int64_t pcie = request->pcie ? request->pcie : inside->pcie;
    if (sheet->capability)
        text_add(sheet->out, "compute_capability: %d%s\n", sheet->capability,
                 request->capability ? "" : "    # assumed: by the rate of NVLink");
    else
        text_add(sheet->out,
                 "# compute_capability: 120    # of a device with CUDA: 10 * major + minor; "
                 "without it no NCCL and no software profile\n");
    if (pcie)
        text_add(sheet->out, "pcie: %lld\n", (long long)pcie);
    else
        text_add(sheet->out, "# pcie: 5    # generation of its slot of 16 lanes\n");
    if (inside->links == LINKS_NONE)
        return;
    text_add(sheet->out, "links:    # one way; data sheets of NVLink count both\n  kind: %s\n%s",
             device_links_names[inside->links], inside->mesh ? "  mesh: true\n" : "");
    add_number(sheet, 2, "bandwidth", UNIT_BYTES_PER_SECOND, inside->bandwidth);
}

int new_device(const struct new_request *request, struct text *out, struct err *err)
{
    struct sheet sheet = {.request = request, .out = out};
    if (read_sheet(&sheet, err))
        return -1;
    const char *name = request->head.argument.item[0];
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (name[strspn(name, letters)])
        return err_add_code(err, 64,
                            "'%s' is no name for a device: expected letters, digits, '.', '_' and "
                            "'-', as in b200-sxm-180gb",
                            name);
    sheet.capability = find_capability(&sheet);
    text_add(out, "# Written by foretrain new device from the numbers of a data sheet; man 5 "
                  "foretrain-platform has all keys.\n");
    field_write_line(out, 0, "name", name);
    AUTOFREE char *description = base_format("%s, from its data sheet", name);
    field_write_line(out, 0, "description", description);
    text_add(out, "\n");
    add_peaks(&sheet);
    add_number(&sheet, 0, "memory_bandwidth", UNIT_BYTES_PER_SECOND, sheet.bandwidth);
    add_number(&sheet, 0, "memory", UNIT_BYTES, sheet.memory);
    add_links(&sheet);
    text_add(out,
             "\n# No data sheet has these: they are as of the devices with runs, with a wide "
             "interval, or as of\n# cluster.software.  'foretrain import trace' and 'calibrate' "
             "measure them.\n"
             "# math_efficiency: 69 %%\n# memory_efficiency: 69 %%\n# kernel_overhead: 7.1 us\n"
             "# fusion: %s    # none, bn-relu, stats, mainloop or ideal\n",
             sheet.capability >= 90 ? "mainloop" : "stats");
    return 0;
}
