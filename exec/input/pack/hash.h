#pragma once

/** @file
 * XXH3, 64 bit, seed 0: detects damaged records.
 */

#include <stdint.h>

/** The hash of @size bytes. */
uint64_t hash_bytes(const void *data, int64_t size);
