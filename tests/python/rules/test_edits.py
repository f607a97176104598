"""Edits that keep the meaning of a model (bench/edits), each at every place where it applies: no fused block is lost, and ONNX Runtime
computes the same."""
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper

from conftest import DATA, ROOT, binary, tensor

pytest.importorskip("onnxruntime")
sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import edit_coverage  # noqa: E402
import edits  # noqa: E402

COMMAND = "{binary} {{in}} -o {{out}} --target ort-cpu@1.31 --cost nodes --no-verify -q"

# A decoder's block: RMS normalization, rotary embedding by halves, attention with a boolean mask, gated SiLU.
DECODER = """
  <ir_version: 9, opset_import: ["" : 18]>
  g (float[batch,seq,16] x, bool[batch,1,seq,seq] hidden, float[1,1,seq,8] angle) => (float[batch,seq,16] y)
  <float[16] g1, float[16] g2, float[16,16] wq, float[16,16] wk, float[16,16] wv, float[16,16] wo, float[16,24] wg, float[16,24] wu, float[24,16] wd,
   int64[1] last = {-1}, int64[1] zero = {0}, int64[1] four = {4}, int64[1] end = {8}, int64[4] apart = {0,0,2,8}, int64[3] joined = {0,0,16},
   float two = {2}, float eps = {0.001}, float one = {1}, float scale = {0.35355339}, float low = {-10000}> {
    xx = Pow (x, two)
    m1 = ReduceMean <keepdims = 1> (xx, last)
    e1 = Add (m1, eps)
    r1 = Sqrt (e1)
    n1 = Div (x, r1)
    h = Mul (n1, g1)
    q = MatMul (h, wq)
    k = MatMul (h, wk)
    v = MatMul (h, wv)
    q4 = Reshape (q, apart)
    k4 = Reshape (k, apart)
    v4 = Reshape (v, apart)
    qt = Transpose <perm = [0,2,1,3]> (q4)
    kt = Transpose <perm = [0,2,1,3]> (k4)
    vt = Transpose <perm = [0,2,1,3]> (v4)
    cos = Cos (angle)
    sin = Sin (angle)
    qa = Slice (qt, zero, four, last)
    qb = Slice (qt, four, end, last)
    qn = Neg (qb)
    qr = Concat <axis = -1> (qn, qa)
    qc = Mul (qt, cos)
    qs = Mul (qr, sin)
    qe = Add (qc, qs)
    ka = Slice (kt, zero, four, last)
    kb = Slice (kt, four, end, last)
    kn = Neg (kb)
    kr = Concat <axis = -1> (kn, ka)
    kc = Mul (kt, cos)
    ks = Mul (kr, sin)
    ke = Add (kc, ks)
    kx = Transpose <perm = [0,1,3,2]> (ke)
    s0 = MatMul (qe, kx)
    s1 = Mul (s0, scale)
    s2 = Where (hidden, low, s1)
    p = Softmax <axis = -1> (s2)
    o4 = MatMul (p, vt)
    ot = Transpose <perm = [0,2,1,3]> (o4)
    o = Reshape (ot, joined)
    a = MatMul (o, wo)
    b = Add (x, a)
    bb = Mul (b, b)
    m2 = ReduceMean <keepdims = 1> (bb, last)
    e2 = Add (m2, eps)
    r2 = Sqrt (e2)
    i2 = Reciprocal (r2)
    n2 = Mul (b, i2)
    f = Mul (n2, g2)
    gate = MatMul (f, wg)
    sig = Sigmoid (gate)
    act = Mul (gate, sig)
    up = MatMul (f, wu)
    prod = Mul (act, up)
    down = MatMul (prod, wd)
    y = Add (b, down)
  }"""


def decoder():
    model, rng = onnx.parser.parse_model(DECODER), np.random.default_rng(3)
    angle = model.graph.input[2].type.tensor_type.shape.dim
    angle[3].dim_value = 4  # of one half; both halves turn alike
    model.graph.node.insert(0, helper.make_node("Concat", ["angle", "angle"], ["angles"], axis=-1))
    for n in model.graph.node:
        if n.op_type in ("Cos", "Sin"):
            n.input[0] = "angles"
    for v in model.graph.value_info:  # declared without values
        model.graph.initializer.append(tensor(v.name, (rng.normal(size=[d.dim_value for d in v.type.tensor_type.shape.dim]) / 4).astype(np.float32)))
    del model.graph.value_info[:]
    hidden = np.zeros((2, 1, 5, 5), bool)
    hidden[1, :, :, 3:] = True
    return model, {"x": rng.normal(size=(2, 5, 16)).astype(np.float32), "hidden": hidden, "angle": rng.normal(size=(1, 1, 5, 4)).astype(np.float32)}


@pytest.fixture(scope="module")
def cases():
    command = COMMAND.format(binary=binary())
    bart = edit_coverage.Case("bart", onnx.load(DATA / "bart_encoder.onnx"), dict(np.load(DATA / "bart_encoder.inputs.npz")), command)
    assert bart.before["attention"] == 2 and bart.before["norm"] == 5 and bart.before["activation"] == 2
    block = edit_coverage.Case("decoder", *decoder(), command)
    assert block.before["attention"] == 1 and block.before["norm"] == 2 and block.before["rope"] == 2 and block.before["activation"] == 1
    return [bart, block]


@pytest.mark.parametrize("name", [*edits.EDITS, *edits.WRAPS])
def test_no_block_is_lost(cases, name):
    for case in cases:
        verdict, detail, _ = case.try_edits(edit_coverage.everywhere(case, name), "0")
        assert verdict in ("kept", "nothing to edit"), f"{case.name}: {verdict} {detail}"


@pytest.mark.parametrize("seed", range(6))
def test_no_block_is_lost_by_a_mixture(cases, seed):
    for case in cases:
        decisions = edit_coverage.mixture(case, [*edits.EDITS, *edits.WRAPS], 0.1, seed)
        verdict, detail, _ = case.try_edits(decisions, str(seed))
        assert verdict in ("kept", "nothing to edit"), f"{case.name}: {verdict} {detail} {decisions}"
