#include <fcntl.h>
#include <sys/wait.h>

#include "core/base/file.h"
#include "exec/cuda/conv/conv_cache.h"
#include "tests/folder.h"
#include "tests/test.h"

/* The cache of plans: what is written is read again, faults of the file are left out and told, and
 * processes that write at the same time lose nothing. */

static const struct conv_shape shape = {DTYPE_FP16, 256, 64, 56, 56, 256, 28, 28, 3, 2, 1};
static const struct conv_choice choice = {.engine = 65,
                                          .knobs = 2,
                                          .knob = {{2, 3}, {13, INT64_C(-10000000000)}},
                                          .seconds = 0.000123456789,
                                          .workspace = INT64_C(5000000000),
                                          .notes = 0x21};

static struct {
    char *path, *said; /* the cache; what was told on stderr */
} place;

static int enter(void **state)
{
    int failed = fixture_setup(state);
    place.path = base_format("%sdeep/plans", fixture_path(state, "/"));
    place.said = base_format("%ssaid", fixture_path(state, "/"));
    return failed;
}

static int leave(void **state)
{
    free(place.path);
    free(place.said);
    return fixture_teardown(state);
}

static char *content(const char *path)
{
    HELD(text) text = {0};
    assert_int_equal(file_read(path, &text, &err), 0);
    return base_format("%.*s", (int)text.length, text.data ? text.data : "");
}

/* From here to told() stderr goes to a file. */
static int listen(void)
{
    fflush(stderr);
    int kept = dup(2), to = open(place.said, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(kept >= 0 && to >= 0);
    dup2(to, 2);
    close(to);
    return kept;
}

static char *told(int kept)
{
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    return content(place.said);
}

OWNED(conv_cache, conv_cache_close)

static struct conv_cache *open_cache(const char *path)
{
    return conv_cache_open(path, 91900, "NVIDIA H200");
}

/* The cache of a file in which nothing is damaged. */
static struct conv_cache *open_unharmed(void)
{
    int ears = listen();
    struct conv_cache *cache = open_cache(place.path);
    AUTOFREE char *said = told(ears);
    assert_string_equal(said, "");
    return cache;
}

static void assert_choice(const struct conv_choice *got, const struct conv_choice *want)
{
    assert_non_null(got);
    assert_int_equal(got->engine, want->engine);
    assert_int_equal(got->knobs, want->knobs);
    assert_memory_equal(got->knob, want->knob, (size_t)want->knobs * sizeof *want->knob);
    assert_true(got->seconds >= want->seconds * 0.99999999);
    assert_true(got->seconds <= want->seconds * 1.00000001);
    assert_int_equal(got->workspace, want->workspace);
    assert_int_equal(got->notes, want->notes);
}

static void put(const char *path, int64_t version, const char *device, enum conv_op op,
                int32_t engine)
{
    OWN(conv_cache) *cache = conv_cache_open(path, version, device);
    struct conv_choice other = choice;
    other.engine = engine;
    conv_cache_add(cache, op, &shape, &other, false);
}

TEST(names_a_plan)
{
    AUTOFREE char *key = conv_cache_key(91900, "NVIDIA H200", "backward-filter", &shape);
    assert_string_equal(
        key, "91900 \"NVIDIA H200\" backward-filter fp16 256 64x56x56 256x28x28 k3 s2 p1");
}

TEST_WITH(reads_what_it_wrote, enter, leave)
{
    OWN(conv_cache) *cache = open_cache(place.path);
    assert_null(conv_cache_find(cache, CONV_FORWARD, &shape));
    conv_cache_add(cache, CONV_FORWARD, &shape, &choice, false);
    assert_choice(conv_cache_find(cache, CONV_FORWARD, &shape), &choice);
    struct conv_choice none = {.engine = -1};
    conv_cache_add(cache, CONV_BACKWARD_FILTER, &shape, &none, false);
    conv_cache_close(cache);
    AUTOFREE char *before = content(place.path);

    cache = open_unharmed();
    assert_choice(conv_cache_find(cache, CONV_FORWARD, &shape), &choice);
    assert_choice(conv_cache_find(cache, CONV_BACKWARD_FILTER, &shape), &none);
    assert_null(conv_cache_find(cache, CONV_BACKWARD_DATA, &shape));
    struct conv_shape other = shape;
    other.batch++;
    assert_null(conv_cache_find(cache, CONV_FORWARD, &other));
    conv_cache_add(cache, CONV_FORWARD, &shape, &choice, false);
    AUTOFREE char *after = content(place.path);
    assert_string_equal(before, after); /* reading and writing changes no digit */
}

TEST_WITH(keeps_plans_of_other_devices_and_versions, enter, leave)
{
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 1);
    put(place.path, 91900, "NVIDIA A100 \"40=\nGB\"", CONV_FORWARD, 2);
    put(place.path, 92000, "NVIDIA H200", CONV_FORWARD, 3);
    const struct {
        int64_t version;
        const char *device;
        int32_t engine;
    } row[] = {{91900, "NVIDIA H200", 1},
               {91900, "NVIDIA A100 \"40=\nGB\"", 2},
               {92000, "NVIDIA H200", 3},
               {92000, "NVIDIA A100", -2}};
    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        OWN(conv_cache) *cache = conv_cache_open(place.path, row[i].version, row[i].device);
        const struct conv_choice *got = conv_cache_find(cache, CONV_FORWARD, &shape);
        assert_int_equal(got ? got->engine : -2, row[i].engine);
    }
}

TEST_WITH(what_the_file_says_counts_unless_it_is_stale, enter, leave)
{
    OWN(conv_cache) *mine = open_cache(place.path);
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 7); /* another process was first */
    assert_int_equal(conv_cache_add(mine, CONV_FORWARD, &shape, &choice, false)->engine, 7);
    assert_int_equal(conv_cache_find(mine, CONV_FORWARD, &shape)->engine, 7);
    assert_choice(conv_cache_add(mine, CONV_BACKWARD_DATA, &shape, &choice, false), &choice);
    OWN(conv_cache) *later = open_cache(place.path);
    assert_int_equal(conv_cache_find(later, CONV_FORWARD, &shape)->engine, 7);
    conv_cache_close(later);
    assert_choice(conv_cache_add(mine, CONV_FORWARD, &shape, &choice, true), &choice);
    later = open_cache(place.path);
    assert_choice(conv_cache_find(later, CONV_FORWARD, &shape), &choice);
}

/* Whatever single byte of the file is changed, no plan comes out that was not put in. */
TEST_WITH(every_damaged_byte_is_noticed, enter, leave)
{
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 65);
    put(place.path, 91900, "NVIDIA H200", CONV_BACKWARD_DATA, 66);
    AUTOFREE char *good = content(place.path);
    size_t size = strlen(good), head = (size_t)(strchr(good, '\n') - good);
    int64_t wrong = 0, lost = 0, quiet = 0;
    for (size_t at = head + 1; at < size; at++)
        for (int32_t kind = 0; kind < 3; kind++) {
            char kept = good[at];
            good[at] = (char)(kind == 0 ? kept ^ 1 : kind == 1 ? '\n' : '\0');
            fixture_write(place.path, good, size);
            bool same = good[at] == kept;
            good[at] = kept;
            int ears = listen();
            OWN(conv_cache) *cache = open_cache(place.path);
            AUTOFREE char *said = told(ears);
            const struct conv_choice *first = conv_cache_find(cache, CONV_FORWARD, &shape);
            const struct conv_choice *second = conv_cache_find(cache, CONV_BACKWARD_DATA, &shape);
            wrong += (first && first->engine != 65) || (second && second->engine != 66);
            lost += !first && !second && kept != '\n'; /* a joined line takes both along */
            quiet += !same && !strstr(said, "damaged");
        }
    assert_int_equal(wrong, 0);
    assert_int_equal(lost, 0);
    assert_int_equal(quiet, 0);
}

TEST_WITH(a_file_cut_short_keeps_its_whole_lines, enter, leave)
{
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 65);
    put(place.path, 91900, "NVIDIA H200", CONV_BACKWARD_DATA, 66);
    AUTOFREE char *good = content(place.path);
    fixture_write(place.path, good, strlen(good) - 5);
    int ears = listen();
    OWN(conv_cache) *cache = open_cache(place.path);
    AUTOFREE char *said = told(ears);
    assert_has(said, "plans:3: damaged plan");
    assert_int_equal(conv_cache_find(cache, CONV_FORWARD, &shape)->engine, 65);
    assert_null(conv_cache_find(cache, CONV_BACKWARD_DATA, &shape));
    conv_cache_add(cache, CONV_BACKWARD_DATA, &shape, &choice, false);
    conv_cache_close(cache);
    cache = open_unharmed(); /* mended by writing */
}

/* Other files are told and never written to. */
TEST_WITH(leaves_other_files_alone, enter, leave)
{
    static const struct {
        const char *text, *says;
    } row[] = {{"network: resnet50\n", "is not a file of convolution plans"},
               {"foretrain-convolutions 2\nwhatever\n", "another version of foretrain"}};
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 65); /* makes the folder */
    for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
        fixture_write(place.path, row[i].text, strlen(row[i].text));
        int ears = listen();
        OWN(conv_cache) *cache = open_cache(place.path);
        conv_cache_add(cache, CONV_FORWARD, &shape, &choice, false);
        AUTOFREE char *said = told(ears);
        assert_has(said, row[i].says);
        assert_choice(conv_cache_find(cache, CONV_FORWARD, &shape), &choice);
        AUTOFREE char *after = content(place.path);
        assert_string_equal(after, row[i].text);
    }
    fixture_write(place.path, "", 0);
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 65);
    AUTOFREE char *after = content(place.path);
    assert_has(after, " = 65 ");
}

TEST_WITH(a_file_that_cannot_be_written_is_told_once, enter, leave)
{
    put(place.path, 91900, "NVIDIA H200", CONV_FORWARD, 65);
    AUTOFREE char *blocked = base_format("%s.lock", place.path);
    unlink(blocked);
    assert_int_equal(mkdir(blocked, 0777), 0); /* refused even to a superuser */
    int ears = listen();
    OWN(conv_cache) *cache = open_cache(place.path);
    conv_cache_add(cache, CONV_BACKWARD_DATA, &shape, &choice, false);
    conv_cache_add(cache, CONV_BACKWARD_FILTER, &shape, &choice, false);
    AUTOFREE char *said = told(ears);
    const char *first = strstr(said, "plans of convolutions are not kept");
    assert_non_null(first);
    assert_null(strstr(first + 1, "plans of convolutions"));
    assert_choice(conv_cache_find(cache, CONV_BACKWARD_FILTER, &shape), &choice);
    rmdir(blocked);
}

TEST(keeps_plans_without_a_file)
{
    OWN(conv_cache) *cache = open_cache(NULL);
    conv_cache_add(cache, CONV_FORWARD, &shape, &choice, false);
    assert_choice(conv_cache_find(cache, CONV_FORWARD, &shape), &choice);
}

enum { WRITERS = 6, PLANS = 12 };

/* Process @writer adds plans of its own, and one that all add.  @return the engine of that. */
static int32_t write_many(const char *path, int32_t writer)
{
    OWN(conv_cache) *cache = open_cache(path);
    struct conv_shape own = shape;
    struct conv_choice other = choice;
    other.engine = writer;
    for (int32_t i = 0; i < PLANS; i++) {
        own.batch = 1000 + writer * PLANS + i;
        conv_cache_add(cache, CONV_FORWARD, &own, &other, false);
    }
    return conv_cache_add(cache, CONV_FORWARD, &shape, &other, false)->engine;
}

TEST_WITH(writers_at_the_same_time_lose_nothing_and_agree, enter, leave)
{
    pid_t child[WRITERS];
    int status[WRITERS];
    for (int32_t i = 0; i < WRITERS; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (child[i] == 0)
            _exit(write_many(place.path, i));
    }
    for (int32_t i = 0; i < WRITERS; i++) {
        assert_int_equal(waitpid(child[i], &status[i], 0), child[i]);
        assert_true(WIFEXITED(status[i]));
    }
    OWN(conv_cache) *cache = open_unharmed();
    struct conv_shape own = shape;
    for (int32_t i = 0; i < WRITERS * PLANS; i++) {
        own.batch = 1000 + i;
        const struct conv_choice *got = conv_cache_find(cache, CONV_FORWARD, &own);
        assert_non_null(got);
        assert_int_equal(got->engine, i / PLANS);
    }
    for (int32_t i = 0; i < WRITERS; i++)
        assert_int_equal(WEXITSTATUS(status[i]),
                         conv_cache_find(cache, CONV_FORWARD, &shape)->engine);
}
