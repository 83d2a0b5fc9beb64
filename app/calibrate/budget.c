#include "app/calibrate/budget.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/base.h"

struct budget budget_open(double seconds, bool strict)
{
    return (struct budget){.end = base_seconds(CLOCK_MONOTONIC) + seconds,
                           .seconds = seconds,
                           .strict = strict,
                           .terminal = isatty(STDERR_FILENO)};
}

void budget_part(struct budget *budget, const char *what, double share)
{
    double time = base_seconds(CLOCK_MONOTONIC);
    budget->what = what;
    budget->rounds = 0;
    budget->longest = 0;
    budget->part_end = time + share * fmax(budget->end - time, 0);
}

static void tell(const struct budget *budget, double left)
{
    if (budget->terminal)
        fprintf(stderr, "\r\033[Kmeasuring %s, round %d, at most %.0f s left", budget->what,
                budget->rounds, left);
    else if (budget->rounds == 1)
        fprintf(stderr, "measuring %s, at most %.0f s left\n", budget->what, left);
    fflush(stderr);
}

bool budget_next(struct budget *budget)
{
    double time = base_seconds(CLOCK_MONOTONIC);
    if (budget->rounds > 0) {
        budget->longest = fmax(budget->longest, time - budget->round_begin);
        if (time + budget->longest > budget->part_end)
            return false;
    }
    budget->rounds++;
    budget->round_begin = time;
    tell(budget, fmax(budget->end - time, 0));
    return true;
}

double budget_of_part(const struct budget *budget)
{
    return fmax(budget->part_end - base_seconds(CLOCK_MONOTONIC), 0);
}

void budget_close(struct budget *budget)
{
    double late = base_seconds(CLOCK_MONOTONIC) - budget->end;
    if (budget->terminal)
        fprintf(stderr, "\r\033[K");
    if (late > 0.2 * budget->seconds)
        fprintf(stderr, "it took %.0f s instead of %.0f s: one round of each is the least\n",
                budget->seconds + late, budget->seconds);
    *budget = (struct budget){0};
}
