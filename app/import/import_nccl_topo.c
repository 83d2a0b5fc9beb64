#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/import/import.h"
#include "app/import/import_xml.h"

enum { VERTEX_LIMIT = 64 }; /* of each kind: limit of platforms */

/* A node as NCCL sees it. */
struct topo {
    struct import *import;
    const struct xml *vertex[VERTEX_KIND_COUNT][VERTEX_LIMIT]; /* gpu, pci switch, cpu, net */
    int32_t count[VERTEX_KIND_COUNT];
    int32_t lost;    /* elements beyond the limit */
    int32_t slower;  /* nets left out for a faster one */
    double fastest;  /* net [Mb/s] */
    int32_t sm;      /* compute capability of the first GPU */
    int32_t nvlinks; /* of all GPUs */
    bool plane;      /* there are NVSwitches: switch 0 represents all */
};

static double number(const struct xml *element, const char *key)
{
    double value = strtod(xml_get(element, key), NULL);
    return isfinite(value) && value > 0 ? value : 0;
}

static bool is(const struct xml *element, const char *name)
{
    return !strcmp(element->name, name);
}

static void add_vertex(struct topo *topo, enum vertex_kind kind, const struct xml *element)
{
    if (topo->count[kind] == VERTEX_LIMIT)
        topo->lost++;
    else
        topo->vertex[kind][topo->count[kind]++] = element;
}

static bool is_nvswitch(const struct xml *nvlink)
{
    return !strcmp(xml_get(nvlink, "tclass"), "0x068000");
}

/* First pass: collect the vertices. */
static void look(void *context, const struct xml *element)
{
    struct topo *topo = context;
    if (is(element, "net"))
        topo->fastest = fmax(topo->fastest, number(element, "speed"));
    if (is(element, "nvlink")) {
        topo->nvlinks += (int32_t)fmin(number(element, "count"), 1000);
        topo->plane = topo->plane || is_nvswitch(element);
    }
}

/* Second: the vertices. */
static void collect(void *context, const struct xml *element)
{
    struct topo *topo = context;
    bool bridge = false;
    for (int32_t i = 0; i < element->child_count; i++)
        bridge = bridge || is(element->child[i], "pci");
    if (is(element, "gpu"))
        add_vertex(topo, VERTEX_DEVICE, element);
    else if (is(element, "cpu"))
        add_vertex(topo, VERTEX_CPU, element);
    else if (is(element, "pci") && bridge)
        add_vertex(topo, VERTEX_SWITCH, element);
    else if (is(element, "net") && number(element, "speed") < topo->fastest)
        topo->slower++;
    else if (is(element, "net"))
        add_vertex(topo, VERTEX_NIC, element);
}

static int compare_devices(const void *a, const void *b)
{
    double x = number(*(const struct xml *const *)a, "dev");
    double y = number(*(const struct xml *const *)b, "dev");
    return (x > y) - (x < y);
}

/* The number of the vertex that @element is, or -1. */
static int32_t find(const struct topo *topo, const struct xml *element)
{
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        for (int32_t i = 0; i < topo->count[kind]; i++)
            if (topo->vertex[kind][i] == element)
                return wiring_first(&topo->import->wiring, kind) + i +
                       (kind == VERTEX_SWITCH && topo->plane);
    return -1;
}

/* The nearest vertex around @element, or -1. */
static int32_t find_above(const struct topo *topo, const struct xml *element)
{
    for (element = element->parent; element; element = element->parent) {
        int32_t vertex = find(topo, element);
        if (vertex >= 0)
            return vertex;
    }
    return -1;
}

/* A lane's payload [bit/transfer].  Source: PCI Express base specifications 1.0 to 6.0. */
static double encoding(double gigatransfers)
{
    return gigatransfers < 6 ? 0.8 : gigatransfers < 48 ? 128.0 / 130 : 242.0 / 256;
}

/* The kind of cable from PCI function @pci upwards. */
static int32_t pcie_link(struct topo *topo, const struct xml *pci)
{
    double speed = number(pci, "link_speed"), width = number(pci, "link_width");
    bool known = speed > 0 && width > 0;
    AUTOFREE char *name =
        known ? base_format("pcie-%gx%g", speed, width) : base_copy("pcie-unknown");
    int32_t link = import_add_link(topo->import, name);
    struct import_link *record = &topo->import->link[link];
    if (known)
        import_set(&record->bandwidth, speed * 1e9 / 8 * width * encoding(speed),
                   PROVENANCE_DATASHEET, "%s: %g lanes of %g GT/s; PCI Express encoding",
                   topo->import->base_name, width, speed);
    import_set(&record->bandwidth, 15.754e9, PROVENANCE_ASSUMED,
               "line %d of the file says no speed, as in virtual machines: Gen3 x16", pci->line);
    import_set(&record->efficiency, 0.762, PROVENANCE_PUBLISHED,
               "NCCL 2.28 src/graph/topo.h: PCI_BW 12.0 GB/s for Gen3 x16 of 15.754");
    return link;
}

/* NVLink by compute capability [GB/s each way].  Source: NVIDIA P100, V100, A100, H100 and B200
 * data sheets (recalled); NCCL 2.28 src/graph/topo.h, SM60_NVLINK_BW to SM100_NVLINK_BW. */
static const struct {
    int32_t sm;
    double wire, reached;
} nvlink_speeds[] = {{100, 50, 40.1}, {90, 25, 20.6}, {80, 25, 20}, {70, 25, 20}, {60, 20, 18}};

static size_t nvlink_speed(const struct topo *topo)
{
    size_t i = 0, last = ARRAY_SIZE(nvlink_speeds) - 1;
    while (i < last && nvlink_speeds[i].sm > topo->sm)
        i++;
    return i;
}

static int32_t nvlink_link(struct topo *topo, int32_t count)
{
    size_t i = nvlink_speed(topo);
    AUTOFREE char *name = base_format("nvlink-x%d", count);
    int32_t link = import_add_link(topo->import, name);
    struct import_link *record = &topo->import->link[link];
    import_set(&record->bandwidth, count * nvlink_speeds[i].wire * 1e9, PROVENANCE_DATASHEET,
               "%s: %d links; %g GB/s each way a link of compute capability %d.%d",
               topo->import->base_name, count, nvlink_speeds[i].wire, nvlink_speeds[i].sm / 10,
               nvlink_speeds[i].sm % 10);
    import_set(&record->efficiency, nvlink_speeds[i].reached / nvlink_speeds[i].wire,
               PROVENANCE_PUBLISHED, "NCCL 2.28 src/graph/topo.h: %g GB/s a link of %g",
               nvlink_speeds[i].reached, nvlink_speeds[i].wire);
    return link;
}

/* The GPU whose PCI function has that bus address, or -1. */
static int32_t find_gpu(const struct topo *topo, const char *address)
{
    for (int32_t i = 0; i < topo->count[VERTEX_DEVICE]; i++)
        if (!strcasecmp(xml_get(topo->vertex[VERTEX_DEVICE][i]->parent, "busid"), address))
            return i;
    return -1;
}

static int32_t find_cpu(const struct topo *topo, const struct xml *element)
{
    while (element && !is(element, "cpu"))
        element = element->parent;
    return element ? find(topo, element) : -1;
}

/* @return how many links lead to other GPUs, directly or through NVSwitches. */
static int32_t connect_nvlinks(struct topo *topo, int32_t gpu)
{
    const struct xml *element = topo->vertex[VERTEX_DEVICE][gpu];
    int32_t plane = 0, mesh = 0;
    for (int32_t i = 0; i < element->child_count; i++) {
        const struct xml *nvlink = element->child[i];
        int32_t count = (int32_t)fmin(number(nvlink, "count"), 1000);
        if (!is(nvlink, "nvlink") || count < 1)
            continue;
        int32_t target = find_gpu(topo, xml_get(nvlink, "target"));
        mesh += target < 0 || is_nvswitch(nvlink) ? 0 : count;
        if (target < 0)
            target = find_cpu(topo, element);
        if (is_nvswitch(nvlink))
            plane += count;
        else if (target >= 0)
            import_connect(topo->import, gpu, target, nvlink_link(topo, count));
    }
    if (plane)
        import_connect(topo->import, gpu, wiring_first(&topo->import->wiring, VERTEX_SWITCH),
                       nvlink_link(topo, plane));
    return plane + mesh;
}

static void connect_pci(struct topo *topo)
{
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        for (int32_t i = 0; i < topo->count[kind] && kind != VERTEX_CPU; i++) {
            const struct xml *element = topo->vertex[kind][i], *pci = element;
            int32_t above = find_above(topo, element);
            while (pci->parent && !is(pci, "pci"))
                pci = pci->parent;
            if (above >= 0)
                import_connect(topo->import, find(topo, element), above, pcie_link(topo, pci));
        }
}

static void connect_cpus(struct topo *topo)
{
    int32_t first = wiring_first(&topo->import->wiring, VERTEX_CPU);
    if (topo->count[VERTEX_CPU] < 2)
        return;
    bool amd = !strcmp(xml_get(topo->vertex[VERTEX_CPU][0], "vendor"), "AuthenticAMD");
    int32_t link = import_add_link(topo->import, "cpus");
    import_set(&topo->import->link[link].bandwidth, amd ? NCCL_SOCKETS_BANDWIDTH : 10e9,
               PROVENANCE_ASSUMED,
               "the file says none: NCCL src/graph/topo.h between two sockets (recalled)");
    import_set(&topo->import->link[link].efficiency, 1, PROVENANCE_ASSUMED, "as NCCL counts it");
    for (int32_t b = 1; b < topo->count[VERTEX_CPU]; b++)
        for (int32_t a = 0; a < b; a++)
            import_connect(topo->import, first + a, first + b, link);
}

/* NCCL's rings where each GPU has @links NVLinks to others, all in rings.  16 channels are those of
 * NCCL's log on H100, two a link those on V100 and A100.  Source: platforms/dgx-h100.yaml, dgx-1,
 * dgx-a100. */
static void use_nvlinks(struct topo *topo, int32_t links)
{
    struct import_nccl *nccl = &topo->import->nccl;
    double reached = nvlink_speeds[nvlink_speed(topo)].reached;
    nccl->intra = NCCL_NVLINK;
    nccl->channels = topo->sm >= 90 ? 16 : links < 32 ? 2 * links : 64;
    nccl->why = base_copy("as on DGX; NCCL's log (NCCL_DEBUG=INFO) has the number");
    import_set(&nccl->bandwidth, links * reached * 1e9, PROVENANCE_PUBLISHED,
               "%s: %d NVLinks of a GPU to others, all in rings; NCCL 2.28 src/graph/topo.h: %g "
               "GB/s a link",
               topo->import->base_name, links, reached);
}

/* The same over PCI Express: a ring is as fast as its narrowest cable. */
static void use_pci(struct topo *topo)
{
    struct import_nccl *nccl = &topo->import->nccl;
    const struct wiring *wiring = &topo->import->wiring;
    AUTOFREE int32_t *path = base_alloc(wiring_vertices(wiring), sizeof(*path));
    double narrowest = INFINITY;
    for (int32_t gpu = 0; gpu < topo->count[VERTEX_DEVICE]; gpu++) {
        int32_t hops = wiring_path(wiring, gpu, (gpu + 1) % topo->count[VERTEX_DEVICE], path);
        for (int32_t i = 0; i < hops; i++) {
            const struct import_link *link = &topo->import->link[wiring->cable[path[i] / 2].kind];
            narrowest = fmin(narrowest, link->bandwidth.value * link->efficiency.value);
        }
    }
    if (!isfinite(narrowest))
        return;
    nccl->intra = NCCL_PCI;
    nccl->channels = 2;
    nccl->why =
        base_copy("as on other nodes without NVLink; NCCL's log (NCCL_DEBUG=INFO) has the number");
    import_set(&nccl->bandwidth, narrowest, PROVENANCE_ASSUMED,
               "the narrowest cable between neighbouring GPUs");
}

static void choose_device(struct topo *topo)
{
    bool sxm = topo->nvlinks > 0;
    const char *name = topo->sm == 90   ? sxm ? "h100-sxm5-80gb" : "h100-pcie-80gb"
                       : topo->sm == 80 ? sxm ? "a100-sxm4-80gb" : "a100-pcie-80gb"
                       : topo->sm == 70 ? sxm ? "v100-sxm2-16gb" : "v100-pcie-16gb"
                       : topo->sm == 60 ? "p100-sxm2-16gb"
                                        : NULL;
    if (!name)
        return;
    topo->import->device = base_copy(name);
    import_assume(topo->import, "device: %s, as the file says only compute capability %d.%d", name,
                  topo->sm / 10, topo->sm % 10);
}

static void understand(struct topo *topo)
{
    struct import *import = topo->import;
    struct wiring *wiring = &import->wiring;
    topo->sm = (int32_t)fmin(number(topo->vertex[VERTEX_DEVICE][0], "sm"), 1000);
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        wiring->count[kind] = topo->count[kind];
    wiring->count[VERTEX_SWITCH] += topo->plane;
    char *cards =
        topo->count[VERTEX_NIC]
            ? base_format(", %d cards of %g Gb/s", topo->count[VERTEX_NIC], topo->fastest * 1e-3)
            : base_copy("");
    import_note(import, "a node of %d GPUs, %d CPUs, %d PCI switches%s%s",
                topo->count[VERTEX_DEVICE], topo->count[VERTEX_CPU], topo->count[VERTEX_SWITCH],
                topo->plane ? ", NVSwitches as one" : "", cards);
    free(cards);
    if (topo->slower)
        import_note(import, "%d slower card%s left out: a platform has one kind", topo->slower,
                    base_plural(topo->slower));
    if (topo->lost)
        import_note(import, "%d left out beyond %d of a kind", topo->lost, VERTEX_LIMIT);
    int32_t links = INT32_MAX;
    for (int32_t gpu = 0; gpu < topo->count[VERTEX_DEVICE]; gpu++) {
        int32_t found = connect_nvlinks(topo, gpu);
        links = found < links ? found : links;
    }
    connect_pci(topo);
    connect_cpus(topo);
    if (topo->count[VERTEX_DEVICE] > 1 && links)
        use_nvlinks(topo, links);
    else if (topo->count[VERTEX_DEVICE] > 1)
        use_pci(topo);
    choose_device(topo);
    import->description = base_copy("from NCCL's topology");
    if (topo->fastest > 0)
        import_set_nic(import, topo->fastest * 1e6 / 8, "speed of net");
    import_set(&import->nic.efficiency, 0.96, PROVENANCE_PUBLISHED,
               "NCCL 2.28 src/graph/topo.h: NET_BW 12.0 GB/s of 12.5 for 100 Gb/s");
}

static int read_system(struct import *import, const struct xml *root, struct err *err)
{
    struct topo topo = {.import = import};
    if (!is(root, "system"))
        return err_add(err,
                       "%s:%d: expected <system>, got <%s>: give the file that NCCL writes "
                       "with NCCL_TOPO_DUMP_FILE",
                       import->file, root->line, root->name);
    xml_walk(root, look, &topo);
    xml_walk(root, collect, &topo);
    if (topo.count[VERTEX_DEVICE] == 0)
        return err_add(err, "%s:%d: there is no <gpu> in this <system>: dump it where the job runs",
                       import->file, root->line);
    qsort(topo.vertex[VERTEX_DEVICE], (size_t)topo.count[VERTEX_DEVICE], sizeof(struct xml *),
          compare_devices);
    understand(&topo);
    return 0;
}

int import_nccl_topo(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    struct xml *root = import_load(import->file, &text, err)
                           ? NULL
                           : xml_read(import->file, text.data, text.length, err);
    int failed = root ? read_system(import, root, err) : -1;
    xml_free(root);
    return failed;
}
