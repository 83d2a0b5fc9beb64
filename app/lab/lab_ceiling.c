#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "app/lab/lab_net.h"
#include "app/process/process.h"

enum {
    PORT = 7777,
    PIECE = 65536,      /* of one write [bytes] */
    RECEIVER = 1,       /* the second host; the first one sends */
    PATIENCE_MS = 5000, /* for a receiver to appear */
};

static const double duration = 0.2;    /* [s] */
static const double window = 0.002;    /* [s] */
static const double unlimited = 125e9; /* [bytes/s], far beyond any machine of today */

/* Data shared by the two processes and the waiting one.  The result is the best of several short
 * windows, because other processes can only reduce the rate. */
struct trial {
    atomic_int listening;
    double best; /* [bytes/s] of the best window */
};

static struct sockaddr_in receiver_address(void)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(PORT),
        .sin_addr.s_addr = htonl((10u << 24) | (77u << 16) | (RECEIVER + 1)),
    };
}

static int receive(void *argument)
{
    static char piece[PIECE];
    struct trial *trial = argument;
    struct sockaddr_in address = receiver_address();
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(door, (struct sockaddr *)&address, sizeof(address)) || listen(door, 1))
        return 1;
    atomic_store(&trial->listening, 1);
    int wire = accept(door, NULL, NULL);
    double begin = base_seconds(CLOCK_MONOTONIC), bytes = 0.0;
    for (ssize_t got; wire >= 0 && (got = read(wire, piece, sizeof(piece))) > 0;) {
        double passed = base_seconds(CLOCK_MONOTONIC) - begin;
        bytes += (double)got;
        if (passed < window)
            continue;
        trial->best = fmax(trial->best, bytes / passed);
        begin += passed;
        bytes = 0.0;
    }
    return wire < 0;
}

static int send_pieces(void *argument)
{
    static const char piece[PIECE];
    struct trial *trial = argument;
    struct sockaddr_in address = receiver_address();
    int wire = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < PATIENCE_MS && !atomic_load(&trial->listening); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (connect(wire, (struct sockaddr *)&address, sizeof(address)))
        return 1;
    for (double end = base_seconds(CLOCK_MONOTONIC) + duration;
         base_seconds(CLOCK_MONOTONIC) < end;)
        if (write(wire, piece, sizeof(piece)) < 0)
            return 1;
    close(wire);
    return 0;
}

static int run_trial(const struct cabling *cabling, struct trial *trial, struct err *err)
{
    int32_t to = lab_start_in_host(cabling, RECEIVER, receive, trial, err);
    if (to < 0)
        return -1;
    int from = lab_in_host(cabling, 0, send_pieces, trial, err);
    if (from != 0)
        return err_add_code(err, 70, "the lab's hosts cannot reach each other: %s",
                            "the first one cannot send to the second");
    if (process_wait(to) != 0 || trial->best <= 0.0)
        return err_add_code(err, 70, "the lab's second host cannot receive from the first");
    return 0;
}

int lab_measure_ceiling(const struct cabling *cabling, double *ceiling, struct err *err)
{
    struct trial *trial =
        mmap(NULL, sizeof(*trial), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED)
        return err_add_code(err, 70, "the lab has no memory: %s", strerror(errno));
    int failed = lab_set_rate(cabling, 0, unlimited, err) ||
                 lab_set_rate(cabling, RECEIVER, unlimited, err) || run_trial(cabling, trial, err);
    if (!failed)
        *ceiling = trial->best;
    munmap(trial, sizeof(*trial));
    return failed ? -1 : 0;
}
