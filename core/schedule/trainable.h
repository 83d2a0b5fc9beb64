#pragma once

/** @file
 * Which networks devices train: convolutional ones as torchvision's ResNets and VGG are built,
 * those on CPUs also with groups of channels, as ResNeXt and MobileNet v2, with gates, as
 * EfficientNet, or norms of channels, as ConvNeXt, and transformers that predict the next token or
 * read pictures, as ViT.
 */

#include "core/base/err.h"
#include "core/schedule/model.h"

/** Whether devices can train @model, called @name in messages.
 * @return 0, or -1 with exit code 69 and the name of the first layer that they cannot run: another
 * kind than the first five, the weights of another layer, an input in another shape, a batch norm
 * that reads no convolution, sums that are no residual blocks, a value that more than two layers
 * read or none; images that are not square or not of three channels, an end that is no linear
 * layer; of a network with gates or of a transformer what is no part of the above, and a gate that
 * does not say which it is. */
int model_check_training(const struct model *model, const char *name, struct err *err);
