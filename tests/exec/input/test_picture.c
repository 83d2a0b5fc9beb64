#include "exec/input/picture/picture.h"

#include "tests/exec/input/fixture.h"
#include "tests/test.h"

/* Bytes of a picture, (height, width, 3), with room to read beyond. */
struct bytes {
    struct buffer buffer;
    struct picture picture;
};

static void bytes_release(struct bytes *bytes)
{
    buffer_release(&bytes->buffer);
}

static struct bytes make(int32_t width, int32_t height,
                         uint8_t (*byte)(int32_t x, int32_t y, int32_t c))
{
    struct bytes bytes = {0};
    uint8_t *to = buffer_reserve(&bytes.buffer, (int64_t)3 * width * height);
    bytes.picture = (struct picture){to, (int64_t)3 * width, {0, 0, width, height}};
    for (int32_t i = 0; i < 3 * width * height; i++)
        to[i] = byte(i / 3 % width, i / 3 / width, i % 3);
    return bytes;
}

static uint8_t blocks(int32_t x, int32_t y, int32_t c)
{
    return (uint8_t)(x / 5 * 53 + y / 4 * 97 + x * 3 + c * 59);
}

static uint8_t noise(int32_t x, int32_t y, int32_t c)
{
    return (uint8_t)(256 * base_uniform(5, (uint64_t)x, (uint64_t)y, (uint64_t)c));
}

static uint8_t flat(int32_t x, int32_t y, int32_t c)
{
    (void)x, (void)y;
    return (uint8_t)(40 + 80 * c);
}

static float *resized(const struct bytes *bytes, const struct view *view, const struct tint *tint)
{
    HELD(buffer) row = {0};
    HELD(resize) resize = resize_new(view, 1, bytes->picture.box.width, bytes->picture.box.height);
    float *image = base_alloc((int64_t)3 * view->columns * view->rows, sizeof(*image));
    resize_run(&resize, &bytes->picture, tint, &row, image);
    return image;
}

/* All of a rectangle. */
static struct view all_of(double x, double y, double width, double height, int32_t to_width,
                          int32_t to_height)
{
    return (struct view){.x = x,
                         .y = y,
                         .width = width,
                         .height = height,
                         .target_width = to_width,
                         .target_height = to_height,
                         .columns = to_width,
                         .rows = to_height};
}

/* Image.resize(..., Image.BILINEAR) of Pillow 9.4, of the picture `blocks`: 40 x 30 to 6 x 5, 4 x 3
 * to 6 x 5, and crop((5, 3, 28, 20)) of the first to 6 x 5. */
static const uint8_t pillow_down[] = {
    66,  122, 150, 141, 149, 112, 146, 85,  100, 91,  128, 160, 146, 165, 106, 154, 97,  104,
    123, 104, 122, 114, 127, 126, 137, 134, 103, 139, 113, 131, 119, 142, 141, 116, 155, 114,
    106, 116, 133, 121, 134, 126, 151, 125, 115, 129, 127, 131, 136, 144, 142, 101, 124, 133,
    158, 98,  107, 108, 107, 143, 129, 160, 127, 153, 124, 106, 120, 123, 159, 135, 132, 149,
    133, 146, 111, 153, 108, 91,  104, 115, 144, 129, 159, 131, 145, 124, 107, 116, 112, 145};
static const uint8_t pillow_up[] = {
    0, 59, 118, 2, 61, 120, 4, 63, 122, 5, 64, 123, 8, 67, 126, 9, 68, 127, 0, 59, 118, 2, 61, 120,
    4, 63, 122, 5, 64, 123, 8, 67, 126, 9, 68, 127, 0, 59, 118, 2, 61, 120, 4, 63, 122, 5, 64, 123,
    8, 67, 126, 9, 68, 127, 0, 59, 118, 2, 61, 120, 4, 63, 122, 5, 64, 123, 8, 67, 126, 9, 68, 127,
    0, 59, 118, 2, 61, 120, 4, 63, 122, 5, 64, 123, 8, 67, 126, 9, 68, 127};
static const uint8_t pillow_crop[] = {
    150, 205, 67,  196, 119, 89,  167, 82,  107, 88,  101, 160, 100, 154, 205, 145, 204, 121,
    87,  144, 84,  133, 110, 130, 135, 120, 126, 114, 150, 97,  162, 102, 146, 122, 141, 115,
    47,  106, 163, 93,  152, 149, 142, 165, 104, 179, 134, 57,  157, 64,  110, 90,  101, 160,
    130, 132, 187, 137, 178, 102, 168, 150, 88,  187, 82,  131, 92,  133, 141, 126, 144, 186,
    196, 18,  77,  83,  64,  113, 54,  107, 157, 105, 151, 169, 147, 195, 42,  195, 84,  72};

static void check_pillow(int32_t width, int32_t height, struct view view, const uint8_t *expected)
{
    HELD(bytes) bytes = make(width, height, blocks);
    AUTOFREE float *image = resized(&bytes, &view, &tint_none);
    for (int32_t i = 0; i < 3 * 6 * 5; i++) /* Pillow rounds to bytes, twice */
        assert_true(fabsf(image[i] - expected[i]) <= 1.01F);
}

TEST(weights_are_those_of_pillow)
{
    check_pillow(40, 30, all_of(0, 0, 40, 30, 6, 5), pillow_down);
    check_pillow(4, 3, all_of(0, 0, 4, 3, 6, 5), pillow_up);
    check_pillow(40, 30, all_of(5, 3, 23, 17, 6, 5), pillow_crop);
}

TEST(the_same_size_is_the_same_picture)
{
    HELD(bytes) bytes = make(37, 23, noise);
    struct view view = all_of(0, 0, 37, 23, 37, 23);
    AUTOFREE float *image = resized(&bytes, &view, &tint_none);
    for (int32_t i = 0; i < 3 * 37 * 23; i++)
        assert_true(image[i] == bytes.picture.pixel[i]);
}

TEST(one_colour_stays_one_colour)
{
    HELD(bytes) bytes = make(61, 45, flat);
    for (int64_t index = 0; index < 50; index++) {
        struct view view = view_random(61, 45, 24, 1, 0, index);
        AUTOFREE float *image = resized(&bytes, &view, &tint_imagenet);
        static const double mean[] = {0.485, 0.456, 0.406}, deviation[] = {0.229, 0.224, 0.225};
        for (int32_t i = 0; i < 3 * 24 * 24; i++) {
            double expected = ((40 + 80 * (i % 3)) / 255.0 - mean[i % 3]) / deviation[i % 3];
            assert_true(fabs(image[i] - expected) < 1e-5);
        }
    }
}

/* The definition, in double precision: what weighs how much in one result. */
static double defined(const struct picture *picture, const struct view *view, int32_t column,
                      int32_t row, int32_t c)
{
    double sx = view->width / view->target_width, sy = view->height / view->target_height;
    double cx = view->x + (view->left + column + 0.5) * sx;
    double cy = view->y + (view->top + row + 0.5) * sy, sum = 0, weights = 0;
    for (int32_t y = (int32_t)view->y; y < view->y + view->height; y++)
        for (int32_t x = (int32_t)view->x; x < view->x + view->width; x++) {
            double wx = fmax(0, 1 - fabs(x + 0.5 - cx) / fmax(sx, 1));
            double wy = fmax(0, 1 - fabs(y + 0.5 - cy) / fmax(sy, 1));
            sum += wx * wy * picture->pixel[y * picture->stride + 3 * x + c];
            weights += wx * wy;
        }
    return sum / weights;
}

static void check_defined(const struct bytes *bytes, const struct view *view)
{
    AUTOFREE float *image = resized(bytes, view, &tint_none);
    for (int32_t i = 0; i < view->rows * view->columns * 3; i += 7) {
        int32_t column = i / 3 % view->columns;
        if (view->flip)
            column = view->columns - 1 - column;
        double expected = defined(&bytes->picture, view, column, i / 3 / view->columns, i % 3);
        assert_true(fabs(image[i] - expected) < 2e-4);
    }
}

TEST(resizing_is_what_it_is_defined_to_be)
{
    static const int32_t sizes[][2] = {{90, 70}, {41, 93}, {20, 20}, {7, 120}, {1, 1}, {2, 40}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        HELD(bytes) bytes = make(sizes[i][0], sizes[i][1], noise);
        struct view middle = view_middle(sizes[i][0], sizes[i][1], 32);
        check_defined(&bytes, &middle);
        for (int64_t index = 0; index < 20; index++) {
            struct view view = view_random(sizes[i][0], sizes[i][1], 24, 3, 1, index);
            check_defined(&bytes, &view);
        }
    }
}

TEST(only_what_is_needed_is_read)
{
    HELD(bytes) bytes = make(90, 70, noise);
    for (int64_t index = 0; index < 30; index++) {
        struct view view = view_random(90, 70, 24, 3, 2, index);
        HELD(resize) resize = resize_new(&view, 1, 90, 70);
        struct box need = resize.need;
        float *whole = resized(&bytes, &view, &tint_none), part[3 * 24 * 24];
        HELD(buffer) copy = {0}, row = {0};
        uint8_t *pixel = buffer_reserve(&copy, (int64_t)3 * need.width * need.height);
        for (int32_t y = 0; y < need.height; y++)
            memcpy(pixel + (int64_t)3 * need.width * y,
                   bytes.picture.pixel + (need.y + y) * bytes.picture.stride + 3 * need.x,
                   (size_t)(3 * need.width));
        struct picture picture = {pixel, (int64_t)3 * need.width, need};
        resize_run(&resize, &picture, &tint_none, &row, part);
        assert_memory_equal(whole, part, sizeof(part));
        free(whole);
    }
}

TEST(random_crops_keep_to_their_bounds)
{
    enum { TRIALS = 20000 };
    double area = 0, least = 1, most = 0;
    int32_t flips = 0;
    for (int64_t i = 0; i < TRIALS; i++) {
        struct view view = view_random(500, 375, 224, 1, 5, i);
        double share = view.width * view.height / (500.0 * 375), aspect = view.width / view.height;
        assert_true(view.x >= 0 && view.y >= 0);
        assert_true(view.x + view.width <= 500 && view.y + view.height <= 375);
        assert_true(aspect > 0.74 && aspect < 1.35);
        assert_true(view.x == floor(view.x) && view.width == floor(view.width));
        area += share;
        least = fmin(least, share);
        most = fmax(most, share);
        flips += view.flip;
    }
    assert_true(least > 0.079 && least < 0.09 && most > 0.95);
    /* What does not fit is drawn again: 0.433 of the area, by a simulation of the recipe. */
    assert_true(fabs(area / TRIALS - 0.433) < 0.006);
    assert_in_range(flips, TRIALS / 2 - 350, TRIALS / 2 + 350);
}

TEST(a_crop_depends_on_seed_epoch_and_index_alone)
{
    struct view view = view_random(500, 375, 224, 1, 5, 9);
    struct view again = view_random(500, 375, 224, 1, 5, 9);
    assert_true(again.x == view.x && again.y == view.y && again.flip == view.flip);
    assert_true(again.width == view.width && again.height == view.height);
    struct view other[] = {view_random(500, 375, 224, 2, 5, 9), view_random(500, 375, 224, 1, 6, 9),
                           view_random(500, 375, 224, 1, 5, 10)};
    for (int32_t i = 0; i < 3; i++)
        assert_true(other[i].x != view.x || other[i].y != view.y || other[i].width != view.width);
}

TEST(long_pictures_are_cropped_in_the_middle)
{
    struct view wide = view_random(10000, 3, 224, 1, 0, 0),
                high = view_random(3, 10000, 224, 1, 0, 0);
    assert_true(wide.width == 4 && wide.height == 3 && wide.x == 4998 && wide.y == 0);
    assert_true(high.width == 3 && high.height == 4 && high.x == 0 && high.y == 4998);
}

TEST(the_middle_is_where_torchvision_takes_it)
{
    /* width, height; then Resize(256) and the corner of CenterCrop(224). */
    static const int32_t expected[][6] = {
        {500, 375, 341, 256, 58, 16},    {375, 500, 256, 341, 16, 58},
        {1000, 256, 1000, 256, 388, 16}, {224, 224, 256, 256, 16, 16},
        {257, 300, 256, 298, 16, 37},    {3000, 33, 23272, 256, 11524, 16},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct view view = view_middle(expected[i][0], expected[i][1], 224);
        assert_int_equal(view.target_width, expected[i][2]);
        assert_int_equal(view.target_height, expected[i][3]);
        assert_int_equal(view.left, expected[i][4]);
        assert_int_equal(view.top, expected[i][5]);
        assert_int_equal(view.columns, 224);
        assert_false(view.flip);
    }
}

TEST(shrinking_never_needs_enlarging)
{
    static const int32_t expected[][2] = {{223, 1}, {447, 1},  {448, 2}, {895, 2},
                                          {896, 4}, {1792, 8}, {9999, 8}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
        struct view view = all_of(0, 0, expected[i][0], 2000, 224, 224);
        assert_int_equal(view_shrink(&view), expected[i][1]);
    }
}
