#include "app/cli/request.h"

#include "core/base/file.h"

const char *const device_words[] = {"cpu", "cpu-naive", "cuda", "replay", NULL};

const char *const nodes_keys[] = {"cluster.nodes", NULL};
const char *const platform_keys[] = {"cluster.platform", NULL};
const char *const batch_keys[] = {"training.phases[*].global_batch=null",
                                  "training.phases[*].round=null",
                                  "training.phases[*].batch_per_device", NULL};
const char *const algorithm_keys[] = {"allreduce.algorithm", NULL};

char *request_yaml_name(const char *option, const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/'), *first = slash ? slash + 1 : path;
    size_t length = strlen(first);
    if (length > 5 && !strcmp(first + length - 5, ".yaml"))
        return base_format("%.*s", (int)length - 5, first);
    err_usage(err, "%s %s: expected a name that ends in .yaml", option, path);
    return NULL;
}

bool csv_is_answer(const struct request *request)
{
    return request->csv && !strcmp(request->csv, "-");
}

int csv_write(const struct request *request, struct json *rows,
              const struct answer_columns *columns, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text table = {0};
    struct text *to = csv_is_answer(request) ? out : &table;
    if (request->csv && columns && json_count_items(rows) == 0)
        answer_heading(to, columns);
    else if (request->csv)
        json_print_csv(to, rows);
    int failed = table.length ? file_write(request->csv, &table, NULL, err) : 0;
    json_free(rows);
    return failed;
}
