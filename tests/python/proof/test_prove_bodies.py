"""`saturate prove` of nodes with bodies: equal where what comes in is equal and the bodies are, by the same laws."""
import numpy as np
import onnx
import pytest
from onnx import parser

from test_prove import DIFFERENT, OPEN, PROVEN, prove


def branches(then, other="v = Neg (a)", outside="a = Relu (x)", after="y = Identity (i)"):
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["": 17]> g (float[N,M] x, bool c) => (float[N,M] y) {{ {outside}
        i = If (c) <then_branch = t () => (float[N,M] u) {{ {then} }}, else_branch = e () => (float[N,M] v) {{ {other} }}> {after} }}""")


def turns(body, states="x", names="h", outputs="y", keeps="o = Identity (k)"):
    ins, outs = ", ".join(f"float[N,M] {n}" for n in names.split()), ", ".join(f"float[N,M] {n}2" for n in names.split())
    results = ", ".join(f"float[N,M] {o}" for o in outputs.split())
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["": 17]> g (float[N,M] x, float[N,M] w, int64 n, bool c) => ({results}, float[K,N,M] s) {{
        z = Relu (x)  {outputs.replace(" ", ", ")}, s = Loop (n, c, {states.replace(" ", ", ")}) <body = b (int64 i, bool k, {ins}) => (bool o, {outs}, float[N,M] out) {{ {keeps} {body} }}> }}""")


def rows(body, attributes="num_scan_inputs = 1"):
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["": 17]> g (float[S] x, float[T,S] w) => (float[S] y, float[T,S] s) {{
        y, s = Scan <{attributes}, body = b (float[S] h, float[S] r) => (float[S] h2, float[S] out) {{ {body} }}> (x, w) }}""")


SAME = {
    "another order and other names": (branches("p = Add (a, x) u = Mul (p, a)"), branches("q = Add (x, b) u = Mul (b, q)", "v = Neg (b)", "b = Relu (x)")),
    "what is captured is equal by a law": (branches("u = Mul (a, x)"), branches("u = Mul (x, a)", outside="d = Neg (x) e = Neg (d) a = Relu (e)")),
    "a law between": (branches("t = Mul (a, a) u = Mul (t, a)"), branches("three = Constant <value_float = 3.0> () u = Pow (a, three)")),
    "an If in an If": tuple(branches(f"u = If (c) <then_branch = n () => (float[N,M] q) {{ q = {sum_} }}, else_branch = m () => (float[N,M] r) {{ r = Tanh (a) }}>")
                            for sum_ in ("Add (a, x)", "Add (x, a)")),
    "turns": (turns("t = Add (h, z) h2 = Mul (t, w) out = Neg (h2)"), turns("t = Add (z, h) h2 = Mul (w, t) out = Neg (h2)")),
    "two states": (turns("g2 = Add (g, h) h2 = Mul (g, h) out = Neg (g2)", "x w", "g h", "y v"), turns("g2 = Add (h, g) h2 = Mul (h, g) out = Neg (g2)", "x w", "g h", "y v")),
    "an input of the body that hides a value outside": (turns("h2 = Add (h, z) out = Neg (h2)"), turns("w2 = Add (w, z) out = Neg (w2)", names="w")),
    "rows": (rows("h2 = Add (h, r) out = Mul (h2, r)"), rows("h2 = Add (r, h) out = Mul (r, h2)")),
}
OTHER = {
    "another branch": (branches("u = Mul (a, x)"), branches("u = Mul (a, x)", "v = Neg (x)")),
    "branches changed over": (branches("u = Tanh (a)", "v = Neg (a)"), branches("u = Neg (a)", "v = Tanh (a)")),
    "another value is captured": (branches("u = Mul (a, x)"), branches("u = Mul (x, x)")),
    "the same name outside is another value": (branches("u = Mul (a, x)"), branches("u = Mul (a, x)", outside="a = Abs (x)")),
    "states changed over": (turns("g2 = Add (g, h) h2 = Mul (g, h) out = Neg (g2)", "x w", "g h", "y v"), turns("g2 = Mul (g, h) h2 = Add (g, h) out = Neg (g2)", "x w", "g h", "y v")),
    "other first states": (turns("h2 = Add (h, z) out = Neg (h2)"), turns("h2 = Add (h, z) out = Neg (h2)", "w")),
    "what is collected": (turns("h2 = Add (h, z) out = Neg (h2)"), turns("h2 = Add (h, z) out = Neg (h)")),
    "when it ends": (turns("h2 = Add (h, z) out = Neg (h2)"), turns("h2 = Add (h, z) out = Neg (h2)", keeps="o = Not (k)")),
    "another direction": (rows("h2 = Add (h, r) out = Mul (h2, h)"), rows("h2 = Add (h, r) out = Mul (h2, h)", "num_scan_inputs = 1, scan_input_directions = [1]")),
}


@pytest.mark.parametrize("name", SAME)
def test_equal_bodies_are_proven(tmp_path, name):
    for pair in (SAME[name], SAME[name][::-1], SAME[name][:1] * 2):
        status, found = prove(tmp_path, *pair)
        assert (status, found["verdict"]) == (PROVEN, "proven"), found
        assert found["bodies"] >= 1


@pytest.mark.parametrize("name", OTHER)
def test_other_bodies_are_not(tmp_path, name):
    status, found = prove(tmp_path, *OTHER[name])
    assert (status, found["verdict"]) == (DIFFERENT, "different"), found
    assert prove(tmp_path, *OTHER[name], "--no-compare")[0] == OPEN


def test_laws_of_bodies_are_told(tmp_path):
    _, found = prove(tmp_path, *SAME["a law between"])
    assert found["laws"] and found["bodies"] == 2


def test_bodies_that_draw_numbers_are_two(tmp_path):
    draws = branches("r = RandomNormalLike (a) u = Add (a, r)")
    assert prove(tmp_path, draws, draws, "--no-compare")[0] == OPEN


def test_initializers_of_bodies_are_what_they_hold(tmp_path):
    def with_constant(number):
        model = branches("u = Mul (a, k)")
        body = model.graph.node[1].attribute[0].g
        body.initializer.append(onnx.numpy_helper.from_array(np.float32(number), "k"))
        return model

    assert prove(tmp_path, with_constant(2), with_constant(2))[0] == PROVEN
    assert prove(tmp_path, with_constant(2), with_constant(3))[0] == DIFFERENT


def test_a_body_that_the_other_has_not_is_no_equal_one(tmp_path):
    whole, half = branches("u = Mul (a, x)"), branches("u = Mul (a, x)")
    del half.graph.node[1].attribute[1]
    for pair in ((whole, half), (half, whole)):
        assert prove(tmp_path, *pair, "--no-compare")[0] == OPEN
