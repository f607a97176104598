"""The rule for a target without a release (docs/targets.md): that of the ONNX Runtime that is found, else the target's own."""
import json
import os
import subprocess
import sys

import onnx
import pytest
from conftest import binary, make_model, run_ok, value
from onnx import TensorProto, helper

VARIABLE = "SATURATE_ONNXRUNTIME"
NEWEST = "1.32"


def save_model(folder):
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    onnx.save(make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]), folder / "m.onnx")


def library(folder, name="libonnxruntime.so", content=b"no library"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


def bare(folder, *words, named=None):
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    if named:
        environment[VARIABLE] = str(named)
    return subprocess.run([binary(), *map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def optimized(folder, *words, named=None):
    """The report, the screen in one line, and the bytes of the result. Nothing is loaded: the judge is ours."""
    save_model(folder)
    done = bare(folder, "m.onnx", "out.onnx", "--judge", "saturate", "--report", "r.json", "--force", "-v", *words, named=named)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "r.json").read_text()), " ".join(done.stdout.split()), (folder / "out.onnx").read_bytes()


def told_of(model):
    return {entry.key: entry.value for entry in model.metadata_props}


def version():
    return run_ok("--version").stdout.split()[1]


def test_a_result_tells_who_made_it(tmp_path):
    """Beside what the file told of itself; what nobody changed, and what no rule was asked for, tells nothing."""
    node = helper.make_node("Identity", ["x"], ["h"])
    model = make_model([node, helper.make_node("Relu", ["h"], ["y"])], [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])])
    model.producer_name, model.producer_version = "pytorch", "2.15"
    for key, text in (("who", "me"), ("saturate.version", "0.0.1")):
        model.metadata_props.add(key=key, value=text)
    onnx.save(model, tmp_path / "m.onnx")
    for words in (["--target", "onnx"], ["--target", "ort-cpu@1.20"]):
        run_ok("m.onnx", "-o", "out.onnx", *words, cwd=tmp_path)
        made = onnx.load(tmp_path / "out.onnx")
        assert (made.producer_name, made.producer_version) == ("pytorch", "2.15")
        of_target = {} if words[1] == "onnx" else {"saturate.target": "ort-cpu@1.20"}
        assert told_of(made) == {"who": "me", "saturate.version": version(), **of_target}
    again = run_ok("out.onnx", "-o", "again.onnx", cwd=tmp_path)
    assert again and (tmp_path / "again.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    run_ok("m.onnx", "-o", "out.onnx", "--rules", "none", cwd=tmp_path)
    assert told_of(onnx.load(tmp_path / "out.onnx")) == {"who": "me", "saturate.version": "0.0.1"}


def test_none_is_found(tmp_path):
    report, screen, made = optimized(tmp_path)
    assert report["target"] == "ort-cpu@1.23"
    assert "for ONNX Runtime 1.23, since none is installed here; --target ort-cpu@1.20 for older ones" in screen
    again, screen, same = optimized(tmp_path, "--target", "ort-cpu@1.23")
    assert same == made and again["target"] == report["target"] and " none is installed" not in screen


def test_a_settled_release_counts_as_asked_for(tmp_path):
    """What cannot be brought to it is warned of, as where it is named."""
    node = helper.make_node("TensorScatter", ["past", "x"], ["y"])
    past, new = [2, 5, 4], [2, 1, 4]
    F = TensorProto.FLOAT
    onnx.save(make_model([node], [value("past", F, past), value("x", F, new)], [value("y", F, past)], opset=24, ir_version=12), tmp_path / "m.onnx")
    words = ["m.onnx", "o.onnx", "--no-verify", "--force"]
    told = [" ".join(bare(tmp_path, *words, *more, named=named).stdout.split())
            for more, named in [((), library(tmp_path / "old", "libonnxruntime.so.1.20.1")), (("--target", "ort-cpu@1.20"), None), ((), library(tmp_path / "new", "libonnxruntime.so.1.31.1"))]]
    assert all("loads opset 21 at most, and the model stays in opset 24" in text for text in told[:2]) and "stays in opset" not in told[2]


@pytest.mark.parametrize("word", ["--onnxruntime", VARIABLE])
def test_the_one_that_is_named(tmp_path, word):
    there = library(tmp_path / "ort" / "capi", "libonnxruntime.so.1.21.1").parent
    words, named = ((word, there), None) if word.startswith("--") else ((), there)
    report, screen, made = optimized(tmp_path, *words, named=named)
    assert report["target"] == "ort-cpu@1.21" and report["settled"]
    assert f"for ONNX Runtime 1.21, as {word} names it; --target ort-cpu@1.20 for older ones" in screen
    assert told_of(onnx.load_from_string(made)) == {"saturate.target": "ort-cpu@1.21", "saturate.version": version()}
    assert optimized(tmp_path, "--target", "ort-cpu@1.21")[2] == made
    assert optimized(tmp_path, "--target", "ort-cpu@1.24", *words, named=named)[0]["target"] == "ort-cpu@1.24"


@pytest.mark.parametrize("version, taken, said", [("1.9.0", "1.20", "1.9, as --onnxruntime names it, is older than all that ort-cpu knows: taken as 1.20"),
                                                  ("1.99.1", NEWEST, f"1.99, as --onnxruntime names it, is newer than all that ort-cpu knows: taken as {NEWEST}")])
def test_one_beyond_the_rows(tmp_path, version, taken, said):
    report, screen, _ = optimized(tmp_path, "--onnxruntime", library(tmp_path / "ort", f"libonnxruntime.so.{version}"))
    assert report["target"] == f"ort-cpu@{taken}" and said in screen  # with -v


def test_one_that_is_named_and_newer_than_the_rows(tmp_path):
    """It was taken for the last one without a word, and the file said that it was made for it."""
    report, screen, made = optimized(tmp_path, "--target", "ort-cpu@1.99")
    assert report["target"] == f"ort-cpu@{NEWEST}" and f"ONNX Runtime 1.99, newer than all that ort-cpu knows: taken as {NEWEST}" in screen
    _, screen, same = optimized(tmp_path, "--target", f"ort-cpu@{NEWEST}")
    assert same == made and "newer than" not in screen


def test_what_tells_the_release(tmp_path):
    """The name behind links; the version of its symbols; the package's dist-info. A file that says nothing is started in a child, and no library."""
    linked = library(tmp_path / "linked", "libonnxruntime.so.1.22.0")
    (linked / "libonnxruntime.so").symlink_to("libonnxruntime.so.1.22.0")
    symbols = library(tmp_path / "symbols", content=b"\x7fELF\0" + b"x" * 70000 + b"\0VERS_1.24.4\0")
    package = library(tmp_path / "site" / "onnxruntime" / "capi").parent
    (tmp_path / "site" / "onnxruntime-1.25.1.dist-info").mkdir()
    for named, release in [(linked / "libonnxruntime.so", "1.22"), (symbols, "1.24"), (package, "1.25")]:
        assert optimized(tmp_path, "--onnxruntime", named)[0]["target"] == f"ort-cpu@{release}", named
    report, screen, _ = optimized(tmp_path, "--onnxruntime", library(tmp_path / "nothing"))
    assert report["target"] == "ort-cpu@1.23" and "does not tell its release" in screen
    done = bare(tmp_path, "m.onnx", "o.onnx", "--judge", "saturate", "--onnxruntime", "no/such")
    assert done.returncode == 1 and "no shared library of ONNX Runtime" in done.stderr


def test_other_targets(tmp_path):
    """CUDA is settled by a library that has its provider beside it; the browser's is never installed here; others have no releases."""
    there = library(tmp_path / "ort", "libonnxruntime.so.1.31.1")
    assert optimized(tmp_path, "--target", "ort-cuda", "--onnxruntime", there)[0]["target"] == "ort-cuda@1.24"
    library(there, "libonnxruntime_providers_cuda.so")
    assert optimized(tmp_path, "--target", "ort-cuda", "--onnxruntime", there)[0]["target"] == "ort-cuda@1.31"
    assert optimized(tmp_path, "--target", "ort-web", "--onnxruntime", there)[0]["target"] == "ort-web@1.24"
    report, screen, made = optimized(tmp_path, "--target", "onnx", "--onnxruntime", there)
    assert report["target"] == "onnx" and report["settled"] is None and told_of(onnx.load_from_string(made)) == {"saturate.version": version()}


def test_all_verbs_settle_it_alike(tmp_path):
    save_model(tmp_path)
    there = library(tmp_path / "ort", "libonnxruntime.so.1.21.1")
    whole = bare(tmp_path, "targets", "show", "ort-cpu", named=there)
    assert [limit["before"] for limit in json.loads(whole.stdout)["limits"] if "before" in limit][0] == "1.21"
    checked = bare(tmp_path, "targets", "check", "m.onnx", "--target", "ort-cpu", "--json", named=there)
    assert json.loads(checked.stdout)["target"] == "ort-cpu@1.21"
    passed = bare(tmp_path, "transform", "m.onnx", "-o", "t.onnx", "--pass", "optimize:target=ort-cpu", "--judge", "saturate", named=there)
    assert passed.returncode == 0, passed.stderr
    assert told_of(onnx.load(tmp_path / "t.onnx"))["saturate.target"] == "ort-cpu@1.21"
    for words in (["explain", "m.onnx"], ["inspect", "m.onnx"], ["diff", "m.onnx", "m.onnx"]):
        assert bare(tmp_path, *words, named=there).returncode == 0
        assert bare(tmp_path, *words, named=tmp_path / "none").returncode == 1
    bare(tmp_path, "m.onnx", "o.onnx", "--judge", "saturate", "--save-repro", "repro", named=there)
    assert "ort-cpu@1.21" in (tmp_path / "repro" / "run.sh").read_text()


PACKAGE = """
import json, onnx, onnx_saturate
model, report = onnx_saturate.optimize_with_report("m.onnx", judge=["saturate"])
print(json.dumps([report.to_dict()["target"], [p.value for p in onnx.load_from_string(onnx_saturate.transform(onnx.load("m.onnx"), [{"pass": "optimize", "target": "ort-cpu"}]).SerializeToString()).metadata_props]]))
"""


def test_the_package_takes_the_one_beside_it(tmp_path):
    pytest.importorskip("onnx_saturate")
    onnxruntime = pytest.importorskip("onnxruntime")
    save_model(tmp_path)
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = subprocess.run([sys.executable, "-c", PACKAGE], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    release = ".".join(onnxruntime.__version__.split(".")[:2])
    assert json.loads(done.stdout) == [f"ort-cpu@{release}", [f"ort-cpu@{release}", version()]]
