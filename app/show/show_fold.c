#include "app/show/show_collective.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/unit.h"

enum { ENDS = 4 /* of rows and of columns that are shown */, KINDS = 24 /* of messages a round */ };

/* ---- playing ---- */

struct folded *folded_new(const struct collective *c, struct grid grid, const struct fabric *fabric,
                          int64_t bytes)
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

void folded_free(struct folded *fold)
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

bool folded_goes_on(const struct folded *fold, bool rest)
{
    const struct collective *c = fold->c;
    int32_t round = fold->round;
    if (round >= collective_rounds(c) || !rest)
        return round < collective_rounds(c);
    return round > 0 && collective_pattern(c, round) == collective_pattern(c, round - 1) &&
           collective_share(c, round) == collective_share(c, round - 1) &&
           !strcmp(show_phase_name(c, round), show_phase_name(c, round - 1));
}

struct folded_rounds folded_play(struct folded *fold, bool rest)
{
    struct folded_rounds rounds = {.first = fold->round};
    do
        play_one(fold, &rounds);
    while (rest && folded_goes_on(fold, true));
    return rounds;
}

/* ---- showing ---- */

void folded_letters(const struct folded *fold, int32_t rank, char letters[SHOW_CELLS + 1])
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

static void draw(struct text *out, const struct folded *fold)
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
    draw(out, fold);
    for (bool rest = false; folded_goes_on(fold, false); rest = !rest) {
        if (rest && !folded_goes_on(fold, true))
            continue;
        struct folded_rounds rounds = folded_play(fold, rest);
        seconds += rounds.seconds;
        tell(out, fold, &rounds);
        draw(out, fold);
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
