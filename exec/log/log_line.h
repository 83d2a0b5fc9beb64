#pragma once

/** @file
 * Inner side of log.h: the line for people on stderr.
 */

#include "core/scenario/phase.h"
#include "exec/log/log.h"

/** The line, and the data collected for it since it was last printed. */
struct log_line {
    bool on, terminal;
    const struct plan *plan; /**< borrowed */
    int64_t total_steps;
    int64_t first_step; /**< of this process, from 0 */
    double printed_s;   /**< time of the last print, by the monotonic clock */
    double seconds;     /**< of the steps since then */
    int64_t images, steps, losses, skipped;
    double loss;          /**< sum over `losses` of those steps; skipped ones have none */
    double top1;          /**< of the last evaluation; negative: none */
    int64_t all_images;   /**< of this process */
    double all_seconds;   /**< of its steps */
    struct log_step last; /**< step */
};

/** A line for a run of @plan up to @total_steps; on stderr when @on. */
struct log_line log_line_new(bool on, const struct plan *plan, int64_t total_steps);

/** Append "3 h 12 min", "12 min 5 s", "42 s" or "1.5 s". */
void log_line_duration(struct text *out, double seconds);

/** Collect @step, and print if it is time at @now_s. */
void log_line_step(struct log_line *line, const struct log_step *step, double now_s);

/** Print @text on a line of its own. */
void log_line_say(struct log_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Print the collected data and the pace of the whole run. */
void log_line_close(struct log_line *line);
