#include "app/process/launch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/process/child.h"
#include "app/process/cores.h"
#include "config.h"
#include "core/base/base.h"

#ifdef HAVE_MPI
static const bool has_mpi = true;
#else
static const bool has_mpi = false;
#endif

void launch_add(struct launch *launch, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *word = base_format_list(format, list);
    va_end(list);
    launch->argument =
        base_room(launch->argument, launch->count + 1, sizeof(*launch->argument)); /* and NULL */
    launch->argument[launch->count++] = word;
    launch->argument[launch->count] = NULL;
}

bool launch_finds(const char *name)
{
    AUTOFREE char *path = base_copy(getenv("PATH"));
    bool found = false;
    for (char *save, *part = path ? strtok_r(path, ":", &save) : NULL; part && !found;
         part = strtok_r(NULL, ":", &save)) {
        AUTOFREE char *full = base_format("%s/%s", part, name);
        found = access(full, X_OK) == 0;
    }
    return found;
}

static void add_words(struct launch *launch, const char *const *words)
{
    for (; *words; words++)
        launch_add(launch, "%s", *words);
}

static void add_places(struct launch *launch, int32_t ranks)
{
    static const char *const here[] = {"--bind-to", "none", NULL};
    static const char *const yield[] = {"--mca", "mpi_yield_when_idle", "1", NULL};
    const char *const lab[] = {"--map-by", "seq", "--host", launch->hosts, NULL};
    if (launch->hosts) { /* the lab's environment sets everything else */
        add_words(launch, lab);
        return;
    }
    add_words(launch, here);
    if (launch->yields)
        add_words(launch, yield);
    if (ranks > cores_available())
        launch_add(launch, "--oversubscribe");
    if (geteuid() == 0)
        launch_add(launch, "--allow-run-as-root");
}

static int add_mpirun(struct launch *launch, int32_t ranks, struct err *err)
{
    if (!has_mpi)
        return err_add_code(err, 69,
                            "this foretrain-exec was built without MPI (libopenmpi-dev), so it has "
                            "one rank: use -n 1");
    if (!launch_finds("mpirun"))
        return err_add_code(err, 69, "mpirun was not found: install openmpi-bin");
    launch_add(launch, "mpirun");
    add_places(launch, ranks);
    launch_add(launch, "-n");
    launch_add(launch, "%d", ranks);
    return 0;
}

/* With too few descriptors MPI complains about its plugins, or waits for ever.  Measured with Open
 * MPI 4.1.4: one rank needs 30, 2 to 32 ranks under mpirun 40 to 192; all of it doubled at the
 * least.
 */
static int ask_descriptors(int32_t ranks, struct err *err)
{
    rlim_t need = 64 + 10 * (rlim_t)ranks;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= need)
        return 0;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    if (limit.rlim_cur >= need && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return 0;
    return err_add_code(
        err, 71,
        "%d rank%s need%s %llu open files, but this process may have only %llu (ulimit -n)", ranks,
        ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", (unsigned long long)need,
        (unsigned long long)limit.rlim_max);
}

int launch_begin(struct launch *launch, int32_t ranks, struct err *err)
{
    if (ask_descriptors(ranks, err))
        return -1;
    AUTOFREE char *program = child_program("foretrain-exec");
    if (!program)
        return err_add_code(err, 69, "foretrain-exec was not found; 'foretrain env' shows why");
    if ((ranks > 1 || launch->hosts) && add_mpirun(launch, ranks, err))
        return -1;
    launch_add(launch, "%s", program);
    return 0;
}

char *launch_line(const struct launch *launch)
{
    struct text line = {0};
    for (int32_t i = 0; i < launch->count; i++) {
        text_append(&line, " ", i > 0);
        text_add_word(&line, launch->argument[i]);
    }
    return line.data;
}

int launch_file(struct err *err)
{
    int file = memfd_create("foretrain", MFD_CLOEXEC);
    return file < 0 ? err_add_code(err, 71, "cannot make a file in memory: %s", strerror(errno))
                    : file;
}

struct text launch_read(int file)
{
    struct text text = {0};
    char part[4096];
    lseek(file, 0, SEEK_SET);
    for (ssize_t got; (got = read(file, part, sizeof(part))) > 0;)
        text_append(&text, part, got);
    return text;
}

void launch_release(struct launch *launch)
{
    for (int32_t i = 0; i < launch->count; i++)
        free(launch->argument[i]);
    free(launch->argument);
    *launch = (struct launch){0};
}
