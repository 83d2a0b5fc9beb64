#include "core/backend/trace.h"

#include "core/base/base.h"

static const char magic[] = "foretrain-trace 1", magic_raw[] = "foretrain-trace raw";

void trace_add(struct trace *trace, struct span span)
{
    BASE_NEXT(trace->span, trace->span_count) = span;
}

/* A back end may have set the number of iterations before it has the first end. */
static void make_room(struct trace *trace, int32_t iterations)
{
    int32_t known = trace->iteration_end ? trace->iterations : 0;
    if (iterations < trace->iterations)
        iterations = trace->iterations;
    if (known >= iterations)
        return;
    int64_t capacity = 0;
    trace->iteration_end =
        base_grow(trace->iteration_end, iterations, &capacity, sizeof(*trace->iteration_end));
    for (int32_t i = known; i < iterations; i++)
        trace->iteration_end[i] = 0;
    trace->iterations = iterations;
}

void trace_finish(struct trace *trace, int32_t iteration, double time)
{
    assert(iteration >= 0);
    make_room(trace, iteration + 1);
    if (trace->iteration_end[iteration] < time)
        trace->iteration_end[iteration] = time;
}

double trace_step_time(const struct trace *trace)
{
    assert(trace->iterations > 0 && trace->iteration_end);
    const double *last = &trace->iteration_end[trace->iterations - 1];
    return trace->iterations > 1 ? last[0] - last[-1] : last[0];
}

int trace_write(FILE *file, const struct trace *trace, bool raw, struct err *err)
{
    assert(trace->iterations == 0 || trace->iteration_end);
    fprintf(file, "%s\nbackend %s\ngrain %s\n", raw ? magic_raw : magic, trace->backend,
            trace->grain);
    fprintf(file, "schedule_hash %" PRIu64 "\n", trace->schedule_hash);
    fprintf(file, "ranks %d\nentities %d\n", trace->ranks, trace->entities);
    fprintf(file, "messages %" PRId64 "\niterations %d\n", trace->messages, trace->iterations);
    for (int32_t i = 0; i < trace->iterations; i++)
        fprintf(file, "iteration_end %.17g\n", trace->iteration_end[i]);
    fprintf(file, "spans %" PRId64 "\n", trace->span_count);
    if (raw)
        fwrite(trace->span, sizeof(*trace->span), (size_t)trace->span_count, file);
    for (int64_t i = 0; i < trace->span_count && !raw; i++) {
        const struct span *s = &trace->span[i];
        fprintf(file, "%d %d %d %.17g %.17g\n", s->iteration, s->rank, s->step, s->begin, s->end);
    }
    if (fflush(file) || ferror(file))
        return err_add_code(err, 74, "cannot write the trace: %s", strerror(errno));
    return 0;
}

/* One line at a time; `at` is the part not yet read. */
struct reader {
    FILE *file;
    const char *name;
    char *line;
    size_t room;
    char *at;
    int64_t number;
    struct err *err;
};

static int refuse(struct reader *reader, const char *expected)
{
    return err_add_code(reader->err, 65, "%s:%" PRId64 ": not the spans of a run: expected %s",
                        reader->name, reader->number, expected);
}

static int next_line(struct reader *reader, const char *expected)
{
    reader->number++;
    ssize_t length = getline(&reader->line, &reader->room, reader->file);
    if (length <= 0 || reader->line[length - 1] != '\n' || strlen(reader->line) != (size_t)length)
        return refuse(reader, expected);
    reader->line[length - 1] = '\0';
    reader->at = reader->line;
    return 0;
}

/* The next line, up to the value after "key ". */
static int next_key(struct reader *reader, const char *key)
{
    size_t length = strlen(key);
    if (next_line(reader, key))
        return -1;
    if (strncmp(reader->line, key, length) != 0 || reader->line[length] != ' ')
        return refuse(reader, key);
    reader->at = reader->line + length + 1;
    return 0;
}

/* strtod() and its kind skip blanks, which trace_write() never writes. */
static bool starts_number(const char *at)
{
    return *at == '-' || (*at >= '0' && *at <= '9');
}

/* Accept what was parsed up to @end when a separator follows. */
static bool advance(struct reader *reader, char *end, char separator)
{
    if (*end != separator || errno)
        return false;
    reader->at = end + (separator != '\0');
    return true;
}

static bool take_integer(struct reader *reader, char separator, int64_t max, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    if (!starts_number(reader->at))
        return false;
    *value = strtoll(reader->at, &end, 10);
    return *value >= 0 && *value <= max && advance(reader, end, separator);
}

static bool take_time(struct reader *reader, char separator, double *value)
{
    char *end = NULL;
    if (!starts_number(reader->at))
        return false;
    *value = strtod(reader->at, &end);
    errno = 0; /* a denormal is no error */
    return isfinite(*value) && *value >= 0 && advance(reader, end, separator);
}

static int read_word(struct reader *reader, const char *key, char word[16])
{
    if (next_key(reader, key))
        return -1;
    size_t length = strlen(reader->at);
    if (length == 0 || length >= 16 || strpbrk(reader->at, " \t\r"))
        return refuse(reader, "a word of at most 15 letters");
    memcpy(word, reader->at, length + 1);
    return 0;
}

static int read_count(struct reader *reader, const char *key, int64_t max, int64_t *value)
{
    if (next_key(reader, key))
        return -1;
    return take_integer(reader, '\0', max, value) ? 0 : refuse(reader, "a count");
}

static int read_small_count(struct reader *reader, const char *key, int32_t *value)
{
    int64_t wide;
    if (read_count(reader, key, INT32_MAX, &wide))
        return -1;
    *value = (int32_t)wide;
    return 0;
}

static int read_hash(struct reader *reader, uint64_t *hash)
{
    char *end = NULL;
    if (next_key(reader, "schedule_hash"))
        return -1;
    if (*reader->at == '-' || !starts_number(reader->at))
        return refuse(reader, "a hash");
    errno = 0;
    *hash = strtoull(reader->at, &end, 10);
    return advance(reader, end, '\0') ? 0 : refuse(reader, "a hash");
}

static int read_ends(struct reader *reader, struct trace *trace)
{
    int32_t iterations;
    if (read_small_count(reader, "iterations", &iterations))
        return -1;
    for (int32_t i = 0; i < iterations; i++) {
        double end;
        if (next_key(reader, "iteration_end"))
            return -1;
        if (!take_time(reader, '\0', &end))
            return refuse(reader, "seconds");
        trace_finish(trace, i, end);
    }
    return 0;
}

static bool take_span(struct reader *reader, struct span *span)
{
    int64_t iteration, rank, step;
    if (!take_integer(reader, ' ', INT32_MAX, &iteration) ||
        !take_integer(reader, ' ', INT32_MAX, &rank) ||
        !take_integer(reader, ' ', INT32_MAX, &step) || !take_time(reader, ' ', &span->begin) ||
        !take_time(reader, '\0', &span->end))
        return false;
    span->iteration = (int32_t)iteration;
    span->rank = (int32_t)rank;
    span->step = (int32_t)step;
    return true;
}

static int read_span(struct reader *reader, struct trace *trace, bool raw)
{
    struct span span;
    const char *expected = "iteration, rank, step, begin and end of a span";
    if (!raw && next_line(reader, expected))
        return -1;
    bool whole = raw ? fread(&span, sizeof(span), 1, reader->file) == 1 : take_span(reader, &span);
    if (!whole || span.iteration < 0 || span.iteration >= trace->iterations || span.rank < 0 ||
        span.rank >= trace->ranks || span.step < 0 || !(span.begin >= 0) ||
        !(span.end >= span.begin) || isinf(span.end))
        return refuse(reader, expected);
    trace_add(trace, span);
    return 0;
}

static int read_all(struct reader *reader, struct trace *trace)
{
    int64_t spans;
    if (next_line(reader, magic))
        return -1;
    bool raw = !strcmp(reader->line, magic_raw);
    if (!raw && strcmp(reader->line, magic) != 0)
        return refuse(reader, magic);
    if (read_word(reader, "backend", trace->backend) || read_word(reader, "grain", trace->grain) ||
        read_hash(reader, &trace->schedule_hash) ||
        read_small_count(reader, "ranks", &trace->ranks) ||
        read_small_count(reader, "entities", &trace->entities) ||
        read_count(reader, "messages", INT64_MAX, &trace->messages) || read_ends(reader, trace) ||
        read_count(reader, "spans", INT64_MAX, &spans))
        return -1;
    for (int64_t i = 0; i < spans; i++)
        if (read_span(reader, trace, raw))
            return -1;
    return 0;
}

int trace_read(FILE *file, const char *name, struct trace *trace, struct err *err)
{
    struct reader reader = {.file = file, .name = name, .err = err};
    int status = read_all(&reader, trace);
    free(reader.line);
    if (status)
        trace_release(trace);
    return status;
}

RELEASE(trace, it->iteration_end, it->span)
