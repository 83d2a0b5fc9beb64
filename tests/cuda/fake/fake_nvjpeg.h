#pragma once

/** @file
 * nvJPEG in software, on libjpeg: a library libnvjpeg.so.13 that is found and loaded as the real
 * one is, and works on the streams of tests/cuda/fake/fake_runtime.h.
 *
 * Pixels are those of libjpeg.  As in the hardware, its batches take baseline files alone; a file
 * that is damaged or ends early fails its batch.  Misuse (a handle or state that was destroyed or
 * belongs to another handle, a batch after a failure without making the state ready again, memory
 * that is not the device's) ends the process with abort() and a message on stderr.
 */

#include <stdbool.h>
#include <stdint.h>

/** What the library does from now on; all zero at first. */
struct fake_nvjpeg {
    bool no_hardware;     /**< that backend is refused */
    bool no_start;        /**< so is every other */
    int32_t refused;      /**< files of this width are not decoded in any way; 0: none */
    int32_t skipped;      /**< files of this width are left as they are by a batch that succeeds */
    int32_t fail_batches; /**< so many batches fail, after the first picture was written */
    int32_t wrong_width;  /**< files of this width are said to be one pixel wider */
    int64_t batches;      /**< decoded so far */
    int64_t in_batches;   /**< pictures of them */
    int64_t alone;        /**< pictures decoded one by one */
    int64_t initialised;  /**< states made ready for batches */
    int64_t alive;        /**< handles, states and headers */
};

/** Where the loaded library keeps that; NULL: what is found under its name is not this one. */
struct fake_nvjpeg *fake_nvjpeg(void);

/** What the library itself calls it. */
extern struct fake_nvjpeg fake_nvjpeg_control;
