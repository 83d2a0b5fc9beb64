#include <fcntl.h>
#include <sys/stat.h>

#include "tests/exec/checkpoint_fixture.h"

#include "exec/checkpoint/checkpoint_parts.h"
#include "tests/core/own.h"
#include "tests/test.h"

static const char *const files[] = {"model.safetensors", "optim.safetensors", "ranks.safetensors",
                                    "state.json", "MANIFEST"};
enum { FILE_COUNT = sizeof(files) / sizeof(*files) };

static char *file_in(const struct fixture *f, const char *checkpoint, const char *file)
{
    return base_format("%s/%s/%s", f->directory, checkpoint, file);
}

/* Reading "ckpt-000001" must fail with @code and a message that names @file. */
static void refuses(const struct fixture *f, const char *file, int32_t code)
{
    struct progress progress = {.step = -7};
    HELD(weights) read = weights_new(&f->layout, FIXTURE_RANKS);
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    assert_fails(checkpoint_read(path, &f->layout, &progress, &read, &err), code, file);
    assert_int_equal(progress.step, -7); /* nothing filled */
    for (int64_t i = 0; i < f->layout.parameters; i++)
        assert_true(read.parameter[i] == 0 && read.momentum[i] == 0);
}

TEST_ON_DISK(is_read_back_with_every_bit)
{
    struct progress progress;
    f->weights.parameter[3] = -0.0F;
    f->weights.parameter[4] = 1e-45F;
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    HELD(weights) read = weights_new(&f->layout, FIXTURE_RANKS);
    assert_int_equal(checkpoint_read(path, &f->layout, &progress, &read, &err), 0);
    assert_memory_equal(read.parameter, f->weights.parameter, (size_t)f->layout.parameters * 4);
    assert_memory_equal(read.momentum, f->weights.momentum, (size_t)f->layout.parameters * 4);
    assert_memory_equal(read.statistics, f->weights.statistics,
                        (size_t)f->layout.statistic_count * 4);
    assert_memory_equal(read.rank_statistics, f->weights.rank_statistics,
                        (size_t)f->layout.statistic_count * 4 * FIXTURE_RANKS);
    HELD(text) written = {0}, found = {0};
    state_print(&written, &f->progress);
    state_print(&found, &progress);
    assert_string_equal(found.data, written.data);
    assert_true(progress.loss == f->progress.loss); /* every digit */
}

TEST_ON_DISK(a_loss_that_is_not_finite_is_read_as_not_a_number)
{
    struct progress progress;
    f->progress.loss = INFINITY;
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    assert_int_equal(checkpoint_read_progress(path, &progress, &err), 0);
    assert_true(isnan(progress.loss));
}

TEST_ON_DISK(momentum_and_statistics_of_ranks_may_be_left_out)
{
    struct progress progress;
    struct weights without = f->weights;
    without.momentum = without.rank_statistics = NULL;
    assert_int_equal(
        checkpoint_write(f->directory, "ckpt-000001", 0, &f->layout, &f->progress, &without, &err),
        0);
    assert_false(is_there(f, "ckpt-000001/optim.safetensors"));
    assert_false(is_there(f, "ckpt-000001/ranks.safetensors"));
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    HELD(weights) read = weights_new(&f->layout, FIXTURE_RANKS);
    read.momentum[0] = read.rank_statistics[0] = 5;
    assert_int_equal(checkpoint_read(path, &f->layout, &progress, &read, &err), 0);
    assert_true(read.momentum[0] == 5 && read.rank_statistics[0] == 5);
    assert_memory_equal(read.parameter, f->weights.parameter, (size_t)f->layout.parameters * 4);
}

TEST(resnet50_has_the_320_tensors_of_torchvision)
{
    struct fixture *f = fixture_new("resnet50", 224, 1000);
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    HELD(text) content = {0};
    HELD(safetensors) header;
    AUTOFREE char *path = file_in(f, "ckpt-000001", "model.safetensors");
    assert_int_equal(file_read(path, &content, &err), 0);
    assert_int_equal(safetensors_read_header(&header, path, content.data, content.length, &err), 0);
    assert_int_equal(header.count, 320);
    static const struct {
        const char *name;
        enum safetensors_type type;
        int32_t rank;
        int64_t shape[4];
    } known[] = {
        {"conv1.weight", SAFETENSORS_F32, 4, {64, 3, 7, 7}},
        {"bn1.running_var", SAFETENSORS_F32, 1, {64}},
        {"bn1.num_batches_tracked", SAFETENSORS_I64, 0, {0}},
        {"layer2.0.conv2.weight", SAFETENSORS_F32, 4, {128, 128, 3, 3}},
        {"layer4.0.downsample.0.weight", SAFETENSORS_F32, 4, {2048, 1024, 1, 1}},
        {"layer4.0.downsample.1.bias", SAFETENSORS_F32, 1, {2048}},
        {"fc.weight", SAFETENSORS_F32, 2, {1000, 2048}},
        {"fc.bias", SAFETENSORS_F32, 1, {1000}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const struct safetensors_tensor *tensor = safetensors_find(&header, known[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->type, known[i].type);
        assert_int_equal(tensor->rank, known[i].rank);
        for (int32_t d = 0; d < tensor->rank; d++)
            assert_int_equal(tensor->shape[d], known[i].shape[d]);
        assert_int_equal((header.data + tensor->begin) % (tensor->type == SAFETENSORS_I64 ? 8 : 4),
                         0);
    }
    fixture_free(f);
}

static void flip(const char *path, int64_t at)
{
    unsigned char byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

TEST_ON_DISK(names_the_file_with_a_flipped_bit)
{
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    for (int32_t i = 0; i < FILE_COUNT; i++) {
        struct stat found;
        AUTOFREE char *path = file_in(f, "ckpt-000001", files[i]);
        assert_int_equal(stat(path, &found), 0);
        int64_t stride = i == FILE_COUNT - 1 ? 1 : found.st_size / 23 + 1;
        for (int64_t at = 0; at < found.st_size; at += stride) {
            flip(path, at);
            refuses(f, files[i], 65);
            flip(path, at);
        }
    }
    assert_true(holds(f, "ckpt-000001", 0));
}

TEST_ON_DISK(names_the_file_that_is_missing)
{
    for (int32_t i = 0; i < FILE_COUNT; i++) {
        assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
        AUTOFREE char *path = file_in(f, "ckpt-000001", files[i]);
        assert_int_equal(unlink(path), 0);
        refuses(f, files[i], 66);
    }
    remove_tree(f->directory);
    refuses(f, "ckpt-000001", 66);
}

TEST_ON_DISK(refuses_the_weights_of_another_network)
{
    struct fixture *other = fixture_new("toy", 8, 4);
    struct progress progress;
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    assert_fails(checkpoint_read(path, &other->layout, &progress, &other->weights, &err), 65,
                 "has shape [3,");
    OWN(model) *deep = network_of("resnet18", 32, 3);
    HELD(layout) layout = layout_build(deep);
    assert_fails(checkpoint_read(path, &layout, &progress, &(struct weights){0}, &err), 65,
                 "of network 'toy', but the job trains 'resnet18'");
    fixture_free(other);
}

/* @f's state with @to (@length of it) in place of @from must be refused with @because. */
static void refuses_state(const struct fixture *f, const char *from, size_t length, const char *to,
                          const char *because)
{
    HELD(text) text = {0}, bad = {0};
    struct progress progress;
    state_print(&text, &f->progress);
    const char *place = strstr(text.data, from);
    assert_non_null(place);
    text_append(&bad, text.data, place - text.data);
    text_add(&bad, "%s%s", to, place + (length ? length : strlen(from)));
    if (!state_read_text(&progress, "state.json", bad.data, bad.length, &err))
        fail_msg("taken: %s", bad.data);
    assert_message(&err, 65, because);
}

TEST_ON_DISK(refuses_states_that_cannot_be)
{
    static const struct {
        const char *from, *to, *because;
    } cases[] = {
        {"\"step\": 123", "\"step\": 1.5", "'step' must be a whole number"},
        {"\"step\": 123", "\"step\": 9007199254740993", "from 0 to 9007199254740992"},
        {"\"step\": 123", "\"stop\": 123", "does not know"},
        {"\"step\": 123", "\"step\": 16", "above 'step'"},
        {"\"skipped_steps\": 2", "\"skipped_steps\": 124", "above 'step'"},
        {"\"position\": 31488", "\"position\": 122", "below it"},
        {"\"ranks\": 4", "\"ranks\": 2000000000", "'ranks' must be a whole number from 1"},
        {"\"image\": 8", "\"image\": 2147483647", "'image' must be a whole number from 0 to 4096"},
        {"\"network\": \"toy\"", "\"network\": \"\\u001b[2J\"", "'network' must be a text"},
        {"\"loss_scale\": 1024.0", "\"loss_scale\": 1e-320", "number from 1e-09 to 1099511627776"},
        {"\"loss\": 0.", "\"loss\": -0.", "or null"},
        {"checkpoint/2", "checkpoint/1", "'schema' must be"},
        {"{", "[", "not valid JSON"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        refuses_state(f, cases[i].from, 0, cases[i].to, cases[i].because);
}

TEST_ON_DISK(refuses_what_no_key_can_be)
{
    static const char *const never[] = {
        "-9223372036854775808", "9223372036854775807", "-1e308", "1e308", "null", "true", "[]"};
    HELD(text) text = {0};
    state_print(&text, &f->progress);
    AUTORELEASE(json) struct json *state = json_read("state", text.data, text.length, &err);
    assert_int_equal(json_count_members(state), 17);
    for (const char *key = NULL; (key = json_next_key(state, key));) {
        AUTOFREE char *begin = base_format("\"%s\": ", key), *because = base_format("'%s'", key);
        const char *line = strstr(text.data, begin);
        AUTOFREE char *from = base_format("%.*s", (int)strcspn(line, "\n"), line);
        size_t length = strlen(from) - (from[strlen(from) - 1] == ',');
        for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
            AUTOFREE char *to = base_format("%s%s", begin, never[i]);
            bool loss = !strcmp(key, "loss") && (strchr("1n9", *never[i])); /* any, or none */
            if (!loss)
                refuses_state(f, from, length, to, because);
        }
    }
}

/* Reading the job of "ckpt-000001" must fail with @code and a message with @part. */
static void refuses_job(const struct fixture *f, int32_t code, const char *part)
{
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    assert_null(checkpoint_read_job(path, &err));
    assert_message(&err, code, part);
}

TEST_ON_DISK(the_job_is_kept_and_may_be_anybodys)
{
    int64_t number;
    AUTOFREE char *path = base_format("%s/ckpt-000001", f->directory);
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    refuses_job(f, 66, "name its job");
    f->progress.job = "[1]";
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    refuses_job(f, 65, "must be a JSON object");
    f->progress.job = "{\"seed\": 5}";
    assert_int_equal(write_named(f, "ckpt-000001", 0, &err), 0);
    struct json *job = checkpoint_read_job(path, &err);
    assert_true(json_as_integer(json_get(job, "seed"), &number));
    assert_int_equal(number, 5);
    json_free(job);
    AUTOFREE char *file = file_in(f, "ckpt-000001", "job.json");
    FILE *stream = fopen(file, "r+");
    assert_non_null(stream);
    fputs("(", stream);
    fclose(stream);
    refuses_job(f, 65, "job.json: damaged");
}
