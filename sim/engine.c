#include "sim/engine.h"

#include <assert.h>
#include <simgrid/engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "sim/platform_xml.h"

/* The address sanitizer does not know SimGrid's hand-made stacks.  It accepts libc's, which it
 * needs larger, and which switch much faster than threads. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#define CONTEXTS  "ucontext"
#define STACK_KIB "256"
#else
#define CONTEXTS  "raw"
#define STACK_KIB "16"
#endif

/* Bandwidth is the platform's and latency the actors' (lane.h); SimGrid adds no factors of its own.
 * Its log is off, since we report failures ourselves.  Stacks are small because there may be tens
 * of thousands, and unguarded because each guard would need two of the 65530 mappings of a process;
 * the actors need less than half of a stack. */
static char settings[][40] = {
    "foretrain-sim",
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--cfg=surf/precision:1e-13",
    "--cfg=maxmin/precision:1e-12",
    "--cfg=contexts/factory:" CONTEXTS,
    "--cfg=contexts/stack-size:" STACK_KIB,
    "--cfg=contexts/guard-size:0",
    "--log=root.app:file:/dev/null",
};

/* SimGrid reads a platform only by path; this one is not on any disk. */
static int load_platform(const struct text *xml, struct err *err)
{
    int file = file_in_memory("platform", xml, err);
    if (file < 0)
        return -1;
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    simgrid_load_platform(path);
    close(file);
    return 0;
}

int engine_start(const struct traffic *traffic, struct err *err)
{
    int argc = (int)(ARRAY_SIZE(settings));
    char *argv[ARRAY_SIZE(settings) + 1] = {NULL};
    for (int i = 0; i < argc; i++)
        argv[i] = settings[i];
    simgrid_init(&argc, argv);
    AUTORELEASE(text) struct text xml = {0};
    platform_xml_print(&xml, traffic);
    return load_platform(&xml, err);
}

static int compare_hosts(const void *a, const void *b)
{
    const sg_host_t *first = a, *second = b;
    return strcmp(sg_host_get_name(*first), sg_host_get_name(*second));
}

struct directory directory_new(void)
{
    struct directory directory = {.host = sg_host_list(), .count = sg_host_count()};
    qsort(directory.host, directory.count, sizeof(*directory.host), compare_hosts);
    return directory;
}

static int compare_name(const void *name, const void *host)
{
    const sg_host_t *found = host;
    return strcmp(name, sg_host_get_name(*found));
}

sg_host_t directory_find(const struct directory *directory, const char *name)
{
    sg_host_t *found =
        bsearch(name, directory->host, directory->count, sizeof(*directory->host), compare_name);
    assert(found);
    return *found;
}

void directory_release(struct directory *directory)
{
    free(directory->host);
    *directory = (struct directory){0};
}
