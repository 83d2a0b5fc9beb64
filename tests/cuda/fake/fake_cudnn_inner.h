#pragma once

/** @file
 * What the sources of cuDNN in software (tests/cuda/fake/fake_cudnn.h) share.
 */

#include <cudnn.h>

#include "exec/cuda/conv/conv.h"

enum { FAKE_ATTRIBUTES = 8 };

/** What a descriptor was told. */
struct fake_attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *items; /* owned */
};

/** What a cudnnBackendDescriptor_t points to. */
struct fake_descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized;
    struct fake_attribute attribute[FAKE_ATTRIBUTES];
    int32_t attributes;
    struct fake_descriptor *owned[4]; /* made by the library, not by the caller */
    int32_t owns;
};

/** Bytes of one item of @type. */
size_t fake_item_size(cudnnBackendAttributeType_t type);

/** The attribute @name of @descriptor, or NULL. */
const struct fake_attribute *fake_find(const struct fake_descriptor *descriptor,
                                       cudnnBackendAttributeName_t name);

/** Item @place of it, a number; INT64_MIN: there is none. */
int64_t fake_integer(const struct fake_descriptor *descriptor, cudnnBackendAttributeName_t name,
                     int32_t place);

/** Item @place of it, a descriptor, or NULL. */
const struct fake_descriptor *fake_part(const struct fake_descriptor *descriptor,
                                        cudnnBackendAttributeName_t name, int32_t place);

/** A convolution as its descriptors describe it, with the ids of its tensors. */
struct fake_reading {
    enum conv_op op;
    struct conv_shape shape;
    int64_t x, w, y;
};

/** What the operation graph @graph computes.  @return whether it is a graph for one of our ops. */
bool fake_read_graph(const struct fake_descriptor *graph, struct fake_reading *reading);
