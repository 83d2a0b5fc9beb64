#include "app/cli/sizes.h"

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
    sizes->item = base_grow(sizes->item, sizes->count + 1, &sizes->capacity, sizeof(*sizes->item));
    sizes->item[sizes->count++] = llround(bytes);
    return 0;
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
    if (unit_parse(UNIT_BYTES, text, &first, err) || unit_parse(UNIT_BYTES, dots + 2, &last, err))
        return -1;
    int failed = 0;
    for (double bytes = first; bytes <= last && !failed; bytes *= factor)
        failed = add_size(sizes, bytes, err);
    return failed;
}

int sizes_read(struct sizes *sizes, const char *text, struct err *err)
{
    char *copy = base_copy(text);
    int failed = 0;
    char *rest = copy;
    for (char *word; !failed && (word = strsep(&rest, ","));) {
        char *dots = strstr(word, "..");
        double bytes;
        if (dots)
            failed = add_range(sizes, word, dots, err);
        else
            failed = unit_parse(UNIT_BYTES, word, &bytes, err) || add_size(sizes, bytes, err);
    }
    if (failed)
        err->exit_code = 64; /* also for a wrong unit: it is on the command line */
    free(copy);
    return failed ? -1 : 0;
}

void sizes_release(struct sizes *sizes)
{
    free(sizes->item);
    *sizes = (struct sizes){0};
}
