#pragma once

/** @file
 * Which engine was the fastest: a text file, one line per plan, that outlives the run.
 *
 *     foretrain-convolutions 1
 *     91900 "NVIDIA H200" forward fp16 256 64x56x56 256x56x56 k1 s1 p0 = 47 2:3 13:1 = ...
 *
 * A line is: version of the library, device, op, type, batch, input, output, window, stride,
 * padding; the engine and its knobs; seconds, workspace [bytes] and notes; a checksum of the line.
 * Engine -1 means that the library has none, so the search is not repeated.
 *
 * Several processes may use one file, also on different machines with different devices: to add a
 * line, a process reads the file again under a lock (PATH.lock) and replaces it by a complete new
 * file.  Entries stay, so that all processes use the same plans, now and later; only unusable ones
 * are replaced.  Damaged lines are reported on stderr and left out; a file of another kind is never
 * written to.
 */

#include "exec/cuda/conv/conv.h"

enum {
    CONV_KNOBS = 48,       /**< most settings of one engine */
    CONV_DEVICE_NAME = 256 /**< characters of a device's name, with the NUL */
};

/** One setting of an engine; numbers of the library. */
struct conv_knob {
    int64_t type, value;
};

/** An engine with its settings and measurements. */
struct conv_choice {
    int32_t engine; /**< the library's number; -1: it has none for this */
    int32_t knobs;
    struct conv_knob knob[CONV_KNOBS];
    double seconds;    /**< of one run */
    int64_t workspace; /**< [bytes] */
    uint32_t notes;    /**< bit n: the library's numerical note n */
};

/** The plans of one device and library version. */
struct conv_cache;

/** Read the file @path; NULL: nothing is kept.  Its faults are reported on stderr.  @device:
 * letters that cannot be quoted are replaced. */
struct conv_cache *conv_cache_open(const char *path, int64_t version, const char *device);

/** Release; accepts NULL. */
void conv_cache_close(struct conv_cache *cache);

/** The entry of @op on @shape, or NULL.  Valid until the next conv_cache_add(). */
const struct conv_choice *conv_cache_find(const struct conv_cache *cache, enum conv_op op,
                                          const struct conv_shape *shape);

/** Add @choice and write the file.  If another process has added the same plan meanwhile, that one
 * is used, unless @replace: so processes that search at the same time use the same plan.  A failure
 * is reported on stderr, once.  @return the plan to use from now on; valid until the next call. */
const struct conv_choice *conv_cache_add(struct conv_cache *cache, enum conv_op op,
                                         const struct conv_shape *shape,
                                         const struct conv_choice *choice, bool replace);

/** Whether @a and @b are the same engine with the same settings. */
bool conv_choice_same(const struct conv_choice *a, const struct conv_choice *b);

/** The part of a line that names a plan, up to the first "="; @name: of its op.  The
 * caller frees it. */
char *conv_cache_key(int64_t version, const char *device, const char *name,
                     const struct conv_shape *shape);
