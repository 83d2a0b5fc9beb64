#include "sim/engine.h"

#include <simgrid/engine.h>

#include "core/base/file.h"

/* Short chains share a zone up to this number of hosts: for each new host SimGrid searches every
 * zone, and for each zone every host. */
enum { ZONE_HOSTS = 64 };

char *platform_host_name(int32_t relation, int32_t class)
{
    return base_format("%d.%d", relation, class);
}

/* How many classes send in relation @p. */
static int32_t count_senders(const struct traffic *traffic, int32_t p)
{
    int32_t count = 0;
    for (int32_t c = 0; c < traffic->ranks; c++)
        count += traffic->relation[p].to[c] >= 0;
    return count;
}

static bool same_route(const struct relation *a, const struct relation *b, int32_t rank)
{
    int32_t links = a->path[rank + 1] - a->path[rank];
    return links == b->path[rank + 1] - b->path[rank] &&
           !memcmp(a->link + a->path[rank], b->link + b->path[rank],
                   (size_t)links * sizeof(*a->link));
}

/* Whether every sender in @part sends to the same class over the same links in @whole. */
static bool contains(const struct relation *whole, const struct relation *part)
{
    for (int32_t c = 0; c < part->ranks; c++)
        if (part->to[c] >= 0 && (whole->to[c] != part->to[c] || !same_route(whole, part, c)))
            return false;
    return true;
}

int32_t *platform_hosts(const struct traffic *traffic)
{
    int32_t count = traffic->relation_count;
    int32_t *host = base_alloc(count, sizeof(*host));
    AUTOFREE int32_t *senders = base_alloc(count, sizeof(*senders));
    for (int32_t p = 0; p < count; p++)
        senders[p] = count_senders(traffic, p);
    for (int32_t p = 0; p < count; p++) {
        int32_t best = p;
        for (int32_t q = 0; q < count; q++) {
            bool earlier = q < best && senders[q] == senders[best];
            if ((earlier || senders[q] > senders[best]) &&
                contains(&traffic->relation[q], &traffic->relation[p]))
                best = q;
        }
        host[p] = best;
    }
    return host;
}

/* The links that routes really use. */
static void print_links(struct text *out, const struct traffic *traffic)
{
    AUTOFREE bool *used = base_alloc(traffic->link_count, sizeof(*used));
    for (int32_t p = 0; p < traffic->relation_count; p++)
        for (int32_t i = 0; i < traffic->relation[p].links; i++)
            used[traffic->relation[p].link[i]] = true;
    for (int32_t l = 0; l < traffic->link_count; l++)
        if (used[l])
            text_add(out, "<link id=\"%d\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", l,
                     traffic->bandwidth[l] * PLATFORM_BYTE_SCALE);
}

static void print_route(struct text *out, const struct traffic *traffic, int32_t p, int32_t class)
{
    const struct relation *relation = &traffic->relation[p];
    text_add(out, "<route src=\"%d.%d\" dst=\"%d.%d\" symmetrical=\"NO\">", p, class, p,
             relation->to[class]);
    for (int32_t i = relation->path[class]; i < relation->path[class + 1]; i++)
        text_add(out, "<link_ctn id=\"%d\"/>", relation->link[i]);
    text_add(out, "</route>\n");
}

/* The first class of the chain that @class is in, or @class itself in a cycle. */
static int32_t chain_start(const struct relation *relation, int32_t class)
{
    int32_t first = class;
    for (int32_t from = class; from >= 0;) {
        first = from;
        from = relation->from[first];
        if (from == class)
            return class;
    }
    return first;
}

/* A zone while it is written: SimGrid requires all hosts of a zone before its routes. */
struct zone {
    struct text host, route;
    int32_t hosts;
};

static void close_zone(struct text *out, struct zone *zone, int32_t p, int32_t first)
{
    if (zone->hosts > 0)
        text_add(out, "<zone id=\"zone%d.%d\" routing=\"Full\">\n%s%s</zone>\n", p, first,
                 zone->host.data, zone->route.data ? zone->route.data : "");
    text_release(&zone->host);
    text_release(&zone->route);
    *zone = (struct zone){0};
}

/* Add the classes in the chain of messages from @first.  Marks them as @done. */
static void add_chain(struct zone *zone, const struct traffic *traffic, int32_t p, int32_t first,
                      bool *done)
{
    const struct relation *relation = &traffic->relation[p];
    for (int32_t c = first; c >= 0 && !done[c]; c = relation->to[c]) {
        text_add(&zone->host, "<host id=\"%d.%d\" speed=\"1f\"/>\n", p, c);
        zone->hosts++;
        done[c] = true;
    }
    for (int32_t c = first, to; c >= 0; c = to == first ? -1 : to) {
        to = relation->to[c];
        if (to >= 0)
            print_route(&zone->route, traffic, p, c);
    }
}

static void print_zones(struct text *out, const struct traffic *traffic, int32_t p)
{
    const struct relation *relation = &traffic->relation[p];
    AUTOFREE bool *done = base_alloc(traffic->ranks, sizeof(*done));
    struct zone zone = {0};
    int32_t first = 0;
    for (int32_t c = 0; c < traffic->ranks; c++) {
        if (done[c] || (relation->to[c] < 0 && relation->from[c] < 0))
            continue;
        first = zone.hosts ? first : c;
        add_chain(&zone, traffic, p, chain_start(relation, c), done);
        if (zone.hosts >= ZONE_HOSTS)
            close_zone(out, &zone, p, first);
    }
    close_zone(out, &zone, p, first);
}

void platform_xml_print(struct text *out, const struct traffic *traffic)
{
    text_add(out, "<?xml version='1.0'?>\n"
                  "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n<zone id=\"world\" routing=\"None\">\n"
                  "<zone id=\"start\" routing=\"None\">"
                  "<host id=\"" PLATFORM_HOME "\" speed=\"1f\"/></zone>\n");
    print_links(out, traffic);
    AUTOFREE int32_t *host = platform_hosts(traffic);
    for (int32_t p = 0; p < traffic->relation_count; p++)
        if (host[p] == p)
            print_zones(out, traffic, p);
    text_add(out, "</zone>\n</platform>\n");
}

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
