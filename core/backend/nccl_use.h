#pragma once

/** @file
 * How NCCL runs the collectives of a job, by its own model: algorithm and protocol, which depend on
 * its version and on the bytes.
 */

#include "core/backend/backend.h"

/** "", then "ring LL", "ring LL128", "ring Simple", "tree LL", ...; NULL-terminated. */
extern const char *const nccl_way_words[];

/** Of all collectives of a schedule. */
struct nccl_use {
    int32_t version; /**< 100 * major + minor; 0: none of them is NCCL's */
    int32_t way;     /**< of the one with most bytes: an index of nccl_way_words */
};

/** The way of @step, a collective or not: an index of nccl_way_words. */
int32_t nccl_way(const struct run *run, const struct step *step);

/** That of @schedule. */
struct nccl_use nccl_use_of(const struct run *run, const struct schedule *schedule);

/** "NCCL 2.21 of mlperf-v4.0: ring Simple (3 x 782 kB to 4.19 MB), tree LL128 (1 x 1 MB)"; NULL: no
 * collective is NCCL's.  @software names the profile that has the version, NULL: that is the
 * default.  The caller frees it. */
char *nccl_use_text(const struct run *run, const struct schedule *schedule, const char *software);
