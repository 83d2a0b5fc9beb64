#include "app/show/show_play.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Where the frame after @at begins, or the end. */
static const char *next_frame(const char *at)
{
    static const char *const first[] = {"at first", "after round"};
    while ((at = strchr(at, '\n'))) {
        at++;
        for (int i = 0; i < 2; i++)
            if (!strncmp(at, first[i], strlen(first[i])))
                return at;
    }
    return NULL;
}

/* Lines of a terminal of @columns that the text up to @end takes; NULL: all of it. */
static int32_t height(const char *text, const char *end, int32_t columns)
{
    int32_t lines = 0;
    for (const char *line = text; *line && line != end;) {
        int32_t length = (int32_t)strcspn(line, "\n");
        lines += length > columns ? (length + columns - 1) / columns : 1;
        line += length + (line[length] == '\n');
    }
    return lines;
}

static void print(const char *text, const char *end)
{
    fwrite(text, 1, end ? (size_t)(end - text) : strlen(text), stdout);
    fflush(stdout);
}

/* @return the lines that waiting took. */
static int32_t pause_for(double seconds)
{
    if (seconds > 0) {
        nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * fmod(seconds, 1))}, NULL);
        return 0;
    }
    int key;
    while ((key = getchar()) != '\n' && key != EOF)
        ;
    return key == '\n'; /* which the terminal showed */
}

int show_play(const struct text *drawn, double seconds, struct err *err)
{
    struct winsize window;
    if (!isatty(STDOUT_FILENO))
        return err_add_code(err, 64,
                            "--play redraws a terminal, which standard output is not: "
                            "--text prints all rounds");
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) || !window.ws_row || !window.ws_col)
        window = (struct winsize){.ws_row = 24, .ws_col = 80};
    const char *frame = next_frame(drawn->data), *next;
    int32_t head = height(drawn->data, frame, window.ws_col), most = 0;
    for (const char *at = frame; at; at = next) {
        next = next_frame(at);
        int32_t lines = height(at, next, window.ws_col);
        most = lines > most ? lines : most;
    }
    if (head + most >= window.ws_row)
        return err_add_code(err, 64,
                            "--play needs a terminal of %d lines, and this one has %d: make it "
                            "larger, show fewer ranks, or use --text",
                            head + most + 1, window.ws_row);
    print(drawn->data, frame);
    for (; frame; frame = next) {
        next = next_frame(frame);
        print(frame, next);
        if (next)
            printf("\033[%dA\r\033[J", height(frame, next, window.ws_col) + pause_for(seconds));
    }
    return 0;
}
