#include "core/base/unit.h"

#include "core/base/dtype.h"

/* Value in SI = number * multiply / divide: dividing by 1e9 is correctly rounded, multiplying by
 * 1e-9 is not. */
struct suffix {
    enum unit unit;
    const char *name;
    double multiply, divide;
    double print_from; /* [SI] chosen for printing from this size on; NEVER: only read */
};

#define NEVER  INFINITY
#define ALWAYS 0
#define BINARY -1 /* chosen for printing when it divides the value */

static const struct suffix suffixes[] = {
    {UNIT_NONE, "", 1, 1, ALWAYS},
    {UNIT_AMOUNT, "", 1, 1, ALWAYS},
    {UNIT_AMOUNT, "k", 1e3, 1, NEVER},
    {UNIT_AMOUNT, "M", 1e6, 1, 1e6},
    {UNIT_AMOUNT, "B", 1e9, 1, 1e9},
    {UNIT_AMOUNT, "T", 1e12, 1, 1e12},
    {UNIT_FRACTION, "%", 1, 100, ALWAYS},
    {UNIT_FRACTION, "", 1, 1, NEVER},
    {UNIT_BYTES, "B", 1, 1, ALWAYS},
    {UNIT_BYTES, "kB", 1e3, 1, 1e3},
    {UNIT_BYTES, "MB", 1e6, 1, 1e6},
    {UNIT_BYTES, "GB", 1e9, 1, 1e9},
    {UNIT_BYTES, "TB", 1e12, 1, 1e12},
    {UNIT_BYTES, "KiB", 0x1p10, 1, BINARY},
    {UNIT_BYTES, "MiB", 0x1p20, 1, BINARY},
    {UNIT_BYTES, "GiB", 0x1p30, 1, BINARY},
    {UNIT_BYTES, "TiB", 0x1p40, 1, BINARY},
    {UNIT_BYTES_PER_SECOND, "B/s", 1, 1, ALWAYS},
    {UNIT_BYTES_PER_SECOND, "kB/s", 1e3, 1, 1e3},
    {UNIT_BYTES_PER_SECOND, "MB/s", 1e6, 1, 1e6},
    {UNIT_BYTES_PER_SECOND, "GB/s", 1e9, 1, 1e9},
    {UNIT_BYTES_PER_SECOND, "TB/s", 1e12, 1, 1e12},
    {UNIT_BYTES_PER_SECOND, "KiB/s", 0x1p10, 1, NEVER},
    {UNIT_BYTES_PER_SECOND, "MiB/s", 0x1p20, 1, NEVER},
    {UNIT_BYTES_PER_SECOND, "GiB/s", 0x1p30, 1, NEVER},
    {UNIT_BYTES_PER_SECOND, "kb/s", 1e3, 8, NEVER},
    {UNIT_BYTES_PER_SECOND, "Mb/s", 1e6, 8, NEVER},
    {UNIT_BYTES_PER_SECOND, "Gb/s", 1e9, 8, NEVER},
    {UNIT_BYTES_PER_SECOND, "Tb/s", 1e12, 8, NEVER},
    {UNIT_SECONDS, "s", 1, 1, ALWAYS},
    {UNIT_SECONDS, "ns", 1, 1e9, 1e-10},
    {UNIT_SECONDS, "us", 1, 1e6, 1e-6},
    {UNIT_SECONDS, "\302\265s", 1, 1e6, NEVER}, /* U+00B5, the micro sign */
    {UNIT_SECONDS, "\316\274s", 1, 1e6, NEVER}, /* U+03BC, the Greek letter */
    {UNIT_SECONDS, "ms", 1, 1e3, 1e-3},
    {UNIT_SECONDS, "s", 1, 1, 1},
    {UNIT_SECONDS, "min", 60, 1, 600},
    {UNIT_SECONDS, "h", 3600, 1, 7200},
    {UNIT_SECONDS, "days", 86400, 1, 360000},
    {UNIT_SECONDS, "day", 86400, 1, NEVER},
    {UNIT_SECONDS, "d", 86400, 1, NEVER},
    {UNIT_FLOPS, "GFLOP/s", 1e9, 1, ALWAYS},
    {UNIT_FLOPS, "TFLOP/s", 1e12, 1, 1e12},
    {UNIT_FLOPS, "PFLOP/s", 1e15, 1, 1e15},
    {UNIT_EPOCHS, "epochs", 1, 1, ALWAYS},
    {UNIT_EPOCHS, "epoch", 1, 1, NEVER},
    {UNIT_EPOCHS, "", 1, 1, NEVER},
    {UNIT_IMAGES_PER_SECOND, "images/s", 1, 1, ALWAYS},
    {UNIT_IMAGES_PER_SECOND, "samples/s", 1, 1, NEVER},
    {UNIT_SAMPLES_PER_SECOND, "samples/s", 1, 1, ALWAYS},
    {UNIT_WATTS, "W", 1, 1, ALWAYS},
    {UNIT_WATTS, "kW", 1e3, 1, 1e3},
    {UNIT_WATTS, "MW", 1e6, 1, 1e6},
    {UNIT_CARBON, "g/kWh", 1, 3.6e9, ALWAYS},
    {UNIT_CARBON, "kg/kWh", 1, 3.6e6, NEVER},
};

enum { SUFFIX_COUNT = ARRAY_SIZE(suffixes) };

static const struct {
    const char *noun, *example;
} units[] = {
    [UNIT_NONE] = {"a number", "0.9"},
    [UNIT_AMOUNT] = {"an amount", "15T"},
    [UNIT_FRACTION] = {"a fraction", "90 %"},
    [UNIT_BYTES] = {"a size", "4 MiB"},
    [UNIT_BYTES_PER_SECOND] = {"a bandwidth", "25 GB/s"},
    [UNIT_SECONDS] = {"a time", "2 us"},
    [UNIT_FLOPS] = {"a computing rate", "125 TFLOP/s"},
    [UNIT_EPOCHS] = {"a length of training", "5 epochs"},
    [UNIT_IMAGES_PER_SECOND] = {"an image rate", "350 images/s"},
    [UNIT_SAMPLES_PER_SECOND] = {"a rate of samples", "350 samples/s"},
    [UNIT_WATTS] = {"a power", "700 W"},
    [UNIT_CARBON] = {"carbon of electricity", "400 g/kWh"},
};
static_assert(ARRAY_SIZE(units) == UNIT_COUNT, "one row per unit");

const char *unit_example(enum unit unit)
{
    return units[unit].example;
}

static const struct suffix *find_suffix(enum unit unit, const char *name)
{
    for (int32_t i = 0; i < SUFFIX_COUNT; i++)
        if (suffixes[i].unit == unit && strcmp(suffixes[i].name, name) == 0)
            return &suffixes[i];
    return NULL;
}

/* strtod() also reads hexadecimal, "inf" and "nan": a quantity has none of them. */
static const char *read_number(const char *text, double *number)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*digits) && *digits != '.')
        return NULL;
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
        return NULL;
    char *end;
    *number = strtod(text, &end);
    return end > text ? end : NULL;
}

/* The usual spelling of what others write: "Gbit/s" and "Gbps" are Gb/s, "MBytes" are MB; owned. */
static char *usual_spelling(const char *suffix)
{
    static const struct {
        const char *other;
        int32_t kept; /* characters of it */
        const char *rest;
    } spellings[] = {{"bits", 0, "b"}, {"bit", 0, "b"},  {"bytes", 0, "B"}, {"byte", 0, "B"},
                     {"sec", 1, ""},   {"bps", 1, "/s"}, {"FLOPS", 4, "/s"}};
    char *usual = base_copy(suffix);
    for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
        const char *at = strcasestr(usual, spellings[i].other);
        if (!at)
            continue;
        char *next = base_format("%.*s%s%s", (int)(at - usual) + spellings[i].kept, usual,
                                 spellings[i].rest, at + strlen(spellings[i].other));
        free(usual);
        usual = next;
    }
    return usual;
}

/* Append the units that @suffix may stand for: the usual spelling, else those in another case, else
 * the nearest with the same first letter.  EiB is near KiB, and 2^50 times as much.  Whether there
 * is one. */
static bool suggest(struct text *out, enum unit unit, const char *suffix)
{
    const char *near[SUFFIX_COUNT + 1];
    int32_t count = 0, found = 0;
    AUTOFREE char *usual = usual_spelling(suffix);
    bool known = find_suffix(unit, usual);
    if (known)
        text_add(out, "'%s'", usual);
    for (int32_t i = 0; i < SUFFIX_COUNT && !known; i++) {
        const char *name = suffixes[i].name;
        if (suffixes[i].unit != unit || find_suffix(unit, name) != &suffixes[i] || !*name)
            continue;
        if (!strcasecmp(name, usual))
            text_add(out, "%s'%s'", found++ ? " or " : "", name);
        else if (tolower((unsigned char)*name) == tolower((unsigned char)*suffix))
            near[count++] = name;
    }
    near[count] = NULL;
    const char *nearest = known || found ? NULL : base_nearest(suffix, near);
    if (nearest)
        text_add(out, "'%s'", nearest);
    return known || found || nearest;
}

static int bad_suffix(enum unit unit, const char *text, const char *suffix, struct err *err)
{
    if (!*suffix)
        return err_add(err, "%s needs a unit, for example %s", units[unit].noun,
                       units[unit].example);
    if (unit == UNIT_NONE)
        return err_add(err, "'%s' is not a plain number: no unit belongs here", text);
    AUTORELEASE(text) struct text near = {0};
    bool any = suggest(&near, unit, suffix);
    return err_add(err, "'%s' is not a unit of %s%s%s%s", suffix, units[unit].noun,
                   any ? "; did you mean " : ", which is written like ",
                   any ? near.data : units[unit].example, any ? "?" : "");
}

int unit_parse(enum unit unit, const char *text, double *value, struct err *err)
{
    double number;
    const char *rest = read_number(text, &number);
    if (!rest)
        return err_add(err, "'%s' is not %s, for example %s", text, units[unit].noun,
                       units[unit].example);
    rest += strspn(rest, " ");
    const struct suffix *suffix = find_suffix(unit, rest);
    if (!suffix)
        return bad_suffix(unit, text, rest, err);
    double result = number * suffix->multiply / suffix->divide;
    if (!isfinite(result))
        return err_add(err, "'%s' is too large for a number", text);
    *value = result;
    return 0;
}

static bool wants_to_print(const struct suffix *suffix, double size)
{
    if (suffix->print_from != BINARY)
        return size >= suffix->print_from;
    return fmod(size, suffix->multiply) == 0 && size >= suffix->multiply &&
           size < 1024 * suffix->multiply;
}

/* The last row that fits the value, else the first of the unit. */
static const struct suffix *printed_suffix(enum unit unit, double size)
{
    const struct suffix *chosen = NULL;
    for (int32_t i = 0; i < SUFFIX_COUNT; i++)
        if (suffixes[i].unit == unit && (!chosen || wants_to_print(&suffixes[i], size)))
            chosen = &suffixes[i];
    return chosen;
}

const char *unit_write(char text[UNIT_ROOM], enum unit unit, double value)
{
    if (isnan(value))
        return "-";
    const struct suffix *suffix = printed_suffix(unit, fabs(value));
    double number = value * suffix->divide / suffix->multiply;
    bool long_whole = fabs(number) >= 1e4 && fabs(number) < 1e15;
    snprintf(text, UNIT_ROOM, long_whole ? "%.0f%s%s" : "%.4g%s%s", number,
             *suffix->name ? " " : "", suffix->name);
    return text;
}

const char *unit_write_likely(char text[UNIT_ROOM], enum unit unit, double value, double centre,
                              double low, double high)
{
    if (isnan(value) || !(high > low) || !(fabs(centre) > 0) || isinf(high - low))
        return unit_write(text, unit, value);
    const struct suffix *suffix = printed_suffix(unit, fabs(centre));
    double scale = suffix->divide / suffix->multiply, number = value * scale;
    double meaningful = floor(log10((high - low) * scale / 20));
    double precise = floor(log10(fabs(centre) * scale)) - 3;
    double step = pow(10, fmax(meaningful, precise));
    int decimals = step < 1 ? (int)-fmax(meaningful, precise) : 0;
    snprintf(text, UNIT_ROOM, "%.*f%s%s", decimals, round(number / step) * step,
             *suffix->name ? " " : "", suffix->name);
    return text;
}

bool unit_follows(const char *text)
{
    for (int32_t i = 0; i < SUFFIX_COUNT; i++) {
        size_t length = strlen(suffixes[i].name);
        if (length && strncmp(text, suffixes[i].name, length) == 0 &&
            !isalnum((unsigned char)text[length]) && text[length] != '/')
            return true;
    }
    return false;
}

bool unit_allows_bare(enum unit unit)
{
    return find_suffix(unit, "") != NULL;
}

void unit_pattern(struct text *out, enum unit unit)
{
    text_add(out, "^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)? *(");
    const char *separator = "";
    for (int32_t i = 0; i < SUFFIX_COUNT; i++) {
        if (suffixes[i].unit != unit || find_suffix(unit, suffixes[i].name) != &suffixes[i])
            continue;
        text_add(out, "%s%s", separator, suffixes[i].name);
        separator = "|";
    }
    text_add(out, ")$");
}

/* ---- number formats ---- */

const char *const dtype_names[] = {"fp32", "fp16", "bf16", NULL};
static_assert(ARRAY_SIZE(dtype_names) == DTYPE_COUNT + 1, "one name per dtype");

const char *const product_names[] = {"compute", "fp8", "fp4", NULL};
static_assert(ARRAY_SIZE(product_names) == PRODUCTS_COUNT + 1, "one name each");

int32_t dtype_size(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 4 : 2;
}
