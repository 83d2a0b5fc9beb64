#pragma once

/** @file
 * Objects of a test that end with the block in which they are declared, last first:
 *
 *     OWN(schedule) *schedule = schedule_new(grid);   by the function that OWNED() names
 *     HELD(text) out = {0};                           by text_release()
 *     CLOSED(device_run) run = device_run_open(job);  by device_run_close()
 *     AUTOFREE char *path = base_format("%s/x", folder);  by free(), see core/base/base.h
 */

#include "core/base/base.h"

/** A pointer to a struct @type that is freed; pointers may be NULL. */
#define OWN(type) __attribute__((cleanup(type##_ends))) struct type

/** Says which function frees a struct @type for OWN(). */
#define OWNED(type, free)                                                                          \
    static inline void type##_ends(struct type **at)                                               \
    {                                                                                              \
        free(*at);                                                                                 \
    }

/** A struct @type whose contents are released. */
#define HELD(type) AUTORELEASE(type) struct type

/** A struct @type that is closed. */
#define CLOSED(type) __attribute__((cleanup(type##_close))) struct type
