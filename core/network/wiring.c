#include "core/network/wiring.h"

static const char *const kind_names[] = {"gpu", "switch", "cpu", "nic"};
static_assert(ARRAY_SIZE(kind_names) == VERTEX_KIND_COUNT, "one name a kind");

int32_t wiring_vertices(const struct wiring *wiring)
{
    return wiring_first(wiring, VERTEX_KIND_COUNT);
}

int32_t wiring_first(const struct wiring *wiring, enum vertex_kind kind)
{
    int32_t first = 0;
    for (enum vertex_kind k = 0; k < kind; k++)
        first += wiring->count[k];
    return first;
}

static enum vertex_kind kind_of(const struct wiring *wiring, int32_t vertex)
{
    enum vertex_kind kind = VERTEX_DEVICE;
    while (vertex >= wiring_first(wiring, kind + 1))
        kind++;
    return kind;
}

int32_t wiring_find(const struct wiring *wiring, const char *name)
{
    for (int32_t v = 0; v < wiring_vertices(wiring); v++) {
        AUTORELEASE(text) struct text text = {0};
        wiring_print_vertex(&text, wiring, v);
        bool found = strcmp(text.data, name) == 0;
        if (found)
            return v;
    }
    return -1;
}

void wiring_print_vertex(struct text *out, const struct wiring *wiring, int32_t vertex)
{
    enum vertex_kind kind = kind_of(wiring, vertex);
    text_add(out, "%s%d", kind_names[kind], vertex - wiring_first(wiring, kind));
}

void wiring_add(struct wiring *wiring, int32_t a, int32_t b, int32_t kind)
{
    wiring->cable = base_room(wiring->cable, wiring->cable_count, sizeof(struct cable));
    wiring->cable[wiring->cable_count++] = (struct cable){.end = {a, b}, .kind = kind};
}

/* The links that leave each vertex, in order of the file: the first of vertex v is first[v], the
 * one behind a link next[link]; -1 ends them. */
static void list_links(const struct wiring *wiring, int32_t *first, int32_t *next)
{
    for (int32_t v = 0; v < wiring_vertices(wiring); v++)
        first[v] = -1;
    for (int32_t link = 2 * wiring->cable_count - 1; link >= 0; link--) {
        int32_t from = wiring->cable[link / 2].end[link % 2];
        next[link] = first[from];
        first[from] = link;
    }
}

/* Breadth first.  Only switches and CPUs forward, which stand between devices and NICs. */
void wiring_explore(const struct wiring *wiring, int32_t from, int32_t *arrived)
{
    int32_t vertices = wiring_vertices(wiring), nics = wiring_first(wiring, VERTEX_NIC);
    AUTOFREE int32_t *queue = base_alloc(vertices, sizeof(*queue));
    AUTOFREE int32_t *first = base_alloc(vertices, sizeof(*first));
    AUTOFREE int32_t *next = base_alloc(2 * wiring->cable_count + 1, sizeof(*next));
    list_links(wiring, first, next);
    for (int32_t v = 0; v < vertices; v++)
        arrived[v] = -1;
    int32_t head = 0, tail = 0;
    queue[tail++] = from;
    while (head < tail) {
        int32_t at = queue[head++];
        if (at != from && (at < wiring->count[VERTEX_DEVICE] || at >= nics))
            continue;
        for (int32_t link = first[at]; link >= 0; link = next[link]) {
            int32_t to = wiring->cable[link / 2].end[1 - link % 2];
            if (to == from || arrived[to] >= 0)
                continue;
            arrived[to] = link;
            queue[tail++] = to;
        }
    }
}

int32_t wiring_follow(const struct wiring *wiring, const int32_t *arrived, int32_t from, int32_t to,
                      int32_t *path)
{
    int32_t count = 0;
    for (int32_t v = to; v != from; v = wiring->cable[arrived[v] / 2].end[arrived[v] % 2]) {
        if (arrived[v] < 0)
            return -1;
        count++;
    }
    int32_t at = count;
    for (int32_t v = to; v != from; v = wiring->cable[arrived[v] / 2].end[arrived[v] % 2])
        path[--at] = arrived[v];
    return count;
}

int32_t wiring_path(const struct wiring *wiring, int32_t from, int32_t to, int32_t *path)
{
    AUTOFREE int32_t *arrived = base_alloc(wiring_vertices(wiring), sizeof(*arrived));
    wiring_explore(wiring, from, arrived);
    return wiring_follow(wiring, arrived, from, to, path);
}

/* The nearest NIC of @device; @load: number of devices that already use each NIC. */
static int32_t nearest_nic(const struct wiring *wiring, int32_t device, const int32_t *load,
                           int32_t *path)
{
    AUTOFREE int32_t *arrived = base_alloc(wiring_vertices(wiring), sizeof(*arrived));
    int32_t best = -1, best_length = 0;
    wiring_explore(wiring, device, arrived);
    for (int32_t nic = 0; nic < wiring->count[VERTEX_NIC]; nic++) {
        int32_t vertex = wiring_first(wiring, VERTEX_NIC) + nic;
        int32_t length = wiring_follow(wiring, arrived, device, vertex, path);
        if (length < 0)
            continue;
        if (best < 0 || length < best_length || (length == best_length && load[nic] < load[best])) {
            best = nic;
            best_length = length;
        }
    }
    return best;
}

void wiring_assign_nics(const struct wiring *wiring, int32_t *nic)
{
    AUTOFREE int32_t *load = base_alloc(wiring->count[VERTEX_NIC] + 1, sizeof(*load));
    AUTOFREE int32_t *path = base_alloc(wiring_vertices(wiring), sizeof(*path));
    for (int32_t device = 0; device < wiring->count[VERTEX_DEVICE]; device++) {
        nic[device] = nearest_nic(wiring, device, load, path);
        if (nic[device] >= 0)
            load[nic[device]]++;
    }
}

RELEASE(wiring, it->cable)
