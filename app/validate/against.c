#include "app/validate/against.h"

#include "core/base/columns.h"
#include "core/base/file.h"
#include "core/config/yaml.h"

/* The columns that count, by their names in answers and experiments. */
static const struct {
    const char *names[4], *help;
} roles[] = {{{"step_s", "predicted_s"}, "the predicted step"},
             {{"step_s_low", "predicted_s_low", "low_s"}, "the lower end of its 90 % interval"},
             {{"step_s_high", "predicted_s_high", "high_s"}, "the upper end of its 90 % interval"},
             {{"measured_s"}, "the step that was measured since, empty where none was"}};
enum { ROLES = ARRAY_SIZE(roles) };

/* A prediction that was measured. */
struct against_row {
    int32_t line;
    double step_s, measured_s, error;
    struct interval likely;
    bool inside;
};

/* The file, read cell by cell, and its score. */
struct against {
    struct origin origin;               /* of the cell */
    char *cell, *at, *begin;            /* the cell, what follows, and the line of that */
    int32_t line, columns, role[ROLES]; /* role: their columns from 1, or 0 */
    bool last;                          /* cell of its line */
    struct against_row *row;            /* (count) owned */
    int32_t count, unscored, inside;
    double median, most, bias, share, width, score;
};

COLUMNS(row_columns, NULL, struct against_row)
{
    COLUMN("line", line, .help = "line of the file");
    COLUMN("step_s", step_s, LIKELY(likely), .help = "predicted time of a training step");
    COLUMN("measured_s", measured_s, .help = "measured time of a training step");
    COLUMN("error", error, .help = "of the prediction, relative to the measurement");
    COLUMN("inside_interval", inside, .help = "the measured step is in the predicted interval");
}

SHARED_COLUMNS(against_columns, "against/1", struct against)
{
    COLUMN_ITEMS("rows", row, count, .table = &row_columns);
    COLUMN("scored", count, .help = "rows with a prediction, its interval and a measurement");
    COLUMN("unscored", unscored, .help = "rows that lack one of these");
    COLUMN("median_error", median, .help = "median of the errors without sign");
    COLUMN("p90_error", most, .help = "90th percentile of the errors without sign");
    COLUMN("median_signed_error", bias, .help = "median of the errors with sign");
    COLUMN("inside", inside, .help = "scored rows whose measured step is in the interval");
    COLUMN("inside_share", share, .help = "part of the scored rows that is inside");
    COLUMN("median_width", width, .help = "median of ln(high / low) of the intervals");
    COLUMN("interval_score", score,
           .help = "mean of ln(high / low) plus 20 times what ln(measured) misses the interval by");
}

/* As in RFC 4180, in place, without blanks around. */
static int read_cell(struct against *file, struct err *err)
{
    char c, *to = file->cell = file->at;
    bool quoted = *to == '"';
    file->origin.line = file->line;
    file->origin.column = (int32_t)(to - file->begin) + 1;
    file->at += quoted;
    do {
        c = *file->at++;
        if (c == '\n') {
            file->line++;
            file->begin = file->at;
        }
        quoted ^= c == '"';
        if (quoted || c != '"')
            *to++ = c;
    } while (c && (quoted || (c != ',' && c != '\n')));
    file->last = c == '\n';
    for (*--to = '\0'; to > file->cell && isspace((unsigned char)to[-1]);)
        *--to = '\0';
    file->cell += strspn(file->cell, " \t");
    return c ? 0
             : origin_error(&file->origin, err,
                            "the file ends in this cell: it was cut, its quote is not closed, or "
                            "the newline is missing at its end");
}

static int read_header(struct against *file, struct err *err)
{
    do {
        if (read_cell(file, err))
            return -1;
        file->columns++;
        for (int32_t i = 0; i < ROLES; i++) {
            if (base_find_word(file->cell, roles[i].names) < 0)
                continue;
            if (file->role[i])
                return origin_error(&file->origin, err, "'%s' is a second column of %s: remove one",
                                    file->cell, roles[i].help);
            file->role[i] = file->columns;
        }
    } while (!file->last);
    for (int32_t i = 0; i < ROLES; i++)
        if (!file->role[i])
            return origin_error(&file->origin, err,
                                "the columns, separated by commas, lack '%s': %s",
                                roles[i].names[0], roles[i].help);
    return 0;
}

static int read_row(struct against *file, struct err *err)
{
    struct against_row row = {file->line, NAN, NAN, NAN, {NAN, NAN}, false};
    double *const value[ROLES] = {&row.step_s, &row.likely.low, &row.likely.high, &row.measured_s};
    int32_t count = 0;
    do {
        AUTORELEASE(err) struct err why = {0};
        if (read_cell(file, err))
            return -1;
        count++;
        for (int32_t i = 0; i < ROLES; i++)
            if (count == file->role[i] && *file->cell &&
                (unit_parse(UNIT_NONE, file->cell, value[i], &why) || *value[i] <= 0))
                return origin_error(&file->origin, err,
                                    "'%s' is not a time in seconds, such as 0.25", file->cell);
    } while (!file->last);
    if (count == 1 && !*file->cell) /* an empty line */
        return 0;
    if (count != file->columns)
        return origin_error(
            &file->origin, err,
            "the row has %d cells, the header %d: it was cut, or a comma is not in quotes", count,
            file->columns);
    if (row.likely.low > row.likely.high)
        return origin_error(&file->origin, err, "the interval of this row ends before it begins");
    row.error = row.step_s / row.measured_s - 1;
    row.inside = row.likely.low <= row.measured_s && row.measured_s <= row.likely.high;
    bool whole = isfinite(row.error + row.likely.low + row.likely.high);
    file->unscored += !whole;
    if (whole)
        BASE_NEXT(file->row, file->count) = row;
    return 0;
}

/* Source: Gneiting and Raftery 2007, eq. 43, of the logarithm; 10 % may be outside. */
static void conclude(struct against *file)
{
    int32_t n = file->count;
    AUTOFREE double *size = base_alloc(3 * (int64_t)n, sizeof(*size));
    double *error = size + n, *width = error + n;
    for (int32_t i = 0; i < n; i++) {
        const struct against_row *row = &file->row[i];
        double beyond = fmax(row->likely.low / row->measured_s, row->measured_s / row->likely.high);
        size[i] = fabs(row->error);
        error[i] = row->error;
        width[i] = log(row->likely.high / row->likely.low);
        file->score += (width[i] + 20 * log(fmax(beyond, 1))) / n;
        file->inside += row->inside;
    }
    file->share = (double)file->inside / n;
    file->median = base_median(size, n);
    file->most = base_quantile(size, n, 0.9);
    file->bias = base_median(error, n);
    file->width = base_median(width, n);
}

int against_score(const char *path, bool json, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text content = {0};
    if (file_read(path, &content, err))
        return -1;
    char *begin = content.data + (strncmp(content.data, "\xef\xbb\xbf", 3) ? 0 : 3);
    struct against file = {
        .origin = {.file = path, .hidden = true}, .at = begin, .begin = begin, .line = 1};
    int failed = read_header(&file, err);
    while (!failed && file.at < content.data + content.length)
        failed = read_row(&file, err);
    if (!failed && !file.count)
        failed = origin_error(&file.origin, err,
                              "no row up to here has a prediction, its interval and a measurement");
    if (!failed) {
        conclude(&file);
        AUTORELEASE(json) struct json *all = answer_list(&against_columns, &file, 1);
        if (json) {
            answer_print(out, &against_columns, &file);
        } else {
            columns_print(out, "line, step_s~: predicted, measured_s, error, inside_interval",
                          json_get(json_item(all, 0), "rows"));
            text_add(out, "\n");
            columns_print(out,
                          "scored, unscored, median_error, p90_error: 90th percentile, "
                          "median_signed_error: with sign, inside: inside 90 %, inside_share: "
                          "share, median_width: width, interval_score",
                          all);
        }
    }
    free(file.row);
    return failed;
}
