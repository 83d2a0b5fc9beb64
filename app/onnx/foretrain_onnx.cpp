/* foretrain-onnx FILE.onnx: the graph of an ONNX file, with the shape of every value, as JSON.
 *
 * A program of its own, as files are from anywhere: what ONNX's shape inference does with a damaged
 * one ends this process, not foretrain.  C++ stands here alone, as the library has no other
 * interface.  Weights are not written, but for constants of a few numbers.
 *
 * Exit codes: 0, 64 usage, 65 not an ONNX file or open dimensions, 66 unreadable, 71 memory. */

#include "app/onnx/shapes.hpp"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <vector>

namespace
{

struct value {
    std::string name, dims = "[]", numbers;
    int rank = -1; /* not known */
    bool constant = false, real = false;
};

/* Values by number; names are looked up here alone. */
struct table {
    std::map<std::string, int> index;
    std::vector<value> list;

    int at(const std::string &name)
    {
        if (name.empty())
            return -1;
        auto [found, added] = index.emplace(name, static_cast<int>(list.size()));
        if (added) {
            list.emplace_back();
            list.back().name = name;
        }
        return found->second;
    }
};

std::string quoted(const std::string &text)
{
    std::string out = "\"";
    for (unsigned char c : text) {
        if (c < 0x20 || c == '"' || c == '\\' || c > 0x7e)
            out += '_';
        else
            out += static_cast<char>(c);
    }
    return out + "\"";
}

bool is_real(int type)
{
    return type == onnx::TensorProto::FLOAT || type == onnx::TensorProto::FLOAT16 ||
           type == onnx::TensorProto::BFLOAT16 || type == onnx::TensorProto::DOUBLE;
}

/* Weights are what the file initialises. */
void add_constant(table &values, const std::string &name, const onnx::TensorProto &tensor,
                  bool weight)
{
    int index = values.at(name);
    if (index < 0)
        return;
    value &one = values.list[static_cast<size_t>(index)];
    one.constant = true;
    one.real = weight && is_real(tensor.data_type());
    one.rank = tensor.dims_size();
    one.dims = array(tensor.dims());
    one.numbers = numbers(tensor);
}

void add_shape(table &values, const onnx::ValueInfoProto &info)
{
    int index = values.at(info.name());
    if (index < 0 || !info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
        return;
    std::vector<int64_t> dims;
    for (const auto &dim : info.type().tensor_type().shape().dim()) {
        if (!dim.has_dim_value() || dim.dim_value() < 1)
            return;
        dims.push_back(dim.dim_value());
    }
    values.list[static_cast<size_t>(index)].rank = static_cast<int>(dims.size());
    values.list[static_cast<size_t>(index)].dims = array(dims);
}

onnx::ModelProto read(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file || file.peek() == EOF)
        throw fault{66, "cannot be read, or is empty"};
    onnx::ModelProto model;
    if (!model.ParseFromIstream(&file) || model.graph().node_size() == 0)
        throw fault{65, "is not an ONNX model of at most 2 GiB"};
    return model;
}

std::string attributes(const onnx::NodeProto &node)
{
    std::string out = "{";
    for (const auto &a : node.attribute()) {
        std::string text;
        if (a.type() == onnx::AttributeProto::INT)
            text = std::to_string(a.i());
        else if (a.type() == onnx::AttributeProto::INTS)
            text = array(a.ints());
        else if (a.type() == onnx::AttributeProto::FLOAT && a.f() - a.f() == 0)
            text = array(std::vector<float>{a.f()});
        else if (a.type() == onnx::AttributeProto::STRING)
            text = quoted(a.s());
        if (!text.empty())
            out += (out.size() > 1 ? "," : "") + quoted(a.name()) + ":" + text;
    }
    return out + "}";
}

template <typename Names> std::string numbered(table &values, const Names &names)
{
    std::vector<int> list;
    for (const auto &name : names)
        list.push_back(values.at(name));
    return array(list);
}

/* A node that holds a constant is that constant. */
bool take_constant(table &values, const onnx::NodeProto &node)
{
    if (node.op_type() != "Constant" || node.output_size() != 1)
        return false;
    for (const auto &a : node.attribute())
        if (a.name() == "value" && a.has_t()) {
            add_constant(values, node.output(0), a.t(), false);
            return true;
        }
    int index = values.at(node.output(0));
    if (index >= 0)
        values.list[static_cast<size_t>(index)].constant = true;
    return true;
}

void print(const onnx::ModelProto &model, table &values)
{
    const auto &graph = model.graph();
    std::vector<int> inputs, outputs;
    for (const auto &input : graph.input()) {
        bool fed = !values.index.count(input.name());
        if (fed) {
            add_shape(values, input);
            inputs.push_back(values.at(input.name()));
        }
    }
    for (const auto &info : graph.value_info())
        add_shape(values, info);
    for (const auto &output : graph.output()) {
        add_shape(values, output);
        outputs.push_back(values.at(output.name()));
    }
    std::string nodes;
    for (const auto &node : graph.node()) {
        if (take_constant(values, node))
            continue;
        nodes +=
            std::string(nodes.empty() ? "" : ",\n") + "{\"op\":" +
            quoted(
                (node.domain().empty() || node.domain() == "ai.onnx" ? "" : node.domain() + ".") +
                node.op_type()) +
            ",\"name\":" + quoted(node.name()) + ",\"inputs\":" + numbered(values, node.input()) +
            ",\"outputs\":" + numbered(values, node.output()) +
            ",\"attributes\":" + attributes(node) + "}";
    }
    std::cout << "{\"name\":" << quoted(graph.name()) << ",\"inputs\":" << array(inputs)
              << ",\"outputs\":" << array(outputs) << ",\"nodes\":[" << nodes << "],\"values\":[";
    for (size_t i = 0; i < values.list.size(); i++) {
        const value &one = values.list[i];
        std::cout << (i ? ",\n" : "") << "{\"name\":" << quoted(one.name)
                  << ",\"rank\":" << one.rank << ",\"dims\":" << one.dims
                  << ",\"constant\":" << one.constant << ",\"real\":" << one.real;
        if (!one.numbers.empty())
            std::cout << ",\"numbers\":" << one.numbers;
        std::cout << "}";
    }
    std::cout << "]}\n" << std::flush;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::cerr << "usage: foretrain-onnx FILE.onnx: its graph with all shapes as JSON; what "
                     "'foretrain import onnx' runs\n";
        return 64;
    }
    google::protobuf::SetLogHandler(nullptr);
    try {
        onnx::ModelProto model = read(argv[1]);
        infer(model);
        table values;
        for (const auto &tensor : model.graph().initializer())
            add_constant(values, tensor.name(), tensor, true);
        print(model, values);
        return std::cout.good() ? 0 : 74;
    } catch (const fault &f) {
        std::cerr << argv[1] << ": " << f.text << "\n";
        return f.code;
    } catch (const std::bad_alloc &) {
        std::cerr << argv[1] << ": no memory\n";
        return 71;
    } catch (const std::exception &e) {
        std::cerr << argv[1] << ": " << e.what() << "\n";
        return 65;
    }
}
