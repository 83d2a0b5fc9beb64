#include "exec/socket_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One number, under our name or that of torchrun. */
struct variable {
    const char *name, *other;
    int32_t minimum, maximum;
};

/* @number is left alone where neither variable is set. */
static int read_number(const struct variable *variable, int32_t *number, struct err *err)
{
    const char *name = variable->name, *text = getenv(name);
    if (!text && variable->other) {
        name = variable->other;
        text = getenv(name);
    }
    if (!text)
        return 0;
    char *end;
    long value = strtol(text, &end, 10);
    if (!*text || *end || value < variable->minimum || value > variable->maximum)
        return err_add_code(err, 64, "%s: expected a whole number, %d to %d, got '%s'", name,
                            variable->minimum, variable->maximum, text);
    *number = (int32_t)value;
    return 0;
}

static int set_address(struct socket_place *place, const char *host, size_t length,
                       const char *port, struct err *err)
{
    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        host++;
        length -= 2;
    }
    int32_t number = atoi(port);
    if (!length || length >= sizeof(place->host) || number < 1 || number > 65535)
        return err_add_code(err, 64,
                            "the address of rank 0 is no host and port from 1 to 65535: '%.*s', "
                            "'%s'; set FORETRAIN_ADDRESS=host:port",
                            (int)length, host, port);
    snprintf(place->host, sizeof(place->host), "%.*s", (int)length, host);
    snprintf(place->port, sizeof(place->port), "%d", number);
    return 0;
}

/* torchrun's own store may listen at its port, and then says so: ours is the next.
 * Source: PyTorch, torch/distributed/elastic/agent/server/local_elastic_agent.py. */
static int set_torchrun_address(struct socket_place *place, const char *host, struct err *err)
{
    const char *port = getenv("MASTER_PORT"), *taken = getenv("TORCHELASTIC_USE_AGENT_STORE");
    char text[16];
    snprintf(text, sizeof(text), "%d", (port ? atoi(port) : 0) + (taken && !strcmp(taken, "True")));
    return set_address(place, host, strlen(host), text, err);
}

static int read_address(struct socket_place *place, struct err *err)
{
    const char *address = getenv("FORETRAIN_ADDRESS"), *host = getenv("MASTER_ADDR");
    if (!address && host)
        return set_torchrun_address(place, host, err);
    const char *colon = address ? strrchr(address, ':') : NULL;
    if (!colon)
        return err_add_code(err, 64,
                            "rank %d of %d does not know where to meet the others: set "
                            "FORETRAIN_ADDRESS=host:port of rank 0",
                            place->rank, place->ranks);
    return set_address(place, address, (size_t)(colon - address), colon + 1, err);
}

int socket_place_read(struct socket_place *place, struct err *err)
{
    int32_t timeout = 120;
    *place = (struct socket_place){
        .ranks = 1, .rank = -1, .local_rank = -1, .local_ranks = -1, .listener = -1};
    if (read_number(&(struct variable){"FORETRAIN_RANKS", "WORLD_SIZE", 1, 1 << 20}, &place->ranks,
                    err))
        return -1;
    const struct variable variables[] = {
        {"FORETRAIN_RANK", "RANK", 0, place->ranks - 1},
        {"FORETRAIN_LOCAL_RANKS", "LOCAL_WORLD_SIZE", 1, place->ranks},
        {"FORETRAIN_LOCAL_RANK", "LOCAL_RANK", 0, place->ranks - 1},
        {"FORETRAIN_LISTENER", NULL, 0, 1 << 20},
        {"FORETRAIN_START_TIMEOUT", NULL, 1, 1000000},
    };
    int32_t *const numbers[] = {&place->rank, &place->local_ranks, &place->local_rank,
                                &place->listener, &timeout};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (read_number(&variables[i], numbers[i], err))
            return -1;
    place->timeout_s = timeout;
    if (place->ranks == 1) {
        place->rank = 0;
        return 0;
    }
    if (place->rank < 0)
        return err_add_code(err, 64, "which of the %d ranks is this? set FORETRAIN_RANK",
                            place->ranks);
    return read_address(place, err);
}
