#pragma once

/** @file
 * One answer as one HTML file, which opens from the disk and asks for nothing from outside.
 *
 * Everything on a page comes from the JSON that the command prints, which is embedded, too: each
 * number in a table carries itself with 17 digits in `data-value`.  Pictures are drawn by page_js
 * from that JSON, each in its figure; text and tables are complete without JavaScript.  Its
 * Content-Security-Policy allows the one style and the scripts in it, by their hashes, WebAssembly
 * where the page carries some, and nothing else, so nothing has a `style` attribute.  Equal answers
 * give equal bytes.
 *
 * html_add() alone writes to a page, but for what is our own.  Markup is a literal of the source;
 * every text that it shows, whoever wrote it, is an argument and thereby escaped.
 */

#include "core/base/columns.h"

/** Markup in the making.  Start from {0}. */
struct html {
    struct text text; /**< private to app/page/html.c */
};

/** A page in the making.  Start from {0}; html_write() releases it. */
struct page {
    struct html body;
    int32_t sections;          /**< so far: numbers of their ids */
    const char *script;        /**< motion_js or whatif_js, behind page_js; NULL: neither */
    const struct json *whatif; /**< what whatif_js reads, which the page then carries with
                                    page_core; NULL: nothing; borrowed */
};

/** Our own style, scripts and words that pages explain, by tools/text_to_c.py. */
extern const char page_css[], page_js[], motion_js[], whatif_js[], terms_html[];

/** The closed form for browsers: WebAssembly (app/wasm), gzip, base64; "" where this program was
 * built without. */
extern const char page_core[];

enum {
    PAGE_ROWS = 60,              /**< of a table; the CSV file has all */
    PAGE_DATA_LIMIT = 250 << 10, /**< of a CSV file [bytes]: longer ones are left out, which the
                                    page says */
    PAGE_JSON_LIMIT = 500 << 10, /**< the same of the JSON, and with it the pictures */
};

/** Words, a picture and the table behind it; what is NULL is left out. */
struct page_part {
    const char *heading; /**< of a new section */
    const char *words;   /**< a paragraph */
    const char *picture; /**< its name in page_js */
    const char *rows;    /**< an array of objects in the data, by its key or "KEY.KEY"; without any
                            row the whole part is left out */
    const char *table;   /**< the name of html_table(); NULL: that of the picture */
    const char *caption, *columns; /**< as of html_table() */
    bool open;                     /**< the table is not folded away */
};

/** Append markup, a literal, with what follows in place of its %s, %c, %d and %f or %g: as
 * printf(), but the five characters of a text that mean something in HTML are escaped, and no line
 * breaks between a number and its unit; NULL: nothing. */
#define html_add(out, ...) html_add_format(out, "" __VA_ARGS__)

/** Of html_add(), whose format is a literal. */
void html_add_format(struct html *out, const char *markup, ...)
    __attribute__((format(printf, 2, 3)));

/** A number of @object, NaN where it has none; of item @index of a list with that key, or, if
 * @index is negative, the member itself. */
double html_number(const struct json *object, const char *key, int64_t index);

/** An end of the 90 % interval of @object's number @key, which is KEY_low or, if @high, KEY_high.
 */
double html_end(const struct json *object, const char *key, bool high);

/** A text of @object, "" where it has none; borrowed. */
const char *html_word(const struct json *object, const char *key);

/** The first words: the @title and the sentence that answers, both escaped. */
void html_answer(struct page *page, const char *title, const char *sentence);

/** Start a section. */
void html_section(struct page *page, const char *heading);

/** Append a paragraph, escaped; @class may be NULL. */
void html_paragraph(struct page *page, const char *class, const char *text);

/** Append @list, an array of texts, under a few words; nothing if it is empty or NULL. */
void html_list(struct page *page, const char *words, const struct json *list);

/** Append the figure of the picture called @name in page_js, of row @row of a list unless that is
 * negative. */
void html_picture(struct page *page, const char *name, int64_t row);

/** Append the part, whose rows are in @data. */
void html_part(struct page *page, const struct json *data, const struct page_part *part);

/** Append @rows, an array of objects, as a table with @columns (core/base/columns.h), a link to all
 * of it as the CSV file @name, and the @words above; folded away if @folded.  A row with a member
 * "bucket" names it. */
void html_table(struct page *page, const char *name, const char *words, const struct json *rows,
                const char *columns, bool folded);

/** Append a table of numbers of @object with their 90 % intervals: those of @columns that are not
 * null. */
void html_figures(struct page *page, const struct json *object, const char *columns);

/** Write the page called @title with @data in it to @path, whole or not at all, and release it.
 * @return 0, or -1: it cannot be written (exit codes 73, 74). */
int html_write(struct page *page, const char *path, const char *title, const struct json *data,
               struct err *err);
