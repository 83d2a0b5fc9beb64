#include "exec/cpu/dnnl/device_dnnl_engine.h"

#include <sys/mman.h>

#include "core/base/base.h"

void engine_must(dnnl_status_t status, const char *what, const char *file, int line)
{
    if (status == dnnl_success)
        return;
    fprintf(stderr, "foretrain-exec: %s:%d: oneDNN status %d: %s\n", file, line, (int)status, what);
    exit(71);
}

enum { ADDRESSES = 40 }; /* bits: more than any array, and almost no memory */

/* The addresses of all arrays, which are never touched. */
static void *addresses_new(void)
{
    void *space = mmap(NULL, (size_t)1 << ADDRESSES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        fprintf(stderr, "foretrain-exec: out of addresses for the network's arrays\n");
        exit(71);
    }
    return space;
}

void engine_init(struct engine *engine, bool describes)
{
    *engine = (struct engine){0};
    if (describes)
        engine->addresses = addresses_new();
    MUST(dnnl_engine_create(&engine->engine, dnnl_cpu, 0));
    MUST(dnnl_stream_create(&engine->stream, engine->engine, dnnl_stream_default_flags));
}

void engine_release(struct engine *engine)
{
    for (int64_t i = 0; i < engine->memories; i++)
        dnnl_memory_destroy(engine->memory[i]);
    for (int64_t i = 0; i < engine->tensors; i++)
        TENSOR_FREE(engine->tensor[i]);
    for (int64_t i = 0; i < engine->blocks; i++)
        free(engine->block[i]);
    free(engine->memory);
    free(engine->tensor);
    free(engine->scratch);
    free(engine->block);
    if (engine->addresses)
        munmap(engine->addresses, (size_t)1 << ADDRESSES);
    dnnl_stream_destroy(engine->stream);
    dnnl_engine_destroy(engine->engine);
}

float *engine_alloc(struct engine *engine, int64_t count)
{
    const size_t page = (size_t)2 << 20, line = 64;
    size_t size = (size_t)count * sizeof(float), unit = size >= page ? page : line;
    size = (size + unit) / unit * unit;
    engine->bytes += (int64_t)size;
    if (engine->addresses)
        return engine->addresses;
    void *block = aligned_alloc(unit, size);
    if (!block) {
        fprintf(stderr, "foretrain-exec: out of memory: %zu MB for the network's arrays\n",
                size >> 20);
        exit(71);
    }
    if (unit == page)
        madvise(block, size, MADV_HUGEPAGE); /* advice: not taking it costs only time */
    memset(block, 0, size);
    BASE_NEXT(engine->block, engine->blocks) = block;
    return block;
}

dnnl_memory_t engine_memory(struct engine *engine, tensor_desc desc, void *data)
{
    dnnl_memory_t memory;
    if (engine->addresses)
        data = DNNL_MEMORY_NONE; /* else oneDNN writes zeros where it pads */
    MUST(dnnl_memory_create(&memory, desc, engine->engine, data));
    BASE_NEXT(engine->memory, engine->memories) = memory;
    return memory;
}

/* ---- calls ---- */

void call_run(const struct engine *engine, const struct call *call)
{
    if (!call->primitive)
        return;
    MUST(dnnl_primitive_execute(call->primitive, engine->stream, call->operands, call->operand));
    MUST(dnnl_stream_wait(engine->stream));
}

void call_run_on(const struct engine *engine, const struct call *call, const float *data)
{
    for (int32_t i = 0; i < call->operands; i++)
        if (call->operand[i].arg == DNNL_ARG_SRC)
            MUST(dnnl_memory_set_data_handle(call->operand[i].memory, (void *)data));
    call_run(engine, call);
}

void call_add(struct call *call, int argument, dnnl_memory_t memory)
{
    assert(call->operands < CALL_OPERANDS);
    call->operand[call->operands++] = (dnnl_exec_arg_t){argument, memory};
}

void call_close(struct call *call)
{
    if (call->primitive)
        dnnl_primitive_destroy(call->primitive);
    if (call->desc)
        dnnl_primitive_desc_destroy(call->desc);
}

void engine_make(struct engine *engine, dnnl_primitive_desc_t desc, struct call *call)
{
    tensor_desc space = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t size = dnnl_memory_desc_get_size(space);
    call->desc = desc;
    if (!engine->addresses)
        MUST(dnnl_primitive_create(&call->primitive, desc));
    if (size == 0)
        return;
    engine->scratch = base_room(engine->scratch, engine->scratches, sizeof(*engine->scratch));
    dnnl_memory_t memory = engine_memory(engine, space, DNNL_MEMORY_NONE);
    engine->scratch[engine->scratches++] = memory;
    engine->scratch_size = size > engine->scratch_size ? size : engine->scratch_size;
    call_add(call, DNNL_ARG_SCRATCHPAD, memory);
}

void engine_share_scratch(struct engine *engine)
{
    float *space = engine_alloc(engine, (int64_t)(engine->scratch_size / sizeof(float)) + 1);
    for (int64_t i = 0; i < engine->scratches && !engine->addresses; i++)
        MUST(dnnl_memory_set_data_handle(engine->scratch[i], space));
}
