#include "core/price/price.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/fuzz/fuzz.h"

static bool read_device(const char *path, struct err *err)
{
    AUTOFREE char *set = base_format("platform.device=%s", path);
    const char *sets[] = {set};
    OWN(platform) *platform = platform_read_changed(NULL, "dgx-h100", sets, 1, NULL, err);
    return platform;
}

static bool read_software(const char *path, struct err *err)
{
    OWN(software) *software = software_read(NULL, path, err);
    return software;
}

static bool read_network(const char *path, struct err *err)
{
    OWN(model) *model = network_read(NULL, path, 0, err);
    HELD(text) out = {0};
    if (model)
        network_print(&out, model);
    return model;
}

static bool read_prices(const char *path, struct err *err)
{
    struct price_file file = {0};
    bool read = price_read(&file, path, err) == 0;
    price_release(&file);
    return read;
}

static bool (*const readers[])(const char *path, struct err *err) = {
    read_device,
    read_software,
    read_network,
    read_prices,
};

/* Any file is read by each reader, or gets a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = memory_file(data, size);
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        HELD(err) err = {0};
        if (!readers[i](path, &err) && (err.count == 0 || !err.text))
            abort();
    }
    return 0;
}
