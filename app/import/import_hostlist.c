#include "app/import/import_hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char between[] = ", \t\r\n"; /* names */

/* Numbers of one width. */
struct range {
    uint64_t low, count;
    int width;
};

static const char *read_number(const char *at, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : (errno = EINVAL, 0);
    return errno ? NULL : end;
}

static int64_t refuse(struct hostlist_fault *fault, const char *list, const char *at,
                      const char *what)
{
    fault->what = what;
    fault->at = at - list;
    return -1;
}

static const char *number_fault(const char *at)
{
    if (!*at)
        return "a '[' that is not closed";
    return isdigit((unsigned char)*at) ? "a number beyond 64 bits" : "expected a number";
}

/* Read "5", "00-63", or "5-", which Slurm reads as 5.  @return the text after it, or NULL with
 * @what at @where. */
static const char *read_range(const char *at, struct range *range, const char **what,
                              const char **where)
{
    uint64_t high;
    const char *end = read_number(at, &range->low);
    *where = at;
    *what = number_fault(at);
    if (!end)
        return NULL;
    range->width = end - at > HOSTLIST_NAME ? HOSTLIST_NAME + 1 : (int)(end - at);
    range->count = 1;
    if (*end != '-')
        return end;
    if (end[1] == ',' || end[1] == ']')
        return end + 1;
    *where = end + 1;
    *what = number_fault(end + 1);
    end = read_number(end + 1, &high);
    if (!end)
        return NULL;
    *where = at;
    *what = "a range that runs backwards";
    if (high < range->low)
        return NULL;
    range->count = high - range->low < UINT64_MAX ? high - range->low + 1 : UINT64_MAX;
    return end;
}

static int digits_of(const struct range *range)
{
    int digits = snprintf(NULL, 0, "%" PRIu64, range->low + (range->count - 1));
    return digits > range->width ? digits : range->width;
}

/* Count the numbers of a bracket, after its '['. @return the text after its ']', or NULL with
 * @fault. */
static const char *count_bracket(const char *list, const char *at, uint64_t limit, uint64_t *count,
                                 int64_t *widest, struct hostlist_fault *fault)
{
    const char *what, *where;
    struct range range;
    for (*count = 0, *widest = 0;; at++) {
        const char *begin = at;
        at = read_range(at, &range, &what, &where);
        if (at && range.count > limit - *count) {
            what = "too many names";
            where = begin;
            at = NULL;
        }
        if (at && *at != ',' && *at != ']') {
            what = *at ? "expected ',' or ']'" : number_fault(at);
            where = at;
            at = NULL;
        }
        if (!at) {
            refuse(fault, list, where, what);
            return NULL;
        }
        *count += range.count;
        if (*widest < digits_of(&range))
            *widest = digits_of(&range);
        if (*at == ']')
            return at + 1;
    }
}

/* Count the names of the item at @*at, and move there to its end. */
static int64_t count_item(const char *list, const char **at, uint64_t limit,
                          struct hostlist_fault *fault)
{
    uint64_t names = 1, count;
    int64_t length = 0, widest;
    const char *item = *at, *bracket = NULL;
    for (const char *c = item;; length++) {
        if (*c == '[') {
            bracket = c;
            c = count_bracket(list, c + 1, limit, &count, &widest, fault);
            if (!c)
                return -1;
            if (count > limit / names)
                return refuse(fault, list, item, "too many names");
            names *= count;
            length += widest - 1;
        } else if (!*c || strchr(between, *c)) {
            *at = c;
            break;
        } else if (*c++ == ']') {
            return refuse(fault, list, c - 1, "a ']' without a '['");
        }
    }
    if (length > HOSTLIST_NAME)
        return refuse(fault, list, item, "a name of more than 255 characters");
    if (bracket && (*at)[-1] != ']')
        return refuse(fault, list, strchr(bracket, ']') + 1,
                      "a name continues after its last bracket, which Slurm refuses");
    return (int64_t)names;
}

int64_t hostlist_count(const char *list, int64_t limit, struct hostlist_fault *fault)
{
    int64_t names = 0;
    for (const char *at = list; *(at += strspn(at, between));) {
        const char *item = at;
        int64_t more = count_item(list, &at, (uint64_t)limit, fault);
        if (more < 0)
            return -1;
        if (more > limit - names)
            return refuse(fault, list, item, "too many names");
        names += more;
    }
    return names;
}

/* What hostlist_each() goes through. */
struct expansion {
    void (*visit)(void *context, const char *name);
    void *context;
    char name[HOSTLIST_NAME + 1];
};

/* Complete the name after its first @length characters, from the text at @at. */
static void expand_on(struct expansion *expansion, const char *at, size_t length)
{
    const char *what, *where;
    for (; *at && *at != '[' && !strchr(between, *at); at++)
        expansion->name[length++] = *at;
    expansion->name[length] = '\0';
    if (*at != '[') {
        expansion->visit(expansion->context, expansion->name);
        return;
    }
    const char *rest = strchr(at, ']') + 1;
    while (++at < rest) {
        struct range range;
        at = read_range(at, &range, &what, &where);
        for (uint64_t i = 0; i < range.count; i++) {
            int width = snprintf(expansion->name + length, sizeof(expansion->name) - length,
                                 "%0*" PRIu64, range.width, range.low + i);
            expand_on(expansion, rest, length + (size_t)width);
        }
    }
}

void hostlist_each(const char *list, void (*visit)(void *context, const char *name), void *context)
{
    struct expansion expansion = {.visit = visit, .context = context};
    for (const char *at = list; *(at += strspn(at, between));) {
        expand_on(&expansion, at, 0);
        for (bool inside = false; *at && (inside || !strchr(between, *at)); at++)
            inside = *at == '[' || (inside && *at != ']');
    }
}
