"""External data as safetensors: read as any other, written in the same format, with names, dtypes and shapes that its own readers take."""

import json
import math
import struct

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import DATA, assert_refused, listing, make_model, run, run_ok, value
from onnx import TensorProto, helper, numpy_helper

F32 = TensorProto.FLOAT
BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8}


def read(path):
    """Header and tensors, as https://github.com/huggingface/safetensors wants them: no gap, no overlap, each of the length that it tells."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert (8 + length) % 8 == 0 and data[8:9] == b"{"
    header = json.loads(data[8 : 8 + length], object_pairs_hook=lambda pairs: dict(pairs) if len(pairs) == len({k for k, _ in pairs}) else pytest.fail("a name twice"))
    assert header.pop("__metadata__") == {"format": "onnx"}
    at, out = 0, {}
    for name, told in header.items():
        begin, end = told["data_offsets"]
        assert begin == at and end - begin == BYTES[told["dtype"]] * math.prod(told["shape"]), name
        assert begin % BYTES[told["dtype"]] == 0, name
        at, out[name] = end, (told["dtype"], told["shape"], data[8 + length + begin : 8 + length + end])
    assert 8 + length + at == len(data)
    return out


def references(model):
    return {entry.value for t in model.graph.initializer for entry in t.external_data if entry.key == "location"}


def loaded_equal(path, data):
    """The tensors of the model's file as onnx reads them are those of the data file under their names, and ONNX Runtime loads it."""
    held = read(data)
    assert references(onnx.load(path, load_external_data=False)) == {data.name}
    tensors = {t.name: t for t in onnx.load(path).graph.initializer}
    assert len(held) > 5 and held.keys() <= tensors.keys()
    for name, (_, _, data) in held.items():
        assert tensors[name].raw_data == data, name
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_written_kept_and_changed(tmp_path):
    run_ok(DATA / "bart_encoder.onnx", "-o", tmp_path / "a.onnx", "--external-data-format", "safetensors")
    first = loaded_equal(tmp_path / "a.onnx", tmp_path / "a.onnx.safetensors")
    assert not (tmp_path / "a.onnx.data").exists()
    feeds = {"input_ids": np.arange(8).reshape(1, 8), "attention_mask": np.ones((1, 8), np.int64)}
    expected = first.run(None, {i.name: feeds[i.name] for i in first.get_inputs()})

    run_ok("transform", tmp_path / "a.onnx", "-o", tmp_path / "b.onnx", "--pass", "strip_metadata")
    kept = loaded_equal(tmp_path / "b.onnx", tmp_path / "b.onnx.safetensors")
    for left, right in zip(expected, kept.run(None, {i.name: feeds[i.name] for i in kept.get_inputs()}), strict=True):
        np.testing.assert_array_equal(left, right)

    run_ok("transform", tmp_path / "a.onnx", "-o", tmp_path / "c.onnx", "--pass", "strip_metadata", "--external-data-format", "raw")
    assert (tmp_path / "c.onnx.data").exists() and not (tmp_path / "c.onnx.safetensors").exists()
    run_ok("verify", tmp_path / "a.onnx", tmp_path / "c.onnx")


def test_in_place_the_old_data_goes(tmp_path):
    run_ok(DATA / "bart_encoder.onnx", "-o", tmp_path / "a.onnx", "--external-data-format", "safetensors")
    for _ in range(2):
        run_ok("transform", "a.onnx", "-o", "a.onnx", "--pass", "precision", cwd=tmp_path)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "a.onnx.safetensors"]
        assert {told[0] for told in read(tmp_path / "a.onnx.safetensors").values()} == {"F16"}
    (tmp_path / "a.onnx.safetensors").rename(tmp_path / "gone")
    before = listing(tmp_path)
    assert_refused(run("transform", "a.onnx", "-o", "a.onnx", "--pass", "strip_metadata", cwd=tmp_path), 1, tmp_path, before, "a.onnx.safetensors")


def test_a_file_of_that_name_is_left_alone(tmp_path):
    (tmp_path / "a.onnx.safetensors").write_bytes(b"mine")
    run_ok(DATA / "bart_encoder.onnx", "-o", tmp_path / "a.onnx", "--external-data-format", "safetensors")
    assert (tmp_path / "a.onnx.safetensors").read_bytes() == b"mine"
    loaded_equal(tmp_path / "a.onnx", tmp_path / "a.onnx.2.safetensors")


def many_dtypes():
    """Each dtype that data of a file may have, of sizes that would leave gaps; names that need care; no element; an attribute without a name."""
    made = []
    for name, dtype in TensorProto.DataType.items():
        if name in ("UNDEFINED", "STRING"):
            continue
        bits = {"COMPLEX64": 64, "COMPLEX128": 128}.get(name) or int("".join(c for c in name.split("E")[0] if c.isdigit()) or 0)
        bits = bits or {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8}[name]
        made.append(TensorProto(name=f"t{dtype}", data_type=dtype, dims=[401, 15], raw_data=bytes(i % 2 for i in range((401 * 15 * bits + 7) // 8))))
    for name in ("__metadata__", 'quoted "and\\ so"', "日本", "tensor_3"):
        made.append(numpy_helper.from_array(np.float32([len(name)] * 401), name))
    made.append(numpy_helper.from_array(np.zeros((0, 4), np.float32), "empty"))
    outputs = [helper.make_tensor_value_info(f"o{k}", t.data_type, list(t.dims)) for k, t in enumerate(made)]
    nodes = [helper.make_node("Identity", [t.name], [f"o{k}"]) for k, t in enumerate(made)]
    nodes += [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.arange(600, dtype=np.float32))), helper.make_node("Add", ["c", "x"], ["y"])]
    model = make_model(nodes, [value("x", F32, [600])], [value("y", F32, [600]), *outputs], opset=25)
    model.graph.initializer.extend(made)
    model.ir_version = 13
    return model, made


def test_all_dtypes_and_names(tmp_path):
    model, made = many_dtypes()
    onnx.save(model, tmp_path / "m.onnx")
    run_ok("transform", "m.onnx", "-o", "o.onnx", "--pass", "strip_metadata", "--no-verify", "--external-data-format", "safetensors", cwd=tmp_path)
    held = read(tmp_path / "o.onnx.safetensors")
    after = {t.name: t for t in onnx.load(tmp_path / "o.onnx").graph.initializer}
    for t in made:
        assert after[t.name].raw_data == t.raw_data, t.name
        if t.name in held:
            assert held[t.name][2] == t.raw_data
            assert held[t.name][1] in (list(t.dims), [len(t.raw_data)])
    assert {t.name for t in made} - set(held) == {"__metadata__", "empty"}
    assert held["t1"][0] == "F32" and held["t16"][0] == "BF16" and held["t17"][0] == "F8_E4M3" and held["t22"][0] == "U8"


@pytest.mark.parametrize("words", [["--external-data-format", "hdf5"], ["--external-data-format", ""]])
def test_other_formats_are_refused(tmp_path, words):
    done = run(DATA / "bart_encoder.onnx", "-o", tmp_path / "a.onnx", *words)
    assert done.returncode == 2 and "--external-data-format" in done.stderr and "safetensors" in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())


def test_the_package_writes_it(tmp_path):
    onnx_saturate = pytest.importorskip("onnx_saturate")
    onnx_saturate.optimize(DATA / "bart_encoder.onnx", tmp_path / "a.onnx", external_data_format="safetensors")
    loaded_equal(tmp_path / "a.onnx", tmp_path / "a.onnx.safetensors")
    with pytest.raises(onnx_saturate.OptionError, match="external_data_format.*raw or safetensors"):
        onnx_saturate.optimize(DATA / "bart_encoder.onnx", tmp_path / "b.onnx", external_data_format="hdf5")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "a.onnx.safetensors"]


def test_slm_keeps_weights_inside_where_it_is_told(tmp_path):
    """All of them are halves, and made anew, so that none lies in the file that the model had."""
    onnx.save(onnx.load(DATA / "decoder.onnx"), tmp_path / "m.onnx", save_as_external_data=True, location="w.data", size_threshold=100)
    run_ok("slm", "m.onnx", "-o", "o.onnx", "--dtype", "fp16", "--no-external-data", cwd=tmp_path)
    run_ok("slm", "m.onnx", "-o", "p.onnx", "--dtype", "fp16", cwd=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "o.onnx", "p.onnx", "p.onnx.data", "w.data"]
