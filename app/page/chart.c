#include "app/page/chart.h"

#include <inttypes.h>
#include <math.h>

enum {
    ROWS = 24,  /* of bars */
    PARTS = 12, /* of one */
    LABEL = 20, /* pixels of the line above a bar */
    BAR = 14,
    THIN = 9, /* one of several bars */
    GAP = 10,
};

void chart_figure(struct page *page)
{
    html_add(&page->body, "<figure>\n");
}

bool chart_wide(const struct json *rows, const char *key, double other)
{
    double least = other, most = other;
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        least = fmin(least, html_number(json_item(rows, i), key, -1)); /* which leave NAN out */
        most = fmax(most, html_number(json_item(rows, i), key, -1));
    }
    return least > 0 && most >= 8 * least;
}

void chart_begin(struct page *page, struct chart_words words, const char *class, double height)
{
    struct html *out = &page->body;
    int32_t number = ++page->pictures;
    html_add(out,
             "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Picture "
             "%" PRId32 "\">\n<svg class=\"chart %s\" height=\"%.0f\" role=\"img\" "
             "aria-labelledby=\"t%" PRId32 " d%" PRId32 "\">\n<title id=\"t%" PRId32
             "\">%s</title><desc id=\"d%" PRId32 "\">%s</desc>\n",
             number, class, height, number, number, number, words.title, number,
             words.about ? words.about : "The table below has the numbers.");
}

void chart_end(struct page *page)
{
    html_add(&page->body, "</svg></div>\n<p class=\"tip\" aria-hidden=\"true\"></p>\n</figure>\n");
}

void chart_legend(struct page *page, const struct chart_part *part, bool lines)
{
    struct html *out = &page->body;
    html_add(out, "<ul class=\"legend\">\n");
    for (; part->key; part++) {
        if (lines)
            html_add(out,
                     "<li><svg aria-hidden=\"true\"><line class=\"s%d\" x2=\"100%%\" y1=\"50%%\" "
                     "y2=\"50%%\"/></svg>",
                     (int)part->colour);
        else
            html_add(out,
                     "<li><svg aria-hidden=\"true\"><rect class=\"c%d\" width=\"100%%\" "
                     "height=\"100%%\"/></svg>",
                     (int)part->colour);
        html_add(out, "%s</li>\n", part->label);
    }
    html_add(out, "</ul>\n");
}

/* ---- bars ---- */

/* "1088 GPUs", or a text; the caller frees it. */
static char *label_of(const struct json *row, const char *key, const char *word)
{
    double number = html_number(row, key, -1);
    if (isnan(number))
        return base_copy(html_word(row, key));
    return base_format("%.10g%s%s%s", number, *word ? " " : "", word,
                       *word ? base_plural((int64_t)number) : "");
}

/* Those of @part that some row has, into @used. */
static const struct chart_part *used_parts(const struct chart_part *part, const struct json *rows,
                                           struct chart_part *used)
{
    int32_t count = 0;
    for (; part->key; part++)
        for (int64_t i = 0; i < json_count_items(rows); i++)
            if (!isnan(html_number(json_item(rows, i), part->key, -1))) {
                used[count++] = *part;
                break;
            }
    return used;
}

static double part_of(const struct json *row, const struct chart_part *part)
{
    double value = html_number(row, part->key, -1);
    return value > 0 ? value : 0;
}

static double most_of(const struct chart_bars *bars, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (const struct chart_part *part = bars->part; part->key; part++) {
            double value = part_of(json_item(bars->rows, i), part);
            sum = bars->beside ? fmax(sum, value) : sum + value;
        }
        most = fmax(most, sum);
    }
    return most > 0 ? most : 1;
}

static void add_bar(struct html *out, const struct chart_bars *bars, const struct json *row,
                    const struct chart_part *part, double x, double y, double most)
{
    double value = html_number(row, part->key, -1);
    AUTOFREE char *label = label_of(row, bars->label, bars->word);
    html_add(out,
             "<rect class=\"c%d\" x=\"%.3f%%\" y=\"%.0f\" width=\"%.3f%%\" height=\"%d\" "
             "data-key=\"%s\"",
             (int)part->colour, 100 * x / most, y, 100 * part_of(row, part) / most,
             bars->beside ? THIN : BAR, part->key);
    html_value(out, value);
    html_add(out, "><title>%s, %s: %s</title></rect>\n", label, part->label,
             unit_text(answer_unit(part->key), value));
}

static double add_group(struct html *out, const struct chart_bars *bars, const struct json *row,
                        double y, double most)
{
    double x = 0;
    AUTOFREE char *label = label_of(row, bars->label, bars->word);
    html_add(out, "<text y=\"%.0f\">%s</text>\n", y + LABEL - 6, label);
    if (bars->total)
        html_add(out, "<text class=\"end\" x=\"100%%\" y=\"%.0f\">%s</text>\n", y + LABEL - 6,
                 unit_text(answer_unit(bars->total), html_number(row, bars->total, -1)));
    y += LABEL;
    for (const struct chart_part *part = bars->part; part->key; part++) {
        if (bars->most > 0 && (bars->beside || part == bars->part))
            html_add(out, "<rect class=\"track\" y=\"%.0f\" width=\"100%%\" height=\"%d\"/>", y,
                     bars->beside ? THIN : BAR);
        if (isnan(html_number(row, part->key, -1)))
            continue;
        add_bar(out, bars, row, part, x, y, most);
        x += bars->beside ? 0 : part_of(row, part);
        y += bars->beside ? THIN + 2 : 0;
    }
    return y + (bars->beside ? 0 : BAR) + GAP;
}

void chart_bars(struct page *page, const struct chart_bars *bars)
{
    int64_t count = json_count_items(bars->rows);
    count = count > ROWS ? ROWS : count;
    AUTORELEASE(html) struct html rows = {0};
    double most = bars->most > 0 ? bars->most : most_of(bars, count), y = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct json *row = json_item(bars->rows, i);
        if (!bars->total || isfinite(html_number(row, bars->total, -1)))
            y = add_group(&rows, bars, row, y, most);
    }
    struct chart_part used[PARTS + 1] = {{0}};
    chart_figure(page);
    if (bars->part[1].key)
        chart_legend(page, used_parts(bars->part, bars->rows, used), false);
    chart_begin(page, bars->words, "bars", y);
    html_append(&page->body, &rows);
    chart_end(page);
}

/* ---- ranges ---- */

/* Vertical lines at round values, from 0 to @end, and below them the values for which a phone has
 * room. */
static void add_rules(struct html *out, const struct axis_scale *scale, double end)
{
    double tick[SCALE_TICKS];
    int32_t ticks = scale_ticks(scale, tick);
    double room = 0;
    for (int32_t i = 0; i < ticks; i++) {
        double x = 100 * scale_at(scale, tick[i]);
        html_add(out, "<line class=\"rule\" x1=\"%.3f%%\" x2=\"%.3f%%\" y2=\"%.0f\"/>\n", x, x,
                 end);
        if (x < room)
            continue;
        room = x + 22;
        html_add(out, "<text class=\"soft mid\" x=\"%.3f%%\" y=\"%.0f\">%s</text>\n", x, end + 16,
                 unit_text(scale->unit, tick[i]));
    }
}

static void add_mark(struct html *out, double x, double end)
{
    html_add(out, "<line class=\"own\" x1=\"%.3f%%\" x2=\"%.3f%%\" y2=\"%.0f\"/>\n", 100 * x,
             100 * x, end);
}

static void add_range(struct html *out, const struct chart_ranges *ranges, const struct json *row,
                      const struct axis_scale *scale, double y)
{
    enum unit unit = answer_unit(ranges->value);
    double low = html_end(row, ranges->value, false), high = html_end(row, ranges->value, true);
    double value = html_number(row, ranges->value, -1);
    AUTOFREE char *label = label_of(row, ranges->label, "");
    html_add(out, "<text y=\"%.0f\">%s</text>\n", y + LABEL - 6, label);
    y += LABEL + 7;
    if (isfinite(low) && isfinite(high))
        html_add(
            out,
            "<line class=\"s0 whisker\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%.0f\" y2=\"%.0f\"/>\n",
            100 * scale_at(scale, low), 100 * scale_at(scale, high), y, y);
    if (isnan(value)) /* a point without an answer */
        return;
    html_add(out, "<circle class=\"c0\" cx=\"%.3f%%\" cy=\"%.0f\" r=\"5\" data-key=\"%s\"",
             100 * scale_at(scale, value), y, ranges->value);
    html_value(out, value);
    html_add(out, "><title>%s: %s", label, unit_text(unit, value));
    if (isfinite(low))
        html_add(out, ", 90&#160;%% interval %s to %s", unit_text(unit, low),
                 unit_text(unit, high));
    html_add(out, "</title></circle>\n");
}

static struct axis_scale ranges_scale(const struct chart_ranges *ranges, int64_t count)
{
    double least = ranges->mark, most = ranges->mark;
    for (int64_t i = 0; i < count; i++) { /* fmin() and fmax() leave NAN out */
        const struct json *row = json_item(ranges->rows, i);
        double value = html_number(row, ranges->value, -1);
        least = fmin(least, fmin(value, html_end(row, ranges->value, false)));
        most = fmax(most, fmax(value, html_end(row, ranges->value, true)));
    }
    double margin = ranges->log ? 1.05 : 1;
    return scale_of(least / margin, most * margin, ranges->log, answer_unit(ranges->value));
}

void chart_ranges(struct page *page, const struct chart_ranges *ranges)
{
    int64_t count = json_count_items(ranges->rows);
    count = count > ROWS ? ROWS : count;
    struct axis_scale scale = ranges_scale(ranges, count);
    double end = (double)count * (LABEL + BAR + GAP);
    struct html *out = &page->body;
    bool likely = false;
    for (int64_t i = 0; i < count && !likely; i++)
        likely = isfinite(html_end(json_item(ranges->rows, i), ranges->value, false));
    chart_figure(page);
    if (likely)
        html_paragraph(page, "small", "Bar: 90 % interval");
    chart_begin(page, ranges->words, "ranges", end + 24);
    add_rules(out, &scale, end);
    if (isfinite(ranges->mark))
        add_mark(out, scale_at(&scale, ranges->mark), end);
    for (int64_t i = 0; i < count; i++)
        add_range(out, ranges, json_item(ranges->rows, i), &scale, (double)i * (LABEL + BAR + GAP));
    chart_end(page);
}

/* ---- tornado ---- */

static void add_end(struct html *out, const struct chart_tornado *tornado, const struct json *row,
                    const struct chart_part *end, const struct axis_scale *scale, double y)
{
    double value = html_number(row, end->key, -1);
    if (!isfinite(value))
        return;
    double from = scale_at(scale, fmin(value, tornado->middle));
    double to = scale_at(scale, fmax(value, tornado->middle));
    AUTOFREE char *label = label_of(row, tornado->label, "");
    html_add(out,
             "<rect class=\"c%d\" x=\"%.3f%%\" y=\"%.0f\" width=\"%.3f%%\" height=\"%d\" "
             "data-key=\"%s\"",
             (int)end->colour, 100 * from, y, 100 * (to - from), THIN, end->key);
    html_value(out, value);
    html_add(out, "><title>%s, %s: %s</title></rect>\n", label, end->label,
             unit_text(answer_unit(end->key), value));
}

static struct axis_scale tornado_scale(const struct chart_tornado *tornado, int64_t count)
{
    double least = tornado->middle, most = tornado->middle;
    for (int64_t i = 0; i < count; i++)
        for (int e = 0; e < 2; e++) {
            double value = html_number(json_item(tornado->rows, i), tornado->end[e].key, -1);
            least = fmin(least, value); /* which leave NAN out */
            most = fmax(most, value);
        }
    double margin = most > least ? 0.05 * (most - least) : fabs(most) / 2;
    return (struct axis_scale){least - margin, most + margin, false,
                               answer_unit(tornado->end[0].key)};
}

void chart_tornado(struct page *page, const struct chart_tornado *tornado)
{
    int64_t count = json_count_items(tornado->rows);
    count = count > ROWS ? ROWS : count;
    struct axis_scale scale = tornado_scale(tornado, count);
    double height = LABEL + 2 * THIN + GAP, end = (double)count * height;
    struct html *out = &page->body;
    chart_figure(page);
    chart_legend(page, tornado->end, false);
    chart_begin(page, tornado->words, "ranges", end + 24);
    add_rules(out, &scale, end);
    add_mark(out, scale_at(&scale, tornado->middle), end);
    for (int64_t i = 0; i < count; i++) {
        const struct json *row = json_item(tornado->rows, i);
        double y = (double)i * height + LABEL;
        for (int e = 0; e < 2; e++)
            add_end(out, tornado, row, &tornado->end[e], &scale, y + e * THIN);
        AUTOFREE char *label = label_of(row, tornado->label, "");
        html_add(out, "<text y=\"%.0f\">%s</text>\n", y - 6, label);
    }
    chart_end(page);
}
