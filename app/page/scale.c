#include <math.h>

#include "app/page/chart.h"

double scale_at(const struct axis_scale *scale, double value)
{
    if (scale->log)
        return log(value / scale->from) / log(scale->to / scale->from);
    return (value - scale->from) / (scale->to - scale->from);
}

/* Seconds that people count in: ticks are round in minutes or hours, too. */
static double counted_in(const struct axis_scale *scale)
{
    if (scale->unit != UNIT_SECONDS || scale->to < 600)
        return 1;
    return scale->to < 7200 ? 60 : 3600;
}

/* The least of 1, 2, 5, 10, ... that is at least @value. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value)));
    double digits = value / power;
    return power * (digits <= 1.001 ? 1 : digits <= 2.001 ? 2 : digits <= 5.001 ? 5 : 10);
}

/* About five; an axis a little above 100 % has steps of 20 %. */
static double step_of(const struct axis_scale *scale)
{
    double unit = counted_in(scale);
    return unit * round_up((scale->to - scale->from) / unit / 5.3);
}

struct axis_scale scale_of(double low, double high, bool log, enum unit unit)
{
    struct axis_scale scale = {log ? low : fmin(0, low), high, log, unit};
    if (!(scale.from < scale.to)) /* one value, or none */
        scale = (struct axis_scale){log ? low / 2 : fmin(0, low), low > 0 ? 2 * low : 1, log, unit};
    if (!log) {
        double step = step_of(&scale);
        scale.to = step * ceil(scale.to / step - 1e-9);
    }
    return scale;
}

static bool holds(const struct axis_scale *scale, double value)
{
    return value >= scale->from * 0.999 && value <= scale->to * 1.001;
}

/* The longest of these that are round in seconds, minutes or hours. */
static const double round_times[] = {30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000};

enum { ROUND_TIMES = ARRAY_SIZE(round_times) };

/* 1, 2, 5 and so on; of a wide scale only powers of 10. */
static int32_t log_ticks(const struct axis_scale *scale, double *tick)
{
    static const double digits[] = {1, 2, 5};
    bool all = scale->to / scale->from < 300, times = scale->unit == UNIT_SECONDS;
    int32_t count = 0;
    for (int power = (int)floor(log10(scale->from)); power <= log10(scale->to); power++)
        for (int i = 0; i < (all ? 3 : 1); i++) {
            double value = digits[i] * pow(10, power);
            if (times && value > 20)
                continue;
            if (holds(scale, value) && count < SCALE_TICKS)
                tick[count++] = value;
        }
    bool narrow = scale->to / scale->from < 20; /* 20 and 30 s stand apart */
    for (int i = narrow ? 0 : 1; i < ROUND_TIMES && times; i++)
        if (holds(scale, round_times[i]) && count < SCALE_TICKS)
            tick[count++] = round_times[i];
    for (double hours = 86400; times && hours <= scale->to && count < SCALE_TICKS; hours *= 5)
        tick[count++] = hours;
    return count;
}

/* Devices and nodes: doubled again and again. */
static int32_t count_ticks(const struct axis_scale *scale, double *tick)
{
    double factor = 2;
    while (pow(factor, 5) < scale->to / scale->from)
        factor *= 2;
    int32_t count = 0;
    for (double value = scale->from; value <= scale->to * 1.001 && count < SCALE_TICKS;
         value *= factor)
        tick[count++] = value;
    return count;
}

int32_t scale_ticks(const struct axis_scale *scale, double *tick)
{
    if (scale->log && scale->unit == UNIT_NONE && scale->from >= 1 &&
        scale->from == floor(scale->from))
        return count_ticks(scale, tick);
    if (scale->log && scale->to / scale->from > 4)
        return log_ticks(scale, tick);
    double step = step_of(scale);
    int32_t count = 0;
    for (double value = step * ceil(scale->from / step - 1e-9);
         value <= scale->to + step * 1e-6 && count < SCALE_TICKS; value += step)
        tick[count++] = fabs(value) < step * 1e-6 ? 0 : value;
    return count;
}
