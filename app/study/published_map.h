#pragma once

/** @file
 * From a row of published runs to a platform and a scenario, by rules that use only the row's own
 * cells.
 *
 * An empty cell gets a default from the table in published_facts.c if the kind of node leaves
 * little choice, marked as assumed in the platform's text; otherwise the row is refused with the
 * name of the missing fact.  Platform and scenario are text, so they can be printed, kept and
 * predicted by hand.
 */

#include <stdbool.h>

#include "app/study/published.h"

/** How a row counts. */
enum published_role {
    PUBLISHED_CALIBRATION, /**< one node: device models were fitted to such rows */
    PUBLISHED_CHECK,       /**< several nodes: no constant may come from such rows */
    PUBLISHED_ROLE_COUNT
};

/** "calibration", "check". */
extern const char *const published_role_names[];

/** A mapped row.  Start from {0}; release with published_job_release(). */
struct published_job {
    struct text platform; /**< YAML; empty when a file of the library is used */
    struct text scenario; /**< YAML */
    char *platform_name;  /**< its name in the scenario; owned */
    const char *software; /**< name of the software profile; static */
    int32_t nodes, per_node, devices, batch;
    int32_t steps_per_epoch;
    int32_t groups; /**< number of all-reduces for the gradients of a step */
    enum published_role role;
};

/** Map @row into zeroed @job.  The scenario names the platform by the path @place, unless it is one
 * of the library.
 * @return 0, or -1 with one message that names the missing or unknown fact; then @job is
 * released. */
int published_map(struct published_job *job, const struct published_row *row, const char *place,
                  struct err *err);

/** Release; the struct may be used again. */
void published_job_release(struct published_job *job);
