#include "app/lab/lab.h"

#include <math.h>

#include "core/platform/platform_record.h"

static struct lab_cable cable(const struct link_record *record)
{
    return (struct lab_cable){
        .bandwidth = record->bandwidth.value,
        .efficiency = record->efficiency.value,
        .latency = record->latency.value,
    };
}

static void add_inside(const struct platform *platform, struct cabling *cabling)
{
    const struct link_record *link = platform->node.links.item;
    cabling->inside = INFINITY;
    for (int32_t i = 0; i < platform->node.links.count; i++) {
        double payload = link[i].bandwidth.value * link[i].efficiency.value;
        cabling->inside = fmin(cabling->inside, payload);
        cabling->inside_latency = fmax(cabling->inside_latency, link[i].latency.value);
    }
    wiring_assign_nics(&platform->wiring, cabling->nic_of);
}

int cabling_read(const struct platform *platform, struct cabling *cabling, struct err *err)
{
    if (platform->kind != PLATFORM_CLUSTER || platform->nodes < 2)
        return err_add_code(err, 69,
                            "%s: error: a network of nodes is asked for; this platform is a %s%s",
                            platform->file, platform_kind_names[platform->kind],
                            platform->kind == PLATFORM_CLUSTER ? " of a single node" : "");
    if (!platform_is_even(platform))
        return err_add_code(err, 69,
                            "%s: error: the lab's uplinks are one pipe and its nodes stand in "
                            "order: it cannot build network.routing, network.placement and rails",
                            platform->file);
    *cabling = (struct cabling){
        .file = platform->file,
        .name = platform->name,
        .nodes = (int32_t)platform->nodes,
        .devices = (int32_t)platform->node.count[VERTEX_DEVICE],
        .nics = (int32_t)platform->node.count[VERTEX_NIC],
        .nic = cable(&platform->nic),
        .tier_count = platform->tiers.count,
        .between = platform->transport.between.value,
    };
    const struct tier_record *tier = platform->tiers.item;
    for (int32_t i = 0; i < cabling->tier_count; i++)
        cabling->tier[i] = (struct lab_tier){
            .name = tier[i].name,
            .nodes = (int32_t)tier[i].nodes,
            .uplinks = (int32_t)tier[i].uplinks,
            .cable = cable(&tier[i].uplink),
        };
    add_inside(platform, cabling);
    return 0;
}
