#pragma once

/** @file
 * Pictures in the device's memory, ahead of the iterations that train on them.
 *
 * A thread requests one batch after the other from the source, into pinned memory, and copies it
 * on its own stream.  It holds FEED_AHEAD batches; a batch that an iteration has cropped is free
 * again.  Everything is in order: the n-th feed_crop() crops the source's n-th batch.
 *
 * The thread that issues an iteration waits for its batch in feed_crop(), on the CPU. A host
 * function on the stream must not wait for it instead: the copies may be queued behind that stream
 * in one of the GPU's queues, which would be a deadlock (CUDA: a host function may not wait for
 * work that is not mandated to run earlier).
 */

#include <cuda_runtime_api.h>

#include "exec/step/device.h"

enum { FEED_AHEAD = PICTURE_AHEAD };

/** Batches under way. */
struct feed;

/** Start the thread, on the current device, for batches of @batch images of @size x @size from
 * @source, whose next_pictures() is not NULL; requests begin now.  @return 0, or -1 (exit code 69):
 * too little memory, a thread that does not start. */
int feed_open(struct feed **feed, const struct device_source *source, int32_t batch, int32_t size,
              struct err *err);

/** Device memory of feed_open() [bytes]. */
size_t feed_memory(int32_t batch, int32_t size);

/** Wait for the next batch; then issue on @stream: copy its labels to @label (batch, device
 * memory), crop it into @images (batch, size, size, @to) of @type, and return its place to the
 * thread.  One thread at a time. */
void feed_crop(struct feed *feed, cudaStream_t stream, enum dtype type, int32_t to, void *images,
               int32_t *label);

/** Stop the thread after its current request to the source, and release; accepts NULL. No crop may
 * be running. */
void feed_close(struct feed *feed);
