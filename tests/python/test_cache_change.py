"""Passes that change decoders with and without caches: `last_logits`."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import make_model, run, run_ok, tensor, value
from decoders import Shape, decoder
from onnx import TensorProto, helper

ort.set_default_logger_severity(4)
CACHES = {"none": Shape(), "growing": Shape(cache="growing"), "growing, counted": Shape(cache="growing", positions="arange"),
          "sliding": Shape(cache="sliding", window=3, past=30), "in place": Shape(cache="in-place", past=40)}


def session(model):
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def shapes(infos):
    return {v.name: [d.dim_value if d.HasField("dim_value") else d.dim_param for d in v.type.tensor_type.shape.dim] for v in infos}


def changed(tmp_path, model, *passes):
    """The result, and what the report says of the last pass."""
    onnx.save(model, tmp_path / "m.onnx")
    words = [word for one in passes for word in ("--pass", one)]
    run_ok("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", *words, "--report", tmp_path / "r.json")
    made = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(made, full_check=True)
    report = json.loads((tmp_path / "r.json").read_text())
    return made, report["passes"][-1] | {"checks": report["verify"]}


def refused(tmp_path, model, one, code=5):
    onnx.save(model, tmp_path / "m.onnx")
    done = run("transform", tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--pass", one)
    assert done.returncode == code and not (tmp_path / "o.onnx").exists(), (done.returncode, done.stderr)
    return done.stderr


def generated(path, *words):
    done = json.loads(run_ok("generate", path, "--prompt-ids", "5,17,40,3,28,9", "--max-new-tokens", "9", "--json", *words).stdout)
    return done["rows"][0]["tokens"]


def feeds(model, tokens=6, batch=2, past=5, seed=3):
    """Of any of these decoders, in the middle of a sequence."""
    rng, out = np.random.default_rng(seed), {}
    tokens = next((d for d in shapes(model.graph.input)["input_ids"][1:] if isinstance(d, int)), tokens)
    sizes = {"batch": batch, "sequence": tokens, "past_sequence": past, "past_sequence + sequence": past + tokens}
    for name, dims in shapes(model.graph.input).items():
        dims = [sizes.get(d, d) for d in dims]
        if "past" in name:
            out[name] = rng.normal(size=dims).astype(np.float32)
        elif "mask" in name:
            out[name] = np.ones(dims, np.int64)
        else:
            out[name] = rng.integers(0, 40, dims) if name == "input_ids" else np.broadcast_to(np.arange(past, past + tokens), dims)
    return out


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("window", [1, 2, 9])
def test_last_logits(tmp_path, cache, window):
    model = decoder(CACHES[cache])
    if cache == "sliding" and window > 2:
        assert "has logits of 3 tokens already" in refused(tmp_path, model, f"last_logits:{window}", 1)
        return
    made, told = changed(tmp_path, model, f"last_logits:{window}")
    given = feeds(model)
    for now, before in zip(session(made).run(None, given), session(model).run(None, given)):
        np.testing.assert_allclose(now, before[:, -window:] if before.ndim == 3 else before, rtol=1e-4, atol=1e-5)
    assert shapes(made.graph.output)["logits"][1] == (window if window == 1 or cache == "sliding" else "")
    # The product with the vocabulary is behind the cut.
    assert next(n for n in made.graph.node if n.output[0] == "logits").op_type == "MatMul"
    assert told["compared"] == "equal" and told["checks"], told
    assert generated(tmp_path / "o.onnx") == generated(tmp_path / "m.onnx")


def test_last_logits_move_up_to_the_attention(tmp_path):
    """All that the last layer computes of queries is behind the cuts; keys, values and the layer before are not."""
    made, told = changed(tmp_path, decoder(Shape(layers=2)), "last_logits")
    relus = [n.output[0] for n in made.graph.node if n.op_type == "Relu"]
    cut = [n.input[0] for n in made.graph.node if n.op_type == "Slice"]
    made.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in relus)
    assert [out.shape[1] for out in session(made).run(relus, feeds(made))] == [6, 1]
    assert sum(n.op_type == "Softmax" for n in made.graph.node) == 2
    assert 3 <= len(cut) <= 5 and not any("logits" in name for name in cut), (cut, told)


def test_last_logits_and_other_outputs(tmp_path):
    """What another output needs is computed of all tokens."""
    model = decoder(Shape())
    hidden = next(n for n in model.graph.node if n.output[0] == "logits").input[0]
    model.graph.output.append(helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["batch", "sequence", 32]))
    made, _ = changed(tmp_path, model, "last_logits")
    given = feeds(model)
    (now, all_hidden), (before, expected) = (session(m).run(None, given) for m in (made, model))
    np.testing.assert_allclose(now, before[:, -1:], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(all_hidden, expected, rtol=1e-4, atol=1e-5)
    assert [n.input[0] for n in made.graph.node if n.op_type == "Slice"] == [hidden]


def ends_with(*nodes, rank=3):
    """Tokens, a table, and these nodes from `x` to `logits`."""
    ids = value("input_ids", TensorProto.INT64, ["batch", "sequence"])
    out = value("logits", TensorProto.FLOAT, ["batch", "sequence", 4][:rank])
    weights = [tensor("table", np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)), tensor("one", np.array(1)), tensor("ones", np.array([1]))]
    return make_model([helper.make_node("Gather", ["table", "input_ids"], ["x"]), *nodes], [ids], [out], weights, opset=17)


@pytest.mark.parametrize("nodes, op", [
    ([helper.make_node("CumSum", ["x", "one"], ["logits"])], "CumSum"),
    ([helper.make_node("Softmax", ["x"], ["logits"], axis=1)], "Softmax"),
    ([helper.make_node("LayerNormalization", ["x", "table_row"], ["logits"], axis=1)], "LayerNormalization"),
    ([helper.make_node("ReduceSum", ["x", "ones"], ["mean"]), helper.make_node("Expand", ["mean", "dims"], ["logits"])], "Expand"),
])
def test_last_logits_of_what_mixes_tokens(tmp_path, nodes, op):
    model = ends_with(*nodes)
    model.graph.initializer.extend([tensor("table_row", np.ones((1, 4), np.float32)), tensor("dims", np.array([1, 6, 1]))])
    assert f"({op}), which makes 'logits', is not known to treat tokens one by one" in refused(tmp_path, model, "last_logits")


def test_last_logits_refusals(tmp_path):
    model = decoder(Shape(last_only=True))
    assert "has logits of 1 tokens already" in refused(tmp_path, model, "last_logits", 1)
    assert "name the output of logits" in refused(tmp_path, make_model(
        [helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]), "last_logits", 1)
    assert "no such output" in refused(tmp_path, decoder(Shape()), "last_logits:output=nothing", 1)
    pooled = ends_with(helper.make_node("ReduceSum", ["x", "ones"], ["logits"], keepdims=0), rank=2)
    assert "has not the dims of batch, tokens and vocabulary" in refused(tmp_path, pooled, "last_logits", 1)


def test_generate_of_a_fixed_length_needs_all_logits(tmp_path):
    """Behind the tokens there is padding, whose logits say nothing."""
    made, _ = changed(tmp_path, decoder(Shape(window=32, batch=1)), "last_logits")
    done = run("generate", tmp_path / "o.onnx", "--prompt-ids", "5,17,40", "--max-new-tokens", "2")
    assert done.returncode != 0 and "scores of the last 1 of 32 tokens alone" in done.stderr, done.stderr
