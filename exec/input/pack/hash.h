#pragma once

/** @file
 * XXH3, 64 bit, seed 0: detects damaged records.
 */

#include <stdbool.h>
#include <stdint.h>

/** Whether this build can. */
bool hash_present(void);

/** The hash of @size bytes.  Only where hash_present(). */
uint64_t hash_bytes(const void *data, int64_t size);
