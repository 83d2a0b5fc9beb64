#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/base/base.h"
#include "exec/input/files/catalog.h"
#include "exec/input/files/file.h"

/* Names of files, or of folders. */
struct names {
    struct text text; /* each with its NUL */
    int64_t *at;      /* (count) where each begins */
    int64_t count;
};

struct listing {
    char *path;
    struct names class, file;
    int64_t *first; /* (class.count + 1) the first file of each class, and the end */
};

static const char *name_at(const struct names *names, int64_t index)
{
    return names->text.data + names->at[index];
}

static void add_name(struct names *names, const char *name)
{
    names->at = base_room(names->at, names->count, sizeof(*names->at));
    names->at[names->count++] = names->text.length;
    text_append(&names->text, name, (int64_t)strlen(name) + 1);
}

static int compare(const void *a, const void *b, void *text)
{
    const int64_t *left = a, *right = b;
    return strcmp((char *)text + *left, (char *)text + *right);
}

static void sort_names(struct names *names, int64_t from)
{
    if (names->count > from)
        qsort_r(names->at + from, (size_t)(names->count - from), sizeof(*names->at), compare,
                names->text.data);
}

static void release_names(struct names *names)
{
    text_release(&names->text);
    free(names->at);
}

/* The type of an entry; asks the file system only if the directory does not have it. */
static bool is_folder(DIR *directory, const struct dirent *entry)
{
    struct stat status;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    return fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

static bool has_suffix(const char *name, const char *const *suffixes)
{
    const char *dot = strrchr(name, '.');
    for (; dot && *suffixes; suffixes++)
        if (strcasecmp(dot + 1, *suffixes) == 0)
            return true;
    return false;
}

/* Add the entry to the files of a class, if it is one. */
static int take_file(struct names *file, const char *path, DIR *directory,
                     const struct dirent *entry, struct err *err)
{
    static const char *const ours[] = {"jpg", "jpeg", NULL};
    static const char *const others[] = {"png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", NULL};
    const char *name = entry->d_name;
    if (has_suffix(name, others))
        return err_add(err, "%s/%s: only JPEG can be read; convert it, or take it away", path,
                       name);
    if (has_suffix(name, ours))
        add_name(file, name);
    else if (is_folder(directory, entry))
        return err_add(err, "%s/%s: a folder inside a class; expected .jpg or .jpeg files", path,
                       name);
    return 0;
}

/* Read a directory: the folders in it to @class, or the images to @file. */
static int scan(const char *path, struct names *class, struct names *file, struct err *err)
{
    DIR *directory = opendir(path);
    if (!directory)
        return err_add_code(err, 66, "%s: cannot be read: %s", path, strerror(errno));
    struct dirent *entry;
    int failed = 0;
    while (!failed && (errno = 0, entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (file)
            failed = take_file(file, path, directory, entry, err);
        else if (class && is_folder(directory, entry))
            add_name(class, entry->d_name);
    }
    if (!failed && errno)
        failed = err_add_code(err, 66, "%s: cannot be read: %s", path, strerror(errno));
    closedir(directory);
    return failed;
}

static int scan_class(struct listing *listing, int64_t index, struct err *err)
{
    struct names *file = &listing->file;
    int64_t before = listing->first[index] = file->count;
    AUTOFREE char *path = base_format("%s/%s", listing->path, name_at(&listing->class, index));
    int failed = scan(path, NULL, file, err);
    if (!failed && file->count == before)
        failed = err_add(err, "%s: a class without images: no .jpg or .jpeg file in it", path);
    sort_names(file, before);
    return failed;
}

static int scan_all(struct listing *listing, struct err *err)
{
    if (scan(listing->path, &listing->class, NULL, err))
        return -1;
    int64_t classes = listing->class.count;
    if (classes == 0)
        return err_add(err, "%s: no folders in it; expected one per class", listing->path);
    sort_names(&listing->class, 0);
    listing->first = base_alloc(classes + 1, sizeof(*listing->first));
    for (int64_t i = 0; i < classes; i++)
        if (scan_class(listing, i, err))
            return -1;
    listing->first[classes] = listing->file.count;
    return 0;
}

int catalog_compare_classes(const struct catalog *catalog, const char *path, struct err *err)
{
    const struct names *ours = &catalog->listing->class;
    struct names other = {0};
    AUTORELEASE(err) struct err ignored = {0};
    int failed = 0;
    if (!scan(path, &other, NULL, &ignored)) {
        sort_names(&other, 0);
        int64_t i = 0, least = ours->count < other.count ? ours->count : other.count;
        while (i < least && strcmp(name_at(ours, i), name_at(&other, i)) == 0)
            i++;
        if (i < ours->count || i < other.count)
            failed =
                err_add(err, "%s: class %d is '%s', but in %s it is '%s'", catalog->listing->path,
                        (int)i, i < ours->count ? name_at(ours, i) : "(none)", path,
                        i < other.count ? name_at(&other, i) : "(none)");
    }
    release_names(&other);
    return failed;
}

static void folder_close(struct listing *listing)
{
    release_names(&listing->class);
    release_names(&listing->file);
    free(listing->first);
    free(listing->path);
    free(listing);
}

static int32_t folder_label(const struct listing *listing, int64_t index)
{
    int64_t low = 0, high = listing->class.count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (listing->first[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return (int32_t)low;
}

static char *folder_name(const struct listing *listing, int64_t index)
{
    return base_format("%s/%s/%s", listing->path,
                       name_at(&listing->class, folder_label(listing, index)),
                       name_at(&listing->file, index));
}

static int64_t folder_fetch(const struct listing *listing, int64_t index, struct buffer *bytes,
                            struct err *err)
{
    AUTOFREE char *path = folder_name(listing, index);
    return file_slurp(path, bytes, err);
}

int catalog_open_folder(struct catalog *catalog, const char *path, struct err *err)
{
    static const struct catalog_ops ops = {folder_fetch, folder_label, folder_name, folder_close};
    struct listing *listing = base_alloc(1, sizeof(*listing));
    listing->path = base_copy(path);
    int failed = scan_all(listing, err);
    if (!failed && listing->class.count > INT32_MAX)
        failed = err_add(err, "%s: too many classes", path);
    if (failed) {
        folder_close(listing);
        return -1;
    }
    *catalog = (struct catalog){listing->file.count, (int32_t)listing->class.count, &ops, listing};
    return 0;
}
