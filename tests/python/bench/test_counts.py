"""bench/gauges/counts.py: what it tells of sources, and that no figure of bench/data/counts.json has risen."""
import importlib.util
import json
import pathlib

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "gauges" / "counts.py"
spec = importlib.util.spec_from_file_location("counts", SCRIPT)
counts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(counts)


def test_no_figure_has_risen(capsys):
    status = counts.ratchet(counts.RATCHET, write=False, why=None)
    assert status == 0, capsys.readouterr().err


SOURCE = '''// f (a) { in a comment
#include "tools/two/b.h"
namespace saturate {
template <typename T = int>
T read(std::string_view text, Options options = {}, int first = 1) {
  const auto each = [](int a) {
    return a;
  };
  return R"(a text of { and "Conv", "Gemm")";
}

class Walk : public Base {
 public:
  Walk(const Model& first, const std::map<std::string, int>& second)
      : sides_{&first, &second}, seen_(false) {
    seen_ = true;
  }
  bool operator==(const Walk& other) const = default;
  bool seen() const noexcept { return seen_; }
};
constexpr std::array<int, 2> kTable{
    1,
    2,
};
}  // namespace saturate
'''


@pytest.fixture
def sources(tmp_path):
    for name, text in {"tools/one/a.cpp": SOURCE, "tools/two/b.h": '#include "tools/one/a.h"\n', "egraph/c.h": '#include "tools/one/a.h"\n'}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_functions_and_classes_are_told_by_their_braces(sources):
    told = {(kind, name): (lines, parameters) for kind, lines, parameters, _, _, name in counts.blocks_of(sources)}
    assert told == {("function", "read"): (7, 3), ("function", "Walk"): (5, 2), ("function", "seen"): (1, 0), ("class", "Walk"): (9, 0)}


def test_folders_that_include_each_other_are_found(sources):
    assert counts.include_cycles(sources) == [("tools/one", "tools/two", 1, 1)]


def test_a_figure_falls_by_itself_and_rises_with_a_reason():
    held = {"operator lists": {"at_most": 5}}
    assert counts.risen(held, {"operator lists": 6}) == [("operator lists", 6, 5)]
    assert counts.moved(held, {"operator lists": 6}, None) == held
    higher = counts.moved(held, {"operator lists": 6}, "a runtime's own list")
    assert higher == {"operator lists": {"at_most": 6, "lowest": 5, "why": "a runtime's own list"}} and not counts.unreasoned(higher)
    assert counts.moved(higher, {"operator lists": 6}, None) == higher
    assert counts.moved(higher, {"operator lists": 4}, None) == {"operator lists": {"at_most": 4}}
    assert counts.unreasoned({"operator lists": {"at_most": 6, "lowest": 5}})


def test_a_figure_that_rose_is_an_error(tmp_path, capsys):
    path = tmp_path / "held.json"
    assert counts.ratchet(path, write=True, why=None) == 0
    held = json.loads(path.read_text())
    held["operator lists"]["at_most"] -= 1
    path.write_text(json.dumps(held))
    assert counts.ratchet(path, write=False, why=None) == 1
    said = capsys.readouterr().err
    assert "operator lists" in said and "--list operator_lists" in said and "--why" in said
