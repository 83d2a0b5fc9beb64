#pragma once

/** @file
 * The shape of every value of an ONNX graph, for one image.
 */

#include <onnx/onnx_pb.h>

#include <sstream>
#include <string>

/** An end of the program with an exit code and a message. */
struct fault {
    int code;
    std::string text;
};

/** The items of @list as JSON. */
template <typename List> std::string array(const List &list)
{
    std::ostringstream out;
    out.precision(17);
    out << '[';
    bool first = true;
    for (const auto &item : list) {
        out << (first ? "" : ",") << item;
        first = false;
    }
    out << ']';
    return out.str();
}

/** All numbers of a small tensor as array(); "" of others, and of those that are stored elsewhere.
 */
std::string numbers(const onnx::TensorProto &tensor);

/** Fill value_info() of the graph of @model with all shapes that can be known; nodes that compute
 * shapes become constants.  Throws a fault: inputs of open sizes, or a graph without sense. */
void infer(onnx::ModelProto &model);
