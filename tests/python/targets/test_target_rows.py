"""The target files of Qualcomm's HTP against the rows that they were written from (tests/data/qnn_htp_rows.txt)."""
import json

import onnx
import pytest

from conftest import run
from qnn_rows import model_of, rows

# Taken as a whole: the runtime makes one operator of them before it compiles. A file of single operators refuses the parts.
FUSED_FIRST = {"Gelu by Erf parts", "Reshape rank6 Transpose Reshape (window)"}
# Of rows that the SoC decides, what qnn-htp-generic refuses.
NEEDS_SOC = {"LpNormalization p2 axis-1", "MHA 4-D parts mask=where", "mask: Where(bool const cond)", "mask: Where scalar", "Less int32 -> Where float mask"}
ROWS = list(rows())


def refused(model, target):
    """What is refused, views and casts at the border of the graph among it: a row is of one operator between an input and an output."""
    bare = model.with_name(f"{target}.json")
    bare.write_text(json.dumps({"extends": target, "name": target, "border": []}))
    done = run("targets", "check", model, "--target", bare, "--json", "--no-forms")
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    return json.loads(done.stdout)["inexpressible"]


def test_there_are_as_many_rows_as_were_measured():
    assert len(ROWS) == 191
    assert [sum(r.verdicts == v for r in ROWS) for v in ("++++", "----", "++--", "+++-", "+???", "+-++", "+++?", "+---")] == [146, 29, 6, 3, 3, 2, 1, 1]


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_the_file_says_what_was_measured(tmp_path, dtype):
    wrong = {}
    for row in ROWS:
        if row.verdict(dtype) == "?" or row.name in FUSED_FIRST:
            continue
        onnx.save(model_of(row, dtype), tmp_path / "m.onnx")
        found = refused(tmp_path / "m.onnx", "qnn-htp")
        if bool(found) != (row.verdict(dtype) == "-"):
            wrong[row.name] = [f["reason"] for f in found]
    assert not wrong


def test_without_a_soc_less_is_taken(tmp_path):
    for row in ROWS:
        onnx.save(model_of(row, "float"), tmp_path / "m.onnx")
        named, generic = (refused(tmp_path / "m.onnx", target) for target in ("qnn-htp", "qnn-htp-generic"))
        assert (len(generic) > len(named)) == (row.name in NEEDS_SOC), row.name
