"""Random integer operators, and the same between quantizers, through the optimizer for targets that want the one or the other. There is one such
operator a graph, and integers are moved before and behind it, so that original and result lie a step apart at most in ONNX Runtime without its
optimizations."""
import json
import pathlib
import tempfile

import numpy as np
from onnx import helper, numpy_helper

import onnx_saturate

from . import workers
from .optimize import in_onnx_runtime
from .workers import outcome

MICROSOFT = "com.microsoft"
OPSETS = (10, 13, 17, 19, 21, 23)
TAKEN = ["QGemm", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearConcat",
         "QLinearWhere", "MatMulIntegerToFloat"]
SCALES = (0.05, 0.1, 0.007, 0.3, 1.0, 0.5, 2.0**-4, 0.013, 1 / 255)
_target = []


def takes_operators():
    """A target that has integer operators, and makes none itself of groups."""
    if not _target:
        path = pathlib.Path(tempfile.mkdtemp()) / "integers.json"
        path.write_text(json.dumps({"name": "integers", "max_opset": 23, "domains": {MICROSOFT: TAKEN}}))
        _target.append(str(path))
    return _target[0]


class Drawn:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers, self.feed, self.count = [], [], {}, 0
        self.opset, self.spelled = self.pick(OPSETS), self.chance(0.5)  # as an operator
        self.a = self.pick((np.uint8, np.int8))
        self.b = np.int8 if self.a == np.int8 or self.chance(0.6) else np.uint8

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, p):
        return self.rng.random() < p

    def size(self, *options):
        return int(self.pick(options or (1, 2, 3, 5, 8)))

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def add(self, op, inputs, domain="", **attributes):
        name = self.name()
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def constant(self, array):
        name = self.name()
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def integers(self, shape, dtype, low=None, high=None):
        info = np.iinfo(dtype)
        low, high = info.min if low is None else low, info.max if high is None else high
        if self.chance(0.2):
            return self.rng.choice([low, high, 0, high // 2], shape).astype(dtype)
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def bounds(self):
        """Of the second factor: int8 of 7 bits, for where a processor has no dot products, ONNX Runtime's sums of two products saturate."""
        return (-64, 63) if self.b == np.int8 else (None, None)

    def scale(self, shape=()):
        if self.chance(0.5):
            return self.rng.choice(SCALES, shape).astype(np.float32)
        return np.exp(self.rng.uniform(np.log(1e-3), np.log(0.3), shape)).astype(np.float32)

    def quantized(self, shape, dtype, constant=False, axis=None, moved=True, bounds=(None, None)):
        """A value that may have been moved before, its scale, its zero point and the scale's largest number."""
        several = () if axis is None else (shape[axis],)
        if several == () and self.chance(0.2):
            several = (1,)
        scale, zero = self.scale(several), self.integers(() if axis is None else (1,), dtype)
        zero = np.full(several, 0 if axis is not None and self.chance(0.7) else zero.ravel()[0], dtype)
        if constant:
            x = self.constant(self.integers(shape, dtype, *bounds))
        else:
            x = self.input(shape, dtype, bounds) if not moved or self.chance(0.5) else self.moved_input(shape, dtype, bounds)
        return [x, self.constant(scale), self.constant(zero)], float(np.max(scale))

    def input(self, shape, dtype, bounds=(None, None)):
        name = f"x{len(self.feed)}"
        self.feed[name] = self.integers(shape, dtype, *bounds)
        return name

    def moved_input(self, shape, dtype, bounds):
        perm = [int(i) for i in self.rng.permutation(len(shape))]
        back = [perm.index(i) for i in range(len(shape))]
        if self.chance(0.5) or not shape:
            return self.add("Transpose", [self.input([shape[p] for p in perm], dtype, bounds)], perm=back)
        return self.add("Reshape", [self.input([int(np.prod(shape))], dtype, bounds), self.constant(np.array(shape, np.int64))])

    def result(self, factor):
        scale = np.float32(factor * np.exp(self.rng.uniform(np.log(0.02), np.log(4))))
        if self.chance(0.3):
            scale = np.float32(self.pick(SCALES))
        return [self.constant(scale), self.constant(self.integers((), self.a))]

    def dequantize(self, x, axis=None):
        return self.add("DequantizeLinear", x, **({} if axis is None else {"axis": axis}))


def by_value(d, op, integer, operands, to, axis_first=False, inputs=(), only=None, **attributes):
    """An operator on dequantized values, quantized again."""
    if d.spelled:
        flat = sum(operands, [])
        return d.add(integer, list(inputs) + (to + flat if axis_first else flat + to), MICROSOFT, **attributes, **(only or {}))
    return d.add("QuantizeLinear", [d.add(op, list(inputs) + [d.dequantize(x) for x in operands], **attributes)] + to)


def shape_of(d, rank=None):
    return [d.size() for _ in range(rank or d.size(1, 2, 3, 4))]


def pair(d):
    op, shape = d.pick(("Add", "Mul")), shape_of(d)
    other = shape[d.size(0, 1):] if len(shape) > 1 else shape
    (x, p), (w, q) = d.quantized(shape, d.a), d.quantized([n if d.chance(0.8) else 1 for n in other], d.a)
    return by_value(d, op, "QLinear" + op, [x, w], d.result(p + q if op == "Add" else 100 * p * q))


def function(d):
    op = d.pick(("Sigmoid", "LeakyRelu"))
    x, p = d.quantized(shape_of(d), d.a)
    return by_value(d, op, "QLinear" + op, [x], d.result(p if op == "LeakyRelu" else 1 / 256), **({"alpha": 0.3} if op == "LeakyRelu" else {}))


def softmax(d):
    # ONNX Runtime's kernel wraps for a row of one element and beyond the integers.
    x, _ = d.quantized(shape_of(d, d.size(1, 2, 3)) + [d.size(2, 3, 8, 40)], d.a)
    d.opset = max(d.opset, 13)
    to = [d.constant(np.float32(d.pick((1 / 256, 1 / 128, 0.01, 1 / 255)))), d.constant(np.array(np.iinfo(d.a).min, d.a))]
    return by_value(d, "Softmax", "QLinearSoftmax", [x], to, only={"opset": 13}, axis=-1)


def pool(d):
    shape = [d.size(1, 2), d.size(1, 3), d.size(4, 5, 8), d.size(4, 6)]
    x, p = d.quantized(shape, d.a)
    if d.chance(0.3):
        return by_value(d, "GlobalAveragePool", "QLinearGlobalAveragePool", [x], d.result(p))
    return by_value(d, "AveragePool", "QLinearAveragePool", [x], d.result(p), kernel_shape=[d.size(1, 2, 3), d.size(1, 2)], strides=[d.size(1, 2), 1],
                    pads=[0, 0, d.size(0, 1) if shape[2] > 4 else 0, 0], count_include_pad=d.size(0, 1), ceil_mode=0)


def joined(d):
    shape, parts = shape_of(d, d.size(1, 2, 3)), []
    axis = int(d.rng.integers(len(shape)))
    for _ in range(d.size(1, 2, 3, 4)):
        parts.append(d.quantized([n if i != axis else d.size() for i, n in enumerate(shape)], d.a))
    return by_value(d, "Concat", "QLinearConcat", [x for x, _ in parts], d.result(max(p for _, p in parts)), axis_first=True, axis=axis)


def chosen(d):
    shape = shape_of(d)
    (x, p), (w, q) = d.quantized(shape, d.a), d.quantized(shape[1:] or shape, d.a)
    mask = d.constant(d.rng.integers(0, 2, shape).astype(bool))
    return by_value(d, "Where", "QLinearWhere", [x, w], d.result(max(p, q)), inputs=[mask])


def matmul(d):
    k, n = d.size(1, 3, 16, 64), d.size(1, 2, 5, 16)
    batch = d.size(0, 0, 1)
    columns = d.chance(0.4) and d.opset >= 13
    x, p = d.quantized(shape_of(d, d.size(1, 2)) + [k], d.a)
    w, q = d.quantized([k, n] if columns or not batch else [1, k, n], d.b, constant=d.chance(0.7), axis=1 if columns else None, bounds=d.bounds())
    if d.chance(0.3):
        if d.spelled:
            return d.add("MatMulIntegerToFloat", [x[0], w[0], x[1], w[1], x[2], w[2]], MICROSOFT)
        return d.add("MatMul", [d.dequantize(x), d.dequantize(w)])
    to = d.result(30 * p * q * np.sqrt(k))
    if d.spelled:
        return d.add("QLinearMatMul", x + w + to)
    return d.add("QuantizeLinear", [d.add("MatMul", [d.dequantize(x), d.dequantize(w)])] + to)


def bias_of(d, x, w, p_name, n):
    values = {t.name: numpy_helper.to_array(t) for t in d.initializers}
    product = np.asarray(values[x[1]] * values[w[1]], np.float32)
    if product.size == 1:
        product = product.reshape(())
    bias = d.constant(d.rng.integers(-20000, 20000, n).astype(np.int32))
    return bias, d.constant(product), None if product.ndim == 0 else 0


def gemm(d):
    m, k, n = d.size(), d.size(1, 3, 16, 64), d.size(1, 2, 5, 16)
    turned, columns = d.size(0, 1), d.chance(0.4) and d.opset >= 13
    axis = (0 if turned else 1) if columns else None
    d.opset = max(d.opset, 11)
    (x, p), (w, q) = d.quantized([m, k], d.a), d.quantized([n, k] if turned else [k, n], d.b, constant=True, axis=axis, bounds=d.bounds())
    bias, scale, at = bias_of(d, x, w, p, n) if d.chance(0.6) and (not columns or n > 1) else (None, None, None)
    to = d.result(30 * p * q * np.sqrt(k))
    if d.spelled:
        return d.add("QGemm", x + w + [bias or ""] + to, MICROSOFT, transB=turned)
    given = [d.dequantize(x), d.dequantize(w, axis)] + ([d.dequantize([bias, scale], at)] if bias else [])
    return d.add("QuantizeLinear", [d.add("Gemm", given, transB=turned)] + to)


def convolution(d):
    group, filters = d.size(1, 1, 2), d.size(2, 4, 6)
    channels = group * d.size(1, 2, 3)
    columns = d.chance(0.4) and d.opset >= 13
    x, p = d.quantized([d.size(1, 2), channels, d.size(4, 7), d.size(5, 6)], d.a)
    w, q = d.quantized([filters, channels // group, d.size(1, 3), d.size(1, 2)], d.b, constant=True, axis=0 if columns else None, bounds=d.bounds())
    attributes = {"group": group, "pads": [d.size(0, 1), 0, 1, d.size(0, 1)], "strides": [d.size(1, 2), 1]}
    bias, scale, at = bias_of(d, x, w, p, filters) if d.chance(0.6) else (None, None, None)
    to = d.result(100 * p * q)
    if d.spelled:
        return d.add("QLinearConv", x + w + to + ([bias] if bias else []), **attributes)
    given = [d.dequantize(x), d.dequantize(w, 0 if columns else None)] + ([d.dequantize([bias, scale], at)] if bias else [])
    return d.add("QuantizeLinear", [d.add("Conv", given, **attributes)] + to)


KINDS = (pair, pair, function, softmax, pool, joined, chosen, matmul, matmul, gemm, gemm, convolution, convolution)


def drawn(seed):
    d = Drawn(seed)
    last = d.pick(KINDS)(d)
    if d.chance(0.3):
        last = d.add("Reshape", [last, d.constant(np.array([-1], np.int64))])
    graph = helper.make_graph(d.nodes, "drawn", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in d.feed.items()],
                              [helper.make_empty_tensor_value_info(last)], d.initializers)
    opsets = [helper.make_opsetid("", d.opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), d.feed


def apart(a, b):
    """What is wrong, and the number of elements a step apart."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} became {b.dtype}{b.shape}", 0
    if a.dtype.kind == "f":
        far = np.abs(a - b).max(initial=0) > 1e-5 * max(1.0, np.abs(a).max(initial=0))
        return f"{a.ravel()[:6]} became {b.ravel()[:6]}" if far else "", 0
    steps = np.abs(a.astype(int) - b.astype(int))
    at = int(steps.argmax()) if steps.size else 0
    return f"{a.ravel()[at]} became {b.ravel()[at]}" if steps.max(initial=0) > 1 else "", int(np.count_nonzero(steps))


def work(seed, settings):
    model, feed = drawn(seed)
    target = ("onnx", takes_operators(), "ort-cpu@1.20")[seed % 3]
    options = {"target": target, "within_one_step": True, "cost": ("nodes", "measured")[seed // 3 % 2], "verify": False, "time_limit": 20.0}
    try:
        (wanted,) = in_onnx_runtime(model, feed)
    except Exception as error:
        return [outcome("refused by ORT", label=str(error)[:100])]
    workers.about_to_run(settings, "the optimizer", model, feed)
    try:
        result = onnx_saturate.optimize(model, **options)
    except onnx_saturate.Error as error:
        return [outcome("wrong", f"the optimizer refuses: {error}", model=model, feed=feed)]
    kinds = [{n.op_type for n in m.graph.node if n.op_type.startswith(("Q", "Deq", "MatMulInt"))} for m in (model, result)]
    counted = {"another spelling": kinds[0] != kinds[1]}
    try:
        (got,) = in_onnx_runtime(result, feed)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) and target != "ort-cpu@1.20":
            return [outcome("no kernel", counted=counted)]
        return [outcome("wrong", f"ORT refuses the result: {' '.join(str(error).split())[:300]}", model=model, feed=feed)]
    wrong, moved = apart(wanted, got)
    if wrong:
        return [outcome("wrong", f"{wrong} ({target})", model=model, feed=feed)]
    return [outcome("a step apart" if moved else "equal", counted=counted)]
