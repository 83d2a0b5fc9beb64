/** @file
 * What core/ asks of the operating system, answered from the page: its files are texts that the
 * page has handed over, one of each kind, whatever they are called in the job.
 */

#include "app/wasm/host.h"

#include <sha2.h>

#include "core/base/claim.h"
#include "core/platform/platform.h"

static struct file {
    char *name, *text;
    size_t at;
} * files;
static int64_t file_count;

void host_add_file(char *name, char *text)
{
    BASE_NEXT(files, file_count) = (struct file){name, text, 0};
}

static struct file *find(const char *name)
{
    for (int64_t i = 0; i < file_count; i++)
        if (!strcmp(files[i].name, name))
            return &files[i];
    return NULL;
}

/* The others are opened by the names of ours, so what is called otherwise is the network. */
FILE *fopen(const char *restrict path, const char *restrict mode)
{
    struct file *file = find(path) ? find(path) : find("network");
    if (file)
        file->at = 0;
    else
        errno = ENOENT;
    return (FILE *)file;
}

size_t fread(void *restrict to, size_t size, size_t count, FILE *restrict stream)
{
    struct file *file = (struct file *)stream;
    size_t left = strlen(file->text + file->at), length = size * count;
    length = left < length ? left : length;
    memcpy(to, file->text + file->at, length);
    file->at += length;
    return length / size;
}

int ferror(FILE *stream)
{
    return 0;
}

int fclose(FILE *stream)
{
    return 0;
}

int claim_input(const char *path, struct err *err)
{
    return 0;
}

char *realpath(const char *restrict path, char *restrict out)
{
    return strcpy(out, path);
}

char *platform_find(const char *name, struct err *err)
{
    return base_copy("platform");
}

char *platform_find_software(const char *name, struct err *err)
{
    return base_copy("software");
}

char *platform_find_device(const char *name, const struct origin *origin, struct err *err)
{
    return base_copy("device");
}

/* A page has no use for the hash of its scenario. */
char *SHA256Data(const uint8_t *data, size_t length, char *digits)
{
    *digits = '\0';
    return digits;
}
