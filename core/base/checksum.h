#pragma once

/** @file
 * Checksums that detect damaged files: XXH3-128.
 *
 * They find damage by disks and copies.  They do not prove who wrote a file.
 */

#include <stddef.h>

enum {
    CHECKSUM_DIGITS = 32, /**< hexadecimal */
};

/** Before a checksum in a file. */
#define CHECKSUM_NAME "xxh3-128"

/** A checksum being computed. */
struct checksum;

/** Start one; end it with checksum_finish(). */
struct checksum *checksum_new(void);

/** Add @size bytes. */
void checksum_add(struct checksum *checksum, const void *data, size_t size);

/** Write the digits, lower case and ending with NUL, to @digits (CHECKSUM_DIGITS + 1), and release
 * @checksum.  They are those of xxh128sum. */
void checksum_finish(struct checksum *checksum, char *digits);

/** The checksum of @size bytes in one go, to @digits (CHECKSUM_DIGITS + 1). */
void checksum_of(const void *data, size_t size, char *digits);
