#pragma once

/** @file
 * What the ranks of world_check exchange in each step: an all-reduce over MPI.
 */

#include <stdint.h>

/** One rank's part of it. */
struct exchange_state;

/** All ranks together. */
struct exchange_state *exchange_open(void);

/** Exchange as bucket 0 of @step, and wait for it. */
void exchange_step(struct exchange_state *exchange, int64_t step);

/** All ranks together. */
void exchange_close(struct exchange_state *exchange);
