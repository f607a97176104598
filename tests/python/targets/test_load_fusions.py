"""What the runtime makes of a model when it loads it: the table of fusions, held against ONNX Runtime itself, and what prices make of it."""
import collections
import json
import sys

import numpy as np
import onnx
import pytest
from conftest import ROOT, SHARED, run_ok
from load_patterns import Builder, parse
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
from load_model import after_load, operators  # noqa: E402

TARGET = "ort-cpu@" + ".".join(onnxruntime.__version__.split(".")[:2])
FUSIONS = json.loads((ROOT / "extract" / "runtimes" / "fusions.json").read_text())["fusions"]


def loaded(path, folder):
    return operators(after_load(path, folder))


def told(path, folder, *words):
    words = words or ("--target", TARGET)
    done = run_ok(path, "-o", folder / "out.onnx", "--json", "--no-verify", *words)
    return {which: collections.Counter(ops) for which, ops in json.loads(done.stdout)["at_load"].items()}


def operators_of(term):
    """Of what a spelling becomes."""
    if term[0] != "op":
        return collections.Counter()
    return sum((operators_of(child) for child in term[4]), collections.Counter([term[2][0]]))


CASES = [pytest.param(f, first, id=f"{i}-{op.rpartition('::')[2]}") for i, f in enumerate(FUSIONS)
         for first, op in enumerate(parse(f["pattern"])[2])]


@pytest.mark.parametrize("fusion, first", CASES)
def test_the_runtime_makes_what_the_table_says(fusion, first, tmp_path):
    """Each pattern is a model of its own, which ONNX Runtime is asked about; and what the report says of it is the same."""
    opset = 20 if fusion["pattern"].startswith("Gelu") and first == 0 else 17
    path = tmp_path / "pattern.onnx"
    onnx.save(Builder(fusion, opset, first).model(), path)
    theirs = loaded(path, tmp_path)
    theirs.pop("Neg")
    becomes = parse(fusion["becomes"])
    wanted = collections.Counter(fusion.get("beside", {})) + operators_of(becomes)
    # What it made may be made into more by a later fusion of the table.
    later = [parse(f["becomes"]) for f in FUSIONS if becomes[0] == "op" and repr(becomes[2][0]) in repr(parse(f["pattern"]))]
    names = [op for made in later if made[0] == "op" for op in made[2]]
    assert theirs == wanted or (sum(theirs.values()) == 1 and list(theirs)[0] in names), (theirs, wanted)
    ours = told(path, tmp_path)["before"]
    ours.pop("Neg", None)
    assert ours == theirs


def norm():
    """A layer normalization in single operators, in an opset that has none."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]), helper.make_node("Sub", ["x", "mean"], ["d"]),
             helper.make_node("Pow", ["d", "two"], ["s"]),
             helper.make_node("ReduceMean", ["s"], ["variance"], axes=[-1]), helper.make_node("Add", ["variance", "eps"], ["v"]),
             helper.make_node("Sqrt", ["v"], ["root"]), helper.make_node("Div", ["d", "root"], ["n"]),
             helper.make_node("Mul", ["n", "scale"], ["m"]), helper.make_node("Add", ["m", "bias"], ["y"])]
    constants = {"two": np.float32(2), "eps": np.float32(1e-5), "scale": np.linspace(0.5, 1.5, 16, dtype=np.float32),
                 "bias": np.linspace(-1, 1, 16, dtype=np.float32)}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 16])],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)])


def test_a_norm_stays_one_that_the_runtime_fuses(tmp_path):
    """In an opset without LayerNormalization: Pow(d,2) as Mul(d,d) is a node that costs less, and no norm for ONNX Runtime."""
    path = tmp_path / "norm.onnx"
    onnx.save(norm(), path)
    run_ok(path, "-o", tmp_path / "out.onnx", "--target", "onnx", "--keep-opset")
    assert loaded(tmp_path / "out.onnx", tmp_path) == {"LayerNormalization": 1}


def test_both_prices_are_after_load(tmp_path):
    """What ONNX Runtime fuses by itself saves nothing."""
    path = tmp_path / "norm.onnx"
    onnx.save(norm(), path)
    report = json.loads(run_ok(path, "-o", tmp_path / "out.onnx", "--target", TARGET, "--json").stdout)
    assert report["at_load"] == {"before": {"LayerNormalization": 1}, "after": {"LayerNormalization": 1}}
    assert report["cost_after"] == pytest.approx(report["cost_before"])
    assert report["before"]["nodes"] == 9 and report["after"]["nodes"] == 1  # the file is smaller all the same


def beside_a_quantizer(nodes, constants, dims):
    """The nodes make y of x; a dequantized vector is added, so that the model is priced in the e-graph."""
    more = [helper.make_node("DequantizeLinear", ["q", "q_scale", "q_zero"], ["d8"]), helper.make_node("Add", ["y", "d8"], ["out"])]
    constants = constants | {"q_scale": np.float32(0.1), "q_zero": np.uint8(3)}
    graph = helper.make_graph(nodes + more, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims), helper.make_tensor_value_info("q", TensorProto.UINT8, [1])],
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, dims)], [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_a_norm_of_two_fusions_beside_a_quantizer(tmp_path):
    """x * (1 / sqrt(...)) is a Div first, and that part of a norm; a Cast that changes nothing is dropped. Both prices are those of operators."""
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT), helper.make_node("Pow", ["c", "two"], ["s"]),
             helper.make_node("ReduceMean", ["s"], ["mean"], axes=[-1]), helper.make_node("Add", ["mean", "eps"], ["v"]), helper.make_node("Sqrt", ["v"], ["root"]),
             helper.make_node("Div", ["one", "root"], ["r"]), helper.make_node("Mul", ["c", "r"], ["n"]), helper.make_node("Mul", ["scale", "n"], ["y"])]
    constants = {"two": np.float32(2), "eps": np.float32(1e-6), "one": np.float32(1), "scale": np.linspace(0.5, 1.5, 64, dtype=np.float32)}
    path = tmp_path / "m.onnx"
    onnx.save(beside_a_quantizer(nodes, constants, [2, 40, 64]), path)
    done = json.loads(run_ok(path, "-o", tmp_path / "out.onnx", "--json", "--target", TARGET).stdout)
    assert done["at_load"]["before"] == {"SimplifiedLayerNormalization": 1, "DequantizeLinear": 1, "Add": 1} == loaded(path, tmp_path)
    assert done["cost_after"] / done["cost_before"] == pytest.approx(1, abs=0.05)


def test_a_value_that_is_inside_of_a_spelling_and_read_by_it(tmp_path):
    """t @ t of one Transpose is no FusedMatMul for ONNX Runtime, though t @ transposed(x) would be one."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["t", "t"], ["p"]),
             helper.make_node("Mul", ["p", "half"], ["y"])]
    path = tmp_path / "m.onnx"
    onnx.save(beside_a_quantizer(nodes, {"half": np.float32(0.5)}, [2, 8, 8]), path)
    run_ok(path, "-o", tmp_path / "out.onnx", "--target", TARGET)
    assert loaded(tmp_path / "out.onnx", tmp_path)


def test_fusions_that_say_less_than_their_spelling_are_not_equal(tmp_path):
    """Two products of one pair that differ in their scales are one FusedMatMul each, and stay two."""
    nodes = [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Mul", ["p", "half"], ["y"]),
             helper.make_node("MatMul", ["a", "b"], ["q"]), helper.make_node("Mul", ["q", "quarter"], ["z"]),
             helper.make_node("Sigmoid", ["u"], ["v"]), helper.make_node("Mul", ["s", "u"], ["w"]),
             helper.make_node("Mul", ["u", "half"], ["h"]), helper.make_node("Sigmoid", ["h"], ["s"]), helper.make_node("Mul", ["u", "v"], ["o"])]
    order = [0, 1, 2, 3, 4, 6, 7, 5, 8]
    graph = helper.make_graph([nodes[i] for i in order], "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4, 4]) for n in "abu"],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4, 4]) for n in "yzwo"],
                              [numpy_helper.from_array(np.float32(0.5), "half"), numpy_helper.from_array(np.float32(0.25), "quarter")])
    path = tmp_path / "scales.onnx"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    for target in (TARGET, "onnx"):
        run_ok(path, "-o", tmp_path / "out.onnx", "--target", target, "--no-verify")
        random = np.random.default_rng(1)
        feeds = {n: random.standard_normal([2, 4, 4]).astype(np.float32) for n in "abu"}
        was, now = (onnxruntime.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, feeds) for p in (path, tmp_path / "out.onnx"))
        for a, b in zip(was, now):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


X = ("N", 6, 4, 8)
BACK = helper.make_node("Transpose", ["n"], ["t"], perm=[0, 2, 1, 3])
SHAPED = [BACK, helper.make_node("Shape", ["t"], ["s"]), helper.make_node("Cast", ["s"], ["o"], to=TensorProto.FLOAT)]
CUTS = [helper.make_node("Slice", ["r", "b0", "b4", "last", "one"], ["o"]), helper.make_node("Slice", ["r", "b4", "b8", "last", "one"], ["p"])]
SIZE = [helper.make_node("Shape", ["n"], ["s"]), helper.make_node("Gather", ["s", "last"], ["g"])]
QUANTIZED = [helper.make_node("QuantizeLinear", ["n", "scale", "zero"], ["q"]), helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"])]
FOLLOWED = {
    "the shape of a Transpose": (SHAPED + [helper.make_node("Abs", ["t"], ["p"])], "op"),
    "the shape of a Transpose that a product reads": (SHAPED + [helper.make_node("MatMul", ["t", "w"], ["p"])], "op"),
    "two Transposes with a Softmax between": ([BACK, helper.make_node("Softmax", ["t"], ["u"], axis=-1), helper.make_node("Transpose", ["u"], ["o"], perm=[0, 2, 1, 3])], "o"),
    "a Concat of one between Transposes": ([BACK, helper.make_node("Concat", ["t"], ["u"], axis=2), helper.make_node("Transpose", ["u"], ["o"], perm=[0, 1, 3, 2])], "o"),
    "a product of two that are transposed alike": ([BACK, helper.make_node("Sin", ["n"], ["m"]), helper.make_node("Transpose", ["m"], ["u"], perm=[0, 2, 1, 3]), helper.make_node("Mul", ["t", "u"], ["o"])], "o"),
    "pieces of a value": ([helper.make_node("Abs", ["n"], ["r"])] + CUTS, "op"),
    "pieces of a value of unknown shape": (SIZE + [helper.make_node("Concat", ["rest", "g"], ["c"], axis=0), helper.make_node("Reshape", ["n", "c"], ["r"])] + CUTS, "op"),
    "readers of what is dequantized": (QUANTIZED + [helper.make_node("Sin", ["d"], ["o"]), helper.make_node("Cos", ["d"], ["p"])], "op"),
}
NUMBERS = {"b0": [0], "b4": [4], "b8": [8], "last": [-1], "one": [1], "rest": [-1]}


@pytest.mark.parametrize("case", FOLLOWED)
def test_what_no_pattern_says_is_followed(case, tmp_path):
    """The runtime is asked, and we say the same."""
    nodes, outputs = FOLLOWED[case]
    constants = {name: np.array(v, np.int64) for name, v in NUMBERS.items()} | {"w": np.ones((8, 3), np.float32), "scale": np.float32(0.1), "zero": np.uint8(3)}
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["n"]), *nodes], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, X)],
                              [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], [numpy_helper.from_array(v, k) for k, v in constants.items() if k in used])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert told(path, tmp_path)["before"] == loaded(path, tmp_path)


@pytest.mark.skipif(not SHARED.exists(), reason="../shared is not there")
def test_models_load_as_we_say(tmp_path):
    """Of a model of each architecture: the smaller count of an operator over the larger one, summed. bench/runtime/load_model.py has all."""
    seen, low, high = set(), 0, 0
    for path in sorted((SHARED / "data" / "zoo" / "models").glob("*.onnx")):
        name = path.name.split("-")[0]
        if name in seen:
            continue
        seen.add(name)
        ours = told(path, tmp_path)
        for which, file in (("before", path), ("after", tmp_path / "out.onnx")):
            theirs = loaded(file, tmp_path)
            for op in ours[which].keys() | theirs.keys():
                low += min(ours[which][op], theirs[op])
                high += max(ours[which][op], theirs[op])
    assert len(seen) >= 25
    assert low / high >= 0.98, low / high
