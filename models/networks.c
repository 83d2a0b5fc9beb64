#include "models/networks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "models/build.h"

const char *const network_names[] = {
    "resnet18",    "resnet34",    "resnet50",    "resnet101",    "resnet152",
    "resnet18_v1", "resnet34_v1", "resnet50_v1", "resnet101_v1", "resnet152_v1",
    "resnet8",     "resnet20",    "resnet32",    "resnet44",     "resnet56",
    "resnet110",   "vgg16",       "toy",         NULL,
};

/* The entry of network_names for @name, or NULL.  "resnet50_v1.5" is "resnet50". */
static const char *find_name(const char *name)
{
    static const char suffix[] = "_v1.5";
    size_t length = strlen(name), tail = sizeof(suffix) - 1;
    bool long_form = strncmp(name, "resnet", 6) == 0 && length > tail &&
                     strcmp(name + length - tail, suffix) == 0;
    if (long_form)
        length -= tail;
    for (const char *const *known = network_names; *known; known++)
        if (strncmp(*known, name, length) == 0 && (*known)[length] == '\0' &&
            !(long_form && strchr(*known, '_')))
            return *known;
    return NULL;
}

static int refuse_name(const char *name, struct err *err)
{
    const char *nearest = base_nearest(name, network_names);
    if (nearest)
        return err_add(err, "unknown network '%s'; did you mean '%s'?", name, nearest);
    AUTORELEASE(text) struct text known = {0};
    for (int32_t i = 0; network_names[i]; i++)
        text_add(&known, "%s%s", i > 0 ? ", " : "", network_names[i]);
    err_add(err,
            "unknown network '%s'; it must be one of: %s; or a file that lists the layers of any "
            "other, as mine.yaml, which foretrain import onnx writes",
            name, known.data);
    return -1;
}

/* "resnet50_v1": 50; 0 for other networks. */
static int32_t resnet_depth(const char *name)
{
    int depth;
    return sscanf(name, "resnet%d", &depth) == 1 ? depth : 0;
}

static int32_t smallest_image(const char *name)
{
    if (resnet_depth(name))
        return resnet_smallest(resnet_depth(name));
    return strcmp(name, "toy") == 0 ? 8 : 32; /* 32: halved five times */
}

struct model *network_open(const struct files *files, const char *name, int32_t image,
                           int32_t classes, struct err *err)
{
    return network_is_file(name) ? network_read(files, name, err)
                                 : network_build(name, image, classes, err);
}

struct model *network_build(const char *name, int32_t image, int32_t classes, struct err *err)
{
    const char *known = find_name(name);
    if (!known) {
        refuse_name(name, err);
        return NULL;
    }
    int32_t smallest = smallest_image(known);
    if (image < smallest) {
        err_add(err, "%s needs images of at least %" PRId32 " pixels, not %" PRId32, known,
                smallest, image);
        return NULL;
    }
    struct model *model = model_new(known, image, classes);
    if (resnet_depth(known))
        resnet_build(model, resnet_depth(known), strstr(known, "_v1"));
    else if (strcmp(known, "vgg16") == 0)
        vgg_build(model);
    else
        toy_build(model);
    return model;
}
