/** @file
 * Replaces the readers of XML in builds without expat: they are refused.
 */

#include "app/import/import.h"

static int refuse(const struct import *import, struct err *err)
{
    return err_add_code(err, 69,
                        "%s: XML is read with expat, which this foretrain was built without",
                        import->file);
}

int import_nccl_topo(struct import *import, const struct import_request *request, struct err *err)
{
    return refuse(import, err);
}

int import_hwloc(struct import *import, const struct import_request *request, struct err *err)
{
    return refuse(import, err);
}
