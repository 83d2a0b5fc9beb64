#include "app/cli/request.h"

#include "core/scenario/scenario_change.h"

const char *const device_words[] = {"cpu", "cpu-naive", "cuda", "replay", NULL};

#define AT(member) offsetof(struct request, member)

const struct option option_started_row = {
    "ranks",
    'n',
    OPTION_INTEGER,
    AT(started),
    "N",
    NULL,
    "Ranks to start on this machine (default: the devices of the job)"};
const struct option option_device_row = {"device",
                                         'd',
                                         OPTION_WORD,
                                         AT(device),
                                         NULL,
                                         device_words,
                                         "What to compute on: oneDNN, plain loops for checking, "
                                         "an NVIDIA GPU per rank, or nothing, in the time "
                                         "predicted for the platform"};
const struct option option_time_scale_row = {
    "time-scale",
    0,
    OPTION_TEXT,
    AT(time_scale),
    "FACTOR",
    NULL,
    "With --device replay: this much of the predicted times (default: 1)"};
const struct option option_threads_row = {
    "threads",
    0,
    OPTION_INTEGER,
    AT(threads),
    "N",
    NULL,
    "Threads per rank (default: the cores of the machine, shared out)"};
const struct option option_steps_row = {
    "steps",
    0,
    OPTION_INTEGER,
    AT(steps),
    "N",
    NULL,
    "Stop after N steps, with a checkpoint where there is an --out"};
const struct option option_traced_row = {
    "traced-steps",
    0,
    OPTION_INTEGER,
    AT(traced),
    "N",
    NULL,
    "Steps that --trace and --spans record, after the first two (default: 4)"};
const struct option option_timeout_row = {
    "timeout",
    0,
    OPTION_INTEGER,
    AT(timeout),
    "SECONDS",
    NULL,
    "End the job when a rank does not answer for so long; 0: never (default: 30)"};
const struct option option_quiet_row = {"quiet", 'q',  OPTION_FLAG,       AT(quiet),
                                        NULL,    NULL, "No progress line"};
const struct option option_dry_run_row = {"dry-run",
                                          0,
                                          OPTION_FLAG,
                                          AT(dry_run),
                                          NULL,
                                          NULL,
                                          "Print what would be run, and the memory it takes"};
const struct option option_strict_data_row = {
    "strict-data",
    0,
    OPTION_FLAG,
    AT(strict_data),
    NULL,
    NULL,
    "End training at the first image that cannot be read"};
const struct option option_directory_row = {
    "out", 'o', OPTION_TEXT, AT(directory), "DIR", NULL, "Directory for checkpoints and log files"};
const struct option option_overwrite_row = {
    "overwrite",
    0,
    OPTION_FLAG,
    AT(overwrite),
    NULL,
    NULL,
    "Remove the run that is in --out, all its checkpoints and log files, and start anew"};
const struct option option_resume_row = {
    "resume",
    'r',
    OPTION_TEXT,
    AT(resume),
    "CKPT",
    NULL,
    "Go on from a checkpoint, or from the newest of a directory"};
const struct option option_allow_change_row = {"allow-change",
                                               0,
                                               OPTION_TEXTS,
                                               AT(allow_change),
                                               "KEY",
                                               NULL,
                                               "With --resume: a key of the job, or what stands "
                                               "above some, that may have changed; repeatable"};
const struct option option_spans_row = {"spans",
                                        0,
                                        OPTION_TEXT,
                                        AT(spans),
                                        "FILE",
                                        NULL,
                                        "Write when each step ran on each rank, as text"};
const struct option option_train_trace_row = {
    "trace",
    't',
    OPTION_TEXT,
    AT(trace),
    "FILE",
    NULL,
    "Write the traced steps of all ranks as Chrome/Kineto JSON"};
const struct option option_ensemble_row = {
    "ensemble",
    0,
    OPTION_FLAG,
    AT(ensemble),
    NULL,
    NULL,
    "All that are named vote: their class probabilities are averaged"};
const struct option option_job_row = {
    "job",
    0,
    OPTION_TEXT,
    AT(job),
    "JOB",
    NULL,
    "The scenario (default: job.yaml beside the first checkpoint)"};

int request_check_run(const struct request *request, struct err *err)
{
    if (request->overwrite && !request->directory)
        return err_add_code(err, 64, "--overwrite has no effect without --out");
    if (request->overwrite && request->resume)
        return err_add_code(err, 64,
                            "--overwrite starts anew and --resume goes on: leave out one of them");
    if (request->allow_change.count > 0 && !request->resume)
        return err_add_code(err, 64, "--allow-change has no effect without --resume");
    for (int32_t i = 0; i < request->allow_change.count; i++)
        if (scenario_check_key(request->allow_change.item[i], err))
            return -1;
    return 0;
}
