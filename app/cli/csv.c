#include "app/cli/csv.h"

#include <string.h>

#include "core/base/file.h"

bool csv_is_answer(const struct request *request)
{
    return request->csv && !strcmp(request->csv, "-");
}

int csv_write(const struct request *request, struct json *rows, struct text *out, struct err *err)
{
    AUTORELEASE(text) struct text table = {0};
    int failed = 0;
    if (csv_is_answer(request))
        json_print_csv(out, rows);
    else if (request->csv)
        json_print_csv(&table, rows);
    if (table.length)
        failed = file_write(request->csv, &table, NULL, err);
    json_free(rows);
    return failed;
}
