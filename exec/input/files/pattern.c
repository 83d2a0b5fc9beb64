#include "exec/input/files/pattern.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/base.h"

/* Takes ownership of @path. */
static int add(struct pattern *list, char *path, struct err *err)
{
    if (list->count == PATTERN_LIMIT) {
        err_add(err, "%s: more than %d files", path, PATTERN_LIMIT);
        free(path);
        return -1;
    }
    list->path = base_room(list->path, list->count, sizeof(*list->path));
    list->path[list->count++] = path;
    return 0;
}

static int add_matches(struct pattern *list, const char *pattern, struct err *err)
{
    glob_t found;
    if (glob(pattern, GLOB_ERR, NULL, &found))
        return err_add_code(err, 66, "%s: no file matches", pattern);
    int failed = 0;
    for (size_t i = 0; i < found.gl_pathc && !failed; i++)
        failed = add(list, base_copy(found.gl_pathv[i]), err);
    globfree(&found);
    return failed;
}

static int expand_braces(struct pattern *list, const char *pattern, struct err *err);

/* "000..146", of @length characters: numbers of the width of the first.  1 when it is no range. */
static int expand_range(struct pattern *list, const char *pattern, const char *open, int64_t length,
                        struct err *err)
{
    char *from_end, *to_end;
    long from = strtol(open + 1, &from_end, 10);
    if (from_end == open + 1 || from < 0 || strncmp(from_end, "..", 2) != 0)
        return 1;
    long to = strtol(from_end + 2, &to_end, 10);
    if (to_end == from_end + 2 || to_end != open + 1 + length || to < from)
        return 1;
    if (to - from >= PATTERN_LIMIT)
        return err_add(err, "%s: more than %d files", pattern, PATTERN_LIMIT);
    int failed = 0;
    for (long i = from; i <= to && !failed; i++) {
        AUTOFREE char *one = base_format("%.*s%0*ld%s", (int)(open - pattern), pattern,
                                         (int)(from_end - open - 1), i, to_end + 1);
        failed = expand_braces(list, one, err);
    }
    return failed;
}

/* "a,b", of @length characters. */
static int expand_list(struct pattern *list, const char *pattern, const char *open, int64_t length,
                       struct err *err)
{
    const char *end = open + 1 + length;
    int failed = 0;
    for (const char *word = open + 1; word <= end && !failed;) {
        const char *comma = memchr(word, ',', (size_t)(end - word));
        const char *stop = comma ? comma : end;
        AUTOFREE char *one = base_format("%.*s%.*s%s", (int)(open - pattern), pattern,
                                         (int)(stop - word), word, end + 1);
        failed = expand_braces(list, one, err);
        word = stop + 1;
    }
    return failed;
}

/* The first pair of braces, and then the rest. */
static int expand_braces(struct pattern *list, const char *pattern, struct err *err)
{
    const char *open = strchr(pattern, '{');
    if (!open)
        return strpbrk(pattern, "*?[") ? add_matches(list, pattern, err)
                                       : add(list, base_copy(pattern), err);
    const char *close = strchr(open, '}');
    if (!close)
        return err_add(err, "%s: a brace is not closed; expected {000..146} or {a,b}", pattern);
    int64_t length = close - open - 1;
    int failed = expand_range(list, pattern, open, length, err);
    return failed == 1 ? expand_list(list, pattern, open, length, err) : failed;
}

int pattern_expand(struct pattern *list, const char *pattern, const char *suffix, struct err *err)
{
    struct stat status;
    int32_t braces = 0;
    for (const char *c = pattern; *c; c++)
        braces += *c == '{';
    if (braces > PATTERN_BRACES)
        return err_add(err, "%.40s...: %d pairs of braces; at most %d are expanded", pattern,
                       braces, PATTERN_BRACES);
    if (stat(pattern, &status) || !S_ISDIR(status.st_mode))
        return expand_braces(list, pattern, err);
    AUTOFREE char *inside = base_format("%s/*%s", pattern, suffix);
    return add_matches(list, inside, err);
}

void pattern_release(struct pattern *list)
{
    for (int64_t i = 0; i < list->count; i++)
        free(list->path[i]);
    free(list->path);
    *list = (struct pattern){0};
}
