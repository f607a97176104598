"""Documents, comments and help name only what exists, and the examples of the help run."""
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
import test_encoder_decoders

from conftest import DATA, ROOT, binary, run, run_ok
from decoders import Shape, decoder

SOURCES = (".cpp", ".h", ".inc", ".py", ".rules", ".json", ".txt", ".cmake", ".in", ".onnxtxt", ".toml", ".jsonl", ".sh", ".supp", "")
# Files of ONNX and of ONNX Runtime, places of arguments, and names of other projects.
THEIRS = {"docs/Changelog.md", "docs/ContribOperators.md", "docs/Broadcasting.md", "file.rules", "OUT.cpp", "OUT.h",
          "LD_LIBRARY_PATH", "unk__7", "unk__8", "snake_case", "PascalCase", "clip_vision", "deberta_v2"}
OTHER_NAMES = ("docs/backend_tests.md", "docs/first_minute.md", "docs/functions.md", "docs/rewrites.md", "docs/review.md")  # of test cases of ONNX and its runtime, and names of the past
FOLDERS = "egraph|onnx_bridge|rules|extract|kernels|tests|bench|tools|docs"


@functools.cache
def files():
    """Every file of the repository; the folders of builds are left out."""
    return [p for folder in (*FOLDERS.split("|"), ".ci") for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts] + [
        p for p in ROOT.iterdir() if p.is_file()]


def documents():
    return [p for p in files() if p.suffix == ".md" and p.name != "CHANGELOG.md"]


@functools.cache
def words():
    """What stands in files that are no documents: words, and options such as --seed."""
    found = set()
    for path in files():
        if path.suffix in SOURCES and path.suffix != ".md" and path.stat().st_size < 1 << 22:
            text = path.read_text(errors="replace")
            found.update(re.findall(r"\w+", text))
            found.update(re.findall(r"--[a-z][a-z-]*[a-z]", text))
    return found


def prose(path):
    """Numbered lines outside of code."""
    inside = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        inside ^= line.startswith("```")
        if not inside and not line.startswith("    "):
            yield number, line


def test_the_top_level_holds_what_its_owner_fixed():
    """A result that was written beside the sources, and a folder named --help, were kept with them."""
    asked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True) if shutil.which("git") else None
    if not asked or asked.returncode:
        pytest.skip("no repository here: what is kept can't be told from what was built")
    kept = asked.stdout.splitlines()
    folders = {"bench", "docs", "egraph", "extract", "kernels", "onnx_bridge", "rules", "tests", "tools"}
    files = {"CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "action.yml", "pyproject.toml"}
    strays = {path.split("/")[0] for path in kept if not path.startswith(".")} - folders - files
    assert kept and not strays, strays


def test_documents_and_comments_name_files_that_exist():
    gone = []
    names = {p.name for p in files()}
    for path in files():
        if path.suffix not in (".md", ".h", ".cpp", ".rules", ".inc") or path.name == "CHANGELOG.md":
            continue
        mark = {".md": "", ".rules": "#"}.get(path.suffix, "//")
        for number, line in enumerate(path.read_text().splitlines(), 1):
            told = line if not mark else line.partition(mark)[2]
            for name in re.findall(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*\w\.(?:h|cpp|py|rules|inc|md|json|jsonl|onnxtxt|cmake|supp)\b", told):
                if name not in THEIRS and not (ROOT / name).exists():
                    gone.append(f"{path.relative_to(ROOT)}:{number}: {name}")
            for name in re.findall(r"(?<![\w./*<-])\w+\.(?:h|cpp|rules)\b", told):
                if name not in THEIRS | names and path.suffix != ".md":
                    gone.append(f"{path.relative_to(ROOT)}:{number}: {name}")
    assert not gone, gone


def test_documents_name_options_and_identifiers_that_exist():
    unknown = []
    known = words() | THEIRS | {p.stem for p in files()}
    for path in documents():
        if str(path.relative_to(ROOT)) in OTHER_NAMES or path.name.startswith("from_"):  # pages for those who come from other tools name their options
            continue
        for number, line in prose(path):
            if re.search(r"\| \d+ \||469e179", line):
                continue  # tables of measurements name what was there
            options = re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", " ".join(re.findall(r"`[^`]*`", line)))
            names = [t for t in re.findall(r"`(\w+)(?:\(\))?`", line) if "_" in t.strip("_") or re.search(r"[a-z][A-Z]", t)]
            unknown += [f"{path.relative_to(ROOT)}:{number}: {word}" for word in options + names if word not in known]
    assert not unknown, unknown


def rows(path):
    """The rows of a page's tables, but for their heads."""
    return [line for line in path.read_text().splitlines() if line.startswith("| ") and not re.match(r"\| (stage|step|change) \|", line)]


def named_in(row):
    """The files, the folders and the symbols that a row names in code; `a/*.cpp` names several files."""
    code = re.findall(r"`([^`]+)`", row)
    found = [list(ROOT.glob(name)) for name in code if "/" in name and not re.search(r"[ <]", name)]
    missing = [name for name in code if "/" in name and not re.search(r"[ <]", name) and not list(ROOT.glob(name))]
    return [p for paths in found for p in paths], missing, [name for name in code if re.fullmatch(r"\w+", name)]


@pytest.mark.parametrize("page", ["architecture.md", "reading_order.md"])
def test_tables_of_places_name_files_and_what_to_look_for_there(page):
    wrong = []
    for row in rows(ROOT / "docs" / page):
        paths, missing, symbols = named_in(row)
        wrong += [f"{row}: there is no {name}" for name in missing]
        texts = {p: set(re.findall(r"\w+", p.read_text())) for p in paths if p.is_file()}
        one_of = {p: any(symbol in known for symbol in symbols) for p, known in texts.items() if p.suffix in (".cpp", ".h", ".py", ".rules") and "*" not in row}
        wrong += [f"{row}: nothing of {p.relative_to(ROOT)} is named" for p, found in one_of.items() if not found]
        wrong += [f"{row}: `{symbol}` stands in none of its files" for symbol in symbols if texts and not any(symbol in known for known in texts.values())]
        if not (paths and symbols) and not re.search(r"\]\([\w/]+\.md\)", row):
            wrong.append(f"{row}: no file, or nothing to look for in it")
    assert not wrong, "\n".join(wrong)


def help_examples():
    verbs = re.findall(r"^  (\w+) ", re.search(r"^VERBS\n(.*?)\n\n", run_ok("--help").stdout, flags=re.M | re.S)[1], flags=re.M)
    verbs = [v for v in verbs if v != "saturate"]
    return [(verb, line.strip()) for verb in ["", *verbs] for line in run_ok(*([verb] if verb else []), "--help").stdout.partition("\nEXAMPLES\n")[2].splitlines()
            if line.strip()]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """The files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copy(DATA / "bart_encoder.onnx", folder / "bart.onnx")
    shutil.copy(DATA / "bart_encoder.inputs.npz", folder / "x.npz")
    for name, cache in (("whole", "none"), ("decoder", "none"), ("cached", "growing"), ("llama", "growing")):
        onnx.save(decoder(Shape(cache=cache, positions="none")), folder / f"{name}.onnx")
    t5 = test_encoder_decoders.spelled_out()
    for path in test_encoder_decoders.parts(tmp_path_factory.mktemp("t5"), t5):
        shutil.copy(path, folder)
    onnx.save(t5, folder / "t5.onnx")
    np.savez(folder / "features.npz", input_ids=[[5, 6, 7]], attention_mask=[[1, 1, 1]])
    np.savez(folder / "states.npz", **test_encoder_decoders.encoded([5, 6, 7]))
    run_ok("bart.onnx", cwd=folder)
    (folder / "my.rules").write_text('opset "" 18\nrule twice (X) => (Y)\n  Neg (Neg (X)) => Identity (X)\n  example X = float[2,3]\n')
    run_ok("extract", "bart.onnx", "--sample", "1", "-o", "some", cwd=folder)
    run_ok("cost", "gather", "--graphs", *sorted(folder.glob("some/*.onnx")), "--seconds", "0.001", "--dim", "batch=1", "--dim", "seq=16", "-o", "graphs.jsonl", cwd=folder)
    run_ok("cost", "gather", "bart.onnx", "--dim", "batch=1", "--dim", "seq=16", "--seconds", "0.001", "-o", "others.jsonl", cwd=folder)
    shutil.copy(folder / "others.jsonl", folder / "rows.jsonl")
    run_ok("cost", "fit", "rows.jsonl", "-o", "mine.json", cwd=folder)
    return folder


FINDS_SOMETHING = {"saturate targets check": 1, "saturate reduce": 6, "saturate diff": 3}  # BART breaks limits of npu-4d, and shows no failure


def run_line(line, folder):
    """A line of a page or of the help. What asks ONNX Runtime is told where it lies, as the Python package's command knows."""
    asks = re.search(r"--(after-load|measure)\b|cost calibrate", line)
    there = {"SATURATE_ONNXRUNTIME": str(pathlib.Path(pytest.importorskip("onnxruntime").__file__).parent)} if asks else {}
    words = line.replace("saturate", shlex.quote(binary()), 1)
    return subprocess.run(words, shell=True, cwd=folder, env={**os.environ, **there}, capture_output=True, text=True, timeout=300)


def test_every_verb_has_an_example_that_runs(workplace, tmp_path):
    folder = tmp_path / "help"
    shutil.copytree(workplace, folder)  # what the examples write is none of the pages' files
    examples = help_examples()
    assert len(examples) > 20 and len({verb for verb, _ in examples}) >= 15, examples
    for _, line in examples:
        assert line.startswith("saturate ")
        done = run_line(line, folder)
        wanted = next((code for begin, code in FINDS_SOMETHING.items() if line.startswith(begin)), 0)
        assert done.returncode == wanted, (line, done.stdout[-500:], done.stderr)


def blocks(path):
    """Language and text of each fenced block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(), flags=re.M | re.S)


def command_lines(path):
    return [line for language, text in blocks(path) if language in ("", "sh") for line in text.splitlines() if line.startswith("saturate ")]


# Names that stand for others, files and values that the bundled model has not; `cost` and `reduce` are run by the test of the help's examples.
NOT_TO_RUN = re.compile(r"\b[A-Z]{4,}\b|calibration\.npz|here\.jsonl|saturate cost|saturate reduce|--sample 20|passes\.json|before\.json|hidden|~/|kv_cache|completion fish|saturate slm in")
PAGES = [p for p in documents() if command_lines(p)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_of_pages_run(path, workplace, tmp_path):
    """Every line `saturate ...` of a page, in its order, on the bundled model, with the rules that the page shows."""
    folder = tmp_path / "page"
    shutil.copytree(workplace, folder)
    for name in ("in", "model", "bert"):
        shutil.copy(folder / "bart.onnx", folder / f"{name}.onnx")
    shutil.copy(folder / "my.rules", folder / "mine.rules")
    for _, text in blocks(path):
        if text.startswith("# my.rules"):
            (folder / "my.rules").write_text(text)
    lines = [line for line in command_lines(path) if not NOT_TO_RUN.search(line.partition("  #")[0])]
    for line in lines:
        done = run_line(line, folder)
        assert done.returncode == (3 if line.startswith("saturate diff") else 0), (line, done.stdout[-500:], done.stderr)


def test_readme_is_short_and_begins_with_code():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 80
    first = "\n".join(lines[:25])
    assert first.index("tools/quickstart") < first.index("tools/test") < first.index("pip install") < first.index("saturate bart.onnx") < first.index("import onnx_saturate")
    assert [line for line in command_lines(ROOT / "README.md")]


def readme_tables(*words, **there):
    return subprocess.run([sys.executable, ROOT / "bench" / "gauges" / "readme_tables.py", "--saturate", binary(), *map(str, words)], capture_output=True, text=True,
                          timeout=1800, env={**os.environ, **there})


def test_the_screen_in_readme_is_what_the_command_prints(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the page shows what it judges")
    there = {"SATURATE_ONNXRUNTIME": str(pathlib.Path(onnxruntime.__file__).parent)}
    done = readme_tables("--what", "screen", **there)
    assert done.returncode == 0 and "README.md: screen" in done.stdout, done.stdout + done.stderr
    changed = tmp_path / "README.md"
    changed.write_text(re.sub(r" -> \d+ operators", " -> 7 operators", (ROOT / "README.md").read_text()))
    assert readme_tables(changed, "--what", "screen", **there).returncode == 1
    assert readme_tables(changed, "--what", "screen", "--write", **there).returncode == 0
    assert readme_tables(changed, "--what", "screen", **there).returncode == 0


# What is shown for Olive, what test_many_models_page.py runs, and for models and pictures that the page does not bring.
PYTHON_ELSEWHERE = re.compile(r"olive|net\.onnx|onnxruntime_extensions|hidden|from onnx_saturate\.tune|results = ")


@pytest.mark.parametrize("path", [p for p in documents() if any(language == "python" for language, _ in blocks(p))], ids=lambda p: str(p.relative_to(ROOT)))
def test_python_of_pages_runs(path, workplace, tmp_path):
    pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
    folder = tmp_path / "page"
    shutil.copytree(workplace, folder)
    before = 'import onnx, onnx_saturate\nmodel = onnx.load("bart.onnx")\n'
    for text in [text for language, text in blocks(path) if language == "python" and not PYTHON_ELSEWHERE.search(text)]:
        done = subprocess.run([sys.executable, "-c", before + text], cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (text, done.stdout[-500:], done.stderr)
