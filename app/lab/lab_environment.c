#include <stdlib.h>

#include "app/lab/lab_net.h"
#include "app/lab/lab_on.h"
#include "core/base/base.h"

/* Of Open MPI 4.1, as the environment of mpirun: hosts are entered, not logged in to; its own
 * messages take the second network; data use one TCP connection per pair of ranks, over the shaped
 * network, each message at once (a rendezvous would wait behind data in the queues); waiting ranks
 * yield. */
static const char *const parameters[][2] = {
    {"plm", "rsh"},
    {"plm_rsh_agent", LAB_PROGRAMS "/" LAB_AGENT},
    {"plm_rsh_no_tree_spawn", "1"},
    {"plm_rsh_num_concurrent", "128"},
    {"oob", "tcp"},
    {"oob_tcp_if_include", "10.78.0.0/16"},
    {"routed", "direct"},
    {"orte_default_hostfile", "/run/lab/hostfile"},
    {"orte_tmpdir_base", "/run/lab/tmp"},
    {"hwloc_base_binding_policy", "none"},
    {"rmaps_base_mapping_policy", "slot"},
    {"pml", "ob1"},
    {"btl", "tcp,self"},
    {"btl_tcp_if_include", "10.77.0.0/16"},
    {"btl_tcp_links", "1"},
    {"btl_tcp_eager_limit", "4194304"},
    {"mpi_yield_when_idle", "1"},
};

void lab_set_environment(const struct cabling *cabling)
{
    for (size_t i = 0; i < ARRAY_SIZE(parameters); i++) {
        AUTOFREE char *name = base_format("OMPI_MCA_%s", parameters[i][0]);
        setenv(name, parameters[i][1], 1);
    }
    AUTOFREE char *path = base_format("%s:%s", LAB_PROGRAMS, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("TMPDIR", "/run/lab/tmp", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("FORETRAIN_LAB", cabling->name, 1);
}
