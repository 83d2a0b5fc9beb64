#include "core/network/fabric.h"

#include "core/platform/platform.h"
#include "tests/core/own.h"
#include "tests/core/route_text.h"
#include "tests/test.h"

/* Five nodes of two devices, each with a card; leaves of two nodes, pods of four. */
static struct fabric *lay_leaves(enum routing routing, int32_t pipes, int32_t rails,
                                 const int32_t *place)
{
    HELD(wiring) wiring = {.count = {[VERTEX_DEVICE] = 2, [VERTEX_NIC] = 2}};
    wiring_add(&wiring, 0, 1, 0);
    wiring_add(&wiring, 0, 2, 0);
    wiring_add(&wiring, 1, 3, 0);
    struct link_kind cable = kind("bus", 4, 1);
    struct link_group group[] = {
        {.name = "leaf",
         .nodes = 2,
         .uplink = kind("leaf uplink", 1, 100),
         .pipes = pipes,
         .rails = rails},
        {.name = "pod",
         .nodes = 4,
         .uplink = kind("pod uplink", 1, 1000),
         .pipes = pipes > 1 ? 2 * pipes : 1},
    };
    return fabric_lay_cluster(&(struct cluster_plan){
        .nodes = 5,
        .devices_per_node = 2,
        .wiring = &wiring,
        .cable = &cable,
        .cable_count = 1,
        .nic = kind("nic", 3, 10),
        .group = group,
        .group_count = 2,
        .routing = routing,
        .routing_seed = 7,
        .place = place,
        .latency_between = 10000,
    });
}

/* The card of rank r is number r: device and card d of node n are 2 n + d. */
TEST(a_static_route_takes_the_uplink_of_its_destination)
{
    OWN(fabric) *fabric = lay_leaves(ROUTING_STATIC, 3, 1, NULL);
    assert_true(fabric->chooses);
    assert_int_equal(fabric->link_count, 5 * 10 + 2 * 3 * 3 + 2 * 2 * 6);
    expect_route(fabric, 0, 5,
                 "node0.gpu0-nic0 node0.nic0.up leaf0.up2 leaf1.down2 node2.nic1.down "
                 "node2.nic1-gpu1");
    expect_route(fabric, 2, 8,
                 "node1.gpu0-nic0 node1.nic0.up leaf0.up2 pod0.up2 pod1.down2 leaf2.down2 "
                 "node4.nic0.down node4.nic0-gpu0");
    expect_route(fabric, 8, 7,
                 "node4.gpu0-nic0 node4.nic0.up leaf2.up1 pod1.up1 pod0.down1 leaf1.down1 "
                 "node3.nic1.down node3.nic1-gpu1");
}

TEST(with_rails_each_card_has_a_switch_of_its_own)
{
    OWN(fabric) *fabric = lay_leaves(ROUTING_STATIC, 3, 2, NULL);
    expect_route(fabric, 0, 2, "node0.gpu0-nic0 node0.nic0.up node1.nic0.down node1.nic0-gpu0");
    expect_route(fabric, 0, 3,
                 "node0.gpu0-nic0 node0.nic0.up leaf0.up0 leaf1.down0 node1.nic1.down "
                 "node1.nic1-gpu1");
    expect_route(fabric, 1, 4,
                 "node0.gpu1-nic1 node0.nic1.up leaf1.up1 leaf2.down1 node2.nic0.down "
                 "node2.nic0-gpu0");
    struct route there, inside;
    fabric_route(fabric, 0, 3, &there);
    fabric_route(fabric, 0, 2, &inside);
    assert_true(there.latency == inside.latency + 2 * 100);
}

TEST(nodes_stand_where_they_are_placed)
{
    static const int32_t place[] = {6, 1, 7, 0, 2};
    OWN(fabric) *fabric = lay_leaves(ROUTING_IDEAL, 1, 1, place);
    assert_false(fabric->chooses);
    expect_route(fabric, 0, 4, "node6.gpu0-nic0 node6.nic0.up node7.nic0.down node7.nic0-gpu0");
    expect_route(fabric, 3, 9,
                 "node1.gpu1-nic1 node1.nic1.up leaf0.up leaf1.down node2.nic1.down "
                 "node2.nic1-gpu1");
    expect_route(fabric, 0, 2,
                 "node6.gpu0-nic0 node6.nic0.up leaf3.up pod1.up pod0.down leaf0.down "
                 "node1.nic0.down node1.nic0-gpu0");
}

TEST(with_one_uplink_all_routings_are_the_same)
{
    OWN(fabric) *ideal = lay_leaves(ROUTING_IDEAL, 1, 1, NULL);
    for (enum routing routing = ROUTING_STATIC; routing < ROUTING_COUNT; routing++) {
        OWN(fabric) *fabric = lay_leaves(routing, 1, 1, NULL);
        for (int32_t pair = 0; pair < 100; pair++) {
            if (pair / 10 == pair % 10)
                continue;
            AUTOFREE char *text = route_text(ideal, pair / 10, pair % 10);
            expect_route(fabric, pair / 10, pair % 10, text);
        }
    }
}

/* Each of 24 cables gets its part of 4 * 34 * 33 * 4 routes: 748, and 5 standard deviations of 27
 * more or less. */
TEST(hashed_routes_are_spread_over_all_uplinks)
{
    struct err err = {0};
    const char *set[] = {"platform.network.routing=hashed", "platform.network.routing_seed=5"};
    OWN(platform) *platform = platform_read_changed(NULL, "abci", set, 2, NULL, &err);
    assert_non_null(platform);
    OWN(fabric) *fabric =
        platform_fabric(platform, 67, 4, (struct grid){.columns = 268, .rows = 1}, &err);
    assert_int_equal(fabric->link_count, 67 * 34 + 2 * 2 * 24);
    AUTOFREE int32_t *routes = base_alloc(fabric->link_count, sizeof(*routes));
    for (int32_t from = 0; from < 4 * 34; from++)
        for (int32_t to = 4 * 34; to < 4 * 67; to++) {
            struct route route;
            fabric_route(fabric, from, to, &route);
            for (int32_t i = 0; i < route.count; i++) {
                routes[route.link[i]]++;
                for (int32_t k = 0; k < i; k++)
                    assert_int_not_equal(route.link[k], route.link[i]);
            }
        }
    int32_t all = 0;
    for (int32_t i = 0; i < 24; i++) {
        int32_t up = 67 * 34 + 2 * i, down = up + 2 * 24 + 1;
        assert_int_equal(routes[up], routes[down]);
        assert_in_range(routes[up], 748 - 135, 748 + 135);
        all += routes[up];
    }
    assert_int_equal(all, 4 * 34 * 4 * 33);
}

/* --- NCCL --- */

static struct nccl_world nccl_on(const char *const *set, int32_t count, int32_t nodes)
{
    struct err err = {0};
    OWN(platform) *platform = platform_read_changed(NULL, "abci", set, count, NULL, &err);
    assert_ok(platform, err);
    OWN(fabric) *fabric =
        platform_fabric(platform, nodes, 4, (struct grid){.columns = 4 * nodes, .rows = 1}, &err);
    return fabric->nccl;
}

/* Two channels leave a rack: their part of the cables decides. */
TEST(a_ring_of_nccl_uses_an_uplink_a_channel)
{
    static const struct {
        const char *set[2];
        double least, most;
    } is[] = {
        {{"platform.network.routing=ideal", "platform.network.tiers[0].uplinks=24"}, 1, 1},
        {{"platform.network.routing=static", "platform.network.tiers[0].uplinks=2"}, 1, 1},
        {{"platform.network.routing=static", "platform.network.tiers[0].uplinks=3"}, 1.5, 1.5},
        {{"platform.network.routing=static", "platform.network.tiers[0].uplinks=24"}, 12, 12},
        {{"platform.network.routing=hashed", "platform.network.tiers[0].uplinks=2"}, 1, 2},
        {{"platform.network.tiers[0].rails=2", "platform.network.tiers[0].uplinks=24"}, 1, 1},
    };
    struct nccl_world even = nccl_on(is[0].set, 2, 70);
    for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
        struct nccl_world world = nccl_on(is[i].set, 2, 70);
        double passes = world.level[1].ring_passes;
        assert_true(passes > is[i].least - 1e-9 && passes < is[i].most + 1e-9);
        assert_true(world.level[1].tree_passes > even.level[1].tree_passes - 1e-9);
        for (int32_t l = 0; l < 2; l++) {
            assert_int_equal(world.level[l].groups, l ? 3 : 70);
            assert_true(world.level[l].latency == even.level[l].latency);
        }
    }
}

/* Of 64 scattered nodes hardly two neighbours are in one rack; of 34 in order all are. */
TEST(a_ring_of_nccl_leaves_a_rack_wherever_the_next_node_is_outside)
{
    static const char *const scattered[] = {"platform.network.placement=scattered"};
    struct nccl_world apart = nccl_on(scattered, 1, 64), together = nccl_on(NULL, 0, 34);
    assert_in_range(apart.level[1].groups, 50, 64);
    assert_true(apart.level[1].ring_passes >= 64 / 32.);
    assert_int_equal(together.level[1].groups, 1);
}
