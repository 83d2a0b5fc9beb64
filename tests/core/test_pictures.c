/* Networks of pictures against torchvision, whose counts are these. */

#include "models/networks.h"
#include "tests/core/own.h"
#include "tests/test.h"

static struct model *build(const char *name, int32_t image)
{
    struct err err = {0};
    struct model *model = network_build(name, image, 1000, &err);
    assert_ok(model, err);
    return model;
}

/* Source: num_params and _ops of torchvision's weights; ops that it rounds or lacks: 0.
 * unet: 31,037,698 of milesial/Pytorch-UNet for two classes, plus 64 + 1 for each class more.  Mask
 * R-CNN: 44,401,393 of torchvision for 91 classes, less 10 * 5,382, plus 53,120 of batch norms that
 * are frozen there. */
static const struct {
    const char *name;
    int32_t image;
    int64_t parameters;
    double billions; /* multiply-adds forward */
} published[] = {
    {"resnext50_32x4d", 224, 25028904, 4.230},
    {"resnext101_32x8d", 224, 88791336, 16.414},
    {"resnext101_64x4d", 224, 83455272, 15.460},
    {"wide_resnet50_2", 224, 68883240, 11.398},
    {"wide_resnet101_2", 224, 126886696, 22.753},
    {"regnet_x_400mf", 224, 5495976, 0.414},
    {"regnet_x_800mf", 224, 7259656, 0.800},
    {"regnet_x_1_6gf", 224, 9190136, 1.603},
    {"regnet_x_3_2gf", 224, 15296552, 3.177},
    {"regnet_x_8gf", 224, 39572648, 7.995},
    {"mobilenet_v2", 224, 3504872, 0.301},
    {"mobilenet_v3_small", 224, 2542856, 0.057},
    {"mobilenet_v3_large", 224, 5483032, 0.217},
    {"mnasnet0_5", 224, 2218512, 0.104},
    {"mnasnet0_75", 224, 3170208, 0.215},
    {"mnasnet1_0", 224, 4383312, 0.314},
    {"mnasnet1_3", 224, 6282256, 0.526},
    {"efficientnet_b0", 224, 5288548, 0.386},
    {"efficientnet_b1", 240, 7794184, 0.687},
    {"efficientnet_b2", 288, 9109994, 1.088},
    {"efficientnet_b3", 300, 12233232, 1.827},
    {"efficientnet_b4", 380, 19341616, 4.394},
    {"efficientnet_b5", 456, 30389784, 10.266},
    {"efficientnet_b6", 528, 43040704, 19.068},
    {"efficientnet_b7", 600, 66347960, 37.746},
    {"efficientnet_v2_s", 384, 21458488, 8.366},
    {"densenet121", 224, 7978856, 2.834},
    {"densenet161", 224, 28681000, 7.728},
    {"densenet169", 224, 14149480, 3.360},
    {"densenet201", 224, 20013928, 4.291},
    {"shufflenet_v2_x0_5", 224, 1366792, 0.040},
    {"shufflenet_v2_x1_0", 224, 2278604, 0.145},
    {"shufflenet_v2_x1_5", 224, 3503624, 0.296},
    {"shufflenet_v2_x2_0", 224, 7393996, 0.583},
    {"convnext_tiny", 224, 28589128, 4.456},
    {"convnext_small", 224, 50223688, 8.684},
    {"convnext_base", 224, 88591464, 15.355},
    {"convnext_large", 224, 197767336, 34.361},
    {"swin_t", 224, 28288354, 4.491},
    {"swin_s", 224, 49606258, 8.741},
    {"swin_b", 224, 87768224, 15.431},
    {"vgg11", 224, 132863336, 7.609},
    {"vgg11_bn", 224, 132868840, 7.609},
    {"vgg13", 224, 133047848, 11.308},
    {"vgg13_bn", 224, 133053736, 11.308},
    {"vgg16_bn", 224, 138365992, 15.470},
    {"vgg19", 224, 143667240, 19.632},
    {"vgg19_bn", 224, 143678248, 19.632},
    {"alexnet", 224, 61100840, 0.714},
    {"squeezenet1_0", 224, 1248424, 0.819},
    {"squeezenet1_1", 224, 1235496, 0.349},
    {"googlenet", 224, 6624904, 1.498},
    {"inception_v3", 299, 27161264, 5.719},
    {"unet", 256, 31037698 + 998 * 65, 0},
    {"maskrcnn_r50_fpn", 1024, 44400693, 0},
};

TEST(has_the_counts_of_torchvision)
{
    for (size_t i = 0; i < sizeof(published) / sizeof(*published); i++) {
        OWN(model) *model = build(published[i].name, published[i].image);
        double billions = (double)model_flops(model, PASS_FORWARD) / 2e9;
        assert_int_equal(model_parameters(model) + model_frozen(model), published[i].parameters);
        if (published[i].billions > 0 && !(billions > published[i].billions * 0.997 - 0.0005 &&
                                           billions < published[i].billions * 1.003 + 0.0005))
            fail_msg("%s: %.3f billion multiply-adds, not %.3f", published[i].name, billions,
                     published[i].billions);
    }
}

TEST(refuses_sides_that_do_not_fit)
{
    static const struct {
        const char *name, *message;
        int32_t image;
    } cases[] = {{"alexnet", "at least 63 pixels", 62},
                 {"inception_v3", "at least 267 pixels", 266},
                 {"ssd300_resnet50", "at least 300 pixels", 299},
                 {"unet", "a multiple of 16 pixels, not 40", 40},
                 {"efficientnet-b9", "did you mean 'efficientnet_b0'", 224}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        HELD(err) err = {0};
        assert_null(network_build(cases[i].name, cases[i].image, 1000, &err));
        assert_message(&err, 65, cases[i].message);
    }
}

/* Each of them at the least side, and the next one that is odd. */
TEST(builds_the_smallest_images)
{
    static const struct {
        const char *name;
        int32_t side;
    } least[] = {{"alexnet", 63},
                 {"inception_v3", 267},
                 {"ssd300_resnet50", 300},
                 {"ssd_resnet34", 300},
                 {"unet", 16},
                 {"maskrcnn_r50_fpn", 64},
                 {"retinanet_resnext50_32x4d", 128}};
    for (size_t i = 0; i < sizeof(least) / sizeof(*least); i++) {
        OWN(model) *model = build(least[i].name, least[i].side);
        assert_true(model_parameters(model) > 0);
    }
    for (size_t i = 0; i < sizeof(published) / sizeof(*published); i++)
        for (int32_t side = 75; side < 80; side++) {
            struct err err = {0};
            struct model *model = network_build(published[i].name, side, 10, &err);
            err_release(&err);
            model_free(model);
        }
}
