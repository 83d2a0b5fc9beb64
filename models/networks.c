#include "models/networks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "models/build.h"
#include "models/notation.h"

enum { NAMES = 256 }; /* of all networks, at most */

const char *const network_names[] = {
    "resnet18",    "resnet34",    "resnet50",    "resnet101",    "resnet152",
    "resnet18_v1", "resnet34_v1", "resnet50_v1", "resnet101_v1", "resnet152_v1",
    "resnet8",     "resnet20",    "resnet32",    "resnet44",     "resnet56",
    "resnet110",   "vgg16",       "toy",         NULL,
};

/* What networks whose names begin so are; the first that fits counts. */
static const struct {
    const char *begins, *help;
} help[] = {
    {"resnet18", "basic blocks, for ImageNet"},
    {"resnet34", "basic blocks, for ImageNet"},
    {"resnet50", "bottlenecks, for ImageNet"},
    {"resnet101", "bottlenecks, for ImageNet"},
    {"resnet152", "bottlenecks, for ImageNet"},
    {"resnet", "residual network of 6n + 2 layers, for images of 32 pixels"},
    {"vgg16", "VGG-16, configuration D, for ImageNet"},
    {"toy", "three convolutions and a linear layer, for tests and teaching"},
};

/* Published networks whose end names why they are not here. */
static const struct {
    const char *part, *lacks;
} refused[] = {
    {"deepseek", "latent attention and multi-token prediction"},
    {"mamba", "state-space layers"},
    {"jamba", "state-space layers"},
    {"mistral-7b", "sliding windows of attention"},
    {"gemma-2", "sliding windows of attention"},
    {"gemma-3", "sliding windows of attention"},
    {"gpt-oss", "sliding windows of attention"},
    {0},
};

/* Equal but for - and _ . */
static bool same(const char *a, const char *b, size_t length)
{
    size_t i = 0;
    while (i < length && b[i] &&
           (a[i] == b[i] || (a[i] == '_' && b[i] == '-') || (a[i] == '-' && b[i] == '_')))
        i++;
    return i == length && !b[i];
}

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
        if (same(name, *known, length) && !(long_form && strchr(*known, '_')))
            return *known;
    return NULL;
}

static const struct transformer_preset *find_transformer(const char *name)
{
    for (const struct transformer_preset *preset = transformer_presets; preset->name; preset++)
        if (same(name, preset->name, strlen(name)))
            return preset;
    return NULL;
}

bool network_is_transformer(const char *name)
{
    return find_transformer(name);
}

static const struct picture *find_picture(const char *name)
{
    for (const struct picture *picture = pictures; picture->name; picture++)
        if (same(name, picture->name, strlen(name)))
            return picture;
    return NULL;
}

void network_list(struct text *out)
{
    for (const char *const *name = network_names; *name; name++) {
        size_t i = 0;
        while (strncmp(*name, help[i].begins, strlen(help[i].begins)) != 0)
            i++;
        text_add(out, "%-22s %s%s\n", *name, help[i].help,
                 strstr(*name, "_v1") ? ", as first published (2015)" : "");
    }
    for (const struct picture *picture = pictures; picture->name; picture++)
        text_add(out, "%-22s %s\n", picture->name, picture->help);
    for (const struct transformer_preset *preset = transformer_presets; preset->name; preset++)
        text_add(out, "%-22s %s\n", preset->name, preset->help);
}

static int refuse_name(const char *name, struct err *err)
{
    for (int32_t i = 0; refused[i].part; i++)
        if (strcasestr(name, refused[i].part))
            return err_add(err,
                           "network '%s' has %s, which no layer here has; foretrain list networks "
                           "has those that are known",
                           name, refused[i].lacks);
    const char *names[NAMES] = {0};
    size_t count = 0;
    for (; network_names[count]; count++)
        names[count] = network_names[count];
    for (int32_t i = 0; pictures[i].name; i++)
        names[count++] = pictures[i].name;
    for (int32_t i = 0; transformer_presets[i].name; i++)
        names[count++] = transformer_presets[i].name;
    const char *nearest = base_nearest(name, names);
    if (nearest)
        return err_add(err, "unknown network '%s'; did you mean '%s'?", name, nearest);
    return err_add(
        err,
        "unknown network '%s'; foretrain list networks has those that are known; a file "
        "lists the layers of any other, as mine.yaml, which foretrain import onnx writes",
        name);
}

bool network_is_known(const char *name, struct err *err)
{
    return find_name(name) || find_transformer(name) || find_picture(name) ||
           !refuse_name(name, err);
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

/* Whether a network takes images of @image pixels; if not, @err says why. */
static bool fits(const struct picture *entry, int32_t image, struct err *err)
{
    int32_t smallest = entry->smallest ? entry->smallest : 32; /* halved five times */
    if (image < smallest)
        err_add(err, "%s needs images of at least %" PRId32 " pixels, not %" PRId32, entry->name,
                smallest, image);
    else if (entry->multiple && image % entry->multiple)
        err_add(err, "%s needs images whose side is a multiple of %" PRId32 " pixels, not %" PRId32,
                entry->name, entry->multiple, image);
    else
        return true;
    return false;
}

static struct model *build_pictures(const char *name, int32_t image, int32_t classes,
                                    struct err *err)
{
    const char *known = find_name(name);
    const struct picture *picture = find_picture(name),
                         ours = {.name = known, .smallest = known ? smallest_image(known) : 0};
    if (!known && !picture) {
        refuse_name(name, err);
        return NULL;
    }
    if (known)
        picture = &ours;
    image = image ? image : picture->side ? picture->side : 224;
    if (!fits(picture, image, err))
        return NULL;
    struct model *model = model_new(picture->name, image, classes);
    if (!known)
        notation_build(model, picture->layers);
    else if (resnet_depth(known))
        resnet_build(model, resnet_depth(known), strstr(known, "_v1"));
    else if (strcmp(known, "vgg16") == 0)
        vgg_build(model);
    else
        toy_build(model);
    return model;
}

struct model *network_open(const struct files *files, const char *name, int32_t image,
                           int32_t classes, const struct transformer *keys, struct err *err)
{
    static const struct transformer none = {0};
    bool any = keys && memcmp(keys, &none, sizeof(none)) != 0;
    const struct transformer_preset *preset = find_transformer(name);
    if (preset)
        return transformer_build(preset, image ? image : 224, classes, keys ? keys : &none, err);
    if (any) {
        err_add(err, "keys of transformers, as model.sequence, have no effect on %s", name);
        return NULL;
    }
    return network_is_file(name) ? network_read(files, name, image, err)
                                 : build_pictures(name, image, classes, err);
}

struct model *network_build(const char *name, int32_t image, int32_t classes, struct err *err)
{
    return network_open(NULL, network_is_file(name) ? "" : name, image, classes, NULL, err);
}
