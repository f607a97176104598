"""Dims that may differ: models in which two dims are different symbols, run at sizes where those differ (or one of them is 1).

Each model comes with a twin in which the symbols are one, and which fuses: so the place where a fusion might assume too much is there.
Nothing is verified by the command itself; ONNX Runtime judges."""
import itertools

import numpy as np
import onnx
import onnx.parser
import pytest

from conftest import run_ok, tensor

ort = pytest.importorskip("onnxruntime")
TARGETS = [("ort-cpu@1.31", "nodes"), ("onnx", "nodes"), ("ort-cpu@1.31", "measured")]

# name -> (graph, sizes that differ, renamed symbols of the twin, operator that the twin has)
CASES = {}


def case(name, graph, sizes, twin, fused):
    CASES[name] = (graph, sizes, twin, fused)


ATTENTION = """
  g (float[{qb},{qh},{qs},8] q, float[{kb},{kh},{ks},8] k, float[{kb},{kh},{ks},8] v, float[{mb},{mh},{mq},{mk}] mask) => (float[yb,yh,ys,8] y)
  <float scale = {{0.35}}> {{
    kt = Transpose <perm = [0,1,3,2]> (k)
    s = MatMul (q, kt)
    t = Mul (s, scale)
    m = Add (t, mask)
    p = Softmax <axis = -1> (m)
    y = MatMul (p, v)
  }}"""


def attention(**names):
    symbols = dict(qb="b", qh="3", qs="s", kb="b", kh="3", ks="t", mb="b", mh="1", mq="s", mk="t")
    return ATTENTION.format(**(symbols | names))


case("cross attention", attention(), [dict(b=2, s=3, t=7), dict(b=3, s=7, t=1), dict(b=1, s=1, t=5)], dict(t="s"), "Attention")
case("attention of another batch", attention(kb="c", mb="c"), [dict(b=2, c=1, s=3, t=7), dict(b=1, c=2, s=5, t=4), dict(b=2, c=2, s=2, t=3)], dict(c="b"), "Attention")
case("attention of any heads", attention(qh="h", kh="h", mb="1"), [dict(b=2, h=5, s=3, t=7), dict(b=5, h=2, s=3, t=3)], dict(h="b"), None)
case("attention of other heads", attention(qh="h", kh="j"), [dict(b=2, h=4, j=1, s=3, t=7), dict(b=2, h=1, j=4, s=3, t=7), dict(b=3, h=3, j=3, s=2, t=2)], dict(j="h"), None)  # no heads at all would end ONNX Runtime
case("a mask of any rows and columns", attention(mb="d", mq="m", mk="n"),
     [dict(b=2, d=1, s=3, m=1, t=7, n=1), dict(b=2, d=2, s=3, m=3, t=7, n=7), dict(b=2, d=1, s=1, m=4, t=5, n=5), dict(b=1, d=3, s=2, m=2, t=5, n=1)], dict(d="b", m="s", n="t"), "Attention")
case("a mask of any heads", attention(mh="h"), [dict(b=2, h=1, s=3, t=7), dict(b=2, h=3, s=3, t=7)], {}, "Attention")

SELF = """
  g (float[{xb},{xs},12] x, float[{yb},{ys},12] other) => (float[yb_,ys_,12] y)
  <float[12,12] wq, float[12,12] wk, float[12,12] wv, float[12] bq, float[12] bk, float[12] bv, int64[4] apart = {{0,0,3,4}}, int64[3] joined = {{0,0,12}}, float scale = {{0.5}}> {{
    q = MatMul (x, wq)
    qb = Add (q, bq)
    k = MatMul (other, wk)
    kb = Add (k, bk)
    v = MatMul (other, wv)
    vb = Add (v, bv)
    q4 = Reshape (qb, apart)
    k4 = Reshape (kb, apart)
    v4 = Reshape (vb, apart)
    qt = Transpose <perm = [0,2,1,3]> (q4)
    kt = Transpose <perm = [0,2,3,1]> (k4)
    vt = Transpose <perm = [0,2,1,3]> (v4)
    s = MatMul (qt, kt)
    t = Mul (s, scale)
    p = Softmax <axis = -1> (t)
    o = MatMul (p, vt)
    ot = Transpose <perm = [0,2,1,3]> (o)
    y = Reshape (ot, joined)
  }}"""
case("projections of two inputs", SELF.format(xb="b", xs="s", yb="c", ys="t"), [dict(b=2, s=3, c=2, t=7), dict(b=2, s=3, c=1, t=7), dict(b=3, s=2, c=3, t=2)], dict(c="b", t="s"), "Attention")

NORM = """
  g (float[b,s,{h}] x, float[{g}] scale, float[{c}] bias) => (float[b_,s_,h_] y)
  <int64[1] axes = {{-1}}, float eps = {{0.001}}> {{
    m = ReduceMean <keepdims = 1> (x, axes)
    d = Sub (x, m)
    dd = Mul (d, d)
    v = ReduceMean <keepdims = 1> (dd, axes)
    ve = Add (v, eps)
    r = Sqrt (ve)
    n = Div (d, r)
    z = Mul (n, scale)
    y = Add (z, bias)
  }}"""
case("scale and bias of any length", NORM.format(h="8", g="g", c="c"), [dict(b=2, s=3, g=1, c=8), dict(b=2, s=3, g=8, c=1), dict(b=1, s=5, g=1, c=1)], dict(g="8", c="8"), "LayerNormalization")
case("a width of 1", NORM.format(h="h", g="g", c="c"), [dict(b=2, s=3, h=1, g=5, c=5), dict(b=2, s=3, h=5, g=1, c=5), dict(b=2, s=3, h=4, g=4, c=4)], dict(h="8", g="8", c="8"), "LayerNormalization")

SKIP = """
  g (float[b,s,8] x, float[{c},{t},8] residual, float[8] scale, float[8] bias) => (float[b_,s_,8] y, float[b_,s_,8] sum) {{
    sum = Add (x, residual)
    y = LayerNormalization <axis = -1, epsilon = 0.01> (sum, scale, bias)
  }}"""
case("a residual that broadcasts", SKIP.format(c="c", t="t"), [dict(b=2, s=3, c=1, t=3), dict(b=2, s=3, c=2, t=1), dict(b=1, s=1, c=2, t=4), dict(b=2, s=2, c=2, t=2)], dict(c="b", t="s"), "SkipLayerNormalization")

ROPE = """
  g (float[b,3,s,8] x, float[{pb},1,{ps},8] cos, float[{pb},1,{ps},8] sin) => (float[b_,3,s_,8] y)
  <int64[1] zero = {{0}}, int64[1] four = {{4}}, int64[1] end = {{8}}, int64[1] last = {{3}}> {{
    a = Slice (x, zero, four, last)
    c = Slice (x, four, end, last)
    n = Neg (c)
    r = Concat <axis = -1> (n, a)
    xc = Mul (x, cos)
    rs = Mul (r, sin)
    y = Add (xc, rs)
  }}"""
case("rotation by broadcast positions", ROPE.format(pb="p", ps="q"), [dict(b=2, s=3, p=1, q=3), dict(b=2, s=3, p=2, q=1), dict(b=1, s=1, p=2, q=5), dict(b=2, s=3, p=2, q=3)], {}, None)

ROPE_TABLE = """
  g (float[b,s,24] x, int64[{pb},{ps}] positions) => (float[b_,3,s_,8] y)
  <float[32,4] cosines, float[32,4] sines, int64[4] apart = {{0,0,3,8}}, int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] four = {{4}}, int64[1] end = {{8}}, int64[1] last = {{3}}> {{
    x4 = Reshape (x, apart)
    xt = Transpose <perm = [0,2,1,3]> (x4)
    c1 = Gather <axis = 0> (cosines, positions)
    s1 = Gather <axis = 0> (sines, positions)
    c0 = Concat <axis = -1> (c1, c1)
    s0 = Concat <axis = -1> (s1, s1)
    cos = Unsqueeze (c0, one)
    sin = Unsqueeze (s0, one)
    a = Slice (xt, zero, four, last)
    c = Slice (xt, four, end, last)
    n = Neg (c)
    r = Concat <axis = -1> (n, a)
    xc = Mul (xt, cos)
    rs = Mul (r, sin)
    y = Add (xc, rs)
  }}"""
case("rotation by a table and positions of another batch", ROPE_TABLE.format(pb="p", ps="q"), [dict(b=2, s=3, p=1, q=3), dict(b=2, s=3, p=2, q=3), dict(b=3, s=2, p=1, q=2), dict(b=2, s=4, p=2, q=1)],
     dict(p="b", q="s"), "RotaryEmbedding")

case("a bias of any length", """
  g (float[b,s,8] x, float[{n}] bias) => (float[b_,s_,m_] y)
  <float[8,6] w, float half = {{0.5}}, float one = {{1}}, float root = {{0.70710678}}> {{
    p = MatMul (x, w)
    h = Add (p, bias)
    i = Mul (h, root)
    e = Erf (i)
    f = Add (e, one)
    j = Mul (h, f)
    y = Mul (j, half)
  }}""".format(n="n"), [dict(b=2, s=3, n=1), dict(b=2, s=3, n=6)], dict(n="6"), "BiasGelu")

case("zeros that widen", """
  g (float[b,s,8] x, float[c,t,8] other) => (float[b_,s_,8] y) {
    shape = Shape (other)
    zeros = ConstantOfShape (shape)
    y = Add (x, zeros)
  }""", [dict(b=1, s=3, c=4, t=3), dict(b=2, s=1, c=2, t=5), dict(b=2, s=3, c=2, t=3)], {}, None)

case("an Expand to another value's shape", """
  g (float[b,s,8] x, float[c,t,8] other) => (float[b_,s_,8] y) {
    shape = Shape (other)
    y = Expand (x, shape)
  }""", [dict(b=1, s=3, c=4, t=3), dict(b=2, s=1, c=2, t=5), dict(b=2, s=3, c=2, t=3)], {}, None)

case("a Reshape by another value's shape", """
  g (float[b,s,8] x, float[c,t,8] other) => (float[b_,s_,8] y, float[b__,s__,8] z) {
    shape = Shape (other)
    y = Reshape (x, shape)
    z = Transpose <perm = [1,0,2]> (y)
  }""", [dict(b=2, s=6, c=3, t=4), dict(b=4, s=3, c=6, t=2), dict(b=2, s=3, c=2, t=3)], {}, None)

case("two Concats of pasts of their own", """
  g (float[b,3,s,8] q, float[b,3,s,8] k, float[b,3,s,8] v, float[b,3,{p},8] pk, float[b,3,{o},8] pv) => (float[b_,3,s_,8] y, float[b_,3,t_,8] nk, float[b_,3,u_,8] nv)
  <float scale = {{0.35}}> {{
    nk = Concat <axis = 2> (pk, k)
    nv = Concat <axis = 2> (pv, v)
    kt = Transpose <perm = [0,1,3,2]> (nk)
    s0 = MatMul (q, kt)
    s1 = Mul (s0, scale)
    p0 = Softmax <axis = -1> (s1)
    y = MatMul (p0, nv)
  }}""".format(p="p", o="o"), [dict(b=2, s=3, p=4, o=4), dict(b=1, s=2, p=0, o=0), dict(b=2, s=1, p=7, o=7)], dict(o="p"), "Attention")

case("parts of a batch", """
  g (float[b,s,8] x, float[c,s,8] z) => (float[d_,s_,8] y)
  <int64[1] zero = {0}, int64[1] one = {1}> {
    j = Concat <axis = 0> (x, z)
    shape = Shape (x)
    n = Slice (shape, zero, one, zero)
    y = Slice (j, zero, n, zero)
  }""", [dict(b=2, c=3, s=4), dict(b=3, c=1, s=2), dict(b=1, c=1, s=1)], {}, None)

case("a Where of any condition", """
  g (float[b,3,s,t] x, float[b,3,t,8] v, bool[{c},1,{m},{n}] hidden) => (float[b_,3,s_,8] y)
  <float low = {{-10000}}> {{
    w = Where (hidden, low, x)
    p = Softmax <axis = -1> (w)
    y = MatMul (p, v)
  }}""".format(c="c", m="m", n="n"), [dict(b=2, s=3, t=5, c=1, m=1, n=5), dict(b=2, s=3, t=5, c=2, m=3, n=1), dict(b=2, s=1, t=5, c=2, m=3, n=5)], {}, None)

case("a row that is one of its dims", """
  g (float[s,s2] x, float[t,8] w) => (float[a_,8] y)
  <int64[2] perm_ = {0,1}> {
    xt = Transpose <perm = [1,0]> (x)
    p = MatMul (xt, w)
    z = MatMul (x, p)
    y = Identity (z)
  }""", [dict(s=3, s2=5, t=3), dict(s=5, s2=2, t=5)], {}, None)

case("rows by themselves in another order", """
  g (float[b,s,8] x) => (float[i,j,k,l] y)
  <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[2] tail = {8, 1}> {
    shape = Shape (x)
    first = Slice (shape, zero, one)
    second = Slice (shape, one, two)
    turned = Concat <axis = 0> (second, first, tail)
    row = Unsqueeze (x, two)
    column = Reshape (x, turned)
    y = MatMul (row, column)
  }""", [dict(b=1, s=3), dict(b=3, s=1), dict(b=2, s=2)], dict(s="b"), None)


def parsed(text, rename):
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]>' + text)
    rng = np.random.default_rng(5)
    for value in [*model.graph.input, *model.graph.output]:
        for d in value.type.tensor_type.shape.dim:
            new = rename.get(d.dim_param)
            if new is not None and new.isdigit():
                d.dim_value = int(new)
            elif new is not None:
                d.dim_param = new
    for v in model.graph.value_info:  # declared without values
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        model.graph.initializer.append(tensor(v.name, rng.normal(size=shape).astype(np.float32)))
    del model.graph.value_info[:]
    return model


def feed_of(model, sizes):
    rng, feed = np.random.default_rng(7), {}
    for i in model.graph.input:
        dims = i.type.tensor_type.shape.dim
        shape = [d.dim_value or sizes[d.dim_param] for d in dims]
        kind = i.type.tensor_type.elem_type
        if kind == onnx.TensorProto.INT64:
            feed[i.name] = rng.integers(0, 32, shape)
        else:
            feed[i.name] = rng.random(shape) < 0.4 if kind == onnx.TensorProto.BOOL else rng.normal(size=shape).astype(np.float32)
    return feed


def outputs(model, feed):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level, options.intra_op_num_threads = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 4, 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def optimized(model, folder, target, cost):
    onnx.save(model, folder / "in.onnx")
    run_ok(folder / "in.onnx", folder / "out.onnx", "--target", target, "--cost", cost, "--no-verify")
    return onnx.load(folder / "out.onnx")


@pytest.mark.parametrize("name", CASES)
def test_dims_that_differ_are_not_taken_for_one(tmp_path, name):
    graph, sizes, _, _ = CASES[name]
    model = parsed(graph, {})
    wanted = [(size, feed := feed_of(model, size), outputs(model, feed)) for size in sizes]
    for target, cost in TARGETS:
        result = optimized(model, tmp_path, target, cost)
        for size, feed, want in wanted:
            for a, b in itertools.zip_longest(outputs(result, feed), want):
                assert a.shape == b.shape, (target, cost, size)
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=f"{target} {cost} {size}")


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c[3]])
def test_the_same_model_fuses_where_they_are_one(tmp_path, name):
    graph, _, twin, fused = CASES[name]
    result = optimized(parsed(graph, twin), tmp_path, "ort-cpu@1.31", "nodes")
    made = {n.op_type for n in result.graph.node}
    assert made & ({fused, "MultiHeadAttention", "GroupQueryAttention"} if fused == "Attention" else {fused, "Skip" + fused}), made


CUT_SHORT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[b,s,8] x, int64[1] n, float[8] w) => (float[i,j,k,l,8] y, float[o,p,q,r,8] z)
<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] eight = {8}> {
  c = Slice (x, zero, n, one)
  shape = Shape (c)
  lead = Slice (shape, zero, two)
  five = Concat <axis = 0> (one, lead, one, eight)
  z = Expand (w, five)
  u = Unsqueeze (c, zero)
  v = Unsqueeze (u, three)
  y = Relu (v)
}"""


@pytest.mark.parametrize("length", [3, 0])
def test_a_reshape_that_rules_made_takes_what_is_cut_to_nothing(tmp_path, length):
    """A size of 0 among computed sizes is no copy of the input's."""
    model = onnx.parser.parse_model(CUT_SHORT)
    feed = {"x": np.ones((2, 5, 8), np.float32), "n": np.array([length]), "w": np.arange(8, dtype=np.float32)}
    result = optimized(model, tmp_path, "ort-cpu@1.31", "nodes")
    assert "Unsqueeze" not in {n.op_type for n in result.graph.node}
    for a, b in itertools.zip_longest(outputs(result, feed), outputs(model, feed)):
        np.testing.assert_array_equal(a, b)
