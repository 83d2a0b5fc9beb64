#pragma once

/** @file
 * Files in which something is wrong.  Each says in a comment what the message must contain:
 * "# expect: line:column: error: ..."; a comment "# exit: 66" says that the exit code is not 65.
 */

#include <dirent.h>

#include "core/base/file.h"
#include "tests/test.h"

/** @name in the data directory; the caller frees it. */
static inline char *data_path(const char *name)
{
    const char *folder = getenv("FORETRAIN_DATADIR");
    assert_non_null(folder);
    return base_format("%s/%s", folder, name);
}

/** Call @visit with the path of each file in @folder of the data directory whose name ends with
 * @ending.  Returns their number. */
static inline int32_t each_file(const char *folder, const char *ending,
                                void (*visit)(const char *path))
{
    AUTOFREE char *folder_path = data_path(folder);
    DIR *directory = opendir(folder_path);
    assert_non_null(directory);
    int32_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name), tail = strlen(ending);
        if (*entry->d_name == '.' || length < tail ||
            strcmp(entry->d_name + length - tail, ending) != 0)
            continue;
        char *path = base_format("%s/%s", folder_path, entry->d_name);
        visit(path);
        free(path);
        count++;
    }
    closedir(directory);
    return count;
}

/** The rest of the line behind @mark, or NULL; the file may hold any bytes. */
static inline char *line_behind(const char *path, const char *mark)
{
    HELD(text) text = {0};
    assert_int_equal(file_read(path, &text, &err), 0);
    const char *found = memmem(text.data, (size_t)text.length, mark, strlen(mark));
    return found ? strndup(found + strlen(mark), strcspn(found + strlen(mark), "\n")) : NULL;
}

/** @read must fail on @path with the message and the exit code that the file expects. */
static inline void check_faulty(const char *path, int (*read)(const char *path))
{
    AUTOFREE char *expected = line_behind(path, "# expect: ");
    AUTOFREE char *code = line_behind(path, "# exit: ");
    err_release(&err);
    if (!expected)
        fail_msg("%s does not say what to expect", path);
    if (read(path) != -1)
        fail_msg("%s was accepted", path);
    if (err.exit_code != (code ? atoi(code) : 65) || !strstr(err.text, expected))
        fail_msg("%s: exit code %d and\n%s", path, err.exit_code, err.text);
}
