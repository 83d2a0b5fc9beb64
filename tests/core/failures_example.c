#include "core/report/toll.h"

/* Prints for MTBF COST RESTART INTERVAL WORK DRAWS: the intervals of Young and Daly, the number of
 * checkpoints, the mean, and that many draws, one a line. */
int main(int argc, char **argv)
{
    if (argc != 7)
        return EXIT_FAILURE;
    struct failures f = {strtod(argv[1], NULL), strtod(argv[2], NULL), strtod(argv[3], NULL),
                         strtod(argv[4], NULL)};
    double work = strtod(argv[5], NULL);
    printf("%.17g\n%.17g\n%.17g\n%.17g\n", failures_young(f.mtbf, f.cost),
           failures_daly(f.mtbf, f.cost), failures_checkpoints(&f, work),
           failures_expected(&f, work));
    for (int64_t i = 0; i < strtol(argv[6], NULL, 10); i++)
        printf("%.17g\n", failures_draw(&f, work, 1, (uint64_t)i));
    return EXIT_SUCCESS;
}
