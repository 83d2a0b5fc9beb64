"""The graph of an ONNX file, with the shape of every value for one image.

ONNX's shape inference and constant folding of our own take turns, for each may need the other's result.
Weights are never looked at: only shapes and numbers from which shapes are computed.
"""
import math

import numpy
import onnx
import onnx.defs
import onnx.shape_inference
from onnx import numpy_helper

from draft import Refused, plain

FEW = 16  # numbers of a constant that are read
WHOLE, REAL = onnx.TensorProto.INT64, (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16,
                                       onnx.TensorProto.DOUBLE)
DOMAINS = ("", "ai.onnx")
LEAST = {"strides": 1, "dilations": 1, "kernel_shape": 1, "group": 1, "pads": 0}
HOLDERS = {"Conv", "ConvTranspose", "Gemm", "BatchNormalization", "LayerNormalization"}


class Value:
    """What a node reads or writes."""

    def __init__(self, name):
        self.name = name
        self.dims = None  # not known
        self.constant = False  # follows from no input of the graph
        self.weight = False  # stands in the file as real numbers
        self.numbers = None  # of a small constant
        self.uses = 0  # nodes that read it, and outputs of the graph that it is
        self.reader = self.maker = None  # the first node that reads it, the node whose output it is

    @property
    def rank(self):
        """Dimensions; -1: not known."""
        return -1 if self.dims is None else len(self.dims)

    @property
    def elements(self):
        """How many numbers."""
        return math.prod(self.dims)


class Node:
    """An operation."""

    def __init__(self, proto, values):
        domain = "" if proto.domain in DOMAINS else proto.domain + "."
        self.op, self.name = plain(domain + proto.op_type), plain(proto.name)
        self.inputs = [values(name) for name in proto.input]  # None: left out
        self.outputs = [values(name) for name in proto.output]
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute
                           if a.type in (a.INT, a.INTS, a.FLOAT, a.STRING)}
        self.live = self.done = False  # an output needs it and it is not constant; a pattern has taken it

    def input(self, index):
        """Input @index, or None."""
        return self.inputs[index] if index < len(self.inputs) else None

    def active(self, index):
        """Whether input @index is there and follows from the images."""
        value = self.input(index)
        return value is not None and not value.constant

    def get(self, name, missing):
        """An attribute that is a whole number."""
        value = self.attributes.get(name, missing)
        return value if isinstance(value, int) else missing

    def at(self, name, index, missing):
        """An item of an attribute that is a list."""
        value = self.attributes.get(name)
        return value[index] if isinstance(value, list) and index < len(value) else missing


class Graph:
    """Nodes in order, and values."""

    def __init__(self, graph):
        self.values = {}
        for tensor in graph.initializer:
            self.constant(tensor.name, tensor, True)
        self.inputs = [self.value(one.name) for one in graph.input if one.name not in self.values]
        for info in (*graph.input, *graph.value_info, *graph.output):
            self.shape(info)
        self.outputs = [self.value(one.name) for one in graph.output]
        self.nodes = [Node(proto, self.value) for proto in graph.node if not self.take(proto)]
        self.spread()
        self.find_live()

    def value(self, name):
        """The value called @name, None where that is empty."""
        return self.values.setdefault(name, Value(plain(name))) if name else None

    def constant(self, name, tensor, weight):
        """A constant of the file."""
        value = self.value(name)
        if value:
            value.constant, value.weight = True, weight and tensor.data_type in REAL
            value.dims, value.numbers = list(tensor.dims), numbers(tensor)

    def shape(self, info):
        """What inference found."""
        value, dims = self.value(info.name), known_dims(info)
        if value and dims is not None and all(1 <= dim < 1 << 31 for dim in dims) and math.prod(dims) < 1 << 62:
            value.dims = dims

    def take(self, proto):
        """Whether a node only holds a constant; then its value is that."""
        if proto.op_type != "Constant" or len(proto.output) != 1:
            return False
        held = next((a.t for a in proto.attribute if a.name == "value" and a.HasField("t")), None)
        if held is not None:
            self.constant(proto.output[0], held, False)
        elif proto.output[0]:
            self.value(proto.output[0]).constant = True
        return True

    def spread(self):
        """Whatever has only constants, or asks only for a shape, is constant."""
        for node in self.nodes:
            constant = node.op in ("Shape", "Size") or all(one is None or one.constant for one in node.inputs)
            for out in filter(None, node.outputs):
                out.maker = node
                out.constant = out.constant or constant

    def find_live(self):
        """What outputs need."""
        for out in filter(None, self.outputs):
            out.uses += 1
        for node in reversed(self.nodes):
            node.live = any(out and out.uses and not out.constant for out in node.outputs)
            for one in filter(None, node.inputs if node.live else ()):
                one.uses += 1
                one.reader = node


def called(proto):
    """A node in messages."""
    return f"{proto.op_type} '{proto.name}'"


def known_dims(info):
    """The sides of a value's shape, or None."""
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
        return None
    dims = info.type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims] if all(dim.HasField("dim_value") for dim in dims) else None


def numbers(tensor):
    """The numbers of a small constant, or None."""
    if math.prod(tensor.dims) > FEW or any(dim < 0 or dim > FEW for dim in tensor.dims):
        return None
    if tensor.data_type not in (WHOLE, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE) or tensor.external_data:
        return None
    try:
        found = numpy_helper.to_array(tensor).ravel().tolist()
    except ValueError:
        return None
    return found if all(math.isfinite(one) for one in found) else None


# ---- what makes no sense, at some of which ONNX's inference would end the process ----

def check_size(tensor):
    """Whole numbers are shapes; of others a few are read."""
    count = math.prod(tensor.dims)
    whole = tensor.data_type == WHOLE
    read = whole or tensor.data_type == onnx.TensorProto.FLOAT and count <= FEW
    if tensor.HasField("raw_data") and read and len(tensor.raw_data) != count * (8 if whole else 4):
        raise Refused(f"tensor '{tensor.name}' does not hold the numbers of its shape")


def check_attributes(proto, version):
    """What windows and groups cannot be, and what the operation must say."""
    for a in proto.attribute:
        least = LEAST.get(a.name) if proto.op_type != "Pad" else None  # which may cut off
        if least is not None and any(one < least for one in ([a.i] if a.HasField("i") else a.ints)):
            raise Refused(f"{called(proto)}: '{a.name}' must be at least {least}")
        if a.HasField("t"):
            check_size(a.t)
    try:
        schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
    except onnx.defs.SchemaError:
        return
    there = {a.name for a in proto.attribute}
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in there:
            raise Refused(f"{called(proto)}: '{name}' is missing")


def check(model):
    """The inputs of the graph that have no value in the file."""
    graph = model.graph
    version = next((one.version for one in model.opset_import if one.domain in DOMAINS), 1)
    for tensor in graph.initializer:
        check_size(tensor)
    there = {tensor.name for tensor in graph.initializer}
    fed = {one.name for one in graph.input} - there
    there |= fed
    for function in model.functions:
        raise Refused(f"function '{function.name}': export the network without functions")
    for proto in graph.node:
        check_attributes(proto, version)
        for name in proto.input[1:] if proto.op_type in HOLDERS else ():
            if name in fed:
                raise Refused(f"input '{name}' holds the weights of {called(proto)}: export the network with them "
                              "(export_params=True)")
        for name in filter(None, proto.output):
            if name in there:
                raise Refused(f"{called(proto)} computes '{name}', which is there already")
            there.add(name)
    return fed


def close_batch(info):
    """One image: an open first dimension is one."""
    if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
        raise Refused(f"input '{info.name}' has no shape")
    dims = info.type.tensor_type.shape.dim
    for index, dim in enumerate(dims):
        if index == 0 and not dim.HasField("dim_value"):
            dim.dim_value = 1
        if index == 0 and len(dims) > 1 and dim.dim_value != 1:
            raise Refused(f"input '{info.name}' has a batch of {dim.dim_value}: export the network with a batch of 1 or "
                          "an open one")
        if not dim.HasField("dim_value"):
            raise Refused(f"input '{info.name}' has an open dimension '{dim.dim_param}': export the network with its size")


# ---- folding ----

def take(values, which, axis):
    """Gather, along the first axis."""
    return numpy.take(values, which, axis=axis)


def cut(values, starts, ends, axes=None, steps=None):
    """Slice."""
    places = [slice(None)] * values.ndim
    for i, (start, end) in enumerate(zip(starts.ravel().tolist(), ends.ravel().tolist())):
        axis = i if axes is None else int(axes.ravel()[i])
        places[axis] = slice(start, end, None if steps is None else int(steps.ravel()[i]))
    return values[tuple(places)]


def shrink(values, node, axes):
    """Squeeze and Unsqueeze, whose axes are an attribute or an input."""
    axes = node.get("axes") if axes is None else axes.ravel().tolist()
    if node["op"] == "Squeeze":
        return values.squeeze(None if axes is None else tuple(axes))
    for axis in sorted(axis % (values.ndim + len(axes)) for axis in axes):
        values = numpy.expand_dims(values, axis)
    return values


def reshaped(values, dims):
    """Reshape."""
    dims = [values.shape[i] if dim == 0 else dim for i, dim in enumerate(dims.ravel().tolist())]
    return values.reshape(dims)


def divided(a, b):
    """Div of whole numbers, towards zero."""
    return numpy.trunc(a / b).astype(a.dtype) if a.dtype.kind == "i" else a / b


# From numpy arrays and the attributes of a node, "op" among them.
FOLDS = {
    "Identity": lambda n, x: x,
    "Cast": lambda n, x: x.astype({1: "float32", 7: "int64", 6: "int32", 9: "bool", 11: "float64"}[n["to"]]),
    "Concat": lambda n, *xs: numpy.concatenate(xs, axis=n["axis"]),
    "Gather": lambda n, x, i: take(x, i, n.get("axis", 0)),
    "Slice": lambda n, *xs: cut(*xs),
    "Squeeze": lambda n, x, axes=None: shrink(x, n, axes),
    "Unsqueeze": lambda n, x, axes=None: shrink(x, n, axes),
    "Reshape": lambda n, x, dims: reshaped(x, dims),
    "Transpose": lambda n, x: x.transpose(n.get("perm")),
    "Expand": lambda n, x, dims: x * numpy.ones(dims.tolist(), x.dtype),
    "ConstantOfShape": lambda n, dims: numpy.full(dims.tolist(), n["value"].ravel()[0] if "value" in n else numpy.float32(0)),
    "Range": lambda n, a, b, step: numpy.arange(a, b, step),
    "Where": lambda n, c, a, b: numpy.where(c, a, b),
    "Add": lambda n, a, b: a + b, "Sub": lambda n, a, b: a - b, "Mul": lambda n, a, b: a * b,
    "Div": lambda n, a, b: divided(a, b), "Mod": lambda n, a, b: a % b, "Pow": lambda n, a, b: a ** b,
    "Equal": lambda n, a, b: a == b, "Less": lambda n, a, b: a < b, "Greater": lambda n, a, b: a > b,
    "Not": lambda n, a: ~a, "And": lambda n, a, b: a & b, "Or": lambda n, a, b: a | b,
    "Neg": lambda n, a: -a, "Floor": lambda n, a: numpy.floor(a), "Ceil": lambda n, a: numpy.ceil(a),
    "Min": lambda n, *xs: numpy.minimum.reduce(xs), "Max": lambda n, *xs: numpy.maximum.reduce(xs),
    "ReduceProd": lambda n, x, *_: numpy.asarray(x.prod()).reshape([1] * x.ndim if n.get("keepdims", 1) else []),
}


def fold(proto, known, shapes):
    """The constant that a node computes, or None: not known, or too large."""
    if len(proto.output) != 1 or proto.domain not in DOMAINS:
        return None
    attributes = {a.name: numpy_helper.to_array(a.t) if a.HasField("t") else onnx.helper.get_attribute_value(a)
                  for a in proto.attribute}
    if proto.op_type == "Shape":
        dims = shapes.get(proto.input[0])
        return None if dims is None else numpy.array(
            dims[attributes.get("start", 0):attributes.get("end", len(dims))], "int64")
    arrays = [known.get(name) for name in proto.input]
    if proto.op_type not in FOLDS or not arrays or any(one is None and name for one, name in zip(arrays, proto.input)):
        return None
    if proto.op_type in ("ConstantOfShape", "Expand") and math.prod(arrays[-1].tolist()) > FEW:
        return None
    if proto.op_type == "Range" and abs(arrays[1] - arrays[0]) > FEW * abs(arrays[2]):
        return None
    if proto.op_type in ("Add", "Sub", "Mul", "Pow", "ReduceProd") and any(
            abs(one) > 1 << 31 for array in arrays for one in array.ravel().tolist()):
        raise Refused("computes shapes with numbers beyond 31 bits")
    try:
        with numpy.errstate(all="raise"):
            out = numpy.asarray(FOLDS[proto.op_type]({**attributes, "op": proto.op_type}, *arrays))
    except (ValueError, TypeError, KeyError, IndexError, ArithmeticError):
        return None
    return out if out.size <= FEW else None


def fold_all(graph):
    """Nodes that compute shapes become constants, as far as shapes are known; returns how many."""
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer
             if tensor.data_type == WHOLE and numbers(tensor) is not None}  # others may be weights
    shapes = {info.name: known_dims(info) for info in (*graph.value_info, *graph.input)}
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    folded = 0
    for proto in graph.node:
        if proto.op_type == "Constant":
            held = next((a.t for a in proto.attribute if a.name == "value" and a.HasField("t")), None)
            if held is not None and proto.output and numbers(held) is not None:
                known[proto.output[0]] = numpy_helper.to_array(held)
            continue
        value = fold(proto, known, shapes)
        if value is not None:
            known[proto.output[0]] = value
            constant = onnx.helper.make_node("Constant", [], proto.output, proto.name,
                                             value=numpy_helper.from_array(value))
            proto.CopyFrom(constant)
            folded += 1
    return folded


def einsum_dims(equation, shapes):
    """The output's sides of an Einsum, whose shape ONNX does not infer; None: not known."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    if not arrow or "." in equation or len(letters) != len(shapes) or any(
            dims is None or len(dims) != len(words) for words, dims in zip(letters, shapes)):
        return None
    sides = {letter: side for words, dims in zip(letters, shapes) for letter, side in zip(words, dims)}
    return [sides[letter] for letter in result] if all(letter in sides for letter in result) else None


def find_einsums(graph, found):
    """Add shapes of Einsums to @found as far as their inputs have some; whether there are new ones."""
    shapes = {info.name: known_dims(info) for info in (*graph.value_info, *graph.input)}
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    before = len(found)
    for proto in graph.node:
        if proto.op_type != "Einsum" or proto.output[0] in found:
            continue
        equation = next((a.s.decode() for a in proto.attribute if a.name == "equation"), "")
        dims = einsum_dims(equation, [shapes.get(name) for name in proto.input])
        if dims is not None:
            found[proto.output[0]] = onnx.helper.make_tensor_value_info(proto.output[0], onnx.TensorProto.FLOAT, dims)
    return len(found) > before


def infer(model):
    """Shapes of all values of @model, whose weights are gone."""
    fed = check(model)
    for info in model.graph.input:
        if info.name in fed:
            close_batch(info)
    for tensor in model.graph.initializer:
        if numbers(tensor) is None:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
    for out in model.graph.output:
        if out.type.HasField("tensor_type"):
            out.type.tensor_type.ClearField("shape")
    found = {}
    while True:
        del model.graph.value_info[:]  # of the exporter's batch, or of a time when less was known
        model.graph.value_info.extend(found.values())
        try:
            model = onnx.shape_inference.infer_shapes(model)
        except Exception as error:  # of several kinds, by version
            raise Refused(f"ONNX finds no shapes: {str(error).strip()}") from None
        if not fold_all(model.graph) and not find_einsums(model.graph, found):
            return model


def read(data):
    """The graph of a file."""
    try:
        model = onnx.ModelProto.FromString(data)
    except Exception:  # protobuf's DecodeError, which has moved
        model = None
    if model is None or not model.graph.node:
        raise Refused("is not an ONNX model of at most 2 GiB")
    return Graph(infer(model).graph)
