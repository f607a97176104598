"""The parts of tools/site, and what stands in several places about a release."""
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, binary

sys.path[:0] = [str(ROOT / "tools/pages"), str(ROOT / "tools/wheel")]

import bill
import cpp_pages
import draw
import libraries
import links
import rule_text
import rules_pages
import trial


def labels(boxes):
    return sorted(box.label for box in boxes if box.kind in ("old", "new"))


def test_both_sides_of_a_rule_are_read():
    text = rules_pages.rule_texts(ROOT / "rules/library/fusions/rare_spellings.rules")["rms_by_length"]
    old, new, arrow = rule_text.sides(text)
    assert labels(old) == ["Div", "Mul", "Mul", "ReduceSum", "Sqrt"] and labels(new) == ["RMSNormalization"] and arrow == "→"
    (norm,) = [box for box in new if box.kind == "new"]
    assert [box.label for box in norm.inputs] == ["X", "one"]


def test_values_mirrors_and_operands_of_tables_are_read():
    old, new, arrow = rule_text.sides('rule r <p> (A, B, C?) => (Y)  assume x unless absent(C)\n  { T = Neg (A | B)  Y = @op <p = @p> @operands } <=> Max (A, [1, 2], -0.5)')
    assert labels(old) == ["@op"] and arrow == "="
    assert [box.label for box in new if box.kind == "constant"] == ["[1,2]", "-0.5"]
    with pytest.raises(rule_text.Unread):
        rule_text.sides("rule r (A) => (Y)\n  Neg (A => A")


def test_nearly_all_laws_have_a_picture():
    texts = [text for path in (ROOT / "rules/library").rglob("*.rules") for text in rules_pages.rule_texts(path).values()]
    drawn = 0
    for text in texts:
        try:
            old, new, arrow = rule_text.sides(text)
        except rule_text.Unread:
            continue
        drawn += "</svg>" in draw.svg([old, arrow, new], "a rule")
    assert len(texts) > 600 and drawn >= 0.98 * len(texts), (drawn, len(texts))


def test_each_public_header_has_a_page_with_all_that_it_declares(tmp_path):
    made = dict(cpp_pages.write(ROOT, tmp_path))
    assert {"saturate.h", "saturate_cost.h", "egraph.h", "rewrite.h"} <= made.keys()
    for path in cpp_pages.public_headers(ROOT):
        page = (tmp_path / made[path.name]).read_text()
        shown, private = page.splitlines(), False
        for line in path.read_text().splitlines():
            private = (private or line.strip() == "private:") and not line.startswith("}")
            kept = cpp_pages.comment(line) is None and line.strip() and not cpp_pages.OUTSIDE.match(line) and not private
            assert not kept or line in shown, (path.name, line)
        titles = re.findall(r"^## (.*)$", page, flags=re.M)
        assert titles and all(re.fullmatch(r"\w+|operator\W+", title) for title in titles) and "struct" not in titles, titles


def test_declarations_keep_their_comments(tmp_path):
    cpp_pages.write(ROOT, tmp_path)
    said = (tmp_path / "saturate.md").read_text()
    assert said.startswith("# saturate/saturate.h\n\nThe library: load, optimize, verify and run ONNX models.")
    assert "## Code\n\nThe exit statuses of the command.\n\n```cpp\nenum class Code : int {\n" in said and "shared_ptr<const Impl> impl_;" not in said
    assert "## saturate_cost_operator\n" in (tmp_path / "saturate_cost.md").read_text()


def test_boxes_stand_below_their_inputs():
    a = draw.Box("a", "input")
    b = draw.Box("B", "node", [a])
    c = draw.Box("C", "node", [b, a])
    rows, depth = draw.layers_of([a, b, c])
    assert [depth[id(box)] for box in (a, b, c)] == [0, 1, 2]
    picture = draw.svg([[a, b, c]], "a < b")
    assert picture.count("<rect") == 4 and picture.count("<path") == 4 and "a &lt; b" in picture  # the long edge passes a point


def test_dead_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="x">A</h1><a href="b.html#y">b</a><a href="#x">x</a><a href="https://elsewhere/">far</a><img src="none.svg">')
    (tmp_path / "b.html").write_text('<h1 id="z">B</h1><a href="a.html">a</a><script src="https://elsewhere/x.js"></script>')
    assert sorted((str(page), place) for page, place in links.dead(tmp_path)) == [("a.html", "b.html#y"), ("a.html", "none.svg"), ("b.html", "https://elsewhere/x.js")]


def test_pictures_are_those_of_today(tmp_path):
    words = [sys.executable, ROOT / "tools/site", "--pictures", tmp_path]
    subprocess.run(words, check=True, env=os.environ | {"SATURATE_BIN": binary(), "SATURATE_PYTHON": sys.executable}, timeout=300)
    old = {path.name: path.read_text() for path in (ROOT / "docs/pictures").iterdir()}
    assert old == {path.name: path.read_text() for path in tmp_path.iterdir()}, "tools/site --pictures docs/pictures draws them anew"


def test_the_bill_of_materials_lists_all():
    sources = libraries.read_sources()
    assert all(re.fullmatch(r"[0-9a-f]{64}", source.sha256) and (source.package in libraries.OPTIONS | {"zlib": []}) == (source.part != "module") for source in sources)
    document = bill.bill(sources, ("gcc", "12.2.0", [("libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1")]), True, "2026-11-26T00:00:00Z")
    names = {part["name"]: part for part in document["components"]}
    assert names.keys() == {"zlib", "fmt", "oneTBB", "abseil-cpp", "protobuf", "re2", "Eigen", "CLI11", "nlohmann-json", "onnx", "HiGHS", "nanobind", "tsl-robin-map", "libstdc++"}
    assert names["Eigen"]["description"] == "headers only" and names["zlib"]["version"] == "1.2.13" and f'"nanobind=={names["nanobind"]["version"]}"' in (ROOT / "pyproject.toml").read_text()
    command = bill.bill(sources, ("gcc", "12.2.0", []), False, "2026-11-26T00:00:00Z")
    assert {part["name"] for part in command["components"]} == names.keys() - {"nanobind", "tsl-robin-map", "libstdc++"}
    refs = {part["bom-ref"] for part in document["components"]}
    assert len(refs) == len(document["components"]) and set(document["dependencies"][0]["dependsOn"]) == refs


def test_a_wheel_is_tried_by_an_interpreter_that_takes_it(tmp_path):
    for path in ("usr/bin/python3.9", "usr/bin/python3.11", "usr/bin/python3.13", "usr/bin/python3.13-config", "usr/local/bin/python3.10"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert trial.python_of(tmp_path, "3.11", stable=False) == ("/usr/bin/python3.11", "3.11")
    assert trial.python_of(tmp_path, "3.10", stable=False) == ("/usr/local/bin/python3.10", "3.10")
    assert trial.python_of(tmp_path, "3.12", stable=True) == ("/usr/bin/python3.13", "3.13")  # one module serves all later versions
    assert trial.python_of(tmp_path, "3.12", stable=False) is None and trial.python_of(tmp_path, "3.14", stable=True) is None


def test_the_image_is_made_of_what_tools_wheels_leaves(tmp_path):
    """Each step of the Dockerfile is played here, on a tarball as tools/wheels makes it of the command that is tested."""
    steps = [line.split(maxsplit=1) for line in (ROOT / "tools/wheel/Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    assert [step for step, _ in steps] == ["FROM", "RUN", "ARG", "ADD", "RUN", "USER", "ENTRYPOINT"]
    (base, apt, machine, add, link, user, entry) = [what for _, what in steps]
    assert base == "debian:12-slim" and "Debian 12" in (ROOT / "docs/wheels.md").read_text()
    installed = re.search(r"apt-get install (.*?) &&", apt)[1].split()
    assert [word for word in installed if not word.startswith("-")] == ["libgcc-s1"]  # the one shared library of no libc that trial.check_needs takes
    (form,) = re.findall(r'name = f"(saturate-.*?)"', (ROOT / "tools/wheels").read_text())
    name = form.replace("{bill.version()}", bill.version()).replace("{machine}", "x86_64")
    pattern, opt = add.replace("${MACHINE}", machine.removeprefix("MACHINE=")).split()
    assert fnmatch.fnmatch(f"{name}.tar.gz", pattern) and opt == "/opt/" and "{" not in name
    (tmp_path / "opt" / name / "bin").mkdir(parents=True)  # ADD unpacks
    (tmp_path / "opt" / name / "bin" / "saturate").symlink_to(binary())
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    subprocess.run(re.sub(r" /", f" {shlex.quote(str(tmp_path))}/", link), shell=True, check=True)
    (command,) = json.loads(entry)
    done = subprocess.run([command, "--version"], env={"PATH": str(tmp_path / "usr/local/bin")}, capture_output=True, text=True)
    assert done.returncode == 0 and bill.version() in done.stdout and user == "1000:1000"


def test_a_release_has_one_version():
    version = bill.version()
    newest = re.search(r"^## ([\d.]+) ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1]
    assert newest == version == json.loads((ROOT / "tools/editor/package.json").read_text())["version"]


def test_the_grammar_of_rules_by_the_tokenizer_of_an_editor():
    if not shutil.which("node") or not (ROOT / "build/editor/node_modules").exists():
        pytest.skip("tools/editor/README.md says how vscode-textmate is installed")
    done = subprocess.run(["node", ROOT / "tools/editor/check.js", binary()], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_editor_files_are_json_and_name_each_other():
    package = json.loads((ROOT / "tools/editor/package.json").read_text())["contributes"]
    grammar = json.loads((ROOT / "tools/editor" / package["grammars"][0]["path"]).read_text())
    assert grammar["scopeName"] == package["grammars"][0]["scopeName"]
    assert (ROOT / "tools/editor" / package["languages"][0]["configuration"]).exists()
    for matcher in package["problemMatchers"]:
        for pattern in matcher["pattern"] if isinstance(matcher["pattern"], list) else [matcher["pattern"]]:
            re.compile(pattern["regexp"])
