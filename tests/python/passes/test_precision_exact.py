"""What half precision must not change: numbers that are data and not a mask's, positions, norms, large activations, and odd graphs."""
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import TensorProto as T

from conftest import run_ok
from test_precision import BF16, F16, half, notes_of, types, works_in
from test_transform import in_onnxruntime, parsed

RNG = np.random.default_rng(7)  # of models; inputs are drawn by each test, whatever ran before


def normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def constants(model):
    held = [onnx.numpy_helper.to_array(i) for i in model.graph.initializer]
    held += [onnx.numpy_helper.to_array(a.t) for n in model.graph.node for a in n.attribute if a.type == onnx.AttributeProto.TENSOR]
    return {float(x) for a in held if a.dtype.kind == "f" for x in a.astype(np.float64).ravel()}


def casts(model):
    return sum(node.op_type == "Cast" for node in model.graph.node)


def near(model, result, feeds, most=2e-2):
    """Finite where the model is, and within `most` of the largest number of each output."""
    a, b = in_onnxruntime(model, feeds), in_onnxruntime(result, feeds)
    for k in a:
        x, y = a[k].astype(np.float64), b[k].astype(np.float64)
        assert np.isfinite(y[np.isfinite(x)]).all(), k
        assert np.abs(x - y).max() <= most * np.abs(x).max(), (k, np.abs(x - y).max(), np.abs(x).max())


def model_of(text, opset=23, **arrays):
    """The model, with these for inputs of their names."""
    model = parsed(text, opset=opset, ir=10)
    kept = [i for i in model.graph.input if i.name not in arrays]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items())
    return model


# Masks.

def test_a_large_negative_number_that_is_no_mask_stays(tmp_path):
    model = parsed("""
agraph (float[3] x) => (float[3] y) <float far = {-1e5}, float less = {1e-5}> {
  there = Add (x, far)
  near = Mul (there, less)
  y = Tanh (near)
}""")
    result, _ = half(tmp_path, model)
    assert -1e4 not in constants(result) and works_in(result, "Add") == {T.FLOAT} and works_in(result, "Tanh") == {F16}
    near(model, result, {"x": normal(3)})


def test_one_number_for_a_mask_and_for_data(tmp_path):
    model = parsed("""
agraph (float[2,4] scores, bool[4] seen) => (float[2,4] y, float[2,4] z) <float low = {-1e5}, float none = {0}, float less = {1e-5}> {
  mask = Where (seen, none, low)
  hidden = Add (scores, mask)
  y = Softmax (hidden)
  far = Sub (scores, low)
  z = Mul (far, less)
}""")
    result, _ = half(tmp_path, model)
    assert works_in(result, "Where") == works_in(result, "Add") == {F16} and works_in(result, "Sub") == {T.FLOAT}
    assert {-1e4, float(np.float32(-1e5))} <= constants(result)
    feeds = {"scores": normal(2, 4), "seen": np.array([True, False, True, True])}
    near(model, result, feeds)
    assert (in_onnxruntime(result, feeds)["y"][:, 1] == 0).all()


MASKS = {
    "one minus a float": ("float[4] m", "gone = Sub (one, m)  mask = Mul (gone, low)  h = Add (scores, mask)  y = Softmax (h)", "Mul"),
    "of integers": ("int64[4] m", "f = Cast <to = 1> (m)  gone = Sub (one, f)  mask = Mul (low, gone)  h = Add (mask, scores)  y = Softmax (h)", "Mul"),
    "less what is positive": ("float[4] m", "gone = Sub (one, m)  mask = Mul (gone, high)  h = Sub (scores, mask)  y = Softmax (h)", "Mul"),
    "behind views": ("float[4] m", "wide = Unsqueeze (low, axis)  r = Expand (wide, four)  b = Cast <to = 9> (m)  mask = Where (b, scores, r)  y = Softmax (mask)", "Where"),
    "of a shape": ("float[4] m", "r = ConstantOfShape <value = float[1] {-3.4028235e38}> (four)  b = Cast <to = 9> (m)  h = Where (b, scores, r)  y = Softmax (h)", "Where"),
    "a float of a Constant": ("float[4] m", "l = Constant <value_float = -1e9> ()  b = Cast <to = 9> (m)  h = Where (b, scores, l)  y = Softmax (h)", "Where"),
    "like another": ("float[4] m", "l = CastLike (low, scores)  b = Cast <to = 9> (m)  h = Where (b, scores, l)  y = Softmax (h)", "Where"),
    "by hand": ("float[4] m", "gone = Sub (one, m)  mask = Mul (gone, low)  h = Add (scores, mask)  top = ReduceMax <keepdims = 1> (h)  d = Sub (h, top)  "
                              "e = Exp (d)  sum = ReduceSum <keepdims = 1> (e)  y = Div (e, sum)", "Mul"),
}


@pytest.mark.parametrize("what", MASKS)
def test_masks_are_told_by_what_is_made_of_them(tmp_path, what):
    inputs, body, op = MASKS[what]
    model = parsed(f"""
agraph (float[1,4] scores, {inputs}) => (float[1,4] y) <float one = {{1}}, float low = {{-1e9}}, float high = {{1e9}}, int64[1] axis = {{0}}, int64[1] four = {{4}}> {{
  {body}
}}""")
    result, report = half(tmp_path, model)
    assert works_in(result, op) == {F16}, notes_of(report)
    feeds = {"scores": normal(1, 4), "m": np.array([1, 1, 0, 1], np.float32 if inputs[0] == "f" else np.int64)}
    near(model, result, feeds)
    assert in_onnxruntime(result, feeds)["y"][0, 2] == 0


@pytest.mark.parametrize("body", [
    "near = Mul (low, less)  h = Add (scores, near)  y = Softmax (h)",  # -100, which -10 is not
    "h = Mul (scores, low)  y = Softmax (h)",                           # a sharp Softmax
    "h = Add (scores, low)  r = ReduceMin <keepdims = 1> (h)  y = Sub (h, r)",
    "h = Add (scores, low)  y = Mul (h, less)",
    "h = Max (scores, low)  g = Add (h, low)  y = Mul (g, less)",
])
def test_what_is_no_mask_keeps_its_number(tmp_path, body):
    model = parsed(f"agraph (float[1,4] scores) => (float[1,4] y) <float low = {{-1e5}}, float less = {{1e-3}}> {{ {body} }}")
    result, _ = half(tmp_path, model)
    assert -1e4 not in constants(result)
    near(model, result, {"scores": normal(1, 4)})


# Casts.

def test_what_is_cast_is_cast_once(tmp_path):
    model = parsed("""
agraph (int64[4] i, bool[4] b, double[4] d, float[4] x) => (float[4] y) {
  f = Cast <to = 1> (i)
  g = CastLike (b, x)
  h = CastLike (x, g)
  e = Cast <to = 1> (d)
  p = Mul (f, x)
  q = Add (p, g)
  r = Add (q, e)
  y = Sub (r, h)
}""")
    result, report = half(tmp_path, model)
    assert casts(result) == 5  # of the four inputs, and y
    assert any(note.endswith("with 5 Casts") for note in notes_of(report)), notes_of(report)
    near(model, result, {"i": np.arange(4), "b": np.array([1, 0, 1, 1], bool), "d": np.arange(4) / 3, "x": normal(4)})


# Positions.

def test_positions_are_counted_in_float(tmp_path):
    """Buckets of T5: a logarithm is cut to an integer."""
    model = model_of("""
agraph (int64[n] distance, float[64,1] table) => (float[n,1] y, float[n] far) <float eight = {8}, float one = {1}, float log16 = {2.7725887}> {
  d = Cast <to = 1> (distance)
  up = Add (d, one)
  part = Div (up, eight)
  log = Log (part)
  scaled = Div (log, log16)
  times = Mul (scaled, eight)
  bucket = Cast <to = 7> (times)
  row = Gather (table, bucket)
  y = Neg (row)
  next = Add (up, one)
  is_far = Greater (next, up)
  far = Cast <to = 1> (is_far)
}""", table=np.arange(64).reshape(64, 1))
    result, _ = half(tmp_path, model)
    assert works_in(result, "Div") == {T.FLOAT} and works_in(result, "Neg") == {F16}
    feeds = {"distance": np.arange(7, 4000)}
    wanted, got = in_onnxruntime(model, feeds), in_onnxruntime(result, feeds)
    assert np.array_equal(wanted["y"], got["y"]) and np.array_equal(wanted["far"], got["far"])


# Norms.

NORMS = {
    "LayerNormalization": (17, "y = LayerNormalization (x, w, b)"),
    "RMSNormalization": (23, "y = RMSNormalization (x, w)"),
    "InstanceNormalization": (17, "k = Unsqueeze (x, mid)  n = InstanceNormalization (k, one, zero)  o = Squeeze (n, mid)  y = Mul (o, w)"),
    "GroupNormalization": (21, "k = Unsqueeze (x, last)  n = GroupNormalization <num_groups = 2> (k, w, b)  o = Squeeze (n, last)  y = Mul (o, w)"),
    "by hand": (14, "m = ReduceMean <axes = [-1]> (x)  d = Sub (x, m)  s = Pow (d, two)  v = ReduceMean <axes = [-1]> (s)  e = Add (v, eps)  r = Sqrt (e)  n = Div (d, r)  o = Mul (n, w)  y = Add (o, b)"),
    "by hand with a product": (14, "m = ReduceMean <axes = [-1]> (x)  d = Sub (x, m)  s = Mul (d, d)  v = ReduceMean <axes = [-1]> (s)  e = Add (v, eps)  q = Sqrt (e)  r = Reciprocal (q)  n = Mul (d, r)  o = Mul (n, w)  y = Add (o, b)"),
    "of squares": (14, "s = Mul (x, x)  v = ReduceMean <axes = [-1]> (s)  e = Add (v, eps)  q = Sqrt (e)  r = Div (unit, q)  n = Mul (x, r)  y = Mul (n, w)"),
    "L2": (14, "q = ReduceL2 <axes = [-1]> (x)  n = Div (x, q)  y = Mul (n, w)"),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("what", NORMS)
def test_statistics_of_norms_are_of_float(tmp_path, what, dtype):
    """Squares of numbers of 3000 are none of float16."""
    opset, body = NORMS[what]
    ones = ", ".join(["1"] * 8)
    model = parsed(f"""
agraph (float[n,8] x) => (float[n,8] y) <float[8] w = {{{ones}}}, float[8] b = {{{ones}}}, float two = {{2}}, float unit = {{1}}, float eps = {{1e-5}}, int64[1] last = {{2}},
  int64[1] mid = {{1}}, float[1] one = {{1}}, float[1] zero = {{0}}> {{ {body} }}""", opset=opset, ir=10)
    np.savez(tmp_path / "c.npz", x=normal(4, 8))
    result, _ = half(tmp_path, model, f"dtype={dtype};calibrate={tmp_path / 'c.npz'}", "--inputs", tmp_path / "c.npz")
    onnx.checker.check_model(result, full_check=True)
    small = F16 if dtype == "float16" else BF16
    for node in result.graph.node:
        if node.op_type in ("LayerNormalization", "RMSNormalization"):
            assert all(a.i == T.FLOAT for a in node.attribute if a.name == "stash_type")
        elif node.op_type in ("InstanceNormalization", "GroupNormalization", "ReduceMean", "Pow", "ReduceL2", "Sqrt", "Reciprocal", "Sub"):
            assert {types(result)[i] for i in node.input if i in types(result)} <= {T.FLOAT, T.INT64}, node
    if "by hand" in what or what in ("of squares", "L2"):
        assert casts(result) == 2  # behind the norm, and of y
    assert small in types(result).values()
    if dtype == "float16":
        near(model, result, {"x": 3000 * normal(4, 8)})


@pytest.mark.parametrize("op", ["LayerNormalization (x, w, b)", "RMSNormalization (x, w)"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_an_older_opset_are_of_float(tmp_path, op, dtype):
    """Opset 14 has none of these operators: their bodies stand there, with Casts around."""
    ones = ", ".join(["1"] * 8)
    model = parsed(f"agraph (float[n,8] x) => (float[n,8] y) <float[8] w = {{{ones}}}, float[8] b = {{{ones}}}> {{ y = {op} }}", opset=23, ir=10)
    made, _ = half(tmp_path, model, f"dtype={dtype};interface=true")
    onnx.save(made, tmp_path / "h.onnx")
    run_ok("optimize", tmp_path / "h.onnx", tmp_path / "old.onnx", "--opset", 14, "--target", "onnx")
    old = onnx.load(tmp_path / "old.onnx")
    assert old.opset_import[0].version == 14 and not any("Normalization" in n.op_type for n in old.graph.node)
    assert works_in(old, "ReduceMean") == works_in(old, "Sqrt") == {T.FLOAT}
    if dtype == "float16":
        x = 3000 * normal(4, 8)
        wanted, got = in_onnxruntime(model, {"x": x})["y"], in_onnxruntime(old, {"x": x.astype(np.float16)})["y"]
        assert np.abs(wanted - got).max() <= 1e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("way", ["none", "tanh"])
def test_gelu_of_halves_in_an_older_opset(tmp_path, way):
    model = parsed(f'agraph (float[n,8] x) => (float[n,8] y) {{ y = Gelu <approximate = "{way}"> (x) }}', opset=20)
    made, _ = half(tmp_path, model, "interface=true")
    onnx.save(made, tmp_path / "h.onnx")
    run_ok("optimize", tmp_path / "h.onnx", tmp_path / "old.onnx", "--opset", 14, "--target", "onnx")
    old, x = onnx.load(tmp_path / "old.onnx"), 3 * normal(4, 8)
    assert works_in(old, "Tanh" if way == "tanh" else "Erf") == {T.FLOAT}
    wanted, got = in_onnxruntime(model, {"x": x})["y"], in_onnxruntime(old, {"x": x.astype(np.float16)})["y"]
    assert np.abs(wanted - got).max() <= 2e-3 * np.abs(wanted).max()


# Large activations.

def drawn(*shape, by=1.0):
    return by * RNG.standard_normal(shape) / shape[0] ** 0.5


def large_models():
    mlp = model_of("""
agraph (float[n,16] x, float[16,32] up, float[16,32] gate, float[32,16] down, float[16] w) => (float[n,16] y) {
  a = MatMul (x, up)  g = MatMul (x, gate)  s = Sigmoid (g)  p = Mul (a, s)  l = MatMul (p, down)  n0 = RMSNormalization (l, w)  y = Add (n0, x)
}""", up=drawn(16, 32, by=400), gate=drawn(16, 32), down=drawn(32, 16, by=400), w=np.ones(16))
    residual = model_of("""
agraph (float[n,16] x, float[16,16] far, float[16,16] a, float[16,16] b, float[16] w) => (float[n,16] y) {
  far0 = MatMul (x, far)  n1 = RMSNormalization (far0, w)  l1 = MatMul (n1, a)  r1 = Add (far0, l1)  n2 = RMSNormalization (r1, w)  l2 = MatMul (n2, b)
  t2 = Tanh (l2)  r2 = Add (r1, t2)  y = RMSNormalization (r2, w)
}""", far=drawn(16, 16, by=1e5), a=drawn(16, 16), b=drawn(16, 16), w=np.ones(16))
    scores = model_of("""
agraph (float[n,16] x, float[16,16] q, float[16,16] k, float[16,16] v) => (float[n,16] y) {
  a = MatMul (x, q)  b = MatMul (x, k)  c = MatMul (x, v)  t = Transpose (b)  s = MatMul (a, t)  p = Softmax (s)  y = MatMul (p, c)
}""", q=drawn(16, 16, by=300), k=drawn(16, 16, by=300), v=drawn(16, 16))
    attention = model_of("""
agraph (float[1,n,16] x, float[16,16] q, float[16,16] k, float[16,16] v) => (float[1,n,16] y) {
  a = MatMul (x, q)  b = MatMul (x, k)  c = MatMul (x, v)  m = Attention <q_num_heads = 2, kv_num_heads = 2> (a, b, c)  y = Neg (m)
}""", q=drawn(16, 16, by=300), k=drawn(16, 16, by=300), v=drawn(16, 16))
    return {"mlp": mlp, "residual": residual, "scores": scores, "attention": attention}


LARGE = large_models()


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("name", LARGE)
def test_activations_of_1e5(tmp_path, name, calibrated):
    model = LARGE[name]
    x = normal(1, 6, 16) if name == "attention" else normal(6, 16)
    np.savez(tmp_path / "c.npz", x=x)
    fields = f"calibrate={tmp_path / 'c.npz'}" if calibrated else ""
    result, _ = half(tmp_path, model, fields, "--inputs", tmp_path / "c.npz")
    near(model, result, {"x": x})
    assert F16 in types(result).values()


@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_activations_of_1e5_that_are_clamped(tmp_path, name):
    model = LARGE[name]
    x = normal(6, 16)
    np.savez(tmp_path / "c.npz", x=x)
    result, report = half(tmp_path, model, f"clamp=true;calibrate={tmp_path / 'c.npz'}", "--inputs", tmp_path / "c.npz")
    assert any("clamped" in note for note in notes_of(report)) and works_in(result, "RMSNormalization") == {F16}
    assert all(np.isfinite(y).all() for y in in_onnxruntime(result, {"x": x}).values())


def test_scores_of_attention_beyond_the_type_are_float(tmp_path):
    """They are made within the operator, and no value of the graph is large."""
    np.savez(tmp_path / "x.npz", x=normal(1, 6, 16))  # among thousands of keys, the largest scores are so close that rounding of q and k swaps them
    result, report = half(tmp_path, LARGE["attention"], "", "--inputs", tmp_path / "x.npz")
    assert works_in(result, "Attention") == {T.FLOAT} and works_in(result, "Neg") == {F16}
    assert any("numbers beyond the type" in note and "m" in note.split(": ")[1] for note in notes_of(report)), notes_of(report)


def test_what_is_all_near_zero_stays(tmp_path):
    model = parsed("""
agraph (float[3] x) => (float[3] y, float[3] z) <float[3] w = {1e-7, 1e-8, 1e-30}, float less = {1e-3}, float more = {1e6}> {
  y = Mul (x, w)
  a = Mul (x, less)
  b = Mul (a, less)
  c = Mul (b, less)
  z = Neg (c)
}""")
    for fields in ("", "clamp=true"):
        result, _ = half(tmp_path, model, fields)
        near(model, result, {"x": normal(3)}, 1e-3)
        assert not any(n.op_type == "Clip" for n in result.graph.node)


ODD = {  # graphs in which the model itself casts
    "an output is a cast": "agraph (int64[3] i) => (float[3] y, float[3] z) { y = Cast <to = 1> (i)  z = Neg (y) }",
    "halves in and out": "agraph (float16[3] h) => (float[3] y, float[3] z, float16[3] k) { y = Cast <to = 1> (h)  z = Neg (y)  k = Cast <to = 10> (z) }",
    "like a half": "agraph (float16[3] h, float[3] x) => (float[3] y, float16[3] k) { c = CastLike (h, x)  y = Add (c, x)  k = CastLike (y, h) }",
    "one after the other": "agraph (float[3] x) => (float[3] z) { a = Cast <to = 1> (x)  b = Cast <to = 11> (a)  c = Cast <to = 1> (b)  z = Neg (c) }",
    "doubles": "agraph (double[3] d, float[3] x) => (double[3] y) { w = Cast <to = 11> (x)  s = Neg (x)  e = CastLike (s, d)  a = Add (d, w)  y = Add (a, e) }",
    "text": "agraph (float[3] x) => (float[3] y) { s = Cast <to = 8> (x)  f = Cast <to = 1> (s)  y = Neg (f) }",
    "in a body": """agraph (bool b, int64[3] i) => (float[3] y, float[3] z) {
  f = Cast <to = 1> (i)  z = Neg (f)
  y = If (b) <then_branch = yes () => (float[3] t) { t = Neg (f) }, else_branch = no () => (float[3] e) { g = Cast <to = 1> (i)  e = Add (f, g) }>
}""",
}


@pytest.mark.parametrize("fields", ["", "interface=true", '{"keep": []}'])
@pytest.mark.parametrize("what", ODD)
def test_graphs_that_cast(tmp_path, what, fields):
    model = parsed(ODD[what])
    result, _ = half(tmp_path, model, fields)
    onnx.checker.check_model(result, full_check=True)
    feeds = {"i": np.array([3, -1, 7]), "h": normal(3).astype(np.float16), "x": normal(3), "d": normal(3).astype(np.float64), "b": np.array(False)}
    given = lambda m: {i.name: feeds[i.name].astype(onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)) for i in m.graph.input}
    wanted, got = in_onnxruntime(model, given(model)), in_onnxruntime(result, given(result))
    assert all(np.allclose(wanted[k].astype(np.float64), got[k].astype(np.float64), rtol=1e-2, atol=1e-2) for k in wanted)
