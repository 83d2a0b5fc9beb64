#include "tests/core/own.h"
#include "tests/core/published.h"
#include "tests/test.h"

/* tests/data/torchvision.csv: num_params and _ops of torchvision's weights.  It lacks swin_l,
 * convnext_xlarge, vit_ti_16 and vit_s_16, whose papers have 197, 350, 5.7 and 22 million. */
TEST(has_the_counts_of_torchvision)
{
    for (const struct published_network *p = published_networks; p->name; p++) {
        OWN(model) *model = network_of(p->name, p->image, 1000);
        double billions = (double)model_flops(model, PASS_FORWARD) / 2e9;
        assert_int_equal(model_parameters(model) + model_frozen(model), p->parameters);
        assert_string_equal(model->name, p->name);
        if (p->billions > 0 && fabs(billions - p->billions) >= 0.0005)
            fail_msg("%s: %.3f billion multiply-adds, not %.3f", p->name, billions, p->billions);
    }
}

/* Source: He et al. 2015, table 6, in millions to two digits; exact counts from its section 4.2. It
 * pads shortcuts with zeros (option A); ours have two projections with batch norm more. */
TEST(has_the_numbers_of_parameters_published_for_cifar)
{
    static const struct {
        const char *name;
        int64_t parameters;
        double millions;
    } published[] = {
        {"resnet20", 269722, 0.27}, {"resnet32", 464154, 0.46},   {"resnet44", 658586, 0.66},
        {"resnet56", 853018, 0.85}, {"resnet110", 1727962, 1.73},
    };
    const int64_t projections = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64;
    for (size_t i = 0; i < sizeof(published) / sizeof(*published); i++) {
        OWN(model) *model = network_of(published[i].name, 32, 10);
        int64_t padded = model_parameters(model) - projections;
        assert_int_equal(padded, published[i].parameters);
        double millions = (double)padded / 1e6;
        assert_near(millions, published[i].millions, 0.005);
    }
}

/* Sources: parameters of Hugging Face's classes for pre-training, causal language models and
 * question answering (tied weights once), as their model cards round them; gpt3: Brown et al. 2020,
 * table 2.1, 175.0 billion.  Multiply-adds are by hand: each matrix at each position, and two
 * products of attention. */
static const struct {
    const char *name;
    int64_t parameters;
    int32_t layers, hidden, kv, ffn, matrices, vocab, sequence;
} transformers[] = {
    {"bert-base-squad", 108893186, 12, 768, 768, 3072, 2, 2, 512},
    {"bert-large-squad", 334094338, 24, 1024, 1024, 4096, 2, 2, 512},
    {"gpt2", 124439808, 12, 768, 768, 3072, 2, 50257, 1024},
    {"gpt2-medium", 354823168, 24, 1024, 1024, 4096, 2, 50257, 1024},
    {"gpt2-large", 774030080, 36, 1280, 1280, 5120, 2, 50257, 1024},
    {"gpt2-xl", 1557611200, 48, 1600, 1600, 6400, 2, 50257, 1024},
    {"gpt3-175b", 174604259328, 96, 12288, 12288, 49152, 2, 50257, 2048},
    {"llama-3-8b", 8030261248, 32, 4096, 1024, 14336, 3, 128256, 8192},
    {"llama-3-70b", 70553706496, 80, 8192, 1024, 28672, 3, 128256, 8192},
    {"llama-3-405b", 405853388800, 126, 16384, 1024, 53248, 3, 128256, 8192},
};

TEST(has_the_published_counts_of_transformers)
{
    for (size_t i = 0; i < sizeof(transformers) / sizeof(*transformers); i++) {
        int64_t L = transformers[i].layers, d = transformers[i].hidden,
                S = transformers[i].sequence;
        int64_t block =
            2 * d * (d + transformers[i].kv) + transformers[i].matrices * d * transformers[i].ffn;
        int64_t sums = S * (L * block + d * transformers[i].vocab) + 2 * L * S * S * d;
        OWN(model) *model = network_of(transformers[i].name, 224, 1000);
        int64_t counted = model_flops(model, PASS_FORWARD) / 2;
        assert_int_equal(model_parameters(model), transformers[i].parameters);
        assert_int_equal(counted, sums);
    }
}

/* Pre-training: 0.15 of 512 positions pass two more matrices, the first one two others. */
TEST(counts_the_heads_of_bert)
{
    OWN(model) *spans = network_of("bert-large-squad", 224, 1000);
    OWN(model) *model = network_of("bert-large", 224, 1000);
    const int64_t d = 1024, words = 30522;
    assert_int_equal(model_parameters(model), 336226108);
    assert_int_equal((model_flops(model, PASS_FORWARD) - model_flops(spans, PASS_FORWARD)) / 2,
                     77 * d * (d + words) + d * (d + 2) - 512 * d * 2);
}

/* A language model with other @keys. */
static struct model *transformer_of(const char *name, const struct transformer *keys)
{
    struct model *model = network_open(NULL, name, 224, 1000, keys, &err);
    assert_ok(model, err);
    return model;
}

/* Of 14 x 14 squares and what answers. */
TEST(pictures_without_positions_have_no_table_of_them)
{
    const struct transformer none = {.position = POSITION_NONE};
    OWN(model) *model = transformer_of("vit_b_16", &none);
    assert_int_equal(model_parameters(model), 86567656 - 197 * 768);
}

/* Parameters, and those that a token uses, as published: Jiang et al. 2024, Mistral AI 2024, Yang
 * et al. 2025, DeepSeek-AI 2024.  Of 8 ranks each has an eighth of the experts. */
TEST(counts_all_experts_and_computes_with_some)
{
    static const struct {
        const char *name;
        double all, used; /* billions */
        int64_t experts;  /* parameters of all, by hand */
    } cases[] = {{"mixtral-8x7b", 46.7, 12.9, 32LL * 8 * 3 * 4096 * 14336},
                 {"mixtral-8x22b", 141, 39, 56LL * 8 * 3 * 6144 * 16384},
                 {"qwen3-30b-a3b", 30.5, 3.3, 48LL * 128 * 3 * 2048 * 768},
                 {"qwen3-235b-a22b", 235, 22, 94LL * 128 * 3 * 4096 * 1536},
                 {"deepseek-v2", 236, 21, 59LL * 160 * 3 * 5120 * 1536},
                 {"deepseek-v3", 671, 37, 58LL * 256 * 3 * 7168 * 2048}};
    const struct transformer few = {.sequence = 64}, eighth = {.sequence = 64, .expert = 8};
    struct transformer half = eighth; /* of all but experts, for half the positions */
    half.tensor = 2;
    half.apart = half.whole = true;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        OWN(model) *model = transformer_of(cases[i].name, &few);
        OWN(model) *part = transformer_of(cases[i].name, &eighth);
        OWN(model) *small = transformer_of(cases[i].name, &half);
        double used = (double)model_flops(model, PASS_FORWARD) / 2 / 64;
        assert_near((double)model_parameters(model) / 1e9 / cases[i].all, 1, 0.005);
        assert_near(used / 1e9 / cases[i].used, 1, 0.1); /* without the embedding */
        assert_int_equal(model_parameters(model) - model_parameters(part),
                         cases[i].experts / 8 * 7);
        assert_int_equal(model_flops(model, PASS_FORWARD), model_flops(part, PASS_FORWARD));
        assert_int_equal(model_flops(model, PASS_FORWARD), 2 * model_flops(small, PASS_FORWARD));
        half.whole = false;
        OWN(model) *cut = transformer_of(cases[i].name, &half);
        assert_int_equal(model_parameters(small) - model_parameters(cut), cases[i].experts / 16);
        half.whole = true;
    }
}

/* Rank 16 beside query and output of 8192 x 8192 and keys and values of 8192 x 1024, 80 layers. */
TEST(adapters_alone_are_trained)
{
    const struct transformer keys[] = {{.sequence = 64}, {.sequence = 64, .lora = 16}};
    OWN(model) *whole = transformer_of("llama-3-70b", &keys[0]);
    OWN(model) *model = transformer_of("llama-3-70b", &keys[1]);
    const int64_t adapters = 80 * 16 * (2 * (8192 + 8192) + 2 * (8192 + 1024));
    assert_int_equal(model_parameters(model), adapters);
    assert_int_equal(model_frozen(model), model_parameters(whole));
    assert_int_equal(model_frozen(whole), 0);
    assert_int_equal(model_flops(model, PASS_BACKWARD_FILTER), 2 * 64 * adapters);
    assert_int_equal(model_flops(model, PASS_FORWARD) - model_flops(whole, PASS_FORWARD),
                     2 * 64 * adapters);
}

/* FLOP a token that NVIDIA counts of DeepSeek-V3 with 4096 positions, forward and backward: 961
 * TFLOP/s at 3848 tokens/s of a device, and 557 at 2139 where a block predicts one token further
 * (Megatron-Bridge, performance summary, 25.11).  Half of attention's products are counted, and no
 * router. */
TEST(latent_attention_has_the_counted_products)
{
    static const double counted[] = {961e12 / 3848, 557e12 / 2139};
    for (int32_t further = 0; further < 2; further++) {
        const struct transformer keys = {.sequence = 4096, .further = further};
        OWN(model) *model = transformer_of("deepseek-v3", &keys);
        double all = 0, half = (61 + further) * 3.0 * 4096 * 4096 * 128 * (192 + 128);
        for (enum pass pass = PASS_FORWARD; pass < PASS_COUNT; pass++)
            all += (double)model_flops(model, pass);
        assert_near((all - half) / 4096 / counted[further], 1, 0.005);
    }
}

/* Pairs of positions that attend, one by one: at most a window before, in a document of its own.  A
 * pair of two counts twice, as in the square; both products have 32 heads of 128 features, and
 * backward twice their FLOP. */
TEST(windows_and_documents_leave_out_scores)
{
    enum { LAYERS = 12, POSITIONS = 192 };
    static const struct transformer cases[] = {
        {.window = 192}, {.window = 191},
        {.window = 1},   {.window = 48, .full_every = 2},
        {.document = 3}, {.window = 5, .full_every = 6, .document = 64, .context = 4}};
    struct transformer keys = {.layers = LAYERS, .sequence = POSITIONS};
    OWN(model) *whole = transformer_of("llama-3-8b", &keys);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int64_t left_out = 0, flops[2] = {0}, ranks = 1 + 3 * (i == ARRAY_SIZE(cases) - 1);
        for (int64_t layer = 1; layer <= LAYERS; layer++) {
            bool full =
                !cases[i].window || (cases[i].full_every && layer % cases[i].full_every == 0);
            for (int64_t at = 0; at < POSITIONS; at++) {
                int64_t before = cases[i].document ? at % cases[i].document : at;
                if (!full && before > cases[i].window - 1)
                    before = cases[i].window - 1;
                left_out += POSITIONS - 1 - 2 * before;
            }
        }
        keys = cases[i];
        keys.layers = LAYERS;
        keys.sequence = POSITIONS;
        OWN(model) *model = transformer_of("llama-3-8b", &keys);
        for (enum pass pass = PASS_FORWARD; pass < PASS_COUNT; pass++) {
            flops[0] += model_flops(whole, pass);
            flops[1] += ranks * model_flops(model, pass);
        }
        assert_int_equal(flops[0] - flops[1], 3 * 2 * 2 * 4096 * left_out);
    }
}

/* Without embeddings, in millions as published (Gemma Team 2024, table 2; 2025, table 1, less the
 * norms of queries and keys), or all (Mistral AI's weights; OpenAI 2025, table 1). */
TEST(networks_with_windows_have_their_parameters)
{
    static const struct {
        const char *name;
        int64_t embedding;
        double millions, rounded;
    } cases[] = {{"mistral-7b", 0, 7241.732096, 1e-9},
                 {"gemma-2-2b", 256128LL * 2304, 2024.517888, 1e-9},
                 {"gemma-2-9b", 256128LL * 3584, 8324.201984, 1e-9},
                 {"gemma-2-27b", 256128LL * 4608, 26047.480320, 1e-9},
                 {"gemma-3-1b", 262144LL * 1152, 698, 0.5},
                 {"gemma-3-4b", 262144LL * 2560, 3209, 0.5},
                 {"gemma-3-12b", 262144LL * 3840, 10759, 0.5},
                 {"gemma-3-27b", 262144LL * 5376, 25600, 0.5},
                 {"gpt-oss-20b", 0, 20910, 5},
                 {"gpt-oss-120b", 0, 116830, 5}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        OWN(model) *model = network_of(cases[i].name, 224, 1000);
        double counted = (double)(model_parameters(model) - cases[i].embedding) / 1e6;
        assert_near(counted, cases[i].millions, cases[i].rounded);
    }
}

/* 4x8x8 to 6 channels, then 6 to 6 twice, of which the last batch norm alone is not trained. */
TEST(what_is_frozen_has_no_gradient)
{
    static const char text[] =
        "version: 1\nname: x\ninput: 4x8x8\nlayers:\n"
        "- {name: a, kind: convolution, channels: 6, kernel: 1, frozen: true}\n"
        "- {name: b, kind: batch-norm, relu: true, frozen: true}\n"
        "- {name: c, kind: convolution, channels: 6, kernel: 1}\n"
        "- {name: d, kind: convolution, channels: 6, kernel: 1}\n"
        "- {name: e, kind: batch-norm, frozen: true}\n";
    OWN(model) *model = network_read_text("x", text, &err);
    assert_ok(model, err);
    assert_int_equal(model_parameters(model), 2 * 36);
    assert_int_equal(model_frozen(model), 24 + 4 * 6);
    assert_int_equal(model_flops(model, PASS_FORWARD), 2 * 64 * (24 + 2 * 36));
    assert_int_equal(model_flops(model, PASS_BACKWARD_FILTER), 2 * 64 * 2 * 36);
    assert_int_equal(model_flops(model, PASS_BACKWARD_DATA), 2 * 64 * 36); /* none behind c */
    for (int32_t i = 0; i < 2; i++)
        for (enum pass pass = PASS_BACKWARD_DATA; pass < PASS_COUNT; pass++) {
            assert_int_equal(model_bytes(model, i, pass, FUSION_NONE, 2), 0);
            assert_int_equal(layer_kernels(&model->layer[i], pass, FUSION_NONE), 0);
        }
    /* A product and a sum, each in and out; of the gradient the product alone. */
    const int64_t value = 2 * 6 * 64;
    assert_int_equal(model_bytes(model, 4, PASS_FORWARD, FUSION_NONE, 2), 4 * value);
    assert_int_equal(model_bytes(model, 4, PASS_BACKWARD_DATA, FUSION_NONE, 2), 2 * value);
    assert_int_equal(model_bytes(model, 4, PASS_FORWARD, FUSION_BN_RELU, 2), 2 * value);
}

TEST(some_layers_and_experts_are_for_all_positions)
{
    const struct transformer keys[] = {{.layers = 4, .sequence = 64},
                                       {.layers = 4, .sequence = 64, .dense_layers = 1},
                                       {.layers = 4, .sequence = 64, .shared = 2}};
    int64_t parameters[3];
    for (int i = 0; i < 3; i++) {
        OWN(model) *model = transformer_of("qwen3-30b-a3b", &keys[i]);
        parameters[i] = model_parameters(model);
    }
    assert_int_equal(parameters[1] - parameters[0],
                     3 * 2048 * 6144 - 128 * 3 * 2048 * 768 - 2048 * 128);
    assert_int_equal(parameters[2] - parameters[0], 4 * 3 * 2048 * 2 * 768);
}

/* Of 8 ranks each has all norms, and an eighth of all else. */
TEST(parts_of_a_network_add_up_to_it)
{
    const struct transformer keys[] = {
        {0}, {.tensor = 8}, {.tensor = 8, .apart = true}, {.tensor = 8, .heads = 12}};
    OWN(model) *whole = transformer_of("llama-3-8b", &keys[0]);
    const int64_t norms = (2 * 32 + 1) * 4096;
    for (int i = 1; i < 3; i++) {
        OWN(model) *part = transformer_of("llama-3-8b", &keys[i]);
        assert_int_equal(8 * (model_parameters(part) - norms) + norms, model_parameters(whole));
        for (enum pass pass = 0; pass < PASS_COUNT; pass++)
            assert_int_equal(8 * model_flops(part, pass), model_flops(whole, pass));
    }
    assert_null(network_open(NULL, "gpt2", 224, 1000, &keys[3], &err));
    assert_non_null(strstr(err.text, "model.heads, 12, cannot be split in 8"));
    err_release(&err);
}

static int64_t forward_multiply_adds(const char *name)
{
    OWN(model) *model = network_of(name, 224, 1000);
    int64_t flops = model_flops(model, PASS_FORWARD);
    return flops / 2;
}

/* 32 x 32, 16 x 16 and 8 x 8 images of 16, 32 and 64 channels, added up by hand. */
TEST(has_the_multiply_adds_of_three_stages)
{
    OWN(model) *model = network_of("resnet20", 32, 10);
    int64_t stem = INT64_C(432) * 1024, first = INT64_C(6) * 2304 * 1024;
    int64_t second = INT64_C(4608) * 256 + INT64_C(5) * 9216 * 256;
    int64_t third = INT64_C(18432) * 64 + INT64_C(5) * 36864 * 64;
    int64_t projections = INT64_C(512) * 256 + INT64_C(2048) * 64;
    assert_int_equal(model_flops(model, PASS_FORWARD) / 2,
                     stem + first + second + third + projections + 640);
    OWN(model) *small = network_of("resnet8", 32, 10);
    int32_t weights = 0;
    for (int32_t i = 0; i < small->layer_count; i++)
        weights += !small->layer[i].projection &&
                   (small->layer[i].op == LAYER_CONVOLUTION || small->layer[i].op == LAYER_LINEAR);
    assert_int_equal(weights, 8);
    assert_int_equal(model_parameters(small), 78042);
}

TEST(keeps_the_parameters_but_not_the_work_of_v1)
{
    OWN(model) *v1 = network_of("resnet50_v1", 224, 1000);
    assert_int_equal(model_parameters(v1), 25557032);
    /* He et al. 2015, table 1: 3.8 billion; the stride comes first, so the 3x3 see fewer pixels */
    assert_int_equal(forward_multiply_adds("resnet50_v1") / 100000000, 38);
    assert_int_equal(forward_multiply_adds("resnet18_v1"), forward_multiply_adds("resnet18"));
}

/* Every layer reads what the layer before wrote; a projection reads what its block reads. */
static void check_chain(const struct model *model)
{
    struct shape at = {3, model->image, model->image}, fork = at;
    for (int32_t i = 0; i < model->layer_count; i++) {
        const struct layer *layer = &model->layer[i];
        assert_int_equal(layer->first, i == 0);
        if (layer->fork)
            fork = layer->in;
        if (layer->projection) {
            assert_memory_equal(&layer->in, &fork, sizeof(fork));
            fork = layer->out;
            continue;
        }
        assert_memory_equal(&layer->in, &at, sizeof(at));
        at = layer->out;
    }
    assert_int_equal(at.channels, model->classes);
}

TEST(chains_shapes_for_any_image_size)
{
    static const int32_t sizes[] = {32, 33, 96, 224, 255};
    for (int32_t i = 0; network_names[i]; i++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
            OWN(model) *model = network_of(network_names[i], sizes[s], 10);
            check_chain(model);
        }
}

TEST(builds_small_networks_from_8_pixels)
{
    OWN(model) *model = network_of("toy", 8, 10);
    check_chain(model);
    assert_int_equal(model->layer_count, 8);
    OWN(model) *small = network_of("resnet8", 8, 10);
    check_chain(small);
}

TEST(accepts_the_long_name_of_version_1_5)
{
    OWN(model) *model = network_of("resnet50_v1.5", 224, 1000);
    assert_string_equal(model->name, "resnet50");
}

static void check_refused(const char *name, int32_t image, const char *message)
{
    assert_null(network_build(name, image, 1000, &err));
    assert_int_equal(err.count, 1);
    assert_message(&err, 65, message);
}

TEST(refuses_unknown_names)
{
    check_refused("resnet5", 224, "did you mean 'resnet50'");
    check_refused("vgg6", 224, "did you mean 'vgg16'");
    check_refused("efficientnet-b9", 224, "did you mean 'efficientnet_b0'");
    check_refused("yolo", 224, "a file lists the layers of any other");
    check_refused("yolo", 224, "foretrain import onnx");
    check_refused("", 224, "unknown network ''");
    check_refused("resnet", 224, "unknown network 'resnet'");
    check_refused("resnet50_v1_v1.5", 224, "unknown network");
    check_refused("vgg16_v1.5", 224, "unknown network");
}

TEST(refuses_transformers_that_cannot_be)
{
    static const struct {
        const char *name, *message;
        struct transformer keys;
    } cases[] = {
        {"transformer", "needs the key model.layers", {0}},
        {"transformer",
         "needs the key model.vocab",
         {.layers = 1, .hidden = 8, .heads = 2, .sequence = 4}},
        {"gpt2", "model.heads must divide model.hidden", {.heads = 11}},
        {"llama-3-8b", "and model.kv_heads model.heads", {.kv_heads = 5}},
        {"gpt2", "model.sequence may be at most model.positions, 1024", {.sequence = 1025}},
        {"gpt2", "model.active has no effect", {.active = 2}},
        {"vit_b_16", "model.sequence is not given", {.sequence = 10}},
        {"vit_b_16", "model.head predicts classes", {.head = HEAD_SPAN}},
        {"resnet50", "have no effect on resnet50", {.layers = 12}},
        {"gpt2", "has no experts: model.expert_ffn has no effect", {.expert_ffn = 8}},
        {"mixtral-8x7b", "model.experts has no effect", {.experts = 4, .dense_layers = 32}},
        {"qwen3-30b-a3b", "has experts in each layer: model.ffn has no effect", {.ffn = 8}},
        {"llama-3-8b", "model.positions has no effect", {.positions = 9000}},
        {"bert-base-squad", "predicts no tokens: model.predicted", {.predicted = 0.5}},
        {"vit_b_16", "reads no tokens: model.vocab has no effect", {.vocab = 9}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_null(network_open(NULL, cases[i].name, 224, 1000, &cases[i].keys, &err));
        assert_message(&err, 65, cases[i].message);
    }
    check_refused("vit_h_14", 225, "model.image is a multiple");
    check_refused("mamba-2.8b", 224, "state-space layers");
}

TEST(refuses_images_too_small_to_halve)
{
    check_refused("alexnet", 62, "at least 63 pixels");
    check_refused("inception_v3", 266, "at least 267 pixels");
    check_refused("ssd300_resnet50", 299, "at least 300 pixels");
    check_refused("unet", 40, "a multiple of 16 pixels, not 40");
    check_refused("resnet50", 31, "at least 32 pixels, not 31");
    check_refused("vgg16", 31, "at least 32 pixels");
    check_refused("toy", 7, "at least 8 pixels");
    check_refused("resnet20", 7, "at least 8 pixels");
    check_refused("toy", -1, "at least 8 pixels");
}

/* At the least side; and networks of the table at any side, or they are refused. */
TEST(builds_the_smallest_images)
{
    static const struct {
        const char *name;
        int32_t side;
    } least[] = {{"alexnet", 63},
                 {"inception_v3", 267},
                 {"ssd300_resnet50", 300},
                 {"ssd_resnet34", 300},
                 {"unet", 16},
                 {"maskrcnn_r50_fpn", 64},
                 {"retinanet_resnext50_32x4d", 128}};
    for (size_t i = 0; i < sizeof(least) / sizeof(*least); i++) {
        OWN(model) *model = network_of(least[i].name, least[i].side, 1000);
        assert_true(model_parameters(model) > 0);
    }
    for (const struct published_network *p = published_networks; p->name; p++)
        for (int32_t side = 75; side < 80; side++) {
            struct model *model = network_build(p->name, side, 10, &err);
            err_release(&err);
            model_free(model);
        }
}
