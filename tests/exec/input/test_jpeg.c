#include "exec/input/picture/jpeg.h"

#include "tests/exec/input/fixture.h"
#include "tests/test.h"

OWNED(decoder, decoder_free)

/* A file in memory and what the decoder gave of it. */
struct decoded {
    uint8_t *data;
    int64_t size;
    struct decoder *decoder;
    struct buffer pixels;
    struct picture picture;
    int32_t width, height; /* of the whole, shrunk */
};

static struct decoded begin(const struct form *form)
{
    struct decoded decoded = {.decoder = decoder_new()};
    decoded.data = fixture_jpeg(form, &decoded.size);
    return decoded;
}

static void decoded_release(struct decoded *decoded)
{
    free(decoded->data);
    decoder_free(decoded->decoder);
    buffer_release(&decoded->pixels);
}

/* Decode @box (without width: all of it) at 1/@shrink. */
static int decode(struct decoded *decoded, struct box box, int32_t shrink)
{
    if (decoder_open(decoded->decoder, "a.jpg", decoded->data, decoded->size, &decoded->width,
                     &decoded->height, &err))
        return -1;
    decoded->width = (decoded->width + shrink - 1) / shrink;
    decoded->height = (decoded->height + shrink - 1) / shrink;
    if (box.width == 0)
        box = (struct box){0, 0, decoded->width, decoded->height};
    return decoder_read(decoded->decoder, box, shrink, &decoded->pixels, &decoded->picture, &err);
}

static const uint8_t *pixel_of(const struct picture *picture, int32_t x, int32_t y)
{
    return picture->pixel + (y - picture->box.y) * picture->stride +
           (int64_t)3 * (x - picture->box.x);
}

/* Whether @part shows in @box what @whole does. */
static void compare(const struct picture *whole, const struct picture *part, struct box box)
{
    assert_true(part->box.x <= box.x && part->box.x + part->box.width >= box.x + box.width);
    for (int32_t y = box.y; y < box.y + box.height; y++)
        if (memcmp(pixel_of(whole, box.x, y), pixel_of(part, box.x, y), (size_t)(3 * box.width)))
            fail_msg("box %d %d %d %d differs in row %d", box.x, box.y, box.width, box.height, y);
}

static int32_t draw(uint64_t trial, uint64_t which, int32_t below)
{
    return (int32_t)(base_uniform(3, trial, which, 0) * below);
}

static const struct form forms[] = {
    {203, 151, 3, 1, 90, false, 1}, {203, 151, 3, 2, 90, false, 2}, {203, 151, 3, 12, 90, false, 3},
    {203, 151, 3, 2, 60, true, 4},  {203, 151, 1, 1, 90, false, 5}, {203, 151, 4, 1, 90, false, 6},
};

TEST(a_part_has_the_pixels_of_the_whole)
{
    for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++)
        for (int32_t shrink = 1; shrink <= 8; shrink *= 2) {
            HELD(decoded) whole = begin(&forms[f]), part = begin(&forms[f]);
            assert_int_equal(decode(&whole, (struct box){0}, shrink), 0);
            for (uint64_t i = 0; i < 25; i++) {
                struct box box = {.x = draw(i, 0, whole.width), .y = draw(i, 1, whole.height)};
                box.width = 1 + draw(i, 2, whole.width - box.x);
                box.height = 1 + draw(i, 3, whole.height - box.y);
                assert_int_equal(decode(&part, box, shrink), 0);
                compare(&whole.picture, &part.picture, box);
            }
        }
}

/* Three inks are darkened by the fourth. */
TEST(colours_come_out_as_they_went_in)
{
    static const struct form form[] = {{64, 48, 3, 1, 100, false, 8},
                                       {40, 30, 4, 1, 100, false, 3}};
    for (int32_t ink = 0; ink < 2; ink++) {
        HELD(decoded) decoded = begin(&form[ink]);
        assert_int_equal(decode(&decoded, (struct box){0}, 1), 0);
        for (int32_t i = 0; i < 3 * form[ink].width * form[ink].height; i++) {
            int32_t c = i % 3, x = i / 3 % form[ink].width, y = i / 3 / form[ink].width;
            int32_t black = ink ? form_byte(&form[ink], x, y, 3) : 255;
            int32_t expected = form_byte(&form[ink], x, y, c) * black / 255;
            assert_near(pixel_of(&decoded.picture, x, y)[c], expected, 4 + ink);
        }
    }
}

TEST(grey_is_the_same_in_all_channels)
{
    HELD(decoded) decoded = begin(&(struct form){40, 30, 1, 1, 95, false, 3});
    assert_int_equal(decode(&decoded, (struct box){0}, 1), 0);
    for (int32_t i = 0; i < 40 * 30; i++) {
        const uint8_t *pixel = decoded.picture.pixel + (int64_t)3 * i;
        assert_true(pixel[0] == pixel[1] && pixel[1] == pixel[2]);
    }
}

/* Without Adobe's marker values are ink. */
TEST(inks_are_inverted_by_their_marker)
{
    static const char adobe[] = "\xff\xee\0\x0e"
                                "Adobe";
    HELD(decoded) marked = begin(&forms[5]);
    HELD(decoded) bare = begin(&forms[5]);
    assert_int_equal(forms[5].components, 4);
    uint8_t *at = memmem(bare.data, (size_t)bare.size, adobe, sizeof(adobe) - 1);
    assert_non_null(at);
    bare.size -= 16;
    memmove(at, at + 16, (size_t)(bare.data + bare.size - at));
    assert_int_equal(decode(&bare, (struct box){0}, 1), 0);
    int32_t total = 0;
    for (int32_t x = 0; x < forms[5].width; x++)
        for (int32_t c = 0; c < 3; c++) {
            int32_t ink = 255 - form_byte(&forms[5], x, 8, c),
                    black = form_byte(&forms[5], x, 8, 3);
            assert_in_range(pixel_of(&bare.picture, x, 8)[c] + 10 - ink * (255 - black) / 255, 0,
                            20);
            total += ink;
        }
    assert_true(total > 0);
}

TEST(what_ends_early_is_refused)
{
    for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++) {
        HELD(decoded) decoded = begin(&forms[f]);
        int64_t size = decoded.size;
        for (int32_t percent = 0; percent < 100; percent += 7) {
            decoded.size = size * percent / 100;
            assert_fails(decode(&decoded, (struct box){0}, 1), 65, "a.jpg: ");
        }
    }
}

TEST(what_is_damaged_is_refused_or_still_a_picture)
{
    int32_t refused = 0, trials = 300;
    for (int32_t i = 0; i < trials; i++) {
        HELD(decoded) decoded = begin(&forms[i % 6]);
        err_release(&err);
        for (uint64_t j = 0; j < 8; j++)
            decoded.data[draw((uint64_t)i, j, (int32_t)decoded.size)] = (uint8_t)draw(7, j, 256);
        refused += decode(&decoded, (struct box){0}, 1) != 0;
        assert_int_equal(err.count > 0, err.text != NULL);
    }
    assert_in_range(refused, trials / 10, trials - 1); /* JPEG has no checksum */
}

TEST(other_files_are_named_for_what_they_are)
{
    static const struct {
        const char *data, *message;
        int64_t size;
    } wrong[] = {
        {"", "the file is empty", 0},
        {"\x89PNG\r\n\x1a\n....", "PNG", 12}, /* damaged, or not in this build */
        {"RIFF....WEBP....", "WebP", 16},
        {"GIF89a......", "it begins like a GIF", 12},
        {"<html>......", "it begins like HTML", 12},
        {"\xff\xd8", "damaged JPEG", 2},
        {"\xff", "not a JPEG", 1},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        OWN(decoder) *decoder = decoder_new();
        int32_t width, height;
        assert_fails(decoder_open(decoder, "b.jpg", (const uint8_t *)wrong[i].data, wrong[i].size,
                                  &width, &height, &err),
                     65, wrong[i].message);
    }
}

/* The camera's, whose header claims another height and width, @size. */
static struct decoded claimed(const char size[4])
{
    struct decoded decoded = begin(&form_camera);
    for (int64_t i = 0; i + 8 < decoded.size; i++)
        if (decoded.data[i] == 0xff && decoded.data[i + 1] == 0xc0) /* SOF0: height and width */
            memcpy(decoded.data + i + 5, size, 4);
    return decoded;
}

/* 4096 x 4096 pixels are within the limit: 262144 blocks, a bit or more in each of 3 colours. */
TEST(a_header_that_claims_too_much_is_refused)
{
    HELD(decoded) large = claimed("\xff\xdc\xff\xdc"), small = claimed("\x10\x00\x10\x00");
    assert_fails(decode(&large, (struct box){0}, 1), 65, "not plausible: 65500 x 65500");
    small.size = 4096 * 4096 / 512 - 1;
    assert_fails(decode(&small, (struct box){0}, 1), 65,
                 "not plausible: 4096 x 4096 pixels in 32767 bytes");
}

/* The last scan once more, again and again. */
TEST(a_bomb_of_scans_is_one_damaged_picture)
{
    struct form form = form_camera;
    form.progressive = true;
    HELD(decoded) decoded = begin(&form);
    int64_t last = decoded.size - 2;
    while (decoded.data[last] != 0xff || decoded.data[last + 1] != 0xda)
        last--;
    int64_t scan = decoded.size - 2 - last;
    decoded.data = realloc(decoded.data, (size_t)(decoded.size + 91 * scan));
    for (int32_t i = 0; i < 91; i++, decoded.size += scan)
        memcpy(decoded.data + decoded.size - 2, decoded.data + last, (size_t)scan);
    assert_fails(decode(&decoded, (struct box){0}, 1), 65,
                 "not plausible: 101 scans, at most 100 are decoded");
}

static double decode_seconds(const struct form *form, struct box box, int32_t shrink)
{
    struct decoded decoded = begin(form);
    double start = base_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(decode(&decoded, box, shrink), 0);
    double seconds = base_seconds(CLOCK_THREAD_CPUTIME_ID) - start;
    decoded_release(&decoded);
    return seconds;
}

TEST(a_part_costs_less_than_the_whole)
{
    struct box part = {120, 90, 240, 180};
    double whole = INFINITY, quarter = INFINITY, half = INFINITY;
    for (int32_t i = 0; i < 70; i++) { /* the quickest of each, in turns: others are disturbed */
        whole = fmin(whole, decode_seconds(&form_camera, (struct box){0}, 1));
        quarter = fmin(quarter, decode_seconds(&form_camera, part, 1));
        half = fmin(half, decode_seconds(&form_camera, (struct box){0}, 2));
    }
    printf("a quarter in the middle takes %.2f, half the size %.2f of the whole\n", quarter / whole,
           half / whole);
    assert_true(quarter < 0.85 * whole);
    assert_true(half < whole);
}
