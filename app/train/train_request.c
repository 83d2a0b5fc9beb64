#include "app/train/train_request.h"

#include "core/scenario/scenario_change.h"

const struct train_request train_defaults = {
    .traced = 4, .timeout = REQUEST_TIMEOUT, .time_scale = 1};

int train_request_check(const struct train_request *request, struct err *err)
{
    for (int32_t i = 0; i < request->allow_change.count; i++)
        if (scenario_check_key(request->allow_change.item[i], err))
            return -1;
    return 0;
}
