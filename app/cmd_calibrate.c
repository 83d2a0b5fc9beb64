#include <errno.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/calibration.h"
#include "app/command.h"

static void print_fits(struct text *out, const struct calibration *c)
{
    text_add(out, "%-14s %-22s %-9s %4s %16s %18s %9s\n", "software", "device", "fusion", "runs",
             "efficiency", "per kernel", "residual");
    for (int32_t i = 0; i < c->groups; i++) {
        const struct calibration_group *g = &c->group[i];
        text_add(out, "%-14s %-22s %-9s %4d %7.1f %% +- %4.1f %8.2f us +- %4.1f %7.1f %%\n",
                 g->software, g->device, g->fusion, g->rows, 100 * g->efficiency,
                 100 * g->efficiency * g->efficiency_sd, 1e6 * g->overhead,
                 1e6 * g->overhead * g->overhead_sd, 100 * g->residual);
    }
    text_add(out, "%-14s %-22s %-9s %4s %7.1f %% +- %4.1f %8.2f us +- %4.1f\n", "any",
             "(a device without runs)", "", "", 100 * c->pool.efficiency,
             100 * c->pool.efficiency * c->pool.efficiency_sd, 1e6 * c->pool.overhead[LAUNCH_GRAPH],
             1e6 * c->pool.overhead[LAUNCH_GRAPH] * c->pool.overhead_sd[LAUNCH_GRAPH]);
    text_add(out, "\n%d runs fitted, median error %.1f %%", c->rows, 100 * c->median_error);
    if (c->several)
        text_add(out, "; %d on several nodes left out", c->several);
    if (c->unknown)
        text_add(out, "; %d of unknown devices or in doubt left out", c->unknown);
    text_add(out, "\n");
}

static double median_check(const struct calibration *c)
{
    double *error = base_alloc(c->checks, sizeof(*error));
    for (int32_t i = 0; i < c->checks; i++)
        error[i] = fabs(c->check[i].predicted / c->check[i].measured - 1);
    gsl_sort(error, 1, (size_t)c->checks);
    double median = gsl_stats_median_from_sorted_data(error, 1, (size_t)c->checks);
    free(error);
    return median;
}

static void print_checks(struct text *out, const struct calibration *c, const char *family)
{
    text_add(out, "\npredicted from the data sheet, without any run of %s:\n", family);
    for (int32_t i = 0; i < c->checks; i++) {
        const struct calibration_check *check = &c->check[i];
        text_add(out, "%-5s %-44.44s %-16s batch %4g  %8.2f ms, measured %8.2f ms, %+6.1f %%\n",
                 check->row->round, check->row->system, check->device, check->row->batch,
                 1e3 * check->predicted, 1e3 * check->measured,
                 100 * (check->predicted / check->measured - 1));
    }
    text_add(out, "%d runs, median error %.1f %%\n", c->checks, 100 * median_check(c));
}

static int write_profile(const struct calibration *c, const char *software, const char *directory,
                         struct err *err)
{
    char *path = base_format("%s/%s.yaml", directory, software);
    struct text text = {0};
    calibration_profile(&text, c, software);
    FILE *file = fopen(path, "w");
    int failed = !file || fputs(text.data, file) < 0;
    if (file && fclose(file))
        failed = 1;
    if (failed)
        err_add_code(err, 73, "cannot write %s: %s", path, strerror(errno));
    text_release(&text);
    free(path);
    return failed ? -1 : 0;
}

static int write_profiles(struct text *out, const struct calibration *c, const char *directory,
                          struct err *err)
{
    if (mkdir(directory, 0777) && errno != EEXIST)
        return err_add_code(err, 73, "cannot create %s: %s", directory, strerror(errno));
    for (int32_t i = 0; i < c->softwares; i++)
        if (strchr(c->software[i], '/'))
            return err_add(err, "round '%s' cannot be the name of a file", c->software[i]);
        else if (write_profile(c, c->software[i], directory, err))
            return -1;
    text_add(out, "%d profiles written to %s\n", c->softwares, directory);
    return 0;
}

static int answer(const struct request *request, const struct published *table, struct text *out,
                  struct err *err)
{
    struct calibration c = {0};
    if (calibration_make(&c, table, request->from, request->without, err))
        return -1;
    int failed =
        request->without && !c.checks
            ? err_add_code(err, 64, "--without: there is no run on one node of family '%s'",
                           request->without)
            : 0;
    if (!failed)
        print_fits(out, &c);
    if (!failed && c.checks)
        print_checks(out, &c, request->without);
    if (!failed && request->to)
        failed = write_profiles(out, &c, request->to, err);
    calibration_release(&c);
    return failed;
}

static int calibrate(const struct request *request, struct text *out, struct err *err)
{
    static const char *const kinds[] = {"device", NULL};
    if (strcmp(request->argument.item[0], kinds[0]))
        return option_unknown(err, "kind of calibration", request->argument.item[0], kinds);
    if (!request->from)
        return err_add_code(err, 64, "--from is needed: a table of runs on one node");
    struct published table = {0};
    if (published_read(&table, request->from, err))
        return -1;
    int failed = answer(request, &table, out, err);
    published_release(&table);
    return failed;
}

static const struct option *const options[] = {
    &option_from_row, &option_to_row, &option_without_row, &option_help_row, NULL,
};

const struct command command_calibrate = {
    .name = "calibrate",
    .synopsis = "device --from FILE.csv [options]",
    .help = "fit how fast devices compute to runs on one node",
    .examples =
        "foretrain calibrate device --from experiments/02_published_runs/single_node.csv\n"
        "foretrain calibrate device --from mine.csv --to profiles    (for cluster.software)\n"
        "foretrain calibrate device --from mine.csv --without H100   (predict it instead)",
    .options = options,
    .minimum = 1,
    .maximum = 1,
    .run = calibrate,
};
