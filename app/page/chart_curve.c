#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/page/chart.h"

enum {
    HEIGHT = 260, /* pixels of the plot */
    POINTS = 600, /* drawn at most */
    BOX = 1000,   /* of what is stretched to the plot */
};

struct point {
    double x, value, low, high;
    int32_t series;
    bool marked;
};

/* The picture in the making. */
struct plot {
    const struct chart_curve *curve;
    struct point *point; /* (count) by series, then x; owned */
    int32_t count, series;
    const char *name[CHART_COLOURS]; /* (series) borrowed */
    char *x_label;                   /* owned */
    struct axis_scale x, y;
    bool cut; /* intervals go on above 100 %, where no value is */
};

static int compare(const void *a, const void *b)
{
    const struct point *p = a, *q = b;
    if (p->series != q->series)
        return p->series < q->series ? -1 : 1;
    return (p->x > q->x) - (p->x < q->x);
}

/* Series beyond the colours are not drawn. */
static int32_t series_of(struct plot *plot, const struct json *row)
{
    const char *name = plot->curve->series ? json_as_text(json_get(row, plot->curve->series)) : "";
    for (int32_t i = 0; i < plot->series; i++)
        if (name && !strcmp(name, plot->name[i]))
            return i;
    if (!name || plot->series == CHART_COLOURS)
        return -1;
    plot->name[plot->series] = name;
    return plot->series++;
}

static void take_points(struct plot *plot)
{
    const struct chart_curve *curve = plot->curve;
    int64_t rows = json_count_items(curve->rows);
    plot->point = base_alloc(POINTS, sizeof(*plot->point));
    for (int64_t i = 0; i < rows && plot->count < POINTS; i++) {
        const struct json *row = json_item(curve->rows, i);
        struct point p = {html_number(row, curve->x, -1),
                          html_number(row, curve->value, -1),
                          html_end(row, curve->range ? curve->range : curve->value, false),
                          html_end(row, curve->range ? curve->range : curve->value, true),
                          0,
                          curve->marked && *html_word(row, curve->marked)};
        bool drawn = isfinite(p.x) && isfinite(p.value) && (!curve->log || p.value > 0);
        if (drawn && (p.series = series_of(plot, row)) >= 0)
            plot->point[plot->count++] = p;
    }
    qsort(plot->point, (size_t)plot->count, sizeof(*plot->point), compare);
}

static void take_scales(struct plot *plot)
{
    const struct chart_curve *curve = plot->curve;
    enum unit x_unit = answer_unit(curve->x), unit = answer_unit(curve->value);
    double left = INFINITY, right = -INFINITY, least = curve->centre, most = curve->centre;
    double ends = NAN; /* the highest of an interval */
    for (int32_t i = 0; i < plot->count; i++) {
        const struct point *p = &plot->point[i];
        left = fmin(left, p->x);
        right = fmax(right, p->x);
        least = fmin(least, fmin(p->value, p->low));
        most = fmax(most, p->value);
        ends = fmax(ends, p->high);
    }
    for (int64_t i = 0; i < json_count_items(curve->published); i++)
        most = fmax(most, html_number(json_item(curve->published, i), "value", -1));
    bool high = unit == UNIT_FRACTION && !curve->log && fmax(most, ends) > 1;
    double top = most > 1 ? 1.02 * most : 1; /* not the next round number */
    plot->cut = high && ends > top;
    most = high ? 1 : fmax(most, ends);
    plot->x = scale_of(left, right, curve->x_log, x_unit);
    if (!curve->x_log && left < right)
        plot->x = (struct axis_scale){left, right, false, x_unit};
    plot->y = curve->log ? scale_of(least / 1.1, most * 1.1, true, unit)
                         : scale_of(least, most, false, unit);
    if (high)
        plot->y.to = top;
}

/* Whether an interval is a bar, not a part of a band. */
static bool has_bars(const struct plot *plot)
{
    return plot->series > 1 || (plot->curve->points && plot->curve->series);
}

static int colour_of(const struct plot *plot, int32_t series)
{
    return (int)(((int32_t)plot->curve->colour + series) % CHART_COLOURS);
}

static double x_of(const struct plot *plot, double x)
{
    return scale_at(&plot->x, x);
}

static double y_of(const struct plot *plot, double y)
{
    return 1 - scale_at(&plot->y, y);
}

static void add_axes(struct html *out, const struct plot *plot)
{
    double tick[SCALE_TICKS];
    int32_t ticks = scale_ticks(&plot->y, tick);
    for (int32_t i = 0; i < ticks; i++) {
        double y = HEIGHT * y_of(plot, tick[i]);
        html_add(out,
                 "<line class=\"rule\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"soft "
                 "end\" x=\"-6\" y=\"%.1f\">%s</text>\n",
                 y, y, y + 4, unit_text(plot->y.unit, tick[i]));
    }
    ticks = scale_ticks(&plot->x, tick);
    for (int32_t i = 0; i < ticks; i++) {
        html_add(out, "<text class=\"soft mid\" x=\"%.3f%%\" y=\"%d\">", 100 * x_of(plot, tick[i]),
                 HEIGHT + 18);
        if (plot->x.unit == UNIT_NONE)
            html_add(out, "%.10g</text>\n", tick[i]);
        else
            html_add(out, "%s</text>\n", unit_text(plot->x.unit, tick[i]));
    }
    html_add(out, "<text class=\"mid\" x=\"50%%\" y=\"%d\">%s</text>\n", HEIGHT + 38,
             plot->x_label);
}

static void add_corner(struct html *out, const struct plot *plot, double x, double y)
{
    html_add(out, "%.1f,%.1f ", BOX * x_of(plot, x), BOX * y_of(plot, y));
}

/* The band of the only series: there along the upper ends and back along the lower ones. */
static void add_band(struct html *out, const struct plot *plot)
{
    html_add(out, "<polygon class=\"band\" points=\"");
    for (int32_t i = 0; i < plot->count; i++)
        if (isfinite(plot->point[i].high))
            add_corner(out, plot, plot->point[i].x, plot->point[i].high);
    for (int32_t i = plot->count - 1; i >= 0; i--)
        if (isfinite(plot->point[i].low))
            add_corner(out, plot, plot->point[i].x, plot->point[i].low);
    html_add(out, "\"/>\n");
}

static void add_lines(struct html *out, const struct plot *plot)
{
    html_add(out,
             "<svg width=\"100%%\" height=\"%d\" viewBox=\"0 0 %d %d\" "
             "preserveAspectRatio=\"none\">\n",
             HEIGHT, BOX, BOX);
    if (!has_bars(plot))
        add_band(out, plot);
    if (isfinite(plot->curve->centre))
        html_add(out, "<line class=\"s%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
                 (int)plot->curve->centre_colour, BOX, BOX * y_of(plot, plot->curve->centre),
                 BOX * y_of(plot, plot->curve->centre));
    for (int32_t i = 0; i < plot->count && !plot->curve->points; i++) {
        bool first = i == 0 || plot->point[i].series != plot->point[i - 1].series;
        bool last = i + 1 == plot->count || plot->point[i].series != plot->point[i + 1].series;
        if (first)
            html_add(out, "<polyline class=\"s%d%s\" points=\"",
                     colour_of(plot, plot->point[i].series), plot->series == 1 ? " solid" : "");
        add_corner(out, plot, plot->point[i].x, plot->point[i].value);
        if (last)
            html_add(out, "\"/>\n");
    }
    html_add(out, "</svg>\n");
}

static void add_point(struct html *out, const struct plot *plot, const struct point *p)
{
    const struct chart_curve *curve = plot->curve;
    double x = 100 * x_of(plot, p->x);
    if (has_bars(plot) && isfinite(p->low) && isfinite(p->high))
        html_add(out,
                 "<line class=\"s%d whisker\" x1=\"%.3f%%\" x2=\"%.3f%%\" y1=\"%.1f\" "
                 "y2=\"%.1f\"/>\n",
                 colour_of(plot, p->series), x, x, HEIGHT * y_of(plot, p->low),
                 fmax(0, HEIGHT * y_of(plot, p->high)));
    html_add(out, "<circle class=\"c%d%s\" cx=\"%.3f%%\" cy=\"%.1f\" r=\"%s\" data-key=\"%s\"",
             colour_of(plot, p->series), p->marked ? " own" : "", x, HEIGHT * y_of(plot, p->value),
             p->marked ? "6" : "3.5", curve->value);
    html_value(out, p->value);
    html_add(out, "><title>%s%s%s %s: %s %s", plot->name[p->series],
             *plot->name[p->series] ? ", " : "", plot->x_label, unit_text(plot->x.unit, p->x),
             curve->value_label, unit_text(plot->y.unit, p->value));
    if (isfinite(p->low))
        html_add(out, ", 90&#160;%% interval %s to %s", unit_text(plot->y.unit, p->low),
                 unit_text(plot->y.unit, p->high));
    html_add(out, "</title></circle>\n");
}

static void add_published(struct html *out, const struct plot *plot)
{
    for (int64_t i = 0; i < json_count_items(plot->curve->published); i++) {
        const struct json *row = json_item(plot->curve->published, i);
        double value = html_number(row, "value", -1);
        html_add(
            out,
            "<svg class=\"mark\" overflow=\"visible\" x=\"%.3f%%\" y=\"%.1f\"><path class=\"c%d\" "
            "d=\"M0-10 10 0 0 10-10 0z\"",
            100 * x_of(plot, html_number(row, "x", -1)), HEIGHT * y_of(plot, value),
            CHART_PUBLISHED);
        html_value(out, value);
        html_add(out, "><title>published: %s</title></path></svg>\n",
                 unit_text(plot->y.unit, value));
    }
}

static void add_legend(struct page *page, const struct plot *plot)
{
    struct chart_part part[CHART_COLOURS + 1] = {{0}};
    for (int32_t i = 0; i < plot->series; i++)
        part[i] =
            (struct chart_part){"series", plot->name[i], (enum chart_colour)colour_of(plot, i)};
    if (plot->series > 1)
        chart_legend(page, part, !plot->curve->points);
}

/* What is drawn, and nothing else. */
static void add_caption(struct page *page, const struct plot *plot)
{
    const struct chart_curve *curve = plot->curve;
    bool likely = false, marked = false;
    for (int32_t i = 0; i < plot->count; i++) {
        likely = likely || isfinite(plot->point[i].low);
        marked = marked || plot->point[i].marked;
    }
    AUTORELEASE(text) struct text out = {0};
    text_add(&out, "%s", curve->value_label);
    if (likely)
        text_add(&out, "; %s: 90 %% interval%s", has_bars(plot) ? "bar" : "band",
                 plot->cut ? ", cut off at the top" : "");
    if (marked)
        text_add(&out, "; ring: %s", curve->marked_label);
    if (isfinite(curve->centre))
        text_add(&out, "; line: %s", curve->centre_label);
    if (json_count_items(curve->published) > 0)
        text_add(&out, "; diamond: published");
    html_paragraph(page, "small", out.data);
}

void chart_curve(struct page *page, const struct chart_curve *curve)
{
    struct plot plot = {.curve = curve,
                        .x_label =
                            curve->x_label ? base_copy(curve->x_label) : answer_label(curve->x)};
    take_points(&plot);
    if (plot.count > 0) {
        take_scales(&plot);
        chart_figure(page);
        add_legend(page, &plot);
        add_caption(page, &plot);
        chart_begin(page, curve->words, "axes", HEIGHT + 46);
        add_axes(&page->body, &plot);
        add_lines(&page->body, &plot);
        add_published(&page->body, &plot); /* larger than a ring above it */
        for (int32_t i = 0; i < plot.count; i++)
            add_point(&page->body, &plot, &plot.point[i]);
        chart_end(page);
    }
    free(plot.point);
    free(plot.x_label);
}
