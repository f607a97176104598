"""bench/runtime/runtime_fine_print.py: every operator that rules make is in it, its page holds its rows, and the installed onnxruntime does what they say."""
import json
import subprocess
import sys

import onnxruntime

from conftest import ROOT, binary

sys.path.insert(0, str(ROOT / "bench"))
from fine_print import attention, cases, made, norms, products, quantized, standard, table  # noqa: E402, F401

ROWS = json.loads((ROOT / "bench" / "data" / "fine_print.json").read_text())
# Quick, and without what depends on the memory's contents.
SOME = ["Attention", "RotaryEmbedding", "LayerNormalization", "RMSNormalization", "SkipLayerNormalization", "BiasGelu", "FusedMatMul", "MatMulNBits", "QLinearSoftmax", "GroupQueryAttention"]
BY_MEMORY = {("com.microsoft::Attention", "past"), ("com.microsoft::GroupQueryAttention", "stage")}  # axes whose rows are not compared


def test_all_that_rules_make_is_compared():
    known = set(cases.OPERATORS) | {s.op for s in standard.specs.SPECS if not s.domain}
    lacking = made.all_made() - known
    assert not [name for name in lacking if "::" in name], lacking
    assert lacking <= {"AffineGrid", "CausalConvWithState", "Constant", "Dropout", "Identity", "SwiGLU"}  # functions, and what computes nothing


def test_the_page_holds_the_rows():
    page = (ROOT / "docs" / "fine_print.md").read_text()
    assert page.endswith("## Table\n" + table.page_table(ROWS["rows"], ROWS["releases"]))


def test_the_installed_release_does_what_the_rows_say(tmp_path):
    """Of some operators, each value of each axis alone."""
    words = [word for name in SOME for word in ("--operator", name)]
    script = [sys.executable, ROOT / "bench" / "runtime" / "runtime_fine_print.py", sys.executable, "--pairs", "0", "--draws", "0", "--binary", binary(), "--json", tmp_path / "rows.json"]
    subprocess.run([str(word) for word in [*script, *words]], capture_output=True, text=True, check=True, timeout=600)
    release = ".".join(onnxruntime.__version__.split(".")[:2])
    assert release in ROWS["releases"], f"run bench/runtime/runtime_fine_print.py for {release}"

    def of(rows):
        some = [row for row in rows if row["operator"].split("::")[-1] in SOME and release in row["releases"]]
        return {(row["operator"], str(row["changed"])): row["releases"][release] for row in some if not any((row["operator"], axis) in BY_MEMORY for axis in row["changed"])}

    assert of(json.loads((tmp_path / "rows.json").read_text())["rows"]) == of(ROWS["rows"])
    assert of(ROWS["rows"])
