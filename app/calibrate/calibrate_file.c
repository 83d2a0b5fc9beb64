#include "app/calibrate/calibrate_machine.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>

#include "core/base/file.h"

char *calibrate_source(const char *what)
{
    struct utsname host;
    char date[16] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (uname(&host))
        snprintf(host.nodename, sizeof(host.nodename), "this machine");
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%d", &utc);
    char *source =
        base_format("measured by foretrain calibrate on %s, %s: %s", host.nodename, date, what);
    for (char *c = source; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
            *c = '\'';
    return source;
}

char *calibrate_command(const struct calibrate_request *request)
{
    struct text line = {0};
    text_add(&line,
             "foretrain calibrate %s --device %s --networks %s --batch %s --threads %d "
             "--precision %s --repeats %d",
             request->cluster ? "cluster" : "device", device_words[request->machine.compute.device],
             request->machine.networks, request->machine.batches, request->machine.compute.threads,
             dtype_names[request->machine.dtype], request->machine.repeats);
    if (request->machine.compute.started)
        text_add(&line, " --ranks %d", request->machine.compute.started);
    return line.data;
}

int calibrate_check_file(const char *path, const struct calibrate_request *request, struct err *err)
{
    return (!request->overwrite && file_check_own(path, CALIBRATE_FILE, err)) ||
                   file_check_place(path, err)
               ? -1
               : 0;
}
