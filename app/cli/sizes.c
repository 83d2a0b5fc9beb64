#include "app/cli/sizes.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/unit.h"

enum { SIZE_LIMIT = 1000 /**< of one command: a mistyped factor must not run for hours */ };

static int add_size(struct sizes *sizes, double bytes, struct err *err)
{
    if (bytes < 1.0 || bytes >= 9e18)
        return err_add_code(err, 64, "--bytes: must be at least 1 B and less than 9 EB");
    if (sizes->count == SIZE_LIMIT)
        return err_add_code(err, 64, "--bytes: must have at most %d sizes", SIZE_LIMIT);
    sizes->item = base_room(sizes->item, sizes->count, sizeof(*sizes->item));
    sizes->item[sizes->count++] = llround(bytes);
    return 0;
}

/* "8", "64K", "1G" as nccl-tests reads them, in powers of 1024; or a size with its unit. */
static int parse_size(const char *text, double *bytes, struct err *err)
{
    static const char prefixes[] = "KMG";
    char *end;
    double number = isdigit((unsigned char)*text) ? strtod(text, &end) : 0;
    const char *prefix = number > 0 && *end ? strchr(prefixes, toupper((unsigned char)*end)) : NULL;
    if ((number > 0 && (!*end || (prefix && !end[1]))) || !strcmp(text, "0")) {
        *bytes = ldexp(number, prefix ? 10 * (int)(prefix - prefixes + 1) : 0);
        return 0;
    }
    AUTORELEASE(err) struct err found = {0};
    if (!unit_parse(UNIT_BYTES, text, bytes, &found))
        return 0;
    return err_add_code(err, 64, "--bytes: %s", err_reason(&found));
}

/* "1MB..64MB:x2"; @dots points at the two dots. */
static int add_range(struct sizes *sizes, char *text, char *dots, struct err *err)
{
    double first, last, factor;
    char *colon = strstr(dots, ":x");
    char *end = NULL;
    factor = colon ? strtod(colon + 2, &end) : 0.0;
    if (!colon || *end || !(factor > 1.0))
        return err_add_code(err, 64, "--bytes: expected a range as in 1MB..64MB:x2, got '%s'",
                            text);
    *dots = *colon = '\0';
    if (parse_size(text, &first, err) || parse_size(dots + 2, &last, err))
        return -1;
    int failed =
        first > last ? err_add_code(err, 64, "--bytes: %s is more than %s", text, dots + 2) : 0;
    for (double bytes = first; bytes <= last && !failed; bytes *= factor)
        failed = add_size(sizes, bytes, err);
    return failed;
}

int sizes_read(struct sizes *sizes, const char *text, struct err *err)
{
    AUTOFREE char *copy = base_copy(text);
    int failed = 0;
    char *rest = copy;
    for (char *word; !failed && (word = strsep(&rest, ","));) {
        char *dots = strstr(word, "..");
        double bytes;
        if (dots)
            failed = add_range(sizes, word, dots, err);
        else
            failed = parse_size(word, &bytes, err) || add_size(sizes, bytes, err);
    }
    return failed ? -1 : 0;
}

int chunk_read(int64_t *bytes, const char *text, struct err *err)
{
    double value = 0;
    if (text && unit_parse(UNIT_BYTES, text, &value, err))
        return err_exit(err, 64);
    if (text && (value < 1.0 || value >= 9e18))
        return err_add_code(err, 64, "--chunk: must be at least 1 B and less than 9 EB");
    *bytes = llround(value);
    return 0;
}

void sizes_release(struct sizes *sizes)
{
    free(sizes->item);
    *sizes = (struct sizes){0};
}
