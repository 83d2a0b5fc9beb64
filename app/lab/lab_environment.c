#include <stdlib.h>

#include "app/lab/lab_net.h"
#include "app/lab/lab_on.h"
#include "core/base/base.h"

/* Of Open MPI 4 and 5, as the environment of mpirun: hosts are entered, not logged in to; its own
 * messages take the second network; data use one TCP connection per pair of ranks, over the shaped
 * network, each message at once (a rendezvous would wait behind data in the queues); waiting ranks
 * yield.  What starts the ranks of version 5 is PRRTE, which has its own names. */
static const char *const parameters[][2] = {
    {"OMPI_MCA_plm", "rsh"},
    {"OMPI_MCA_plm_rsh_agent", LAB_PROGRAMS "/" LAB_AGENT},
    {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
    {"OMPI_MCA_plm_rsh_num_concurrent", "128"},
    {"OMPI_MCA_oob", "tcp"},
    {"OMPI_MCA_oob_tcp_if_include", "10.78.0.0/16"},
    {"OMPI_MCA_routed", "direct"},
    {"OMPI_MCA_orte_default_hostfile", "/run/lab/hostfile"},
    {"OMPI_MCA_orte_tmpdir_base", "/run/lab/tmp"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_rmaps_base_mapping_policy", "slot"},
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_btl", "tcp,self"},
    {"OMPI_MCA_btl_tcp_if_include", "10.77.0.0/16"},
    {"OMPI_MCA_btl_tcp_links", "1"},
    {"OMPI_MCA_btl_tcp_eager_limit", "4194304"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"PRTE_MCA_plm_ssh_agent", LAB_PROGRAMS "/" LAB_AGENT},
    {"PRTE_MCA_plm_ssh_no_tree_spawn", "1"},
    {"PRTE_MCA_prte_if_include", "10.78.0.0/16"},
    {"PRTE_MCA_prte_default_hostfile", "/run/lab/hostfile"},
    {"PRTE_MCA_prte_tmpdir_base", "/run/lab/tmp"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
    {"PRTE_MCA_rmaps_default_mapping_policy", "slot"},
};

void lab_set_environment(const struct cabling *cabling)
{
    for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
        setenv(parameters[i][0], parameters[i][1], 1);
    AUTOFREE char *path = base_format("%s:%s", LAB_PROGRAMS, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("TMPDIR", "/run/lab/tmp", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("FORETRAIN_LAB", cabling->name, 1);
}
