#pragma once

/** @file
 * Files of tests, in a folder that goes away with its case.
 */

#include <ftw.h>
#include <sys/stat.h>

#include "tests/assert.h"
#include "tests/own.h"

/** A case (tests/test.h) with a folder. */
#define TEST_IN_FOLDER(name) TEST_WITH(name, fixture_setup, fixture_teardown)

/** Of a test that has one. */
struct folder {
    char *path;
    char **name; /* (count) given out */
    int64_t count;
};

/** A new folder, as the state of a test; for cmocka's setup. */
static inline int fixture_setup(void **state)
{
    struct folder *folder = base_alloc(1, sizeof(*folder));
    const char *temporary = getenv("TMPDIR");
    folder->path = base_format("%s/foretrain-XXXXXX", temporary ? temporary : "/tmp");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

/** For fixture_teardown(). */
static inline int fixture_take_away(const char *path, const struct stat *status, int flag,
                                    struct FTW *place)
{
    (void)status, (void)flag, (void)place;
    return remove(path);
}

/** Remove the folder with all in it; for cmocka's teardown. */
static inline int fixture_teardown(void **state)
{
    AUTOFREE struct folder *folder = *state;
    nftw(folder->path, fixture_take_away, 16, FTW_DEPTH | FTW_PHYS);
    for (int64_t i = 0; i < folder->count; i++)
        free(folder->name[i]);
    free(folder->name);
    free(folder->path);
    return 0;
}

/** A path in the folder, in memory that goes away with it; folders on the way are made. */
__attribute__((format(printf, 2, 3))) static inline const char *
fixture_path(void **state, const char *format, ...)
{
    struct folder *folder = *state;
    char below[512];
    va_list list;
    va_start(list, format);
    vsnprintf(below, sizeof(below), format, list);
    va_end(list);
    char *path = base_format("%s/%s", folder->path, below);
    for (char *slash = path + strlen(folder->path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    folder->name = base_room(folder->name, folder->count, sizeof(*folder->name));
    folder->name[folder->count++] = path;
    return path;
}

/** Write a file. */
static inline void fixture_write(const char *path, const void *data, int64_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (size)
        assert_int_equal(fwrite(data, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
}

/** Read a file, to be freed. */
static inline uint8_t *fixture_read(const char *path, int64_t *size)
{
    struct stat status;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    uint8_t *data = base_alloc(status.st_size + 1, 1);
    assert_int_equal(fread(data, 1, (size_t)status.st_size, file), status.st_size);
    fclose(file);
    *size = status.st_size;
    return data;
}

/** A new file of @text, which ends on .yaml; the caller unlinks it and frees its name. */
static inline char *fixture_yaml(const char *text)
{
    char *path = base_copy("/tmp/foretrain-XXXXXX.yaml");
    int file = mkstemps(path, 5);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    return path;
}

/** Both files have the same bytes. */
static inline void assert_same_file(const char *a, const char *b)
{
    int64_t a_size, b_size;
    AUTOFREE uint8_t *first = fixture_read(a, &a_size), *second = fixture_read(b, &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(first, second, (size_t)a_size);
}
