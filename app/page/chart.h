#pragma once

/** @file
 * Pictures of rows of JSON: SVG with a title, a description and a value in each mark.
 *
 * A picture has no viewBox: widths are percent, heights are pixels, so it fills a telephone and a
 * sheet of paper and its text keeps its size.  Colours and dashes are classes of page.css: c0 to c7
 * fill, s0 to s7 draw.  They mean the same in all pictures of a page.  Units and intervals
 * follow from keys, as in core/base/columns.h.
 */

#include "app/page/html.h"

/** What a colour stands for. */
enum chart_colour {
    CHART_COMPUTE,
    CHART_SLOWER,
    CHART_ROW,
    CHART_COLUMN,
    CHART_INPUT,
    CHART_OTHER,
    CHART_BACKWARD,
    CHART_PUBLISHED,
    CHART_COLOURS
};

/** A number of each row, and its colour; without any row that has it, it is left out. */
struct chart_part {
    const char *key, *label;
    enum chart_colour colour;
};

/** What all pictures have: its title and what it shows in a sentence, for those who do not see it;
 * @about NULL: that the table below has the numbers. */
struct chart_words {
    const char *title, *about;
};

/** Whether an axis of numbers @key of @rows, and of @other, which may be NAN, is to be logarithmic:
 * the largest is eight times the smallest, which is above 0. */
bool chart_wide(const struct json *rows, const char *key, double other);

/** Horizontal bars, a group per row. */
struct chart_bars {
    struct chart_words words;
    const struct json *rows;
    const char *label, *word; /**< key of what stands above a bar; the noun after a number, or "" */
    const struct chart_part *part; /**< the last has key NULL */
    const char *total;             /**< key of the number at the right; NULL: none */
    double most;                   /**< value of a full width; 0: the largest */
    bool beside;                   /**< parts below each other, not in a row */
};

/** Append the picture and its legend. */
void chart_bars(struct page *page, const struct chart_bars *bars);

/** One value with its interval per row, horizontally. */
struct chart_ranges {
    struct chart_words words;
    const struct json *rows;
    const char *label, *value; /**< keys of a text and of a number */
    double mark;               /**< a line at this value; NAN: none */
    bool log;
};

/** Append the picture. */
void chart_ranges(struct page *page, const struct chart_ranges *ranges);

/** What each row makes of one number at either end of what is uncertain, as bars from @middle. */
struct chart_tornado {
    struct chart_words words;
    const struct json *rows;
    const char *label;
    struct chart_part end[3]; /**< low and high; the last has key NULL */
    double middle;
};

/** Append the picture and its legend. */
void chart_tornado(struct page *page, const struct chart_tornado *tornado);

/** Values over x: a line per series with its points; the interval of a single series is a band, of
 * several, or of points of which @series is told, a bar through each point. */
struct chart_curve {
    struct chart_words words;
    const struct json *rows;
    const char *x, *x_label; /**< x_label NULL: the key's own */
    const char *value;
    const char *range;       /**< key of what has the interval; NULL: the value has */
    const char *value_label; /**< stands above, with what else is drawn */
    const char *series;      /**< key of the text that tells lines apart; NULL: there is one */
    const char *marked;      /**< key of a text that points have that stand out; NULL: none does */
    const char *marked_label, *centre_label; /**< what rings and the horizontal line are */
    bool x_log, log;
    enum chart_colour colour; /**< of the first series */
    bool points;              /**< no line */
    double centre;            /**< a horizontal line; NAN: none */
    enum chart_colour centre_colour;
    const struct json *published; /**< rows with x and value, drawn apart; NULL: none; borrowed */
};

/** Append the picture and, for several series, the legend. */
void chart_curve(struct page *page, const struct chart_curve *curve);

/** One step in time: @rows are those of picture_lanes() (core/report/picture.h). */
void chart_lanes(struct page *page, struct chart_words words, const struct json *rows);

/** The busy places of picture_map() (core/report/picture.h): the grid of ranks, then the machine.
 */
void chart_map(struct page *page, struct chart_words words, const struct json *rows);

/* ---- for the files of this room ---- */

/** Begin a figure: what stands above its picture comes next. */
void chart_figure(struct page *page);

/** Begin its SVG picture of @height pixels; @class is added to "chart". */
void chart_begin(struct page *page, struct chart_words words, const char *class, double height);

/** End both. */
void chart_end(struct page *page);

/** Append a legend of @part; as lines with dashes if @lines. */
void chart_legend(struct page *page, const struct chart_part *part, bool lines);

/** An axis: values from @from to @to at 0 to 1. */
struct axis_scale {
    double from, to;
    bool log;
    enum unit unit;
};

/** Where @value is on @scale. */
double scale_at(const struct axis_scale *scale, double value);

/** A scale that holds all values between @low and @high; from 0 if it is not logarithmic. */
struct axis_scale scale_of(double low, double high, bool log, enum unit unit);

enum { SCALE_TICKS = 12 /**< at most */ };

/** Round numbers on @scale into @tick (SCALE_TICKS).  @return how many. */
int32_t scale_ticks(const struct axis_scale *scale, double *tick);
