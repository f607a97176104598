"""Sizes that predictions are for: the graph's, the user's, else assumed by what inputs hold; and one number for a model in every verb."""
import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, make_model, run, run_ok, said, tensor, value

BART = DATA / "bart_encoder.onnx"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
ones = lambda name, *shape: tensor(name, np.full(shape, 0.5, np.float32))
node = helper.make_node


def told(model, folder, *words):
    path = folder / "in.onnx"
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, path)
    else:
        path = model
    target = [] if "--target" in words else ["--target", "ort-cpu@1.31"]
    return json.loads(run_ok("optimize", path, folder / "out.onnx", "--no-verify", "--json", *target, *words).stdout)


def assumed(model, folder, *words):
    report = told(model, folder, *words)
    return {symbol: (report["cost_sizes"][symbol], what) for symbol, what in report["cost_assumed"].items()}


def conv(channels, *window):
    return node("Conv", ["x", "w"], ["y"]), ones("w", 2, channels, *window)


def of_conv(shape, channels, *window):
    one, weights = conv(channels, *window)
    return make_model([one], [value("x", FLOAT, shape)], [value("y", FLOAT, None)], [weights])


def ids(table=1000, shape=("n", "m")):
    nodes = [node("Gather", ["w", "x"], ["y"])]
    return make_model(nodes, [value("x", INT64, shape)], [value("y", FLOAT, None)], [ones("w", table, 8)])


def positions(rows):
    """Ids, and a table of so many positions of which as many rows are taken."""
    nodes = [node("Gather", ["w", "x"], ["e"]), node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Unsqueeze", ["n", "zero"], ["end"]),
             node("Slice", ["p", "zero", "end", "zero"], ["rows"]), node("Add", ["e", "rows"], ["y"])]
    weights = [ones("w", 1000, 8), ones("p", rows, 8), tensor("one", np.int64(1)), tensor("zero", np.zeros(1, np.int64))]
    return make_model(nodes, [value("x", INT64, ("n", "m"))], [value("y", FLOAT, None)], weights)


def counted(rows, first):
    """Ids, and a table of so many positions, of which those from `first` on are taken as they are counted."""
    nodes = [node("Gather", ["t", "x"], ["e"]), node("Shape", ["x"], ["s"], start=1), node("Squeeze", ["s"], ["n"]), node("Range", ["zero", "n", "one"], ["r"]),
             node("Add", ["r", "first"], ["places"]), node("Gather", ["p", "places"], ["q"]), node("Add", ["e", "q"], ["y"])]
    numbers = [tensor(name, np.array(n, np.int64)) for name, n in (("zero", 0), ("one", 1), ("first", first))]
    return make_model(nodes, [value("x", INT64, ["n", "m"])], [value("y", FLOAT, None)], [ones("t", 1000, 4), ones("p", rows, 4), *numbers])


def cached():
    nodes = [node("Gather", ["w", "x"], ["q"]), node("Reshape", ["q", "shape"], ["new"]), node("Concat", ["past", "new"], ["all"], axis=2),
             node("Relu", ["all"], ["y"])]
    weights = [ones("w", 1000, 8), tensor("shape", np.array([0, 2, -1, 4], np.int64))]
    return make_model(nodes, [value("x", INT64, ("n", "m")), value("past", FLOAT, ("n", 2, "p", 4))], [value("y", FLOAT, None)], weights)


def masked_cache():
    model = cached()
    model.graph.node.extend([node("Cast", ["mask"], ["floats"], to=FLOAT), node("ReduceSum", ["floats"], ["z"])])
    model.graph.input.append(value("mask", INT64, ("n", "all")))
    model.graph.output.append(value("z", FLOAT, None))
    return model


def recurrent():
    nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("LSTM", ["t", "w", "r", "", "", "h", "c"], ["y", "", ""], hidden_size=4)]
    states = [value(name, FLOAT, (1, "b", 4)) for name in "hc"]
    return make_model(nodes, [value("x", FLOAT, ("b", "t", 3)), *states], [value("y", FLOAT, None)], [ones("w", 1, 16, 3), ones("r", 1, 16, 4)])


def spectrum():
    nodes = [node("Unsqueeze", ["x", "axes"], ["u"]), node("Conv", ["u", "w"], ["y"], strides=[160])]
    return make_model(nodes, [value("x", FLOAT, ("b", "s"))], [value("y", FLOAT, None)], [ones("w", 2, 1, 400), tensor("axes", np.array([1], np.int64))])


def text_line():
    """Height 48 alone gives rows that the weights take."""
    nodes = [node("Conv", ["x", "k"], ["c"], strides=[4, 4]), node("Transpose", ["c"], ["t"], perm=[0, 3, 1, 2]), node("Reshape", ["t", "rows"], ["r"]),
             node("MatMul", ["r", "w"], ["y"])]
    weights = [ones("k", 2, 3, 4, 4), tensor("rows", np.array([0, 0, 24], np.int64)), ones("w", 24, 5)]
    return make_model(nodes, [value("x", FLOAT, ("n", 3, "h", "w"))], [value("y", FLOAT, None)], weights)


def carried():
    """A short convolution that takes its state from call to call, as graphs that are built bring it."""
    nodes = [node("Gather", ["table", "x"], ["e"]), node("Transpose", ["e"], ["t"], perm=[0, 2, 1]),
             helper.make_node("CausalConvWithState", ["t", "w", "", "state"], ["y", "next"], domain="com.microsoft", activation="silu")]
    inputs = [value("x", TensorProto.INT64, ("n", "m")), value("state", FLOAT, ("n", 4, 2))]
    outputs = [value("y", FLOAT, None), value("next", FLOAT, None)]
    return make_model(nodes, inputs, outputs, [ones("table", 9, 4), ones("w", 4, 1, 3)], domains=("com.microsoft",))


KINDS = {
    "ids": (ids, {"n": (1, ""), "m": (128, "tokens")}),
    "ids of one row": (lambda: ids(shape=("m",)), {"m": (128, "tokens")}),
    "pictures": (lambda: of_conv(("n", 3, "h", "w"), 3, 3, 3), {"n": (1, ""), "h": (224, "pixels"), "w": (224, "pixels")}),
    "gray pictures": (lambda: of_conv(("n", 1, "h", "w"), 1, 3, 3), {"n": (1, ""), "h": (224, "pixels"), "w": (224, "pixels")}),
    "channels that the weights tell": (lambda: of_conv(("n", "c", "h", "w"), 3, 3, 3), {"n": (1, ""), "c": (3, ""), "h": (224, "pixels"), "w": (224, "pixels")}),
    "sound": (spectrum, {"b": (1, ""), "s": (16000, "samples")}),
    "sound of two channels": (lambda: of_conv((1, 2, "s"), 2, 400), {"s": (16000, "samples")}),
    "features of sound, of which there are four": (lambda: of_conv(("n", 4, "f"), 4, 3), {"n": (1, ""), "f": (100, "frames")}),
    "features of sound": (lambda: of_conv(("n", 80, "f"), 80, 3), {"n": (1, ""), "f": (100, "frames")}),
    "states": (recurrent, {"b": (1, ""), "t": (128, "tokens")}),
    "a cache": (cached, {"n": (1, ""), "m": (1, "new tokens"), "p": (128, "past tokens")}),
    "a mask beside a cache": (masked_cache, {"n": (1, ""), "m": (1, "new tokens"), "p": (128, "past tokens"), "all": (129, "past and new tokens")}),
    "a state from call to call": (carried, {"n": (1, ""), "m": (1, "new tokens")}),
    "64 positions": (lambda: positions(64), {"n": (1, ""), "m": (64, "tokens")}),
    "66 positions that are counted from 2 on": (lambda: counted(66, 2), {"n": (1, ""), "m": (64, "tokens")}),
    "1024 positions that are counted": (lambda: counted(1024, 0), {"n": (1, ""), "m": (128, "tokens")}),
    "48 positions, no usual number": (lambda: positions(48), {"n": (1, ""), "m": (32, "tokens")}),
    "a long window": (lambda: of_conv(("n", 80, "f"), 80, 150), {"n": (1, ""), "f": (200, "frames")}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_fit_what_inputs_hold(tmp_path, kind):
    make, wanted = KINDS[kind]
    assert assumed(make(), tmp_path) == wanted


def test_a_mask_counts_the_past_of_the_user(tmp_path):
    report = told(masked_cache(), tmp_path, "--cost-at", "p=40")
    assert report["cost_sizes"] == {"n": 1, "m": 1, "p": 40, "all": 41}


def test_a_reshape_to_a_constant_is_respected(tmp_path):
    sizes = assumed(text_line(), tmp_path)
    assert sizes["h"][0] // 4 * 2 == 24, sizes


def test_names_count_for_nothing(tmp_path):
    wanted = assumed(ids(shape=("n", "m")), tmp_path)
    for first, second in (("sequence", "batch"), ("height", "width"), ("a", "samples")):
        assert list(assumed(ids(shape=(first, second)), tmp_path).values()) == sorted(wanted.values()) or \
            assumed(ids(shape=(first, second)), tmp_path) == {first: wanted["n"], second: wanted["m"]}


def test_dims_without_a_name_have_sizes_too(tmp_path):
    named, unnamed = told(ids(), tmp_path), told(ids(shape=(None, None)), tmp_path)
    assert unnamed["cost_sizes"] == {"x[0]": 1, "x[1]": 128}
    assert unnamed["cost_before"] == pytest.approx(named["cost_before"], rel=1e-9)


def test_the_graph_then_the_user_then_assumptions(tmp_path):
    at = told(BART, tmp_path, "--cost-at", "batch=2,seq=16")
    assert at["cost_sizes"] == {"batch": 2, "seq": 16} and at["cost_assumed"] == {} and "at batch=2, seq=16" in at["predicted"]
    part = told(BART, tmp_path, "--cost-at", "batch=2")
    assert part["cost_sizes"] == {"batch": 2, "seq": 64} and part["cost_assumed"] == {"seq": "tokens"}
    assert "at batch=2; sizes assumed: seq=64 (tokens), --cost-at sets them" in part["predicted"]
    fixed = told(BART, tmp_path, "--dim", "batch=2", "--dim", "seq=16")
    assert fixed["cost_sizes"] == {} and "assumed" not in fixed["predicted"]
    assert fixed["cost_before"] <= at["cost_before"]  # what hangs on known sizes is computed at load
    done = run_ok(BART, tmp_path / "o.onnx", "--no-verify", "-v")
    assert "at batch=1, seq=64 (assumed)" in said(done) and "sizes assumed: batch=1, seq=64 (tokens), --cost-at sets them" in said(done)


MODELS = {"bart": lambda: BART, "a cache": cached, "states": recurrent, "sound": spectrum, "pictures": lambda: of_conv(("n", 3, "h", "w"), 3, 3, 3)}
PRICE = r"([\d.]+ -> [\d.]+ (?:us|ms|s)) predicted"


@pytest.mark.parametrize("words", [[], ["--target", "onnx"], ["--cost", "roofline"]], ids=["default", "onnx", "roofline"])
@pytest.mark.parametrize("name", MODELS)
def test_every_verb_prints_one_number(tmp_path, name, words):
    path, out = MODELS[name](), tmp_path / "out.onnx"
    if isinstance(path, onnx.ModelProto):
        onnx.save(path, tmp_path / "in.onnx")
        path = tmp_path / "in.onnx"
    words = [*words, *([] if "--target" in words else ["--target", "ort-cpu@1.31"])]
    screen = run_ok("optimize", path, out, "--no-verify", "-v", *words)
    (price,) = set(re.findall(PRICE, said(screen))) or [None]
    assert price or "no times predicted" in said(screen)
    report = told(path, tmp_path, *words)
    explained = run_ok("explain", path, *words)
    text = json.loads(run_ok("explain", path, "--json", *words).stdout)
    differ = [json.loads(run_ok_or_differs("diff", path, out, "--json", *words)), run_ok_or_differs("diff", path, out, *words)]
    graphs = json.loads(run_ok("extract", path, "--sample", 0, "--no-verify", "--json", *words).stdout)
    for other in (report, text, differ[0]):
        assert other["cost_unit"] == report["cost_unit"]
        assert other["cost_before"] == pytest.approx(report["cost_before"], rel=1e-9), other["predicted"]
        assert other["cost_after"] == pytest.approx(report["cost_after"], rel=1e-9), other["predicted"]
        assert other["predicted"] == report["predicted"]
    assert graphs[0]["cost"] == pytest.approx(report["cost_after"], rel=1e-9) and graphs[0]["cost_unit"] == report["cost_unit"]
    assert report["predicted"] in said(screen)
    assert report["predicted"] in said(explained)
    assert report["predicted"] in " ".join(differ[1].split())
    if price:
        before, after, unit = re.match(r"([\d.]+) -> ([\d.]+) (\w+)", price).groups()
        assert re.search(rf"predicted \(.*?\) +{re.escape(before)} {unit} +{re.escape(after)} {unit}", screen.stdout), screen.stdout
        table = run_ok("extract", path, "--sample", 0, "--no-verify", *words).stdout
        assert re.search(rf"\b{re.escape(after)} {unit}\b", table) or unit != "us", table


def run_ok_or_differs(*words):
    done = run(*words)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def test_the_original_costs_the_same_however_little_was_explored(tmp_path):
    whole, none = told(BART, tmp_path), told(BART, tmp_path, "--time-limit", "0")
    assert whole["cost_before"] == none["cost_before"]


def test_no_times_are_predicted_where_operators_are_counted(tmp_path):
    text = said(run_ok(BART, tmp_path / "o.onnx", "--no-verify", "--target", "ort-cuda"))
    assert "no times predicted: ort-cuda@1.24 counts operators (--cost nodes)" in text and "operators predicted" not in text
