#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "app/cli/command.h"
#include "app/cli/csv.h"
#include "app/process/child.h"
#include "app/study/published_run.h"

struct published_request {
    struct request head;
    struct predict_options predict;
    const char *keep;
};

static int predict_all(struct published_answer *answer, const struct published *table,
                       const struct published_request *request, struct err *err)
{
    int32_t refused = 0;
    for (int32_t i = 0; i < table->count; i++) {
        if (published_predict(&answer[i], &table->row[i], request->keep, &request->predict, err))
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
    AUTORELEASE(json) struct json *json = published_json(answer, table->count);
    if (table->note)
        json_put_text(json, "note", table->note);
    json_print(out, json);
}

static int run_published(const void *record, struct text *out, struct err *err)
{
    const struct published_request *request = record;
    struct published table;
    if (published_read(&table, request->head.argument.item[0], err))
        return -1;
    AUTOFREE struct published_answer *answer = base_alloc(table.count, sizeof(*answer));
    int failed = request->keep && mkdir(request->keep, 0777) && errno != EEXIST
                     ? err_add_code(err, 73, "cannot create %s: %s", request->keep, strerror(errno))
                     : predict_all(answer, &table, request, err);
    if (!failed && !csv_is_answer(&request->head))
        print(out, answer, &table, request->head.json);
    if (!failed)
        failed = csv_write(&request->head, published_rows(answer, table.count), NULL, out, err);
    for (int32_t i = 0; i < table.count; i++)
        published_answer_release(&answer[i]);
    published_release(&table);
    return failed;
}

#define AT(member) offsetof(struct published_request, member)

static const struct option options[] = {
    ROW_BACKEND(AT(predict.backend)), ROW_JSON, ROW_CSV("the rows"),
    OPTION_ROW("keep", 'k', OPTION_FOLDER, AT(keep), "DIR", NULL,
               "Keep what each row was mapped to in DIR", .holds = "*.yaml"),
    ROW_LAST};

static const struct published_request defaults = {.predict = {PREDICT_COMMAND}};

const struct command command_published = {
    .name = "published",
    .synopsis = "FILE.csv [options]",
    .help = "predict published runs from their own columns and say how far off that is",
    .examples = "foretrain published experiments/02_published_runs/runs.csv\n"
                "foretrain published runs.csv --keep mapped    (platform and scenario of each row)",
    RECORD(options, struct published_request, &defaults),
    TAKES(1, 1),
    .run = run_published,
};
