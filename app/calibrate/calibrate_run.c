#include "app/calibrate/calibrate_run.h"

#include "app/cli/measure_list.h"
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

/* --- what foretrain-exec answers --- */

static bool take_integer(const struct json *json, const char *key, int64_t *value)
{
    return json_as_integer(json_get(json, key), value);
}

static bool take_real(const struct json *json, const char *key, double *value)
{
    return json_as_real(json_get(json, key), value);
}

static bool read_step(const struct json *json, struct machine_step *step)
{
    int64_t kernels = 0;
    const char *shape = json_as_text(json_get(json, "shape"));
    step->op = base_find_word(json_as_text(json_get(json, "op")), compute_op_names);
    step->layer = base_find_word(json_as_text(json_get(json, "layer")), layer_op_names);
    step->dtype = base_find_word(json_as_text(json_get(json, "dtype")), dtype_names);
    bool good =
        shape && step->op >= 0 && step->layer >= 0 && step->dtype >= 0 &&
        take_integer(json, "amount", &step->amount) && take_integer(json, "flops", &step->flops) &&
        take_integer(json, "bytes", &step->bytes) && take_integer(json, "kernels", &kernels) &&
        take_real(json, "time_s", &step->time_s) && take_real(json, "spread", &step->spread) &&
        step->time_s > 0;
    step->kernels = (int32_t)kernels;
    step->shape = good ? base_copy(shape) : NULL;
    return good;
}

static void release_trial(struct machine_trial *trial)
{
    for (int32_t i = 0; i < trial->steps; i++)
        free(trial->step[i].shape);
    free(trial->step);
    free(trial->network);
    *trial = (struct machine_trial){0};
}

static bool read_trial(const struct json *json, struct machine_trial *trial)
{
    int64_t image = 0;
    const struct json *steps = json_get(json, "steps");
    const char *network = json_as_text(json_get(json, "network"));
    bool good =
        network && take_integer(json, "image", &image) &&
        take_integer(json, "batch", &trial->batch) && take_real(json, "time_s", &trial->time_s) &&
        take_real(json, "wall_s", &trial->wall_s) && take_real(json, "input_s", &trial->input_s) &&
        take_real(json, "between_s", &trial->between_s) && json_count_items(steps) > 0;
    for (int64_t i = 0; good && i < json_count_items(steps); i++) {
        trial->step = base_room(trial->step, trial->steps, sizeof(*trial->step));
        good = read_step(json_item(steps, i), &trial->step[trial->steps]);
        trial->steps += good;
    }
    trial->network = base_copy(network ? network : "");
    trial->image = (int32_t)image;
    trial->second_s = INFINITY;
    return good;
}

/* --- rounds --- */

/* Keep the faster of two rounds; takes ownership of @trial. */
static void merge_trial(struct machine_trial *known, struct machine_trial trial)
{
    bool quicker = trial.time_s < known->time_s;
    double second = fmin(fmax(trial.time_s, known->time_s), known->second_s);
    double between = fmin(trial.between_s, known->between_s);
    struct machine_trial slower = quicker ? *known : trial;
    *known = quicker ? trial : *known;
    known->second_s = second;
    known->between_s = between;
    release_trial(&slower);
}

static bool read_copies(const struct json *json, struct machine *machine)
{
    int64_t count = json_count_items(json);
    bool first = !machine->copy, good = count < INT32_MAX;
    if (good && first) {
        machine->copies = (int32_t)count;
        machine->copy = base_alloc(count, sizeof(*machine->copy));
    }
    good = good && count == machine->copies;
    for (int64_t i = 0; good && i < count; i++) {
        struct machine_copy *known = &machine->copy[i], copy;
        const struct json *item = json_item(json, i);
        good = take_integer(item, "bytes", &copy.bytes) &&
               take_real(item, "time_s", &copy.time_s) && copy.bytes > 0 && copy.time_s > 0;
        if (good && (first || copy.time_s < known->time_s))
            *known = copy;
    }
    return good;
}

static bool read_answer(const struct json *json, struct machine *machine)
{
    const struct json *trials = json_get(json, "trials");
    const char *fusion = json_as_text(json_get(json, "fusion"));
    int64_t count = json_count_items(trials), threads = 0;
    bool good = count > 0 && count < INT32_MAX && fusion && take_integer(json, "threads", &threads);
    if (good && !machine->trial) {
        machine->trial = base_alloc(count, sizeof(*machine->trial));
        machine->fusion = base_copy(fusion);
        machine->threads = (int32_t)threads;
    }
    for (int64_t i = 0; good && i < count; i++) {
        struct machine_trial trial = {0};
        good = read_trial(json_item(trials, i), &trial);
        if (good && i < machine->trials)
            merge_trial(&machine->trial[i], trial);
        else if (good && !machine->rounds)
            machine->trial[machine->trials++] = trial;
        else /* the first round had no time for it */
            release_trial(&trial);
    }
    return good && read_copies(json_get(json, "copies"), machine);
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
static void tell_left_out(const struct machine *machine, const struct machine_options *options)
{
    AUTORELEASE(measure_list) struct measure_list list = {0};
    AUTORELEASE(err) struct err ignored = {0};
    int64_t most = 0;
    for (int32_t i = 0; i < machine->trials; i++)
        most = machine->trial[i].batch > most ? machine->trial[i].batch : most;
    if (!measure_list_read(&list, options->networks, options->batches, &ignored) &&
        machine->trials < list.networks * list.batches)
        fprintf(stderr, "no batch above %lld was measured: there was no time (--budget)\n",
                (long long)most);
}

int machine_measure(struct machine *machine, const struct machine_options *options,
                    struct budget *budget, struct err *err)
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
        bool good = json && read_answer(json, machine);
        if (!good && !err->count && !err->exit_code)
            err_add_code(err, 70, "foretrain-exec did not answer with its measurements");
        if (!good)
            return -1;
        machine->apart = apart(machine);
    }
    tell_left_out(machine, options);
    struct processors after = processors_now();
    machine->share = processors_between(&before, &after);
    return budget->strict ? check_agreement(machine, err) : 0;
}

void machine_release(struct machine *machine)
{
    for (int32_t i = 0; i < machine->trials; i++)
        release_trial(&machine->trial[i]);
    free(machine->trial);
    free(machine->copy);
    free(machine->fusion);
    *machine = (struct machine){0};
}
