#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/floor.h"
#include "core/report/picture.h"

/* A row or column of the grid, a node or a group of nodes, by its busiest link. */
struct place {
    char *name; /* owned; NULL: nothing is known of it */
    double busy, bandwidth;
    int32_t alike; /* places that it stands for; 0: another stands for it */
};

static void see(struct place *place, const struct fabric *fabric, const double *load, int32_t link)
{
    if (load[link] <= place->busy && place->bandwidth > 0)
        return;
    place->busy = load[link];
    place->bandwidth = fabric->link[link].bandwidth;
}

static int busier(const void *a, const void *b)
{
    const struct place *p = a, *q = b;
    if (!p->alike != !q->alike)
        return p->alike ? -1 : 1;
    return (p->busy < q->busy) - (p->busy > q->busy);
}

/* If they are many, those equally busy become one, and the least busy ones another. */
static int32_t fold(struct place *place, int32_t count)
{
    int32_t kinds = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t like = 0;
        while (like < kinds && (count <= PICTURE_PLACES ||
                                fabs(place[like].busy - place[i].busy) > 1e-6 * place[i].busy))
            like++;
        struct place found = place[i];
        place[i].name = NULL;
        if (like == kinds)
            place[kinds++] = found;
        else
            free(found.name);
        place[like].alike++;
    }
    if (count > PICTURE_PLACES)
        qsort(place, (size_t)kinds, sizeof(*place), busier);
    for (int32_t i = PICTURE_KINDS; i < kinds && count > PICTURE_PLACES; i++) {
        place[PICTURE_KINDS - 1].alike += place[i].alike;
        free(place[i].name);
        place[i].name = NULL;
    }
    return count > PICTURE_PLACES && kinds > PICTURE_KINDS ? PICTURE_KINDS : kinds;
}

/* Append the @count places of @part, if any carries bytes, and release them. */
static void put_places(struct json *rows, const char *part, struct place *place, int32_t count,
                       double step)
{
    int32_t known = 0;
    double most = 0;
    for (int32_t i = 0; i < count; i++) {
        most = fmax(most, place[i].busy);
        if (place[i].name)
            place[known++] = place[i];
    }
    known = fold(place, known);
    for (int32_t i = 0; i < known && most > 0; i++) {
        struct json *row = json_append_object(rows);
        json_put_text(row, "part", part);
        json_put_text(row, "name", place[i].name);
        json_put_integer(row, "alike", place[i].alike);
        json_put_real(row, "bandwidth", place[i].bandwidth);
        json_put_real(row, "busy_s", place[i].busy);
        json_put_real(row, "share", place[i].busy / step);
    }
    for (int32_t i = 0; i < known; i++)
        free(place[i].name);
    free(place);
}

/* ---- the grid ---- */

/* Every link on the way of a message along @axis belongs to the row or column of its sender. */
static void see_ways(struct place *place, const struct fabric *fabric,
                     const struct schedule *schedule, const double *load, int32_t step)
{
    struct collective c = schedule_collective(schedule, step);
    bool row = schedule->step[step].collective.axis == AXIS_ROW;
    int32_t patterns = collective_rounds(&c) > 0 ? collective_pattern_count(&c) : 0;
    for (int32_t pattern = 0; pattern < patterns; pattern++) {
        AUTOFREE int32_t *to = schedule_send_peers(schedule, step, 0, pattern);
        for (int32_t rank = 0; rank < grid_ranks(schedule->grid); rank++) {
            int32_t index = row ? rank / schedule->grid.columns : rank % schedule->grid.columns;
            struct route route;
            if (to[rank] < 0)
                continue;
            fabric_route(fabric, rank, to[rank], &route);
            for (int32_t i = 0; i < route.count; i++)
                see(&place[index], fabric, load, route.link[i]);
            if (!place[index].name)
                place[index].name = base_format("%s %d", row ? "row" : "column", index);
        }
    }
}

static void put_axis(struct json *rows, const struct fabric *fabric,
                     const struct schedule *schedule, const double *load, enum axis axis,
                     double step)
{
    int32_t count = axis == AXIS_ROW ? schedule->grid.rows : schedule->grid.columns;
    struct place *place = base_alloc(count, sizeof(*place));
    for (int32_t i = 0; i < schedule->step_count; i++)
        if (schedule->step[i].kind == STEP_COLLECTIVE &&
            schedule->step[i].collective.axis == axis &&
            schedule->step[i].collective.algorithm != ALGORITHM_NCCL &&
            schedule_first_like(schedule, i) == i)
            see_ways(place, fabric, schedule, load, i);
    put_places(rows, axis_names[axis], place, count, step);
}

/* ---- the machine ---- */

/* Links of one tier, by what stands before the dot of their names. */
static void put_tier(struct json *rows, const struct fabric *fabric, const double *load,
                     int32_t tier, double step)
{
    struct place *place = base_alloc(fabric->link_count, sizeof(*place));
    int32_t count = 0;
    for (int32_t i = 0; i < fabric->link_count; i++) {
        if (fabric->link[i].tier != tier)
            continue;
        AUTOFREE char *name = fabric_link_name(fabric, i);
        name[strcspn(name, ".")] = '\0';
        if (count == 0 || strcmp(place[count - 1].name, name) != 0)
            place[count++].name = base_copy(name);
        see(&place[count - 1], fabric, load, i);
    }
    put_places(rows, fabric->tier_name[tier], place, count, step);
}

struct json *picture_map(const struct fabric *fabric, const struct schedule *schedule, double step)
{
    struct json *rows = json_new_array();
    AUTOFREE double *load = floor_loads(fabric, schedule);
    put_axis(rows, fabric, schedule, load, AXIS_ROW, step);
    put_axis(rows, fabric, schedule, load, AXIS_COLUMN, step);
    for (int32_t tier = fabric->nic_tier; fabric->nic_tier > 0 && tier < fabric->tier_count; tier++)
        put_tier(rows, fabric, load, tier, step);
    return rows;
}
