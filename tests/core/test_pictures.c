/* Networks of pictures against torchvision, whose counts are these. */

#include "tests/core/own.h"
#include "tests/core/published.h"
#include "tests/test.h"

TEST(has_the_counts_of_torchvision)
{
    for (const struct published_network *p = published_networks; p->name; p++) {
        OWN(model) *model = network_of(p->name, p->image, 1000);
        double billions = (double)model_flops(model, PASS_FORWARD) / 2e9;
        assert_int_equal(model_parameters(model) + model_frozen(model), p->parameters);
        if (p->billions > 0 && fabs(billions - p->billions) >= 0.003 * p->billions + 0.0005)
            fail_msg("%s: %.3f billion multiply-adds, not %.3f", p->name, billions, p->billions);
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
        OWN(model) *model = network_of(least[i].name, least[i].side, 1000);
        assert_true(model_parameters(model) > 0);
    }
    for (const struct published_network *p = published_networks; p->name; p++)
        for (int32_t side = 75; side < 80; side++) {
            struct err err = {0};
            struct model *model = network_build(p->name, side, 10, &err);
            err_release(&err);
            model_free(model);
        }
}
