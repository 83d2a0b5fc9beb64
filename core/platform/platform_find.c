#include <dlfcn.h>
#include <sys/stat.h>

#include "config.h"
#include "core/base/file.h"
#include "core/platform/software.h"

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Possible places of platforms/ below @folder, in order: beside a build directory; installed, for
 * programs in bin/ and in libexec/foretrain/ and for a library. */
static const char *const below_program[] = {
    "../platforms",
    "../share/foretrain/platforms",
    "../../share/foretrain/platforms",
};

/* The folder of the running program, or of the library that has this code; the caller frees it. */
static char *own_folder(void)
{
    char path[PATH_MAX] = "";
    Dl_info own = {0};
    bool found = dladdr(below_program, &own) && own.dli_fname && strstr(own.dli_fname, ".so") &&
                 realpath(own.dli_fname, path);
    ssize_t length =
        found ? (ssize_t)strlen(path) : readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0)
        return base_copy(".");
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    return base_copy(path);
}

static char *directory_of_program(void)
{
    AUTOFREE char *folder = own_folder();
    char *found = NULL;
    for (size_t i = 0; !found && i < ARRAY_SIZE(below_program); i++) {
        AUTOFREE char *candidate = base_format("%s/%s", folder, below_program[i]);
        if (is_directory(candidate))
            found = realpath(candidate, NULL);
    }
    return found;
}

char *platform_directory(struct err *err)
{
    const char *data = getenv("FORETRAIN_DATADIR");
    char *found = data ? base_format("%s/platforms", data) : directory_of_program();
    if (!found)
        found = base_copy(FORETRAIN_SOURCE_DIR "/platforms");
    if (is_directory(found))
        return found;
    err_add_code(err, 66, "there is no platform directory %s%s", found,
                 data ? " (from FORETRAIN_DATADIR)" : "; set FORETRAIN_DATADIR");
    free(found);
    return NULL;
}

static bool is_yaml(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot > name && !strcmp(dot, ".yaml");
}

/* The names of the files in @folder without ".yaml", sorted. */
static struct texts list_names(const char *folder)
{
    struct texts names = {0};
    AUTORELEASE(texts) struct texts files = file_list(folder, is_yaml);
    for (int32_t i = 0; i < files.count; i++)
        texts_add(&names, "%.*s", (int)strlen(files.item[i]) - 5, files.item[i]);
    texts_sort(&names);
    return names;
}

static bool equals(const char *name, const char *given)
{
    return !strcasecmp(name, given);
}

/* A number is given whole: "h20" and "mi250" begin neither "h200-sxm" nor "mi250x". */
static bool begins(const char *name, const char *given)
{
    size_t length = strlen(given);
    return length && !strncasecmp(name, given, length) &&
           !(isdigit((unsigned char)given[length - 1]) && isalnum((unsigned char)name[length]));
}

/* The only one of @names that is @like @given, or NULL. */
static const char *only(const struct texts *names, const char *given,
                        bool (*like)(const char *name, const char *given))
{
    const char *found = NULL;
    for (int32_t i = 0; i < names->count; i++) {
        if (!like(names->item[i], given))
            continue;
        if (found)
            return NULL;
        found = names->item[i];
    }
    return found;
}

/* The first of @names that contain @given, up to @limit; their number. */
static int32_t find_containing(const struct texts *names, const char *given, const char **near,
                               int32_t limit)
{
    int32_t count = 0;
    for (int32_t i = 0; i < names->count && count < limit; i++)
        if (*given && strcasestr(names->item[i], given))
            near[count++] = names->item[i];
    return count;
}

/* Names near the first model number in @given: A100 of "NVIDIA A100-SXM-80GB". */
static int32_t find_model(const struct texts *names, const char *given, const char **near,
                          int32_t limit)
{
    int32_t count = 0;
    AUTOFREE char *text = base_copy(given);
    char *rest = NULL;
    for (char *word = strtok_r(text, " -_", &rest); word && !count;
         word = strtok_r(NULL, " -_", &rest))
        if (strlen(word) > 2 && strpbrk(word, "0123456789"))
            count = find_containing(names, word, near, limit);
    return count;
}

/* "there is no platform 'abcj' in ...; did you mean 'abci'?"; the caller frees it. */
static char *describe_missing(const char *what, const char *given, const char *folder,
                              const struct texts *names)
{
    enum { NEAR_LIMIT = 6 };
    const char *near[NEAR_LIMIT];
    int32_t count = find_containing(names, given, near, NEAR_LIMIT);
    if (!count)
        count = find_model(names, given, near, NEAR_LIMIT);
    const char *nearest = count ? NULL : base_nearest(given, names->item);
    if (nearest)
        near[count++] = nearest;
    struct text text = {0};
    text_add(&text, "there is no %s '%s' in %s", what, given, folder);
    for (int32_t i = 0; i < count; i++)
        text_add(&text, "%s'%s'%s",
                 !i              ? "; did you mean "
                 : i < count - 1 ? ", "
                                 : " or ",
                 near[i], i < count - 1 ? "" : "?");
    if (!count)
        text_add(&text, "; 'foretrain list %s%s' lists those there are", what,
                 strcmp(what, "software") ? "s" : "");
    if (!strcmp(what, "device"))
        text_add(&text, "%s 'foretrain new device' takes a data sheet's", count ? "" : ",");
    return text.data;
}

/* The file of @given in @folder, whatever its case, or the only one that begins so; or NULL with
 * *@missing set; the caller frees both. */
static char *find_in(const char *folder, const char *what, const char *given, char **missing)
{
    char *path = base_format("%s/%s.yaml", folder, given);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    AUTORELEASE(texts) struct texts names = list_names(folder);
    const char *name = only(&names, given, equals);
    name = name ? name : only(&names, given, begins);
    path = name ? base_format("%s/%s.yaml", folder, name) : NULL;
    if (!path)
        *missing = describe_missing(what, given, folder, &names);
    return path;
}

static bool is_path(const char *name)
{
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 5 && strcmp(name + length - 5, ".yaml") == 0);
}

char *platform_find_file(const char *below, const char *what, const char *name, struct err *err)
{
    if (is_path(name))
        return base_copy(name);
    AUTOFREE char *platforms = platform_directory(err);
    if (!platforms)
        return NULL;
    AUTOFREE char *below_it = base_format("%s%s%s", platforms, *below ? "/" : "", below);
    AUTOFREE char *folder = realpath(below_it, NULL), *missing = NULL; /* without ".." */
    char *path = find_in(folder ? folder : below_it, what, name, &missing);
    AUTOFREE char *here = base_format("./%s.yaml", name);
    if (!path)
        err_add_code(err, 66, "%s%s%s%s", missing, access(here, F_OK) ? "" : "; the file here is '",
                     access(here, F_OK) ? "" : here, access(here, F_OK) ? "" : "'");
    return path;
}

char *platform_find(const char *name, struct err *err)
{
    return platform_find_file("", "platform", name, err);
}

/* @name seen from the folder of @file. */
static char *path_beside(const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    if (name[0] == '/' || !slash)
        return base_copy(name);
    while (!strncmp(name, "./", 2))
        name += 2;
    return base_format("%.*s/%s", (int)(slash - file), file, name);
}

char *platform_find_software(const char *name, struct err *err)
{
    return platform_find_file("software", "software", name, err);
}

char *platform_find_device(const char *name, const struct origin *origin, struct err *err)
{
    if (!origin)
        return platform_find_file("devices", "device", name, err);
    if (is_path(name))
        return path_beside(origin->file, name);
    AUTORELEASE(err) struct err missing = {0};
    char *path = platform_find_file("devices", "device", name, &missing);
    if (!path)
        origin_error(origin, err, "%s", err_reason(&missing));
    return path;
}

int platform_list(struct text *out, const char *folder, struct err *err)
{
    AUTOFREE char *platforms = platform_directory(err);
    if (!platforms)
        return -1;
    AUTOFREE char *below = base_format("%s/%s", platforms, folder);
    AUTORELEASE(texts) struct texts names = list_names(below);
    for (int32_t i = 0; i < names.count; i++) {
        AUTORELEASE(err)
        struct err ignored = {0}; /* one that cannot be read is listed by its name alone */
        AUTOFREE char *path = base_format("%s/%s.yaml", below, names.item[i]);
        AUTORELEASE(yaml) struct document *document = yaml_read_file(NULL, path, NULL, &ignored);
        const struct node *node = document ? node_get(yaml_root(document), "description") : NULL;
        text_add(out, "%-22s %s\n", names.item[i], node && node->text ? node->text : "");
    }
    return 0;
}

static bool is_like(const char *name, const char *device,
                    bool (*like_name)(const char *name, const char *given), int32_t devices,
                    int32_t nics, double rate)
{
    AUTORELEASE(err) struct err ignored = {0};
    AUTORELEASE(platform) struct platform *platform = platform_read(name, &ignored);
    return platform && platform->kind != PLATFORM_RING &&
           like_name(platform->device.name, device) &&
           (!devices || platform->node.count[VERTEX_DEVICE] == devices) &&
           (!nics || platform->node.count[VERTEX_NIC] == nics) &&
           (!(rate > 0) || fabs(platform->nic.bandwidth.value / rate - 1) < 0.01);
}

char *platform_like(const char *device, int32_t devices, int32_t nics, double rate)
{
    AUTORELEASE(err) struct err ignored = {0};
    AUTOFREE char *platforms = platform_directory(&ignored);
    AUTORELEASE(texts) struct texts names = list_names(platforms ? platforms : "");
    AUTOFREE char *folder = base_format("%s/devices", platforms ? platforms : "");
    AUTORELEASE(texts) struct texts known = list_names(folder);
    bool whole = only(&known, device, equals); /* L4 is neither L40 nor L40S */
    for (int32_t i = 0; i < names.count; i++)
        if (is_like(names.item[i], device, whole ? equals : begins, devices, nics, rate))
            return base_copy(names.item[i]);
    return NULL;
}

static bool has_runs(const char *name, const char *device)
{
    AUTORELEASE(err) struct err ignored = {0};
    struct software *software = software_read(NULL, name, &ignored);
    bool has = software && software_find_fit(software, device)->rows > 0;
    software_free(software);
    return has;
}

char *platform_newest_software(const char *device)
{
    AUTORELEASE(err) struct err ignored = {0};
    AUTOFREE char *platforms = platform_directory(&ignored);
    AUTOFREE char *below = base_format("%s/software", platforms ? platforms : "");
    AUTORELEASE(texts) struct texts names = list_names(below);
    for (int32_t i = names.count - 1; i >= 0; i--)
        if (begins(names.item[i], "mlperf-") && has_runs(names.item[i], device))
            return base_copy(names.item[i]);
    return NULL;
}
