#pragma once

/** @file
 * cuDNN's backend API in software: descriptors are checked and kept, and an execution plan runs
 * plain loops (tests/cuda/conv_loops.h) on the fake runtime's streams.
 *
 * The shape that is computed is read back from the descriptors, so a tensor with the wrong strides
 * or two operands exchanged give a wrong result or no graph at all.  Descriptors refer to each
 * other: one that is destroyed before what was made of it shows under the address sanitizer.
 */

#include <stdbool.h>
#include <stdint.h>

/** The engines there are, and what is special about each. */
enum fake_engine {
    FAKE_SLOW,       /**< right, and takes long */
    FAKE_FAST,       /**< right; how fast depends on its settings */
    FAKE_WRONG,      /**< fast; the last element of the result is off */
    FAKE_UNSTEADY,   /**< fast, right; says of itself that results vary */
    FAKE_FICKLE,     /**< fast; the last bit of the first element varies, which it does not say */
    FAKE_HUGE,       /**< fast, right; needs 2 GiB of workspace */
    FAKE_UNBUILT,    /**< offered, but no plan can be made */
    FAKE_UNRUN,      /**< a plan can be made, but not run */
    FAKE_WORKSPACE,  /**< right, takes a while, and writes to all of its workspace */
    FAKE_UNCAPTURED, /**< fast, right; refuses while its stream is captured */
    FAKE_ENGINES
};

/** Settings of FAKE_FAST, by the library's numbers of them, and special values. */
enum fake_knob {
    FAKE_TILE = 2,         /**< 1 to 6: 3 and 4, which is slow, are offered; 2 is a little faster */
    FAKE_HALF = 25,        /**< 0 is offered; not 0 halves the time, but only with FAKE_TILE at 2 */
    FAKE_TILE_WRONG = 1,   /**< fast; the last element of the result is off */
    FAKE_TILE_UNBUILT = 5, /**< no plan can be made */
    FAKE_TILE_HUGE = 6     /**< needs 2 GiB of workspace */
};

enum {
    FAKE_WORKSPACE_BYTES = 12345 /**< of FAKE_WORKSPACE */
};

/** What the library does from now on; all zero at first. */
struct fake_cudnn {
    bool hidden[FAKE_ENGINES];  /**< not offered */
    bool unbuilt[FAKE_ENGINES]; /**< no plan can be made */
    bool unrun[FAKE_ENGINES];   /**< a plan cannot be run */
    bool no_start;              /**< cudnnCreate() fails */
    bool unwritten;             /**< one element amid the result is left as it was */
    bool waits;                 /**< the first run takes a second and more of real time */
    int64_t questions;          /**< lists of engines asked for so far */
    int64_t runs[FAKE_ENGINES]; /**< so far */
    int64_t alive;              /**< descriptors and handles */
};

/** The one library of the process; written by tests, too. */
extern struct fake_cudnn fake_cudnn;
