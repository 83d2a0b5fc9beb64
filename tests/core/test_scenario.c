#include "core/scenario/scenario.h"

#include "tests/core/faulty.h"
#include "tests/test.h"

#define MODEL    "version: 1\nmodel: {network: resnet50}\n"
#define CLUSTER  "cluster: {platform: abci, nodes: 4, devices_per_node: 4}\n"
#define TRAINING "training: {dataset: imagenet, phases: [{epochs: 90, batch_per_device: 32}]}\n"
#define SMALL    MODEL CLUSTER TRAINING

static struct scenario read_job(const char *const *set, int32_t count)
{
    AUTOFREE char *path = data_path("experiments/01_sony_abci/v1-1088.yaml");
    struct scenario scenario = {0};
    assert_ok(!scenario_read(&scenario, NULL, path, set, count, NULL, &err), err);
    return scenario;
}

TEST(reads_the_published_job)
{
    HELD(scenario) scenario = read_job(NULL, 0);
    const struct scenario_phase *phase = scenario.training.phase.item;
    assert_string_equal(scenario.model.network, "resnet50");
    assert_int_equal(scenario.model.compute, DTYPE_FP16);
    assert_int_equal(scenario.model.master, DTYPE_FP32);
    assert_int_equal(scenario.cluster.nodes * scenario.cluster.devices_per_node, 1088);
    assert_int_equal(scenario.training.train_images, 1281167);
    assert_int_equal(scenario.training.phase.count, 2);
    assert_true(phase[1].epochs == 45 && phase[1].batch_per_device == 32);
    assert_int_equal(scenario.training.optimizer, OPTIMIZER_LARS);
    assert_true(scenario.training.weight_decay == 5e-5);
    assert_true(scenario.training.evaluate_every == 1);
    assert_int_equal(scenario.allreduce.algorithm, ALGORITHM_TORUS2D);
    assert_true(scenario.allreduce.bucket == 4 << 20);
    assert_int_equal(scenario.allreduce.overlap, OVERLAP_BACKWARD);
}

TEST(the_smallest_job_gets_every_default)
{
    HELD(scenario) scenario;
    assert_ok(!scenario_read_text(&scenario, "t.yaml", SMALL, &err), err);
    assert_int_equal(scenario.model.image, 224);
    assert_int_equal(scenario.model.classes, 1000);
    assert_int_equal(scenario.allreduce.algorithm, ALGORITHM_RING);
    assert_true(scenario.allreduce.bucket == 0 && scenario.training.evaluate_every == 0);
    assert_int_equal(scenario.baseline.nodes, 1);
    assert_int_equal(scenario.input.workers, 0);
    assert_string_equal(scenario.path, "t.yaml");
}

TEST(the_hash_is_that_of_the_file_and_its_assignments)
{
    struct scenario plain;
    assert_int_equal(scenario_read_text(&plain, "t.yaml", SMALL, &err), 0);
    /* Source: sha256sum of the same text. */
    assert_string_equal(plain.sha256,
                        "7f5861b7cd1dfb7baa0666918ece9ff669fc469612d7a915d07b2a653271b2b8");
    scenario_release(&plain);
    const char *const set[] = {"cluster.nodes=512", "allreduce.grid.columns=64"};
    HELD(scenario) one = read_job(NULL, 0), other = read_job(set, 2), again = read_job(set, 2);
    assert_string_not_equal(one.sha256, other.sha256);
    assert_string_equal(again.sha256, other.sha256);
    assert_int_equal(other.cluster.nodes, 512);
}

TEST(faults_between_values_are_reported_at_once)
{
    struct scenario scenario;
    assert_int_equal(scenario_read_text(&scenario, "t.yaml",
                                        SMALL "allreduce: {grid: {columns: 4, rows: 4}}\n"
                                              "noise: {straggler: {slowdown: 50 %}}\n"
                                              "input: {workers: 2, prefetch: 3}\n",
                                        &err),
                     -1);
    assert_int_equal(err.count, 3);
}

TEST(explains_every_value)
{
    AUTOFREE char *path = data_path("experiments/01_sony_abci/v2-3456.yaml");
    const char *const set[] = {"seed=7"};
    HELD(text) out = {0};
    assert_ok(!scenario_explain(&out, path, set, 1, &err), err);
    assert_has(out.data, "v2-3456.yaml:");
    assert_has(out.data, "v1-1088.yaml:");
    assert_has(out.data, "--set");
    assert_has(out.data, "default");
}

/* ---- malformed files ---- */

static int read_faulty(const char *path)
{
    struct scenario scenario;
    if (scenario_read(&scenario, NULL, path, NULL, 0, NULL, &err))
        return -1;
    scenario_release(&scenario);
    return 0;
}

TEST_EACH(every_malformed_file_gets_its_message,
          assert_true(each_file("tests/bad/scenario", "", see) >= 50), const char *path)
{
    check_faulty(path, read_faulty);
}
