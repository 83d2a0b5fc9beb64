#pragma once

/** @file
 * Networks of pictures as texts.  Private to models/.
 *
 * Words, apart by spaces, are layers one after another:
 *
 * 64k3s2p1g8   a convolution to 64 channels (0: the classes): kernel (1), stride (1), padding (half
 * the kernel) and groups (1; d: as many as channels).  k1x7: height and width of a kernel that
 * keeps the sides; t: transposed.  At its end n is a batch norm, nothing or r a batch norm with
 * ReLU, s a batch norm and SiLU, b a bias, ! neither.  @1: the weights of the first convolution
 * with this tag, a number below 16. max3s2p1     a max pool; with c at its end, parts of windows
 * count avg avg2     an average pool of the whole, or of windows of 2; avg3s1: around each value
 * fc4096 fc    a linear layer with bias; without a number it gives the classes
 * se8          squeeze and excitation by 8 channels
 * bn ln relu gelu drop shuffle scale; cut64: the first 64 channels; up2: twice the sides;
 * fold2: squares of 2 become channels; att3w7: 3 heads of attention inside windows of 7;
 * roi7x512: 512 boxes with sides of 7, beside each other
 *
 * ( a | b )    concatenates branches, [ a | b ] adds two, < a > computes beside the main path, ( a
 * )*2 repeats; an empty branch is the value before the group; ]r is a ReLU behind it, ]*3 repeats
 * all.
 */

#include "core/schedule/model.h"

/** Append the layers of @text, which is ours, to @model. */
void notation_build(struct model *model, const char *text);
