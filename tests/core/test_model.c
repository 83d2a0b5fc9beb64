#include "tests/core/own.h"
#include "tests/test.h"

enum { FP16 = 2, COLUMN_LIMIT = 64, ROWS = 109 };

/* ---- the table in tests/data ---- */

/* One row: as many cells as columns. */
struct row {
    char text[1024];
    const char *cell[COLUMN_LIMIT];
    int32_t count;
};

static bool read_row(FILE *file, struct row *row)
{
    if (!fgets(row->text, sizeof(row->text), file))
        return false;
    char *rest = row->text, *cell;
    rest[strcspn(rest, "\r\n")] = '\0';
    for (row->count = 0; (cell = strsep(&rest, ",")); row->count++) {
        assert_true(row->count < COLUMN_LIMIT);
        row->cell[row->count] = cell;
    }
    return true;
}

/* Parameters of layers that run backward no later than layer @index, and how many come before. */
static int64_t ready_parameters(const struct model *model, int32_t index, int32_t *order)
{
    int64_t sum = 0;
    *order = 0;
    for (int32_t i = model->layer_count - 1; i >= index; i--) {
        sum += model->layer[i].parameters;
        *order += i > index && model->layer[i].parameters > 0;
    }
    return sum;
}

static int64_t traffic(const struct model *model, int32_t index, const char *column)
{
    static const struct {
        const char *suffix;
        enum fusion fusion;
    } modes[] = {
        {"_bytes_a", FUSION_NONE},  {"_bytes_bp", FUSION_POINTWISE}, {"_bytes_b", FUSION_BN_RELU},
        {"_bytes_s", FUSION_STATS}, {"_bytes_c", FUSION_MAINLOOP},   {"_bytes_d", FUSION_IDEAL},
    };
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        enum fusion fusion = modes[i].fusion;
        if (strcmp(column + 3, modes[i].suffix) != 0)
            continue;
        if (strncmp(column, "fwd", 3) == 0)
            return model_bytes(model, index, PASS_FORWARD, fusion, FP16);
        return model_bytes(model, index, PASS_BACKWARD_DATA, fusion, FP16) +
               model_bytes(model, index, PASS_BACKWARD_FILTER, fusion, FP16);
    }
    fail_msg("unknown column %s", column);
    return -1;
}

static void add_words(struct row *row, const struct layer *layer)
{
    static const char *const words[] = {"conv", "bn", "maxpool", "avgpool", "fc"};
    row->cell[row->count++] = layer->name;
    row->cell[row->count++] = words[layer->op];
    row->cell[row->count++] = layer->block;
    row->cell[row->count++] = layer->role;
}

/* What the program says for the column called @column. */
static int64_t count(const struct model *model, int32_t index, const char *column)
{
    const struct layer *layer = &model->layer[index];
    int32_t order;
    int64_t ready = ready_parameters(model, index, &order);
    const struct {
        const char *column;
        int64_t value;
    } counts[] = {
        {"idx", index},
        {"in_c", layer->in.channels},
        {"in_h", layer->in.height},
        {"in_w", layer->in.width},
        {"out_c", layer->out.channels},
        {"out_h", layer->out.height},
        {"out_w", layer->out.width},
        {"k", layer->kernel},
        {"stride", layer->stride},
        {"pad", layer->padding},
        {"params", layer->parameters},
        {"macs", layer_multiply_adds(layer)},
        {"fwd_flops", layer_flops(layer, PASS_FORWARD)},
        {"bwd_data_flops", layer_flops(layer, PASS_BACKWARD_DATA)},
        {"bwd_filter_flops", layer_flops(layer, PASS_BACKWARD_FILTER)},
        {"in_act_bytes_fp16", FP16 * shape_elements(layer->in)},
        {"out_act_bytes_fp16", FP16 * shape_elements(layer->out)},
        {"grad_bytes_fp16", layer_weight_bytes(layer, FP16)},
        {"grad_bytes_fp32", layer_weight_bytes(layer, 4)},
        {"bwd_order", order},
        {"cum_grad_bytes_fp16", FP16 * ready},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        if (strcmp(column, counts[i].column) == 0)
            return counts[i].value;
    return traffic(model, index, column);
}

static void check_row(const struct model *model, int32_t index, const struct row *head,
                      const struct row *row)
{
    assert_int_equal(row->count, head->count);
    struct row words = {0};
    add_words(&words, &model->layer[index]);
    for (int32_t i = 0; i < words.count; i++)
        assert_string_equal(row->cell[i + 1], words.cell[i]);
    for (int32_t i = 0; i < head->count; i++) {
        if (i >= 1 && i <= words.count)
            continue;
        if (*row->cell[i] == '\0') { /* the order of a layer without gradient */
            assert_int_equal(model->layer[index].parameters, 0);
            continue;
        }
        int64_t value = count(model, index, head->cell[i]);
        if (value != strtoll(row->cell[i], NULL, 10))
            fail_msg("%s, %s: %lld, but the table says %s", row->cell[1], head->cell[i],
                     (long long)value, row->cell[i]);
    }
}

TEST(agrees_with_every_cell_of_the_table_of_resnet50)
{
    char *path = base_format("%s/tests/data/roofline_resnet50.csv", getenv("FORETRAIN_DATADIR"));
    FILE *file = fopen(path, "r");
    free(path);
    assert_non_null(file);
    struct model *model = network_of("resnet50", 224, 1000);
    struct row head, row;
    assert_true(read_row(file, &head));
    assert_int_equal(head.count, 37);
    int32_t index = 0;
    for (; read_row(file, &row); index++)
        check_row(model, index, &head, &row);
    assert_int_equal(index, ROWS);
    assert_int_equal(model->layer_count, ROWS);
    model_free(model);
    fclose(file);
}

/* ---- what must hold for any network ---- */

static int64_t total_bytes(const struct model *model, enum fusion fusion, int32_t element_size)
{
    int64_t sum = 0;
    for (int32_t pass = 0; pass < PASS_COUNT; pass++)
        for (int32_t i = 0; i < model->layer_count; i++)
            sum += model_bytes(model, i, (enum pass)pass, fusion, element_size);
    return sum;
}

static int32_t total_kernels(const struct model *model, enum fusion fusion)
{
    int32_t sum = 0;
    for (int32_t pass = 0; pass < PASS_COUNT; pass++)
        for (int32_t i = 0; i < model->layer_count; i++)
            sum += layer_kernels(&model->layer[i], (enum pass)pass, fusion);
    return sum;
}

static void check_fusion(const struct model *model)
{
    for (int32_t fusion = 1; fusion < FUSION_COUNT; fusion++) {
        int64_t less = total_bytes(model, (enum fusion)fusion, FP16);
        int64_t more = total_bytes(model, (enum fusion)(fusion - 1), FP16);
        assert_in_range(less, 1, more);
        assert_in_range(total_bytes(model, (enum fusion)fusion, 4), less, 2 * less);
    }
    assert_true(total_kernels(model, FUSION_BN_RELU) < total_kernels(model, FUSION_POINTWISE));
    assert_true(total_kernels(model, FUSION_POINTWISE) < total_kernels(model, FUSION_NONE));
}

TEST(moves_fewer_bytes_the_more_is_fused)
{
    for (int32_t i = 0; network_names[i]; i++) {
        OWN(model) *model = network_of(network_names[i], 224, 1000);
        if (strcmp(model->name, "vgg16") != 0) /* nothing to fuse beyond ReLU */
            check_fusion(model);
    }
}

TEST(launches_a_kernel_wherever_bytes_move)
{
    for (int32_t n = 0; network_names[n]; n++) {
        OWN(model) *model = network_of(network_names[n], 224, 1000);
        for (int32_t i = 0; i < model->layer_count; i++)
            for (int32_t p = 0; p < PASS_COUNT; p++)
                for (int32_t f = 0; f < FUSION_COUNT; f++) {
                    enum pass pass = (enum pass)p;
                    enum fusion fusion = (enum fusion)f;
                    int64_t bytes = model_bytes(model, i, pass, fusion, FP16);
                    assert_true(bytes >= 0);
                    if (bytes > 0)
                        assert_true(layer_kernels(&model->layer[i], pass, fusion) > 0);
                }
    }
}

TEST(splits_all_parameters_into_tensors)
{
    for (int32_t n = 0; network_names[n]; n++) {
        OWN(model) *model = network_of(network_names[n], 224, 1000);
        int64_t parameters = 0;
        for (int32_t i = 0; i < model->tensor_count; i++) {
            parameters += model->tensor[i].elements;
            assert_true(i == 0 || model->tensor[i].layer >= model->tensor[i - 1].layer);
        }
        assert_int_equal(parameters, model_parameters(model));
    }
}

/* ---- layers by hand ---- */

TEST(drops_the_part_of_a_window_at_the_edge)
{
    OWN(model) *model = model_new("edge", 8, 10);
    model->input = (struct shape){4, 8, 7};
    struct layer pool = {.op = LAYER_MAX_POOL,
                         .name = "pool",
                         .input = {-1},
                         .input_count = 1,
                         .kernel = 3,
                         .stride = 2};
    int32_t index = model_add(model, pool);
    assert_int_equal(model->layer[index].out.channels, 4);
    assert_int_equal(model->layer[index].out.height, 3);
    assert_int_equal(model->layer[index].out.width, 3);
    assert_int_equal(model->tensor_count, 0);
}

TEST(counts_a_layer_with_bias_by_hand)
{
    OWN(model) *model = model_new("hand", 2, 10);
    struct layer layer = {.op = LAYER_LINEAR,
                          .name = "fc",
                          .input = {-1},
                          .input_count = 1,
                          .out.channels = 5,
                          .kernel = 1,
                          .stride = 1,
                          .bias = true};
    int32_t index = model_add(model, layer);
    assert_int_equal(model->layer[index].parameters, 65);
    assert_int_equal(model->tensor_count, 2);
    assert_string_equal(model->tensor[0].name, "fc.weight");
    assert_int_equal(model->tensor[0].elements, 60);
    assert_string_equal(model->tensor[1].name, "fc.bias");
    assert_int_equal(model->tensor[1].elements, 5);
    assert_int_equal(model_flops(model, PASS_FORWARD), 120);
    assert_int_equal(model_flops(model, PASS_BACKWARD_DATA), 0);
    assert_int_equal(model_flops(model, PASS_BACKWARD_FILTER), 120);
}

static int32_t add(struct model *model, enum layer_op op, int32_t from, bool relu)
{
    return model_add(model, (struct layer){.op = op,
                                           .input = {from},
                                           .input_count = 1,
                                           .out.channels = 3,
                                           .kernel = 1,
                                           .stride = 1,
                                           .relu = relu});
}

/* A block whose projection comes first in the list, and one that adds its own input. */
TEST(knows_branches_from_inputs_not_from_the_order)
{
    OWN(model) *model = model_new("branches", 4, 10);
    int32_t in = add(model, LAYER_CONVOLUTION, -1, true);
    int32_t side = add(model, LAYER_CONVOLUTION, in, false);
    int32_t added = add(model, LAYER_BATCH_NORM, side, false);
    int32_t main = add(model, LAYER_CONVOLUTION, in, false);
    int32_t adds = add(model, LAYER_BATCH_NORM, main, true);
    model_add_residual(model, adds, added);
    int32_t next = add(model, LAYER_CONVOLUTION, adds, false);
    int32_t last = add(model, LAYER_BATCH_NORM, next, true);
    model_add_residual(model, last, adds);
    const struct layer *layer = model->layer;
    assert_true(layer[in].first && !layer[side].first);
    assert_true(layer[side].projection && layer[added].projection);
    assert_false(layer[main].projection || layer[adds].projection || layer[last].projection);
    assert_true(layer[side].fork && !layer[main].fork && layer[next].fork && !layer[in].fork);
    assert_true(layer[adds].residual && layer[last].residual && !layer[added].residual);
    assert_int_equal(layer[in].readers, 2);
    assert_int_equal(layer[adds].readers, 2);
    assert_int_equal(layer[adds].reader, next);
    assert_int_equal(layer[last].readers, 0);
    assert_int_equal(layer[last].reader, -1);
}

static void assert_product(struct matrix_product by, int64_t rows, int64_t columns, int64_t terms,
                           int64_t aligned)
{
    assert_int_equal(by.rows, rows);
    assert_int_equal(by.columns, columns);
    assert_int_equal(by.terms, terms);
    assert_int_equal(by.aligned, aligned);
}

TEST(knows_which_matrices_it_multiplies)
{
    struct layer layer = {
        .op = LAYER_CONVOLUTION, .in = {48, 7, 7}, .out = {20, 7, 7}, .kernel = 1, .stride = 1};
    assert_product(layer_product(&layer, PASS_FORWARD, 2), 98, 20, 48, 4);
    assert_product(layer_product(&layer, PASS_BACKWARD_DATA, 2), 98, 48, 20, 4);
    assert_product(layer_product(&layer, PASS_BACKWARD_FILTER, 2), 20, 48, 98, 4);
    layer = (struct layer){.op = LAYER_MATMUL, .out = {3, 10, 10}, .inner = 16};
    assert_product(layer_product(&layer, PASS_FORWARD, 2), 60, 10, 16, 2);
    layer = (struct layer){.op = LAYER_GELU, .in = {48, 7, 7}, .out = {48, 7, 7}};
    assert_product(layer_product(&layer, PASS_FORWARD, 2), 0, 0, 0, 0);
}

/* One head of attention over 4 positions of 6 features, by hand; 1 byte for each value. */
TEST(counts_kinds_for_predictions_by_hand)
{
    OWN(model) *model = model_new("attention", 8, 10);
    model->input = (struct shape){6, 1, 4};
    struct layer matmul = {.op = LAYER_MATMUL,
                           .name = "scores",
                           .input = {-1, -1},
                           .input_count = 2,
                           .out = {1, 4, 4},
                           .inner = 6};
    struct layer concat = {.op = LAYER_CONCAT, .name = "cat", .input = {0, 0, 0}, .input_count = 3};
    struct layer embedding = {.op = LAYER_EMBEDDING,
                              .name = "words",
                              .input = {-1},
                              .input_count = 1,
                              .out.channels = 5,
                              .rows = 100};
    struct layer grouped = {.op = LAYER_CONVOLUTION,
                            .name = "grouped",
                            .input = {-1},
                            .input_count = 1,
                            .out.channels = 6,
                            .kernel = 1,
                            .stride = 1,
                            .groups = 6};
    model_add(model, matmul);
    model_add(model, concat);
    model_add(model, embedding);
    model_add(model, grouped);
    const struct layer *layer = model->layer;
    assert_int_equal(layer_flops(&layer[0], PASS_FORWARD), 2 * 4 * 4 * 6);
    assert_int_equal(layer_flops(&layer[0], PASS_BACKWARD_DATA), 4 * 4 * 4 * 6);
    assert_int_equal(layer_flops(&layer[0], PASS_BACKWARD_FILTER), 0);
    assert_int_equal(model_bytes(model, 0, PASS_FORWARD, FUSION_IDEAL, 1), 24 + 24 + 16);
    assert_int_equal(model_bytes(model, 0, PASS_BACKWARD_DATA, FUSION_IDEAL, 1), 2 * 64);
    assert_int_equal(layer[1].out.channels, 3);
    assert_int_equal(model_bytes(model, 1, PASS_FORWARD, FUSION_IDEAL, 1), 2 * 48);
    assert_int_equal(layer[2].parameters, 500);
    assert_int_equal(shape_elements(layer[2].out), 5 * 24);
    assert_int_equal(layer[3].parameters, 6);
    assert_int_equal(layer_flops(&layer[3], PASS_FORWARD), 2 * 6 * 4);
}

/* Of three readers of a value, two add their gradients to that of the last. */
TEST(adds_gradients_where_a_value_is_read_again)
{
    OWN(model) *model = model_new("readers", 4, 10);
    int32_t in = add(model, LAYER_CONVOLUTION, -1, true);
    for (int32_t i = 0; i < 3; i++)
        add(model, LAYER_RELU, in, false);
    for (int32_t i = 1; i < 4; i++) {
        assert_int_equal(model_bytes(model, i, PASS_BACKWARD_DATA, FUSION_POINTWISE, 1),
                         (i < 3 ? 4 : 3) * 48);
        assert_int_equal(model_bytes(model, i, PASS_BACKWARD_DATA, FUSION_NONE, 1),
                         (i < 3 ? 6 : 3) * 48);
    }
}

/* A batch norm that a concat reads, too, writes its value. */
TEST(merges_no_batch_norm_that_others_read)
{
    OWN(model) *model = model_new("apart", 4, 10);
    int32_t norm = add(model, LAYER_BATCH_NORM, add(model, LAYER_CONVOLUTION, -1, false), true);
    add(model, LAYER_CONVOLUTION, norm, false);
    assert_int_equal(model_bytes(model, norm, PASS_FORWARD, FUSION_IDEAL, 1), 0);
    add(model, LAYER_CONCAT, norm, false);
    assert_int_equal(model_bytes(model, norm, PASS_FORWARD, FUSION_IDEAL, 1), 3 * 48);
    assert_int_equal(layer_kernels(&model->layer[norm], PASS_FORWARD, FUSION_IDEAL), 1);
}

/* Of 12 heads with 64 features each at 512 positions. */
TEST(attention_in_one_kernel_moves_no_weights_of_positions)
{
    const int64_t value = 768 * 512, weights = 12 * 512 * 512;
    const struct merges fused = {.attention = ATTENTION_FUSED},
                        flash = {.attention = ATTENTION_FLASH, .epilogues = true};
    OWN(model) *model = network_of("bert-base", 0, 2);
    int64_t kept = 0, moved = 0, attending = 0;
    for (int32_t i = 0; i < model->layer_count; i++) {
        if (!model_attends(model, i))
            continue;
        attending++;
        kept += model_merged_bytes(model, i, PASS_FORWARD, fused, FP16);
        moved += model_merged_bytes(model, i, PASS_BACKWARD_DATA, flash, FP16);
        assert_int_equal(model_merged_bytes(model, i, PASS_FORWARD, (struct merges){0}, 1), -1);
    }
    assert_int_equal(attending, 12 * 4); /* products, softmax, dropout */
    assert_int_equal(kept, 12 * FP16 * (4 * value + weights));
    assert_int_equal(moved, 12 * FP16 * 2 * 4 * value);
}
