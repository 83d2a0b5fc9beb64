#include "app/explore/axes.h"

#include "app/job/job.h"
#include "core/config/yaml.h"

/* One axis while it is read. */
struct reading {
    const char *option; /* that messages name */
    const char *text;   /* the whole "cluster.nodes=8..1024:x2" */
    struct err *err;
};

/* A message about @length characters from @at on. */
static int refuse(const struct reading *r, const char *at, size_t length, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse(const struct reading *r, const char *at, size_t length, const char *format, ...)
{
    struct origin origin = {.file = r->option,
                            .source = r->text,
                            .column = (int32_t)(at - r->text) + 1,
                            .width = length > 0 ? (int32_t)length : 1};
    va_list list;
    va_start(list, format);
    AUTOFREE char *message = base_format_list(format, list);
    va_end(list);
    bool first = r->err->count == 0;
    origin_error(&origin, r->err, "%s", message);
    return first ? err_exit(r->err, 64) : -1;
}

/* The end of a value: a comma outside brackets and quotes, or the end of the text. */
static const char *value_end(const char *at)
{
    int depth = 0;
    char quote = '\0';
    for (; *at && (*at != ',' || depth > 0 || quote); at++) {
        if (quote)
            quote = *at == quote ? '\0' : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else if (strchr("[{(", *at))
            depth++;
        else if (strchr("]})", *at) && depth > 0)
            depth--;
    }
    return at;
}

/* "16us" up to @end: the number, and its unit as it is written. */
struct amount {
    double number;
    const char *unit;
    size_t unit_length;
};

static bool read_amount(const char *at, const char *end, struct amount *amount)
{
    char *after, *own = strndup(at, (size_t)(end - at)); /* "8." is a number, too */
    amount->number = strtod(own, &after);
    bool fits = after > own && isfinite(amount->number) && !strpbrk(after, "0123456789.:,");
    amount->unit = at + (after - own) + strspn(after, " ");
    amount->unit_length = (size_t)(end - amount->unit);
    free(own);
    return fits;
}

static bool same_unit(const struct amount *a, const struct amount *b)
{
    return a->unit_length == b->unit_length && !strncmp(a->unit, b->unit, a->unit_length);
}

/* "8..1024:x2", taken apart. */
struct steps {
    struct amount first, last, step;
    bool times;
};

static const char range_help[] = "a range is written as 8..1024:x2 (times 2), 16..64:16 (plus 16) "
                                 "or 1..5; units as in 2us..16us:x2";

static int read_range(const struct reading *r, const char *at, const char *end, struct steps *range)
{
    const char *dots = strstr(at, ".."), *colon = memchr(dots, ':', (size_t)(end - dots));
    const char *last = dots + 2, *stop = colon ? colon : end;
    size_t length = (size_t)(end - at);
    range->times = colon && colon[1] == 'x';
    range->step = (struct amount){.number = 1};
    if (*last == '.' || !read_amount(at, dots, &range->first) ||
        !read_amount(last, stop, &range->last) ||
        (colon && !read_amount(colon + 1 + range->times, end, &range->step)))
        return refuse(r, at, length, "%s", range_help);
    if (!range->first.unit_length) /* "2..16us" */
        range->first =
            (struct amount){range->first.number, range->last.unit, range->last.unit_length};
    if (!same_unit(&range->first, &range->last) ||
        (range->step.unit_length && (range->times || !same_unit(&range->step, &range->first))))
        return refuse(r, at, length, "all parts of a range need the same unit, as in 2us..16us:x2");
    if (range->first.number > range->last.number)
        return refuse(r, at, length, "the smaller end comes first, or use a list: 64,32,16");
    if (range->times ? !(range->step.number > 1) || !(range->first.number > 0)
                     : !(range->step.number > 0))
        return refuse(r, at, length, "this range never ends; %s", range_help);
    return 0;
}

static int add_range(const struct reading *r, const char *at, const char *end, struct texts *value)
{
    struct steps range;
    if (read_range(r, at, end, &range))
        return -1;
    double first = range.first.number, step = range.step.number;
    double last = range.last.number + 1e-9 * fabs(range.last.number); /* 0.1 + 2 * 0.1 */
    for (int32_t i = 0;; i++) {
        double number = range.times ? first * pow(step, i) : first + i * step;
        if (number > last)
            return 0;
        if (value->count >= AXES_POINTS_MOST)
            return refuse(r, at, (size_t)(end - at), "these are more than %d values",
                          AXES_POINTS_MOST);
        texts_add(value, "%.15g%s%.*s", number, range.first.unit_length ? " " : "",
                  (int)range.first.unit_length, range.first.unit);
    }
}

/* Two dots after a number: what begins with a digit and has them is nothing else. */
static bool is_range(const char *at, const char *end)
{
    const char *dots = strstr(at, "..");
    return dots && dots < end && (isdigit((unsigned char)*at) || strchr("+-", *at));
}

static int read_values(const struct reading *r, const char *at, struct texts *value)
{
    for (;; at++) {
        const char *end = value_end(at);
        if (end == at)
            return refuse(r, at, 1, "a value is missing; a list is written as torus2d,ring");
        char *text = strndup(at, (size_t)(end - at));
        int failed = 0;
        if (is_range(at, end))
            failed = add_range(r, at, end, value);
        else
            texts_add(value, "%s", text);
        free(text);
        if (failed || !*end)
            return failed;
        at = end;
    }
}

/* A value that stands twice would be two points that nothing tells apart. */
static int check_distinct(const struct reading *r, const struct axes *axes,
                          const struct scanned *axis)
{
    size_t length = strlen(axis->key);
    for (int32_t i = 0; i + 1 < axes->count; i++)
        if (!strcmp(axes->item[i].key, axis->key))
            return refuse(r, r->text, length,
                          "key '%s' is scanned twice: give all its values in one list", axis->key);
    for (int32_t i = 0; i < axis->value.count && i < 10000; i++)
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(axis->value.item[i], axis->value.item[k]))
                return refuse(r, r->text + length + 1, strlen(r->text + length + 1),
                              "value '%s' stands here twice: once is enough", axis->value.item[i]);
    return 0;
}

static int read_axis(const struct reading *r, struct axes *axes)
{
    size_t length = strcspn(r->text, "=");
    if (length == 0 || !r->text[length])
        return refuse(r, r->text, strlen(r->text),
                      "key=values is expected, as in cluster.nodes=8..1024:x2");
    struct scanned *axis = &BASE_NEXT(axes->item, axes->count);
    *axis = (struct scanned){.key = strndup(r->text, length)};
    if (read_values(r, r->text + length + 1, &axis->value) || check_distinct(r, axes, axis))
        return -1;
    axes->points *= axis->value.count;
    if (axes->points > AXES_POINTS_MOST)
        return refuse(r, r->text, strlen(r->text),
                      "with this axis the sweep has more than %d points; a larger step has fewer",
                      AXES_POINTS_MOST);
    return 0;
}

int axes_read(struct axes *axes, const char *option, const struct texts *given, struct err *err)
{
    axes->points = 1;
    for (int32_t i = 0; i < given->count; i++)
        if (read_axis(&(struct reading){option, given->item[i], err}, axes))
            return -1;
    return 0;
}

static int check_value(const char *key, const char *value, struct err *err)
{
    AUTORELEASE(err) struct err why = {0};
    if (!job_check_value(key, value, &why))
        return 0;
    bool meant_as_range = isdigit((unsigned char)*value) && strpbrk(value, ":-");
    return err_usage(err, "--scan or --list %s=%s: %s%s%s", key, value, err_reason(&why),
                     meant_as_range ? "; " : "", meant_as_range ? range_help : "");
}

int axes_check(const struct axes *axes, struct err *err)
{
    for (int32_t i = 0; i < axes->count; i++)
        for (int32_t k = 0; k < axes->item[i].value.count; k++)
            if (check_value(axes->item[i].key, axes->item[i].value.item[k], err))
                return -1;
    return 0;
}

int64_t axes_stride(const struct axes *axes, int32_t axis)
{
    int64_t stride = 1;
    for (int32_t i = axes->count - 1; i > axis; i--)
        stride *= axes->item[i].value.count;
    return stride;
}

const char *axes_value(const struct axes *axes, int64_t point, int32_t axis)
{
    const struct texts *value = &axes->item[axis].value;
    return value->item[point / axes_stride(axes, axis) % value->count];
}

void axes_assign(const struct axes *axes, int64_t point, struct texts *set)
{
    for (int32_t i = 0; i < axes->count; i++)
        texts_add(set, "%s=%s", axes->item[i].key, axes_value(axes, point, i));
}

void axes_release(struct axes *axes)
{
    for (int32_t i = 0; i < axes->count; i++) {
        free(axes->item[i].key);
        texts_release(&axes->item[i].value);
    }
    free(axes->item);
    *axes = (struct axes){0};
}
