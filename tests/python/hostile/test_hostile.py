"""Files made to do harm, and runs that end at the worst moment: an exit status of the documented ones, one line, and no file lost."""
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, ROOT, SANITIZED, assert_refused, binary, listing, make_model, run, run_ok, start, tensor, value

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
BART = DATA / "bart_encoder.onnx"


def refused(folder, words, code=1, place=None, **kwargs):
    before = listing(folder)
    assert_refused(run(*words, cwd=folder, **kwargs), code, folder, before, place)


def write(folder, model, name="bad.onnx"):
    (folder / name).write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return folder / name


def one_node(op, inputs, outputs=None, dims=(2, 3), out=None, opset=23, domains=("com.microsoft",), **attributes):
    names = [f"x{i}" if d is not None else "" for i, d in enumerate(inputs)]
    infos = [value(n, F32, d) for n, d in zip(names, inputs) if n]
    outputs = outputs or ["y"]
    node = helper.make_node(op, names, outputs, name="n", **attributes)
    return make_model([node], infos, [value(o, F32, out) for o in outputs], opset=opset, ir_version=11, domains=domains)


def with_data(folder, name, seed, location=None, rows=64):
    """y = x W, W in a file of its own; what it gives for ones."""
    w = np.random.default_rng(seed).normal(size=(rows, rows)).astype(np.float32)
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", F32, ["n", rows])], [value("y", F32, ["n", rows])], [tensor("w", w)])
    onnx.save(model, folder / name, save_as_external_data=True, location=location or f"{name}.data", size_threshold=0)
    return w


def reference(path):
    entries = onnx.load(path, load_external_data=False).graph.initializer[0].external_data
    return {e.key: e.value for e in entries}


def location(path):
    return reference(path)["location"]


def weight(path):
    """As it lies in the file; onnx.load refuses names that a killed run leaves for a moment."""
    where = reference(path)
    data = (path.parent / where["location"]).read_bytes()[int(where.get("offset", 0)):]
    dims = onnx.load(path, load_external_data=False).graph.initializer[0].dims
    return np.frombuffer(data, np.float32, int(np.prod(dims))).reshape(dims)


def same(path, w):
    run_ok("inspect", path)
    return np.array_equal(weight(path), w)


# ---- 3: a target is data --------------------------------------------------------------------------------------------------------

@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
def test_a_target_runs_no_code(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    (tmp_path / "evil.c").write_text('#include <stdio.h>\n__attribute__((constructor)) void run(void) { fclose(fopen("marker", "w")); }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "evil.c", "-o", "evil.so"], cwd=tmp_path, check=True)
    for name in ("evil.so", "./evil.so", str(tmp_path / "evil.so"), "../costs.json"):
        (tmp_path / "t.json").write_text(json.dumps({"name": "t", "cost_model": name}))
        for words in (["m.onnx", "--target", "t.json"], ["explain", "m.onnx", "--target", "t.json"], ["targets", "check", "m.onnx", "--target", "t.json"]):
            refused(tmp_path, words, place="t.json: cost_model: ")
    assert not (tmp_path / "marker").exists()


EVIL = '#include <stdio.h>\n__attribute__((constructor)) void run(void) { fclose(fopen("marker", "w")); }\n'


def pass_lists(passes):
    """The command's words that give the list, for each place that takes one."""
    Path("p.json").write_text(passes if isinstance(passes, str) else json.dumps(passes))
    return [["transform", "m.onnx", "-o", "o.onnx", "--passes", "p.json"], ["m.onnx", "--before", "p.json"], ["m.onnx", "--after", "p.json"]]


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
def test_a_list_of_passes_runs_no_code(tmp_path, small_model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    (tmp_path / "evil.c").write_text(EVIL)
    subprocess.run(["gcc", "-shared", "-fPIC", "evil.c", "-o", "evil.so"], check=True)
    shutil.copy("evil.so", "evil.dylib")
    (tmp_path / "t.json").write_text(json.dumps({"name": "t", "cost_model": "evil.so"}))
    for fields in ({"cost": "./evil.so"}, {"cost": "evil.so"}, {"cost": str(tmp_path / "evil.so")}, {"cost": "evil.dylib"}, {"target": "t.json"}):
        for words in pass_lists([{"pass": "optimize", **fields}]):
            refused(tmp_path, words, code=(1, 2))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("fields", [
    {"pass": "optimize", "target": "PATH"}, {"pass": "optimize", "target": "PATH@1"}, {"pass": "optimize", "rules": ["PATH"]},
    {"pass": "optimize", "cost": "PATH.json"}, {"pass": "merge", "model": "PATH", "joins": {"y": "x"}}, {"pass": "precision", "calibrate": "PATH"}])
@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
def test_what_a_list_of_passes_names_ends(tmp_path, small_model, monkeypatch, fields, kind):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    for name in ("it", "it.json"):
        if kind == "fifo":
            os.mkfifo(name)
        elif kind == "device":
            os.symlink("/dev/zero", name)
        else:
            with open(name, "wb") as file:
                file.truncate(3 << 30)
    named = json.loads(json.dumps(fields).replace("PATH", "it"))
    if kind == "large":  # a release behind a path is looked for where there is no file of the whole name
        named = json.loads(json.dumps(named).replace("@1", ""))
    words = pass_lists([named])[0]
    before = sorted(os.listdir())
    done = run(*words, timeout=30)
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
    assert ("regular file" in done.stderr) == (kind != "large") and sorted(os.listdir()) == before, done.stderr


def test_a_list_of_passes_shows_no_words_of_files(tmp_path, small_model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    for name in ("secret", "secret.json", "secret.onnxtxt"):
        (tmp_path / name).write_text("root:hunter2:0:0\n")
    (tmp_path / "words.json").write_text(json.dumps({"name": "hunter2", "hunter2": 1, "costs": {"hunter2": "hunter2"}}))
    for fields in ({"target": "secret"}, {"target": "words.json"}, {"rules": ["secret"]}, {"cost": "secret.json"}, {"cost": "words.json"}):
        done = run("transform", "m.onnx", "-o", "o.onnx", "--passes", str(pass_lists([{"pass": "optimize", **fields}])[0][-1]))
        assert done.returncode in (1, 2) and "hunter2" not in done.stderr and "root" not in done.stderr, done.stderr
        assert "says why" in done.stderr
    done = run(*pass_lists([{"pass": "merge", "model": "secret.onnxtxt", "joins": {"y": "x"}}])[0])
    assert done.returncode in (1, 2) and "hunter2" not in done.stderr and "root" not in done.stderr


# ---- JSON ---------------------------------------------------------------------------------------------------------------------------

DEEP = 100_000


@pytest.mark.parametrize("text", ["[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP,
                                  '[{"pass": "optimize", "rules": ' + "[" * DEEP + "]" * DEEP + "}]"])
def test_deep_json(tmp_path, small_model, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    for words in pass_lists(text):
        refused(tmp_path, words, code=(1, 2))
    for option in ("--target", "--cost"):
        refused(tmp_path, ["m.onnx", option, "p.json"], place="p.json: ")
    for line in (text, '{"op": ' + text + "}"):
        Path("rows.jsonl").write_text(line)
        refused(tmp_path, ["m.onnx", "--cost", "rows.jsonl"], place="rows.jsonl")
        refused(tmp_path, ["cost", "fit", "rows.jsonl", "-o", "c.json"], place="rows.jsonl")


def test_json_is_read_in_one_place():
    """nlohmann's own parser knows no bound."""
    found = [str(file.relative_to(ROOT)) for folder in ("egraph", "onnx_bridge", "rules", "extract", "kernels", "tools")
             for file in (ROOT / folder).rglob("*") if file.suffix in (".h", ".cpp") and "json::parse(" in file.read_text()]
    assert not found


def test_costs_beside_a_target(tmp_path, small_model):
    write(tmp_path, small_model, "m.onnx")
    (tmp_path / "targets").mkdir()
    (tmp_path / "targets" / "t.json").write_text(json.dumps({"name": "t", "cost_model": "costs.json"}))
    (tmp_path / "targets" / "costs.json").write_text(json.dumps({"costs": {"Relu": 3}}))
    run_ok("m.onnx", "--target", "targets/t.json", cwd=tmp_path)


# ---- 5, 6: small models that must not crash ---------------------------------------------------------------------------------------

def ranks(*all_dims):
    return [list(d) if d is not None else None for d in all_dims]


TINY = {
    "transpose_far": one_node("Transpose", [(2, 3)], perm=[1 << 40, 1]),
    "transpose_near": one_node("Transpose", [(2, 3)], perm=[1000, 0]),
    "transpose_negative": one_node("Transpose", [(2, 3)], perm=[-1, 0]),
    "mha_scalar": one_node("MultiHeadAttention", [(), (), ()], domain="com.microsoft", num_heads=1),
    "gqa_scalar": one_node("GroupQueryAttention", [(), (), (), None, None, (), ()], domain="com.microsoft", num_heads=1, kv_num_heads=1),
    "packed_scalar": one_node("Attention", [(), (), ()], domain="com.microsoft", num_heads=1),
    "attention_scalar": one_node("Attention", [(), (), ()]),
    "attention_rank_1": one_node("Attention", [(3,), (3,), (3,)]),
    "attention_rank_2": one_node("Attention", [(3, 4), (3, 4), (3, 4)], outputs=["y", "k", "v", "q"]),
    "stft_scalar": one_node("STFT", [(), ()], opset=17),
    "conv_scalar": one_node("Conv", [(), ()]),
    "conv_weights": one_node("Conv", [(1, 1, 4, 4), (1,)]),
    "conv_transpose_weights": one_node("ConvTranspose", [(1, 1, 4, 4), (1,)]),
    "fused_conv_scalar": one_node("FusedConv", [(), (), (), ()], domain="com.microsoft"),
    "causal_conv_scalar": one_node("CausalConvWithState", [(), (), ()], outputs=["y", "s"], opset=28),
    "einsum_two_ellipses": one_node("Einsum", [(2, 3)], equation="......->..."),
    "einsum_dots": one_node("Einsum", [(2, 3)], equation="..."),
    "split_many": one_node("Split", [(4,)], outputs=["y", "z"], num_outputs=2**63 - 1),
    "split_many_2": one_node("Split", [(4,)], outputs=["y", "z"], num_outputs=10**9),
    "split_many_down": one_node("Split", [(4,)], outputs=["y", "z"], num_outputs=10**9, opset=18),
    "split_to_sequence": one_node("SplitToSequence", [(2**62, 3)]),
    "identity_no_output": make_model([helper.make_node("Identity", ["x"], []), helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2])]),
    "constant_no_output": make_model([helper.make_node("Constant", [], [], value_int=1), helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2])]),
    "softmax_no_output": make_model([helper.make_node("Softmax", ["x"], []), helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2])], opset=11),
    "batch_norm_no_output": make_model([helper.make_node("BatchNormalization", ["x"] * 5, []), helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])],
                                       [value("y", F32, [2])], opset=9),
}


def int_node(op, data, inputs, out_rank=1, **attributes):
    """An integer computation on constants, whose elements are followed."""
    constants = [tensor(f"c{i}", np.asarray(c, np.int64)) for i, c in enumerate(inputs)]
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node(op, [data, *(c.name for c in constants)], ["p"], **attributes),
             helper.make_node("ConstantOfShape", ["p"], ["y"])]
    return make_model(nodes, [value("x", F32, ["a", "b", "c", "d"])], [value("y", F32, None)], constants)


TINY |= {
    "slice_far_step": int_node("Slice", "s", [[1], [3], [0], [2**63 - 1]]),
    "slice_far_back": int_node("Slice", "s", [[3], [1], [0], [-2**63]]),
    "slice_no_steps": int_node("Slice", "s", [[1], [3], [0], []]),
    "slice_no_ends": int_node("Slice", "s", [[1], [], [0], [1]]),
    "slice_no_axes": int_node("Slice", "s", [[1], [3], [], [0]]),
    "gather_nd_far": int_node("GatherND", "s", [[[2**62]]], batch_dims=2**62),
    "unsqueeze_many": int_node("Unsqueeze", "s", [list(range(5000))]),
    "where_sizes": make_model([helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Where", ["k", "s", "s"], ["w"]), helper.make_node("ConstantOfShape", ["w"], ["y"])],
                              [value("x", F32, ["a", "b", "c"])], [value("y", F32, None)], [tensor("k", np.array([[True], [False]]))]),
}


@pytest.mark.parametrize("name", sorted(TINY))
def test_tiny_models(tmp_path, name):
    path = write(tmp_path, TINY[name])
    for words in ([], ["--opset", "18"], ["--opset", "11"], ["--cost", "roofline"], ["--cost", "flops"]):
        for verb in ("optimize", "explain"):
            done = run(verb, path, *words, *(["-o", "out.onnx", "--no-verify"] if verb == "optimize" else []), cwd=tmp_path, timeout=60)
            assert done.returncode in (0, 1), (verb, words, done.returncode, done.stderr)
            assert len(done.stderr.splitlines()) == (done.returncode != 0), done.stderr
            assert "internal error" not in done.stderr
    done = run(path, "-o", "out.onnx", cwd=tmp_path, timeout=60)
    assert done.returncode in (0, 1, 5) and "internal error" not in done.stderr, done.stderr


TYPELESS = [("Transpose", "perm", [(2, 3)], {}), ("Gemm", "transA", [(2, 2), (2, 2)], {}), ("Einsum", "equation", [(2, 2)], {}), ("Softmax", "axis", [(2, 3)], {}),
            ("Constant", "value_int", [], {}), ("Constant", "value_floats", [], {}), ("Concat", "axis", [(2,), (2,)], {}), ("Custom", "anything", [(2,)], {"domain": "own"})]


@pytest.mark.parametrize("op, attribute, inputs, more", TYPELESS)
def test_attributes_without_a_type(tmp_path, op, attribute, inputs, more):
    model = one_node(op, inputs, domains=("own",), **more)
    model.graph.node[0].attribute.add(name=attribute)
    for verb in ("optimize", "inspect", "explain", "run"):
        refused(tmp_path, [verb, write(tmp_path, model)], place=f"attribute '{attribute}': the attribute has neither a type nor a value")


def test_attributes_that_refer_to_no_function(tmp_path):
    model = one_node("Transpose", [(2, 3)])
    model.graph.node[0].attribute.add(name="perm", type=onnx.AttributeProto.INTS, ref_attr_name="outer")
    refused(tmp_path, [write(tmp_path, model), "--no-verify"], place="refers to attribute 'outer' of a function")


@pytest.mark.parametrize("op", ["Transpose", "Add", "Where", "Cast", "MatMul", "Identity", "Constant", "Softmax", "Reshape"])
def test_functions_with_the_names_of_operators(tmp_path, op):
    imports = [helper.make_opsetid("", 18)]
    function = helper.make_function("", op, ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], imports, ["perm", "to", "axis", "transA", "value_int"])
    nodes = [helper.make_node(op, ["x"], ["m"], perm="text", to="text", axis=1.5, transA="x", value_int="x"), helper.make_node("LayerNormalization", ["m", "s"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x", F32, [2, 3])], [value("y", F32, [2, 3])], [tensor("s", np.ones(3, np.float32))])
    path = write(tmp_path, helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8))
    for cost in ("measured", "roofline", "nodes"):
        done = run(path, "--cost", cost, "--no-verify", "-o", "out.onnx", cwd=tmp_path)
        assert done.returncode in (0, 1) and "internal error" not in done.stderr, done.stderr


# ---- 6, 15, 16: what is printed -------------------------------------------------------------------------------------------------------

def raw_names(**names):
    """A model with names that no Python protobuf writes."""
    text = {"input": b"INPUT", "op": b"OPERATOR", "sym": b"SYMBOL", "domain": b"DOMAIN"}
    model = make_model([helper.make_node("OPERATOR", ["INPUT"], ["m"], domain="DOMAIN"), helper.make_node("Relu", ["m"], ["y"], name="relu")],
                       [value("INPUT", F32, ["SYMBOL", 3])], [value("y", F32, None)], domains=("DOMAIN",))
    data = model.SerializeToString()
    for name, new in names.items():
        assert len(new) == len(text[name])
        data = data.replace(text[name], new)
    return data


ESCAPES = {"input": b"in\x1b[3", "op": b"op\x1b[31mo", "sym": b"\x1b]0;s\x07", "domain": b"do\x1b[m\x08"}
LATIN = {"input": b"in\xe4\xf6", "op": b"op\xff\xfe\xe4\xf6o", "sym": b"sy\x80m\xc0l"[:6], "domain": b"dom\xfcin"[:6]}
LATIN = {k: (v + b"xxxxxxxx")[:{"input": 5, "op": 8, "sym": 6, "domain": 6}[k]] for k, v in LATIN.items()}
ESCAPES = {k: (v + b"xxxxxxxx")[:{"input": 5, "op": 8, "sym": 6, "domain": 6}[k]] for k, v in ESCAPES.items()}


@pytest.mark.parametrize("which", ["input", "op", "sym", "domain"])
@pytest.mark.parametrize("words", [["inspect", "--json"], ["optimize", "--json", "--no-verify"], ["optimize", "--report", "r.json", "--no-verify"],
                                   ["optimize", "--dump-egraph", "g.json", "--no-verify"], ["explain", "--json"], ["bench", "--json"], ["verify", "--json"]])
def test_names_that_are_no_text(tmp_path, which, words):
    path = write(tmp_path, raw_names(**{which: LATIN[which]}), "m.onnx")
    files = [path, path] if words[0] == "verify" else [path]
    done = subprocess.run([binary(), words[0], *map(str, files), *words[1:]], cwd=tmp_path, capture_output=True)
    assert done.returncode in (0, 1, 5) and b"internal error" not in done.stderr and done.returncode >= 0, done.stderr
    outputs = [done.stdout] if "--json" in words and done.returncode == 0 else [p.read_bytes() for p in tmp_path.glob("?.json")]
    for text in outputs:
        json.loads(text.decode())


def test_files_with_names_that_are_no_text(tmp_path, small_model):
    folder = os.path.join(os.fsencode(tmp_path), b"f\xfcr")
    os.mkdir(folder)
    with open(os.path.join(folder, b"m.onnx"), "wb") as file:
        file.write(small_model.SerializeToString())
    done = subprocess.run([binary(), b"m.onnx", b"--json", b"--report", os.path.join(folder, b"r.json"), b"-o", os.path.join(folder, b"o.onnx")], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    with open(os.path.join(folder, b"r.json"), "rb") as file:
        json.loads(file.read())


@pytest.mark.parametrize("words", [["inspect"], ["optimize", "-v", "--no-verify"], ["optimize"], ["explain"], ["run"], ["bench"]])
def test_no_control_characters(tmp_path, words):
    path = write(tmp_path, raw_names(**ESCAPES), "m.onnx")
    done = subprocess.run([binary(), words[0], path, *words[1:]], cwd=tmp_path, capture_output=True)
    printed = done.stdout + done.stderr
    assert b"\x1b" not in printed and b"\x07" not in printed and b"\x08" not in printed
    if words == ["inspect"]:
        assert b"\\x1b" in printed


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("words", [["inspect", "m.onnx"], ["inspect", "m.onnx", "--json"], ["m.onnx", "--json", "--no-verify"], ["rules", "list"], ["--help"]])
def test_a_full_disk_behind_stdout(tmp_path, small_model, words):
    write(tmp_path, small_model, "m.onnx")
    with open("/dev/full", "w") as full:
        done = subprocess.run([binary(), *words], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    said = json.loads(done.stderr)["error"]["message"] if "--json" in words else done.stderr.removeprefix("saturate: error: ").rstrip("\n")
    assert done.returncode == 1 and said == "standard output: could not be written; check the free space"
    listed = subprocess.run(f"{binary()} rules list | head -1; exit ${{PIPESTATUS[0]}}", shell=True, executable="/bin/bash", capture_output=True, text=True)
    assert listed.stderr == ""


# ---- 7, 8, 9, 11: totals --------------------------------------------------------------------------------------------------------------

no_shadow = pytest.mark.skipif(SANITIZED, reason="a sanitizer's shadow memory is beyond any limit")


@no_shadow
@pytest.mark.parametrize("limit", ["-v 2000000", "-d 1000000"])
def test_under_a_limit_on_memory(tmp_path, limit):
    done = subprocess.run(f"ulimit {limit}; exec {binary()} {BART} -o out.onnx", shell=True, executable="/bin/bash", cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    free = subprocess.run([binary(), BART, "-o", "free.onnx"], cwd=tmp_path, capture_output=True)
    assert free.returncode == 0 and (tmp_path / "free.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()


@no_shadow
@pytest.mark.parametrize("limit", ["-v 2000000", "-v 5000000", "-v 9000000"])
def test_a_limit_far_above_what_is_needed(tmp_path, limit):
    rng = np.random.default_rng(0)
    weights = [onnx.numpy_helper.from_array(rng.normal(size=(1500, 1500)).astype(np.float32) / 40, f"w{i}") for i in range(12)]
    nodes = [helper.make_node(op, inputs, [output]) for i in range(12) for op, inputs, output in [("MatMul", [f"x{i}", f"w{i}"], f"m{i}"), ("Tanh", [f"m{i}"], f"x{i + 1}")]]
    float_of = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 1500])
    graph = helper.make_graph(nodes, "chain", [float_of("x0")], [float_of("x12")], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "chain.onnx")
    done = subprocess.run(f"ulimit {limit}; exec {binary()} chain.onnx -o out.onnx", shell=True, executable="/bin/bash", cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@no_shadow
@pytest.mark.parametrize("kilobytes", [60_000, 100_000, 200_000])
def test_out_of_memory_is_an_error(tmp_path, kilobytes):
    done = subprocess.run(f"ulimit -v {kilobytes}; exec {binary()} {BART} -o out.onnx", shell=True, executable="/bin/bash", cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1, 5, 127) and len(done.stderr.splitlines()) <= 1, (done.returncode, done.stderr)


@pytest.mark.parametrize("levels", [22, 30, 60])
def test_functions_that_call_functions_twice(tmp_path, levels):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], imports)]
    for i in range(1, levels):
        nodes = [helper.make_node(f"F{i - 1}", ["a"], ["m"], domain="own"), helper.make_node(f"F{i - 1}", ["m"], ["b"], domain="own")]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], nodes, imports))
    graph = helper.make_graph([helper.make_node(f"F{levels - 1}", ["x"], ["y"], domain="own")], "g", [value("x", F32, [2])], [value("y", F32, [2])])
    path = write(tmp_path, helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8))
    for verb in ("inspect", "optimize", "run"):
        refused(tmp_path, [verb, path], place="once its calls of functions are written out", timeout=20)


def test_functions_within_bounds(tmp_path):
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = [helper.make_function("own", "F0", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["m"]), helper.make_node("Exp", ["m"], ["b"])], imports)]
    for i in range(1, 8):
        nodes = [helper.make_node(f"F{i - 1}", ["a"], ["m"], domain="own"), helper.make_node(f"F{i - 1}", ["m"], ["b"], domain="own")]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], nodes, imports))
    graph = helper.make_graph([helper.make_node("F7", ["x"], ["y"], domain="own")], "g", [value("x", F32, [2])], [value("y", F32, [2])])
    path = write(tmp_path, helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8))
    assert json.loads(run_ok("inspect", path, "--json").stdout)["operators"] == {"Exp": 128, "Relu": 128}


def test_dims_that_grow(tmp_path):
    """Sums and products of sizes that share their parts: small as a graph, beyond every bound as a tree."""
    nodes = [helper.make_node("Shape", ["x"], ["d0"])]
    for i in range(60):
        nodes.append(helper.make_node("Mul" if i % 2 else "Add", [f"d{i}", f"d{i}"], [f"d{i + 1}"]))
    nodes.append(helper.make_node("Expand", ["x", "d60"], ["y"]))
    path = write(tmp_path, make_model(nodes, [value("x", F32, ["a", "b"])], [value("y", F32, None)]))
    run_ok(path, "--no-verify", "-o", "out.onnx", cwd=tmp_path, timeout=20)
    for depth, step in ((400, "Div"), (3000, "Mod")):
        nodes = [helper.make_node("Shape", ["x"], ["d0"]), helper.make_node("Shape", ["z"], ["e"])]
        for i in range(depth):
            nodes += [helper.make_node("Mul", [f"d{i}", f"d{i}"], [f"m{i}"]), helper.make_node(step, [f"m{i}", "e"], [f"d{i + 1}"])]
        nodes.append(helper.make_node("Expand", ["x", f"d{depth}"], ["y"]))
        path = write(tmp_path, make_model(nodes, [value("x", F32, ["a", "b"]), value("z", F32, ["c", "a"])], [value("y", F32, None)]))
        run_ok(path, "--no-verify", "-o", "out.onnx", cwd=tmp_path, timeout=60)


# ---- 18, 20: numbers and parts that nobody means -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("opset, ir, domain", [(2**63 - 1, 8, ""), (1001, 8, ""), (18, -5, ""), (18, 2**63 - 1, ""), (18, 8, "own")])
def test_versions(tmp_path, opset, ir, domain):
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2])], opset=opset, ir_version=ir, domains=("own",))
    if domain:
        model.opset_import[1].version = 2**40
    refused(tmp_path, [write(tmp_path, model)], place="versions are 1 to 1000")


def test_ranks(tmp_path):
    for dims in ([1] * 513, [1] * 100_000):
        model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, dims)], [value("y", F32, None)])
        refused(tmp_path, [write(tmp_path, model)], place=f"{len(dims)} dims")
        weight = TensorProto(name="w", data_type=F32, dims=dims, raw_data=bytes(4))
        model = make_model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", F32, None)], [weight])
        refused(tmp_path, [write(tmp_path, model)], place=f"{len(dims)} dims")


@pytest.mark.parametrize("where", ["sparse", "sparse_attribute", "training"])
@pytest.mark.parametrize("place", ["../secret.bin", "beside.bin"])
def test_external_data_where_it_is_only_copied(tmp_path, where, place):
    (tmp_path / "beside.bin").write_bytes(bytes(8))
    outside = TensorProto(name="v", data_type=F32, dims=[1], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value=place)
    sparse = onnx.SparseTensorProto(values=outside, indices=TensorProto(name="i", data_type=I64, dims=[1], int64_data=[0]), dims=[4])
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", F32, [2])], [value("y", F32, [2])])
    if where == "sparse":
        model.graph.sparse_initializer.append(sparse)
    elif where == "sparse_attribute":
        model.graph.node.append(helper.make_node("Constant", [], ["c"]))
        model.graph.node[1].attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=sparse)
    else:
        model.training_info.add().algorithm.initializer.append(outside)
    refused(tmp_path, [write(tmp_path, model), "--no-verify"], place="store this tensor inside the model")


# What a killed process leaves behind.

def dead_process():
    done = subprocess.Popen(["true"])
    done.wait()
    return done.pid


def test_leftovers_of_dead_processes_go(tmp_path, small_model):
    import fcntl
    onnx.save(small_model, tmp_path / "m.onnx")
    dead, locked = dead_process(), tmp_path / f".saturate.{dead_process()}-1.tmp"
    left = tmp_path / f".saturate.{dead}-0.tmp"
    left.write_bytes(b"half a model")
    stay = [f".saturate.{os.getpid()}-0.tmp", f".saturate.{dead}-0", f".saturate.{dead}.tmp", f".saturate.x{dead}-0.tmp", f"saturate.{dead}-0.tmp",
            f".saturate.{dead}-0.tmp.txt", f".saturate.-{dead}-0.tmp", ".saturate..tmp", f".saturate.{dead}-0x.tmp"]
    for name in stay:
        (tmp_path / name).write_bytes(b"a user's own")
    (tmp_path / f".saturate.{dead}-7.tmp").mkdir()
    (tmp_path / f".saturate.{dead}-8.tmp").symlink_to("m.onnx")
    os.mkfifo(tmp_path / f".saturate.{dead}-9.tmp")
    with open(locked, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run_ok(tmp_path / "m.onnx", tmp_path / "out.onnx", cwd=tmp_path)
        assert locked.exists() and not left.exists()
    assert all((tmp_path / name).exists() for name in stay)
    assert (tmp_path / f".saturate.{dead}-7.tmp").is_dir() and (tmp_path / f".saturate.{dead}-8.tmp").is_symlink() and (tmp_path / f".saturate.{dead}-9.tmp").exists()


# Options.

ODD = [("--time-limit", "-1"), ("--time-limit", "nan"), ("--time-limit", "inf"), ("--time-limit", ""), ("--node-limit", "-3"), ("--node-limit", "nan"),
       ("--iterations", "-1"), ("--iterations", "99999999999999999999"), ("--iterations", "1.5"), ("--seed", "-1"), ("--check-rtol", "-1"), ("--check-rtol", "nan"),
       ("--check-atol", "inf"), ("--memory-slack", "nan"), ("--memory-slack", "-1"), ("--external-data-threshold", "-1"), ("--max-memory", "0"), ("--opset", "-1"),
       ("--target", ""), ("--cost", ""), ("--rules", ""), ("--skip-rule", ""), ("--assume", ""), ("--no-assume", ""), ("--report", ""), ("-o", ""), ("--dump-egraph", ""),
       ("--input-shape", ""), ("--dim", "")]


@pytest.mark.parametrize("option, given", ODD)
def test_odd_values_of_options(tmp_path, small_model, option, given):
    onnx.save(small_model, tmp_path / "m.onnx")
    before = listing(tmp_path)
    done = run("m.onnx", option, given, cwd=tmp_path)
    assert_refused(done, 2, tmp_path, before, option)
    assert len(done.stderr) < 250, done.stderr


# Limits.

def endless(folder):
    """A loop of 10^9 turns, and one value of 4 GB."""
    body = "body (int64 i, bool c, float s) => (bool d, float t) { d = Identity (c) t = Add (s, s) }"
    path = folder / "endless.onnx"
    onnx.save(onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float x) => (float y) {{ n = Constant <value_int = 1000000000> () k = Constant <value = bool {{1}}> () y = Loop (n, k, x) <body = {body}> }}"""), path)
    return path


def huge(folder):
    path = folder / "huge.onnx"
    onnx.save(onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[n] x, int64[1] k) => (float y) { z = Expand (x, k) e = Exp (z) y = ReduceSum <keepdims = 0> (e) }"""), path)
    np.savez(folder / "huge.npz", x=np.float32([1]), k=np.int64([1 << 30]))
    return path


@pytest.mark.parametrize("verb", ["run", "bench", "verify"])
def test_a_run_ends_in_time(tmp_path, verb):
    path = endless(tmp_path)
    np.savez(tmp_path / "x.npz", x=np.float32(0))
    start = time.monotonic()
    done = run(verb, path, *([path] if verb == "verify" else []), "--inputs", tmp_path / "x.npz", "--time-limit", 1, cwd=tmp_path, timeout=60)
    assert done.returncode in (1, 5) and "--time-limit" in done.stderr and time.monotonic() - start < 20, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("verb", ["run", "bench", "verify"])
def test_a_run_keeps_to_its_memory(tmp_path, verb):
    path = huge(tmp_path)
    done = run(verb, path, *([path] if verb == "verify" else []), "--inputs", tmp_path / "huge.npz", "--max-memory", 100, cwd=tmp_path, timeout=60)
    assert done.returncode in (1, 5) and len(done.stderr.splitlines()) == 1, done.stderr


HIDING = {"bidi": "\u202e", "isolate": "\u2066", "line": "\u2028", "paragraph": "\u2029", "csi": "\x9b", "nel": "\x85", "escape": "\x1b"}


@pytest.mark.parametrize("kind", HIDING)
@pytest.mark.parametrize("words", [["inspect", "m.onnx"], ["inspect", "m.onnx", "--json"], ["run", "m.onnx", "--random", "--json"],
                                   ["targets", "check", "m.onnx", "--target", "npu-4d"], ["explain", "m.onnx"], ["explain", "m.onnx", "--json"],
                                   ["verify", "m.onnx", "m.onnx", "--json"], ["diff", "m.onnx", "m.onnx", "--json"],
                                   ["optimize", "m.onnx", "-o", "o.onnx", "--report", "/dev/stdout"]])
def test_names_hide_nothing(tmp_path, kind, words):
    mark = HIDING[kind]
    x, y = f"x{mark}in", f"y{mark}out"
    node = helper.make_node("Erf", [x], [y], name=f"n{mark}ode")
    write(tmp_path, make_model([node], [value(x, F32, (2, f"d{mark}im"))], [value(y, F32, (2, f"d{mark}im"))], opset=17), "m.onnx")
    done = run(*words, cwd=tmp_path)
    assert mark not in done.stdout and mark not in done.stderr, (done.stdout, done.stderr)


def test_verify_tells_which_is_the_original(tmp_path):
    for name, op in (("a", "Relu"), ("b", "Abs")):
        write(tmp_path, make_model([helper.make_node(op, ["x"], ["y"])], [value("x", F32, (2, 3))], [value("y", F32, (2, 3))], opset=17), f"{name}.onnx")
    done = run("verify", "a.onnx", "b.onnx", cwd=tmp_path)
    assert done.returncode == 3 and done.stderr.startswith("saturate: error: b.onnx: ") and "a.onnx was taken for the original" in done.stderr
    told = json.loads(run("verify", "b.onnx", "a.onnx", "--json", cwd=tmp_path).stdout)
    assert (told["original"], told["compared"]) == ("b.onnx", "a.onnx")
