"""The catalog of docs/rewrites.md: small graphs in ONNX text, what they become, and that ONNX Runtime computes the same."""
import collections
import json
import pathlib
import re

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from conftest import make_model, onnxruntime_outputs, run, run_ok, tensor, value

ort.set_default_logger_severity(4)
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "rewrites.md"

# name: (inputs => outputs, nodes, operators of the result that matter)
CASES = {
    "not_where": ("float[2,3] x, bool[2,3] c => float[2,3] y", "n = Not (c)  z = Mul (x, x)  y = Where (n, x, z)", {"Not": 0, "Where": 1}),
    "where_constant": ("float[2,3] x => float[2,3] y", "t = Constant <value = bool[3] {1, 1, 1}> ()  z = Exp (x)  w = Where (t, x, z)  y = Neg (w)", {"Where": 0, "Exp": 0}),
    "clips": ("float[4,7] x => float[4,7] y", "a = Constant <value_float = -0.5> ()  b = Constant <value_float = 0.5> ()  c = Constant <value_float = 0.0> ()  u = Clip (x, a, b)  y = Clip (u, c, b)", {"Clip": 1}),
    "min_max_is_clip": ("float[4,7] x => float[4,7] y", "a = Constant <value_float = -0.5> ()  b = Constant <value_float = 0.5> ()  u = Max (x, a)  y = Min (u, b)", {"Clip": 1, "Max": 0, "Min": 0}),
    "relu_clip": ("float[4,7] x => float[4,7] y", "a = Constant <value_float = -0.5> ()  b = Constant <value_float = 0.5> ()  u = Relu (x)  y = Clip (u, a, b)", {"Clip": 1, "Relu": 0}),
    "hard_sigmoid": ("float[4,7] x => float[4,7] y", "t = Constant <value_float = 3.0> ()  z = Constant <value_float = 0.0> ()  s = Constant <value_float = 6.0> ()  u = Add (x, t)  v = Clip (u, z, s)  y = Div (v, s)", {"HardSigmoid": 1, "Clip": 0}),
    "hard_swish": ("float[4,7] x => float[4,7] y", "t = Constant <value_float = 3.0> ()  z = Constant <value_float = 0.0> ()  s = Constant <value_float = 6.0> ()  u = Add (x, t)  v = Clip (u, z, s)  w = Mul (x, v)  y = Div (w, s)", {"HardSwish": 1, "Clip": 0}),
    "idempotent": ("float[4,7] x => float[4,7] y", "a = Ceil (x)  b = Ceil (a)  c = Floor (b)  y = Floor (c)", {"Ceil": 1, "Floor": 1}),
    "log_softmax_twice": ("float[4,7] x => float[4,7] y", "a = LogSoftmax (x)  y = LogSoftmax (a)", {"LogSoftmax": 1}),
    "log_of_softmax": ("float[4,7] x => float[4,7] y", "a = Softmax (x)  y = Log (a)", {"LogSoftmax": 1, "Log": 0}),
    "argmax_of_softmax": ("float[4,7] x => int64[4] y", "a = Softmax <axis = 1> (x)  y = ArgMax <axis = 1, keepdims = 0> (a)", {"Softmax": 0, "ArgMax": 1}),
    "concats": ("float[2,3] x, float[2,5] z => float[2,11] y", "a = Concat <axis = 1> (x, z)  y = Concat <axis = 1> (a, x)", {"Concat": 1}),
    "concat_slice": ("float[2,3] x, float[2,5] z => float[2,5] y", "a = Concat <axis = 1> (x, z)  s = Constant <value_ints = [3]> ()  e = Constant <value_ints = [8]> ()  i = Constant <value_ints = [1]> ()  b = Slice (a, s, e, i)  y = Relu (b)", {"Concat": 0, "Slice": 0}),
    "slices": ("float[5,7] x => float[3,3] y", "s = Constant <value_ints = [1]> ()  e = Constant <value_ints = [4]> ()  a = Constant <value_ints = [0]> ()  b = Constant <value_ints = [1]> ()  u = Slice (x, s, e, a)  y = Slice (u, s, e, b)", {"Slice": 1}),
    "nop_split": ("float[2,3] x => float[2,3] y", "n = Constant <value_ints = [3]> ()  a = Split <axis = 1> (x, n)  y = Relu (a)", {"Split": 0}),
    "nop_pad_dropout_cast_flatten": ("float[2,3] x => float[2,3] y", "p = Constant <value_ints = [0, 0, 0, 0]> ()  a = Pad (x, p)  b = Dropout (a)  c = Cast <to = 1> (b)  d = Flatten <axis = 1> (c)  y = Relu (d)", {"Pad": 0, "Dropout": 0, "Cast": 0, "Flatten": 0, "Reshape": 0}),
    "nop_expand_slice_transpose_reshape": ("float[2,3] x => float[2,3] y", "n = Constant <value_ints = [2, 3]> ()  a = Expand (x, n)  s = Constant <value_ints = [0]> ()  e = Constant <value_ints = [9]> ()  b = Slice (a, s, e)  c = Transpose <perm = [0, 1]> (b)  d = Reshape (c, n)  y = Relu (d)", {"Expand": 0, "Slice": 0, "Transpose": 0, "Reshape": 0}),
    "units": ("float[2,3] x => float[2,3] y", "o = Constant <value_float = 1.0> ()  z = Constant <value_float = 0.0> ()  a = Mul (x, o)  b = Div (a, o)  c = Add (b, z)  d = Sub (c, z)  e = Pow (d, o)  y = Relu (e)", {"Mul": 0, "Div": 0, "Add": 0, "Sub": 0, "Pow": 0}),
    "products_of_a_transposed_matrix": ("float[4,3] x, float[4,6] v, float[4,2] w => float[3,6] y, float[3,2] z", "t = Transpose <perm = [1, 0]> (x)  y = MatMul (t, v)  z = MatMul (t, w)", {"Transpose": 0}),
    "squeezes": ("float[2,3] x => float[2,3] y", "a = Constant <value_ints = [0]> ()  b = Constant <value_ints = [1]> ()  u = Unsqueeze (x, a)  v = Unsqueeze (u, b)  w = Squeeze (v, a)  z = Squeeze (w, a)  y = Relu (z)", {"Unsqueeze": 0, "Squeeze": 0, "Reshape": 0}),
    "transposes": ("float[2,3,5] x => float[2,3,5] y", "a = Transpose <perm = [1, 2, 0]> (x)  b = Relu (a)  c = Tanh (b)  y = Transpose <perm = [2, 0, 1]> (c)", {"Transpose": 0}),
    "softmax_and_product_of_transposed": ("float[2,3,5] x, float[2,7,3] w => float[2,5,7] y", "a = Transpose <perm = [1, 0, 2]> (x)  b = Softmax <axis = 0> (a)  c = Transpose <perm = [1, 2, 0]> (b)  d = Transpose <perm = [0, 2, 1]> (w)  e = MatMul (c, d)  f = Sin (e)  y = Identity (f)", {"Softmax": 1, "Transpose": 0}),
    "split_and_joined": ("float[2,6,5] x => float[2,6,5] y", "a, b = Split <axis = 1, num_outputs = 2> (x)  c = Concat <axis = 1> (a, b)  z = Constant <value_ints = [0]> ()  h = Constant <value_ints = [2]> ()  e = Constant <value_ints = [99]> ()  m = Constant <value_ints = [1]> ()  d = Slice (c, z, h, m)  f = Slice (c, h, e, m, m)  g = Concat <axis = 1> (d, f)  y = Relu (g)", {"Split": 0, "Slice": 0, "Concat": 0}),
    "means": ("float[2,6,4] x => float[2,6,1] y, float[2,6,1] z", "w = Constant <value = float[4,1] {0.25, 0.25, 0.25, 0.25}> ()  a = MatMul (x, w)  y = Relu (a)  b = GlobalAveragePool (x)  z = Tanh (b)", {"MatMul": 0, "GlobalAveragePool": 1}),
    "even_constants": ("float[2,6,4] x => float[2,6,4] y", "h = Constant <value = float[4] {0.70710678, 0.70710678, 0.70710678, 0.70710678}> ()  o = Constant <value = float[4] {1, 1, 1, 1}> ()  k = Constant <value = float[4] {0.5, 0.5, 0.5, 0.5}> ()  a = Mul (x, h)  b = Erf (a)  c = Add (b, o)  d = Mul (x, c)  y = Mul (d, k)", {"Gelu": 1, "Erf": 0}),
    "choice_by_arithmetic": ("float[2,6] x, bool[2,6] c => float[2,6] y", "o = Constant <value_float = 1.0> ()  k = Constant <value_float = -100.0> ()  m = Cast <to = 1> (c)  n = Sub (o, m)  p = Mul (x, m)  q = Mul (n, k)  y = Add (p, q)", {"Where": 1, "Mul": 0, "Add": 0}),
    "choice_by_truths": ("float[2,6] x, float[6] u, bool[2,1] c => float[2,6] y", "m = Cast <to = 1> (c)  d = Not (c)  n = Cast <to = 1> (d)  p = Mul (x, m)  q = Mul (n, u)  y = Add (p, q)", {"Where": 1, "Mul": 0, "Add": 0, "Cast": 0, "Not": 0}),
    "choice_with_fill_taken_away": ("float[2,6] x, bool[2,6] c => float[2,6] y, float[2,6] z", "o = Constant <value_float = 1.0> ()  k = Constant <value_float = 7.0> ()  e = Constant <value_float = 0.5> ()  m = Cast <to = 1> (c)  n = Sub (o, m)  p = Mul (x, m)  q = Mul (n, k)  y = Sub (p, q)  h = Constant <value_float = 2000.0> ()  g = Mul (n, h)  f = Sub (e, g)  z = Add (p, f)", {"Where": 2, "Mul": 0, "Sub": 0}),
    "least_of_masks": ("int32[2,6] t, bool[6,6] c, float[2,6,6] x => float[2,6,6] y", "i = Cast <to = 6> (c)  a = Constant <value_ints = [1]> ()  u = Unsqueeze (t, a)  l = Min (u, i)  f = Cast <to = 1> (l)  z = Constant <value_float = 0.0> ()  g = Greater (f, z)  n = Neg (x)  y = Where (g, x, n)", {"Min": 0, "Cast": 0, "And": 1}),
    "truths_multiplied": ("bool[2,1] c, bool[6] d => float[2,6] y", "a = Cast <to = 1> (c)  b = Cast <to = 1> (d)  y = Mul (a, b)", {"And": 1, "Mul": 0, "Cast": 1}),
    "positions_in_float": ("float[b,n,3] x => bool[n,n] y", "s = Shape <start = 1, end = 2> (x)  a = Constant <value_ints = [0]> ()  d = Squeeze (s, a)  f = Cast <to = 1> (d)  z = Constant <value_float = 0.0> ()  o = Constant <value_float = 1.0> ()  r = Range (z, f, o)  l = Constant <value_ints = [1]> ()  c = Unsqueeze (r, l)  y = GreaterOrEqual (c, r)", {"Cast": 0, "Range": 1}),
    "cut_at_far_end": ("float[b,n,3] x => float[b,n,3] y, int64[n] w", "a = Constant <value_ints = [0, 0]> ()  e = Constant <value_ints = [1000000000, 1000000000]> ()  d = Slice (x, a, e)  y = Relu (d)  s = Shape <start = 1, end = 2> (x)  z = Constant <value_ints = [0]> ()  q = Squeeze (s, z)  i = Constant <value_int = 0> ()  j = Constant <value_int = 1> ()  r = Range (i, q, j)  t = Sub (r, q)  w = Add (t, q)", {"Slice": 0, "Sub": 0, "Add": 0}),
    "shape_compared": ("float[b,n,3] x => float[2] y", "s = Shape <start = 1> (x)  i = Cast <to = 6> (s)  m = Constant <value = int32[1] {-1}> ()  e = Equal (m, i)  y = Cast <to = 1> (e)", {"Equal": 0, "Shape": 0}),
    "truth_widened": ("bool[n,n] c, float[b,n,n] x => float[b,n,n] y", "t = Constant <value = bool[1] {1}> ()  s = Shape (x)  e = Expand (t, s)  a = And (c, e)  n = Neg (x)  y = Where (a, x, n)", {"And": 0, "Expand": 0}),
    "scaled_negative": ("float[2,6] x => float[2,6] y", "n = Neg (x)  k = Constant <value_float = 0.7> ()  m = Mul (n, k)  y = Relu (m)", {"Neg": 0, "Mul": 1}),
    "transposed_operands": ("float[2,3,5] x, float[2,3,5] z => float[2,3,5] y", "a = Transpose <perm = [1, 2, 0]> (x)  b = Transpose <perm = [1, 2, 0]> (z)  c = Add (a, b)  y = Transpose <perm = [2, 0, 1]> (c)", {"Transpose": 0}),
    "transposed_choice": ("float[2,3,5] x => float[2,3,5] y", "l = Constant <value_float = -0.25> ()  h = Constant <value_float = 0.5> ()  a = Transpose <perm = [1, 2, 0]> (x)  b = Clip (a, l, h)  c = Greater (a, l)  d = Tanh (a)  w = Where (c, b, d)  y = Transpose <perm = [2, 0, 1]> (w)", {"Transpose": 0, "Clip": 1, "Where": 1}),
    "reshaped_functions": ("float[2,3,5] x, float[2,3,5] z => float[2,3,5] y", "s = Constant <value_ints = [6, 5]> ()  t = Constant <value_ints = [2, 3, 5]> ()  l = Constant <value_float = -0.25> ()  a = Reshape (x, s)  b = Tanh (a)  c = Reshape (z, s)  d = Max (b, c)  e = Sub (l, d)  f = Clip (e, l)  y = Reshape (f, t)", {"Reshape": 0, "Tanh": 1, "Max": 1}),
    "expanded_choice": ("float[3,1] x, float[2,3,5] z => float[2,3,5] y", "n = Constant <value_ints = [2, 3, 5]> ()  l = Constant <value_float = 0.25> ()  a = Expand (x, n)  b = Tanh (a)  c = Less (b, l)  y = Where (c, z, b)", {"Expand": 0, "Tanh": 1, "Where": 1}),
    "rounded_selections": ("float[2,3,5] x, float[5] z, bool[3,1] c => float[2,3,5] y", "a = Cast <to = 11> (x)  b = Cast <to = 11> (z)  d = Relu (a)  e = Max (d, b)  f = Neg (b)  g = Where (c, e, f)  y = Cast <to = 1> (g)", {"Cast": 0, "Relu": 1, "Max": 1, "Where": 1}),
    "expand_before_binary": ("float[3,1] x, float[2,3,5] z => float[2,3,5] y", "n = Constant <value_ints = [2, 3, 5]> ()  a = Expand (x, n)  y = Add (a, z)", {"Expand": 0}),
    "reduce_unsqueeze": ("float[2,3,5] x => float[2,1,5] y", "a = Constant <value_ints = [1]> ()  r = ReduceMax <keepdims = 0> (x, a)  y = Unsqueeze (r, a)", {"ReduceMax": 1, "Unsqueeze": 0, "Reshape": 0}),
    "reshape_shape": ("float[b,3,5] x => float[b,15] y", "s = Shape (x)  i = Constant <value_int = 0> ()  d = Gather (s, i)  z = Constant <value_ints = [0]> ()  u = Unsqueeze (d, z)  m = Constant <value_ints = [-1]> ()  n = Concat <axis = 0> (u, m)  y = Reshape (x, n)", {"Shape": 0, "Gather": 0, "Concat": 0}),
    "cse": ("float[2,3] x => float[2,3] y", "a = Exp (x)  b = Exp (x)  y = Add (a, b)", {"Exp": 1}),
    "constant_folding": ("float[2,3] x => float[2,3] y", "a = Constant <value_floats = [1.0, 4.0, 9.0]> ()  b = Sqrt (a)  c = Neg (b)  y = Mul (x, c)", {"Sqrt": 0, "Neg": 0}),
    "dead_nodes": ("float[2,3] x => float[2,3] y", "a = Exp (x)  b = Identity (x)  y = Relu (b)", {"Exp": 0, "Identity": 0}),
    "reciprocal_mul": ("float[2,3] x, float[2,3] z => float[2,3] y", "r = Reciprocal (z)  y = Mul (x, r)", {"Reciprocal": 0, "Div": 1}),
    "pad_conv": ("float[1,2,5,5] x, float[3,2,3,3] w => float[1,3,5,5] y", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> ()  a = Pad (x, p)  y = Conv (a, w)", {"Pad": 0, "Conv": 1}),
    "pad_average_pool": ("float[1,2,5,5] x => float[1,2,5,5] y", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> ()  a = Pad (x, p)  y = AveragePool <kernel_shape = [3, 3]> (a)", {"Pad": 0, "AveragePool": 1}),
    "zero_pad_max_pool_stays": ("float[1,2,5,5] x => float[1,2,5,5] y", "p = Constant <value_ints = [0, 0, 1, 1, 0, 0, 1, 1]> ()  a = Pad (x, p)  y = MaxPool <kernel_shape = [3, 3]> (a)", {"Pad": 1}),
    "conv_bn": ("float[1,2,5,5] x => float[1,1,3,3] y", "w = ConstantOfShape <value = float[1] {0.5}> (n)  s = Constant <value_floats = [2.0]> ()  b = Constant <value_floats = [0.25]> ()  m = Constant <value_floats = [0.5]> ()  v = Constant <value_floats = [4.0]> ()  a = Conv (x, w)  y = BatchNormalization (a, s, b, m, v)", {"Conv": 1, "BatchNormalization": 0, "Mul": 0, "Add": 0}),
    "conv_add_mul": ("float[1,2,5,5] x => float[1,1,3,3] y", "w = ConstantOfShape <value = float[1] {0.5}> (n)  s = Constant <value_float = 2.0> ()  b = Constant <value_float = 0.25> ()  a = Conv (x, w)  c = Mul (a, s)  y = Add (c, b)", {"Conv": 1, "Mul": 0, "Add": 0}),
    "conv_transpose_bn": ("float[1,1,5,5] x => float[1,2,7,7] y", "w = ConstantOfShape <value = float[1] {0.5}> (n)  s = Constant <value_floats = [2.0, 3.0]> ()  b = Constant <value_floats = [0.25, 0.5]> ()  m = Constant <value_floats = [0.5, 0.1]> ()  v = Constant <value_floats = [4.0, 1.0]> ()  a = ConvTranspose (x, w)  y = BatchNormalization (a, s, b, m, v)", {"ConvTranspose": 1, "BatchNormalization": 0, "Mul": 0, "Add": 0}),
    "affine_before_conv": ("float[1,2,5,5] x => float[1,1,3,3] y", "w = ConstantOfShape <value = float[1] {0.5}> (n)  s = Constant <value_float = 2.0> ()  b = Constant <value_float = 0.25> ()  a = Mul (x, s)  c = Add (a, b)  y = Conv (c, w)", {"Conv": 1, "Mul": 0, "Add": 0}),
    "conv_activation": ("float[1,2,5,5] x, float[3,2,3,3] w => float[1,3,3,3] y", "a = Conv (x, w)  y = LeakyRelu <alpha = 0.2> (a)", {"com.microsoft.FusedConv": 1, "LeakyRelu": 0}),
    "conv_add_activation": ("float[1,2,5,5] x, float[3,2,3,3] w, float[1,3,3,3] z => float[1,3,3,3] y", "a = Conv (x, w)  b = Add (z, a)  y = Relu (b)", {"com.microsoft.FusedConv": 1, "Relu": 0, "Add": 0}),
    "matmul_add_is_gemm": ("float[3,4] x, float[4,5] w, float[5] b => float[3,5] y", "a = MatMul (x, w)  y = Add (b, a)", {"Gemm": 1, "MatMul": 0, "Add": 0}),
    "gemm_sum": ("float[3,4] x, float[4,5] w, float[5] b => float[3,5] y", "a = Gemm (x, w)  y = Sum (a, b)", {"Gemm": 1, "Sum": 0}),
    "gemm_transposes": ("float[4,3] x, float[5,4] w, float[5] b => float[3,5] y", "a = Transpose (x)  c = Transpose (w)  y = Gemm (a, c, b)", {"Gemm": 1, "Transpose": 0}),
    "gemm_activation": ("float[3,4] x, float[4,5] w, float[5] b => float[3,5] y", "a = Gemm (x, w, b)  y = Tanh (a)", {"com.microsoft.FusedGemm": 1, "Tanh": 0}),
    "matmul_transposes_and_scale": ("float[2,4,3] x, float[2,5,4] w => float[2,3,5] y", "a = Transpose <perm = [0, 2, 1]> (x)  c = Transpose <perm = [0, 2, 1]> (w)  d = MatMul (a, c)  s = Constant <value_float = 0.25> ()  y = Mul (d, s)", {"com.microsoft.FusedMatMul": 1, "Transpose": 0, "Mul": 0}),
    "matmul_bn": ("float[3,4] x => float[3,5] y", "w = ConstantOfShape <value = float[1] {0.5}> (k)  s = Constant <value_floats = [2.0, 1.0, 3.0, 1.0, 1.0]> ()  v = Constant <value_floats = [1.0, 4.0, 1.0, 1.0, 2.0]> ()  a = MatMul (x, w)  y = BatchNormalization (a, s, s, s, v)", {"Gemm": 1, "BatchNormalization": 0}),
    "skip_layer_normalization_bias": ("float[2,5,8] x, float[2,5,8] z, float[8] g, float[8] b => float[2,5,8] y", "c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> ()  a = Add (z, c)  s = Add (x, a)  y = LayerNormalization (s, g, b)", {"com.microsoft.SkipLayerNormalization": 1, "Add": 0}),
    "skip_broadcast": ("float[2,5,8] x, float[5,8] z, float[8] g => float[2,5,8] y, float[2,5,8] s", "s = Add (z, x)  y = LayerNormalization (s, g)", {"com.microsoft.SkipLayerNormalization": 1, "Add": 0}),
    "bias_gelu": ("float[2,5,8] x, float[8] b => float[2,5,8] y", "a = Add (x, b)  y = Gelu (a)", {"com.microsoft.BiasGelu": 1}),
    "double_quantization": ("float[2,3] x => float[2,3] y", "s = Constant <value_float = 0.1> ()  z = Constant <value = uint8 {128}> ()  a = QuantizeLinear (x, s, z)  b = DequantizeLinear (a, s, z)  c = QuantizeLinear (b, s, z)  y = DequantizeLinear (c, s, z)", {"QuantizeLinear": 1, "DequantizeLinear": 1}),
    "softmax_shift": ("float[2,3] x => float[2,3] y", "c = Constant <value_float = 3.0> ()  a = Add (x, c)  y = Softmax (a)", {"Add": 0}),
    "attention_past": ("float[2,3,5,8] q, float[2,3,5,8] n, float[2,3,5,6] w, float[2,3,4,8] l, float[2,3,4,6] m => float[2,3,5,6] y, float[2,3,9,8] r, float[2,3,9,6] v", "r = Concat <axis = 2> (l, n)  v = Concat <axis = 2> (m, w)  t = Transpose <perm = [0, 1, 3, 2]> (r)  a = MatMul (q, t)  c = Constant <value_float = 0.5> ()  s = Mul (a, c)  p = Softmax <axis = 3> (s)  y = MatMul (p, v)", {"Attention": 1, "Concat": 0}),
    "attention_past_alone": ("float[2,3,5,8] q, float[2,3,5,8] n, float[2,3,5,6] w, float[2,3,4,8] l, float[2,3,4,6] m => float[2,3,5,6] y", "r = Concat <axis = 2> (l, n)  v = Concat <axis = 2> (m, w)  t = Transpose <perm = [0, 1, 3, 2]> (r)  a = MatMul (q, t)  c = Constant <value_float = 0.5> ()  s = Mul (a, c)  p = Softmax <axis = 3> (s)  y = MatMul (p, v)", {"Attention": 1, "Concat": 0}),
    "attention_past_of_packed_heads": ("float[2,5,24] q, float[2,5,24] n, float[2,5,18] w, float[2,3,4,8] l, float[2,3,4,6] m, float[2,1,1,9] b => float[2,5,18] y, float[2,3,9,8] k, float[2,3,9,6] v",
      "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  nt = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  "
      "lt = Transpose <perm = [0, 1, 3, 2]> (l)  t = Concat <axis = 3> (lt, nt)  k = Transpose <perm = [0, 1, 3, 2]> (t)  v = Concat <axis = 2> (m, wt)  a = MatMul (qt, t)  u = Add (a, b)  p = Softmax <axis = 3> (u)  o = MatMul (p, v)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"Attention": 1, "Concat": 0, "Transpose": 0, "Reshape": 0}),
    "gemm_of_flattened": ("float[b,3,8] x, float[8,6] w => float[b,3,6] y", "c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> ()  f = Constant <value_ints = [-1, 8]> ()  t = Constant <value_ints = [-1, 3, 6]> ()  a = Reshape (x, f)  g = Gemm (a, w, c)  y = Reshape (g, t)", {"MatMul": 1, "Add": 1, "Gemm": 0, "Reshape": 0}),
    "size_of_joined": ("float[2,m] x, float[2,n] z => int64[1] y", "c = Concat <axis = 1> (x, z)  y = Shape <start = 1> (c)", {"Concat": 0, "Shape": 2, "Add": 1}),
    "mask_of_tokens": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w, int64[b,7] m => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  one = Constant <value_float = 1.0> ()  far = Constant <value_float = -10000.0> ()  ax = Constant <value_ints = [1, 2]> ()  mu = Unsqueeze (m, ax)  mf = Cast <to = 1> (mu)  mc = Sub (one, mf)  ms = Mul (mc, far)  s = Add (u, ms)  p = Softmax <axis = 3> (s)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"com.microsoft.MultiHeadAttention": 1, "Cast": 1, "Sub": 0, "Mul": 0, "Unsqueeze": 0, "Expand": 0}),
    "mask_of_floats": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w, float[b,7] mask => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  one = Constant <value_float = 1.0> ()  far = Constant <value_float = -10000.0> ()  ax = Constant <value_ints = [1, 2]> ()  mu = Unsqueeze (mask, ax)  mc = Sub (one, mu)  ms = Mul (mc, far)  s = Add (u, ms)  p = Softmax <axis = 3> (s)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"com.microsoft.MultiHeadAttention": 1, "Cast": 1, "Sub": 0, "Mul": 0, "Unsqueeze": 0, "Expand": 0}),
    "mask_of_truth_values": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w, bool[b,7] m => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  one = Constant <value_float = 1.0> ()  far = Constant <value_float = -10000.0> ()  ax = Constant <value_ints = [1, 2]> ()  mu = Unsqueeze (m, ax)  mf = Cast <to = 1> (mu)  mc = Sub (one, mf)  ms = Mul (mc, far)  s = Add (u, ms)  p = Softmax <axis = 3> (s)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"com.microsoft.MultiHeadAttention": 1, "Cast": 1, "Sub": 0, "Mul": 0, "Unsqueeze": 0, "Expand": 0}),
    "causal_slices": ("float[b,s,12] q, float[b,s,12] nk, float[b,s,12] nv => float[b,s,12] y", "d = Constant <value_ints = [0, 0, 3, 4]> ()  e = Constant <value_ints = [0, 0, 12]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nk, d)  nt = Transpose <perm = [0, 2, 1, 3]> (nr)  wr = Reshape (nv, d)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  o = Constant <value_ints = [1, 1, 8, 8]> ()  on = ConstantOfShape <value = float[1] {1}> (o)  tri = Trilu <upper = 0> (on)  two = Constant <value_ints = [2]> ()  three = Constant <value_ints = [3]> ()  zero = Constant <value_ints = [0]> ()  "
      "kx = Transpose <perm = [0, 1, 3, 2]> (nt)  t = MatMul (qt, kx)  size = Shape <start = 2, end = 3> (qt)  s1 = Slice (tri, zero, size, two)  s2 = Slice (s1, zero, size, three)  cb = Cast <to = 9> (s2)  "
      "f = Constant <value_float = -10000.0> ()  u = Where (cb, t, f)  p = Softmax (u)  g = MatMul (p, wt)  gt = Transpose <perm = [0, 2, 1, 3]> (g)  y = Reshape (gt, e)",
      {"com.microsoft.MultiHeadAttention": 1, "Where": 0, "Slice": 0, "Cast": 0}),
    "causal_positions": ("float[b,s,12] q, float[b,s,12] nk, float[b,s,12] nv, float[b,1,1,s] m => float[b,s,12] y", "d = Constant <value_ints = [0, 0, 3, 4]> ()  e = Constant <value_ints = [0, 0, 12]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nk, d)  nt = Transpose <perm = [0, 2, 1, 3]> (nr)  wr = Reshape (nv, d)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  "
      "kx = Transpose <perm = [0, 1, 3, 2]> (nt)  t = MatMul (qt, kx)  size = Shape <start = 2, end = 3> (qt)  nothing = Constant <value_ints = [0]> ()  length = Squeeze (size, nothing)  zero = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()  "
      "r = Range (zero, length, one)  first = Constant <value_ints = [0]> ()  last = Constant <value_ints = [1]> ()  columns = Unsqueeze (r, first)  rows = Unsqueeze (r, last)  c = LessOrEqual (columns, rows)  "
      "f = Constant <value_float = -1000000000.0> ()  u = Where (c, t, f)  w = Add (u, m)  p = Softmax (w)  g = MatMul (p, wt)  gt = Transpose <perm = [0, 2, 1, 3]> (g)  y = Reshape (gt, e)",
      {"com.microsoft.MultiHeadAttention": 1, "Where": 0, "Range": 0, "LessOrEqual": 0}),
    # The mask is one column off, and stays.
    "no_causal_slices": ("float[b,s,12] q, float[b,s,12] nk, float[b,s,12] nv => float[b,s,12] y", "d = Constant <value_ints = [0, 0, 3, 4]> ()  e = Constant <value_ints = [0, 0, 12]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nk, d)  nt = Transpose <perm = [0, 2, 1, 3]> (nr)  wr = Reshape (nv, d)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  o = Constant <value_ints = [1, 1, 8, 8]> ()  on = ConstantOfShape <value = float[1] {1}> (o)  tri = Trilu <upper = 0> (on)  two = Constant <value_ints = [2]> ()  three = Constant <value_ints = [3]> ()  zero = Constant <value_ints = [0]> ()  "
      "kx = Transpose <perm = [0, 1, 3, 2]> (nt)  t = MatMul (qt, kx)  size = Shape <start = 2, end = 3> (qt)  i = Constant <value_ints = [1]> ()  end = Add (size, i)  s1 = Slice (tri, i, end, two)  s2 = Slice (s1, zero, size, three)  cb = Cast <to = 9> (s2)  "
      "f = Constant <value_float = -10000.0> ()  u = Where (cb, t, f)  p = Softmax (u)  g = MatMul (p, wt)  gt = Transpose <perm = [0, 2, 1, 3]> (g)  y = Reshape (gt, e)",
      {"Slice": 2, "Where": 1}),
    "attention_packed_cache": ("float[b,s,12] x, float[12,36] w, float[36] bias, float[2,b,3,past,4] c => float[b,s,12] y, float[2,b,3,total,4] present", "a = MatMul (x, w)  a2 = Add (a, bias)  z = Constant <value_ints = [12, 12, 12]> ()  q, nk, nv = Split <axis = 2> (a2, z)  "
      "d = Constant <value_ints = [0, 0, 3, 4]> ()  e = Constant <value_ints = [0, 0, 12]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nk, d)  nt = Transpose <perm = [0, 2, 1, 3]> (nr)  wr = Reshape (nv, d)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  o = Constant <value_ints = [1, 1, 8, 8]> ()  on = ConstantOfShape <value = float[1] {1}> (o)  tri = Trilu <upper = 0> (on)  two = Constant <value_ints = [2]> ()  three = Constant <value_ints = [3]> ()  zero = Constant <value_ints = [0]> ()  i = Constant <value_int = 0> ()  l = Constant <value_int = 1> ()  pk = Gather (c, i)  pv = Gather (c, l)  kk = Concat <axis = 2> (pk, nt)  vv = Concat <axis = 2> (pv, wt)  kx = Transpose <perm = [0, 1, 3, 2]> (kk)  "
      "t = MatMul (qt, kx)  half = Constant <value_float = 0.5> ()  th = Mul (t, half)  ns = Shape <start = 2, end = 3> (kk)  nd = Shape <start = 2, end = 3> (qt)  st = Sub (ns, nd)  s1 = Slice (tri, st, ns, two)  s2 = Slice (s1, zero, ns, three)  cb = Cast <to = 9> (s2)  "
      "f = Constant <value_float = -10000.0> ()  u = Where (cb, th, f)  p = Softmax (u)  g = MatMul (p, vv)  gt = Transpose <perm = [0, 2, 1, 3]> (g)  y = Reshape (gt, e)  k5 = Unsqueeze (kk, zero)  v5 = Unsqueeze (vv, zero)  present = Concat <axis = 0> (k5, v5)",
      {"com.microsoft.Attention": 1, "MatMul": 0, "Where": 0, "Slice": 0, "Concat": 0, "Gather": 0}),
    "attention_packed_cache_and_mask": ("float[b,3,12] x, float[12,36] w, float[36] bias, float[2,b,3,4,4] c, float[b,7] mask => float[b,3,12] y, float[2,b,3,7,4] present", "a = MatMul (x, w)  a2 = Add (a, bias)  z = Constant <value_ints = [12, 12, 12]> ()  q, nk, nv = Split <axis = 2> (a2, z)  "
      "d = Constant <value_ints = [0, 0, 3, 4]> ()  e = Constant <value_ints = [0, 0, 12]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nk, d)  nt = Transpose <perm = [0, 2, 1, 3]> (nr)  wr = Reshape (nv, d)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  o = Constant <value_ints = [1, 1, 8, 8]> ()  on = ConstantOfShape <value = float[1] {1}> (o)  tri = Trilu <upper = 0> (on)  two = Constant <value_ints = [2]> ()  three = Constant <value_ints = [3]> ()  zero = Constant <value_ints = [0]> ()  i = Constant <value_int = 0> ()  l = Constant <value_int = 1> ()  pk = Gather (c, i)  pv = Gather (c, l)  kk = Concat <axis = 2> (pk, nt)  vv = Concat <axis = 2> (pv, wt)  kx = Transpose <perm = [0, 1, 3, 2]> (kk)  "
      "t = MatMul (qt, kx)  half = Constant <value_float = 0.5> ()  th = Mul (t, half)  ns = Shape <start = 2, end = 3> (kk)  nd = Shape <start = 2, end = 3> (qt)  st = Sub (ns, nd)  s1 = Slice (tri, st, ns, two)  s2 = Slice (s1, zero, ns, three)  cb = Cast <to = 9> (s2)  "
      "f = Constant <value_float = -10000.0> ()  u = Where (cb, th, f)  mz = Constant <value_ints = [1, 2]> ()  mu = Unsqueeze (mask, mz)  one = Constant <value_float = 1.0> ()  mc = Sub (one, mu)  ms = Mul (mc, f)  um = Add (u, ms)  p = Softmax (um)  g = MatMul (p, vv)  gt = Transpose <perm = [0, 2, 1, 3]> (g)  y = Reshape (gt, e)  k5 = Unsqueeze (kk, zero)  v5 = Unsqueeze (vv, zero)  present = Concat <axis = 0> (k5, v5)",
      {"com.microsoft.Attention": 1, "MatMul": 0, "Where": 0, "Sub": 0, "Cast": 1, "Slice": 0, "Concat": 0, "Gather": 0}),
    "heads_of_channels": ("float[b,48,3,3] x => float[b,16,3,3] y", "q0, k0, v0 = Split <axis = 1, num_outputs = 3> (x)  "
      "five = Constant <value_ints = [-1, 2, 8, 3, 3]> ()  three = Constant <value_ints = [-1, 9, 8]> ()  q1 = Reshape (q0, five)  q2 = Transpose <perm = [0, 1, 3, 4, 2]> (q1)  qq = Reshape (q2, three)  n1 = Reshape (k0, five)  n2 = Transpose <perm = [0, 1, 3, 4, 2]> (n1)  kk = Reshape (n2, three)  w1 = Reshape (v0, five)  w2 = Transpose <perm = [0, 1, 3, 4, 2]> (w1)  vv = Reshape (w2, three)  "
      "kt = Transpose <perm = [0, 2, 1]> (kk)  t = MatMul (qq, kt)  p = Softmax (t)  o = MatMul (p, vv)  back = Constant <value_ints = [-1, 2, 3, 3, 8]> ()  o1 = Reshape (o, back)  o2 = Transpose <perm = [0, 1, 4, 2, 3]> (o1)  image = Constant <value_ints = [-1, 16, 3, 3]> ()  y = Reshape (o2, image)",
      {"Attention": 1, "Split": 1, "MatMul": 0}),
    "heads_of_channels_cut_out": ("float[b,9,16] q, float[b,32,3,3] x => float[b,9,16] y", "ss = Constant <value_ints = [0]> ()  m = Constant <value_ints = [16]> ()  ee = Constant <value_ints = [32]> ()  i = Constant <value_ints = [1]> ()  k0 = Slice (x, ss, m, i)  v0 = Slice (x, m, ee, i)  "
      "heads = Constant <value_ints = [-1, 2, 8, 9]> ()  d = Constant <value_ints = [0, 0, 2, 8]> ()  q1 = Reshape (q, d)  qq = Transpose <perm = [0, 2, 1, 3]> (q1)  kt = Reshape (k0, heads)  vt = Reshape (v0, heads)  vv = Transpose <perm = [0, 1, 3, 2]> (vt)  "
      "t = MatMul (qq, kt)  p = Softmax (t)  o = MatMul (p, vv)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  z = Constant <value_ints = [0, 0, 16]> ()  y = Reshape (ot, z)",
      {"Attention|com.microsoft.MultiHeadAttention": 1, "MatMul": 0, "Transpose": 1}),
    "sequence_of_single_parts": ("float[2,3,5] x => float[2,5] y", "n = Constant <value_int = 1> ()  i = Constant <value_int = 2> ()  s = SplitToSequence <axis = 1, keepdims = 0> (x, n)  y = SequenceAt (s, i)", {"SplitToSequence": 0, "SequenceAt": 0}),
    "sequence_of_parts": ("float[2,7] x => float[2,3] y, float[2,1] z", "n = Constant <value_int = 3> ()  i = Constant <value_int = 1> ()  l = Constant <value_int = 2> ()  s = SplitToSequence <axis = 1> (x, n)  y = SequenceAt (s, i)  z = SequenceAt (s, l)", {"SplitToSequence": 0, "SequenceAt": 0}),
    "sequence_of_tensors": ("float[2,3] x, float[2,3] z => float[4,3] y, float[2,3] w", "i = Constant <value_int = -1> ()  a = Exp (x)  s = SequenceConstruct (z, a)  y = ConcatFromSequence <axis = 0> (s)  w = SequenceAt (s, i)", {"SequenceConstruct": 0, "ConcatFromSequence": 0, "SequenceAt": 0, "Exp": 1}),
    "slices_of_one_axis": ("float[5,11] x => float[5,3] y", "s = Constant <value_ints = [2]> ()  e = Constant <value_ints = [9]> ()  a = Constant <value_ints = [1]> ()  t = Constant <value_ints = [1]> ()  f = Constant <value_ints = [4]> ()  u = Slice (x, s, e, a)  y = Slice (u, t, f, a)", {"Slice": 1}),
    "gather_of_range": ("float[9,5] x => float[3,5] y", "i = Constant <value_ints = [2, 3, 4]> ()  s = Constant <value_ints = [1]> ()  e = Constant <value_ints = [8]> ()  a = Constant <value_ints = [0]> ()  u = Slice (x, s, e, a)  y = Gather (u, i)", {"Slice": 1, "Gather": 0}),
    "transposed_pieces": ("float[2,3,5] x, float[2,3,5] z => float[3,4,5] y", "a = Transpose <perm = [1, 0, 2]> (x)  b = Transpose <perm = [1, 0, 2]> (z)  c = Concat <axis = 1> (a, b)  p = Constant <value_ints = [0, 1, 0, 0, 0, 0]> ()  d = Pad (c, p)  s = Constant <value_ints = [1]> ()  e = Constant <value_ints = [5]> ()  i = Constant <value_ints = [1]> ()  o = Slice (d, s, e, i)  l = Softmax <axis = 1> (o)  t = Transpose <perm = [1, 0, 2]> (l)  m = Relu (t)  y = Transpose <perm = [1, 0, 2]> (m)", {"Transpose": 1}),
    "transposed_reduction": ("float[2,5,7,3] x => float[2,1,1,3] y", "a = Transpose <perm = [0, 3, 1, 2]> (x)  i = Constant <value_ints = [2, 3]> ()  b = ReduceMax (a, i)  y = Transpose <perm = [0, 2, 3, 1]> (b)", {"Transpose": 0, "ReduceMax": 1}),
    "row_of_product": ("float[2,5,8] x => float[2,1,4] y, float[2,5,8] z", "w = ConstantOfShape <value = float[1] {0.5}> (wk)  b = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()  z = Tanh (x)  m = MatMul (z, w)  a = Add (m, b)  s = Constant <value_ints = [4]> ()  e = Constant <value_ints = [5]> ()  i = Constant <value_ints = [1]> ()  y = Slice (a, s, e, i)", {"Slice": 1, "MatMul": 1}),
    "products_of_one_packed": ("float[b,5,12] q, float[b,3,past,4] c, float[b,3,past,4] d => float[b,5,12] y, float[b,3,total,4] kk, float[b,3,total,4] vv",
      "w1 = ConstantOfShape <value = float[1] {0.5}> (wh)  w2 = ConstantOfShape <value = float[1] {0.25}> (wh)  w3 = ConstantOfShape <value = float[1] {0.125}> (wh)  x = Tanh (q)  q1 = MatMul (x, w1)  nk = MatMul (x, w2)  nv = MatMul (x, w3)  "
      "f = Constant <value_ints = [0, 0, 3, 4]> ()  e = Constant <value_ints = [0, 0, 12]> ()  qr = Reshape (q1, f)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nk, f)  nt = Transpose <perm = [0, 2, 1, 3]> (nr)  wr = Reshape (nv, f)  wt = Transpose <perm = [0, 2, 1, 3]> (wr)  "
      "kk = Concat <axis = 2> (c, nt)  vv = Concat <axis = 2> (d, wt)  kx = Transpose <perm = [0, 1, 3, 2]> (kk)  t = MatMul (qt, kx)  p = Softmax (t)  o = MatMul (p, vv)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)",
      {"com.microsoft.MultiHeadAttention": 1, "MatMul": 1, "Split": 1}),
    "attention_biases": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w => float[b,5,12] y", "bq = Constant <value_floats = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5]> ()  bn = Constant <value_floats = [2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5]> ()  bw = Constant <value_floats = [-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5]> ()  qb = Add (q, bq)  nb = Add (n, bn)  wb = Add (bw, w)  d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (qb, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (nb, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (wb, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  s = Identity (u)  p = Softmax <axis = 3> (s)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"com.microsoft.MultiHeadAttention": 1, "Add": 0}),
    "attention_cross_cache": ("float[b,5,12] q, float[b,3,7,4] c, float[b,3,7,4] vt => float[b,5,12] y", "bq = Constant <value_floats = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5]> ()  qb = Add (q, bq)  d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (qb, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  t = Transpose <perm = [0, 1, 3, 2]> (c)  u = MatMul (qt, t)  s = Identity (u)  p = Softmax <axis = 3> (s)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"com.microsoft.MultiHeadAttention": 1, "Add": 0, "Transpose": 0, "Reshape": 0}),
    "embedding_of_positions": ("int64[b,5] i, int64[b,5] j, float[4,8] v, float[6,8] w, float[8] g, float[8] c => float[b,5,8] y", "p = Gather (v, i)  q = Gather (w, j)  s = Add (p, q)  y = LayerNormalization <axis = -1> (s, g, c)", {"com.microsoft.EmbedLayerNormalization": 1, "Gather": 0}),
    "embedding_of_three": ("int64[b,5] i, int64[b,5] j, float[4,8] v, float[6,8] w, float[9,8] t, float[8] g, float[8] c => float[b,5,8] y", "r = Constant <value_ints = [2, 3, 4, 5, 6]> ()  p = Gather (v, i)  q = Gather (t, r)  o = Gather (w, j)  u = Add (p, q)  s = Add (o, u)  y = LayerNormalization <axis = -1> (s, g, c)", {"com.microsoft.EmbedLayerNormalization": 1, "Gather": 0, "Add": 0}),
    "integer_product": ("uint8[3,4] x, int8[4,5] w, float scale, float[5] b => float[3,5] y", "i = MatMulInteger (x, w)  f = Cast <to = 1> (i)  m = Mul (f, scale)  y = Add (m, b)", {"com.microsoft.MatMulIntegerToFloat": 1, "MatMulInteger": 0, "Cast": 0, "Add": 0}),
    "dynamic_integer_product": ("float[3,4] x => float[3,5] y", "w = Constant <value = int8[4,5] {1, 2, 3, 4, 5, -6, 7, -8, 9, -10, 11, 12, 13, -14, 15, 16, -17, 18, 19, 20}> ()  u = Constant <value_float = 0.02> ()  a, s, z = DynamicQuantizeLinear (x)  i = MatMulInteger (a, w, z)  f = Cast <to = 1> (i)  k = Mul (s, u)  y = Mul (k, f)", {"com.microsoft.DynamicQuantizeMatMul": 1, "DynamicQuantizeLinear": 0, "MatMulInteger": 0, "Mul": 0}),
    "layer_norm_by_hand": ("float[2,5,8] x, float[8] g, float[8] b => float[2,5,8] y", "l = Constant <value_ints = [-1]> ()  o = Constant <value_float = 2.0> ()  e = Constant <value_float = 1e-5> ()  m = ReduceMean (x, l)  d = Sub (x, m)  q = Pow (d, o)  v = ReduceMean (q, l)  w = Add (e, v)  r = Sqrt (w)  i = Reciprocal (r)  n = Mul (i, d)  s = Mul (g, n)  y = Add (b, s)", {"LayerNormalization": 1, "ReduceMean": 0, "Add": 0}),
    "layer_norm_by_moments": ("float[2,5,8] x, float[8] g => float[2,5,8] y", "l = Constant <value_ints = [-1]> ()  e = Constant <value_float = 1e-5> ()  k = Constant <value_float = 8.0> ()  t = ReduceSum (x, l)  m = Div (t, k)  d = Sub (x, m)  q = Mul (x, x)  a = ReduceMean (q, l)  c = Mul (m, m)  v = Sub (a, c)  w = Add (v, e)  r = Sqrt (w)  n = Div (d, r)  y = Mul (n, g)", {"LayerNormalization": 1, "ReduceMean": 0, "ReduceSum": 0, "Sqrt": 0}),
    "rms_norm_by_hand": ("float[2,5,8] x, float[8] g => float[2,5,8] y", "l = Constant <value_ints = [-1]> ()  o = Constant <value_float = -0.5> ()  e = Constant <value_float = 1e-5> ()  q = Mul (x, x)  a = ReduceMean (q, l)  w = Add (a, e)  r = Pow (w, o)  n = Mul (x, r)  y = Mul (g, n)", {"RMSNormalization": 1, "Pow": 0, "ReduceMean": 0}),
    "norm_of_halves_in_float": ("float16[2,5,8] x, float16[8] g => float16[2,5,8] y", "l = Constant <value_ints = [-1]> ()  o = Constant <value_float = 2.0> ()  e = Constant <value_float = 1e-5> ()  f = Cast <to = 1> (x)  q = Pow (f, o)  a = ReduceMean (q, l)  w = Add (a, e)  r = Sqrt (w)  i = Reciprocal (r)  u = Mul (f, i)  h = Cast <to = 10> (u)  y = Mul (g, h)", {"RMSNormalization": 1, "ReduceMean": 0, "Pow": 0, "Sqrt": 0}),
    "zeros_widened": ("float[b,s,5] x => float[b,s,5] y", "n = Shape (x)  t = Constant <value = bool[1] {1}> ()  z = Constant <value_float = 0.0> ()  f = Constant <value_float = -inf> ()  c = Expand (t, n)  w = Where (c, z, f)  a = Add (x, w)  y = Relu (a)", {"Where": 0, "Expand": 0, "Add": 0}),
    "instance_norm": ("float[2,5,8] x => float[2,5,8] y", "s = Constant <value_floats = [1.0, 1.0, 1.0, 1.0, 1.0]> ()  b = Constant <value_floats = [0.0, 0.0, 0.0, 0.0, 0.0]> ()  y = InstanceNormalization (x, s, b)", {"LayerNormalization": 1, "InstanceNormalization": 0}),
    "silu_by_hand": ("float[2,8] x => float[2,8] y, float[2,8] z", "i = Neg (x)  q = Exp (i)  o = Constant <value_float = 1.0> ()  d = Add (o, q)  y = Div (x, d)  k = Constant <value_float = 1.702> ()  u = Mul (x, k)  v = Sigmoid (u)  z = Mul (v, x)", {"com.microsoft.QuickGelu": 2, "Sigmoid": 0, "Exp": 0}),
    "mask_by_where": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w, bool[b,1,1,7] hidden => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  f = Constant <value_float = -10000.0> ()  m = Where (hidden, f, u)  p = Softmax (m)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"Attention": 1, "Softmax": 0, "MatMul": 0}),
    "softmax_with_guard": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w, bool[b,1,1,7] c => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  f = Constant <value_float = -inf> ()  m = Where (c, u, f)  p = Softmax (m)  z = Constant <value_float = 0.0> ()  i = IsNaN (p)  g = Where (i, z, p)  o = MatMul (g, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"Attention|com.microsoft.MultiHeadAttention": 1, "Softmax": 0, "IsNaN": 0, "ReduceMax": 1}),
    "mask_after_softmax": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w, bool[b,1,1,7] c => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  p = Softmax (u)  m = Cast <to = 1> (c)  h = Mul (p, m)  l = Constant <value_ints = [3]> ()  s = ReduceSum <keepdims = 1> (h, l)  z = Constant <value_float = 0.0> ()  one = Constant <value_float = 1.0> ()  g = Greater (s, z)  r = Where (g, s, one)  a = Div (h, r)  f = Where (g, a, z)  o = MatMul (f, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"Attention|com.microsoft.MultiHeadAttention": 1, "Softmax": 0, "ReduceSum": 0, "Greater": 0}),
    "widened_constant_cast": ("float[b,n] x => float[b,n] y", "z = Constant <value_floats = [0.0]> ()  s = Shape (x)  e = Expand (z, s)  c = Cast <to = 9> (e)  f = Cast <to = 1> (c)  y = Add (x, f)", {"Cast": 0, "Expand": 0, "Add": 0}),
    "softmax_by_hand": ("float[2,3,8] x => float[2,3,8] y", "l = Constant <value_ints = [-1]> ()  m = ReduceMax (x, l)  d = Sub (x, m)  p = Exp (d)  s = ReduceSum (p, l)  y = Div (p, s)", {"Softmax": 1, "Exp": 0, "ReduceMax": 0}),
    "attention_of_packed_heads": ("float[b,5,12] q, float[b,7,12] n, float[b,7,12] w => float[b,5,12] y", "d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  k = Constant <value_float = 0.25> ()  m = Mul (u, k)  p = Softmax (m)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"Attention|com.microsoft.MultiHeadAttention": 1, "Softmax": 0, "Transpose": 0, "Reshape": 0}),
    "attention_with_projections": ("float[b,5,12] x => float[b,5,12] y", "w1 = ConstantOfShape <value = float[1] {0.5}> (wh)  w2 = ConstantOfShape <value = float[1] {0.25}> (wh)  w3 = ConstantOfShape <value = float[1] {0.125}> (wh)  c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]> ()  a1 = MatMul (x, w1)  q = Add (a1, c)  n = MatMul (x, w2)  a3 = MatMul (x, w3)  w = Add (c, a3)  d = Constant <value_ints = [0, 0, 3, -1]> ()  e = Constant <value_ints = [0, 0, -1]> ()  qr = Reshape (q, d)  qt = Transpose <perm = [0, 2, 1, 3]> (qr)  nr = Reshape (n, d)  t = Transpose <perm = [0, 2, 3, 1]> (nr)  wr = Reshape (w, d)  vt = Transpose <perm = [0, 2, 1, 3]> (wr)  u = MatMul (qt, t)  k = Constant <value_float = 0.25> ()  m = Mul (u, k)  p = Softmax (m)  o = MatMul (p, vt)  ot = Transpose <perm = [0, 2, 1, 3]> (o)  y = Reshape (ot, e)", {"com.microsoft.Attention": 1, "MatMul": 0, "Softmax": 0, "Add": 0}),
    "rotary_backwards": ("float[2,3,5,8] x, float[5,4] c, float[5,4] s => float[2,3,5,8] y",
      "h = Constant <value_ints = [4, 4]> ()  a, b = Split <axis = 3> (x, h)  ac = Mul (a, c)  bs = Mul (b, s)  d = Add (bs, ac)  n = Neg (s)  an = Mul (a, n)  bc = Mul (b, c)  e = Add (an, bc)  y = Concat <axis = 3> (d, e)", {"RotaryEmbedding": 1, "Split": 0, "Concat": 0}),
    "rotary_by_halves": ("float[2,3,5,8] x, int64[2,5] p => float[2,3,5,8] y",
      "table = ConstantOfShape <value = float[1] {0.5}> (rows)  c = Cos (table)  s = Sin (table)  cg = Gather (c, p)  sg = Gather (s, p)  cc = Concat <axis = -1> (cg, cg)  ss = Concat <axis = -1> (sg, sg)  l = Constant <value_ints = [1]> ()  cu = Unsqueeze (cc, l)  su = Unsqueeze (ss, l)  "
      "h = Constant <value_ints = [4, 4]> ()  a, b = Split <axis = 3> (x, h)  nb = Neg (b)  r = Concat <axis = 3> (nb, a)  u = Mul (x, cu)  v = Mul (su, r)  y = Add (v, u)", {"RotaryEmbedding": 1, "Concat": 0, "Split": 0, "Neg": 0}),
    "relu_by_choice": ("float[4,7] x => float[4,7] y, float[4,7] w", "z = Constant <value_float = 0.0> ()  s = Constant <value_float = 6.0> ()  n = Less (x, z)  r = Where (n, z, x)  y = Abs (r)  u = Tanh (x)  a = Relu (u)  w = Min (s, a)", {"Relu": 1, "Clip": 1, "Where": 0, "Min": 0}),
    "leaky_relu_by_parts": ("float[4,7] x => float[4,7] y, float[4,7] w, float[4,7] u", "z = Constant <value_float = 0.0> ()  s = Constant <value_float = 0.25> ()  t = Constant <value_floats = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]> ()  p = Relu (x)  m = Neg (x)  n = Relu (m)  a = Mul (s, n)  y = Sub (p, a)  b = Min (z, x)  c = Mul (b, t)  w = Add (c, p)  d = Mul (x, s)  u = Max (d, x)", {"LeakyRelu": 1, "PRelu": 1, "Relu": 0, "Neg": 0, "Max": 0, "Min": 0}),
    "elu_by_choice": ("float[4,7] x => float[4,7] y", "z = Constant <value_float = 0.0> ()  o = Constant <value_float = 1.0> ()  p = Greater (x, z)  q = Exp (x)  d = Sub (q, o)  y = Where (p, x, d)", {"Elu": 1, "Exp": 0, "Where": 0}),
    "hard_sigmoid_by_clip": ("float[4,7] x => float[4,7] y", "z = Constant <value_float = 0.0> ()  o = Constant <value_float = 1.0> ()  a = Constant <value_float = 0.2> ()  b = Constant <value_float = 0.4> ()  m = Mul (x, a)  p = Add (b, m)  q = Max (p, z)  y = Min (o, q)", {"HardSigmoid": 1, "Clip": 0, "Mul": 0}),
    "tanh_by_hand": ("float[4,7] x => float[4,7] y, float[4,7] z", "two = Constant <value_float = 2.0> ()  o = Constant <value_float = 1.0> ()  a = Mul (x, two)  b = Sigmoid (a)  c = Mul (two, b)  u = Sub (c, o)  y = Relu (u)  m = Neg (x)  p = Exp (x)  q = Exp (m)  d = Sub (p, q)  s = Add (q, p)  v = Div (d, s)  z = Abs (v)", {"Tanh": 1, "Sigmoid": 0, "Exp": 0}),
    "log_softmax_by_hand": ("float[4,7] x => float[4,7] y, float[4,1] z", "l = Constant <value_ints = [1]> ()  m = ReduceMax (x, l)  d = Sub (x, m)  p = Exp (d)  s = ReduceSum (p, l)  g = Log (s)  y = Sub (d, g)  z = Add (m, g)", {"LogSoftmax": 1, "ReduceLogSumExp": 1, "Exp": 0, "ReduceMax": 0}),
    "pixel_shuffle": ("float[b,12,h,w] x => float[b,3,hh,ww] y", "v = Shape (x)  bb = Shape <start = 0, end = 1> (x)  hw = Shape <start = 2> (x)  c = Constant <value_ints = [3, 2, 2]> ()  s = Concat <axis = 0> (bb, c, hw)  r = Reshape (x, s)  t = Transpose <perm = [0, 1, 4, 2, 5, 3]> (r)  two = Constant <value_ints = [2]> ()  d = Mul (hw, two)  e = Constant <value_ints = [3]> ()  f = Concat <axis = 0> (bb, e, d)  y = Reshape (t, f)", {"DepthToSpace": 1, "Reshape": 0, "Transpose": 0}),
    "heads_of_a_batch_of_one": ("float[1,5,16] q, float[1,7,16] k, float[1,7,16] v => float[1,5,16] y", "a = Constant <value_ints = [0, 0, 2, 8]> ()  m = Constant <value_ints = [2, -1, 8]> ()  " + "  ".join(f"{t}4 = Reshape ({t}, a)  {t}t = Transpose <perm = [0, 2, 1, 3]> ({t}4)  {t}3 = Reshape ({t}t, m)" for t in "qkv") + "  kx = Transpose <perm = [0, 2, 1]> (k3)  s = MatMul (q3, kx)  p = Softmax (s)  o = MatMul (p, v3)  h = Constant <value_ints = [1, 2, 5, 8]> ()  o4 = Reshape (o, h)  ot = Transpose <perm = [0, 2, 1, 3]> (o4)  j = Constant <value_ints = [1, 5, 16]> ()  y = Reshape (ot, j)", {"Attention": 1, "MatMul": 0, "Reshape": 0, "Transpose": 0}),
    "gelu_around_its_bias": ("float[b,4] x => float[b,4] y", "b = Constant <value_floats = [0.5, 0.25, -1.0, 2.0]> ()  n = Sin (x)  v = Add (n, b)  q = Mul (v, v)  c = Mul (v, q)  k = Constant <value_float = 0.044715> ()  d = Mul (c, k)  e = Add (b, d)  s = Add (n, e)  f = Constant <value_float = 0.79788456> ()  u = Mul (s, f)  t = Tanh (u)  o = Constant <value_float = 1.0> ()  g = Add (t, o)  m = Mul (v, g)  h = Constant <value_float = 0.5> ()  y = Mul (m, h)", {"Tanh": 0, "Mul": 0}),
    "transposed_resize": ("float[b,6,5,3] x => float[b,h,w,3] y, float[b,i,j,3] z", "t = Transpose <perm = [0, 3, 1, 2]> (x)  s = Constant <value_floats = [1.0, 1.0, 2.0, 3.0]> ()  r = Resize <mode = \"nearest\"> (t, , s)  y = Transpose <perm = [0, 2, 3, 1]> (r)  u = Resize <mode = \"linear\"> (t, , s)  z = Transpose <perm = [0, 2, 3, 1]> (u)", {"Resize": 2, "Transpose": 0}),
    "rows_and_columns_apart": ("float[2,3,6,8] x => float[2,4,h,w] y", "z = Constant <value_ints = [0]> ()  o = Constant <value_ints = [1]> ()  m = Constant <value_ints = [9223372036854775807]> ()  r = Constant <value_ints = [2]> ()  c = Constant <value_ints = [3]> ()  e = Slice (x, z, m, r, r)  d = Slice (x, o, m, r, r)  p = Slice (e, z, m, c, r)  q = Slice (d, z, m, c, r)  s = Slice (e, o, m, c, r)  t = Slice (d, o, m, c, r)  j = Concat <axis = 1> (p, q, s, t)  n = Constant <value_ints = [432]> ()  i = Constant <value = int64 {0}> ()  l = Constant <value = int64 {432}> ()  k = Constant <value = int64 {1}> ()  v = Range (i, l, k)  f = Cast <to = 1> (v)  b = Sin (f)  u = Constant <value_ints = [4, 12, 3, 3]> ()  w = Reshape (b, u)  y = Conv (j, w)", {"SpaceToDepth": 1, "Conv": 1, "Slice": 0, "Gather": 0, "Concat": 0}),
    "pixel_blocks": ("float[2,3,10,14] x => float[2,12,5,7] y, float[2,3,10,14] z", "s = Constant <value_ints = [2, 3, 5, 2, 7, 2]> ()  e = Constant <value_ints = [2, 12, 5, 7]> ()  r = Reshape (x, s)  t = Transpose <perm = [0, 3, 5, 1, 2, 4]> (r)  y = Reshape (t, e)  a = Constant <value_ints = [2, 2, 2, 3, 5, 7]> ()  b = Constant <value_ints = [2, 3, 10, 14]> ()  u = Softmax <axis = 1> (y)  o = Reshape (u, a)  p = Transpose <perm = [0, 3, 4, 1, 5, 2]> (o)  z = Reshape (p, b)", {"SpaceToDepth": 1, "DepthToSpace": 1, "Reshape": 0, "Transpose": 0}),
    "transposed_product": ("float[6,4] x => float[5,6] y", "w = ConstantOfShape <value = float[1] {0.5}> (k)  z = Tanh (x)  a = MatMul (z, w)  y = Transpose <perm = [1, 0]> (a)", {"com.microsoft.FusedMatMul|Gemm": 1, "Transpose": 0}),
    "products_in_a_row": ("float[2,4] x => float[2,5] y", "w = ConstantOfShape <value = float[1] {0.5}> (wk4)  v = ConstantOfShape <value = float[1] {0.25}> (k)  a = MatMul (x, w)  y = MatMul (a, v)", {"MatMul": 1}),
    "gather_of_gather": ("float[5,7] x, int64[3] i => float[3,7] y", "p = Constant <value_ints = [4, 0, 3, 1, 2]> ()  a = Gather (x, p)  y = Gather (a, i)", {"Gather": 2}),
    "tile_of_ones": ("float[4,1] x, float[4,7] z => float[4,7] y", "r = Constant <value_ints = [1, 7]> ()  t = Tile (x, r)  y = Mul (t, z)", {"Tile": 0, "Expand": 0, "Mul": 1}),
    "sums_of_products": ("float[2,4] x, float[2,4] z => float[2,4] y, float[2,5] u", "w = ConstantOfShape <value = float[1] {0.5}> (wk4)  a = MatMul (x, w)  b = MatMul (z, w)  y = Add (a, b)  t = Tanh (x)  v = ConstantOfShape <value = float[1] {0.25}> (k)  p = ConstantOfShape <value = float[1] {0.75}> (wk4)  h = Constant <value_float = 3.0> ()  c = MatMul (t, v)  d = MatMul (t, p)  e = MatMul (d, v)  f = Mul (e, h)  u = Add (f, c)", {"MatMul": 2}),
    "gemm_bn": ("float[2,4] x => float[2,5] y", "w = ConstantOfShape <value = float[1] {0.5}> (k)  c = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0]> ()  a = Gemm (x, w, c)  y = BatchNormalization (a, c, c, c, c)", {"Gemm": 1, "BatchNormalization": 0, "Mul": 0, "Add": 0}),
    "common_multiple": ("float[2,4] x, float[2,4] z => float[2,4] y", "h = Constant <value_float = 1.3> ()  a = Mul (x, h)  b = Mul (z, h)  y = Add (a, b)", {"Mul": 1, "Add": 1}),
    "reductions_in_a_row": ("float[2,3,5,7] x => float[2,3] y, float[2,1,1,7] z, float[7] w", "a = Constant <value_ints = [3]> ()  b = Constant <value_ints = [2]> ()  m = ReduceMean <keepdims = 0> (x, a)  y = ReduceMean <keepdims = 0> (m, b)  i = Constant <value_ints = [1]> ()  n = ReduceSum (x, i)  z = ReduceSum (n, b)  j = Constant <value_ints = [0]> ()  e = Constant <value_ints = [0, 1]> ()  o = ReduceMax <keepdims = 0> (x, j)  w = ReduceMax <keepdims = 0> (o, e)", {"ReduceMean": 1, "ReduceSum": 1, "ReduceMax": 1}),
    "says_nothing": ("float[2,4] x, float[2,4] z, bool[2,4] c => float[2,4] y, bool[2,4] b, float[2,4] w", "m = Max (x, x)  n = Min (m, m)  v = Where (c, n, z)  u = Where (c, v, x)  y = Where (c, z, u)  a = And (c, c)  o = Or (a, c)  b = Not (o)  g = Neg (x)  i = Cos (g)  j = Abs (i)  w = Mul (j, j)", {"Max": 0, "Min": 0, "Where": 1, "And": 0, "Or": 0, "Neg": 0, "Abs": 0}),
    "ones_of_a_shape": ("float[n,5] x => float[n,5] y", "s = Shape (x)  o = ConstantOfShape <value = float[1] {1}> (s)  m = Mul (o, x)  z = ConstantOfShape (s)  a = Add (z, m)  y = Relu (a)", {"Shape": 0, "ConstantOfShape": 0, "Mul": 0, "Add": 0}),
    "linear_by_conv": ("float[2,n,3] x => float[2,n,4] y", "w = Constant <value = float[4,3,1] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> ()  b = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()  t = Transpose <perm = [0, 2, 1]> (x)  c = Conv (t, w, b)  y = Transpose <perm = [0, 2, 1]> (c)", {"MatMul": 1, "Conv": 0, "Transpose": 0}),
    "pool_of_one": ("float[1,2,5,5] x => float[1,2,5,5] y", "a = MaxPool <kernel_shape = [1, 1]> (x)  y = Relu (a)", {"MaxPool": 0}),
    "einsum_heads": ("float[2,5,16] x => float[2,5,16] y", "w = ConstantOfShape <value = float[1] {0.5}> (h)  v = ConstantOfShape <value = float[1] {0.25}> (h)  b = Constant <value = float[3,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> ()  k = Einsum <equation = \"abc,cde->abde\"> (x, w)  q = Einsum <equation = \"abc,cde->abde\"> (x, v)  kb = Add (k, b)  u = Einsum <equation = \"aecd,abcd->acbe\"> (kb, q)  p = Softmax <axis = 3> (u)  o = Einsum <equation = \"acbe,aecd->abcd\"> (p, q)  z = ConstantOfShape <value = float[1] {0.125}> (j)  y = Einsum <equation = \"abcd,cde->abe\"> (o, z)", {"Attention|com.microsoft.Attention": 1, "Einsum": 0, "Transpose": 0, "Reshape": 0}),
}
APPROXIMATE = {"argmax_of_softmax"}  # numbers that Softmax makes equal have another first one
NEEDS = {"h": "int64[3] h = {16, 3, 4}", "j": "int64[3] j = {3, 4, 16}", "n": "int64[4] n = {1, 2, 3, 3}", "k": "int64[2] k = {4, 5}", "wk": "int64[2] wk = {8, 4}", "wh": "int64[2] wh = {12, 12}", "rows": "int64[2] rows = {9, 4}", "wk4": "int64[2] wk4 = {4, 4}"}


def build(signature, nodes):
    inputs, outputs = signature.split("=>")
    needed = [text for name, text in NEEDS.items() if f"({name})" in nodes]
    text = f'<ir_version: 10, opset_import: ["" : 20]> g ({inputs}) => ({outputs}) <{", ".join(needed)}> {{ {nodes} }}'
    model = onnx.parser.parse_model(text)
    if "conv_transpose" in nodes.lower() or "ConvTranspose" in nodes:
        model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([1, 2, 3, 3]), "n"))
    onnx.checker.check_model(model)
    return model


def counts(model):
    c = collections.Counter()
    for n in model.graph.node:
        c[f"{n.domain}.{n.op_type}" if n.domain else n.op_type] += 1
    return c


# A causal mask and another hide by numbers that may be alike: one operator only where the user takes the risk.
RISKY = {"causal_positions", "attention_packed_cache_and_mask"}


@pytest.mark.parametrize("name", CASES)
def test_rewrite(tmp_path, name):
    signature, nodes, wanted = CASES[name]
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    model = build(signature, nodes)
    onnx.save(model, path)
    words = ["--approximate"] * (name in APPROXIMATE) + ["--assume", "causal_rows"] * (name in RISKY)
    done = run("optimize", path, "-o", out, "--target", "ort-cpu", "--cost", "nodes", *words)
    assert done.returncode == 0, done.stderr
    result = onnx.load(out)
    got = counts(result)
    assert {k: sum(got[name] for name in k.split("|")) for k in wanted} == wanted, got
    rng = np.random.default_rng(3)
    feeds = {}
    for i in model.graph.input:
        dims = [d.dim_value or 2 for d in i.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        feeds[i.name] = rng.standard_normal(dims).astype(dtype) if dtype.kind == "f" and i.name != "mask" else rng.integers(0, 2, dims).astype(dtype)
        if i.name == "mask":
            feeds[i.name][..., 0] = 1  # no row is masked as a whole
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    answers = [ort.InferenceSession(str(p), options, providers=["CPUExecutionProvider"]).run([o.name for o in model.graph.output], feeds) for p in (path, out)]
    for a, b in zip(*answers):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mask_of_floats", "attention_packed_cache_and_mask"])
def test_a_mask_of_floats_is_one_by_assumption(tmp_path, name):
    signature, nodes, _ = CASES[name]
    path, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "r.json"
    onnx.save(build(signature, nodes), path)
    run_ok(path, out, "--target", "ort-cpu", "--cost", "nodes", "--assume", "causal_rows", "--report", report)
    assert "mask_of_zeros_and_ones" in {a["assumption"] for a in json.loads(report.read_text())["assumed"]}
    run_ok(path, out, "--target", "ort-cpu", "--cost", "nodes", "--assume", "causal_rows", "--no-assume", "mask_of_zeros_and_ones")
    assert counts(onnx.load(out))["Sub"] == 1


def test_the_table_names_what_exists():
    """Rules and tests that docs/rewrites.md names are there, and every rule of the catalog's families is named."""
    text = DOCS.read_text()
    done = run("rules", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    rules = {r["name"].split("[")[0] for r in (listed if isinstance(listed, list) else listed["rules"])}
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and not line.startswith("| rewrite")]
    named = {w for row in rows for w in re.findall(r"`([a-z0-9_]+)`", row[2])}
    assert named and named <= rules, sorted(named - rules)
    tests = {w for row in rows for w in re.findall(r"`([a-z0-9_]+)`", row[3])}
    functions = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert tests <= set(CASES) | functions, sorted(tests - set(CASES) - functions)
    files = {w for row in rows for w in re.findall(r"`([a-z0-9_]+\.py)`", row[3])}
    assert all((pathlib.Path(__file__).parent / name).exists() for name in files), files
    assert [row[1] for row in rows if len(row) == 5 and not row[3].strip() and not row[2].strip().startswith(("no:", "not yet"))] == []


@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_zero_bias(tmp_path, op):
    signature = {"Conv": "float[1,2,5,5] x, float[3,2,3,3] w => float[1,3,3,3] y", "Gemm": "float[4,2] x, float[2,3] w => float[4,3] y"}[op]
    onnx.save(build(signature, f"z = Constant <value_floats = [0.0, 0.0, 0.0]> ()  y = {op} (x, w, z)"), tmp_path / "in.onnx")
    run_ok(tmp_path / "in.onnx", tmp_path / "out.onnx", "--target", "ort-cpu", "--cost", "nodes")
    assert [list(n.input) for n in onnx.load(tmp_path / "out.onnx").graph.node] == [["x", "w"]]


def test_quick_gelu_of_alpha_one_counts_as_silu(tmp_path):
    path, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "r.json"
    onnx.save(build("float[2,3] x => float[2,3] y", "s = Sigmoid (x)  y = Mul (x, s)"), path)
    done = run("optimize", path, "-o", out, "--target", "ort-cpu", "--cost", "nodes", "--report", report)
    assert done.returncode == 0, done.stderr
    assert counts(onnx.load(out)) == {"com.microsoft.QuickGelu": 1}
    fused = json.loads(report.read_text())["after"]["fused"]
    assert (fused["SiLU"], fused["GELU"]) == (1, 0)


def test_the_last_of_several_constants_of_a_name_holds(tmp_path):
    """As in ONNX Runtime, which warns too. The standard forbids such files."""
    path, out, report = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "r.json"
    constant = lambda value: onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.array(value, np.float32)))
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [3]) for n in "xy")
    graph = onnx.helper.make_graph([constant(2.0), onnx.helper.make_node("Mul", ["x", "c"], ["y"]), constant(5.0)], "g", [x], [y])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    done = run("optimize", path, "-o", out, "--report", report)
    assert done.returncode == 0, done.stderr
    assert any("'c'" in w for w in json.loads(report.read_text())["warnings"])
    feeds = {"x": np.array([1, 2, 3], np.float32)}
    for p in (path, out):
        np.testing.assert_array_equal(ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, feeds)[0], [5, 10, 15])


@pytest.mark.parametrize("width", [4, 5, 9])
def test_no_size_is_inferred_beside_one_that_may_be_zero(tmp_path, width):
    """Reshape's -1 cannot be told where another size is 0: a Slice may leave nothing, a declared size is at least 1."""
    nodes = [
        helper.make_node("Slice", ["x", "four", "end", "one"], ["s"]), helper.make_node("Transpose", ["s"], ["t"], perm=[1, 0, 2]),
        helper.make_node("Shape", ["t"], ["sizes"]), helper.make_node("Gather", ["sizes", "none"], ["rows"]),
        helper.make_node("Gather", ["sizes", "one"], ["batch"]), helper.make_node("Mul", ["batch", "six"], ["columns"]),
        helper.make_node("Concat", ["rows", "columns"], ["to"], axis=0), helper.make_node("Reshape", ["t", "to"], ["r"]), helper.make_node("Relu", ["r"], ["y"]),
    ]
    constants = [tensor(name, np.array([v], np.int64)) for name, v in (("none", 0), ("one", 1), ("four", 4), ("six", 6), ("end", 1 << 40))]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", "w", 6])], [value("y", TensorProto.FLOAT, ["l", "m"])], constants)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--no-verify")
    inputs = {"x": np.ones((2, width, 6), np.float32)}
    assert onnxruntime_outputs(tmp_path / "o.onnx", inputs)["y"].shape == onnxruntime_outputs(tmp_path / "m.onnx", inputs)["y"].shape == (width - 4, 12)


def test_a_constant_that_vanishes_in_another_is_not_added_for_ever(tmp_path):
    """-1e38 + w is -1e38: were x - 1e38 + w read as x - 1e38, w could be added any number of times (a recurrence's first state)."""
    w = np.linspace(-1, 1, 6).astype(np.float32)
    nodes = [helper.make_node("Add", ["x", "least"], ["a"]), helper.make_node("Add", ["a", "w"], ["b"]), helper.make_node("Add", ["b", "v"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 6])], [value("y", TensorProto.FLOAT, ["n", 6])],
                       [tensor("least", np.full(6, -1e38, np.float32)), tensor("w", w), tensor("v", w * w)])
    onnx.save(model, tmp_path / "m.onnx")
    assert "stopped: saturated" in run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx").stdout


def test_the_default_node_limit_goes_with_the_size_of_the_model(tmp_path):
    # Not true, but never cheaper: each Exp makes two more.
    rule = 'opset "" 20\nrule grow (X) => (Y)\n  { Y = Exp (X) }\n  =>\n  { a = Sin (X)\n    b = Cos (X)\n    A = Exp (a)\n    B = Exp (b)\n    Y = Add (A, B) }\n'
    (tmp_path / "grow.rules").write_text(rule)
    model = make_model([helper.make_node("Exp", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])
    onnx.save(model, tmp_path / "m.onnx")
    words = (tmp_path / "m.onnx", tmp_path / "o.onnx", "--rules", tmp_path / "grow.rules")
    of = lambda done: int(re.search(r"node limit after \d+ iterations; (\d+) e-nodes", done.stdout)[1])
    assert 5_000 < of(run_ok(*words)) < 11_000
    assert of(run_ok(*words, "--node-limit", 20_000)) > 15_000


# A length of 0 masks all: NaN by Softmax, numbers by Attention. Verification draws such lengths and must not take that for a mistake.
def test_lengths_that_mask_whole_rows_are_assumed_away(tmp_path):
    signature = "float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, int64[b] n => float[b,2,s,8] y"
    body = ("z = Constant <value_int = 0> ()  one = Constant <value_int = 1> ()  d = Shape <start = 2, end = 3> (k)  a0 = Constant <value_ints = [0]> ()  a = Constant <value_ints = [1]> ()  a3 = Constant <value_ints = [1, 2]> ()  "
            "s0 = Squeeze (d, a0)  r = Range (z, s0, one)  ru = Unsqueeze (r, a0)  nu = Unsqueeze (n, a)  g = GreaterOrEqual (ru, nu)  far = Constant <value = float {-inf}> ()  near = Constant <value_float = 0.0> ()  w = Where (g, far, near)  "
            "m = Unsqueeze (w, a3)  t = Transpose <perm = [0, 1, 3, 2]> (k)  u = MatMul (q, t)  c = Constant <value_float = 0.25> ()  x = Mul (u, c)  e = Add (x, m)  p = Softmax (e)  y = MatMul (p, v)")
    text = f'<ir_version: 8, opset_import: ["" : 18]> g ({signature.replace(" => ", ") => (")}) {{ {body} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    report = tmp_path / "r.json"
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", "ort-cpu", "--cost", "nodes", "--report", report)
    report = json.loads(report.read_text())
    assert report["after"]["fused"]["attention"] == 1
    assert "no_empty_row" in {a["assumption"] for a in report["assumed"]}


def test_a_gather_by_one_number_loses_its_axis(tmp_path):
    """What follows counts along the next one: two Gathers are one only where the first keeps its axis."""
    onnx.save(build("float[1,3,2,3] x => float[3,2,3] y", "i = Constant <value_int = 0> ()  j = Constant <value_ints = [2, 1, 0]> ()  g = Gather (x, i)  y = Gather (g, j)"), tmp_path / "in.onnx")
    run_ok("optimize", tmp_path / "in.onnx", "-o", tmp_path / "out.onnx", "--target", "ort-cpu", "--cost", "measured")


@pytest.mark.parametrize("activation, gemm", [("Identity", "Gemm"), ("Relu", "com.microsoft.FusedGemm")])
def test_linear_layers_can_be_gemms_of_rows(tmp_path, activation, gemm):
    """Where the cost model likes Gemm better than MatMul, a layer of rank 3 or 4 is one, too, also of open and of empty dims."""
    signature, nodes = "float[b,s,8] x, float[2,s,b,8] z => float[b,s,6] y, float[2,s,b,6] u", (
        f"w = Constant <value = float[8,6] {{{', '.join(str(i % 7 - 3.0) for i in range(48))}}}> ()  c = Constant <value_floats = [1.0, 2.0, 3.0, -4.0, 5.0, 6.0]> ()  "
        f"m = MatMul (x, w)  a = Add (c, m)  y = {activation} (a)  n = MatMul (z, w)  d = Add (n, c)  u = {activation} (d)")
    path, out, cost = tmp_path / "in.onnx", tmp_path / "out.onnx", tmp_path / "cost.json"
    onnx.save(build(signature, nodes), path)
    cost.write_text(json.dumps({"costs": {"MatMul": 9, "com.microsoft::FusedMatMul": 9}, "default": 1}))
    run_ok(path, out, "--target", "ort-cpu", "--cost", cost)
    got = counts(onnx.load(out))
    assert got[gemm] == 2 and got["MatMul"] == got["Add"] == 0, got
    sessions = [ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]) for p in (path, out)]
    for b, s in ((2, 3), (1, 5), (0, 3), (2, 0)):
        feeds = {"x": np.arange(b * s * 8, dtype=np.float32).reshape(b, s, 8) / 9 - 5, "z": np.ones((2, s, b, 8), np.float32)}
        for a, c in zip(*(session.run(None, feeds) for session in sessions)):
            assert a.shape == c.shape
            np.testing.assert_allclose(c, a, rtol=1e-5, atol=1e-5)


def test_inputs_of_one_name_and_two_sizes_run(tmp_path):
    """ONNX Runtime reuses memory of values whose dims have one name. Exports exist whose inputs share a name and not the size."""
    path, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(build("float[n] x, float[n] m => float[n] y", "a = Exp (m)  i = Constant <value_ints = [0]> ()  s = ReduceSum <keepdims = 1> (a, i)  b = Exp (x)  h = Sigmoid (b)  c = Mul (b, h)  y = Mul (c, s)"), path)
    run_ok(path, out, "--target", "ort-cpu")
    dims = {v.name: [d.dim_param for d in v.type.tensor_type.shape.dim] for v in onnx.load(out).graph.value_info}
    assert dims["a"] == ["n@m"]
    x, m = np.arange(5, dtype=np.float32), np.ones(3, np.float32)
    got = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"]).run(None, {"x": x, "m": m})[0]
    np.testing.assert_allclose(got, np.exp(x) / (1 + np.exp(-np.exp(x))) * 3 * np.exp(np.float32(1)), rtol=1e-5)
