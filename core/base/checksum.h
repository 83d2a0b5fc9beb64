#pragma once

/** @file
 * Checksums that detect damaged files: XXH3-128 where the build has xxHash, else SHA-256.
 *
 * They find damage by disks and copies.  They do not prove who wrote a file.
 */

#include <stdbool.h>
#include <stddef.h>

/** The functions. */
enum checksum_kind { CHECKSUM_XXH3_128, CHECKSUM_SHA256, CHECKSUM_KIND_COUNT };

enum {
    CHECKSUM_DIGITS = 64, /**< of the longest, hexadecimal */
};

/** "xxh3-128", "sha256", NULL-terminated, in the order of enum checksum_kind. */
extern const char *const checksum_names[];

/** The kind that this build writes. */
enum checksum_kind checksum_preferred(void);

/** Whether this build can compute @kind. */
bool checksum_available(enum checksum_kind kind);

/** A checksum being computed. */
struct checksum;

/** Start one of @kind, which must be available; end it with checksum_finish(). */
struct checksum *checksum_new(enum checksum_kind kind);

/** Add @size bytes. */
void checksum_add(struct checksum *checksum, const void *data, size_t size);

/** Write the digits, lower case and ending with NUL, to @digits (CHECKSUM_DIGITS + 1), and release
 * @checksum.  XXH3-128 is written as xxh128sum does, its upper half first. */
void checksum_finish(struct checksum *checksum, char *digits);

/** The checksum of @size bytes in one go, to @digits (CHECKSUM_DIGITS + 1). */
void checksum_of(enum checksum_kind kind, const void *data, size_t size, char *digits);
