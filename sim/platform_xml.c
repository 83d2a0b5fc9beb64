#include "sim/platform_xml.h"

#include <stdlib.h>

char *platform_host_name(const struct fold *fold, int32_t relation, int32_t class)
{
    return base_format("%d.%d", relation, fold->member[class]);
}

static void print_link(struct text *out, const struct fabric *fabric, int32_t link)
{
    char *name = fabric_link_name(fabric, link);
    text_add(out, "<link id=\"%s\" bandwidth=\"%.17gBps\" latency=\"0s\"/>\n", name,
             fabric->link[link].bandwidth * PLATFORM_BYTE_SCALE);
    free(name);
}

/* The links that routes of the classes' members really use. */
static void print_links(struct text *out, const struct traffic *traffic, const struct fold *fold)
{
    bool *printed = base_alloc(fold->link_count, sizeof(*printed));
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
    free(printed);
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
        char *name = fabric_link_name(traffic->fabric, fold->link_member[link]);
        for (int32_t k = fold->size[class] / fold->link_size[link]; k > 0; k--)
            text_add(out, "<link_ctn id=\"%s\"/>", name);
        free(name);
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

/* A zone of the classes that @first reaches by sending on and on.  Marks them as @done. */
static void print_zone(struct text *out, const struct traffic *traffic, const struct fold *fold,
                       int32_t p, int32_t first, bool *done)
{
    const struct relation *relation = &traffic->relation[p];
    text_add(out, "<zone id=\"zone%d.%d\" routing=\"Full\">\n", p, first);
    for (int32_t c = first; c >= 0 && !done[c]; c = fold_to(fold, relation, c)) {
        text_add(out, "<host id=\"%d.%d\" speed=\"1f\"/>\n", p, fold->member[c]);
        done[c] = true;
    }
    for (int32_t c = first, to; c >= 0; c = to == first ? -1 : to) {
        to = fold_to(fold, relation, c);
        if (to >= 0)
            print_route(out, traffic, fold, p, c);
    }
    text_add(out, "</zone>\n");
}

static void print_zones(struct text *out, const struct traffic *traffic, const struct fold *fold,
                        int32_t p)
{
    const struct relation *relation = &traffic->relation[p];
    bool *done = base_alloc(fold->count, sizeof(*done));
    for (int32_t c = 0; c < fold->count; c++) {
        if (!done[c] && (fold_to(fold, relation, c) >= 0 || fold_from(fold, relation, c) >= 0))
            print_zone(out, traffic, fold, p, chain_start(fold, relation, c), done);
    }
    free(done);
}

void platform_xml_print(struct text *out, const struct traffic *traffic, const struct fold *fold)
{
    text_add(out, "<?xml version='1.0'?>\n"
                  "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n<zone id=\"world\" routing=\"None\">\n"
                  "<zone id=\"start\" routing=\"None\">"
                  "<host id=\"" PLATFORM_HOME "\" speed=\"1f\"/></zone>\n");
    print_links(out, traffic, fold);
    for (int32_t p = 0; p < traffic->relation_count; p++)
        print_zones(out, traffic, fold, p);
    text_add(out, "</zone>\n</platform>\n");
}
