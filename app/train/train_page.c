#include "app/train/train_page.h"

#include <math.h>
#include <string.h>

#include "app/page/html.h"
#include "core/base/file.h"

enum {
    POINTS = 200, /* of a curve */
    SPANS = 8,    /* of the run, for the parts of a step */
};

/* What is summed up of steps. */
enum number { LOSS, SECONDS, INPUT, EXPOSED, NUMBERS };

static const char *const names[NUMBERS] = {"loss", "seconds", "input_wait_s",
                                           "exposed_communication_s"};

struct means {
    double sum[NUMBERS];
    int64_t count[NUMBERS], steps;
};

static void add_step(struct means *means, const struct json *step)
{
    for (int i = 0; i < NUMBERS; i++) {
        double value = html_number(step, names[i], -1);
        if (!isfinite(value)) /* the loss of a skipped step */
            continue;
        means->sum[i] += value;
        means->count[i]++;
    }
    means->steps++;
}

/* The mean of the steps up to @last. */
static struct json *mean_row(const struct means *means, const struct json *last)
{
    double mean[NUMBERS];
    struct json *row = json_new_object();
    for (int i = 0; i < NUMBERS; i++)
        mean[i] = means->count[i] ? means->sum[i] / (double)means->count[i] : NAN;
    json_put_real(row, "step", html_number(last, "step", -1));
    json_put_real(row, "epoch", html_number(last, "epoch", -1));
    json_put_real(row, "loss", mean[LOSS]);
    json_put_real(row, "step_s", mean[SECONDS]);
    json_put_real(row, "busy_s", fmax(0, mean[SECONDS] - mean[INPUT] - mean[EXPOSED]));
    json_put_real(row, "input_wait_s", mean[INPUT]);
    json_put_real(row, "exposed_communication_s", mean[EXPOSED]);
    json_put_real(row, "images_per_s", html_number(last, "global_batch", -1) / mean[SECONDS]);
    return row;
}

/* @steps in at most @most rows of equally many steps. */
static struct json *mean_rows(const struct json *steps, int64_t most)
{
    int64_t count = json_count_items(steps), each = (count + most - 1) / most;
    struct json *rows = json_new_array();
    struct means means = {{0}, {0}, 0};
    for (int64_t i = 0; i < count; i++) {
        add_step(&means, json_item(steps, i));
        if (means.steps < each && i + 1 < count)
            continue;
        json_append(rows, mean_row(&means, json_item(steps, i)));
        means = (struct means){{0}, {0}, 0};
    }
    return rows;
}

/* The log: one object a line, of which "event" says what it is. */
static int read_log(const char *directory, struct json *steps, struct json *evaluations,
                    struct err *err)
{
    AUTOFREE char *path = base_format("%s/steps.jsonl", directory);
    AUTORELEASE(text) struct text content = {0};
    int failed = file_read(path, &content, err);
    for (char *line = content.data; line && *line && !failed;) {
        size_t length = strcspn(line, "\n");
        struct json *entry = json_read(path, line, (int64_t)length, err);
        const char *event = entry ? html_word(entry, "event") : "";
        failed = !entry;
        if (!strcmp(event, "step"))
            json_append(steps, entry);
        else if (!strcmp(event, "evaluation"))
            json_append(evaluations, entry);
        else
            json_free(entry);
        line += length + (line[length] == '\n');
    }
    return failed;
}

/* ---- the page ---- */

static char *answer_of(const struct json *steps, const struct json *evaluations)
{
    const struct json *first = json_item(steps, 0);
    const struct json *last = json_item(steps, json_count_items(steps) - 1);
    struct text out = {0};
    double seconds = 0;
    for (int64_t i = 0; i < json_count_items(steps); i++)
        seconds += html_number(json_item(steps, i), "seconds", -1);
    text_add(&out, "%.0f steps took %s; the loss went from %.4g to %.4g",
             (double)json_count_items(steps), unit_text(UNIT_SECONDS, seconds),
             html_number(first, "loss", -1), html_number(last, "loss", -1));
    if (json_count_items(evaluations) > 0) {
        const struct json *row = json_item(evaluations, json_count_items(evaluations) - 1);
        text_add(&out, ", and top-1 of the last evaluation is %s",
                 unit_text(UNIT_FRACTION, html_number(row, "top1", -1)));
    }
    text_add(&out, ".");
    return out.data;
}

#define STEP_COLUMNS                                                                               \
    "step: up to step, epoch, step_s, busy_s: computes, exposed_communication_s: waits for "       \
    "all-reduces, input_wait_s: waits for images, images_per_s"

static const struct page_part parts[] = {
    {.heading = "Does it learn?",
     .picture = "loss",
     .rows = "steps",
     .caption = "loss, means of steps",
     .columns = "step: up to step, epoch, loss"},
    {.heading = "How good is it?",
     .picture = "accuracy",
     .rows = "evaluations",
     .table = "evaluations",
     .caption = "evaluations",
     .columns = "step, epoch, loss, top1, top5"},
    {.heading = "Where does the time go?",
     .picture = "step_times",
     .rows = "steps",
     .table = "times",
     .caption = "time of steps, means",
     .columns = STEP_COLUMNS},
    {.words = "Parts of a step in equal parts of the run, up to the step named:",
     .picture = "spans",
     .rows = "spans",
     .table = "parts",
     .caption = "parts of a step over the run, means",
     .columns = STEP_COLUMNS},
};

static int write_page(const char *file, const char *job, const struct json *steps,
                      struct json *evaluations, struct err *err)
{
    struct page page = {0};
    struct json *all = json_new_object();
    AUTOFREE char *title = base_format("Training of %s", job),
                  *answer = answer_of(steps, evaluations);
    html_answer(&page, title, answer);
    json_put_text(all, "job", job);
    json_put(all, "steps", mean_rows(steps, POINTS));
    json_put(all, "spans", mean_rows(steps, SPANS));
    json_put(all, "evaluations", evaluations);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        html_part(&page, all, &parts[i]);
    int failed = html_write(&page, file, title, all, err);
    json_free(all);
    return failed;
}

int train_page(const char *file, const char *directory, const char *job, struct err *err)
{
    struct json *steps = json_new_array(), *evaluations = json_new_array();
    int failed = read_log(directory, steps, evaluations, err);
    if (!failed && json_count_items(steps) <= 0)
        failed = err_add_code(err, 65, "%s/steps.jsonl: no step, so there is no page", directory);
    if (failed)
        json_free(evaluations);
    else
        failed = write_page(file, job, steps, evaluations, err);
    json_free(steps);
    return failed;
}
