#pragma once

/** @file
 * oneDNN's engine with all its memory, and primitives with their operands; only for
 * exec/cpu/dnnl/device_dnnl*.c, the only files that include oneDNN's header.
 */

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>

/** For calls that cannot fail unless memory or our arithmetic does. */
#define MUST(call) engine_must((call), #call, __FILE__, __LINE__)

/** End the process with exit code 71 unless @status of @what is success. */
void engine_must(dnnl_status_t status, const char *what, const char *file, int line);

/** The CPU as oneDNN sees it, and all memory that is released with it. */
struct engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t *memory; /**< (memories) */
    void **block;          /**< (blocks) allocations */
    int64_t memories, blocks;
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
dnnl_memory_t engine_memory(struct engine *engine, const dnnl_memory_desc_t *desc, void *data);

/** Make the primitive of @desc into zeroed @call, with its part of the common working space. */
void engine_make(struct engine *engine, dnnl_primitive_desc_t desc, struct call *call);

/** Add an operand. */
void call_add(struct call *call, int argument, dnnl_memory_t memory);

/** Release the primitive, if there is one. */
void call_close(struct call *call);

/** Run @call, if there is one. */
void call_run(const struct engine *engine, const struct call *call);

/** Run @call with @data as its input x. */
void call_run_on(const struct engine *engine, const struct call *call, const float *data);
