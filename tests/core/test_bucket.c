#include "core/schedule/bucket.h"
#include "tests/core/own.h"
#include "tests/test.h"

enum { ALL = 51114064 /* gradients of ResNet-50 in fp16 [bytes] */, MIB = 1048576 };

/* The layer that completes the first @bytes of the gradients, going backward. */
static int32_t completing_layer(const struct model *model, enum dtype dtype, int64_t bytes)
{
    int64_t ready = 0;
    int32_t layer = model->layer_count;
    while (ready < bytes)
        ready += layer_weight_bytes(&model->layer[--layer], dtype_size(dtype));
    return layer;
}

static void check_buckets(const struct model *model, enum dtype dtype, int64_t limit,
                          int32_t expected)
{
    struct bucket_list list = bucket_build(model, dtype, limit, -1);
    assert_int_equal(list.count, expected);
    int64_t sum = 0;
    for (int32_t i = 0; i < list.count; i++) {
        struct bucket bucket = list.bucket[i];
        assert_true(bucket.bytes > 0);
        if (i + 1 < list.count)
            assert_int_equal(bucket.bytes, limit);
        else if (limit > 0)
            assert_in_range(bucket.bytes, 1, limit);
        sum += bucket.bytes;
        assert_int_equal(bucket.layer, completing_layer(model, dtype, sum));
    }
    assert_int_equal(sum, model_parameters(model) * dtype_size(dtype));
    bucket_list_release(&list);
    assert_int_equal(list.count, 0);
}

/* A block of GPT-2 has 7,087,872 parameters (Hugging Face, transformers). */
TEST(sharded_gradients_are_exchanged_by_blocks)
{
    OWN(model) *model = network_of("gpt2", 224, 1000);
    struct scenario scenario = {.model.gradients = DTYPE_FP32};
    int64_t all = model_parameters(model) * 4;
    for (int32_t stage = 0; stage <= 3; stage++) {
        scenario.parallel.sharding = stage;
        assert_int_equal(bucket_limit(model, &scenario), stage < 2 ? all : 7087872 * 4);
    }
    scenario.allreduce.bucket = MIB;
    assert_int_equal(bucket_limit(model, &scenario), MIB);
}

TEST(fills_13_buckets_of_4_mib_with_resnet50)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    check_buckets(model, DTYPE_FP16, 4 * MIB, 13);
    check_buckets(model, DTYPE_FP32, 4 * MIB, 25);
}

TEST(fills_8_equal_buckets_where_the_limit_divides)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    check_buckets(model, DTYPE_FP16, ALL / 8, 8);
    HELD(bucket_list) list = bucket_build(model, DTYPE_FP16, ALL / 8, -1);
    assert_int_equal(list.bucket[7].bytes, 6389258);
    assert_int_equal(list.bucket[7].layer, 0);
}

TEST(gives_a_layer_apart_a_bucket_of_its_own)
{
    OWN(model) *model = network_of("resnet50", 224, 1000); /* fc is layer 108 of 0 ... 108 */
    HELD(bucket_list) list = bucket_build(model, DTYPE_FP16, MIB, 108);
    assert_int_equal(list.bucket[0].bytes, 4098000);
    assert_int_equal(list.bucket[1].bytes, MIB);
    assert_true(list.bucket[1].layer < 108);
}

TEST(puts_everything_into_one_bucket_without_a_limit)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    check_buckets(model, DTYPE_FP16, 0, 1);
    check_buckets(model, DTYPE_FP16, ALL, 1);
    check_buckets(model, DTYPE_FP16, ALL - 1, 2);
}

TEST(names_the_layer_of_a_tensor_in_each_bucket_it_spans)
{
    struct model *model =
        network_of("resnet50", 224, 1000); /* fc alone is 4,098,000 bytes: layer 108 of 0 ... 108 */
    HELD(bucket_list) list = bucket_build(model, DTYPE_FP16, MIB, -1);
    assert_int_equal(list.count, 49);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(list.bucket[i].layer, 108);
    assert_true(list.bucket[3].layer < 108);
    model_free(model);
}

TEST(cuts_any_limit_without_losing_a_byte)
{
    OWN(model) *model = network_of("resnet50", 224, 1000);
    for (int64_t limit = 100000; limit < 2 * (int64_t)ALL; limit = limit * 3 / 2 + 1)
        check_buckets(model, DTYPE_FP16, limit, (int32_t)((ALL + limit - 1) / limit));
}
