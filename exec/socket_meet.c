#include "exec/socket_meet.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/base.h"
#include "exec/world/world.h"

enum { MAGIC = 0x46545231, GUEST_LIMIT = 64 };

/* The first words of a rank to rank 0. */
struct hello {
    uint32_t magic;
    int32_t rank, ranks;
    char host[64];
    int64_t process;
    uint64_t machine; /* equal on the same machine */
};

enum verdict { WELCOME, WRONG_RANKS, TAKEN };

/* The answer. */
struct answer {
    int32_t verdict;
    int32_t local_rank, local_ranks;
    char host[64]; /* of rank 0 */
    int64_t process;
};

/* Who has connected to rank 0 and has not said everything yet. */
struct guest {
    int fd;
    size_t heard; /* bytes of hello */
    struct hello hello;
};

/* Names alone would do, were not all machines of some clusters called "localhost". */
static uint64_t machine_of(const char *host)
{
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(boot, sizeof(boot), file))
        boot[0] = '\0';
    if (file)
        fclose(file);
    return base_hash(base_hash(1, host, strlen(host)), boot, strlen(boot));
}

static struct hello own_hello(const struct socket_place *place)
{
    struct hello hello = {
        .magic = MAGIC, .rank = place->rank, .ranks = place->ranks, .process = getpid()};
    gethostname(hello.host, sizeof(hello.host) - 1);
    hello.machine = machine_of(hello.host);
    return hello;
}

static struct addrinfo *look_up(const struct socket_place *place, bool passive, int *status)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
    struct addrinfo *list = NULL;
    *status = getaddrinfo(*place->host ? place->host : NULL, place->port, &hints, &list);
    return *status ? NULL : list;
}

static void tune(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* Until @deadline.  @return whether all bytes were moved. */
static bool read_all(int fd, void *data, size_t bytes, double deadline)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t part = recv(fd, (char *)data + got, bytes - got, 0);
        double left = deadline - world_now();
        if (part == 0 || (part < 0 && errno != EAGAIN && errno != EINTR) || left <= 0)
            return false;
        if (part < 0)
            poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)(1000 * left) + 1);
        else
            got += (size_t)part;
    }
    return true;
}

/* What is sent here fits into the empty buffer of a fresh connection. */
static bool write_all(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

/* ---- rank 0 ---- */

static int listen_at(const struct addrinfo *at)
{
    int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1024) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Where the address is not this machine's own, as behind a translator, any of its own will do. */
static int open_listener(const struct socket_place *place, struct err *err)
{
    if (place->listener >= 0)
        return place->listener;
    struct socket_place any = *place;
    any.host[0] = '\0';
    const struct socket_place *const tries[] = {place, &any};
    int status = 0, fd = -1;
    errno = EADDRNOTAVAIL;
    for (int32_t i = 0; i < 2 && fd < 0 && errno == EADDRNOTAVAIL; i++) {
        struct addrinfo *list = look_up(tries[i], true, &status);
        for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
            fd = listen_at(at);
        int error = errno;
        if (list)
            freeaddrinfo(list);
        errno = error;
    }
    if (fd < 0)
        err_add_code(err, 69, "rank 0 cannot listen at %s:%s: %s", place->host, place->port,
                     status ? gai_strerror(status) : strerror(errno));
    return fd;
}

/* Take in rank hello.rank, or say why not. */
static bool admit(const struct socket_place *place, struct socket_peer *peer, struct guest *guest)
{
    const struct hello *hello = &guest->hello;
    struct answer refusal = {.verdict = WRONG_RANKS};
    bool ours = hello->magic == MAGIC;
    if (ours && hello->ranks == place->ranks && hello->rank > 0 && hello->rank < place->ranks) {
        struct socket_peer *who = &peer[hello->rank];
        refusal.verdict = TAKEN;
        if (who->fd < 0) {
            *who = (struct socket_peer){
                .fd = guest->fd, .process = hello->process, .machine = hello->machine};
            memcpy(who->host, hello->host, sizeof(who->host) - 1);
            return true;
        }
    }
    if (ours)
        (void)write_all(guest->fd, &refusal, sizeof(refusal));
    close(guest->fd);
    return false;
}

/* @return whether @guest has nothing more to say; @met counts the ranks. */
static bool hear(const struct socket_place *place, struct socket_peer *peer, struct guest *guest,
                 int32_t *met)
{
    char *to = (char *)&guest->hello + guest->heard;
    ssize_t part = recv(guest->fd, to, sizeof(guest->hello) - guest->heard, 0);
    if (part < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (part <= 0) {
        close(guest->fd);
        return true;
    }
    guest->heard += (size_t)part;
    if (guest->heard < sizeof(guest->hello))
        return false;
    *met += admit(place, peer, guest);
    return true;
}

/* So many at once that talk no sense are not waited for: the oldest goes. */
static void accept_guest(int listener, struct guest *guest, int32_t *count)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (*count == GUEST_LIMIT) {
        close(guest[0].fd);
        memmove(guest, guest + 1, (GUEST_LIMIT - 1) * sizeof(*guest));
        --*count;
    }
    tune(fd);
    guest[(*count)++] = (struct guest){.fd = fd};
}

static void receive_guests(const struct socket_place *place, int listener, struct socket_peer *peer,
                           int32_t *met)
{
    struct guest guest[GUEST_LIMIT];
    double deadline = world_now() + place->timeout_s;
    int32_t count = 0;
    while (*met < place->ranks) {
        struct pollfd at[GUEST_LIMIT + 1] = {{.fd = listener, .events = POLLIN}};
        double left = deadline - world_now();
        if (left <= 0)
            break;
        for (int32_t i = 0; i < count; i++)
            at[1 + i] = (struct pollfd){.fd = guest[i].fd, .events = POLLIN};
        poll(at, (nfds_t)count + 1, (int)(1000 * left) + 1);
        int32_t kept = 0;
        for (int32_t i = 0; i < count; i++)
            if (!at[1 + i].revents || !hear(place, peer, &guest[i], met))
                guest[kept++] = guest[i];
        count = kept;
        if (at[0].revents)
            accept_guest(listener, guest, &count);
    }
    for (int32_t i = 0; i < count; i++)
        close(guest[i].fd);
}

static int report_missing(const struct socket_place *place, const struct socket_peer *peer,
                          struct err *err)
{
    enum { NAMED = 8 };
    struct text names = {0};
    int32_t missing = 0;
    for (int32_t rank = 1; rank < place->ranks; rank++) {
        if (peer[rank].fd >= 0)
            continue;
        if (missing++ < NAMED)
            text_add(&names, "%s%d", missing > 1 ? ", " : "", rank);
    }
    if (missing > NAMED)
        text_add(&names, " and %d more", missing - NAMED);
    err_add_code(err, 69,
                 "rank %s of %d did not come to %s:%s within %.0f s: was it started, and can it "
                 "reach this machine? (FORETRAIN_START_TIMEOUT waits longer)",
                 names.data, place->ranks, place->host, place->port, place->timeout_s);
    text_release(&names);
    return -1;
}

/* Ranks of a machine are counted in their order. */
static void welcome(struct socket_place *place, struct socket_peer *peer)
{
    struct answer *answer = base_alloc(place->ranks, sizeof(*answer));
    for (int32_t rank = 0; rank < place->ranks; rank++)
        for (int32_t other = 0; other < place->ranks; other++) {
            bool together = peer[rank].machine == peer[other].machine;
            answer[rank].local_ranks += together;
            answer[rank].local_rank += together && other < rank;
        }
    for (int32_t rank = 1; rank < place->ranks; rank++) {
        memcpy(answer[rank].host, peer[0].host, sizeof(peer[0].host));
        answer[rank].process = peer[0].process;
        (void)write_all(peer[rank].fd, &answer[rank], sizeof(*answer)); /* shows when it is read */
    }
    place->local_rank = place->local_rank < 0 ? answer[0].local_rank : place->local_rank;
    place->local_ranks = place->local_ranks < 0 ? answer[0].local_ranks : place->local_ranks;
    free(answer);
}

static int meet_all(struct socket_place *place, struct socket_peer *peer, struct err *err)
{
    int32_t met = 1;
    int listener = open_listener(place, err);
    if (listener < 0)
        return -1;
    struct hello own = own_hello(place);
    memcpy(peer[0].host, own.host, sizeof(own.host));
    peer[0].process = own.process;
    peer[0].machine = own.machine;
    receive_guests(place, listener, peer, &met);
    close(listener);
    if (met < place->ranks)
        return report_missing(place, peer, err);
    welcome(place, peer);
    return 0;
}

/* ---- the others ---- */

/* Where nobody listens at a port that is also handed out, a socket may connect to itself. */
static bool is_own_echo(int fd)
{
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_size = sizeof(own), other_size = sizeof(other);
    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 &&
           memcmp(&own, &other, sizeof(own)) == 0;
}

static int connect_to(const struct addrinfo *at, double deadline)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
    socklen_t size = sizeof(error);
    if (fd < 0)
        return -1;
    if (connect(fd, at->ai_addr, at->ai_addrlen) && errno != EINPROGRESS)
        error = errno;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    double left = deadline - world_now();
    if (!error && poll(&wait, 1, left > 0 ? (int)(1000 * left) + 1 : 0) == 1)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    else if (!error)
        error = ETIMEDOUT;
    if (!error && !is_own_echo(fd))
        return fd;
    close(fd);
    errno = error ? error : ECONNREFUSED;
    return -1;
}

/* Rank 0 may start later than this one, and its name may become known later still. */
static int reach_first(const struct socket_place *place, double deadline, struct err *err)
{
    const struct timespec nap = {.tv_nsec = 100000000};
    for (;;) {
        int status, fd = -1;
        struct addrinfo *list = look_up(place, false, &status);
        const char *reason = status ? gai_strerror(status) : NULL;
        for (struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
            fd = connect_to(at, deadline);
        reason = reason ? reason : strerror(errno);
        if (list)
            freeaddrinfo(list);
        if (fd >= 0)
            return fd;
        if (world_now() > deadline)
            return err_add_code(
                err, 69, "rank %d of %d cannot reach rank 0 at %s:%s within %.0f s: %s",
                place->rank, place->ranks, place->host, place->port, place->timeout_s, reason);
        nanosleep(&nap, NULL);
    }
}

static int refuse(const struct socket_place *place, const struct answer *answer, bool heard,
                  struct err *err)
{
    if (!heard)
        return err_add_code(err, 69, "rank 0 at %s:%s went away before all %d ranks had come",
                            place->host, place->port, place->ranks);
    if (answer->verdict == TAKEN)
        return err_add_code(err, 64, "there are two processes with FORETRAIN_RANK=%d", place->rank);
    return err_add_code(err, 64, "rank 0 at %s:%s is not of a job of %d ranks", place->host,
                        place->port, place->ranks);
}

static int meet_first(struct socket_place *place, struct socket_peer *peer, struct err *err)
{
    double deadline = world_now() + place->timeout_s;
    int fd = reach_first(place, deadline, err);
    if (fd < 0)
        return -1;
    tune(fd);
    /* Rank 0 gives up first, and says who is missing. */
    const double later = 5;
    struct hello own = own_hello(place);
    struct answer answer = {0};
    bool heard = write_all(fd, &own, sizeof(own)) &&
                 read_all(fd, &answer, sizeof(answer), deadline + place->timeout_s + later);
    if (!heard || answer.verdict != WELCOME) {
        close(fd);
        return refuse(place, &answer, heard, err);
    }
    peer[0] = (struct socket_peer){.fd = fd, .process = answer.process};
    memcpy(peer[0].host, answer.host, sizeof(answer.host) - 1);
    place->local_rank = place->local_rank < 0 ? answer.local_rank : place->local_rank;
    place->local_ranks = place->local_ranks < 0 ? answer.local_ranks : place->local_ranks;
    return 0;
}

int socket_meet(struct socket_place *place, struct socket_peer *peer, struct err *err)
{
    for (int32_t rank = 0; rank < place->ranks; rank++)
        peer[rank] = (struct socket_peer){.fd = -1};
    return place->rank == 0 ? meet_all(place, peer, err) : meet_first(place, peer, err);
}
