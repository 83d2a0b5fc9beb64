#include <math.h>
#include <string.h>

#include "app/page/chart.h"

enum {
    LANE = 22, /* pixels from one to the next */
    PIECE = 16,
    HEAD = 22, /* the line that names a rank */
    LANES = 64 /* drawn at most */
};

static const struct chart_part kinds[] = {{"forward", "forward and loss", CHART_COMPUTE},
                                          {"backward", "backward", CHART_BACKWARD},
                                          {"optimizer", "optimizer", CHART_OTHER},
                                          {"world", "all-reduce", CHART_ROW},
                                          {"row", "all-reduce in rows", CHART_ROW},
                                          {"column", "all-reduce in columns", CHART_COLUMN},
                                          {"input", "input", CHART_INPUT},
                                          {NULL, NULL, 0}};

static enum chart_colour colour_of(const char *what)
{
    for (const struct chart_part *kind = kinds; kind->key; kind++)
        if (!strcmp(what, kind->key))
            return kind->colour;
    return CHART_OTHER;
}

/* Where each lane of each rank stands. */
struct lanes {
    double rank[LANES], y[LANES];
    const char *name[LANES]; /* borrowed */
    int32_t count;
    double height, seconds;
};

static int32_t lane_of(const struct lanes *lanes, const struct json *row)
{
    for (int32_t i = 0; i < lanes->count; i++)
        if (lanes->rank[i] == html_number(row, "rank", -1) &&
            !strcmp(lanes->name[i], html_word(row, "lane")))
            return i;
    return -1;
}

static struct lanes lay(const struct json *rows)
{
    struct lanes lanes = {.seconds = 0};
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        lanes.seconds = fmax(lanes.seconds, html_number(row, "end_s", -1));
        if (lane_of(&lanes, row) >= 0 || lanes.count == LANES)
            continue;
        int32_t k = lanes.count++;
        lanes.rank[k] = html_number(row, "rank", -1);
        lanes.name[k] = html_word(row, "lane");
        if (k == 0 || lanes.rank[k] != lanes.rank[k - 1])
            lanes.height += HEAD;
        lanes.y[k] = lanes.height;
        lanes.height += LANE;
    }
    return lanes;
}

static void add_tracks(struct html *out, const struct lanes *lanes)
{
    for (int32_t i = 0; i < lanes->count; i++)
        html_add(out, "<rect class=\"track\" y=\"%.0f\" width=\"100%%\" height=\"%d\"/>\n",
                 lanes->y[i], PIECE);
}

/* On paper of their own: page_js keeps them in sight while the pieces move below. */
static void add_names(struct html *out, const struct lanes *lanes)
{
    html_add(out,
             "<g class=\"names\"><rect class=\"paper\" x=\"-74\" width=\"74\" height=\"%.0f\"/>\n",
             lanes->height);
    for (int32_t i = 0; i < lanes->count; i++) {
        if (i == 0 || lanes->rank[i] != lanes->rank[i - 1])
            html_add(out, "<text x=\"-72\" y=\"%.0f\">rank %.0f</text>\n", lanes->y[i] - 7,
                     lanes->rank[i]);
        html_add(out, "<text class=\"soft end\" x=\"-6\" y=\"%.0f\">%s</text>\n", lanes->y[i] + 13,
                 lanes->name[i]);
    }
    html_add(out, "</g>\n");
}

static void add_ticks(struct html *out, const struct lanes *lanes)
{
    double tick[SCALE_TICKS];
    const struct axis_scale scale = {0, lanes->seconds, false, UNIT_SECONDS};
    int32_t ticks = scale_ticks(&scale, tick);
    html_add(out, "<g class=\"ticks\" data-seconds=\"%.17g\">\n", lanes->seconds);
    for (int32_t i = 0; i < ticks; i++) {
        double x = 100 * scale_at(&scale, tick[i]);
        html_add(out,
                 "<line class=\"rule\" x1=\"%.3f%%\" x2=\"%.3f%%\" y2=\"%.0f\"/><text class=\"soft "
                 "mid\" x=\"%.3f%%\" y=\"%.0f\">%s</text>\n",
                 x, x, lanes->height, x, lanes->height + 15, unit_text(UNIT_SECONDS, tick[i]));
    }
    html_add(out, "</g>\n");
}

static void add_piece(struct html *out, const struct lanes *lanes, const struct json *row)
{
    int32_t lane = lane_of(lanes, row);
    double begin = html_number(row, "begin_s", -1), end = html_number(row, "end_s", -1);
    double bucket = html_number(row, "bucket", -1);
    if (lane < 0)
        return;
    html_add(out, "<rect class=\"c%d\" x=\"%.4f%%\" y=\"%.0f\" width=\"%.4f%%\" height=\"%d\"",
             (int)colour_of(html_word(row, "what")), 100 * begin / lanes->seconds, lanes->y[lane],
             100 * (end - begin) / lanes->seconds, PIECE);
    if (bucket >= 0)
        html_add(out, " data-bucket=\"%.0f\"", bucket);
    html_add(out, " data-key=\"end_s\"");
    html_value(out, end);
    html_add(out, "><title>rank %.0f, %s", lanes->rank[lane], html_word(row, "name"));
    if (bucket >= 0)
        html_add(out, ", bucket %.0f", bucket);
    html_add(out, ": %s to %s</title></rect>\n", unit_text(UNIT_SECONDS, begin),
             unit_text(UNIT_SECONDS, end));
}

/* A line from the end of @row down to where its bucket goes on, in another lane. */
static void add_link(struct html *out, const struct lanes *lanes, const struct json *rows,
                     int64_t index)
{
    const struct json *row = json_item(rows, index), *next = NULL;
    double bucket = html_number(row, "bucket", -1), end = html_number(row, "end_s", -1);
    for (int64_t i = 0; i < json_count_items(rows) && bucket >= 0; i++) {
        const struct json *other = json_item(rows, i);
        double begin = html_number(other, "begin_s", -1);
        if (html_number(other, "bucket", -1) != bucket ||
            html_number(other, "rank", -1) != html_number(row, "rank", -1) ||
            begin < end - 1e-9 * lanes->seconds || lane_of(lanes, other) == lane_of(lanes, row))
            continue;
        if (!next || begin < html_number(next, "begin_s", -1))
            next = other;
    }
    int32_t from = lane_of(lanes, row), to = next ? lane_of(lanes, next) : -1;
    if (from < 0 || to < 0)
        return;
    html_add(out, "<line class=\"link\" x1=\"%.4f%%\" y1=\"%.0f\" x2=\"%.4f%%\" y2=\"%.0f\"/>\n",
             100 * end / lanes->seconds, lanes->y[from] + (from < to ? PIECE : 0),
             100 * html_number(next, "begin_s", -1) / lanes->seconds,
             lanes->y[to] + (from < to ? 0 : PIECE));
}

/* Of the kinds there are. */
static void add_legend(struct page *page, const struct json *rows)
{
    struct chart_part part[ARRAY_SIZE(kinds)] = {{0}};
    int32_t count = 0;
    for (const struct chart_part *kind = kinds; kind->key; kind++)
        for (int64_t i = 0; i < json_count_items(rows); i++)
            if (!strcmp(html_word(json_item(rows, i), "what"), kind->key)) {
                part[count++] = *kind;
                break;
            }
    chart_legend(page, part, false);
}

void chart_lanes(struct page *page, struct chart_words words, const struct json *rows)
{
    struct lanes lanes = lay(rows);
    struct html *out = &page->body;
    chart_figure(page);
    add_legend(page, rows);
    chart_begin(page, words, "axes lanes", lanes.height + 22);
    add_ticks(out, &lanes);
    add_tracks(out, &lanes);
    for (int64_t i = 0; i < json_count_items(rows); i++)
        add_piece(out, &lanes, json_item(rows, i));
    for (int64_t i = 0; i < json_count_items(rows); i++)
        add_link(out, &lanes, rows, i);
    add_names(out, &lanes);
    chart_end(page);
}
