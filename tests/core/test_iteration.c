#include "core/schedule/iteration.h"

#include "core/backend/cost.h"
#include "core/backend/lanes.h"
#include "core/schedule/optimizer.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/test.h"

static struct scenario scenario;
static struct iteration it;

/* Start with @model, which is returned: fp16 arithmetic and gradients, fp32 master weights, LARS,
 * 4 MiB buckets on a torus. */
static struct model *begin_with(struct model *model)
{
    assert_non_null(model);
    scenario = (struct scenario){0};
    scenario.model.compute = DTYPE_FP16;
    scenario.model.gradients = DTYPE_FP16;
    scenario.model.master = DTYPE_FP32;
    scenario.training.optimizer = OPTIMIZER_LARS;
    scenario.allreduce.algorithm = ALGORITHM_TORUS2D;
    scenario.allreduce.overlap = OVERLAP_BACKWARD;
    scenario.input.prefetch = 2;
    it = (struct iteration){.model = model,
                            .scenario = &scenario,
                            .fusion = FUSION_BN_RELU,
                            .grid = {4, 2},
                            .devices_per_node = 4,
                            .batch = 32,
                            .micro_batch = 32,
                            .bucket = 4194304};
    return model;
}

static struct model *begin(const char *name, int32_t image)
{
    return begin_with(network_build(name, image, 1000, NULL));
}

static struct model *begin_language(const char *name, struct transformer keys)
{
    struct model *model = begin_with(network_open(NULL, name, 224, 1000, &keys, NULL));
    scenario.allreduce.algorithm = ALGORITHM_RING;
    return model;
}

/* The same for passes of @batch samples on @grid. */
static struct schedule *build_on(struct grid grid, int64_t batch)
{
    it.grid = grid;
    it.batch = it.micro_batch = batch;
    return iteration_build(&it);
}

static const struct step *end_of(const struct schedule *schedule)
{
    return schedule->step + schedule->step_count;
}

static int32_t require_step(const struct schedule *schedule, const char *name)
{
    for (const struct step *step = schedule->step; step < end_of(schedule); step++)
        if (strcmp(step->name, name) == 0)
            return (int32_t)(step - schedule->step);
    fail_msg("no step \"%s\"", name);
    return -1;
}

static bool depends(const struct schedule *schedule, int32_t id, int32_t on, int32_t distance)
{
    const struct step *step = &schedule->step[id];
    for (int32_t i = step->dep_begin; i < step->dep_end; i++)
        if (schedule->dep[i].step == on && schedule->dep[i].distance == distance)
            return true;
    return false;
}

static bool waits(const struct schedule *schedule, const char *name, int32_t on)
{
    return depends(schedule, require_step(schedule, name), on, 0);
}

struct sums {
    int64_t flops, bytes, converted, kernels;
};

/* What all compute steps of @op, or of every one, do together. */
static struct sums sum_of(const struct schedule *schedule, enum compute_op op)
{
    struct sums sum = {0};
    for (const struct step *step = schedule->step; step < end_of(schedule); step++)
        if (step->kind == STEP_COMPUTE && (op == COMPUTE_OP_COUNT || step->compute.op == op)) {
            sum.flops += step->compute.flops;
            sum.bytes += step->compute.bytes;
            sum.converted += step->compute.converted;
            sum.kernels += step->compute.kernels;
        }
    return sum;
}

/* The names of @count steps from @first on are @expected, with commas between. */
static void expect_names(const struct schedule *schedule, int32_t first, int32_t count,
                         const char *expected)
{
    HELD(text) names = {0};
    for (int32_t id = first; id < first + count; id++)
        text_add(&names, "%s%s", id > first ? ", " : "", schedule->step[id].name);
    assert_string_equal(names.data, expected);
}

TEST(toy_is_what_one_would_write_down)
{
    OWN(model) *model = begin("toy", 32);
    OWN(schedule) *schedule = iteration_build(&it);
    assert_true(schedule->sealed);
    expect_names(schedule, 0, schedule->step_count,
                 "input, conv1 forward, bn1 forward, conv2 forward, bn2 forward, conv3 forward, "
                 "bn3 forward, avgpool forward, fc forward, loss, fc backward-data, fc "
                 "backward-filter, avgpool backward-data, bn3 backward-data, conv3 backward-data, "
                 "conv3 backward-filter, bn2 backward-data, conv2 backward-data, conv2 "
                 "backward-filter, bn1 backward-data, conv1 backward-filter, bucket 0 row "
                 "reduce-scatter, bucket 0 column all-reduce, bucket 0 row all-gather, optimizer");
}

TEST(no_arithmetic_is_lost_or_invented)
{
    static const enum pass pass[] = {[COMPUTE_FORWARD] = PASS_FORWARD,
                                     [COMPUTE_BACKWARD_DATA] = PASS_BACKWARD_DATA,
                                     [COMPUTE_BACKWARD_FILTER] = PASS_BACKWARD_FILTER};
    OWN(model) *model = begin("resnet50", 224);
    OWN(schedule) *schedule = iteration_build(&it);
    assert_int_equal(sum_of(schedule, COMPUTE_FORWARD).flops, 32 * 2 * INT64_C(4089184256));
    for (enum compute_op op = 0; op < COMPUTE_OPTIMIZER; op++)
        if (op != COMPUTE_LOSS)
            assert_int_equal(sum_of(schedule, op).flops, 32 * model_flops(model, pass[op]));
}

/* Forward reads every weight once per batch, whatever the batch. */
TEST(weights_are_read_once_per_batch)
{
    OWN(model) *model = begin("resnet50", 224);
    OWN(schedule) *full = iteration_build(&it);
    it.micro_batch = it.batch = 16;
    OWN(schedule) *half = iteration_build(&it);
    int64_t weights = 2 * sum_of(half, COMPUTE_FORWARD).bytes - sum_of(full, COMPUTE_FORWARD).bytes;
    assert_int_equal(weights, 2 * model_parameters(model));
}

/* Of 1000 classes an image: three passes in fp16, or seven in fp32 and a copy there and back. */
TEST(the_loss_moves_what_the_software_needs)
{
    OWN(model) *model = begin("resnet50", 224);
    OWN(schedule) *fused = iteration_build(&it);
    int64_t scores = it.batch * 1000;
    assert_int_equal(sum_of(fused, COMPUTE_LOSS).bytes, scores * 3 * 2);
    it.merges.passes = true;
    OWN(schedule) *unfused = iteration_build(&it);
    assert_int_equal(sum_of(unfused, COMPUTE_LOSS).bytes, scores * (7 * 4 + 2 * 6));
}

/* 25,557,032 parameters: LARS reads weight and gradient twice and the momentum, and writes weight,
 * momentum and the fp16 copy: 4 * 5 + 2 * 3 bytes each. */
TEST(the_optimizer_moves_what_is_written_down)
{
    OWN(model) *model = begin("resnet50", 224);
    OWN(schedule) *lars = iteration_build(&it);
    const struct step *step = &lars->step[lars->step_count - 1];
    assert_int_equal(step->compute.op, COMPUTE_OPTIMIZER);
    assert_int_equal(step->compute.bytes, INT64_C(25557032) * 26);
    assert_int_equal(step->compute.kernels, 3 + 3);

    scenario.training.optimizer = OPTIMIZER_SGD;
    scenario.model.compute = scenario.model.gradients = DTYPE_FP32;
    OWN(schedule) *sgd = iteration_build(&it);
    step = &sgd->step[sgd->step_count - 1];
    assert_int_equal(step->compute.bytes, INT64_C(25557032) * 20);
    assert_int_equal(step->compute.kernels, 3);

    scenario.model.compute = DTYPE_FP16;
    it.micro_batch = it.batch / 4;
    OWN(schedule) *fused = iteration_build(&it);
    it.merges.copies = true; /* each micro-batch's in fp16 and the sum read, the sum written */
    OWN(schedule) *apart = iteration_build(&it);
    assert_int_equal(apart->step[apart->step_count - 1].compute.bytes -
                         fused->step[fused->step_count - 1].compute.bytes,
                     INT64_C(25557032) * 4 * (2 + 4 + 4));
}

/* Words of four bytes that each optimizer moves for a parameter in fp32: w, its moments, u and g as
 * core/schedule/optimizer.h lists them, and g once more to clip, which LARS reads anyway. */
TEST(each_optimizer_moves_and_launches_what_is_written_down)
{
    static const struct {
        enum optimizer_kind kind;
        double momentum;
        int32_t words, clipped, kernels;
    } row[] = {
        {OPTIMIZER_SGD, 0.9, 5, 6, 3},      {OPTIMIZER_LARS, 0.9, 7, 7, 6},
        {OPTIMIZER_ADAMW, 0.9, 7, 8, 3},    {OPTIMIZER_LAMB, 0.9, 12, 13, 9},
        {OPTIMIZER_ADAFACTOR, 0, 8, 9, 12}, {OPTIMIZER_RMSPROP, 0.9, 7, 8, 3},
        {OPTIMIZER_RMSPROP, 0, 5, 6, 3},
    };
    OWN(model) *model = begin("resnet50", 224);
    scenario.model.compute = scenario.model.gradients = DTYPE_FP32;
    for (size_t i = 0; i < ARRAY_SIZE(row); i++)
        for (int32_t clip = 0; clip < 2; clip++) {
            scenario.training.optimizer = row[i].kind;
            scenario.training.momentum = row[i].momentum;
            scenario.training.clip = clip;
            OWN(schedule) *schedule = iteration_build(&it);
            const struct step *step = &schedule->step[schedule_find(schedule, ROLE_OPTIMIZER)];
            int32_t words = clip ? row[i].clipped : row[i].words;
            int32_t more = clip && words > row[i].words && row[i].kernels == 3 ? 2 : 0;
            assert_int_equal(step->compute.bytes, INT64_C(25557032) * 4 * words);
            assert_int_equal(step->compute.kernels, row[i].kernels + more);
            assert_string_equal(step->compute.shape, optimizer_names[row[i].kind]);
        }
}

TEST(a_bucket_leaves_when_its_last_gradient_is_ready)
{
    OWN(model) *model = begin("resnet50", 224);
    OWN(schedule) *schedule = iteration_build(&it);
    HELD(bucket_list) list = bucket_build(model, DTYPE_FP16, 4194304, -1);
    int32_t optimizer = schedule->step_count - 1;
    assert_int_equal(list.count, 13);
    for (int32_t bucket = 0; bucket < list.count; bucket++) {
        char name[56];
        snprintf(name, sizeof(name), "bucket %d row reduce-scatter", bucket);
        int32_t first = require_step(schedule, name);
        const struct step *scatter = &schedule->step[first];
        assert_int_equal(scatter->dep_end - scatter->dep_begin, 1);
        const struct step *ready = &schedule->step[schedule->dep[scatter->dep_begin].step];
        assert_int_equal(ready->compute.layer, list.bucket[bucket].layer);
        assert_true(ready->compute.op == COMPUTE_BACKWARD_FILTER ||
                    ready->compute.layer_op == LAYER_BATCH_NORM);
        assert_int_equal(scatter->collective.bytes, list.bucket[bucket].bytes);
        assert_int_equal(schedule->step[first + 1].collective.bytes,
                         (list.bucket[bucket].bytes + 3) / 4);
        assert_true(depends(schedule, optimizer, first + 2, 0));
    }
}

TEST(without_overlap_every_bucket_waits_for_the_whole_backward_pass)
{
    OWN(model) *model = begin("resnet50", 224);
    scenario.allreduce.overlap = OVERLAP_NONE;
    OWN(schedule) *schedule = iteration_build(&it);
    int32_t last = require_step(schedule, "conv1 backward-filter"), waiting = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.op == COLLECTIVE_REDUCE_SCATTER) {
            assert_true(depends(schedule, id, last, 0));
            waiting++;
        }
    }
    assert_int_equal(waiting, 13);
}

TEST(a_sharded_toy_is_what_one_would_write_down)
{
    OWN(model) *model = begin("toy", 32);
    scenario.parallel.sharding = 1;
    scenario.allreduce.overlap = OVERLAP_NONE;
    it.bucket = model_parameters(model) / 3 * 2 * 2;
    OWN(schedule) *schedule = iteration_build(&it);
    int32_t count = schedule->step_count;
    expect_names(schedule, 0, 4,
                 "bucket 1 row all-gather, bucket 0 row all-gather, input, conv1 forward");
    expect_names(
        schedule, count - 8, 8,
        "conv1 backward-filter, bucket 0 row reduce-scatter, bucket 0 column all-reduce, bucket 1 "
        "row reduce-scatter, bucket 1 column all-reduce, norms, norms world all-reduce, optimizer");
    assert_true(depends(schedule, 3, 1, 0)); /* all parameters */
    for (int32_t i = 0; i < 2; i++)
        assert_true(depends(schedule, i, count - 1, 1));
    assert_true(depends(schedule, count - 5, count - 6, 0)); /* buckets do not overlap */
    assert_true(depends(schedule, count - 3, count - 6, 0));
    assert_true(depends(schedule, count - 3, count - 4, 0));
    assert_int_equal(schedule_find(schedule, ROLE_OPTIMIZER), count - 1);
    assert_int_equal(schedule_find(schedule, ROLE_NORMS), count - 3);
    scenario.allreduce.algorithm = ALGORITHM_RING;
    it.merges.whole = true;
    OWN(schedule) *whole = iteration_build(&it);
    assert_string_equal(whole->step[0].name, "bucket 1 world all-gather");
    assert_string_equal(whole->step[whole->step_count - 4].name, "bucket 1 world all-reduce");
}

/* Four shards of 6,389,258 parameters: fp32 gradients go out, fp16 parameters come back; 161
 * tensors have two norms each, and 53,120 parameters of batch norm and 1000 biases stay in fp32. */
TEST(a_shard_moves_what_is_written_down)
{
    OWN(model) *model = begin("resnet50", 224);
    scenario.parallel.sharding = 1;
    scenario.model.gradients = DTYPE_FP32;
    OWN(schedule) *schedule = iteration_build(&it);
    HELD(bucket_list) list = bucket_build(model, DTYPE_FP32, 4194304, -1);
    int64_t bytes[COLLECTIVE_OP_COUNT] = {0};
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COLLECTIVE)
            continue;
        if (step->collective.op == COLLECTIVE_ALL_GATHER) {
            char forward[96];
            int32_t layer = list.bucket[step->collective.bucket].layer;
            snprintf(forward, sizeof(forward), "%s forward", model->layer[layer].name);
            bool same = step->collective.bucket > 0 &&
                        list.bucket[step->collective.bucket - 1].layer == layer;
            assert_true(same || waits(schedule, forward, id));
        }
        bytes[step->collective.op] += step->collective.bytes;
    }
    assert_int_equal(bytes[COLLECTIVE_REDUCE_SCATTER], INT64_C(25557032) * 4);
    assert_int_equal(bytes[COLLECTIVE_ALL_GATHER], INT64_C(25557032) * 2);
    assert_int_equal(bytes[COLLECTIVE_ALL_REDUCE], INT64_C(25557032) + (161 * 2 + 54120) * 4);
    const struct step *norms = &schedule->step[schedule_find(schedule, ROLE_NORMS)];
    const struct step *update = &schedule->step[schedule_find(schedule, ROLE_OPTIMIZER)];
    assert_int_equal(norms->compute.bytes, INT64_C(6389258) * 8);
    assert_int_equal(update->compute.bytes, INT64_C(6389258) * 22);
    assert_int_equal(norms->compute.kernels + update->compute.kernels, 3 + 3);
}

/* The norm of all gradients with those that stay in fp32, then what each tensor's factor needs. */
TEST(a_shard_of_lamb_sums_its_steps_once_its_moments_are_there)
{
    OWN(model) *model = begin("resnet50", 224);
    scenario.parallel.sharding = 1;
    scenario.training.optimizer = OPTIMIZER_LAMB;
    OWN(schedule) *schedule = iteration_build(&it);
    int32_t last = schedule->step_count - 1;
    assert_int_equal(schedule->step[last - 3].collective.bytes, (1 + 54120) * 4);
    assert_int_equal(schedule_find(schedule, ROLE_MOMENTS), last - 2);
    assert_string_equal(schedule->step[last - 1].name, "steps world all-reduce");
    assert_int_equal(schedule->step[last - 1].collective.bytes, 161 * 2 * 4);
    for (int32_t id = last - 2; id <= last; id++)
        assert_true(depends(schedule, id, id - 1, 0));
}

/* What a rank sends of gradients and weights [bytes]. */
static double sent(const struct schedule *schedule)
{
    double bytes = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COLLECTIVE || step->collective.content == CONTENT_NORMS)
            continue;
        struct collective c = schedule_collective(schedule, id);
        for (int32_t round = 0; round < collective_rounds(&c); round++)
            bytes += collective_share(&c, round) * (double)c.elements;
    }
    return bytes;
}

/* Losses that wait for the gradients that were exchanged last. */
static int32_t count_waiting_losses(const struct schedule *schedule)
{
    int32_t count = 0, exchanged = -1;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.content == CONTENT_GRADIENTS)
            exchanged = id;
        if (step->kind == STEP_COMPUTE && step->compute.op == COMPUTE_LOSS)
            count += exchanged >= 0 && depends(schedule, id, exchanged, 0);
    }
    return count;
}

/* Each pass of 25,557,032 parameters of 2 bytes among 8 ranks: gathered twice, and scattered; with
 * stage 2 scattered alone, and gathered once a step.  Norms are 161 pairs, and with stage 2 there
 * are gradients of 54,120 parameters among them. */
TEST(sharded_weights_go_round_three_times_a_pass)
{
    OWN(model) *model = begin("resnet50", 224);
    scenario.allreduce.algorithm = ALGORITHM_RING;
    const double around = 25557032.0 * 2 * 7 / 8;
    for (int32_t passes = 1; passes <= 2; passes++)
        for (int32_t stage = 1; stage <= 3; stage++) {
            scenario.parallel.sharding = stage;
            it.micro_batch = it.batch / passes;
            OWN(schedule) *schedule = iteration_build(&it);
            int32_t times = stage == 3 ? 3 * passes : stage == 2 ? passes + 1 : 2;
            assert_relative(sent(schedule), times * around, 1e-12);
            int32_t norms = require_step(schedule, "norms world all-reduce");
            assert_int_equal(schedule->step[norms].collective.bytes,
                             (161 * 2 + (stage < 3 ? 54120 : 0)) * 4);
            assert_int_equal(count_waiting_losses(schedule), stage >= 2 ? passes - 1 : 0);
        }
}

/* The group of layers of @layer, by the lowest layers of buckets, in the order of forward. */
static int32_t group_of(const struct bucket_list *list, int32_t layer)
{
    int32_t group = -1;
    for (int32_t i = 0; i < list->count; i++)
        group += list->bucket[i].layer <= layer &&
                 (i == 0 || list->bucket[i - 1].layer != list->bucket[i].layer);
    return group;
}

/* Compute steps of one group alone run from what gather @id waits for to the first that waits for
 * it: no third group is in memory. */
static void check_a_group_ahead(const struct schedule *schedule, const struct bucket_list *list,
                                int32_t id)
{
    const struct dep *dep = &schedule->dep[schedule->step[id].dep_begin];
    int32_t own = group_of(list, list->bucket[schedule->step[id].collective.bucket].layer);
    assert_int_equal(dep->distance, dep->step == schedule_find(schedule, ROLE_OPTIMIZER));
    for (int32_t i = dep->distance ? 0 : dep->step + 1; !depends(schedule, i, id, 0); i++) {
        const struct step *step = &schedule->step[i];
        assert_int_not_equal(step->role, ROLE_OPTIMIZER);
        if (step->kind == STEP_COLLECTIVE && i > id &&
            step->collective.content == CONTENT_PARAMETERS &&
            group_of(list, list->bucket[step->collective.bucket].layer) == own)
            break; /* a later bucket of the group is waited for */
        if (step->kind == STEP_COMPUTE && step->compute.layer >= 0)
            assert_int_equal(group_of(list, step->compute.layer),
                             step->compute.op == COMPUTE_FORWARD ? own - 1 : own + 1);
    }
}

TEST(sharded_weights_are_gathered_a_group_ahead)
{
    OWN(model) *model = begin("resnet50", 224);
    scenario.allreduce.algorithm = ALGORITHM_RING;
    scenario.parallel.sharding = 3;
    it.micro_batch = it.batch / 2;
    OWN(schedule) *schedule = iteration_build(&it);
    HELD(bucket_list) list = bucket_build(model, DTYPE_FP16, it.bucket, -1);
    bool there[64] = {false};
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind == STEP_COLLECTIVE && step->collective.content == CONTENT_PARAMETERS)
            check_a_group_ahead(schedule, &list, id);
        for (int32_t i = step->dep_begin; i < step->dep_end; i++) {
            const struct step *before = &schedule->step[schedule->dep[i].step];
            if (step->kind == STEP_COMPUTE && before->kind == STEP_COLLECTIVE &&
                before->collective.content == CONTENT_PARAMETERS)
                there[group_of(&list, list.bucket[before->collective.bucket].layer)] = true;
        }
        if (step->kind != STEP_COMPUTE || step->compute.op == COMPUTE_OPTIMIZER)
            continue;
        bool forward = step->compute.op == COMPUTE_FORWARD;
        int32_t own = step->compute.layer >= 0 ? group_of(&list, step->compute.layer) : -1;
        for (int32_t group = 0; group < 64; group++)
            if (forward ? group < own : own < 0 || group > own)
                there[group] = false; /* freed */
        assert_true(own < 0 || there[own]);
    }
}

static int64_t sum_exchanged(const struct schedule *schedule, enum collective_op op, int64_t *bytes)
{
    int64_t count = 0;
    for (const struct step *step = schedule->step; step < end_of(schedule); step++)
        if (step->lane == LANE_TENSOR && step->collective.op == op &&
            step->collective.content == CONTENT_ACTIVATIONS &&
            strncmp(step->name, "loss", 4) != 0) {
            *bytes += step->collective.bytes;
            count++;
        }
    return count;
}

/* Four all-reduces a layer, of all values of its input, one of the tokens' values and one of the
 * gradient of what the words are computed from; apart each is a reduce-scatter and an all-gather.
 * Source: Korthikanti et al. 2022. */
TEST(ranks_that_share_layers_exchange_their_values)
{
    const int64_t passes = 2, each = 2 * 1024 * 768 * 2, times = passes * (4 * 12 + 2);
    for (int apart = 0; apart < 2; apart++) {
        OWN(model) *part =
            begin_language("gpt2", (struct transformer){.tensor = 4, .apart = apart});
        it.grid = (struct grid){.columns = 2, .rows = 1, .tensor = 4};
        it.batch = 4;
        it.micro_batch = 2;
        OWN(schedule) *schedule = iteration_build(&it);
        int64_t bytes[COLLECTIVE_OP_COUNT] = {0}, count[COLLECTIVE_OP_COUNT];
        for (enum collective_op op = 0; op < COLLECTIVE_SEND; op++) {
            count[op] = sum_exchanged(schedule, op, &bytes[op]);
            assert_int_equal(count[op], (op == COLLECTIVE_ALL_REDUCE) != apart ? times : 0);
            assert_int_equal(bytes[op], count[op] * each);
        }
        const char *name =
            apart ? "layer1.attention.enter reduce-scatter" : "layer1.attention.enter all-reduce";
        int32_t exchange = require_step(schedule, name);
        assert_true(
            depends(schedule, exchange, require_step(schedule, "layer1.query backward-data"), 0));
        assert_true(waits(schedule, "layer1.attention.norm backward-data", exchange));
        assert_false(waits(schedule, "layer1.query backward-filter", exchange));
    }
}

/* Of four parts of an exchange three travel beside the products before a sum or behind a gather,
 * and what follows waits for the fourth.  The bytes are those of whole exchanges. */
TEST(exchanges_run_beside_products)
{
    OWN(model) *part = begin_language("gpt2", (struct transformer){.tensor = 4, .apart = true});
    it.grid = (struct grid){.columns = 2, .rows = 1, .tensor = 4};
    it.batch = it.micro_batch = 2;
    const int64_t each = 2 * 1024 * 768 * 2;
    int64_t bytes[2] = {0};
    for (int32_t beside = 0; beside < 2; beside++) {
        it.merges.exchanges = beside;
        OWN(schedule) *schedule = iteration_build(&it);
        for (enum collective_op op = 0; op < COLLECTIVE_SEND; op++)
            sum_exchanged(schedule, op, &bytes[beside]);
        int32_t sum = require_step(schedule, "layer1.attention.leave reduce-scatter");
        int32_t gather = require_step(schedule, "layer1.attention.enter all-gather");
        int32_t product = require_step(schedule, "layer1.output forward");
        if (beside) {
            assert_true(
                depends(schedule, sum, require_step(schedule, "layer1.context forward"), 0));
            assert_int_equal(schedule->step[sum].collective.bytes, 3 * each / 4);
            assert_int_equal(schedule->step[gather + 1].collective.bytes, 3 * each / 4);
            sum++;
        }
        assert_true(depends(schedule, sum, product, 0));
        assert_int_equal(schedule->step[sum].collective.bytes, beside ? each / 4 : each);
        assert_true(waits(schedule, "layer1.attention.dropout forward", sum));
        assert_true(waits(schedule, "layer1.query forward", gather));
        assert_false(waits(schedule, "layer1.query forward", gather + 1));
    }
    assert_int_equal(bytes[1], bytes[0]);
}

/* Of one layer, four experts' gates, ways up and down, each forward and twice backward. */
TEST(each_expert_may_have_kernels_of_its_own)
{
    OWN(model) *model = begin_language(
        "mixtral-8x7b",
        (struct transformer){.layers = 1, .sequence = 16, .experts = 4, .bias = CHOICE_TRUE});
    it.grid = grid_of(1, 1);
    it.batch = it.micro_batch = 1;
    int64_t kernels[2];
    for (int32_t apart = 0; apart < 2; apart++) {
        it.merges.experts = apart;
        OWN(schedule) *schedule = iteration_build(&it);
        kernels[apart] = sum_of(schedule, COMPUTE_OP_COUNT).kernels;
        const struct device host = {.launch.value = 1, .experts_launch.value = 2};
        assert_true(cost_host(&host, schedule) == 2.0 * (double)kernels[apart]);
        /* 68 bytes for each of 16 x 2 x 4096 values, forward and backward together. */
        int32_t bias = require_step(schedule, "layer0.down.bias forward");
        assert_int_equal(schedule->step[bias].compute.bytes, 16 * 2 * 4096 * 68 / 2);
    }
    assert_int_equal(kernels[1] - kernels[0], 3 * 3 * (4 - 1));
}

TEST(other_networks_have_the_launch_of_all)
{
    OWN(model) *model =
        begin_language("llama-3-8b", (struct transformer){.layers = 1, .sequence = 16});
    OWN(schedule) *schedule = build_on(grid_of(1, 1), 1);
    const struct device one = {.launch.value = 1};
    const struct device both = {.launch.value = 1, .experts_launch.value = 2};
    assert_true(cost_host(&one, schedule) > 0);
    assert_true(cost_host(&both, schedule) == cost_host(&one, schedule));
}

/* Queries, keys and values read the same, and so do both products of a gated unit: each is made
 * narrow once forward, and each gradient backward.  By hand, of 4096 features, 1024 of keys and of
 * values, and 14336 inside: 4 of 2 + 2 bytes of values and gradients. */
TEST(what_products_share_is_made_narrow_once)
{
    OWN(model) *model =
        begin_language("llama-3-8b", (struct transformer){.layers = 1, .sequence = 16});
    scenario.model.products = PRODUCTS_FP8;
    OWN(schedule) *schedule = build_on(grid_of(1, 1), 1);
    assert_int_equal(sum_of(schedule, COMPUTE_FORWARD).converted, 4 * 16 * (3 * 4096 + 14336));
    assert_int_equal(sum_of(schedule, COMPUTE_BACKWARD_DATA).converted,
                     4 * 16 * (4096 + 2 * 1024 + 2 * 14336 + 2 * 4096));
}

/* One layer of 8 key-value heads of 128 features, of 4 ranks with 256 positions each: keys and
 * values of 1024 are gathered forward, and backward once more, whose gradients are scattered. */
TEST(ranks_that_share_sequences_exchange_keys_and_values)
{
    OWN(model) *part = begin_language(
        "llama-3-8b", (struct transformer){.layers = 1, .sequence = 1024, .context = 4});
    int64_t flops[2];
    for (int32_t by = CONTEXT_RING; by <= CONTEXT_ALL_GATHER; by++) {
        scenario.parallel.context_by = by;
        OWN(schedule) *schedule = build_on((struct grid){.columns = 2, .rows = 1, .context = 4}, 1);
        int64_t bytes[COLLECTIVE_OP_COUNT] = {0};
        assert_int_equal(sum_exchanged(schedule, COLLECTIVE_ALL_GATHER, &bytes[0]), 4);
        assert_int_equal(sum_exchanged(schedule, COLLECTIVE_REDUCE_SCATTER, &bytes[1]), 2);
        assert_int_equal(bytes[0], 4 * 8 * 128 * 1024 * 2);
        assert_int_equal(bytes[1], 2 * 8 * 128 * 1024 * 2);
        int32_t collect = require_step(schedule, "layer0.value.collect all-gather");
        assert_int_equal(waits(schedule, "layer0.scores forward", collect),
                         by == CONTEXT_ALL_GATHER);
        flops[by] = sum_of(schedule, COMPUTE_OP_COUNT).flops;
    }
    assert_int_equal(flops[0], flops[1]);
}

/* One layer of 8 experts, 2 for each of 1024 positions of 4096 features in 16 bits, on 4 ranks of
 * which the busiest has a quarter more: to the experts and back, forward and backward.  Their
 * gradients are summed over the 2 ranks that have the same, all others over 8. */
TEST(ranks_that_share_experts_send_positions_to_them)
{
    OWN(model) *part = begin_language(
        "mixtral-8x7b",
        (struct transformer){.layers = 1, .sequence = 1024, .expert = 4, .imbalance = 1.25});
    for (int32_t sharding = 0; sharding < 4; sharding++) {
        scenario.training.optimizer = OPTIMIZER_ADAMW;
        scenario.parallel.sharding = sharding;
        scenario.parallel.expert = 4;
        OWN(schedule) *schedule = build_on((struct grid){.columns = 8, .rows = 1, .expert = 4}, 1);
        int64_t bytes = 0, summed[AXIS_COUNT] = {0}, gathered[AXIS_COUNT] = {0};
        assert_int_equal(sum_exchanged(schedule, COLLECTIVE_ALL_TO_ALL, &bytes), 4);
        assert_int_equal(bytes, 4 * 1024 * 2 * 4096 * 2 * 5 / 4);
        int32_t sort = require_step(schedule, "layer0.dispatch.sort forward"); /* for two experts */
        assert_int_equal(schedule->step[sort].compute.bytes, 2 * 1024 * 2 * 4096 * 2 * 5 / 4);
        require_step(schedule, "layer0.combine.sort backward-data");
        for (const struct step *step = schedule->step; step < end_of(schedule); step++) {
            if (step->kind == STEP_COLLECTIVE && step->collective.content == CONTENT_GRADIENTS)
                summed[step->collective.axis] += step->collective.bytes;
            if (step->kind == STEP_COLLECTIVE && step->collective.content == CONTENT_PARAMETERS)
                gathered[step->collective.axis] += step->collective.bytes;
        }
        const int64_t experts = 2LL * 3 * 4096 * 14336;
        assert_int_equal(summed[AXIS_COPIES], 2 * experts);
        assert_int_equal(summed[AXIS_WORLD], 2 * (model_parameters(part) - experts));
        int64_t others = model_parameters(part) - experts;
        const int32_t gathers = sharding == 3 ? 2 : sharding > 0; /* backward, too */
        assert_int_equal(gathered[AXIS_COPIES], gathers * 2 * experts);
        assert_int_equal(gathered[AXIS_WORLD], gathers * 2 * others);
        const struct step *update = &schedule->step[schedule_find(schedule, ROLE_OPTIMIZER)];
        assert_int_equal(update->compute.amount,
                         sharding ? experts / 2 + others / 8 : experts + others);
        assert_true(schedule->far == 0);
    }
    scenario.parallel.tensor = 2; /* and whole experts: two copies on 8 ranks of 4 replicas */
    scenario.parallel.expert_tensor = 1;
    assert_int_equal(optimizer_shard(part, &scenario, 4),
                     (model_parameters(part) - 2LL * 3 * 4096 * 14336 + 3) / 4 + 3 * 4096 * 14336);
    scenario.parallel.tensor = scenario.parallel.expert_tensor = 0;
    scenario.parallel.expert_by = EXPERT_NODES; /* two of eight experts on two nodes */
    it.devices_per_node = 2;
    OWN(schedule) *schedule = build_on((struct grid){.columns = 8, .rows = 1, .expert = 4}, 1);
    double each = 4 * (1 - 6 / 8.0 * 5 / 7) / 2; /* and on four ranks */
    assert_near(schedule->far, 2 * (1 - 4 / 8.0 * 3 / 7) / 2 / each, 1e-15);
    int64_t bytes = 0;
    sum_exchanged(schedule, COLLECTIVE_ALL_TO_ALL, &bytes);
    assert_int_equal(bytes, 4 * (int64_t)(each * (1024 * 2 * 4096 * 2 * 5 / 4)));
}

/* Nodes of all choices of 3 of 12 experts in some of 6 groups, one by one; and of DeepSeek-V3 over
 * 8 nodes half of the groups, so that the one on a node has an expert with 1 - (96 over 8) / (128
 * over 8). */
TEST(groups_of_experts_bound_the_nodes_of_a_position)
{
    static const int32_t sizes[] = {1, 2, 3, 6, 12, 4}; /* the last without whole groups */
    for (int32_t used = 2; used <= 6; used++)
        for (size_t n = 0; n < ARRAY_SIZE(sizes); n++) {
            const int32_t nodes = sizes[n];
            struct router router = {12, 3, 6, used};
            int64_t choices = 0, found = 0;
            for (uint32_t groups = 0; groups < 64; groups++)
                for (uint32_t experts = 0; experts < 4096; experts++) {
                    uint32_t seen = 0;
                    bool inside = __builtin_popcount(groups) == used &&
                                  __builtin_popcount(experts) == router.active;
                    for (int32_t e = 0; e < 12 && inside; e++)
                        if (experts >> e & 1) {
                            inside = groups >> e / 2 & 1;
                            seen |= 1u << e * nodes / 12;
                        }
                    choices += inside;
                    found += inside ? __builtin_popcount(seen) : 0;
                }
            double part = (double)found / (double)choices / router.active;
            assert_near(router_part(&router, nodes), part, nodes == 4 ? 0.04 : 1e-12);
        }
    double none = 1;
    for (int32_t i = 0; i < 8; i++)
        none *= (96.0 - i) / (128 - i);
    assert_near(router_part(&(struct router){256, 8, 8, 4}, 8), 8 * 0.5 * (1 - none) / 8, 1e-12);
}

/* A window of 32 of 256 positions, in two layers with both products of 32 heads of 128 features. */
TEST(windows_save_where_a_kernel_leaves_positions_out)
{
    OWN(model) *model = begin_language(
        "mistral-7b", (struct transformer){.layers = 2, .sequence = 256, .window = 32});
    int64_t flops[ATTENTION_COUNT];
    for (enum attention attention = 0; attention < ATTENTION_COUNT; attention++) {
        it.merges.attention = attention;
        OWN(schedule) *schedule = build_on((struct grid){.columns = 1, .rows = 1}, 1);
        flops[attention] = sum_of(schedule, COMPUTE_OP_COUNT).flops;
    }
    assert_int_equal(flops[ATTENTION_FUSED], flops[ATTENTION_UNFUSED]);
    int64_t pairs = 32 * 33 / 2 + (256 - 32) * 32;
    assert_int_equal(flops[ATTENTION_UNFUSED] - flops[ATTENTION_FLASH],
                     2 * 3 * 2 * 2 * 4096 * (256 * 256 - (2 * pairs - 256)));
}

/* Attention of n parts of c s, and n - 1 rounds of r s: max(n c, (n - 1) r + c), backward of 2 c
 * and 2 r. */
TEST(attention_runs_beside_a_ring)
{
    OWN(model) *part = begin_language(
        "llama-3-8b", (struct transformer){.layers = 1, .sequence = 1024, .context = 4});
    OWN(schedule) *schedule = build_on((struct grid){.columns = 1, .rows = 1, .context = 4}, 1);
    AUTOFREE double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
    AUTOFREE struct when *when = base_alloc(schedule->step_count, sizeof(*when));
    for (int32_t r = 0; r < 4; r++) {
        int64_t all[2] = {0};
        for (int32_t id = 0; id < schedule->step_count; id++) {
            const struct step *step = &schedule->step[id];
            if (step->lane == LANE_TENSOR)
                seconds[id] = 3 * r / 2.0;
            else if (step->kind == STEP_COMPUTE && step->compute.layer >= 0 &&
                     part->layer[step->compute.layer].op == LAYER_MATMUL)
                all[step->compute.op != COMPUTE_FORWARD] += step->compute.flops;
        }
        for (int32_t id = 0; id < schedule->step_count; id++)
            if (schedule->step[id].kind == STEP_COMPUTE) {
                bool back = schedule->step[id].compute.op != COMPUTE_FORWARD;
                int32_t layer = schedule->step[id].compute.layer;
                bool attends = layer >= 0 && part->layer[layer].op == LAYER_MATMUL;
                seconds[id] = attends
                                  ? (back ? 8.0 : 4.0) * (double)schedule->step[id].compute.flops /
                                        (double)all[back]
                                  : 0;
            }
        lanes_run(schedule, (struct slowdown){0}, seconds, 1, 1, when);
        double end = 0;
        for (int32_t id = 0; id < schedule->step_count; id++)
            end = fmax(end, schedule->step[id].lane == LANE_COMPUTE ? when[id].end : 0);
        assert_true(fabs(end - fmax(4, 3 * r + 1) - fmax(8, 3 * 2 * r + 2)) < 1e-9);
    }
}

/* Seconds of an iteration of @batch micro-batches of one layer: attention takes 1 s, an expert 3,
 * backward twice as long, an exchange @exchange. */
static double with_experts(const struct model *part, int64_t batch, double exchange)
{
    it.batch = batch;
    OWN(schedule) *schedule = iteration_build(&it);
    AUTOFREE double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
    AUTOFREE struct when *when = base_alloc(schedule->step_count, sizeof(*when));
    double end = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        const char *name = step->kind == STEP_COMPUTE && step->compute.layer >= 0
                               ? part->layer[step->compute.layer].name
                               : "";
        bool travels = step->kind == STEP_COLLECTIVE && step->collective.axis == AXIS_EXPERT;
        seconds[id] = travels                         ? exchange
                      : !strcmp(name, "layer0.query") ? 1
                      : !strcmp(name, "layer0.down")  ? 3
                                                      : 0;
    }
    lanes_run(schedule, (struct slowdown){0}, seconds, 1, 1, when);
    for (int32_t id = 0; id < schedule->step_count; id++)
        end = fmax(end, when[id].end);
    return end;
}

/* A micro-batch more takes 12 s of computation and four exchanges, one after the other or at once;
 * the first forward and the last backward have nothing beside them. */
TEST(positions_travel_beside_another_micro_batch)
{
    OWN(model) *part = begin_language(
        "mixtral-8x7b", (struct transformer){.layers = 1, .sequence = 64, .expert = 4});
    scenario.parallel.expert = 4;
    it.grid = (struct grid){.columns = 4, .rows = 1, .expert = 4};
    it.micro_batch = 1;
    for (int32_t e = 0; e < 6; e++)
        for (int32_t overlap = 0; overlap < 2; overlap++) {
            scenario.parallel.expert_overlap = overlap;
            double few = with_experts(part, 4, e), more = with_experts(part, 5, e);
            assert_near(with_experts(part, 1, e), 12 + 4 * e, 1e-9);
            assert_near(more - few, overlap ? fmax(12, 4 * e) : 12 + 4 * e, 1e-9);
        }
}

/* Also where weights are gathered in between. */
TEST(what_reads_an_exchanged_value_waits_for_it)
{
    OWN(model) *part = begin_language("gpt2", (struct transformer){.tensor = 4});
    scenario.training.optimizer = OPTIMIZER_ADAMW;
    scenario.allreduce.algorithm = ALGORITHM_TORUS2D;
    scenario.parallel.sharding = 3;
    it.bucket = 1 << 20;
    OWN(schedule) *schedule = build_on((struct grid){.columns = 2, .rows = 2, .tensor = 4}, 2);
    int32_t exchange = -1, behind = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        if (schedule->step[id].lane == LANE_TENSOR)
            exchange = id;
        if (schedule->step[id].kind != STEP_COMPUTE || exchange < 0)
            continue;
        assert_true(depends(schedule, id, exchange, 0));
        behind += schedule->step[id - 1].lane == LANE_ROW;
        exchange = -1;
    }
    assert_true(behind > 0);
}

static int32_t count_again(const struct schedule *schedule)
{
    int32_t again = 0;
    for (const struct step *step = schedule->step; step < end_of(schedule); step++)
        again += strstr(step->name, " again") != NULL;
    return again;
}

/* Full: a block's layers and two of its four exchanges more; selective: products, softmax, dropout;
 * norms: both and an activation.
 * Source: Korthikanti et al. 2022. */
TEST(layers_that_are_not_kept_run_again)
{
    static const int32_t layers[RECOMPUTE_COUNT] = {
        [RECOMPUTE_NORMS] = 3, [RECOMPUTE_SELECTIVE] = 4, [RECOMPUTE_FULL] = 17};
    OWN(model) *part = begin_language("gpt2", (struct transformer){.tensor = 4});
    for (int32_t how = 0; how < RECOMPUTE_COUNT; how++) {
        scenario.parallel.recompute = how;
        OWN(schedule) *schedule = build_on((struct grid){.columns = 2, .rows = 1, .tensor = 4}, 2);
        int64_t bytes = 0;
        assert_int_equal(sum_exchanged(schedule, COLLECTIVE_ALL_REDUCE, &bytes),
                         (how == RECOMPUTE_FULL ? 6 : 4) * 12 + 2);
        for (int32_t id = 0; id < schedule->step_count; id++) {
            const char *name = schedule->step[id].name;
            if (!strstr(name, " again"))
                continue;
            AUTOFREE char *backward =
                base_format("%.*sbackward-data", (int)(strstr(name, "forward") - name), name);
            assert_true(id < require_step(schedule, backward));
        }
        assert_int_equal(count_again(schedule), 12 * layers[how]);
    }
}

/* Each of 32 blocks without its last product, the add behind it and their exchange; dropout keeps
 * a mask, so that all runs.  Source: PyTorch, torch.utils.checkpoint.set_checkpoint_early_stop. */
TEST(what_runs_again_may_end_before_the_last_product)
{
    static const struct {
        const char *network;
        int32_t fewer, blocks;
    } of[] = {{"llama-3-8b", 2, 32}, {"gpt2", 0, 12}};
    for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
        OWN(model) *part =
            begin_language(of[i].network, (struct transformer){.tensor = 4, .sequence = 128});
        scenario.parallel.recompute = RECOMPUTE_FULL;
        struct grid grid = {.columns = 2, .rows = 1, .tensor = 4};
        OWN(schedule) *all = build_on(grid, 2);
        it.merges.early_stop = true;
        OWN(schedule) *early = build_on(grid, 2);
        int64_t bytes = 0, exchanges = sum_exchanged(all, COLLECTIVE_ALL_REDUCE, &bytes);
        assert_int_equal(count_again(all) - count_again(early), of[i].fewer * of[i].blocks);
        assert_int_equal(exchanges - sum_exchanged(early, COLLECTIVE_ALL_REDUCE, &bytes),
                         of[i].fewer ? of[i].blocks : 0);
    }
}

TEST(one_rank_communicates_nothing)
{
    OWN(model) *model = begin("resnet50", 224);
    it.grid = grid_of(1, 1);
    OWN(schedule) *schedule = iteration_build(&it);
    for (const struct step *step = schedule->step; step < end_of(schedule); step++)
        assert_int_not_equal(step->kind, STEP_COLLECTIVE);
}

TEST(columns_run_what_they_are_told)
{
    OWN(model) *model = begin("toy", 32);
    it.grid = grid_of(4, 2);
    scenario.allreduce.algorithm = ALGORITHM_TORUS2D;
    it.column_algorithm = ALGORITHM_DOUBLE_TREE;
    OWN(schedule) *schedule = iteration_build(&it);
    for (const struct step *step = schedule->step; step < end_of(schedule); step++) {
        if (step->kind == STEP_COLLECTIVE)
            assert_int_equal(step->collective.algorithm,
                             step->lane == LANE_COLUMN ? ALGORITHM_DOUBLE_TREE : ALGORITHM_RING);
    }
}

TEST(input_runs_ahead_as_far_as_it_is_told)
{
    OWN(model) *model = begin("toy", 32);
    for (int32_t prefetch = 0; prefetch < 4; prefetch++) {
        scenario.input.prefetch = prefetch;
        OWN(schedule) *schedule = iteration_build(&it);
        int32_t first = require_step(schedule, "conv1 forward");
        assert_true(depends(schedule, 0, first, prefetch > 1 ? prefetch : 1));
        assert_true(depends(schedule, first, 0, 0));
        assert_int_equal(schedule->step[0].input.images, 32);
        assert_int_equal(schedule->step[0].input.bytes, 32 * 3 * 32 * 32 * 2);
    }
}

/* The exchanges of batch norm's statistics in a group of @group devices, all steps together. */
static int32_t norm_exchanges(int64_t group, bool evaluation)
{
    scenario.training.norm_group = group;
    OWN(schedule) *schedule = evaluation ? iteration_build_forward(&it) : iteration_build(&it);
    int32_t exchanges = 0;
    for (const struct step *step = schedule->step; step < end_of(schedule); step++) {
        if (step->kind == STEP_COMPUTE && step->compute.exchanges) {
            assert_int_equal(step->compute.layer_op, LAYER_BATCH_NORM);
            exchanges += step->compute.exchanges;
        }
    }
    return exchanges;
}

/* ResNet-50 has 53 of them, forward and backward. */
TEST(batch_norm_exchanges_its_sums_within_a_group_of_a_node)
{
    OWN(model) *model = begin("resnet50", 224);
    assert_int_equal(norm_exchanges(1, false), 0);
    assert_int_equal(norm_exchanges(2, false), 53 * 2);
    assert_int_equal(norm_exchanges(4, false), 53 * 2 * 2);
    assert_int_equal(norm_exchanges(8, false), 53 * 2 * 2); /* a node has 4 */
    assert_int_equal(norm_exchanges(4, true), 0);
}

TEST(evaluation_runs_forward_only)
{
    OWN(model) *model = begin("toy", 32);
    OWN(schedule) *schedule = iteration_build_forward(&it);
    assert_true(schedule->sealed);
    assert_int_equal(schedule->step_count, 1 + model->layer_count);
    for (int32_t id = 1; id < schedule->step_count; id++)
        assert_int_equal(schedule->step[id].compute.op, COMPUTE_FORWARD);
}

TEST(refuses_an_all_reduce_of_one_rank_or_broken_nodes)
{
    assert_null(iteration_build_all_reduce((struct all_reduce){.algorithm = ALGORITHM_RING},
                                           grid_of(1, 1), 4, 1000, &err));
    assert_string_equal(err.text, "an all-reduce needs at least 2 ranks\n");
    err_release(&err);
    assert_null(iteration_build_all_reduce((struct all_reduce){.algorithm = ALGORITHM_HIERARCHICAL},
                                           grid_of(3, 2), 4, 1000, &err));
    assert_string_equal(err.text, "a hierarchical all-reduce needs whole nodes: 6 ranks are no "
                                  "multiple of 4 devices per node\n");
}
