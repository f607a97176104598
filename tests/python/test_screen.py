"""What `saturate MODEL` says on one screen: its lines, their width, colours, and what -q, -v and -vv leave out or add."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, binary, make_model, run, run_ok, said

BART = DATA / "bart_encoder.onnx"
LABELS = ["found", "prices", "needs", "assumes", "more"]
INTERNAL = ["e-node", "e-class", "raise", "lower", "saturated", "iteration"]


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


def test_six_lines(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx")
    lines = done.stdout.splitlines()
    assert re.search(r"bart_encoder\.onnx -> \S+out\.onnx verified here only \(onnxruntime is not installed\), \d+ inputs, largest difference \d", said(done))
    before = sum(n.op_type != "Constant" for n in onnx.load(BART).graph.node)
    after = sum(n.op_type != "Constant" for n in onnx.load(tmp_path / "out.onnx").graph.node)
    assert re.search(rf" {before} -> {after} operators weights .* -> [\d.]+ (us|ms) predicted \(-\d+ to -\d+ %; ort-cpu@1.20; sizes assumed: batch=1, seq=128 \(tokens\), --cost-at sets them\)", said(done))
    assert [line.split()[0] for line in lines if re.match(r"  [a-z]+  ", line)] == LABELS
    assert all(len(line) <= 100 for line in lines)
    assert not [word for word in INTERNAL if word in done.stdout]


def test_what_was_found_and_what_was_there(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx", "--cost", "nodes")
    found = re.search(r"found (.*) needs", said(done))[1]
    assert "EmbedLayerNormalization" in found and "BiasGelu" in found
    again = run_ok(tmp_path / "out.onnx", tmp_path / "again.onnx", "--cost", "nodes")
    assert re.search(r"found nothing to fuse \(.*BiasGelu.*were there\)", said(again))


def test_one_operator_was_there(tmp_path):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])
    scale = helper.make_tensor("g", TensorProto.FLOAT, [4], [1, 2, 3, 4])
    onnx.save(make_model([helper.make_node("LayerNormalization", ["x", "g"], ["y"])], [value("x")], [value("y")], [scale]), tmp_path / "m.onnx")
    assert "(1 LayerNormalization was there)" in said(run_ok("m.onnx", cwd=tmp_path))


def test_assumptions_are_sentences(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx", "--cost", "nodes")
    assert re.search(r"assumes scores are finite where a mask hides them.*and 2 more \(finite_scores, ids_in_range, no_empty_row; .*--no-assume", said(done))
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
        assert text.splitlines()[1:3] and "needs" in text


def test_quiet_keeps_warnings(tmp_path):
    done = run_ok(BART, tmp_path / "out.onnx", "-q")
    assert done.stdout == "" and done.stderr == ""
    done = run_ok(BART, tmp_path / "out.onnx", "-q", "--cost-at", "nosuch=3")
    assert done.stdout == "" and done.stderr.startswith("saturate: warning: --cost-at nosuch: ")


def test_a_search_that_was_cut_short_says_so(tmp_path):
    assert "stopped early: iteration limit" in said(run_ok(BART, tmp_path / "out.onnx", "--iterations", "1"))


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
