#include "app/library/foretrain.h"

#include "app/predict/predict.h"
#include "config.h"
#include "core/base/claim.h"
#include "core/report/report.h"
#include "core/traffic/workload.h"

struct foretrain_job {
    char *path;
    char *text; /* NULL: the files have it */
    struct texts set;
    foretrain_open *open;
    void *context;
};

struct foretrain_answer {
    struct text json;
    double *step; /* (draws) */
    int32_t draws;
};

const char *foretrain_version(void)
{
    return FORETRAIN_VERSION;
}

int foretrain_api(void)
{
    return FORETRAIN_API;
}

/* No program's way to end is taken. */
void base_out_of_memory(size_t bytes)
{
    abort();
}

/* Nor are files written, which could replace what is read. */
int claim_input(const char *path, struct err *err)
{
    return 0;
}

/* ---- errors ---- */

void foretrain_error_set(struct foretrain_error *error, int code, const char *text)
{
    foretrain_error_release(error);
    *error = (struct foretrain_error){code, base_copy(text)};
}

RELEASE(foretrain_error, it->text)

/* ---- jobs ---- */

struct foretrain_job *foretrain_job_open(const char *path)
{
    struct foretrain_job *job = base_alloc(1, sizeof(*job));
    job->path = base_copy(path);
    return job;
}

struct foretrain_job *foretrain_job_open_text(const char *name, const char *text)
{
    struct foretrain_job *job = foretrain_job_open(name);
    job->text = base_copy(text);
    return job;
}

struct foretrain_job *foretrain_job_open_with(const char *name, foretrain_open *open, void *context)
{
    struct foretrain_job *job = foretrain_job_open(name);
    job->open = open;
    job->context = context;
    return job;
}

void foretrain_job_set(struct foretrain_job *job, const char *assignment)
{
    texts_add(&job->set, "%s", assignment);
}

void foretrain_job_free(struct foretrain_job *job)
{
    if (!job)
        return;
    texts_release(&job->set);
    free(job->path);
    free(job->text);
    free(job);
}

/* The text of the job itself, if it has one, or what the caller opens. */
static char *read_file(void *context, const char *name, size_t *length)
{
    const struct foretrain_job *job = context;
    if (job->open)
        return job->open(job->context, name, length);
    if (strcmp(name, job->path) != 0)
        return NULL;
    *length = strlen(job->text);
    return base_copy(job->text);
}

/* ---- simulations ---- */

/* The simulator of the caller. */
struct caller {
    struct simulator simulator;
    const struct foretrain_simulator *of;
};

static bool is_there(const struct simulator *simulator)
{
    return true;
}

static int read_trace(char *output, struct trace *trace, struct err *err)
{
    FILE *file = fmemopen(output, strlen(output), "r");
    if (!file)
        return err_add_code(err, 70, "the simulator printed nothing");
    int failed = trace_read(file, "trace", trace, err);
    fclose(file);
    return failed;
}

static int run(const struct simulator *simulator, const struct simulation *simulation,
               int32_t count, struct err *err)
{
    const struct foretrain_simulator *of = ((const struct caller *)simulator)->of;
    for (int32_t i = 0; i < count; i++) {
        struct foretrain_error error = {0};
        AUTORELEASE(text) struct text document = {0};
        AUTOFREE char *output = NULL;
        if (workload_describe(&document, simulation[i].run, simulation[i].schedule, err))
            return -1;
        int failed = of->run(of->context, document.data, &output, &error);
        if (failed)
            err_add_code(err, error.code ? error.code : 70, "%s",
                         error.text ? error.text : "the simulator failed");
        foretrain_error_release(&error);
        if (failed || read_trace(output ? output : "", simulation[i].trace, err))
            return -1;
    }
    return 0;
}

/* ---- predictions ---- */

static struct foretrain_answer *conclude(struct prediction *prediction, const struct err *warnings)
{
    struct foretrain_answer *answer = base_alloc(1, sizeof(*answer));
    prediction_add_warnings(prediction, warnings);
    AUTORELEASE(json) struct json *json = prediction_json(prediction);
    json_print(&answer->json, json);
    struct doubts *doubts = &prediction->result.doubts;
    answer->step = doubts->step;
    answer->draws = doubts->draws;
    doubts->step = NULL;
    return answer;
}

struct foretrain_answer *foretrain_predict(const struct foretrain_job *job,
                                           const struct foretrain_simulator *simulator,
                                           struct foretrain_error *error)
{
    const struct files files = {read_file, (void *)(size_t)job, job->open != NULL};
    const struct caller caller = {{is_there, run}, simulator};
    AUTORELEASE(prediction) struct prediction prediction = {0};
    AUTORELEASE(err) struct err err = {0};
    AUTOFREE struct memory *memory = base_alloc(1, sizeof(*memory));
    struct predict_options options = {
        PREDICT_DEFAULTS, .set = job->set, .files = job->open || job->text ? &files : NULL,
        .simulator = simulator ? &caller.simulator : NULL, .memory = memory};
    options.backend = simulator ? BACKEND_SIM : BACKEND_ANALYTIC;
    options.grain =
        simulator && simulator->grain ? base_find_word(simulator->grain, grain_names) : 0;
    if (options.grain < 0)
        err_usage(&err, "there is no grain '%s'", simulator->grain);
    else if (!prediction_make(&prediction, job->path, &options, &err))
        return conclude(&prediction, &err);
    foretrain_error_set(error, err.exit_code, err.text ? err.text : "");
    return NULL;
}

const char *foretrain_answer_json(const struct foretrain_answer *answer)
{
    return answer->json.data;
}

const double *foretrain_answer_steps(const struct foretrain_answer *answer, int *count)
{
    *count = answer->step ? answer->draws : 0;
    return answer->step;
}

void foretrain_answer_free(struct foretrain_answer *answer)
{
    if (!answer)
        return;
    text_release(&answer->json);
    free(answer->step);
    free(answer);
}
