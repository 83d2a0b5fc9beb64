#pragma once

/** @file
 * A network in the memory of the oneDNN device; only for exec/cpu/dnnl/device_dnnl*.c.
 */

#include "exec/cpu/device_cpu.h"
#include "exec/cpu/dnnl/device_dnnl_call.h"
#include "exec/cpu/dnnl/kernels.h"
#include "exec/step/backward_plan.h"

/** Everything that belongs to one layer. */
struct dnnl_place {
    float *y;             /**< (micro-batch, out) its value; NULL when it is never written */
    float *given[2], *dx; /**< as struct backward_plan says */
    struct norm norm;     /**< of batch norm */
    struct matrix matrix; /**< of a convolution or linear layer */
    struct pool pool;     /**< of a max pool */
};

/** See exec/step/device.h. */
struct device_state {
    struct cpu_device cpu;
    struct backward_plan plan;
    struct engine engine;
    struct call_layout kind;  /**< of activations */
    struct dnnl_place *place; /**< (layers) */
    float *scratch;           /**< of sums */
    float *bias;              /**< gradient of one layer's biases */
    int64_t workspace;        /**< of the engine's bytes, those of layers */
};

/** Shape and blocks of the value of layer @index, for a micro-batch. */
struct blocked state_shape(const struct device_state *state, int32_t index);

/** Allocate and make all primitives of @passes, for the number of threads that is set.
 * @return 0, or -1 (exit code 69): oneDNN cannot run a layer.  Either way state_release(). */
int state_init(struct device_state *state, const struct device_job *job,
               const struct cpu_passes *passes, struct err *err);

/** The same, but only for `workspace`: nothing is allocated, and no primitive is made. */
int state_describe(struct device_state *state, const struct device_job *job,
                   const struct cpu_passes *passes, struct err *err);

void state_release(struct device_state *state);
