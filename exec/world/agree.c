
#include "exec/world/world.h"

int world_agree(int failed, struct err *err)
{
    int64_t code = failed ? err->exit_code : 0;
    world_max(&code, 1);
    if (code && !failed)
        return err_exit(err, (int32_t)code);
    return code ? -1 : 0;
}
