#include "app/train/train_request.h"

#include "core/scenario/scenario_change.h"

const struct train_request train_defaults = {.traced = 4, .timeout = REQUEST_TIMEOUT};

int train_request_check(const struct train_request *request, struct err *err)
{
    if (request->overwrite && !request->directory)
        return err_add_code(err, 64, "--overwrite has no effect without --out");
    if (request->tune && request->compute.device != DEVICE_CUDA)
        return err_add_code(err, 64, "--tune has no effect without --device cuda");
    if (request->time_scale && request->compute.device != DEVICE_REPLAY)
        return err_add_code(err, 64, "--time-scale has no effect without --device replay");
    if (request->traced != train_defaults.traced && !request->trace && !request->spans)
        return err_add_code(err, 64, "--traced-steps has no effect without --trace or --spans");
    if (request->report && !request->directory)
        return err_add_code(err, 64, "--report shows the log of a run and needs --out");
    if (request->report && request->dry_run)
        return err_add_code(err, 64, "--report has no effect with --dry-run: nothing is run");
    if (request->overwrite && request->resume)
        return err_add_code(
            err, 64, "--overwrite replaces a run and --resume continues it: leave out one of them");
    if (request->allow_change.count > 0 && !request->resume)
        return err_add_code(err, 64, "--allow-change has no effect without --resume");
    for (int32_t i = 0; i < request->allow_change.count; i++)
        if (scenario_check_key(request->allow_change.item[i], err))
            return -1;
    return 0;
}
