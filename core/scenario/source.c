#include "core/scenario/source.h"

#include "core/base/base.h"

const char *const dataset_source_names[] = {
    "synthetic", "procedural", "imagefolder", "webdataset", "cifar10", "pack", "tokens", NULL,
};
static_assert(ARRAY_SIZE(dataset_source_names) == SOURCE_COUNT + 1, "a word per source");

bool source_is_jpeg(enum dataset_source source)
{
    return source == SOURCE_IMAGEFOLDER || source == SOURCE_WEBDATASET;
}

bool source_has_pictures(enum dataset_source source)
{
    return source_is_jpeg(source) || source == SOURCE_PACK;
}
