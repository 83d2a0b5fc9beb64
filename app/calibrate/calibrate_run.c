#include "app/calibrate/calibrate_machine.h"

#include "app/process/launch.h"

struct budget budget_open(double seconds, bool strict)
{
    return (struct budget){.end = base_seconds(CLOCK_MONOTONIC) + seconds,
                           .seconds = seconds,
                           .strict = strict,
                           .terminal = isatty(STDERR_FILENO)};
}

void budget_part(struct budget *budget, const char *what, double share)
{
    double time = base_seconds(CLOCK_MONOTONIC);
    budget->what = what;
    budget->rounds = 0;
    budget->longest = 0;
    budget->part_end = time + share * fmax(budget->end - time, 0);
}

static void tell(const struct budget *budget, double left)
{
    if (budget->terminal)
        fprintf(stderr, "\r\033[Kmeasuring %s, round %d, at most %.0f s left", budget->what,
                budget->rounds, left);
    else if (budget->rounds == 1)
        fprintf(stderr, "measuring %s, at most %.0f s left\n", budget->what, left);
    fflush(stderr);
}

bool budget_next(struct budget *budget)
{
    double time = base_seconds(CLOCK_MONOTONIC);
    if (budget->rounds > 0) {
        budget->longest = fmax(budget->longest, time - budget->round_begin);
        if (time + budget->longest > budget->part_end)
            return false;
    }
    budget->rounds++;
    budget->round_begin = time;
    tell(budget, fmax(budget->end - time, 0));
    return true;
}

double budget_of_part(const struct budget *budget)
{
    return fmax(budget->part_end - base_seconds(CLOCK_MONOTONIC), 0);
}

void budget_close(struct budget *budget)
{
    double late = base_seconds(CLOCK_MONOTONIC) - budget->end;
    if (budget->terminal)
        fprintf(stderr, "\r\033[K");
    if (late > 0.2 * budget->seconds)
        fprintf(stderr, "it took %.0f s instead of %.0f s: one round of each is the least\n",
                budget->seconds + late, budget->seconds);
    *budget = (struct budget){0};
}

/* --- rounds --- */

/* Whether nothing is missing, and everything took time. */
static bool is_whole(const struct machine *round)
{
    bool good = round->trials > 0;
    for (int32_t i = 0; good && i < round->trials; i++) {
        const struct machine_trial *trial = &round->trial[i];
        good = trial->network && trial->steps > 0;
        for (int32_t s = 0; good && s < trial->steps; s++)
            good = trial->step[s].shape && trial->step[s].time_s > 0;
    }
    for (int32_t i = 0; good && i < round->copies; i++)
        good = round->copy[i].bytes > 0 && round->copy[i].time_s > 0;
    return good;
}

/* Keep the faster of two rounds in @known, and the other one in @again. */
static void merge_trial(struct machine_trial *known, struct machine_trial *again)
{
    struct machine_trial before = *known;
    if (again->time_s < before.time_s) {
        *known = *again;
        *again = before;
    }
    known->second_s = fmin(again->time_s, before.second_s);
    known->between_s = fmin(known->between_s, again->between_s);
}

/* What the first round had no time for stays out. */
static bool merge_round(struct machine *machine, const struct json *json)
{
    AUTORELEASE(machine) struct machine round = {0};
    if (!answer_read(&machine_columns, json, &round) || !is_whole(&round))
        return false;
    if (!machine->rounds) {
        *machine = round;
        round = (struct machine){0};
        for (int32_t i = 0; i < machine->trials; i++)
            machine->trial[i].second_s = INFINITY;
        return true;
    }
    for (int32_t i = 0; i < machine->trials && i < round.trials; i++)
        merge_trial(&machine->trial[i], &round.trial[i]);
    for (int32_t i = 0; i < machine->copies && i < round.copies; i++)
        machine->copy[i].time_s = fmin(machine->copy[i].time_s, round.copy[i].time_s);
    return round.copies == machine->copies;
}

static void add_words(struct launch *launch, const struct machine_options *options, double seconds,
                      double most)
{
    texts_add(&launch->words, "measure");
    texts_add(&launch->words, "--networks=%s", options->networks);
    texts_add(&launch->words, "--batch=%s", options->batches);
    texts_add(&launch->words, "--threads=%d", options->compute.threads);
    texts_add(&launch->words, "--device=%s", device_words[options->compute.device]);
    texts_add(&launch->words, "--precision=%s", dtype_names[options->dtype]);
    texts_add(&launch->words, "--repeats=%d", options->repeats);
    texts_add(&launch->words, "--limit=%d", (int)(1e3 * seconds) + 1);
    texts_add(&launch->words, "--most=%d", (int)(1e3 * most) + 1);
}

/* One round in about @seconds, and not beyond @most: @return its answer, or NULL. */
static struct json *run_round(const struct machine_options *options, double seconds, double most,
                              struct err *err)
{
    AUTORELEASE(launch) struct launch launch = {0};
    if (launch_keep(&launch, false, err) || launch_begin(&launch, 1, err))
        return NULL;
    add_words(&launch, options, seconds, most);
    int code = launch_run(&launch, err);
    if (code > 0) /* it has said why */
        err_exit(err, code);
    return code ? NULL : launch_read_json(&launch, err);
}

static double apart(const struct machine *machine)
{
    double most = 0;
    for (int32_t i = 0; i < machine->trials; i++)
        most = fmax(most, machine->trial[i].second_s / machine->trial[i].time_s - 1);
    return most;
}

static int check_agreement(const struct machine *machine, struct err *err)
{
    if (machine->apart <= MACHINE_DISTURBED)
        return 0;
    if (machine->rounds < 2)
        return err_add_code(err, 75, "one round took all of the time: give more with --budget");
    return err_add_code(
        err, 75,
        "disturbed: the two fastest of %d rounds are %.0f %% apart; other processes had %.0f %% of "
        "the processors, the host %.0f %%; try again when fewer other programs run",
        machine->rounds, 100 * machine->apart, 100 * machine->share.foreign,
        100 * machine->share.steal);
}

double machine_spread(const struct machine *machine)
{
    return isfinite(machine->apart) ? machine->apart : MACHINE_UNKNOWN;
}

/* What the budget had no time for is not in the file. */
static void tell_left_out(const struct machine *machine, const struct measure_list *list)
{
    int64_t most = 0;
    for (int32_t i = 0; i < machine->trials; i++)
        most = machine->trial[i].batch > most ? machine->trial[i].batch : most;
    if (machine->trials < list->networks * list->batches)
        fprintf(stderr, "no batch above %lld was measured: there was no time (--budget)\n",
                (long long)most);
}

int machine_measure(struct machine *machine, const struct machine_options *options,
                    const struct measure_list *list, struct budget *budget, struct err *err)
{
    struct processors before = processors_now();
    for (machine->apart = INFINITY;
         (machine->rounds < MACHINE_ROUNDS_LEAST ||
          (machine->rounds < MACHINE_ROUNDS_MOST && machine->apart > MACHINE_AGREE)) &&
         budget_next(budget);
         machine->rounds++) {
        double left = budget_of_part(budget); /* two rounds say more than one long one */
        AUTORELEASE(json)
        struct json *json = run_round(options, machine->rounds ? left : left / 3, left, err);
        bool good = json && merge_round(machine, json);
        if (!good && !err->count && !err->exit_code)
            err_add_code(err, 70, "foretrain-exec did not answer with its measurements");
        if (!good)
            return -1;
        machine->apart = apart(machine);
    }
    tell_left_out(machine, list);
    struct processors after = processors_now();
    machine->share = processors_between(&before, &after);
    return budget->strict ? check_agreement(machine, err) : 0;
}
