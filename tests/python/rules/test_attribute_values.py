"""Values and defaults of attributes by version of their operators: onnx_bridge/operators/attribute_values.inc, and ONNX Runtime as the judge."""
import collections

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, defs, helper

from conftest import ROOT, make_model, run, run_ok, value

F, I, U8, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.UINT8, TensorProto.STRING
NEWEST = 25  # that ONNX Runtime 1.31 loads
OLDEST = 7


def rows():
    """The table: values and those that are only read, by operator and attribute, version by version."""
    out = collections.defaultdict(dict)
    for line in (ROOT / "onnx_bridge" / "operators" / "attribute_values.inc").read_text().splitlines()[1:-1]:
        if line and not line.startswith("#"):
            op, attribute, since, values = line.split()
            out[op, attribute][int(since)] = [v.lstrip("+") for v in values.split(",")]
    return out


TABLE = rows()
WINDOW = ([(F, [1, 1, 5, 5])], [], {"kernel_shape": [2, 2]})
IMAGE_AND_WEIGHTS = ([(F, [1, 1, 5, 5]), (F, [1, 1, 2, 2])], [], {})
SCORES = ([(F, [3, 5]), (I, [3])], [], {})


def recurrent(gates):
    return lambda opset, attribute, text: (([(F, [2, 1, 3]), (F, [1 + (text == "bidirectional"), gates * 4, 3]),
                                             (F, [1 + (text == "bidirectional"), gates * 4, 4])], [], {"hidden_size": 4}))


def pad(opset, attribute, text):
    return ([(F, [3, 3])], [], {"pads": [1] * 4}) if opset < 11 else ([(F, [3, 3])], [np.array([1] * 4)], {})


def resize(opset, attribute, text):
    twice = np.array([1, 1, 2, 2], np.float32)
    if opset < 11:
        return [(F, [1, 1, 3, 3])], [twice], {}
    if attribute == "keep_aspect_ratio_policy":
        return [(F, [1, 1, 3, 3])], [None, None, np.array([1, 1, 6, 6])], {}
    region = np.array([0] * 4 + [1] * 4, np.float32)
    return [(F, [1, 1, 3, 3])], [region, twice], {"mode": "linear"} if attribute == "coordinate_transformation_mode" else {}


def upsample(opset, attribute, text):
    return ([(F, [1, 1, 3, 3])], [], {"scales": [1., 1., 2., 2.]}) if opset < 9 else ([(F, [1, 1, 3, 3])], [np.array([1, 1, 2, 2], np.float32)], {})


# Inputs that are fed, constants behind them and other attributes, of operators that ONNX Runtime has on the CPU.
CASES = {
    "AveragePool": WINDOW, "MaxPool": WINDOW, "LpPool": WINDOW, "Conv": IMAGE_AND_WEIGHTS, "ConvTranspose": IMAGE_AND_WEIGHTS,
    "ConvInteger": ([(U8, [1, 1, 5, 5]), (U8, [1, 1, 2, 2])], [], {}), "BitShift": ([(U8, [3]), (U8, [3])], [], {}),
    "DepthToSpace": ([(F, [1, 4, 2, 2])], [], {"blocksize": 2}), "GRU": recurrent(3), "LSTM": recurrent(4), "RNN": recurrent(1),
    "Gelu": ([(F, [3])], [], {}), "GridSample": ([(F, [1, 1, 3, 3]), (F, [1, 2, 2, 2])], [], {}), "Pad": pad, "Resize": resize, "Upsample": upsample,
    "NegativeLogLikelihoodLoss": SCORES, "SoftmaxCrossEntropyLoss": SCORES, "RoiAlign": ([(F, [1, 1, 5, 5]), (F, [1, 4]), (I, [1])], [], {}),
    "ScatterElements": ([(F, [3, 3]), (I, [1, 3]), (F, [1, 3])], [], {}), "ScatterND": ([(F, [3, 3]), (I, [1, 1]), (F, [1, 3])], [], {}),
    "TensorScatter": ([(F, [1, 1, 4, 2]), (F, [1, 1, 1, 2]), (I, [1])], [], {}),
    "TfIdfVectorizer": ([(I, [4])], [], {"max_gram_length": 1, "max_skip_count": 0, "min_gram_length": 1, "ngram_counts": [0], "ngram_indexes": [0, 1],
                                         "pool_int64s": [2, 3]}),
}
# Others: ONNX Runtime has no CPU kernel, numpy no type, or the table has no more than the text of a new operator.
NOT_RUN = {"Cast", "CastLike", "CausalConvWithState", "ImageDecoder", "LinearAttention", "QLinearConv", "SpaceToDepth", "StringNormalizer"}
# Of these ONNX Runtime reads any text as one of those it knows, so that it tells nothing about what is unknown.
TAKES_ANYTHING = {("NegativeLogLikelihoodLoss", "reduction"), ("SoftmaxCrossEntropyLoss", "reduction"), ("ScatterElements", "reduction"),
                  ("ScatterND", "reduction"), ("RoiAlign", "coordinate_transformation_mode"), ("RoiAlign", "mode")}
NO_KERNEL = {("RoiAlign", 22)}


def versions(op):
    schemas = [s for s in defs.get_all_schemas_with_history() if s.domain == "" and s.name == op]
    ends = sorted(s.since_version for s in schemas)
    return [max(s.since_version, OLDEST) for s in schemas if not s.deprecated and s.since_version <= NEWEST
            and not any(s.since_version < later <= OLDEST for later in ends)]


def case(op, opset, attribute, text):
    made = CASES[op]
    return made(opset, attribute, text) if callable(made) else made


def model_of(op, opset, attribute=None, text=None):
    fed, constants, attributes = case(op, opset, attribute, text)
    names = [f"x{i}" for i in range(len(fed))] + ["" if c is None else f"c{i}" for i, c in enumerate(constants)]
    given = {} if attribute is None else {attribute: text}
    node = helper.make_node(op, names, ["y"], **{**attributes, **given})
    return make_model([node], [value(f"x{i}", t, s) for i, (t, s) in enumerate(fed)], [value("y", {"BitShift": U8, "ConvInteger": TensorProto.INT32}.get(op, F), None)],
                      [onnx.numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants) if c is not None], opset=opset)


def feeds_of(model):
    """Floats that are not alike, indices of 0."""
    out = {}
    for place, i in enumerate(model.graph.input):
        shape, dtype = [d.dim_value for d in i.type.tensor_type.shape.dim], helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        out[i.name] = np.zeros(shape, dtype) if dtype == np.int64 else (np.arange(np.prod(shape)).reshape(shape) % 7 / 4 - place).clip(0).astype(dtype)
    return out


def in_onnxruntime(model):
    """Its output; the reason where it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds_of(model))[0]
    except Exception as error:  # of several kinds
        return str(error)


def test_the_table_has_every_attribute():
    """Each string attribute of the standard whose text tells its values, and none that is no more."""
    told = {(s.name, n) for s in defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated for n, a in s.attributes.items()
            if a.type == defs.OpSchema.AttrType.STRING}
    free = {("Cast", "to"), ("Constant", "value_string"), ("Einsum", "equation"), ("RegexFullMatch", "pattern"), ("StringNormalizer", "locale"),
            ("StringSplit", "delimiter")}
    assert set(TABLE) == told - free
    assert {op for op, _ in TABLE} <= set(CASES) | NOT_RUN
    for s in defs.get_all_schemas_with_history():
        for (op, attribute), by_version in TABLE.items():
            if s.domain == "" and s.name == op and not s.deprecated and s.since_version >= OLDEST and attribute in s.attributes:
                default = helper.get_attribute_value(s.attributes[attribute].default_value) if s.attributes[attribute].default_value.type else None
                known = by_version[max(v for v in by_version if v <= s.since_version)]
                assert default is None or default.decode() in known, (op, attribute, s.since_version)
                assert all(v in " ".join(s.attributes[attribute].description.split()) for v in written_values(op, attribute, s.since_version)), (op, s.since_version)


def written_values(op, attribute, version):
    lines = [line.split() for line in (ROOT / "onnx_bridge" / "operators" / "attribute_values.inc").read_text().splitlines()]
    found = [w for w in lines if w[:2] == [op, attribute] and int(w[2]) <= version]
    return [v for v in max(found, key=lambda w: int(w[2]))[3].split(",") if not v.startswith("+")]


@pytest.mark.parametrize("op, attribute", [key for key in TABLE if key[0] in CASES])
def test_values_that_onnxruntime_takes(op, attribute):
    by_version = TABLE[op, attribute]
    every = list(dict.fromkeys(v for values in by_version.values() for v in values))
    for opset in versions(op):
        if opset < min(by_version) or (op, opset) in NO_KERNEL:
            continue
        known = by_version[max(v for v in by_version if v <= opset)]
        for text in [*every, every[0].swapcase(), "bogus"]:
            said = in_onnxruntime(model_of(op, opset, attribute, text))
            if text in known:
                assert not isinstance(said, str), (opset, text, said)
            elif (op, attribute) not in TAKES_ANYTHING:
                assert isinstance(said, str), (opset, text)


@pytest.mark.parametrize("op, attribute", [key for key in TABLE if key[0] in CASES])
def test_our_kernels_know_the_same(tmp_path, op, attribute):
    for opset in versions(op):
        if opset < min(TABLE[op, attribute]):
            continue
        known = TABLE[op, attribute][max(v for v in TABLE[op, attribute] if v <= opset)]
        for text in (known[-1], "bogus"):
            model = model_of(op, opset, attribute, text)
            onnx.save(model, tmp_path / "m.onnx")
            np.savez(tmp_path / "in.npz", **feeds_of(model))
            done = run("run", "m.onnx", "--inputs", "in.npz", cwd=tmp_path)
            assert (done.returncode == 0) == (text != "bogus"), (opset, text, done.stderr)
            assert text != "bogus" or f"{attribute} is 'bogus', which opset {opset} does not know" in done.stderr, done.stderr


def changed_defaults():
    """Operators and attributes whose default differs between two versions, from the schemas."""
    known = collections.defaultdict(list)
    for s in sorted(defs.get_all_schemas_with_history(), key=lambda s: s.since_version):
        if s.domain == "" and not s.deprecated:
            known[s.name].append(s)
    for op, schemas in known.items():
        for old, new in zip(schemas, schemas[1:]):
            for name in set(old.attributes) & set(new.attributes):
                a, b = (s.attributes[name].default_value for s in (old, new))
                if new.since_version > OLDEST and a.SerializeToString() != b.SerializeToString():
                    yield op, name, max(old.since_version, OLDEST), new.since_version


CHANGED = sorted(changed_defaults())
CASES |= {op: ([(F, [2, 3, 4])], [], {}) for op in ("Softmax", "LogSoftmax", "Hardmax")}


def test_changed_defaults_are_known():
    assert [(op, name) for op, name, *_ in CHANGED] == [("GridSample", "mode"), ("Hardmax", "axis"), ("LogSoftmax", "axis"), ("Softmax", "axis")]


@pytest.mark.parametrize("op, name, before, after", CHANGED)
@pytest.mark.parametrize("up", [True, False])
def test_changed_defaults(tmp_path, op, name, before, after, up):
    """A node that does not say the attribute computes the same in the other version."""
    own, other = (before, after) if up else (after, before)
    model = model_of(op, own)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "onnx", "--opset", other, cwd=tmp_path)
    made = onnx.load(tmp_path / "o.onnx")
    assert made.opset_import[0].version == other
    np.testing.assert_allclose(in_onnxruntime(made), in_onnxruntime(model), rtol=1e-6)


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("own, other", [(20, 16), (20, 17), (22, 19), (16, 20), (16, 22)])
def test_modes_of_grid_sample(tmp_path, mode, own, other):
    model = model_of("GridSample", own, "mode", mode if own >= 20 or mode == "nearest" else "bi" + mode)
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "onnx", "--opset", other, cwd=tmp_path)
    np.testing.assert_allclose(in_onnxruntime(onnx.load(tmp_path / "o.onnx")), in_onnxruntime(model), rtol=1e-6)


@pytest.mark.parametrize("op, attribute, text, own, other", [("Pad", "mode", "wrap", 19, 18), ("ScatterElements", "reduction", "max", 18, 17),
                                                             ("ScatterND", "reduction", "min", 18, 16),
                                                             ("Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19, 18)])
def test_values_that_an_older_opset_lacks(tmp_path, op, attribute, text, own, other):
    onnx.save(model_of(op, own, attribute, text), tmp_path / "m.onnx")
    done = run("m.onnx", "-o", "o.onnx", "--target", "onnx", "--opset", other, cwd=tmp_path)
    assert done.returncode == 1 and text in done.stderr and not (tmp_path / "o.onnx").exists(), done.stderr
