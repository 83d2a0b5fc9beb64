#include "exec/checkpoint/run_record.h"

#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/file.h"
#include "core/base/json.h"

static void copy_text(const struct json *json, const char *key, char *to, size_t size)
{
    const char *text = json_as_text(json_get(json, key));
    snprintf(to, size, "%s", text ? text : "");
    for (; *to; to++)
        if (*to < ' ' || *to > '~')
            *to = '?';
}

int run_record_read(const char *path, struct run_record *record)
{
    AUTORELEASE(text) struct text content = {0};
    AUTORELEASE(err) struct err err = {0};
    AUTOFREE char *name = base_format("%s/run.json", path);
    *record = (struct run_record){0};
    int failed = file_read(name, &content, &err);
    AUTORELEASE(json)
    struct json *json =
        failed || content.length == 0 ? NULL : json_read(name, content.data, content.length, &err);
    const char *schema = json_as_text(json_get(json, "schema"));
    failed = failed || (content.length > 0 && (!schema || strcmp(schema, RUN_RECORD_SCHEMA) != 0));
    if (!failed && json) {
        copy_text(json, "run", record->run, sizeof(record->run));
        copy_text(json, "host", record->host, sizeof(record->host));
        copy_text(json, "since", record->since, sizeof(record->since));
        json_as_integer(json_get(json, "process"), &record->process);
    }
    return failed ? -1 : 0;
}

bool run_record_run(const char *path, char run[RUN_ID_SIZE])
{
    struct run_record record;
    if (run_record_read(path, &record) || !*record.run)
        return false;
    memcpy(run, record.run, RUN_ID_SIZE);
    return true;
}
