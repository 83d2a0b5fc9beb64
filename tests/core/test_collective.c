#include "core/collective/collective.h"
#include "tests/test.h"

enum { LARGEST_RANKS = 17, LARGEST_COLUMNS = 7, LARGEST_ROWS = 5 };

typedef void check(const struct collective *c);

static int64_t block_begin(int64_t elements, int32_t blocks, int32_t block)
{
    int64_t begin = 0;
    for (int32_t i = 0; i < block; i++)
        begin += elements / blocks + (i < elements % blocks);
    return begin;
}

/* ---- which collectives are looked at ---- */

/* Grids of the torus, or group sizes of the hierarchy; one dummy for the others. */
static void for_each_shape(struct collective c, check *see)
{
    if (c.algorithm == ALGORITHM_HIERARCHICAL) {
        for (c.group = 1; c.group <= c.ranks; c.group++)
            if (c.ranks % c.group == 0)
                see(&c);
    } else if (c.algorithm == ALGORITHM_TORUS2D) {
        for (int32_t rows = 1; rows <= LARGEST_ROWS; rows++) {
            c.grid = (struct grid){.columns = c.ranks / rows, .rows = rows};
            if (c.ranks % rows == 0 && c.grid.columns <= LARGEST_COLUMNS)
                see(&c);
        }
    } else {
        see(&c);
    }
}

static void for_each_size(struct collective c, check *see)
{
    int32_t n = c.ranks;
    const int64_t sizes[] = {0, 1, n - 1, n, n + 1, 10 * n + 3};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        c.elements = sizes[i];
        for_each_shape(c, see);
    }
}

static void for_each_of(enum algorithm algorithm, check *see)
{
    int32_t largest =
        algorithm == ALGORITHM_TORUS2D ? LARGEST_COLUMNS * LARGEST_ROWS : LARGEST_RANKS;
    struct collective c = {.algorithm = algorithm};
    for (int32_t op = 0; op < COLLECTIVE_SEND; op++) {
        c.op = (enum collective_op)op;
        for (c.ranks = 1; c.ranks <= largest && algorithm_supports(algorithm, c.op); c.ranks++)
            for_each_size(c, see);
    }
}

static void for_each(check *see)
{
    for (int32_t algorithm = 0; algorithm < ALGORITHM_NCCL; algorithm++)
        for_each_of((enum algorithm)algorithm, see);
}

/* Each rank has a block for each other one, and nobody leaves its node before all of it is done;
 * other nodes may get a half. */
TEST(all_to_all_takes_each_block_to_its_rank_once)
{
    for (int32_t group = 1; group <= 5; group++)
        for (int32_t nodes = 1; nodes <= 8; nodes++) {
            struct collective c = {.op = COLLECTIVE_ALL_TO_ALL,
                                   .ranks = group * (nodes % 4 + 1),
                                   .group = group,
                                   .far = nodes > 4 ? 0.5 : 0};
            c.elements = 10LL * c.ranks;
            bool met[20][20] = {{false}};
            for (int32_t round = 0; round < collective_rounds(&c); round++)
                for (int32_t rank = 0; rank < c.ranks; rank++) {
                    struct exchange exchange = collective_exchange(&c, rank, round);
                    int32_t peer = exchange.send.peer, from = exchange.receive.peer;
                    assert_false(met[rank][peer]);
                    met[rank][peer] = true;
                    assert_int_equal(exchange.send.offset, 10 * peer);
                    int32_t sent = nodes > 4 && round >= group - 1 ? 5 : 10;
                    assert_int_equal(exchange.send.count, sent);
                    assert_near(collective_share(&c, round) * (double)c.elements, sent, 1e-12);
                    assert_int_equal(collective_exchange(&c, from, round).send.peer, rank);
                    assert_int_equal(peer / group == rank / group, round < group - 1);
                }
            assert_int_equal(collective_rounds(&c), c.ranks - 1);
            assert_true(collective_check(&c));
        }
}

/* ---- running the rounds in memory ---- */

/* The vectors of all ranks, one after the other. */
struct memory {
    int64_t *value, *before; /**< (ranks, elements); before: at the start of the round */
    int64_t cells;
};

/* Different on every rank and element, so that no two wrong sums cancel. */
static int64_t contribution(int32_t rank, int64_t element)
{
    return (int64_t)(base_hash(base_hash(BASE_HASH_SEED, &rank, sizeof(rank)), &element,
                               sizeof(element)) >>
                     24);
}

static int64_t full_sum(const struct collective *c, int64_t element)
{
    int64_t sum = 0;
    for (int32_t rank = 0; rank < c->ranks; rank++)
        sum += contribution(rank, element);
    return sum;
}

static struct memory fill(const struct collective *c)
{
    struct memory memory = {.cells = c->ranks * c->elements};
    memory.value = base_alloc(memory.cells, sizeof(int64_t));
    memory.before = base_alloc(memory.cells, sizeof(int64_t));
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        int64_t begin = 0, end = c->elements;
        if (c->op == COLLECTIVE_ALL_GATHER) {
            begin = block_begin(c->elements, c->ranks, rank);
            end = block_begin(c->elements, c->ranks, rank + 1);
        }
        for (int64_t i = 0; i < c->elements; i++)
            memory.value[rank * c->elements + i] =
                i >= begin && i < end ? contribution(rank, i) : -1 - rank;
    }
    return memory;
}

static void receive(const struct collective *c, struct memory *memory, int32_t rank,
                    struct message message)
{
    for (int64_t i = message.offset; i < message.offset + message.count; i++) {
        int64_t *to = &memory->value[rank * c->elements + i];
        int64_t from = memory->before[message.peer * c->elements + i];
        *to = message.reduce ? *to + from : from;
    }
}

static void run(const struct collective *c, struct memory *memory, const struct collective *channel)
{
    int32_t rounds = collective_rounds(channel);
    for (int32_t round = 0; round < rounds; round++) {
        memcpy(memory->before, memory->value, (size_t)memory->cells * sizeof(int64_t));
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct message message = collective_exchange(channel, rank, round).receive;
            if (message.peer >= 0)
                receive(c, memory, rank, message);
        }
    }
}

/* What @rank must hold in the end: the sums of its block or of all, or everybody's block. */
static void check_result(const struct collective *c, const struct memory *memory, int32_t rank)
{
    int64_t begin = 0, end = c->elements;
    if (c->op == COLLECTIVE_REDUCE_SCATTER) {
        begin = block_begin(c->elements, c->ranks, rank);
        end = block_begin(c->elements, c->ranks, rank + 1);
    }
    int32_t owner = 0;
    for (int64_t i = begin; i < end; i++) {
        while (i >= block_begin(c->elements, c->ranks, owner + 1))
            owner++;
        int64_t expected = c->op == COLLECTIVE_ALL_GATHER ? contribution(owner, i) : full_sum(c, i);
        assert_int_equal(memory->value[rank * c->elements + i], expected);
    }
}

static void check_sums(const struct collective *c)
{
    struct memory memory = fill(c);
    for (int32_t k = 0; k < collective_channels(c); k++) {
        struct collective channel = collective_channel(c, k);
        run(c, &memory, &channel);
    }
    for (int32_t rank = 0; rank < c->ranks; rank++)
        check_result(c, &memory, rank);
    free(memory.value);
    free(memory.before);
}

TEST(leaves_the_right_values_on_every_rank)
{
    for_each(check_sums);
}

/* ---- both ends of a message agree ---- */

static void check_inside(const struct collective *c, int32_t rank, struct message message)
{
    assert_in_range(message.peer, 0, c->ranks - 1);
    assert_int_not_equal(message.peer, rank);
    assert_in_range(message.offset, 0, c->elements);
    assert_in_range(message.count, 0, c->elements - message.offset);
}

static void check_ends(const struct collective *c)
{
    int32_t rounds = collective_rounds(c);
    for (int32_t round = 0; round < rounds; round++) {
        int32_t sends = 0, receives = 0;
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct exchange mine = collective_exchange(c, rank, round);
            receives += mine.receive.peer >= 0;
            if (mine.send.peer < 0)
                continue;
            sends++;
            check_inside(c, rank, mine.send);
            struct message theirs = collective_exchange(c, mine.send.peer, round).receive;
            assert_int_equal(theirs.peer, rank);
            assert_int_equal(theirs.offset, mine.send.offset);
            assert_int_equal(theirs.count, mine.send.count);
            assert_int_equal(theirs.reduce, mine.send.reduce);
        }
        assert_int_equal(sends, receives);
        assert_true(sends > 0);
    }
}

TEST(receives_exactly_what_is_sent)
{
    for_each(check_ends);
}

/* ---- patterns ---- */

static void check_patterns(const struct collective *c)
{
    int32_t rounds = collective_rounds(c), patterns = collective_pattern_count(c);
    assert_in_range(patterns, rounds > 0, c->chunks > 1 ? INT32_MAX : rounds);
    for (int32_t round = 0; round < rounds; round++) {
        int32_t pattern = collective_pattern(c, round);
        assert_in_range(pattern, 0, patterns - 1);
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct exchange exchange = collective_exchange(c, rank, round);
            assert_int_equal(collective_send_peer(c, rank, pattern), exchange.send.peer);
        }
    }
}

TEST(keeps_the_peers_of_a_pattern_in_all_its_rounds)
{
    for_each(check_patterns);
}

TEST(needs_one_pattern_per_ring)
{
    struct collective c = {.algorithm = ALGORITHM_RING, .ranks = 12, .elements = 100};
    assert_int_equal(collective_pattern_count(&c), 1);
    c.algorithm = ALGORITHM_TORUS2D;
    c.grid = (struct grid){.columns = 4, .rows = 3};
    assert_int_equal(collective_pattern_count(&c), 2);
    c.algorithm = ALGORITHM_HIERARCHICAL;
    c.group = 4; /* two levels up, one ring, two levels down */
    assert_int_equal(collective_pattern_count(&c), 5);
}

/* ---- sizes ---- */

/* The share is real-valued, so compare on a vector that every block count divides. */
TEST_EACH(states_the_share_of_the_messages_of_a_round, for_each(see),
          const struct collective *sized)
{
    struct collective c = *sized;
    c.elements = INT64_C(12252240) * 64 * 25; /* of 1 ... 17 ranks, 2^k chunks and 5 x 5 grids */
    int32_t rounds = collective_rounds(&c);
    for (int32_t round = 0; round < rounds; round++) {
        int64_t largest = 0, smallest = INT64_MAX;
        for (int32_t rank = 0; rank < c.ranks; rank++) {
            struct message message = collective_exchange(&c, rank, round).send;
            if (message.peer >= 0 && message.count > largest)
                largest = message.count;
            if (message.peer >= 0 && message.count < smallest)
                smallest = message.count;
        }
        double share = collective_share(&c, round) * (double)c.elements;
        assert_true(fabs(share - (double)largest) <= 4e-16 * share);
        bool power_of_two = (c.ranks & (c.ranks - 1)) == 0;
        if (c.op == COLLECTIVE_ALL_REDUCE || c.algorithm == ALGORITHM_RING || power_of_two)
            assert_int_equal(smallest, largest);
    }
}

/* Elements @rank sends over all rounds. */
static int64_t sent_by(const struct collective *c, int32_t rank)
{
    int64_t sent = 0;
    for (int32_t round = 0; round < collective_rounds(c); round++)
        sent += collective_exchange(c, rank, round).send.count;
    return sent;
}

TEST_EACH(moves_no_more_elements_than_the_operation_needs, for_each(see),
          const struct collective *c)
{
    int64_t all = 0;
    for (int32_t rank = 0; rank < c->ranks; rank++)
        all += sent_by(c, rank);
    int64_t once = (c->ranks - 1) * c->elements; /* to bring n vectors together, or n parts to n */
    int64_t expected = c->op == COLLECTIVE_ALL_REDUCE ? 2 * once : once;
    if (c->algorithm == ALGORITHM_HALVING_DOUBLING ||
        c->algorithm == ALGORITHM_HALVING_DOUBLING_FAR || c->algorithm == ALGORITHM_TREE)
        assert_true(all >= expected); /* folds and detours through the root cost more */
    else
        assert_int_equal(all, expected);
}

/* ---- textbook figures ---- */

static int32_t levels(int32_t n)
{
    int32_t k = 0;
    while (1 << k < n)
        k++;
    return k;
}

/* Vectors that pass one rank's port if every round lasts as long as its largest message. */
static double volume(const struct collective *c)
{
    double sum = 0;
    int32_t rounds = collective_rounds(c);
    for (int32_t round = 0; round < rounds; round++)
        sum += collective_share(c, round);
    return sum;
}

static void check_cost(const struct collective *c, int32_t rounds, double expected)
{
    assert_int_equal(collective_rounds(c), rounds);
    assert_true(fabs(volume(c) - expected) <= 1e-13 * expected);
}

TEST_EACH(ring_takes_n_minus_1_rounds_of_one_nth_per_phase, for_each_of(ALGORITHM_RING, see),
          const struct collective *c)
{
    int32_t phases = c->op == COLLECTIVE_ALL_REDUCE ? 2 : 1, n = c->ranks;
    check_cost(c, phases * (n - 1), phases * (n - 1.0) / n);
    for (int32_t rank = 0; rank < n && c->elements % n == 0; rank++)
        assert_int_equal(sent_by(c, rank), phases * (n - 1) * (c->elements / n));
}

TEST_EACH(tree_takes_2_log_n_rounds, for_each_of(ALGORITHM_TREE, see), const struct collective *c)
{
    int32_t n = c->ranks, k = levels(n);
    if (c->op == COLLECTIVE_ALL_REDUCE)
        check_cost(c, 2 * k, 2 * k);
    else if (1 << k == n)
        check_cost(c, 2 * k, k + (n - 1.0) / n);
}

TEST_EACH(halving_doubling_takes_log_n_rounds_and_the_bytes_of_the_ring,
          for_each_of(ALGORITHM_HALVING_DOUBLING, see);
          for_each_of(ALGORITHM_HALVING_DOUBLING_FAR, see), const struct collective *c)
{
    int32_t n = c->ranks, core = 1 << (levels(n + 1) - 1), k = levels(core);
    double halving = (core - 1.0) / core;
    if (c->op == COLLECTIVE_ALL_REDUCE)
        check_cost(c, 2 * (k + (core < n)), 2 * (halving + (core < n)));
    else if (core == n)
        check_cost(c, k, halving);
    else
        assert_int_equal(collective_rounds(c), k + 2);
}

static void check_double_tree(const struct collective *c)
{
    if (c->ranks == 1)
        return;
    int32_t height = levels(c->ranks / 2 * 2 + 1) - 1 + c->ranks % 2;
    int32_t rounds = 4 * (height + DOUBLE_TREE_CHUNKS - 1);
    check_cost(c, rounds, 0.5 * rounds / DOUBLE_TREE_CHUNKS);
    struct collective even = *c;
    even.elements = 2 * DOUBLE_TREE_CHUNKS;
    for (int32_t rank = 0; rank < c->ranks; rank++)
        assert_in_range(sent_by(&even, rank), 0, 2 * even.elements);
}

TEST(double_tree_loads_no_rank_with_more_than_two_vectors)
{
    for_each_of(ALGORITHM_DOUBLE_TREE, check_double_tree);
}

TEST(both_ends_of_a_double_tree_agree_among_many_ranks)
{
    static const int32_t ranks[] = {30, 31, 32, 33, 62, 100, 255, 256, 257, 510, 1000, 1023};
    struct collective c = {.algorithm = ALGORITHM_DOUBLE_TREE, .elements = 1000};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++) {
        c.ranks = ranks[i];
        check_ends(&c);
        check_double_tree(&c);
    }
    c.ranks = 62;
    check_sums(&c);
}

TEST_EACH(hierarchy_adds_tree_and_ring, for_each_of(ALGORITHM_HIERARCHICAL, see),
          const struct collective *c)
{
    int32_t nodes = c->ranks / c->group, k = levels(c->group);
    check_cost(c, 2 * k + 2 * (nodes - 1), 2 * k + 2 * (nodes - 1.0) / nodes);
}

TEST_EACH(torus_takes_the_rounds_of_its_sides_and_the_bytes_of_one_ring,
          for_each_of(ALGORITHM_TORUS2D, see), const struct collective *c)
{
    int32_t x = c->grid.columns, y = c->grid.rows;
    check_cost(c, 2 * (x - 1) + 2 * (y - 1), 2 * (x - 1.0) / x + 2 * (y - 1.0) / y / x);
}

/* ---- names and support ---- */

TEST(offers_every_algorithm_for_all_reduce)
{
    for (int32_t algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++)
        assert_true(algorithm_supports((enum algorithm)algorithm, COLLECTIVE_ALL_REDUCE));
    static const enum algorithm whole[] = {ALGORITHM_DOUBLE_TREE, ALGORITHM_HALVING_DOUBLING,
                                           ALGORITHM_HIERARCHICAL, ALGORITHM_TORUS2D};
    for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
        assert_false(algorithm_supports(whole[i], COLLECTIVE_REDUCE_SCATTER));
        assert_false(algorithm_supports(whole[i], COLLECTIVE_ALL_GATHER));
    }
}

/* Rank 3 of 8 on 8 elements, worked out by hand from the description of Open MPI's
 * redscat_allgather: the window is halved while the distance doubles, and the smaller rank keeps
 * the left half; far first, the same windows by the bits from the highest down. */
TEST(the_order_of_halving_decides_who_gets_the_large_messages)
{
    static const struct {
        int32_t peer, sent, kept, count;
    } row[] = {{2, 0, 4, 4}, {1, 4, 6, 2}, {7, 7, 6, 1}, /* near, then far first */
               {7, 4, 0, 4}, {1, 0, 2, 2}, {2, 2, 3, 1}};
    struct collective c = {.ranks = 8, .elements = 8};
    for (int32_t i = 0; i < 6; i++) {
        c.algorithm = i < 3 ? ALGORITHM_HALVING_DOUBLING : ALGORITHM_HALVING_DOUBLING_FAR;
        struct exchange exchange = collective_exchange(&c, 3, i % 3);
        assert_int_equal(exchange.send.peer, row[i].peer);
        assert_int_equal(exchange.send.offset, row[i].sent);
        assert_int_equal(exchange.send.count, row[i].count);
        assert_int_equal(exchange.receive.offset, row[i].kept);
    }
}

TEST(rings_side_by_side_add_up_every_element)
{
    for (int32_t group = 1; group <= 8; group++)
        for (int32_t shape = 0; shape < 4; shape++)
            for (int32_t channels = 1; channels <= group; channels++) {
                struct collective c = {.algorithm = ALGORITHM_RING,
                                       .ranks = group * (2 + shape / 2),
                                       .group = group,
                                       .channels = channels,
                                       .mesh = shape % 2,
                                       .elements = 101};
                check_sums(&c);
                for (int32_t k = 0; k < channels; k++) {
                    struct collective channel = collective_channel(&c, k);
                    assert_true(collective_check(&channel));
                    assert_int_equal(collective_rounds(&channel), 2 * (c.ranks - 1));
                    double all = collective_share(&channel, 0) * channels * c.ranks;
                    assert_true(all > 1 - 1e-15 && all < 1 + 1e-15);
                }
            }
}

/* As many rings as a node has ranks: those of a mesh have a link each. */
TEST(no_two_rings_use_a_link_of_a_mesh)
{
    for (int32_t group = 2; group <= CHANNEL_LIMIT; group += 2) {
        int32_t used[CHANNEL_LIMIT][CHANNEL_LIMIT] = {0}, leaves[CHANNEL_LIMIT] = {0};
        for (int32_t k = 0; k < group; k++) {
            struct collective c = {.algorithm = ALGORITHM_RING,
                                   .ranks = 2 * group,
                                   .group = group,
                                   .channels = group,
                                   .channel = k,
                                   .mesh = true};
            for (int32_t rank = 0; rank < group; rank++) {
                int32_t to = collective_send_peer(&c, rank, 0);
                int32_t *count = to < group ? &used[rank][to] : &leaves[rank];
                assert_int_equal(++*count, 1);
            }
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
            check_sums(&c);
            check_patterns(&c);
            assert_true(collective_check(&c));
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
