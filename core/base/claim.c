#include "core/base/claim.h"

#include <fnmatch.h>
#include <libgen.h>

#include "core/base/file.h"

/* An output. */
struct claim {
    const char *option, *holds;
    char *path, *place; /* as it was named; where it will be */
};

static struct claim *claims;
static int32_t claim_count;

/* The name of @place in @directory, at any depth: "ckpt-1/MANIFEST"; NULL: it is elsewhere. */
static const char *find_below(const char *directory, const char *place)
{
    size_t length = strlen(directory);
    return !strncmp(place, directory, length) && place[length] == '/' ? place + length + 1 : NULL;
}

/* Whether @directory will hold what is at @place. */
static bool holds(const struct claim *directory, const char *place)
{
    const char *below = directory->holds ? find_below(directory->place, place) : NULL;
    AUTOFREE char *first = below ? base_format("%.*s", (int)strcspn(below, "/"), below) : NULL;
    return first && fnmatch(directory->holds, first, FNM_EXTMATCH) == 0;
}

static bool collide(const struct claim *a, const struct claim *b)
{
    bool same = !strcmp(a->place, b->place) && !(a->holds && b->holds);
    return same || holds(a, b->place) || holds(b, a->place);
}

/* Also where the folder of @path is missing.  NULL: it cannot be looked into. */
static char *find_place(const char *path)
{
    AUTOFREE char *copy = base_copy(path), *again = base_copy(path);
    char *place = file_place(path);
    if (place || errno != ENOENT)
        return place;
    AUTOFREE char *folder = find_place(dirname(copy));
    return folder ? base_format("%s/%s", folder, basename(again)) : NULL;
}

int claim_output(const char *option, const char *path, const char *holds, struct err *err)
{
    if (!path || !strcmp(path, "-") || file_is_stream(path))
        return 0;
    char *place = find_place(path);
    struct claim claim = {option, holds, base_copy(path), place ? place : base_copy(path)};
    int failed = 0;
    for (int32_t i = 0; i < claim_count && !failed; i++)
        if (collide(&claim, &claims[i]))
            failed =
                err_usage(err, "--%s %s and --%s %s would replace each other: name another file",
                          claims[i].option, claims[i].path, option, path);
    BASE_NEXT(claims, claim_count) = claim;
    return failed;
}

/* Whether @place is in a directory that is not there yet. */
static bool will_be(const char *place)
{
    for (int32_t i = 0; i < claim_count; i++)
        if (claims[i].holds && find_below(claims[i].place, place) &&
            access(claims[i].place, F_OK) != 0)
            return true;
    return false;
}

int claim_check(struct err *err)
{
    int failed = 0;
    for (int32_t i = 0; i < claim_count && !failed; i++)
        if (!claims[i].holds && !(will_be(claims[i].place)))
            failed = file_check_place(claims[i].path, err);
    return failed;
}

static int refuse(const struct claim *claim, const char *path, struct err *err)
{
    return err_usage(err, "--%s %s would replace %s, which is read: name another file",
                     claim->option, claim->path, path);
}

int claim_input(const char *path, struct err *err)
{
    AUTOFREE char *place = claim_count ? realpath(path, NULL) : NULL;
    for (int32_t i = 0; i < claim_count && place; i++)
        if (!claims[i].holds && !strcmp(claims[i].place, place))
            return refuse(&claims[i], path, err);
    return 0;
}

void claim_written(const char *path)
{
    AUTOFREE char *place = claim_count ? realpath(path, NULL) : NULL;
    for (int32_t i = 0; i < claim_count && place; i++)
        if (!strcmp(claims[i].place, place))
            claims[i].place[0] = '\0'; /* no file is there */
}

int claim_input_all(const char *path, struct err *err)
{
    AUTOFREE char *copy = base_copy(path);
    const char *folder = access(path, F_OK) == 0 ? path : dirname(copy);
    AUTOFREE char *place = claim_count ? realpath(folder, NULL) : NULL;
    for (int32_t i = 0; i < claim_count && place && file_is_directory(place); i++)
        if (!claims[i].holds && find_below(place, claims[i].place) &&
            access(claims[i].place, F_OK) == 0)
            return refuse(&claims[i], claims[i].path, err);
    return claim_input(path, err);
}
