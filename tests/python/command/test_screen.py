"""What `saturate MODEL` says on one screen: its lines, their width, colours, and what -q, -v and -vv leave out or add."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, SHARED, binary, make_model, run, run_ok, said, tensor

BART = DATA / "bart_encoder.onnx"
LABELS = ["time", "found", "newer", "needs", "assumes", "next"]
INTERNAL = ["e-node", "e-class", "raise", "lower", "saturated", "e-nodes", "operators predicted", "finite_scores", "opset 0"]


def on_terminal(words, columns, **environment):
    """What the command writes on a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"} | environment
    with subprocess.Popen([binary(), *map(str, words)], stdout=slave, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(slave)
        out = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            out += piece
        assert process.wait() == 0
    os.close(master)
    return out.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_seven_lines(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx")
    lines = done.stdout.splitlines()
    before = sum(n.op_type != "Constant" for n in onnx.load(BART).graph.node)
    after = sum(n.op_type != "Constant" for n in onnx.load(tmp_path / "out.onnx").graph.node)
    assert re.fullmatch(rf"\S+bart_encoder\.onnx -> \S+out\.onnx(?: for ort-cpu@1.20)?: {before} -> {after} operators, [\d.]+ m?s", lines[0])
    assert re.fullmatch(r"  verified here only( \(onnxruntime is not installed\))?, \d+ inputs, (relative )?error \de-\d\d(,| of) (allowed )?1e-04( allowed)?", lines[1]), lines[1]
    assert re.fullmatch(r"  time     [\d.]+ -> [\d.]+ (us|ms) predicted \(-\d+ to -\d+ %\) at batch=1, seq=64 \(assumed\)", lines[2]), lines[2]
    assert [line.split()[0] for line in lines if re.match(r"  [a-z]+  ", line)] == LABELS
    assert len(lines) <= 8 and not [word for word in INTERNAL if word in done.stdout]
    assert re.search(r"newer ONNX Runtime 1.23 would save \d+ % more \(--target ort-cpu@1.23\)", said(done))


def test_what_was_found_and_what_was_there(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx", "--cost", "nodes")
    found = re.search(r"found (.*) newer", said(done))[1]
    assert "EmbedLayerNorm" in found and "BiasGelu" in found
    again = run_ok(tmp_path / "out.onnx", tmp_path / "again.onnx", "--cost", "nodes")
    assert re.search(r"found nothing to fuse \(2 Attention, .* were there\)", said(again))


def test_one_operator_was_there(tmp_path):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])
    scale = helper.make_tensor("g", TensorProto.FLOAT, [4], [1, 2, 3, 4])
    onnx.save(make_model([helper.make_node("LayerNormalization", ["x", "g"], ["y"])], [value("x")], [value("y")], [scale]), tmp_path / "m.onnx")
    assert "(1 LayerNormalization was there)" in said(run_ok("m.onnx", cwd=tmp_path))


def test_assumptions_take_one_line(tmp_path):
    words = (BART, tmp_path / "out.onnx", "--cost", "nodes")
    assert "\n  assumes  finite scores, ids in range, no row masked whole (-v: in full)\n" in run_ok(*words).stdout
    assert re.search(r"assumed: finite_scores \(scores are finite where a mask hides them.*--no-assume finite_scores forbids it", said(run_ok(*words, "-v")))
    assert "assumes nothing" in said(run_ok(BART, tmp_path / "out.onnx", "--rules", "none"))


def test_not_verified_comes_first(tmp_path):
    assert run_ok(BART, tmp_path / "out.onnx", "--no-verify").stdout.startswith("NOT VERIFIED: --no-verify was given\n")


def test_more_and_more(tmp_path):
    usual, more, most = (run_ok(BART, tmp_path / "out.onnx", *words).stdout for words in ((), ("-v",), ("-vv",)))
    assert "operator  " not in usual and "operator  " in more and re.search(r"\n\d+ unchanged\n", more)
    changes = [line.split() for line in more[more.index("operator  "):].split("\n\n")[0].splitlines()[2:-1]]
    assert changes and all(re.match(r"[+-]\d", row[-1]) for row in changes[:-1])
    assert "stage" not in more and "applied" not in more
    assert "stage" in most and "applied" in most and "stopped: saturated" in most
    for text in (more, most):
        assert "verified: here only (onnxruntime is not installed), 9 cases at " in " ".join(text.split()) and "\nneeds: ONNX Runtime 1.20 or newer" in text


def test_quiet_keeps_warnings(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx", "-q")
    assert done.stdout == "" and done.stderr == ""
    onnx.save(helper.make_model(helper.make_graph([NODE("Foo", ["x"], ["y"], domain="my.own")], "g", [helper.make_tensor_value_info("x", F, [2])], [helper.make_tensor_value_info("y", F, [2])]),
                                opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my.own", 1)], ir_version=8), tmp_path / "m.onnx")
    done = run_ok(tmp_path / "m.onnx", "-o", tmp_path / "out.onnx", "-q", "--no-verify")
    assert done.stdout == "" and done.stderr.startswith("saturate: warning: 1 node can't be expressed on ort-cpu")


def test_a_search_that_was_cut_short_says_so(tmp_path):
    assert "search stopped at the iteration limit; a larger --iterations may find more" in said(run_ok(BART, tmp_path / "out.onnx", "--iterations", "1"))


@pytest.mark.parametrize("columns", [60, 80, 133])
def test_width_of_the_terminal(tmp_path, columns):
    text = on_terminal([BART, tmp_path / "o.onnx"], columns)
    widths = [len(line) for line in plain(text).splitlines()]
    assert max(w for w, line in zip(widths, plain(text).splitlines()) if len(line.split()) > 2) <= columns


@pytest.mark.parametrize("words", [("rules", "list"), ("targets", "list"), ("explain", BART)])
def test_other_verbs_keep_to_the_width(words):
    lines = run_ok(*words).stdout.splitlines()
    assert lines and not [line for line in lines if len(line) > 100 and len(line.split()) > 3]


def test_colours(tmp_path):
    words = [BART, tmp_path / "out.onnx"]
    assert "\x1b[" in on_terminal(words, 100)
    assert "\x1b[" not in on_terminal(words, 100, NO_COLOR="1")
    assert "\x1b[" not in on_terminal(words, 100, TERM="dumb")
    assert "\x1b[" not in on_terminal([*words, "--color", "never"], 100)
    assert "\x1b[" not in run_ok(*words).stdout
    colored = run_ok(*words, "--color", "always").stdout
    assert "\x1b[" in colored
    same = lambda text: re.sub(r"[\d.]+ (us|ms|s)\n", "TIME\n", plain(text))
    assert same(colored) == same(run_ok(*words).stdout)
    assert run(*words, "--color", "blue").returncode == 2


def test_names_of_files_do_nothing_to_a_terminal(tmp_path):
    path = tmp_path / "a\x1b[31m.onnx"
    path.write_bytes(BART.read_bytes())
    assert "\x1b" not in run_ok(path, tmp_path / "out.onnx").stdout


# Each line fits into 80 columns, and there are no more than eight, whatever the model and the options.

NODE, F = helper.make_node, TensorProto.FLOAT


def of(nodes, inputs, outputs, constants=(), imports=(("", 18),)):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, F, s) for n, s in inputs.items()],
                              [helper.make_tensor_value_info(n, F, s) for n, s in outputs.items()], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*i) for i in imports], ir_version=8)


def ints(name, *numbers):
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)], numbers)


def router():
    weights = helper.make_tensor("w", F, [16, 8], [((7 * i) % 11 - 5) / 8 for i in range(128)])
    nodes = [NODE("MatMul", ["x", "w"], ["l"]), NODE("Softmax", ["l"], ["p"], axis=-1), NODE("TopK", ["p", "k"], ["v", "i"]), NODE("ReduceSum", ["v", "a"], ["s"]),
             NODE("Div", ["v", "s"], ["y"])]
    return of(nodes, {"x": ["n", 16]}, {"y": ["n", 2]}, [weights, ints("k", 2), ints("a", -1)])


def attention():
    nodes = [NODE("MatMul", ["q", "k"], ["s"]), NODE("Softmax", ["s"], ["p"], axis=-1), NODE("Mul", ["p", "g"], ["w"]), NODE("MatMul", ["w", "v"], ["y"])]
    return of(nodes, {"q": [1, 2, 8, 4], "k": [1, 2, 4, 8], "v": [1, 2, 8, 4], "g": [1, 2, 8, 8]}, {"y": [1, 2, 8, 4]})


def relu(*imports, op="Relu", domain=""):
    return of([NODE(op, ["x"], ["y"], domain=domain)], {"x": ["n", 4]}, {"y": ["n", 4]}, imports=imports or (("", 18),))


ODD = {
    "same": relu, "older": lambda: relu(("", 9)), "newer": lambda: relu(("", 22)), "microsoft": lambda: relu(("com.microsoft", 1), op="Gelu", domain="com.microsoft"),
    "learning": lambda: of([NODE("Scaler", ["x"], ["y"], domain="ai.onnx.ml", scale=[2.0], offset=[0.0])], {"x": ["n", 4]}, {"y": ["n", 4]}, imports=(("ai.onnx.ml", 3),)),
    "constant": lambda: of([NODE("Constant", [], ["y"], value_floats=[1.0])], {}, {"y": [1]}),
    "copies": lambda: of([NODE("Identity", ["x"], ["a"]), NODE("Relu", ["a"], ["y"]), NODE("Relu", ["x"], ["z"])], {"x": ["n", 4]}, {"y": ["n", 4], "z": ["n", 4]}),
    "long" * 50: relu, "\u540d" * 60: relu, "\x1b[31mred": relu, "router": router, "attention": attention,
}  # fmt: skip
WAYS = [(), ("--no-verify",), ("--target", "onnx"), ("--target", "ort-cuda"), ("--keep-opset",), ("--target", "npu-4d", "--iterations", "1"), ("--assume", "causal_rows", "--io-rank", "4"),
        ("--cost", "bytes", "--prefer", "single-heads")]  # fmt: skip


def screen_of(path, folder, *words):
    done = run(path, "-o", folder / "o.onnx", *words)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 or "not available on target" in done.stderr, done.stderr
    assert not [line for line in lines if len(line) > 80] and len(lines) <= 8, done.stdout
    assert not [word for word in INTERNAL if word in done.stdout], done.stdout
    return done.stdout


@pytest.mark.parametrize("name", [*ODD, *sorted(p.name for p in DATA.glob("*.onnx"))], ids=lambda name: ascii(name[:24]))
def test_eight_lines_of_eighty_columns(tmp_path, name):
    path = DATA / name
    if name in ODD:
        onnx.save(ODD[name](), path := tmp_path / f"{name}.onnx")
    for words in WAYS:
        screen_of(path, tmp_path, *words)


def test_no_versions_that_are_not_imported(tmp_path):
    for name, needs in {"microsoft": "no other runtime (IR 8)", "learning": "newer (IR 8)"}.items():
        onnx.save(ODD[name](), tmp_path / "m.onnx")
        assert needs in screen_of(tmp_path / "m.onnx", tmp_path)


def test_an_opset_that_alone_would_change_stays(tmp_path):
    for name, opset in {"older": 9, "newer": 22}.items():
        onnx.save(ODD[name](), tmp_path / "m.onnx")
        assert f"(opset {opset}, IR 8)" in screen_of(tmp_path / "m.onnx", tmp_path, "--target", "ort-cpu@1.31")


def test_what_is_gone_is_told_where_nothing_was_fused(tmp_path):
    onnx.save(ODD["copies"](), tmp_path / "m.onnx")
    assert re.search(r"\n  changed  1 \w+ less\n", screen_of(tmp_path / "m.onnx", tmp_path))


def test_the_softmax_of_a_router_is_no_missed_attention(tmp_path):
    onnx.save(router(), tmp_path / "m.onnx")
    assert "attention" not in screen_of(tmp_path / "m.onnx", tmp_path)
    onnx.save(attention(), tmp_path / "m.onnx")
    assert "\n  missing  1 attention: no rule fits" in screen_of(tmp_path / "m.onnx", tmp_path)


def test_attention_between_quantizers_is_no_missing_rule(tmp_path):
    """It was told as `no rule fits`, with a DequantizeLinear in the place of a Softmax as the reason."""
    model = attention()
    softmax = next(n for n in model.graph.node if n.op_type == "Softmax")
    model.graph.initializer.extend([tensor("step", np.float32(0.1)), tensor("zero", np.int8(0))])
    nodes = []
    for node in model.graph.node:
        nodes.append(node)
        scores = softmax.input[0]
        for name in (scores, softmax.output[0]):
            if name in node.output:
                nodes.append(helper.make_node("QuantizeLinear", [name, "step", "zero"], [name + "_q"]))
                nodes.append(helper.make_node("DequantizeLinear", [name + "_q", "step", "zero"], [name + "_d"]))
    for node in nodes:
        if node.op_type != "QuantizeLinear":
            node.input[:] = [n + "_d" if n in (scores, softmax.output[0]) else n for n in node.input]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, tmp_path / "m.onnx")
    screen = screen_of(tmp_path / "m.onnx", tmp_path)
    assert "\n  left     1 attention: quantizers stand between" in screen and "no rule fits" not in screen
    assert "1 attention left: quantizers stand between its operators" in " ".join(run_ok("explain", tmp_path / "m.onnx").stdout.split())
    place = json.loads(run_ok("explain", tmp_path / "m.onnx", "attention", "--json").stdout)["places"][0]
    assert place["quantized"] and place["status"] == "missed"


def test_what_is_left_is_told_with_what_helps(tmp_path):
    path = SHARED / "data" / "zoo" / "models" / "llama-dyS18d.onnx"
    if not path.exists():
        pytest.skip("no zoo")
    assert re.search(r"left +2 MultiHeadAttention: no faster here than spelled out", screen_of(path, tmp_path, "--target", "ort-cpu@1.20", "--no-verify"))
    only = ["Attention", "MultiHeadAttention"]
    text = screen_of(path, tmp_path, "--target", "ort-cpu@1.31", "--keep-opset", *[word for name in only[1:] for word in ("--skip-fusion", name)])
    assert re.search(r"missing +2 Attention: opset 23 has it: without --keep-opset", text)


def test_two_operators_of_one_name_are_told_apart(tmp_path):
    nodes = [NODE("Gelu", ["x"], ["a"], domain="com.microsoft"), NODE("Gelu", ["a"], ["y"])]
    onnx.save(of(nodes, {"x": ["n", 4]}, {"y": ["n", 4]}, imports=(("", 20), ("com.microsoft", 1))), tmp_path / "m.onnx")
    text = screen_of(tmp_path / "m.onnx", tmp_path, "--rules", "none")
    assert "(1 Gelu (ai.onnx), 1 Gelu (com.microsoft) were there)" in text
