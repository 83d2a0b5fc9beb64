#pragma once

/** @file
 * Which engine was the fastest: a text file, one line per plan, that outlives the run.
 *
 *     foretrain-convolutions 1
 *     91900 "NVIDIA H200" forward fp16 256 64x56x56 256x56x56 k1 s1 p0 = 47 2:3 13:1 = ...
 *
 * A line is: version of the library, device, op, type, batch, what goes in, what comes out, window,
 * stride, padding; the engine and its knobs; seconds, workspace [bytes] and notes; a checksum of
 * the line.  Engine -1 says that the library has none, so that nobody searches again.  A pass of
 * ours (enum conv_pass) stands there like an op, with engine 0.
 *
 * Several processes may use one file, also on different machines with different devices: whoever
 * adds a line reads the file again under a lock (PATH.lock), and puts a whole new file in place.
 * What the file says of a shape stays, so that all do the same, now and later; only what proved
 * unusable is replaced.  A line that is damaged is told on stderr and left out; a file that is
 * something else is never written to.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exec/cuda/conv/conv.h"

enum {
    CONV_KNOBS = 48,       /**< most settings of one engine */
    CONV_DEVICE_NAME = 256 /**< characters of a device's name, with the NUL */
};

/** One setting of an engine; numbers of the library. */
struct conv_knob {
    int64_t type, value;
};

/** An engine with its settings, and what was seen of it. */
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

/** Read the file @path; NULL: nothing is kept.  What is wrong with it is told on stderr.  @device:
 * letters that cannot stand between quotes are replaced. */
struct conv_cache *conv_cache_open(const char *path, int64_t version, const char *device);

/** Release; accepts NULL. */
void conv_cache_close(struct conv_cache *cache);

/** What the cache knows of @op on @shape, or NULL.  Valid until the next conv_cache_add(). */
const struct conv_choice *conv_cache_find(const struct conv_cache *cache, enum conv_op op,
                                          const struct conv_shape *shape);

/** Add @choice and write the file.  If another process has added the same plan meanwhile, that one
 * counts, unless @replace: processes that search at the same time go on with the same plan.  A
 * failure is told on stderr, once.
 * @return the plan that counts from now on; valid until the next call. */
const struct conv_choice *conv_cache_add(struct conv_cache *cache, enum conv_op op,
                                         const struct conv_shape *shape,
                                         const struct conv_choice *choice, bool replace);

/** What the cache knows of @pass on @shape [s]; negative: nothing. */
double conv_cache_seconds(const struct conv_cache *cache, enum conv_pass pass,
                          const struct conv_shape *shape);

/** Add that @pass on @shape takes @seconds, as conv_cache_add() does a plan.  @return what counts
 * from now on [s]. */
double conv_cache_add_seconds(struct conv_cache *cache, enum conv_pass pass,
                              const struct conv_shape *shape, double seconds);

/** Whether @a and @b are the same engine with the same settings. */
bool conv_choice_same(const struct conv_choice *a, const struct conv_choice *b);

/** Lines of the file that were damaged. */
int64_t conv_cache_damaged(const struct conv_cache *cache);

/** The part of a line that names a plan, up to the first "="; @name: of its op, or of a pass.  The
 * caller frees it. */
char *conv_cache_key(int64_t version, const char *device, const char *name,
                     const struct conv_shape *shape);
