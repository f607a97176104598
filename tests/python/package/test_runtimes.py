"""`--runtime onnxruntime` of all verbs that run models, and the same in Python: models with operators that saturate's own runtime has not."""
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import DATA, make_model, tensor, value
from decoders import Shape, decoder
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
pytest.importorskip("onnxruntime")
LIBRARY = pytest.importorskip("onnxruntime_extensions").get_library_path()

CONTRIB = "ai.onnx.contrib"
THERE = ("--runtime", "onnxruntime", "--custom-op-library", LIBRARY)


def model(last="Relu", scale=1.0):
    """Relu(NegPos(x w)), with an operator of onnxruntime-extensions in the midst: negative numbers and positive ones apart."""
    weights = np.arange(12, dtype=np.float32).reshape(4, 3) / 7 * scale - 0.5
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("NegPos", ["b"], ["low", "high"], domain=CONTRIB),
        helper.make_node("Add", ["high", "high"], ["c"]),
        helper.make_node(last, ["c"], ["y"]),
        helper.make_node("Identity", ["low"], ["z"]),
    ]
    outputs = [value("y", TensorProto.FLOAT, ["n", 3]), value("z", TensorProto.FLOAT, ["n", 3])]
    return make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], outputs, [tensor("w", weights)], domains=[CONTRIB])


@pytest.fixture
def folder(tmp_path):
    onnx.save(model(), tmp_path / "a.onnx")
    onnx.save(model("Neg"), tmp_path / "b.onnx")
    np.savez(tmp_path / "x.npz", x=np.array([[1, -2, 3, -4], [5, 6, -7, 8]], np.float32))
    return tmp_path


def command(folder, *words, start="import onnx_saturate.__main__ as m, sys; sys.exit(m.main())"):
    return subprocess.run([sys.executable, "-c", start, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300)


def numbers():
    x = np.array([[1, -2, 3, -4], [5, 6, -7, 8]], np.float32)
    product = x @ (np.arange(12, dtype=np.float32).reshape(4, 3) / 7 - 0.5)
    return 2 * np.maximum(product, 0), np.minimum(product, 0)


def test_verify(folder):
    done = command(folder, "verify", "a.onnx", "a.onnx", *THERE)
    assert done.returncode == 0 and "equal: in onnxruntime, " in done.stdout, done.stderr
    done = command(folder, "verify", "a.onnx", "b.onnx", *THERE, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 3 and told["status"] == "different" and told["runtime"] == "onnxruntime"
    done = command(folder, "verify", "a.onnx", "a.onnx", "--runtime", "onnxruntime")
    assert done.returncode == 5 and "NegPos" in done.stderr and len(done.stderr.splitlines()) == 1
    given = command(folder, "verify", "a.onnx", "b.onnx", *THERE, "--inputs", "x.npz")
    assert given.returncode == 3 and "'y'" in given.stderr, given.stderr


def test_inputs_that_it_refuses_are_told_in_one_line(folder):
    np.savez(folder / "bad.npz", x=np.zeros((2, 5), np.float32))
    done = command(folder, "verify", "a.onnx", "a.onnx", *THERE, "--inputs", "bad.npz")
    assert done.returncode == 1 and "dim 1 must be 4, not 5" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    open_dims = onnx.load(folder / "a.onnx")
    open_dims.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "m"
    onnx.save(open_dims, folder / "open.onnx")
    done = command(folder, "verify", "open.onnx", "open.onnx", *THERE, "--inputs", "bad.npz")
    assert done.returncode == 1 and "refuses the given inputs" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_run(folder):
    done = command(folder, "run", "a.onnx", "--inputs", "x.npz", "-o", "y.npz", *THERE, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["runtime"] == "onnxruntime", done.stderr
    made = np.load(folder / "y.npz")
    for name, wanted in zip("yz", numbers()):
        np.testing.assert_allclose(made[name], wanted, rtol=1e-5, atol=1e-5)
    assert command(folder, "run", "a.onnx", "--random", *THERE).returncode == 0
    done = command(folder, "run", "a.onnx", "--random")
    assert done.returncode == 5 and "--runtime onnxruntime" in done.stderr


def test_bench(folder):
    done = command(folder, "bench", "a.onnx", "b.onnx", *THERE, "--iterations", 5, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["runtime"] == "onnxruntime" and [m["runs"] for m in told["models"]] == [5, 5] and told["ratio"]["median"] > 0
    assert all(m["seconds"]["min"] > 0 and not m["operators"] for m in told["models"])
    assert "second / first" in command(folder, "bench", "a.onnx", "b.onnx", *THERE, "--iterations", 5).stdout


def test_optimize(folder):
    done = command(folder, "a.onnx", "-o", "out.onnx", *THERE, "--report", "r.json", "--save-repro", "again")
    assert done.returncode == 0 and "verified in onnxruntime, " in done.stdout, done.stderr
    report = json.loads((folder / "r.json").read_text())
    assert report["verified"] and report["verify"]["runtime"] == "onnxruntime"
    assert "Identity" not in [n.op_type for n in onnx.load(folder / "out.onnx").graph.node][:2]
    assert "libraries/1/" in (folder / "again" / "run.sh").read_text() and list((folder / "again" / "libraries" / "1").iterdir())
    wrong = "rule wrong (X) => (Y)\n  { Y = Relu (X) }\n  =>\n  { Y = Neg (X) }\n  example X = float[2,3]\n"
    (folder / "wrong.rules").write_text(wrong)
    (folder / "cheap.json").write_text('{"costs": {"Neg": 1}, "default": 10}')
    done = command(folder, "a.onnx", "-o", "out.onnx", *THERE, "--rules", "wrong.rules", "--cost", "cheap.json")
    assert done.returncode == 0 and "rule wrong makes the result differ" in " ".join(done.stdout.split()), done.stdout + done.stderr


def test_transform(folder):
    done = command(folder, "transform", "a.onnx", "-o", "out.onnx", "--pass", "rename_inputs:x=left", *THERE, "--report", "r.json")
    assert done.returncode == 0 and onnx.load(folder / "out.onnx").graph.input[0].name == "left", done.stderr
    assert [check["runtime"] for check in json.loads((folder / "r.json").read_text())["verify"]] == ["onnxruntime"]
    told = onnx_saturate.transform_with_report(model(), "strip_metadata", runtime="onnxruntime", custom_op_library=LIBRARY).report
    assert [check["runtime"] for check in told["verify"]] == ["onnxruntime"]


def test_transform_says_what_helps_where_an_operator_is_missing(folder):
    """Inputs do not make a kernel; nor is there a part around what stands in a body."""
    inner = lambda name: helper.make_graph([helper.make_node("NegPos", ["x"], [name, name + "p"], domain=CONTRIB)], name, [], [value(name, TensorProto.FLOAT, ["n", 4])])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner("u"), else_branch=inner("v"))
    inputs = [value("x", TensorProto.FLOAT, ["n", 4]), value("c", TensorProto.BOOL, [])]
    onnx.save(make_model([node], inputs, [value("y", TensorProto.FLOAT, ["n", 4])], domains=[CONTRIB]), folder / "if.onnx")
    words = ("transform", "if.onnx", "-o", "out.onnx", "--pass", "rename_inputs:x=left")
    done = command(folder, *words)
    assert done.returncode == 5 and "--runtime onnxruntime verifies there" in done.stderr and "--inputs" not in done.stderr, done.stderr
    assert command(folder, *words, *THERE).returncode == 0


def test_diff(folder):
    """The same numbers by another operator: that is known where both can be run."""
    other = model()
    (doubled,) = [n for n in other.graph.node if n.output[0] == "c"]
    doubled.CopyFrom(helper.make_node("Mul", ["high", "two"], ["c"]))
    other.graph.initializer.append(tensor("two", np.float32(2)))
    onnx.save(other, folder / "mul.onnx")
    done = command(folder, "diff", "a.onnx", "mul.onnx", *THERE, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 3 and told["proven"] and told["runtime"] == "onnxruntime", done.stderr
    assert [region["outputs"] for region in told["regions"]] == [["c"]]
    here = json.loads(command(folder, "diff", "a.onnx", "mul.onnx", "--json").stdout)
    assert not here["proven"] and here["runtime"] == "saturate" and "NegPos" in here["why_not_proven"]
    there = onnx_saturate.diff(folder / "a.onnx", other, runtime="onnxruntime", custom_op_library=LIBRARY)
    assert there.to_dict()["proven"] and len(there.regions) == 1
    assert command(folder, "diff", "a.onnx", "a.onnx", *THERE).returncode == 0


def test_diff_sees_the_same_in_both_runtimes(folder):
    onnx.save(onnx_saturate.optimize(DATA / "bart_encoder.onnx"), folder / "out.onnx")
    told = [json.loads(command(folder, "diff", DATA / "bart_encoder.onnx", "out.onnx", *words, "--json").stdout) for words in ((), ("--runtime", "onnxruntime"))]
    assert told[0].pop("runtime") == "saturate" and told[1].pop("runtime") == "onnxruntime" and told[0] == told[1] and told[0]["proven"]


def test_extract(folder):
    done = command(folder, "extract", "a.onnx", "--sample", 2, "-o", "graphs", *THERE, "--json")
    assert done.returncode == 0 and list((folder / "graphs").iterdir()), done.stderr
    # Nothing is optimized, and no file written, before words that make no sense are found.
    done = command(folder, "extract", "a.onnx", "--dump-egraph", "g.json", "--custom-op-library", LIBRARY)
    assert done.returncode == 2 and "add --runtime onnxruntime" in done.stderr and not (folder / "g.json").exists()
    assert onnx_saturate.extract(model(), samples=1, runtime="onnxruntime", custom_op_library=[LIBRARY])


def test_slm(tmp_path):
    onnx.save(decoder(Shape()), tmp_path / "whole.onnx")
    done = command(tmp_path, "slm", "whole.onnx", "-o", "out.onnx", "--sequence", 8, "--runtime", "onnxruntime", "--report", "r.json")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "r.json").read_text())
    assert told["stepping"]["runtime"] == "onnxruntime" and {check["runtime"] for check in told["verify"]} == {"onnxruntime"}


@pytest.mark.parametrize("words, code, what", [
    (("transform", "a.onnx", "--pass", "strip_metadata", "--custom-op-library", LIBRARY), 2, "add --runtime onnxruntime"),
    (("diff", "a.onnx", "b.onnx", "--runtime", "onnxruntime", "--custom-op-library", "no.so"), 1, "no.so: there is no such file"),
    (("verify", "a.onnx", "a.onnx", "--custom-op-library", LIBRARY), 2, "add --runtime onnxruntime"),
    (("verify", "a.onnx", "a.onnx", "--runtime", "tensorrt"), 2, "saturate, onnxruntime"),
    (("run", "a.onnx", "--random", "--runtime", "onnxruntime", "--custom-op-library", "no.so"), 1, "no.so: there is no such file"),
    (("run", "a.onnx", "--random", *THERE, "--profile"), 2, "--profile"),
    (("bench", "a.onnx", *THERE, "--as-is"), 2, "--as-is"),
    (("run", "a.onnx", "--random", "--runtime", "onnxruntime", "--custom-op-library", "x.npz"), 5, "can't load the model"),
    (("reduce", "a.onnx", "--because", "wrong", "--", "--runtime", "onnxruntime"), 2, "leave --runtime out"),
])  # fmt: skip
def test_mistakes(folder, words, code, what):
    done = command(folder, *words)
    assert done.returncode == code and what in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_onnxruntime_is_missing(folder):
    start = "import sys; sys.modules['onnxruntime'] = None; import onnx_saturate.__main__ as m; sys.exit(m.main())"
    done = command(folder, "verify", "a.onnx", "a.onnx", "--runtime", "onnxruntime", start=start)
    assert done.returncode == 5 and "onnxruntime is not installed; pip install onnxruntime" in done.stderr, done.stderr


def test_in_python(folder):
    there = {"runtime": "onnxruntime", "custom_op_library": LIBRARY}
    checked = onnx_saturate.verify(folder / "a.onnx", model(), **there)
    assert checked and checked.details["runtime"] == "onnxruntime"
    assert not onnx_saturate.verify(folder / "a.onnx", folder / "b.onnx", **there)
    x = dict(np.load(folder / "x.npz"))
    made = onnx_saturate.run(model(), x, **there)
    for name, wanted in zip("yz", numbers()):
        np.testing.assert_allclose(made[name], wanted, rtol=1e-5, atol=1e-5)
    assert onnx_saturate.bench(model(), iterations=5, **there)["runtime"] == "onnxruntime"
    best, report = onnx_saturate.optimize_with_report(model(), **there)
    assert report.to_dict()["verify"]["runtime"] == "onnxruntime" and len(best.graph.node) < 6
    with pytest.raises(onnx_saturate.OptionError, match="did you mean 'onnxruntime'|saturate, onnxruntime"):
        onnx_saturate.verify(model(), model(), runtime="onnxruntimes")
    with pytest.raises(onnx_saturate.OptionError, match="takes no libraries"):
        onnx_saturate.run(model(), x, custom_op_library=LIBRARY)
    with pytest.raises(onnx_saturate.UnsupportedError, match="NegPos"):
        onnx_saturate.verify(model(), model(), runtime="onnxruntime")
    with pytest.raises(onnx_saturate.Error, match="no.so"):
        onnx_saturate.run(model(), x, runtime="onnxruntime", custom_op_library="no.so")


def test_strings_go_there_and_come_back():
    nodes = [helper.make_node("StringUpper", ["x"], ["y"], domain=CONTRIB)]
    upper = make_model(nodes, [value("x", TensorProto.STRING, ["n"])], [value("y", TensorProto.STRING, ["n"])], domains=[CONTRIB])
    assert onnx_saturate.run(upper, {"x": ["ab", "cd"]}, runtime="onnxruntime", custom_op_library=LIBRARY)["y"].tolist() == ["AB", "CD"]


def test_types_and_empty_tensors_go_there_and_come_back():
    for kind, array in (
        (TensorProto.FLOAT16, np.array([[1.5, -2]], np.float16)), (TensorProto.INT64, np.array([3, -4])), (TensorProto.BOOL, np.array([True, False])),
        (TensorProto.FLOAT, np.zeros((0, 3), np.float32)), (TensorProto.DOUBLE, np.array(2.5)),
    ):  # fmt: skip
        same = make_model([helper.make_node("Identity", ["x"], ["y"])], [value("x", kind, array.shape)], [value("y", kind, array.shape)])
        made = onnx_saturate.run(same, {"x": array}, runtime="onnxruntime")["y"]
        assert made.dtype == array.dtype and made.shape == array.shape and np.array_equal(made, array)


def test_both_runtimes_agree():
    """Of a model that both can run, and of one that differs only in what saturate's own runtime can see, too."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    soft = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 8])], [value("y", TensorProto.FLOAT, ["n", 8])], [tensor("w", np.eye(8, dtype=np.float32))])
    x = {"x": np.linspace(-3, 3, 24, dtype=np.float32).reshape(3, 8)}
    here, there = onnx_saturate.run(soft, x)["y"], onnx_saturate.Session(soft, runtime="onnxruntime").run(x)["y"]
    np.testing.assert_allclose(here, there, rtol=1e-5)
    assert onnx_saturate.verify(soft, onnx_saturate.optimize(soft), runtime="onnxruntime")


def test_stepping(tmp_path):
    onnx.save(decoder(Shape()), tmp_path / "whole.onnx")
    onnx.save(decoder(Shape(cache="growing")), tmp_path / "cached.onnx")
    done = command(tmp_path, "verify", "whole.onnx", "cached.onnx", "--stepping", "--runtime", "onnxruntime")
    assert done.returncode == 0 and "in onnxruntime, " in done.stdout, done.stderr
