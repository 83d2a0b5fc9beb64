#include "sim/platform_xml.h"

#include <string.h>

/* Short chains share a zone up to this number of hosts: for each new host SimGrid searches every
 * zone, and for each zone every host. */
enum { ZONE_HOSTS = 64 };

char *platform_host_name(const struct fold *fold, int32_t relation, int32_t class)
{
    return base_format("%d.%d", relation, fold->member[class]);
}

/* How many classes send in relation @p. */
static int32_t count_senders(const struct traffic *traffic, const struct fold *fold, int32_t p)
{
    int32_t count = 0;
    for (int32_t c = 0; c < fold->count; c++)
        count += fold_to(fold, &traffic->relation[p], c) >= 0;
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
static bool contains(const struct fold *fold, const struct relation *whole,
                     const struct relation *part)
{
    for (int32_t c = 0; c < fold->count; c++) {
        int32_t to = fold_to(fold, part, c);
        if (to >= 0 && (fold_to(fold, whole, c) != to || !same_route(whole, part, fold->member[c])))
            return false;
    }
    return true;
}

int32_t *platform_hosts(const struct traffic *traffic, const struct fold *fold)
{
    int32_t count = traffic->relation_count;
    int32_t *host = base_alloc(count, sizeof(*host));
    AUTOFREE int32_t *senders = base_alloc(count, sizeof(*senders));
    for (int32_t p = 0; p < count; p++)
        senders[p] = count_senders(traffic, fold, p);
    for (int32_t p = 0; p < count; p++) {
        int32_t best = p;
        for (int32_t q = 0; q < count; q++) {
            bool earlier = q < best && senders[q] == senders[best];
            if ((earlier || senders[q] > senders[best]) &&
                contains(fold, &traffic->relation[q], &traffic->relation[p]))
                best = q;
        }
        host[p] = best;
    }
    return host;
}

static void print_link(struct text *out, const struct fabric *fabric, int32_t link)
{
    AUTOFREE char *name = fabric_link_name(fabric, link);
    text_add(out, "<link id=\"%s\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", name,
             fabric->link[link].bandwidth * PLATFORM_BYTE_SCALE);
}

/* The links that routes of the classes' members really use. */
static void print_links(struct text *out, const struct traffic *traffic, const struct fold *fold)
{
    AUTOFREE bool *printed = base_alloc(fold->link_count, sizeof(*printed));
    for (int32_t p = 0; p < traffic->relation_count; p++) {
        const struct relation *relation = &traffic->relation[p];
        for (int32_t c = 0; c < fold->count; c++) {
            int32_t member = fold->member[c];
            for (int32_t i = relation->path[member]; i < relation->path[member + 1]; i++) {
                int32_t class = fold->link_class[relation->link[i]];
                if (!printed[class])
                    print_link(out, traffic->fabric, fold->link_member[class]);
                printed[class] = true;
            }
        }
    }
}

static void print_route(struct text *out, const struct traffic *traffic, const struct fold *fold,
                        int32_t p, int32_t class)
{
    const struct relation *relation = &traffic->relation[p];
    int32_t member = fold->member[class], to = fold_to(fold, relation, class);
    text_add(out, "<route src=\"%d.%d\" dst=\"%d.%d\" symmetrical=\"NO\">", p, member, p,
             fold->member[to]);
    for (int32_t i = relation->path[member]; i < relation->path[member + 1]; i++) {
        int32_t link = fold->link_class[relation->link[i]];
        AUTOFREE char *name = fabric_link_name(traffic->fabric, fold->link_member[link]);
        for (int32_t k = fold->size[class] / fold->link_size[link]; k > 0; k--)
            text_add(out, "<link_ctn id=\"%s\"/>", name);
    }
    text_add(out, "</route>\n");
}

/* The first class of the chain that @class is in, or @class itself in a cycle. */
static int32_t chain_start(const struct fold *fold, const struct relation *relation, int32_t class)
{
    int32_t first = class;
    for (int32_t from = class; from >= 0;) {
        first = from;
        from = fold_from(fold, relation, first);
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
static void add_chain(struct zone *zone, const struct traffic *traffic, const struct fold *fold,
                      int32_t p, int32_t first, bool *done)
{
    const struct relation *relation = &traffic->relation[p];
    for (int32_t c = first; c >= 0 && !done[c]; c = fold_to(fold, relation, c)) {
        text_add(&zone->host, "<host id=\"%d.%d\" speed=\"1f\"/>\n", p, fold->member[c]);
        zone->hosts++;
        done[c] = true;
    }
    for (int32_t c = first, to; c >= 0; c = to == first ? -1 : to) {
        to = fold_to(fold, relation, c);
        if (to >= 0)
            print_route(&zone->route, traffic, fold, p, c);
    }
}

static void print_zones(struct text *out, const struct traffic *traffic, const struct fold *fold,
                        int32_t p)
{
    const struct relation *relation = &traffic->relation[p];
    AUTOFREE bool *done = base_alloc(fold->count, sizeof(*done));
    struct zone zone = {0};
    int32_t first = 0;
    for (int32_t c = 0; c < fold->count; c++) {
        if (done[c] || (fold_to(fold, relation, c) < 0 && fold_from(fold, relation, c) < 0))
            continue;
        first = zone.hosts ? first : c;
        add_chain(&zone, traffic, fold, p, chain_start(fold, relation, c), done);
        if (zone.hosts >= ZONE_HOSTS)
            close_zone(out, &zone, p, first);
    }
    close_zone(out, &zone, p, first);
}

void platform_xml_print(struct text *out, const struct traffic *traffic, const struct fold *fold)
{
    text_add(out, "<?xml version='1.0'?>\n"
                  "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n<zone id=\"world\" routing=\"None\">\n"
                  "<zone id=\"start\" routing=\"None\">"
                  "<host id=\"" PLATFORM_HOME "\" speed=\"1f\"/></zone>\n");
    print_links(out, traffic, fold);
    AUTOFREE int32_t *host = platform_hosts(traffic, fold);
    for (int32_t p = 0; p < traffic->relation_count; p++)
        if (host[p] == p)
            print_zones(out, traffic, fold, p);
    text_add(out, "</zone>\n</platform>\n");
}
