#pragma once

/** @file
 * The engines that cuDNN offers for a graph, and plans made of them.
 */

#include "exec/cuda/conv/conv_cache.h"
#include "exec/cuda/conv/conv_cudnn_graph.h"

/** Maximum number of engines in one of the library's lists. */
enum { CONV_CANDIDATES = 64 };

/** An engine with its settings, ready to become a plan. */
struct conv_candidate {
    cudnnBackendDescriptor_t config; /**< owned by the builder */
    struct conv_choice choice;       /**< seconds and workspace not yet known */
};

/** Keep CUDA's run-time compiler loaded until the process ends.  cuDNN loads and drops it for
 * every plan, which is most of a plan's cost on the host.  If the compiler is not found, nothing
 * changes. */
void conv_keep_compiler(void);

/** Engines for @graph that may be used for @type, in the library's order: those that its heuristics
 * expect to be fast (mode A, then B), then its fallbacks; none twice.
 *
 * Engines are left out if the order of their sums varies, if they round intermediate sums to 16
 * bits, and, for fp32, if they round inputs (TF32).
 * @return how many; the caller frees *@list.  0 also when none is offered. */
int32_t conv_candidates(struct conv_builder *builder, const struct conv_target *target,
                        cudnnBackendDescriptor_t graph, enum dtype type,
                        struct conv_candidate **list);

/** The engine of @choice with its settings, for @graph.  @return NULL with @builder failed. */
cudnnBackendDescriptor_t conv_config(struct conv_builder *builder, const struct conv_target *target,
                                     cudnnBackendDescriptor_t graph,
                                     const struct conv_choice *choice);

/** The values that one setting of an engine may have: from least to most in steps of stride.  Not
 * every combination is supported. */
struct conv_range {
    int64_t type, least, most, stride;
};

/** The settings of @engine for @graph.  @return how many, or 0 with @builder failed. */
int32_t conv_ranges(struct conv_builder *builder, const struct conv_target *target,
                    cudnnBackendDescriptor_t graph, int32_t engine,
                    struct conv_range range[CONV_KNOBS]);

/** A plan of @config; *@workspace: the memory it needs [bytes].  The library may compile, which
 * takes up to seconds.
 * @return NULL with @builder failed: it does not support the graph on this device. */
cudnnBackendDescriptor_t conv_make_plan(struct conv_builder *builder,
                                        const struct conv_target *target,
                                        cudnnBackendDescriptor_t config, int64_t *workspace);

/** "engine 47, tensor cores"; the caller frees it. */
char *conv_engine_name(const struct conv_choice *choice);

/** Issue @plan of @op on @stream; @err as conv_status(). */
cudnnStatus_t conv_execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, enum conv_op op,
                           cudaStream_t stream, const struct conv_call *call, struct err *err);
