#include "tests/core/faulty.h"
#include "tests/core/own.h"
#include "tests/test.h"

/* A ring of @device; the caller frees it. */
static char *ring_of(const char *device)
{
    return base_format("version: 1\nname: round\ndescription: a test\nkind: ring\ndevice: %s\n"
                       "ring:\n"
                       "  bandwidth: {value: 10 GB/s, source: test, kind: measured}\n"
                       "  efficiency: {value: 50 %%, source: test, kind: assumed}\n"
                       "  latency: {value: 4 us, source: test, kind: published}\n",
                       device);
}

static int read_faulty(const char *path)
{
    struct platform *platform = platform_read(path, &err);
    platform_free(platform);
    return platform ? 0 : -1;
}

TEST_EACH(each_faulty_file_says_what_is_wrong,
          assert_true(each_file("tests/bad/platform", ".yaml", see) >= 20), const char *path)
{
    check_faulty(path, read_faulty);
}

TEST(the_files_that_faulty_ones_extend_are_sound)
{
    AUTOFREE char *path = data_path("tests/bad/platform_base.yaml");
    platform_free(platform_of(path));
}

/* What NCCL would know of the first @devices devices of two nodes. */
static struct nccl_world two_nodes(const char *name, int32_t devices)
{
    OWN(platform) *platform = platform_of(name);
    OWN(fabric) *fabric = platform_fabric(platform, 2, devices, grid_of(devices, 2), &err);
    assert_non_null(fabric);
    return fabric->nccl;
}

TEST(nccl_gets_out_of_a_node_what_cards_and_devices_allow)
{
    static const struct {
        const char *platform;
        int32_t devices, cards;
        double bandwidth;
        bool nvswitch;
    } expected[] = {
        {"abci", 4, 2, 24e9, false},
        {"abci", 1, 1, 12e9, false},
        {"generic-fat-tree", 8, 8, 96e9, true},
        {"roce-8xa100-16x200g", 8, 8, 192e9, true}, /* each device feeds one of two cards */
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct nccl_world world = two_nodes(expected[i].platform, expected[i].devices);
        assert_int_equal(world.ranks, 2 * expected[i].devices);
        assert_int_equal(world.inter_channels, expected[i].cards);
        assert_true(fabs(world.inter_bandwidth / expected[i].bandwidth - 1) < 1e-3);
        assert_int_equal(world.nvswitch, expected[i].nvswitch);
    }
    assert_int_equal(two_nodes("stampede2-knl", 1).version, 0);
}

TEST(an_unknown_name_suggests_those_that_are_near)
{
    assert_null(platform_read("abcj", &err));
    assert_null(strstr(err.text, "dgx-1"));
    assert_message(&err, 66, "; did you mean 'abci'?");
    assert_null(platform_read("h100", &err));
    assert_message(
        &err, 66,
        "; did you mean 'dgx-h100', 'dgx-h100-rails', 'nd-h100-v5' or 'roce-8xh100-16x200g'?");
    assert_null(platform_read("something-else", &err));
    assert_null(strstr(err.text, "abci"));
    assert_message(&err, 66, "'foretrain list platforms'");
}

TEST(a_name_may_be_cut_short_and_in_any_case)
{
    static const char *const names[][2] = {{"DGX-H100", "dgx-h100"},
                                           {"roce-8xh", "roce-8xh100-16x200g"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        OWN(platform) *platform = platform_of(names[i][0]);
        assert_string_equal(platform->name, names[i][1]);
    }
    struct device device = {0};
    assert_int_equal(device_read(&device, "H100-sxm5", &err), 0);
    assert_string_equal(device.name, "h100-sxm5-80gb");
    device_release(&device);
    assert_fails(device_read(&device, "h100", &err), 66,
                 "did you mean 'h100-nvl-94gb', 'h100-pcie-80gb' or 'h100-sxm5-80gb'?");
}

TEST(a_path_that_is_not_there_is_no_input)
{
    assert_null(platform_read("./no-such-platform.yaml", &err));
    assert_message(&err, 66, "no-such-platform.yaml");
}

TEST(refuses_text_that_extends_a_file)
{
    assert_null(platform_read_text("text", "extends: abci.yaml\n", &err));
    assert_message(&err, 65, "extends");
}

TEST(finds_the_platforms_of_the_data_directory)
{
    AUTOFREE char *expected = data_path("platforms");
    AUTOFREE char *found = platform_directory(&err);
    assert_string_equal(found, expected);
}

TEST(without_the_variable_finds_the_source_tree)
{
    AUTOFREE char *data = base_copy(getenv("FORETRAIN_DATADIR"));
    unsetenv("FORETRAIN_DATADIR");
    AUTOFREE char *found = platform_directory(&err);
    setenv("FORETRAIN_DATADIR", data, 1);
    AUTOFREE char *expected = data_path("platforms");
    assert_string_equal(found, expected);
}

TEST(a_data_directory_without_platforms_is_an_error)
{
    AUTOFREE char *data = base_copy(getenv("FORETRAIN_DATADIR"));
    setenv("FORETRAIN_DATADIR", "/nonexistent", 1);
    AUTOFREE char *found = platform_directory(&err);
    setenv("FORETRAIN_DATADIR", data, 1);
    assert_null(found);
    assert_message(&err, 66, "/nonexistent/platforms (from FORETRAIN_DATADIR)");
}

static void expect_no_fabric(const char *name, int32_t nodes, int32_t devices, struct grid grid,
                             const char *message)
{
    OWN(platform) *platform = platform_of(name);
    assert_null(platform_fabric(platform, nodes, devices, grid, &err));
    assert_message(&err, 65, message);
}

TEST(refuses_what_a_platform_cannot_lay_out)
{
    expect_no_fabric("abci", 1089, 4, grid_of(4356, 1), "has only 1088 nodes, not 1089");
    expect_no_fabric("abci", 2, 5, grid_of(5, 2), "has only 4 devices, not 5");
    expect_no_fabric("t1-torus", 12, 1, grid_of(4, 4), "4 x 4 does not lay out the 12 nodes");
    expect_no_fabric("t1-torus", 2, 2, grid_of(2, 2), "one device per node, not 2");
    expect_no_fabric("t1-ring", 4098, 1, grid_of(4098, 1), "routes of 2049 links");
}

TEST(refuses_arithmetic_the_device_does_not_have)
{
    OWN(platform) *platform = platform_of("abci");
    assert_int_equal(platform_check_dtype(platform, DTYPE_FP32, &err), 0);
    assert_int_equal(platform_check_dtype(platform, DTYPE_FP16, &err), 0);
    assert_int_equal(err.count, 0);
    assert_int_equal(platform_check_dtype(platform, DTYPE_BF16, &err), -1);
    assert_message(&err, 65, "device v100-sxm2-16gb has no bf16 arithmetic; it has fp32, fp16");
}

/* How many quantities of each kind there are, and whether each says where it is from. */
static void count_quantity(void *context, const struct quantity *quantity, enum unit unit)
{
    int32_t *count = context;
    assert_in_range(unit, 0, UNIT_COUNT - 1);
    assert_true(strlen(quantity->source) > 0 && strlen(quantity->path) > 0);
    count[quantity->provenance]++;
}

TEST(visits_every_number_there_is_and_no_other)
{
    AUTOFREE char *yaml = ring_of("ideal");
    OWN(platform) *platform = platform_read_text("ring", yaml, &err);
    assert_non_null(platform);
    int32_t count[PROVENANCE_COUNT] = {0};
    platform_each_quantity(platform, count_quantity, count);
    assert_int_equal(count[PROVENANCE_MEASURED], 1);
    assert_int_equal(count[PROVENANCE_PUBLISHED], 1);
    assert_int_equal(count[PROVENANCE_DATASHEET], 0);
    assert_int_equal(count[PROVENANCE_ASSUMED], 1 + 8); /* the ideal device has eight */
}

/* A platform of nodes of four devices; the caller frees it. */
static struct platform *nodes_of_four(const char *more)
{
    AUTOFREE char *text = base_format(
        "version: 1\nname: n\ndescription: a test\nkind: cluster\ndevice: p40\nnodes: 1\n"
        "node:\n  devices: 4\n  cpus: 1\n%s"
        "  contention: {value: 30 %%, source: test, kind: measured}\n"
        "  links:\n"
        "    - name: m\n"
        "      bandwidth: {value: 1 GB/s, source: test, kind: measured}\n"
        "      efficiency: {value: 100 %%, source: test, kind: measured}\n"
        "      latency: {value: 0 us, source: test, kind: measured}\n"
        "  edges: [{link: m, connect: [gpu0-cpu0, gpu1-cpu0, gpu2-cpu0, gpu3-cpu0]}]\n"
        "transport:\n"
        "  inside: {value: 1 us, source: test, kind: measured}\n"
        "  between: {value: 1 us, source: test, kind: measured}\n",
        more);
    struct platform *platform = platform_read_text("n.yaml", text, &err);
    assert_ok(platform, err);
    return platform;
}

TEST(devices_contend_and_ranks_take_turns)
{
    static const double contended[] = {0, 0.1, 0.2, 0.3};
    OWN(platform) *all = nodes_of_four(""), *two = nodes_of_four("  cores: 2\n");
    for (int32_t n = 1; n <= 4; n++) {
        double turns = n > 2 ? n / 2.0 : 1;
        assert_true(fabs(platform_contention(all, n) - contended[n - 1]) < 1e-12);
        assert_true(fabs(platform_contention(two, n) - (turns * (1 + contended[n - 1]) - 1)) <
                    1e-12);
        assert_int_equal(platform_cores(all, n), 0);
        assert_int_equal(platform_cores(two, n), n > 2 ? 2 : 0);
    }
    assert_true(platform_hash(all) != platform_hash(two));
}
