#include "core/base/dtype.h"

#include "core/base/base.h"

const char *const dtype_names[] = {"fp32", "fp16", "bf16", NULL};
static_assert(ARRAY_SIZE(dtype_names) == DTYPE_COUNT + 1, "one name per dtype");

const char *const product_names[] = {"compute", "fp8", "fp4", NULL};
static_assert(ARRAY_SIZE(product_names) == PRODUCTS_COUNT + 1, "one name each");

int32_t dtype_size(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 4 : 2;
}
