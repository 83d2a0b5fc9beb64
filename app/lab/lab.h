#pragma once

/** @file
 * The lab: the network of a cluster platform, built from network namespaces of this machine, and a
 * command that runs in it.
 *
 * Each network card of each node is a host of its own (h0, h1, ...; h0n0, h0n1, ... where nodes
 * have several cards), since a device uses one card: a network namespace with a veth pair to the
 * switch of its group, a bridge.  One veth pair with the total rate of all its uplinks connects a
 * group to the switch above.  A token bucket (tbf) at both ends of every such pair limits its rate;
 * the hosts of one node reach each other over a bridge without limits.  MPI's own messages
 * (start-up, control) use a second network without limits, so that the shaped one carries only
 * data.
 *
 * Everything lives in user, network, mount, process and host-name namespaces of one child, which
 * dies with its parent: when the child has ended, in any way, all interfaces, processes and files
 * are gone.  No privilege is needed where user namespaces are allowed.
 */

#include <stdint.h>

#include "app/process/launch.h"
#include "core/base/err.h"
#include "core/network/fabric.h"
#include "core/platform/platform.h"

enum { CABLING_DEVICE_LIMIT = 64 /**< devices of a node, at most */ };

/** One cable, in one direction. */
struct lab_cable {
    double bandwidth;  /**< [bytes/s] */
    double efficiency; /**< fraction of the bandwidth available to payload */
    double latency;    /**< [s] */
};

/** Groups of nodes of one size, which reach each other over uplinks. */
struct lab_tier {
    const char *name; /**< "rack"; borrowed from the platform */
    int32_t nodes;    /**< in one group */
    int32_t uplinks;  /**< cables of one group, treated as one pipe */
    struct lab_cable cable;
};

/** Everything between the devices of a cluster. */
struct cabling {
    const char *file, *name; /**< of the platform; borrowed from it */
    int32_t nodes, devices, nics;
    int32_t nic_of[CABLING_DEVICE_LIMIT];    /**< (devices) the card each device sends through */
    struct lab_cable nic;                    /**< from a card to its switch */
    struct lab_tier tier[FABRIC_TIER_LIMIT]; /**< (tier_count) from the bottom up */
    int32_t tier_count;
    double inside;         /**< the narrowest cable inside a node, payload only [bytes/s] */
    double inside_latency; /**< the largest of one cable inside a node [s] */
    double between;        /**< time that software adds to a message between nodes [s] */
};

/** Fill @cabling from @platform.
 * @return 0, or -1 with exit code 69: a platform that is no cluster, or of a single node. */
int cabling_read(const struct platform *platform, struct cabling *cabling, struct err *err);

/** A frame on the lab's wires.
 * Source: IPv4 (RFC 791) has 20 bytes, TCP (RFC 9293) 20 and its timestamps (RFC 7323) 12, Ethernet
 * 14 without the checksum; tbf counts those 14. */
enum { LAB_MTU = 9000, LAB_PAYLOAD = LAB_MTU - 20 - 20 - 12, LAB_FRAME = LAB_MTU + 14 };

enum {
    LAB_HOST_LIMIT = 64,     /**< maximum number of hosts, as many as two cores can serve */
    LAB_BURST = 20000,       /**< of a token bucket [bytes]: a little more than two frames, to keep
                                  the rate between two timer ticks */
    LAB_NAME_LIMIT = 32,     /**< characters of a host's name, with the NUL */
    LAB_MESSAGE_LIMIT = 2048 /**< characters of a fault, with the NUL */
};

/** What came of a command. */
struct lab_result {
    int32_t exit_code;   /**< the command's; 128 + N when signal N ended it */
    int64_t drops;       /**< packets dropped by the shaped links */
    int64_t overlimits;  /**< packets that had to wait for a token */
    int64_t retransmits; /**< TCP segments retransmitted by the hosts */
    double ceiling;      /**< rate of this machine between two unshaped hosts [bytes/s] */
};

/** The number of hosts: cards of all nodes. */
int32_t lab_hosts(const struct cabling *cabling);

/** The name of host @host, at most LAB_NAME_LIMIT characters with the NUL. */
void lab_host_name(const struct cabling *cabling, int32_t host, char *name);

/** The number of devices that use card @nic of a node; lab_check() ensures that they are
 * neighbours. */
int32_t lab_slots(const struct cabling *cabling, int32_t nic);

/** Whether the lab can build @cabling as it is described.
 * @return 0, or -1 with exit code 69 and a message for each thing it would have to pretend:
 * latency, an efficiency that is not its frames' (LAB_PAYLOAD / LAB_FRAME), cables inside a node
 * that might decide, cards that are not used by devices side by side, too many hosts. */
int lab_check(const struct cabling *cabling, struct err *err);

/** Build @cabling, run @command in it with standard input, output and error of this process unless
 * it has files for them, and take all down.  What is open here is open for process 1 of the lab.
 * The command finds mpirun set up, with a slot per device; the program `on HOST COMMAND...` in its
 * path, which gives the words to the command as they are; and in FORETRAIN_LAB the name of the
 * platform.  SIGINT, SIGTERM, SIGHUP and SIGQUIT end the network and then this process.
 * @return 0 with @result filled, or -1: a message of lab_check(), namespaces that this machine does
 * not allow, programs that are missing, rates beyond its ceiling (exit code 69), the network could
 * not be built (exit code 70). */
int lab_run(const struct cabling *cabling, const struct launch *command, struct lab_result *result,
            struct err *err);
