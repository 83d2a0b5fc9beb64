#include "app/cli/command.h"
#include "core/platform/platform.h"
#include "models/networks.h"

/* In the order of enum algorithm. */
static const char *const algorithm_help[] = {
    "one ring of all ranks",
    "binomial tree: reduce to rank 0, then broadcast",
    "two binary trees with half of the vector each, in pieces",
    "recursive halving, then doubling: neighbours first, as MPI has it",
    "recursive halving, then doubling: the farthest ranks first",
    "reduce to a leader in each node, ring of the leaders, broadcast in the node",
    "reduce-scatter in rows, all-reduce in columns, all-gather in rows of a grid",
    "what NCCL would choose, timed by its own cost model; for predictions and GPUs",
    "what the MPI library chooses; can be run but not predicted",
};
static_assert(ARRAY_SIZE(algorithm_help) == ALGORITHM_COUNT, "a line for each algorithm");

static void list_algorithms(struct text *out)
{
    for (int32_t i = 0; i < ALGORITHM_COUNT; i++)
        text_add(out, "%-22s %s\n", algorithm_names[i], algorithm_help[i]);
}

static int list(const void *record, struct text *out, struct err *err)
{
    const struct request *request = record;
    static const char *const words[] = {"platforms",  "devices", "software", "networks",
                                        "algorithms", "prices",  NULL};
    static const char *const folders[] = {"", "devices", "software", NULL, NULL, "../prices"};
    const char *given = request->argument.item[0];
    int32_t word = base_find_word(given, words);
    if (word < 0)
        return option_unknown(err, "list", given, words);
    if (folders[word])
        return platform_list(out, folders[word], err);
    (strcmp(given, "networks") ? list_algorithms : network_list)(out);
    return 0;
}

static const struct option options[] = {ROW_LAST};

const struct command command_list = {
    .name = "list",
    .synopsis = "platforms | devices | software | networks | algorithms | prices",
    .help = "the names that jobs and platforms may use, one line each",
    .examples = "foretrain list platforms",
    RECORD(options, struct request, NULL),
    TAKES(1, 1),
    .run = list,
};
