#include <string.h>

#include "app/page/chart.h"

enum {
    WIDE = 8,   /* pixels of a line of the grid */
    ROW = 32,   /* from one to the next */
    HEAD = 34,  /* above the rows: the names of columns */
    BOX = 16,   /* pixels of a box */
    LINE = 52,  /* from one line of boxes to the next */
    ACROSS = 3, /* boxes in a line: "node1087" fits on a telephone */
    LABEL = 18, /* what stands above a box, or a line of boxes */
};

static const double level[] = {0.1, 0.25, 0.5, 0.75}; /* of a step */
static const char *const level_words[] = {"below 10 % of the step", "10 to 25 %", "25 to 50 %",
                                          "50 to 75 %", "more"};

enum { LEVELS = ARRAY_SIZE(level_words) };

static int level_of(double share)
{
    int i = 0;
    while (i < LEVELS - 1 && share >= level[i])
        i++;
    return i;
}

static void add_legend(struct page *page)
{
    html_add(&page->body, "<ul class=\"legend\">\n");
    for (int i = 0; i < LEVELS; i++) {
        html_add(&page->body,
                 "<li><svg aria-hidden=\"true\"><rect class=\"c2 load l%d\" width=\"100%%\" "
                 "height=\"100%%\"/></svg>%s</li>\n",
                 i, level_words[i]);
    }
    html_add(&page->body, "</ul>\n");
}

/* The end of a rectangle whose place and size are there. */
static void add_load(struct html *out, const struct json *row)
{
    double share = html_number(row, "share", -1), alike = html_number(row, "alike", -1);
    html_add(out, " class=\"c2 load l%d\" data-key=\"share\"", level_of(share));
    html_value(out, share);
    html_add(out, "><title>%s", html_word(row, "name"));
    if (alike > 1)
        html_add(out, " and %.0f more", alike - 1);
    html_add(out, ": busy %s, %s of the step</title></rect>\n",
             unit_text(UNIT_SECONDS, html_number(row, "busy_s", -1)),
             unit_text(UNIT_FRACTION, share));
}

static void add_alike(struct html *out, const struct json *row)
{
    double alike = html_number(row, "alike", -1);
    if (alike > 1)
        html_add(out, "\303\227%.0f", alike); /* a multiplication sign */
}

static int64_t count_part(const struct json *rows, const char *part)
{
    int64_t count = 0;
    for (int64_t i = 0; i < json_count_items(rows); i++)
        count += !strcmp(html_word(json_item(rows, i), "part"), part);
    return count;
}

/* Columns from top to bottom, rows across.  @return the height. */
static double add_grid(struct html *out, const struct json *rows)
{
    int64_t across = count_part(rows, "column"), down = count_part(rows, "row"), i = 0, k = 0;
    double height = HEAD + (double)(down > 0 ? down : 1) * ROW;
    if (across + down == 0)
        return 0;
    if (across > 0)
        html_add(out, "<text x=\"-57\" y=\"12\">column</text>\n");
    for (int64_t j = 0; j < json_count_items(rows); j++) {
        const struct json *row = json_item(rows, j);
        const char *name = html_word(row, "name");
        if (!strcmp(html_word(row, "part"), "column")) {
            double x = 100 * ((double)i++ + 0.5) / (double)across;
            html_add(out,
                     "<text class=\"mid\" x=\"%.3f%%\" y=\"12\">%s</text><text class=\"soft mid\" "
                     "x=\"%.3f%%\" y=\"27\">",
                     x, name + strlen("column "), x);
            add_alike(out, row);
            html_add(out,
                     "</text><rect x=\"%.3f%%\" y=\"%d\" width=\"%d\" height=\"%.0f\" "
                     "transform=\"translate(%d)\"",
                     x, HEAD, WIDE, height - HEAD, -WIDE / 2);
            add_load(out, row);
        } else if (!strcmp(html_word(row, "part"), "row")) {
            double y = HEAD + ((double)k++ + 0.5) * ROW;
            html_add(out,
                     "<text x=\"-57\" y=\"%.0f\">%s</text><text class=\"soft\" x=\"-57\" "
                     "y=\"%.0f\">",
                     y + 1, name, y + 15);
            add_alike(out, row);
            html_add(out, "</text><rect y=\"%.0f\" width=\"100%%\" height=\"%d\"", y - WIDE / 2,
                     WIDE);
            add_load(out, row);
        }
    }
    return height;
}

/* One line of boxes after the other.  @return where the next part begins. */
static double add_boxes(struct html *out, const struct json *rows, const char *part, double y)
{
    int64_t count = count_part(rows, part), done = 0;
    html_add(out, "<text class=\"soft\" x=\"-57\" y=\"%.0f\">%s</text>\n", y + LABEL, part);
    y += LABEL + 4;
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        if (strcmp(html_word(row, "part"), part) != 0)
            continue;
        double column = (double)(done % ACROSS), top = y + (double)(done / ACROSS) * LINE;
        done++;
        html_add(out,
                 "<svg x=\"%.3f%%\" y=\"%.0f\" width=\"%.3f%%\" height=\"%d\"><text "
                 "y=\"14\">%s</text><text class=\"soft\" y=\"%d\">",
                 100 * column / ACROSS, top, 96. / ACROSS, LINE, html_word(row, "name"),
                 LABEL + BOX + 13);
        add_alike(out, row);
        html_add(out, "</text><rect y=\"%d\" width=\"100%%\" height=\"%d\"", LABEL, BOX);
        add_load(out, row);
        html_add(out, "</svg>\n");
    }
    return y + (double)((count + ACROSS - 1) / ACROSS) * LINE;
}

void chart_map(struct page *page, struct chart_words words, const struct json *rows)
{
    AUTORELEASE(html) struct html body = {0};
    double height = add_grid(&body, rows);
    const char *before = "";
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const char *part = html_word(json_item(rows, i), "part");
        if (strcmp(part, "row") && strcmp(part, "column") && strcmp(part, before))
            height = add_boxes(&body, rows, part, height);
        before = part;
    }
    chart_figure(page);
    add_legend(page);
    chart_begin(page, words, "axes", height);
    html_append(&page->body, &body);
    chart_end(page);
}
