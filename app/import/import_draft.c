#include <signal.h>

#include "app/import/import.h"
#include "app/process/child.h"
#include "app/process/launch.h"
#include "app/process/process.h"
#include "core/base/file.h"

/* ---- the program ---- */

static void report(const char *name, int code, struct text *said, struct err *err)
{
    if (code > 128) {
        err_add_code(err, 70, "%s: foretrain-read ended by signal %d%s", name, code - 128,
                     code - 128 == SIGXCPU ? ": the file takes too long to read" : "");
        return;
    }
    if (said->length)
        said->data[strcspn(said->data, "\n")] = '\0';
    err_add_code(err, process_documented(code), "%s",
                 said->length ? said->data : "foretrain-read failed");
}

struct json *import_run_reader(const char *kind, const char *name, int input, int32_t ranks,
                               int32_t nodes, struct err *err)
{
    static const char python[] = "/usr/bin/python3"; /* which runs foretrain-read */
    AUTOFREE char *program = child_program("foretrain-read");
    if (!program || access(python, X_OK) != 0) {
        err_add_code(err, 69, "%s: this file is read by %s: %s", name,
                     program ? "Python, which is missing" : "foretrain-read, which is missing",
                     program ? "apt-get install python3" : "'foretrain env' shows why");
        return NULL;
    }
    AUTORELEASE(launch)
    struct launch launch = {.input = input};
    texts_add(&launch.words, "%s", program);
    texts_add(&launch.words, "%s", kind);
    texts_add(&launch.words, "%s", name);
    texts_add(&launch.words, "%d", ranks);
    texts_add(&launch.words, "%d", nodes);
    int code = launch_keep(&launch, true, err) ? -1 : launch_run(&launch, err);
    if (code < 0)
        return NULL;
    AUTORELEASE(text)
    struct text told = launch_read(launch.output), said = launch_read(launch.talk);
    if (!code)
        return json_read("foretrain-read", told.data ? told.data : "", told.length, err);
    report(name, code, &said, err);
    return NULL;
}

/* ---- the draft ---- */

enum { VERTEX_LIMIT = 64 /* of each kind */ };

static double real(const struct json *json)
{
    double value = 0;
    return json_as_real(json, &value) && isfinite(value) ? value : 0;
}

/* A whole number from 0 to @most. */
static int32_t whole(const struct json *json, int32_t most)
{
    int64_t value;
    bool good = json_as_integer(json, &value) && value >= 0 && value <= most;
    return good ? (int32_t)value : 0;
}

static const char *word(const struct json *object, const char *key)
{
    const char *text = json_as_text(json_get(object, key));
    return text ? text : "";
}

static void read_quantity(struct quantity *quantity, const struct json *object, const char *key)
{
    const struct json *list = json_get(object, key);
    const char *kind = json_as_text(json_item(list, 1)), *source = json_as_text(json_item(list, 2));
    for (enum provenance i = 0; kind && source && i < PROVENANCE_COUNT; i++)
        if (!strcmp(kind, provenance_name(i)))
            import_set(quantity, real(json_item(list, 0)), i, "%s", source);
}

static void read_link(struct link_record *link, const struct json *object)
{
    read_quantity(&link->bandwidth, object, "bandwidth");
    read_quantity(&link->efficiency, object, "efficiency");
}

static void read_node(struct import *import, const struct json *draft)
{
    const struct json *links = json_get(draft, "links"), *cables = json_get(draft, "cables");
    const struct json *vertices = json_get(draft, "vertices");
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        import->wiring.count[kind] = whole(json_item(vertices, kind), VERTEX_LIMIT);
    for (int64_t i = 0; i < json_count_items(links) && i < IMPORT_LINK_LIMIT; i++) {
        const struct json *link = json_item(links, i);
        read_link(&import->link[import_add_link(import, word(link, "name"))], link);
    }
    int32_t count = wiring_vertices(&import->wiring);
    for (int64_t i = 0; i < json_count_items(cables) && count && import->link_count; i++) {
        const struct json *cable = json_item(cables, i);
        import_connect(import, whole(json_item(cable, 0), count - 1),
                       whole(json_item(cable, 1), count - 1),
                       whole(json_item(cable, 2), import->link_count - 1));
    }
}

static void read_tiers(struct import *import, const struct json *list)
{
    for (int64_t i = 0; i < json_count_items(list) && i < IMPORT_TIER_LIMIT; i++) {
        const struct json *item = json_item(list, i);
        struct tier_record *tier = &import->tier[import->tier_count++];
        tier->uplink.name = base_copy(word(item, "name"));
        tier->nodes = whole(json_get(item, "nodes"), INT32_MAX);
        tier->uplinks = whole(json_get(item, "uplinks"), INT32_MAX);
        tier->rails = whole(json_get(item, "rails"), INT32_MAX);
        read_link(&tier->uplink, item);
    }
}

static void read_nccl(struct import *import, const struct json *object)
{
    struct import_nccl *nccl = &import->nccl;
    nccl->channels = whole(json_get(object, "channels"), 64);
    nccl->intra =
        strcmp(word(object, "intra"), nccl_intra_names[NCCL_PCI]) ? NCCL_NVLINK : NCCL_PCI;
    nccl->why = base_copy(word(object, "why"));
    read_quantity(&nccl->bandwidth, object, "bandwidth");
}

static int read_curve(struct import *import, struct curve *curve, const struct json *rows,
                      struct err *err)
{
    for (int64_t i = 0; i < json_count_items(rows); i++) {
        const struct json *row = json_item(rows, i);
        if (!curve_add(curve, real(json_item(row, 0)), real(json_item(row, 1))))
            return err_add(err, "%s: more than %d sizes", import->file, CURVE_ROWS);
    }
    return 0;
}

/* The measurements that platforms are fitted to. */
static int fit(struct import *import, const struct import_request *request,
               const struct json *draft, struct err *err)
{
    const struct json *times = json_get(draft, "times"), *pair = json_get(draft, "pair");
    struct curve curve = {.count = 0}, bandwidth = {.count = 0};
    if (times && !read_curve(import, &curve, json_get(times, "rows"), err)) {
        int32_t ranks = whole(json_get(times, "ranks"), INT32_MAX);
        int32_t nodes = whole(json_get(times, "nodes"), INT32_MAX), done = 1;
        import->nccl.version = whole(json_get(times, "nccl"), 399);
        if (json_get(times, "nccl"))
            done = import_fit_nccl(import, request, &curve, ranks, nodes, err);
        return done < 1 ? done : import_fit_ring(import, &curve, ranks, nodes, err);
    }
    if (pair && !read_curve(import, &curve, json_get(pair, "latency"), err) &&
        !read_curve(import, &bandwidth, json_get(pair, "bandwidth"), err))
        return import_fit_pair(import, &curve, &bandwidth, whole(json_get(pair, "nodes"), 2), err);
    return times || pair ? -1 : 0;
}

static void read_lines(struct text *list, const struct json *array)
{
    for (int64_t i = 0; i < json_count_items(array); i++)
        if (json_as_text(json_item(array, i)))
            text_add(list, "%s\n", json_as_text(json_item(array, i)));
}

static struct import_steps read_steps(const struct json *steps)
{
    return (struct import_steps){.seconds = real(json_get(steps, "seconds")),
                                 .tokens = real(json_get(steps, "tokens")),
                                 .spread = real(json_get(steps, "spread")),
                                 .count = whole(json_get(steps, "count"), INT32_MAX),
                                 .devices = whole(json_get(steps, "devices"), INT32_MAX),
                                 .batch = whole(json_get(steps, "batch"), INT32_MAX),
                                 .tensor = whole(json_get(steps, "tensor"), INT32_MAX),
                                 .pipeline = whole(json_get(steps, "pipeline"), INT32_MAX)};
}

static int understand(struct import *import, const struct import_request *request,
                      const struct json *draft, struct err *err)
{
    read_lines(&import->understood, json_get(draft, "understood"));
    read_lines(&import->assumed, json_get(draft, "assumed"));
    read_lines(&import->warning, json_get(draft, "warnings"));
    import->description = base_copy(word(draft, "description"));
    import->nodes = whole(json_get(draft, "nodes"), INT32_MAX);
    if (*word(draft, "device"))
        import->device = base_copy(word(draft, "device"));
    else if (*word(draft, "model"))
        import_set_device(import, word(draft, "model"));
    import->cards = whole(json_get(draft, "cards"), VERTEX_LIMIT);
    read_node(import, draft);
    read_link(&import->nic, json_get(draft, "nic"));
    read_tiers(import, json_get(draft, "tiers"));
    read_nccl(import, json_get(draft, "nccl"));
    import->steps = read_steps(json_get(draft, "steps"));
    return fit(import, request, draft, err);
}

int import_draft(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    int input = import_load(import->file, &text, err) ? -1 : file_in_memory("file", &text, err);
    if (input < 0)
        return -1;
    AUTORELEASE(json)
    struct json *draft =
        import_run_reader(import->kind, import->file, input, request->ranks, request->nodes, err);
    close(input);
    return draft ? understand(import, request, draft, err) : -1;
}
