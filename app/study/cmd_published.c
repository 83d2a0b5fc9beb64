#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/study/published_run.h"

/* Directory of platforms and scenarios: --keep DIR, else one that is removed afterwards. */
struct folder {
    char *path;
    bool keep;
};

static int open_folder(struct folder *folder, const char *keep, struct err *err)
{
    const char *temporary = getenv("TMPDIR");
    folder->keep = keep != NULL;
    if (keep) {
        folder->path = base_copy(keep);
        if (mkdir(keep, 0777) && errno != EEXIST)
            return err_add_code(err, 73, "cannot create %s: %s", keep, strerror(errno));
        return 0;
    }
    folder->path = base_format("%s/foretrain-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder->path))
        return err_add_code(err, 73, "cannot create %s: %s", folder->path, strerror(errno));
    return 0;
}

static void close_folder(struct folder *folder, const struct published *table)
{
    static const char *const names[] = {"", "-platform"};
    for (int32_t i = 0; !folder->keep && i < 2 * table->count; i++) {
        char *file =
            base_format("%s/%d%s.yaml", folder->path, table->row[i / 2].line, names[i % 2]);
        unlink(file);
        free(file);
    }
    if (!folder->keep)
        rmdir(folder->path);
    free(folder->path);
}

struct published_request {
    struct request head;
    struct predict_options predict;
    const char *keep;
};

static int predict_all(struct published_answer *answer, const struct published *table,
                       const char *directory, const struct published_request *request,
                       struct err *err)
{
    int32_t refused = 0;
    for (int32_t i = 0; i < table->count; i++) {
        if (published_predict(&answer[i], &table->row[i], directory, &request->predict, err))
            return -1;
        refused += answer[i].refusal != NULL;
    }
    if (refused < table->count)
        return 0;
    for (int32_t i = 0; i < table->count; i++)
        err_add(err, "%s:%d: error: %s", request->head.argument.item[0], table->row[i].line,
                answer[i].refusal);
    return -1;
}

static void print(struct text *out, const struct published_answer *answer,
                  const struct published *table, bool as_json)
{
    if (!as_json) {
        published_print(out, answer, table->count);
        if (table->note)
            text_add(out, "%s\n", table->note);
        return;
    }
    struct json *json = published_json(answer, table->count);
    if (table->note)
        json_put_text(json, "note", table->note);
    json_print(out, json);
    json_free(json);
}

static int run_published(const void *record, struct text *out, struct err *err)
{
    const struct published_request *request = record;
    struct published table;
    struct folder folder = {0};
    if (published_read(&table, request->head.argument.item[0], err))
        return -1;
    struct published_answer *answer = base_alloc(table.count, sizeof(*answer));
    int failed = open_folder(&folder, request->keep, err);
    if (!failed)
        failed = predict_all(answer, &table, folder.path, request, err);
    if (!failed && !csv_is_answer(&request->head))
        print(out, answer, &table, request->head.json);
    if (!failed)
        failed = csv_write(&request->head, published_rows(answer, table.count), out, err);
    for (int32_t i = 0; i < table.count; i++)
        published_answer_release(&answer[i]);
    free(answer);
    close_folder(&folder, &table);
    published_release(&table);
    return failed;
}

#define AT(member) offsetof(struct published_request, member)

static const struct option options[] = {ROW_BACKEND(AT(predict.backend)), ROW_JSON,
                                        ROW_CSV("the rows"),
                                        OPTION_ROW("keep", 'k', OPTION_TEXT, AT(keep), "DIR", NULL,
                                                   "Keep what each row was mapped to in DIR"),
                                        ROW_LAST};

static const struct published_request defaults = {.predict = {PREDICT_DEFAULTS}};

const struct command command_published = {
    .name = "published",
    .synopsis = "FILE.csv [options]",
    .help = "predict published runs from their own columns and say how far off that is",
    .examples = "foretrain published experiments/02_published_runs/runs.csv\n"
                "foretrain published runs.csv --keep mapped    (platform and scenario of each row)",
    RECORD(options, struct published_request, &defaults),
    .minimum = 1,
    .maximum = 1,
    .run = run_published,
};
