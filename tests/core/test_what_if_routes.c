#include "tests/core/own.h"
#include "tests/core/trial.h"
#include "tests/test.h"

/* What routes and places of nodes do to a step, in closed form, on every platform with tiers. */

static const double slack = 1e-12;

/* Keys and values, up to two each. */
static const char *const changes[][2] = {
    {"platform.network.routing=static"},
    {"platform.network.routing=hashed"},
    {"platform.network.routing=hashed", "platform.network.routing_seed=3"},
    {"platform.network.placement=scattered"},
    {"platform.network.placement=scattered", "platform.network.placement_seed=2"},
    {"platform.network.tiers[0].rails=2"},
};
enum { CHANGES = sizeof(changes) / sizeof(*changes), ROUTINGS = 3 };

static struct platform *read_changed(const char *name, const char *const set[2])
{
    struct platform *platform =
        platform_read_changed(NULL, name, set, (set[0] != NULL) + (set[1] != NULL), NULL, &err);
    assert_ok(platform, err);
    return platform;
}

static struct trial trial_by(struct platform *platform, int32_t nodes, enum algorithm algorithm)
{
    struct trial trial = trial_new(platform, nodes);
    trial.algorithm = algorithm;
    trial.overlap = OVERLAP_NONE;
    return trial;
}

static bool has_tiers(struct platform *platform)
{
    struct number_list list = trial_numbers(platform);
    bool tiers = false;
    for (int32_t i = 0; i < list.count; i++)
        tiers = tiers || !strcmp(list.number[i].path, "network.tiers[0].uplinks");
    free(list.number);
    return tiers;
}

static void compare(struct platform *ideal, struct platform *other, int32_t *points)
{
    for (int32_t nodes = 40; nodes <= 70; nodes += 30)
        for (int32_t a = 0; a < ALGORITHM_COUNT; a++) {
            struct trial trial = trial_by(ideal, nodes, (enum algorithm)a);
            if (!trial_can_run(&trial))
                continue;
            double least = trial_seconds(&trial);
            trial.platform = other;
            double seconds = trial_seconds(&trial);
            if (seconds < least * (1 - slack))
                fail_msg("%s by %s on %d nodes: %g s, %g s if loads were even", other->name,
                         algorithm_names[a], nodes, seconds, least);
            ++*points;
        }
}

static void try_routings(void *context, struct platform *platform)
{
    static const char *const even[2] = {"platform.network.routing=ideal"};
    for (int32_t i = 0; i < ROUTINGS && has_tiers(platform); i++) {
        OWN(platform) *ideal = read_changed(platform->name, even);
        OWN(platform) *other = read_changed(platform->name, changes[i]);
        compare(ideal, other, context);
    }
}

/* A message of its own uplink is never faster than one with a part of all. */
TEST(routes_of_their_own_never_make_a_step_shorter)
{
    int32_t points = 0;
    trial_each_platform(try_routings, &points);
    print_message("%d points\n", points);
    assert_true(points > 200);
}

/* Far messages through 4 uplinks a rack: a key or another seed is another step.  Static routes are
 * as even as one pipe. */
TEST(every_choice_moves_a_step)
{
    static const char *const nothing[2] = {NULL};
    double seconds[CHANGES + 1];
    for (int32_t i = 0; i <= CHANGES; i++) {
        OWN(platform) *platform = read_changed("abci", i ? changes[i - 1] : nothing);
        struct number_list list = trial_numbers(platform);
        for (int32_t n = 0; n < list.count; n++)
            if (!strcmp(list.number[n].path, "network.tiers[0].uplinks"))
                number_set(&list.number[n], 4);
        struct trial trial = trial_by(platform, 70, ALGORITHM_HALVING_DOUBLING_FAR);
        seconds[i] = trial_seconds(&trial);
        for (int32_t k = 0; k < i; k++)
            if (i > 1 && seconds[k] == seconds[i])
                fail_msg("changes %d and %d take the same time: %g s", k, i, seconds[i]);
        free(list.number);
    }
}
