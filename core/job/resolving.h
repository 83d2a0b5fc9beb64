#pragma once

/** @file
 * Inner side of resolve.h: what its sources share.
 */

#include "core/job/resolve.h"

enum { EXIT_USAGE = 64, EXIT_DATA = 65, EXIT_UNAVAILABLE = 69 };

/** What every decision needs. */
struct question {
    const struct scenario *scenario;
    const struct platform *platform;
    const struct model *model;
    const struct wish *wish;
    struct err *err;
    int faults;
};

/** A fault, which another part of the program has found, of what stands at @key; NULL: of what the
 * command line wishes. */
void blame_found(struct question *q, const char *key, struct err *found);

/** The same with a message of its own. */
void blame(struct question *q, int32_t exit_code, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** The exit code for a number of ranks that does not fit: the command line's fault if it says it.
 */
int32_t ranks_code(const struct question *q);

/** The grid of @extent where none is given. */
struct grid_choice choose_grid(const struct question *q, const struct resolved *resolved,
                               struct extent extent);

/** @columns wide if that divides @devices, else nearest to a square. */
struct grid fitting_grid(int32_t devices, int64_t columns);

/** Find the devices of each phase. */
void resolving_find_phases(struct question *q, struct resolved *resolved);

/** Check batches and target of all phases. */
void resolving_check_phases(struct question *q, const struct resolved *resolved);

/** Check that the batches fit the memory of a device. */
void resolving_check_memory(struct question *q, const struct resolved *resolved);
