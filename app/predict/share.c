#include "app/predict/share.h"

#include "core/base/base.h"

/* A draw. */
struct pair {
    double x, y;
};

static int compare(const void *a, const void *b)
{
    const struct pair *first = a, *second = b;
    return (first->x > second->x) - (first->x < second->x);
}

/* The end of the class of draws from @begin on: about @size, and all equal to the last. */
static int32_t class_end(const struct pair *draw, int32_t begin, int32_t size, int32_t count)
{
    int32_t end = begin + size < count ? begin + size : count;
    while (end < count && draw[end].x == draw[end - 1].x)
        end++;
    return end;
}

static double mean_of(const struct pair *draw, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += draw[i].y;
    return sum / count;
}

/* Squares of the distances to the mean. */
static double squares_of(const struct pair *draw, int32_t count)
{
    double mean = mean_of(draw, count), squares = 0;
    for (int32_t i = 0; i < count; i++)
        squares += pow(draw[i].y - mean, 2);
    return squares;
}

double share_of(const double *x, const double *y, int32_t count)
{
    AUTOFREE struct pair *draw = base_alloc(count, sizeof(*draw));
    for (int32_t i = 0; i < count; i++)
        draw[i] = (struct pair){x[i], y[i]};
    double total = squares_of(draw, count), within = 0;
    if (!(total > 1e-18 * count * pow(mean_of(draw, count), 2)))
        return NAN;
    qsort(draw, (size_t)count, sizeof(*draw), compare);
    int32_t classes = 0, size = (int32_t)ceil(sqrt(count));
    for (int32_t begin = 0, end; begin < count; begin = end) {
        end = class_end(draw, begin, size, count);
        within += squares_of(draw + begin, end - begin);
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
