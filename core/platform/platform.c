#include "core/platform/platform.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/device_table.h"
#include "core/platform/platform_record.h"

enum { LINK_LIMIT = 100000000 };

const char *platform_name(const struct platform *platform)
{
    return platform->name;
}

int32_t platform_devices_per_node(const struct platform *platform)
{
    return platform->kind == PLATFORM_CLUSTER ? (int32_t)platform->node.count[VERTEX_DEVICE] : 1;
}

double platform_contention(const struct platform *platform, int32_t devices_per_node)
{
    int32_t all = platform_devices_per_node(platform);
    int32_t cores = platform_cores(platform, devices_per_node);
    double longer = 1;
    if (devices_per_node > 1 && all > 1)
        longer += platform->node.contention.value * (devices_per_node - 1) / (all - 1);
    if (cores > 0)
        longer *= (double)devices_per_node / cores;
    return longer - 1;
}

int32_t platform_cores(const struct platform *platform, int32_t devices_per_node)
{
    return platform->node.cores < devices_per_node ? (int32_t)platform->node.cores : 0;
}

int32_t platform_payload(const struct platform *platform)
{
    return platform->transport.payload;
}

int32_t platform_nodes(const struct platform *platform)
{
    return (int32_t)platform->nodes;
}

const struct device *platform_device(const struct platform *platform)
{
    return &platform->device;
}

struct device *platform_change_device(struct platform *platform)
{
    return &platform->device;
}

int platform_check_dtype(const struct platform *platform, enum dtype dtype, struct err *err)
{
    const struct device *device = &platform->device;
    if (device->peak[dtype].value > 0)
        return 0;
    struct text able = {0};
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (device->peak[d].value > 0)
            text_add(&able, "%s%s", able.length ? ", " : "", dtype_names[d]);
    err_add(err, "device %s has no %s arithmetic; it has %s", device->name, dtype_names[dtype],
            able.data);
    text_release(&able);
    return -1;
}

static void visit_record(const struct field_table *table, const void *record,
                         void (*visit)(void *context, const struct quantity *, enum unit),
                         void *context)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct field *field = &table->field[i];
        const char *member = (const char *)record + field->offset;
        if (field->kind == FIELD_QUANTITY) {
            const struct quantity *quantity = (const struct quantity *)(const void *)member;
            if (quantity->path)
                visit(context, quantity, field->unit);
        } else if (field->kind == FIELD_LIST) {
            const struct field_list *list = (const struct field_list *)(const void *)member;
            for (int32_t k = 0; k < list->count; k++)
                visit_record(field->table,
                             (const char *)list->item + (size_t)k * field->table->size, visit,
                             context);
        }
    }
}

void platform_each_quantity(const struct platform *platform,
                            void (*visit)(void *context, const struct quantity *, enum unit),
                            void *context)
{
    visit_record(&platform_table, platform, visit, context);
    device_each_quantity(&platform->device, visit, context);
}

void device_each_quantity(const struct device *device,
                          void (*visit)(void *context, const struct quantity *, enum unit),
                          void *context)
{
    visit_record(&device_table, device, visit, context);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return base_hash(hash, text, strlen(text) + 1);
}

/* As text with all digits, which is the same on every machine. */
static uint64_t hash_number(uint64_t hash, double value)
{
    char text[32];
    snprintf(text, sizeof(text), "%.17g;", value);
    return hash_text(hash, text);
}

static uint64_t hash_record(uint64_t hash, const struct field_table *table, const void *record);

/* Free text (descriptions, sources) is left out. */
static uint64_t hash_member(uint64_t hash, const struct field *field, const void *member)
{
    switch (field->kind) {
    case FIELD_INTEGER:
        return hash_number(hash, (double)*(const int64_t *)member);
    case FIELD_REAL:
        return hash_number(hash, *(const double *)member);
    case FIELD_WORD:
        return hash_number(hash, *(const int32_t *)member);
    case FIELD_BOOLEAN:
        return hash_number(hash, *(const bool *)member);
    case FIELD_QUANTITY:
        return hash_number(hash, ((const struct quantity *)member)->value);
    case FIELD_TEXT:
        return hash;
    default:
        break;
    }
    const struct field_list *list = member;
    for (int32_t i = 0; i < list->count; i++)
        if (field->kind == FIELD_TEXTS)
            hash = hash_text(hash, ((char *const *)list->item)[i]);
        else
            hash = hash_record(hash, field->table,
                               (const char *)list->item + (size_t)i * field->table->size);
    return hash;
}

static uint64_t hash_record(uint64_t hash, const struct field_table *table, const void *record)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct field *field = &table->field[i];
        if (!strcmp(field->path, "transport.payload")) /* it changes no prediction */
            continue;
        hash = hash_text(hash, field->path);
        hash = hash_member(hash, field, (const char *)record + field->offset);
    }
    return hash;
}

uint64_t platform_hash(const struct platform *platform)
{
    uint64_t hash = hash_text(BASE_HASH_SEED, platform->name);
    hash = hash_record(hash, &platform_table, platform);
    return hash_record(hash, &device_table, &platform->device);
}

/* What platform_scale() carries along. */
struct scaling {
    double (*factor)(void *context, const struct quantity *, enum unit);
    void *context;
};

/* The platform is not const there, so neither are its quantities. */
static void scale(void *context, const struct quantity *quantity, enum unit unit)
{
    const struct scaling *scaling = context;
    ((struct quantity *)(size_t)quantity)->value *=
        scaling->factor(scaling->context, quantity, unit);
}

void platform_scale(struct platform *platform,
                    double (*factor)(void *context, const struct quantity *, enum unit),
                    void *context)
{
    platform_each_quantity(platform, scale, &(struct scaling){factor, context});
}

/* --- reading --- */

/* In lists of all numbers of a platform, those of its device have a prefix. */
static void prefix_path(void *context, const struct quantity *quantity, enum unit unit)
{
    (void)context;
    (void)unit;
    char *path = base_format("device.%s", quantity->path);
    free(quantity->path);
    ((struct quantity *)(size_t)quantity)->path = path;
}

enum fusion device_fusion(const struct device *device, int64_t batch)
{
    return (enum fusion)(batch <= device->small_batch ? device->small_fusion : device->fusion);
}

/* Takes the document over. */
static int read_checked(struct device *device, struct document *document, struct err *err)
{
    int failed = field_read(&device_table, yaml_root(document), device, err) ||
                 device_check(device, yaml_root(document), err);
    yaml_free(document);
    return failed ? -1 : 0;
}

static char *find_device(const char *name, struct err *err)
{
    return platform_find_device(name, NULL, err);
}

int device_read(struct device *device, const char *name, struct err *err)
{
    char *path = find_device(name, err);
    struct document *document = path ? yaml_read_library(path, find_device, err) : NULL;
    free(path);
    if (!document)
        return -1;
    int failed = read_checked(device, document, err);
    if (failed)
        device_release(device);
    return failed;
}

void device_release(struct device *device)
{
    field_release(&device_table, device);
    *device = (struct device){0};
}

/* "key=value" of the user. */
struct changes {
    const char *const *set;
    int32_t count;
    struct unknowns *unknowns; /* NULL: none is allowed */
};

/* Those of the keys of @document, which begin with @prefix there; then its unknown inputs. */
static int change(struct document *document, const char *prefix, const struct changes *changes,
                  struct err *err)
{
    int failed = 0;
    for (int32_t i = 0; i < changes->count; i++)
        if (!strncmp(changes->set[i], prefix, strlen(prefix)))
            failed |= yaml_set_below(document, prefix, changes->set[i], err);
    return failed ? -1 : unknowns_settle(changes->unknowns, document, prefix, err);
}

static int read_device(struct platform *platform, const struct node *root,
                       const struct changes *changes, struct err *err)
{
    const struct node *name = field_origin(root, "device");
    char *path = platform_find_device(platform->device_name, &name->origin, err);
    struct document *document = path ? yaml_read_library(path, find_device, err) : NULL;
    free(path);
    if (!document)
        return -1;
    int failed = change(document, "device.", changes, err);
    if (failed)
        yaml_free(document);
    else
        failed = read_checked(&platform->device, document, err);
    if (!failed)
        visit_record(&device_table, &platform->device, prefix_path, NULL);
    return failed;
}

static int refuse_job(const struct node *root, struct err *err)
{
    if (!node_get(root, "model") && !node_get(root, "training"))
        return 0;
    return err_add(err, "%s: error: this is a job, not a platform; 'foretrain check %s' checks it",
                   root->origin.file, root->origin.file);
}

/* Takes the document over. */
static struct platform *read_document(struct document *document, const struct changes *changes,
                                      struct err *err)
{
    if (!document || refuse_job(yaml_root(document), err) ||
        change(document, "platform.", changes, err)) {
        yaml_free(document);
        return NULL;
    }
    struct platform *platform = base_alloc(1, sizeof(*platform));
    const struct node *root = yaml_root(document);
    platform->file = base_copy(root->origin.file);
    int failed = field_read(&platform_table, root, platform, err);
    if (!failed)
        failed = platform_check(platform, root, err);
    if (platform->device_name)
        failed |= read_device(platform, root, changes, err);
    yaml_free(document);
    if (!failed)
        return platform;
    platform_free(platform);
    return NULL;
}

struct platform *platform_read(const char *name, struct err *err)
{
    return platform_read_changed(name, NULL, 0, NULL, err);
}

struct platform *platform_read_changed(const char *name, const char *const *set, int32_t count,
                                       struct unknowns *unknowns, struct err *err)
{
    char *path = platform_find(name, err);
    struct document *document = path ? yaml_read_library(path, platform_find, err) : NULL;
    free(path);
    return read_document(document, &(struct changes){set, count, unknowns}, err);
}

struct platform *platform_read_text(const char *name, const char *text, struct err *err)
{
    return read_document(yaml_read_text(name, text, err), &(struct changes){0}, err);
}

void platform_free(struct platform *platform)
{
    if (!platform)
        return;
    wiring_release(&platform->wiring);
    field_release(&device_table, &platform->device);
    field_release(&platform_table, platform);
    free(platform->file);
    free(platform);
}

/* --- laying out --- */

static struct link_kind link_kind(const char *name, const struct link_record *record, double count)
{
    struct link_kind kind = {
        .bandwidth = record->bandwidth.value * record->efficiency.value * count,
        .latency = record->latency.value,
    };
    snprintf(kind.name, sizeof(kind.name), "%s", name);
    return kind;
}

static struct fabric *lay_cluster(const struct platform *platform, int32_t nodes,
                                  int32_t devices_per_node)
{
    struct link_kind cable[FABRIC_TIER_LIMIT];
    struct link_group group[FABRIC_TIER_LIMIT];
    const struct link_record *link = platform->node.links.item;
    const struct tier_record *tier = platform->tiers.item;
    for (int32_t i = 0; i < platform->node.links.count; i++)
        cable[i] = link_kind(link[i].name, &link[i], 1);
    for (int32_t i = 0; i < platform->tiers.count; i++) {
        char name[FABRIC_NAME_LIMIT];
        snprintf(name, sizeof(name), "%s uplink", tier[i].name);
        group[i] = (struct link_group){
            .nodes = (int32_t)tier[i].nodes,
            .uplink = link_kind(name, &tier[i].uplink, (double)tier[i].uplinks),
        };
        snprintf(group[i].name, sizeof(group[i].name), "%s", tier[i].name);
    }
    struct cluster_plan plan = {
        .nodes = nodes,
        .devices_per_node = devices_per_node,
        .wiring = &platform->wiring,
        .cable = cable,
        .cable_count = platform->node.links.count,
        .nic = link_kind("nic", &platform->nic, 1),
        .group = group,
        .group_count = platform->tiers.count,
        .latency_inside = platform->transport.inside.value,
        .latency_between = platform->transport.between.value,
    };
    struct fabric *fabric = fabric_lay_cluster(&plan);
    fabric->nccl = platform_nccl(platform, fabric);
    fabric->eager = platform->transport.eager.value;
    return fabric;
}

static int check_cluster(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                         struct err *err)
{
    int32_t devices = platform_devices_per_node(platform);
    if (devices_per_node > devices)
        return err_add(err, "a node of platform %s has only %d devices, not %d", platform->name,
                       devices, devices_per_node);
    if (nodes > platform->nodes)
        return err_add(err, "platform %s has only %lld nodes, not %d", platform->name,
                       (long long)platform->nodes, nodes);
    const struct wiring *wiring = &platform->wiring;
    int64_t links = (int64_t)nodes * 2 * (wiring->cable_count + wiring->count[VERTEX_NIC]);
    if (links > LINK_LIMIT)
        return err_add(err, "%d nodes of platform %s have %lld links; at most %d are supported",
                       nodes, platform->name, (long long)links, LINK_LIMIT);
    return 0;
}

static struct fabric *lay_torus(const struct platform *platform, struct grid grid)
{
    double latency = platform->transport.between.value;
    if (platform->kind == PLATFORM_RING) {
        struct link_kind ring = link_kind("ring link", &platform->ring, 1);
        return fabric_lay_torus(grid, 1, &ring, latency);
    }
    struct link_kind both[2] = {
        link_kind("row link", &platform->row, 1),
        link_kind("column link", &platform->column, 1),
    };
    return fabric_lay_torus(grid, 2, both, latency);
}

static int check_torus(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                       struct grid grid, struct err *err)
{
    const char *shape = platform_kind_names[platform->kind];
    if (devices_per_node != 1)
        return err_add(err, "platform %s is a %s with one device per node, not %d", platform->name,
                       shape, devices_per_node);
    if ((int64_t)grid.columns * grid.rows != nodes)
        return err_add(err, "a grid of %d x %d does not lay out the %d nodes of platform %s",
                       grid.columns, grid.rows, nodes, platform->name);
    int32_t longest =
        platform->kind == PLATFORM_RING ? nodes / 2 : grid.columns / 2 + grid.rows / 2;
    if (longest > FABRIC_ROUTE_LIMIT)
        return err_add(err, "a %s of %d nodes has routes of %d links; at most %d are supported",
                       shape, nodes, longest, FABRIC_ROUTE_LIMIT);
    return 0;
}

int platform_check_extent(const struct platform *platform, int32_t nodes, int32_t devices_per_node,
                          struct grid grid, struct err *err)
{
    assert(nodes >= 1 && devices_per_node >= 1);
    return platform->kind == PLATFORM_CLUSTER
               ? check_cluster(platform, nodes, devices_per_node, err)
               : check_torus(platform, nodes, devices_per_node, grid, err);
}

struct fabric *platform_fabric(const struct platform *platform, int32_t nodes,
                               int32_t devices_per_node, struct grid grid, struct err *err)
{
    if (platform_check_extent(platform, nodes, devices_per_node, grid, err))
        return NULL;
    return platform->kind == PLATFORM_CLUSTER ? lay_cluster(platform, nodes, devices_per_node)
                                              : lay_torus(platform, grid);
}
