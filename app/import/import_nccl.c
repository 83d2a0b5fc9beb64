#include "app/import/import.h"
#include "core/network/fabric.h"
#include "core/platform/platform.h"

/* The platform on which @ranks ranks on @nodes nodes were timed: the user's, or one of the library
 * whose nodes have as many of these devices, without switches that reduce.  NULL: none. */
static struct platform *find(struct import *import, const struct import_request *request,
                             int32_t share, int32_t nodes, struct err *err)
{
    if (request->platform)
        import->base = base_copy(request->platform);
    else if (import->device)
        import->base = platform_like(import->device, share, 0, 0);
    struct platform *platform = import->base ? platform_read(import->base, err) : NULL;
    if (!platform)
        return NULL;
    platform_continue(platform, nodes);
    AUTORELEASE(err) struct err reasons = {0};
    if (platform_check_nccl(platform, request->platform ? err : &reasons)) {
        platform_free(platform);
        return NULL;
    }
    if (request->platform)
        return platform;
    platform->nccl.sharp = false;
    import->nodes = nodes;
    import_assume(import,
                  "node and network of %s, whose nodes have %d of these devices, without switches "
                  "that reduce (nccl.sharp): --platform NAME chooses others",
                  import->base, share);
    return platform;
}

static void add_row(struct import *import, double bytes, double measured, struct nccl_choice model)
{
    struct text *table = &import->comparison;
    if (!table->length)
        text_add(table, "%12s %14s %14s %9s  %s\n", "size [B]", "measured [us]", "model [us]",
                 "error", "NCCL's choice");
    text_add(table, "%12.0f %14.2f %14.2f %+7.1f %%  %s %s\n", bytes, 1e6 * measured,
             1e6 * model.seconds, 100 * (model.seconds / measured - 1),
             nccl_algorithm_name(model.algorithm), nccl_protocol_name(model.protocol));
    struct import_nccl *nccl = &import->nccl;
    nccl->correction[nccl->corrections++] = (struct nccl_correction){
        (int32_t)model.protocol, bytes / model.bandwidth, measured / model.seconds};
    import->result.size[import->result.sizes++] =
        (struct import_size){bytes, measured, model.seconds, false};
}

/* Compare the times with NCCL's model of @world. */
static void compare(struct import *import, const struct curve *curve, struct nccl_world *world)
{
    double squares = 0;
    if (import->nccl.version)
        world->version = import->nccl.version;
    import->nccl.version = world->version;
    for (int32_t i = 0; i < curve->count; i++) {
        struct nccl_choice model =
            nccl_choose(world, COLLECTIVE_ALL_REDUCE, (int64_t)curve->size[i]);
        add_row(import, curve->size[i], curve->seconds[i], model);
        squares += pow(model.seconds / curve->seconds[i] - 1, 2);
    }
    import->result.residual = sqrt(squares / curve->count);
    import_note(import,
                "NCCL %d.%d's own model of %s is off by %.3g %% (root mean square); the file "
                "corrects it at each size, and where bytes take as long on other numbers of nodes",
                world->version / 100, world->version % 100, import->base,
                100 * import->result.residual);
}

int import_fit_nccl(struct import *import, const struct import_request *request,
                    const struct curve *curve, int32_t ranks, int32_t nodes, struct err *err)
{
    int32_t share = nodes > 0 && ranks % nodes == 0 ? ranks / nodes : 0;
    int64_t before = err->count;
    struct platform *platform =
        ranks > 1 && share ? find(import, request, share, nodes, err) : NULL;
    struct grid line = {.columns = ranks, .rows = 1};
    struct fabric *fabric = platform ? platform_fabric(platform, nodes, share, line, err) : NULL;
    import->result.ranks = ranks;
    import->result.nodes = nodes;
    if (fabric)
        compare(import, curve, &fabric->nccl);
    import->nccl.nodes = nodes;
    import->nccl.no_sharp = !request->platform;
    fabric_free(fabric);
    platform_free(platform);
    if (fabric || err->count > before)
        return fabric ? 0 : -1;
    free(import->base);
    import->base = NULL;
    import_warn(import,
                "no platform here with nodes of %d %s has NCCL's model: these times are those of a "
                "ring, and more nodes, where NCCL and RCCL take trees, look too slow; 'foretrain "
                "new platform' drafts one for --platform where NCCL runs",
                share, import->device ? import->device : "such devices");
    return 1;
}
