#pragma once

/** @file
 * Tables of tests/data, whose README.md has the sources; each ends with a row without name.
 */

#include <stdint.h>

/** A network of pictures. */
extern const struct published_network {
    const char *name;
    int32_t image;
    int64_t parameters;
    double billions; /**< multiply-adds forward; 0: not published */
} published_networks[];

/** A platform that runs were published with. */
extern const struct published_machine {
    const char *name, *device;
    int32_t devices;
    double network; /**< Gb/s of a node's cards */
} published_machines[];
