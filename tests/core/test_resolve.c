#include "core/job/resolve.h"

#include "models/networks.h"
#include "tests/core/faulty.h"
#include "tests/test.h"

/* All that a job is resolved from. */
struct job {
    struct scenario scenario;
    struct platform *platform;
    struct software *software;
    struct model *model;
    struct resolved resolved;
    struct err err;
};

static void read_rest(struct job *job)
{
    const struct scenario *s = &job->scenario;
    job->platform = platform_read(s->cluster.platform, &job->err);
    job->software =
        s->cluster.software ? software_read(NULL, s->cluster.software, &job->err) : NULL;
    job->model = network_build(s->model.network, (int32_t)s->model.image, (int32_t)s->model.classes,
                               &job->err);
    if (job->err.count)
        fail_msg("%s", job->err.text);
}

static int resolve(struct job *job, struct wish wish)
{
    return resolved_build(&job->resolved, &job->scenario, job->platform, job->software, job->model,
                          &wish, &job->err);
}

static void job_release(struct job *job)
{
    resolved_release(&job->resolved);
    model_free(job->model);
    software_free(job->software);
    platform_free(job->platform);
    scenario_release(&job->scenario);
    err_release(&job->err);
}

/* ImageNet on 16 devices, four in each node of ABCI, with @more keys; one phase as @phase says. */
static struct job job_with(const char *phase, const char *more)
{
    struct job job = {0};
    char *text = base_format("version: 1\nmodel: {network: resnet50}\n"
                             "cluster: {platform: abci, nodes: 4}\n"
                             "training: {dataset: imagenet, phases: [%s]}\n%s",
                             phase, more);
    if (scenario_read_text(&job.scenario, "t.yaml", text, &job.err))
        fail_msg("%s", job.err.text);
    free(text);
    read_rest(&job);
    return job;
}

static struct job resolved_job(const char *phase, const char *more, struct wish wish)
{
    struct job job = job_with(phase, more);
    if (resolve(&job, wish))
        fail_msg("%s", job.err.text);
    return job;
}

#define PHASE "{epochs: 90, batch_per_device: 32}"

TEST(nothing_stays_open)
{
    HELD(job) job = resolved_job(PHASE, "", (struct wish){0});
    const struct resolved *r = &job.resolved;
    assert_int_equal(r->cluster.devices_per_node, 4);
    assert_int_equal(extent_devices(r->cluster), 16);
    assert_true(r->cluster.grid.columns == 4 && r->cluster.grid.rows == 4);
    assert_null(r->choice.why); /* a ring on a cluster does not ask for the grid */
    assert_int_equal(extent_devices(r->baseline), 4);
    assert_int_equal(r->bucket, model_parameters(job.model) * 4);
    assert_int_equal(r->plan.phase[0].global_batch, 512);
    assert_int_equal(r->plan.phase[0].micro_batch, 32);
}

/* A node has four devices: three stages need three nodes for a whole number of pipelines. */
TEST(a_baseline_has_whole_pipelines)
{
    static const struct {
        const char *parallel;
        int32_t nodes, baseline;
    } cases[] = {{"{pipeline: 3}", 6, 3}, {"{pipeline: 8}", 4, 2}, {"{pipeline: 2}", 2, 1}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        AUTOFREE char *more = base_format("parallel: %s\n", cases[i].parallel);
        HELD(job) job = resolved_job(PHASE, more, wish_for_ranks(4 * cases[i].nodes, 4));
        assert_int_equal(job.resolved.baseline.nodes, cases[i].baseline);
    }
}

TEST(a_torus_on_a_cluster_asks_for_the_grid)
{
    struct job job = resolved_job(PHASE, "allreduce: {algorithm: torus2d}\n", (struct wish){0});
    assert_string_equal(job.resolved.choice.why, "a row is a node");
    job_release(&job);
    job = resolved_job(PHASE, "allreduce: {algorithm: torus2d, grid: {columns: 8, rows: 2}}\n",
                       (struct wish){0});
    assert_null(job.resolved.choice.why);
    assert_int_equal(job.resolved.cluster.grid.columns, 8);
    job_release(&job);
}

/* Counted in Python from torchvision's shapes of ResNet-50: 161 tensors, 102,228,128 B in fp32; 3
 * convolutions of 512 x 512 x 3 x 3 are larger than 8 MiB, one of 2048 x 1024 is as large. */
TEST(tensors_larger_than_a_bucket_are_said_to_be_cut)
{
    static const struct {
        const char *bucket;
        int32_t cut;
        int64_t all_reduces;
    } cases[] = {{"", 0, 1}, {"10 KiB", 54, 9984}, {"8 MiB", 3, 13}, {"10 MiB", 0, 10}};
    for (int32_t i = 0; i < 4; i++) {
        AUTOFREE char *more =
            i ? base_format("allreduce: {bucket: %s}\n", cases[i].bucket) : base_copy("");
        HELD(job) job = resolved_job(PHASE, more, (struct wish){0});
        AUTOFREE char *text = resolved_cut_text(&job.resolved);
        assert_int_equal(job.resolved.tensors, 161);
        assert_int_equal(job.resolved.cut, cases[i].cut);
        assert_int_equal(job.resolved.all_reduces, cases[i].all_reduces);
        assert_true(!text == !cases[i].cut);
    }
}

static int64_t images_each(const char *phase)
{
    HELD(job) job = resolved_job(phase, "", (struct wish){0});
    int64_t images = job.resolved.plan.phase[0].batch_per_device;
    assert_int_equal(job.resolved.plan.phase[0].global_batch, images * 16);
    return images;
}

TEST(a_global_batch_is_rounded_as_the_phase_says)
{
    assert_int_equal(images_each("{epochs: 1, global_batch: 1024}"), 64);
    assert_int_equal(images_each("{epochs: 1, global_batch: 1000, round: down}"), 62);
    assert_int_equal(images_each("{epochs: 1, global_batch: 1000, round: up}"), 63);
    assert_int_equal(images_each("{epochs: 1, global_batch: 10, round: up}"), 1);
}

TEST(wished_ranks_stand_in_place_of_the_cluster)
{
    struct wish wish = wish_for_ranks(6, 4);
    assert_true(wish.nodes == 2 && wish.devices_per_node == 3);
    wish.real = true;
    HELD(job) job = resolved_job(PHASE, "", wish);
    assert_int_equal(extent_devices(job.resolved.cluster), 6);
    assert_int_equal(job.resolved.plan.phase[0].global_batch, 192);
}

/* Only a platform's own devices are bound by its size; processes are not. */
TEST(real_ranks_may_be_more_than_the_platform_has)
{
    struct job job = job_with(PHASE, "");
    assert_int_equal(resolve(&job, (struct wish){.nodes = 2, .devices_per_node = 5}), -1);
    assert_int_equal(job.err.exit_code, 64); /* the command line's fault, not the file's */
    assert_string_equal(job.err.text, "a node of platform abci has only 4 devices, not 5\n");
    job_release(&job);
    job = resolved_job(PHASE, "", (struct wish){.nodes = 2, .devices_per_node = 5, .real = true});
    job_release(&job);
}

TEST(a_fault_of_the_file_is_no_fault_of_the_wished_ranks)
{
    static const struct {
        const char *phase, *more;
        int32_t ranks, code;
        const char *says;
    } cases[] = {
        {PHASE, "baseline: {nodes: 1089}\n", 8, 65,
         "t.yaml:5:19: error: platform abci has only 1088"},
        {"{epochs: 1, global_batch: 2000000}", "", 8, 65, ""},
        {"{epochs: 1, global_batch: 1000}", "", 3, 64, ""},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        HELD(job) job = job_with(cases[i].phase, cases[i].more);
        assert_int_equal(resolve(&job, wish_for_ranks(cases[i].ranks, 4)), -1);
        assert_message(&job.err, cases[i].code, cases[i].says);
    }
}

TEST(a_grid_that_wished_ranks_do_not_fill_says_what_would)
{
    HELD(job)
    job = job_with(PHASE, "allreduce: {algorithm: torus2d, grid: {columns: 8, rows: 2}}\n");
    assert_int_equal(resolve(&job, wish_for_ranks(8, 4)), -1);
    assert_int_equal(job.err.exit_code, 64);
    assert_has(job.err.text, "t.yaml:5:39: error: the grid of 8 x 2 needs 16 ranks");
    assert_has(job.err.text, "use -n 16, or --set allreduce.grid.columns=8 --set "
                             "allreduce.grid.rows=1");
}

static double jitter(const char *noise)
{
    HELD(job) job = resolved_job(PHASE, noise, (struct wish){0});
    double compute_cv = job.resolved.noise.compute_cv;
    return compute_cv;
}

/* A zero that is written is a zero; else a device has what its file or its software says. */
TEST(jitter_is_the_devices_unless_it_is_given)
{
    struct job job = job_with(PHASE, "");
    job.software = software_read(NULL, "mlperf-v4.0", &job.err);
    assert_non_null(job.software);
    software_apply(job.software, false, &job.platform->device);
    assert_int_equal(resolve(&job, (struct wish){0}), 0);
    assert_true(job.software->jitter.value > 0);
    assert_true(job.resolved.noise.compute_cv == job.software->jitter.value);
    assert_string_equal(job.resolved.software, "mlperf-v4.0");
    job_release(&job);
    assert_true(jitter("") == 0);
    assert_true(jitter("noise: {compute_cv: 3 %}\n") == 0.03);
}

TEST(all_faults_are_reported_at_once)
{
    HELD(job)
    job = job_with("{epochs: 1, global_batch: 1000}, {epochs: 1, global_batch: 3}",
                   "baseline: {nodes: 2000}\n");
    assert_int_equal(resolve(&job, (struct wish){0}), -1);
    assert_int_equal(job.err.count, 3);
    assert_int_equal(job.err.exit_code, 65);
}

static int read_faulty(const char *path)
{
    HELD(job) job = {0};
    if (scenario_read(&job.scenario, NULL, path, NULL, 0, NULL, &job.err))
        fail_msg("%s", job.err.text);
    read_rest(&job);
    int result = resolve(&job, (struct wish){0});
    err = job.err;
    job.err = (struct err){0};
    return result;
}

TEST_EACH(every_impossible_job_gets_its_message,
          assert_true(each_file("tests/bad/job", "", see) >= 10), const char *path)
{
    check_faulty(path, read_faulty);
}
