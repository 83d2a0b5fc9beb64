#pragma once

/** @file
 * Shared by the builders of networks.  Private to models/.
 */

#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** Append @layer, which reads layer @from (-1: the images), to @model under a formatted name.
 * @return its index. */
int32_t build_layer(struct model *model, int32_t from, const char *block, const char *role,
                    struct layer layer, const char *name, ...)
    __attribute__((format(printf, 6, 7)));

/** Append the global average pool and the linear classifier "fc" after layer @from. */
void build_head(struct model *model, int32_t from);

/** A row of pictures.csv: a network of pictures, for predictions.  The last has name NULL. */
struct picture {
    const char *name, *help;
    int32_t smallest, multiple; /**< of an image's side [pixels]; 0: 32, any */
    int32_t side;               /**< as published [pixels]; 0: 224 */
    const char *source;         /**< its paper; the layers' order is torchvision 0.14's */
    const char *layers;         /**< in the notation of models/networks.c */
};

/** Made from the CSV file of this folder. */
extern const struct picture pictures[];

/** A row of transformers.csv: a published one, or the job's own.  The last has name NULL. */
struct transformer_preset {
    const char *name, *help;
    struct transformer shape;
};

/** Made from the CSV file of this folder. */
extern const struct transformer_preset transformer_presets[];

/** A transformer by @preset, but for those @keys that are given; of tokens, or of square images of
 * @image pixels.  @return NULL where keys are missing or do not fit. */
struct model *transformer_build(const struct transformer_preset *preset, int32_t image,
                                int32_t classes, const struct transformer *keys, struct err *err);

/** The layers of a residual network of @depth 18, 34, 50, 101 or 152, or in the form for CIFAR-10
 * of depth 8, 20, 32, 44, 56 or 110. */
void resnet_build(struct model *model, int32_t depth, bool v1);

/** The smallest image of a residual network of @depth [pixels]. */
int32_t resnet_smallest(int32_t depth);

/** The layers of VGG with 16 weight layers, without batch norm. */
void vgg_build(struct model *model);

/** The layers of the toy network. */
void toy_build(struct model *model);
