#pragma once

/** @file
 * From a row of published runs to a platform and a scenario, by rules that use only the row's own
 * cells.
 *
 * An empty cell gets a default from the table in published_facts.c if the kind of node leaves
 * little choice, marked as assumed in the platform's text; otherwise the row is refused with the
 * name of the missing fact.  Platform and scenario are text, so they can be printed, kept and
 * predicted by hand.
 *
 * What a run of several nodes leaves open is not decided silently: the first way to fill it is the
 * prediction, and all ways, each as likely as any other (assumed), make its interval.
 *
 *   - the number of all-reduces that Horovod's cycle makes, if collectives take 30 % less or more
 *     than published_map.c assumes: 6 to 17 for v0.5; "16-20 groups": 16 to 20;
 *   - whether messages are staged in host memory, where that is slower than the network cards;
 *   - whether switches reduced (SHARP), on InfiniBand from v1.0 on, where no known configuration
 *     says it;
 *   - whether batch norm was grouped where a device has few images, by others than NVIDIA.
 *
 * No measured time of a run of several nodes had a part in these.
 */

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
    int32_t groups;   /**< number of all-reduces for the gradients of a step */
    int32_t ways;     /**< to fill what the row leaves open */
    struct text open; /**< what that is: "6 to 16 all-reduces, SHARP"; empty: nothing */
    enum published_role role;
};

/** Map @row into zeroed @job, in one @way (from 0, below job->ways) to fill what it leaves open.
 * The scenario names the platform by the path @place, unless it is one of the library.
 * @return 0, or -1 with one message that names the missing or unknown fact; then @job is
 * released. */
int published_map(struct published_job *job, const struct published_row *row, int32_t way,
                  const char *place, struct err *err);

void published_job_release(struct published_job *job);
