#include "core/network/wiring.h"

#include "tests/test.h"

static struct wiring new_wiring(int32_t devices, int32_t switches, int32_t cpus, int32_t nics)
{
    return (struct wiring){.count = {devices, switches, cpus, nics}};
}

static void connect(struct wiring *wiring, const char *a, const char *b)
{
    wiring_add(wiring, wiring_find(wiring, a), wiring_find(wiring, b), 0);
}

/* The vertices on the way from @from to @to, joined by blanks; the caller frees it. */
static char *way(const struct wiring *wiring, const char *from, const char *to)
{
    int32_t path[32];
    int32_t count = wiring_path(wiring, wiring_find(wiring, from), wiring_find(wiring, to), path);
    if (count < 0)
        return base_copy("none");
    struct text text = {0};
    text_add(&text, "%s", from);
    for (int32_t i = 0; i < count; i++) {
        text_add(&text, " ");
        wiring_print_vertex(&text, wiring, wiring->cable[path[i] / 2].end[1 - path[i] % 2]);
    }
    return text.data;
}

static void expect_way(const struct wiring *wiring, const char *from, const char *to,
                       const char *expected)
{
    AUTOFREE char *text = way(wiring, from, to);
    assert_string_equal(text, expected);
}

TEST(every_vertex_is_found_by_its_name)
{
    struct wiring wiring = new_wiring(4, 2, 2, 3);
    assert_int_equal(wiring_vertices(&wiring), 11);
    for (int32_t v = 0; v < 11; v++) {
        HELD(text) name = {0};
        wiring_print_vertex(&name, &wiring, v);
        assert_int_equal(wiring_find(&wiring, name.data), v);
    }
    const char *const unknown[] = {"gpu4", "gpu", "gpu00", "nic3", "plx0", ""};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        assert_int_equal(wiring_find(&wiring, unknown[i]), -1);
}

TEST(takes_the_fewest_cables)
{
    HELD(wiring) wiring = new_wiring(2, 3, 0, 0);
    connect(&wiring, "gpu0", "switch0");
    connect(&wiring, "switch0", "switch1");
    connect(&wiring, "switch1", "gpu1");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 switch0 switch1 gpu1");
    connect(&wiring, "gpu1", "switch2");
    connect(&wiring, "switch2", "gpu0");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 switch2 gpu1");
    expect_way(&wiring, "gpu1", "gpu0", "gpu1 switch2 gpu0");
}

TEST(among_equals_takes_the_cable_that_stands_first)
{
    HELD(wiring) wiring = new_wiring(2, 2, 0, 0);
    connect(&wiring, "gpu1", "switch1");
    connect(&wiring, "switch1", "gpu0");
    connect(&wiring, "gpu0", "switch0");
    connect(&wiring, "gpu1", "switch0");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 switch1 gpu1");
    expect_way(&wiring, "gpu1", "gpu0", "gpu1 switch1 gpu0");
}

TEST(devices_and_nics_do_not_forward)
{
    HELD(wiring) wiring = new_wiring(3, 0, 0, 1);
    connect(&wiring, "gpu0", "gpu1");
    connect(&wiring, "gpu1", "gpu2");
    connect(&wiring, "gpu0", "nic0");
    expect_way(&wiring, "gpu0", "gpu1", "gpu0 gpu1");
    expect_way(&wiring, "gpu0", "gpu2", "none");
    expect_way(&wiring, "gpu1", "nic0", "none");
}

TEST(a_way_to_oneself_has_no_links)
{
    struct wiring wiring = new_wiring(1, 0, 0, 0);
    int32_t path[1];
    assert_int_equal(wiring_path(&wiring, 0, 0, path), 0);
}

TEST(a_device_uses_the_nic_nearest_to_it)
{
    HELD(wiring) wiring = new_wiring(2, 2, 0, 2);
    connect(&wiring, "gpu0", "switch0");
    connect(&wiring, "gpu1", "switch1");
    connect(&wiring, "switch0", "switch1");
    connect(&wiring, "nic1", "switch0");
    connect(&wiring, "nic0", "switch1");
    int32_t nic[2];
    wiring_assign_nics(&wiring, nic);
    assert_int_equal(nic[0], 1);
    assert_int_equal(nic[1], 0);
}

TEST(equally_near_nics_share_the_devices)
{
    HELD(wiring) wiring = new_wiring(5, 1, 0, 2);
    const char *const leaf[] = {"gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "nic0", "nic1"};
    for (int32_t i = 0; i < 7; i++)
        connect(&wiring, leaf[i], "switch0");
    int32_t nic[5];
    wiring_assign_nics(&wiring, nic);
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(nic[i], i % 2);
}

TEST(a_device_without_a_way_has_no_nic)
{
    struct wiring wiring = new_wiring(1, 0, 0, 1);
    int32_t nic[1];
    wiring_assign_nics(&wiring, nic);
    assert_int_equal(nic[0], -1);
}
