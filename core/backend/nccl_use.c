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
        bool more = step->kind == STEP_COLLECTIVE && step->collective.bytes > most;
        int32_t way = more ? nccl_way(run, step) : 0;
        if (!way)
            continue;
        most = step->collective.bytes;
        use = (struct nccl_use){run->fabric->nccl.version, way};
    }
    return use;
}

/* Collectives that one way is chosen for. */
struct way {
    int64_t least, most, count; /* bytes */
};

/* ", ring Simple (3 x 782 kB to 4.194 MB)" */
static void add_way(struct text *out, const char *name, struct way way)
{
    if (!way.count)
        return;
    text_add(out, "%s%s (%lld x %s", strchr(out->data, '(') ? ", " : ": ", name,
             (long long)way.count, unit_text(UNIT_BYTES, (double)way.least));
    if (strcmp(unit_text(UNIT_BYTES, (double)way.least), unit_text(UNIT_BYTES, (double)way.most)))
        text_add(out, " to %s", unit_text(UNIT_BYTES, (double)way.most));
    text_add(out, ")");
}

char *nccl_use_text(const struct run *run, const struct schedule *schedule, const char *software)
{
    struct way ways[ARRAY_SIZE(nccl_way_words) - 1] = {{0}};
    struct nccl_use use = nccl_use_of(run, schedule);
    struct text text = {0};
    if (!use.version)
        return NULL;
    for (int32_t id = 0; id < schedule->step_count; id++) {
        const struct step *step = &schedule->step[id];
        struct way *way = &ways[nccl_way(run, step)];
        int64_t bytes = step->collective.bytes;
        way->least = way->count && way->least < bytes ? way->least : bytes;
        way->most = way->most > bytes ? way->most : bytes;
        way->count += step_runs(step);
    }
    text_add(&text, "NCCL %d.%d%s%s", use.version / 100, use.version % 100,
             software ? " of " : " where no software says another", software ? software : "");
    for (size_t way = 1; way < ARRAY_SIZE(ways); way++)
        add_way(&text, nccl_way_words[way], ways[way]);
    return text.data;
}
