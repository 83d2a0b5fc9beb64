#include "exec/world/watch.h"

#include "tests/test.h"

enum { RANKS = 4 };
static const double timeout = 60, period = 1;

static const struct identity who[RANKS] = {{"a", 10}, {"b", 11}, {"c", 12}, {"d", 13}};

/* A watch of @rank that begins at time 0. */
static struct watch watch_of(int32_t rank)
{
    struct watch watch;
    watch_init(&watch, rank, RANKS, timeout, period, who, 0);
    return watch;
}

/* Every peer but @silent (-1: none) has just sent @beat. */
static void hear_all(struct watch *watch, struct beat beat, int32_t silent, double now)
{
    for (int32_t i = 0; i < watch->count; i++)
        if (watch->peer[i].rank != silent)
            watch_hear(&watch->peer[i], &beat, now);
}

/* Check every second until @end, hearing all but @silent.  @return when a verdict came, or -1. */
static double run(struct watch *watch, struct beat beat, int32_t silent, double end,
                  struct text *out)
{
    for (double now = 1; now <= end; now++) {
        hear_all(watch, beat, silent, now);
        struct beat own = {.bucket = -1};
        if (watch_check(watch, &own, now, out))
            return now;
    }
    return -1;
}

TEST(forgets_nobody_who_answers)
{
    for (int32_t rank = 0; rank < RANKS; rank++) {
        HELD(watch) watch = watch_of(rank);
        struct text out = {0};
        assert_true(run(&watch, (struct beat){.step = 1}, -1, 500, &out) < 0);
        assert_null(out.data);
    }
}

TEST(rank_0_names_a_silent_rank)
{
    HELD(watch) watch = watch_of(0);
    HELD(text) out = {0};
    hear_all(&watch, (struct beat){.step = 7, .bucket = 2}, -1, 0);
    assert_true(run(&watch, (struct beat){.step = 7, .bucket = 2}, 2, 500, &out) == timeout + 1);
    assert_string_equal(out.data, "foretrain-exec: rank 2 of 4 (host c, pid 12) has not answered "
                                  "since step 7 bucket 2, 61 s ago\n");
}

/* One after the other, so that the first can end the job before the next speaks. */
TEST(others_take_turns_to_name_rank_0)
{
    for (int32_t rank = 1; rank < RANKS; rank++) {
        HELD(watch) watch = watch_of(rank);
        HELD(text) out = {0};
        assert_true(run(&watch, (struct beat){0}, 0, 500, &out) == timeout + 1 + 2 * (rank - 1));
        assert_has(out.data, "rank 0 of 4 (host a, pid 10) has not answered");
    }
}

/* What a rank says of itself. */
struct place {
    bool waiting;
    int64_t step;
    double since; /* when it progressed last */
};

static struct beat beat_of(const struct place *place, double now)
{
    return (struct beat){.step = place->step,
                         .bucket = -1,
                         .waiting = place->waiting,
                         .age_s = fmax(now - place->since, 0)};
}

/* All ranks answer, each from its place, for 200 s.  @return when a verdict came, or -1. */
static double stall(const struct place place[RANKS], struct text *out)
{
    HELD(watch) watch = watch_of(0);
    double verdict = -1;
    for (double now = 1; now < 200 && verdict < 0; now++) {
        for (int32_t i = 0; i < watch.count; i++) {
            struct beat beat = beat_of(&place[watch.peer[i].rank], now);
            watch_hear(&watch.peer[i], &beat, now);
        }
        struct beat own = beat_of(&place[0], now);
        if (watch_check(&watch, &own, now, out))
            verdict = now;
    }
    return verdict;
}

/* From when it went on last, not from when they began to wait. */
TEST(names_the_rank_that_others_wait_for)
{
    HELD(text) out = {0};
    const struct place place[] = {{true, 5, 0}, {true, 5, 10}, {false, 4, 40}, {true, 5, 20}};
    assert_true(stall(place, &out) == 40 + timeout + 1);
    assert_string_equal(out.data, "foretrain-exec: rank 2 of 4 (host c, pid 12) is alive but has "
                                  "not gone on since step 4, 61 s ago, while others wait for it\n");
}

TEST(names_the_ranks_furthest_behind_when_all_wait)
{
    HELD(text) out = {0};
    const struct place place[] = {{true, 5, 0}, {true, 4, 0}, {true, 5, 0}, {true, 4, 0}};
    assert_true(stall(place, &out) == timeout + 1);
    assert_null(strstr(out.data, "rank 0 of 4"));
    assert_has(out.data, "rank 1 of 4");
    assert_null(strstr(out.data, "rank 2 of 4"));
    assert_has(out.data, "rank 3 of 4");
    assert_has(out.data, "all ranks wait for each other");
}

TEST(is_patient_with_ranks_that_all_compute)
{
    struct text out = {0};
    assert_true(stall((const struct place[RANKS]){{0}}, &out) < 0);
}

TEST(is_patient_with_a_rank_that_goes_on_while_others_wait)
{
    for (int32_t rank = 0; rank < RANKS; rank++) {
        struct place place[] = {{true, 5, 0}, {true, 5, 0}, {true, 5, 0}, {true, 5, 0}};
        struct text out = {0};
        place[rank] = (struct place){.step = 4, .since = 1000};
        assert_true(stall(place, &out) < 0);
        assert_null(out.data);
    }
}

/* The machine stood still for 1000 s: what was sent meanwhile could not be received. */
TEST(forgives_others_what_it_was_held_up_itself)
{
    for (int32_t rank = 0; rank < 2; rank++) {
        HELD(watch) watch = watch_of(rank);
        struct beat own = {.bucket = -1};
        HELD(text) out = {0};
        assert_true(run(&watch, (struct beat){0}, -1, 10, &out) < 0);
        assert_false(watch_check(&watch, &own, 1010, &out));
        hear_all(&watch, (struct beat){.late_s = 999}, -1, 1010.5);
        assert_false(watch_check(&watch, &own, 1011, &out));
        if (rank == 0) /* and says so, but not of those to whom the same happened */
            assert_string_equal(out.data, "foretrain-exec: rank 0 of 4 (host a, pid 10) did not "
                                          "run for 999.0 s\n");
        else
            assert_null(out.data);
    }
}

/* It says so itself, once it runs again. */
TEST(rank_0_names_a_rank_that_did_not_run)
{
    HELD(watch) watch = watch_of(0);
    struct beat own = {.bucket = -1};
    HELD(text) out = {0};
    assert_true(run(&watch, (struct beat){0}, -1, 10, &out) < 0);
    watch_hear(&watch.peer[1], &(struct beat){.late_s = 1.5}, 10.5);
    watch_hear(&watch.peer[1], &(struct beat){.last = 1}, 10.6);
    for (double now = 11; now < 20; now++)
        assert_false(watch_check(&watch, &own, now, &out));
    assert_string_equal(out.data,
                        "foretrain-exec: rank 2 of 4 (host c, pid 12) did not run for 1.5 s\n");
}

TEST(a_rank_knows_how_long_it_did_not_run)
{
    for (int32_t rank = 0; rank < 2; rank++) {
        HELD(watch) watch = watch_of(rank);
        struct beat own = {.bucket = -1};
        HELD(text) out = {0};
        assert_false(watch_check(&watch, &own, 1.5, &out)); /* a busy machine */
        assert_true(watch.late_s == 0);
        assert_false(watch_check(&watch, &own, 4.5, &out));
        assert_false(watch_check(&watch, &own, 5.5, &out)); /* until it is told */
        assert_true(watch.late_s == (rank == 0 ? 0 : 2));
        assert_true(rank != 0 || strstr(out.data, "did not run for 2.0 s"));
    }
}

/* But a rank that stays silent after that is found all the same. */
TEST(does_not_forgive_for_ever)
{
    HELD(watch) watch = watch_of(0);
    struct beat own = {.bucket = -1};
    HELD(text) out = {0};
    assert_true(run(&watch, (struct beat){0}, -1, 10, &out) < 0);
    double now = 1010;
    while (!watch_check(&watch, &own, now, &out))
        now++;
    assert_in_range((int)now, 1010 + timeout - 1, 1010 + timeout + 3);
}

TEST(leaves_ranks_alone_that_have_stopped_watching)
{
    HELD(watch) watch = watch_of(0);
    HELD(text) out = {0};
    struct beat own = {.age_s = 1000, .waiting = 1};
    hear_all(&watch, (struct beat){.last = 1}, -1, 1);
    for (double now = 2; now < 500; now++)
        assert_false(watch_check(&watch, &own, now, &out));
}
