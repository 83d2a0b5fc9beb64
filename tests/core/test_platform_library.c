#include <dirent.h>

#include "tests/core/own.h"
#include "tests/core/published.h"
#include "tests/test.h"

/* Every file in platforms/ is held to what its README.md promises. */

/* Call @visit with each platform of the library. */
static void each_platform(void (*visit)(struct platform *platform))
{
    AUTOFREE char *folder = platform_directory(&err);
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        AUTOFREE char *path = base_format("%s/%s", folder, entry->d_name);
        OWN(platform) *platform = platform_of(path);
        visit(platform);
    }
    closedir(directory);
}

/* All devices of @nodes nodes; torus and ring in two columns. */
static struct fabric *lay_out(const struct platform *platform, int32_t nodes)
{
    int32_t devices = platform_devices_per_node(platform), ranks = nodes * devices;
    struct grid grid = {.columns = ranks % 2 ? ranks : 2, .rows = ranks % 2 ? 1 : ranks / 2};
    struct fabric *fabric = platform_fabric(platform, nodes, devices, grid, &err);
    if (!fabric)
        fail_msg("%s: %s", platform->name, err.text);
    return fabric;
}

/* Enough nodes to cross from one rack to the next where there are racks. */
static int32_t several(const struct platform *platform)
{
    enum { SEVERAL = 36 };
    int32_t nodes = (int32_t)platform->nodes;
    return nodes > 0 && nodes < SEVERAL ? nodes : SEVERAL;
}

static void expect_route(const struct platform *platform, const struct fabric *fabric, int32_t a,
                         int32_t b)
{
    struct route there, back;
    fabric_route(fabric, a, b, &there);
    fabric_route(fabric, b, a, &back);
    double bandwidth = fabric_route_bandwidth(fabric, &there);
    if (!(isfinite(there.latency) && there.latency > 0 && bandwidth > 0))
        fail_msg("%s: from %d to %d: %g s, %g B/s", platform->name, a, b, there.latency, bandwidth);
    assert_true(fabs(back.latency - there.latency) < 1e-12);
    assert_true(fabric_route_bandwidth(fabric, &back) == bandwidth);
}

TEST_EACH(every_route_is_as_good_there_as_back, each_platform(see), struct platform *platform)
{
    const int32_t sizes[] = {1, 2, several(platform)};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        OWN(fabric) *fabric = lay_out(platform, sizes[i]);
        int32_t devices = fabric->devices_per_node;
        for (int32_t a = 0; a < devices && a < fabric->ranks; a++)
            for (int32_t b = a + 1; b < fabric->ranks; b++)
                expect_route(platform, fabric, a, b);
    }
}

TEST_EACH(no_cable_and_no_network_card_is_without_use, each_platform(see),
          struct platform *platform)
{
    OWN(fabric) *fabric = lay_out(platform, 2);
    bool *used = base_alloc(fabric->link_count, sizeof(*used));
    for (int32_t a = 0; a < fabric->ranks; a++) {
        for (int32_t b = 0; b < fabric->ranks; b++) {
            if (a == b)
                continue;
            struct route route;
            fabric_route(fabric, a, b, &route);
            for (int32_t i = 0; i < route.count; i++)
                used[route.link[i]] = true;
        }
    }
    for (int32_t link = 0; link < fabric->link_count; link++) {
        AUTOFREE char *name = fabric_link_name(fabric, link);
        bool sockets = strstr(name, "cpu0-cpu1") || strstr(name, "cpu1-cpu0"); /* may be idle */
        if (!strncmp(name, "node", 4) && !sockets && !used[link])
            fail_msg("%s: nothing is ever sent over %s", platform->name, name);
    }
    free(used);
}

static int32_t count_words(const char *text)
{
    int32_t words = 0;
    for (bool inside = false; *text; text++) {
        words += !inside && *text != ' ';
        inside = *text != ' ';
    }
    return words;
}

/* "datasheet" and "published" are claims about others: they need a name or a place. */
static void expect_source(void *context, const struct quantity *quantity, enum unit unit)
{
    const char *platform = context;
    int32_t least = quantity->provenance == PROVENANCE_ASSUMED ? 2 : 3;
    (void)unit;
    if (count_words(quantity->source) < least)
        fail_msg("%s: %s: '%s' is no source", platform, quantity->path, quantity->source);
}

TEST_EACH(every_number_says_where_it_is_from, each_platform(see), struct platform *platform)
{
    platform_each_quantity(platform, expect_source, (void *)(size_t)platform->name);
}

/* The payload of the links of @tier that leave @from, over all links of the first node. */
static double leaving(const struct fabric *fabric, const char *from, const char *tier)
{
    AUTOFREE char *start = base_format("node0.%s", from);
    double sum = 0;
    for (int32_t i = 0; i < fabric->link_count; i++) {
        AUTOFREE char *name = fabric_link_name(fabric, i);
        if (!strncmp(name, start, strlen(start)) &&
            !strncmp(fabric->tier_name[fabric->link[i].tier], tier, strlen(tier)))
            sum += fabric->link[i].bandwidth;
    }
    return sum;
}

TEST(nodes_have_the_devices_and_cards_of_published_runs)
{
    for (const struct published_machine *m = published_machines; m->name; m++) {
        OWN(platform) *platform = platform_of(m->name);
        OWN(fabric) *fabric = lay_out(platform, 2);
        assert_string_equal(platform->device.name, m->device);
        assert_int_equal(fabric->devices_per_node, m->devices);
        /* Both directions of each card; efficiencies are between 90 and 96 %. */
        double gigabits = leaving(fabric, "nic", "nic") * 8 / 1e9 / 2;
        if (gigabits < 0.9 * m->network || gigabits > 0.9601 * m->network)
            fail_msg("%s: %g Gb/s of payload a node", m->name, gigabits);
    }
}

/* NVLink payload that leaves each GPU [GB/s]: links by what NCCL gets from one. */
static const struct mesh {
    const char *name;
    double leaving;
} meshes[] = {
    {"abci", 6 * 21},          {"big-basin-p100", 4 * 18}, {"dell-c4140", 6 * 20},
    {"dell-xe8545", 12 * 20},  {"dell-xe8640", 18 * 20.6}, {"dgx-1", 6 * 20},
    {"dgx-2h", 6 * 20},        {"dgx-a100", 12 * 20},      {"dgx-h100", 18 * 20.6},
    {"hpe-cray-xd670", 370.8}, {"hpe-xl675d", 12 * 20},    {"roce-8xa100-16x200g", 12 * 20},
};
enum { MESH_COUNT = sizeof(meshes) / sizeof(meshes[0]) };

TEST(every_gpu_has_all_its_nvlinks)
{
    for (int32_t i = 0; i < MESH_COUNT; i++) {
        OWN(platform) *platform = platform_of(meshes[i].name);
        OWN(fabric) *fabric = lay_out(platform, 1);
        for (int32_t gpu = 0; gpu < fabric->devices_per_node; gpu++) {
            /* A cable is named once for each direction, from its first end to its second. */
            AUTOFREE char *from = base_format("gpu%d-", gpu);
            double gigabytes = leaving(fabric, from, "nvlink") / 1e9;
            if (fabs(gigabytes - meshes[i].leaving) > 0.001 * meshes[i].leaving)
                fail_msg("%s: %g GB/s leave gpu%d", meshes[i].name, gigabytes, gpu);
        }
    }
}

static void expect_nvlink(const struct mesh *mesh, const struct fabric *fabric, int32_t gpu)
{
    struct route route;
    fabric_route(fabric, gpu, (gpu + 1) % fabric->ranks, &route);
    for (int32_t k = 0; k < route.count; k++)
        if (strncmp(fabric->tier_name[fabric->link[route.link[k]].tier], "nvlink", 6) != 0)
            fail_msg("%s: gpu%d and the next one do not talk over NVLink", mesh->name, gpu);
}

TEST(a_ring_in_rank_order_stays_on_nvlink)
{
    for (int32_t i = 0; i < MESH_COUNT; i++) {
        OWN(platform) *platform = platform_of(meshes[i].name);
        OWN(fabric) *fabric = lay_out(platform, 1);
        for (int32_t gpu = 0; gpu < fabric->ranks; gpu++)
            expect_nvlink(&meshes[i], fabric, gpu);
    }
}
