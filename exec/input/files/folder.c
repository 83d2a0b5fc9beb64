#include <dirent.h>
#include <sys/stat.h>

#include "core/base/base.h"
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
    BASE_NEXT(names->at, names->count) = names->text.length;
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

enum { DEEP = 16 }; /* folders inside a class.  Our choice: a link may lead back */

static int scan_below(struct names *file, const char *path, const char *below, int32_t depth,
                      struct err *err);

/* Add entry @name of @path to the files of a class, if it is one, or what is below it. */
static int take_file(struct names *file, const char *path, const char *name, bool folder,
                     int32_t depth, struct err *err)
{
    static const char *const ours[] = {"jpg", "jpeg", "png", "webp", NULL};
    static const char *const others[] = {"ppm", "bmp", "pgm", "tif", "tiff", NULL};
    if (folder) {
        AUTOFREE char *below = base_format("%s/", name);
        return scan_below(file, path, below, depth + 1, err);
    }
    if (has_suffix(name, others))
        return err_add(err,
                       "%s/%s: only JPEG, PNG and WebP can be read; convert it, or take it away",
                       path, name);
    if (has_suffix(name, ours))
        add_name(file, name);
    return 0;
}

static int unreadable(const char *path, struct err *err)
{
    return err_add_code(err, 66, "%s: cannot be read: %s", path, strerror(errno));
}

/* Add the images of folder @path/@below, whose names begin with @below. */
static int scan_below(struct names *file, const char *path, const char *below, int32_t depth,
                      struct err *err)
{
    AUTOFREE char *full = base_format("%s/%s", path, below);
    full[strlen(full) - 1] = '\0'; /* the last slash */
    if (depth > DEEP)
        return err_add(err, "%s: more than %d folders inside a class", full, DEEP);
    DIR *directory = opendir(full);
    if (!directory)
        return unreadable(full, err);
    struct dirent *entry;
    int failed = 0;
    while (!failed && (errno = 0, entry = readdir(directory))) {
        AUTOFREE char *name = base_format("%s%s", below, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            failed = take_file(file, path, name, is_folder(directory, entry), depth, err);
    }
    if (!failed && errno)
        failed = unreadable(full, err);
    closedir(directory);
    return failed;
}

/* Read a directory: the folders in it to @class. */
static int scan(const char *path, struct names *class, struct err *err)
{
    DIR *directory = opendir(path);
    if (!directory)
        return unreadable(path, err);
    struct dirent *entry;
    while ((errno = 0, entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            is_folder(directory, entry))
            add_name(class, entry->d_name);
    int failed = errno ? unreadable(path, err) : 0;
    closedir(directory);
    return failed;
}

static int scan_class(struct listing *listing, int64_t index, struct err *err)
{
    struct names *file = &listing->file;
    int64_t before = listing->first[index] = file->count;
    AUTOFREE char *path = base_format("%s/%s", listing->path, name_at(&listing->class, index));
    int failed = scan_below(file, path, "", 0, err);
    if (!failed && file->count == before)
        failed =
            err_add(err, "%s: a class without images: no .jpg, .jpeg, .png or .webp in it", path);
    sort_names(file, before);
    return failed;
}

static int scan_all(struct listing *listing, struct err *err)
{
    if (scan(listing->path, &listing->class, err))
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
    if (!scan(path, &other, &ignored)) {
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
