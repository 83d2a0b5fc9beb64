/** @file
 * NCCL's choice: latencies and bandwidths added up by hand, and what must hold for every world.
 */

#include "core/network/nccl.h"

#include "tests/test.h"

#define assert_same(value, expected) assert_relative(value, expected, 1e-9)

#define ALL_REDUCE COLLECTIVE_ALL_REDUCE

static const int32_t versions[] = {203, 204, 205, 206, 207, 208, 210, 212,
                                   214, 217, 218, 219, 221, 223, 227, 230};

/* Four V100 on six rings, two EDR cards a node, as in ABCI. */
static struct nccl_world v100(int32_t version, int32_t nodes)
{
    return (struct nccl_world){.version = version,
                               .ranks = 4 * nodes,
                               .nodes = nodes,
                               .intra = NCCL_NVLINK,
                               .compute_capability = 70,
                               .channels = 6,
                               .inter_channels = 2,
                               .intra_bandwidth = 120e9,
                               .inter_bandwidth = 24e9};
}

static struct nccl_world dgx(int32_t version, int32_t compute_capability, int32_t nodes)
{
    bool hopper = compute_capability >= 90;
    return (struct nccl_world){.version = version,
                               .ranks = 8 * nodes,
                               .nodes = nodes,
                               .intra = NCCL_NVLINK,
                               .compute_capability = compute_capability,
                               .nvswitch = true,
                               .channels = hopper ? 16 : 24,
                               .inter_channels = 8,
                               .intra_bandwidth = hopper ? 370.8e9 : 240e9,
                               .inter_bandwidth = hopper ? 384e9 : 192e9};
}

/* @latency in microseconds and @rate in GB/s of the vector. */
static void assert_cost(struct nccl_world world, enum nccl_algorithm algorithm,
                        enum nccl_protocol protocol, int64_t bytes, double latency, double rate)
{
    struct nccl_choice c = nccl_cost(&world, ALL_REDUCE, bytes, algorithm, protocol);
    assert_same(c.latency, 1e-6 * latency);
    assert_same(c.bandwidth, 1e9 * rate);
    assert_same(c.seconds, 1e-6 * latency + (double)bytes / (1e9 * rate));
}

static void assert_cannot(struct nccl_world world, enum nccl_algorithm algorithm,
                          enum nccl_protocol protocol)
{
    assert_true(isinf(nccl_cost(&world, ALL_REDUCE, 1000, algorithm, protocol).seconds));
}

/* --- by hand --- */

TEST(rings_of_one_node)
{
    assert_cost(v100(227, 1), NCCL_RING, NCCL_LL, 80000000, 6.6 + 6 * .6, 39. * 4 / 6);
    assert_cost(v100(227, 1), NCCL_RING, NCCL_LL128, 80000000, 14 + 6 * 1.9, .92 * 120 * 4 / 6);
    assert_cost(v100(227, 1), NCCL_RING, NCCL_SIMPLE, 80000000, 8.4 + 6 * 3.4, 120. * 4 / 6);
    assert_cost(v100(205, 1), NCCL_RING, NCCL_LL, 80000000, 3.6 + 6 * .4, 30. * 4 / 6);
}

/* At 64 B << 20 the corrections of LL and LL128 are 1 and 0.9. */
TEST(trees_of_several_nodes)
{
    int64_t bytes = 64 << 20;
    assert_cost(v100(210, 16), NCCL_TREE, NCCL_LL, bytes, 4.4 + 2 * (3 * .52 * 1.8 + 4 * 5.),
                20 / 3.8 / 2);
    assert_cost(v100(210, 16), NCCL_TREE, NCCL_LL128, bytes, 4.4 + 2 * (3 * 1.25 + 4 * 8.5),
                .9 * 20 * 120 / 128 / 2);
    assert_cost(v100(227, 31), NCCL_TREE, NCCL_SIMPLE, bytes, 8.4 + 2 * (3 * 4 + 4 * 14.),
                .8 * 20 / 2);
    assert_cost(v100(205, 16), NCCL_TREE, NCCL_LL128, bytes, 4.4 + 2 * (3 * 1.9 + 4 * 7.5),
                .9 * (.9 * 24) * 7 / 9 / 2);
}

TEST(trees_of_two_nodes_use_cards_both_ways)
{
    assert_cost(v100(227, 2), NCCL_TREE, NCCL_SIMPLE, 64 << 20, 8.4 + 2 * (3 * 4 + 14.),
                .8 * fmin(.92 * 48, 2 * 18.5) / 2);
}

/* 2176 GPUs: 13 ms of latency before the first byte counts. */
TEST(the_rings_of_2018)
{
    assert_cost(v100(203, 544), NCCL_RING, NCCL_SIMPLE, 51000000, 3. * 2 * 2175,
                24. * 2176 / (2 * 2175));
    for (enum nccl_algorithm a = 0; a < NCCL_ALGORITHM_COUNT; a++)
        for (enum nccl_protocol p = 0; p < NCCL_PROTOCOL_COUNT; p++)
            if (a != NCCL_RING || p != NCCL_SIMPLE)
                assert_cannot(v100(203, 544), a, p);
}

/* 4 us a GPU, 15 us a level, a quarter less bandwidth than rings; no trees on up to two nodes. */
TEST(the_trees_of_2_4)
{
    assert_cost(v100(204, 544), NCCL_TREE, NCCL_SIMPLE, 51000000, 3 * 4 + 9 * 15, .75 * 24 / 2);
    assert_cost(v100(204, 2), NCCL_TREE, NCCL_SIMPLE, 51000000, 3 * 4 + 15, .75 * 48 / 2);
    assert_cannot(v100(204, 1), NCCL_TREE, NCCL_SIMPLE);
    struct nccl_world pci = v100(204, 8);
    pci.intra = NCCL_PCI;
    assert_cost(pci, NCCL_TREE, NCCL_SIMPLE, 51000000, 3 * 4 + 3 * 15, 24. * 2 / 3 / 2);
}

/* 4 nodes of 8: 62 steps, of which 6 or, from 2.12 to 2.22, 8 leave a node. */
TEST(steps_between_nodes_cost_more)
{
    int64_t small = 1000;
    double rate = 192. * 32 / 62;
    assert_cost(dgx(207, 80, 4), NCCL_RING, NCCL_SIMPLE, small, 8.4 + 56 * 3.4 + 6 * 9.6, rate);
    assert_cost(dgx(212, 80, 4), NCCL_RING, NCCL_SIMPLE, small, 8.4 + 54 * 3.4 + 8 * 28, rate);
    assert_cost(dgx(214, 80, 4), NCCL_RING, NCCL_SIMPLE, small, 8.4 + 54 * 3.4 + 8 * 9.6, rate);
    assert_cost(dgx(223, 80, 4), NCCL_RING, NCCL_SIMPLE, small, 8.4 + 56 * 6. + 6 * 14, rate);
    assert_cost(dgx(205, 80, 4), NCCL_RING, NCCL_SIMPLE, small, 8.4 + 62 * 6.6, rate);
    assert_cost(dgx(207, 80, 4), NCCL_RING, NCCL_LL, small, 3.6 + 56 * 1.8 * .47 + 6 * 2.7,
                rate / 4);
}

TEST(large_vectors_on_rings_pay_more_latency)
{
    double rate = 192. * 32 / 62, latency = 8.4 + 56 * 3.4 + 6 * 9.6;
    assert_cost(dgx(207, 80, 4), NCCL_RING, NCCL_SIMPLE, 4096 * 32 - 1, latency, rate);
    assert_cost(dgx(207, 80, 4), NCCL_RING, NCCL_SIMPLE, 4096 * 32, 1.9 * latency, rate);
    latency = 8.4 + 56 * 6. + 6 * 14;
    assert_cost(dgx(223, 80, 4), NCCL_RING, NCCL_SIMPLE, 64 * 8 * 32 - 1, latency, rate);
    assert_cost(dgx(223, 80, 4), NCCL_RING, NCCL_SIMPLE, 64 * 8 * 32, 1.4 * latency, rate);
}

TEST(nvswitch_reduces_on_hopper)
{
    struct nccl_world eos = dgx(227, 90, 16);
    assert_cost(dgx(227, 90, 1), NCCL_NVLS, NCCL_SIMPLE, 50000000, 25, 320. * 5 / 6);
    assert_cost(eos, NCCL_NVLS, NCCL_SIMPLE, 50000000, 25 + 8 * 14, 192. * 5 / 6);
    eos.sharp = true;
    assert_cost(eos, NCCL_NVLS, NCCL_SIMPLE, 50000000, 25 + 18, 320. * 5 / 6);
    assert_cannot(dgx(227, 80, 1), NCCL_NVLS, NCCL_SIMPLE);
    assert_cannot(dgx(217, 90, 1), NCCL_NVLS, NCCL_SIMPLE);
    assert_cannot(dgx(227, 90, 1), NCCL_NVLS, NCCL_LL);
    eos.inter_bandwidth = 200e9;
    assert_cost(eos, NCCL_NVLS, NCCL_SIMPLE, 50000000, 25 + 18, 200. * 5 / 6);
    eos.nvswitch = false;
    assert_cannot(eos, NCCL_NVLS, NCCL_SIMPLE);
}

/* Wherever the cards limit, they carry half of what a ring of very many sends. */
TEST(sharp_halves_the_traffic)
{
    struct nccl_world world = dgx(227, 80, 512);
    assert_cannot(world, NCCL_COLLNET, NCCL_SIMPLE);
    world.sharp = true;
    world.intra_bandwidth = 1e12;
    assert_cost(world, NCCL_COLLNET, NCCL_SIMPLE, 50000000, 2 * (3.7 + 7 * .4) + 31, 192);
    struct nccl_choice ring = nccl_cost(&world, ALL_REDUCE, 50000000, NCCL_RING, NCCL_SIMPLE);
    assert_same(192e9 / ring.bandwidth, 2 * 4095. / 4096);
    assert_int_equal(nccl_choose(&world, ALL_REDUCE, 50000000).algorithm, NCCL_COLLNET);
}

/* --- the choice --- */

static void assert_choice(struct nccl_world world, int64_t bytes, const char *expected)
{
    struct nccl_choice c = nccl_choose(&world, ALL_REDUCE, bytes);
    char found[32];
    snprintf(found, sizeof(found), "%s %s", nccl_algorithm_name(c.algorithm),
             nccl_protocol_name(c.protocol));
    assert_string_equal(found, expected);
}

TEST(small_vectors_take_ll_trees_and_large_ones_simple)
{
    assert_choice(v100(227, 16), 1000, "tree LL");
    assert_choice(v100(227, 16), 4000000, "tree LL128");
    assert_choice(v100(227, 16), 1000000000, "ring Simple");
    assert_choice(v100(227, 1), 1000, "ring LL");
    assert_choice(v100(227, 1), 1000000000, "ring Simple");
    assert_choice(v100(203, 16), 1000, "ring Simple");
    assert_choice(v100(204, 544), 51000000, "tree Simple");
    assert_choice(dgx(227, 90, 1), 50000000, "nvls Simple");
}

TEST(other_operations_run_on_rings)
{
    struct nccl_world world = dgx(227, 90, 8);
    for (int64_t bytes = 1000; bytes < 1000000000; bytes *= 10)
        assert_int_equal(nccl_choose(&world, COLLECTIVE_ALL_GATHER, bytes).algorithm, NCCL_RING);
    struct nccl_choice gather = nccl_cost(&world, COLLECTIVE_ALL_GATHER, 1000, NCCL_RING, NCCL_LL);
    struct nccl_choice reduce = nccl_cost(&world, ALL_REDUCE, 1000, NCCL_RING, NCCL_LL);
    assert_same(gather.bandwidth, 2 * reduce.bandwidth);
}

/* --- for every world --- */

static void for_each_world(void (*see)(struct nccl_world world))
{
    static const int32_t generation[] = {60, 70, 80, 89, 90}, nodes[] = {1, 2, 3, 16, 100};
    for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++)
        for (int32_t g = 0; g < 5; g++)
            for (int32_t n = 0; n < 5; n++)
                for (int32_t sharp = 0; sharp < 2; sharp++) {
                    struct nccl_world world = dgx(versions[v], generation[g], nodes[n]);
                    world.sharp = sharp;
                    see(world);
                    world.ranks = 4 * world.nodes;
                    world.nvswitch = false;
                    world.intra = NCCL_PCI;
                    world.intra_bandwidth = 20e9;
                    see(world);
                }
}

static double seconds(const struct nccl_world *world, double bytes)
{
    return nccl_choose(world, ALL_REDUCE, (int64_t)bytes).seconds;
}

TEST_EACH(a_larger_vector_never_takes_less_time, for_each_world(see), struct nccl_world world)
{
    double before = seconds(&world, 0);
    assert_true(before > 0 && isfinite(before));
    for (double bytes = 40; bytes < 4e9; bytes *= 1.13) {
        double now = seconds(&world, bytes);
        assert_true(now >= before);
        before = now;
    }
}

TEST_EACH(a_faster_link_never_takes_more_time, for_each_world(see), struct nccl_world world)
{
    for (double bytes = 1e3; bytes < 1e9; bytes *= 7) {
        struct nccl_world wide = world;
        double before = seconds(&world, bytes);
        for (int32_t i = 0; i < 8; i++) {
            *(i % 2 ? &wide.intra_bandwidth : &wide.inter_bandwidth) *= 1.3;
            double now = seconds(&wide, bytes);
            assert_true(now <= before);
            before = now;
        }
    }
}

/* All that leaves @parts parts of the vector's owners, each by @bandwidth. */
static double floor_of(int32_t parts, double bytes, double bandwidth)
{
    return parts > 1 ? 2 * (parts - 1.) / parts * bytes / bandwidth : 0;
}

TEST_EACH(nothing_beats_its_links, for_each_world(see), struct nccl_world world)
{
    for (double bytes = 1e3; bytes < 1e10; bytes *= 7)
        for (enum nccl_algorithm a = 0; a < NCCL_ALGORITHM_COUNT; a++)
            for (enum nccl_protocol p = 0; p < NCCL_PROTOCOL_COUNT; p++) {
                double least = fmax(floor_of(world.ranks, bytes, world.intra_bandwidth),
                                    floor_of(world.nodes, bytes, world.inter_bandwidth));
                if (a == NCCL_COLLNET || a == NCCL_NVLS)
                    least = bytes / fmin(world.intra_bandwidth,
                                         world.nodes > 1 ? world.inter_bandwidth : INFINITY);
                assert_true(nccl_cost(&world, ALL_REDUCE, (int64_t)bytes, a, p).seconds >= least);
            }
}

/* --- in a fabric --- */

/* Sixteen nodes in leaves of four with 30 GB/s up; @more over what the tables have for a hop, in
 * microseconds, between neighbours of a leaf and between leaves. */
static struct nccl_world in_leaves(struct nccl_world world, double more, double far)
{
    nccl_add_level(&world, 1, INFINITY, 1e-6 * (4 + more));
    nccl_add_level(&world, 4, 30e9, 1e-6 * (4 + far));
    return world;
}

/* Of the 16 hops of a ring 4 go between leaves; of a tree's 4 levels 2 do, and the inner leaves
 * have 6 edges of both trees: drawn and counted by hand. */
TEST(hops_and_bytes_go_over_the_fabric)
{
    struct nccl_world world = in_leaves(dgx(227, 80, 16), 2, 10);
    assert_int_equal(world.level[0].groups, 16);
    assert_int_equal(world.level[1].groups, 4);
    assert_true(world.level[1].tree_passes == 6 / 2.);
    assert_cost(world, NCCL_RING, NCCL_LL, 4096,
                6.6 + 224 * 2. + 30 * 2.7 + 254. * 16 / 128 * (12 * 2 + 4 * 10) / 16,
                19. * 128 / 254);
    assert_cost(world, NCCL_TREE, NCCL_SIMPLE, 1 << 30,
                8.4 + 2 * (7 * 4 + 4 * 14. + 2 * 2 + 2 * 10), 10);
}

TEST(switches_that_add_send_the_vector_once)
{
    struct nccl_world world = dgx(227, 90, 16);
    world.sharp = true;
    world = in_leaves(world, 0, 100);
    assert_cost(world, NCCL_NVLS, NCCL_SIMPLE, 1 << 30, 25 + 18 + 100, 30);
}

/* Nodes with 8 ranks each: an eighth of the cards for each column. */
TEST(a_column_has_its_share_of_the_cards)
{
    struct nccl_world column = in_leaves(dgx(227, 80, 16), 0, 0);
    column = nccl_part(&column, (struct grid_nodes){1, column.nodes, 1});
    assert_cost(column, NCCL_RING, NCCL_SIMPLE, 1 << 30, 1.4 * (8.4 + 30 * 14.),
                fmin(192. / 8 * 16 / 30, 30. / 8 * 16 / 30));
    assert_int_equal(column.inter_channels, 1);
    column = dgx(227, 90, 1);
    column = nccl_part(&column, (struct grid_nodes){1, column.nodes, 1});
    assert_true(nccl_choose(&column, ALL_REDUCE, 1 << 20).seconds == 0);
}

TEST(a_fast_fabric_changes_nothing)
{
    struct nccl_world world = dgx(227, 90, 16), fast = world;
    nccl_add_level(&fast, 1, INFINITY, 3e-6);
    nccl_add_level(&fast, 4, 1e15, 4e-6);
    fast.inside_latency = 1e-6;
    for (int64_t bytes = 1; bytes < INT64_C(1) << 34; bytes *= 2)
        assert_true(nccl_choose(&world, ALL_REDUCE, bytes).seconds ==
                    nccl_choose(&fast, ALL_REDUCE, bytes).seconds);
}

/* NCCL does not know the uplinks when it chooses. */
TEST(the_choice_is_made_without_the_fabric)
{
    for (int64_t bytes = 1; bytes < INT64_C(1) << 34; bytes *= 2) {
        struct nccl_world world = dgx(227, 80, 16), slow = in_leaves(world, 0, 0);
        slow.level[1].bandwidth = 1e6;
        struct nccl_choice a = nccl_choose(&world, ALL_REDUCE, bytes);
        struct nccl_choice b = nccl_choose(&slow, ALL_REDUCE, bytes);
        assert_int_equal(a.algorithm, b.algorithm);
        assert_int_equal(a.protocol, b.protocol);
        assert_true(b.seconds >= (double)bytes / 1e6);
    }
}

TEST(one_rank_takes_no_time)
{
    for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++) {
        struct nccl_world world = v100(versions[v], 1);
        world.ranks = 1;
        assert_true(seconds(&world, 1e9) == 0);
    }
}
