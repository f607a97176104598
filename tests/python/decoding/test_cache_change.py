"""Passes that change decoders with and without caches: logits of the last tokens, the cache's dtype and layout, and none at all."""
import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import make_model, run, run_ok, tensor, value
from decoders import Shape, decoder
from onnx import TensorProto, helper, numpy_helper

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
    onnx.save(model, tmp_path / "refused.onnx")
    done = run("transform", tmp_path / "refused.onnx", "-o", tmp_path / "nothing.onnx", "--pass", one)
    assert done.returncode == code and not (tmp_path / "nothing.onnx").exists(), (done.returncode, done.stderr)
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
        if "past_seq" in name:
            out[name] = np.array(past)
        elif "past" in name:
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


TAILS = {
    "Expand": [helper.make_node("Expand", ["x", "ones3"], ["e"])],
    "Expand to sizes": [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Expand", ["x", "s"], ["e"])],
    "Tile": [helper.make_node("Tile", ["x", "ones3"], ["e"])],
    "Hardmax": [helper.make_node("Hardmax", ["x"], ["e"])],
    "TopK": [helper.make_node("TopK", ["x", "ones"], ["t", "i"]), helper.make_node("Add", ["t", "x"], ["e"])],
    "ArgMax": [helper.make_node("ArgMax", ["x"], ["i"], axis=2), helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
               helper.make_node("Add", ["f", "x"], ["e"])],
    "CumSum": [helper.make_node("CumSum", ["x", "two"], ["e"])],
    "GatherElements": [helper.make_node("ArgMax", ["x"], ["i"], axis=2), helper.make_node("GatherElements", ["x", "i"], ["g"], axis=2),
                       helper.make_node("Add", ["g", "x"], ["e"])],
    "GatherND": [helper.make_node("GatherND", ["x", "first"], ["g"], batch_dims=0), helper.make_node("Add", ["g", "x"], ["e"])],
    "QuantizeLinear": [helper.make_node("QuantizeLinear", ["x", "step"], ["q"]), helper.make_node("DequantizeLinear", ["q", "step"], ["e"])],
    "Trilu": [helper.make_node("Unsqueeze", ["x", "two1"], ["u"]), helper.make_node("Unsqueeze", ["u", "two1"], ["v"]),
              helper.make_node("Trilu", ["v"], ["w"]), helper.make_node("Squeeze", ["w", "two_three"], ["e"])],
    "Pad": [helper.make_node("Pad", ["x", "pads"], ["p"]), helper.make_node("Slice", ["p", "ones", "five", "two1"], ["e"])],
    "Gemm": [helper.make_node("Squeeze", ["x", "zero1"], ["s"]), helper.make_node("Gemm", ["s", "square"], ["g"]),
             helper.make_node("Unsqueeze", ["g", "zero1"], ["e"])],
    "Einsum": [helper.make_node("Einsum", ["x", "square"], ["e"], equation="bsi,ij->bsj")],
}


@pytest.mark.parametrize("tail", TAILS)
def test_last_logits_through(tmp_path, tail):
    """What treats tokens one by one is computed of the last one alone: the cut is in front of it, at the ids."""
    model = ends_with(*TAILS[tail], helper.make_node("Tanh", ["e"], ["logits"]))
    constants = {"ones3": [1, 1, 1], "two": 2, "two1": [2], "two_three": [2, 3], "zero1": [0], "five": [5], "pads": [0, 0, 1, 0, 0, 0], "first": [[0]]}
    model.graph.initializer.extend([tensor(name, np.array(v)) for name, v in constants.items()])
    model.graph.initializer.extend([tensor("step", np.array(0.05, np.float32)), tensor("square", np.random.default_rng(2).normal(size=(4, 4)).astype(np.float32))])
    if tail == "Gemm":
        for info in (model.graph.input[0], model.graph.output[0]):
            info.type.tensor_type.shape.dim[0].dim_value = 1
    made, _ = changed(tmp_path, model, "last_logits")
    given = {"input_ids": np.random.default_rng(4).integers(0, 9, (1 if tail == "Gemm" else 2, 6))}
    (now,), (before,) = (session(m).run(["logits"], given) for m in (made, model))
    np.testing.assert_allclose(now, before[:, -1:], rtol=1e-4, atol=1e-5)
    cuts = [n.input[0] for n in made.graph.node if n.op_type == "Slice" and "last" in n.output[0]]
    assert cuts == (["x"] if tail == "Expand to sizes" else ["input_ids"]), cuts  # whose sizes are read


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


def pasts(model):
    return [i.name for i in model.graph.input if i.name.startswith("past_key")]


def scales_of(made, name):
    """By which a cache is read: of whole heads, or of each entry of them."""
    weights = {i.name: numpy_helper.to_array(i) for i in made.graph.initializer}
    node = next(n for n in made.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in (name, name.replace("past_key_values", "present")))
    heads = weights[node.input[1]]
    entries = [weights[n.input[1]] for n in made.graph.node if n.op_type == "Mul" and n.input[0] == node.output[0]]
    return entries[0] if heads.ndim == 0 else heads.reshape(1, -1, 1, 1)


@pytest.mark.parametrize("cache", [c for c in CACHES if c != "none"])
@pytest.mark.parametrize("fields", ["float16", "int8", "int8;scales=channel"])
def test_cache_dtype(tmp_path, cache, fields):
    """Tokens in the past stay as they are, bit by bit; new ones are rounded; the model reads what is held."""
    model = decoder(CACHES[cache])
    made, told = changed(tmp_path, model, f"cache_dtype:{fields}")
    kind = np.float16 if fields == "float16" else np.int8
    assert {i.type.tensor_type.elem_type for i in [*made.graph.input, *made.graph.output] if "key" in i.name or "value" in i.name} == {
        helper.np_dtype_to_tensor_dtype(np.dtype(kind))}
    held, before, scales = feeds(model), feeds(model), {}
    for name in pasts(model):
        scales[name] = 1 if kind == np.float16 else scales_of(made, name)
        held[name] = before[name].astype(kind) if kind == np.float16 else np.random.default_rng(5).integers(-127, 128, before[name].shape).astype(kind)
        before[name] = held[name].astype(np.float32) * scales[name]
    names = [o.name for o in model.graph.output]
    now, then = dict(zip(names, session(made).run(names, held))), dict(zip(names, session(model).run(names, before)))
    moved = np.abs(now["logits"] - then["logits"]).max() / np.abs(then["logits"]).max()
    assert moved < (2e-3 if kind == np.float16 else 0.1), moved
    assert now["logits"].dtype == np.float32
    for name in pasts(model):
        present, whole = now[name.replace("past_key_values", "present")], then[name.replace("past_key_values", "present")]
        exact = whole / scales[name]
        rounded = exact.astype(np.float16) if kind == np.float16 else np.clip(np.rint(exact), -128, 127).astype(np.int8)
        old = slice(0, 5) if cache == "in place" else slice(0, held[name].shape[2])
        np.testing.assert_array_equal(present[:, :, old], held[name][:, :, old])
        # Keys of the second layer are made of what was rounded in the first.
        if name == "past_key_values.0.key":
            assert np.mean(present != rounded) < 0.01
    assert not any("as a whole" in note for note in told["notes"]), told["notes"]
    assert any("step by step as before" in note for note in told["notes"]), told["notes"]
    assert any("zeros instead of the past move the logits" in note for note in told["notes"]), told["notes"]
    assert any("measured on 16 rows" in note for note in told["notes"]) == (kind == np.int8)
    if cache != "sliding":  # whose three tokens a run are not the same padding for all
        assert generated(tmp_path / "o.onnx")[0] == generated(tmp_path / "m.onnx")[0]
    assert len(generated(tmp_path / "o.onnx")) == 9


def with_other_scales(made, factor, read_alone):
    """The keys of the first layer are read, or written and read, by other scales."""
    made = onnx.load_from_string(made.SerializeToString())
    read = next(n for n in made.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == "present.0.key")
    scales = next(i for i in made.graph.initializer if i.name == read.input[1])
    other = numpy_helper.from_array((factor * numpy_helper.to_array(scales)).astype(np.float32), "other_scales")
    made.graph.initializer.append(other)
    for node in made.graph.node:
        if node is read or (not read_alone and len(node.input) > 1 and node.input[1] == scales.name):
            node.input[1] = "other_scales"
    return made


def test_int8_may_move_logits_as_rounding_does(tmp_path):
    made, told = changed(tmp_path, decoder(Shape(cache="growing")), "cache_dtype:int8")
    (allowed,) = (note.split(",")[0].split()[-1] for note in told["notes"] if "logits may differ by" in note)
    onnx.save(decoder(Shape()), tmp_path / "whole.onnx")

    def status(model):
        onnx.save(model, tmp_path / "steps.onnx")
        return run("verify", tmp_path / "whole.onnx", tmp_path / "steps.onnx", "--stepping", "--rtol", "1e-3", "--atol", allowed).returncode

    assert status(made) == 0
    assert status(with_other_scales(made, 1.5, read_alone=True)) == 3
    assert status(with_other_scales(made, 1 / 4, read_alone=False)) == 3  # the larger numbers are cut off


def test_cache_dtype_of_what_is_not_just_written(tmp_path):
    """The present is made of the new tokens alone: all of what crosses the border is rounded there."""
    model = decoder(Shape(cache="sliding", window=1, past=30, presents_whole=False))
    made, told = changed(tmp_path, model, "cache_dtype:int8")
    assert any("4 of 4 caches are brought into int8 as a whole" in note for note in told["notes"]), told["notes"]
    assert len(generated(tmp_path / "o.onnx")) == 9


def test_cache_dtype_is_measured_on_given_tokens(tmp_path):
    model, tokens = decoder(Shape(cache="growing", positions="arange")), np.full((3, 7), 4)
    np.savez(tmp_path / "x.npz", input_ids=tokens)
    made, told = changed(tmp_path, model, f"cache_dtype:int8;calibrate={tmp_path / 'x.npz'};rtol=9")
    assert "scales were measured on 3 rows of 7 given tokens" in told["notes"]
    given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)} | {name: np.zeros((3, 4, 0, 8), np.float32) for name in pasts(model)}
    present = session(model).run(["present.1.value"], given)[0]
    np.testing.assert_allclose(scales_of(made, "past_key_values.1.value").ravel(), np.abs(present).max((0, 2, 3)) / 127, rtol=1e-4)


def test_cache_dtype_refusals(tmp_path):
    model = decoder(Shape(cache="growing"))
    assert "the model has no cache" in refused(tmp_path, decoder(Shape()), "cache_dtype:int8", 1)
    assert "step by step the result gives something else" in refused(tmp_path, model, "cache_dtype:int8;rtol=1e-6", 3)
    assert "one of float16, bfloat16, int8" in refused(tmp_path, model, "cache_dtype:int4", 2)
    for arrays, what in (({"other": np.ones((1, 3), np.int64)}, "array 'other': give tokens alone, as 'input_ids'"),
                         ({"input_ids": np.ones((1, 3), np.float32)}, "give tokens alone"), ({"input_ids": np.ones((0, 3), np.int64)}, "give tokens alone"),
                         ({"input_ids": np.full((1, 99), 3)}, "calibrate")):
        np.savez(tmp_path / "x.npz", **arrays)
        assert what in refused(tmp_path, model, f"cache_dtype:int8;calibrate={tmp_path / 'x.npz'}", 1)
    changed(tmp_path, model, "cache_dtype:float16")
    assert "is of float16 already" in refused(tmp_path, onnx.load(tmp_path / "o.onnx"), "cache_dtype:float16", 1)
    assert "opset is 12, and 13 is needed" in refused(tmp_path, decoder_of_older_opset(), "cache_dtype:float16")


def decoder_of_older_opset():
    ids, past = value("input_ids", TensorProto.INT64, ["b", "s"]), value("past", TensorProto.FLOAT, ["b", 1, "p", 4])
    weights = [tensor("table", np.ones((9, 4), np.float32)), tensor("one", np.array([1]))]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x"]), helper.make_node("Unsqueeze", ["x"], ["k"], axes=[1]),
             helper.make_node("Concat", ["past", "k"], ["present"], axis=2), helper.make_node("Identity", ["x"], ["logits"])]
    out = [value("logits", TensorProto.FLOAT, ["b", "s", 4]), value("present", TensorProto.FLOAT, ["b", 1, "p + s", 4])]
    return make_model(nodes, [ids, past], out, weights, opset=12)


@pytest.mark.parametrize("cache", [c for c in CACHES if c != "none"])
def test_cache_layout(tmp_path, cache):
    model = decoder(CACHES[cache])
    made, told = changed(tmp_path, model, "cache_layout:bsnh")
    given = feeds(model)
    turned = {name: np.swapaxes(x, 1, 2) if name in pasts(model) else x for name, x in given.items()}
    for name in pasts(model):
        dims = shapes(model.graph.input)[name]
        assert shapes(made.graph.input)[name] == [dims[0], dims[2], dims[1], dims[3]]
    for now, before in zip(session(made).run(None, turned), session(model).run(None, given)):
        np.testing.assert_allclose(now if now.ndim == 3 else np.swapaxes(now, 1, 2), before, rtol=1e-4, atol=1e-5)
    assert told["compared"] == "equal"
    assert generated(tmp_path / "o.onnx") == generated(tmp_path / "m.onnx")
    assert "has this layout already" in refused(tmp_path, made, "cache_layout:bsnh", 1)
    back, _ = changed(tmp_path, made, "cache_layout:bnsh")
    assert shapes(back.graph.input) == shapes(model.graph.input)


def test_cache_dtype_of_another_layout(tmp_path):
    """Scales are those of heads, wherever these stand."""
    model = decoder(Shape(cache="growing", positions="none"))
    apart = [changed(tmp_path, model, *passes)[0] for passes in (["cache_dtype:int8"], ["cache_layout", "cache_dtype:int8"])]
    weights = [sorted(tuple(numpy_helper.to_array(i)) for i in m.graph.initializer if i.name.startswith("cache_scales")) for m in apart]
    np.testing.assert_allclose(*weights, rtol=1e-6)
    assert {a.i for n in apart[1].graph.node if n.op_type == "DequantizeLinear" for a in n.attribute} == {2}
    assert len(generated(tmp_path / "o.onnx")) == 9


def with_counts():
    """Positions by `cache_position`, and the number of earlier tokens as an input."""
    model = decoder(Shape(cache="growing", positions="arange"))
    for node in model.graph.node:
        if node.op_type == "Range" and node.input[0] != "" and any(n.op_type == "Gather" and node.input[0] == n.output[0] for n in model.graph.node):
            counted, index = node.input[0], node.output[0]
    keep = [n for n in model.graph.node if n.output[0] not in (counted, index)]
    del model.graph.node[:]
    model.graph.node.extend(keep)
    for node in model.graph.node:
        node.input[:] = [{counted: "past_seq_len", index: "cache_position"}.get(name, name) for name in node.input]
    model.graph.input.extend([helper.make_tensor_value_info("past_seq_len", TensorProto.INT64, []),
                              helper.make_tensor_value_info("cache_position", TensorProto.INT64, ["sequence"])])
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("model, whole", [
    (lambda: decoder(Shape(cache="growing")), Shape()),
    (lambda: decoder(Shape(cache="growing", positions="arange")), Shape(positions="arange")),
    (lambda: decoder(Shape(cache="growing", batch=2, positions="none")), Shape(positions="none")),
    (with_counts, Shape(positions="arange")),
], ids=["positions", "counted", "fixed batch", "counts as inputs"])
def test_remove_cache(tmp_path, model, whole):
    made, told = changed(tmp_path, model(), "remove_cache")
    assert list(shapes(made.graph.input)) == [i.name for i in decoder(whole).graph.input]
    assert list(shapes(made.graph.output)) == ["logits"]
    given = feeds(decoder(whole), past=0)
    np.testing.assert_allclose(session(made).run(None, given)[0], session(decoder(whole)).run(None, given)[0], rtol=1e-4, atol=1e-5)
    # Nothing of the past is left: what counts it, or is joined to it.
    assert not [n for n in made.graph.node if n.op_type == "ConstantOfShape" or (n.op_type == "Concat" and len(n.input) < 2)]
    assert any("step by step as before" in note for note in told["notes"]), told["notes"]
    if whole.positions != "none":
        assert generated(tmp_path / "o.onnx") == generated(tmp_path / "m.onnx")


@pytest.mark.parametrize("broken", ["shifted", "dropped", "zeroed"])
def test_remove_cache_notices_a_broken_one(tmp_path, broken):
    assert "step by step the result gives something else" in refused(tmp_path, decoder(Shape(cache="growing", broken=broken)), "remove_cache", 3)


def test_remove_cache_refusals(tmp_path):
    assert "the model has no cache" in refused(tmp_path, decoder(Shape()), "remove_cache", 1)
    model = decoder(Shape(cache="growing"))
    for info in [*model.graph.input, *model.graph.output]:
        if ".key" in info.name or ".value" in info.name:
            info.type.tensor_type.shape.dim[1].dim_param = "heads"
    assert "the size of its dim 1 is not known" in refused(tmp_path, model, "remove_cache")


@pytest.mark.parametrize("positions", ["none", "arange"])
@pytest.mark.parametrize("mode", ["buffer;max_context=40", "window;window=1;sequence=30", "growing"])
def test_convert_a_cache(tmp_path, positions, mode):
    """A growing cache as another one: taken out, and put in again."""
    model = decoder(Shape(cache="growing", positions=positions))
    made, _ = changed(tmp_path, model, "remove_cache", f"kv_cache:mode={mode}")
    assert len(pasts(made)) == len(pasts(model))
    assert generated(tmp_path / "o.onnx") == generated(tmp_path / "m.onnx")
    onnx.save(decoder(Shape(positions=positions)), tmp_path / "whole.onnx")
    run_ok("verify", tmp_path / "whole.onnx", tmp_path / "o.onnx", "--stepping")


BUFFERS = ["scatter_nd", "tensor_scatter", "group_query_attention"]


@pytest.mark.parametrize("positions", ["none", "arange"])
@pytest.mark.parametrize("write", BUFFERS)
def test_remove_buffers(tmp_path, positions, write):
    """What kv_cache has made is as before, of as many tokens as are given, up to what the buffers held."""
    model = decoder(Shape(positions=positions))
    made, told = changed(tmp_path, model, f"kv_cache:mode=buffer;max_context=40;write={write}", "remove_cache")
    assert shapes(made.graph.input) == shapes(model.graph.input) and list(shapes(made.graph.output)) == ["logits"]
    assert not [n for n in made.graph.node if "Scatter" in n.op_type]
    for tokens in (1, 6, 40):
        given = feeds(model, tokens=tokens)
        np.testing.assert_allclose(session(made).run(None, given)[0], session(model).run(None, given)[0], rtol=1e-4, atol=1e-4)
    assert any("step by step as before" in note for note in told["notes"]), told["notes"]


@pytest.mark.parametrize("positions", ["input", "arange"])
def test_remove_other_buffers(tmp_path, positions):
    """Written by ScatterElements at `cache_position`, with sizes that are constants."""
    model = decoder(Shape(cache="in-place", past=40, positions=positions))
    made, _ = changed(tmp_path, model, "remove_cache")
    whole = decoder(Shape(positions=positions))
    assert shapes(made.graph.input) == shapes(whole.graph.input)
    given = feeds(whole, past=0)
    np.testing.assert_allclose(session(made).run(None, given)[0], session(whole).run(None, given)[0], rtol=1e-4, atol=1e-5)
    assert generated(tmp_path / "o.onnx") == generated(tmp_path / "m.onnx")


@pytest.mark.parametrize("mode", ["growing", "window;window=1;sequence=30", "buffer;max_context=40;write=tensor_scatter"])
@pytest.mark.parametrize("write", BUFFERS)
def test_convert_a_buffer(tmp_path, write, mode):
    made, _ = changed(tmp_path, decoder(Shape(positions="arange")), f"kv_cache:mode=buffer;max_context=40;write={write}", "remove_cache",
                      f"kv_cache:mode={mode}")
    assert len(pasts(made)) == 4
    onnx.save(decoder(Shape(positions="arange")), tmp_path / "whole.onnx")
    run_ok("verify", tmp_path / "whole.onnx", tmp_path / "o.onnx", "--stepping")


def test_buffers_that_stay(tmp_path):
    """Written by other means, read before they are written, and mixed along their places."""
    def edited(edit):
        model = decoder(Shape(cache="in-place", past=40, positions="none"))
        scatter = next(n for n in model.graph.node if n.op_type == "ScatterElements")
        edit(model, scatter, list(model.graph.node).index(scatter))
        return model

    def doubled(model, scatter, at):
        model.graph.node.insert(at, helper.make_node("Add", [scatter.input[0]] * 2, ["twice"]))
        scatter.input[0] = "twice"

    def halved(model, scatter, at):
        model.graph.initializer.append(tensor("half", np.float32(0.5)))
        model.graph.node.insert(at, helper.make_node("Mul", ["half", scatter.input[0]], ["less"]))
        scatter.input[0] = "less"

    def sorted_along(model, scatter, at):
        written, scatter.output[0] = scatter.output[0], "written"
        model.graph.initializer.append(tensor("all_of_them", np.array([40])))
        model.graph.node.insert(at + 1, helper.make_node("TopK", ["written", "all_of_them"], [written, ""], axis=2))

    assert "(Add): how it writes tokens into the buffer is not known" in refused(tmp_path, edited(doubled), "remove_cache")
    assert "it reads 'past_key_values.0.key', and writes no tokens into it" in refused(tmp_path, edited(halved), "remove_cache")
    said = refused(tmp_path, edited(sorted_along), "remove_cache")
    assert "(TopK): nothing is known of what it does along the places of" in said, said


def test_remove_buffers_notices_what_is_not_hidden(tmp_path):
    """Attention that sees places that are not filled is another one without them."""
    model = decoder(Shape(cache="in-place", past=40, positions="none"))
    where = next(n for n in model.graph.node if n.op_type == "Where")
    model.graph.initializer.append(tensor("hardly_hidden", np.float32(-0.5)))
    where.input[2] = "hardly_hidden"
    assert "step by step the result gives something else" in refused(tmp_path, model, "remove_cache", 3)


def test_all_changes_at_once(tmp_path):
    """A buffer of int8 with tokens in front, and one row of logits."""
    model = decoder(Shape(cache="growing", positions="none"))
    made, _ = changed(tmp_path, model, "remove_cache", "kv_cache:mode=buffer;max_context=40", "cache_dtype:int8", "cache_layout", "last_logits")
    assert shapes(made.graph.input)["past_key_values.0.key"] == ["batch", 40, 4, 8] and shapes(made.graph.output)["logits"][1] == 1
    assert next(i for i in made.graph.input if i.name == "past_key_values.0.key").type.tensor_type.elem_type == TensorProto.INT8
    assert len(generated(tmp_path / "o.onnx")) == 9
