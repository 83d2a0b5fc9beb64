#include "app/study/published.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One column.  A column that is needed must be in the header; its cells may still be empty. */
struct column {
    const char *name;
    size_t offset;
    bool number, needed;
};

#define TEXT(column, member, need)                                                                 \
    {                                                                                              \
        .name = column, .offset = offsetof(struct published_row, member), .needed = need           \
    }
#define NUMBER(column, member, need)                                                               \
    {                                                                                              \
        .name = column, .offset = offsetof(struct published_row, member), .number = true,          \
        .needed = need                                                                             \
    }

static const struct column columns[] = {
    TEXT("round", round, true),
    TEXT("submitter", submitter, false),
    TEXT("system", system, true),
    TEXT("acc_family", family, true),
    TEXT("form", form, false),
    TEXT("intra_link", intra_link, false),
    TEXT("intra_topology", intra_topology, false),
    TEXT("fabric", fabric, false),
    TEXT("allreduce_scheduling", scheduling, false),
    NUMBER("n_nodes", nodes, false),
    NUMBER("acc_per_node", per_node, false),
    NUMBER("n_acc", devices, true),
    NUMBER("intra_GBps", intra_bandwidth, false),
    NUMBER("nics_per_node", nics, false),
    NUMBER("nic_Gbps", nic_bandwidth, false),
    NUMBER("node_inter_Gbps", node_bandwidth, false),
    NUMBER("global_batch", global_batch, false),
    NUMBER("per_acc_batch", batch, false),
    NUMBER("steps_per_epoch", steps_per_epoch, false),
    NUMBER("step_ms", step_ms, true),
    NUMBER("ips", rate, false),
    NUMBER("ips_per_acc", device_rate, false),
    NUMBER("epochs_mean", epochs, false),
    NUMBER("ttt_min_scored", train_min, false),
    NUMBER("trust", trust, false),
    NUMBER("eval_s_total", eval_s, false),
    NUMBER("warmup_excess_s", first_s, false),
};
enum { COLUMN_COUNT = ARRAY_SIZE(columns) };

/* Known columns that no prediction needs: not worth a note. */
static const char *const descriptive[] = {"tier", "series", "ttt_min_std", "notes",
                                          "year", "source", NULL};

/* The state of reading. */
struct reader {
    const char *name, *at;
    int32_t line;
    struct published *table;
    int32_t *column; /* (cells) index in columns, or -1 */
    int32_t cells;
    struct err *err;
};

static char *keep(struct published *table, char *text)
{
    table->text = base_room(table->text, table->text_count, sizeof(*table->text));
    return table->text[table->text_count++] = text;
}

static int fault(struct reader *reader, int32_t cell, const char *what, const char *text)
{
    bool known = cell < reader->cells && reader->column[cell] >= 0;
    return err_add(reader->err, "%s:%d: error: cell %d%s%s: %s%s%s%s", reader->name, reader->line,
                   cell + 1, known ? ", " : "", known ? columns[reader->column[cell]].name : "",
                   what, *text ? " '" : "", text, *text ? "'" : "");
}

/* The cell at reader->at, which moves past it; NULL if a quote stays open. */
static char *take_cell(struct reader *reader)
{
    struct text cell = {0};
    bool quoted = *reader->at == '"';
    const char *at = reader->at + quoted;
    int32_t lines = 0;
    for (; *at; at++) {
        if (quoted && at[0] == '"' && at[1] == '"')
            at++;
        else if (quoted ? *at == '"' : strchr(",\r\n", *at) != NULL)
            break;
        lines += *at == '\n';
        text_append(&cell, at, 1);
    }
    if (quoted && *at != '"') {
        text_release(&cell);
        return NULL;
    }
    reader->at = at + quoted;
    reader->line += lines;
    return cell.data ? cell.data : base_copy("");
}

/* Whether another cell of the same row follows; else the next row, if any, begins. */
static bool goes_on(struct reader *reader)
{
    if (*reader->at == ',') {
        reader->at++;
        return true;
    }
    reader->at += strspn(reader->at, "\r");
    if (*reader->at == '\n')
        reader->at++;
    return false;
}

static bool is_listed(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (!strcmp(*list, name))
            return true;
    return false;
}

static int32_t find_column(const char *name)
{
    for (int32_t i = 0; i < COLUMN_COUNT; i++)
        if (!strcmp(columns[i].name, name))
            return i;
    return -1;
}

static void note_unknown(struct published *table, const char *name)
{
    char *longer = table->note ? base_format("%s, %s", table->note, name)
                               : base_format("columns left out: %s", name);
    free(table->note);
    table->note = longer;
}

static int take_header_cell(struct reader *reader)
{
    char *name = take_cell(reader);
    if (!name)
        return fault(reader, reader->cells, "a quote is not closed", "");
    keep(reader->table, name);
    int32_t found = find_column(name);
    for (int32_t i = 0; i < reader->cells; i++)
        if (found >= 0 && reader->column[i] == found)
            return fault(reader, reader->cells, "this column is there twice:", name);
    if (found < 0 && *name && !is_listed(descriptive, name))
        note_unknown(reader->table, name);
    reader->column = base_room(reader->column, reader->cells, sizeof(*reader->column));
    reader->column[reader->cells++] = found;
    return 0;
}

static int read_header(struct reader *reader)
{
    do {
        if (take_header_cell(reader))
            return -1;
    } while (goes_on(reader));
    bool there[COLUMN_COUNT] = {false};
    for (int32_t i = 0; i < reader->cells; i++)
        if (reader->column[i] >= 0)
            there[reader->column[i]] = true;
    int result = 0;
    for (int32_t i = 0; i < COLUMN_COUNT; i++)
        if (columns[i].needed && !there[i])
            result = err_add(reader->err, "%s:%d: error: there is no column '%s'", reader->name,
                             reader->line, columns[i].name);
    return result;
}

static int take_number(struct reader *reader, int32_t cell, const char *text, double *value)
{
    char *end;
    const char *begin = text + strspn(text, " ");
    double number = strtod(begin, &end);
    if (!*begin)
        return 0;
    if (end[strspn(end, " ")] || !isfinite(number))
        return fault(reader, cell, "not a number:", text);
    *value = number;
    return 0;
}

static int take_row_cell(struct reader *reader, int32_t cell, struct published_row *row)
{
    char *text = take_cell(reader);
    if (!text)
        return fault(reader, cell, "a quote is not closed", "");
    keep(reader->table, text);
    if (cell >= reader->cells)
        return fault(reader, cell, "more cells than the header has columns:", text);
    if (reader->column[cell] < 0)
        return 0;
    const struct column *column = &columns[reader->column[cell]];
    char *member = (char *)row + column->offset;
    if (!column->number) {
        *(const char **)(void *)member = text;
        return 0;
    }
    double *value = (double *)(void *)member;
    if (take_number(reader, cell, text, value))
        return -1;
    /* The excess of the first epoch is a difference and may be negative; other numbers may not. */
    if (*value < 0 && value != &row->first_s)
        return fault(reader, cell, "a negative number:", text);
    return 0;
}

static struct published_row empty_row(int32_t line)
{
    struct published_row row = {.line = line};
    for (int32_t i = 0; i < COLUMN_COUNT; i++) {
        char *member = (char *)&row + columns[i].offset;
        if (columns[i].number)
            *(double *)(void *)member = NAN;
        else
            *(const char **)(void *)member = "";
    }
    return row;
}

static int read_row(struct reader *reader)
{
    struct published *table = reader->table;
    struct published_row row = empty_row(reader->line);
    int32_t cell = 0;
    do {
        if (take_row_cell(reader, cell++, &row))
            return -1;
    } while (goes_on(reader));
    if (cell < reader->cells)
        return fault(reader, cell, "the row ends here, before the columns of the header do", "");
    if (table->count == PUBLISHED_ROW_LIMIT)
        return fault(reader, 0, "too many rows", "");
    table->row = base_room(table->row, table->count, sizeof(*table->row));
    table->row[table->count++] = row;
    return 0;
}

int published_read_text(struct published *table, const char *name, const char *text,
                        struct err *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* what some editors put in front of UTF-8 */
    *table = (struct published){0};
    struct reader reader = {.name = name, .at = text, .line = 1, .table = table, .err = err};
    if (!strncmp(text, mark, strlen(mark)))
        reader.at += strlen(mark);
    int result = read_header(&reader);
    while (!result && *reader.at) {
        reader.line++;
        if (*reader.at == '\n' || *reader.at == '\r')
            goes_on(&reader);
        else
            result = read_row(&reader);
    }
    if (!result && !table->count)
        result = err_add(err, "%s:%d: error: no rows below the header", name, reader.line);
    free(reader.column);
    if (result)
        published_release(table);
    return result;
}

int published_read(struct published *table, const char *path, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    char block[4096];
    FILE *file = fopen(path, "r");
    if (!file)
        return err_add_code(err, 66, "cannot open %s: %s", path, strerror(errno));
    size_t got;
    while ((got = fread(block, 1, sizeof(block), file)) > 0)
        text_append(&text, block, (int64_t)got);
    int result =
        ferror(file) ? err_add_code(err, 74, "cannot read %s: %s", path, strerror(errno)) : 0;
    fclose(file);
    if (!result && text.length && strlen(text.data) < (size_t)text.length)
        result = err_add(err, "%s: error: this is not a text file", path);
    if (!result)
        result = published_read_text(table, path, text.data ? text.data : "", err);
    return result;
}

void published_release(struct published *table)
{
    for (int32_t i = 0; i < table->text_count; i++)
        free(table->text[i]);
    free(table->text);
    free(table->row);
    free(table->note);
    *table = (struct published){0};
}
