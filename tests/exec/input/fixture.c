#include "tests/exec/input/fixture.h"

#include <ftw.h>
#include <sys/stat.h>

struct folder {
    char *path;
    char **name; /* (count) given out */
    int64_t count;
};

int fixture_setup(void **state)
{
    struct folder *folder = base_alloc(1, sizeof(*folder));
    const char *temporary = getenv("TMPDIR");
    folder->path = base_format("%s/foretrain-input-XXXXXX", temporary ? temporary : "/tmp");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

static int take_away(const char *path, const struct stat *status, int flag, struct FTW *place)
{
    (void)status, (void)flag, (void)place;
    return remove(path);
}

int fixture_teardown(void **state)
{
    AUTOFREE struct folder *folder = *state;
    nftw(folder->path, take_away, 16, FTW_DEPTH | FTW_PHYS);
    for (int64_t i = 0; i < folder->count; i++)
        free(folder->name[i]);
    free(folder->name);
    free(folder->path);
    return 0;
}

const char *fixture_path(void **state, const char *format, ...)
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

void fixture_write(const char *path, const void *data, int64_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (size)
        assert_int_equal(fwrite(data, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
}

uint8_t *fixture_read(const char *path, int64_t *size)
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

void fixture_tar(struct text *tar, const char *name, char type, const void *data, int64_t size)
{
    char header[512] = {0};
    static const char zero[512];
    snprintf(header, 100, "%s", name);
    memcpy(header + 100, "0000644", 7);
    snprintf(header + 124, 12, "%011llo", (unsigned long long)size);
    memset(header + 148, ' ', 8);
    header[156] = type;
    memcpy(header + 257, "ustar\00000", 8);
    int32_t sum = 0;
    for (int32_t i = 0; i < 512; i++)
        sum += (uint8_t)header[i];
    snprintf(header + 148, 8, "%06o", (unsigned)sum & 0777777);
    text_append(tar, header, 512);
    text_append(tar, data, size);
    text_append(tar, zero, (512 - size % 512) % 512);
}

void fixture_tar_end(struct text *tar)
{
    static const char zero[1024];
    text_append(tar, zero, 1024);
}
