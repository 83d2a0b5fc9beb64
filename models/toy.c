/* Three convolutions with batch norm and a linear layer, to check by hand and train in a test. */

#include "models/build.h"

void toy_build(struct model *model)
{
    int32_t at = -1;
    for (int32_t i = 1; i <= 3; i++) {
        at = build_layer(model, at, "body", "body",
                         (struct layer){.op = LAYER_CONVOLUTION,
                                        .out.channels = 8 << i,
                                        .kernel = 3,
                                        .stride = i == 1 ? 1 : 2,
                                        .padding = 1},
                         "conv%d", i);
        at = build_layer(model, at, "body", "body",
                         (struct layer){.op = LAYER_BATCH_NORM, .stride = 1, .relu = true}, "bn%d",
                         i);
    }
    build_head(model, at);
}
