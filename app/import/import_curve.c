#include "app/import/import.h"

/* All-reduces of gradients are of a megabyte and more: their times decide, where no one line fits
 * all.  Our choice. */
#define LEAST_BUCKET 1048576.0

/* A bucket of 16 MiB among 256 ranks travels in such parts. */
#define LEAST_MESSAGE 65536.0

bool curve_add(struct curve *curve, double size, double seconds)
{
    if (curve->count == CURVE_ROWS || !(size > 0) || !(seconds > 0))
        return false;
    int32_t i = curve->count++;
    for (; i > 0 && curve->size[i - 1] > size; i--) {
        curve->size[i] = curve->size[i - 1];
        curve->seconds[i] = curve->seconds[i - 1];
    }
    curve->size[i] = size;
    curve->seconds[i] = seconds;
    return true;
}

/* "+- 3 %", or that nobody knows: two points lie on every line. */
static char *say_deviation(const char *format, double deviation, int32_t rows)
{
    return rows > 2 ? base_format(format, deviation)
                    : base_format("from %d points: no spread known", rows);
}

/* The lines for people and for --json. */
static void tell(struct import *import, const struct curve_fit *fit)
{
    import->result.lines = fit->pieces;
    for (int32_t i = 0; i < fit->pieces; i++) {
        const struct curve_piece *p = &fit->piece[i];
        import->result.line[i] = *p;
        AUTOFREE char *latency = say_deviation("+- %.2g", 1e6 * sqrt(p->latency_variance), p->rows);
        AUTOFREE char *slope =
            say_deviation("+- %.2g %%", 100 * sqrt(p->per_byte_variance) / p->per_byte, p->rows);
        import_note(import, "%g to %g B (%d sizes): %.4g us (%s) + bytes / %.5g GB/s (%s)", p->from,
                    p->to, p->rows, p->latency * 1e6, latency, 1e-9 / p->per_byte, slope);
    }
}

/* The line with the least relative error over the sizes from @matter on. */
static struct curve_piece choose(struct import *import, const struct curve *curve,
                                 const struct curve_fit *fit, double matter, int32_t *first)
{
    struct curve_piece piece = fit->piece[0];
    *first = 0;
    if (fit->pieces == 1)
        return piece;
    while (*first + 3 <= curve->count && curve->size[*first] < matter)
        ++*first;
    if (*first + 3 > curve->count)
        *first = 0;
    curve_fit_from(&piece, curve, *first);
    import_assume(import,
                  "one latency and one bandwidth, though the library's protocol changes with the "
                  "size: those that fit the %d sizes from %g B on",
                  piece.rows, piece.from);
    return piece;
}

/* Fit lines to @curve and report them, and choose one: the only one, or else the one with the
 * least relative error over the sizes from @matter [bytes] on; over all if fewer than three are as
 * large. */
static int import_fit_line(struct import *import, struct curve *curve, double matter,
                           struct curve_line *line, struct err *err)
{
    struct curve_fit fit;
    AUTORELEASE(err) struct err own = {0};
    if (curve_fit_lines(&fit, curve, &own))
        return err_add_code(err, own.exit_code, "%s: %s", import->file, own.text);
    tell(import, &fit);
    struct curve_piece chosen = choose(import, curve, &fit, matter, &line->first);
    line->latency = chosen.latency;
    line->bandwidth = 1 / chosen.per_byte;
    if (chosen.per_byte > 0)
        return 0;
    return err_add(err, "%s: the times do not grow with the size from %g B on", import->file,
                   chosen.from);
}

/* List for each size of @curve the time measured and that of @line, which the platform predicts.
 * @return curve_spread() of the rows that @line is fitted to. */
static double import_compare(struct import *import, const struct curve *curve,
                             const struct curve_line *line)
{
    double squares = 0;
    int32_t rows = curve->count - line->first;
    struct text *table = &import->comparison;
    text_add(table, "%12s %14s %14s %9s\n", "size [B]", "measured [us]", "predicted [us]", "error");
    for (int32_t i = 0; i < curve->count; i++) {
        double measured = curve->seconds[i];
        double predicted = line->latency + curve->size[i] / line->bandwidth;
        double error = predicted / measured - 1;
        squares += i < line->first ? 0 : error * error;
        text_add(table, "%12.0f %14.2f %14.2f %+7.1f %%%s\n", curve->size[i], 1e6 * measured,
                 1e6 * predicted, 100 * error, i < line->first ? "  not fitted" : "");
        import->result.size[i] =
            (struct import_size){curve->size[i], measured, predicted, i >= line->first};
    }
    AUTOFREE char *residual =
        say_deviation("%.2f %% of the time", 100 * sqrt(squares / rows), rows);
    import_note(import, "residual of the %d sizes fitted: %s", rows, residual);
    import->result.sizes = curve->count;
    import->result.residual = rows > 2 ? sqrt(squares / rows) : 0;
    return curve_spread(squares, rows);
}

/* Two vertices and the cable between them, of the bandwidth that was measured. */
static struct quantity *lay_pair(struct import *import, bool card, double bandwidth)
{
    import->nodes = card ? 2 : 1;
    import->wiring.count[VERTEX_DEVICE] = card ? 1 : 2;
    import->wiring.count[VERTEX_NIC] = card;
    int32_t link = import_add_link(import, "inside");
    import_connect(import, 0, 1, link);
    if (!card)
        return &import->link[link].bandwidth;
    import_set(&import->link[link].bandwidth, 10 * bandwidth, PROVENANCE_ASSUMED,
               "nobody measured: ten cards, enough never to decide");
    return &import->nic.bandwidth;
}

/* The bandwidth of messages as gradients have them, with its spread. */
static int fit_flight(struct import *import, struct curve *curve, struct curve_line *line,
                      double *spread, struct err *err)
{
    if (import_fit_line(import, curve, LEAST_MESSAGE, line, err))
        return -1;
    int32_t rows = curve->count - line->first, last = curve->count - 1, best = 0;
    double squares = 0, per_byte = 0;
    for (int32_t i = 0; i <= last; i++) {
        per_byte += i < line->first ? 0 : curve->seconds[i] / curve->size[i] / rows;
        if (curve->size[i] / curve->seconds[i] > curve->size[best] / curve->seconds[best])
            best = i;
    }
    bool rises = line->latency > 0; /* else a byte of larger messages takes longer: no line fits */
    line->bandwidth = rises ? line->bandwidth : 1 / per_byte;
    for (int32_t i = line->first; i <= last; i++) {
        double time = line->latency + curve->size[i] / line->bandwidth;
        squares += (time / curve->seconds[i] - 1) * (time / curve->seconds[i] - 1);
    }
    *spread = curve_spread(squares, rows);
    if (curve->size[best] / curve->seconds[best] > 1.1 * line->bandwidth)
        import_note(import, "the largest of osu_bw, %.4g GB/s at %g B, falls to %.4g at %g B",
                    1e-9 * curve->size[best] / curve->seconds[best], curve->size[best],
                    1e-9 * curve->size[last] / curve->seconds[last], curve->size[last]);
    return 0;
}

int import_fit_pair(struct import *import, struct curve *latency, struct curve *bandwidth,
                    int32_t nodes, struct err *err)
{
    struct curve_line line = {.latency = 0}, flight = {.latency = 0};
    double spread = 0;
    bool timed = latency->count > 0, card = nodes > 1;
    if (bandwidth->count && fit_flight(import, bandwidth, &flight, &spread, err))
        return -1;
    if (timed && import_fit_line(import, latency, LEAST_MESSAGE, &line, err))
        return -1;
    if (bandwidth->count)
        line.bandwidth = flight.bandwidth;
    if (timed)
        spread = fmax(spread, import_compare(import, latency, &line));
    struct quantity *measured = lay_pair(import, card, line.bandwidth);
    import_set(measured, line.bandwidth, PROVENANCE_MEASURED, "%s: fitted to %s", import->base_name,
               bandwidth->count ? "osu_bw" : "osu_latency");
    measured->spread = spread;
    import_note(import, "bandwidth %.5g GB/s between two ranks", line.bandwidth * 1e-9);
    if (timed) {
        import_set(card ? &import->between : &import->inside, line.latency, PROVENANCE_MEASURED,
                   "%s: fitted to osu_latency", import->base_name);
        import_note(import, "%.4g us a message", line.latency * 1e6);
        import->result.latency = line.latency;
    }
    import->result.bandwidth = line.bandwidth;
    import->result.spread = spread;
    return 0;
}

/* Devices of a node, connected by one switch, and a card if there are several nodes. */
static void lay_node(struct import *import, int32_t devices, bool card)
{
    struct wiring *wiring = &import->wiring;
    wiring->count[VERTEX_DEVICE] = devices;
    wiring->count[VERTEX_SWITCH] = 1;
    wiring->count[VERTEX_NIC] = card;
    int32_t link = import_add_link(import, "inside"), hub = wiring_first(wiring, VERTEX_SWITCH);
    for (int32_t i = 0; i < devices; i++)
        import_connect(import, i, hub, link);
    if (card)
        import_connect(import, wiring_first(wiring, VERTEX_NIC), hub, link);
}

int import_fit_ring(struct import *import, struct curve *curve, int32_t ranks, int32_t nodes,
                    struct err *err)
{
    struct curve_line line;
    if (ranks < 2 || nodes < 1 || ranks % nodes || ranks / nodes > 60)
        return err_add(err,
                       "%s: %d ranks on %d nodes: expected at least 2 ranks, and the same number "
                       "on every node, at most 60",
                       import->file, ranks, nodes);
    if (import_fit_line(import, curve, LEAST_BUCKET, &line, err))
        return -1;
    double messages = 2.0 * (ranks - 1), latency = line.latency / messages;
    double bandwidth = line.bandwidth * messages / ranks;
    double spread = import_compare(import, curve, &line);
    import_note(import, "as a ring of %d: bus bandwidth %.5g GB/s, %.4g us for each of %g messages",
                ranks, bandwidth * 1e-9, latency * 1e6, messages);
    import->result.ranks = ranks;
    import->result.nodes = nodes;
    import->result.bus_bandwidth = bandwidth;
    import->result.spread = spread;
    import->result.latency = latency;
    import->nodes = nodes;
    lay_node(import, ranks / nodes, nodes > 1);
    struct quantity *inside = &import->link[0].bandwidth;
    struct quantity *measured = nodes > 1 ? &import->nic.bandwidth : inside;
    int32_t rows = curve->count - line.first;
    import_set(measured, bandwidth, PROVENANCE_MEASURED,
               "%s: fitted as a ring of %d ranks on %d nodes%s", import->base_name, ranks, nodes,
               rows < 3 ? ", from 2 points: no spread known" : "");
    measured->spread = spread;
    import_set(inside, bandwidth, PROVENANCE_ASSUMED,
               "at least what the whole ring reaches; measure inside one node for more");
    import_set(&import->link[0].efficiency, 1, PROVENANCE_ASSUMED,
               "nothing is left out of the fit");
    import_set(nodes > 1 ? &import->between : &import->inside, latency, PROVENANCE_MEASURED,
               "%s: fitted with the bandwidth, over %g messages of a ring", import->base_name,
               messages);
    import_set(&import->inside, latency, PROVENANCE_ASSUMED,
               "as between nodes; measure inside one node to tell them apart");
    return 0;
}
