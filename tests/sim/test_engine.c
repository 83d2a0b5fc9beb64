#include "sim/engine.h"

#include <simgrid/engine.h>
#include <simgrid/link.h>
#include <simgrid/version.h>
#include <xbt/dynar.h>

#include "sim/sim.h"
#include "tests/child.h"
#include "tests/core/own.h"
#include "tests/sim/world.h"
#include "tests/test.h"

/* A fabric, the traffic of one all-reduce on it, and its classes. */
struct scene {
    const struct fabric *fabric;
    struct schedule *schedule;
    struct traffic *all; /* of ranks */
    struct fold *fold;
    struct traffic *traffic; /* of classes */
    int32_t *host;           /* (relations) whose hosts each relation uses */
};

static struct scene scene_of(const struct fabric *fabric, struct grid grid,
                             enum algorithm algorithm, bool fold)
{
    struct scene scene = {.fabric = fabric};
    scene.schedule = world_step(grid, algorithm, 1, 1000000);
    scene.all = traffic_build(fabric, scene.schedule);
    scene.fold = fold ? fold_build(scene.all) : fold_none(scene.all);
    scene.traffic = traffic_build(fabric, scene.schedule);
    traffic_fold(scene.traffic, scene.fold);
    scene.host = platform_hosts(scene.traffic);
    return scene;
}

static struct scene scene_new(const struct fabric *fabric, struct grid grid, bool fold)
{
    return scene_of(fabric, grid, ALGORITHM_TORUS2D, fold);
}

static void scene_release(struct scene *scene)
{
    free(scene->host);
    fold_free(scene->fold);
    traffic_free(scene->traffic);
    traffic_free(scene->all);
    schedule_free(scene->schedule);
}

/* --- routes --- */

static sg_host_t host_of(const struct scene *scene, int32_t relation, int32_t class)
{
    AUTOFREE char *name = platform_host_name(scene->host[relation], class);
    sg_host_t host = sg_host_by_name(name);
    return host;
}

/* The route that SimGrid takes for a message of @class, as names of links. */
static void print_simulated(struct text *out, const struct scene *scene, int32_t relation,
                            int32_t class)
{
    int32_t to = scene->traffic->relation[relation].to[class];
    sg_host_t source = host_of(scene, relation, class), target = host_of(scene, relation, to);
#if SIMGRID_VERSION >= 40000
    int count;
    AUTOFREE const_sg_link_t *links = sg_host_get_route_links(source, target, &count);
    for (int i = 0; i < count; i++)
        text_add(out, "%s ", sg_link_get_name(links[i]));
#else
    xbt_dynar_t links = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(source, target, links);
    for (unsigned i = 0; i < xbt_dynar_length(links); i++)
        text_add(out, "%s ", sg_link_get_name(xbt_dynar_get_as(links, i, sg_link_t)));
    xbt_dynar_free(&links);
#endif
}

/* The route as the fabric describes it: a link of a larger class of flows stands several times. */
static void print_described(struct text *out, const struct scene *scene, int32_t relation,
                            int32_t class)
{
    int32_t rank = scene->fold->member[class];
    struct route route;
    fabric_route(scene->fabric, rank, scene->all->relation[relation].to[rank], &route);
    for (int32_t i = 0; i < route.count; i++) {
        int32_t link = scene->fold->link_class[route.link[i]];
        for (int32_t k = 0; k < scene->fold->size[class] / scene->fold->link_size[link]; k++)
            text_add(out, "%d ", link);
    }
}

static int compare_routes(const void *argument)
{
    const struct scene *scene = argument;
    if (engine_start(scene->traffic, &err) < 0)
        return 1;
    for (int32_t p = 0; p < scene->traffic->relation_count; p++) {
        for (int32_t c = 0; c < scene->fold->count; c++) {
            if (scene->traffic->relation[p].to[c] < 0)
                continue;
            HELD(text) simulated = {0}, described = {0};
            print_simulated(&simulated, scene, p, c);
            print_described(&described, scene, p, c);
            if (strcmp(simulated.data, described.data) != 0) {
                fprintf(stderr, "%sis not %s\n", simulated.data, described.data);
                return 1;
            }
        }
    }
    return 0;
}

static void assert_routes_of(struct fabric *fabric, struct grid grid, enum algorithm algorithm,
                             bool fold)
{
    HELD(scene) scene = scene_of(fabric, grid, algorithm, fold);
    HELD(text) said = {0};
    assert_int_equal(child_run(compare_routes, &scene, STDOUT_FILENO, &said), 0);
    fabric_free(fabric);
}

static void assert_routes(struct fabric *fabric, struct grid grid, bool fold)
{
    assert_routes_of(fabric, grid, ALGORITHM_TORUS2D, fold);
}

TEST(messages_take_the_routes_of_the_fabric)
{
    assert_routes(world_cluster(24, 4, 2, 10e9), grid_of(4, 6), false);
    assert_routes(world_platform("abci", NULL, 272, grid_of(34, 8)), grid_of(34, 8), false);
    assert_routes(world_platform("generic-fat-tree", NULL, 64, grid_of(8, 8)), grid_of(8, 8),
                  false);
    assert_routes(ideal_torus(grid_of(5, 3)), grid_of(5, 3), false);
}

/* A double tree has dozens of relations, the first and last rounds being parts of those between. */
TEST(relations_within_another_share_its_hosts_and_routes)
{
    struct fabric *fabric = world_platform("dgx-1", NULL, 64, grid_of(8, 8));
    struct scene scene = scene_of(fabric, grid_of(8, 8), ALGORITHM_DOUBLE_TREE, false);
    int32_t own = 0;
    for (int32_t p = 0; p < scene.traffic->relation_count; p++) {
        assert_int_equal(scene.host[scene.host[p]], scene.host[p]);
        own += scene.host[p] == p;
    }
    assert_true(scene.traffic->relation_count > 20);
    assert_int_equal(own, 4); /* even and odd rounds, up and down */
    scene_release(&scene);
    assert_routes_of(fabric, grid_of(8, 8), ALGORITHM_DOUBLE_TREE, false);
    assert_routes_of(world_cluster(24, 4, 2, 10e9), grid_of(4, 6), ALGORITHM_TREE, true);
}

TEST(a_folded_route_repeats_what_its_members_share)
{
    assert_routes(world_cluster(24, 4, 2, 10e9), grid_of(4, 6), true);
    assert_routes(world_platform("abci", NULL, 272, grid_of(68, 4)), grid_of(68, 4), true);
}

/* --- a platform as text --- */

TEST(the_smallest_platform_reads_as_expected)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(2, 1));
    HELD(scene) scene = scene_new(fabric, grid_of(2, 1), true);
    HELD(text) xml = {0};
    platform_xml_print(&xml, scene.traffic);
    assert_has(xml.data,
               "<link id=\"0\" bandwidth=\"26214400000000000Bps\" latency=\"0s\"/>\n"
               "<zone id=\"zone0.0\" routing=\"Full\">\n"
               "<host id=\"0.0\" speed=\"1f\"/>\n"
               "<route src=\"0.0\" dst=\"0.0\" symmetrical=\"NO\"><link_ctn id=\"0\"/></route>\n"
               "</zone>\n");
}

/* --- deadlock --- */

/* One rank never learns that it receives: its sender waits for ever. */
static int run_into_deadlock(const void *argument)
{
    const struct scene *scene = argument;
    struct run run = world_run(scene->fabric, GRAIN_FULL);
    struct workload workload = {0};
    struct trace trace = {0};
    if (workload_build(&workload, &run, scene->schedule, &err))
        return 1;
    workload.traffic.relation[0].from[3] = -1;
    if (!sim_run(&workload, NULL, &trace, &err))
        return 1;
    printf("%s", err.text);
    return err.exit_code;
}

TEST(a_deadlock_is_one_readable_line)
{
    OWN(fabric) *fabric = ideal_torus(grid_of(4, 4));
    HELD(scene) scene = scene_new(fabric, grid_of(4, 4), false);
    HELD(text) text = {0};
    assert_int_equal(child_run(run_into_deadlock, &scene, STDOUT_FILENO, &text), 70);
    text_add(&text, "%s", "");
    assert_ptr_equal(strstr(text.data, "simulator: deadlock: rank "), text.data);
    assert_int_equal(strchr(text.data, '\n') - text.data, text.length - 1);
}
