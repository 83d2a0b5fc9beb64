#pragma once

/** @file
 * Slurm's lists of names: "tux[0-3,12],login,rack[00-63]_blade[0-41]".
 *
 * Brackets contain numbers and ranges, padded with zeros to the width of the first number.  A name
 * with several brackets means all combinations, in which the last bracket varies fastest; a name
 * ends with its last bracket.  Commas or blanks separate names.  Source: Slurm,
 * src/common/hostlist.c, _push_range_list() and _parse_single_range(), and "node range expression"
 * in slurm.conf(5).
 */

#include <stdint.h>

enum { HOSTLIST_NAME = 255 /**< characters of a name, at most; source: RFC 1035, 2.3.4 */ };

/** Why a list is none. */
struct hostlist_fault {
    const char *what; /**< "a range that runs backwards"; static */
    int64_t at;       /**< [characters] from the beginning of the list */
};

/** The number of names in @list, in time proportional to its length.  @return -1 with @fault:
 * brackets that do not close or are empty, no number or one beyond 64 bits, a descending range, a
 * name that continues after its last bracket or is too long, more than @limit names. */
int64_t hostlist_count(const char *list, int64_t limit, struct hostlist_fault *fault);

/** Call @visit for each name of @list, in order; hostlist_count() must accept @list. */
void hostlist_each(const char *list, void (*visit)(void *context, const char *name), void *context);
