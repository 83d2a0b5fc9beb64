/** @file
 * core/schedule/memory: what training takes.
 */

#include "core/schedule/memory.h"
#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/test.h"

static struct scenario half_precision(void)
{
    return (struct scenario){.model = {.compute = DTYPE_FP16, .gradients = DTYPE_FP16},
                             .input = {.prefetch = 2}};
}

static struct memory_plan plan_of(const struct model *model, const struct scenario *scenario,
                                  int32_t shards, int64_t batch, int64_t micro)
{
    return memory_plan(&(struct memory_case){model, scenario, {0}, shards, batch, micro});
}

/* A network of two layers, by hand: 3x4x4 to 2x4x4 (54 weights), batch norm (4 parameters). */
static struct model *two_layers(void)
{
    struct model *model = model_new("two", 4, 2);
    model_add(model, (struct layer){.op = LAYER_CONVOLUTION,
                                    .name = "conv",
                                    .input = {-1},
                                    .input_count = 1,
                                    .out.channels = 2,
                                    .kernel = 3,
                                    .stride = 1,
                                    .padding = 1});
    model_add(
        model,
        (struct layer){
            .op = LAYER_BATCH_NORM, .name = "bn", .input = {0}, .input_count = 1, .stride = 1});
    return model;
}

/* 58 parameters in 4 shards are at most 15 each.  Of stages 2 and 3 two groups of layers are there
 * whole, here one of all: there is one bucket. */
TEST(counts_every_array_once)
{
    static const struct {
        bool half;
        int32_t stage, shards, micro; /* of a batch of 10 */
        int64_t weights, gradients, momentum, activations;
    } cases[] = {
        {false, 1, 1, 5, 58 * 4, 58 * 4, 58 * 4, 5 * (32 + 32 + 32 + 32) * 4},
        {true, 1, 1, 10, 58 * 6, 58 * 2, 58 * 4, 10 * 128 * 2},
        {false, 1, 4, 5, 58 * 4, 58 * 4, 15 * 4, 5 * 128 * 4},
        {true, 1, 4, 10, 58 * 2 + 15 * 4, 58 * 2, 15 * 4, 10 * 128 * 2},
        {true, 2, 4, 5, 58 * 2 + 15 * 4, (15 + 58) * 2, 15 * 4, 5 * 128 * 2},
        {true, 3, 4, 5, 15 * (4 + 2) + 58 * 2, (15 + 58) * 2, 15 * 4, 5 * 128 * 2},
        {true, 3, 1, 5, 58 * 6, 58 * 2, 58 * 4, 5 * 128 * 2},
    };
    OWN(model) *model = two_layers();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct scenario scenario = {.input = {.prefetch = 2}};
        if (cases[i].half)
            scenario = half_precision();
        scenario.parallel.sharding = cases[i].stage > 1 ? cases[i].stage : 0;
        struct memory_plan plan = plan_of(model, &scenario, cases[i].shards, 10, cases[i].micro);
        print_message("case %zu\n", i);
        assert_int_equal(plan.weights, cases[i].weights);
        assert_int_equal(plan.gradients, cases[i].gradients);
        assert_int_equal(plan.momentum, cases[i].momentum);
        assert_int_equal(plan.activations, cases[i].activations);
        assert_int_equal(plan.input, 3 * 10 * 48 * (cases[i].half ? 2 : 4));
        assert_int_equal(memory_total(&plan), plan.weights + plan.gradients + plan.momentum +
                                                  plan.activations + plan.input);
    }
}

/* The convolution's 54 weights are 27 sums of inputs and 2 of outputs for adafactor. */
TEST(keeps_the_state_of_each_optimizer)
{
    static const int64_t numbers[OPTIMIZER_COUNT] = {
        [OPTIMIZER_SGD] = 58,      [OPTIMIZER_LARS] = 58,    [OPTIMIZER_ADAMW] = 2 * 58,
        [OPTIMIZER_LAMB] = 2 * 58, [OPTIMIZER_RMSPROP] = 58, [OPTIMIZER_ADAFACTOR] = 27 + 2 + 4,
    };
    OWN(model) *model = two_layers();
    for (int32_t kind = 0; kind < OPTIMIZER_COUNT; kind++) {
        struct scenario scenario = {.training = {.optimizer = kind}};
        assert_int_equal(plan_of(model, &scenario, 1, 1, 1).momentum, 4 * numbers[kind]);
    }
    struct scenario shared = {.training = {.optimizer = OPTIMIZER_RMSPROP, .momentum = 0.9}};
    assert_int_equal(plan_of(model, &shared, 4, 1, 1).momentum, 4 * 2 * 15);
}

/* Images of 4 x 4, and as read: 16 pixels. */
TEST(counts_pictures_before_they_are_cropped)
{
    OWN(model) *model = two_layers();
    struct scenario scenario = {.input = {.prefetch = 2}};
    const int64_t images = 3 * 10 * 48 * 4;
    for (int32_t source = 0; source < SOURCE_COUNT; source++) {
        scenario.training.data.source = source;
        bool pictures =
            source == SOURCE_IMAGEFOLDER || source == SOURCE_WEBDATASET || source == SOURCE_PACK;
        assert_int_equal(plan_of(model, &scenario, 1, 10, 5).input,
                         images + (pictures ? 2 * 10 * 12 * 16 : 0));
    }
}

TEST(finds_the_largest_batch_that_fits)
{
    struct scenario scenario = half_precision();
    OWN(model) *model = network_of("resnet50", 224, 1000);
    const struct memory_case of = {model, &scenario, {0}, 1, 1, 1};
    int64_t capacity = INT64_C(16) << 30;
    static const int64_t fixed[] = {0, MEMORY_WORKSPACE_LIMIT, 100000000},
                         image[] = {0, 0, 30000000};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++) {
        int64_t batch = memory_largest_batch(&of, fixed[i], image[i], capacity);
        struct memory_plan fits = plan_of(model, &scenario, 1, batch, batch);
        struct memory_plan next = plan_of(model, &scenario, 1, batch + 1, batch + 1);
        fits.workspace = fixed[i] + batch * image[i];
        next.workspace = fits.workspace + image[i];
        assert_true(memory_total(&fits) <= capacity && memory_total(&next) > capacity);
        assert_true(batch > 192 || i == 2); /* NVIDIA trained with 208 on 16 GB in MLPerf v0.5 */
    }
    assert_int_equal(memory_largest_batch(&of, 0, 0, 1000), 0);
    assert_int_equal(memory_largest_batch(&of, capacity, 0, capacity), 0);
}

/* Bytes of a layer of GPT-2 for each position and feature: 34, and 5 for each weight of attention.
 * Source: Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models",
 * equations 1 and 2. */
TEST(keeps_what_backward_of_a_transformer_reads)
{
    static const int64_t weight_bytes[ATTENTION_COUNT] = {
        [ATTENTION_UNFUSED] = 5, [ATTENTION_FUSED] = 2, [ATTENTION_FLASH] = 0};
    const int64_t values = 1024 * 768, weights = 12 * 1024 * 1024;
    const struct scenario scenario = half_precision();
    OWN(model) *one = network_open(NULL, "gpt2", 0, 2, &(struct transformer){.layers = 1}, NULL);
    OWN(model) *two = network_open(NULL, "gpt2", 0, 2, &(struct transformer){.layers = 2}, NULL);
    for (enum attention kind = 0; kind < ATTENTION_COUNT; kind++) {
        struct memory_case less = {one, &scenario, {.attention = kind}, 1, 3, 3}, more = less;
        more.model = two;
        assert_int_equal(memory_plan(&more).activations - memory_plan(&less).activations,
                         3 * (34 * values + weight_bytes[kind] * weights));
        assert_int_equal(memory_plan(&less).loss, 3 * 2 * 4 * 1024 * 50257);
    }
    struct scenario narrow = scenario; /* half of what four linear layers alone read: 14 of 34 */
    narrow.model.products = PRODUCTS_FP8;
    struct memory_case less = {one, &narrow, {.attention = ATTENTION_FLASH}, 1, 1, 1}, more = less;
    more.model = two;
    assert_int_equal(memory_plan(&more).activations - memory_plan(&less).activations, 27 * values);
}

/* The last of two stages has the scores of words, and needs most. */
TEST(says_what_the_first_stage_needs)
{
    struct scenario scenario = half_precision();
    OWN(model) *model = network_open(NULL, "gpt2", 0, 2, &(struct transformer){.layers = 2}, NULL);
    struct memory_case of = {model, &scenario, {0}, 1, 6, 3};
    struct memory_plan whole = memory_plan(&of);
    assert_int_equal(whole.first, memory_total(&whole));
    scenario.parallel.pipeline = 2;
    struct memory_plan cut = memory_plan(&of);
    assert_int_equal(cut.loss, whole.loss);
    assert_in_range(cut.first, memory_total(&cut) / 9, memory_total(&cut) - cut.loss);
}

/* Of what four ranks sum, of 2 bytes: behind words, attention and the layer after it of two blocks,
 * and as much of the micro-batch before.  The second pass of two waits where there is less work. */
TEST(holds_sums_while_the_host_is_ahead)
{
    struct scenario scenario = half_precision();
    const struct transformer keys = {.layers = 2, .tensor = 4, .apart = true};
    OWN(model) *model = network_open(NULL, "gpt2", 0, 2, &keys, NULL);
    static const int64_t held[][3] = {{3, 2, 2}, {3, 9, 5}, {6, 9, 9}}; /* batch, limit, values */
    int64_t without = plan_of(model, &scenario, 1, 3, 3).activations;
    for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
        struct memory_case of = {model, &scenario, {.ahead = held[i][1]}, 1, held[i][0], 3};
        assert_int_equal(memory_plan(&of).activations - without, held[i][2] * 3 * 2 * 1024 * 768);
    }
    scenario.parallel.pipeline = 2;
    struct memory_case of = {model, &scenario, {.ahead = 9}, 1, 6, 3}, waits = of;
    waits.merges.busy = 1e18;
    assert_int_equal(memory_plan(&of).first - memory_plan(&waits).first, 6 * 3 * 2 * 1024 * 768);
}

/* 4,096 features of queries and 1,024 of keys. */
TEST(keeps_what_positions_turn)
{
    const struct scenario scenario = half_precision();
    const struct transformer keys = {.layers = 1};
    OWN(model) *model = network_open(NULL, "llama-3-8b", 0, 2, &keys, NULL);
    struct memory_case of = {model, &scenario, {.turned = true}, 1, 1, 1};
    assert_int_equal(memory_plan(&of).activations - plan_of(model, &scenario, 1, 1, 1).activations,
                     2 * 8192 * 5120);
}

/* Full: of a layer its input alone, 2 bytes; selective: 34, whatever computes attention.  Source:
 * as above, equation 6 and table 2. */
TEST(keeps_less_where_layers_run_again)
{
    const int64_t values = 1024 * 768;
    static const int64_t bytes[RECOMPUTE_COUNT] = {
        [RECOMPUTE_SELECTIVE] = 34, [RECOMPUTE_FULL] = 2};
    for (int32_t how = RECOMPUTE_SELECTIVE; how < RECOMPUTE_COUNT; how++) {
        struct scenario scenario = half_precision();
        scenario.parallel.recompute = how;
        int64_t kept[2];
        for (int32_t k = 0; k < 2; k++) {
            const struct transformer keys = {.layers = 2 + k};
            OWN(model) *model = network_open(NULL, "gpt2", 0, 2, &keys, NULL);
            kept[k] = plan_of(model, &scenario, 1, 3, 3).activations;
        }
        assert_int_equal(kept[1] - kept[0], 3 * bytes[how] * values);
    }
}

/* Norms: of 2 for each and 8 for the activation none stays, whoever shares the layer.  More is
 * never kept because more runs again, of narrow products neither. */
TEST(discards_what_norms_and_projections_write)
{
    static const int64_t bytes[] = {12, 8, 6}; /* of gpt2, of whose norms two parts are whole */
    for (int32_t k = 0; k < 12; k++) {
        struct scenario scenario = half_precision();
        const struct transformer keys = {.layers = 2, .tensor = k % 3 ? 2 : 1, .apart = k % 3 == 2};
        OWN(model) *model = network_open(NULL, k < 6 ? "gpt2" : "deepseek-v2", 0, 2, &keys, NULL);
        scenario.model.products = k / 3 % 2 ? PRODUCTS_FP8 : 0;
        int64_t kept[RECOMPUTE_COUNT];
        for (int32_t how = 0; how < RECOMPUTE_COUNT; how++) {
            scenario.parallel.recompute = how;
            kept[how] = plan_of(model, &scenario, 1, 3, 3).activations;
            assert_in_range(kept[how], 1, kept[RECOMPUTE_NONE]);
        }
        int64_t saved = kept[RECOMPUTE_NONE] - kept[RECOMPUTE_NORMS];
        assert_true(k >= 3 || saved == 3 * 2 * bytes[k] * 1024 * 768);
        assert_true(k < 6 || kept[RECOMPUTE_LATENT] < kept[RECOMPUTE_NORMS]);
    }
}
