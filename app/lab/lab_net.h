#pragma once

/** @file
 * The inside of a lab: the work of its first process, in its own namespaces (app/lab/lab.h).
 *
 * A function returns 0, or -1 with a message, unless it says otherwise.
 */

#include "app/lab/lab.h"

/** Enter the namespace @kind ("netns", "uts", of @type CLONE_NEWNET, CLONE_NEWUTS) of host @name.
 * @return 0, or -1 with errno: there is no such host. */
int lab_enter(const char *kind, const char *name, int type);

/** The names of all hosts, in /run/netns, /run/uts and /run/lab/hosts; the programs of
 * app/lab/lab_on.h; the hostfile of mpirun.  /run must be a file system of this process alone. */
int lab_make_hosts(const struct cabling *cabling, struct err *err);

/** Cards, cables and switches, all of them without limits. */
int lab_make_network(const struct cabling *cabling, struct err *err);

/** Give every link its rate. */
int lab_shape(const struct cabling *cabling, struct err *err);

/** Sum the drops and delays of the links and the retransmissions of the hosts into @result. */
int lab_count(const struct cabling *cabling, struct lab_result *result, struct err *err);

/** Give the card of @host a @rate [bytes/s] in both directions. */
int lab_set_rate(const struct cabling *cabling, int32_t host, double rate, struct err *err);

/** Start @call in the network namespace of @host, in a process of its own.
 * @return the process, or -1 with a message. */
int32_t lab_start_in_host(const struct cabling *cabling, int32_t host, int (*call)(void *argument),
                          void *argument, struct err *err);

/** Start it and wait for it.  @return the exit code (255: no such host), or -1 with a message. */
int lab_in_host(const struct cabling *cabling, int32_t host, int (*call)(void *argument),
                void *argument, struct err *err);
