#include "exec/cpu/device_cpu.h"

#include <sys/mman.h>

#include "core/schedule/iteration.h"
#include "core/schedule/optimizer.h"
#include "exec/cpu/ops_naive.h"
#include "exec/cpu/stream.h"
#include "exec/step/half.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    TRIALS = 8,           /* the fastest is used */
    LEAST_BYTES = 1 << 24 /* in one trial, long enough to make reading a clock negligible */
};

/* Volatile, so that the compiler cannot remove the call. */
static void *(*volatile copy_memory)(void *, const void *, size_t) = memcpy;

/* Copies for a stream to make. */
struct copies {
    char *to, *from;
    int64_t bytes;
    int32_t times;
};

/* Pages are a thread's own once it has written to them. */
static void touch(void *argument)
{
    const struct copies *copies = argument;
    memset(copies->from, 1, (size_t)copies->bytes);
    memset(copies->to, 2, (size_t)copies->bytes);
}

static void run(void *argument)
{
    const struct copies *copies = argument;
    for (int32_t i = 0; i < copies->times; i++)
        copy_memory(copies->to, copies->from, (size_t)copies->bytes);
}

static double copy_seconds(int64_t bytes)
{
    struct copies copies = {
        .to = base_alloc(bytes, 1), .from = base_alloc(bytes, 1), .bytes = bytes};
    struct stream *stream = cpu_stream_ops.stream_new();
    struct event *begin = cpu_stream_ops.event_new(), *end = cpu_stream_ops.event_new();
    double quickest = INFINITY;
    copies.times = bytes < LEAST_BYTES ? (int32_t)(LEAST_BYTES / bytes) : 1;
    cpu_stream_issue(stream, touch, &copies, sizeof(copies));
    for (int32_t i = 0; i < TRIALS; i++) {
        cpu_stream_ops.record(stream, begin);
        cpu_stream_issue(stream, run, &copies, sizeof(copies));
        cpu_stream_ops.record(stream, end);
        cpu_stream_ops.synchronize(end);
        quickest = fmin(quickest, cpu_event_busy(begin, end) / copies.times);
    }
    cpu_stream_ops.event_free(begin);
    cpu_stream_ops.event_free(end);
    cpu_stream_ops.stream_free(stream);
    free(copies.to);
    free(copies.from);
    return quickest;
}

const struct measure_ops cpu_measure_ops = {.busy = cpu_event_busy, .copy = copy_seconds};

/* A step on its way through a stream. */
struct step_call {
    struct device_state *state;
    const struct step *step;
    int32_t iteration;
};

/* A forward pass in inference, queued on a stream. */
struct score_call {
    struct device_state *state;
    const float *images;
    int32_t count;
    float *scores;
};

static struct cpu_device *device_of(const struct device_state *state)
{
    return (struct cpu_device *)state;
}

static struct cpu_slot *slot_of(const struct cpu_device *device, int32_t iteration)
{
    return &device->slot[iteration % device->job.slots];
}

static int64_t image_elements(const struct cpu_device *device)
{
    return shape_elements(device->job.model->input);
}

static int32_t stages_of(const struct device_job *job)
{
    return job->part ? job->part->stages : 1;
}

/* Of the calling thread, a stream's. */
static void set_threads(const struct cpu_device *device)
{
#ifdef _OPENMP
    omp_set_num_threads(device->job.threads);
#endif
}

/* ---- memory ---- */

static void open_values(struct cpu_device *device, float *(*alloc)(void *context, int64_t count),
                        void *context)
{
    const struct model *model = device->job.model;
    int64_t values = (int64_t)device->flights * model->layer_count;
    device->value = base_alloc(values, sizeof(*device->value));
    device->target = base_alloc(device->micro * target_count(model), sizeof(*device->target));
    for (int64_t i = 0; i < values; i++) {
        const struct layer *layer = &model->layer[i % model->layer_count];
        int64_t saved = sequence_takes(layer) ? sequence_saved(layer) : 0;
        device->value[i].saved = saved ? alloc(context, device->micro * saved) : NULL;
    }
}

/* Of micro-batch @micro; -1: of inference. */
static struct cpu_value *value_of(const struct cpu_device *device, int32_t layer, int32_t micro)
{
    int32_t flight = micro > 0 ? micro % device->flights : 0;
    return &device->value[flight * device->job.model->layer_count + layer];
}

/* Whether ranks share the words, as they do all that is split. */
static bool shares_words(const struct cpu_device *device)
{
    return device->job.part && device->job.part->parts > 1;
}

/* Blocks of a micro-batch's positions, of which each of them has one between what is split. */
static int64_t parts_of(const struct cpu_device *device)
{
    return shares_words(device) && device->job.scenario->parallel.sequence ? device->job.part->parts
                                                                           : 1;
}

/* Numbers that these gather of a micro-batch. */
static int64_t sums_of(const struct cpu_device *device)
{
    return device->job.part->parts * device->micro * target_count(device->job.model) * LOSS_SUMS;
}

/* Whether the gradient of layer @index's value comes from another stage or goes there, or waits
 * until other micro-batches have run forward. */
static bool is_kept(const struct cpu_device *device, int32_t index)
{
    const struct model *model = device->job.model;
    const struct layer *layer = &model->layer[index];
    if (layer->input_count == 0)
        return true;
    return index + 1 == model->layer_count ? device->flights > 1
                                           : model->layer[layer->last_reader].input_count == 0;
}

void cpu_device_complete(struct cpu_device *device, float *(*alloc)(void *context, int64_t count),
                         void *context)
{
    const struct model *model = device->job.model;
    for (int64_t i = 0; i < (int64_t)device->flights * model->layer_count; i++) {
        int32_t index = (int32_t)(i % model->layer_count);
        int64_t count = device->micro * shape_elements(model->layer[index].out);
        struct cpu_value *value = &device->value[i];
        if (count == 0 || device->graph.node[index].hidden)
            continue;
        if (i >= model->layer_count) {
            value->y = alloc(context, count);
            value->dy = device->value[index].dy;
        }
        if (is_kept(device, index))
            value->dy = alloc(context, count);
    }
    for (int64_t i = 0; i < (int64_t)device->flights * model->layer_count; i++) {
        const struct layer *layer = &model->layer[i % model->layer_count];
        if (!layer->exchanged) /* else the block is a part of the whole */
            continue;
        struct cpu_value *from = &device->value[i - i % model->layer_count + layer->input[0]];
        int64_t in = shape_elements(layer->in), out = shape_elements(layer->out);
        struct cpu_value *whole = in < out ? &device->value[i] : from;
        struct cpu_value *block = in < out ? from : &device->value[i];
        int64_t at =
            in == out ? 0 : device->job.part->index * device->micro * (in < out ? in : out);
        block->y = whole->y + at;
        block->dy = whole->dy + at;
    }
    if (shares_words(device))
        device->sums = alloc(context, device->flights * sums_of(device));
}

static bool gathers_halves(const struct cpu_device *device)
{
    const struct scenario *scenario = device->job.scenario;
    return device->job.shard && scenario->model.compute != scenario->model.master;
}

/* Zero @count numbers.  Whole pages of them are the system's until they are written again, and
 * small, since a shard fills large ones badly. */
static void give_back(float *data, int64_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (size_t)count * sizeof(*data), before = -(size_t)data % page;
    size_t pages = bytes > before ? (bytes - before) / page * page : 0;
    char *first = (char *)data + before;
    if (!pages || madvise(first, pages, MADV_DONTNEED)) {
        memset(data, 0, bytes);
        return;
    }
    madvise(first, pages, MADV_NOHUGEPAGE); /* advice */
    memset(data, 0, before);
    memset(first + pages, 0, bytes - before - pages);
}

/* What other ranks keep of @slice of the flat array @data. */
static void give_back_others(const struct cpu_device *device, struct slice slice, float *data)
{
    int64_t at = slice.offset, end = slice.offset + slice.elements;
    for (int32_t i = 0; i < device->job.shards; i++) {
        struct slice own = slice_overlap(slice, device->job.shard[i]);
        if (own.elements == 0)
            continue;
        give_back(data + at, own.offset - at);
        at = own.offset + own.elements;
    }
    give_back(data + at, end - at);
}

/* All vectors where parameters are gathered in 16 bits, and the rest of the shard. */
static void find_own(struct cpu_device *device)
{
    const struct device_job *job = &device->job;
    const struct slice whole = {0, device->layout.parameters};
    int32_t tensors = job->model->tensor_count, shards = job->shard ? job->shards : 1;
    for (int32_t i = 0; i < 2 * tensors; i++) {
        const struct parameter *p = &device->layout.parameter[i % tensors];
        bool vector = gathers_halves(device) && device->sharding < 3 &&
                      iteration_is_vector(job->model, i % tensors);
        for (int32_t k = 0; vector == (i < tensors) && k < (vector ? 1 : shards); k++) {
            struct slice of = job->shard && !vector ? job->shard[k] : whole;
            BASE_NEXT(device->own, device->owns) =
                slice_overlap((struct slice){p->offset, p->elements}, of);
        }
        device->vectors = i < tensors ? device->owns : device->vectors;
    }
    assert(!gathers_halves(device) || slice_elements(device->own, device->vectors) ==
                                          iteration_vectors(job->model, job->scenario));
}

static struct optimizer *open_optimizer(const struct cpu_device *device, const struct slice *slice,
                                        int32_t count)
{
    struct optimizer *optimizer =
        optimizer_new(&device->layout, device->job.scenario, slice, count);
    optimizer_continue(optimizer, device->job.updates);
    optimizer_count_once(optimizer, device->job.part);
    return optimizer;
}

void cpu_device_init(struct cpu_device *device, const struct device_job *job,
                     const struct cpu_passes *passes, float *(*alloc)(void *context, int64_t count),
                     void *context)
{
    *device = (struct cpu_device){
        .job = *job,
        .passes = passes,
        .layout = layout_build(job->model),
        .graph = graph_build(job->model, passes->blocks && job->attention == ATTENTION_FLASH),
        .micro = job->batch / job->micro_batches,
        .flights = job->flights > 1 ? job->flights : 1};
    int64_t images = job->batch * image_elements(device);
    device->layout.squares = optimizer_cost(job->scenario).state > 1;
    device->sharding = job->shard ? (int32_t)job->scenario->parallel.sharding : 0;
    find_own(device);
    int64_t state = slice_elements(device->own, device->owns);
    if (job->shard || job->joint_norms) {
        int64_t sums = iteration_norms(job->model, job->scenario) +
                       slice_elements(device->own, device->vectors);
        bool last = !job->part || job->part->stage + 1 == job->part->stages;
        device->norms = alloc(context, sums + 2 * stages_of(job));
        device->joined = last ? device->norms : device->norms + stages_of(job) + sums;
    }
    if ((shares_words(device) || job->shard) && job->scenario->training.optimizer == OPTIMIZER_LAMB)
        device->steps = alloc(context, 2 * (int64_t)job->model->tensor_count);
    if (parts_of(device) > 1)
        device->blocks = alloc(context, device->layout.parameters);
    if (job->shared.elements)
        device->received = alloc(context, job->shared.elements);
    device->optimizer = open_optimizer(device, device->own, device->owns);
    if (gathers_halves(device))
        device->measurer = open_optimizer(device, job->shard, job->shards);
    device->parameter = alloc(context, device->layout.parameters);
    device->gradient = alloc(context, device->layout.parameters);
    give_back(device->parameter, device->sharding == 3 ? device->layout.parameters : 0);
    give_back(device->gradient, device->sharding >= 2 ? device->layout.parameters : 0);
    device->momentum = alloc(context, state * (device->layout.squares ? 2 : 1));
    device->master = gathers_halves(device) ? alloc(context, state) : NULL;
    device->statistics = alloc(context, device->layout.statistic_count + 1);
    device->raw = alloc(context, images);
    open_values(device, alloc, context);
    device->slot = base_alloc(job->slots, sizeof(*device->slot));
    for (int32_t i = 0; i < job->slots; i++) {
        device->slot[i].images = alloc(context, images);
        device->slot[i].label = base_alloc(job->batch, sizeof(int32_t));
    }
}

void cpu_device_release(struct cpu_device *device)
{
    for (int32_t i = 0; i < device->job.slots; i++)
        free(device->slot[i].label);
    free(device->slot);
    free(device->value);
    free(device->target);
    optimizer_free(device->optimizer);
    optimizer_free(device->measurer);
    free(device->own);
    graph_release(&device->graph);
    layout_release(&device->layout);
}

/* ---- steps ---- */

void cpu_device_track(struct cpu_device *device, int32_t index, int32_t micro, int64_t samples,
                      int64_t channel, double mean, double variance)
{
    const struct scenario *scenario = device->job.scenario;
    double unbiased = samples > 1 ? (double)samples / (double)(samples - 1) : 1;
    double share = scenario->training.batch_norm.statistics == BN_STATISTICS_LAST
                       ? 1
                       : scenario->training.batch_norm.momentum;
    double keep = micro == 0 ? 1 - share : 1, take = share / device->job.micro_batches;
    float *running = device->statistics + device->layout.statistics[index] + channel;
    float *spread = running + device->job.model->layer[index].out.channels;
    *running = (float)(keep * (double)*running + take * mean);
    *spread = (float)(keep * (double)*spread + take * variance * unbiased);
}

/* Images (height, width, channels) as the first layer reads them. */
static void convert_images(const struct cpu_device *device, int32_t count, const float *from,
                           float *to)
{
    int64_t channels = device->planes ? device->job.model->input.channels : 1;
    int64_t pixels = image_elements(device) / channels;
    for (int64_t i = 0; i < count * channels; i++)
        for (int64_t p = 0; p < pixels; p++)
            to[i * pixels + p] = from[(i / channels * pixels + p) * channels + i % channels];
}

static void read_input(struct device_state *state, int32_t iteration)
{
    struct cpu_device *device = device_of(state);
    struct cpu_slot *slot = slot_of(device, iteration);
    device->job.source.next(device->job.source.context, device->raw, slot->label);
    convert_images(device, device->job.batch, device->raw, slot->images);
    slot->outcome = (struct outcome){0};
}

static struct some_scores scores_of(const struct cpu_device *device, int32_t micro)
{
    const struct model *model = device->job.model;
    int32_t columns = model->layer[model->layer_count - 1].out.channels;
    int32_t first = device->job.part ? device->job.part->index * columns : 0;
    int32_t left = model->classes - first;
    return (struct some_scores){.rows = (int32_t)(device->micro * target_count(model)),
                                .columns = columns,
                                .first = first,
                                .count = left < columns ? left : columns,
                                .classes = model->classes,
                                .x = value_of(device, model->layer_count - 1, micro)->y,
                                .label = device->target};
}

static float *sums_at(const struct cpu_device *device, int32_t micro)
{
    return device->sums + micro % device->flights * sums_of(device);
}

static void fill_targets(const struct cpu_device *device, const struct cpu_slot *slot,
                         const float *images, int32_t micro)
{
    target_fill(device->job.model, device->micro, images,
                slot->label + (int64_t)micro * device->micro, device->target);
}

/* Loss and gradient of a micro-batch, once the sums of all ranks that share the words are there. */
static void end_loss(struct cpu_device *device, struct cpu_slot *slot, const float *images,
                     int32_t micro)
{
    const struct device_job *job = &device->job;
    struct some_scores scores = scores_of(device, micro);
    bool some = shares_words(device);
    float *dy = value_of(device, job->model->layer_count - 1, micro)->dy;
    fill_targets(device, slot, images, micro);
    slot->outcome.loss +=
        naive_loss(&scores, job->scenario->training.label_smoothing, some ? job->part->parts : 0,
                   some ? sums_at(device, micro) : NULL, dy) /
        job->micro_batches;
    float factor = (float)slot->update.loss_scale;
    int64_t count = factor == 1 ? 0 : (int64_t)scores.rows * scores.columns;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++)
        dy[i] *= factor;
}

static void run_loss(struct device_state *state, int32_t iteration, const float *images,
                     int32_t micro)
{
    struct cpu_device *device = device_of(state);
    struct cpu_slot *slot = slot_of(device, iteration);
    if (micro == 0 && stages_of(&device->job) > 1) /* the input step is the first stage's */
        read_input(state, iteration);
    if (!shares_words(device)) {
        end_loss(device, slot, images, micro);
        return;
    }
    struct some_scores scores = scores_of(device, micro);
    int64_t own = device->job.part->index * (int64_t)scores.rows * LOSS_SUMS;
    fill_targets(device, slot, images, micro);
    naive_loss_sums(&scores, sums_at(device, micro) + own);
}

/* The norms that all stages have sent, as one. */
static const float *join_norms(struct cpu_device *device)
{
    if (!device->job.joint_norms)
        return device->norms;
    device->joint = 0;
    for (int32_t s = 0; s < stages_of(&device->job); s++)
        device->joint += device->joined[s];
    return &device->joint;
}

/* What of the gradients of vectors lies in this rank's shard: with the norms they are summed, so
 * that each rank has all. */
static void fill_vectors(const struct cpu_device *device, float *sums)
{
    const struct device_job *job = &device->job;
    memset(sums, 0, (size_t)slice_elements(device->own, device->vectors) * sizeof(*sums));
    for (int32_t v = 0; v < device->vectors && !job->repeats; sums += device->own[v++].elements)
        for (int32_t i = 0; i < job->shards; i++) {
            struct slice part = slice_overlap(device->own[v], job->shard[i]);
            memcpy(sums + part.offset - device->own[v].offset, device->gradient + part.offset,
                   (size_t)part.elements * sizeof(*sums));
        }
}

static double update_scale(const struct cpu_device *device, const struct cpu_slot *slot)
{
    return 1.0 / device->job.ranks / device->job.micro_batches / slot->update.loss_scale;
}

static struct outcome update(struct cpu_device *device, struct cpu_slot *slot, enum step_role role)
{
    struct optimizer *optimizer = device->optimizer;
    double scale = update_scale(device, slot);
    const float *norms =
        device->norms && !(device->steps && role == ROLE_OPTIMIZER) ? join_norms(device) : NULL;
    if (role == ROLE_MOMENTS)
        return optimizer_begin(optimizer, &slot->update, scale, norms, device->gradient,
                               device->momentum, device->parameter, device->steps);
    device->version++;
    if (device->steps && !slot->outcome.overflow)
        optimizer_end(optimizer, &slot->update, device->steps, device->momentum, device->parameter);
    if (device->steps)
        return slot->outcome;
    return norms ? optimizer_update(optimizer, &slot->update, scale, norms, device->gradient,
                                    device->momentum, device->parameter)
                 : optimizer_step(optimizer, &slot->update, scale, device->gradient,
                                  device->momentum, device->parameter);
}

static void run_optimizer(struct cpu_device *device, struct cpu_slot *slot, enum step_role role)
{
    const struct part *part = device->job.part;
    float *own = device->norms ? device->norms + (part ? part->stage : 0) : NULL;
    bool first = role == ROLE_NORMS || (!own && (role == ROLE_MOMENTS || !device->steps));
    if (first && device->received) /* what another stage has of weights that both use */
        naive_add(device->job.shared.elements, device->received,
                  device->gradient + device->job.shared.offset);
    float *vectors = own ? own + iteration_norms(device->job.model, device->job.scenario) : NULL;
    if (role == ROLE_NORMS && device->master) { /* gathers have rounded parameters */
        slice_unpack(device->own, device->owns, device->master, device->parameter);
        fill_vectors(device, vectors);
    }
    if (role == ROLE_NORMS && device->job.repeats) {
        memset(own, 0, (size_t)(vectors - own) * sizeof(float));
    } else if (role == ROLE_NORMS) {
        optimizer_measure(device->master ? device->measurer : device->optimizer,
                          update_scale(device, slot), device->gradient, device->parameter, own);
    } else {
        double loss = slot->outcome.loss;
        if (device->master)
            slice_unpack(device->own, device->vectors, vectors, device->gradient);
        slot->outcome = update(device, slot, role);
        slot->outcome.loss = loss;
        if (device->master)
            slice_pack(device->own, device->owns, device->parameter, device->master);
    }
}

/* ---- layers that all devices compute alike ---- */

/* Heads are the outermost axis of what a softmax writes, and of ranks that share layers each has
 * some; all have all of other values. */
static struct draw draw_of(const struct cpu_device *device, int32_t index, int32_t micro)
{
    const struct device_job *job = &device->job;
    const struct layer *layer = &job->model->layer[index];
    bool heads = job->part && job->model->layer[layer->input[0]].op == LAYER_SOFTMAX;
    int64_t own = shape_elements(layer->out), parts = heads ? job->part->parts : parts_of(device);
    int64_t block = parts > 1 ? job->part->index * (heads ? 1 : device->micro) : 0;
    int64_t sample = (job->replica * (int64_t)job->micro_batches + micro) * device->micro;
    return (struct draw){.seed = (uint64_t)job->scenario->seed,
                         .step = (uint64_t)device->step,
                         .layer = base_hash(BASE_HASH_SEED, layer->name, strlen(layer->name)),
                         .first = (sample * parts + block) * own,
                         .each = own * (heads ? parts : 1)};
}

struct sequence cpu_device_sequence(struct cpu_device *device, int32_t index, const float *images,
                                    int32_t micro)
{
    const struct cpu_value *value = value_of(device, index, micro);
    const struct layer *layer = &device->job.model->layer[index];
    int32_t owner = layer->weights_of ? layer->weights_of - 1 : index;
    int64_t own = layer->weights_of ? 0 : layer_weights(layer);
    const float *bias = device->parameter + device->layout.layer[index] + own;
    struct sequence s = {.layer = layer,
                         .images = device->micro,
                         .w = device->parameter + device->layout.layer[owner],
                         .owner = owner,
                         .b = layer->parameters > own ? bias : NULL,
                         .y = value->y,
                         .saved = value->saved,
                         .dy = value->dy,
                         .room = device->room,
                         .threads = device->job.threads,
                         .multiply = device->passes->multiply,
                         .state = (struct device_state *)device};
    if (layer->op == LAYER_DROPOUT && micro >= 0)
        s.draw = draw_of(device, index, micro);
    s.length = layer->out.width * parts_of(device);
    if (parts_of(device) > 1)
        s.at = device->job.part->index * device->micro * layer->out.width;
    if (layer->op == LAYER_EMBEDDING && device->job.part)
        s.first = device->job.part->index * layer->rows;
    for (int32_t i = 0; i < layer->input_count; i++)
        s.x[i] = layer->input[i] < 0 ? images : value_of(device, layer->input[i], micro)->y;
    if (layer->input_count > 1) {
        struct shape second = device->job.model->layer[layer->input[1]].out;
        s.features = second.channels;
        s.spread = shape_elements(second) < shape_elements(layer->out);
    }
    return s;
}

/* The gradients of its inputs, which begin with zeros in the last layer that reads them. */
static void want_inputs(const struct cpu_device *device, int32_t index, int32_t micro,
                        struct sequence *s)
{
    const struct model *model = device->job.model;
    for (int32_t i = 0; i < s->layer->input_count; i++) {
        int32_t from = s->layer->input[i];
        if (from < 0)
            continue;
        s->dx[i] = value_of(device, from, micro)->dy;
        bool first = model->layer[from].last_reader == index && !device->graph.node[from].hidden;
        s->fresh = first && layer_is_dense(s->layer);
        if (first && !s->fresh)
            naive_clear(device->micro * shape_elements(model->layer[from].out), s->dx[i]);
    }
}

static bool is_last_user(const struct model *model, int32_t owner, int32_t index)
{
    for (int32_t i = index + 1; i < model->layer_count; i++)
        if (model->layer[i].weights_of == owner + 1)
            return false;
    return true;
}

/* The gradients of its parameters, which begin with zeros in the last layer that uses them. */
static void want_parameters(const struct cpu_device *device, int32_t index, int32_t micro,
                            struct sequence *s)
{
    const struct layer *layer = s->layer;
    int32_t owner = layer->weights_of ? layer->weights_of - 1 : index;
    int64_t weights = layer_weights(&device->job.model->layer[owner]);
    float *own = device->gradient + device->layout.layer[index];
    s->dw = weights ? device->gradient + device->layout.layer[owner] : NULL;
    s->db = s->b ? own + (s->b - device->parameter - device->layout.layer[index]) : NULL;
    if (micro == 0 && s->db)
        memset(s->db, 0, (size_t)(own + layer->parameters - s->db) * sizeof(float));
    bool first = micro == 0 && s->dw && is_last_user(device->job.model, owner, index);
    s->fresh = first && layer_is_dense(layer);
    if (first && !s->fresh)
        naive_clear(weights, s->dw);
}

/* Whether another rank adds the bias to the sum of what ranks have of the value. */
static bool adds_no_bias(const struct cpu_device *device, int32_t index)
{
    const struct model *model = device->job.model;
    const struct layer *layer = &model->layer[index];
    if (!device->job.part || device->job.part->index == 0 || layer->readers == 0)
        return false;
    const struct layer *reader = &model->layer[layer->last_reader];
    return reader->exchanged && (reader->exchange[0] == COLLECTIVE_ALL_REDUCE ||
                                 reader->exchange[0] == COLLECTIVE_REDUCE_SCATTER);
}

static void run_sequence(struct cpu_device *device, enum compute_op op, int32_t index,
                         const float *images, int32_t micro)
{
    struct sequence chain[SEQUENCE_ATTENDS], *s = chain;
    const struct graph_node *node = device->graph.node;
    bool data = op == COMPUTE_BACKWARD_DATA;
    if (node[index].hidden)
        return;
    for (int32_t i = index; s == chain || (i >= 0 && node[i].hidden); i = node[i].reads, s++) {
        assert(s < chain + SEQUENCE_ATTENDS);
        *s = cpu_device_sequence(device, i, images, micro);
        if (data)
            want_inputs(device, i, micro, s);
        if (s > chain)
            s[-1].before = s;
    }
    s = chain;
    if (op == COMPUTE_BACKWARD_FILTER || (data && !layer_has_arithmetic(s->layer)))
        want_parameters(device, index, micro, s);
    if (op == COMPUTE_FORWARD && adds_no_bias(device, index))
        s->b = NULL;
    s->back = op != COMPUTE_FORWARD;
    s->again = op == COMPUTE_BACKWARD_FILTER && device->last.op == COMPUTE_BACKWARD_DATA &&
               device->last.layer == index && device->last.micro == micro;
    sequence_run(s);
}

/* Those of layer @index, which gathers have rounded. */
static void restore_vectors(struct cpu_device *device, int32_t index)
{
    const float *from = device->master;
    int64_t first = device->layout.layer[index];
    int64_t end = first + device->job.model->layer[index].parameters;
    for (int32_t i = 0; i < device->vectors; from += device->own[i++].elements)
        if (device->own[i].offset >= first && device->own[i].offset < end)
            slice_unpack(&device->own[i], 1, from, device->parameter);
}

/* Once layer @index has run: its weights but those that this rank keeps, if they are gathered again
 * before they are needed.  Another layer may use them until their own runs backward. */
static void drop_weights(const struct cpu_device *device, enum compute_op op, int32_t index)
{
    const struct model *model = device->job.model;
    struct slice all = {device->layout.layer[index], model->layer[index].parameters};
    if (device->sharding == 3 && (op != COMPUTE_FORWARD || is_last_user(model, index, index)))
        give_back_others(device, all, device->parameter);
}

static void run_layer(struct device_state *state, enum compute_op op, int32_t index,
                      const float *images, int32_t micro)
{
    struct cpu_device *device = device_of(state);
    const struct cpu_passes *passes = device->passes;
    if (op == COMPUTE_FORWARD)
        restore_vectors(device, index);
    if (sequence_takes(&device->job.model->layer[index]))
        run_sequence(device, op, index, images, micro);
    else
        (op == COMPUTE_FORWARD         ? passes->forward
         : op == COMPUTE_BACKWARD_DATA ? passes->data
                                       : passes->filter)(state, index, images, micro);
    device->last.op = op;
    device->last.layer = index;
    device->last.micro = micro;
    if (micro >= 0)
        drop_weights(device, op, index);
}

static void run_compute(struct device_state *state, const struct step *step, int32_t iteration)
{
    struct cpu_device *device = device_of(state);
    struct cpu_slot *slot = slot_of(device, iteration);
    int32_t index = step->compute.layer, micro = step->compute.micro;
    device->step = device->job.updates + iteration;
    const float *images = slot->images + (int64_t)micro * device->micro * image_elements(device);
    switch (step->compute.op) {
    case COMPUTE_FORWARD:
    case COMPUTE_BACKWARD_DATA:
    case COMPUTE_BACKWARD_FILTER:
        if (shares_words(device) && index == device->job.model->layer_count - 1 &&
            step->compute.op == COMPUTE_BACKWARD_DATA)
            end_loss(device, slot, images, micro);
        run_layer(state, step->compute.op, index, images, micro);
        break;
    case COMPUTE_LOSS:
        run_loss(state, iteration, images, micro);
        break;
    case COMPUTE_OPTIMIZER:
        run_optimizer(device, slot, step->role);
        break;
    case COMPUTE_OP_COUNT:
        assert(!"a kind of step");
    }
}

static void run_step(void *argument)
{
    const struct step_call *call = argument;
    if (call->step->kind == STEP_INPUT) {
        read_input(call->state, call->iteration);
        return;
    }
    set_threads(device_of(call->state));
    run_compute(call->state, call->step, call->iteration);
}

void cpu_device_prepare(struct device_state *state, int32_t iteration, const struct update *update)
{
    slot_of(device_of(state), iteration)->update = *update;
}

void cpu_device_issue(struct device_state *state, struct stream *stream, const struct step *step,
                      int32_t iteration)
{
    struct step_call call = {state, step, iteration};
    cpu_stream_issue(stream, run_step, &call, sizeof(call));
}

void *cpu_device_gradients(struct device_state *state)
{
    return device_of(state)->gradient;
}

/* Gradients that ranks sum of their blocks, and those to be summed, one after another. */
static void copy_blocks(const struct cpu_device *device, bool back)
{
    float *at = device->blocks;
    for (int32_t t = 0; t < device->job.model->tensor_count; t++) {
        int64_t count = device->job.model->tensor[t].elements;
        float *own = device->gradient + device->layout.parameter[t].offset;
        if (!iteration_is_apart(device->job.model, device->job.scenario, t))
            continue;
        memcpy(back ? own : at, back ? at : own, (size_t)count * sizeof(float));
        at += count;
    }
}

/* A collective of gradients that has ended, or one of blocks that begins. */
struct settling {
    struct cpu_device *device;
    struct slice slice;
    bool column, last, blocks;
};

/* Each rank adds what it keeps to its gradients of the next micro-batch.  Of those that keep the
 * same, and sum it in columns, one does. */
static void run_settling(void *argument)
{
    const struct settling *s = argument;
    float *gradient = s->device->gradient;
    if (s->blocks)
        copy_blocks(s->device, s->slice.elements > 0);
    else if (!s->column)
        give_back_others(s->device, s->slice, gradient);
    else if (s->device->job.repeats && !s->last)
        give_back(gradient + s->slice.offset, s->slice.elements);
}

void cpu_device_settle(struct device_state *state, struct stream *stream, const struct step *step,
                       struct slice slice)
{
    struct cpu_device *device = device_of(state);
    struct settling settling = {device, slice, step->collective.axis == AXIS_COLUMN,
                                step->collective.micro + 1 == device->job.micro_batches,
                                step->collective.content == CONTENT_BLOCKS};
    if (device->sharding >= 2 || settling.blocks)
        cpu_stream_issue(stream, run_settling, &settling, sizeof(settling));
}

void *cpu_device_shared(struct device_state *state, enum collective_content content)
{
    struct cpu_device *device = device_of(state);
    return content == CONTENT_NORMS   ? device->norms
           : content == CONTENT_STEPS ? device->steps
                                      : device->parameter;
}

void *cpu_device_activation(struct device_state *state, const struct step *step, bool receives)
{
    struct cpu_device *device = device_of(state);
    int32_t layer = step->collective.layer, micro = step->collective.micro;
    if (step->collective.content == CONTENT_BLOCKS)
        return device->blocks;
    if (step->collective.content == CONTENT_NORMS)
        return step->collective.back ? device->joined : device->norms;
    if (micro < 0)
        return receives ? device->received : device->gradient + device->job.shared.offset;
    if (layer == device->job.model->layer_count - 1)
        return sums_at(device, micro);
    const struct layer *exchange = &device->job.model->layer[layer];
    if (exchange->exchanged && shape_elements(exchange->in) > shape_elements(exchange->out))
        layer = exchange->input[0];
    const struct cpu_value *value = value_of(device, layer, micro);
    float *data = step->collective.back ? value->dy : value->y;
    int64_t moved = step->collective.bytes / dtype_size(device->job.scenario->model.compute);
    bool cut = moved < device->micro * shape_elements(device->job.model->layer[layer].out);
    return cut ? data + device->job.part->index * moved : data;
}

struct outcome cpu_device_outcome(const struct device_state *state, int32_t iteration)
{
    return slot_of(device_of(state), iteration)->outcome;
}

/* ---- around training ---- */

static void run_score(void *argument)
{
    const struct score_call *call = argument;
    struct cpu_device *device = device_of(call->state);
    const struct model *model = device->job.model;
    float *images = device->slot[0].images;
    set_threads(device);
    convert_images(device, call->count, call->images, images);
    for (int32_t i = 0; i < model->layer_count; i++)
        run_layer(call->state, COMPUTE_FORWARD, i, images, -1);
    memcpy(call->scores, device->value[model->layer_count - 1].y,
           (size_t)(call->count * target_count(model) * model->classes) * sizeof(float));
}

void cpu_device_score(struct device_state *state, struct stream *stream, const float *images,
                      int32_t count, float *scores)
{
    struct score_call call = {state, images, count, scores};
    cpu_stream_issue(stream, run_score, &call, sizeof(call));
}

static void copy(float *to, const float *from, int64_t count)
{
    if (to && from)
        memcpy(to, from, (size_t)count * sizeof(float));
}

/* Between the moments of what this rank updates and those of all; NULL: not asked for. */
static void copy_moments(const struct cpu_device *device, bool pack, float *momentum)
{
    int64_t all = device->layout.parameters, own = slice_elements(device->own, device->owns);
    for (int64_t i = 0; momentum && i < 1 + device->layout.squares; i++)
        if (pack)
            slice_pack(device->own, device->owns, momentum + i * all, device->momentum + i * own);
        else
            slice_unpack(device->own, device->owns, device->momentum + i * own, momentum + i * all);
}

void cpu_device_read(const struct device_state *state, const struct weights *weights)
{
    const struct cpu_device *device = device_of(state);
    copy(weights->parameter, device->parameter, device->layout.parameters);
    if (device->master && weights->parameter)
        slice_unpack(device->own, device->owns, device->master, weights->parameter);
    copy_moments(device, false, weights->momentum);
    copy(weights->statistics, device->statistics, device->layout.statistic_count);
}

void cpu_device_write(struct device_state *state, const struct weights *weights)
{
    struct cpu_device *device = device_of(state);
    const struct slice whole = {0, device->layout.parameters};
    bool some = device->sharding == 3;
    const struct slice *slice = some ? device->own : &whole;
    for (int32_t i = 0; weights->parameter && i < (some ? device->owns : 1); i++)
        copy(device->parameter + slice[i].offset, weights->parameter + slice[i].offset,
             slice[i].elements);
    if (device->master && weights->parameter)
        slice_pack(device->own, device->owns, weights->parameter, device->master);
    if (device->master && weights->parameter && !some)
        half_round((enum dtype)device->job.scenario->model.compute, whole.elements,
                   device->parameter);
    copy_moments(device, true, weights->momentum);
    copy(device->statistics, weights->statistics, device->layout.statistic_count);
    device->version++;
}
