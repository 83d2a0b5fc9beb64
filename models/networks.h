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
 */

#include "core/base/err.h"
#include "core/schedule/model.h"

/** The names, NULL-terminated. */
extern const char *const network_names[];

/** Build @name for square images of @image pixels.
 * @return the model, to be released with model_free(), or NULL: unknown name (with the nearest),
 * an image too small for the network's strides. */
struct model *network_build(const char *name, int32_t image, int32_t classes, struct err *err);
