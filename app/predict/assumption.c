#include "app/predict/assumption.h"

#include "core/backend/analytic.h"
#include "core/backend/cards.h"
#include "core/backend/cost.h"
#include "core/platform/device_table.h"
#include "core/schedule/pipeline.h"

enum { PROBE_LIMIT = 16384 /* devices: above, a closed form for each number would be felt */ };

/* ---- assumed numbers ---- */

/* One number, by its path, and what it is made. */
struct change {
    const char *path;
    double factor;
};

static double change_one(void *context, const struct quantity *quantity, enum unit unit)
{
    const struct change *change = context;
    return strcmp(quantity->path, change->path) ? 1 : change->factor;
}

/* The last phase, or the baseline. */
static const struct task *task_of(const struct prediction *prediction, int32_t phase)
{
    return phase == JOB_LAST ? prediction_last(prediction)
                             : &prediction->task[baseline_of(prediction)];
}

/* The closed form of one task's step without noise, with the platform as it is now; what is
 * assumed changes no schedule. */
static double closed_form(const struct prediction *prediction, int32_t phase)
{
    struct point point = {.schedule = task_of(prediction, phase)->point.schedule};
    AUTORELEASE(trace) struct trace trace = {0};
    AUTORELEASE(err) struct err err = {0};
    double seconds = NAN;
    if (!job_point(&prediction->job, phase, &point, &err)) {
        point.run.noise = (struct noise){0};
        if (!backend_analytic.run(&point.run, point.schedule, &trace, &err))
            seconds = trace_step_time(&trace);
    }
    point.schedule = NULL; /* the task's */
    point_release(&point);
    return seconds;
}

/* With the platform as it is read, which the answer may have already. */
static double closed_form_read(const struct prediction *prediction, int32_t phase)
{
    const struct trace *quiet = task_of(prediction, phase)->quiet;
    bool known = quiet->iterations == 1 && !strcmp(quiet->backend, backend_analytic.name);
    return known ? trace_step_time(quiet) : closed_form(prediction, phase);
}

/* What list_assumed() carries along. */
struct listing {
    struct prediction *prediction;
    double last, baseline; /* steps [s]; 0: not found yet */
    bool same;             /* the baseline's is that of the last phase */
};

static bool is_set(const struct quantity *quantity)
{
    return quantity->source && !strcmp(quantity->source, "--set");
}

/* Whether the answer would move if @quantity were half as good: a smaller bandwidth, a longer time;
 * as nobody here knows what --set replaced, that counts unless it could be anything.
 * A number that is zero stands for what is left out. */
static bool plays_a_part(struct listing *listing, const struct quantity *quantity, enum unit unit)
{
    const struct job *job = &listing->prediction->job;
    if (!(quantity->value > 0) || listing->prediction->result.devices > PROBE_LIMIT ||
        failing_depends_on(listing->prediction, quantity) ||
        !strcmp(quantity->path, "device.memory") || /* not of the time, but of what fits */
        (!strcmp(quantity->path, "transport.eager") &&
         !strcmp(listing->prediction->result.backend, "sim")))
        return true;
    if (!strcmp(quantity->path, "device.jitter")) /* the closed form below has no noise */
        return job->resolved.noise.compute_cv == quantity->value;
    double worse = is_set(quantity) ? 1000 : 2;
    struct change change = {quantity->path, unit == UNIT_SECONDS ? worse : 1 / worse};
    platform_scale(job->platform, change_one, &change);
    bool moves = closed_form(listing->prediction, JOB_LAST) != listing->last;
    bool asks = !moves && !listing->same;
    double baseline = asks ? closed_form(listing->prediction, JOB_BASELINE) : 0;
    change.factor = 1 / change.factor;
    platform_scale(job->platform, change_one, &change);
    if (asks && listing->baseline == 0)
        listing->baseline = closed_form_read(listing->prediction, JOB_BASELINE);
    return moves || (asks && baseline != listing->baseline);
}

static void add_assumed(void *context, const struct quantity *quantity, enum unit unit)
{
    struct listing *listing = context;
    struct result *result = &listing->prediction->result;
    if (quantity->provenance != PROVENANCE_ASSUMED)
        return;
    if (!plays_a_part(listing, quantity, unit)) {
        if (is_set(quantity))
            texts_add(&result->warning, "--set %s has no effect on this job", quantity->path);
        return;
    }
    struct text text = {0};
    text_add(&text, "%s = %s", quantity->path, unit_text(unit, quantity->value));
    if (quantity->source)
        text_add(&text, " (%s)", quantity->source);
    texts_take(&result->assumption, text.data);
}

static void list_assumed(struct prediction *prediction)
{
    const struct job *job = &prediction->job;
    struct listing listing = {.prediction = prediction};
    if (prediction->result.devices <= PROBE_LIMIT) {
        listing.last = closed_form_read(prediction, JOB_LAST);
        listing.same =
            task_of(prediction, JOB_BASELINE)->quiet == task_of(prediction, JOB_LAST)->quiet;
    }
    platform_each_quantity(job->platform, add_assumed, &listing);
}

/* ---- everything else ---- */

/* The share of computing time in measured steps, and the source of the measurement. */
static void add_measured(struct prediction *prediction)
{
    const struct device *device = &prediction->job.platform->device;
    const struct schedule *schedule = prediction_last(prediction)->point.schedule;
    double all = 0, known = 0;
    if (device->measured.steps.count == 0)
        return;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        double seconds =
            step->kind == STEP_COMPUTE ? step_runs(step) * cost_compute(device, step) : 0;
        all += seconds;
        if (step->kind == STEP_COMPUTE && device_measured(device, step) >= 0)
            known += seconds;
    }
    texts_add(&prediction->result.assumption,
              "%.0f %% of the computing time is of steps measured one by one, the rest of the "
              "roofline (%s)",
              all > 0 ? 100 * known / all : 0,
              device->measured.source ? device->measured.source : "no source");
}

/* A GPU is as fast as its software lets it be. */
static void add_no_software(struct prediction *prediction, const struct device *device)
{
    if (device->compute_capability && device->measured.steps.count == 0 &&
        device->math_efficiency.provenance != PROVENANCE_ASSUMED)
        texts_add(
            &prediction->result.assumption,
            "no cluster.software is given: kernels are as fast as the device file says (%s)%s",
            device->math_efficiency.source,
            prediction->job.resolved.noise.compute_cv > 0
                ? ""
                : ", and no device is slower than another");
}

/* All-reduces that begin earlier than in the runs that its profile was fitted to. */
static void add_earlier(struct prediction *prediction, const struct software *software)
{
    const struct job *job = &prediction->job;
    if (software->overlap != OVERLAP_NONE || prediction->result.devices < 2 ||
        job->scenario.allreduce.overlap != OVERLAP_BACKWARD || job->resolved.all_reduces < 2)
        return;
    texts_add(&prediction->result.assumption,
              "software %s sums gradients after the backward pass, in %lld all-reduce%s a step; "
              "those of this job begin during it (allreduce.overlap)",
              software->name, (long long)software->groups, base_plural(software->groups));
}

/* Numbers that another software or other devices showed. */
static void add_software(struct prediction *prediction)
{
    const struct software *software = prediction->job.software;
    const struct device *known = &prediction->job.platform->device;
    const char *device = known->name;
    const struct software_efficiency *fit = software ? software_find_fit(software, device) : NULL;
    if (!software)
        add_no_software(prediction, known);
    else if (fit->efficiency.path)
        add_earlier(prediction, software);
    if (software && !scenario_is_given(&prediction->job.scenario, "cluster.software"))
        texts_add(&prediction->result.assumption,
                  "no cluster.software is given: kernels are as fast as under %s", software->name);
    if (prediction->job.without_layout)
        texts_add(&prediction->result.assumption,
                  "software %s is of convolutions' layout: kernels of this network, most of whose "
                  "work is none of theirs, are as fast as under %s",
                  prediction->job.scenario.cluster.software, software->name);
    if (fit && fit->efficiency.path && fit->rows == 0)
        texts_add(&prediction->result.assumption,
                  "software %s has no run on %s: its efficiency is %.4g %% (%s)", software->name,
                  device, 100 * fit->efficiency.value, fit->efficiency.source);
}

/* What is known of other networks is less for those with experts. */
static void add_experts(struct prediction *prediction)
{
    const struct software *software = prediction->job.software;
    if (software && software->experts.path && model_has_experts(prediction->job.model))
        texts_add(&prediction->result.assumption,
                  "software %s: networks with experts reach %.4g %% of the rates of its kernels "
                  "(%s)",
                  software->name, 100 * software->experts.value, software->experts.source);
}

/* Frameworks let convolutions in fp32 use matrix units, which round what they read to TF32. */
static void add_tf32(struct prediction *prediction)
{
    enum { AMPERE = 80 };
    const struct device *device = &prediction->job.platform->device;
    enum dtype dtype = prediction->job.scenario.model.compute;
    bool rounded =
        device_peak(device, dtype, PRODUCTS_COMPUTE, KERNEL_GEMM) > device->peak[dtype].value;
    if (dtype == DTYPE_FP32 && device->compute_capability >= AMPERE)
        texts_add(&prediction->result.assumption, "compute: fp32 is %s",
                  rounded ? "tf32 in convolutions and matrix products, as the software has it"
                          : "single precision throughout; with TF32, as PyTorch computes "
                            "convolutions unless told otherwise, this device is several times as "
                            "fast");
}

/* Images come from somewhere. */
static void add_input(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    if (prediction->job.scenario.input.workers || !prediction->job.scenario.training.dataset)
        return;
    texts_add(&result->assumption,
              "no input is described (input.workers, input.rate): each node is given %s",
              unit_text(result->images_unit, result->images_per_s / result->nodes));
}

/* Time before the first step. */
static void add_startup(struct prediction *prediction)
{
    if (!scenario_is_given(&prediction->job.scenario, "training.startup"))
        texts_add(&prediction->result.assumption,
                  "nothing is said of the start-up (training.startup): it takes no time");
}

/* ---- what the owner of a network may know, and a draft does not ---- */

static void find_nic(void *context, const struct quantity *quantity, enum unit unit)
{
    const struct quantity **nic = context;
    (void)unit;
    if (!strcmp(quantity->path, "network.nic.bandwidth"))
        *nic = quantity;
}

static void add_step(struct prediction *prediction, const char *what, double now, double then)
{
    if (fabs(then / now - 1) < 0.01)
        return;
    texts_add(&prediction->result.assumption, "%s a step takes %s, %+.0f %%", what,
              unit_text(UNIT_SECONDS, then), 100 * (then / now - 1));
}

static void add_unknown_network(struct prediction *prediction)
{
    const struct job *job = &prediction->job;
    const struct quantity *nic = NULL;
    platform_each_quantity(job->platform, find_nic, &nic);
    if (!nic || nic->provenance != PROVENANCE_ASSUMED || prediction->result.nodes < 2 ||
        prediction->result.devices > PROBE_LIMIT)
        return;
    double now = closed_form_read(prediction, JOB_LAST), then = now;
    if (job->platform->fabric == FABRIC_INFINIBAND) {
        bool sharp = job->platform->nccl.sharp;
        job->platform->nccl.sharp = true;
        then = closed_form(prediction, JOB_LAST);
        job->platform->nccl.sharp = sharp;
    }
    add_step(prediction, "the network's switches do not reduce (nccl.sharp); where they do", now,
             then);
    struct change change = {"network.nic.efficiency", platform_staging(job->platform)};
    platform_scale(job->platform, change_one, &change);
    then = closed_form(prediction, JOB_LAST);
    change.factor = 1 / change.factor;
    platform_scale(job->platform, change_one, &change);
    add_step(prediction,
             "messages need not pass through host memory (network.nic.efficiency); where they do",
             now, then);
}

/* Which nodes a scheduler gives, and how messages find their way among uplinks. */
static void add_placement(struct prediction *prediction)
{
    const struct job *job = &prediction->job;
    if (prediction->result.nodes < 2 || prediction->result.devices > PROBE_LIMIT ||
        !platform_uplinks(job->platform, 0))
        return;
    if (job->platform->placement == PLACEMENT_SCATTERED)
        return;
    double now = closed_form_read(prediction, JOB_LAST);
    job->platform->placement = PLACEMENT_SCATTERED;
    double then = closed_form(prediction, JOB_LAST);
    job->platform->placement = PLACEMENT_CONTIGUOUS;
    texts_add(&prediction->result.assumption,
              "network.placement = contiguous (the job's nodes are neighbours, and their messages "
              "share the uplinks as network.routing says)");
    add_step(prediction, "network.placement: where a scheduler gives any nodes (scattered)", now,
             then);
}

/* Numbers of 16 bits are converted for messages, which costs about as much as they save where ranks
 * communicate through memory. */
static void add_payload(struct prediction *prediction)
{
    int32_t measured = prediction->job.platform->transport.payload;
    int32_t travels = prediction->job.scenario.model.gradients;
    if (measured < 0 || measured == travels || prediction->result.devices < 2)
        return;
    const char *conversion = measured == DTYPE_FP32  ? "whose conversion is not in the prediction"
                             : travels == DTYPE_FP32 ? "without the conversion in the prediction"
                                                     : "whose conversion is another";
    texts_add(&prediction->result.assumption,
              "links were measured with gradients in %s; those of the job travel in %s, %s: "
              "foretrain calibrate cluster --gradients %s",
              dtype_names[measured], dtype_names[travels], conversion, dtype_names[travels]);
}

/* Assumes equal turns, and no cost of switching between ranks. */
static void add_turns(struct prediction *prediction)
{
    const struct point *last = &prediction_last(prediction)->point;
    int32_t cores = platform_cores(prediction->job.platform, last->devices_per_node);
    if (cores > 0)
        texts_add(&prediction->result.assumption,
                  "%d ranks of a node take turns on %d cores, each as long as the others",
                  last->devices_per_node, cores);
}

/* Blocks and words that ranks cannot share evenly. */
static void add_uneven(struct prediction *prediction)
{
    const struct job *job = &prediction->job;
    int64_t words = job->model->classes, unit = scenario_tensor(&job->scenario);
    AUTORELEASE(pipeline) struct pipeline cut = {0};
    AUTORELEASE(err) struct err ignored = {0};
    if (!pipeline_build(&cut, job->model, &job->scenario, &ignored) && cut.blocks % cut.parts)
        texts_add(&prediction->result.assumption,
                  "%d blocks in %d parts of the pipeline: at both ends, the last part first, one "
                  "fewer than the %d of others (parallel.blocks, parallel.balance)",
                  cut.blocks, cut.parts, cut.blocks / cut.parts + 1);
    if (words % (8 * unit) && !model_reads_pictures(job->model) &&
        job->platform->device.compute_capability) /* rows at no multiples of 16 bytes */
        texts_add(&prediction->result.assumption,
                  "the vocabulary of %lld is not padded; Megatron-LM computes one of %lld, which "
                  "may be faster (model.vocab)",
                  (long long)words, (long long)((words / (128 * unit) + 1) * 128 * unit));
}

/* A global batch that the devices cannot share evenly. */
static void add_rounding(struct prediction *prediction, int32_t index)
{
    const struct field_list *list = &prediction->job.scenario.training.phase;
    int64_t asked = ((const struct scenario_phase *)list->item)[index].global_batch;
    const struct phase *phase = &prediction->job.resolved.plan.phase[index];
    if (asked && asked != phase->global_batch)
        texts_add(&prediction->result.assumption,
                  "phase %d: the global batch of %lld is rounded to %lld", index + 1,
                  (long long)asked, (long long)phase->global_batch);
}

/* More all-reduces than tensors, impossible where a framework keeps tensors whole, is a warning. */
static void add_cut(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct resolved *resolved = &prediction->job.resolved;
    texts_take(resolved->all_reduces > resolved->tensors ? &result->warning : &result->assumption,
               resolved_cut_text(resolved));
}

const char *const batch_known_words[] = {"converges", "beyond all runs", "not known", NULL};

/* The tables of `show convergence` are of this network. */
bool batch_has_runs(const struct scenario *scenario)
{
    bool known = !strcmp(scenario->model.network, "resnet50") &&
                 scenario->training.optimizer <= OPTIMIZER_LARS;
    return scenario->training.target > 0 || (known && scenario->training.dataset);
}

enum batch_known batch_known(const struct prediction *prediction)
{
    const struct scenario *scenario = &prediction->job.scenario;
    const struct plan *plan = &prediction->job.resolved.plan;
    bool to_target = scenario->training.target > 0;
    struct convergence curve = {0};
    if (!batch_has_runs(scenario))
        return BATCH_NOT_KNOWN;
    if (to_target)
        curve = scenario_convergence(scenario);
    for (int32_t i = 0; i < plan->phase_count; i++)
        if (to_target ? convergence_is_outside(&curve, plan->phase[i].global_batch)
                      : plan->phase[i].global_batch > convergence_largest())
            return BATCH_BEYOND;
    return BATCH_CONVERGES;
}

/* Where the epochs to a target come from. */
static void add_recipe(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct scenario *scenario = result->scenario;
    if (!(scenario->training.target > 0))
        return;
    const char *recipe = scenario->training.recipe;
    struct convergence curve = scenario_convergence(scenario);
    bool lars = recipe && convergence_is_lars(recipe);
    bool same = lars == (scenario->training.optimizer == OPTIMIZER_LARS);
    texts_take(&result->assumption,
               recipe ? base_format("epochs to the target: as runs of recipe %s needed them, with "
                                    "%s%s%s (foretrain show convergence)",
                                    recipe, lars ? "LARS" : "SGD",
                                    same ? "" : "; the optimizer of this job is ",
                                    same ? "" : optimizer_names[scenario->training.optimizer])
                      : base_copy("epochs to target: fitted to the points in the job"));
    if (result->plan.phase_count > 1)
        texts_add(&result->assumption,
                  "an epoch with batch B is 1 / E(B) of the way to a target that takes E(B) epochs "
                  "with it: a model that no published run checks");
    for (int32_t i = 0; i < result->plan.phase_count; i++)
        if (convergence_is_outside(&curve, result->plan.phase[i].global_batch))
            texts_add(&result->warning,
                      "phase %d: %lld images a step are outside of what the recipe knows; its "
                      "epochs go on by E0 (1 + B / %.0f)",
                      i + 1, (long long)result->plan.phase[i].global_batch, curve.fit.batch);
}

/* Tokens a step of DeepSeek-V3, 15360 sequences of 4096, the most of a published run that we know.
 * Source: arXiv 2412.19437, section 4.2. */
enum { MOST_TOKENS = 15360 * 4096 };

/* Epochs in the job, with more inputs in a step than any run is known to have learned with. */
static void add_batch(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    const struct scenario *scenario = result->scenario;
    int64_t tokens = scenario->model.tokens; /* of a sequence; 0: of pictures */
    int64_t known = tokens ? MOST_TOKENS / tokens : convergence_largest();
    if (scenario->training.target > 0)
        return;
    if (batch_known(prediction) == BATCH_NOT_KNOWN && scenario->training.dataset)
        texts_add(&result->assumption,
                  "epochs are as the job gives them, whatever its batch: which batch converges is "
                  "not known for %s with %s",
                  scenario->model.network, optimizer_names[scenario->training.optimizer]);
    for (int32_t i = 0; i < result->plan.phase_count; i++)
        if (result->plan.phase[i].global_batch > known)
            texts_add(&result->warning,
                      "phase %d: its epochs are as the job gives them, with %lld %s a step; "
                      "published runs had at most %lld%s",
                      i + 1, (long long)result->plan.phase[i].global_batch,
                      prediction->job.resolved.inputs, (long long)known,
                      batch_has_runs(scenario) ? ", and training.target takes epochs from the batch"
                                               : "");
}

/* NCCL's times on other numbers of nodes than it was measured on. */
static void add_extrapolated(struct prediction *prediction)
{
    const struct job *job = &prediction->job;
    struct result *result = &prediction->result;
    int32_t measured = (int32_t)job->platform->nccl.measured_nodes;
    const struct task *last = prediction_last(prediction);
    if (!measured || job->resolved.algorithm != ALGORITHM_NCCL || result->nodes == measured)
        return;
    double sum = 0;
    for (int32_t id = 0; id < last->point.schedule->step_count; id++)
        if (last->point.schedule->step[id].kind == STEP_COLLECTIVE)
            sum += step_runs(&last->point.schedule->step[id]) *
                   run_nccl(&last->point.run, &last->point.schedule->step[id]).seconds;
    AUTOFREE char *all = base_copy(unit_text(UNIT_SECONDS, sum));
    texts_add(&result->warning,
              "NCCL's times were fitted on %d node%s (nccl.corrections); those of %lld nodes are "
              "extrapolated: %s of all-reduces in a step, of which it waits for %s",
              measured, base_plural(measured), (long long)result->nodes, all,
              unit_text(UNIT_SECONDS, result->step.exposed_communication));
}

void assumption_list(struct prediction *prediction)
{
    struct result *result = &prediction->result;
    texts_take(&result->warning, platform_continued(prediction->job.platform));
    add_extrapolated(prediction);
    add_recipe(prediction);
    add_batch(prediction);
    add_measured(prediction);
    add_software(prediction);
    add_experts(prediction);
    add_tf32(prediction);
    add_payload(prediction);
    add_turns(prediction);
    add_input(prediction);
    add_startup(prediction);
    add_unknown_network(prediction);
    add_placement(prediction);
    list_assumed(prediction);
    failing_assumptions(prediction);
    for (int32_t i = 0; i < job_phases(&prediction->job); i++)
        add_rounding(prediction, i);
    const struct point *last = &prediction_last(prediction)->point;
    texts_take(&result->assumption, cards_text(last->fabric, last->schedule, true));
    add_cut(prediction);
    add_uneven(prediction);
    if (prediction->job.resolved.choice.why)
        texts_take(&result->assumption, grid_choice_text(&prediction->job.resolved.choice));
    if (!result->plan.evaluations)
        return;
    double factor = job_evaluation_factor(&prediction->job.scenario);
    AUTOFREE char *longer = factor > 1 ? base_format("%g times their ", factor) : base_copy("");
    texts_add(&result->assumption,
              "evaluation: %lld over %lld validation %s, %sforward passes, split evenly, without "
              "communication",
              (long long)result->plan.evaluations,
              (long long)result->scenario->training.validation_images,
              model_inputs(prediction->job.model, 0), longer);
}
