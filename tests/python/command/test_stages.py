"""What each stage has made: --dump and --stop-after."""
import json

import onnx.parser

from conftest import DATA, run, run_ok

BART = DATA / "bart_encoder.onnx"
STAGES = ("load", "lower", "saturate", "extract", "emit")


def test_a_run_stops_after_each_stage_and_shows_it(tmp_path):
    shown = {}
    for stage in STAGES:
        shown[stage] = run_ok(BART, tmp_path / "out.onnx", "--stop-after", stage, "--dump", stage).stdout
        assert shown[stage].startswith(f"# {stage}\n")
        assert list(tmp_path.iterdir()) == []
    assert onnx.parser.parse_model(shown["load"].split("\n", 1)[1]).graph.node[0].op_type
    assert "Attention" in shown["emit"] and "Attention" not in shown["load"]
    nodes = {stage: shown[stage].count(" | ") for stage in ("lower", "saturate")}  # equal e-nodes of one class
    assert nodes["saturate"] > 10 * max(1, nodes["lower"])
    assert "\ncost " in shown["extract"]


def test_dumps_go_to_files_in_the_form_of_their_names(tmp_path):
    files = {name: tmp_path / name for name in ("a.txt", "a.dot", "a.json", "chosen.json", "b.onnxtxt")}
    run_ok(BART, tmp_path / "out.onnx", "-q", "--no-verify", "--dump", f"saturate={files['a.txt']}", "--dump", f"saturate={files['a.dot']}",
           "--dump", f"saturate={files['a.json']}", "--dump", f"extract={files['chosen.json']}", "--dump", f"emit={files['b.onnxtxt']}")
    assert "float[" in files["a.txt"].read_text()
    assert files["a.dot"].read_text().startswith("digraph")
    graph = json.loads(files["a.json"].read_text())
    assert graph["root_eclasses"] and len(graph["nodes"]) > 100
    chosen = json.loads(files["chosen.json"].read_text())
    operators = {row["op"].split("<")[0] for row in chosen["chosen"]}
    assert any("Attention" in op for op in operators) and chosen["refused"] == 0
    run_ok(files["b.onnxtxt"], tmp_path / "again.onnx", "-q", "--no-verify")


def test_bodies_are_shown_with_their_place(tmp_path):
    text = tmp_path / "if.onnxtxt"
    text.write_text("""<ir_version: 10, opset_import: ["" : 20]>
g (bool c, float[3] x) => (float[3] y) {
  y = If (c) <then_branch = t () => (float[3] a) { b = Relu (x) a = Relu (b) }, else_branch = e () => (float[3] d) { d = Neg (x) }>
}
""")
    shown = run_ok(text, tmp_path / "out.onnx", "--stop-after", "saturate", "--dump", "saturate").stdout
    assert "# then_branch of 'y'" in shown and "# else_branch of 'y'" in shown


def test_what_cannot_be_shown_is_said(tmp_path):
    for words, message in (
        (("--dump", "rise"), "no stage; there are load, lower, saturate, extract, emit"),
        (("--dump", "emit=a.json"), "a model is written as ONNX text"),
        (("--dump", "extract=a.dot"), "a choice is written as text or JSON"),
        (("--dump", "lower="), "no file after the ="),
        (("--dump", "lower", "--json"), "name a file"),
        (("--stop-after", "grow"), "no stage"),
    ):
        done = run(BART, tmp_path / "out.onnx", *words)
        assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1, (words, done.stderr)
    done = run(BART, tmp_path / "out.onnx", "--dump", f"lower={BART}")
    assert done.returncode == 1 and "would overwrite the model" in done.stderr
    assert list(tmp_path.iterdir()) == []
