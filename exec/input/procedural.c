#include "exec/input/reader.h"

/* A grating with a solid shape before it: the class says the grating's orientation and whether the
 * shape is a disc or a cross, so a network that sees only one of the two has a known accuracy. */

enum {
    CLASS_LIMIT = 32,
    SIDE_LEAST = 8,
    SIDE_MOST = 1024 /* [pixels] */
};

/* One image, in pixels and radians. */
struct scene {
    float angle, phase, frequency;
    float stripe[3], solid[3]; /* contrast of the grating, and the shape's colour */
    float x, y, radius;        /* of the shape */
    bool cross;
};

static float between(const struct reader *reader, const struct reading *reading, int32_t which,
                     double from, double to)
{
    uint64_t epoch = reading->augment ? reading->epoch : 0;
    uint64_t counter = (uint64_t)reading->index << 5 | (uint64_t)which;
    return (float)(from + (to - from) * base_uniform(reader->seed, epoch, 4, counter));
}

static struct scene draw_scene(const struct reader *reader, const struct reading *reading,
                               int32_t label)
{
    const double pi = 3.141592653589793, side = reader->image;
    struct scene scene = {
        .angle = (float)(pi * (label / 2) / (reader->classes / 2)),
        .phase = between(reader, reading, 0, 0, 2 * pi),
        .frequency = (float)(2 * pi / side) / between(reader, reading, 1, 0.18, 0.26),
        .radius = (float)side * between(reader, reading, 2, 0.22, 0.3),
        .x = (float)side * between(reader, reading, 3, 0.35, 0.65),
        .y = (float)side * between(reader, reading, 4, 0.35, 0.65),
        .cross = label % 2,
    };
    float sign = between(reader, reading, 5, 0, 1) < 0.5F ? -1 : 1;
    for (int32_t c = 0; c < 3; c++) {
        scene.stripe[c] = between(reader, reading, 6 + c, 0.5, 1.0);
        scene.solid[c] = sign * between(reader, reading, 9 + c, 1.5, 2.0);
    }
    return scene;
}

/* The arms of a cross are longer than the radius: both shapes cover about the same area. */
static bool inside(const struct scene *scene, int32_t x, int32_t y)
{
    float dx = fabsf((float)x + 0.5F - scene->x), dy = fabsf((float)y + 0.5F - scene->y);
    float arm = 1.15F * scene->radius, half = 0.4F * scene->radius;
    if (!scene->cross)
        return dx * dx + dy * dy < scene->radius * scene->radius;
    return (dx < half && dy < arm) || (dy < half && dx < arm);
}

/* sin(a + b) from tables of both: two calls per row and column instead of one per pixel. */
static void paint(const struct scene *scene, int32_t side, float *image)
{
    float sine[SIDE_MOST], cosine[SIDE_MOST];
    float along = scene->frequency * cosf(scene->angle),
          down = scene->frequency * sinf(scene->angle);
    for (int32_t x = 0; x < side; x++)
        sincosf(along * (float)x, &sine[x], &cosine[x]);
    for (int32_t y = 0; y < side; y++) {
        float row_sine, row_cosine;
        sincosf(down * (float)y + scene->phase, &row_sine, &row_cosine);
        for (int32_t x = 0; x < side; x++, image += 3) {
            float wave = sine[x] * row_cosine + cosine[x] * row_sine;
            bool solid = inside(scene, x, y);
            for (int32_t c = 0; c < 3; c++)
                image[c] = solid ? scene->solid[c] : scene->stripe[c] * wave;
        }
    }
}

/* Add noise of deviation 0.35, eight numbers from each step of SplitMix64.
 * Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014). */
static void add_noise(uint64_t state, float *image, int64_t count)
{
    const float unit = 0.35F / 73.9F; /* deviation of a byte */
    for (int64_t i = 0; i < count; i += 8) {
        uint64_t bits = state += UINT64_C(0x9e3779b97f4a7c15);
        bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
        bits ^= bits >> 31;
        for (int64_t j = i; j < i + 8 && j < count; j++, bits >>= 8)
            image[j] += unit * ((float)(bits & 0xff) - 127.5F);
    }
}

static int procedural_open(struct reader *reader, const struct dataset_spec *spec, enum split split,
                           struct err *err)
{
    if (spec->classes < 2 || spec->classes > CLASS_LIMIT || spec->classes % 2)
        return err_usage(
            err, "procedural images must have an even number of classes from 2 to %d, not %d",
            CLASS_LIMIT, spec->classes);
    if (spec->image < SIDE_LEAST || spec->image > SIDE_MOST)
        return err_usage(err, "procedural images must have %d to %d pixels per side, not %d",
                         SIDE_LEAST, SIDE_MOST, spec->image);
    return 0;
}

static int procedural_read(const struct reader *reader, const struct reading *reading,
                           struct err *err)
{
    int32_t label = (int32_t)(reading->index % reader->classes);
    struct scene scene = draw_scene(reader, reading, label);
    uint64_t state =
        (uint64_t)(0x1p52 * base_uniform(reader->seed, reading->augment ? reading->epoch : 0, 5,
                                         (uint64_t)reading->index));
    paint(&scene, reader->image, reading->image);
    add_noise(state, reading->image, (int64_t)3 * reader->image * reader->image);
    *reading->label = label;
    return 0;
}

const struct reader_ops reader_procedural = {procedural_open, NULL, procedural_read, false};
