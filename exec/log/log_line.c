#include "exec/log/log_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define CLEAR "\r\033[K" /* to the start of the line, and erase it */

enum { TERMINAL_S = 1, ELSEWHERE_S = 10 }; /* between two lines */

struct log_line log_line_new(bool on, const struct plan *plan, int64_t total_steps)
{
    return (struct log_line){.on = on,
                             .terminal = isatty(STDERR_FILENO) != 0,
                             .plan = plan,
                             .total_steps = total_steps,
                             .printed_s = -INFINITY,
                             .top1 = -1};
}

void log_line_duration(struct text *out, double seconds)
{
    double whole = rint(fmin(seconds, 1e15));
    int64_t s = (int64_t)whole;
    if (s >= 48 * 3600)
        text_add(out, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        text_add(out, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        text_add(out, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (seconds >= 10)
        text_add(out, "%" PRId64 " s", s);
    else
        text_add(out, "%.1f s", seconds);
}

/* Images of the steps after @step up to the end of the run. */
static double images_left(const struct log_line *line, int64_t step)
{
    double images = 0;
    int64_t begin = 0;
    for (int32_t i = 0; i < line->plan->phase_count; i++) {
        const struct phase *phase = &line->plan->phase[i];
        int64_t end = begin + phase->steps;
        int64_t from = step > begin ? step : begin;
        int64_t to = line->total_steps < end ? line->total_steps : end;
        if (to > from)
            images += (double)(to - from) * (double)phase->global_batch;
        begin = end;
    }
    return images;
}

static void print(struct log_line *line)
{
    AUTORELEASE(text) struct text text = {0};
    const struct log_step *last = &line->last;
    double pace = line->seconds > 0 ? (double)line->images / line->seconds : 0;
    text_add(&text, "step %" PRId64 "/%" PRId64 "  epoch %.2f/%g  loss %.4f", last->step,
             line->total_steps, last->epoch, line->plan->epochs,
             line->losses ? line->loss / (double)line->losses : last->loss);
    if (line->top1 >= 0)
        text_add(&text, "  top-1 %.2f %%", 100 * line->top1);
    text_add(&text, "  %.*f images/s", pace < 100 ? 1 : 0, pace);
    if (line->skipped)
        text_add(&text, "  %" PRId64 " skipped", line->skipped);
    double left = images_left(line, last->step);
    if (pace > 0 && left > 0) {
        text_add(&text, "  ETA ");
        log_line_duration(&text, left / pace);
    }
    fprintf(stderr, line->terminal ? CLEAR "%s" : "%s\n", text.data);
    fflush(stderr);
    line->seconds = line->loss = 0;
    line->images = line->steps = line->losses = line->skipped = 0;
}

void log_line_step(struct log_line *line, const struct log_step *step, double now_s)
{
    line->last = *step;
    line->seconds += step->seconds;
    line->images += step->global_batch;
    line->steps++;
    line->skipped += step->skipped;
    if (!step->skipped) {
        line->loss += step->loss;
        line->losses++;
    }
    line->all_seconds += step->seconds;
    line->all_images += step->global_batch;
    if (isinf(line->printed_s))
        line->printed_s = now_s - step->seconds;
    if (!line->on || now_s - line->printed_s < (line->terminal ? TERMINAL_S : ELSEWHERE_S))
        return;
    line->printed_s = now_s;
    print(line);
}

void log_line_say(struct log_line *line, const char *format, ...)
{
    va_list list;
    if (!line->on)
        return;
    if (line->terminal)
        fputs(CLEAR, stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

void log_line_close(struct log_line *line)
{
    AUTORELEASE(text) struct text text = {0};
    if (!line->on || line->all_images == 0)
        return;
    if (line->steps > 0)
        print(line);
    if (line->terminal)
        fputc('\n', stderr);
    log_line_duration(&text, line->all_seconds);
    fprintf(stderr, "%" PRId64 " steps in %s: %.1f images/s\n", line->last.step - line->first_step,
            text.data, line->all_seconds > 0 ? (double)line->all_images / line->all_seconds : 0);
}
