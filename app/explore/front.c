#include "app/explore/front.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"

/* A point on its way through the order of time, then hours. */
struct place {
    struct merit merit;
    int64_t point;
};

static int compare(const void *a, const void *b)
{
    const struct merit *x = &((const struct place *)a)->merit,
                       *y = &((const struct place *)b)->merit;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
                              : (x->hours > y->hours) - (x->hours < y->hours);
}

void front_find(const struct merit *merit, int64_t count, bool *on)
{
    AUTOFREE struct place *place = base_alloc(count, sizeof(*place));
    int64_t known = 0;
    for (int64_t i = 0; i < count; i++) {
        on[i] = false;
        if (!isnan(merit[i].time) && !isnan(merit[i].hours))
            place[known++] = (struct place){merit[i], i};
    }
    qsort(place, (size_t)known, sizeof(*place), compare);
    struct merit best = {NAN, INFINITY};
    for (int64_t i = 0; i < known; i++) {
        const struct merit *own = &place[i].merit;
        on[place[i].point] =
            own->hours < best.hours || (own->hours == best.hours && own->time == best.time);
        if (own->hours < best.hours)
            best = *own;
    }
}
