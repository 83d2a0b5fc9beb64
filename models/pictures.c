/* Networks of pictures, written in the notation of models/notation.h.
 * Sources: the layers, their widths and order of torchvision 0.14, whose papers are named beside
 * each family; detectors: MLPerf Training's reference code and DeepLearningExamples. */

#include "models/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "models/notation.h"

/* ---- residual networks: He et al. 2015, Xie et al. 2016, Zagoruyko 2016, Hu et al. 2017 ---- */

/* Bottlenecks whose middle has @wide times 64, 128, ... channels in @groups. */
struct residual {
    int32_t blocks[4], wide, groups;
    bool squeezes;
};

static void stage(struct text *out, const struct residual *r, int32_t index, int32_t stride)
{
    int32_t width = 64 << index, mid = width * r->wide;
    AUTOFREE char *squeeze = r->squeezes ? base_format(" se%d", width / 4) : base_copy("");
    text_add(out, "[%dk1 %dk3s%dg%d %dk1n%s | %dk1s%dn ]r ", mid, mid, stride, r->groups, 4 * width,
             squeeze, 4 * width, stride);
    text_add(out, "[%dk1 %dk3g%d %dk1n%s | ]r*%d ", mid, mid, r->groups, 4 * width, squeeze,
             r->blocks[index] - 1);
}

/* @text with a stage in place of each $, or of $1 where it keeps the sides. */
static void residual(struct text *out, const struct residual *r, const char *text)
{
    text_add(out, "64k7s2 max3s2p1 ");
    for (int32_t index = 0; *text; text++) {
        bool keeps = text[0] == '$' && text[1] == '1';
        if (*text == '$')
            stage(out, r, index, index && !keeps ? 2 : 1);
        else
            text_add(out, "%c", *text);
        index += *text == '$';
        text += keeps;
    }
}

/* ---- RegNet X: Radosavovic et al. 2020 ---- */

struct regnet {
    int32_t blocks[4], width[4], group;
};

static void regnet(struct text *out, const struct regnet *r)
{
    text_add(out, "32k3s2 ");
    for (int32_t i = 0; i < 4; i++) {
        int32_t w = r->width[i], groups = w / (r->group < w ? r->group : w);
        text_add(out, "[%dk1 %dk3s2g%d %dk1n | %dk1s2n ]r ", w, w, groups, w, w);
        if (r->blocks[i] > 1)
            text_add(out, "[%dk1 %dk3g%d %dk1n | ]r*%d ", w, w, groups, w, r->blocks[i] - 1);
    }
    text_add(out, "avg fc");
}

/* ---- inverted residuals: Sandler et al. 2018, Tan et al. 2018, 2019, 2021 ---- */

/* @repeat blocks, the first with @stride; squeezes to 1 / @squeeze of the block's input. */
struct inverted {
    int32_t expand, out, repeat, stride, kernel;
};

struct mobile {
    const struct inverted *row; /* ended by one without out */
    int32_t stem, head;
    double wide, deep;
    char act;               /* r: ReLU, s: SiLU */
    int32_t squeeze, fused; /* 0: none; rows that are fused, without squeeze */
    bool wide_squeeze;      /* to a quarter of the expanded channels, as DeepLearningExamples has */
};

/* A multiple of 8, at least 90 % of @value. */
static int32_t rounded(double value)
{
    int32_t near = (int32_t)fmax(8, floor((value + 4) / 8) * 8);
    return near < 0.9 * value ? near + 8 : near;
}

static void invert(struct text *out, const struct mobile *m, const struct inverted *row, int32_t in,
                   int32_t to, int32_t stride, bool fused)
{
    int32_t mid = rounded((double)in * row->expand), squeeze = m->squeeze ? in / m->squeeze : 0;
    squeeze = m->wide_squeeze ? mid / 4 : squeeze;
    bool adds = stride == 1 && in == to;
    text_add(out, adds ? "[" : "");
    if (fused && row->expand == 1)
        text_add(out, "%dk%ds%d%c ", to, row->kernel, stride, m->act);
    else if (fused)
        text_add(out, "%dk%ds%d%c %dk1n ", mid, row->kernel, stride, m->act, to);
    else {
        if (row->expand > 1)
            text_add(out, "%dk1%c ", mid, m->act);
        text_add(out, "%dk%ds%dd%c ", mid, row->kernel, stride, m->act);
        if (squeeze)
            text_add(out, "se%d ", squeeze);
        text_add(out, "%dk1n ", to);
    }
    text_add(out, adds ? "| ] " : "");
}

static void mobile(struct text *out, const struct mobile *m)
{
    int32_t in = rounded(m->stem * m->wide);
    text_add(out, "%dk3s2%c ", in, m->act);
    for (int32_t i = 0; m->row[i].out; i++) {
        const struct inverted *row = &m->row[i];
        int32_t to = rounded(row->out * m->wide);
        int32_t repeat = (int32_t)ceil(row->repeat * m->deep);
        for (int32_t k = 0; k < repeat; k++, in = to)
            invert(out, m, row, in, to, k ? 1 : row->stride, i < m->fused);
    }
    text_add(out, "%dk1%c avg fc", m->head ? m->head : 4 * in, m->act);
}

static const struct inverted mobilenet_v2[] = {
    {1, 16, 1, 1, 3}, {6, 24, 2, 2, 3},  {6, 32, 3, 2, 3},  {6, 64, 4, 2, 3},
    {6, 96, 3, 1, 3}, {6, 160, 3, 2, 3}, {6, 320, 1, 1, 3}, {0}};
static const struct inverted mnasnet[] = {
    {1, 16, 1, 1, 3}, {3, 24, 3, 2, 3},  {3, 40, 3, 2, 5},  {6, 80, 3, 2, 5},
    {6, 96, 2, 1, 3}, {6, 192, 4, 2, 5}, {6, 320, 1, 1, 3}, {0}};
static const struct inverted efficientnet[] = {
    {1, 16, 1, 1, 3},  {6, 24, 2, 2, 3},  {6, 40, 2, 2, 5},  {6, 80, 3, 2, 3},
    {6, 112, 3, 1, 5}, {6, 192, 4, 2, 5}, {6, 320, 1, 1, 3}, {0}};
static const struct inverted efficientnet_v2_s[] = {{1, 24, 2, 1, 3},
                                                    {4, 48, 4, 2, 3},
                                                    {4, 64, 4, 2, 3},
                                                    {4, 128, 6, 2, 3},
                                                    {6, 160, 9, 1, 3},
                                                    {6, 256, 15, 2, 3},
                                                    {0}};

/* ---- dense networks: Huang et al. 2016 ---- */

static void dense(struct text *out, const int32_t *blocks, int32_t growth)
{
    text_add(out, "%dk7s2 max3s2p1 ", 2 * growth);
    for (int32_t i = 0, width = 2 * growth; i < 4; i++) {
        text_add(out, "( | bn %dk1 %dk3! )*%d bn ", 4 * growth, growth, blocks[i]);
        width = (width + blocks[i] * growth) / 2;
        if (i < 3)
            text_add(out, "%dk1! avg2 ", width);
    }
    text_add(out, "avg fc");
}

/* ---- ShuffleNet v2: Ma et al. 2018 ---- */

static void shuffle(struct text *out, const int32_t *width)
{
    static const int32_t repeats[] = {4, 8, 4};
    text_add(out, "24k3s2 max3s2p1 ");
    for (int32_t i = 0; i < 3; i++) {
        int32_t half = width[i] / 2, in = i ? width[i - 1] : 24;
        text_add(out, "(%dk3s2dn %dk1 | %dk1 %dk3s2dn %dk1 ) shuffle ", in, half, half, half, half);
        for (int32_t k = 1; k < repeats[i]; k++)
            text_add(out, "(cut%d | cut%d %dk1 %dk3dn %dk1 ) shuffle ", half, half, half, half,
                     half);
    }
    text_add(out, "%dk1 avg fc", width[3]);
}

/* ---- ConvNeXt: Liu et al. 2022 ---- */

static void convnext(struct text *out, const int32_t *blocks, const int32_t *width)
{
    for (int32_t i = 0; i < 4; i++) {
        text_add(out, i ? "ln %dk2s2p0b " : "%dk4s4p0b ln ", width[i]);
        text_add(out, "[%dk7db ln %dk1b gelu %dk1b scale | ]*%d ", width[i], 4 * width[i], width[i],
                 blocks[i]);
    }
    text_add(out, "avg ln fc");
}

/* ---- VGG: Simonyan and Zisserman 2014 ---- */

struct vgg {
    int32_t first, rest; /* convolutions of the first two stages, and of the other three */
    bool norm;
};

static void vgg(struct text *out, const struct vgg *v)
{
    for (int32_t i = 0; i < 5; i++) {
        for (int32_t k = 0; k < (i < 2 ? v->first : v->rest); k++)
            text_add(out, "%dk3b %s ", i < 3 ? 64 << i : 512, v->norm ? "bn" : "relu");
        text_add(out, "max2s2 ");
    }
    text_add(out, "fc4096 relu fc4096 relu fc");
}

/* ---- Swin: Liu et al. 2021 ---- */

static void swin(struct text *out, const int32_t *blocks, int32_t width)
{
    text_add(out, "%dk4s4p0b ln ", width);
    for (int32_t i = 0; i < 4; i++, width *= 2) {
        text_add(out, "( [ln att%dw7 | ] [ln %dk1b gelu %dk1b | ] )*%d ", width / 32, 4 * width,
                 width, blocks[i]);
        if (i < 3)
            text_add(out, "fold2 ln %dk1! ", 2 * width);
    }
    text_add(out, "ln avg fc");
}

/* ---- as they are ---- */

/* Howard et al. 2019 */
#define MOBILENET_V3_SMALL                                                                         \
    "16k3s2s 16k3s2d se8 16k1n 72k1 72k3s2d 24k1n [88k1 88k3d 24k1n | ] 96k1s 96k5s2ds se24 "      \
    "40k1n "                                                                                       \
    "[240k1s 240k5ds se64 40k1n | ]*2 120k1s 120k5ds se32 48k1n [144k1s 144k5ds se40 48k1n | ] "   \
    "288k1s 288k5s2ds se72 96k1n [576k1s 576k5ds se144 96k1n | ]*2 576k1s avg fc1024 relu fc"
#define MOBILENET_V3_LARGE                                                                         \
    "16k3s2s [16k3d 16k1n | ] 64k1 64k3s2d 24k1n [72k1 72k3d 24k1n | ] 72k1 72k5s2d se24 40k1n "   \
    "[120k1 120k5d se32 40k1n | ]*2 240k1s 240k3s2ds 80k1n [200k1s 200k3ds 80k1n | ] "             \
    "[184k1s 184k3ds 80k1n | ]*2 480k1s 480k3ds se120 112k1n [672k1s 672k3ds se168 112k1n | ] "    \
    "672k1s 672k5s2ds se168 160k1n [960k1s 960k5ds se240 160k1n | ]*2 960k1s avg fc1280 relu fc"

#define ALEXNET                                                                                    \
    "64k11s4p2b relu max3s2 192k5b relu max3s2 384k3b relu 256k3b relu 256k3b relu max3s2 "        \
    "fc4096 relu fc4096 relu fc"
/* Iandola et al. 2016 */
#define FIRE(s, e) #s "k1b relu (" #e "k1b relu | " #e "k3b relu ) "
#define SQUEEZENET_1_0                                                                             \
    "96k7s2p0b relu max3s2c " FIRE(16, 64) FIRE(16, 64) FIRE(32, 128) "max3s2c " FIRE(32, 128)     \
        FIRE(48, 192) FIRE(48, 192) FIRE(64, 256) "max3s2c " FIRE(64, 256) "0k1b relu avg"
#define SQUEEZENET_1_1                                                                             \
    "64k3s2p0b relu max3s2c " FIRE(16, 64) FIRE(16, 64) "max3s2c " FIRE(32, 128)                   \
        FIRE(32, 128) "max3s2c " FIRE(48, 192) FIRE(48, 192) FIRE(64, 256)                         \
            FIRE(64, 256) "0k1b relu avg"
/* Szegedy et al. 2014, with batch norm, without the heads on the way */
#define JOIN(a, b, c, d, e, f)                                                                     \
    "(" #a "k1 | " #b "k1 " #c "k3 | " #d "k1 " #e "k3 | max3s1p1 " #f "k1 ) "
#define GOOGLENET                                                                                  \
    "64k7s2 max3s2c 64k1 192k3 max3s2c " JOIN(64, 96, 128, 16, 32, 32)                             \
        JOIN(128, 128, 192, 32, 96, 64) "max3s2c " JOIN(192, 96, 208, 16, 48, 64)                  \
            JOIN(160, 112, 224, 24, 64, 64) JOIN(128, 128, 256, 24, 64, 64)                        \
                JOIN(112, 144, 288, 32, 64, 64)                                                    \
                    JOIN(256, 160, 320, 32, 128, 128) "max2s2c " JOIN(256, 160, 320, 32, 128, 128) \
                        JOIN(384, 192, 384, 48, 128, 128) "avg fc"
/* Szegedy et al. 2015, with the head on the way */
#define WIDE(c)                                                                                    \
    "(192k1 | " #c "k1 " #c "k1x7 192k7x1 | " #c "k1 " #c "k7x1 " #c "k1x7 " #c "k7x1 192k1x7 | "  \
    "avg3s1 192k1 ) "
#define INCEPTION_V3                                                                               \
    "32k3s2p0 32k3p0 64k3 max3s2 80k1 192k3p0 max3s2 "                                             \
    "(64k1 | 48k1 64k5 | 64k1 96k3 96k3 | avg3s1 32k1 ) "                                          \
    "(64k1 | 48k1 64k5 | 64k1 96k3 96k3 | avg3s1 64k1 )*2 "                                        \
    "(384k3s2p0 | 64k1 96k3 96k3s2p0 | max3s2 ) " WIDE(128) WIDE(160) WIDE(160)                    \
        WIDE(192) "<avg3 128k1 768k5p0 fc > "                                                      \
                  "(192k1 320k3s2p0 | 192k1 192k1x7 192k7x1 192k3s2p0 | max3s2 ) "                 \
                  "(320k1 | 384k1 (384k1x3 | 384k3x1 ) | 448k1 384k3 (384k1x3 | 384k3x1 ) | "      \
                  "avg3s1 192k1 )*2 "                                                              \
                  "avg fc"
/* Ronneberger et al. 2015, padded and with batch norm */
#define UNET                                                                                       \
    "64k3 64k3 ( | max2s2 128k3 128k3 ( | max2s2 256k3 256k3 ( | max2s2 512k3 512k3 ( | max2s2 "   \
    "1024k3 1024k3 512k2s2tb ) 512k3 512k3 256k2s2tb ) 256k3 256k3 128k2s2tb ) 128k3 128k3 "       \
    "64k2s2tb ) 64k3 64k3 0k1b"

/* ---- detectors ---- */

#define BOXES(places, values) "<" #places "k3b | " #values "k3b > "
/* 81 classes of COCO at six sizes of a picture of 300 pixels (Liu et al. 2015) */
#define SSD_R50                                                                                    \
    "$$$1" BOXES(16, 324) "256k1 512k3s2 " BOXES(24, 486) "256k1 512k3s2 " BOXES(                  \
        24,                                                                                        \
        486) "128k1 256k3s2 " BOXES(24,                                                            \
                                    486) "128k1 256k3p0 " BOXES(16,                                \
                                                                324) "128k1 256k3p0 " BOXES(16,    \
                                                                                            324)
#define STEP(in, out, how) #in "k1b relu " #out "k3" how "b relu "
#define SSD_R34                                                                                    \
    "64k7s2 max3s2p1 [64k3 64k3n | ]r*3 [128k3s2 128k3n | 128k1s2n ]r [128k3 128k3n | ]r*3 "       \
    "[256k3 256k3n | 256k1n ]r [256k3 256k3n | ]r*5 " BOXES(16, 324) STEP(256, 512, "s2")          \
        BOXES(24, 486) STEP(256, 512, "s2") BOXES(24, 486) STEP(128, 256, "s2") BOXES(24, 486)     \
            STEP(128, 256, "p0") BOXES(16, 324) STEP(128, 256, "p0") BOXES(16, 324)

/* Lin et al. 2016: features of all stages joined; heads share weights. */
#define TOWER(a, b, c, d)                                                                          \
    "256k3b@" #a " relu 256k3b@" #b " relu 256k3b@" #c " relu 256k3b@" #d " relu "
#define DETECT "<" TOWER(1, 2, 3, 4) "2376k3b@5 | " TOWER(6, 7, 8, 9) "36k3b@10 > "
/* 264 classes of MLPerf's Open Images, nine anchors */
#define RETINANET                                                                                  \
    "$$[256k1b | $[256k1b | $256k1b <256k3b " DETECT "256k3s2b " DETECT "relu 256k3s2b " DETECT    \
    "> up2 ] <256k3b " DETECT "> up2 ] 256k3b " DETECT
#define PROPOSE "<256k3b@1 relu <3k1b@2 | 12k1b@3 > > "
/* 81 classes of COCO; 512 boxes and 128 masks of a picture in training (He et al. 2017) */
#define MASK_RCNN                                                                                  \
    "$[256k1b | $[256k1b | $[256k1b | $256k1b <256k3b " PROPOSE "max1s2 " PROPOSE                  \
    "> up2 ] <256k3b " PROPOSE "> up2 ] <256k3b " PROPOSE "> up2 ] 256k3b " PROPOSE                \
    "<roi7x512 1024k7s7p0b relu 1024k1b relu <81k1b | 324k1b > > "                                 \
    "roi14x128 256k3b relu 256k3b relu 256k3b relu 256k3b relu 256k2s2tb relu 81k1b"

/* ---- by name ---- */

struct picture {
    struct network_entry entry;
    const char *text; /* of the whole, or around the stages of a residual network */
    struct residual residual;
    struct regnet regnet;
    struct vgg vgg;
    struct mobile mobile;
    int32_t growth, narrow, blocks[4], width[4]; /* dense: growth; Swin: narrow; others: width */
};

#define CLASSES           "$$$$avg fc"
#define RESIDUAL(...)     .text = CLASSES, .residual = {__VA_ARGS__}
#define MOBILE(rows, ...) .mobile = {.row = rows, __VA_ARGS__}
#define EFFICIENT(w, d)                                                                            \
    MOBILE(efficientnet, .stem = 32, .wide = w, .deep = d, .act = 's', .squeeze = 4)
#define MNAS(w)       MOBILE(mnasnet, .stem = 32, .head = 1280, .wide = w, .deep = 1, .act = 'r')
#define DENSE(g, ...) .growth = g, .blocks = {__VA_ARGS__}
#define WIDTHS(...)   .width = {__VA_ARGS__}
#define BLOCKS(...)   .blocks = {__VA_ARGS__}

#define P(called, what, ...)                                                                       \
    {                                                                                              \
        .entry.name = called, .entry.help = what, __VA_ARGS__                                      \
    }

static const struct picture pictures[] = {
    P("resnext50_32x4d", "ResNeXt", RESIDUAL({3, 4, 6, 3}, 2, 32, false)),
    P("resnext101_32x4d", "ResNeXt", RESIDUAL({3, 4, 23, 3}, 2, 32, false)),
    P("resnext101_32x8d", "ResNeXt", RESIDUAL({3, 4, 23, 3}, 4, 32, false)),
    P("resnext101_64x4d", "ResNeXt", RESIDUAL({3, 4, 23, 3}, 4, 64, false)),
    P("se_resnext101_32x4d", "ResNeXt that squeezes", RESIDUAL({3, 4, 23, 3}, 2, 32, true)),
    P("wide_resnet50_2", "wide residual network", RESIDUAL({3, 4, 6, 3}, 2, 1, false)),
    P("wide_resnet101_2", "wide residual network", RESIDUAL({3, 4, 23, 3}, 2, 1, false)),
    P("regnet_x_400mf", "RegNet X", .regnet = {{1, 2, 7, 12}, {32, 64, 160, 400}, 16}),
    P("regnet_x_800mf", "RegNet X", .regnet = {{1, 3, 7, 5}, {64, 128, 288, 672}, 16}),
    P("regnet_x_1_6gf", "RegNet X", .regnet = {{2, 4, 10, 2}, {72, 168, 408, 912}, 24}),
    P("regnet_x_3_2gf", "RegNet X", .regnet = {{2, 6, 15, 2}, {96, 192, 432, 1008}, 48}),
    P("regnet_x_8gf", "RegNet X", .regnet = {{2, 5, 15, 1}, {80, 240, 720, 1920}, 120}),
    P("mobilenet_v2", "MobileNet",
      MOBILE(mobilenet_v2, .stem = 32, .head = 1280, .wide = 1, .deep = 1, .act = 'r')),
    P("mobilenet_v3_small", "MobileNet", .text = MOBILENET_V3_SMALL),
    P("mobilenet_v3_large", "MobileNet", .text = MOBILENET_V3_LARGE),
    P("mnasnet0_5", "MNASNet", MNAS(0.5)),
    P("mnasnet0_75", "MNASNet", MNAS(0.75)),
    P("mnasnet1_0", "MNASNet", MNAS(1)),
    P("mnasnet1_3", "MNASNet", MNAS(1.3)),
    P("efficientnet_b0", "EfficientNet", EFFICIENT(1, 1)),
    P("efficientnet_b1", "EfficientNet", .entry.side = 240, EFFICIENT(1, 1.1)),
    P("efficientnet_b2", "EfficientNet", .entry.side = 260, EFFICIENT(1.1, 1.2)),
    P("efficientnet_b3", "EfficientNet", .entry.side = 300, EFFICIENT(1.2, 1.4)),
    P("efficientnet_b4", "EfficientNet", .entry.side = 380, EFFICIENT(1.4, 1.8)),
    P("efficientnet_b5", "EfficientNet", .entry.side = 456, EFFICIENT(1.6, 2.2)),
    P("efficientnet_b6", "EfficientNet", .entry.side = 528, EFFICIENT(1.8, 2.6)),
    P("efficientnet_b7", "EfficientNet", .entry.side = 600, EFFICIENT(2, 3.1)),
    P("efficientnet_widese_b0", "EfficientNet", EFFICIENT(1, 1), .mobile.wide_squeeze = true),
    P("efficientnet_widese_b4", "EfficientNet", .entry.side = 380, EFFICIENT(1.4, 1.8),
      .mobile.wide_squeeze = true),
    P("efficientnet_v2_s", "EfficientNet v2",
      MOBILE(efficientnet_v2_s, .stem = 24, .head = 1280, .wide = 1, .deep = 1, .act = 's',
             .squeeze = 4, .fused = 3)),
    P("densenet121", "DenseNet", DENSE(32, 6, 12, 24, 16)),
    P("densenet161", "DenseNet", DENSE(48, 6, 12, 36, 24)),
    P("densenet169", "DenseNet", DENSE(32, 6, 12, 32, 32)),
    P("densenet201", "DenseNet", DENSE(32, 6, 12, 48, 32)),
    P("shufflenet_v2_x0_5", "ShuffleNet", WIDTHS(48, 96, 192, 1024)),
    P("shufflenet_v2_x1_0", "ShuffleNet", WIDTHS(116, 232, 464, 1024)),
    P("shufflenet_v2_x1_5", "ShuffleNet", WIDTHS(176, 352, 704, 1024)),
    P("shufflenet_v2_x2_0", "ShuffleNet", WIDTHS(244, 488, 976, 2048)),
    P("convnext_tiny", "ConvNeXt", BLOCKS(3, 3, 9, 3), WIDTHS(96, 192, 384, 768)),
    P("convnext_small", "ConvNeXt", BLOCKS(3, 3, 27, 3), WIDTHS(96, 192, 384, 768)),
    P("convnext_base", "ConvNeXt", BLOCKS(3, 3, 27, 3), WIDTHS(128, 256, 512, 1024)),
    P("convnext_large", "ConvNeXt", BLOCKS(3, 3, 27, 3), WIDTHS(192, 384, 768, 1536)),
    P("swin_t", "Swin", BLOCKS(2, 2, 6, 2), .narrow = 96),
    P("swin_s", "Swin", BLOCKS(2, 2, 18, 2), .narrow = 96),
    P("swin_b", "Swin", BLOCKS(2, 2, 18, 2), .narrow = 128),
    P("vgg11", "VGG", .vgg = {1, 2, false}),
    P("vgg11_bn", "VGG with batch norm", .vgg = {1, 2, true}),
    P("vgg13", "VGG", .vgg = {2, 2, false}),
    P("vgg13_bn", "VGG with batch norm", .vgg = {2, 2, true}),
    P("vgg16_bn", "VGG with batch norm", .vgg = {2, 3, true}),
    P("vgg19", "VGG", .vgg = {2, 4, false}),
    P("vgg19_bn", "VGG with batch norm", .vgg = {2, 4, true}),
    P("alexnet", "AlexNet (Krizhevsky 2014)", .entry.smallest = 63, .text = ALEXNET),
    P("squeezenet1_0", "SqueezeNet", .text = SQUEEZENET_1_0),
    P("squeezenet1_1", "SqueezeNet", .text = SQUEEZENET_1_1),
    P("googlenet", "GoogLeNet with batch norm", .text = GOOGLENET),
    P("inception_v3", "Inception v3, of images of 299 pixels", .entry.smallest = 267,
      .entry.side = 299, .text = INCEPTION_V3),
    P("unet", "U-Net with batch norm", .entry.smallest = 16, .entry.multiple = 16, .text = UNET),
    P("ssd300_resnet50", "SSD, of images of 300 pixels", .entry.smallest = 300, .entry.side = 300,
      .text = SSD_R50, .residual = {{3, 4, 6}, 1, 1, false}),
    P("ssd_resnet34", "SSD, of images of 300 pixels", .entry.smallest = 300, .entry.side = 300,
      .text = SSD_R34),
    P("retinanet_resnext50_32x4d", "RetinaNet, of images of 800 pixels", .entry.smallest = 128,
      .entry.multiple = 32, .entry.side = 800, .text = RETINANET,
      .residual = {{3, 4, 6, 3}, 2, 32, false}),
    P("maskrcnn_r50_fpn", "Mask R-CNN, of images of 1024 pixels", .entry.smallest = 64,
      .entry.multiple = 32, .entry.side = 1024, .text = MASK_RCNN,
      .residual = {{3, 4, 6, 3}, 1, 1, false}),
};

static void write_text(struct text *out, const struct picture *p)
{
    if (p->residual.wide)
        residual(out, &p->residual, p->text);
    else if (p->text)
        text_add(out, "%s", p->text);
    else if (p->regnet.group)
        regnet(out, &p->regnet);
    else if (p->vgg.first)
        vgg(out, &p->vgg);
    else if (p->mobile.row)
        mobile(out, &p->mobile);
    else if (p->growth)
        dense(out, p->blocks, p->growth);
    else if (p->narrow)
        swin(out, p->blocks, p->narrow);
    else if (p->blocks[0])
        convnext(out, p->blocks, p->width);
    else
        shuffle(out, p->width);
}

const struct network_entry *picture_entry(int32_t index)
{
    return index < (int32_t)ARRAY_SIZE(pictures) ? &pictures[index].entry : NULL;
}

void picture_build(struct model *model, int32_t index)
{
    AUTORELEASE(text) struct text text = {0};
    write_text(&text, &pictures[index]);
    notation_build(model, text.data);
}
