/** @file
 * Pipelines: where networks are cut, in which order stages run, and how long they wait, by hand.
 */

#include "core/schedule/pipeline.h"

#include "core/backend/chains.h"
#include "core/backend/lanes.h"
#include "core/schedule/iteration.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/test.h"

static struct scenario scenario_of(int64_t stages, int64_t chunks, enum pipeline_order order)
{
    struct scenario scenario = {0};
    scenario.model.compute = scenario.model.gradients = DTYPE_BF16;
    scenario.allreduce.overlap = OVERLAP_BACKWARD;
    scenario.parallel.pipeline = stages;
    scenario.parallel.chunks = chunks;
    scenario.parallel.schedule = order;
    return scenario;
}

/* A transformer of so many blocks, or the network of that name. */
static struct model *network(const char *name, int64_t blocks)
{
    struct transformer keys = {.sequence = 16, .layers = blocks};
    struct model *model = network_open(NULL, name, 0, 1000, blocks ? &keys : NULL, &err);
    assert_ok(model, err);
    return model;
}

static int32_t blocks_of(const struct model *model, int32_t begin, int32_t end)
{
    int32_t count = 0;
    for (int32_t i = begin; i < end; i++)
        count += strstr(model->layer[i].name, ".attention.add") != NULL;
    return count;
}

static void expect_blocks(const struct pipeline *pipeline, const struct model *model,
                          const int32_t *expected)
{
    for (int32_t part = 0; part < pipeline->parts; part++)
        assert_int_equal(blocks_of(model, part ? pipeline->end[part - 1] : 0, pipeline->end[part]),
                         expected[part]);
}

TEST(blocks_are_shared_evenly_and_the_ends_have_one_fewer)
{
    static const struct {
        int64_t blocks, stages, chunks;
        int32_t expected[8];
    } cases[] = {
        {12, 4, 1, {3, 3, 3, 3}},
        {12, 2, 3, {2, 2, 2, 2, 2, 2}},
        {7, 4, 1, {2, 2, 2, 1}},
        {6, 4, 1, {1, 2, 2, 1}},
        {30, 8, 1, {3, 4, 4, 4, 4, 4, 4, 3}}, /* as Llama 3's 126 blocks
                                                 in 16 stages, and in */
        {6, 4, 2, {0, 1, 1, 1, 1, 1, 1, 0}},  /* 8 chunks of each */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        OWN(model) *model = network("gpt2", cases[i].blocks);
        struct scenario scenario = scenario_of(cases[i].stages, cases[i].chunks, PIPELINE_1F1B);
        HELD(pipeline) pipeline = {0};
        assert_int_equal(pipeline_build(&pipeline, model, &scenario, &err), 0);
        expect_blocks(&pipeline, model, cases[i].expected);
        assert_int_equal(pipeline.end[pipeline.parts - 1], model->layer_count);
    }
}

/* As DeepSeek-V3's 61 blocks in recipes of Megatron-Bridge, tag v0.4.0: 16 and 8 parts have 4 and 8
 * but the last, which has 1 and 5, and of 32 the first has 1, the others 2 and the last none. */
TEST(the_last_part_has_the_blocks_that_others_leave)
{
    static const struct {
        int64_t blocks, stages, each;
        int32_t expected[4];
    } cases[] = {{13, 4, 4, {4, 4, 4, 1}},
                 {5, 4, 2, {1, 2, 2, 0}},
                 {9, 3, 2, {2, 2, 5}},
                 {6, 4, 2, {2, 2, 2, 0}},
                 {13, 4, 7, {0}},
                 {4, 4, 2, {0}},
                 {4, 2, 5, {0}}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        OWN(model) *model = network("gpt2", cases[i].blocks);
        struct scenario scenario = scenario_of(cases[i].stages, 1, PIPELINE_1F1B);
        scenario.parallel.blocks = cases[i].each;
        HELD(pipeline) pipeline = {0};
        bool possible = cases[i].expected[0] > 0;
        assert_int_equal(pipeline_build(&pipeline, model, &scenario, &err), possible ? 0 : -1);
        if (possible)
            expect_blocks(&pipeline, model, cases[i].expected);
    }
    OWN(model) *pictures = network("resnet18", 0);
    struct scenario scenario = scenario_of(2, 1, PIPELINE_1F1B);
    scenario.parallel.blocks = 3;
    HELD(pipeline) pipeline = {0};
    assert_int_equal(pipeline_build(&pipeline, pictures, &scenario, &err), -1);
    assert_non_null(strstr(err.text, "no built-in transformer"));
}

/* GPT-2's words are 5.4 of its blocks: of 17.4 a third is 5.8 and a quarter 4.4.  Of Llama 3 8B's
 * weights of products they are 2.4 of 34.4: 18 blocks are more than half. */
TEST(stages_of_equal_cost_have_fewer_blocks_before_the_words)
{
    static const struct {
        const char *name;
        int64_t blocks, stages;
        enum balance balance;
        int32_t expected[4];
    } cases[] = {{"gpt2", 12, 3, BALANCE_FLOP, {6, 6, 0}},
                 {"gpt2", 12, 4, BALANCE_FLOP, {5, 5, 2, 0}},
                 {"gpt2", 12, 4, BALANCE_GREEDY, {5, 4, 3, 0}},
                 {"llama-3-8b", 32, 2, BALANCE_GREEDY, {18, 14}}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        OWN(model) *model = network(cases[i].name, cases[i].blocks);
        struct scenario scenario = scenario_of(cases[i].stages, 1, PIPELINE_1F1B);
        scenario.parallel.balance = cases[i].balance;
        HELD(pipeline) pipeline = {0};
        assert_int_equal(pipeline_build(&pipeline, model, &scenario, &err), 0);
        expect_blocks(&pipeline, model, cases[i].expected);
    }
}

static double flops_of(const struct model *model)
{
    double flops = 0;
    for (enum pass pass = 0; pass < PASS_COUNT; pass++)
        flops += (double)model_flops(model, pass);
    return flops;
}

/* All of a network is in its stages, and a table that the first and the last use in both. */
TEST(stages_add_up_to_the_network)
{
    static const char *const names[] = {"resnet50", "vgg16", "gpt2", "llama-3-8b"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        for (int32_t stages = 1; stages <= 4; stages++) {
            OWN(model) *model = network(names[i], i < 2 ? 0 : 4);
            struct scenario scenario = scenario_of(stages, 1, PIPELINE_1F1B);
            HELD(pipeline) pipeline = {0};
            assert_int_equal(pipeline_build(&pipeline, model, &scenario, &err), 0);
            int64_t parameters = 0;
            double flops = 0, most = 0;
            for (int32_t s = 0; s < stages; s++) {
                OWN(model) *own = pipeline_stage(&pipeline, model, s);
                parameters += model_parameters(own);
                flops += flops_of(own);
                most = fmax(most, flops_of(own));
            }
            int64_t twice = i == 2 && stages > 1 ? 50257 * 768 : 0;
            assert_int_equal(parameters, model_parameters(model) + twice);
            assert_true(fabs(flops - flops_of(model)) <= 1e-12 * flops);
            if (i < 2) /* no part is larger than an even one and what lies between two cuts */
                assert_true(most < flops / stages * 1.35);
        }
}

TEST(what_has_too_few_places_is_refused)
{
    OWN(model) *model = network("gpt2", 4);
    struct scenario scenario = scenario_of(7, 1, PIPELINE_1F1B);
    HELD(pipeline) pipeline = {0};
    assert_int_equal(pipeline_build(&pipeline, model, &scenario, &err), -1);
    assert_non_null(strstr(err.text, "more than its 4 blocks"));
    err_release(&err);
}

/* "F0 F1 B0 ..." of a stage; of chunks "F0.1": micro-batch 0 of chunk 1. */
static char *stage_text(const struct pipeline *pipeline, enum pipeline_order order, int32_t micros,
                        int32_t stage)
{
    struct text text = {0};
    AUTOFREE struct task_of_stage *task = pipeline_order(pipeline, order, micros);
    for (int32_t i = 0; i < 2 * pipeline->parts * micros; i++)
        if (task[i].stage == stage)
            text_add(&text, "%s%c%d%s%.0d", text.data ? " " : "", task[i].back ? 'B' : 'F',
                     task[i].micro, task[i].part >= pipeline->stages ? "." : "",
                     task[i].part / pipeline->stages);
    return text.data;
}

/* Source: Narayanan et al. 2021, figures 3 and 4: the first and the last device. */
TEST(orders_are_those_of_the_papers)
{
    static const struct {
        int32_t stages, chunks, micros, stage;
        enum pipeline_order order;
        const char *expected;
    } cases[] = {
        {4, 1, 5, 0, PIPELINE_GPIPE, "F0 F1 F2 F3 F4 B0 B1 B2 B3 B4"},
        {4, 1, 5, 0, PIPELINE_1F1B, "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4"},
        {4, 1, 5, 3, PIPELINE_1F1B, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"},
        {4, 1, 2, 0, PIPELINE_1F1B, "F0 F1 B0 B1"},
        {2, 2, 4, 0, PIPELINE_1F1B,
         "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3"},
        {2, 2, 4, 1, PIPELINE_1F1B,
         "F0 F1 F0.1 B0.1 F1.1 B1.1 F2 B0 F3 B1 F2.1 B2.1 F3.1 B3.1 B2 B3"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pipeline pipeline = {.stages = cases[i].stages,
                                    .chunks = cases[i].chunks,
                                    .parts = cases[i].stages * cases[i].chunks};
        AUTOFREE char *text =
            stage_text(&pipeline, cases[i].order, cases[i].micros, cases[i].stage);
        assert_string_equal(text, cases[i].expected);
    }
}

/* What a stage keeps, counted in its order. */
TEST(as_many_are_in_flight_as_the_formula_says)
{
    for (int32_t stages = 2; stages <= 5; stages++)
        for (int32_t chunks = 1; chunks <= 3; chunks++)
            for (int32_t micros = stages; micros <= 3 * stages; micros += stages)
                for (int32_t s = 0; s < stages; s++) {
                    struct pipeline p = {stages, chunks, stages * chunks, NULL, NULL, 0};
                    AUTOFREE struct task_of_stage *task = pipeline_order(&p, PIPELINE_1F1B, micros);
                    int32_t now = 0, most = 0;
                    for (int32_t i = 0; i < 2 * p.parts * micros; i++) {
                        now += task[i].stage != s ? 0 : task[i].back ? -1 : 1;
                        most = now > most ? now : most;
                    }
                    int32_t formula =
                        chunks == 1 ? stages - s : 2 * (stages - s - 1) + (chunks - 1) * stages + 1;
                    formula = formula < micros * chunks ? formula : micros * chunks;
                    assert_int_equal(most, formula);
                    assert_int_equal(pipeline_in_flight(&p, PIPELINE_1F1B, s, micros), formula);
                }
}

/* The seconds of each step where a part takes 1 s forward and 2 s backward, and all else nothing:
 * the first step of each task has them all. */
static double *equal_parts(const struct schedule *schedule, const struct pipeline *pipeline)
{
    double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (step->kind != STEP_COMPUTE || step->compute.layer < 0)
            continue;
        for (int32_t part = 0; part < pipeline->parts; part++) {
            int32_t begin = part ? pipeline->end[part - 1] : 0, end = pipeline->end[part];
            if (step->compute.op == COMPUTE_FORWARD && step->compute.layer == begin)
                seconds[id] = 1;
            if (step->compute.op == COMPUTE_BACKWARD_DATA && step->compute.layer == end - 1)
                seconds[id] = 2;
        }
    }
    return seconds;
}

static int32_t find(const struct schedule *schedule, int32_t stage, enum compute_op op,
                    int32_t micro)
{
    for (int32_t id = 0; id < schedule->step_count; id++)
        if (schedule->step[id].kind == STEP_COMPUTE && schedule->step[id].stage == stage &&
            schedule->step[id].compute.op == op && schedule->step[id].compute.micro == micro)
            return id;
    fail();
    return -1;
}

/* m (1 + 2) s of work and a bubble of (p - 1) / (m v) of it, whatever the order; of 1F1B, stage s
 * begins at s and micro-batch 0 is back at 2 p - 2 - s + 1 + ... , all by hand. */
TEST(the_bubble_of_equal_stages_is_that_of_the_formula)
{
    static const struct {
        int32_t stages, chunks, micros;
        enum pipeline_order order;
    } cases[] = {{2, 1, 2, PIPELINE_1F1B},  {4, 1, 8, PIPELINE_1F1B}, {4, 1, 3, PIPELINE_1F1B},
                 {4, 1, 8, PIPELINE_GPIPE}, {2, 2, 4, PIPELINE_1F1B}, {4, 3, 8, PIPELINE_1F1B},
                 {3, 4, 9, PIPELINE_1F1B}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int32_t stages = cases[i].stages, chunks = cases[i].chunks, micros = cases[i].micros;
        OWN(model) *model = network("llama-3-8b", stages * chunks);
        struct scenario scenario = scenario_of(stages, chunks, cases[i].order);
        HELD(pipeline) pipeline = {0};
        assert_int_equal(pipeline_build(&pipeline, model, &scenario, &err), 0);
        struct iteration it = {.model = model,
                               .scenario = &scenario,
                               .grid = {.columns = 1, .rows = 1, .pipeline = stages},
                               .devices_per_node = 1,
                               .batch = micros,
                               .micro_batch = 1};
        OWN(schedule) *schedule = iteration_build(&it);
        AUTOFREE double *seconds = equal_parts(schedule, &pipeline);
        AUTOFREE struct when *when = base_alloc(2 * schedule->step_count, sizeof(*when));
        for (int32_t slow = 0; slow < 2; slow++) { /* nothing is in flight: the same by the walk */
            lanes_run(schedule, (struct slowdown){slow, slow}, seconds, 1, 2, when);
            double end = 0;
            for (int32_t id = 0; id < schedule->step_count; id++)
                end = fmax(end, when[id].end);
            double work = 3.0 * micros * chunks;
            double bubble = (stages - 1.0) / (micros * chunks);
            assert_true(fabs(end - work * (1 + bubble)) <= 1e-12 * end);
            for (int32_t s = 0; s < stages; s++) {
                int32_t first = find(schedule, s, COMPUTE_FORWARD, 0);
                assert_true(when[first].begin == s);
            }
            int32_t last = find(schedule, stages - 1, COMPUTE_LOSS, 0);
            assert_true(when[last].begin == stages * chunks);
        }
    }
}

/* The second of two iterations, a step at a time. */
static double second_iteration(const struct schedule *schedule, const double *seconds)
{
    int32_t steps = schedule->step_count;
    AUTOFREE struct when *when = base_alloc(2 * steps, sizeof(*when));
    double end[2] = {0};
    lanes_run(schedule, (struct slowdown){0}, seconds, 1, 2, when);
    for (int32_t i = 0; i < 2 * steps; i++)
        end[i / steps] = fmax(end[i / steps], when[i].end);
    return end[1] - end[0];
}

/* Whatever each step lasts, and far fewer of them are walked. */
TEST(chains_last_as_long_as_their_steps)
{
    static const struct {
        int32_t fewer, stages, chunks, micros, columns, tensor, sharding;
        bool repeat;
    } cases[] = {{20, 4, 1, 8, 1, 1, 0, false}, {4, 4, 1, 8, 2, 2, 1, false},
                 {20, 2, 2, 4, 1, 2, 0, false}, {2, 1, 1, 4, 4, 1, 3, false},
                 {7, 4, 1, 100, 2, 2, 1, true}, {6, 1, 1, 40, 2, 2, 0, true}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int32_t stages = cases[i].stages, columns = cases[i].columns, tensor = cases[i].tensor;
        OWN(model) *model = network("llama-3-8b", 8);
        struct scenario scenario = scenario_of(stages, cases[i].chunks, PIPELINE_1F1B);
        scenario.parallel.sharding = cases[i].sharding;
        struct iteration it = {
            .model = model,
            .scenario = &scenario,
            .grid = {.columns = columns, .rows = 1, .tensor = tensor, .pipeline = stages},
            .devices_per_node = columns * tensor,
            .batch = cases[i].micros,
            .micro_batch = 1,
            .bucket = 10000000,
            .repeat = cases[i].repeat};
        OWN(schedule) *schedule = iteration_build(&it);
        HELD(chains) chains = chains_new(schedule);
        AUTOFREE double *seconds = base_alloc(schedule->step_count, sizeof(*seconds));
        for (int32_t draw = 0; draw < 20; draw++) {
            memset(chains.seconds, 0, chains.count * sizeof(*chains.seconds));
            for (int32_t id = 0; id < schedule->step_count; id++) {
                seconds[id] = exp(2 * base_normal(i, (uint64_t)id, (uint64_t)draw, 0));
                seconds[id] *= schedule->step[id].kind != STEP_REPEAT;
                chains.seconds[chains.of[id]][draw % CHAINS_WIDE] += seconds[id];
            }
            double time = second_iteration(schedule, seconds), step[CHAINS_WIDE];
            chains_step(&chains, step);
            assert_true(fabs(step[draw % CHAINS_WIDE] - time) <= 1e-12 * time);
        }
        assert_true(chains.count * cases[i].fewer < schedule->step_count);
    }
}

/* By hand: 2 ranks share each block and have whole values of 16 positions, 4096 features and 2
 * bytes.  Each sends half; of 3 micro-batches, 3 go on and 3 gradients come back. */
TEST(ranks_that_share_layers_send_a_part_each_and_gather)
{
    const int64_t whole = 16 * 4096 * 2;
    for (int32_t apart = 0; apart < 3; apart++) { /* not; sends; whose values are apart anyway */
        OWN(model) *model = network("llama-3-8b", 2);
        struct scenario scenario = scenario_of(2, 1, PIPELINE_1F1B);
        scenario.parallel.sequence = apart == 2;
        scenario.allreduce.algorithm = ALGORITHM_NCCL;
        struct iteration it = {.model = model,
                               .scenario = &scenario,
                               .grid = {.columns = 1, .rows = 1, .tensor = 2, .pipeline = 2},
                               .devices_per_node = 2,
                               .batch = 3,
                               .micro_batch = 1,
                               .merges = {.sends = apart > 0}};
        OWN(schedule) *schedule = iteration_build(&it);
        int32_t sends = 0, gathers = 0;
        for (int32_t id = 0; id < schedule->step_count; id++) {
            const struct step *step = &schedule->step[id];
            if (step->kind != STEP_COLLECTIVE || step->collective.content != CONTENT_ACTIVATIONS)
                continue;
            bool gather = step->collective.op == COLLECTIVE_ALL_GATHER;
            gathers += gather;
            sends += step->collective.op == COLLECTIVE_SEND;
            assert_int_equal(step->collective.bytes, gather || apart != 1 ? whole : whole / 2);
            if (gather) /* on the receiving stage, behind what was sent */
                assert_int_equal(schedule->step[schedule->dep[step->dep_begin].step].collective.to,
                                 step->stage);
        }
        assert_int_equal(sends, 6);
        assert_int_equal(gathers, apart == 1 ? 6 : 0);
    }
}
