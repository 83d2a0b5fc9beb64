#include "app/import/import_curve.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

bool curve_add(struct curve *curve, double size, double seconds)
{
    if (curve->count == CURVE_ROWS || !(size > 0) || !(seconds > 0))
        return false;
    curve->size[curve->count] = size;
    curve->seconds[curve->count++] = seconds;
    return true;
}

/* The lines for people and for --json; @bytes: bytes of the vector per byte of a message. */
static void tell(struct import *import, const struct curve_fit *fit)
{
    struct json *array = json_new_array();
    for (int32_t i = 0; i < fit->pieces; i++) {
        const struct curve_piece *p = &fit->piece[i];
        double deviation = sqrt(p->latency_variance), slope = sqrt(p->per_byte_variance);
        struct json *object = json_new_object();
        json_put_real(object, "from_bytes", p->from);
        json_put_real(object, "to_bytes", p->to);
        json_put_integer(object, "rows", p->rows);
        json_put_real(object, "latency_s", p->latency);
        json_put_real(object, "s_per_byte", p->per_byte);
        json_put_real(object, "latency_variance", p->latency_variance);
        json_put_real(object, "covariance", p->covariance);
        json_put_real(object, "s_per_byte_variance", p->per_byte_variance);
        json_append(array, object);
        import_note(import,
                    "%g to %g B (%d sizes): %.4g us (+- %.2g) + bytes / %.5g GB/s (+- %.2g %%)",
                    p->from, p->to, p->rows, p->latency * 1e6, deviation * 1e6, 1e-9 / p->per_byte,
                    100 * slope / p->per_byte);
    }
    import_note(import, "%d line%s, residual %.2f %% of the time", fit->pieces,
                fit->pieces > 1 ? "s, as the protocol changes with the size" : "",
                100 * fit->residual);
    if (!import->result)
        import->result = json_new_object();
    json_put_real(import->result, "residual", fit->residual);
    json_put(import->result, "lines", array);
}

int import_fit_line(struct import *import, struct curve *curve, struct curve_line *line,
                    struct err *err)
{
    struct curve_fit fit;
    struct err own = {0};
    if (curve_fit_lines(&fit, curve, &own)) {
        int32_t code = own.exit_code;
        err_add_code(err, code, "%s: %s", import->file, own.text);
        err_release(&own);
        return -1;
    }
    tell(import, &fit);
    const struct curve_piece *first = &fit.piece[0], *last = &fit.piece[fit.pieces - 1];
    *line = (struct curve_line){
        .latency = first->latency,
        .latency_deviation = sqrt(first->latency_variance),
        .bandwidth = 1 / last->per_byte,
        .bandwidth_spread = sqrt(last->per_byte_variance) / last->per_byte,
    };
    if (fit.pieces > 1)
        import_assume(import, "one latency and one bandwidth: those of the smallest and of the "
                              "largest sizes; between them protocols change");
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
    if (import_fit_line(import, curve, &line, err))
        return -1;
    double messages = 2.0 * (ranks - 1), latency = line.latency / messages;
    double bandwidth = line.bandwidth * messages / ranks;
    import_note(import,
                "as a ring of %d: bus bandwidth %.5g GB/s (+- %.2g %%), %.4g us (+- %.2g) "
                "for each of %g messages",
                ranks, bandwidth * 1e-9, 100 * line.bandwidth_spread, latency * 1e6,
                line.latency_deviation / messages * 1e6, messages);
    json_put_integer(import->result, "ranks", ranks);
    json_put_integer(import->result, "nodes", nodes);
    json_put_real(import->result, "bus_bandwidth_bytes_per_s", bandwidth);
    json_put_real(import->result, "bus_bandwidth_spread", line.bandwidth_spread);
    json_put_real(import->result, "message_latency_s", latency);
    import->nodes = nodes;
    lay_node(import, ranks / nodes, nodes > 1);
    struct quantity *inside = &import->link[0].bandwidth;
    char *fit = base_format("%s: fitted as a ring of %d ranks on %d nodes, +- %.2g %%",
                            import->base_name, ranks, nodes, 100 * line.bandwidth_spread);
    import_set(nodes > 1 ? &import->nic.bandwidth : inside, bandwidth, PROVENANCE_MEASURED, "%s",
               fit);
    import_set(inside, bandwidth, PROVENANCE_ASSUMED,
               "at least what the whole ring reaches; measure inside one node for more");
    import_set(&import->link[0].efficiency, 1, PROVENANCE_ASSUMED,
               "nothing is left out of the fit");
    import_set(nodes > 1 ? &import->between : &import->inside, latency, PROVENANCE_MEASURED,
               "%s: the smallest sizes, over %g messages of a ring", import->base_name, messages);
    import_set(&import->inside, latency, PROVENANCE_ASSUMED,
               "as between nodes; measure inside one node to tell them apart");
    free(fit);
    return 0;
}
