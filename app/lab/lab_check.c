#include <math.h>
#include <stdio.h>

#include "app/lab/lab.h"
#include "core/base/unit.h"

/* Maximum latency that software adds to a message without any delay of links; in a lab it is
 * already present. */
static const double between_limit = 200e-6; /* [s] */

/* Cables inside a node are not shaped, so they must never be the bottleneck. */
static const double inside_factor = 10.0;

static const double efficiency_tolerance = 1e-3;

int32_t lab_hosts(const struct cabling *cabling)
{
    return cabling->nodes * cabling->nics;
}

void lab_host_name(const struct cabling *cabling, int32_t host, char *name)
{
    int32_t node = host / cabling->nics, nic = host % cabling->nics;
    if (cabling->nics == 1)
        snprintf(name, LAB_NAME_LIMIT, "h%d", node);
    else
        snprintf(name, LAB_NAME_LIMIT, "h%dn%d", node, nic);
}

int32_t lab_slots(const struct cabling *cabling, int32_t nic)
{
    int32_t slots = 0;
    for (int32_t i = 0; i < cabling->devices; i++)
        slots += cabling->nic_of[i] == nic;
    return slots;
}

static int refuse_latency(const struct cabling *cabling, const char *path, double latency,
                          double limit, struct err *err)
{
    if (latency <= limit)
        return 0;
    err_add_code(err, 69,
                 "%s: error: %s is %s: the lab shapes rates and cannot delay; %s, or leave this "
                 "platform to the simulator",
                 cabling->file, path, unit_text(UNIT_SECONDS, latency),
                 limit > 0 ? "at most 200 us are its own" : "write 0 us");
    return -1;
}

static int refuse_efficiency(const struct cabling *cabling, const char *path, double efficiency,
                             struct err *err)
{
    const double own = (double)LAB_PAYLOAD / LAB_FRAME;
    if (fabs(efficiency - own) <= efficiency_tolerance)
        return 0;
    return err_add_code(err, 69,
                        "%s: error: %s is %.4g %%: the lab's frames carry %.5g %% (%d of %d "
                        "bytes); write that and put the difference into the bandwidth",
                        cabling->file, path, 100.0 * efficiency, 100.0 * own, LAB_PAYLOAD,
                        LAB_FRAME);
}

static int check_cable(const struct cabling *cabling, const char *prefix,
                       const struct lab_cable *cable, struct err *err)
{
    AUTOFREE char *latency = base_format("%s.latency", prefix);
    AUTOFREE char *efficiency = base_format("%s.efficiency", prefix);
    int failed = refuse_latency(cabling, latency, cable->latency, 0.0, err);
    failed |= refuse_efficiency(cabling, efficiency, cable->efficiency, err);
    return failed;
}

static int check_inside(const struct cabling *cabling, struct err *err)
{
    double card = cabling->nic.bandwidth * cabling->nic.efficiency;
    int failed =
        refuse_latency(cabling, "the latency in node.links", cabling->inside_latency, 0.0, err);
    if (cabling->inside < inside_factor * card)
        failed = err_add_code(err, 69,
                              "%s: error: node.links has a cable of less than %g times a card: the "
                              "lab does not shape the inside of nodes, so it must be too fast to "
                              "decide",
                              cabling->file, inside_factor);
    return failed;
}

/* MPI fills a host before the next, so the devices of a card must be neighbours. */
static int check_cards(const struct cabling *cabling, struct err *err)
{
    for (int32_t i = 1; i < cabling->devices; i++)
        if (cabling->nic_of[i] < cabling->nic_of[i - 1])
            return err_add_code(err, 69,
                                "%s: error: gpu%d uses nic%d and gpu%d nic%d: in a lab the devices "
                                "of a card stand side by side, in the order of cards; renumber "
                                "them in node.edges",
                                cabling->file, i - 1, cabling->nic_of[i - 1], i,
                                cabling->nic_of[i]);
    for (int32_t nic = 0; nic < cabling->nics; nic++)
        if (!lab_slots(cabling, nic))
            return err_add_code(err, 69, "%s: error: no device uses nic%d: leave it out",
                                cabling->file, nic);
    return 0;
}

int lab_check(const struct cabling *cabling, struct err *err)
{
    int64_t hosts = (int64_t)cabling->nodes * cabling->nics;
    int failed = 0;
    if (hosts > LAB_HOST_LIMIT)
        failed = err_add_code(err, 69,
                              "%s: error: %lld network cards; a lab has at most %d hosts: describe "
                              "a miniature, such as platforms/lab/abci-mini.yaml",
                              cabling->file, (long long)hosts, LAB_HOST_LIMIT);
    failed |= check_cable(cabling, "network.nic", &cabling->nic, err);
    for (int32_t i = 0; i < cabling->tier_count; i++) {
        AUTOFREE char *prefix = base_format("network.tiers.%d", i);
        failed |= check_cable(cabling, prefix, &cabling->tier[i].cable, err);
    }
    failed |= refuse_latency(cabling, "transport.between", cabling->between, between_limit, err);
    failed |= check_inside(cabling, err);
    failed |= check_cards(cabling, err);
    return failed ? -1 : 0;
}
