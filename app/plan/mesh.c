#include "app/plan/mesh.h"

#include "core/backend/analytic.h"
#include "core/schedule/memory.h"
#include "core/schedule/pipeline.h"
#include "models/networks.h"

const char mesh_open[] = "-";

/* What one micro-batch takes at least in all layers before each [s]. */
struct passes {
    int32_t job;
    int64_t micro, again;
    double *forward, *back; /* (layers + 1) owned */
    double exchange;        /* the longest of a layer forward */
};

bool meshes_wanted(const struct job *job, bool asked)
{
    static const char *const keys[] = {"parallel.tensor",   "parallel.context",
                                       "parallel.expert",   "parallel.pipeline",
                                       "parallel.sharding", "parallel.recompute"};
    bool given = asked;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        given = given || scenario_is_given(&job->scenario, keys[i]);
    return given && network_is_transformer(job->scenario.model.network);
}

/* ---- jobs ---- */

/* @job with @mesh, which borrows from it; @phase is a copy of its phases. */
static struct job job_with(const struct job *job, const struct mesh *mesh,
                           struct scenario_phase *phase)
{
    struct job one = *job;
    struct scenario *s = &one.scenario;
    one.resolved = (struct resolved){0};
    s->parallel.pipeline = mesh->part[MESH_PIPELINE];
    s->parallel.chunks = mesh->part[MESH_CHUNKS];
    s->parallel.sharding = mesh->part[MESH_SHARDING];
    s->parallel.recompute = (int32_t)mesh->part[MESH_AGAIN];
    s->training.micro_batch = mesh->part[MESH_MICRO];
    s->training.phase.item = phase;
    return one;
}

static struct scenario_phase *phases_of(const struct job *job)
{
    int32_t count = job->scenario.training.phase.count;
    struct scenario_phase *phase = base_alloc(count, sizeof(*phase));
    memcpy(phase, job->scenario.training.phase.item, (size_t)count * sizeof(*phase));
    return phase;
}

/* The job with devices that share layers, sequences and experts as in @part, read into @job. */
static int read_job(struct job *job, const struct question *q, const struct candidate *like,
                    const int64_t *part, struct err *err)
{
    struct candidate own = *like;
    for (int i = 0; i < MESH_PARTS; i++)
        own.mesh[i] = i <= MESH_EXPERT ? part[i] : i <= MESH_MICRO;
    AUTORELEASE(texts) struct texts set = candidate_set(q, &own);
    return job_read(job, NULL, q->path, set.item, set.count, &draw_centre, err);
}

/* ---- what layers take ---- */

/* The schedule of one micro-batch of @micro on as few nodes as that needs, of all layers. */
static int one_pass(const struct job *job, int64_t micro, int64_t again, struct point *point)
{
    AUTORELEASE(err) struct err ignored = {0};
    int64_t each = cluster_devices_per_node(&job->scenario, job->platform);
    struct mesh mesh = {.part = {[MESH_MICRO] = micro, [MESH_AGAIN] = again}};
    struct scenario_phase phase = {.epochs = 1, .round = ROUND_UP};
    struct job one = job_with(job, &mesh, &phase);
    struct scenario *s = &one.scenario;
    int64_t parts = scenario_parts(s), experts = s->parallel.expert > 1 ? s->parallel.expert : 1;
    int64_t nodes = (parts * experts - 1) / each + 1;
    phase.global_batch = micro * nodes * each / parts;
    s->training.phase.count = 1;
    s->cluster.nodes = s->baseline.nodes = nodes;
    s->training.evaluate_every = s->training.checkpoint.every = s->training.target = 0;
    struct wish wish = {.repeat = true, .ignore_memory = true};
    int failed = job_resolve(&one, &wish, &ignored) || job_point(&one, 1, point, &ignored);
    if (!failed)
        point->run.contention = job_run(&one).contention; /* not the host's */
    resolved_release(&one.resolved);
    return failed;
}

/* Whether all that is computed next waits for it, in each pass of @job. */
static bool is_awaited(const struct job *job, const struct step *step)
{
    enum axis axis = step->collective.axis;
    bool experts = axis == AXIS_EXPERT && !job->scenario.parallel.expert_overlap;
    return step->kind == STEP_COLLECTIVE && (axis == AXIS_TENSOR || experts) &&
           !step->collective.beside;
}

/* Add what the steps of @point take to their layers. */
static void add_steps(struct passes *passes, const struct point *point, const struct job *job)
{
    const struct schedule *schedule = point->schedule;
    const struct step *last = NULL;
    AUTOFREE double *taken = base_alloc(schedule->step_count, sizeof(*taken));
    bool back = false;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        bool exchange = is_awaited(job, step) && last && last->compute.op == COMPUTE_FORWARD;
        if (step->kind != STEP_COMPUTE && !exchange)
            continue;
        last = exchange ? last : step;
        back = back || last->compute.op != COMPUTE_FORWARD;
        if (last->compute.op == COMPUTE_OPTIMIZER)
            break;
        int32_t like = exchange ? schedule_first_like(schedule, id) : id;
        double seconds = !exchange         ? run_local_seconds(&point->run, step)
                         : taken[like] > 0 ? taken[like]
                         : step->collective.algorithm == ALGORITHM_NCCL
                             ? run_nccl(&point->run, step).seconds
                             : analytic_collective(point->fabric, schedule, id);
        taken[like] = seconds;
        if (exchange)
            passes->exchange = fmax(passes->exchange, seconds);
        int32_t layer = last->compute.layer < 0 ? job->part->layer_count - 1 : last->compute.layer;
        (back ? passes->back : passes->forward)[layer + 1] += seconds;
    }
}

static const struct passes *find_passes(struct meshes *meshes, const struct mesh *mesh)
{
    const int64_t micro = mesh->part[MESH_MICRO], again = mesh->part[MESH_AGAIN];
    for (int32_t i = 0; i < meshes->passes_count; i++) {
        const struct passes *p = &meshes->passes[i];
        if (p->job == mesh->job && p->micro == micro && p->again == again)
            return p;
    }
    const struct job *job = &meshes->job[mesh->job];
    AUTORELEASE(point) struct point point = {0};
    int32_t layers = job->part->layer_count;
    struct passes *p = &BASE_NEXT(meshes->passes, meshes->passes_count);
    *p = (struct passes){mesh->job,
                         micro,
                         again,
                         base_alloc(layers + 1, sizeof(double)),
                         base_alloc(layers + 1, sizeof(double)),
                         0};
    if (!one_pass(job, micro, again, &point)) /* else nothing is known: 0 is less than any */
        add_steps(p, &point, job);
    for (int32_t i = 0; i < layers; i++) {
        p->forward[i + 1] += p->forward[i];
        p->back[i + 1] += p->back[i];
    }
    return p;
}

/* Of a step with @micros micro-batches. */
static double least_of(const struct passes *p, const struct pipeline *pipeline, int64_t micros)
{
    double least = 0;
    for (int32_t s = 0; s < pipeline->stages; s++) {
        int32_t before = s ? pipeline->end[s - 1] : 0;
        double work = 0, way = p->forward[before] + p->back[before] - 2 * s * p->exchange;
        for (int32_t k = s; k < pipeline->parts; k += pipeline->stages) {
            int32_t from = k ? pipeline->end[k - 1] : 0, to = pipeline->end[k];
            work +=
                p->forward[to] - p->forward[from] + p->back[to] - p->back[from] - 2 * p->exchange;
        }
        least = fmax(least, way + (double)micros * work);
    }
    return least;
}

/* ---- all that can be ---- */

/* Whether the user says which values @part may have. */
static bool is_given(const struct axes *axes, enum mesh_part part)
{
    return strcmp(axes->item[DECISION_TENSOR + part].value.item[0], mesh_open) != 0;
}

/* The next larger *@value of @part: of those given, or of all up to @most but what computes little
 * again, of devices and samples the divisors of that.  @return whether there is one. */
static bool next_value(const struct axes *axes, enum mesh_part part, int64_t most, int64_t *value)
{
    const struct texts *list = &axes->item[DECISION_TENSOR + part].value;
    bool given = is_given(axes, part), divides = part <= MESH_MICRO && part != MESH_CHUNKS;
    int64_t next = INT64_MAX, from = *value;
    for (int32_t i = 0; i < list->count && given; i++) {
        int64_t here = part == MESH_AGAIN ? base_find_word(list->item[i], recompute_names)
                                          : strtoll(list->item[i], NULL, 10);
        next = here > from && here < next ? here : next;
    }
    for (int64_t v = from + 1; !given && v <= most && next == INT64_MAX; v++) {
        bool small = part == MESH_AGAIN && (v == RECOMPUTE_NORMS || v == RECOMPUTE_LATENT);
        next = small || (divides && most % v) ? next : v;
    }
    *value = next;
    return next < INT64_MAX;
}

/* Meshes of one job and one number of stages. */
struct building {
    struct meshes *meshes;
    const struct axes *axes;
    struct mesh mesh;
    struct pipeline pipeline; /* owned */
    int64_t replicas, batch;  /* groups of devices that have a batch each, and what each has */
};

/* Whether what stands in the scenario allows it (core/scenario/scenario_check.c). */
static bool may_shard(const struct building *b, int64_t stage)
{
    const struct scenario *s = &b->meshes->job[b->mesh.job].scenario;
    enum algorithm algorithm = (enum algorithm)s->allreduce.algorithm;
    bool opens = algorithm == ALGORITHM_RING || algorithm == ALGORITHM_TORUS2D ||
                 algorithm == ALGORITHM_NCCL;
    return !stage || (opens && b->replicas > 1 && !s->allreduce.channels &&
                      s->training.optimizer != OPTIMIZER_ADAFACTOR &&
                      (stage < 2 ||
                       (b->mesh.part[MESH_PIPELINE] == 1 && s->allreduce.overlap != OVERLAP_NONE)));
}

/* All shardings and recomputations with a micro-batch. */
static void add_micro(struct building *b)
{
    struct meshes *meshes = b->meshes;
    int64_t *part = b->mesh.part, micros = b->batch / part[MESH_MICRO];
    bool turns = part[MESH_CHUNKS] == 1 || micros % part[MESH_PIPELINE] == 0;
    for (part[MESH_SHARDING] = -1; next_value(b->axes, MESH_SHARDING, 3, &part[MESH_SHARDING]);)
        for (part[MESH_AGAIN] = -1;
             next_value(b->axes, MESH_AGAIN, RECOMPUTE_FULL, &part[MESH_AGAIN]);) {
            meshes->tally.considered++;
            if (!turns || b->batch % part[MESH_MICRO] || !may_shard(b, part[MESH_SHARDING])) {
                meshes->tally.divided++;
                continue;
            }
            b->mesh.least = least_of(find_passes(meshes, &b->mesh), &b->pipeline, micros);
            BASE_NEXT(meshes->item, meshes->count) = b->mesh;
        }
}

/* Blocks that are shared unevenly by more than the two ends make every other stage wait. */
static bool is_even(const struct model *model, const struct pipeline *pipeline)
{
    int32_t blocks = 0;
    for (int32_t i = 1; i < model->layer_count; i++)
        blocks += !strncmp(model->layer[i].block, "layer", 5) &&
                  strcmp(model->layer[i].block, model->layer[i - 1].block) != 0;
    int32_t each = (blocks + pipeline->parts - 1) / pipeline->parts;
    return pipeline->chunks == 1 || each * pipeline->parts - blocks <= 2;
}

/* All chunks and micro-batches of a number of stages. */
static void add_stages(struct building *b)
{
    struct meshes *meshes = b->meshes;
    const struct job *job = &meshes->job[b->mesh.job];
    int64_t *part = b->mesh.part, most = part[MESH_PIPELINE] > 1 ? job->part->layer_count : 1;
    for (part[MESH_CHUNKS] = 0; next_value(b->axes, MESH_CHUNKS, most, &part[MESH_CHUNKS]);) {
        AUTORELEASE(err) struct err why = {0};
        struct job one = job_with(job, &b->mesh, NULL);
        pipeline_release(&b->pipeline);
        bool several = part[MESH_CHUNKS] > 1;
        if ((several &&
             (part[MESH_PIPELINE] == 1 || one.scenario.parallel.schedule == PIPELINE_GPIPE)) ||
            pipeline_build(&b->pipeline, job->part, &one.scenario, &why)) {
            meshes->tally.considered++;
            meshes->tally.divided++;
            if (!is_given(b->axes, MESH_CHUNKS))
                break; /* more are no better */
            continue;
        }
        if (is_given(b->axes, MESH_CHUNKS) || is_even(job->part, &b->pipeline))
            for (part[MESH_MICRO] = 0;
                 next_value(b->axes, MESH_MICRO, b->batch, &part[MESH_MICRO]);)
                add_micro(b);
    }
}

/* All of the job that was read last, whose step takes @global samples. */
static void add_job(struct meshes *meshes, const struct axes *axes, int64_t global)
{
    struct building b = {.meshes = meshes, .axes = axes, .mesh.job = meshes->jobs - 1};
    const struct scenario *s = &meshes->job[b.mesh.job].scenario;
    int64_t *stages = &b.mesh.part[MESH_PIPELINE], parts = scenario_parts(s);
    b.mesh.part[MESH_TENSOR] = scenario_tensor(s);
    b.mesh.part[MESH_CONTEXT] = parts / scenario_tensor(s);
    b.mesh.part[MESH_EXPERT] = s->parallel.expert > 1 ? s->parallel.expert : 1;
    while (next_value(axes, MESH_PIPELINE, meshes->devices / parts, stages)) {
        b.replicas = meshes->devices / parts / *stages;
        b.batch = b.replicas ? global / b.replicas : 0;
        if (meshes->devices % (parts * *stages) == 0 && b.batch && global % b.replicas == 0) {
            add_stages(&b);
            pipeline_release(&b.pipeline);
        } else {
            meshes->tally.considered++;
            meshes->tally.divided++;
        }
    }
}

static int by_least(const void *a, const void *b)
{
    const struct mesh *x = a, *y = b;
    int order = (x->least > y->least) - (x->least < y->least);
    return order ? order : memcmp(x->part, y->part, sizeof(x->part));
}

int meshes_find(struct meshes *meshes, const struct question *q, const struct candidate *like,
                const struct axes *axes, struct err *err)
{
    AUTORELEASE(err) struct err first = {0};
    AUTORELEASE(job) struct job whole = {0};
    int64_t part[] = {[MESH_TENSOR] = 1, [MESH_CONTEXT] = 1, [MESH_EXPERT] = 1};
    if (read_job(&whole, q, like, part, err))
        return -1;
    int64_t each = cluster_devices_per_node(&whole.scenario, whole.platform);
    meshes->devices = each * like->nodes;
    for (part[MESH_TENSOR] = 0; next_value(axes, MESH_TENSOR, each, &part[MESH_TENSOR]);)
        for (part[MESH_CONTEXT] = 0;
             next_value(axes, MESH_CONTEXT, meshes->devices, &part[MESH_CONTEXT]);)
            for (part[MESH_EXPERT] = 0;
                 next_value(axes, MESH_EXPERT, meshes->devices, &part[MESH_EXPERT]);) {
                meshes->job = base_room(meshes->job, meshes->jobs, sizeof(*meshes->job));
                if (!read_job(&meshes->job[meshes->jobs], q, like, part, &first)) {
                    meshes->jobs++;
                    add_job(meshes, axes, q->global[q->phases - 1]);
                } else {
                    meshes->tally.considered++;
                    meshes->tally.divided++;
                }
            }
    if (meshes->count)
        qsort(meshes->item, (size_t)meshes->count, sizeof(*meshes->item), by_least);
    return meshes->jobs ? 0 : err_add_code(err, 65, "%s", err_reason(&first));
}

/* Of a device with @mesh in the last phase, in @memory [bytes].  @return 0, or -1: no such job. */
static int find_memory(const struct meshes *meshes, const struct mesh *mesh, bool *fits,
                       struct memory_plan *memory)
{
    AUTORELEASE(err) struct err ignored = {0};
    const struct job *job = &meshes->job[mesh->job];
    AUTOFREE struct scenario_phase *phase = phases_of(job);
    struct job one = job_with(job, mesh, phase);
    struct wish wish = {.repeat = true, .ignore_memory = true};
    if (job_resolve(&one, &wish, &ignored))
        return -1;
    int32_t last = job_phases(&one) - 1;
    *fits = one.resolved.plan.phase[last].micro_batch <= one.resolved.most_images;
    if (memory)
        *memory = memory_plan(&(struct memory_case){
            one.part, &one.scenario, one.platform->device.merges, one.resolved.shards,
            one.resolved.plan.phase[last].batch_per_device, mesh->part[MESH_MICRO]});
    resolved_release(&one.resolved);
    return 0;
}

bool mesh_fits(struct meshes *meshes, const struct mesh *mesh)
{
    bool fits = false;
    int64_t *fault = &meshes->tally.memory;
    if (find_memory(meshes, mesh, &fits, NULL))
        fault = &meshes->tally.divided;
    *fault += !fits;
    return fits;
}

int mesh_layout(const struct meshes *meshes, const struct mesh *mesh, struct layout *layout)
{
    struct memory_plan memory;
    layout->step = mesh->least;
    if (find_memory(meshes, mesh, &layout->fits, &memory))
        return -1;
    layout->memory = (double)memory_total(&memory);
    return 0;
}

/* The nearest has the smallest micro-batch and the most that is computed again. */
char *meshes_nearest(const struct meshes *meshes)
{
    int64_t least = INT64_MAX, micro = INT64_MAX, again = 0;
    const struct mesh *nearest = NULL;
    for (int64_t i = 0; i < meshes->count; i++) {
        const int64_t *part = meshes->item[i].part;
        micro = part[MESH_MICRO] < micro ? part[MESH_MICRO] : micro;
        again = part[MESH_AGAIN] > again ? part[MESH_AGAIN] : again;
    }
    for (int64_t i = 0; i < meshes->count; i++) {
        const struct mesh *mesh = &meshes->item[i];
        struct memory_plan memory;
        bool fits;
        if (mesh->part[MESH_MICRO] > micro || mesh->part[MESH_AGAIN] < again ||
            find_memory(meshes, mesh, &fits, &memory) || memory_total(&memory) >= least)
            continue;
        least = memory_total(&memory);
        nearest = mesh;
    }
    if (!nearest)
        return base_format("none of %lld meshes shares heads, blocks, devices and samples evenly",
                           (long long)meshes->tally.considered);
    struct candidate own = {.figures.devices = (int32_t)meshes->devices};
    const struct device *device = &meshes->job[0].platform->device;
    memcpy(own.mesh, nearest->part, sizeof(own.mesh));
    AUTOFREE char *name = candidate_mesh(&own),
                  *needed = base_copy(unit_text(UNIT_BYTES, (double)least));
    return base_format("none of %lld meshes fits the %s of %s; the nearest, %s, needs %s",
                       (long long)meshes->tally.considered,
                       unit_text(UNIT_BYTES, device->memory.value), device->name, name, needed);
}

void meshes_release(struct meshes *meshes)
{
    for (int32_t i = 0; i < meshes->jobs; i++)
        job_release(&meshes->job[i]);
    for (int32_t i = 0; i < meshes->passes_count; i++) {
        free(meshes->passes[i].forward);
        free(meshes->passes[i].back);
    }
    free(meshes->job);
    free(meshes->passes);
    free(meshes->item);
    *meshes = (struct meshes){0};
}
