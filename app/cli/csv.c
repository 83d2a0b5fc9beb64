#include "app/cli/csv.h"

#include "core/base/file.h"

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
