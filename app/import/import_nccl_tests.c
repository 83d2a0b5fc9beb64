#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "app/import/import_curve.h"
#include "core/config/yaml.h"

/* The data of a report of nccl-tests so far. */
struct report {
    struct curve curve;
    char **host; /* (hosts) distinct; owned */
    int32_t hosts, nodes, ranks;
    char *model;         /* of the first device; owned */
    double factor;       /* largest bus bandwidth over its algorithm bandwidth */
    double largest;      /* the bandwidth behind it [GB/s] */
    int32_t wrong;       /* rows whose results were wrong */
    int32_t time_column; /* -1: no head yet */
};

static void release(struct report *report)
{
    for (int32_t i = 0; i < report->hosts; i++)
        free(report->host[i]);
    free(report->host);
    free(report->model);
}

static void add_rank(struct report *report, const char *host, const char *model)
{
    report->ranks++;
    if (!report->model && *model)
        report->model = base_copy(model);
    for (int32_t i = 0; i < report->hosts; i++)
        if (!strcmp(report->host[i], host))
            return;
    report->host = base_room(report->host, report->hosts, sizeof(*report->host));
    report->host[report->hosts++] = base_copy(host);
}

static void add_bandwidths(struct report *report, double algorithm, double bus)
{
    if (!(algorithm > report->largest))
        return;
    report->largest = algorithm;
    report->factor = bus / algorithm;
}

/* --- text --- */

/* "#  Rank  0 Group  0 Pid  7 on  node1 device  0 [0000:07:00.0] NVIDIA A100-SXM4-80GB"; older
 * versions have no group. */
static void read_rank(struct report *report, char *line)
{
    char *bracket = strchr(line, ']');
    const char *model = bracket ? bracket + 1 + strspn(bracket + 1, " \t") : "";
    char *copy = base_copy(line), *word[16];
    int32_t count = import_split(copy, word, 16);
    for (int32_t i = 2; i + 2 < count; i++)
        if (!strcmp(word[i], "on") && !strncmp(word[i + 2], "device", 6)) {
            add_rank(report, word[i + 1], model);
            break;
        }
    free(copy);
}

/* "#  size  count  type  redop  root  time  algbw  busbw ...": older versions have no root. */
static void read_head(struct report *report, char *line)
{
    char *word[24];
    int32_t count = import_split(line + 1, word, 24);
    for (int32_t i = 1; i < count && !strcmp(word[0], "size"); i++)
        if (!strcmp(word[i], "time") || !strcmp(word[i], "cputime")) {
            report->time_column = i;
            return;
        }
}

static int read_row(struct report *report, const char *file, int32_t number, char *line,
                    struct err *err)
{
    char *word[24];
    double size, time, algorithm, bus, wrong;
    int32_t count = import_split(line, word, 24), at = report->time_column;
    if (at < 0)
        return err_add(err,
                       "%s:%d: numbers without the head '#  size  count  type ...' above "
                       "them; keep the lines of nccl-tests that begin with #",
                       file, number);
    if (count < at + 3 || !import_number(word[0], &size) || !import_number(word[at], &time) ||
        !import_number(word[at + 1], &algorithm) || !import_number(word[at + 2], &bus))
        return err_add(err,
                       "%s:%d: expected a row of nccl-tests: size ... time algbw busbw; remove "
                       "lines of other programs",
                       file, number);
    if (size > 0 && (time <= 0 || report->curve.count == CURVE_ROWS))
        return err_add(err, "%s:%d: a time above 0 was expected in column %d, and at most %d sizes",
                       file, number, at + 1, CURVE_ROWS);
    if (count > at + 3 && import_number(word[at + 3], &wrong) && wrong > 0)
        report->wrong++;
    else if (size > 0 && curve_add(&report->curve, size, time * 1e-6))
        add_bandwidths(report, algorithm, bus);
    return 0;
}

static int read_lines(struct report *report, const char *file, char *rest, struct err *err)
{
    int failed = 0;
    int32_t number = 0;
    report->time_column = -1;
    for (char *line; !failed && (line = import_next_line(&rest));) {
        number++;
        line += strspn(line, " \t");
        if (*line == '#' && strstr(line, "Rank") && strchr(line, '['))
            read_rank(report, line);
        else if (*line == '#')
            read_head(report, line);
        else if (isdigit((unsigned char)*line))
            failed = read_row(report, file, number, line, err);
    }
    if (!failed && report->time_column < 0)
        failed = err_add(err,
                         "%s:%d: no table of nccl-tests up to here (expected a line '#  size  "
                         "count  type ...'); give what all_reduce_perf prints",
                         file, number);
    return failed;
}

/* --- JSON --- */

static bool get_number(const struct node *node, const char *key, double *value)
{
    const struct node *child = node ? node_get(node, key) : NULL;
    return child && child->text && import_number(child->text, value);
}

static const char *get_text(const struct node *node, const char *key)
{
    const struct node *child = node_get(node, key);
    return child && child->text ? child->text : "";
}

static int read_result(struct report *report, const struct node *row, struct err *err)
{
    double size, time, algorithm, bus, wrong = 0;
    if (row->kind != NODE_MAPPING)
        return origin_error(&row->origin, err, "expected an object with size and out_of_place");
    const struct node *body = node_get(row, "out_of_place");
    if (!body || body->kind != NODE_MAPPING)
        body = node_get(row, "in_place");
    if (!body || body->kind != NODE_MAPPING || !get_number(row, "size", &size) ||
        !(get_number(body, "time", &time) || get_number(body, "cpu_time", &time)) ||
        !get_number(body, "alg_bw", &algorithm) || !get_number(body, "bus_bw", &bus))
        return origin_error(&row->origin, err,
                            "expected size and out_of_place: {time, alg_bw, bus_bw}, as "
                            "nccl-tests writes with -J");
    if (get_number(body, "nwrong", &wrong) && wrong > 0)
        report->wrong++;
    else if (size > 0 && !curve_add(&report->curve, size, time * 1e-6))
        return origin_error(&row->origin, err, "expected a time above 0, and at most %d sizes",
                            CURVE_ROWS);
    else
        add_bandwidths(report, algorithm, bus);
    return 0;
}

static int read_document(struct report *report, const struct node *root, struct err *err)
{
    const struct node *results = root->kind == NODE_MAPPING ? node_get(root, "results") : NULL;
    const struct node *config = results ? node_get(root, "config") : NULL;
    if (!results || results->kind != NODE_SEQUENCE)
        return origin_error(&root->origin, err,
                            "expected a list 'results', as nccl-tests writes with -J FILE");
    const struct node *devices =
        config && config->kind == NODE_MAPPING ? node_get(config, "devices") : NULL;
    for (int32_t i = 0; devices && i < devices->child_count; i++)
        if (devices->child[i]->kind == NODE_MAPPING)
            add_rank(report, get_text(devices->child[i], "hostname"),
                     get_text(devices->child[i], "device_info"));
    int failed = 0;
    for (int32_t i = 0; i < results->child_count && !failed; i++)
        failed = read_result(report, results->child[i], err);
    return failed;
}

static int read_json(struct report *report, const char *file, const char *text, struct err *err)
{
    AUTORELEASE(yaml) struct document *document = yaml_read_text(file, text, err);
    return document ? read_document(report, yaml_root(document), err) : -1;
}

/* --- both --- */

/* Whether bus over algorithm bandwidth is that of an all-reduce: 2 (n - 1) / n.  Source:
 * nccl-tests, doc/PERFORMANCE.md.  Two decimals are printed. */
static int check_operation(const struct report *report, const char *file, struct err *err)
{
    double expected = 2.0 * (report->ranks - 1) / report->ranks;
    double tolerance = 0.01 * expected + 0.02 / fmax(report->largest, 0.01);
    if (fabs(report->factor - expected) <= tolerance)
        return 0;
    return err_add(err,
                   "%s: bus bandwidth is %.3f times the algorithm's, which is not the %.3f of "
                   "an all-reduce of %d ranks: give the output of all_reduce_perf",
                   file, report->factor, expected, report->ranks);
}

static int count_ranks(struct report *report, const struct import_request *request,
                       const char *file, struct err *err)
{
    if (request->ranks)
        report->ranks = request->ranks;
    report->nodes = request->nodes ? request->nodes : report->hosts > 1 ? report->hosts : 1;
    if (report->ranks < 1)
        return err_add(err,
                       "%s: no line '#  Rank  0 ... on HOST device 0 [...]' gives the ranks; use "
                       "--ranks N --nodes N",
                       file);
    return 0;
}

static int understand(struct import *import, struct report *report,
                      const struct import_request *request, struct err *err)
{
    if (!report->curve.count)
        return err_add(err, "%s: no row with a size and a time above 0%s", import->file,
                       report->wrong ? " and right results; run the test again" : "");
    if (count_ranks(report, request, import->file, err) ||
        check_operation(report, import->file, err))
        return -1;
    import_note(import, "all-reduce of %d ranks on %d node%s, %d sizes of %g to %g B",
                report->ranks, report->nodes, report->nodes == 1 ? "" : "s", report->curve.count,
                report->curve.size[0], report->curve.size[report->curve.count - 1]);
    if (report->wrong)
        import_note(import, "%d sizes left out: their results were wrong", report->wrong);
    if (report->model)
        import_set_device(import, report->model);
    import->description =
        base_format("fitted to nccl-tests: %d ranks on %d nodes", report->ranks, report->nodes);
    return import_fit_ring(import, &report->curve, report->ranks, report->nodes, err);
}

int import_nccl_tests(struct import *import, const struct import_request *request, struct err *err)
{
    AUTORELEASE(text) struct text text = {0};
    struct report report = {0};
    int failed = import_load(import->file, &text, err);
    const char *first = failed ? "" : text.data + strspn(text.data, " \t\r\n");
    if (!failed)
        failed = *first == '{' ? read_json(&report, import->file, text.data, err)
                               : read_lines(&report, import->file, text.data, err);
    if (!failed)
        failed = understand(import, &report, request, err);
    release(&report);
    return failed;
}
