#include "app/cli/command.h"

#include "app/cli/measure_list.h"
#include "app/job/job.h"
#include "app/page/html.h"

/* The rounds of an all-reduce, message by message, or drawn: what each rank holds of each chunk. */

struct show_request {
    struct request head;
    int32_t algorithm, op; /* enum algorithm, collective_op */
    int32_t ranks;         /* -1: not given */
    const char *grid, *platform, *bytes, *motion;
    bool text;
};

/* The most ranks: a set of them is 64 bits. */
enum { RANKS_MOST = 64 };

/* What one round costs when each link is shared evenly by what crosses it. */
struct show_round {
    double seconds;  /* of its slowest message */
    int64_t largest; /* message [bytes] */
    int32_t busiest; /* the link that carries most */
    double load;     /* on it [bytes] */
};

enum { LINE = 96 /* letters */ };

/* What the rounds of an algorithm do that add, that leave a row of the grid, and that copy. */
static const char *const phase_names[ALGORITHM_COUNT][3] = {
    [ALGORITHM_RING] = {"reduce-scatter", "", "all-gather"},
    [ALGORITHM_TREE] = {"reduce", "", "broadcast"},
    [ALGORITHM_DOUBLE_TREE] = {"reduce", "reduce and broadcast", "broadcast"},
    [ALGORITHM_HALVING_DOUBLING] = {"reduce-scatter", "", "all-gather"},
    [ALGORITHM_HALVING_DOUBLING_FAR] = {"reduce-scatter", "", "all-gather"},
    [ALGORITHM_HIERARCHICAL] = {"reduce in rows", "all-reduce of the rows' first ranks",
                                "broadcast in rows"},
    [ALGORITHM_TORUS2D] = {"reduce-scatter in rows", "all-reduce in columns", "all-gather in rows"},
};

static bool follows_grid(const struct collective *c)
{
    return c->algorithm == ALGORITHM_TORUS2D || c->algorithm == ALGORITHM_HIERARCHICAL;
}

/* Append who sends which elements of @c to whom, in every round. */
static void show_messages(struct text *out, const struct collective *c)
{
    int32_t rounds = collective_rounds(c);
    for (int32_t round = 0; round < rounds; round++) {
        text_add(out, "round %d\n", round + 1);
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct message send = collective_exchange(c, rank, round).send;
            if (send.peer >= 0 && send.count) /* messages without elements keep trees in step */
                text_add(out, "  %d -> %d  elements %lld ... %lld%s\n", rank, send.peer,
                         (long long)send.offset, (long long)(send.offset + send.count - 1),
                         send.reduce ? ", add" : "");
        }
    }
}

/* What @round of @c does: "all-reduce in columns".  Which of the algorithm's phases it is. */
static const char *show_phase_name(const struct collective *c, int32_t round)
{
    bool adds = false, copies = false, leaves = false;
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        struct message send = collective_exchange(c, rank, round).send;
        if (send.peer < 0)
            continue;
        adds |= send.reduce;
        copies |= !send.reduce;
        leaves |= rank / c->grid.columns != send.peer / c->grid.columns;
    }
    bool middle = follows_grid(c) ? leaves : adds && copies;
    return phase_names[c->algorithm][middle ? 1 : adds ? 0 : 2];
}

/* The ranks whose elements are in the sum that @rank holds of an element: (ranks x elements). */
static void do_round(const struct collective *c, int32_t round, uint64_t *held)
{
    size_t size = (size_t)c->ranks * (size_t)c->elements * sizeof(*held);
    AUTOFREE uint64_t *before = base_alloc(1, size);
    memcpy(before, held, size);
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        struct message send = collective_exchange(c, rank, round).send;
        for (int64_t i = 0; send.peer >= 0 && i < send.count; i++) {
            uint64_t *to = &held[send.peer * c->elements + send.offset + i];
            uint64_t from = before[rank * c->elements + send.offset + i];
            *to = send.reduce ? *to | from : from;
        }
    }
}

/* Bytes of @round on every link (link_count); the caller frees them. */
static double *loads(const struct collective *sized, const struct fabric *fabric, int32_t round)
{
    double *load = base_alloc((size_t)fabric->link_count, sizeof(*load));
    for (int32_t rank = 0; rank < sized->ranks; rank++) {
        struct message send = collective_exchange(sized, rank, round).send;
        if (send.peer < 0)
            continue;
        struct route route;
        fabric_route(fabric, rank, send.peer, &route);
        for (int32_t i = 0; i < route.count; i++)
            load[route.link[i]] += (double)send.count;
    }
    return load;
}

/* The cost of @round of @sized, whose elements are bytes. */
static struct show_round show_time_round(const struct collective *sized,
                                         const struct fabric *fabric, int32_t round)
{
    struct show_round cost = {0};
    AUTOFREE double *load = loads(sized, fabric, round);
    for (int32_t rank = 0; rank < sized->ranks; rank++) {
        struct message send = collective_exchange(sized, rank, round).send;
        if (send.peer < 0)
            continue;
        struct route route;
        fabric_route(fabric, rank, send.peer, &route);
        double crossing = 0;
        for (int32_t i = 0; i < route.count; i++) {
            int32_t link = route.link[i];
            crossing = fmax(crossing, load[link] / fabric->link[link].bandwidth);
            cost.busiest = load[link] > load[cost.busiest] ? link : cost.busiest;
        }
        cost.seconds = fmax(cost.seconds, route.latency + crossing);
        cost.largest = send.count > cost.largest ? send.count : cost.largest;
    }
    cost.load = load[cost.busiest];
    return cost;
}

/* "rank 0 to the next one of its row" of "rank0.row.next"; other names as they are.  Owned. */
static char *link_words(const struct fabric *fabric, int32_t link)
{
    char *name = fabric_link_name(fabric, link), axis[16], way[16];
    int rank;
    if (sscanf(name, "rank%d.%15[a-z].%15[a-z]", &rank, axis, way) < 3)
        return name;
    free(name);
    return base_format("rank %d to the %s one of its %s", rank, way, axis);
}

static char letter(const struct collective *c, uint64_t summands)
{
    static const char counts[] = "-.23456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t count = (size_t)__builtin_popcountll(summands);
    return (char)((int32_t)count == c->ranks ? '#' : count < strlen(counts) ? counts[count] : '+');
}

static void draw(struct text *out, const struct collective *c, const uint64_t *held)
{
    int32_t fits = LINE / ((int32_t)c->elements + 1);
    int32_t across = follows_grid(c) && c->grid.columns <= fits ? c->grid.columns
                     : fits < 1                                 ? 1
                                                                : fits;
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        if (rank % across == 0)
            text_add(out, "%s  %2d ", rank ? "\n" : "", rank);
        text_add(out, " ");
        for (int64_t i = 0; i < c->elements; i++)
            text_add(out, "%c", letter(c, held[rank * c->elements + i]));
    }
    text_add(out, "\n");
}

/* Append what each rank holds of each of @c's elements, at first and after every round: its own, a
 * part of the sum or all of it.  Ranks stand as on the grid where the algorithm follows one.  Each
 * round on @fabric (NULL: none) also tells the largest message of a vector of @bytes, the link that
 * carries most, and how long the slowest message takes. */
static void show_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                          int64_t bytes)
{
    struct collective sized = *c;
    sized.elements = bytes;
    double seconds = 0;
    int64_t size = c->ranks * c->elements;
    AUTOFREE uint64_t *held = base_alloc((size_t)size, sizeof(*held));
    bool gathers = c->op == COLLECTIVE_ALL_GATHER;
    for (int64_t i = 0, rank; i < size; i++) {
        rank = i / c->elements;
        held[i] = !gathers                  ? (uint64_t)1 << rank
                  : i % c->elements == rank ? UINT64_MAX >> (64 - c->ranks)
                                            : 0;
    }
    text_add(
        out,
        "a letter for each block of a rank: %s\nat first (in front: the first rank of the line)\n",
        gathers ? "# it has it, - it does not"
                : ". its own, 2 ... 9, A for 10, B for 11 ... the sum of so many, # of all");
    draw(out, c, held);
    int32_t rounds = collective_rounds(c);
    for (int32_t round = 0; round < rounds; round++) {
        do_round(c, round, held);
        text_add(out, "after round %d of %d, %s", round + 1, rounds, show_phase_name(c, round));
        if (fabric) {
            struct show_round cost = show_time_round(&sized, fabric, round);
            AUTOFREE char *name = link_words(fabric, cost.busiest);
            text_add(out, "; each message %s; busiest link: %s (%s); %s",
                     unit_text(UNIT_BYTES, (double)cost.largest), unit_text(UNIT_BYTES, cost.load),
                     name, unit_text(UNIT_SECONDS, cost.seconds));
            seconds += cost.seconds;
        }
        text_add(out, "\n");
        draw(out, c, held);
    }
    if (!fabric)
        return;
    text_add(out, "all rounds, each as long as its slowest message: %s\n",
             unit_text(UNIT_SECONDS, seconds));
}

enum { TEXT_LIMIT = 100 << 10 /* [bytes] of a drawing.  Our choice */ };

/* The largest vector's JSON stays below a page's limit: 64 ranks by ring are 8064 messages. */
static struct json *list_messages(const struct collective *c, int32_t round)
{
    struct json *list = json_new_array();
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        struct message send = collective_exchange(c, rank, round).send;
        if (send.peer < 0)
            continue;
        struct json *message = json_new_array();
        const int64_t number[] = {rank, send.peer, send.offset, send.count, send.reduce};
        for (size_t i = 0; i < ARRAY_SIZE(number); i++)
            json_append(message, json_new_integer(number[i]));
        json_append(list, message);
    }
    return list;
}

static struct json *list_rounds(const struct collective *c, const struct fabric *fabric,
                                int64_t bytes)
{
    struct json *list = json_new_array();
    struct collective sized = *c;
    sized.elements = bytes;
    for (int32_t round = 0; round < collective_rounds(c); round++) {
        struct json *item = json_append_object(list);
        json_put_text(item, "phase", show_phase_name(c, round));
        if (fabric) {
            struct show_round cost = show_time_round(&sized, fabric, round);
            AUTOFREE char *name = link_words(fabric, cost.busiest);
            json_put_real(item, "seconds", cost.seconds);
            json_put_integer(item, "largest_bytes", cost.largest);
            json_put_real(item, "busiest_bytes", cost.load);
            json_put_text(item, "busiest_link", name);
        }
        json_put(item, "messages", list_messages(c, round));
    }
    return list;
}

/* ---- the page ---- */

/* Without a script the page shows the same as text. */
static void add_text(struct page *page, const struct collective *c, const struct fabric *fabric,
                     int64_t bytes)
{
    AUTORELEASE(text) struct text drawing = {0};
    show_holdings(&drawing, c, fabric, bytes);
    const char *name = algorithm_names[c->algorithm];
    if (drawing.length > TEXT_LIMIT) {
        html_add(&page->body,
                 "<p>%s: the text is long; <code>foretrain show collective --text</code> prints "
                 "it.</p>\n",
                 name);
    } else {
        html_add(&page->body,
                 "<details><summary>%s in text</summary><pre class=\"scroll\">%s</pre></details>\n",
                 name, drawing.data);
    }
}

static void add_algorithm(struct page *page, struct json *list, struct collective c,
                          const struct fabric *fabric, int64_t bytes)
{
    struct json *item = json_append_object(list);
    json_put_text(item, "name", algorithm_names[c.algorithm]);
    json_put(item, "rounds", list_rounds(&c, fabric, bytes));
    add_text(page, &c, fabric, bytes);
}

/* Write to @path a page on which every round of @c is played, forwards and back, beside other
 * algorithms on the same ranks and links.  With a @fabric (else NULL) each round takes as long as
 * show_holdings() says for a vector of @bytes, else one beat; groups of hierarchical are of @group
 * ranks. */
static int show_motion(const char *path, const struct collective *c, int32_t group,
                       const struct fabric *fabric, int64_t bytes, struct err *err)
{
    static const enum algorithm beside[] = {
        ALGORITHM_RING,         ALGORITHM_HALVING_DOUBLING_FAR, ALGORITHM_TREE,
        ALGORITHM_HIERARCHICAL, ALGORITHM_HALVING_DOUBLING,     ALGORITHM_TORUS2D};
    static const char *const names[] = {"All-reduce", "Reduce-scatter", "All-gather"};
    static const char *const uses[] = {
        " Most algorithms add blocks first (reduce-scatter), then copy the sums (all-gather).",
        " ZeRO does this with gradients: each rank keeps the sum of its shard. Ranks that share a "
        "layer and its sequence do it with what leaves the layer.",
        " ZeRO does this with weights before a layer computes. Ranks that share a layer and its "
        "sequence do it with what enters the layer."};
    struct page page = {.script = motion_js};
    struct json *data = json_new_object();
    AUTOFREE char *title = base_format("%s of %d ranks, round by round", names[c->op], c->ranks);
    AUTOFREE char *words = base_format("Each box is a rank, each cell in it a block of its vector: "
                                       "%s. Orange blocks are on their way.%s",
                                       c->op == COLLECTIVE_ALL_GATHER
                                           ? "green once the rank has it"
                                           : "faint at first, stronger with every rank whose "
                                             "values are added, green when it is the sum of all",
                                       uses[c->op]);
    html_answer(&page, title, words);
    html_add(&page.body, "<div id=\"motion\"></div>\n");
    html_section(&page, "What each rank holds after every round");
    json_put_text(data, "schema", "foretrain/motion/1");
    json_put_text(data, "op", collective_op_names[c->op]);
    json_put_integer(data, "columns", c->grid.columns);
    json_put_integer(data, "rows", c->grid.rows);
    struct json *list = json_put_array(data, "algorithms");
    add_algorithm(&page, list, *c, fabric, bytes);
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        bool far = beside[i] == ALGORITHM_HALVING_DOUBLING_FAR && c->op == COLLECTIVE_ALL_REDUCE;
        struct collective other = *c;
        other.algorithm = beside[i];
        other.group = beside[i] == ALGORITHM_HIERARCHICAL ? group : c->group;
        if (beside[i] == ALGORITHM_HIERARCHICAL)
            other.grid = (struct grid){.columns = group, .rows = c->ranks / group};
        if (beside[i] != c->algorithm && algorithm_supports(beside[i], c->op) && !far)
            add_algorithm(&page, list, other, fabric, bytes);
    }
    int failed = html_write(&page, path, title, data, err);
    json_free(data);
    return failed;
}

/* ---- the command ---- */

/* Lay out the platform for @c, if one is named; its nodes are groups of a hierarchical one. */
static int lay_out(const struct show_request *request, struct collective *c, struct point *point,
                   int64_t *bytes, struct err *err)
{
    if (!request->platform)
        return 0;
    if (chunk_read(bytes, request->bytes ? request->bytes : "100MB", err))
        return -1;
    struct platform *platform = platform_read(request->platform, err);
    int failed =
        !platform || point_collective(point, platform, (struct placement){.grid = c->grid},
                                      (struct all_reduce){.algorithm = c->algorithm}, *bytes, err);
    platform_free(platform);
    if (!failed && c->algorithm == ALGORITHM_HIERARCHICAL) {
        c->group = point->devices_per_node;
        c->grid = (struct grid){.columns = c->group, .rows = point->nodes};
    }
    return failed ? -1 : 0;
}

static void show_rounds(const struct show_request *request, const struct collective *c,
                        const struct point *point, int64_t bytes, struct text *out)
{
    const char *many = base_plural(c->ranks);
    bool by_grid = follows_grid(c);
    int32_t rounds = collective_rounds(c);
    text_add(out, "%s of %d element%s on %d rank%s by %s: %d round%s\n", collective_op_names[c->op],
             c->ranks, many, c->ranks, many, algorithm_names[c->algorithm], rounds,
             base_plural(rounds));
    if (by_grid && !request->grid && !request->platform)
        text_add(out, "grid %d x %d: nearest to a square, as no machine is named (--grid)\n",
                 c->grid.columns, c->grid.rows);
    else if (by_grid && !request->grid)
        text_add(out, "grid %d x %d\n", c->grid.columns, c->grid.rows);
    if (request->text)
        show_holdings(out, c, point->fabric, bytes);
    else if (!request->motion)
        show_messages(out, c);
}

static const char *const show_ops[] = {"all-reduce", "reduce-scatter", "all-gather", NULL};

/* With one element per rank, blocks and elements are the same. */
static int show_collective(const void *record, struct text *out, struct err *err)
{
    const struct show_request *request = record;
    struct grid grid = grid_nearest_square(request->ranks < 0 ? 4 : request->ranks);
    if (request->grid && grid_parse("--grid", request->grid, &grid, err))
        return -1;
    if (request->grid && request->ranks >= 0 && request->ranks != grid_ranks(grid))
        return err_usage(err, "--ranks %d: --grid %s has %d", request->ranks, request->grid,
                         grid_ranks(grid));
    int32_t ranks = grid_ranks(grid);
    if (ranks < 1 || ranks > RANKS_MOST)
        return err_usage(err, "%s: must be 1 to %d ranks; 'foretrain collective' times any number",
                         request->grid ? "--grid" : "--ranks", RANKS_MOST);
    if (request->algorithm == ALGORITHM_MPI)
        return err_usage(
            err, "--algorithm: mpi has no rounds to show: they are known only to the MPI library");
    if (request->algorithm == ALGORITHM_NCCL)
        return err_usage(err, "--algorithm: nccl has no rounds to show; 'foretrain collective "
                              "--json' shows its choice");
    if (!algorithm_supports((enum algorithm)request->algorithm, (enum collective_op)request->op))
        return err_usage(err, "--algorithm: %s is not for %s; ring, tree and %s are",
                         algorithm_names[request->algorithm], show_ops[request->op],
                         algorithm_names[ALGORITHM_HALVING_DOUBLING_FAR]);
    struct collective c = {
        .op = (enum collective_op)request->op,
        .algorithm = (enum algorithm)request->algorithm,
        .ranks = ranks,
        .group = grid.columns,
        .grid = grid,
        .elements = ranks,
    };
    AUTORELEASE(point) struct point point = {0};
    int64_t bytes = 0;
    int failed = lay_out(request, &c, &point, &bytes, err);
    if (!failed)
        show_rounds(request, &c, &point, bytes, out);
    if (!failed && request->motion)
        failed =
            show_motion(request->motion, &c, point.fabric ? point.devices_per_node : grid.columns,
                        point.fabric, bytes, err);
    if (!failed && request->motion)
        text_add(out, "written: %s\n", request->motion);
    return failed;
}

#define AT(member) offsetof(struct show_request, member)

static const struct option options[] = {
    ROW_ALGORITHM(AT(algorithm)),
    OPTION_ROW("op", 0, OPTION_WORD, AT(op), NULL, show_ops, "What ranks do (default: all-reduce)"),
    OPTION_ROW("ranks", 0, OPTION_INTEGER, AT(ranks), "N", NULL, "Ranks taking part (default: 4)"),
    ROW_GRID(AT(grid)),
    OPTION_ROW("text", 0, OPTION_FLAG, AT(text),
               .help = "Draw what each rank holds of each block, after every round"),
    OPTION_ROW("animate", 0, OPTION_OUTPUT, AT(motion), "FILE", NULL,
               "Write a page that plays the rounds, beside those of other algorithms"),
    OPTION_ROW("platform", 0, OPTION_TEXT, AT(platform), "NAME", NULL,
               "Also what each round moves and how long it takes there", "text|animate"),
    OPTION_ROW("bytes", 0, OPTION_TEXT, AT(bytes), "SIZE", NULL, "Of the vector (default: 100MB)",
               "platform"),
    ROW_LAST};

static const struct show_request defaults = {.algorithm = ALGORITHM_RING, .ranks = -1};

const struct command command_show_collective = {
    .name = "collective",
    .synopsis = "[options]",
    .help = "who sends what to whom in each round of an all-reduce",
    .examples =
        "foretrain show collective --algorithm ring --ranks 4\n"
        "foretrain show collective --algorithm torus2d --grid 4x4 --text --platform torus-4x4",
    RECORD(options, struct show_request, &defaults),
    .run = show_collective,
};
