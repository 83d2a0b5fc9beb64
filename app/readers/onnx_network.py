"""ONNX files: a network of foretrain, counted for one image.

A batch norm or convolution takes the ReLU and the add behind it, as our own networks do; GELU and layer norm
are found in their parts; reshapes cost nothing, transposes and slices a copy.  Dropout and every operation on
single values read and write memory.
"""
import math
import re

import onnx_graph
from draft import Refused

LAYERS, INPUTS, NAME = 20000, 64, 72  # as models/networks.h and core/schedule/model.h have them
SIDE, FLOPS = 1 << 24, 1e18
INPUT = -1  # the layer that holds the images
WINDOWED = ("convolution", "transposed-convolution")
ARITHMETIC = (*WINDOWED, "linear")
FORMS = {"Cast", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}
DEEP = 64


def source(value):
    """What a constant is made of by nodes that only change its form."""
    for _ in range(DEEP):
        if value.maker is None or value.maker.op not in FORMS or value.maker.input(0) is None:
            break
        value = value.maker.inputs[0]
    return value


def sides(value):
    """How many sides of a value are longer than one."""
    return sum(dim > 1 for dim in value.dims or ())


def number(value):
    """The one number of a constant, or None."""
    found = source(value).numbers if value else None
    return found[0] if found and len(found) == 1 else None


def shape_of(value):
    """[channels, height, width] without the batch; of a sequence the features come first."""
    dims = list(value.dims)
    if len(dims) > 1 and dims[0] == 1:
        dims = dims[1:]
    if len(dims) == 2:
        return [dims[1], 1, dims[0]]
    if len(dims) > 2:
        return [math.prod(dims[:-2]), dims[-2], dims[-1]]
    return [dims[0] if dims else 1, 1, 1]


class Layer:
    """A line of a network file."""

    def __init__(self, kind, name, inputs, shape_in, shape_out):
        self.kind, self.name, self.inputs = kind, name, inputs
        self.shape_in, self.out = shape_in, shape_out
        self.add = None  # the layer that a batch norm adds
        self.kernel, self.stride, self.padding, self.groups = 0, 1, 0, 1
        self.inner = self.rows = self.constants = self.flops = self.elements = 0
        self.weights_of = None
        self.kernel_width = 0  # 0: as kernel
        self.explicit = False  # the output does not follow from the window
        self.bias = False
        self.relu = ""  # "true" or "6"


class Network:
    """A network being read."""

    def __init__(self, graph, by_bytes):
        self.graph, self.by_bytes = graph, by_bytes
        self.layers, self.names = [], {"input"}
        self.layer = {}  # value: the layer that holds it
        self.fresh = set()  # values that are a layer's output itself, not a view of it
        self.holder = {}  # value: the layer that has these parameters
        self.notes = []

    # ---- layers ----

    def name(self, node):
        """torchvision's name where a weight tells it, else the node's; the end of a long one."""
        weight = node.input(1)
        text = ""
        if weight is not None and weight.constant:
            found = source(weight)
            if found.weight and found not in self.holder and re.search(r".[._]weight$", found.name):
                text = found.name[:-len(".weight")]
        return self.unique((text or node.name).lstrip("/") or node.op)

    def unique(self, text):
        """A name that no other layer has."""
        tail = NAME - 12
        first = re.sub(r"[^A-Za-z0-9_./+-]", "_", text[-tail:])
        name, k = first, 2
        while name in self.names:
            name, k = f"{first[:tail]}+{k}", k + 1
        self.names.add(name)
        return name

    def append(self, node, kind, value, out):
        """A layer for @node that reads @value and whose output is @out."""
        index = self.layer[value]
        layer = Layer(kind, self.name(node), [index], shape_of(value), shape_of(out))
        self.layers.append(layer)
        self.layer[out] = len(self.layers) - 1
        self.fresh.add(out)
        return layer

    def alias(self, value, out, fresh=False):
        """@out is another view of @value, or, if @fresh, what its layer has become."""
        self.layer[out] = self.layer[value]
        if fresh:
            self.fresh.add(out)

    def own(self, value):
        """The layer whose output is @value itself, if nothing else reads it; or None."""
        good = value in self.fresh and self.layer.get(value, INPUT) >= 0 and value.uses == 1
        return self.layers[self.layer[value]] if good else None

    def shape_before(self, layer):
        """The output of the layer that @layer reads first."""
        return self.input_shape if layer.inputs[0] == INPUT else self.layers[layer.inputs[0]].out

    def count(self, layer, value, depth=0):
        """The parameters behind a constant that no layer has yet: they are those of @layer."""
        if value is None or value in self.holder or not value.constant or depth > DEEP:
            return 0
        self.holder[value] = layer
        if value.maker and value.maker.op == "Identity" and source(value) in self.holder and sides(value) == 1:
            return value.elements  # exporters write equal vectors once; only matrices are shared
        total = value.elements if value.weight and value.dims is not None and value.elements > 1 else 0
        return total + sum(self.count(layer, one, depth + 1) for one in (learned(value.maker) if value.maker else ()))

    def free(self, value):
        """Weights of a product of constants, as of a state of zeros, become those of a layer that computes with them."""
        value = source(value)
        if value in self.holder and self.holder[value].constants >= value.elements:
            layer = self.holder.pop(value)
            layer.constants -= value.elements
            layer.kind = layer.kind if layer.constants else "other"

    def weigh(self, layer, value):
        """@layer has these weights, or uses those of the layer that has them."""
        self.free(value)
        layer.weights_of = self.holder.get(source(value))
        self.count(layer, value)

    def bias(self, layer, value):
        """Let @layer add this bias to its value; other biases of weights that have one are not its own."""
        owner = layer.weights_of
        self.free(value)
        other = owner and owner.bias and self.holder.get(source(value)) is not owner
        if not other:
            self.count(layer, value)
        layer.bias = not other
        return not other

    def other(self, node, out):
        """An operation by what it moves, with the parameters among its inputs."""
        active = [node.inputs[i] for i in range(len(node.inputs)) if node.active(i)][:INPUTS]
        layer = self.append(node, "other", active[0], out)
        layer.inputs += [self.layer[one] for one in active[1:]]
        layer.constants += sum(self.count(layer, one) for one in learned(node))
        return layer

    def moves(self, node):
        """Append any node by what it moves; whether it reads values."""
        if not 0 < sum(node.active(i) for i in range(len(node.inputs))) <= INPUTS:
            return False
        self.other(node, node.outputs[0])
        return True

    # ---- the graph ----

    def read(self):
        """All layers."""
        inputs = [one for one in self.graph.inputs if one.uses] or self.graph.inputs
        for value in self.graph.values.values():
            if value.dims and not value.constant and max(value.dims) > SIDE:
                raise Refused(f"'{value.name}' has {value.elements} values: too large")
        if not inputs:
            raise Refused("has no input")
        for index, value in enumerate(inputs):
            if value.dims is None:
                raise Refused(f"input {index + 1} has no shape")
        largest = max(inputs, key=lambda one: one.elements)
        self.input_shape = shape_of(largest)
        for value in inputs:
            self.layer[value] = INPUT
            if value.elements != largest.elements:
                self.layer[value] = len(self.layers)
                self.layers.append(Layer("permute", self.unique(value.name), [INPUT], self.input_shape, shape_of(value)))
        if len(inputs) > 1:
            self.notes.append(f"{len(inputs)} inputs are one of {largest.elements} values, and copies for those of another size")
        for node in self.graph.nodes:
            if node.live and not node.done and not layer_norm_of_parts(self, node) and not gelu_of_parts(self, node):
                self.read_node(node)
        if not self.layers:
            raise Refused("computes nothing")
        self.part_norms()

    def read_node(self, node):
        """One operation."""
        if len(self.layers) >= LAYERS:
            raise Refused(f"more than {LAYERS} layers")
        active = [one for i, one in enumerate(node.inputs) if node.active(i)]
        read = [one for one in node.outputs[1:] if one and one.uses]
        if not node.outputs or any(one is None or one.dims is None for one in (node.outputs[0], *read, *active)):
            raise Refused(f"the shape of {node.op} '{node.name}' is not known: export the network with sizes")
        operation = OPERATIONS.get(node.op)
        if not operation or not (node.active(0) or operation in EITHER) or not operation(self, node):
            if not self.by_bytes or not self.moves(node):
                why = " and has no usable inputs" if self.by_bytes else ""
                raise Refused(f"operation {node.op} ('{node.name}') is not known{why}; --unknown=bytes counts it by the "
                              "bytes it moves")
            self.notes.append(f"{node.op} '{node.name}': by the bytes it moves, without FLOP")
        for out in read:
            if out not in self.layer:
                self.append(node, "permute", node.outputs[0], out)

    def part_norms(self):
        """Exporters write equal weights once, as those of norms that were never trained: if no other layer uses
        the weights of another, norms do not."""
        if not any(layer.weights_of and layer.kind not in ("batch-norm", "layer-norm", "group-norm")
                   for layer in self.layers):
            for layer in self.layers:
                layer.weights_of = None


# ---- layers with parameters ----

def learned(node):
    """The inputs of @node that a gradient reaches: not masks, which are compared or chosen by, nor angles of
    rotations, which multiply several values at each position."""
    def turns(one):
        return node.op == "Mul" and one and one.constant and one.uses > 1 and sides(one) > 1

    return [] if node.op in ("Equal", "Greater", "Less", "Not", "And") else [
        one for one in node.inputs[node.op == "Where":] if not turns(one)]


def add_values(net, node, value, constant):
    """Parameters that are added to @value."""
    out = node.outputs[0]
    alike = value.elements == out.elements
    layer = net.append(node, "other", value, out)
    layer.constants = net.count(layer, constant)
    if layer.constants and alike:
        layer.kind = "add"
    return True


def add_bias(net, node, value):
    """The bias of the layer of @node, if any."""
    out = node.outputs[0]
    if value is not None and not net.bias(net.layers[net.layer[out]], value):
        add_values(net, node, out, value)


def is_window(node, kernel):
    """Windows as ours: square, alike on all sides, without gaps; and the output says the same."""
    value, out = node.inputs[0], node.outputs[0]
    stride, padding = node.at("strides", 0, 1), node.at("pads", 0, 0)
    return (value.rank == 4 and out.rank == 4 and 1 <= kernel <= 4096 and padding < kernel and 1 <= stride <= 4096 and
            all(node.at("kernel_shape", i, kernel) == kernel for i in (0, 1)) and node.at("strides", 1, stride) == stride and
            all(node.at("dilations", i, 1) == 1 for i in (0, 1)) and all(node.at("pads", i, 0) == padding for i in (1, 2, 3)) and
            all(out.dims[i] == (value.dims[i] + 2 * padding - kernel) // stride + 1 for i in (2, 3)))


def set_window(layer, node, kernel):
    """What is_window() has found."""
    layer.kernel, layer.stride, layer.padding = kernel, node.at("strides", 0, 1), node.at("pads", 0, 0)


def convolution(net, node):
    """Conv, and ConvTranspose, whose weights are inputs x outputs of a group x window."""
    weight = node.input(1)
    if weight is None or not weight.constant or weight.rank < 3:
        return False
    if node.op == "ConvTranspose":
        return any_window(net, node, "transposed-convolution", weight.dims[1] * node.get("group", 1))
    if weight.rank == 4 and weight.dims[2] == weight.dims[3] and is_window(node, weight.dims[2]):
        layer = net.append(node, "convolution", node.inputs[0], node.outputs[0])
        set_window(layer, node, weight.dims[2])
        layer.groups = node.get("group", 1)
        net.weigh(layer, weight)
        add_bias(net, node, node.input(2))
        return True
    return any_window(net, node, "convolution", node.outputs[0].dims[1])


def any_window(net, node, kind, channels):
    """A convolution whose window is no square, has gaps, or other paddings; of one to three dimensions."""
    weight, value, out = node.input(1), node.inputs[0], node.outputs[0]
    layer = net.append(node, kind, value, out)
    layer.shape_in, layer.out = ([one.dims[1], math.prod(one.dims[2:-1]), one.dims[-1]] for one in (value, out))
    layer.kernel, width = math.prod(weight.dims[2:-1]), weight.dims[-1]
    layer.kernel_width = 0 if width == layer.kernel else width
    layer.stride, layer.padding = node.at("strides", 0, 1), 0
    layer.groups, layer.explicit = node.get("group", 1), True
    net.weigh(layer, weight)
    add_bias(net, node, node.input(2))
    return layer.out[0] == channels


def instance_norm(net, node):
    """InstanceNormalization, and the group norm that PyTorch writes with it: reshaped, times weights, plus biases."""
    value, scale, out = node.input(0), node.input(1), node.outputs[0]
    if scale is None or value.rank < 3:
        return False
    bias = node.input(2)
    rest = chain(node, "Reshape", "Mul", "Add")
    if not source(scale).weight and rest:
        weights = [constant_beside(rest[1], rest[0].outputs[0]), constant_beside(rest[2], rest[1].outputs[0])]
        if None not in weights and all(one.dims and one.elements == weights[0].elements for one in weights):
            (scale, bias), out = weights, rest[2].outputs[0]
            for one in rest:
                one.done = True
    if not source(scale).weight:
        return net.moves(node)
    layer = net.append(node, "group-norm", value, out)
    layer.shape_in = [scale.elements, 1, value.elements // scale.elements]
    net.weigh(layer, scale)
    net.count(layer, bias)
    return True


def recurrent(net, node):
    """LSTM, GRU and RNN: two products at each position, in order."""
    x, weight, hidden = node.input(0), node.input(1), node.input(2)
    if weight is None or hidden is None or weight.rank != 3 or hidden.rank != 3 or x.rank != 3:
        return False
    layer = net.other(node, node.outputs[0])
    layer.flops = int(min(2 * x.dims[0] * (weight.elements + hidden.elements), FLOPS))
    layer.elements = x.elements + x.dims[0] * weight.dims[0] * 2 * (weight.dims[1] + hidden.dims[2])
    return True


def einsum(net, node):
    """Einsum of two values; of one and weights it is counted by its FLOP."""
    equation = node.attributes.get("equation", b"").decode().replace(" ", "")
    terms, _, result = equation.partition("->")
    letters = terms.split(",")
    if len(letters) != 2 or not result or "." in equation or any(one is None or one.rank != len(words)
                                                                 for one, words in zip(node.inputs, letters)):
        return net.moves(node)
    sides = {letter: side for one, words in zip(node.inputs, letters) for letter, side in zip(words, one.dims)}
    inner = math.prod(side for letter, side in sides.items() if letter not in result)
    out = node.outputs[0]
    if node.active(0) and node.active(1):
        layer = net.append(node, "matmul", node.inputs[0], out)
        layer.inputs.append(net.layer[node.inputs[1]])
        layer.inner = inner
    else:
        net.other(node, out).flops = int(min(2 * out.elements * inner, FLOPS))
    return True


def gate(net, node):
    """A function of single values; times its argument it is one kernel, as SiLU."""
    value, out = node.inputs[0], node.outputs[0]
    product_of = following(node, "Mul")
    if product_of and value in product_of.inputs:
        product_of.done, out = True, product_of.outputs[0]
    net.append(node, "silu", value, out)
    return True


def multiply(net, node):
    """Mul of two values, of which the smaller one is repeated."""
    one, two, out = node.input(0), node.input(1), node.outputs[0]
    if not (node.active(0) and node.active(1)) or out.elements not in (one.elements, two.elements):
        return net.moves(node)
    if one.elements != out.elements:
        one, two = two, one
    net.append(node, "multiply", one, out).inputs.append(net.layer[two])
    return True


def dense(net, node, inner, columns, bias):
    """A matrix of parameters, inner x columns, times each of the rows."""
    out = node.outputs[0]
    rows = out.elements // columns
    layer = net.append(node, "linear" if rows == 1 else "convolution", node.inputs[0], out)
    layer.kernel, layer.out = 1, [columns, 1, rows]
    layer.shape_in = net.shape_before(layer) if rows == 1 else [inner, 1, rows]
    net.weigh(layer, node.inputs[1])
    add_bias(net, node, bias)
    return True


def product(net, node):
    """Gemm and MatMul."""
    gemm = node.op == "Gemm"
    left, right, third = (node.input(i) for i in range(3))
    if left is None or right is None or left.rank < 1 or right.rank < 1:
        return False
    inner = left.dims[0 if gemm and node.get("transA", 0) else -1]
    if node.active(0) and right.constant and right.rank == 2:
        return dense(net, node, inner, right.dims[0 if gemm and node.get("transB", 0) else 1],
                     third if gemm and third is not None and third.constant else None)
    if node.active(0) and node.active(1) and (third is None or not gemm):
        layer = net.append(node, "matmul", left, node.outputs[0])
        layer.inputs.append(net.layer[right])
        layer.inner = inner
        return True
    layer = net.other(node, node.outputs[0])
    layer.flops = int(min(2 * node.outputs[0].elements * inner, FLOPS))
    return True


def batch_norm(net, node):
    """BatchNormalization."""
    value, scale = node.input(0), node.input(1)
    if scale is None or scale.rank != 1:
        return False
    layer = net.append(node, "batch-norm", value, node.outputs[0])
    if layer.shape_in[0] != scale.dims[0]:
        layer.shape_in = [scale.dims[0], 1, value.elements // scale.dims[0]]
    layer.out = layer.shape_in
    net.weigh(layer, scale)
    for one in node.inputs[2:]:
        net.count(layer, one)
    return True


def norm_layer(net, node, value, out, scale, bias):
    """A layer norm over the features of its scale."""
    layer = net.append(node, "layer-norm", value, out)
    layer.shape_in = [scale.elements, 1, value.elements // scale.elements]
    net.weigh(layer, scale)
    net.count(layer, bias)
    return True


def layer_norm(net, node):
    """LayerNormalization."""
    scale = node.input(1)
    if scale is None or scale.rank < 1:
        return False
    return norm_layer(net, node, node.inputs[0], node.outputs[0], scale, node.input(2))


# ---- what is added and bounded ----

def bound(node, index, attribute, missing):
    """An end of a Clip, which its input or its attribute says, if any does; NaN: computed."""
    found = number(node.input(index))
    if found is None:
        found = node.attributes.get(attribute)
    return missing if found is None and node.input(index) is None else math.nan if found is None else found


def relu(net, node):
    """Relu, and Clip between 0 and 6 or any other numbers."""
    clip = node.op == "Clip"
    low = bound(node, 1, "min", -math.inf) if clip else 0
    high = bound(node, 2, "max", math.inf) if clip else math.inf
    value, out = node.inputs[0], node.outputs[0]
    layer = net.own(value)
    carries = layer and not layer.relu and layer.kind in (*ARITHMETIC, "batch-norm")
    if carries and low == 0 and high in (6, math.inf):
        layer.relu = "6" if high == 6 else "true"
        net.alias(value, out, True)
    elif low == 0 and high == math.inf:
        net.append(node, "relu", value, out)
    else:
        net.other(node, out)
    return True


def add_constant(net, node, value, constant):
    """A bias of the layer before, or parameters of an add."""
    layer = net.own(value)
    if (layer and layer.kind in ARITHMETIC and not layer.bias and not layer.relu and source(constant).weight and
            constant.rank == 1 and constant.elements == layer.out[0] and net.bias(layer, constant)):
        net.alias(value, node.outputs[0], True)
        return True
    return add_values(net, node, value, constant)


def can_add(net, main, added):
    """A batch norm adds a value that is complete before it, or in one step after it."""
    if added < 0:
        return False
    layer = net.layers[added]
    complete = layer.add if layer.add is not None and layer.add > added else added
    return complete == added if added > main else complete < main


def addition(net, node):
    """Add."""
    one, two, out = node.input(0), node.input(1), node.outputs[0]
    if one is None or two is None:
        return False
    if not node.active(1):
        return add_constant(net, node, one, two)
    if not node.active(0):
        return add_constant(net, node, two, one)
    if one.elements != out.elements or two.elements != out.elements:
        net.other(node, out)
        return True
    for main, added in ((one, two), (two, one)):
        layer = net.own(main)
        if (layer and layer.kind == "batch-norm" and not layer.relu and layer.add is None and
                can_add(net, net.layer[main], net.layer[added])):
            layer.add = net.layer[added]
            net.alias(main, out, True)
            return True
    net.append(node, "add", one, out).inputs.append(net.layer[two])
    return True


# ---- pools, tables, views ----

def pool(net, node):
    """MaxPool and AveragePool."""
    kernel, stride = node.at("kernel_shape", 0, 0), node.at("strides", 0, 1)
    average = node.op == "AveragePool"
    _, height, width = shape_of(node.inputs[0])
    tiles = stride == kernel and kernel > 0 and not height % kernel and not width % kernel
    if not is_window(node, kernel) or (average and not tiles):
        net.other(node, node.outputs[0])
        return True
    set_window(net.append(node, "average-pool" if average else "max-pool", node.inputs[0], node.outputs[0]), node, kernel)
    return True


def mean(net, node):
    """GlobalAveragePool, and a mean over height and width."""
    value, out = node.inputs[0], node.outputs[0]
    axes = node.attributes.get("axes") or (source(node.input(1)).numbers if node.input(1) else None) or []
    sides = node.op == "GlobalAveragePool" or sorted(int(axis) % 4 for axis in axes) == [2, 3]
    if value.rank != 4 or not sides or out.elements != value.dims[1]:
        net.other(node, out)
        return True
    layer = net.append(node, "average-pool", value, out)
    layer.kernel, layer.out = layer.shape_in[1], [layer.shape_in[0], 1, 1]
    return True


def concat(net, node):
    """Concat."""
    if len(node.inputs) > INPUTS:
        return False
    every = all(node.active(i) for i in range(len(node.inputs)))
    net.other(node, node.outputs[0]).kind = "concat" if every else "other"
    return True


def gather(net, node):
    """A row of a table for each index; or a part of a value, which is copied."""
    table, out = node.input(0), node.outputs[0]
    if table is not None and table.constant and table.rank == 2 and node.active(1) and node.get("axis", 0) == 0:
        layer = net.append(node, "embedding", node.inputs[1], out)
        layer.rows = table.dims[0]
        layer.out = [table.dims[1], 1, out.elements // table.dims[1]]
        net.weigh(layer, table)
        return True
    net.other(node, out).kind = "permute"
    return True


def part(net, node):
    """Slice and Split."""
    for out in node.outputs:
        if out is not None and out.uses:
            net.append(node, "permute", node.inputs[0], out)
    return True


def view(net, node):
    """Views cost nothing, nor transposes where only dimensions of one change places; what repeats or pads values does."""
    value, out = node.inputs[0], node.outputs[0]
    order = [node.at("perm", i, value.rank - 1 - i) for i in range(value.rank if node.op == "Transpose" else 0)]
    moved = [axis for axis in order if 0 <= axis < value.rank and value.dims[axis] != 1]
    if value.elements == out.elements and moved == sorted(moved):
        net.alias(value, out)
    else:
        net.append(node, "permute", value, out)
    return True


def dropout(net, node):
    """Dropout, unless it never runs."""
    if number(node.input(1)) == 0 or node.input(2) is None:
        net.alias(node.inputs[0], node.outputs[0])
    else:
        net.append(node, "dropout", node.inputs[0], node.outputs[0])
    return True


def softmax(net, node):
    """Softmax and LogSoftmax."""
    net.append(node, "softmax", node.inputs[0], node.outputs[0])
    return True


# ---- what exporters write as its parts ----

def following(node, op):
    """The node that alone reads the first output of @node, if it is @op."""
    value = node.outputs[0] if node and node.outputs else None
    found = value.reader if value and value.uses == 1 else None
    return found if found and found.live and not found.done and found.op == op else None


def chain(node, *ops):
    """The nodes that follow one by one, or None."""
    found = []
    for op in ops:
        node = following(node, op)
        if node is None:
            return None
        found.append(node)
    return found


def constant_beside(node, value):
    """What @node reads besides @value, if that is constant."""
    other = node.input(1 if node.input(0) is value else 0)
    return other if other is not None and other.constant else None


def layer_norm_of_parts(net, node):
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + e) * weight + bias."""
    centre = following(node, "Sub") if node.op == "ReduceMean" else None
    value = node.input(0)
    if not centre or centre.input(0) is not value or len(centre.outputs) != 1 or centre.outputs[0].uses != 2:
        return False
    power = centre.outputs[0].reader
    if not power or not power.live or power.done or power.op != "Pow":
        return False
    rest = chain(power, "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add")
    if not rest or rest[3].input(0) is not centre.outputs[0]:
        return False
    divide, scale, shift = rest[3:]
    weight, bias = constant_beside(scale, divide.outputs[0]), constant_beside(shift, scale.outputs[0])
    if weight is None or bias is None or weight.dims is None or bias.dims is None or weight.elements != bias.elements:
        return False  # without parameters it is not one of ours
    if not value.dims or value.dims[-1] != weight.elements:
        return False
    for one in (node, centre, power, *rest):
        one.done = True
    return norm_layer(net, scale, value, shift.outputs[0], weight, bias)


def gelu_of_parts(net, node):
    """x * (erf(x / sqrt(2)) + 1) * 0.5."""
    value = node.input(0)
    if node.op not in ("Div", "Mul") or value is None or constant_beside(node, value) is None:
        return False
    parts = chain(node, "Erf", "Add", "Mul", "Mul")
    if not parts or value not in parts[2].inputs[:2] or constant_beside(parts[3], parts[2].outputs[0]) is None:
        return False
    for one in (node, *parts):
        one.done = True
    net.append(parts[0], "gelu", value, parts[3].outputs[0])
    return True


OPERATIONS = {
    "Conv": convolution, "Gemm": product, "MatMul": product, "BatchNormalization": batch_norm,
    "ConvTranspose": convolution, "InstanceNormalization": instance_norm, "Einsum": einsum, "Mul": multiply,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), recurrent),
    **dict.fromkeys(("Sigmoid", "HardSigmoid", "HardSwish", "Tanh"), gate),
    "LayerNormalization": layer_norm, "Relu": relu, "Clip": relu, "Add": addition, "MaxPool": pool, "AveragePool": pool,
    "GlobalAveragePool": mean, "ReduceMean": mean, "Concat": concat, "Gather": gather, "Slice": part, "Split": part,
    "Dropout": dropout, "Softmax": softmax, "LogSoftmax": softmax,
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "Expand", "Pad", "Transpose"), view),
    # on single values, or as good as
    **dict.fromkeys(
        "Abs And ArgMax ArgMin Celu Cos CumSum DepthToSpace Div Elu Equal Erf Exp Floor GatherElements GatherND Greater "
        "GreaterOrEqual GlobalMaxPool LeakyRelu Less LessOrEqual Log Max Min Mod Neg Not Or PRelu Pow Reciprocal ReduceL1 "
        "ReduceL2 ReduceLogSumExp ReduceMax ReduceMin ReduceProd ReduceSum Resize Round ScatterElements ScatterND Selu Sign "
        "Sin Softplus SpaceToDepth Sqrt Sub Tile TopK Trilu Where Xor".split(), Network.moves),
}

EITHER = (product, addition, einsum, multiply, concat, gather, Network.moves)  # what need not read a value first


# ---- the network file ----

def line(net, layer):
    """A layer as foretrain-network(5) has it."""
    def called(index):
        return "input" if index == INPUT else net.layers[index].name

    def size(dims):
        return "x".join(map(str, dims))

    words = [f"name: {layer.name}", f"kind: {layer.kind}", f"inputs: [{', '.join(map(called, layer.inputs))}]"]
    if layer.add is not None:
        words.append(f"add: {called(layer.add)}")
    if layer.shape_in != net.shape_before(layer):
        words.append(f"in: {size(layer.shape_in)}")
    follows = layer.kind in (*ARITHMETIC, "max-pool", "batch-norm") and not layer.explicit
    if not follows and (layer.explicit or layer.kind in ("matmul", "permute") or layer.out != layer.shape_in):
        words.append(f"out: {size(layer.out)}")
    channels = layer.out[0] if layer.kind in (*ARITHMETIC, "embedding") else 0
    window = layer.kind in (*WINDOWED, "max-pool", "average-pool")
    for key, value, usual in (("channels", channels, 0), ("kernel", layer.kernel if window else 0, 0),
                              ("kernel_width", layer.kernel_width, 0),
                              ("stride", layer.stride, 1), ("padding", layer.padding, 0), ("groups", layer.groups, 1),
                              ("inner", layer.inner, 0), ("rows", layer.rows, 0), ("parameters", layer.constants, 0),
                              ("flops", layer.flops, 0), ("elements", layer.elements, 0)):
        if value != usual:
            words.append(f"{key}: {value}")
    if layer.weights_of:
        words.append(f"weights_of: {layer.weights_of.name}")
    if layer.bias:
        words.append("bias: true")
    if layer.relu:
        words.append(f"relu: {layer.relu}")
    return f"  - {{{', '.join(words)}}}\n"


def document(data, name, by_bytes):
    """The network file, the values that each layer gives by ONNX's shapes, and notes."""
    net = Network(onnx_graph.read(data), by_bytes)
    net.read()
    name = re.sub(r"[^A-Za-z0-9-]", "_", name.split(".", maxsplit=1)[0])[:31] or "onnx"
    text = (f"version: 1\nname: {name}\ninput: {'x'.join(map(str, net.input_shape))}\nlayers:\n"
            + "".join(line(net, layer) for layer in net.layers))
    return {"network": text, "values": [math.prod(layer.out) for layer in net.layers], "notes": net.notes}
