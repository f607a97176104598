"""Attention, norms and embeddings in forms that real exports have: ONNX text, what must be fused, and that ONNX Runtime computes the same."""
import collections

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

from conftest import run_ok

ort.set_default_logger_severity(4)
ATTENTION = {"Attention", "MultiHeadAttention", "GroupQueryAttention"}
NORMS = {"LayerNormalization", "SkipLayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization"}
FAMILY = {**{op: "attention" for op in ATTENTION}, **{op: "norm" for op in NORMS}, "Gelu": "gelu", "FastGelu": "gelu", "BiasGelu": "gelu", "RotaryEmbedding": "rope"}
SIZES = {"b": 2, "s": 5, "t": 6, "p": 3, "sum": 8}

WINDOWS = "h = Constant <value_ints = [0,0,0,2,8]> () q5 = Reshape (q, h) k5 = Reshape (k, h) v5 = Reshape (v, h) " + "".join(
    f"{x.upper()} = Transpose <perm = [0,1,3,2,4]> ({x}5) " for x in "qkv")
JOINED = "r = Transpose <perm = [0,1,3,2,4]> (o) n = Constant <value_ints = [0,0,0,-1]> () y = Reshape (r, n)"
GROUPED = ("hq = Constant <value_ints = [0,0,2,3,8]> () hk = Constant <value_ints = [0,0,2,8]> () q5 = Reshape (q, hq) k4 = Reshape (k, hk) v4 = Reshape (v, hk) "
           "Q = Transpose <perm = [0,2,3,1,4]> (q5) K = Transpose <perm = [0,2,1,3]> (k4) V = Transpose <perm = [0,2,1,3]> (v4) ")
UNGROUPED = "r = Transpose <perm = [0,3,1,2,4]> (o) n = Constant <value_ints = [0,0,48]> () y = Reshape (r, n)"

# Which keys of a cache `other` and of itself a query sees.
COUNTED = ", float i = {0.35355339}, float low = {-10000.0}, int64 n0 = {0}, int64 n1 = {1}, int64[1] zero = {0}, int64[1] one = {1}"
UP_TO_ITSELF = ("lo = Shape <start = 2, end = 3> (other) ls = Shape <start = 2, end = 3> (q) so0 = Squeeze (lo, zero) sq0 = Squeeze (ls, zero) l = Add (so0, sq0) columns = Range (n0, l, n1) "
                "r0 = Range (n0, sq0, n1) r1 = Add (r0, so0) rows = Unsqueeze (r1, one) w = LessOrEqual (columns, rows) ")


def numbers(name, dims, seed):
    values = np.random.default_rng(seed).standard_normal(dims) / 3
    return f"float[{','.join(map(str, dims))}] {name} = {{{', '.join(f'{v:.5f}' for v in values.ravel())}}}"


ONE_BY_ONE = ", ".join(numbers(f"{k}{x}", (8, 8, 1, 1) if k == "w" else (8,), seed) for k in "wb" for seed, x in enumerate("qkv"))
PROJECTIONS = ", ".join(numbers(f"{k}{x}", (16, 16) if k == "w" else (16,), seed) for k in "wb" for seed, x in enumerate("qkv"))

ONE_HEAD_IO = "float[b,s,32] q, float[b,t,8] k, float[b,t,8] v => float[b,s,32] y"
ONE_HEAD = "int64[4] hq = {0,0,4,8}, int64[4] hk = {0,0,1,8}, int64[3] n = {0,0,32}, int64[4] ids = {0,0,0,0}, int64[4] es = {1,4,1,1}, float i = {0.35355339}"
ONE_HEAD_FIRST = ("q4 = Reshape (q, hq) Q = Transpose <perm = [0,2,1,3]> (q4) k4 = Reshape (k, hk) k0 = Transpose <perm = [0,2,1,3]> (k4) "
                  "v4 = Reshape (v, hk) v0 = Transpose <perm = [0,2,1,3]> (v4) ")
ONE_HEAD_LAST = "kt = Transpose <perm = [0,1,3,2]> (K) a = MatMul (Q, kt) c = Mul (a, i) p = Softmax (c) o = MatMul (p, V) r = Transpose <perm = [0,2,1,3]> (o) y = Reshape (r, n)"

# name: (inputs => outputs, initializers, nodes, fused operators of the result)
CASES = {
    "half_with_a_mask_in_float": ("float16[b,3,s,8] Q, float16[b,3,s,8] K, float16[b,3,s,8] V, bool[b,1,1,s] shown => float16[b,s,24] y", "float zero = {0.0}, float low = {-10000.0}",
        "m = Where (shown, zero, low) kt = Transpose <perm = [0,1,3,2]> (K) a = MatMul (Q, kt) f = Cast <to = 1> (a) d = Add (f, m) p = Softmax (d) w = Cast <to = 1> (V) o = MatMul (p, w) "
        "r = Transpose <perm = [0,2,1,3]> (o) n = Constant <value_ints = [0,0,24]> () c = Reshape (r, n) y = Cast <to = 10> (c)", {"attention": 1}),
    "one_head_joined_with_the_batch_after_softmax": ("float[b,5,8] q, float[b,5,8] k, float[b,5,8] v => float[b,5,8] y", "",
        "h = Constant <value_ints = [-1,1,5,8]> () m = Constant <value_ints = [-1,5,5]> () i = Constant <value_float = 0.35355339> () q4 = Reshape (q, h) k4 = Reshape (k, h) "
        "kt = Transpose <perm = [0,1,3,2]> (k4) a = MatMul (q4, kt) s = Mul (a, i) p = Softmax (s) w = Reshape (p, m) y = MatMul (w, v)", {"attention": 1}),
    "norm_of_half_with_operators_in_float": ("float16[b,s,8] x => float16[b,s,8] y", "",
        "t = Constant <value_float = 2.0> () i = Constant <value_ints = [-1]> () e1 = Constant <value_float = 0.001> () e = Cast <to = 10> (e1) x1 = Cast <to = 1> (x) m1 = ReduceMean (x1, i) m = Cast <to = 10> (m1) d = Sub (x, m) "
        "d1 = Cast <to = 1> (d) q1 = Pow (d1, t) q = Cast <to = 10> (q1) q2 = Cast <to = 1> (q) v1 = ReduceMean (q2, i) v = Cast <to = 10> (v1) a = Add (v, e) "
        "a1 = Cast <to = 1> (a) s1 = Sqrt (a1) r = Cast <to = 10> (s1) y = Div (d, r)", {}),  # means in half overflow where these do not
    "norm_of_half_with_squares_in_float": ("float16[b,s,8] x => float16[b,s,8] y", "",
        "t = Constant <value_float = 2.0> () i = Constant <value_ints = [-1]> () e1 = Constant <value_float = 0.001> () e = Cast <to = 10> (e1) m = ReduceMean (x, i) d = Sub (x, m) "
        "d1 = Cast <to = 1> (d) q = Pow (d1, t) v1 = ReduceMean (q, i) v = Cast <to = 10> (v1) a = Add (v, e) r = Sqrt (a) y = Div (d, r)", {"norm": 1}),
    "windows_beside_the_batch": ("float[b,3,s,16] q, float[b,3,s,16] k, float[b,3,s,16] v, float[2,s,s] m => float[b,3,s,16] y", "",
        WINDOWS + "i = Constant <value_float = 0.25> () kt = Transpose <perm = [0,1,2,4,3]> (K) a = MatMul (Q, kt) c = Mul (a, i) d = Add (c, m) p = Softmax (d) o = MatMul (p, V) " + JOINED, {"attention": 1}),
    "windows_with_masks_of_their_own": ("float[b,3,s,16] q, float[b,3,s,16] k, float[b,3,s,16] v, float[3,1,s,s] m => float[b,3,s,16] y", "",
        WINDOWS + "kt = Transpose <perm = [0,1,2,4,3]> (K) a = MatMul (Q, kt) d = Add (a, m) p = Softmax (d) o = MatMul (p, V) " + JOINED, {"attention": 1}),
    "einsum_of_windows": ("float[b,3,s,16] q, float[b,3,s,16] k, float[b,3,s,16] v => float[b,3,s,16] y", "",
        WINDOWS + 'a = Einsum <equation = "BGHID,BGHJD->BGHIJ"> (Q, K) p = Softmax (a) o = Einsum <equation = "BGHIJ,BGHJD->BGHID"> (p, V) ' + JOINED, {"attention": 1}),
    "grouped_heads": ("float[b,s,48] q, float[b,t,16] k, float[b,t,16] v, float[b,1,1,s,t] m => float[b,s,48] y", "int64[1] two = {2}",
        GROUPED + "K5 = Unsqueeze (K, two) V5 = Unsqueeze (V, two) kt = Transpose <perm = [0,1,2,4,3]> (K5) a = MatMul (Q, kt) d = Add (m, a) p = Softmax (d) o = MatMul (p, V5) " + UNGROUPED, {"attention": 1}),
    "grouped_heads_that_einsum_moves": ("float[b,s,48] q, float[b,t,16] k, float[b,t,16] v, float[s,t] m => float[b,s,48] y", "",
        "hq = Constant <value_ints = [0,0,2,3,8]> () hk = Constant <value_ints = [0,0,2,8]> () Q = Reshape (q, hq) K = Reshape (k, hk) V = Reshape (v, hk) i = Constant <value_float = 4.0> () "
        'a = Einsum <equation = "bqkgd,bskd->bkgqs"> (Q, K) c = Div (a, i) d = Add (c, m) p = Softmax (d) o = Einsum <equation = "bkgqs,bskd->bqkgd"> (p, V) '
        "n = Constant <value_ints = [0,0,48]> () y = Reshape (o, n)", {"attention": 1}),
    "divided_after_the_values": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v => float[b,2,s,8] y", "int64[1] last = {-1}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) x = ReduceMax (a, last) d = Sub (a, x) e = Exp (d) w = MatMul (e, v) n = ReduceSum (e, last) y = Div (w, n)", {"attention": 1}),
    "grouped_heads_by_einsum": ("float[b,s,48] q, float[b,t,16] k, float[b,t,16] v, float[1,1,1,s,t] m => float[b,s,48] y", "",
        GROUPED + 'a = Einsum <equation = "bgrsd,bgtd->bgrst"> (Q, K) d = Add (a, m) p = Softmax (d) o = Einsum <equation = "bgrst,bgtd->bgrsd"> (p, V) ' + UNGROUPED, {"attention": 1}),
    # torch.nn.MultiheadAttention with need_weights: batch and heads joined in one step, positions outside.
    "heads_joined_with_the_batch": ("float[s,b,16] q, float[t,b,16] k, float[t,b,16] v, bool[b,2,s,t] shown => float[s,b,16] y", "int64 h = {2}, int64[1] one = {1}, float zero = {0.0}, float low = {-10000.0}",
        "m = Where (shown, zero, low) i = Constant <value_float = 0.25> () n = Shape (q) ix = Constant <value_ints = [1]> () b = Gather (n, ix) bh = Mul (b, h) d8 = Constant <value_ints = [8]> () "
        "l = Constant <value_ints = [0]> () hq = Concat <axis = 0> (l, bh, d8) q3 = Reshape (q, hq) k3 = Reshape (k, hq) v3 = Reshape (v, hq) "
        "qt = Transpose <perm = [1,0,2]> (q3) kt = Transpose <perm = [1,2,0]> (k3) vt = Transpose <perm = [1,0,2]> (v3) qs = Mul (qt, i) a = MatMul (qs, kt) "
        "nm = Shape (a) m3 = Reshape (m, nm) c = Add (a, m3) p = Softmax (c) o = MatMul (p, vt) ot = Transpose <perm = [1,0,2]> (o) ny = Shape (q) y = Reshape (ot, ny)", {"attention": 1}),
    # What ONNX Runtime's own optimizer makes of scores.
    "scores_by_fused_matmul": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v, float[b,1,s,t] m => float[b,2,s,8] y", "",
        "a = com.microsoft.FusedMatMul <alpha = 0.25, transB = 1> (q, k) c = Add (m, a) p = Softmax (c) y = MatMul (p, v)", {"attention": 1}),
    "queries_of_one_batch": ("float[1,2,5,8] q, float[b,2,t,8] k, float[b,2,t,8] v => float[b,2,5,8] y", "",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) p = Softmax (a) y = MatMul (p, v)", {"attention": 1}),
    "bias_of_many_rows": ("float[b,2,1,8] q, float[b,2,t,8] k, float[b,2,t,8] v, float[b,1,s,t] m => float[b,2,s,8] y", "",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) c = Add (a, m) p = Softmax (c) y = MatMul (p, v)", {"attention": 1}),
    # ALiBi cut from the end of a table: whether it was long enough is not known, but it never widens the scores.
    "bias_cut_from_the_end": ("float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[2,1,64] table => float[b,2,s,8] y", "int64[1] len = {64}, int64[1] two = {2}, int64[1] end = {2147483647}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) n = Shape <start = 2, end = 3> (q) f = Sub (len, n) m = Slice (table, f, end, two) "
        "c = Add (a, m) p = Softmax (c) y = MatMul (p, v)", {"attention": 1}),
    "softmax_by_exp": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v => float[b,2,s,8] y", "int64[1] last = {-1}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) e = Exp (a) z = ReduceSum (e, last) p = Div (e, z) y = MatMul (p, v)", {"attention": 1}),
    "softmax_by_log_sum": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v => float[b,2,s,8] y", "int64[1] last = {-1}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) l = ReduceLogSumExp (a, last) d = Sub (a, l) p = Exp (d) y = MatMul (p, v)", {"attention": 1}),
    "softmax_divided_late": ("float[b,2,s,8] q, float[b,2,6,8] k, float[b,2,6,8] v => float[b,2,s,8] y", "int64[1] last = {-1}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) m = ReduceMax (a, last) d = Sub (a, m) e = Exp (d) z = ReduceSum (e, last) o = MatMul (e, v) y = Div (o, z)", {"attention": 1}),
    "keys_before_queries": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v => float[b,2,s,8] y", "",
        "qt = Transpose <perm = [0,1,3,2]> (q) a = MatMul (k, qt) p = Softmax <axis = 2> (a) vt = Transpose <perm = [0,1,3,2]> (v) o = MatMul (vt, p) y = Transpose <perm = [0,1,3,2]> (o)", {"attention": 1}),
    "fill_before_another_mask": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v, bool[s,t] c, float[b,1,1,t] m => float[b,2,s,8] y", "float f = {-10000.0}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) w = Where (c, a, f) x = Add (w, m) p = Softmax (x) y = MatMul (p, v)", {"attention": 1}),
    # GPT-2 of old: the causal mask is multiplied in, and its complement added.
    "mask_by_products": ("float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v => float[b,2,s,8] y", "float one = {1.0}, float f = {-10000.0}, int64 zero = {0}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) n = Shape <start = 2, end = 3> (q) nn = Concat <axis = 0> (n, n) o = ConstantOfShape <value = float[1] {1}> (nn) "
        "l = Trilu <upper = 0> (o, zero) u = Mul (a, l) w = Sub (one, l) x = Mul (f, w) z = Add (x, u) p = Softmax (z) y = MatMul (p, v)", {"attention": 1}),
    "mask_by_products_of_a_table": ("float[b,2,3,8] q, float[b,2,3,8] k, float[b,2,3,8] v, float[b,1,1,3] m => float[b,2,3,8] y", "float one = {1.0}, float f = {10000.0}, float[1,1,3,3] l = {1, 0, 0, 1, 1, 0, 1, 1, 1}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) u = Mul (a, l) w = Sub (one, l) x = Mul (f, w) z = Sub (u, x) zz = Add (z, m) p = Softmax (zz) y = MatMul (p, v)", {"attention": 1}),
    # 0.5 hides nothing.
    "no_mask_by_products": ("float[b,2,3,8] q, float[b,2,3,8] k, float[b,2,3,8] v => float[b,2,3,8] y", "float one = {1.0}, float f = {-10000.0}, float[1,1,3,3] l = {1, 0.5, 0, 1, 1, 0, 1, 1, 1}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) u = Mul (a, l) w = Sub (one, l) x = Mul (f, w) z = Add (u, x) p = Softmax (z) y = MatMul (p, v)", {}),
    "channels_first_layer_norm": ("float[b,16,5,7] x => float[b,16,5,7] y", "int64[1] one = {1}, float two = {2.0}, float eps = {0.001}",
        "m = ReduceMean (x, one) d = Sub (x, m) s = Pow (d, two) v = ReduceMean (s, one) e = Add (v, eps) r = Sqrt (e) y = Div (d, r)", {"norm": 1}),
    "scale_before_the_quotient": ("float[b,s,4] x => float[b,s,4] y", "int64[1] last = {-1}, float two = {2.0}, float eps = {0.001}, float[4] g = {1, 2, -3, 0.5}",
        "s2 = Pow (x, two) v = ReduceMean (s2, last) e = Add (v, eps) r = Sqrt (e) z = Mul (g, x) y = Div (z, r)", {"norm": 1}),
    "gelu_by_sigmoid": ("float[b,s,4] x => float[b,s,4] y", "float k = {0.044715}, float three = {3.0}, float c = {1.5957691216}",
        "p = Pow (x, three) q = Mul (k, p) a = Add (x, q) u = Mul (a, c) g = Sigmoid (u) y = Mul (g, x)", {"gelu": 1}),
    "gelu_with_the_half_inside": ("float[b,s,4] x => float[b,s,4] y", "float h = {0.5}, float c = {1.41421354}",
        "d = Div (x, c) e = Erf (d) f = Mul (e, h) g = Add (h, f) y = Mul (x, g)", {"gelu": 1}),
    "rotated_by_split_of_halves": ("float[b,2,s,8] x, float[s,4] c, float[s,4] n => float[b,2,s,8] y", "int64[2] ones = {1, 1}, int64[1] ax = {3}, int64[5] h = {0, 0, 0, 2, 4}",
        "x5 = Reshape (x, h) u, w = Split <axis = -2> (x5, ones) x1 = Squeeze (u, ax) x2 = Squeeze (w, ax) o = Neg (x2) r = Concat <axis = -1> (o, x1) "
        "cc = Concat <axis = -1> (c, c) nn = Concat <axis = -1> (n, n) a = Mul (x, cc) b2 = Mul (r, nn) y = Add (a, b2)", {"rope": 1}),
    # torch.roll: the signs are in the table of sines.
    "rotated_by_roll": ("float[b,s,2,8] x, float[s,4] c, float[s,4] n => float[b,s,2,8] y",
        "int64[1] half = {-4}, int64[1] end = {9223372036854775807}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, float[8] g = {-1, -1, -1, -1, 1, 1, 1, 1}",
        "cc = Concat <axis = -1> (c, c) c1 = Unsqueeze (cc, one) nn = Concat <axis = -1> (n, n) ns = Mul (g, nn) n1 = Unsqueeze (ns, one) u = Slice (x, half, end, last) w = Slice (x, zero, half, last) "
        "r = Concat <axis = -1> (u, w) a = Mul (x, c1) b2 = Mul (r, n1) y = Add (a, b2)", {"rope": 1}),
    "rotated_by_roll_of_a_signed_table": ("float[b,2,s,8] x, float[s,4] c, float[s,4] n => float[b,2,s,8] y",
        "int64[1] half = {4}, int64[1] end = {8}, int64[1] zero = {0}, int64[1] last = {3}",
        "cc = Concat <axis = -1> (c, c) m = Neg (n) ns = Concat <axis = -1> (m, n) u = Slice (x, half, end, last) w = Slice (x, zero, half, last) "
        "r = Concat <axis = -1> (u, w) a = Mul (x, cc) b2 = Mul (r, ns) y = Add (a, b2)", {"rope": 1}),
    # DeepSeek: pairs that come out as halves.
    "pairs_pulled_apart": ("float[b,2,s,8] x, float[s,4] c, float[s,4] n => float[b,2,s,8] y", "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {3}, int64[1] end = {8}",
        "u = Slice (x, zero, end, last, two) w = Slice (x, one, end, last, two) uc = Mul (u, c) wn = Mul (w, n) d = Sub (uc, wn) wc = Mul (w, c) un = Mul (u, n) e = Add (wc, un) "
        "y = Concat <axis = -1> (d, e)", {"rope": 1}),
    # The attention of an image, between convolutions by 1 x 1.
    "heads_of_convolutions": ("float[b,8,3,4] x => float[b,8,3,4] y", f"float i = {{0.5}}, {ONE_BY_ONE}",
        "q4 = Conv (x, wq) k4 = Conv (x, wk) v4 = Conv (x, wv) n = Constant <value_ints = [0,2,4,12]> () q3 = Reshape (q4, n) k = Reshape (k4, n) v = Reshape (v4, n) "
        "q = Transpose <perm = [0,1,3,2]> (q3) a = MatMul (q, k) c = Mul (a, i) p = Softmax (c) t = Transpose <perm = [0,1,3,2]> (v) o = MatMul (p, t) r = Transpose <perm = [0,1,3,2]> (o) "
        "m = Constant <value_ints = [0,8,3,4]> () y = Reshape (r, m)", {"attention": 1}),
    # XLNet: positions before the batch, three terms of which two are scaled together.
    "positions_first_with_two_terms": ("float[s,b,16] x, float[b,2,s,s] w, float[b,1,s,s] m => float[s,b,16] y", f"float i = {{0.35355339}}, {PROJECTIONS}",
        "q2 = MatMul (x, wq) q1 = Add (q2, bq) k1 = MatMul (x, wk) v1 = MatMul (x, wv) n = Constant <value_ints = [0,0,2,8]> () q = Reshape (q1, n) k = Reshape (k1, n) v = Reshape (v1, n) "
        'a = Einsum <equation = "ibnd,jbnd->bnij"> (q, k) c = Add (a, w) d = Mul (c, i) e = Sub (d, m) p = Softmax (e) o = Einsum <equation = "bnij,jbnd->ibnd"> (p, v) '
        "l = Constant <value_ints = [0,0,16]> () y = Reshape (o, l)", {"attention": 1}),
    "einsum_with_ellipsis": ("float[b,3,s,16] q, float[b,3,s,16] k, float[b,3,s,16] v => float[b,3,s,16] y", "",
        "h = Constant <value_ints = [0,0,0,2,8]> () Q = Reshape (q, h) K = Reshape (k, h) V = Reshape (v, h) "
        'a = Einsum <equation = "...qhd,...khd->...hqk"> (Q, K) p = Softmax (a) o = Einsum <equation = "...hqk,...khd->...qhd"> (p, V) n = Constant <value_ints = [0,0,0,16]> () y = Reshape (o, n)', {"attention": 1}),
    # Keras: one factor for x and for the mean.
    "mean_subtracted_last": ("float[b,s,4] x => float[b,s,4] y", "int64[1] last = {-1}, float eps = {0.001}, float[4] g = {1, 2, -3, 0.5}, float[4] h = {0.1, -0.2, 0.3, 0.7}",
        "m = ReduceMean (x, last) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, last) e = Add (v, eps) r = Sqrt (e) i = Reciprocal (r) n = Mul (i, g) z = Mul (x, n) w = Mul (m, n) u = Sub (h, w) y = Add (z, u)", {"norm": 1}),
    # Flax: E[x^2] - E[x]^2, not below 0.
    "variance_not_below_zero": ("float[b,s,4] x => float[b,s,4] y", "int64[1] last = {-1}, float eps = {0.001}, float zero = {0.0}, float[4] g = {1, 2, -3, 0.5}, float[4] h = {0.1, -0.2, 0.3, 0.7}",
        "m = ReduceMean (x, last) xx = Mul (x, x) m2 = ReduceMean (xx, last) mm = Mul (m, m) v0 = Sub (m2, mm) v = Max (zero, v0) d = Sub (x, m) e = Add (v, eps) r = Sqrt (e) i = Reciprocal (r) n = Mul (i, g) "
        "z = Mul (d, n) y = Add (z, h)", {"norm": 1}),
    "variance_clipped_at_zero": ("float[b,s,4] x => float[b,s,4] y", "int64[1] last = {-1}, float eps = {0.001}, float zero = {0.0}, float[4] g = {1, 2, -3, 0.5}, float[4] h = {0.1, -0.2, 0.3, 0.7}",
        "m = ReduceMean (x, last) xx = Mul (x, x) m2 = ReduceMean (xx, last) mm = Mul (m, m) v0 = Sub (m2, mm) v = Clip (v0, zero) d = Sub (x, m) e = Add (v, eps) r = Sqrt (e) z = Div (d, r) n = Mul (z, g) "
        "y = Add (n, h)", {"norm": 1}),
    "gelu_with_its_constants_multiplied": ("float[b,s,4] x => float[b,s,4] y", "float a = {0.7978845608}, float c = {0.0356774081}, float three = {3.0}, float one = {1.0}, float half = {0.5}",
        "p = Pow (x, three) q = Mul (p, c) r = Mul (x, a) u = Add (r, q) z = Tanh (u) w = Add (one, z) o = Mul (half, x) y = Mul (o, w)", {"gelu": 1}),
    "gelu_by_a_negative_constant": ("float[b,s,4] x => float[b,s,4] y", "float c = {-0.70710678}, float one = {1.0}, float half = {0.5}",
        "d = Mul (x, c) e = Erf (d) w = Sub (one, e) hx = Mul (half, x) y = Mul (w, hx)", {"gelu": 1}),
    "half_precision_with_a_mask": ("float16[b,2,s,8] q, float16[b,2,t,8] k, float16[b,2,t,8] v, bool[s,t] w => float16[b,2,s,8] y", "float i0 = {0.25}, float f0 = {-65504.0}",
        "i = Cast <to = 10> (i0) f = Cast <to = 10> (f0) kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) c = Mul (a, i) d = Where (w, c, f) p = Softmax (d) y = MatMul (p, v)", {"attention": 1}),
    "half_precision_with_softmax_in_float": ("float16[b,2,s,8] q, float16[b,2,t,8] k, float16[b,2,t,8] v, float16[b,1,s,t] w => float16[b,2,s,8] y", "float i0 = {0.25}",
        "i = Cast <to = 10> (i0) kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) c = Mul (a, i) d = Add (c, w) f = Cast <to = 1> (d) p0 = Softmax (f) p = Cast <to = 10> (p0) y = MatMul (p, v)", {"attention": 1}),
    "pairs_pulled_apart_behind_the_rest": ("float[b,2,s,8] x, float[b,2,s,6] r, float[b,1,s,4] c, float[b,1,s,4] n => float[b,2,s,14] y", "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {3}, int64[1] end = {8}",
        "u = Slice (x, zero, end, last, two) w = Slice (x, one, end, last, two) uc = Mul (u, c) wn = Mul (w, n) d = Sub (uc, wn) wc = Mul (w, c) un = Mul (u, n) e = Add (wc, un) "
        "y = Concat <axis = -1> (r, d, e)", {"rope": 1}),
    "projection_split_in_three": ("float[b,s,16] x => float[b,s,16] y", numbers("wqkv", (16, 48), 7) + ", " + numbers("bqkv", (48,), 8) + ", float i = {0.35355339}, int64[3] ones = {1, 1, 1}, int64[1] zero = {0}",
        "p0 = MatMul (x, wqkv) p1 = Add (p0, bqkv) n = Constant <value_ints = [0,0,3,2,8]> () p5 = Reshape (p1, n) pt = Transpose <perm = [2,0,3,1,4]> (p5) q0, k0, v0 = Split <axis = 0> (pt, ones) "
        "q = Squeeze (q0, zero) k = Squeeze (k0, zero) v = Squeeze (v0, zero) kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) c = Mul (a, i) p = Softmax (c) o = MatMul (p, v) "
        "r = Transpose <perm = [0,2,1,3]> (o) l = Constant <value_ints = [0,0,16]> () y = Reshape (r, l)", {"attention": 1}),
    "hidden_before_and_after_softmax": ("float[b,2,s,8] q, float[b,2,t,8] k, float[b,2,t,8] v, bool[b,1,s,t] m => float[b,2,s,8] y", "float f = {-3.4028234e38}, float zero = {0.0}",
        "kt = Transpose <perm = [0,1,3,2]> (k) a = MatMul (q, kt) c = Where (m, a, f) p = Softmax (c) w = Where (m, p, zero) y = MatMul (w, v)", {"attention": 1}),
    # One convolution for queries, keys and values.
    "heads_of_one_convolution": ("float[b,8,3,4] x => float[b,8,3,4] y", "float i = {0.5}, int64[3] ones = {1, 1, 1}, int64[1] one = {1}, " + numbers("wqkv", (24, 8, 1, 1), 5) + ", " + numbers("bqkv", (24,), 6),
        "p4 = Conv (x, wqkv, bqkv) n = Constant <value_ints = [0,3,2,4,12]> () p5 = Reshape (p4, n) q0, k0, v0 = Split <axis = 1> (p5, ones) q3 = Squeeze (q0, one) k = Squeeze (k0, one) v = Squeeze (v0, one) "
        "q = Transpose <perm = [0,1,3,2]> (q3) a = MatMul (q, k) c = Mul (a, i) p = Softmax (c) t = Transpose <perm = [0,1,3,2]> (v) o = MatMul (p, t) r = Transpose <perm = [0,1,3,2]> (o) "
        "m = Constant <value_ints = [0,8,3,4]> () y = Reshape (r, m)", {"attention": 1}),
    # MPT: slopes cut to the length of this layer's cache, and a mask as long as another layer's.
    "slopes_and_a_mask_of_another_cache": ("float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,2,p,8] pk, float[b,2,p,8] pv, float[b,2,p,8] other => float[b,2,s,8] y",
        numbers("slopes", (2, 1, 64), 3) + ", int64[1] table = {64}, int64[1] end = {9223372036854775807}, int64[1] last = {2}" + COUNTED,
        UP_TO_ITSELF + "kk = Concat <axis = 2> (pk, k) vv = Concat <axis = 2> (pv, v) "
        "kt = Transpose <perm = [0,1,3,2]> (kk) a = MatMul (q, kt) c = Mul (a, i) lk = Shape <start = 2, end = 3> (kk) start = Sub (table, lk) z = Slice (slopes, start, end, last) d = Add (c, z) e = Where (w, d, low) "
        "p = Softmax (e) y = MatMul (p, vv)", {"attention": 1}),
    # BLOOM: heads and batch in one dim, and slopes for as many columns as the mask has.
    "slopes_of_the_mask": ("float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,2,p,8] pk, float[b,2,p,8] pv, float[b,2,p,8] other, float[b,sum] m => float[b,2,s,8] y",
        "float[2,1] g = {0.25, 0.5}, float none = {0.0}, int64[1] two = {2}, int64[1] eight = {8}, int64[1] rest = {-1}, int64[3] line = {-1, 1, 0}" + COUNTED,
        UP_TO_ITSELF + "mu = Unsqueeze (m, one) al = Mul (mu, g) alibi = Reshape (al, line) kk = Concat <axis = 2> (pk, k) vv = Concat <axis = 2> (pv, v) b1 = Shape <start = 0, end = 1> (q) bh = Mul (b1, two) "
        "sq = Concat <axis = 0> (bh, ls, eight) q3 = Reshape (q, sq) sv = Concat <axis = 0> (bh, rest, eight) k3 = Reshape (kk, sv) v3 = Reshape (vv, sv) "
        "kt = Transpose <perm = [0,2,1]> (k3) a = MatMul (q3, kt) c = Mul (a, i) d = Add (c, alibi) s4 = Concat <axis = 0> (b1, two, ls, rest) e0 = Reshape (d, s4) u = Where (w, none, low) e = Add (e0, u) p = Softmax (e) sp = Concat <axis = 0> (bh, ls, rest) p3 = Reshape (p, sp) "
        "o = MatMul (p3, v3) so = Concat <axis = 0> (b1, two, ls, eight) y = Reshape (o, so)", {"attention": 1}),
    # One head of keys and values for all queries: repeated by Gather or Expand in one place, broadcast in the other.
    "one_head_of_keys_by_gather": (ONE_HEAD_IO, ONE_HEAD, ONE_HEAD_FIRST + "K = Gather <axis = 1> (k0, ids) V = Identity (v0) " + ONE_HEAD_LAST, {"attention": 1}),
    "one_head_of_values_by_gather": (ONE_HEAD_IO, ONE_HEAD, ONE_HEAD_FIRST + "K = Identity (k0) V = Gather <axis = 1> (v0, ids) " + ONE_HEAD_LAST, {"attention": 1}),
    "one_head_of_values_by_expand": (ONE_HEAD_IO, ONE_HEAD, ONE_HEAD_FIRST + "K = Identity (k0) V = Expand (v0, es) " + ONE_HEAD_LAST, {"attention": 1}),
    "norm_of_one_group": ("float[b,s,8] x => float[b,s,8] y", "int64[3] rows = {-1,8,1}, float[1] u = {1}, float[1] z = {0}, float[8] g = {1,2,3,4,5,6,7,8}, float[8] h = {8,7,6,5,4,3,2,1}",
        "r = Reshape (x, rows) n = GroupNormalization <num_groups = 1, epsilon = 0.001> (r, u, z) t = Shape (x) w = Reshape (n, t) m = Mul (w, g) y = Add (m, h)", {"norm": 1}),
}


def build(case):
    signature, initializers, nodes, _ = case
    inputs, outputs = signature.split("=>")
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]> g ({inputs}) => ({outputs}) <{initializers}> {{ {nodes} }}')


def fused(model):
    return dict(collections.Counter(FAMILY[n.op_type] for n in model.graph.node if n.op_type in FAMILY))


# Two masks hide by numbers that may be alike: one operator only where the user takes the risk.
RISKY = {"fill_before_another_mask", "mask_by_products_of_a_table"}


def run_form(tmp_path, case, *words):
    """Optimizes it; what must be fused is, and ONNX Runtime computes the same."""
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    model = build(case)
    onnx.save(model, path)
    run_ok("optimize", path, "-o", out, "--target", "ort-cpu@1.31", "--cost", "nodes", *words)
    result = onnx.load(out)
    assert fused(result) == case[3], collections.Counter(n.op_type for n in result.graph.node)
    rng = np.random.default_rng(3)
    feeds = {}
    for i in model.graph.input:
        dims = [d.dim_value or SIZES[d.dim_param] for d in i.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        feeds[i.name] = rng.random(dims) < 0.8 if dtype == bool else rng.standard_normal(dims).astype(dtype)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    answers = [ort.InferenceSession(str(p), options, providers=["CPUExecutionProvider"]).run(None, feeds) for p in (path, out)]
    for a, b in zip(*answers):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, **({"rtol": 1e-2, "atol": 2e-3} if a.dtype == np.float16 else {"rtol": 1e-4, "atol": 1e-5}))


@pytest.mark.parametrize("name", CASES)
def test_form(tmp_path, name):
    run_form(tmp_path, CASES[name], *(["--assume", "causal_rows"] if name in RISKY else []))


@pytest.mark.parametrize("half", [False, True])
def test_rows_that_a_mask_hides_stay_guarded_where_attention_is_not_one_operator(tmp_path, half):
    """Left padding: the first row sees no key. Without the guard its NaN would be in every row of the next layer."""
    softmax = "p32 = Softmax (d) n = IsNaN (p32) z = Constant <value_float = 0.0> () g = Where (n, z, p32) p = Cast <to = 10> (g)" if half else \
        "p0 = Softmax (d) n = IsNaN (p0) z = Constant <value_float = 0.0> () p = Where (n, z, p0)"
    scores = "a = MatMul (q, k) f = Cast <to = 1> (a)" if half else "f = MatMul (q, k)"
    t = "float16" if half else "float"
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g ({t}[b,2,s,8] q, {t}[b,2,8,s] k, {t}[b,2,s,8] v, bool[b,1,1,s] m) => ({t}[b,2,s,8] y, {t}[b,2,s,s] w)
    {{ {scores} o = Constant <value_float = 0.0> () i = Constant <value_float = 0.0> () c = Where (m, o, i) d = Add (f, c) {softmax}
       u = Transpose <perm = [0,1,3,2]> (p) w = Sqrt (p) y = MatMul (u, v) }}"""
    model = onnx.parser.parse_model(text)
    next(n for n in model.graph.node if n.output[0] == "i").attribute[0].f = -np.inf  # no literal of the text form
    onnx.save(model, tmp_path / "in.onnx")
    run_ok("in.onnx", "-o", "out.onnx", "--cost", "nodes", cwd=tmp_path)
    rng = np.random.default_rng(4)
    inputs = {n: rng.standard_normal(d).astype(np.float16 if half else np.float32) for n, d in {"q": (2, 2, 5, 8), "k": (2, 2, 8, 5), "v": (2, 2, 5, 8)}.items()}
    inputs["m"] = np.array([[True] * 5, [False] * 5]).reshape(2, 1, 1, 5)
    wanted, got = (ort.InferenceSession(tmp_path / f, providers=["CPUExecutionProvider"]).run(None, inputs) for f in ("in.onnx", "out.onnx"))
    for a, b in zip(wanted, got):
        np.testing.assert_allclose(a, b, atol=2e-3)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_rows_that_a_mask_hides_are_numbers_where_attention_is_one_operator(tmp_path, added, kept, apart):
    """Left padding and a guard that goes: one row sees no key. NaN of it would be in every row of the next layer, so the mask hides by a number."""
    words = "m, s, i" if kept else "m, i, s"
    scores = f"z = Constant <value_float = 0.0> () c = Where ({words.replace('s', 'z')}) d = Add (s, c)" if added else f"d = Where ({words})"
    dims, heads = ("b,2,s,8", "kt = Transpose <perm = [0, 1, 3, 2]> (k) vt = Identity (v)") if apart else \
        ("b,s,16", "kr = Reshape (k, a) kt = Transpose <perm = [0, 2, 3, 1]> (kr) vr = Reshape (v, a) vt = Transpose <perm = [0, 2, 1, 3]> (vr)")
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[b,s,16] q, float[{dims}] k, float[{dims}] v, bool[1,1,s,s] m) => (float[b,s,16] y)
    {{ a = Constant <value_ints = [0, 0, 2, 8]> () qr = Reshape (q, a) qt = Transpose <perm = [0, 2, 1, 3]> (qr) {heads}
       s = MatMul (qt, kt) i = Constant <value_float = 0.0> () {scores} p = Softmax (d) n = IsNaN (p)
       o = Constant <value_float = 0.0> () g = Where (n, o, p) w = MatMul (g, vt) t = Transpose <perm = [0, 2, 1, 3]> (w) e = Constant <value_ints = [0, 0, 16]> () y = Reshape (t, e) }}"""
    model = onnx.parser.parse_model(text)
    next(n for n in model.graph.node if n.output[0] == "i").attribute[0].f = -np.inf
    onnx.save(model, tmp_path / "in.onnx")
    for words in ([], ["--keep-opset"]):  # without the standard's operator, whose kernel makes numbers of such rows on its own
        run_ok("in.onnx", "-o", "out.onnx", "--target", "ort-cpu@1.31", "--cost", "nodes", *words, cwd=tmp_path)
        rng = np.random.default_rng(4)
        inputs = {n: rng.standard_normal(d).astype(np.float32) for n, d in {"q": (2, 5, 16), **dict.fromkeys("kv", (2, 2, 5, 8) if apart else (2, 5, 16))}.items()}
        seen = np.tril(np.ones((5, 5), bool)).reshape(1, 1, 5, 5)
        seen[..., 0] = False
        inputs["m"] = seen if kept else ~seen
        wanted, got = (ort.InferenceSession(tmp_path / f, providers=["CPUExecutionProvider"]).run(None, inputs)[0] for f in ("in.onnx", "out.onnx"))
        assert np.isfinite(got).all()
        np.testing.assert_allclose(wanted[:, 1:], got[:, 1:], atol=1e-5)


def test_types_of_an_attention_that_stays_are_written(tmp_path):
    """ONNX Runtime infers an output of size 0 where V's last dim is unknown to it, and refuses the product behind."""
    weights = numbers("w", (16, 3), 1)
    text = f"""<ir_version: 11, opset_import: ["" : 23]> g (float[b,s,16] q, float[b,s,16] k, float[c,8] v) => (float[b,s,3] y)
    <{weights}, int64[1] n = {{16}}>
    {{ d = Shape <start = 0, end = 2> (q) e = Concat <axis = 0> (d, n) r = Reshape (v, e)
       a = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, r) y = MatMul (a, w) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "in.onnx")
    run_ok("in.onnx", "-o", "out.onnx", "--target", "onnx", cwd=tmp_path)
    rng = np.random.default_rng(4)
    inputs = {"q": rng.standard_normal((2, 5, 16)), "k": rng.standard_normal((2, 5, 16)), "v": rng.standard_normal((20, 8))}
    session = ort.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {n: a.astype(np.float32) for n, a in inputs.items()})[0].shape == (2, 5, 3)
