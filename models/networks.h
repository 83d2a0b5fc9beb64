#pragma once

/** @file
 * The networks of foretrain, built layer by layer from their papers.
 *
 * resnet18, 34, 50, 101, 152: v1.5 (the stride of a bottleneck on its 3x3 convolution, as in
 * torchvision); with suffix _v1 on its first 1x1 (He et al. 2015).
 * resnet8, 20, 32, 44, 56, 110: the form for CIFAR-10, of 6n + 2 layers (He et al. 2015, section
 * 4.2), with projections where the shape changes (option B).
 * vgg16 (Simonyan and Zisserman 2014).
 * toy: three convolutions with batch norm and a linear layer, for tests and teaching.
 * resnext50_32x4d, mobilenet_v2, unet, ...: pictures.csv, for predictions.
 * transformer, and published ones by name: bert-large, gpt2, llama-3-8b, vit_b_16, ...
 *
 * Any other network is a file that lists its layers (network_table); both become the same struct
 * model.
 */

#include "core/config/field.h"
#include "core/scenario/scenario.h"
#include "core/schedule/model.h"

/** Names of the networks that devices train, NULL-terminated. */
extern const char *const network_names[];

/** Build @name for square images of @image pixels, or for sequences of its own.  In a name - and _
 * are one.
 * @return the model, to be released with model_free(), or NULL: unknown name (with the nearest),
 * an image too small for the network's strides. */
struct model *network_build(const char *name, int32_t image, int32_t classes, struct err *err);

/** Layers, and height, width or channels, of a file at most. */
enum { NETWORK_LAYERS = 20000, NETWORK_SIDE = 1 << 24 };

/** FLOP of one image forward, at most: counts of one fit 64 bits; a job's batch is checked. */
#define NETWORK_FLOPS 1e18
/** Parameters at most. */
#define NETWORK_PARAMETERS 1e13
/** Values of one image, of all layers together, at most. */
#define NETWORK_ELEMENTS 1e15

/** The rows of a network file. */
extern const struct field_table network_table;

/** Whether a layer in a file may have @key of network_table, which not all kinds have. */
bool network_takes(enum layer_op op, const char *key);

/** Whether @name is the path of a file: it has a folder or ends in .yaml. */
bool network_is_file(const char *name);

/** Read the network that file @path lists, for square images of @image pixels if it reads such and
 * that is not 0.
 * @return the model, to be released with model_free(), or NULL with located messages: what
 * yaml_read_file() and field_read() refuse, a name that is taken or that no layer above has, shapes
 * that do not fit, keys that are missing or have no effect on the kind, more than the limits
 * above, no parameters.  Warns of layers whose values nothing reads. */
struct model *network_read(const struct files *files, const char *path, int32_t image,
                           struct err *err);

/** network_read() of the text of a file called @name. */
struct model *network_read_text(const char *name, const char *text, struct err *err);

/** A file of @files (NULL: on disk), or a built-in network as network_build(), with these @keys
 * (NULL: none) if it is a transformer.  @image 0: as the network was published. */
struct model *network_open(const struct files *files, const char *name, int32_t image,
                           int32_t classes, const struct transformer *keys, struct err *err);

/** Whether @name is a built-in transformer. */
bool network_is_transformer(const char *name);

/** Whether @name is a built-in network; if not, @err says why. */
bool network_is_known(const char *name, struct err *err);

/** Append a line for each built-in network: its name, and what it is. */
void network_list(struct text *out);

/** Append @model as a file that network_read() reads as the same network. */
void network_print(struct text *out, const struct model *model);
