#include "app/cli/request.h"

#include <assert.h>

const char *const backend_words[] = {"analytic", "sim", NULL};
static_assert(sizeof(backend_words) / sizeof(*backend_words) == BACKEND_CHOICE_COUNT + 1,
              "a word per back end");

struct request request_default(void)
{
    return (struct request){
        .backend = -1,
        .algorithm = ALGORITHM_RING,
        .iterations = REQUEST_CHOOSE,
        .traced_ranks = 4,
        .ranks = 4,
        .repeats = 8,
        .image = 224,
        .shorter = 256,
        .traced = 4,
        .timeout = 30,
    };
}

#define AT(member) offsetof(struct request, member)

/* Without folding every rank draws its own noise; else all are as slow as the slowest is expected
 * to be, in each iteration. */
static bool draws_noise(const struct request *request, const struct noise *noise)
{
    bool noisy = noise->compute_cv > 0 || noise->straggler_fraction > 0;
    bool each_rank = request->grain == GRAIN_AUTO || request->grain == GRAIN_FULL;
    return noisy && each_rank && request->backend != BACKEND_ANALYTIC;
}

int32_t request_iterations(const struct request *request, const struct run *run)
{
    if (request->iterations != REQUEST_CHOOSE)
        return request->iterations;
    return run->input_workers == 0 && !draws_noise(request, &run->noise) ? 1 : 2;
}

const struct option option_help_row = {"help", 'h', OPTION_FLAG, AT(help), .help = "Print this"};
const struct option option_version_row = {"version", 0, OPTION_FLAG, AT(version),
                                          .help = "Print the version"};
const struct option option_set_row = {"set",
                                      's',
                                      OPTION_TEXTS,
                                      AT(set),
                                      "KEY=VALUE",
                                      NULL,
                                      "Override one key of the scenario; may be repeated"};
const struct option option_json_row = {"json", 'j', OPTION_FLAG, AT(json),
                                       .help = "Print one JSON object"};
const struct option option_backend_row = {"backend",
                                          'b',
                                          OPTION_WORD,
                                          AT(backend),
                                          NULL,
                                          backend_words,
                                          "Closed form, or simulation (default when installed)"};
const struct option option_backends_row = {
    "backend",
    'b',
    OPTION_TEXT,
    AT(backends),
    "LIST",
    NULL,
    "analytic, sim (default when installed), exec (really run), or several: sim,exec"};
const struct option option_lab_row = {
    "lab",
    0,
    OPTION_TEXT,
    AT(lab),
    "PLATFORM",
    NULL,
    "The platform, built on this machine for exec to run in (see `lab`)"};
const struct option option_order_row = {
    "order",
    0,
    OPTION_WORD,
    AT(order),
    NULL,
    rank_order_names,
    "Ranks fill nodes along rows or columns of the grid (default: row)"};
const struct option option_repeats_row = {
    "repeats",
    0,
    OPTION_INTEGER,
    AT(repeats),
    "N",
    NULL,
    "Undisturbed runs to measure; the lower quartile counts (default: 8)"};
const struct option option_gradients_row = {
    "gradients",
    0,
    OPTION_WORD,
    AT(gradients),
    NULL,
    dtype_names,
    "What they travel in while they are measured; --bytes are those that travel (default: fp32)"};
const struct option option_grain_row = {"grain",
                                        'g',
                                        OPTION_WORD,
                                        AT(grain),
                                        NULL,
                                        grain_names,
                                        "How finely the simulator looks (default: auto)"};
const struct option option_iterations_row = {
    "iterations",
    'i',
    OPTION_INTEGER,
    AT(iterations),
    "N",
    NULL,
    "Training steps to walk; the last counts (default: 1, or 2 with input or noise)"};
const struct option option_traced_ranks_row = {
    "traced-ranks",
    0,
    OPTION_INTEGER,
    AT(traced_ranks),
    "N",
    NULL,
    "Ranks whose steps are recorded; 0: all (default: 4)"};
const struct option option_trace_row = {"trace",
                                        't',
                                        OPTION_TEXT,
                                        AT(trace),
                                        "FILE",
                                        NULL,
                                        "Write the last phase's steps as Chrome/Kineto JSON"};
const struct option option_paje_row = {
    "paje", 0, OPTION_TEXT, AT(paje), "FILE", NULL, "Write the last phase's steps as a Paje trace"};
const struct option option_phase_row = {
    "phase", 'p', OPTION_INTEGER, AT(phase), "N", NULL, "Which phase, from 1 (default: the last)"};
const struct option option_baseline_row = {"baseline", 0, OPTION_FLAG, AT(baseline),
                                           .help = "The baseline instead of a phase"};
const struct option option_no_noise_row = {"no-noise", 0, OPTION_FLAG, AT(no_noise),
                                           .help = "Leave jitter and slow ranks out"};
const struct option option_verbose_row = {"verbose", 'v', OPTION_FLAG, AT(verbose),
                                          .help = "Say on standard error what was counted"};
const struct option option_explain_row = {"explain", 'e', OPTION_FLAG, AT(explain),
                                          .help = "Print every value and where it comes from"};
const struct option option_assumed_row = {"assumed", 0, OPTION_FLAG, AT(assumed),
                                          .help = "Only the numbers that are assumed"};
const struct option option_manual_row = {"man", 0, OPTION_FLAG, AT(manual),
                                         .help = "Print the keys as text for a manual page"};
const struct option option_image_row = {"image",
                                        0,
                                        OPTION_INTEGER,
                                        AT(image),
                                        "PIXELS",
                                        NULL,
                                        "Height and width of the input (default: 224)"};
const struct option option_platform_row = {
    "platform", 0, OPTION_TEXT, AT(platform), "NAME", NULL, "A name in platforms/ or a file"};
const struct option option_grid_row = {
    "grid", 0, OPTION_TEXT, AT(grid), "CxR", NULL, "Columns x rows of ranks: 64x64"};
const struct option option_nodes_row = {
    "nodes", 'n', OPTION_INTEGER, AT(nodes), "N", NULL, "Nodes, when no grid says how many ranks"};
const struct option option_ranks_row = {
    "ranks", 0, OPTION_INTEGER, AT(ranks), "N", NULL, "Ranks taking part (default: 4)"};
const struct option option_algorithm_row = {"algorithm",
                                            'a',
                                            OPTION_WORD,
                                            AT(algorithm),
                                            NULL,
                                            algorithm_names,
                                            "How to all-reduce (default: ring)"};
const struct option option_bytes_row = {
    "bytes",
    0,
    OPTION_TEXT,
    AT(bytes),
    "SIZES",
    NULL,
    "100MB, a list 1MB,10MB or a range 1MB..64MB:x2 (default: 100MB)"};
const struct option option_collective_row = {"collective",
                                             0,
                                             OPTION_TEXT,
                                             AT(bytes),
                                             "SIZE",
                                             NULL,
                                             "One all-reduce of that size instead of a JOB"};
const struct option option_keep_row = {
    "keep", 'k', OPTION_TEXT, AT(keep), "DIR", NULL, "Keep what each row was mapped to in DIR"};
const struct option option_from_row = {
    "from", 'f', OPTION_TEXT, AT(from), "FILE", NULL, "A table of runs, as `published` reads it"};
const struct option option_to_row = {
    "to", 0, OPTION_TEXT, AT(to), "DIR", NULL, "Write a profile per software to DIR"};
const struct option option_without_row = {
    "without",
    0,
    OPTION_TEXT,
    AT(without),
    "FAMILY",
    NULL,
    "Predict the runs of that device family instead of fitting to them"};
