#include <ctype.h>
#include <string.h>

#include "app/import/import_curve.h"

/* What the tables of the file hold. */
enum table { TABLE_NONE, TABLE_LATENCY, TABLE_BANDWIDTH, TABLE_ALL_REDUCE, TABLE_OTHER };

/* A file may hold several tables, one after the other. */
struct tables {
    struct curve latency, all_reduce;
    double bandwidth; /* the largest [bytes/s] */
    enum table now;
    bool device; /* some table is of buffers on devices */
};

/* "# OSU MPI Latency Test v7.3", "# OSU MPI-CUDA Bandwidth Test v5.6". */
static enum table read_title(const char *line)
{
    if (strcasestr(line, "Bi-Directional") || strcasestr(line, "Multi"))
        return TABLE_OTHER;
    if (strcasestr(line, "Allreduce"))
        return TABLE_ALL_REDUCE;
    return strcasestr(line, "Latency Test") && !strcasestr(line, "Collective") ? TABLE_LATENCY
           : strcasestr(line, "Bandwidth Test")                                ? TABLE_BANDWIDTH
                                                                               : TABLE_OTHER;
}

static int read_row(struct tables *tables, const char *file, int32_t number, char *line,
                    struct err *err)
{
    char *word[8];
    double size, value;
    if (tables->now == TABLE_OTHER)
        return 0;
    if (import_split(line, word, 8) < 2 || !import_number(word[0], &size) ||
        !import_number(word[1], &value) || size < 0 || value <= 0)
        return err_add(
            err, "%s:%d: expected a size and a number above 0; remove lines of other programs",
            file, number);
    struct curve *curve = tables->now == TABLE_LATENCY      ? &tables->latency
                          : tables->now == TABLE_ALL_REDUCE ? &tables->all_reduce
                                                            : NULL;
    if (curve && size > 0 && !curve_add(curve, size, value * 1e-6))
        return err_add(err, "%s:%d: more than %d sizes", file, number, CURVE_ROWS);
    if (!curve && value * 1e6 > tables->bandwidth)
        tables->bandwidth = value * 1e6;
    return 0;
}

static int read_lines(struct tables *tables, const char *file, char *rest, struct err *err)
{
    int32_t number = 0;
    for (char *line; (line = import_next_line(&rest));) {
        number++;
        line += strspn(line, " \t");
        if (*line == '#' && strstr(line, "OSU")) {
            tables->now = read_title(line);
            tables->device = tables->device || strstr(line, "CUDA") || strstr(line, "ROCM");
        } else if (isdigit((unsigned char)*line)) {
            if (tables->now == TABLE_NONE)
                return err_add(err,
                               "%s:%d: numbers without a title '# OSU MPI ... Test' above "
                               "them; keep the lines that begin with #",
                               file, number);
            if (read_row(tables, file, number, line, err))
                return -1;
        }
    }
    if (tables->latency.count || tables->all_reduce.count || tables->bandwidth > 0)
        return 0;
    return err_add(err,
                   "%s:%d: no table of osu_latency, osu_bw or osu_allreduce up to here: give the "
                   "output of one of them",
                   file, number);
}

/* A bucket of 16 MiB among 256 ranks travels in such parts. */
#define LEAST_MESSAGE 65536.0

/* Two ranks, on two nodes unless --nodes 1 is given. */
static int understand_pair(struct import *import, struct tables *tables, int32_t nodes,
                           struct err *err)
{
    struct curve_line line = {.latency = 0};
    bool timed = tables->latency.count > 0;
    double spread = 0;
    if (timed && import_fit_line(import, &tables->latency, LEAST_MESSAGE, &line, err))
        return -1;
    double bandwidth = tables->bandwidth > 0 ? tables->bandwidth : line.bandwidth;
    line.bandwidth = bandwidth;
    if (timed)
        spread = import_compare(import, &tables->latency, &line);
    bool card = nodes > 1;
    import->nodes = nodes;
    import->wiring.count[VERTEX_DEVICE] = card ? 1 : 2;
    import->wiring.count[VERTEX_NIC] = card;
    int32_t link = import_add_link(import, "inside");
    import_connect(import, 0, 1, link);
    struct quantity *measured = card ? &import->nic.bandwidth : &import->link[link].bandwidth;
    import_set(measured, bandwidth, PROVENANCE_MEASURED, "%s: %s", import->base_name,
               tables->bandwidth > 0 ? "the largest of osu_bw" : "fitted to osu_latency");
    measured->spread = spread;
    import_set(&import->link[link].bandwidth, 10 * bandwidth, PROVENANCE_ASSUMED,
               "nobody measured: ten cards, enough never to decide");
    import_note(import, "bandwidth %.5g GB/s between two ranks", bandwidth * 1e-9);
    if (timed) {
        import_set(card ? &import->between : &import->inside, line.latency, PROVENANCE_MEASURED,
                   "%s: fitted to osu_latency", import->base_name);
        import_note(import, "%.4g us a message", line.latency * 1e6);
        json_put_real(import->result, "message_latency_s", line.latency);
    }
    if (!import->result)
        import->result = json_new_object();
    json_put_real(import->result, "bandwidth_bytes_per_s", bandwidth);
    if (timed)
        json_put_real(import->result, "spread", spread);
    import->description = base_copy("fitted to OSU micro-benchmarks");
    return 0;
}

static int understand(struct import *import, const struct import_request *request,
                      struct tables *tables, struct err *err)
{
    int32_t nodes = request->nodes;
    bool pair = tables->latency.count || tables->bandwidth > 0;
    if (pair && tables->all_reduce.count)
        return err_add(err, "%s: tables of two ranks and of osu_allreduce: import them one by one",
                       import->file);
    if (tables->device)
        import_note(import, "buffers lay on devices");
    if (pair && nodes > 2)
        return err_add_code(err, 64, "--nodes %d: must be 1 or 2 for osu_latency and osu_bw",
                            nodes);
    if (pair && !nodes)
        import_assume(import, "the two ranks were on 2 nodes; --nodes 1 says otherwise");
    if (pair)
        return understand_pair(import, tables, nodes ? nodes : 2, err);
    if (!request->ranks)
        return err_add_code(err, 64,
                            "%s: osu_allreduce does not print how many ranks took part: "
                            "say --ranks N --nodes N",
                            import->file);
    if (!nodes)
        import_assume(import, "a node for each rank; --nodes N says otherwise");
    import_note(import, "osu_allreduce of %d ranks, %d sizes", request->ranks,
                tables->all_reduce.count);
    import->description = base_format("fitted to osu_allreduce: %d ranks", request->ranks);
    return import_fit_ring(import, &tables->all_reduce, request->ranks,
                           nodes ? nodes : request->ranks, err);
}

int import_osu(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    struct tables tables = {.bandwidth = 0};
    int failed = import_load(import->file, &text, err);
    if (!failed)
        failed = read_lines(&tables, import->file, text.data, err);
    if (!failed)
        failed = understand(import, request, &tables, err);
    return failed;
}
