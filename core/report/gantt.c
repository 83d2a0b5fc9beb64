#include "core/report/gantt.h"

enum {
    LABEL = 12,   /* "bucket 123", and two columns before it */
    BUCKETS = 24, /* with a line each; more have one together */
    FIGURE = 12,  /* "123.45 ms" */
};

/* Of what is not an exchange. */
static char letter_of(const struct step *step)
{
    static const char computed[] = {[COMPUTE_FORWARD] = 'f',
                                    [COMPUTE_LOSS] = 'f',
                                    [COMPUTE_BACKWARD_DATA] = 'b',
                                    [COMPUTE_BACKWARD_FILTER] = 'b',
                                    [COMPUTE_OPTIMIZER] = 'o'};
    return step->kind == STEP_INPUT    ? 'i'
           : step->kind == STEP_REPEAT ? '~'
                                       : computed[step->compute.op];
}

/* The line in the making: @columns letters for the seconds from list->from to list->to. */
struct line {
    const struct report_exchanges *list;
    int32_t columns;
    double second; /* [columns] */
    char *letter;
};

/* Columns @first to @last - 1 are nearest to @span; at least one. */
static void find_columns(const struct line *line, const struct span *span, int32_t *first,
                         int32_t *last)
{
    double most = line->columns;
    double from = fmax(0, (span->begin - line->list->from) * line->second);
    double to = fmin(most, (span->end - line->list->from) * line->second);
    *first = (int32_t)(from + 0.5);
    *last = (int32_t)(to + 0.5);
    if (*first < *last)
        return;
    *first = (int32_t)fmin(most - 1, (from + to) / 2);
    *last = *first + 1;
}

static void draw(struct line *line, const struct span *span, char letter)
{
    int32_t first, last;
    find_columns(line, span, &first, &last);
    memset(line->letter + first, letter, (size_t)(last - first));
}

/* Capitals for the columns in which more than half of it is exposed. */
static void draw_exchange(struct line *line, const struct span *span)
{
    static const char letters[COLLECTIVE_OP_COUNT] = {'a', 'r', 'g', 's', 't'};
    char letter = letters[line->list->schedule->step[span->step].collective.op];
    int32_t first, last;
    find_columns(line, span, &first, &last);
    for (int32_t i = first; i < last; i++) {
        struct span part = *span;
        part.begin = fmax(span->begin, line->list->from + i / line->second);
        part.end = fmin(span->end, line->list->from + (i + 1) / line->second);
        bool exposed = exchanges_exposed(line->list, &part) > (part.end - part.begin) / 2;
        line->letter[i] = (char)(exposed ? toupper(letter) : letter);
    }
}

/* Without blanks at the end. */
static void print_letters(struct text *out, const char *label, const struct line *line)
{
    int32_t columns = line->columns;
    while (columns > 0 && line->letter[columns - 1] == ' ')
        columns--;
    text_add(out, "  %-*s%.*s\n", LABEL - 2, label, columns, line->letter);
}

/* What the first traced rank of @stage computes. */
static void print_stage(struct text *out, struct line *line, int32_t stage)
{
    const struct report_exchanges *list = line->list;
    int32_t rank = -1;
    memset(line->letter, ' ', (size_t)line->columns);
    for (int64_t i = 0; i < list->trace->span_count; i++) {
        const struct span *span = &list->trace->span[i];
        const struct step *step = &list->schedule->step[span->step];
        rank = rank < 0 && schedule_stage(list->schedule, span->rank) == stage ? span->rank : rank;
        if (span->rank == rank && step->lane == LANE_COMPUTE && span->end > list->from &&
            span->begin < list->to)
            draw(line, span, letter_of(step));
    }
    AUTOFREE char *label = base_format("stage %d", stage);
    print_letters(out, label, line);
}

static void print_lane(struct text *out, struct line *line, enum lane lane)
{
    const struct report_exchanges *list = line->list;
    bool works = false;
    memset(line->letter, ' ', (size_t)line->columns);
    for (int64_t i = 0; i < list->span_count; i++) {
        const struct step *step = &list->schedule->step[list->span[i].step];
        if (step->lane != lane)
            continue;
        works = true;
        draw(line, &list->span[i], letter_of(step));
    }
    if (works)
        print_letters(out, schedule_lane(list->schedule, lane), line);
}

/* Exchanges inside of layers are of no bucket: INT32_MAX. */
static int32_t bucket_of(const struct step *step)
{
    return step->lane == LANE_ROW || step->lane == LANE_COLUMN ? step->collective.bucket
                                                               : INT32_MAX;
}

/* Of the buckets @first to @last. */
static void print_buckets(struct text *out, struct line *line, const char *label, int32_t first,
                          int32_t last)
{
    const struct report_exchanges *list = line->list;
    double exposed = 0;
    bool works = false;
    memset(line->letter, ' ', (size_t)line->columns);
    for (int32_t i = 0; i < list->count; i++) {
        const struct report_exchange *e = &list->exchange[i];
        if (bucket_of(e->step) < first || bucket_of(e->step) > last)
            continue;
        works = true;
        exposed += e->exposed;
        if (e->ready < e->begin)
            draw(line, &(struct span){.begin = list->from + e->ready, .end = list->from + e->begin},
                 '.');
    }
    for (int64_t i = 0; i < list->span_count; i++) {
        const struct step *step = &list->schedule->step[list->span[i].step];
        if (step->kind == STEP_COLLECTIVE && step->lane < LANE_SEND && bucket_of(step) >= first &&
            bucket_of(step) <= last)
            draw_exchange(line, &list->span[i]);
    }
    if (!works)
        return;
    text_add(out, "  %-*s%.*s", LABEL - 2, label, line->columns, line->letter);
    text_add(out, "%*s", FIGURE, unit_text(UNIT_SECONDS, exposed));
    text_add(out, "\n");
}

/* Round times, each where its first letter stands, and the end. */
static void print_times(struct text *out, const struct line *line)
{
    double seconds = line->list->to - line->list->from, least = 10 / line->second;
    double step = pow(10, floor(log10(least)));
    AUTOFREE char *end = base_copy(unit_text(UNIT_SECONDS, seconds));
    step *= step >= least ? 1 : 2 * step >= least ? 2 : 5 * step >= least ? 5 : 10;
    int32_t column = 0, last = line->columns - (int32_t)strlen(end);
    text_add(out, "%*s", LABEL, "");
    for (int32_t i = 0; (int32_t)(i * step * line->second) + 8 <= last; i++) {
        int32_t at = (int32_t)(i * step * line->second);
        const char *words = unit_text(UNIT_SECONDS, i * step);
        text_add(out, "%*s%s", at - column, "", words);
        column = at + (int32_t)strlen(words);
    }
    text_add(out, "%*s%s%*s\n", last - column, "", end, FIGURE, "exposed");
}

void gantt_print(struct text *out, const struct report_exchanges *list, int32_t width)
{
    struct line line = {list, width - LABEL - FIGURE, 0, NULL};
    int32_t buckets = 0;
    line.second = line.columns / (list->to - list->from);
    line.letter = base_alloc(line.columns, 1);
    for (int32_t i = 0; i < list->count; i++)
        if (bucket_of(list->exchange[i].step) < INT32_MAX &&
            buckets <= bucket_of(list->exchange[i].step))
            buckets = bucket_of(list->exchange[i].step) + 1;
    print_times(out, &line);
    print_lane(out, &line, LANE_INPUT);
    int32_t stages = schedule_stages(list->schedule);
    for (int32_t stage = 0; stage < stages && stages > 1; stage++)
        print_stage(out, &line, stage);
    if (stages == 1)
        print_lane(out, &line, LANE_COMPUTE);
    print_buckets(out, &line, "in layers", INT32_MAX, INT32_MAX);
    if (buckets > BUCKETS)
        print_buckets(out, &line, "buckets", 0, buckets - 1);
    for (int32_t bucket = 0; bucket < buckets && buckets <= BUCKETS; bucket++) {
        AUTOFREE char *label = base_format("bucket %d", bucket);
        print_buckets(out, &line, label, bucket, bucket);
    }
    text_add(out,
             "\n  f forward and loss, b backward, o optimizer, i input, ~ alike micro-batches\n"
             "  r reduce-scatter, a all-reduce, g all-gather; capitals: nothing hides it\n"
             "  . ready, waits for the buckets above; a letter is %s, and covers what is shorter\n",
             unit_text(UNIT_SECONDS, 1 / line.second));
    free(line.letter);
}
