#include "app/process/processors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

struct processors processors_now(void)
{
    /* user nice system idle iowait irq softirq steal, in ticks */
    double time[8] = {0}, tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    struct processors now = {0};
    struct rusage usage;
    FILE *file = fopen("/proc/stat", "r");
    if (file && fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &time[0], &time[1], &time[2],
                       &time[3], &time[4], &time[5], &time[6], &time[7]) == 8) {
        for (int32_t i = 0; i < 8; i++)
            now.all += tick * time[i];
        now.steal = tick * time[7];
        now.busy = tick * (time[0] + time[1] + time[2] + time[5] + time[6]);
    }
    if (file)
        fclose(file);
    if (getrusage(RUSAGE_CHILDREN, &usage) == 0)
        now.own = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    return now;
}

struct processors_share processors_between(const struct processors *before,
                                           const struct processors *after)
{
    double all = after->all - before->all;
    if (all <= 0)
        return (struct processors_share){0};
    double foreign = after->busy - before->busy - (after->own - before->own);
    return (struct processors_share){
        .steal = (after->steal - before->steal) / all,
        .idle = fmax(1 - (after->busy - before->busy + after->steal - before->steal) / all, 0),
        .foreign = fmax(foreign / all, 0),
    };
}

/* A number of at least 1 at *@at, which moves behind it; 0: there is none. */
static int32_t read_count(const char **at)
{
    char *end = NULL;
    long count = **at >= '0' && **at <= '9' ? strtol(*at, &end, 10) : 0;
    if (count < 1 || count > INT32_MAX)
        return 0;
    *at = end;
    return (int32_t)count;
}

int32_t processors_slurm_tasks(const char *list, int32_t node)
{
    for (;;) {
        int32_t tasks = read_count(&list), times = 1;
        if (tasks && !strncmp(list, "(x", 2)) {
            list += 2;
            times = read_count(&list);
            if (*list++ != ')')
                return 0;
        }
        if (!tasks || !times || (*list && *list != ','))
            return 0;
        if (node < times)
            return tasks;
        if (!*list++)
            return 0;
        node -= times;
    }
}

int32_t processors_ranks(void)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *node = getenv("SLURM_NODEID");
    const char *list = getenv("SLURM_STEP_TASKS_PER_NODE");
    int32_t ranks = local  ? atoi(local)
                    : list ? processors_slurm_tasks(list, node ? atoi(node) : 0)
                           : 1;
    return ranks > 1 ? ranks : 1;
}
