#pragma once

/** @file
 * oneDNN's engine with all its memory, and primitives with their operands; only for
 * exec/cpu/dnnl/device_dnnl*.c, the only files that include oneDNN's header.
 */

#include <oneapi/dnnl/dnnl.h>

#include "core/schedule/model.h"

/** For calls that cannot fail unless memory or our arithmetic does. */
#define MUST(call) engine_must((call), #call, __FILE__, __LINE__)

/** End the process with exit code 71 unless @status of @what is success. */
void engine_must(dnnl_status_t status, const char *what, const char *file, int line);

#if DNNL_VERSION_MAJOR < 3
/** Shape, type and layout of a tensor. */
typedef const dnnl_memory_desc_t *tensor_desc;
/** Release one. */
#define TENSOR_FREE(desc) free((void *)(desc))
#else
/** A descriptor of a tensor. */
typedef const_dnnl_memory_desc_t tensor_desc;
/** Release one. */
#define TENSOR_FREE(desc) dnnl_memory_desc_destroy((dnnl_memory_desc_t)(desc))
#endif

/** What a primitive does with its result. */
enum then { THEN_WRITE, THEN_ADD, THEN_RELU };

/** One pass of a convolution, linear layer or max pool. */
struct operation {
    const struct layer *layer;
    enum pass pass;
    dnnl_alg_kind_t algorithm; /**< of a convolution or pool */
    enum then then;
    tensor_desc x, w, b, y; /**< or their gradients; NULL: it has none */
};

/** The CPU as oneDNN sees it, and all memory that is released with it. */
struct engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t *memory; /**< (memories) */
    tensor_desc *tensor;   /**< (tensors) */
    void **block;          /**< (blocks) allocations */
    int64_t memories, tensors, blocks;
    dnnl_memory_t *scratch; /**< (scratches) working space of primitives, all at one address */
    int64_t scratches;
    size_t scratch_size; /**< size of the largest [bytes] */
    int64_t bytes;       /**< that engine_alloc() gave */
    void *addresses;     /**< of all arrays of an engine that only describes; else NULL */
};

/** Most operands of a primitive. */
enum { CALL_OPERANDS = 5 };

/** A primitive with its operands. */
struct call {
    dnnl_primitive_desc_t desc; /**< owned */
    dnnl_primitive_t primitive; /**< NULL: nothing to do */
    dnnl_exec_arg_t operand[CALL_OPERANDS];
    int32_t operands;
};

/** Start oneDNN.  With @describes everything is requested and counted, but nothing can run: no
 * primitive is made, and memory is only addresses.  Release with engine_release(). */
void engine_init(struct engine *engine, bool describes);

/** Release, and everything that engine_alloc() gave. */
void engine_release(struct engine *engine);

/** Zeroed floats, on large pages where that is faster; released with the engine. */
float *engine_alloc(struct engine *engine, int64_t count);

/** Give all primitives made so far their common working space; before the first is run.  oneDNN's
 * own would belong to the thread that makes a primitive, and another runs it. */
void engine_share_scratch(struct engine *engine);

/** A tensor of oneDNN at @data, or DNNL_MEMORY_NONE; released with the engine. */
dnnl_memory_t engine_memory(struct engine *engine, tensor_desc desc, void *data);

/** Make the primitive of @desc, which it takes, into zeroed @call, with its part of the common
 * working space. */
void engine_make(struct engine *engine, dnnl_primitive_desc_t desc, struct call *call);

/** Add an operand. */
void call_add(struct call *call, int argument, dnnl_memory_t memory);

/** Release the primitive, if there is one. */
void call_close(struct call *call);

/** Run @call, if there is one. */
void call_run(const struct engine *engine, const struct call *call);

/** Run @call with @data as its input x. */
void call_run_on(const struct engine *engine, const struct call *call, const float *data);

/* ---- what differs between oneDNN 2 and 3: device_dnnl_version.c ---- */

/** A tensor of @count axes; released with the engine. */
tensor_desc engine_tensor(struct engine *engine, int32_t count, const dnnl_dims_t size,
                          dnnl_data_type_t type, dnnl_format_tag_t tag);

/** A matrix with these strides; released with the engine. */
tensor_desc engine_matrix(struct engine *engine, int64_t rows, int64_t columns, int64_t down,
                          int64_t right, dnnl_data_type_t type);

/** Attributes of a primitive whose working space we provide.  Release with
 * dnnl_primitive_attr_destroy(). */
dnnl_primitive_attr_t attributes_new(enum then then);

/** Describe the primitive of @o in *@desc.  @forward: of a backward pass, its forward one.
 * @return oneDNN's status: not success, it cannot run this. */
dnnl_status_t operation_describe(dnnl_engine_t engine, const struct operation *o,
                                 dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *desc);

/** The primitive that writes the product of the matrices @a and @b to @c, or adds it. */
dnnl_primitive_desc_t product_describe(dnnl_engine_t engine, tensor_desc a, tensor_desc b,
                                       tensor_desc c, enum then then);
