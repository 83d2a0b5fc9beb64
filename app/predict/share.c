#include "app/predict/share.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>

#include "core/base/base.h"

/* The end of the class that begins with the draw at @begin in the order of @x: about @size draws,
 * and all that are equal to the last. */
static int32_t class_end(const double *x, const size_t *order, int32_t begin, int32_t size,
                         int32_t count)
{
    int32_t end = begin + size < count ? begin + size : count;
    while (end < count && x[order[end]] == x[order[end - 1]])
        end++;
    return end;
}

double share_of(const double *x, const double *y, int32_t count)
{
    double mean = gsl_stats_mean(y, 1, (size_t)count);
    double total = gsl_stats_tss_m(y, 1, (size_t)count, mean), within = 0;
    if (!(total > 1e-18 * count * mean * mean))
        return NAN;
    AUTOFREE size_t *order = base_alloc(count, sizeof(*order));
    gsl_sort_index(order, x, 1, (size_t)count);
    int32_t classes = 0, size = (int32_t)ceil(sqrt(count));
    for (int32_t begin = 0, end; begin < count; begin = end) {
        end = class_end(x, order, begin, size, count);
        double sum = 0, squares = 0;
        for (int32_t i = begin; i < end; i++)
            sum += y[order[i]];
        for (int32_t i = begin; i < end; i++)
            squares += pow(y[order[i]] - sum / (end - begin), 2);
        within += squares;
        classes++;
    }
    if (classes == 1)
        return 0;
    return fmax(0, 1 - within / (count - classes) / (total / (count - 1)));
}

double share_noise(int32_t count, int32_t inputs)
{
    double classes = ceil(sqrt(count)), between = classes - 1, within = count - classes;
    if (classes < 2)
        return 0;
    double chance = 2 / (9 * between), largest = sqrt(2 * log(inputs));
    double squares = between * pow(1 - chance + largest * sqrt(chance), 3);
    return fmax(0, 1 - (count - 1) / (squares + within));
}
