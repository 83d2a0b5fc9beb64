#pragma once

/** @file
 * TensorBoard's event files, scalars only.
 *
 * A file is a sequence of TFRecords, each a protocol buffer of type Event:
 *
 *     8 bytes  length of the data      4 bytes  masked CRC-32C of these 8 bytes
 *     data                             4 bytes  masked CRC-32C of the data
 *
 * all little-endian, with mask(crc) = rotate right by 15, plus 0xa282ead8.
 * Source: github.com/tensorflow/tensorboard, tensorboard/compat/proto/event.proto and
 * summary.proto for the fields; tensorflow.org, "TFRecord and tf.train.Example" for the framing.
 */

#include "exec/log/log_file.h"

/** One value. */
struct tensorboard_scalar {
    const char *tag; /**< "train/loss" */
    float value;
};

/** CRC-32C (Castagnoli) of @size bytes.
 * Source: RFC 3720, B.4: polynomial 0x1edc6f41, reflected, all ones before and after. */
uint32_t tensorboard_crc(const void *data, int64_t size);

/** Open a new event file in @directory, named after time, machine and process as TensorBoard's own
 * writer does, and say its version.
 * @return 0, or -1 (exit code 73) as log_file_open(). */
int tensorboard_open(struct log_file *file, const char *directory, struct err *err);

/** Tell that the run starts or goes on: TensorBoard forgets what other files in the directory say
 * of @step and later. */
void tensorboard_start(struct log_file *file, double unix_s, int64_t step);

/** Tell @count scalars of @step. */
void tensorboard_put(struct log_file *file, double unix_s, int64_t step,
                     const struct tensorboard_scalar *scalar, int32_t count);
