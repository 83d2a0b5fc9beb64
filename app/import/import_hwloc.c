#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/import/import.h"
#include "app/import/import_xml.h"

enum { VERTEX_LIMIT = 64 }; /* of each kind: limit of platforms */

/* A node as hwloc sees it. */
struct machine {
    struct import *import;
    const struct xml *vertex[VERTEX_KIND_COUNT][VERTEX_LIMIT]; /* gpu, bridge, package, card */
    int32_t count[VERTEX_KIND_COUNT];
    int32_t cores, domains, lost;
    bool adopted; /* some PCI device is below no package */
};

static bool is(const struct xml *element, const char *type)
{
    return !strcmp(element->name, "object") && !strcmp(xml_get(element, "type"), type);
}

/* PCI classes: 02xx networks; 0302 and 12xx accelerators; 0300 those of NVIDIA and AMD, as the
 * others drive screens.  pci_type is "0302 [10de:20b2] [10de:1463] a1". */
static bool is_card(const struct xml *element)
{
    return is(element, "PCIDev") && !strncmp(xml_get(element, "pci_type"), "02", 2);
}

static bool is_gpu(const struct xml *element)
{
    const char *type = is(element, "PCIDev") ? xml_get(element, "pci_type") : "";
    return !strncmp(type, "0302", 4) || !strncmp(type, "12", 2) ||
           (!strncmp(type, "0300", 4) && (strstr(type, "[10de:") || strstr(type, "[1002:")));
}

/* The number of branches of @element with a GPU or a card. */
static int32_t count_branches(const struct xml *element)
{
    int32_t branches = 0;
    for (int32_t i = 0; i < element->child_count; i++) {
        const struct xml *child = element->child[i];
        branches += is_gpu(child) || is_card(child) || count_branches(child) > 0;
    }
    return branches;
}

static void add_vertex(struct machine *machine, enum vertex_kind kind, const struct xml *element)
{
    if (machine->count[kind] == VERTEX_LIMIT)
        machine->lost++;
    else
        machine->vertex[kind][machine->count[kind]++] = element;
}

static void collect(void *context, const struct xml *element)
{
    struct machine *machine = context;
    machine->cores += is(element, "Core");
    machine->domains += is(element, "NUMANode");
    if (is(element, "Package"))
        add_vertex(machine, VERTEX_CPU, element);
    else if (is_gpu(element))
        add_vertex(machine, VERTEX_DEVICE, element);
    else if (is_card(element))
        add_vertex(machine, VERTEX_NIC, element);
    else if (is(element, "Bridge") && !strcmp(xml_get(element, "bridge_type"), "1-1") &&
             count_branches(element) > 1)
        add_vertex(machine, VERTEX_SWITCH, element);
}

static int32_t find(const struct machine *machine, const struct xml *element)
{
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        for (int32_t i = 0; i < machine->count[kind]; i++)
            if (machine->vertex[kind][i] == element)
                return wiring_first(&machine->import->wiring, kind) + i;
    return -1;
}

/* The bridge or package around @element; the first package when there is none. */
static int32_t find_above(struct machine *machine, const struct xml *element)
{
    for (const struct xml *at = element->parent; at; at = at->parent) {
        int32_t vertex = find(machine, at);
        if (vertex >= 0)
            return vertex;
    }
    machine->adopted = true;
    return wiring_first(&machine->import->wiring, VERTEX_CPU);
}

/* pci_link_speed is in GB/s, after encoding. */
static int32_t pci_link(struct machine *machine, const struct xml *element)
{
    double speed = strtod(xml_get(element, "pci_link_speed"), NULL);
    bool known = isfinite(speed) && speed > 0.01 && speed < 1e5;
    AUTOFREE char *name = known ? base_format("pcie-%.0fGB", speed) : base_copy("pcie-unknown");
    int32_t link = import_add_link(machine->import, name);
    struct quantity *bandwidth = &machine->import->link[link].bandwidth;
    if (known)
        import_set(bandwidth, speed * 1e9, PROVENANCE_DATASHEET, "%s: pci_link_speed",
                   machine->import->base_name);
    import_set(bandwidth, 15.754e9, PROVENANCE_ASSUMED, "line %d says no speed: PCIe Gen3 x16",
               element->line);
    return link;
}

static void connect_pci(struct machine *machine)
{
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        for (int32_t i = 0; i < machine->count[kind] && kind != VERTEX_CPU; i++) {
            const struct xml *element = machine->vertex[kind][i];
            import_connect(machine->import, find(machine, element), find_above(machine, element),
                           pci_link(machine, element));
        }
}

/* Without GPUs every core is a device, connected to the others by its package's memory. */
static void connect_cores(struct machine *machine)
{
    struct wiring *wiring = &machine->import->wiring;
    int32_t cpus = wiring->count[VERTEX_CPU], devices = wiring->count[VERTEX_DEVICE];
    int32_t link = import_add_link(machine->import, "memory");
    import_set(&machine->import->link[link].bandwidth, 10e9, PROVENANCE_ASSUMED,
               "nobody measured: about what one core copies");
    for (int32_t i = 0; i < devices; i++)
        import_connect(machine->import, i,
                       wiring_first(wiring, VERTEX_CPU) + (int32_t)((int64_t)i * cpus / devices),
                       link);
    import_assume(machine->import, "devices: the %d cores, as there is no GPU", devices);
}

static void connect_cpus(struct machine *machine)
{
    int32_t first = wiring_first(&machine->import->wiring, VERTEX_CPU);
    if (machine->count[VERTEX_CPU] < 2)
        return;
    int32_t link = import_add_link(machine->import, "cpus");
    import_set(&machine->import->link[link].bandwidth, 10e9, PROVENANCE_ASSUMED,
               "the file says none: NCCL src/graph/topo.h between two sockets (recalled)");
    for (int32_t b = 1; b < machine->count[VERTEX_CPU]; b++)
        for (int32_t a = 0; a < b; a++)
            import_connect(machine->import, first + a, first + b, link);
}

/* The name of the first GPU in hwloc's list of PCI names. */
static void name_device(struct machine *machine)
{
    const struct xml *gpu = machine->vertex[VERTEX_DEVICE][0];
    for (int32_t i = 0; machine->count[VERTEX_DEVICE] && i < gpu->child_count; i++)
        if (!strcmp(xml_get(gpu->child[i], "name"), "PCIDevice"))
            import_set_device(machine->import, xml_get(gpu->child[i], "value"));
}

static void understand(struct machine *machine)
{
    struct import *import = machine->import;
    int32_t *count = import->wiring.count;
    bool gpus = machine->count[VERTEX_DEVICE] > 0;
    for (enum vertex_kind kind = 0; kind < VERTEX_KIND_COUNT; kind++)
        count[kind] = machine->count[kind];
    import_note(import, "%d packages, %d cores, %d NUMA nodes, %d GPUs, %d cards, %d PCI switches",
                count[VERTEX_CPU], machine->cores, machine->domains, count[VERTEX_DEVICE],
                count[VERTEX_NIC], count[VERTEX_SWITCH]);
    if (!gpus)
        count[VERTEX_DEVICE] = machine->cores < VERTEX_LIMIT ? machine->cores : VERTEX_LIMIT;
    machine->lost += gpus || machine->cores <= VERTEX_LIMIT ? 0 : machine->cores - VERTEX_LIMIT;
    name_device(machine);
    if (!gpus)
        connect_cores(machine);
    connect_pci(machine);
    connect_cpus(machine);
    if (machine->adopted)
        import_assume(import, "PCI devices below no package hang on the first");
    if (machine->lost)
        import_note(import, "%d left out beyond %d of a kind", machine->lost, VERTEX_LIMIT);
    if (gpus)
        import_note(import, "links between GPUs are not taken from hwloc: import nccl-topo does");
    import->description = base_copy("from hwloc");
}

static int read_topology(struct import *import, const struct xml *root, struct err *err)
{
    struct machine machine = {.import = import};
    xml_walk(root, collect, &machine);
    if (!strcmp(root->name, "topology") && machine.count[VERTEX_CPU] && machine.cores) {
        understand(&machine);
        return 0;
    }
    return err_add(err,
                   "%s:%d: expected <topology> with objects Package and Core, got <%s>: give "
                   "what 'lstopo --of xml' writes",
                   import->file, root->line, root->name);
}

int import_hwloc(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    struct xml *root = import_load(import->file, &text, err)
                           ? NULL
                           : xml_read(import->file, text.data, text.length, err);
    int failed = root ? read_topology(import, root, err) : -1;
    xml_free(root);
    return failed;
}
