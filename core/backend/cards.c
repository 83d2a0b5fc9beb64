#include "core/backend/cards.h"

/* The first card on a way is the one that sends. */
static void mark_sender(const struct fabric *fabric, const struct route *route, bool *sends)
{
    for (int32_t i = 0; i < route->count; i++)
        if (fabric->link[route->link[i]].tier == fabric->nic_tier) {
            sends[route->link[i]] = true;
            return;
        }
}

static void mark_step(const struct fabric *fabric, const struct schedule *schedule, int32_t step,
                      bool *sends)
{
    struct collective whole = schedule_collective(schedule, step);
    for (int32_t i = 0; i < collective_channels(&whole); i++) {
        struct collective c = collective_channel(&whole, i);
        int32_t patterns = collective_rounds(&c) > 0 ? collective_pattern_count(&c) : 0;
        for (int32_t pattern = 0; pattern < patterns; pattern++) {
            AUTOFREE int32_t *to = schedule_send_peers(schedule, step, i, pattern);
            for (int32_t rank = 0; rank < fabric->ranks; rank++) {
                if (to[rank] < 0)
                    continue;
                struct route route;
                fabric_route(fabric, rank, to[rank], &route);
                mark_sender(fabric, &route, sends);
            }
        }
    }
}

/* The first STEP_COLLECTIVE, or -1. */
static int32_t find_collective(const struct schedule *schedule)
{
    int32_t id = 0;
    while (id < schedule->step_count && schedule->step[id].kind != STEP_COLLECTIVE)
        id++;
    return id < schedule->step_count ? id : -1;
}

char *cards_text(const struct fabric *fabric, const struct schedule *schedule, bool brief)
{
    int32_t first = find_collective(schedule), nodes = fabric->ranks / fabric->devices_per_node;
    if (first < 0 || nodes < 2 || fabric->nic_tier == 0)
        return NULL;
    AUTOFREE bool *sends = base_alloc(fabric->link_count, sizeof(*sends));
    int32_t busy = 0, all = 0;
    for (int32_t id = first; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COLLECTIVE && schedule_first_like(schedule, id) == id)
            mark_step(fabric, schedule, id, sends);
    for (int32_t link = 0; link < fabric->link_count; link++) {
        busy += sends[link];
        all += fabric->link[link].tier == fabric->nic_tier;
    }
    int32_t rings = schedule->step[first].collective.channels;
    bool ring = schedule->step[first].collective.algorithm == ALGORITHM_RING &&
                schedule->step[first].collective.axis == AXIS_WORLD;
    if (busy == 0 || (brief && !ring && busy == all / 2))
        return NULL;
    struct text text = {0};
    if (ring)
        text_add(&text, "%" PRId32 " ring%s: ", rings > 1 ? rings : 1, rings > 1 ? "s" : "");
    text_add(&text, "%.3g of %" PRId32 " network cards of a node send%s", (double)busy / nodes,
             all / 2 / nodes, busy == nodes ? "s" : "");
    return text.data;
}
