#include "app/show/show_collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/page/html.h"
#include "core/base/unit.h"

enum { LINE = 96 /* letters */, SUMMANDS_SHOWN = 9 };

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

/* Append what rank @from sends, as a line. */
static void show_message(struct text *out, int32_t from, const struct message *message)
{
    text_add(out, "  %d -> %d", from, message->peer);
    if (message->count)
        text_add(out, "  elements %lld ... %lld%s", (long long)message->offset,
                 (long long)(message->offset + message->count - 1), message->reduce ? ", add" : "");
    text_add(out, "\n");
}

void show_messages(struct text *out, const struct collective *c)
{
    int32_t rounds = collective_rounds(c);
    for (int32_t round = 0; round < rounds; round++) {
        text_add(out, "round %d\n", round);
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct exchange exchange = collective_exchange(c, rank, round);
            if (exchange.send.peer >= 0)
                show_message(out, rank, &exchange.send);
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

/* The cost of @round of @sized, whose elements are bytes; what it puts on each link is added to
 * @sum (link_count) if that is not NULL. */
static struct show_round show_time_round(const struct collective *sized,
                                         const struct fabric *fabric, int32_t round, double *sum)
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
    for (int32_t i = 0; sum && i < fabric->link_count; i++)
        sum[i] += load[i];
    return cost;
}

/* Append that @cost, after a word about the round. */
static void show_tell_round(struct text *out, const struct fabric *fabric,
                            const struct show_round *cost)
{
    AUTOFREE char *name = fabric_link_name(fabric, cost->busiest);
    text_add(out, "; messages of %s, %s on %s, %s", unit_text(UNIT_BYTES, (double)cost->largest),
             unit_text(UNIT_BYTES, cost->load), name, unit_text(UNIT_SECONDS, cost->seconds));
}

/* Append the busiest link of each kind with its @load (link_count) [bytes], a line each. */
static void show_loads(struct text *out, const struct fabric *fabric, const double *load)
{
    for (int32_t tier = 0; tier < fabric->tier_count; tier++) {
        int32_t most = -1, equal = 0;
        for (int32_t i = 0; i < fabric->link_count; i++) {
            if (fabric->link[i].tier != tier || load[i] <= 0)
                continue;
            if (most < 0 || load[i] > load[most])
                most = i, equal = 0;
            equal += load[i] == load[most];
        }
        if (most < 0)
            continue;
        AUTOFREE char *name = fabric_link_name(fabric, most);
        text_add(out, "  %s: at most %s, on %s", fabric->tier_name[tier],
                 unit_text(UNIT_BYTES, load[most]), name);
        if (equal > 1)
            text_add(out, " and %d more", equal - 1);
        text_add(out, ", which at full bandwidth takes %s\n",
                 unit_text(UNIT_SECONDS, load[most] / fabric->link[most].bandwidth));
    }
}

static char letter(const struct collective *c, uint64_t summands)
{
    int32_t count = __builtin_popcountll(summands);
    return (char)(count == c->ranks         ? '#'
                  : count == 1              ? '.'
                  : count <= SUMMANDS_SHOWN ? '0' + count
                                            : '+');
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

void show_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                   int64_t bytes)
{
    struct collective sized = *c;
    sized.elements = bytes;
    double seconds = 0;
    int64_t size = c->ranks * c->elements;
    AUTOFREE uint64_t *held = base_alloc((size_t)size, sizeof(*held));
    for (int64_t i = 0; i < size; i++)
        held[i] = (uint64_t)1 << i / c->elements;
    text_add(out, "a letter for each chunk of a rank: . its own, 2 ... 9 and + the sum of so many, "
                  "# of all\nat first (in front: the first rank of the line)\n");
    draw(out, c, held);
    int32_t rounds = collective_rounds(c);
    for (int32_t round = 0; round < rounds; round++) {
        do_round(c, round, held);
        text_add(out, "after round %d, %s", round, show_phase_name(c, round));
        if (fabric) {
            struct show_round cost = show_time_round(&sized, fabric, round, NULL);
            show_tell_round(out, fabric, &cost);
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

enum { ENDS = 4 /* of rows and of columns that are shown */, KINDS = 24 /* of messages a round */ };

/* ---- playing ---- */

/* Before the first round of @c, whose ranks are as many as on @grid, which chooses those that are
 * shown.  @fabric may be NULL. */
static struct folded *folded_new(const struct collective *c, struct grid grid,
                                 const struct fabric *fabric, int64_t bytes)
{
    struct folded *fold = base_alloc(1, sizeof(*fold));
    *fold = (struct folded){.c = c, .fabric = fabric, .bytes = bytes};
    int32_t columns = grid.columns, rows = grid.rows;
    int32_t down = rows < ENDS ? rows : ENDS, across = down < ENDS ? 16 / down : ENDS;
    fold->across = columns < across ? columns : across;
    for (int32_t i = 0; i < down; i++)
        for (int32_t k = 0; k < fold->across; k++) {
            int32_t row = i + 1 < down ? i : rows - 1;
            int32_t column = k + 1 < fold->across ? k : columns - 1;
            fold->shown[fold->count++] = row * columns + column;
        }
    fold->held = base_alloc((int64_t)c->ranks * c->ranks, sizeof(*fold->held));
    for (int64_t i = 0; i < (int64_t)c->ranks * c->ranks; i++)
        fold->held[i] = 1;
    if (fabric)
        fold->load = base_alloc(fabric->link_count, sizeof(*fold->load));
    return fold;
}

static void folded_free(struct folded *fold)
{
    if (!fold)
        return;
    free(fold->held);
    free(fold->load);
    free(fold);
}

/* All messages leave before any arrives. */
static void pass_on(struct folded *fold, int32_t round)
{
    const struct collective *c = fold->c;
    int64_t all = 0, at = 0;
    for (int32_t rank = 0; rank < c->ranks; rank++)
        all += collective_exchange(c, rank, round).send.count;
    AUTOFREE uint16_t *sent = base_alloc(all > 0 ? all : 1, sizeof(*sent));
    for (int32_t turn = 0; turn < 2; turn++, at = 0)
        for (int32_t rank = 0; rank < c->ranks; rank++) {
            struct message send = collective_exchange(c, rank, round).send;
            if (send.peer < 0)
                continue;
            int64_t holder = turn ? send.peer : rank;
            uint16_t *chunk = &fold->held[holder * c->ranks + send.offset];
            for (int64_t i = 0; i < send.count; i++, at++) {
                if (!turn)
                    sent[at] = chunk[i];
                else
                    chunk[i] = (uint16_t)(send.reduce ? chunk[i] + sent[at] : sent[at]);
            }
        }
}

static void play_one(struct folded *fold, struct folded_rounds *rounds)
{
    struct collective sized = *fold->c;
    sized.elements = fold->bytes;
    pass_on(fold, fold->round);
    if (fold->fabric) {
        rounds->cost = show_time_round(&sized, fold->fabric, fold->round, fold->load);
        rounds->seconds += rounds->cost.seconds;
    }
    rounds->last = fold->round++;
}

/* Whether there is a round, and with @rest whether it is like the one before. */
static bool folded_goes_on(const struct folded *fold, bool rest)
{
    const struct collective *c = fold->c;
    int32_t round = fold->round;
    if (round >= collective_rounds(c) || !rest)
        return round < collective_rounds(c);
    return round > 0 && collective_pattern(c, round) == collective_pattern(c, round - 1) &&
           collective_share(c, round) == collective_share(c, round - 1) &&
           !strcmp(show_phase_name(c, round), show_phase_name(c, round - 1));
}

/* Play the next round, or with @rest all that are like the one before.  @return those played. */
static struct folded_rounds folded_play(struct folded *fold, bool rest)
{
    struct folded_rounds rounds = {.first = fold->round};
    do
        play_one(fold, &rounds);
    while (rest && folded_goes_on(fold, true));
    return rounds;
}

/* ---- showing ---- */

/* The chunks that @rank holds as SHOW_CELLS letters at most: . each its own, + sums of some, *
 * some sums of all, # nothing but those. */
static void folded_letters(const struct folded *fold, int32_t rank, char letters[SHOW_CELLS + 1])
{
    int32_t ranks = fold->c->ranks;
    const uint16_t *held = &fold->held[(int64_t)rank * ranks];
    int32_t cells = ranks < SHOW_CELLS ? ranks : SHOW_CELLS;
    for (int32_t cell = 0; cell < cells; cell++) {
        int64_t begin = (int64_t)cell * ranks / cells, end = (int64_t)(cell + 1) * ranks / cells;
        int64_t whole = 0, own = 0;
        for (int64_t i = begin; i < end; i++) {
            whole += held[i] == ranks;
            own += held[i] == 1;
        }
        letters[cell] = whole == end - begin ? '#' : whole ? '*' : own == end - begin ? '.' : '+';
    }
    letters[cells] = '\0';
}

static void draw_folded(struct text *out, const struct folded *fold)
{
    char letters[SHOW_CELLS + 1];
    for (int32_t i = 0; i < fold->count; i++) {
        folded_letters(fold, fold->shown[i], letters);
        text_add(out, "  %5d  %s\n", fold->shown[i], letters);
    }
    int64_t chunks = (int64_t)fold->c->ranks * fold->c->ranks, whole = 0, own = 0;
    for (int64_t i = 0; i < chunks; i++) {
        whole += fold->held[i] == fold->c->ranks;
        own += fold->held[i] == 1;
    }
    text_add(
        out, "  of %lld chunks on all ranks: %lld each its own, %lld sums of some, %lld of all\n",
        (long long)chunks, (long long)own, (long long)(chunks - own - whole), (long long)whole);
}

static void tell(struct text *out, const struct folded *fold, const struct folded_rounds *rounds)
{
    if (rounds->last > rounds->first)
        text_add(out, "after rounds %d ... %d, %s, all like the one before", rounds->first,
                 rounds->last, show_phase_name(fold->c, rounds->last));
    else
        text_add(out, "after round %d, %s", rounds->last, show_phase_name(fold->c, rounds->last));
    if (fold->fabric) {
        show_tell_round(out, fold->fabric, &rounds->cost);
        if (rounds->last > rounds->first)
            text_add(out, ", together %s", unit_text(UNIT_SECONDS, rounds->seconds));
    }
    text_add(out, "\n");
}

void folded_holdings(struct text *out, const struct collective *c, const struct fabric *fabric,
                     int64_t bytes)
{
    struct folded *fold = folded_new(c, c->grid, fabric, bytes);
    double seconds = 0;
    text_add(
        out,
        "%d of %d ranks: the first and the last of the first rows and of the last row\n"
        "%d letters for the chunks of a rank: . each its own, + sums of some, * some of all, # "
        "all of all\nat first\n",
        fold->count, c->ranks, SHOW_CELLS);
    draw_folded(out, fold);
    for (bool rest = false; folded_goes_on(fold, false); rest = !rest) {
        if (rest && !folded_goes_on(fold, true))
            continue;
        struct folded_rounds rounds = folded_play(fold, rest);
        seconds += rounds.seconds;
        tell(out, fold, &rounds);
        draw_folded(out, fold);
    }
    if (fabric) {
        text_add(out, "all rounds, each as long as its slowest message: %s\n",
                 unit_text(UNIT_SECONDS, seconds));
        show_loads(out, fabric, fold->load);
    }
    folded_free(fold);
}

/* ---- messages ---- */

/* Messages of a round that go equally far, and the first of them. */
struct kind {
    int32_t from, count;
    struct message message;
};

/* Into @kind (KINDS).  @return how many, and the messages of further ones in @more. */
static int32_t sort_messages(const struct collective *c, int32_t round, struct kind *kind,
                             int32_t *more)
{
    int32_t kinds = 0;
    *more = 0;
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        struct message send = collective_exchange(c, rank, round).send;
        int32_t k = 0;
        if (send.peer < 0)
            continue;
        while (k < kinds &&
               (kind[k].message.peer - kind[k].from != send.peer - rank ||
                kind[k].message.count != send.count || kind[k].message.reduce != send.reduce))
            k++;
        if (k == KINDS) {
            ++*more;
            continue;
        }
        if (k == kinds)
            kind[kinds++] = (struct kind){.from = rank, .message = send};
        kind[k].count++;
    }
    return kinds;
}

void folded_messages(struct text *out, const struct collective *c)
{
    struct folded rounds = {.c = c};
    while (folded_goes_on(&rounds, false)) {
        struct kind kind[KINDS];
        int32_t first = rounds.round++, more;
        while (folded_goes_on(&rounds, true))
            rounds.round++;
        int32_t kinds = sort_messages(c, first, kind, &more), alike = rounds.round - first;
        text_add(out, "round %d, %s", first, show_phase_name(c, first));
        if (alike > 1)
            text_add(out, "; so are rounds %d ... %d, with other elements", first + 1,
                     rounds.round - 1);
        text_add(out, "\n");
        for (int32_t k = 0; k < kinds; k++) {
            int32_t far = kind[k].message.peer - kind[k].from;
            show_message(out, kind[k].from, &kind[k].message);
            if (kind[k].count > 1)
                text_add(out, "  and %d rank%s more, each to the rank %d %s\n", kind[k].count - 1,
                         base_plural(kind[k].count - 1), abs(far), far < 0 ? "before" : "behind");
        }
        if (more)
            text_add(out, "  and %d messages of other lengths and distances\n", more);
    }
}

enum { TEXT_LIMIT = 100 << 10 /* [bytes] of a drawing.  Our choice */ };

static bool is_folded(const struct collective *c)
{
    return c->ranks > SHOW_COLLECTIVE_RANKS;
}

/* The largest vector's JSON stays below a page's limit: 64 ranks by ring are 8064 messages. */
static struct json *list_messages(const struct collective *c, int32_t round)
{
    struct json *list = json_new_array();
    for (int32_t rank = 0; rank < c->ranks; rank++) {
        struct message send = collective_exchange(c, rank, round).send;
        if (send.peer < 0)
            continue;
        struct json *message = json_append_array(list);
        const int64_t number[] = {rank, send.peer, send.offset, send.count, send.reduce};
        for (size_t i = 0; i < ARRAY_SIZE(number); i++)
            json_append_integer(message, number[i]);
    }
    return list;
}

static void put_cost(struct json *item, const struct fabric *fabric, const struct show_round *cost,
                     double seconds)
{
    json_put_real(item, "seconds", seconds);
    json_put_integer(item, "largest_bytes", cost->largest);
    json_put_real(item, "busiest_bytes", cost->load);
    AUTOFREE char *name = fabric_link_name(fabric, cost->busiest);
    json_put_text(item, "busiest_link", name);
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
            struct show_round cost = show_time_round(&sized, fabric, round, NULL);
            put_cost(item, fabric, &cost, cost.seconds);
        }
        json_put(item, "messages", list_messages(c, round));
    }
    return list;
}

/* ---- many ranks ---- */

/* From and to by their places among those that are shown. */
static struct json *list_shown_messages(const struct folded *fold, int32_t round)
{
    struct json *list = json_new_array();
    for (int32_t i = 0; i < fold->count; i++) {
        struct message send = collective_exchange(fold->c, fold->shown[i], round).send;
        for (int32_t k = 0; k < fold->count && send.count > 0; k++) {
            if (fold->shown[k] != send.peer)
                continue;
            struct json *message = json_append_array(list);
            const int64_t number[] = {i, k, send.offset, send.count, send.reduce};
            for (size_t n = 0; n < ARRAY_SIZE(number); n++)
                json_append_integer(message, number[n]);
        }
    }
    return list;
}

static struct json *list_states(const struct folded *fold)
{
    struct json *list = json_new_array();
    char letters[SHOW_CELLS + 1];
    for (int32_t i = 0; i < fold->count; i++) {
        folded_letters(fold, fold->shown[i], letters);
        json_append_text(list, letters);
    }
    return list;
}

/* Two for those that are alike: the first, and the rest together. */
static void put_folded(struct json *item, struct folded *fold)
{
    json_put(item, "start", list_states(fold));
    struct json *list = json_put_array(item, "rounds");
    for (bool rest = false; folded_goes_on(fold, false); rest = !rest) {
        if (rest && !folded_goes_on(fold, true))
            continue;
        struct folded_rounds rounds = folded_play(fold, rest);
        struct json *round = json_append_object(list);
        json_put_text(round, "phase", show_phase_name(fold->c, rounds.first));
        json_put_integer(round, "first", rounds.first);
        json_put_integer(round, "last", rounds.last);
        if (fold->fabric)
            put_cost(round, fold->fabric, &rounds.cost, rounds.seconds);
        json_put(round, "messages", list_shown_messages(fold, rounds.first));
        json_put(round, "states", list_states(fold));
    }
}

/* Who is shown, and how wide, is the same for all algorithms: that of the grid of @c. */
static void put_shown(struct json *data, const struct collective *c)
{
    struct folded *fold = folded_new(c, c->grid, NULL, 0);
    struct json *shown = json_new_array();
    for (int32_t i = 0; i < fold->count; i++)
        json_append_integer(shown, fold->shown[i]);
    json_put_integer(data, "columns", fold->across);
    json_put_integer(data, "rows", fold->count / fold->across);
    json_put_integer(data, "ranks", c->ranks);
    json_put(data, "shown", shown);
    folded_free(fold);
}

/* ---- the page ---- */

/* Without a script the page shows the same as text. */
static void add_text(struct page *page, const struct collective *c, const struct fabric *fabric,
                     int64_t bytes)
{
    AUTORELEASE(text) struct text drawing = {0};
    (is_folded(c) ? folded_holdings : show_holdings)(&drawing, c, fabric, bytes);
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
                          struct grid shown, const struct fabric *fabric, int64_t bytes)
{
    struct json *item = json_append_object(list);
    json_put_text(item, "name", algorithm_names[c.algorithm]);
    if (is_folded(&c)) {
        struct folded *fold = folded_new(&c, shown, fabric, bytes);
        put_folded(item, fold);
        folded_free(fold);
    } else {
        json_put(item, "rounds", list_rounds(&c, fabric, bytes));
    }
    add_text(page, &c, fabric, bytes);
}

int show_motion(const char *path, const struct collective *c, int32_t group,
                const struct fabric *fabric, int64_t bytes, struct err *err)
{
    static const enum algorithm beside[] = {ALGORITHM_RING, ALGORITHM_TREE,
                                            ALGORITHM_HALVING_DOUBLING, ALGORITHM_HIERARCHICAL,
                                            ALGORITHM_TORUS2D};
    struct page page = {.script = motion_js};
    struct json *data = json_new_object();
    AUTOFREE char *title = base_format("All-reduce of %d ranks, round by round", c->ranks);
    html_answer(
        &page, title,
        "Each box is a rank, each cell in it a chunk of its vector: faint at first, stronger "
        "with every rank whose values are added, green when it is the sum of all. Dots are "
        "messages.");
    if (is_folded(c))
        html_paragraph(&page, NULL,
                       "Of so many ranks the first and the last of the first rows and of the last "
                       "row are shown, with the messages among them; a cell is several chunks, "
                       "and rounds that are alike are one, as long as all of them.");
    html_add(&page.body, "<div id=\"motion\"></div>\n");
    html_section(&page, "What each rank holds after every round");
    json_put_text(data, "schema", "foretrain/motion/1");
    if (is_folded(c)) {
        put_shown(data, c);
    } else {
        json_put_integer(data, "columns", c->grid.columns);
        json_put_integer(data, "rows", c->grid.rows);
    }
    struct json *list = json_put_array(data, "algorithms");
    add_algorithm(&page, list, *c, c->grid, fabric, bytes);
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        struct collective other = *c;
        other.algorithm = beside[i];
        other.group = beside[i] == ALGORITHM_HIERARCHICAL ? group : c->group;
        if (beside[i] == ALGORITHM_HIERARCHICAL)
            other.grid = (struct grid){.columns = group, .rows = c->ranks / group};
        if (beside[i] != c->algorithm)
            add_algorithm(&page, list, other, c->grid, fabric, bytes);
    }
    int failed = html_write(&page, path, title, data, err);
    json_free(data);
    return failed;
}
