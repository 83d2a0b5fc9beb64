#include "core/scenario/scenario.h"

#include <sha2.h>

/* ILSVRC2012, classification.  Source: Russakovsky et al. 2015, arXiv 1409.0575, table 2. */
static void resolve_dataset(struct scenario *scenario)
{
    if (!scenario->training.dataset)
        return;
    scenario->training.train_images = 1281167;
    scenario->training.validation_images = 50000;
}

/* The length of @phase if it is given in samples or tokens, else 0; one token a sample as long as
 * nobody says how many. */
static double phase_samples(const struct scenario *scenario, const struct scenario_phase *phase)
{
    double tokens =
        fmax(1, (double)(scenario->model.tokens ? scenario->model.tokens
                                                : scenario->model.transformer.sequence));
    return phase->tokens > 0 ? phase->tokens / tokens : phase->samples;
}

/* Epochs of phases whose length is given in samples or tokens.  Where all are and no data set is
 * given, all together are one epoch. */
static void resolve_phases(struct scenario *scenario)
{
    struct scenario_phase *phase = scenario->training.phase.item;
    double samples = 0;
    bool all = true;
    for (int32_t i = 0; i < scenario->training.phase.count; i++) {
        samples += phase_samples(scenario, &phase[i]);
        all = all && phase_samples(scenario, &phase[i]) > 0;
        if (phase[i].micro_batch && !scenario->training.micro_batch)
            scenario->training.micro_batch = phase[i].micro_batch;
    }
    if (all && !scenario->training.train_images)
        scenario->training.train_images = (int64_t)fmax(1, round(fmin(samples, 1e15)));
    double images = (double)scenario->training.train_images;
    for (int32_t i = 0; i < scenario->training.phase.count && images > 0; i++)
        if (phase_samples(scenario, &phase[i]) > 0)
            phase[i].epochs = phase_samples(scenario, &phase[i]) / images;
}

void scenario_set_tokens(struct scenario *scenario, int64_t tokens)
{
    scenario->model.tokens = tokens;
    if (!scenario_is_given(scenario, "training.dataset"))
        scenario->training.train_images = 0;
    resolve_phases(scenario);
}

int64_t scenario_tensor(const struct scenario *scenario)
{
    return scenario->parallel.tensor > 1 ? scenario->parallel.tensor : 1;
}

int64_t scenario_expert_ranks(const struct scenario *scenario)
{
    int64_t each = scenario->parallel.expert_tensor == 1 ? 1 : scenario_tensor(scenario);
    return each * (scenario->parallel.expert > 1 ? scenario->parallel.expert : 1);
}

int64_t scenario_parts(const struct scenario *scenario)
{
    int64_t stages = scenario->parallel.pipeline > 1 ? scenario->parallel.pipeline : 1;
    int64_t slices = scenario->parallel.context > 1 ? scenario->parallel.context : 1;
    return stages * slices * scenario_tensor(scenario);
}

const char *const scenario_other_names[] = {"job",      "platform", "device",
                                            "software", "network",  "prices"};

enum scenario_other scenario_other(const struct node *root)
{
    static const struct {
        const char *key, *with; /* or NULL */
        enum scenario_other other;
    } sign[] = {{"model", NULL, OTHER_NONE},        {"training", NULL, OTHER_NONE},
                {"cluster", NULL, OTHER_NONE},      {"kind", "device", OTHER_PLATFORM},
                {"peak", "memory", OTHER_DEVICE},   {"fits", NULL, OTHER_SOFTWARE},
                {"fallback", NULL, OTHER_SOFTWARE}, {"layers", NULL, OTHER_NETWORK},
                {"price", NULL, OTHER_PRICES},      {"power", NULL, OTHER_PRICES}};
    for (size_t i = 0; i < ARRAY_SIZE(sign); i++)
        if (node_get(root, sign[i].key) && (!sign[i].with || node_get(root, sign[i].with)))
            return sign[i].other;
    return OTHER_NONE;
}

/* Another file in place of a job. */
static int refuse_other(const struct node *root, struct err *err)
{
    static const char *const named[] = {[OTHER_PLATFORM] = "cluster.platform of a job",
                                        [OTHER_DEVICE] = "device of a platform",
                                        [OTHER_SOFTWARE] = "cluster.software of a job",
                                        [OTHER_NETWORK] = "model.network of a job",
                                        [OTHER_PRICES] = "--prices"};
    const char *file = root->origin.file;
    enum scenario_other other = scenario_other(root);
    return other == OTHER_NONE ? 0
                               : err_add(err,
                                         "%s: error: this is a %s file, not a job; 'foretrain "
                                         "check %s' checks it, and %s names it",
                                         file, scenario_other_names[other], file, named[other]);
}

/* Takes over @document, which may be NULL.  With @explained, append where each value comes from. */
static int read_document(struct scenario *scenario, struct document *document, const char *path,
                         struct text *explained, struct err *err)
{
    if (!document)
        return -1;
    struct scenario result = {.path = base_copy(path)};
    const char *source = yaml_source(document);
    SHA256Data((const uint8_t *)source, strlen(source), result.sha256);
    const struct node *root = yaml_root(document);
    int failed = refuse_other(root, err) || field_read(&scenario_table, root, &result, err);
    resolve_dataset(&result);
    resolve_phases(&result);
    if (!failed)
        failed = scenario_check(&result, root, err);
    if (!failed && explained)
        field_explain(explained, &scenario_table, root, &result);
    result.document = document;
    if (failed)
        scenario_release(&result);
    else
        *scenario = result;
    return failed;
}

bool scenario_takes(const char *assignment)
{
    return strncmp(assignment, "platform.", 9) != 0 && strncmp(assignment, "device.", 7) != 0;
}

/* "allreduce.grid=34x32", as `collective --grid` has it, is a mapping. */
int scenario_assign(struct document *document, const char *assignment, struct err *err)
{
    int columns, rows, end = 0;
    int found = sscanf(assignment, "allreduce.grid=%dx%d%n", &columns, &rows, &end);
    if (found != 2 || assignment[end])
        return yaml_set(document, assignment, err);
    AUTOFREE char *mapping = base_format("allreduce.grid={columns: %d, rows: %d}", columns, rows);
    return yaml_set(document, mapping, err);
}

static struct document *read_with_assignments(const struct files *files, const char *path,
                                              const char *const *set, int32_t set_count,
                                              struct unknowns *unknowns, struct err *err)
{
    struct document *document = yaml_read_file(files, path, NULL, err);
    if (!document)
        return NULL;
    int failed = 0;
    for (int32_t i = 0; i < set_count; i++)
        failed |= scenario_takes(set[i]) ? scenario_assign(document, set[i], err) : 0;
    if (!failed && !unknowns_settle(unknowns, document, "", err))
        return document;
    yaml_free(document);
    return NULL;
}

int scenario_read(struct scenario *scenario, const struct files *files, const char *path,
                  const char *const *set, int32_t set_count, struct unknowns *unknowns,
                  struct err *err)
{
    return read_document(scenario,
                         read_with_assignments(files, path, set, set_count, unknowns, err), path,
                         NULL, err);
}

int scenario_read_text(struct scenario *scenario, const char *name, const char *text,
                       struct err *err)
{
    return read_document(scenario, yaml_read_text(name, text, err), name, NULL, err);
}

int scenario_explain(struct text *out, const char *path, const char *const *set, int32_t set_count,
                     struct err *err)
{
    struct scenario scenario;
    struct unknowns unknowns = {0};
    int failed =
        read_document(&scenario, read_with_assignments(NULL, path, set, set_count, &unknowns, err),
                      path, out, err);
    if (!failed)
        scenario_release(&scenario);
    for (int64_t i = 0; i < unknowns.count && !failed; i++)
        text_add(out, "%-36s  %-20s  an unknown input\n", unknowns.item[i].key,
                 unknowns.item[i].range);
    unknowns_release(&unknowns);
    if (failed)
        return -1;
    for (int32_t i = 0; i < set_count; i++) {
        int key = (int)strcspn(set[i], "=");
        if (!scenario_takes(set[i]) && set[i][key])
            text_add(out, "%-36.*s  %-20s  --set\n", key, set[i], set[i] + key + 1);
    }
    return 0;
}

const char *scenario_name(const struct scenario *scenario)
{
    return yaml_root(scenario->document)->origin.file;
}

bool scenario_is_given(const struct scenario *scenario, const char *key)
{
    return field_origin(yaml_root(scenario->document), key) != NULL;
}

/* What an assignment says stands on no line of the file. */
bool scenario_is_assigned(const struct scenario *scenario, const char *key)
{
    const struct node *node = field_origin(yaml_root(scenario->document), key);
    return node && node->origin.line == 0;
}

char *scenario_path_at(const struct scenario *scenario, const char *key, const char *path)
{
    const struct node *node = field_origin(yaml_root(scenario->document), key);
    const char *file = node ? node->origin.file : "";
    const char *slash = strrchr(file, '/');
    bool relative = strchr(path, '/') ? path[0] != '/' : strstr(path, ".yaml") != NULL;
    AUTOFREE char *beside =
        base_format("%.*s%s", slash && relative ? (int)(slash - file) + 1 : 0, file, path);
    return base_copy(access(beside, F_OK) == 0 ? beside : path);
}

int scenario_blame(const struct scenario *scenario, const char *key, struct err *found,
                   struct err *err)
{
    const struct node *node = key ? field_origin(yaml_root(scenario->document), key) : NULL;
    int32_t length = (int32_t)strlen(found->text);
    length -= length > 0 && found->text[length - 1] == '\n';
    if (node && found->count == 1 && !memchr(found->text, '\n', (size_t)length)) {
        const char *word = strstr(found->text, "error: "); /* the place says it again */
        int32_t before = word ? (int32_t)(word - found->text) : 0;
        int32_t skip = word ? before + 7 : 0;
        origin_error(&node->origin, err, "%.*s%.*s", before, found->text, length - skip,
                     found->text + skip);
    } else {
        err_add(err, "%.*s", length, found->text);
    }
    if (err->count == 1)
        err->exit_code = found->exit_code;
    err_release(found);
    return -1;
}

struct convergence scenario_convergence(const struct scenario *scenario)
{
    const struct field_list *own = &scenario->training.point;
    if (scenario->training.recipe)
        return convergence_of(scenario->training.recipe);
    struct convergence curve = {.count = 0};
    for (int32_t i = 0; i < own->count; i++)
        convergence_add(&curve, ((const struct convergence_point *)own->item)[i]);
    return curve;
}

void scenario_release(struct scenario *scenario)
{
    field_release(&scenario_table, scenario);
    yaml_free(scenario->document);
    free(scenario->path);
    *scenario = (struct scenario){0};
}
