
#include "app/page/html.h"
#include "app/show/show_collective.h"

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
