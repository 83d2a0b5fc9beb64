#include "app/onnx/graph.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/process/child.h"
#include "app/process/launch.h"
#include "app/process/process.h"
#include "core/base/base.h"

int32_t onnx_input(const struct onnx_node *node, int32_t index)
{
    return index < node->input_count ? node->input[index] : -1;
}

int64_t onnx_attribute(const struct onnx_node *node, const char *name, int64_t missing)
{
    int64_t value;
    return json_as_integer(json_get(node->attributes, name), &value) ? value : missing;
}

int64_t onnx_attribute_at(const struct onnx_node *node, const char *name, int32_t index,
                          int64_t missing)
{
    int64_t value;
    const struct json *list = json_get(node->attributes, name);
    return json_as_integer(json_item(list, index), &value) ? value : missing;
}

static bool changes_form(const struct onnx_node *node)
{
    static const char *const op[] = {"Cast",    "Identity",  "Reshape",  "Flatten",
                                     "Squeeze", "Unsqueeze", "Transpose"};
    size_t i = 0;
    while (i < ARRAY_SIZE(op) && strcmp(op[i], node->op) != 0)
        i++;
    return i < ARRAY_SIZE(op) && onnx_input(node, 0) >= 0;
}

int32_t onnx_source(const struct onnx_graph *graph, int32_t index)
{
    enum { DEEP = 64 };
    for (int32_t i = 0; i < DEEP && graph->value[index].maker >= 0; i++) {
        const struct onnx_node *maker = &graph->node[graph->value[index].maker];
        if (!changes_form(maker))
            break;
        index = maker->input[0];
    }
    return index;
}

bool onnx_number(const struct onnx_graph *graph, int32_t index, double *number)
{
    const struct json *numbers = index < 0 ? NULL : graph->value[onnx_source(graph, index)].numbers;
    return json_count_items(numbers) == 1 && json_as_real(json_item(numbers, 0), number);
}

static int64_t read_number(const struct json *json, const char *key)
{
    int64_t value;
    return json_as_integer(json_get(json, key), &value) ? value : 0;
}

static void read_value(struct onnx_value *value, const struct json *json)
{
    const struct json *dims = json_get(json, "dims");
    int64_t rank = read_number(json, "rank");
    *value = (struct onnx_value){
        .name = json_as_text(json_get(json, "name")),
        .constant = read_number(json, "constant") > 0,
        .weight = read_number(json, "real") > 0,
        .rank = rank <= ONNX_RANK && rank == json_count_items(dims) ? (int32_t)rank : -1,
        .elements = 1,
        .numbers = json_get(json, "numbers"),
        .reader = -1,
        .maker = -1,
    };
    for (int32_t i = 0; i < value->rank; i++) {
        int64_t dim = 0;
        bool good = json_as_integer(json_item(dims, i), &dim) && dim >= 1 && dim <= INT32_MAX &&
                    value->elements <= INT64_MAX / dim;
        value->dims[i] = dim;
        value->elements *= good ? dim : 0;
    }
    if (value->rank < 0 || !value->elements)
        value->rank = -1;
}

/* Numbers of values; those that are none become -1. */
static int32_t *read_list(const struct json *json, int32_t limit, int32_t *count)
{
    *count = (int32_t)json_count_items(json);
    int32_t *list = base_alloc(*count, sizeof(*list));
    for (int32_t i = 0; i < *count; i++) {
        int64_t value;
        bool good = json_as_integer(json_item(json, i), &value) && value >= 0 && value < limit;
        list[i] = good ? (int32_t)value : -1;
    }
    return list;
}

static void read_node(struct onnx_graph *graph, struct onnx_node *node, const struct json *json)
{
    node->op = json_as_text(json_get(json, "op"));
    node->name = json_as_text(json_get(json, "name"));
    node->attributes = json_get(json, "attributes");
    node->input = read_list(json_get(json, "inputs"), graph->value_count, &node->input_count);
    node->output = read_list(json_get(json, "outputs"), graph->value_count, &node->output_count);
}

/* Whatever has only constants, or asks only for a shape, is constant. */
static void spread_constants(struct onnx_graph *graph)
{
    for (int32_t n = 0; n < graph->node_count; n++) {
        const struct onnx_node *node = &graph->node[n];
        bool constant = true;
        for (int32_t i = 0; i < node->input_count; i++)
            constant = constant && (node->input[i] < 0 || graph->value[node->input[i]].constant);
        constant = constant || !strcmp(node->op, "Shape") || !strcmp(node->op, "Size");
        for (int32_t i = 0; i < node->output_count; i++)
            if (node->output[i] >= 0) {
                graph->value[node->output[i]].maker = n;
                graph->value[node->output[i]].constant |= constant;
            }
    }
}

static void find_live(struct onnx_graph *graph)
{
    for (int32_t i = 0; i < graph->output_count; i++)
        if (graph->output[i] >= 0)
            graph->value[graph->output[i]].uses++;
    for (int32_t n = graph->node_count - 1; n >= 0; n--) {
        struct onnx_node *node = &graph->node[n];
        for (int32_t i = 0; i < node->output_count; i++) {
            const struct onnx_value *value =
                node->output[i] < 0 ? NULL : &graph->value[node->output[i]];
            node->live = node->live || (value && value->uses > 0 && !value->constant);
        }
        for (int32_t i = 0; i < node->input_count && node->live; i++)
            if (node->input[i] >= 0) {
                graph->value[node->input[i]].uses++;
                graph->value[node->input[i]].reader = n;
            }
    }
}

static int read_answer(struct onnx_graph *graph, const struct text *text, struct err *err)
{
    AUTORELEASE(err) struct err found = {0};
    graph->json = text->data ? json_read("foretrain-onnx", text->data, text->length, &found) : NULL;
    const struct json *values = json_get(graph->json, "values");
    const struct json *nodes = json_get(graph->json, "nodes");
    if (json_count_items(nodes) < 0 || json_count_items(values) > INT32_MAX / 2 ||
        json_count_items(nodes) > INT32_MAX / 2)
        return err_add_code(err, 70, "foretrain-onnx printed no graph");
    graph->value_count = (int32_t)json_count_items(values);
    graph->value = base_alloc(graph->value_count, sizeof(*graph->value));
    for (int32_t i = 0; i < graph->value_count; i++)
        read_value(&graph->value[i], json_item(values, i));
    graph->node_count = (int32_t)json_count_items(nodes);
    graph->node = base_alloc(graph->node_count, sizeof(*graph->node));
    for (int32_t i = 0; i < graph->node_count; i++)
        read_node(graph, &graph->node[i], json_item(nodes, i));
    graph->input =
        read_list(json_get(graph->json, "inputs"), graph->value_count, &graph->input_count);
    graph->output =
        read_list(json_get(graph->json, "outputs"), graph->value_count, &graph->output_count);
    spread_constants(graph);
    find_live(graph);
    return 0;
}

/* What the program said, in one line, with its exit code. */
static int report(const char *path, int code, struct text *said, struct err *err)
{
    if (code > 128 || !said->length)
        return err_add_code(err, 70,
                            "%s: foretrain-onnx ended by signal %d: the file is damaged, or "
                            "beyond what ONNX 1.12 reads",
                            path, code > 128 ? code - 128 : 0);
    said->data[strcspn(said->data, "\n")] = '\0';
    return err_add_code(err, process_documented(code), "%s", said->data);
}

int onnx_graph_read(struct onnx_graph *graph, const char *path, struct err *err)
{
    AUTOFREE char *program = child_program("foretrain-onnx");
    if (!program)
        return err_add_code(err, 69,
                            "%s: ONNX files are read by foretrain-onnx, which this foretrain was "
                            "built without (libonnx-dev)",
                            path);
    AUTORELEASE(launch) struct launch launch = {.output = launch_file(err), .talk = -1};
    launch.talk = launch.output < 0 ? -1 : launch_file(err);
    launch_add(&launch, "%s", program);
    launch_add(&launch, "%s", path);
    int code = launch.talk < 0 ? -1 : launch_run(&launch, err);
    int failed = code < 0 ? -1 : 0;
    if (code >= 0) {
        AUTORELEASE(text)
        struct text answer = launch_read(launch.output), said = launch_read(launch.talk);
        failed = code ? report(path, code, &said, err) : read_answer(graph, &answer, err);
    }
    if (launch.output >= 0)
        close(launch.output);
    if (launch.talk >= 0)
        close(launch.talk);
    return failed;
}

void onnx_graph_release(struct onnx_graph *graph)
{
    for (int32_t i = 0; i < graph->node_count; i++) {
        free(graph->node[i].input);
        free(graph->node[i].output);
    }
    free(graph->value);
    free(graph->node);
    free(graph->input);
    free(graph->output);
    json_free(graph->json);
    *graph = (struct onnx_graph){0};
}
