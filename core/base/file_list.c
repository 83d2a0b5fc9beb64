/* Apart from file.c, whose claims the library does without. */

#include "core/base/file.h"

#include <dirent.h>

struct texts file_list(const char *path, bool (*wanted)(const char *name))
{
    struct texts names = {0};
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (wanted(entry->d_name))
            texts_add(&names, "%s", entry->d_name);
    if (directory)
        closedir(directory);
    texts_sort(&names);
    return names;
}
