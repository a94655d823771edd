"""Networks that MXNet's Symbol or ours has saved, as functions of PyTorch's tensors, for benchmarks' peers."""

import ast
from typing import Any, Callable, Dict, List, Mapping, Tuple

import numpy as np


def attributes(node: Mapping[str, Any]) -> Dict[str, Any]:
    """A node's attributes as numbers, tuples and truth values, where their texts are these."""
    def value(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
    return {name: value(text) for name, text in node.get("attrs", {}).items()}


class TorchGraph:
    """A graph up to its last operator that is no loss, called eagerly.

    An array inside is freed after its last use, as the variables of a program in PyTorch are.
    """

    def __init__(self, torch: Any, nodes: List[Dict[str, Any]], arrays: Mapping[str, np.ndarray], training: bool):
        """Takes the nodes of a file and the arrays of the variables, all but `data` and labels.

        In training these are parameters with gradients, except for those that hold statistics.
        """
        self.torch, self.f, self.training = torch, torch.nn.functional, training
        self.parameters: List[Any] = []
        self.variables: Dict[int, Any] = {}  # by the node's number
        for number, node in enumerate(nodes):
            if node["op"] != "null" or node["name"] not in arrays:
                continue
            tensor = torch.from_numpy(arrays[node["name"]])
            if not node["name"].endswith(("_mean", "_var")):
                tensor.requires_grad_(training)
                self.parameters.append(tensor)
            self.variables[number] = tensor
        self.data = next(number for number, node in enumerate(nodes) if node["name"] == "data")
        # Number, function, numbers of the inputs, and those of them that no later step reads.
        self.steps: List[Tuple[int, Callable[..., Any], List[int], List[int]]] = []
        read_later = set(self.variables)
        for number, node in reversed(list(enumerate(nodes))):
            if node["op"] in ("null", "SoftmaxOutput"):
                continue
            inputs = [entry[0] for entry in node["inputs"]]
            finished = sorted(set(inputs) - read_later)
            read_later.update(inputs)
            self.steps.insert(0, (number, self.function(node["op"], attributes(node)), inputs, finished))

    def __call__(self, data: Any) -> Any:
        values = {**self.variables, self.data: data}
        result = data
        for number, function, inputs, finished in self.steps:
            result = values[number] = function(*[values[i] for i in inputs])
            for i in finished:
                del values[i]
        return result

    def function(self, op: str, attrs: Dict[str, Any]) -> Callable[..., Any]:
        torch, f, training = self.torch, self.f, self.training
        scalar, axis = attrs.get("scalar"), attrs.get("axis", -1)
        functions: Dict[str, Callable[[], Callable[..., Any]]] = {
            "Convolution": lambda: self.convolution(attrs),
            "BatchNorm": lambda: lambda x, gamma, beta, mean, var: f.batch_norm(
                x, mean, var, gamma, beta, training, 0.1, float(attrs.get("eps", 1e-3))),
            "LayerNorm": lambda: lambda x, gamma, beta: f.layer_norm(
                x, x.shape[-1:], gamma, beta, float(attrs.get("eps", 1e-5))),
            "Pooling": lambda: self.pooling(attrs),
            "Activation": lambda: {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh}[attrs["act_type"]],
            "LeakyReLU": lambda: {"gelu": f.gelu}[attrs["act_type"]],
            "FullyConnected": lambda: self.dense(attrs.get("flatten", True)),
            "Dropout": lambda: lambda x: f.dropout(x, attrs.get("p", 0.5), training),
            "Concat": lambda: lambda *xs: torch.cat(xs, attrs.get("dim", 1)),
            "Flatten": lambda: lambda x: x.flatten(1),
            "Reshape": lambda: lambda x: x.reshape(attrs["shape"]),
            "transpose": lambda: lambda x: x.permute(attrs["axes"]),
            "batch_dot": lambda: lambda a, b: torch.bmm(a, b.mT if attrs.get("transpose_b") else b),
            "softmax": lambda: lambda x: f.softmax(x, axis),
            "mean": lambda: lambda x: x.mean(axis),
            "clip": lambda: lambda x: torch.clamp(x, attrs["a_min"], attrs["a_max"]),
            "elemwise_add": lambda: torch.add,
            "elemwise_mul": lambda: torch.mul,
            "_plus_scalar": lambda: lambda x: x + scalar,
            "_mul_scalar": lambda: lambda x: x * scalar,
            "relu": lambda: torch.relu,
            "sigmoid": lambda: torch.sigmoid,
            "tanh": lambda: torch.tanh,
        }
        return functions[op]()

    def convolution(self, attrs: Dict[str, Any]) -> Callable[..., Any]:
        stride, pad = attrs.get("stride") or (1, 1), attrs.get("pad") or (0, 0)
        dilate, groups = attrs.get("dilate") or (1, 1), attrs.get("num_group", 1)
        return lambda x, w, b=None: self.f.conv2d(x, w, b, stride, pad, dilate, groups)

    def pooling(self, attrs: Dict[str, Any]) -> Callable[..., Any]:
        is_max = attrs.get("pool_type", "max") == "max"
        if attrs.get("global_pool"):
            return lambda x: x.amax((2, 3), keepdim=True) if is_max else self.f.adaptive_avg_pool2d(x, 1)
        kernel, stride, pad = attrs["kernel"], attrs.get("stride") or (1, 1), attrs.get("pad") or (0, 0)
        ceil = attrs.get("pooling_convention", "valid") == "full"
        if is_max:
            return lambda x: self.f.max_pool2d(x, kernel, stride, pad, 1, ceil)
        return lambda x: self.f.avg_pool2d(x, kernel, stride, pad, ceil, attrs.get("count_include_pad") is not False)

    def dense(self, flattens: bool) -> Callable[..., Any]:
        return lambda x, w, b=None: self.f.linear(x.flatten(1) if flattens else x, w, b)
