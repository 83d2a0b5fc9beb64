#include "app/study/runs.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/job/job.h"

/* The rings of a node, as its platform describes it. */
static int find_rings(struct run_measured *run, const struct job *job, struct err *err)
{
    struct grid grid = {.columns = run->devices_per_node, .rows = 1};
    if (run->devices_per_node < 2)
        return 0;
    struct fabric *fabric = platform_fabric(job->platform, 1, run->devices_per_node, grid, err);
    if (!fabric)
        return -1;
    run->nccl = fabric->nccl;
    fabric_free(fabric);
    return 0;
}

static int refuse(const struct job *job, const char *key, const char *text, struct err *err)
{
    struct err found = {0};
    err_add(&found, "%s", text);
    return scenario_blame(&job->scenario, key, &found, err);
}

static int take(struct run_measured *run, const struct job *job, struct err *err)
{
    const struct scenario *s = &job->scenario;
    const char *software = s->measured.software ? s->measured.software : s->cluster.software;
    if (!(s->measured.step > 0))
        return refuse(job, "training", "nothing was measured: a run says measured.step", err);
    if (!software)
        return refuse(job, "measured", "which software ran? say measured.software", err);
    const char *slash = strrchr(s->path, '/');
    *run = (struct run_measured){
        .file = base_copy(slash ? slash + 1 : s->path),
        .device = base_copy(platform_device(job->platform)->name),
        .software = base_copy(software),
        .nodes = job->resolved.cluster.nodes,
        .devices_per_node = job->resolved.cluster.devices_per_node,
        .batch = job->resolved.plan.phase[0].batch_per_device,
        .step = s->measured.step,
        .startup = scenario_is_given(s, "measured.startup") ? s->measured.startup : NAN,
        .doubtful = s->measured.doubtful,
    };
    return find_rings(run, job, err);
}

static int read_run(struct runs *runs, const char *path, struct err *err)
{
    AUTORELEASE(err) struct err warnings = {0};
    AUTORELEASE(job) struct job job = {0};
    if (job_open(&job, NULL, path, NULL, 0, NULL, &(struct wish){.ignore_memory = true},
                 &warnings)) {
        err_add_code(err, warnings.exit_code, "%.*s", (int)strlen(warnings.text) - 1,
                     warnings.text);
        return -1;
    }
    runs->run = base_room(runs->run, runs->count, sizeof(*runs->run));
    runs->run[runs->count] = (struct run_measured){0};
    return take(&runs->run[runs->count++], &job, err);
}

static int is_yaml(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && dot > entry->d_name && !strcmp(dot, ".yaml");
}

int runs_read(struct runs *runs, const char *path, struct err *err)
{
    struct dirent **entry;
    int count = scandir(path, &entry, is_yaml, alphasort), failed = 0;
    if (count < 0)
        return err_add_code(err, 66, "cannot read folder %s: %s", path, strerror(errno));
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    AUTOFREE char *folder = base_format("%.*s", (int)length, path);
    const char *slash = strrchr(folder, '/');
    runs->folder = base_copy(slash ? slash + 1 : folder);
    for (int i = 0; i < count; i++) {
        AUTOFREE char *file = base_format("%s/%s", path, entry[i]->d_name);
        failed = failed || read_run(runs, file, err);
        free(entry[i]);
    }
    free(entry);
    if (!failed && !count)
        failed = err_add(err, "%s: error: there is no job in this folder", path);
    return failed ? -1 : 0;
}

void runs_release(struct runs *runs)
{
    for (int32_t i = 0; i < runs->count; i++) {
        free(runs->run[i].file);
        free(runs->run[i].device);
        free(runs->run[i].software);
    }
    free(runs->run);
    free(runs->folder);
    *runs = (struct runs){0};
}
