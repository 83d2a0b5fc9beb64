#include "core/platform/platform.h"

#include <sys/stat.h>

#include "core/platform/device_table.h"

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

void platform_continue(struct platform *platform, int64_t nodes)
{
    if (!platform->nodes || nodes <= platform->nodes)
        return;
    platform->described_nodes = platform->nodes;
    platform->nodes = nodes;
}

char *platform_continued(const struct platform *platform)
{
    struct text text = {0};
    if (platform->described_nodes)
        text_add(&text, "%lld node%s, of which there are %lld now%s",
                 (long long)platform->described_nodes, base_plural(platform->described_nodes),
                 (long long)platform->nodes, platform->described_cards ? ", and " : "");
    if (platform->described_cards)
        text_add(&text, "%lld network card%s of a node, of which there are %lld now",
                 (long long)platform->described_cards, base_plural(platform->described_cards),
                 (long long)platform->node.count[VERTEX_NIC]);
    if (!text.length)
        return NULL;
    AUTOFREE char *which = text.data;
    bool fewer = platform->described_cards > platform->node.count[VERTEX_NIC];
    return base_format("platform %s describes %s: %s%s", platform->name, which,
                       fewer ? "each serves the places of others, too"
                             : "the others continue its pattern",
                       platform->described_nodes && platform->tiers.count ? " of groups" : "");
}

struct platform *platform_read_for(const char *name, int64_t nodes, struct err *err)
{
    struct platform *platform = platform_read(name, err);
    if (!platform || !strpbrk(name, "/."))
        return platform;
    platform_continue(platform, nodes);
    AUTOFREE char *continued = platform_continued(platform);
    if (continued)
        err_warn(err, "warning: %s", continued);
    return platform;
}

int64_t platform_uplinks(const struct platform *platform, int32_t tier)
{
    const struct tier_record *record = platform->tiers.item;
    return tier < platform->tiers.count ? record[tier].uplinks : 0;
}

double device_peak(const struct device *device, enum dtype dtype, enum products products,
                   enum kernel_kind kernel)
{
    if (products)
        return device->peak_products[products].value;
    bool rounded = dtype == DTYPE_FP32 && device->tf32[kernel] && device->peak_tf32.value > 0;
    return rounded ? device->peak_tf32.value : device->peak[dtype].value;
}

int platform_check_dtype(const struct platform *platform, enum dtype dtype, struct err *err)
{
    const struct device *device = &platform->device;
    if (device->peak[dtype].value > 0)
        return 0;
    AUTORELEASE(text) struct text able = {0};
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (device->peak[d].value > 0)
            text_add(&able, "%s%s", able.length ? ", " : "", dtype_names[d]);
    return err_add(err, "device %s has no %s arithmetic; it has %s", device->name,
                   dtype_names[dtype], able.data);
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
    hash = hash_record(hash, &device_table, &platform->device);
    const double *rate = &platform->device.rate[0][0].math;
    for (int32_t i = 0; platform->device.rated && i < 2 * DTYPE_COUNT * KERNEL_COUNT; i++)
        hash = hash_number(hash, rate[i]);
    return hash;
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
    char *path = base_format("device.%s", quantity->path);
    free(quantity->path);
    ((struct quantity *)(size_t)quantity)->path = path;
}

bool device_is_measured(const struct device *device)
{
    return device->classes.count + device->measured.steps.count > 0;
}

const char *device_text_software(const struct device *device)
{
    if (device->compute_capability)
        return "pytorch-flash";
    bool plain = device->links.kind == LINKS_NONE || device->links.kind == LINKS_SOCKET;
    return plain ? NULL : "flash-attention";
}

enum fusion device_fusion(const struct device *device, int64_t batch)
{
    return (enum fusion)(batch <= device->small_batch ? device->small_fusion : device->fusion);
}

double device_slot_bandwidth(int64_t generation)
{
    return ldexp(15.754e9, (int)generation - 3);
}

static void assume(struct quantity *quantity, const char *path, double value)
{
    if (quantity->path)
        return;
    quantity->path = base_copy(path);
    quantity->value = value;
    quantity->provenance = PROVENANCE_ASSUMED;
    quantity->source = base_copy("the device file does not say; median of the 18 devices with runs "
                                 "under MLPerf's software");
}

/* What no data sheet has.  Source: platforms/software, fits with runs; a test compares. */
static void complete(struct device *device, const struct node *root)
{
    if (!field_origin(root, "fusion"))
        device->fusion = device->compute_capability >= 90 ? FUSION_MAINLOOP : FUSION_STATS;
    assume(&device->math_efficiency, "math_efficiency", 0.69);
    assume(&device->memory_efficiency, "memory_efficiency", 0.69);
    assume(&device->kernel_overhead, "kernel_overhead", 7.1e-6);
}

/* Takes the document over. */
static int read_checked(struct device *device, struct document *document, struct err *err)
{
    int failed = field_read(&device_table, yaml_root(document), device, err) ||
                 device_check(device, yaml_root(document), err);
    if (!failed)
        complete(device, yaml_root(document));
    yaml_free(document);
    return failed ? -1 : 0;
}

static char *find_device(const char *name, struct err *err)
{
    return platform_find_device(name, NULL, err);
}

int device_read(struct device *device, const char *name, struct err *err)
{
    AUTOFREE char *path = find_device(name, err);
    struct document *document = path ? yaml_read_file(NULL, path, find_device, err) : NULL;
    if (!document)
        return -1;
    int failed = read_checked(device, document, err);
    if (failed)
        device_release(device);
    return failed;
}

int device_check_file(const char *path, struct err *err)
{
    AUTORELEASE(device) struct device device = {0};
    return device_read(&device, path, err);
}

void device_release(struct device *device)
{
    field_release(&device_table, device);
    *device = (struct device){0};
}

/* "key=value" of the user, and where files are. */
struct changes {
    const char *const *set;
    int32_t count;
    struct unknowns *unknowns; /* NULL: none is allowed */
    const struct files *files;
};

/* Apply assignments to keys of @document, which begin with @prefix there, then find unknown inputs.
 */
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
    const struct files *files = changes->files;
    AUTOFREE char *path = files && files->alone
                              ? base_copy(platform->device_name)
                              : platform_find_device(platform->device_name, &name->origin, err);
    struct document *document = path ? yaml_read_file(files, path, find_device, err) : NULL;
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
    return platform_read_changed(NULL, name, NULL, 0, NULL, err);
}

int platform_check_file(const char *path, struct err *err)
{
    AUTORELEASE(platform) struct platform *platform = platform_read(path, err);
    return platform ? 0 : -1;
}

struct platform *platform_read_changed(const struct files *files, const char *name,
                                       const char *const *set, int32_t count,
                                       struct unknowns *unknowns, struct err *err)
{
    AUTOFREE char *path = files_find(files, platform_find, name, err);
    struct document *document = path ? yaml_read_file(files, path, platform_find, err) : NULL;
    return read_document(document, &(struct changes){set, count, unknowns, files}, err);
}

struct platform *platform_read_text(const char *name, const char *text, struct err *err)
{
    return read_document(yaml_read_text(name, text, err), &(struct changes){0}, err);
}

enum scenario_other platform_file_kind(const char *path)
{
    AUTORELEASE(err) struct err ignored = {0};
    struct stat status;
    AUTORELEASE(yaml) struct document *document = NULL;
    AUTOFREE char *found = platform_find(path, &ignored);
    bool file = found && !strcmp(found, path) && !stat(path, &status) && S_ISREG(status.st_mode);
    char *(*const find[])(const char *, struct err *) = {platform_find, find_device,
                                                         platform_find_software};
    for (size_t i = 0; i < ARRAY_SIZE(find) && file && !document; i++)
        document = yaml_read_file(NULL, path, find[i], &ignored);
    return document ? scenario_other(yaml_root(document)) : OTHER_NONE;
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

void platform_release(struct platform **platform)
{
    platform_free(*platform);
}
