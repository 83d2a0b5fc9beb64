#include <math.h>
#include <string.h>

#include "app/study/software_fit.h"

/* Runs from which a software may take its start-up, the nearest first. */
enum kinship { SAME_SOFTWARE, SAME_ERA, ANY_SOFTWARE, KINSHIP_COUNT };

static const char *const kinship_names[KINSHIP_COUNT] = {"under it", "of its era", "of all rounds"};

static bool is_kin(const char *software, const char *other, enum kinship kinship)
{
    if (kinship == SAME_SOFTWARE)
        return !strcmp(software, other);
    return kinship == ANY_SOFTWARE || software_era(software)->launch == software_era(other)->launch;
}

static int32_t collect(double *value, const struct software_fit *c, const char *software,
                       enum kinship kinship)
{
    int32_t count = 0;
    for (int32_t i = 0; i < c->excesses; i++)
        if (is_kin(software, c->excess[i].software, kinship))
            value[count++] = c->excess[i].seconds;
    return count;
}

bool software_fit_startup(const struct software_fit *c, const char *software,
                          struct software_fit_startup *startup)
{
    AUTOFREE double *value = base_alloc(c->excesses, sizeof(*value));
    int32_t count = 0;
    enum kinship kinship = SAME_SOFTWARE;
    if (!strncmp(software, "mlperf-", 7))
        while (!(count = collect(value, c, software, kinship)) && kinship + 1 < KINSHIP_COUNT)
            kinship++;
    if (count)
        *startup = (struct software_fit_startup){fmax(0, base_median(value, count)), count,
                                                 kinship_names[kinship]};
    return count > 0;
}
