#pragma once

/** @file
 * Operation graphs of cuDNN's backend API, for the ops of exec/cuda/conv/conv.h.
 *
 * Nothing here computes: a graph describes operations on tensors;
 * exec/cuda/conv/conv_cudnn_engine.h chooses an engine, and then a plan, for it.  Every status is
 * checked.
 */

#include <cudnn.h>

#include "exec/cuda/conv/conv.h"

/** The device of graphs and engines: a present one, or the description of one. */
struct conv_target {
    cudnnHandle_t handle;              /**< NULL: no device is present, plans cannot run */
    cudnnBackendDescriptor_t property; /**< used without a handle; finalized */
};

/** The tensor of a graph that an address belongs to.  The values are cuDNN's unique ids. */
enum conv_operand {
    CONV_X = 'x', /**< x, or dx */
    CONV_W = 'w', /**< w, or dw */
    CONV_Y = 'y'  /**< y, or dy */
};

/** Descriptors made together and released together.  Start from {.err = err}; after the first
 * failure, which adds one message to @err (exit code 69) where that is not NULL, calls do nothing.
 */
struct conv_builder {
    struct err *err;
    cudnnBackendDescriptor_t *made; /**< owned */
    int64_t count, capacity;
    bool failed;
    cudnnStatus_t status; /**< of the call that failed */
};

/** A new descriptor, or NULL. */
cudnnBackendDescriptor_t conv_builder_new(struct conv_builder *builder,
                                          cudnnBackendDescriptorType_t type);

/** Set @count items of @name. */
void conv_builder_set(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, const void *items);

/** Read up to @count items of @name.  @return how many there are, or 0. */
int64_t conv_builder_get(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, void *items);

/** The descriptor is complete. */
void conv_builder_finalize(struct conv_builder *builder, cudnnBackendDescriptor_t descriptor);

/** Release all descriptors; the struct may be used again. */
void conv_builder_release(struct conv_builder *builder);

/** "cuDNN cannot WHAT: STATUS: what the library last said" in @err (exit code 69), unless @err is
 * NULL. */
void conv_status(cudnnStatus_t status, const char *what, struct err *err);

/** The graph of @op on @shape.
 * @return a finalized descriptor that @builder owns, or NULL with @builder failed. */
cudnnBackendDescriptor_t conv_graph(struct conv_builder *builder, const struct conv_target *target,
                                    enum conv_op op, const struct conv_shape *shape);
