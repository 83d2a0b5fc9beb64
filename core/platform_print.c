#include "core/platform.h"

void platform_print(struct text *out, const struct platform *platform)
{
    text_add(out, "%s\n", platform_name(platform));
}
