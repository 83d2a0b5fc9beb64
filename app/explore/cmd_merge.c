#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/cli/command.h"
#include "core/base/file.h"

struct merge_request {
    struct request head;
    const char *out; /* NULL or "-": standard output */
};

/* The points of several shards, by their place. */
struct merging {
    char *header; /* without the place; owned */
    char **line;  /* (count) without the place; owned */
    int64_t count, found;
};

/* Cut the last cell, ",17/1000", off @line.  Returns it, or NULL. */
static char *cut_place(char *line)
{
    char *comma = strrchr(line, ',');
    if (!comma)
        return NULL;
    *comma = '\0';
    return comma + 1;
}

static int take_header(struct merging *m, const char *path, char *line, struct err *err)
{
    char *place = cut_place(line);
    if (!place || strcmp(place, "point") != 0)
        return err_add_code(err, 65,
                            "%s:1:1: error: this is no CSV of a shard, whose last column is "
                            "'point'; `foretrain sweep ... --shard 1/2 --csv FILE` writes one",
                            path);
    if (!m->header)
        m->header = base_copy(line);
    return strcmp(m->header, line) == 0
               ? 0
               : err_add_code(err, 65,
                              "%s:1:1: error: the columns are not those of the first file: these "
                              "are shards of different sweeps",
                              path);
}

static int take_line(struct merging *m, const char *path, int64_t number, char *line,
                     struct err *err)
{
    long long point, count;
    int length = 0;
    char *place = cut_place(line);
    if (!place || sscanf(place, "%lld/%lld%n", &point, &count, &length) != 2 || place[length] ||
        point < 1 || point > count || count > INT32_MAX)
        return err_add_code(err, 65,
                            "%s:%lld:1: error: the last cell is no place as in 17/1000: the file "
                            "is damaged",
                            path, (long long)number);
    if (!m->line) {
        m->line = base_alloc(count, sizeof(*m->line));
        m->count = count;
    }
    if (count != m->count || m->line[point - 1])
        return err_add_code(err, 65, "%s:%lld:1: error: point %lld %s", path, (long long)number,
                            point,
                            count != m->count ? "is of a sweep with another number of points"
                                              : "was in a line before: name each shard once");
    m->line[point - 1] = base_copy(line);
    m->found++;
    return 0;
}

static int take_file(struct merging *m, const char *path, struct err *err)
{
    AUTORELEASE(text) struct text content = {0};
    int failed = file_read(path, &content, err);
    int64_t number = 0;
    char *rest = content.data;
    for (char *line; !failed && rest && *rest;) {
        line = strsep(&rest, "\n");
        line[strcspn(line, "\r")] = '\0';
        failed =
            ++number == 1 ? take_header(m, path, line, err) : take_line(m, path, number, line, err);
    }
    if (!failed && number == 0)
        failed = err_add_code(err, 65, "%s: error: the file is empty", path);
    return failed;
}

static int check_complete(const struct merging *m, struct err *err)
{
    int64_t missing = 0;
    if (m->count == 0)
        return err_add_code(err, 65, "none of the files has a point");
    while (missing < m->count && m->line[missing])
        missing++;
    if (missing == m->count)
        return 0;
    return err_add_code(err, 65,
                        "%lld of %lld points are missing, the first is point %lld; name all "
                        "shards of the sweep",
                        (long long)(m->count - m->found), (long long)m->count,
                        (long long)missing + 1);
}

static int write_all(const struct merging *m, const char *path, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text table = {0};
    bool answer = !path || !strcmp(path, "-");
    struct text *to = answer ? out : &table;
    text_add(to, "%s\r\n", m->header ? m->header : "");
    for (int64_t i = 0; i < m->count; i++)
        text_add(to, "%s\r\n", m->line[i]);
    return answer ? 0 : file_write(path, &table, NULL, err);
}

static int run(const void *record, struct text *out, struct err *err)
{
    const struct merge_request *request = record;
    struct merging m = {0};
    int failed = 0;
    for (int32_t i = 0; i < request->head.argument.count && !failed; i++)
        failed = take_file(&m, request->head.argument.item[i], err);
    failed = failed || check_complete(&m, err) || write_all(&m, request->out, out, err);
    for (int64_t i = 0; i < m.count; i++)
        free(m.line[i]);
    free(m.line);
    free(m.header);
    return failed ? -1 : 0;
}

static const struct option options[] = {
    OPTION_ROW("out", 'o', OPTION_OUTPUT, offsetof(struct merge_request, out), "FILE", NULL,
               "Where the table goes (default: standard output)"),
    ROW_LAST};

const struct command command_merge = {
    .name = "merge",
    .synopsis = "CSV ... [options]",
    .help = "the shards of a sweep as one table, in the order of the whole sweep",
    .examples = "foretrain merge 1.csv 2.csv 3.csv 4.csv -o all.csv",
    RECORD(options, struct merge_request, NULL),
    TAKES(1, INT32_MAX),
    .run = run,
};
