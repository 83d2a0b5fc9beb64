#include "app/import/import.h"
#include "core/base/file.h"
#include "core/config/field_write.h"
#include "core/platform/platform.h"

/* --- what no file says --- */

static void complete_link(struct link_record *link)
{
    import_set(&link->bandwidth, 12.5e9, PROVENANCE_ASSUMED, "not given; assumed 100 Gb/s");
    bool measured = link->bandwidth.provenance == PROVENANCE_MEASURED;
    import_set(&link->efficiency, measured ? 1 : 0.9, PROVENANCE_ASSUMED,
               measured ? "the bandwidth is what was measured"
                        : "nobody measured: headers and software leave nine tenths");
    import_set(&link->latency, 0, PROVENANCE_ASSUMED, "contained in transport");
}

/* A device for each card and a switch between them, for a file that describes only the network. */
static void complete_node(struct import *import)
{
    int32_t *count = import->wiring.count, cards = import->cards > 1 ? import->cards : 1;
    if (count[VERTEX_DEVICE])
        return;
    count[VERTEX_DEVICE] = count[VERTEX_NIC] = cards;
    count[VERTEX_SWITCH] = cards > 1;
    int32_t link = import_add_link(import, "inside");
    int32_t nic = wiring_first(&import->wiring, VERTEX_NIC);
    import_set(&import->link[link].bandwidth, 100e9, PROVENANCE_ASSUMED,
               "not given; assumed too large to matter");
    for (int32_t i = 0; i < cards; i++) {
        import_connect(import, i, nic + i, link);
        if (cards > 1)
            import_connect(import, i, cards, link);
    }
    import_assume(import, "node: %d device%s and %d card%s; --platform NAME takes a node we know",
                  cards, base_plural(cards), cards, base_plural(cards));
}

/* Fill gaps in the inside of a node, its card and its transport with assumptions. */
static void complete(struct import *import)
{
    complete_node(import);
    for (int32_t i = 0; i < import->link_count; i++)
        complete_link(&import->link[i]);
    complete_link(&import->nic);
    import_set(&import->inside, 1.9e-6, PROVENANCE_ASSUMED,
               "nobody measured: NCCL 2.28 src/graph/tuning.cc, a ring's hop over NVLink by LL128");
    import_set(&import->between, 4e-6, PROVENANCE_ASSUMED,
               "nobody measured: NCCL 2.28 src/graph/tuning.cc, a ring's hop over the network by "
               "LL128");
    if (!import->device) {
        import->device = base_copy("ideal");
        import_warn(import, "device ideal: nothing of compute is known, so predictions are of "
                            "communication alone and have no interval; put a name of "
                            "platforms/devices into the file, or a device file of your own");
    }
    if (import->nodes < 1) {
        import->nodes = import->wiring.count[VERTEX_NIC] ? 64 : 1;
        import_assume(import, "nodes: %" PRId64 ", %s; --nodes N says how many there are",
                      import->nodes,
                      import->nodes > 1 ? "as the file describes one and no more"
                                        : "as the file knows of no network");
    }
}

/* --- the file --- */

/* A text of lines under @head, if there is one, each behind @indent. */
static void print_lines(struct text *out, const char *head, const char *indent,
                        const struct text *lines)
{
    if (lines->data)
        text_add(out, "%s\n", head);
    for (const char *line = lines->data; line && *line; line += strcspn(line, "\n") + 1)
        text_add(out, "%s%.*s\n", indent, (int)strcspn(line, "\n"), line);
}

static void print_value(struct text *out, enum unit unit, double value)
{
    if (unit == UNIT_BYTES_PER_SECOND)
        text_add(out, "%.6g GB/s", value * 1e-9);
    else if (unit == UNIT_SECONDS)
        text_add(out, "%.6g us", value * 1e6);
    else
        text_add(out, "%.6g %%", value * 100);
}

static void print_quantity(struct import *import, struct text *out, int32_t indent,
                           const char *place, const char *key, enum unit unit,
                           const struct quantity *quantity)
{
    AUTORELEASE(text) struct text value = {0};
    if (!quantity->source) /* it is the base's */
        return;
    print_value(&value, unit, quantity->value);
    field_write_quantity(out, indent, key, quantity->provenance, quantity->spread, quantity->source,
                         "%s", value.data);
    if (quantity->provenance == PROVENANCE_ASSUMED)
        import_assume(import, "%s%s: %s, %s", place, key, value.data, quantity->source);
}

static void print_link(struct import *import, struct text *out, int32_t indent, const char *place,
                       const struct link_record *link)
{
    print_quantity(import, out, indent, place, "bandwidth", UNIT_BYTES_PER_SECOND,
                   &link->bandwidth);
    print_quantity(import, out, indent, place, "efficiency", UNIT_FRACTION, &link->efficiency);
    print_quantity(import, out, indent, place, "latency", UNIT_SECONDS, &link->latency);
}

static void print_edges(const struct import *import, struct text *out)
{
    const struct wiring *wiring = &import->wiring;
    text_add(out, "  edges:\n");
    for (int32_t kind = 0; kind < import->link_count; kind++) {
        const char *comma = "";
        for (int32_t i = 0; i < wiring->cable_count; i++) {
            if (wiring->cable[i].kind != kind)
                continue;
            if (!*comma)
                text_add(out, "    - {link: %s, connect: [", import->link[kind].name);
            text_add(out, "%s", comma);
            wiring_print_vertex(out, wiring, wiring->cable[i].end[0]);
            text_add(out, "-");
            wiring_print_vertex(out, wiring, wiring->cable[i].end[1]);
            comma = ", ";
        }
        text_add(out, *comma ? "]}\n" : "");
    }
}

/* Whether some cable has this kind: a kind without cables is refused. */
static bool is_used(const struct import *import, int32_t kind)
{
    for (int32_t i = 0; i < import->wiring.cable_count; i++)
        if (import->wiring.cable[i].kind == kind)
            return true;
    return false;
}

static void print_node(struct import *import, struct text *out)
{
    static const char *const key[VERTEX_KIND_COUNT] = {"devices", "switches", "cpus", "nics"};
    text_add(out, "\nnode:\n");
    for (int32_t kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        if (import->wiring.count[kind])
            text_add(out, "  %s: %d\n", key[kind], import->wiring.count[kind]);
    if (!import->wiring.cable_count)
        return;
    text_add(out, "  links:\n");
    for (int32_t i = 0; i < import->link_count; i++) {
        if (!is_used(import, i))
            continue;
        AUTOFREE char *place = base_format("node.links %s ", import->link[i].name);
        text_add(out, "    - name: %s\n", import->link[i].name);
        print_link(import, out, 6, place, &import->link[i]);
    }
    print_edges(import, out);
}

static void print_tiers(struct import *import, struct text *out)
{
    if (import->tier_count)
        text_add(out, "  tiers:\n");
    for (int32_t i = 0; i < import->tier_count; i++) {
        const struct tier_record *tier = &import->tier[i];
        AUTOFREE char *place = base_format("network.tiers %s ", tier->uplink.name);
        text_add(out, "    - name: %s\n      nodes: %" PRId64 "\n      uplinks: %" PRId64 "\n",
                 tier->uplink.name, tier->nodes, tier->uplinks);
        if (tier->rails > 1)
            text_add(out, "      rails: %" PRId64 "\n", tier->rails);
        print_link(import, out, 6, place, &tier->uplink);
    }
}

static void print_nccl(struct import *import, struct text *out)
{
    const struct import_nccl *nccl = &import->nccl;
    if (nccl->corrections)
        text_add(out, "\nnccl:\n  version: %d\n%s  measured_nodes: %d\n  corrections:\n",
                 nccl->version, nccl->no_sharp ? "  sharp: false\n" : "", nccl->nodes);
    for (int32_t i = 0; i < nccl->corrections; i++)
        text_add(out, "    - {protocol: %s, transfer: %.6g us, factor: %.4g %%}\n",
                 nccl_protocol_name((enum nccl_protocol)nccl->correction[i].protocol),
                 1e6 * nccl->correction[i].transfer, 100 * nccl->correction[i].factor);
    if (!nccl->channels)
        return;
    text_add(out, "\nnccl:    # for allreduce.algorithm: nccl\n  intra: %s\n",
             nccl_intra_names[nccl->intra]);
    text_add(out, "  channels: %d    # assumed: %s\n", nccl->channels, nccl->why);
    import_assume(import, "nccl.channels: %d, %s", nccl->channels, nccl->why);
    print_quantity(import, out, 2, "nccl.", "intra_bandwidth", UNIT_BYTES_PER_SECOND,
                   &nccl->bandwidth);
    text_add(out, "  sharp: false    # true where the switches of the network reduce\n");
    import_assume(import, "nccl.sharp: false; true where the switches of the network reduce");
}

/* Append the platform called @name as a file, extending platform @base unless that is NULL. */
static void print_platform(struct import *import, const char *name, const char *base,
                           struct text *out)
{
    text_add(out, IMPORT_FILE " from ");
    field_write_text(out, import->base_name);
    text_add(out, "; what was assumed says kind: assumed.\n");
    print_lines(out,
                import->nccl.corrections ? "# measured, and by NCCL's model without corrections:"
                                         : "# measured, and as this file predicts it:",
                "#", &import->comparison);
    if (base)
        field_write_line(out, 0, "extends", strpbrk(import->base, "/.") ? base : import->base);
    text_add(out, "version: 1\n");
    field_write_line(out, 0, "name", name);
    field_write_line(out, 0, "description", import->description ? import->description : "imported");
    text_add(out, "kind: cluster\n");
    if (!base)
        field_write_line(out, 0, "device", import->device);
    if (import->nodes)
        text_add(out, "nodes: %" PRId64 "\n", import->nodes);
    if (!base)
        print_node(import, out);
    bool card = base ? import->nic.bandwidth.source != NULL : import->wiring.count[VERTEX_NIC];
    if (card || (base && import->tier_count))
        text_add(out, "\nnetwork:\n");
    if (card) {
        text_add(out, "  nic:\n");
        print_link(import, out, 4, "network.nic.", &import->nic);
    }
    print_tiers(import, out);
    if (!base) {
        text_add(out, "\ntransport:\n");
        print_quantity(import, out, 2, "transport.", "inside", UNIT_SECONDS, &import->inside);
        print_quantity(import, out, 2, "transport.", "between", UNIT_SECONDS, &import->between);
    }
    print_nccl(import, out);
}

/* --- the answer --- */

/* What stands at a platform's place is always a whole platform. */
static int check_platform(const char *path, struct err *err)
{
    if (!platform_check_file(path, err) && !err->count)
        return 0;
    return err_add(err, "the file does not describe a complete platform; nothing written");
}

/* The path of the platform to build on, or NULL with *@failed set when there is none. */
static char *find_base(const struct import *import, int *failed, struct err *err)
{
    if (!import->base)
        return NULL;
    AUTOFREE char *path = platform_find_file("", "platform", import->base, err);
    *failed = path ? 0 : -1;
    return path ? realpath(path, NULL) : NULL;
}

/* The default uplink: a card of the nodes below. */
struct card {
    int64_t count;
    double bandwidth, efficiency; /* 0: not known */
};

static struct card find_card(const struct import *import, const char *base)
{
    AUTORELEASE(err) struct err ignored = {0};
    AUTORELEASE(platform)
    struct platform *platform = base ? platform_read(base, &ignored) : NULL;
    struct card card = {import->wiring.count[VERTEX_NIC], import->nic.bandwidth.value,
                        import->nic.efficiency.value};
    if (platform) {
        card.count = platform->node.count[VERTEX_NIC];
        card.bandwidth = card.bandwidth > 0 ? card.bandwidth : platform->nic.bandwidth.value;
        card.efficiency = card.efficiency > 0 ? card.efficiency : platform->nic.efficiency.value;
    }
    card.count = card.count > 1 ? card.count : 1;
    return card;
}

static void complete_tiers(struct import *import, const char *base)
{
    struct card card = find_card(import, base);
    for (int32_t i = 0; i < import->tier_count; i++) {
        struct tier_record *tier = &import->tier[i];
        if (tier->uplinks < 1) {
            tier->uplinks = tier->nodes * card.count;
            import_assume(import,
                          "network.tiers %s uplinks: %" PRId64 ", one a card: nothing is "
                          "oversubscribed",
                          tier->uplink.name, tier->uplinks);
        }
        if (tier->rails > 1 && card.count % tier->rails) {
            import_assume(import,
                          "network.tiers %s rails: 1, as %" PRId64
                          " cards of a node do not share the %" PRId64 " rails evenly",
                          tier->uplink.name, card.count, tier->rails);
            tier->rails = 1;
        }
        if (card.bandwidth > 0)
            import_set(&tier->uplink.bandwidth, card.bandwidth, PROVENANCE_ASSUMED,
                       "not given; assumed as fast as a card");
        if (card.efficiency > 0)
            import_set(&tier->uplink.efficiency, card.efficiency, PROVENANCE_ASSUMED,
                       "not given; assumed as fast as a card");
        complete_link(&tier->uplink);
    }
}

static int write_platform(struct import *import, const struct import_request *request,
                          struct err *err)
{
    const char *to = request->to ? request->to : "imported.yaml";
    AUTOFREE char *name = request_yaml_name("--to", to, err);
    if (!name)
        return -1;
    int failed = 0;
    if (request->to && !request->overwrite)
        failed = file_check_own(to, IMPORT_FILE, err);
    AUTOFREE char *base = failed ? NULL : find_base(import, &failed, err);
    AUTORELEASE(text) struct text text = {0};
    if (!failed) {
        if (!base)
            complete(import);
        if (!base && import->nodes > 1 && !import->wiring.count[VERTEX_NIC])
            return err_add_code(err, 65,
                                "%s has no network card, which %" PRId64 " nodes need: use --nodes "
                                "1, or a file that has the cards",
                                import->file, import->nodes);
        complete_tiers(import, base);
        print_platform(import, name, base, &text);
        failed = request->to ? file_write(to, &text, check_platform, err) : 0;
    }
    return failed;
}

#define ABSENT .zero = true, .absent = true

COLUMNS(line_columns, NULL, struct curve_piece)
{
    COLUMN("from_bytes", from, .help = "smallest size on this line of time over size");
    COLUMN("to_bytes", to, .help = "largest size on the line");
    COLUMN("rows", rows, .help = "sizes on the line");
    COLUMN("latency_s", latency, .help = "time of no bytes");
    COLUMN("s_per_byte", per_byte, .help = "slope of the line");
    COLUMN("latency_variance", latency_variance, ABSENT, .help = "of the fit, of three sizes on");
    COLUMN("covariance", covariance, ABSENT, .help = "of latency and slope");
    COLUMN("s_per_byte_variance", per_byte_variance, ABSENT, .help = "of the slope");
}

COLUMNS(size_columns, NULL, struct import_size)
{
    COLUMN("bytes", bytes, .help = "size of the message");
    COLUMN("measured_s", measured, .help = "time in the file");
    COLUMN("predicted_s", predicted,
           .help =
               "time on the line that the platform has, or by NCCL's model before it is corrected");
    COLUMN("fitted", fitted, .help = "the line was fitted to this size");
}

COLUMNS(kernel_columns, NULL, struct import_kernel)
{
    COLUMN("name", name, .help = "of what ran on a device");
    COLUMN("activity", activity, .help = "kind of work: compute, communication or copies");
    COLUMN("count", count, .help = "how often it ran");
    COLUMN("total_s", total, .help = "all runs together");
    COLUMN("least_s", least, .help = "shortest run");
}

COLUMNS(work_columns, NULL, struct import_work)
{
    COLUMN("kind", kind, .help = "kind of work in a step, exposed communication, gaps, step");
    COLUMN("measured_s", measured, .help = "time in a step of the profile");
    COLUMN("predicted_s", predicted, .help = "time in a step of the job, in closed form");
}

COLUMNS(result_columns, NULL, struct import_result)
{
    COLUMN_ITEMS("lines", line, lines, .table = &line_columns);
    COLUMN_ITEMS("table", size, sizes, .table = &size_columns);
    COLUMN("residual", residual, ABSENT,
           .help = "root mean square error of the sizes fitted, relative");
    COLUMN("ranks", ranks, ABSENT, .help = "ranks that took part in an all-reduce");
    COLUMN("nodes", nodes, ABSENT, .help = "nodes of these ranks");
    COLUMN("bus_bandwidth_bytes_per_s", bus_bandwidth, ABSENT,
           .help = "of the all-reduce as a ring");
    COLUMN("bandwidth_bytes_per_s", bandwidth, ABSENT, .help = "between two ranks");
    COLUMN("message_latency_s", latency, ABSENT, .help = "of one message");
    COLUMN("spread", spread, ABSENT, .help = "standard deviation of the bandwidth, relative");
    COLUMN_ITEMS("kernels", kernel, kernels, .table = &kernel_columns);
    COLUMN_ITEMS("kinds", work, works, .table = &work_columns);
    COLUMN("steps", steps, ABSENT, .help = "steps that the profiler marked, or lines of a log");
    COLUMN("step_mean_s", step_mean, ABSENT, .help = "mean of these steps");
    COLUMN("step_least_s", step_least, ABSENT, .help = "shortest of these steps");
    COLUMN("speed", speed, ABSENT, .help = "cluster.speed with which a step takes as long as here");
    COLUMN("speed_spread", speed_spread, ABSENT, .help = "its standard deviation, relative");
    COLUMN("matrix_flops_per_s", flops, ABSENT, .help = "speed of the matrix products");
    COLUMN("matrix_efficiency", efficiency, ABSENT,
           .help = "time of the matrix products at the roofline of the device over theirs");
}

SHARED_COLUMNS(import_columns, "import/2", struct import)
{
    COLUMN("file", file, .help = "that was read");
    COLUMN("understood", understood, .help = "what was found in it");
    COLUMN("assumed", assumed, .help = "what the file does not say, and the platform needs");
    COLUMN("warnings", warning, .help = "what makes the platform of little use as it is");
    COLUMN("written", written_to, .null = true, .help = "the platform file; null: none");
    COLUMN_OBJECT("result", result, &result_columns);
}

int import_finish(struct import *import, const struct import_request *request, struct text *out,
                  struct err *err)
{
    if (import->no_platform && request->to && !import->written)
        return err_usage(err, "%s contains no data of a platform, so --to has nothing to write",
                         import->file);
    if (!import->no_platform && write_platform(import, request, err))
        return -1;
    if (!request->head.json) {
        print_lines(out, "found:", "  ", &import->understood);
        print_lines(out,
                    import->nccl.corrections ? "measured, and by NCCL's model without corrections:"
                                             : "measured, and as predicted:",
                    "  ", &import->comparison);
        print_lines(out, "assumed:", "  ", &import->assumed);
        print_lines(out, "warnings:", "  ", &import->warning);
        if (request->to)
            text_add(out, "written: %s\n", request->to);
        else if (!import->no_platform)
            text_add(out, "nothing is written: --to PLATFORM.yaml writes the platform\n");
        return 0;
    }
    import->written_to = request->to;
    answer_print(out, &import_columns, import);
    return 0;
}
