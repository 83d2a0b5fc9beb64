#include "core/collective/grid.h"
#include "tests/test.h"

enum { LARGEST_COLUMNS = 7, LARGEST_ROWS = 5 };

static void check_place(struct grid grid, enum axis axis, int32_t rank)
{
    int32_t size = grid_axis_size(grid, axis), index = grid_axis_index(grid, axis, rank);
    assert_in_range(index, 0, size - 1);
    assert_int_equal(grid_axis_rank(grid, axis, rank, index), rank);
    for (int32_t i = 0; i < size; i++) {
        int32_t member = grid_axis_rank(grid, axis, rank, i);
        assert_in_range(member, 0, grid_ranks(grid) - 1);
        assert_int_equal(grid_axis_index(grid, axis, member), i);
        assert_int_equal(grid_axis_rank(grid, axis, member, index), rank);
    }
}

TEST(finds_every_rank_again_at_its_place_on_every_axis)
{
    for (int32_t columns = 1; columns <= LARGEST_COLUMNS; columns++) {
        for (int32_t rows = 1; rows <= LARGEST_ROWS; rows++) {
            struct grid grid = {.columns = columns, .rows = rows};
            for (int32_t rank = 0; rank < columns * rows; rank++)
                for (int32_t axis = 0; axis < AXIS_COUNT; axis++)
                    check_place(grid, (enum axis)axis, rank);
        }
    }
}

/* Of 4 columns and 3 rows, each rank is 2, side by side. */
TEST(ranks_that_share_layers_are_neighbours)
{
    struct grid grid = {.columns = 4, .rows = 3, .tensor = 2};
    assert_int_equal(grid_ranks(grid), 24);
    assert_int_equal(grid_axis_size(grid, AXIS_WORLD), 12);
    assert_int_equal(grid_axis_rank(grid, AXIS_TENSOR, 13, 0), 12);
    assert_int_equal(grid_axis_rank(grid, AXIS_ROW, 13, 3), 15);
    assert_int_equal(grid_axis_rank(grid, AXIS_COLUMN, 13, 2), 21);
    assert_int_equal(grid_axis_rank(grid, AXIS_WORLD, 13, 11), 23);
    for (int32_t rank = 0; rank < 24; rank++)
        for (int32_t axis = 0; axis < AXIS_COUNT; axis++)
            check_place(grid, (enum axis)axis, rank);
}

/* 2 parts of each layer, 2 of each sequence, 6 replicas; 4 of the 12 have all experts. */
TEST(experts_factor_the_same_ranks_differently)
{
    struct grid grid = {.columns = 3, .rows = 2, .tensor = 2, .context = 2, .expert = 4};
    const struct {
        enum axis axis;
        int32_t size, second, each, nodes, apart; /* in nodes of 4 */
    } cases[] = {
        {AXIS_TENSOR, 2, 1, 2, 1, 1},  {AXIS_CONTEXT, 2, 2, 2, 1, 1}, {AXIS_ROW, 6, 2, 2, 3, 1},
        {AXIS_COLUMN, 2, 12, 1, 2, 3}, {AXIS_WORLD, 12, 2, 2, 6, 1},  {AXIS_EXPERT, 4, 2, 2, 2, 1},
        {AXIS_COPIES, 3, 8, 1, 3, 2},
    };
    assert_int_equal(grid_ranks(grid), 24);
    assert_int_equal(grid_replicas(grid), 6);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct grid_nodes in = grid_axis_nodes(grid, cases[i].axis, 4);
        assert_int_equal(grid_axis_size(grid, cases[i].axis), cases[i].size);
        assert_int_equal(grid_axis_rank(grid, cases[i].axis, 0, 1), cases[i].second);
        assert_int_equal(in.each, cases[i].each);
        assert_int_equal(in.nodes, cases[i].nodes);
        assert_int_equal(in.apart, cases[i].apart);
    }
    grid.whole = true; /* ranks 0 to 3, 4 to 7, ... */
    assert_int_equal(grid_axis_size(grid, AXIS_EXPERT), 4);
    assert_int_equal(grid_axis_rank(grid, AXIS_EXPERT, 5, 2), 6);
    assert_int_equal(grid_axis_size(grid, AXIS_COPIES), 6);
    assert_int_equal(grid_axis_rank(grid, AXIS_COPIES, 5, 2), 9);
    for (int32_t rank = 0; rank < 24; rank++)
        for (int32_t axis = 0; axis < AXIS_COUNT; axis++)
            check_place(grid, (enum axis)axis, rank);
}

TEST(numbers_ranks_row_by_row)
{
    struct grid grid = {.columns = 4, .rows = 3};
    assert_int_equal(grid_ranks(grid), 12);
    assert_int_equal(grid_axis_size(grid, AXIS_ROW), 4);
    assert_int_equal(grid_axis_size(grid, AXIS_COLUMN), 3);
    assert_int_equal(grid_axis_size(grid, AXIS_WORLD), 12);
    assert_int_equal(grid_axis_index(grid, AXIS_ROW, 6), 2);
    assert_int_equal(grid_axis_index(grid, AXIS_COLUMN, 6), 1);
    assert_int_equal(grid_axis_rank(grid, AXIS_ROW, 6, 3), 7);
    assert_int_equal(grid_axis_rank(grid, AXIS_COLUMN, 6, 2), 10);
}

TEST(places_ranks_along_rows_or_columns)
{
    struct grid grid = {.columns = 4, .rows = 3};
    static const int32_t by_column[] = {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11};
    for (int32_t rank = 0; rank < 12; rank++) {
        assert_int_equal(grid_place(grid, RANK_ORDER_ROW, rank), rank);
        assert_int_equal(grid_place(grid, RANK_ORDER_COLUMN, rank), by_column[rank]);
    }
}

TEST(names_the_axes)
{
    assert_string_equal(axis_names[AXIS_ROW], "row");
    assert_string_equal(axis_names[AXIS_COLUMN], "column");
    assert_string_equal(axis_names[AXIS_WORLD], "world");
}

TEST(picks_the_grid_nearest_to_a_square)
{
    static const struct {
        int32_t ranks, columns, rows;
    } cases[] = {{1, 1, 1},  {2, 2, 1},      {7, 7, 1},     {12, 4, 3},
                 {16, 4, 4}, {1088, 34, 32}, {4096, 64, 64}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct grid grid = grid_nearest_square(cases[i].ranks);
        assert_int_equal(grid.columns, cases[i].columns);
        assert_int_equal(grid.rows, cases[i].rows);
    }
}
