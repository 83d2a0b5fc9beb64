#include "app/process/cores.h"

#include <sched.h>

#include "config.h"
#if HAVE_HWLOC
#include <hwloc.h>
#endif

static int32_t hardware_threads(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof(set), &set) ? 1 : CPU_COUNT(&set);
    return count > 1 ? count : 1;
}

#if HAVE_HWLOC
/* Cores of @topology with a hardware thread that we may use; 0: unknown. */
static int32_t count_cores(hwloc_topology_t topology)
{
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    int32_t count = 0;
    if (hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) == 0) {
        int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        for (int i = 0; i < cores; i++) {
            hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i);
            count += hwloc_bitmap_intersects(core->cpuset, mine) != 0;
        }
    }
    hwloc_bitmap_free(mine);
    return count;
}

int32_t cores_available(void)
{
    hwloc_topology_t topology;
    int32_t count = 0;
    if (hwloc_topology_init(&topology))
        return hardware_threads();
    if (!hwloc_topology_load(topology))
        count = count_cores(topology);
    hwloc_topology_destroy(topology);
    return count > 0 ? count : hardware_threads();
}
#else
int32_t cores_available(void)
{
    return hardware_threads();
}
#endif
