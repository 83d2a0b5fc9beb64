/** @file
 * Tests of core/platform/software.h: profiles are read, found and applied to a device.
 */

#include "tests/core/own.h"
#include "tests/folder.h"
#include "tests/test.h"

#define HEAD                                                                                       \
    "version: 1\nname: test\ndescription: a profile\nnccl: 204\n"                                  \
    "jitter: {value: 1 %, source: s, kind: assumed}\n"                                             \
    "fallback:\n"                                                                                  \
    "  efficiency: {value: 50 %, source: all, kind: published}\n"                                  \
    "  kernel_overhead: {value: 9 us, source: all, kind: published}\n"
#define FIT(device)                                                                                \
    "  - device: " device "\n    fusion: stats\n"                                                  \
    "    efficiency: {value: 70 %, source: runs, kind: measured}\n"                                \
    "    kernel_overhead: {value: 4 us, source: runs, kind: measured}\n"                           \
    "    efficiency_sd: 3 %\n    correlation: -0.5\n    rows: 7\n"

/* The profile with that text, or NULL with the message. */
static struct software *read_text(const char *text)
{
    AUTOFREE char *path = fixture_yaml(text);
    struct software *software = software_read(NULL, path, &err);
    unlink(path);
    return software;
}

static struct software *read_valid(const char *text)
{
    struct software *software = read_text(text);
    assert_ok(software, err);
    return software;
}

TEST(reads_what_the_file_says)
{
    OWN(software) *software = read_valid(HEAD "overlap: backward\nfits:\n" FIT("a") FIT("b"));
    assert_int_equal(software->nccl, 204);
    assert_int_equal(software->groups, 1);
    assert_int_equal(software->overlap, 1);
    assert_int_equal(software->fits.count, 2);
    const struct software_efficiency *fit = software_find_fit(software, "b");
    assert_string_equal(fit->device, "b");
    assert_true(fit->efficiency_sd == 0.03 && fit->correlation == -0.5 && fit->rows == 7);
}

TEST(makes_a_device_what_its_fit_says)
{
    OWN(software) *software = read_valid(HEAD "fits:\n" FIT("v100-sxm2-16gb"));
    HELD(device) device = {0};
    assert_int_equal(device_read(&device, "v100-sxm2-16gb", &err), 0);
    double peak = device.peak[DTYPE_FP16].value;
    software_apply(software, false, &device);
    assert_true(device.math_efficiency.value == 0.7 && device.memory_efficiency.value == 0.7);
    assert_true(device.kernel_overhead.value == 4e-6);
    assert_int_equal(device.fusion, FUSION_STATS);
    assert_true(device.peak[DTYPE_FP16].value == peak);
    assert_string_equal(device.kernel_overhead.source, "runs");
    assert_string_equal(device.kernel_overhead.path, "kernel_overhead");
    assert_int_equal(device.kernel_overhead.provenance, PROVENANCE_MEASURED);
}

TEST(gives_networks_with_experts_a_part_of_it)
{
    OWN(software) *software = read_valid(
        HEAD "kinds: {experts: {value: 50 %, spread: 20 %, source: some, kind: published}}\n"
             "fits:\n" FIT("v100-sxm2-16gb"));
    HELD(device) device = {0};
    assert_int_equal(device_read(&device, "v100-sxm2-16gb", &err), 0);
    free(device.memory_efficiency.source);
    device.memory_efficiency.source = base_copy("--set");
    double assigned = device.memory_efficiency.value;
    software_apply(software, true, &device);
    assert_true(device.math_efficiency.value == 0.35 && device.with_experts == 0.2);
    assert_string_equal(device.math_efficiency.source, "runs; with experts 50 % of it: some");
    assert_true(device.memory_efficiency.value == assigned);
}

TEST(replaces_what_it_says_of_collectives_and_nothing_else)
{
    OWN(software) *software = read_valid(
        HEAD "compute_slowdown: {value: 10 %, spread: 20 %, source: a paper, kind: published}\n"
             "fits:\n" FIT("v100-sxm2-16gb"));
    HELD(device) device = {0};
    assert_int_equal(device_read(&device, "v100-sxm2-16gb", &err), 0);
    device.communication_slowdown.value = 0.3;
    device.collective_launch.value = 1e-5;
    device.jitter.value = 0.5;
    software_apply(software, false, &device);
    assert_true(device.compute_slowdown.value == 0.1 && device.compute_slowdown.spread == 0.2);
    assert_string_equal(device.compute_slowdown.path, "device.compute_slowdown");
    assert_int_equal(device.compute_slowdown.provenance, PROVENANCE_PUBLISHED);
    assert_true(device.communication_slowdown.value == 0.3);
    assert_true(device.collective_launch.value == 1e-5);
    assert_true(device.jitter.value == software->jitter.value);
}

TEST(gives_other_devices_the_fallback_and_their_own_fusion)
{
    OWN(software) *software = read_valid(HEAD "fits:\n" FIT("a"));
    HELD(device) device = {0};
    assert_int_equal(device_read(&device, "h100-sxm5-80gb", &err), 0);
    software_apply(software, false, &device);
    assert_true(device.math_efficiency.value == 0.5 && device.kernel_overhead.value == 9e-6);
    assert_int_equal(device.fusion, FUSION_MAINLOOP);
}

TEST(gives_a_family_of_devices_what_one_entry_says)
{
    OWN(software) *software = read_valid(HEAD "fits:\n" FIT("rtx-*") FIT("rtx-4090"));
    const struct software_efficiency *fit = software->fits.item;
    assert_ptr_equal(software_find_fit(software, "rtx-3090"), &fit[0]);
    assert_ptr_equal(software_find_fit(software, "rtx-4090"), &fit[1]);
    assert_ptr_equal(software_find_fit(software, "rt"), &software->rest);
}

TEST(gives_a_device_its_own_rate_of_a_kind)
{
    OWN(software) *software =
        read_valid(HEAD "kinds:\n  rates:\n    - {kernel: gemm, device: h100-*, math: 70 %}\n"
                        "    - {kernel: gemm, math: 80 %}\n"
                        "    - {kernel: gemm, precision: fp32, math: 90 %}\nfits:\n" FIT("a"));
    static const char *const names[] = {"h100-sxm5-80gb", "a100-sxm4-80gb"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        HELD(device) device = {0};
        assert_int_equal(device_read(&device, names[i], &err), 0);
        software_apply(software, false, &device);
        assert_true(device.rate[DTYPE_FP16][KERNEL_GEMM].math == (i ? 0.8 : 0.7));
        assert_true(device.rate[DTYPE_FP32][KERNEL_GEMM].math == 0.9);
    }
}

TEST(refuses_what_it_does_not_know)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {HEAD "jiter: 1\n", "jiter"},
        {HEAD "fits:\n  - device: a\n    fusion: stat\n", "did you mean 'stats'?"},
        {"version: 2\n", "version"},
        {HEAD "fits:\n" FIT("a") FIT("b") FIT("a"), "a second fit for 'a'"},
        {HEAD "kinds:\n  rates:\n    - {kernel: gemm}\n    - {kernel: gemm, precision: fp32}\n"
              "    - {kernel: gemm}\nfits:\n" FIT("a"),
         "a second rate for 'gemm'"},
        {HEAD "kinds: {experts: {value: 0 %, source: a, kind: assumed}}\nfits:\n" FIT("a"),
         "must be 0.1 % to 100 %"},
        {HEAD "fits:\n" FIT("a*b"), "'a*b' has a * that is not at its end"},
        {HEAD "kinds:\n  rates:\n    - {kernel: gemm, device: h*100}\nfits:\n" FIT("a"),
         "'h*100' has a * that is not at its end"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_null(read_text(cases[i].text));
        assert_message(&err, 65, cases[i].message);
    }
}

TEST(names_the_profiles_there_are)
{
    assert_null(software_read(NULL, "mlperf-v0.66", &err));
    assert_message(&err, 66, "did you mean 'mlperf-v0.6'?");
}

TEST(every_profile_of_the_library_reads_and_is_named_after_its_file)
{
    static const char *const names[] = {
        "mlperf-v0.5", "mlperf-v0.6", "mlperf-v0.7",   "mlperf-v1.0",  "mlperf-v1.1",
        "mlperf-v2.0", "mlperf-v2.1", "mlperf-v3.0",   "mlperf-v3.1",  "mlperf-v4.0",
        "pytorch",     "nnl-2018",    "mxnet-2018-11", "pytorch-nchw", "pytorch-mlperf",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        OWN(software) *software = software_read(NULL, names[i], &err);
        assert_ok(software, err);
        assert_string_equal(software->name, names[i]);
        const struct software_efficiency *fit = software->fits.item;
        assert_true(software->fits.count > 0);
        assert_true(fit->efficiency_sd > 0 && fit->overhead_sd > 0);
    }
}
