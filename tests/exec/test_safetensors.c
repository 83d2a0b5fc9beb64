#include "exec/checkpoint/safetensors.h"

#include "tests/test.h"

/* A file with this header and @bytes of data. */
static struct text file_of(const char *header, int64_t bytes)
{
    struct text text = {0};
    uint64_t length = strlen(header);
    text_append(&text, (const char *)&length, sizeof(length));
    text_append(&text, header, (int64_t)length);
    for (int64_t i = 0; i < bytes; i++)
        text_append(&text, "x", 1);
    return text;
}

static void refuses(const struct text *text, const char *because)
{
    struct safetensors file = {0};
    assert_int_equal(
        safetensors_read_header(&file, "a.safetensors", text->data, text->length, &err), -1);
    assert_int_equal(err.count, 1);
    assert_memory_equal(err.text, "a.safetensors:", 14);
    assert_message(&err, 65, because);
    assert_null(file.tensor);
}

static void refuses_header(const char *header, int64_t bytes, const char *because)
{
    HELD(text) text = file_of(header, bytes);
    refuses(&text, because);
}

/* A tensor in a header. */
#define TENSOR(name, type, shape, offsets)                                                         \
    "\"" name "\": {\"dtype\": \"" type "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"

static void refuses_tensor(const char *type, const char *shape, const char *offsets, int64_t bytes,
                           const char *because)
{
    AUTOFREE char *header =
        base_format("{" TENSOR("a", "%s", "%s", "%s") "}", type, shape, offsets);
    refuses_header(header, bytes, because);
}

TEST(reads_what_it_wrote)
{
    HELD(safetensors) file = {0}, again = {0};
    HELD(text) text = {0};
    safetensors_add(&file, "count", SAFETENSORS_I64, 0, NULL);
    safetensors_add(&file, "w", SAFETENSORS_F32, 4, (const int64_t[]){3, 2, 1, 1});
    safetensors_add(&file, "none", SAFETENSORS_F32, 2, (const int64_t[]){0, 5});
    safetensors_add(&file, "half \"quoted\"", SAFETENSORS_F16, 1, (const int64_t[]){3});
    assert_int_equal(file.bytes, 8 + 24 + 0 + 6);
    safetensors_print_header(&text, &file);
    assert_int_equal(text.length % 8, 0);
    int64_t data = text.length;
    for (int64_t i = 0; i < file.bytes; i++)
        text_append(&text, "", 1);
    assert_int_equal(safetensors_read_header(&again, "a", text.data, text.length, &err), 0);
    assert_int_equal(again.data, data);
    assert_int_equal(again.bytes, file.bytes);
    assert_int_equal(again.count, 4);
    for (int64_t i = 0; i < 4; i++) {
        const struct safetensors_tensor *one = &file.tensor[i],
                                        *other = safetensors_find(&again, one->name);
        assert_non_null(other);
        assert_int_equal(one->type, other->type);
        assert_int_equal(one->rank, other->rank);
        assert_memory_equal(one->shape, other->shape, sizeof(one->shape));
        assert_int_equal(one->begin, other->begin);
        assert_int_equal(one->bytes, other->bytes);
        assert_int_equal(one->elements, other->elements);
    }
    assert_null(safetensors_find(&again, "nobody"));
}

TEST(refuses_a_file_cut_anywhere)
{
    HELD(safetensors) file = {0}, again = {0};
    HELD(text) text = {0};
    safetensors_add(&file, "w", SAFETENSORS_F32, 1, (const int64_t[]){3});
    safetensors_print_header(&text, &file);
    text_append(&text, "abcdefghijkl", 12);
    for (int64_t length = 0; length < text.length; length++) {
        struct text cut = {.data = text.data, .length = length};
        refuses(&cut, "");
    }
    assert_int_equal(safetensors_read_header(&again, "a", text.data, text.length, &err), 0);
    text_append(&text, "m", 1);
    refuses(&text, "truncated or extended");
}

TEST(refuses_holes_overlaps_and_left_over_bytes)
{
    refuses_header(
        "{" TENSOR("a", "F32", "[1]", "[0, 4]") ", " TENSOR("b", "F32", "[1]", "[8, 12]") "}", 12,
        "tensor 'b' starts at byte 8 of the data, the one before it ends at 4");
    refuses_header(
        "{" TENSOR("a", "F32", "[2]", "[0, 8]") ", " TENSOR("b", "F32", "[2]", "[4, 12]") "}", 12,
        "tensor 'b' starts at byte 4");
    refuses_header(
        "{" TENSOR("a", "F32", "[1]", "[0, 4]") ", " TENSOR("b", "F32", "[1]", "[0, 4]") "}", 4,
        "tensor 'b' starts at byte 0");
    refuses_tensor("F32", "[1]", "[4, 8]", 8, "starts at byte 4");
    refuses_tensor("F32", "[1]", "[0, 4]", 5, "its tensors have 4 bytes, but 5 follow the header");
}

TEST(refuses_tensors_that_contradict_themselves)
{
    refuses_tensor("F32", "[2]", "[0, 4]", 4, "need 8 bytes, its data_offsets hold 4");
    refuses_header("{\"a\": {\"dtype\": \"F64\", \"shape\": [1], \"data_offsets\": [0, 8]}}", 8,
                   "of type 'F64'; foretrain reads F32, F16, BF16 and I64");
    refuses_tensor("F32", "[-1]", "[0, 4]", 4, "size 1 of \"shape\"");
    refuses_tensor("F32", "1", "[0, 4]", 4, "\"shape\" must be a list");
    refuses_tensor("F32", "[1,1,1,1,1,1,1,1,1]", "[0, 4]", 4, "at most 8 sizes");
    refuses_tensor("F32", "[4294967296, 4294967296]", "[0, 0]", 0,
                   "more elements than can be counted");
    refuses_tensor("I64", "[4611686018427387904]", "[0, 0]", 0, "more bytes than can be counted");
    refuses_tensor("F32", "[1]", "[4, 0]", 4, "\"data_offsets\" must be");
    refuses_tensor("F32", "[1]", "[0, 4, 8]", 4, "\"data_offsets\" must be");
    refuses_header(
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4], \"x\": 1}}", 4,
        "none of dtype, shape and data_offsets");
    refuses_header("{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "of type '?'");
    refuses_header("{\"a\": 1}", 0, "must be an object");
}

TEST(refuses_what_is_no_header)
{
    refuses_header("", 0, "does not start with '{'");
    refuses_header("[]", 0, "does not start with '{'");
    refuses_header(" {}", 0, "does not start with '{'");
    refuses_header("{} {}", 0, "not valid JSON");
    refuses_header(
        "{" TENSOR("a", "F32", "[]", "[0, 4]") ", " TENSOR("a", "F32", "[]", "[4, 8]") "}", 8,
        "duplicate object key");
    refuses_header("{\"a\\u001b\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [0, 4]}}",
                   4, "control characters");
    refuses_header("{\"__metadata__\": {\"a\": 1}}", 0, "\"__metadata__\"");
    refuses_header("{\"__metadata__\": []}", 0, "\"__metadata__\"");
    struct text text = {0};
    text_append(&text, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    refuses(&text, "announce a header of 18446744073709551615 bytes");
    text_release(&text);
    int64_t beyond = (16 << 20) + 1;
    text_append(&text, (const char *)&beyond, 8);
    for (int64_t i = 0; i < beyond; i++)
        text_append(&text, i ? " " : "{", 1);
    refuses(&text, "a header of 16777217 bytes, 16777217 follow and 16777216 are allowed");
    text_release(&text);
}

TEST(widens_every_type_exactly)
{
    float out[3];
    safetensors_widen(SAFETENSORS_F16, "\x00\x3c\x00\xc0\x01\x00", 3, out);
    assert_true(out[0] == 1 && out[1] == -2 && out[2] == 0x1p-24f);
    safetensors_widen(SAFETENSORS_BF16, "\x80\x3f\x00\xc0\x80\x7f", 3, out);
    assert_true(out[0] == 1 && out[1] == -2 && isinf(out[2]));
    safetensors_widen(SAFETENSORS_F32, "\x00\x00\x80\x3f", 1, out);
    assert_true(out[0] == 1);
    safetensors_widen(SAFETENSORS_I64, "\x07\0\0\0\0\0\0\0", 1, out);
    assert_true(out[0] == 7);
}
