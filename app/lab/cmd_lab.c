
#include "app/cli/command.h"
#include "app/lab/lab.h"
#include "core/base/unit.h"

/* On stderr, since stdout belongs to the command. */
static void print_summary(const struct cabling *cabling, const struct lab_result *result)
{
    fprintf(stderr,
            "lab %s: %d hosts send %s together, this machine carried %s; %lld packets held back, "
            "%lld dropped, %lld TCP segments sent again\n",
            cabling->name, lab_hosts(cabling),
            unit_text(UNIT_BYTES_PER_SECOND, cabling->nic.bandwidth * lab_hosts(cabling)),
            unit_text(UNIT_BYTES_PER_SECOND, result->ceiling), (long long)result->overlimits,
            (long long)result->drops, (long long)result->retransmits);
}

struct lab_request {
    struct request head;
    bool verbose;
};

static int run_in(const struct platform *platform, const struct lab_request *request,
                  struct err *err)
{
    struct cabling cabling;
    struct lab_result result;
    if (cabling_read(platform, &cabling, err))
        return -1;
    struct launch command = {0};
    for (int32_t i = 1; i < request->head.argument.count; i++)
        launch_add(&command, "%s", request->head.argument.item[i]);
    int failed = lab_run(&cabling, &command, &result, err);
    launch_release(&command);
    if (failed)
        return -1;
    if (request->verbose)
        print_summary(&cabling, &result);
    return result.exit_code ? err_exit(err, result.exit_code) : 0; /* the command has said why */
}

static int lab(const void *record, struct text *out, struct err *err)
{
    const struct lab_request *request = record;
    AUTORELEASE(platform)
    struct platform *platform = platform_read(request->head.argument.item[0], err);
    return platform ? run_in(platform, request, err) : -1;
}

#define AT(member) offsetof(struct lab_request, member)

static const struct option options[] = {
    OPTION_ROW("verbose", 'v', OPTION_FLAG, AT(verbose),
               .help = "Say on standard error what was counted"),
    ROW_LAST};

const struct command command_lab = {
    .name = "lab",
    .synopsis = "PLATFORM [options] -- COMMAND...",
    .help = "run a command in a platform's network, built on this machine out of namespaces",
    .examples = "foretrain lab platforms/lab/flat-4.yaml -- mpirun hostname\n"
                "foretrain lab platforms/lab/flat-4.yaml -- on h0 ping -c 3 h3",
    RECORD(options, struct lab_request, NULL),
    TAKES(2, INT32_MAX),
    .run = lab,
};
