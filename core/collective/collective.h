#pragma once

/** @file
 * Collective algorithms as pure arithmetic: who sends which elements to whom in round k.
 *
 * A collective runs in rounds.  In one round a rank sends at most one message and receives at most
 * one.  A rank enters round k + 1 when its own messages of round k have been sent and received;
 * there is no other synchronisation.  Nothing here knows about time, links or transports: the
 * simulator, MPI and the tests all run the same rounds.
 *
 * The vector has `elements` elements on every rank, for every operation: reduce-scatter leaves
 * rank r with the full sum of block r, all-gather starts from block r on rank r, all-reduce leaves
 * every rank with the full sum.  Blocks are as even as can be: the first elements % ranks blocks
 * have one element more.
 */

#include "core/collective/grid.h"

/** What is computed. */
enum collective_op {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_SEND,       /**< the vector of rank 0 to rank 1, of two */
    COLLECTIVE_ALL_TO_ALL, /**< block r of each rank's vector to rank r, in pairs: `group` ranks
                                first among each other, then with those of one other group after
                                the other.  Messages name their block as the sender does */
    COLLECTIVE_OP_COUNT
};

/** How. */
enum algorithm {
    ALGORITHM_RING,             /**< Patarasuk and Yuan 2009 */
    ALGORITHM_TREE,             /**< binomial tree: reduce to rank 0, broadcast, chunk by chunk */
    ALGORITHM_DOUBLE_TREE,      /**< two complementary binary trees, half the vector each, pipelined
                                     in DOUBLE_TREE_CHUNKS chunks (Sanders, Speck, Traeff 2009);
                                     all-reduce only */
    ALGORITHM_HALVING_DOUBLING, /**< the vector is halved while the distance doubles, so the largest
                                     messages go to the nearest rank, then the way back
                                     (Rabenseifner 2004); ranks beyond a power of two fold in
                                     first; all-reduce only */
    ALGORITHM_HALVING_DOUBLING_FAR, /**< the same with halved distances: the largest messages go
                                         half-way round */
    ALGORITHM_HIERARCHICAL, /**< reduce to a leader in each group, ring among leaders, broadcast
                                 in the group; all-reduce only */
    ALGORITHM_TORUS2D,      /**< reduce-scatter in rows, all-reduce in columns, all-gather in
                                 rows, rings throughout (Mikami et al. 2018); all-reduce only */
    ALGORITHM_NCCL,         /**< what NCCL would choose, timed by its own cost model
                                 (core/network/nccl.h): no rounds, all ranks start together; of the
                                 world, and all-reduce of columns */
    ALGORITHM_MPI,          /**< what the MPI library chooses: its rounds are unknown, so it can
                                 be run but not predicted; all-reduce of the world only */
    ALGORITHM_COUNT
};

enum {
    /** Number of pieces of each half.  Our choice: among 1024 ranks this costs the time of 3
     * vectors; one piece would cost that of 20, and many pieces approach 2. */
    DOUBLE_TREE_CHUNKS = 16,
};

/** "all-reduce", "reduce-scatter", "all-gather", "send", "all-to-all". */
extern const char *const collective_op_names[];

/** The words of scenario files, NULL-terminated, in the order of enum algorithm: "ring", "tree",
 * "double-tree", "halving-doubling", "halving-doubling-far", "hierarchical", "torus2d", "nccl",
 * "mpi". */
extern const char *const algorithm_names[];

enum {
    CHANNEL_LIMIT = 16, /**< rings that run side by side, at most */
    CHUNK_LIMIT = 1024, /**< chunks of a tree, at most */
};

/** "1", ... "16", "all", NULL-terminated: how many rings run side by side. */
extern const char *const channel_names[];

/** The number of rings that word @index of channel_names means in nodes of @group ranks. */
int32_t channel_count(int32_t index, int32_t group);

/** One collective among `ranks` ranks, numbered 0 ... ranks - 1 along its axis. */
struct collective {
    enum collective_op op;
    enum algorithm algorithm;
    int32_t ranks;    /**< at least 1 */
    int32_t group;    /**< HIERARCHICAL, several channels, all-to-all: ranks per node, divides
                           ranks; of the last 0: all */
    struct grid grid; /**< TORUS2D: columns * rows = ranks; else ignored */
    int32_t channels; /**< RING, all-reduce only: rings that run side by side, each with an equal
                         part of the vector, at most group; 0 like 1 */
    int32_t channel;  /**< the one that the functions below are about */
    bool mesh;        /**< each rank of a group has a link to each other, which channels share */
    int32_t chunks;   /**< TREE, all-reduce only: the vector travels in so many; 0 like 1 */
    double far;       /**< all-to-all: of a block for a rank of another node this part is sent; 0
                           like 1 */
    int64_t elements; /**< of the full vector; may be smaller than ranks, or 0 */
};

/** One message of a round, seen from one side. */
struct message {
    int32_t peer;   /**< the other rank, or -1: none in this round */
    int64_t offset; /**< first element */
    int64_t count;  /**< elements; may be 0 for uneven sizes */
    bool reduce;    /**< the receiver adds the elements to its own; else it overwrites */
};

/** What one rank does in one round. */
struct exchange {
    struct message send, receive;
};

/** How many channels @c has, at least 1. */
int32_t collective_channels(const struct collective *c);

/** Channel @channel of @c: a collective of its own, which nothing orders against the others. */
struct collective collective_channel(const struct collective *c, int32_t channel);

/** Whether the algorithm can compute the operation. */
bool algorithm_supports(enum algorithm algorithm, enum collective_op op);

/** Rounds until all ranks are done; 0 for one rank, for NCCL and for MPI. */
int32_t collective_rounds(const struct collective *c);

/** What @rank does in @round (0 ... rounds - 1). */
struct exchange collective_exchange(const struct collective *c, int32_t rank, int32_t round);

/** Whether both ends of messages name the same ranks and elements, all inside; a sample of ranks
 * and rounds is looked at.  For assert(). */
bool collective_check(const struct collective *c);

/** Rounds with equal patterns have the same peers on every rank: 0 <= pattern < patterns.
 * A back end needs one route per rank and pattern, not per round. */
int32_t collective_pattern(const struct collective *c, int32_t round);

/** How many patterns there are; at least 1 when there are rounds. */
int32_t collective_pattern_count(const struct collective *c);

/** The peer @rank sends to in a round of @pattern, or -1. */
int32_t collective_send_peer(const struct collective *c, int32_t rank, int32_t pattern);

/** The size of each message of @round as a fraction of the full vector when blocks are exactly even
 * (a real number), for back ends.  Equal for all senders of the round, except in reduce-scatter and
 * all-gather by TREE and HALVING_DOUBLING_FAR among ranks that are no power of two: there it is the
 * largest. */
double collective_share(const struct collective *c, int32_t round);
