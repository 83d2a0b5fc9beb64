#include "core/backend/nccl_use.h"

#define WAYS(algorithm) algorithm " LL", algorithm " LL128", algorithm " Simple"
const char *const nccl_way_words[] = {"",           WAYS("ring"), WAYS("tree"), WAYS("collnet"),
                                      WAYS("nvls"), NULL};
static_assert(ARRAY_SIZE(nccl_way_words) == 2 + NCCL_ALGORITHM_COUNT * NCCL_PROTOCOL_COUNT,
              "one word for each way");

int32_t nccl_way(const struct run *run, const struct step *step)
{
    if (step->kind != STEP_COLLECTIVE || step->collective.algorithm != ALGORITHM_NCCL)
        return 0;
    struct nccl_choice choice = run_nccl(run, step);
    return 1 + (int32_t)choice.algorithm * NCCL_PROTOCOL_COUNT + (int32_t)choice.protocol;
}

struct nccl_use nccl_use_of(const struct run *run, const struct schedule *schedule)
{
    struct nccl_use use = {0};
    int64_t most = -1;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        int32_t way = nccl_way(run, step);
        if (!way || step->collective.bytes <= most)
            continue;
        most = step->collective.bytes;
        use = (struct nccl_use){run->fabric->nccl.version, way};
    }
    return use;
}

/* ", ring Simple (3 x 782 kB to 4.194 MB)" */
static void add_way(struct text *out, const struct run *run, const struct schedule *schedule,
                    int32_t way)
{
    int64_t least = INT64_MAX, most = 0, count = 0;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        if (nccl_way(run, step) != way)
            continue;
        count += step_runs(step);
        least = step->collective.bytes < least ? step->collective.bytes : least;
        most = step->collective.bytes > most ? step->collective.bytes : most;
    }
    if (!count)
        return;
    text_add(out, "%s%s (%lld x %s", strchr(out->data, '(') ? ", " : ": ", nccl_way_words[way],
             (long long)count, unit_text(UNIT_BYTES, (double)least));
    if (strcmp(unit_text(UNIT_BYTES, (double)least), unit_text(UNIT_BYTES, (double)most)) != 0)
        text_add(out, " to %s", unit_text(UNIT_BYTES, (double)most));
    text_add(out, ")");
}

char *nccl_use_text(const struct run *run, const struct schedule *schedule, const char *software)
{
    struct nccl_use use = nccl_use_of(run, schedule);
    struct text text = {0};
    if (!use.version)
        return NULL;
    text_add(&text, "NCCL %d.%d%s%s", use.version / 100, use.version % 100,
             software ? " of " : " where no software says another", software ? software : "");
    for (int32_t way = 1; nccl_way_words[way]; way++)
        add_way(&text, run, schedule, way);
    return text.data;
}
