/* Rounds worked out by hand. */

#include <stdint.h>

#include "core/collective/collective.h"
#include "tests/test.h"

/* Rank 3 of 8 on 8 elements, worked out by hand from the description of Open MPI's
 * redscat_allgather: the window is halved while the distance doubles, and the smaller rank keeps
 * the left half; far first, the same windows by the bits from the highest down. */
TEST(the_order_of_halving_decides_who_gets_the_large_messages)
{
    static const struct {
        int32_t peer, sent, kept, count;
    } near[] = {{2, 0, 4, 4}, {1, 4, 6, 2}, {7, 7, 6, 1}},
      far[] = {{7, 4, 0, 4}, {1, 0, 2, 2}, {2, 2, 3, 1}};
    struct collective c = {.algorithm = ALGORITHM_HALVING_DOUBLING, .ranks = 8, .elements = 8};
    for (int32_t round = 0; round < 3; round++) {
        struct exchange exchange = collective_exchange(&c, 3, round);
        assert_int_equal(exchange.send.peer, near[round].peer);
        assert_int_equal(exchange.send.offset, near[round].sent);
        assert_int_equal(exchange.send.count, near[round].count);
        assert_int_equal(exchange.receive.offset, near[round].kept);
        c.algorithm = ALGORITHM_HALVING_DOUBLING_FAR;
        exchange = collective_exchange(&c, 3, round);
        assert_int_equal(exchange.send.peer, far[round].peer);
        assert_int_equal(exchange.send.offset, far[round].sent);
        assert_int_equal(exchange.send.count, far[round].count);
        assert_int_equal(exchange.receive.offset, far[round].kept);
        c.algorithm = ALGORITHM_HALVING_DOUBLING;
    }
}

/* Every rank holds rank + 1 times the element's number; @return whether all have the sums after the
 * rounds of all channels. */
static bool sums_are_right(const struct collective *c)
{
    enum { RANKS = 24, ELEMENTS = 101 };
    static int64_t value[RANKS][ELEMENTS], before[RANKS][ELEMENTS];
    assert_true(c->ranks <= RANKS && c->elements == ELEMENTS);
    for (int32_t rank = 0; rank < c->ranks; rank++)
        for (int32_t i = 0; i < ELEMENTS; i++)
            value[rank][i] = (rank + 1) * (i + 1);
    for (int32_t k = 0; k < collective_channels(c); k++) {
        struct collective channel = collective_channel(c, k);
        for (int32_t round = 0; round < collective_rounds(&channel); round++) {
            memcpy(before, value, sizeof(value));
            for (int32_t rank = 0; rank < c->ranks; rank++) {
                struct message got = collective_exchange(&channel, rank, round).receive;
                for (int64_t i = got.offset; got.peer >= 0 && i < got.offset + got.count; i++)
                    value[rank][i] = before[got.peer][i] + (got.reduce ? value[rank][i] : 0);
            }
        }
    }
    for (int32_t rank = 0; rank < c->ranks; rank++)
        for (int32_t i = 0; i < ELEMENTS; i++)
            if (value[rank][i] != (int64_t)c->ranks * (c->ranks + 1) / 2 * (i + 1))
                return false;
    return true;
}

TEST(rings_side_by_side_add_up_every_element)
{
    for (int32_t group = 1; group <= 8; group++)
        for (int32_t nodes = 2; nodes <= 3; nodes++)
            for (int32_t channels = 1; channels <= group; channels++) {
                struct collective c = {.algorithm = ALGORITHM_RING,
                                       .ranks = group * nodes,
                                       .group = group,
                                       .channels = channels,
                                       .elements = 101};
                assert_true(sums_are_right(&c));
                for (int32_t k = 0; k < channels; k++) {
                    struct collective channel = collective_channel(&c, k);
                    assert_true(collective_check(&channel));
                    assert_int_equal(collective_rounds(&channel), 2 * (c.ranks - 1));
                    double all = collective_share(&channel, 0) * channels * c.ranks;
                    assert_true(all > 1 - 1e-15 && all < 1 + 1e-15);
                }
            }
}

/* Three nodes of four: where each ring goes from node 0 to node 1, and back into node 0. */
TEST(every_ring_leaves_a_node_by_a_rank_of_its_own)
{
    static const int32_t leaves[][4] = {{3, 0, 1, 2}, {3, 1, -1, -1}, {3, 0, 1, -1}};
    static const int32_t enters[][4] = {{0, 1, 2, 3}, {0, 2, -1, -1}, {0, 1, 2, -1}};
    static const int32_t channels[] = {4, 2, 3};
    for (int32_t i = 0; i < 3; i++)
        for (int32_t k = 0; k < channels[i]; k++) {
            struct collective c = {.algorithm = ALGORITHM_RING,
                                   .ranks = 12,
                                   .group = 4,
                                   .channels = channels[i],
                                   .channel = k,
                                   .elements = 100};
            for (int32_t rank = 0; rank < 4; rank++) {
                int32_t to = collective_send_peer(&c, rank, 0);
                int32_t from = collective_exchange(&c, rank, 0).receive.peer;
                assert_int_equal(to == 4 + enters[i][k], rank == leaves[i][k]);
                assert_int_equal(to >= 4, rank == leaves[i][k]);
                assert_int_equal(from == 8 + leaves[i][k], rank == enters[i][k]);
            }
        }
}

TEST(chunks_through_a_tree_add_up_every_element)
{
    for (int32_t ranks = 2; ranks <= 17; ranks++)
        for (int32_t chunks = 2; chunks <= 9; chunks++) {
            struct collective c = {
                .algorithm = ALGORITHM_TREE, .ranks = ranks, .chunks = chunks, .elements = 101};
            assert_true(sums_are_right(&c));
            assert_true(collective_check(&c));
            for (int32_t round = 0; round < collective_rounds(&c); round++) {
                int32_t pattern = collective_pattern(&c, round);
                assert_in_range(pattern, 0, collective_pattern_count(&c) - 1);
                for (int32_t rank = 0; rank < ranks; rank++) {
                    struct exchange e = collective_exchange(&c, rank, round);
                    assert_int_equal(collective_send_peer(&c, rank, pattern), e.send.peer);
                }
            }
        }
}

TEST(all_channels_are_one_for_each_rank_of_a_node)
{
    assert_string_equal(channel_names[0], "1");
    assert_string_equal(channel_names[CHANNEL_LIMIT - 1], "16");
    assert_string_equal(channel_names[CHANNEL_LIMIT], "all");
    assert_int_equal(channel_count(0, 8), 1);
    assert_int_equal(channel_count(3, 8), 4);
    assert_int_equal(channel_count(CHANNEL_LIMIT, 8), 8);
    assert_int_equal(channel_count(CHANNEL_LIMIT, 100), 16);
}
