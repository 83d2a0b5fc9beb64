#pragma once

/** @file
 * Files for the tests of exec/input: JPEG files made by libjpeg, tar files.
 */

#include "exec/input/dataset.h"
#include "tests/folder.h"

/** By OWN(). */
OWNED(dataset, dataset_close)

/** The dataset of @spec, which can be opened. */
static inline struct dataset *opened(const struct dataset_spec *spec, enum split split)
{
    struct err err = {0};
    struct dataset *dataset = dataset_open(spec, split, &err);
    assert_ok(dataset, err);
    return dataset;
}

/** @spec cannot be opened, for a reason with @part. */
static inline void assert_refused(const struct dataset_spec *spec, enum split split,
                                  int32_t exit_code, const char *part)
{
    struct err err = {0};
    assert_null(dataset_open(spec, split, &err));
    assert_message(&err, exit_code, part);
}

/** How a JPEG file is written. */
struct form {
    int32_t width, height;
    int32_t components;  /**< 1, 3, or 4: CMYK as Adobe stores it */
    int32_t subsampling; /**< of colour: 1 or 2, both ways; 12: only along rows */
    int32_t quality;
    bool progressive;
    uint32_t seed; /**< of what is on it */
};

/** A colour picture of 3/4 of a VGA screen, as cameras write it. */
extern const struct form form_camera;

/** What stands on a picture: smooth shapes and some grain, 0 to 255. */
uint8_t form_byte(const struct form *form, int32_t x, int32_t y, int32_t component);

/** A JPEG file in memory, to be freed. */
uint8_t *fixture_jpeg(const struct form *form, int64_t *size);

/** Write a JPEG file. */
void fixture_write_jpeg(const char *path, const struct form *form);

/** Append a member to a tar file in memory; @type is '0' for a file. */
void fixture_tar(struct text *tar, const char *name, char type, const void *data, int64_t size);

/** Append the end of a tar file. */
void fixture_tar_end(struct text *tar);
