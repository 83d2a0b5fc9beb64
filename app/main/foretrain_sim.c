/** @file
 * foretrain-sim: one simulation in one process.  foretrain starts it, writes the workload to its
 * standard input and reads its trace.
 */

#include "app/process/process.h"
#include "sim/sim.h"

static const char help[] =
    "Usage: foretrain-sim [--raw] <WORKLOAD\n\n"
    "simulates one phase of a training job: reads a workload (JSON) that foretrain made of the "
    "job,\n"
    "and prints the trace: a header, then one line per span (--raw: as they are in memory).  On\n"
    "standard error it reports about once a second: messages done, of all, processor time.\n"
    "'foretrain predict JOB --backend sim' starts it.\n"
    "Exit codes: 0, 64 usage, 65 bad data, 70 internal, 71 no memory, 74 cannot read or write\n";

/* As app/process/child.c reads it: when the simulation begins, then about once a second. */
static void report_progress(int64_t done, int64_t total)
{
    static double begin, next;
    double now = (double)clock() / CLOCKS_PER_SEC;
    if (!done)
        begin = next = now;
    if (now < next)
        return;
    next = now + 1.0;
    fprintf(stderr, "progress %lld %lld %.3f\n", (long long)done, (long long)total, now - begin);
}

static int read_all(struct text *out, struct err *err)
{
    char part[1 << 16];
    for (size_t size; (size = fread(part, 1, sizeof(part), stdin)) > 0;)
        text_append(out, part, (int64_t)size);
    return ferror(stdin) ? err_add_code(err, 74, "cannot read standard input") : 0;
}

static int simulate(bool raw, struct err *err)
{
    AUTORELEASE(text) struct text document = {0};
    AUTORELEASE(workload) struct workload workload = {0};
    AUTORELEASE(trace) struct trace trace = {0};
    if (read_all(&document, err) ||
        workload_read(&workload, "stdin", document.data, document.length, err))
        return -1;
    text_release(&document);
    return sim_run(&workload, report_progress, &trace, err) || trace_write(stdout, &trace, raw, err)
               ? -1
               : 0;
}

int main(int argc, char **argv)
{
    process_start();
    bool raw = argc == 2 && !strcmp(argv[1], "--raw");
    if (argc > 1 && !raw) {
        bool asked = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");
        fputs(help, asked ? stdout : stderr);
        return asked ? 0 : 64;
    }
    AUTORELEASE(err) struct err err = {0};
    if (!simulate(raw, &err))
        return 0;
    fprintf(stderr, "error: %s", err.text);
    return err.exit_code;
}
