#include "app/calibrate/calibrate_machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

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

char *calibrate_command(const char *kind, const struct request *request)
{
    return base_format("foretrain calibrate %s --device %s --networks %s --batch %s --threads %d "
                       "--precision %s --repeats %d",
                       kind, device_words[request->device], request->networks, request->batches,
                       request->threads, dtype_names[request->dtype], request->repeats);
}

char *calibrate_name(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/'), *first = slash ? slash + 1 : path;
    size_t length = strlen(first);
    if (length > 5 && !strcmp(first + length - 5, ".yaml"))
        return base_format("%.*s", (int)length - 5, first);
    err_add_code(err, 64, "--out %s: expected a name that ends in .yaml", path);
    return NULL;
}

static int write_whole(const char *path, const struct text *text, struct err *err)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return err_add_code(err, 73, "cannot write %s: %s", path, strerror(errno));
    bool whole = fwrite(text->data, 1, (size_t)text->length, file) == (size_t)text->length;
    if ((fclose(file) == 0) & whole)
        return 0;
    return err_add_code(err, 74, "cannot write %s: %s", path, strerror(errno));
}

int calibrate_keep(const char *path, const struct text *text,
                   int (*check)(const char *path, struct err *err), struct err *err)
{
    char *fresh = base_format("%s%s.new", strchr(path, '/') ? "" : "./", path);
    int failed = write_whole(fresh, text, err) || check(fresh, err);
    if (!failed && rename(fresh, path))
        failed = err_add_code(err, 73, "cannot write %s: %s", path, strerror(errno));
    if (failed)
        unlink(fresh);
    free(fresh);
    return failed ? -1 : 0;
}
