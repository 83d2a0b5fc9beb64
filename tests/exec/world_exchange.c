#include "tests/exec/world_exchange.h"

#include "exec/cpu/mpi/comm_mpi.h"
#include "exec/cpu/stream.h"
#include "exec/world/world.h"

enum { COUNT = 1000 };

struct exchange_state {
    struct comm_state *comm;
    struct stream *stream;
    struct event *event;
    float data[COUNT];
};

struct exchange_state *exchange_open(void)
{
    struct exchange_state *exchange = base_alloc(1, sizeof(*exchange));
    struct grid grid = {.columns = world_self().ranks, .rows = 1};
    exchange->comm = comm_mpi_ops.open(grid, 0);
    exchange->stream = cpu_stream_ops.stream_new();
    exchange->event = cpu_stream_ops.event_new();
    return exchange;
}

void exchange_step(struct exchange_state *exchange, int64_t step)
{
    struct collective c = {.ranks = world_self().ranks, .elements = COUNT};
    comm_mpi_ops.note(exchange->stream, step, 0);
    comm_mpi_ops.issue(exchange->comm, exchange->stream, AXIS_ROW, &c, DTYPE_FP32, exchange->data);
    cpu_stream_ops.record(exchange->stream, exchange->event);
    cpu_stream_ops.synchronize(exchange->event);
}

void exchange_close(struct exchange_state *exchange)
{
    cpu_stream_ops.stream_free(exchange->stream);
    cpu_stream_ops.event_free(exchange->event);
    comm_mpi_ops.close(exchange->comm);
    free(exchange);
}
