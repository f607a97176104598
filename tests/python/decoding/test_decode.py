"""One step of a decoder with a cache: what falls away, in models small enough to read; past lengths of 0 and more in ONNX Runtime."""
import collections

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

from conftest import run_ok

ort.set_default_logger_severity(4)

CACHED = "float[b,4,p,8] pk, float[b,4,p,8] pv"
HEADS = "s = Constant <value_ints = [-1,1,4,8]> () q4 = Reshape (q, s) k4 = Reshape (k, s) v4 = Reshape (v, s) " + "".join(
    f"{x}h = Transpose <perm = [0,2,1,3]> ({x}4) " for x in "qkv")
JOIN = "nk = Concat <axis = 2> (pk, kh) nv = Concat <axis = 2> (pv, vh) "
SCORES = "kt = Transpose <perm = [0,1,3,2]> (nk) a = MatMul (qh, kt) w = Softmax (a) o = MatMul (w, nv) ot = Transpose <perm = [0,2,1,3]> (o) n = Constant <value_ints = [-1,1,32]> () y = Reshape (ot, n)"

# name: (inputs => outputs, nodes, options, operators that must be gone, operators that must be there)
CASES = {
    "one_position_of_any_batch_is_a_view": (f"float[b,1,32] q, float[b,1,32] k, float[b,1,32] v, {CACHED} => float[b,1,32] y, float[b,4,n,8] nk, float[b,4,n,8] nv",
        HEADS + JOIN + SCORES, "--target onnx --opset 18 --cost bytes", {"Transpose": 1}, {"Concat": 2}),
    "rotary_embedding_of_packed_heads": ("float[b,s,24] x, float[b,s,4] c, float[b,s,4] n => float[b,s,24] y",
        "h = Constant <value_ints = [0,0,3,8]> () x4 = Reshape (x, h) xt = Transpose <perm = [0,2,1,3]> (x4) i1 = Constant <value_ints = [1]> () c1 = Unsqueeze (c, i1) n1 = Unsqueeze (n, i1) "
        "cc = Concat <axis = -1> (c1, c1) nn = Concat <axis = -1> (n1, n1) two = Constant <value_ints = [4,4]> () u, w = Split <axis = -1> (xt, two) o = Neg (w) r = Concat <axis = -1> (o, u) "
        "a = Mul (xt, cc) d = Mul (r, nn) z = Add (a, d) zt = Transpose <perm = [0,2,1,3]> (z) l = Constant <value_ints = [0,0,24]> () y = Reshape (zt, l)",
        "--target ort-cpu@1.31 --cost nodes", {"Transpose": 0, "Reshape": 0}, {"RotaryEmbedding": 1}),
    # six of eight elements of a head turn (GPT-NeoX, Phi)
    "rotary_embedding_of_first_part": ("float[b,s,24] x, float[b,s,3] c, float[b,s,3] n => float[b,s,24] y",
        "h = Constant <value_ints = [0,0,3,8]> () x4 = Reshape (x, h) xt = Transpose <perm = [0,2,1,3]> (x4) i1 = Constant <value_ints = [1]> () c1 = Unsqueeze (c, i1) n1 = Unsqueeze (n, i1) "
        "parts = Constant <value_ints = [6,2]> () xr, xp = Split <axis = -1> (xt, parts) "
        "cc = Concat <axis = -1> (c1, c1) nn = Concat <axis = -1> (n1, n1) two = Constant <value_ints = [3,3]> () u, w = Split <axis = -1> (xr, two) o = Neg (w) r = Concat <axis = -1> (o, u) "
        "a = Mul (xr, cc) d = Mul (r, nn) e = Add (a, d) z = Concat <axis = -1> (e, xp) zt = Transpose <perm = [0,2,1,3]> (z) l = Constant <value_ints = [0,0,24]> () y = Reshape (zt, l)",
        "--target ort-cpu@1.31 --cost nodes", {"Transpose": 0, "Reshape": 0, "Split": 0, "Slice": 0, "Concat": 0}, {"RotaryEmbedding": 1}),
    # torch's mask of cross attention: all true, as wide as the encoder's states
    "mask_that_hides_nothing": ("float[b,4,s,8] q, float[b,4,t,8] k, float[b,4,t,8] v => float[b,4,s,8] y",
        "c = Constant <value = bool[1,1,1,1] {1}> () l0 = Constant <value_ints = [0]> () l2 = Constant <value_ints = [2]> () one = Constant <value_ints = [1]> () sq = Shape (q) sk = Shape (k) "
        "b = Gather (sq, l0) s = Gather (sq, l2) t = Gather (sk, l2) to = Concat <axis = 0> (b, one, s, t) w = Expand (c, to) zero = Constant <value_float = 0.0> () f = Constant <value_float = -3e38> () "
        "m = Where (w, zero, f) kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) d = Add (a, m) p = Softmax (d) y = MatMul (p, v)",
        "--target ort-cpu@1.31 --cost nodes", {"Expand": 0, "Where": 0, "Shape": 0}, {"Attention": 1}),
}
SIZES = [{"b": 1, "s": 1, "t": 7, "p": 0}, {"b": 3, "s": 4, "t": 5, "p": 6}, {"b": 2, "s": 5, "t": 1, "p": 1}]


@pytest.mark.parametrize("name", CASES)
def test_step(tmp_path, name):
    signature, nodes, options, most, exact = CASES[name]
    inputs, outputs = signature.split("=>")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> g ({inputs}) => ({outputs}) {{ {nodes} }}')
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    run_ok("optimize", path, "-o", out, *options.split())
    counts = collections.Counter(n.op_type for n in onnx.load(out).graph.node)
    assert all(counts[op] <= n for op, n in most.items()), counts
    assert all(counts[op] == n for op, n in exact.items()), counts
    sessions = [ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (path, out)]
    rng = np.random.default_rng(5)
    for sizes in SIZES:
        feeds = {i.name: rng.standard_normal([d.dim_value or sizes[d.dim_param] for d in i.type.tensor_type.shape.dim]).astype(np.float32)
                 for i in model.graph.input}
        for a, b in zip(*(s.run(None, feeds) for s in sessions), strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_a_cache_means_one_position(tmp_path):
    """Open lengths of a model with a cache are priced at one new position: what is cached is not transposed, the one query is."""
    model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 18]>
        g (int64[b,s] ids, float[b,12,p,64] pk, float[b,12,p,64] pv, float[b,12,t,64] ck, float[b,12,t,64] cv) => (float[b,s,768] y, float[b,12,n,64] nk, float[b,12,n,64] nv)
        { x = Gather (table, ids) h = Constant <value_ints = [0,0,12,64]> () l = Constant <value_ints = [0,0,768]> ()
          k = MatMul (x, wk) k4 = Reshape (k, h) kh = Transpose <perm = [0,2,1,3]> (k4) nk = Concat <axis = 2> (pk, kh)
          v = MatMul (x, wv) v4 = Reshape (v, h) vh = Transpose <perm = [0,2,1,3]> (v4) nv = Concat <axis = 2> (pv, vh)
          q = MatMul (x, wq) q4 = Reshape (q, h) qh = Transpose <perm = [0,2,1,3]> (q4)
          kt = Transpose <perm = [0,1,3,2]> (ck) a = MatMul (qh, kt) w = Softmax (a) o = MatMul (w, cv) ot = Transpose <perm = [0,2,1,3]> (o) y = Reshape (ot, l) }''')
    rng = np.random.default_rng(1)
    for name, shape in {"table": (20, 768), "wq": (768, 768), "wk": (768, 768), "wv": (768, 768)}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 28, name))
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, path)
    run_ok("optimize", path, "-o", out, "--target", "ort-cpu@1.31")
    transposed = {i for n in onnx.load(out).graph.node if n.op_type == "Transpose" for i in n.input}
    assert not transposed & {"ck", "cv", "pk", "pv"}, transposed
