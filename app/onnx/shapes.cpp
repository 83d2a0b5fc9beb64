#include "app/onnx/shapes.hpp"

#include <onnx/defs/schema.h>
#include <onnx/defs/tensor_util.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

constexpr int few = 16; /* numbers of a constant that are read */

std::string numbers(const onnx::TensorProto &tensor)
{
    int64_t count = 1;
    for (int64_t dim : tensor.dims())
        if (dim < 0 || dim > few || (count *= dim) > few)
            return "";
    try {
        std::vector<double> all;
        if (tensor.data_type() == onnx::TensorProto::INT64)
            for (int64_t one : onnx::ParseData<int64_t>(&tensor))
                all.push_back(static_cast<double>(one));
        else if (tensor.data_type() == onnx::TensorProto::FLOAT)
            for (float one : onnx::ParseData<float>(&tensor))
                all.push_back(one);
        else if (tensor.data_type() == onnx::TensorProto::DOUBLE)
            for (double one : onnx::ParseData<double>(&tensor))
                all.push_back(one);
        bool finite =
            std::all_of(all.begin(), all.end(), [](double one) { return one - one == 0; });
        return finite ? array(all) : "";
    } catch (const std::exception &) {
        return "";
    }
}

namespace
{

std::string called(const onnx::NodeProto &node)
{
    return node.op_type() + " '" + node.name() + "'";
}

const onnx::AttributeProto *find(const onnx::NodeProto &node, const char *name)
{
    for (const auto &a : node.attribute())
        if (a.name() == name)
            return &a;
    return nullptr;
}

/* ---- what makes no sense, at some of which ONNX's inference would end the process ---- */

/* Whole numbers are shapes; of others a few are read. */
void check_size(const onnx::TensorProto &tensor)
{
    bool integer = tensor.data_type() == onnx::TensorProto::INT64;
    bool real = tensor.data_type() == onnx::TensorProto::FLOAT;
    double count = 1;
    for (int64_t dim : tensor.dims())
        count *= static_cast<double>(dim);
    if (tensor.has_raw_data() && (integer || (real && count <= few)) &&
        static_cast<double>(tensor.raw_data().size()) != count * (integer ? 8 : 4))
        throw fault{65, "tensor '" + tensor.name() + "' does not hold the numbers of its shape"};
}

/* What windows and groups cannot be, and what the operation must say. */
void check_attributes(const onnx::NodeProto &node, int version)
{
    static const std::map<std::string, int64_t> least = {
        {"strides", 1}, {"dilations", 1}, {"kernel_shape", 1}, {"group", 1}, {"pads", 0}};
    for (const auto &a : node.attribute()) {
        auto found = least.find(a.name());
        bool bounded = found != least.end() && node.op_type() != "Pad"; /* which may cut off */
        if (bounded && ((a.has_i() && a.i() < found->second) ||
                        std::any_of(a.ints().begin(), a.ints().end(),
                                    [&](int64_t one) { return one < found->second; })))
            throw fault{65, called(node) + ": '" + a.name() + "' must be at least " +
                                std::to_string(found->second)};
        if (a.has_t())
            check_size(a.t());
    }
    const auto *schema = onnx::OpSchemaRegistry::Schema(node.op_type(), version, node.domain());
    if (schema)
        for (const auto &[name, attribute] : schema->attributes())
            if (attribute.required && !find(node, name.c_str()))
                throw fault{65, called(node) + ": '" + name + "' is missing"};
}

/* Nodes read weights from the file, not from outside. */
void check_weights(const onnx::NodeProto &node, const std::set<std::string> &fed)
{
    static const std::set<std::string> kinds = {"Conv", "ConvTranspose", "Gemm",
                                                "BatchNormalization", "LayerNormalization"};
    for (int i = 1; i < node.input_size() && kinds.count(node.op_type()); i++)
        if (fed.count(node.input(i)))
            throw fault{65, "input '" + node.input(i) + "' holds the weights of " + called(node) +
                                ": export the network with them (export_params=True)"};
}

/* The inputs of the graph that have no value in the file. */
std::set<std::string> check(const onnx::ModelProto &model)
{
    const auto &graph = model.graph();
    std::set<std::string> there, fed;
    int version = 1;
    for (const auto &one : model.opset_import())
        if (one.domain().empty() || one.domain() == "ai.onnx")
            version = static_cast<int>(one.version());
    for (const auto &tensor : graph.initializer()) {
        check_size(tensor);
        there.insert(tensor.name());
    }
    for (const auto &input : graph.input())
        if (there.insert(input.name()).second)
            fed.insert(input.name());
    for (const auto &function : model.functions())
        throw fault{65, "function '" + function.name() + "': export the network without functions"};
    for (const auto &node : graph.node()) {
        check_attributes(node, version);
        check_weights(node, fed);
        for (const auto &name : node.output())
            if (!name.empty() && !there.insert(name).second)
                throw fault{65, called(node) + " computes '" + name + "', which is there already"};
    }
    return fed;
}

/* One image: an open first dimension is one. */
void close_batch(onnx::ValueInfoProto &info)
{
    if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
        throw fault{65, "input '" + info.name() + "' has no shape"};
    auto *shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int i = 0; i < shape->dim_size(); i++) {
        auto *dim = shape->mutable_dim(i);
        if (i == 0 && !dim->has_dim_value())
            dim->set_dim_value(1);
        if (i == 0 && shape->dim_size() > 1 && dim->dim_value() != 1)
            throw fault{65, "input '" + info.name() + "' has a batch of " +
                                std::to_string(dim->dim_value()) +
                                ": export the network with a batch of 1 or an open one"};
        if (!dim->has_dim_value())
            throw fault{65, "input '" + info.name() + "' has an open dimension '" +
                                dim->dim_param() + "': export the network with its size"};
    }
}

/* Whole numbers from which shapes are computed. */
struct whole {
    std::vector<int64_t> at;
    bool scalar = false;
};

using wholes = std::map<std::string, whole>;

void learn(wholes &known, const std::string &name, const onnx::TensorProto &tensor)
{
    if (tensor.data_type() != onnx::TensorProto::INT64 || numbers(tensor).empty())
        return;
    known[name] = {onnx::ParseData<int64_t>(&tensor), tensor.dims_size() == 0};
}

int64_t apply(const std::string &op, int64_t a, int64_t b)
{
    constexpr int64_t most = int64_t{1} << 31; /* products fit */
    if (a > most || a < -most || b > most || b < -most)
        throw fault{65, "computes shapes with numbers beyond 31 bits"};
    if (op == "Div")
        return b ? a / b : 0;
    return op == "Add" ? a + b : op == "Sub" ? a - b : op == "Mul" ? a * b : a == b;
}

/* One after the other; one number goes with all of the other list. */
bool combine(const std::string &op, const whole &a, const whole &b, whole &out)
{
    size_t most = std::max(a.at.size(), b.at.size());
    if ((a.at.size() != most && a.at.size() != 1) || (b.at.size() != most && b.at.size() != 1))
        return false;
    for (size_t i = 0; i < most; i++)
        out.at.push_back(apply(op, a.at[a.at.size() == 1 ? 0 : i], b.at[b.at.size() == 1 ? 0 : i]));
    out.scalar = a.scalar && b.scalar;
    return true;
}

bool gather(const onnx::NodeProto &node, const whole &from, const whole &which, whole &out)
{
    const auto *axis = find(node, "axis");
    if (axis && axis->i() != 0)
        return false;
    auto size = static_cast<int64_t>(from.at.size());
    for (int64_t i : which.at) {
        i += i < 0 ? size : 0;
        if (i < 0 || i >= size)
            return false;
        out.at.push_back(from.at[static_cast<size_t>(i)]);
    }
    out.scalar = which.scalar;
    return true;
}

bool slice(const std::vector<const whole *> &in, whole &out)
{
    if (in.size() < 3 || in[1]->at.size() != 1 || in[2]->at.size() != 1 ||
        (in.size() > 4 && in[4]->at != std::vector<int64_t>{1}))
        return false;
    auto size = static_cast<int64_t>(in[0]->at.size());
    int64_t from = in[1]->at[0], to = in[2]->at[0];
    from = std::clamp(from < 0 ? from + size : from, int64_t{0}, size);
    to = std::clamp(to < 0 ? to + size : to, int64_t{0}, size);
    for (int64_t i = from; i < to; i++)
        out.at.push_back(in[0]->at[static_cast<size_t>(i)]);
    return true;
}

bool fill(const onnx::NodeProto &node, const whole &shape, whole &out)
{
    int64_t count = 1, with = 0;
    for (int64_t dim : shape.at)
        if (dim < 0 || dim > few || (count *= dim) > few)
            return false;
    if (const auto *a = find(node, "value")) {
        if (a->t().data_type() != onnx::TensorProto::INT64)
            return false;
        auto list = onnx::ParseData<int64_t>(&a->t());
        with = list.empty() ? 0 : list[0];
    }
    out.at.assign(static_cast<size_t>(count), with);
    return true;
}

bool choose(const std::vector<const whole *> &in, whole &out)
{
    if (in.size() != 3 || in[0]->at.size() != in[1]->at.size() ||
        in[0]->at.size() != in[2]->at.size())
        return false;
    for (size_t i = 0; i < in[0]->at.size(); i++)
        out.at.push_back(in[in[0]->at[i] ? 1 : 2]->at[i]);
    return true;
}

/* What a node computes from whole numbers; false: not known here. */
bool compute(const onnx::NodeProto &node, const std::vector<const whole *> &in, whole &out)
{
    const std::string &op = node.op_type();
    if (op == "Concat") {
        for (const whole *one : in)
            out.at.insert(out.at.end(), one->at.begin(), one->at.end());
        return out.at.size() <= few;
    }
    if (op == "Cast" || op == "Identity" || op == "Reshape" || op == "Unsqueeze" ||
        op == "Squeeze") {
        const auto *to = find(node, "to");
        out = *in[0];
        out.scalar = op == "Squeeze" || (op == "Cast" && in[0]->scalar);
        return !to || to->i() == onnx::TensorProto::INT64;
    }
    if (op == "ConstantOfShape")
        return fill(node, *in[0], out);
    if (op == "Where")
        return choose(in, out);
    if (op == "Slice")
        return slice(in, out);
    if (in.size() != 2)
        return false;
    if (op == "Gather")
        return gather(node, *in[0], *in[1], out);
    return (op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Equal") &&
           combine(op, *in[0], *in[1], out);
}

void become_constant(onnx::NodeProto &node, const whole &value)
{
    node.clear_input();
    node.clear_attribute();
    node.set_op_type("Constant");
    auto *a = node.add_attribute();
    a->set_name("value");
    a->set_type(onnx::AttributeProto::TENSOR);
    a->mutable_t()->set_data_type(onnx::TensorProto::INT64);
    if (!value.scalar)
        a->mutable_t()->add_dims(static_cast<int64_t>(value.at.size()));
    for (int64_t one : value.at)
        a->mutable_t()->add_int64_data(one);
}

bool shape_of(const onnx::GraphProto &graph, const std::map<std::string, int> &place,
              const std::string &name, whole &out)
{
    auto found = place.find(name);
    if (found == place.end())
        return false;
    int at = found->second, inner = graph.value_info_size();
    const auto &info = at < inner ? graph.value_info(at) : graph.input(at - inner);
    if (!info.type().tensor_type().has_shape())
        return false;
    for (const auto &dim : info.type().tensor_type().shape().dim()) {
        if (!dim.has_dim_value())
            return false;
        out.at.push_back(dim.dim_value());
    }
    return true;
}

/* Nodes that compute shapes become constants, as far as shapes are known.  Returns how many. */
int fold(onnx::GraphProto &graph)
{
    wholes known;
    std::map<std::string, int> place;
    for (int i = 0; i < graph.value_info_size(); i++)
        place[graph.value_info(i).name()] = i;
    for (int i = 0; i < graph.input_size(); i++)
        place[graph.input(i).name()] = graph.value_info_size() + i;
    for (const auto &tensor : graph.initializer())
        learn(known, tensor.name(), tensor);
    int folded = 0;
    for (auto &node : *graph.mutable_node()) {
        if (node.output_size() != 1)
            continue;
        if (node.op_type() == "Constant") {
            if (const auto *a = find(node, "value"))
                learn(known, node.output(0), a->t());
            continue;
        }
        whole out;
        bool good = node.op_type() == "Shape" && node.attribute_size() == 0 &&
                    node.input_size() == 1 && shape_of(graph, place, node.input(0), out);
        if (!good) {
            std::vector<const whole *> in;
            for (const auto &name : node.input()) {
                auto found = known.find(name);
                if (found != known.end())
                    in.push_back(&found->second);
            }
            good = !in.empty() && static_cast<int>(in.size()) == node.input_size() &&
                   compute(node, in, out);
        }
        if (!good)
            continue;
        known[node.output(0)] = out;
        become_constant(node, out);
        folded++;
    }
    return folded;
}

} // namespace

/* ONNX's inference and our folding take turns, for each may need the other's result. */
void infer(onnx::ModelProto &model)
{
    const std::set<std::string> fed = check(model);
    auto *graph = model.mutable_graph();
    for (auto &input : *graph->mutable_input())
        if (fed.count(input.name()))
            close_batch(input);
    for (auto &output : *graph->mutable_output())
        if (output.type().has_tensor_type())
            output.mutable_type()->mutable_tensor_type()->clear_shape();
    onnx::ShapeInferenceOptions options{false, 0, false};
    for (int folded = 1; folded > 0;) {
        graph->clear_value_info(); /* of the exporter's batch, or of a time when less was known */
        try {
            onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), options);
        } catch (const std::exception &e) {
            throw fault{65, std::string("ONNX finds no shapes: ") + e.what()};
        }
        folded = fold(*graph);
    }
}
