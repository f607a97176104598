"""Rotary embeddings as users and exporters write them beside the usual two: ONNX text, and how many operators must come out of it."""
import pytest

from test_attention_forms import run_form

C, N = "float[s,4] c", "float[s,4] n"
PLACES = "int64 i = {0}, int64 j = {1}, int64[1] last = {-1}, int64[1] above = {-2}, int64[5] pairs = {0, 0, 0, 4, 2}, int64[5] halves = {0, 0, 0, 2, 4}, int64[4] flat = {0, 0, 0, 8}"
WIDE = "cc = Concat <axis = -1> (c, c) nn = Concat <axis = -1> (n, n) "
ANGLES = "cu = Unsqueeze (c, last) nu = Unsqueeze (n, last) m = Neg (n) mu = Unsqueeze (m, last) "
MATRIX = "r4 = Concat <axis = -1> (cu, mu, nu, cu) sh = Constant <value_ints = [1,1,-1,4,2,2]> () R = Reshape (r4, sh) "
BACKWARDS = "int64[1] b = {-1}, int64[1] e = {-9223372036854775807}, "

# name: (inputs => outputs, initializers, nodes, fused operators of the result)
CASES = {
    # view_as_complex and back, by torch.onnx's dynamo exporter.
    "complex": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES + ", int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}",
        "v = Reshape (x, pairs) re = Slice (v, zero, one, last) im = Slice (v, one, two, last) cu = Unsqueeze (c, last) nu = Unsqueeze (n, last) "
        "rc = Mul (re, cu) in = Mul (im, nu) d = Sub (rc, in) rn = Mul (re, nu) ic = Mul (im, cu) f = Add (rn, ic) z = Concat <axis = -1> (d, f) y = Reshape (z, flat)", {"rope": 1}),
    # Flux: columns of matrices of two by two.
    "columns_of_matrices": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES + ", int64[6] apart = {0, 0, 0, 4, 1, 2}",
        ANGLES + MATRIX + "v = Reshape (x, apart) R0 = Gather <axis = -1> (R, i) R1 = Gather <axis = -1> (R, j) x0 = Gather <axis = -1> (v, i) x1 = Gather <axis = -1> (v, j) "
        "p = Mul (R0, x0) q = Mul (R1, x1) z = Add (p, q) y = Reshape (z, flat)", {"rope": 1}),
    "matrices_by_einsum": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES,
        ANGLES + "r0 = Concat <axis = -1> (cu, mu) r1 = Concat <axis = -1> (nu, cu) s0 = Unsqueeze (r0, above) s1 = Unsqueeze (r1, above) R = Concat <axis = -2> (s0, s1) v = Reshape (x, pairs) "
        'z = Einsum <equation = "tdij,bhtdj->bhtdi"> (R, v) y = Reshape (z, flat)', {"rope": 1}),
    "matrices_by_product": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES,
        ANGLES + "r0 = Concat <axis = -1> (cu, nu) r1 = Concat <axis = -1> (mu, cu) s0 = Unsqueeze (r0, last) s1 = Unsqueeze (r1, last) R = Concat <axis = -1> (s0, s1) v = Reshape (x, pairs) "
        "u = Unsqueeze (v, last) w = MatMul (R, u) z = Squeeze (w, last) y = Reshape (z, flat)", {"rope": 1}),
    "halves_flipped": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES + ", " + BACKWARDS + "float[2,1] g = {-1, 1}",
        WIDE + "v = Reshape (x, halves) w = Slice (v, b, e, above, b) u = Mul (w, g) r = Reshape (u, flat) p = Mul (x, cc) q = Mul (r, nn) y = Add (p, q)", {"rope": 1}),
    "pairs_flipped": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES + ", " + BACKWARDS + "float[2] g = {-1, 1}, int64[8] twice = {0, 0, 1, 1, 2, 2, 3, 3}",
        "cc = Gather <axis = -1> (c, twice) nn = Gather <axis = -1> (n, twice) v = Reshape (x, pairs) w = Slice (v, b, e, last, b) u = Mul (w, g) r = Reshape (u, flat) p = Mul (x, cc) q = Mul (nn, r) y = Add (p, q)",
        {"rope": 1}),
    # xPos: a factor that grows with the position.
    "growing_factor": (f"float[b,2,s,8] x, {C}, {N}, float[s,4] g => float[b,2,s,8] y", PLACES + ", int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {8}",
        WIDE + "gg = Concat <axis = -1> (g, g) h = Reciprocal (gg) u = Slice (x, zero, half, last) w = Slice (x, half, end, last) m = Neg (w) r = Concat <axis = -1> (m, u) "
        "p0 = Mul (x, cc) p = Mul (p0, h) q0 = Mul (r, nn) q = Mul (q0, h) y = Add (p, q)", {"rope": 1}),
    # OLMo in half precision: the halves change places in half, the products are in float.
    "halves_widened": (f"float16[b,2,s,8] x, {C}, {N} => float16[b,2,s,8] y", PLACES + ", int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {8}",
        WIDE + "u = Slice (x, zero, half, last) w = Slice (x, half, end, last) m = Neg (w) r = Concat <axis = -1> (m, u) rw = Cast <to = 1> (r) xw = Cast <to = 1> (x) p = Mul (xw, cc) q = Mul (rw, nn) z = Add (p, q) y = Cast <to = 10> (z)",
        {"rope": 1}),
    "positions_of_a_grid": ("float[b,2,3,5,8] x, float[3,5,4] c, float[3,5,4] n => float[b,2,3,5,8] y", PLACES + ", int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {8}",
        WIDE + "u = Slice (x, zero, half, last) w = Slice (x, half, end, last) m = Neg (w) r = Concat <axis = -1> (m, u) p = Mul (x, cc) q = Mul (r, nn) y = Add (p, q)", {"rope": 1}),
    "a_table_for_each_head": ("float[1,s,2,8] x, float[s,2,4] c, float[s,2,4] n => float[1,s,2,8] y", PLACES + ", int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {8}",
        WIDE + "u = Slice (x, zero, half, last) w = Slice (x, half, end, last) m = Neg (w) r = Concat <axis = -1> (m, u) p = Mul (x, cc) q = Mul (r, nn) y = Add (p, q)", {"rope": 1}),
    "nothing_beside_it": (f"float[b,2,s,8] x, {C}, {N} => float[b,2,s,8] y", PLACES + ", int64[1] zero = {0}, int64[1] half = {4}, int64[1] end = {8}",
        WIDE + "k = Slice (x, zero, zero, last) o = Slice (x, end, end, last) u = Slice (x, zero, half, last) w = Slice (x, half, end, last) m = Neg (w) r = Concat <axis = -1> (m, u) "
        "p = Mul (x, cc) q = Mul (r, nn) z = Add (p, q) y = Concat <axis = -1> (k, z, o)", {"rope": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_form(tmp_path, name):
    run_form(tmp_path, CASES[name])
