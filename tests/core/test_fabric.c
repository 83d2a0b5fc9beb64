#include "tests/core/own.h"
#include "tests/core/route_text.h"
#include "tests/test.h"

static struct fabric *lay(const char *name, int32_t nodes, int32_t devices, struct grid grid)
{
    OWN(platform) *platform = platform_of(name);
    struct fabric *fabric = platform_fabric(platform, nodes, devices, grid, &err);
    assert_ok(fabric, err);
    return fabric;
}

static struct fabric *lay_abci(int32_t nodes)
{
    return lay("abci", nodes, 4, grid_of(4 * nodes, 1));
}

static bool share_a_link(const struct fabric *fabric, int32_t a, int32_t b, int32_t c, int32_t d)
{
    struct route first, second;
    fabric_route(fabric, a, b, &first);
    fabric_route(fabric, c, d, &second);
    for (int32_t i = 0; i < first.count; i++)
        for (int32_t k = 0; k < second.count; k++)
            if (first.link[i] == second.link[k])
                return true;
    return false;
}

/* A fabric's promises about the routes between two ranks. */
static void check_pair(const struct fabric *fabric, int32_t from, int32_t to)
{
    struct route there, back;
    fabric_route(fabric, from, to, &there);
    fabric_route(fabric, to, from, &back);
    assert_int_equal(there.count, back.count);
    assert_true(there.count >= 1);
    assert_true(there.latency > 0 && there.latency == back.latency);
    for (int32_t i = 0; i < there.count; i++) {
        assert_in_range(there.link[i], 0, fabric->link_count - 1);
        for (int32_t k = 0; k < i; k++)
            assert_int_not_equal(there.link[i], there.link[k]);
        for (int32_t k = 0; k < back.count; k++)
            assert_int_not_equal(there.link[i], back.link[k]);
    }
}

static void check_some_pairs(const struct fabric *fabric)
{
    for (uint64_t i = 0; i < 2000; i++) {
        int32_t from = (int32_t)(base_uniform(1, i, 0, 0) * fabric->ranks);
        int32_t to = (int32_t)(base_uniform(1, i, 1, 0) * fabric->ranks);
        if (from != to)
            check_pair(fabric, from, to);
    }
}

TEST(routes_are_simple_and_symmetric_at_every_size_of_abci)
{
    const int32_t sizes[] = {1, 2, 34, 35, 1088};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        OWN(fabric) *fabric = lay_abci(sizes[i]);
        assert_int_equal(fabric->ranks, 4 * sizes[i]);
        check_some_pairs(fabric);
    }
}

TEST(routes_are_simple_and_symmetric_on_other_platforms)
{
    OWN(fabric) *tree = lay("generic-fat-tree", 2048, 8, grid_of(128, 128));
    OWN(fabric) *torus = lay("t1-torus", 63, 1, grid_of(9, 7));
    OWN(fabric) *ring = lay("t1-ring", 17, 1, grid_of(17, 1));
    check_some_pairs(tree);
    check_some_pairs(torus);
    check_some_pairs(ring);
}

TEST(in_an_abci_node_nvlink_joins_each_pair)
{
    OWN(fabric) *fabric = lay_abci(2);
    expect_route(fabric, 0, 1, "node0.gpu0-gpu1");
    expect_route(fabric, 1, 0, "node0.gpu1-gpu0");
    expect_route(fabric, 0, 2, "node0.gpu0-gpu2");
    expect_route(fabric, 7, 4, "node1.gpu3-gpu0");
    struct route route;
    fabric_route(fabric, 0, 1, &route);
    assert_true(fabric_route_bandwidth(fabric, &route) == 50e9 * 0.84);
    assert_string_equal(fabric->tier_name[fabric->link[route.link[0]].tier], "nvlink");
}

/* Each GPU uses the card of its socket. */
TEST(abci_racks_hold_34_nodes)
{
    OWN(fabric) *fabric = lay_abci(69);
    expect_route(fabric, 0, 33 * 4,
                 "node0.gpu0-switch0 node0.switch0-cpu0 node0.cpu0-nic0 node0.nic0.up "
                 "node33.nic0.down node33.nic0-cpu0 node33.cpu0-switch0 node33.switch0-gpu0");
    expect_route(fabric, 2, 34 * 4,
                 "node0.gpu2-switch1 node0.switch1-cpu1 node0.cpu1-nic1 node0.nic1.up rack0.up "
                 "rack1.down node34.nic0.down node34.nic0-cpu0 node34.cpu0-switch0 "
                 "node34.switch0-gpu0");
    expect_route(fabric, 34 * 4, 2,
                 "node34.gpu0-switch0 node34.switch0-cpu0 node34.cpu0-nic0 node34.nic0.up "
                 "rack1.up rack0.down node0.nic1.down node0.nic1-cpu1 node0.cpu1-switch1 "
                 "node0.switch1-gpu2");
    expect_route(fabric, 67 * 4 + 1, 68 * 4 + 3,
                 "node67.gpu1-switch0 node67.switch0-cpu0 node67.cpu0-nic0 node67.nic0.up rack1.up "
                 "rack2.down node68.nic1.down node68.nic1-cpu1 node68.cpu1-switch1 "
                 "node68.switch1-gpu3");
}

TEST(an_abci_rack_goes_up_through_24_cables)
{
    OWN(fabric) *fabric = lay_abci(1088);
    int32_t uplinks = 0;
    for (int32_t i = 0; i < fabric->link_count; i++) {
        if (strcmp(fabric->tier_name[fabric->link[i].tier], "rack uplink") != 0)
            continue;
        uplinks++;
        assert_true(fabric->link[i].bandwidth == 24 * 12.5e9 * 0.96);
    }
    assert_int_equal(uplinks, 2 * 32);
}

TEST(latency_is_that_of_the_links_and_the_message)
{
    OWN(fabric) *fabric = lay_abci(35);
    struct {
        int32_t to;
        double seconds;
    } expected[] = {{1, 2e-6}, {4, 10e-6 + 2 * 135e-9}, {136, 10e-6 + 2 * 135e-9 + 2 * 180e-9}};
    for (size_t i = 0; i < 3; i++) {
        struct route route;
        fabric_route(fabric, 0, expected[i].to, &route);
        assert_relative(route.latency, expected[i].seconds, 1e-12);
    }
}

TEST(gpus_of_one_switch_share_their_way_out)
{
    OWN(fabric) *fabric = lay_abci(3);
    assert_true(share_a_link(fabric, 0, 4, 1, 8));   /* one PCIe switch, one card */
    assert_false(share_a_link(fabric, 0, 4, 2, 10)); /* the other socket */
    assert_false(share_a_link(fabric, 0, 4, 4, 0));  /* full duplex */
    assert_true(share_a_link(fabric, 0, 4, 9, 5));   /* one card to arrive at */
}

TEST(pairs_joined_by_nvlink_share_nothing)
{
    OWN(fabric) *fabric = lay_abci(1);
    for (int32_t first = 0; first < 16; first++)
        for (int32_t second = 0; second < first; second++)
            if (first / 4 != first % 4 && second / 4 != second % 4)
                assert_false(share_a_link(fabric, first / 4, first % 4, second / 4, second % 4));
}

TEST(fewer_devices_are_the_first_of_each_node)
{
    OWN(fabric) *fabric = lay("abci", 2, 1, grid_of(2, 1));
    assert_int_equal(fabric->ranks, 2);
    expect_route(fabric, 0, 1,
                 "node0.gpu0-switch0 node0.switch0-cpu0 node0.cpu0-nic0 node0.nic0.up "
                 "node1.nic0.down node1.nic0-cpu0 node1.cpu0-switch0 node1.switch0-gpu0");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void expect_unique_names(struct fabric *fabric)
{
    AUTOFREE char **name = base_alloc(fabric->link_count, sizeof(*name));
    for (int32_t i = 0; i < fabric->link_count; i++)
        name[i] = fabric_link_name(fabric, i);
    qsort(name, (size_t)fabric->link_count, sizeof(*name), compare_names);
    for (int32_t i = 1; i < fabric->link_count; i++)
        assert_string_not_equal(name[i - 1], name[i]);
    for (int32_t i = 0; i < fabric->link_count; i++)
        free(name[i]);
    fabric_free(fabric);
}

TEST(no_two_links_have_the_same_name)
{
    expect_unique_names(lay_abci(70));
    expect_unique_names(lay("t1-torus", 10, 1, grid_of(5, 2)));
    expect_unique_names(lay("t1-ring", 3, 1, grid_of(3, 1)));
}

/* Nodes of one device or two, each with a card; leaves of two nodes, pods of four. */
static struct fabric *lay_leaves(int32_t nodes, int32_t devices, enum routing routing,
                                 int32_t pipes, int32_t rails, const int32_t *place)
{
    HELD(wiring) wiring = {.count = {[VERTEX_DEVICE] = devices, [VERTEX_NIC] = devices}};
    if (devices == 2)
        wiring_add(&wiring, 0, 1, 0);
    for (int32_t i = 0; i < devices; i++)
        wiring_add(&wiring, i, devices + i, 0);
    struct link_kind cable = kind("bus", 4, 1);
    struct link_group group[] = {
        {.name = "leaf",
         .nodes = 2,
         .uplink = kind("leaf uplink", 2, 100),
         .pipes = pipes,
         .rails = rails},
        {.name = "pod",
         .nodes = 4,
         .uplink = kind("pod uplink", 1, 1000),
         .pipes = pipes > 1 ? 2 * pipes : 1},
    };
    return fabric_lay_cluster(&(struct cluster_plan){
        .nodes = nodes,
        .devices_per_node = devices,
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

TEST(climbs_only_to_the_lowest_common_switch)
{
    OWN(fabric) *fabric = lay_leaves(7, 1, ROUTING_IDEAL, 1, 1, NULL);
    expect_route(fabric, 4, 5, "node4.gpu0-nic0 node4.nic0.up node5.nic0.down node5.nic0-gpu0");
    expect_route(fabric, 5, 6,
                 "node5.gpu0-nic0 node5.nic0.up leaf2.up leaf3.down node6.nic0.down "
                 "node6.nic0-gpu0");
    expect_route(fabric, 0, 6,
                 "node0.gpu0-nic0 node0.nic0.up leaf0.up pod0.up pod1.down leaf3.down "
                 "node6.nic0.down node6.nic0-gpu0");
    const double latency[] = {10022, 10222, 12222}, bandwidth[] = {3, 2, 1};
    for (int32_t i = 0; i < 3; i++) {
        struct route route;
        fabric_route(fabric, 6 - (i == 0), (int32_t[]){4, 5, 0}[i], &route);
        assert_true(route.latency == latency[i]);
        assert_true(fabric_route_bandwidth(fabric, &route) == bandwidth[i]);
    }
}

TEST(torus_neighbours_are_one_link_apart)
{
    OWN(fabric) *fabric = lay("t1-torus", 12, 1, grid_of(4, 3));
    expect_route(fabric, 5, 6, "rank5.row.next");
    expect_route(fabric, 5, 4, "rank5.row.previous");
    expect_route(fabric, 5, 9, "rank5.column.next");
    expect_route(fabric, 5, 1, "rank5.column.previous");
    expect_route(fabric, 3, 0, "rank3.row.next");
    expect_route(fabric, 0, 8, "rank0.column.previous");
    struct route row, column;
    fabric_route(fabric, 5, 6, &row);
    fabric_route(fabric, 5, 9, &column);
    assert_true(fabric_route_bandwidth(fabric, &row) == 75e9);
    assert_true(fabric_route_bandwidth(fabric, &column) == 25e9);
    assert_true(row.latency == 1e-6 && column.latency == 5e-6);
}

TEST(torus_routes_go_along_the_row_first)
{
    OWN(fabric) *fabric = lay("t1-torus", 20, 1, grid_of(5, 4));
    expect_route(fabric, 0, 7, "rank0.row.next rank1.row.next rank2.column.next");
    expect_route(fabric, 7, 0, "rank7.row.previous rank6.row.previous rank5.column.previous");
    expect_route(fabric, 0, 3, "rank0.row.previous rank4.row.previous");
    expect_route(fabric, 0, 10, "rank0.column.next rank5.column.next"); /* both ways round equal */
}

TEST(torus_of_three_dimensions)
{
    OWN(fabric) *fabric = lay("tpu-v4-pod", 60, 1, grid_of(3, 20));
    check_some_pairs(fabric); /* 3 x 5 x 4 */
    expect_route(fabric, 0, 15, "rank0.depth.next");
    expect_route(fabric, 0, 45, "rank0.depth.previous");
    expect_route(fabric, 14, 15, "rank14.row.next rank12.column.next rank0.depth.next");
    expect_unique_names(lay("tpu-v4-pod", 8, 1, grid_of(2, 4)));
}

TEST(a_torus_of_width_two_has_two_links_each_way)
{
    OWN(fabric) *fabric = lay("t1-torus", 4, 1, grid_of(2, 2));
    assert_int_equal(fabric->link_count, 16);
    expect_route(fabric, 0, 1, "rank0.row.next");
    expect_route(fabric, 1, 0, "rank1.row.next");
}

TEST(a_ring_goes_the_shorter_way_round)
{
    OWN(fabric) *fabric = lay("t1-ring", 6, 1, grid_of(3, 2));
    assert_int_equal(fabric->link_count, 12);
    expect_route(fabric, 5, 0, "rank5.row.next");
    expect_route(fabric, 2, 3, "rank2.row.next"); /* rank order, whatever the grid */
    expect_route(fabric, 1, 5, "rank1.row.previous rank0.row.previous");
    OWN(fabric) *large = lay("t1-ring", 4096, 1, grid_of(64, 64));
    struct route route;
    fabric_route(large, 0, 2048, &route);
    assert_int_equal(route.count, FABRIC_ROUTE_LIMIT);
}

TEST(ranks_in_column_order_find_their_columns_in_the_nodes)
{
    struct grid grid = {.columns = 8, .rows = 4};
    OWN(fabric) *fabric = lay("abci", 8, 4, grid);
    fabric_set_order(fabric, grid, RANK_ORDER_COLUMN);
    /* Rank 8 is the second of column 0, rank 1 the first of column 1. */
    expect_route(fabric, 0, 8, "node0.gpu0-gpu1");
    expect_route(fabric, 0, 1,
                 "node0.gpu0-switch0 node0.switch0-cpu0 node0.cpu0-nic0 node0.nic0.up "
                 "node1.nic0.down node1.nic0-cpu0 node1.cpu0-switch0 node1.switch0-gpu0");
    fabric_set_order(fabric, grid, RANK_ORDER_ROW);
    expect_route(fabric, 0, 1, "node0.gpu0-gpu1");
}

/* The card of rank r is number r: device and card d of node n are 2 n + d. */
TEST(a_static_route_takes_the_uplink_of_its_destination)
{
    OWN(fabric) *fabric = lay_leaves(5, 2, ROUTING_STATIC, 3, 1, NULL);
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
    OWN(fabric) *fabric = lay_leaves(5, 2, ROUTING_STATIC, 3, 2, NULL);
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
    OWN(fabric) *fabric = lay_leaves(5, 2, ROUTING_IDEAL, 1, 1, place);
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
    OWN(fabric) *ideal = lay_leaves(5, 2, ROUTING_IDEAL, 1, 1, NULL);
    for (enum routing routing = ROUTING_STATIC; routing < ROUTING_COUNT; routing++) {
        OWN(fabric) *fabric = lay_leaves(5, 2, routing, 1, 1, NULL);
        for (int32_t pair = 0; pair < 100; pair++) {
            if (pair / 10 == pair % 10)
                continue;
            AUTOFREE char *text = route_text(ideal, pair / 10, pair % 10);
            expect_route(fabric, pair / 10, pair % 10, text);
        }
    }
}

/* Each of 24 cables gets its part of 4 * 34 * 33 * 4 routes: 748, +- 5 deviations of 27. */
TEST(hashed_routes_are_spread_over_all_uplinks)
{
    const char *set[] = {"platform.network.routing=hashed", "platform.network.routing_seed=5"};
    OWN(platform) *platform = platform_read_changed(NULL, "abci", set, 2, NULL, &err);
    assert_non_null(platform);
    OWN(fabric) *fabric = platform_fabric(platform, 67, 4, grid_of(268, 1), &err);
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

/* The cables between racks that a message takes: of its leaf, one of 18, and of its rack, of 24. */
static int32_t hashed_cables(const struct fabric *fabric, int32_t from, int32_t to)
{
    int32_t leaf = -1, rack = -1;
    struct route route;
    fabric_route(fabric, from, to, &route);
    for (int32_t i = 0; i < route.count; i++) {
        AUTOFREE char *name = fabric_link_name(fabric, route.link[i]);
        sscanf(name, "leaf%*d.up%d", &leaf);
        sscanf(name, "rack%*d.up%d", &rack);
    }
    assert_in_range(leaf, 0, 17);
    assert_in_range(rack, 0, 23);
    return leaf * 24 + rack;
}

TEST(each_tier_and_each_seed_has_a_hash_of_its_own)
{
    const char *seed[] = {"platform.network.routing_seed=5", "platform.network.routing_seed=6"};
    struct fabric *fabric[2];
    for (int32_t i = 0; i < 2; i++) {
        const char *set[] = {"platform.network.routing=hashed", seed[i]};
        OWN(platform) *platform = platform_read_changed(NULL, "abci-routes", set, 2, NULL, &err);
        assert_ok(platform, err);
        fabric[i] = platform_fabric(platform, 67, 4, grid_of(268, 1), &err);
        assert_ok(fabric[i], err);
    }
    int32_t seen[18 * 24] = {0}, used = 0, same = 0;
    for (int32_t from = 0; from < 4 * 34; from++)
        for (int32_t to = 4 * 34; to < 4 * 67; to++) {
            int32_t cables = hashed_cables(fabric[0], from, to);
            used += seen[cables]++ == 0;
            same += cables == hashed_cables(fabric[1], from, to);
        }
    assert_int_equal(used, 18 * 24);
    assert_in_range(same, 0, 4 * 34 * 4 * 33 / 100);
    for (int32_t i = 0; i < 2; i++)
        fabric_free(fabric[i]);
}

/* --- NCCL --- */

static struct nccl_world nccl_on(const char *const *set, int32_t count, int32_t nodes)
{
    OWN(platform) *platform = platform_read_changed(NULL, "abci", set, count, NULL, &err);
    assert_ok(platform, err);
    OWN(fabric) *fabric = platform_fabric(platform, nodes, 4, grid_of(4 * nodes, 1), &err);
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

static struct wiring new_wiring(int32_t devices, int32_t switches, int32_t cpus, int32_t nics)
{
    return (struct wiring){.count = {devices, switches, cpus, nics}};
}

/* Add @cables, such as "gpu0-switch0 switch0-nic0". */
static void connect(struct wiring *wiring, const char *cables)
{
    char a[16], b[16];
    for (int length; sscanf(cables, " %15[^-]-%15s%n", a, b, &length) == 2; cables += length)
        wiring_add(wiring, wiring_find(wiring, a), wiring_find(wiring, b), 0);
}

/* The vertices on the way from @from to @to, joined by blanks; the caller frees it. */
static char *way(const struct wiring *wiring, const char *from, const char *to)
{
    int32_t path[32];
    int32_t count = wiring_path(wiring, wiring_find(wiring, from), wiring_find(wiring, to), path);
    if (count < 0)
        return base_copy("none");
    struct text text = {0};
    text_add(&text, "%s", from);
    for (int32_t i = 0; i < count; i++) {
        text_add(&text, " ");
        wiring_print_vertex(&text, wiring, wiring->cable[path[i] / 2].end[1 - path[i] % 2]);
    }
    return text.data;
}

static void expect_way(const struct wiring *wiring, const char *from, const char *to,
                       const char *expected)
{
    AUTOFREE char *text = way(wiring, from, to);
    assert_string_equal(text, expected);
}

TEST(every_vertex_is_found_by_its_name)
{
    struct wiring wiring = new_wiring(4, 2, 2, 3);
    assert_int_equal(wiring_vertices(&wiring), 11);
    for (int32_t v = 0; v < 11; v++) {
        HELD(text) name = {0};
        wiring_print_vertex(&name, &wiring, v);
        assert_int_equal(wiring_find(&wiring, name.data), v);
    }
    const char *const unknown[] = {"gpu4", "gpu", "gpu00", "nic3", "plx0", ""};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_int_equal(wiring_find(&wiring, unknown[i]), -1);
}

TEST(takes_the_fewest_cables)
{
    HELD(wiring) wiring = new_wiring(2, 3, 0, 0);
    connect(&wiring, "gpu0-switch0 switch0-switch1 switch1-gpu1");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 switch0 switch1 gpu1");
    connect(&wiring, "gpu1-switch2 switch2-gpu0");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 switch2 gpu1");
    expect_way(&wiring, "gpu1", "gpu0", "gpu1 switch2 gpu0");
}

TEST(among_equals_takes_the_cable_that_stands_first)
{
    HELD(wiring) wiring = new_wiring(2, 2, 0, 0);
    connect(&wiring, "gpu1-switch1 switch1-gpu0 gpu0-switch0 gpu1-switch0");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 switch1 gpu1");
    expect_way(&wiring, "gpu1", "gpu0", "gpu1 switch1 gpu0");
}

TEST(devices_and_nics_do_not_forward)
{
    HELD(wiring) wiring = new_wiring(3, 0, 0, 1);
    connect(&wiring, "gpu0-gpu1 gpu1-gpu2 gpu0-nic0");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 gpu1");
    expect_way(&wiring, "gpu0", "gpu2", "none");
    expect_way(&wiring, "gpu1", "nic0", "none");
}

TEST(a_way_to_oneself_has_no_links)
{
    struct wiring wiring = new_wiring(1, 0, 0, 0);
    int32_t path[1];
    assert_int_equal(wiring_path(&wiring, 0, 0, path), 0);
}

TEST(a_device_uses_the_nic_nearest_to_it)
{
    HELD(wiring) wiring = new_wiring(2, 2, 0, 2);
    connect(&wiring, "gpu0-switch0 gpu1-switch1 switch0-switch1 nic1-switch0 nic0-switch1");
    int32_t nic[2];
    wiring_assign_nics(&wiring, nic);
    assert_int_equal(nic[0], 1);
    assert_int_equal(nic[1], 0);
}

TEST(equally_near_nics_share_the_devices)
{
    HELD(wiring) wiring = new_wiring(5, 1, 0, 2);
    connect(&wiring, "gpu0-switch0 gpu1-switch0 gpu2-switch0 gpu3-switch0 gpu4-switch0");
    connect(&wiring, "nic0-switch0 nic1-switch0");
    int32_t nic[5];
    wiring_assign_nics(&wiring, nic);
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(nic[i], i % 2);
}

TEST(a_device_without_a_way_has_no_nic)
{
    struct wiring wiring = new_wiring(1, 0, 0, 1);
    int32_t nic[1];
    wiring_assign_nics(&wiring, nic);
    assert_int_equal(nic[0], -1);
}
