#include "app/study/software_fit.h"

#include <math.h>
#include <string.h>

#include "core/config/field_write.h"
#include "core/scenario/scenario.h"

/* Change of an efficiency from one round to the next. */
static const double round_sd = 0.05;

/* Two that differ in the layout of pictures alone. */
static const char channels_last[] = "pytorch", channels_first[] = "pytorch-nchw";

/* An efficiency of the second over that of the first. */
struct layout {
    double ratio, sd; /* geometric mean, and deviation of the logarithm from device to device */
    int32_t devices;  /* that have both; 0: the ratio is not known */
};

/* Both numbers of one fit, with lines indented by @indent. */
static void add_fit(struct text *out, int32_t indent, double efficiency, double overhead,
                    const char *source)
{
    field_write_quantity(out, indent, "efficiency", PROVENANCE_PUBLISHED, 0, source, "%.4g %%",
                         100 * efficiency);
    field_write_quantity(out, indent, "kernel_overhead", PROVENANCE_PUBLISHED, 0, source, "%.4g us",
                         1e6 * overhead);
}

static char *layout_source(const struct software_fit *c, const struct layout *layout)
{
    return base_format("as under %s; efficiency times the ratio of %s to it on %d device%s in %s",
                       channels_last, channels_first, layout->devices, base_plural(layout->devices),
                       c->folder);
}

/* @group for @software, which is in another @layout (NULL: in the same). */
static void add_group(struct text *out, const struct software_fit *c,
                      const struct software_fit_group *group, const char *software,
                      const struct layout *layout)
{
    bool own = !strcmp(group->software, software);
    AUTOFREE char *source =
        own      ? base_format("foretrain calibrate device: %s, round %s, %d run%s on one node",
                               c->folder, software, group->rows, group->rows == 1 ? "" : "s")
        : layout ? layout_source(c, layout)
                 : base_format("as under %s, the nearest in %s", group->software, c->folder);
    text_add(out, "  - device: %s\n    fusion: %s\n", group->device, group->fusion);
    if (group->small_batch)
        text_add(out, "    small_batch: %d\n    small_fusion: %s\n", group->small_batch,
                 group->small_fusion);
    add_fit(out, 4, group->efficiency * (layout ? layout->ratio : 1), group->overhead, source);
    double more = own ? 0 : layout ? layout->sd : round_sd;
    double sd = hypot(group->efficiency_sd, more);
    text_add(out,
             "    efficiency_sd: %.3g %%\n    overhead_sd: %.3g %%\n    correlation: %.3f\n"
             "    residual: %.3g %%\n    rows: %d\n",
             100 * sd, 100 * group->overhead_sd, group->correlation * group->efficiency_sd / sd,
             100 * group->residual, own ? group->rows : 0);
}

/* Under the software, else under MLPerf's of the nearest round if it is one of those, the later of
 * two. */
static const struct software_fit_group *nearest_group(const struct software_fit *c,
                                                      const char *device, const char *software)
{
    static const char prefix[] = "mlperf-";
    const size_t length = sizeof(prefix) - 1;
    const struct software_fit_group *best = NULL;
    double least = INFINITY;
    bool rounds = !strncmp(software, prefix, length);
    for (int32_t i = 0; i < c->groups; i++) {
        const struct software_fit_group *group = &c->group[i];
        bool own = !strcmp(group->software, software);
        bool other = rounds && !strncmp(group->software, prefix, length);
        if (strcmp(group->device, device) || !(own || other))
            continue;
        double distance =
            own ? 0 : fabs(software_round(group->software) - software_round(software));
        if (distance <= least) {
            least = distance;
            best = group;
        }
    }
    return best;
}

/* What pictures in @software's layout cost; nothing, if it is none of the two. */
static struct layout find_layout(const struct software_fit *c, const char *software)
{
    struct layout layout = {1, 0, 0};
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < c->groups && !strcmp(software, channels_first); i++) {
        const struct software_fit_group *first = &c->group[i];
        const struct software_fit_group *last = nearest_group(c, first->device, channels_last);
        if (strcmp(first->software, channels_first) || !last)
            continue;
        double value = log(first->efficiency / last->efficiency);
        sum += value;
        squares += value * value;
        layout.devices++;
    }
    if (!layout.devices)
        return layout;
    double mean = sum / layout.devices;
    layout.ratio = exp(mean);
    /* Assumed of one device: twice the deviation reaches to no difference. */
    layout.sd = layout.devices > 1 ? sqrt(fmax(squares - sum * mean, 0) / (layout.devices - 1))
                                   : fabs(mean) / 2;
    return layout;
}

/* What a device without runs is given: as the devices that have some under @software, if it is none
 * of MLPerf's and there are two or more, else as all of MLPerf's. */
static double fallback_efficiency(const struct software_fit *c, const char *software, bool *own)
{
    double product = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < c->groups && strncmp(software, "mlperf-", 7); i++) {
        bool same = !strcmp(c->group[i].software, software);
        product += same ? log(c->group[i].efficiency) : 0;
        count += same;
    }
    *own = count > 1;
    return *own ? exp(product / count) : c->pool.efficiency;
}

static void add_fallback(struct text *out, const struct software_fit *c, const char *software,
                         const struct software_era *era, const struct layout *layout)
{
    bool own;
    const char *like = layout->devices ? channels_last : software;
    double efficiency = layout->ratio * fallback_efficiency(c, like, &own);
    AUTOFREE char *source =
        layout->devices
            ? layout_source(c, layout)
            : base_format("foretrain calibrate device: %s in %s",
                          own ? "mean of its devices" : "median of all devices", c->folder);
    text_add(out,
             "\n# Of a device without runs; as the device file says, where fusion is not given.\n"
             "fallback:\n");
    if (era->fusion == FUSION_NONE)
        text_add(out, "  fusion: %s\n", fusion_names[era->fusion]);
    add_fit(out, 2, efficiency, c->pool.overhead[era->launch], source);
    text_add(out,
             "  efficiency_sd: %.3g %%\n  overhead_sd: %.3g %%\n  residual: %.3g %%\n  rows: 0\n",
             100 * hypot(c->pool.efficiency_sd, layout->sd), 100 * c->pool.overhead_sd[era->launch],
             100 * c->residual);
}

static void add_startup(struct text *out, const struct software_fit *c, const char *software)
{
    struct software_fit_startup startup;
    if (!software_fit_startup(c, software, &startup))
        return;
    AUTOFREE char *source =
        base_format("foretrain calibrate device: %s, median of %d run%s %s on one node: "
                    "all but epochs and evaluations",
                    c->folder, startup.runs, startup.runs == 1 ? "" : "s", startup.whence);
    field_write_quantity(out, 0, "startup", PROVENANCE_PUBLISHED, 0, source, "%.4g s",
                         startup.seconds);
}

void software_fit_profile(struct text *out, const struct software_fit *c, const char *software)
{
    const struct software_era *era = software_era(software);
    const struct layout layout = find_layout(c, software);
    text_add(out, SOFTWARE_FIT_PROFILE " device --from ");
    field_write_text(out, c->folder);
    text_add(out, "\nversion: 1\n");
    field_write_line(out, 0, "name", software);
    field_write_line(out, 0, "description", era->description);
    text_add(out, "nccl: %d\ncuda_graphs: %s\ngroups: %d\noverlap: %s\n%s", era->nccl,
             era->launch == LAUNCH_GRAPH ? "true" : "false", era->groups_at_scale,
             era->overlap ? "backward" : "none", era->wide_gradients ? "gradients: fp32\n" : "");
    field_write_quantity(out, 0, "jitter", PROVENANCE_PUBLISHED, 0,
                         "NVIDIA DeepLearningExamples, MXNet ResNet-50: one device against eight, "
                         "V100 and A100",
                         "%.3g %%", 100 * CALIBRATION_JITTER);
    if (era->overlap_costs)
        text_add(out, "%s", era->overlap_costs);
    add_startup(out, c, software);
    if (layout.devices)
        field_write_line(out, 0, "without_layout", channels_last);
    add_fallback(out, c, software, era, &layout);
    text_add(out, "\nfits:\n");
    for (int32_t i = 0; i < c->devices; i++) {
        const struct software_fit_group *group = nearest_group(c, c->device[i], software);
        if (group)
            add_group(out, c, group, software, NULL);
        else if (layout.devices && (group = nearest_group(c, c->device[i], channels_last)))
            add_group(out, c, group, software, &layout);
    }
}
