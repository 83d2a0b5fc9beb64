#include "core/scenario/scenario_change.h"

#include "core/config/field_rows.h"
#include "tests/core/faulty.h"
#include "tests/core/own.h"
#include "tests/test.h"

static const char *const text =
    "version: 1\n"
    "model: {network: toy, image: 16, classes: 4}\n"
    "cluster: {platform: t1-torus, nodes: 2}\n"
    "training:\n"
    "  dataset: {source: procedural, train_images: 256, validation_images: 64}\n"
    "  phases: [{epochs: 4, batch_per_device: 8}, {epochs: 2, global_batch: 32}]\n"
    "  micro_batch: 8\n"
    "  learning_rate: {base: 0.05}\n"
    "allreduce: {algorithm: ring, bucket: 16 KiB}\n";

/* The values of the job above with @from replaced by @to, on @ranks ranks. */
static struct json *values_of(const char *from, const char *to, int32_t ranks)
{
    struct scenario scenario;
    const char *place = strstr(text, from);
    assert_non_null(place);
    AUTOFREE char *changed =
        base_format("%.*s%s%s", (int)(place - text), text, to, place + strlen(from));
    assert_ok(!scenario_read_text(&scenario, "job", changed, &err), err);
    HELD(plan) plan = plan_build(&scenario, ranks);
    struct json *values = scenario_values(&scenario, &plan);
    scenario_release(&scenario);
    return values;
}

TEST(every_key_has_a_decision_and_every_decision_a_key)
{
    const struct scenario_rule *rule;
    for (int32_t i = 0; i < scenario_table.count; i++) {
        const char *path = scenario_table.field[i].path;
        for (rule = scenario_rules; rule->path; rule++)
            if (strcmp(path, rule->path) == 0 || path_below(path, rule->path))
                break;
        if (!rule->path)
            fail_msg("nothing is decided of %s", path);
    }
    for (rule = scenario_rules; rule->path; rule++)
        if (!table_row(&scenario_table, rule->path) &&
            !table_has_below(&scenario_table, rule->path))
            fail_msg("%s is no key", rule->path);
}

TEST(the_manual_page_names_every_decision)
{
    HELD(text) page = {0};
    AUTOFREE char *path = data_path("docs/man/foretrain.1.scd");
    assert_int_equal(file_read(path, &page, &err), 0);
    for (const struct scenario_rule *rule = scenario_rules; rule->path; rule++) {
        AUTOFREE char *word = base_format("_%s_", rule->path);
        if (!strstr(page.data, word))
            fail_msg("%s does not stand in foretrain(1)", word);
    }
}

TEST(the_longest_rule_decides)
{
    static const struct {
        const char *key;
        enum scenario_change change;
    } cases[] = {{"model.network", CHANGE_NEVER},
                 {"model.precision.compute", CHANGE_KNOWINGLY},
                 {"training.optimizer.name", CHANGE_NEVER},
                 {"training.optimizer.momentum", CHANGE_KNOWINGLY},
                 {"training.phases.1.global_batch", CHANGE_KNOWINGLY},
                 {"training.dataset.source", CHANGE_NEVER},
                 {"training.dataset.strict", CHANGE_FREELY},
                 {"training.checkpoint.every", CHANGE_FREELY},
                 {"allreduce.algorithm", CHANGE_FREELY},
                 {"trainings", CHANGE_KNOWINGLY}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(scenario_change_of(cases[i].key), cases[i].change);
}

TEST(values_are_resolved)
{
    HELD(text) out = {0};
    OWN(json) *values = values_of("version", "version", 2);
    json_print(&out, values);
    static const char *const parts[] = {
        "\"training.phases.0.global_batch\": 16,", "\"training.phases.1.global_batch\": 32,",
        "\"allreduce.bucket\": 16384.0,",          "\"training.optimizer.name\": \"sgd\",",
        "\"training.dataset.augment\": true,",     "\"seed\": 1,"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        assert_has(out.data, parts[i]);
    assert_null(strstr(out.data, "batch_per_device"));
    assert_null(strstr(out.data, "allreduce.grid"));
}

/* Compare the job with one where @to stands for @from. */
static int compare(const char *from, const char *to, int32_t ranks, const char *allowed,
                   struct text *notes)
{
    OWN(json) *before = values_of("version", "version", 2), *now = values_of(from, to, ranks);
    return scenario_compare("ckpt-1", before, now, &allowed, allowed != NULL, notes, &err);
}

TEST(another_spelling_is_no_change)
{
    HELD(text) notes = {0};
    assert_int_equal(compare("16 KiB", "16.384 kB", 2, NULL, &notes), 0);
    assert_int_equal(compare("base: 0.05", "base: 5e-2, decay: constant", 2, NULL, &notes), 0);
    assert_int_equal(notes.length, 0);
}

TEST(changes_are_refused_or_told_one_by_one)
{
    static const struct {
        const char *from, *to, *allowed;
        int result;
        const char *said;
    } cases[] = {
        {"network: toy", "network: resnet8", "model", -1,
         "model.network: \"toy\" -> \"resnet8\": a run cannot change it"},
        {"base: 0.05", "base: 0.051", NULL, -1,
         "training.learning_rate.base: 0.05 -> 0.051: to change it knowingly: --allow-change "
         "training.learning_rate.base"},
        {"base: 0.05", "base: 0.051", "seed", -1, "training.learning_rate.base"},
        {"base: 0.05", "base: 0.051", "training.learning", -1, "training.learning_rate.base"},
        {"base: 0.05", "base: 0.051", "training.learning_rate.base", 0,
         "changed as allowed: training.learning_rate.base: 0.05 -> 0.051"},
        {"base: 0.05", "base: 0.051", "training", 0, "0.05 -> 0.051"},
        {"  micro_batch: 8\n", "", NULL, -1, "training.micro_batch: 8 -> not given"},
        {", {epochs: 2, global_batch: 32}", "", NULL, -1,
         "training.phases.1.global_batch: 32 -> not given"},
        {"algorithm: ring", "algorithm: tree", NULL, 0,
         "note: changed, the result stays: allreduce.algorithm: \"ring\" -> \"tree\"\n"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        HELD(text) notes = {0};
        err_release(&err);
        assert_int_equal(compare(cases[i].from, cases[i].to, 2, cases[i].allowed, &notes),
                         cases[i].result);
        const char *said = cases[i].result ? err.text : notes.data;
        if (!said || !strstr(said, cases[i].said))
            fail_msg("'%s' is not in: %s", cases[i].said, said);
        assert_int_equal(err.exit_code, cases[i].result ? 65 : 0);
    }
}

/* The job's text is the same, but 4 ranks take twice as many images as 2. */
TEST(a_batch_per_device_on_other_ranks_is_another_batch)
{
    struct text notes = {0};
    assert_int_equal(compare("version", "version", 4, NULL, &notes), -1);
    assert_has(err.text, "training.phases.0.global_batch: 16 -> 32");
    assert_null(strstr(err.text, "training.phases.1"));
}

TEST(keys_that_are_none_are_refused_with_the_nearest)
{
    static const char *const good[] = {"seed", "training", "training.phases",
                                       "training.phases.0.global_batch", "model.precision"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_int_equal(scenario_check_key(good[i], &err), 0);
    assert_fails(scenario_check_key("training.optimizer.momentun", &err), 64,
                 "did you mean 'training.optimizer.momentum'?");
    assert_int_equal(scenario_check_key("seed.x", &err), -1);
}
