"""bench/runtime/new_release.py: rows and tables of a release, written again from the installed wheel."""
import json
import sys

import pytest
from conftest import ROOT

onnxruntime = pytest.importorskip("onnxruntime")
sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import new_release  # noqa: E402
import ort_kernel_types  # noqa: E402

RELEASE = new_release.release_of(onnxruntime.__version__)


def until(table, newest):
    """The table of kernels as it was with this release as its newest."""
    known = [release for release in table["releases"] if new_release.numbers(release) <= new_release.numbers(newest)]
    since = {op: release for op, release in table["since"].items() if release in ("", *known)}
    dtypes = {op: {release: types for release, types in rows.items() if release in known} for op, rows in table["dtypes"].items()}
    dtypes = {op: rows for op, rows in dtypes.items() if rows and list(rows.values()) != ["any"]}
    return ort_kernel_types.spelled(known, since, dtypes)


def test_the_table_of_kernels_grows_to_what_is_there():
    table = json.loads(new_release.KERNELS.read_text())
    if RELEASE not in table["releases"][1:]:
        pytest.skip(f"no table of {RELEASE}")
    before = until(table, table["releases"][table["releases"].index(RELEASE) - 1])
    made = new_release.with_kernels(before, RELEASE, new_release.kernels(sys.executable))
    assert made == until(table, RELEASE) and made != before
    assert new_release.with_kernels(made, RELEASE, []) == made


def test_a_row_stands_where_it_says_something_new():
    text = (new_release.TARGETS / "ort-cpu.json").read_text()
    versions = json.loads(text)["runtime"]["versions"]
    newest = list(versions)[-1]
    row = {"opset": 40, "ir": 20}
    made = new_release.with_row(text, "9.1", row)
    assert json.loads(made)["runtime"]["versions"] == versions | {"9.1": row}
    assert new_release.with_row(made, "9.1", row) == made
    assert new_release.with_row(text, "9.1", versions[newest]) == text
    assert new_release.with_row(text, newest, versions[newest]) == text
    between = new_release.with_row(text, "1.22.5", row)
    assert [v for v in json.loads(between)["runtime"]["versions"]] == ["1.20", "1.21", "1.22", "1.22.5", *list(versions)[3:]]


def test_the_installed_release_loads_what_its_row_says():
    rows = json.loads((new_release.TARGETS / "ort-cpu.json").read_text())["runtime"]["versions"]
    known = max((v for v in rows if new_release.numbers(v) <= new_release.numbers(RELEASE)), key=new_release.numbers)
    assert new_release.loads(sys.executable) == {key: rows[known][key] for key in ("opset", "ir")}


def test_what_changed_is_told_by_types_and_not_by_their_numbers():
    one = 'R"optable(types tensor(float)\nop d A 1 1 1 1 1\nc T 0\nop d B 1 1 1 1 1\nc T 0\n)optable"\n'
    other = 'R"optable(types tensor(double)\ntypes tensor(float)\nop d A 1 1 1 1 1\nc T 1\nop d B 1 1 1 1 1\nc T 0\nop d C 1 1 1 1 1\nc T 1\n)optable"\n'
    assert new_release.changed(*map(new_release.operators, (one, other))) == {"new": ["d::C-1"], "gone": [], "changed": ["d::B-1"]}
