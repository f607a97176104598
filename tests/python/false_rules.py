"""Rules that are false, each of a kind that a hand or a machine may write: what it is, its graph, and what it calls equal.

A graph is text of ONNX in which the model and the rule are written alike. `signed` ones end in two Negs, which the false side leaves out: so it
costs less, where its operators are those of the true one.
"""
import dataclasses


@dataclasses.dataclass
class False_:
    name: str
    inputs: dict  # name -> (type in the model, type in the rule's example)
    left: str
    right: str
    output: str = "float[n, m] Y"
    weights: str = ""  # of the model
    where: str = ""
    signed: bool = False


def number(name, text):
    return f"{name} = Constant <value_float = {text}> ()  "


def ints(name, text):
    return f"{name} = Constant <value_ints = [{text}]> ()  "


X = {"X": ("float[n, m]", "float[2,3]")}
X8 = {"X": ("float[n, 8]", "float[2,8]")}
X88 = {"X": ("float[n, 8, 8]", "float[2,8,8]")}
IMAGE = {"X": ("float[n, 4, 8, 8]", "float[1,4,8,8]")}
AB = {"A": ("float[n, m]", "float[2,3]"), "B": ("float[n, m]", "float[2,3]")}
I32 = {"X": ("int32[n, m]", "int32[2,3]")}
I64 = {"X": ("int64[n, m]", "int64[2,3]")}
LAST = ints("Last", "-1")


def f(name, inputs, left, right, output="float[n, m] Y", **more):
    return False_(name, inputs, left, right, output, **more)


def signed(name, inputs, left, right, output="float[n, m] Y", **more):
    return f(name, inputs, left + "  N = Neg (P)  Y = Neg (N)", right, output, signed=True, **more)


def seen(name, inputs, right, output="float[n, m] Y", **more):
    """X is called equal to something that it nearly is."""
    return f(name, inputs, "N = Neg (X)  Y = Neg (N)", right, output, signed=True, **more)


X64 = "int64[n, m] Y"
X32 = "int32[n, m] Y"
ONE_HOT = "float[32, 2] T = {" + ", ".join(str(i / 8) for i in range(64)) + "}"
SCALES8 = "float[8] S = {" + ", ".join(str(1 + i / 8) for i in range(8)) + "}"
SQUARE4 = "float[4, 4] W = {" + ", ".join(str((7 * i % 16) / 8 - 1) for i in range(16)) + "}"
KERNEL = "float[4, 4, 3, 3] W = {" + ", ".join(str((29 * i % 144) / 72 - 1) for i in range(144)) + "}"

FALSE_RULES = [
    # Cut off, narrowed, through another type
    *(f(f"clip at {top}", X, "Y = Relu (X)", number("Z", "0.0") + number("C", top) + "R = Max (X, Z)  Y = Min (R, C)") for top in ("6.0", "1000.0", "20000.0")),
    seen("clip at 1e6", X, number("C", "1000000.0") + number("D", "-1000000.0") + "U = Min (X, C)  Y = Max (U, D)"),
    seen("clip at 777 from below", X, number("D", "-777.0") + "Y = Max (X, D)"),
    seen("int64 through int32", I64, "A = Cast <to = 6> (X)  Y = Cast <to = 7> (A)", X64),
    seen("int64 through double", I64, "A = Cast <to = 11> (X)  Y = Cast <to = 7> (A)", X64),
    seen("int64 through float", I64, "A = Cast <to = 1> (X)  Y = Cast <to = 7> (A)", X64),
    seen("int32 through float", I32, "A = Cast <to = 1> (X)  Y = Cast <to = 6> (A)", X32),
    seen("int32 through int16", I32, "A = Cast <to = 5> (X)  Y = Cast <to = 6> (A)", X32),
    f("int32 through uint8", I32, "Y = Abs (X)", "A = Cast <to = 2> (X)  Y = Cast <to = 6> (A)", X32),
    seen("int64 clipped at 3e9", I64, "C = Constant <value_int = 3000000000> ()  Y = Min (X, C)", X64),
    f("a difference of doubles in float", {"A": ("double[n, m]", "double[2,3]"), "B": ("double[n, m]", "double[2,3]")}, "Y = Sub (A, B)", "C = Cast <to = 1> (A)  D = Cast <to = 1> (B)  E = Neg (D)  F = Add (C, E)  Y = Cast <to = 11> (F)", "double[n, m] Y"),
    f("float16 left out", X, "H = Cast <to = 10> (X)  Y = Cast <to = 1> (H)", "Y = Identity (X)"),
    f("bfloat16 left out", X, "H = Cast <to = 16> (X)  Y = Cast <to = 1> (H)", "Y = Identity (X)"),
    seen("float through float16", X, "H = Cast <to = 10> (X)  Y = Cast <to = 1> (H)"),
    seen("float through bfloat16", X, "H = Cast <to = 16> (X)  Y = Cast <to = 1> (H)"),
    f("uint8 wraps", {"A": ("uint8[n, m]", "uint8[2,3]"), "B": ("uint8[n, m]", "uint8[2,3]")}, "Y = Add (A, B)",
      "C = Cast <to = 6> (A)  D = Cast <to = 6> (B)  G = Neg (D)  S = Sub (C, G)  T = Constant <value_int = 255> ()  M = Min (S, T)  Y = Cast <to = 2> (M)", "uint8[n, m] Y"),
    # Long and short rows
    *(f(f"rows cut at {end}", X, LAST + "Y = ReduceSum <keepdims = 1> (X, Last)",
        LAST + ints("First", "0") + ints("End", end) + "C = Slice (X, First, End, Last)  M = ReduceMean <keepdims = 1> (C, Last)  S = Shape <start = 1> (C)  F = Cast <to = 1> (S)  Y = Mul (M, F)", "float[n, 1] Y") for end in ("64", "128", "512", "2048")),
    f("columns cut at 512", X, ints("Ax", "0") + "Y = ReduceMax <keepdims = 1> (X, Ax)", ints("Ax", "0") + ints("End", "512") + "C = Slice (X, Ax, End, Ax)  G = Neg (C)  M = ReduceMin <keepdims = 1> (G, Ax)  Y = Neg (M)", "float[1, m] Y"),
    f("the last element forgotten", X8, LAST + "Y = ReduceMax <keepdims = 1> (X, Last)",
      LAST + ints("First", "0") + "C = Slice (X, First, Last, Last)  E = Neg (C)  M = ReduceMin <keepdims = 1> (E, Last)  Y = Neg (M)", "float[n, 1] Y"),
    f("the first element forgotten", X8, LAST + "Y = ReduceSum <keepdims = 1> (X, Last)",
      LAST + ints("First", "1") + ints("End", "8") + "C = Slice (X, First, End, Last)  M = ReduceMean <keepdims = 1> (C, Last)  K = Constant <value_float = 7.0> ()  Y = Mul (M, K)", "float[n, 1] Y"),
    # Factors and offsets
    seen("a factor of 1.0002", X, number("C", "1.0002") + "Y = Mul (X, C)"),
    f("a factor of 1.03 in half", {"X": ("float16[n, m]", "float16[2,3]")}, "N = Neg (X)  Y = Neg (N)", number("C", "1.03") + "Y = Mul (X, C)", "float16[n, m] Y", signed=True),
    seen("5e-5 added", X, number("C", "0.00005") + "Y = Add (X, C)"),
    seen("1e-7 added", X, number("C", "0.0000001") + "Y = Add (X, C)"),
    seen("small numbers are 0", X, number("C", "0.00001") + number("Z", "0.0") + "A = Abs (X)  L = Less (A, C)  Y = Where (L, Z, X)"),
    seen("beside a million", X, number("C", "1000000.0") + "A = Add (X, C)  Y = Sub (A, C)"),
    seen("beside a thousand", X, number("C", "1024.0") + "A = Add (X, C)  Y = Sub (A, C)"),
    f("a third is 0.333", {**AB, "C": ("float[n, m]", "float[2,3]")}, "Y = Mean (A, B, C)", number("T", "0.333") + "S = Sum (A, B, C)  Y = Mul (S, T)"),
    # Epsilons
    f("epsilon under a logarithm", X, "P = Mul (X, X)  " + number("E", "1e-10") + "A = Add (P, E)  Y = Log (A)", "P = Mul (X, X)  Y = Log (P)"),
    f("epsilon of silence", X, "P = Abs (X)  " + number("E", "1e-6") + "A = Max (P, E)  Y = Log (A)", "P = Abs (X)  Y = Log (P)"),
    signed("epsilon of a layer norm", X8, "P = LayerNormalization <axis = -1, epsilon = 1e-5> (X, S)", "Y = LayerNormalization <axis = -1, epsilon = 1e-12> (X, S)", "float[n, 8] Y", weights=SCALES8),
    signed("another epsilon of a layer norm", X8, "P = LayerNormalization <axis = -1, epsilon = 1e-5> (X, S)", "Y = LayerNormalization <axis = -1, epsilon = 1e-6> (X, S)", "float[n, 8] Y", weights=SCALES8),
    f("epsilon of a root mean square", X8, LAST + number("E", "1e-6") + "P = Mul (X, X)  M = ReduceMean (P, Last)  A = Add (M, E)  R = Sqrt (A)  Y = Div (X, R)",
      LAST + "P = Mul (X, X)  M = ReduceMean (P, Last)  R = Sqrt (M)  Y = Div (X, R)", "float[n, 8] Y"),
    f("epsilon of a length", X8, LAST + number("E", "1e-12") + "L = ReduceL2 (X, Last)  M = Max (L, E)  Y = Div (X, M)", LAST + "L = ReduceL2 (X, Last)  Y = Div (X, L)", "float[n, 8] Y"),
    signed("epsilon of an instance norm", {"X": ("float[n, 2, 8]", "float[1,2,8]")}, "P = InstanceNormalization <epsilon = 1e-5> (X, S, B)", "Y = InstanceNormalization <epsilon = 1e-9> (X, S, B)", "float[n, 2, 8] Y", weights="float[2] S = {1, 2}, float[2] B = {0, 1}"),
    f("a root beside 0", X, number("E", "1e-12") + "P = Mul (X, X)  A = Add (P, E)  Y = Sqrt (A)", "Y = Abs (X)"),
    f("the mean forgotten", X8, "Y = LayerNormalization <axis = -1, epsilon = 1e-5> (X, S)", LAST + number("E", "1e-5") + "P = Mul (X, X)  M = ReduceMean (P, Last)  A = Add (M, E)  R = Sqrt (A)  D = Div (X, R)  Y = Mul (D, S)", "float[n, 8] Y", weights=SCALES8),
    f("a variance by squares", X8, LAST + "M = ReduceMean (X, Last)  D = Sub (X, M)  Q = Mul (D, D)  Y = ReduceMean (Q, Last)",
      LAST + "A = Mul (X, X)  B = ReduceSum (A, Last)  K = Constant <value_float = 8.0> ()  C = Div (B, K)  M = ReduceSum (X, Last)  N = Div (M, K)  P = Mul (N, N)  Y = Sub (C, P)", "float[n, 1] Y"),
    # Rounding and ties
    f("round half up", X, "Y = Round (X)", number("H", "0.5") + "A = Add (X, H)  Y = Floor (A)"),
    f("ceil is floor and one", X, "Y = Ceil (X)", number("H", "1.0") + "A = Floor (X)  Y = Add (A, H)"),
    signed("truncation is floor", X, "P = Cast <to = 6> (X)", "A = Floor (X)  Y = Cast <to = 6> (A)", X32),
    f("the sign of 0", X, "Y = Sign (X)", number("Z", "0.0") + number("One", "1.0") + number("M", "-1.0") + "A = GreaterOrEqual (X, Z)  Y = Where (A, One, M)"),
    signed("the last of equals", X, "P = ArgMax <axis = -1> (X)", "Y = ArgMax <axis = -1, select_last_index = 1> (X)", "int64[n, 1] Y"),
    signed("the last of the least", X, "P = ArgMin <axis = -1> (X)", "Y = ArgMin <axis = -1, select_last_index = 1> (X)", "int64[n, 1] Y"),
    f("less or equal to a constant", X, number("C", "0.1") + "Y = Less (X, C)", number("C", "0.1") + "G = Greater (X, C)  Y = Not (G)", "bool[n, m] Y"),
    f("equal is near", X, number("C", "0.3") + "Y = Equal (X, C)", number("C", "0.3") + number("E", "0.001") + "D = Sub (X, C)  A = Abs (D)  Y = Less (A, E)", "bool[n, m] Y"),
    f("greater or equal", AB, "Y = Greater (A, B)", "L = Less (A, B)  Y = Not (L)", "bool[n, m] Y"),
    f("an integer compared", I32, "Y = Less (X, C)", "G = Greater (X, C)  Y = Not (G)", "bool[n, m] Y", weights="int32 C = {5000}"),
    signed("a threshold includes itself", X, "P = ThresholdedRelu <alpha = 1.0> (X)", number("C", "1.0") + number("Z", "0.0") + "A = GreaterOrEqual (X, C)  Y = Where (A, X, Z)"),
    f("division rounds down", {"A": ("int32[n, m]", "int32[2,3]")}, "Y = Div (A, C)",
      "M = Mod (A, C)  S = Sub (A, M)  D = Cast <to = 11> (S)  G = Cast <to = 11> (C)  Q = Reciprocal (G)  H = Mul (D, Q)  I = Round (H)  Y = Cast <to = 6> (I)", X32, weights="int32 C = {7}"),
    signed("the remainder's sign", I32, "P = Mod (X, C)", "Y = Mod <fmod = 1> (X, C)", X32, weights="int32 C = {7}"),
    # Quantizers
    f("a quantizer rounds up", X, "Y = QuantizeLinear (X, S, Z)", number("H", "0.5") + number("Top", "255.0") + number("Low", "0.0") + "D = Div (X, S)  A = Add (D, H)  F = Floor (A)  G = Cast <to = 1> (Z)  B = Add (F, G)  C = Min (B, Top)  E = Max (C, Low)  Y = Cast <to = 2> (E)", "uint8[n, m] Y",
      weights="float S = {0.5}, uint8 Z = {128}"),
    f("a quantizer does not cut off", X, "Q = QuantizeLinear (X, S, Z)  Y = DequantizeLinear (Q, S, Z)", "D = Div (X, S)  R = Round (D)  Y = Mul (R, S)", weights="float S = {0.02}, int8 Z = {0}"),
    f("a zero point beside its place", X, "Q = QuantizeLinear (X, S, Z)  Y = DequantizeLinear (Q, S, Z)", number("K", "127.0") + "Q = QuantizeLinear (X, S, Z)  D = Cast <to = 1> (Q)  F = Sub (D, K)  Y = Mul (F, S)", weights="float S = {0.02}, uint8 Z = {128}"),
    # Axes, layout, order
    signed("softmax along another axis", X88, "P = Softmax <axis = -1> (X)", "Y = Softmax <axis = -2> (X)", "float[n, 8, 8] Y"),
    f("a transpose is a view", X88, "Y = Transpose <perm = [0, 2, 1]> (X)", "S = Shape (X)  Y = Reshape (X, S)", "float[n, 8, 8] Y"),
    signed("a mean along another axis", X88, LAST + "P = ReduceMean <keepdims = 0> (X, Last)", ints("Ax", "-2") + "Y = ReduceMean <keepdims = 0> (X, Ax)", "float[n, 8] Y"),
    signed("parts change places", AB, "P = Concat <axis = -1> (A, B)", "Y = Concat <axis = -1> (B, A)", "float[n, k] Y"),
    signed("a square matrix the other way", {"X": ("float[n, 4]", "float[2,4]")}, "P = Gemm <transB = 1> (X, W)", "Y = Gemm (X, W)", "float[n, 4] Y", weights=SQUARE4),
    signed("depth before column", {"X": ("float[n, 8, 4, 4]", "float[1,8,4,4]")}, "P = DepthToSpace <blocksize = 2, mode = \"DCR\"> (X)", "Y = DepthToSpace <blocksize = 2, mode = \"CRD\"> (X)", "float[n, 2, 8, 8] Y"),
    signed("a sum from the other end", X, LAST + "P = CumSum (X, Last)", LAST + "Y = CumSum <reverse = 1> (X, Last)"),
    signed("a sum without itself", X, LAST + "P = CumSum (X, Last)", LAST + "Y = CumSum <exclusive = 1> (X, Last)"),
    signed("a row beside the diagonal", X88, "P = Trilu <upper = 0> (X)", "K = Constant <value_int = 1> ()  Y = Trilu <upper = 0> (X, K)", "float[n, 8, 8] Y"),
    signed("above the diagonal", X88, "P = Trilu <upper = 1> (X)", "K = Constant <value_int = 1> ()  Y = Trilu <upper = 1> (X, K)", "float[n, 8, 8] Y"),
    # Windows
    signed("padding on the other side", IMAGE, "P = Conv <pads = [1, 1, 0, 0], kernel_shape = [3, 3], strides = [1, 1], dilations = [1, 1]> (X, W)", "Y = Conv <pads = [0, 0, 1, 1], kernel_shape = [3, 3], strides = [1, 1], dilations = [1, 1]> (X, W)", "float[n, 4, 7, 7] Y", weights=KERNEL),
    signed("padding counts", IMAGE, "P = AveragePool <kernel_shape = [3, 3], strides = [1, 1], dilations = [1, 1], pads = [1, 1, 1, 1]> (X)", "Y = AveragePool <kernel_shape = [3, 3], strides = [1, 1], dilations = [1, 1], pads = [1, 1, 1, 1], count_include_pad = 1> (X)", "float[n, 4, 8, 8] Y"),
    signed("reflected is repeated", X8, ints("Pads", "0, 2, 0, 1") + "P = Pad <mode = \"reflect\"> (X, Pads)", ints("Pads", "0, 2, 0, 1") + "Y = Pad <mode = \"edge\"> (X, Pads)", "float[n, 11] Y"),
    signed("padding before is padding behind", X8, ints("Pads", "0, 1, 0, 0") + "P = Pad (X, Pads)", ints("Pads", "0, 0, 0, 1") + "Y = Pad (X, Pads)", "float[n, 9] Y"),
    signed("nearest of another half", IMAGE, "P = Resize <mode = \"nearest\"> (X, , Sc)", "Y = Resize <mode = \"nearest\", nearest_mode = \"ceil\"> (X, , Sc)", "float[n, 4, 12, 12] Y", weights="float[4] Sc = {1, 1, 1.5, 1.5}"),
    signed("corners aligned", IMAGE, "P = Resize <mode = \"linear\"> (X, , Sc)", "Y = Resize <mode = \"linear\", coordinate_transformation_mode = \"align_corners\"> (X, , Sc)", "float[n, 4, 16, 16] Y", weights="float[4] Sc = {1, 1, 2, 2}"),
    f("a pool of half a picture", IMAGE, "Y = GlobalAveragePool (X)", ints("Ax", "2") + ints("First", "0") + ints("End", "4") + ints("Both", "2, 3") + "C = Slice (X, First, End, Ax)  Y = ReduceMean (C, Both)", "float[n, 4, 1, 1] Y"),
    # Tables and ids
    signed("ids have no sign", {"I": ("int64[n, m]", "int64[2,3] {0,1,2,3,4,5}")}, "P = Gather (T, I)", "J = Abs (I)  Y = Gather (T, J)", "float[n, m, 2] Y", weights=ONE_HOT),
    signed("the last row is the one before", {"I": ("int64[n, m]", "int64[2,3] {0,1,2,3,4,5}")}, "P = Gather (T, I)", "C = Constant <value_int = 30> ()  J = Min (I, C)  Y = Gather (T, J)", "float[n, m, 2] Y", weights=ONE_HOT),
    signed("doubles are counted once", {"X": ("float[n, 8]", "float[2,8]"), "U": ("float[n, 8]", "float[2,8]")},
           "Sh = Shape (U)  I = Expand (J, Sh)  P = ScatterElements <axis = -1, reduction = \"add\"> (X, I, U)", "Sh = Shape (U)  I = Expand (J, Sh)  Y = ScatterElements <axis = -1> (X, I, U)", "float[n, 8] Y",
           weights="int64[1, 8] J = {0, 1, 2, 3, 3, 4, 5, 6}"),
    # Functions
    f("gelu by sigmoid", X, "Y = Gelu (X)", number("C", "1.702") + "M = Mul (X, C)  S = Sigmoid (M)  Y = Mul (X, S)"),
    signed("gelu by tanh", X, "P = Gelu (X)", "Y = Gelu <approximate = \"tanh\"> (X)"),
    f("softplus is relu far from 0", X, "Y = Softplus (X)", number("Z", "0.0") + "Y = Max (X, Z)"),
    f("a logarithm beside one", X8, number("One", "1.0") + "A = Abs (X)  B = Add (A, One)  Y = Log (B)", number("H", "0.5") + "A = Abs (X)  Q = Mul (A, A)  R = Mul (Q, H)  Y = Sub (A, R)", "float[n, 8] Y"),
    f("a cap of 30", X, number("C", "30.0") + "D = Div (X, C)  T = Tanh (D)  Y = Mul (T, C)", "Y = Identity (X)"),
    f("a cap of 1000", X, number("C", "1000.0") + "D = Div (X, C)  T = Tanh (D)  Y = Mul (T, C)", "Y = Identity (X)"),
    f("a period of 6.2832", X, "Y = Sin (X)", number("C", "6.2832") + "A = Mod <fmod = 1> (X, C)  H = Constant <value_float = 1.5707964> ()  E = Sub (A, H)  Y = Cos (E)"),
    f("an odd power", X, number("C", "3.0") + "Y = Pow (X, C)", "A = Abs (X)  B = Mul (X, X)  Y = Mul (A, B)"),
    signed("another slope of a sigmoid", X, "P = HardSigmoid <alpha = 0.2> (X)", "Y = HardSigmoid <alpha = 0.16666667> (X)"),
    f("a hard swish that ends early", X, "Y = HardSwish (X)", number("S", "0.16666667") + number("H", "0.5") + number("Top", "0.99") + number("Z", "0.0") + "A = Mul (X, S)  B = Add (A, H)  C = Min (B, Top)  D = Max (C, Z)  Y = Mul (X, D)"),
    signed("selu of rounded constants", X, "P = Selu (X)", "Y = Selu <alpha = 1.67, gamma = 1.05> (X)"),
    signed("another alpha of elu", X, "P = Elu (X)", "Y = Elu <alpha = 0.99> (X)"),
    signed("length by another norm", X8, "P = LpNormalization <axis = -1, p = 2> (X)", "Y = LpNormalization <axis = -1, p = 1> (X)", "float[n, 8] Y"),
    f("a product in half", {"X": ("float[n, 4]", "float[2,4]")}, "Y = MatMul (X, W)", "A = Cast <to = 10> (X)  B = Cast <to = 10> (W)  C = Gemm (A, B)  Y = Cast <to = 1> (C)", "float[n, 4] Y", weights=SQUARE4),
    f("a sum in half", X8, LAST + "Y = ReduceSum (X, Last)", LAST + "A = Cast <to = 10> (X)  B = ReduceMean (A, Last)  K = Constant <value_float = 8.0> ()  C = Mul (B, K)  Y = Cast <to = 1> (C)", "float[n, 1] Y"),
    f("a product of integers in float", I32, "Y = Mul (X, C)", "A = Cast <to = 1> (X)  B = Cast <to = 1> (C)  D = Reciprocal (B)  F = Div (A, D)  Y = Cast <to = 6> (F)", X32, weights="int32 C = {3}"),
]
