#include "app/study/published_map.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "app/study/published_facts.h"
#include "core/config/field_write.h"
#include "core/platform/software.h"

const char *const published_role_names[] = {"calibration", "check", NULL};
static_assert(ARRAY_SIZE(published_role_names) == PUBLISHED_ROLE_COUNT + 1, "a name each");

enum {
    GRADIENT_BYTES = 51114064, /* of ResNet-50 in half precision */
    NODE_LIMIT = 100000,
    NODE_DEVICE_LIMIT = 64,
    BATCH_LIMIT = 100000,
    /* NVIDIA's configurations group batch norm over two devices only where a device has 15 or 16
     * images. */
    NORM_GROUP_BATCH = 18,
};

/* How wrong an assumed number may be: as in uncertainty_tolerance(). */
#define ASSUMED 0.3

/* Payload of a network card.  Source: NCCL 2.5.7 src/graph/topo.h: NET_WIDTH 12 GB/s of 12.5. */
#define NET_PART 0.96

/* Numbers follow from each other: nodes x devices per node = devices, and so on. */
static void fill(double *product, double *a, double *b)
{
    if (isnan(*product) && *a > 0 && *b > 0)
        *product = *a * *b;
    if (isnan(*a) && *product > 0 && *b > 0)
        *a = *product / *b;
    if (isnan(*b) && *product > 0 && *a > 0)
        *b = *product / *a;
}

static int check_count(const struct published_row *row, const char *columns, double value,
                       double limit, struct err *err)
{
    if (isnan(value))
        return err_add(err, "%s: the row does not give %s", row->system, columns);
    if (value < 1 || value > limit || value != floor(value))
        return err_add(err, "%s: %s is %g; it must be a whole number from 1 to %g", row->system,
                       columns, value, limit);
    return 0;
}

/* A step takes equally many images on each device. */
static int check_batch(const struct published_row *row, struct err *err)
{
    if (fmod(row->global_batch, row->devices) > 0)
        return err_add(err, "%s: global_batch: %g images cannot be divided evenly among %g devices",
                       row->system, row->global_batch, row->devices);
    if (check_count(row, "per_acc_batch", row->batch, BATCH_LIMIT, err))
        return -1;
    if (row->global_batch != row->batch * row->devices)
        return err_add(err, "%s: global_batch is %g, but %g devices with %g images have %g",
                       row->system, row->global_batch, row->devices, row->batch,
                       row->batch * row->devices);
    return 0;
}

static int complete(struct published_row *row, struct err *err)
{
    if (isnan(row->nodes) && row->devices == 1)
        row->nodes = 1;
    fill(&row->devices, &row->nodes, &row->per_node);
    fill(&row->global_batch, &row->batch, &row->devices);
    if (check_count(row, "n_nodes", row->nodes, NODE_LIMIT, err) ||
        check_count(row, "acc_per_node", row->per_node, NODE_DEVICE_LIMIT, err))
        return -1;
    if (row->devices != row->nodes * row->per_node)
        return err_add(err, "%s: n_acc is %g, but %g nodes of %g have %g", row->system,
                       row->devices, row->nodes, row->per_node, row->nodes * row->per_node);
    if (check_batch(row, err))
        return -1;
    if (isnan(published_round(row->round)))
        return err_add(err, "%s: round '%s' must be one of MLPerf Training (v0.5 ... v4.0)",
                       row->system, row->round);
    return 0;
}

/* --- what a row leaves open --- */

static bool is_abci(const struct published_row *row)
{
    return strcasestr(row->system, "abci") && row->per_node == 4;
}

/* What staging in host memory leaves of the cards' bandwidth. */
static double staged_part(const struct published_row *row, const struct published_node *node)
{
    return published_staging(row, node) / (node->nics * node->nic_bandwidth);
}

/* One way to fill it. */
struct ways {
    int32_t groups, norm_group;
    bool staged, sharp;
};

/* The number of all-reduces for the gradients of a step, if a collective takes @longer times as
 * long as assumed.
 *
 * Rounds up to v0.7 start them during the backward pass, but they are modelled after it: NVIDIA's
 * batch norm of that time is a persistent kernel, which does not progress while NCCL uses a part of
 * the device, so that little or nothing overlaps.  From v1.0 on they no longer overlap.  Source:
 * NVIDIA/nccl issues 338 and 661 (MXNet ResNet-50: 4 to 8 ms instead of 2 ms, complete only when
 * the collective is); "Default is no NCCL and BWD overlap" in the configurations of v1.0. */
static int32_t find_groups(const struct published_row *row, double longer)
{
    /* Horovod 0.15 collects ready gradients every 5 ms; a V100 took 0.79 ms per image on one node,
     * two thirds of it in the backward pass (v0.5, dgx1_ngc18.11).  That pass continues while no
     * collective runs; a collective takes 6 us per rank (NCCL 2.4.8 src/init.cc,
     * ncclTreeThreshold()). */
    const double cycle_ms = 5, backward_ms = 0.79 * 2 / 3, rank_ms = 6e-3;
    double free_ms = fmax(cycle_ms - longer * rank_ms * row->devices, cycle_ms / 10);
    const char *text = row->scheduling;
    bool many = row->nodes > 1;
    double round = published_round(row->round);
    if (strcasestr(text, "per-tensor") || (!*text && round < 0.6))
        return (int32_t)fmin(161, ceil(row->batch * backward_ms / free_ms));
    if (strcasestr(text, "20 groups (1 node) / 1 group") || (!*text && round == 0.7))
        return many ? 1 : 20;
    if (strcasestr(text, "16-20 groups") || (!*text && round < 0.7))
        return !many || longer > 1 ? 20 : 16;
    return 1;
}

/* Whether devices share the statistics of batch norm. */
static bool groups_norm(const struct published_row *row)
{
    return published_round(row->round) >= 1.0 && row->nodes > 1 && row->batch <= NORM_GROUP_BATCH &&
           (int32_t)row->per_node % 2 == 0;
}

/* Which of @count ways to fill one thing: the first if @way is 0.  What is left of @way is for
 * other things. */
static int32_t take(struct published_job *job, int32_t *way, int32_t count, const char *what)
{
    int32_t own = *way % count;
    *way /= count;
    job->ways *= count;
    if (count > 1)
        text_add(&job->open, "%s%s", job->open.length ? ", " : "", what);
    return own;
}

static struct ways find_ways(struct published_job *job, const struct published_row *row,
                             const struct published_node *node, int32_t way)
{
    bool many = row->nodes > 1;
    int32_t groups = find_groups(row, 1), low = groups, high = groups, nodes = (int32_t)row->nodes;
    job->ways = 1;
    if (many) {
        low = find_groups(row, 1 - ASSUMED);
        high = find_groups(row, 1 + ASSUMED);
    }
    AUTOFREE char *what = base_format("%d to %d all-reduces", low, high);
    int32_t other = take(job, &way, high - low + 1, what);
    if (other > 0) /* the others in their order */
        groups = low + other - 1 + (low + other - 1 >= groups);
    bool plain = many && !is_abci(row); /* a platform of the library is known */
    bool stages = plain && staged_part(row, node) < NET_PART;
    bool sharp = plain && published_sharp_is_open(row, nodes);
    bool norm = groups_norm(row) && !published_by_nvidia(row);
    struct ways ways = {.groups = groups};
    ways.staged = !take(job, &way, 1 + stages, "staging in host memory");
    ways.sharp = published_sharp(row, nodes) != take(job, &way, 1 + sharp, "SHARP");
    ways.norm_group = groups_norm(row) != take(job, &way, 1 + norm, "groups of batch norm") ? 2 : 1;
    return ways;
}

/* --- the platform --- */

static void add_bandwidth(struct text *out, int32_t indent, const char *key, double bytes_per_s,
                          bool assumed, const char *source)
{
    field_write_quantity(out, indent, key, assumed ? PROVENANCE_ASSUMED : PROVENANCE_PUBLISHED, 0,
                         source, "%.9g GB/s", bytes_per_s / 1e9);
}

/* What is contained elsewhere. */
static void add_nothing(struct text *out, int32_t indent, const char *key, const char *source)
{
    field_write_quantity(out, indent, key, PROVENANCE_ASSUMED, 0, source, "0 us");
}

static void add_link(struct text *out, const char *name, double bandwidth, bool assumed,
                     const struct published_link *link)
{
    text_add(out, "    - name: %s\n", name);
    add_bandwidth(out, 6, "bandwidth", bandwidth, assumed,
                  assumed ? "usual for such nodes" : "column intra_GBps, one direction");
    field_write_quantity(out, 6, "efficiency", PROVENANCE_PUBLISHED, 0, link->source, "%.4g %%",
                         100 * link->efficiency);
    add_nothing(out, 6, "latency", "contained in transport");
}

/* The kinds of link in a node: between devices, and from devices to network cards. */
struct inside {
    const struct published_link *nvlink, *pcie; /* or NULL */
    bool mesh;                                  /* NVLink joins pairs, not switches */
};

static struct inside find_inside(const struct published_row *row, const struct published_link *link)
{
    struct inside inside = {0};
    if (row->per_node > 1 && link->nvlink)
        inside.nvlink = link;
    if (row->nodes > 1 || (row->per_node > 1 && !link->nvlink))
        inside.pcie = published_link(link->pcie);
    inside.mesh = inside.nvlink && strcasestr(row->intra_topology, "direct mesh");
    return inside;
}

static void add_links(struct text *out, const struct published_row *row,
                      const struct published_node *node, const struct inside *inside)
{
    double each = node->intra_bandwidth / 2;
    text_add(out, "  links:\n");
    if (inside->nvlink)
        add_link(out, "nvlink", inside->mesh ? each / (row->per_node - 1) : each,
                 node->assumed_link, inside->nvlink);
    if (inside->pcie)
        add_link(out, "pcie", inside->pcie->bandwidth, inside->nvlink || node->assumed_link,
                 inside->pcie);
}

static void add_edges(struct text *out, const struct published_row *row,
                      const struct published_node *node, const struct inside *inside)
{
    int32_t devices = (int32_t)row->per_node, nics = row->nodes > 1 ? node->nics : 0;
    text_add(out, "  edges:\n");
    if (inside->nvlink) {
        text_add(out, "    - {link: nvlink, %s: [", inside->mesh ? "all_to_all" : "connect");
        for (int32_t i = 0; i < devices; i++)
            text_add(out, "%sgpu%d%s", i ? ", " : "", i, inside->mesh ? "" : "-switch0");
        text_add(out, "]}\n");
    }
    if (!inside->pcie)
        return;
    int32_t last = inside->nvlink && !inside->mesh;
    text_add(out, "    - {link: pcie, connect: [");
    for (int32_t i = 0; i < devices + nics; i++)
        text_add(out, "%s%s%d-switch%d", i ? ", " : "", i < devices ? "gpu" : "nic",
                 i < devices ? i : i - devices, last);
    text_add(out, "]}\n");
}

/* Devices on NVLink reach each other directly or through switch0; on PCIe all meet in the last
 * switch, since the row does not give their switches and CPUs.  NCCL's cost depends on the section
 * nccl, not on these cables. */
static void add_node(struct text *out, const struct published_row *row,
                     const struct published_node *node, const struct published_link *link)
{
    struct inside inside = find_inside(row, link);
    text_add(out, "node:\n  devices: %d\n", (int32_t)row->per_node);
    if (!inside.nvlink && !inside.pcie)
        return;
    int32_t switches = (inside.nvlink && !inside.mesh) + (inside.pcie != NULL);
    if (switches)
        text_add(out, "  switches: %d\n", switches);
    if (row->nodes > 1)
        text_add(out, "  nics: %d\n", node->nics);
    add_links(out, row, node, &inside);
    add_edges(out, row, node, &inside);
}

static void add_network(struct text *out, const struct published_row *row,
                        const struct published_node *node, const struct ways *ways)
{
    if (row->nodes < 2)
        return;
    text_add(out, "network:\n  nic:\n");
    add_bandwidth(out, 4, "bandwidth", node->nic_bandwidth, node->assumed_nics,
                  node->assumed_nics ? "usual for such nodes" : "column nic_Gbps");
    double part = fmin(NET_PART, ways->staged ? staged_part(row, node) : NET_PART);
    bool staged = part < NET_PART;
    field_write_quantity(out, 4, "efficiency", staged ? PROVENANCE_ASSUMED : PROVENANCE_PUBLISHED,
                         0,
                         staged ? "no GPUDirect RDMA: staged in host memory, NCCL 2.18 "
                                  "src/graph/topo.h: AMD_BW 16 GB/s between sockets"
                                : "NCCL 2.5.7 src/graph/topo.h: NET_WIDTH 12 GB/s of 12.5",
                         "%.4g %%", 100 * part);
    add_nothing(out, 4, "latency", "contained in transport");
}

static void add_nccl(struct text *out, const struct published_row *row,
                     const struct published_node *node, const struct published_link *link,
                     const struct ways *ways)
{
    text_add(out, "nccl:\n  intra: %s\n  channels: %d\n  sharp: %s\n",
             link->nvlink ? "nvlink" : "pci", published_channels(row, link),
             ways->sharp ? "true" : "false");
    add_bandwidth(
        out, 2, "intra_bandwidth", published_ring_bandwidth(node, link), node->assumed_link,
        link->nvlink
            ? link->source
            : "NCCL 2.18 src/graph/topo.h: the link between sockets, or the port when narrower");
}

static void write_platform(struct published_job *job, const struct published_row *row,
                           const struct published_node *node, const char *device,
                           const struct ways *ways)
{
    struct text *out = &job->platform;
    const struct published_link *link = published_link(node->link ? node->link : "PCIe4");
    struct published_node known = *node;
    if (!node->link) { /* one device in a node */
        known.intra_bandwidth = 64e9;
        known.assumed_link = true;
    }
    AUTOFREE char *description =
        base_format("%s, MLPerf Training %s", job->platform_name, row->round);
    text_add(out, "version: 1\n");
    field_write_line(out, 0, "name", job->platform_name);
    field_write_line(out, 0, "description", description);
    text_add(out, "kind: cluster\ndevice: %s\nnodes: %d\n", device, job->nodes);
    add_node(out, row, &known, link);
    add_network(out, row, &known, ways);
    text_add(out, "transport:\n");
    add_nothing(out, 2, "inside", "NCCL's own latencies are used");
    add_nothing(out, 2, "between", "NCCL's own latencies are used");
    if (job->devices > 1)
        add_nccl(out, row, &known, link, ways);
}

/* --- the scenario --- */

static void write_scenario(struct published_job *job, const struct published_row *row,
                           const char *place, const struct software *software,
                           const struct ways *ways)
{
    struct text *out = &job->scenario;
    text_add(out, "version: 1\nmodel: {network: resnet50, image: 224, precision: "
                  "{compute: fp16, gradients: fp16, master: fp32}}\n");
    text_add(out, "cluster: {platform: %s, nodes: %d, devices_per_node: %d, software: %s}\n",
             is_abci(row) ? job->platform_name : place, job->nodes, job->per_node, job->software);
    text_add(out,
             "training:\n  dataset: imagenet\n  phases:\n    - {epochs: %.9g, batch_per_device: "
             "%d}\n  optimizer: {name: lars, momentum: 0.9, weight_decay: 5e-5}\n"
             "  evaluate_every: 4 epochs\n  batch_norm: {group: %d}\n  startup: %.9g s\n",
             row->epochs > 0 ? row->epochs : 35.0, job->batch, ways->norm_group,
             software_startup(software, job->nodes));
    if (job->devices > 1) {
        text_add(out, "allreduce:\n");
        if (is_abci(row))
            text_add(out,
                     "  algorithm: torus2d\n  column_algorithm: nccl\n"
                     "  grid: {columns: 4, rows: %d}\n",
                     job->nodes);
        else
            text_add(out, "  algorithm: nccl\n");
        if (job->groups > 1)
            text_add(out, "  bucket: %d B\n", GRADIENT_BYTES / job->groups + 1);
        text_add(out, "  overlap: none\n");
    }
    text_add(out, "baseline: {nodes: 1}\nnoise: {compute_cv: %.6g %%}\n",
             100 * software->jitter.value);
}

/* A name that YAML and file systems accept unchanged. */
static char *plain_name(const char *text)
{
    char *name = base_copy(text);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
            *c = '-';
    return name;
}

int published_map(struct published_job *job, const struct published_row *given, int32_t way,
                  const char *place, struct err *err)
{
    *job = (struct published_job){0};
    struct published_row row = *given;
    struct published_node node;
    if (complete(&row, err) || published_node(&node, &row, err))
        return -1;
    AUTOFREE char *device = published_device(&row, err);
    struct software *software = device ? software_read(published_software(&row), err) : NULL;
    if (!software)
        return -1;
    job->nodes = (int32_t)row.nodes;
    job->per_node = (int32_t)row.per_node;
    job->devices = job->nodes * job->per_node;
    job->batch = (int32_t)row.batch;
    job->role = job->nodes > 1 ? PUBLISHED_CHECK : PUBLISHED_CALIBRATION;
    job->steps_per_epoch =
        row.steps_per_epoch >= 1
            ? (int32_t)fmin(row.steps_per_epoch, PUBLISHED_EPOCH)
            : (int32_t)ceil((double)(PUBLISHED_EPOCH / job->devices) / job->batch);
    job->software = published_software(&row);
    job->platform_name =
        is_abci(&row) ? base_copy("abci") : plain_name(*row.system ? row.system : "unnamed");
    struct ways ways = find_ways(job, &row, &node, way);
    job->groups = ways.groups;
    if (!is_abci(&row))
        write_platform(job, &row, &node, device, &ways);
    write_scenario(job, &row, place, software, &ways);
    software_free(software);
    return 0;
}

void published_job_release(struct published_job *job)
{
    text_release(&job->platform);
    text_release(&job->scenario);
    text_release(&job->open);
    free(job->platform_name);
    *job = (struct published_job){0};
}
