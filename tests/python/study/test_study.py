"""onnx_saturate.study: one file to one table, each piece once, the same bytes from the same parts."""
import contextlib
import csv
import fcntl
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import onnx
import pytest
from conftest import DATA, ROOT, patience

study = pytest.importorskip("onnx_saturate.study", reason="the package is not installed: pip install .")
pytest.importorskip("onnxruntime")

SMALL = """
title = "Small"
costs = ["measured", "nodes"]
[timing]
rounds = 6
burst = 0.0005
[[models]]
maker = "mlp"
width = [16, 32]
dims = { batch = 2 }
[[models]]
files = "bart.onnx"
dims = { batch = 1, seq = 8 }
"""


def command(*words, cwd, **more):
    return subprocess.run([sys.executable, "-m", "onnx_saturate.study", *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=300 * patience, **more)


def rows(folder):
    with open(folder / "results.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parts(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder with a study that was run in it."""
    folder = tmp_path_factory.mktemp("study")
    shutil.copy(DATA / "bart_encoder.onnx", folder / "bart.onnx")
    (folder / "small.toml").write_text(SMALL)
    done = command("small.toml", "-j", "2", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"6 experiments, 0 failures: small\.study/results\.csv", done.stdout), done.stdout
    assert len(re.findall(r"^\[\d+/6\] optimize ", done.stderr, flags=re.M)) == 6, done.stderr
    return folder


def test_a_row_for_each_experiment(small):
    found = rows(small / "small.study")
    assert [(row["model"], row["cost"]) for row in found] == [(name, cost) for name in ("mlp-3-16", "mlp-3-32", "bart") for cost in ("measured", "nodes")]
    assert {row["dims"] for row in found} == {"batch=2", "batch=1,seq=8"} and {row["family"] for row in found} == {"mlp", "bart"}
    for row in found:
        assert 0 < float(row["ratio_low"]) <= float(row["ratio"]) <= float(row["ratio_high"])
        assert float(row["measured_before"]) > 0 and float(row["predicted_after"]) > 0 and row["same_outputs"] == row["verified"] == "true"
        assert row["processor"] and row["onnxruntime"] and row["saturate"] and row["failed"] == ""
        assert (small / "small.study" / "models" / f"{row['result_sha256']}.onnx").exists()
    assert list(found[0]) == list(study.columns_of(study.MEASURES[:-1]))


def test_equal_results_are_timed_once(small):
    found = rows(small / "small.study")
    by_result = {(row["model_sha256"], row["result_sha256"]): set() for row in found}
    for row in found:
        by_result[row["model_sha256"], row["result_sha256"]].add(row["time_part"])
    assert all(len(names) == 1 for names in by_result.values())
    assert sum(name.startswith("time-") for name in parts(small / "small.study")) == len(by_result)


def test_parquet_says_what_csv_says(small):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(small / "small.study" / "results.parquet").to_pylist()
    found = rows(small / "small.study")
    assert [str(row["ratio"]) for row in table] == [row["ratio"] for row in found] and list(table[0]) == list(found[0])


def test_page_and_summary(small):
    folder = small / "small.study"
    page, summary = (folder / "results.html").read_text(), (folder / "results.md").read_text()
    assert "Content-Security-Policy" in page and "default-src 'none'" in page
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)", page)
    assert page.count("<svg") == 4 == len(list((folder / "plots").glob("*.svg")))  # two clouds, ratios, extraction
    for name in re.findall(r"\]\((plots/[^)]*)\)", summary):
        assert (folder / name).read_text().startswith("<svg")
    assert "Small" in summary and "| measured | search | bart |" in summary


def test_a_run_that_was_ended_goes_on(small, tmp_path):
    shutil.copytree(small, tmp_path / "s")
    folder = tmp_path / "s" / "small.study"
    before = parts(folder)
    gone = next(name for name in before if name.startswith("optimize-"))
    half = next(name for name in before if name.startswith("time-"))
    (folder / "parts" / gone).unlink()
    text = (folder / "parts" / half).read_text()
    (folder / "parts" / half).write_text(text[: len(text) // 2])
    (folder / "parts" / "time-0000.json.1.part").write_text("{")
    assert command("small.toml", "--dry-run", cwd=tmp_path / "s").stdout.count("to do") >= 2
    assert command("small.toml", cwd=tmp_path / "s").returncode == 0
    after = parts(folder)
    assert {name for name in before if after[name] != before[name]} == {gone, half}
    assert json.loads((folder / "parts" / half).read_text())["key"] == json.loads(text)["key"]


def tables(folder):
    return {name: (folder / name).read_bytes() for name in ("results.csv", "results.html", "results.md", "results.parquet") if (folder / name).exists()}


def test_replayed_times_give_the_same_bytes(small, tmp_path):
    made = tables(small / "small.study")
    shutil.copytree(small, tmp_path / "s")
    (tmp_path / "s" / "bart.onnx").unlink()  # tables come from parts alone
    shutil.rmtree(tmp_path / "s" / "small.study" / "models")
    done = command("small.toml", "--replay", cwd=tmp_path / "s")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert tables(tmp_path / "s" / "small.study") == made
    done = command("small.toml", "-o", tmp_path / "other", "--replay", "small.study", "-j", "2", cwd=small)
    assert done.returncode == 0 and " time " not in done.stderr, done.stderr
    assert tables(tmp_path / "other") == made


def test_nothing_to_replay(small, tmp_path):
    done = command("small.toml", "-o", tmp_path / "none", "--replay", cwd=small)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "without --replay first" in done.stderr
    (tmp_path / "none" / "parts").mkdir(parents=True)
    shutil.copy(small / "small.study" / "study.json", tmp_path / "none")
    done = command("small.toml", "-o", tmp_path / "other", "--replay", tmp_path / "none", cwd=small)
    assert done.returncode == 1 and "holds no times" in done.stderr.splitlines()[-1]


WRONG = [
    ("costs = 3\n[[models]]\nmaker = 'mlp'", "costs: 3 is no text"),
    ("title = 'x'", "models: it is missing; write [[models]]"),
    ("models = 3", "models: it is no list of tables"),
    ("cost = 'nodes'\n[[models]]\nmaker = 'mlp'", "cost: no such key; did you mean 'costs'?"),
    ("[[models]]\nmaker = 'mpl'", "models[1].maker: 'mpl' is no maker; there are mlp, encoder"),
    ("[[models]]\nmaker = 'mlp'\ndepth = 3", "models[1].depth: no such key"),
    ("[[models]]\nmaker = 'mlp'\nlayers = 0", "models[1].layers: 0 is no whole number from 1"),
    ("[[models]]\nmaker = 'mlp'\n[[models]]\nfiles = 'no/*.onnx'", "models[2].files: there is no file no/*.onnx"),
    ("[[models]]\nmaker = 'mlp'\nfiles = 'a.onnx'", "models[1]: it has files and maker; give exactly one"),
    ("[[models]]\ndims = {}", "models[1]: it has neither files nor maker nor script"),
    ("[[models]]\nmaker = 'mlp'\n[timing]\nrounds = 5", "timing.rounds: 5 is no whole number from 6"),
    ("[[models]]\nmaker = 'mlp'\n[options]\nnode_limt = 5", "options.node_limt: no such key; did you mean 'node_limit'?"),
    ("[[models]]\nmaker = 'mlp'\n[options]\nnode_limit = 'x'", "options: node_limit: 'x' is not a whole number"),
    ("[[models]]\nmaker = 'mlp'\n[options]\ncost = 'x'", "options.cost: a study says this elsewhere"),
    ("costs = ['no.json']\n[[models]]\nmaker = 'mlp'", "costs: there is no file no.json"),
    ("costs = ['nodes', 'nodes']\n[[models]]\nmaker = 'mlp'", "costs: 'nodes' is named twice"),
    ("measure = ['time']\n[[models]]\nmaker = 'mlp'", "measure: time: no such key"),
    ("measure = ['splits']\n[[models]]\nmaker = 'mlp'", "measure: splits are of measured times"),
    ("samples = -1\n[[models]]\nmaker = 'mlp'", "samples: -1 is no whole number from 0"),
    ("[[variants]]\noptions = {}\n[[models]]\nmaker = 'mlp'", "variants[1].name: None is no text"),
    ("[[models]\nmaker = 'mlp'", "it is no TOML: "),
    ("[[models]]\nscript = 'make.py'", "models[1].script: make.py: it wrote no .onnx file"),
]  # fmt: skip


@pytest.mark.parametrize("text, says", WRONG)
def test_mistakes_are_one_line(text, says, tmp_path):
    (tmp_path / "bad.toml").write_text(text)
    (tmp_path / "make.py").write_text("")
    done = command("bad.toml", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("onnx_saturate.study: error: bad.toml: ") and says in line, line
    assert not (tmp_path / "bad.study" / "results.csv").exists()


def test_names_of_files_hide_nothing(tmp_path):
    """A model's name is its file's, and was written into tables and pages as it came."""
    shutil.copy(DATA / "bart_encoder.onnx", tmp_path / "evil\u202e<b>\x1b.onnx")
    (tmp_path / "evil.toml").write_text('measure = ["predicted"]\n[[models]]\nfiles = "*.onnx"\ndims = { batch = 1, seq = 8 }\n')
    done = command("evil.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    texts = [done.stdout, done.stderr, *((tmp_path / "evil.study" / f"results.{kind}").read_text() for kind in ("csv", "md", "html"))]
    assert not any(set("\u202e\x1b") & set(text) for text in texts) and "<b>" not in texts[-1]


def test_files_and_folders_that_are_not_there(tmp_path):
    done = command("none.toml", cwd=tmp_path)
    assert done.returncode == 1 and "none.toml: there is no such file" in done.stderr and "choices, predicted" in done.stderr
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    done = command("predicted", "-o", "mine", cwd=tmp_path)
    assert done.returncode == 1 and "no study wrote it" in done.stderr
    assert command("predicted", "-j", "0", cwd=tmp_path).returncode == 2


@pytest.fixture
def varied(tmp_path):
    """What a study may take: a script, a function as a cost, rules, variants, a model that can't be read."""
    (tmp_path / "make.py").write_text(
        "import sys, onnx\nm = onnx.parser.parse_model('<ir_version: 8, opset_import: [\"\": 17]> g (float[2,8] x) => (float[2,8] y) { e = Neg (x) y = Neg (e) }')\n"
        "onnx.save(m, sys.argv[2] + '/neg-' + sys.argv[1] + '.onnx')\n"
    )
    (tmp_path / "mine.py").write_text("def price(op):\n    return 2.0 if op.op_type == 'Neg' else 1.0\n")
    (tmp_path / "my.rules").write_text('opset "" 17\nrule twice (X) => (Y)\n  Neg (Neg (X)) => Identity (X)\n  example X = float[2,3]\n')
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    (tmp_path / "varied.toml").write_text("""
costs = ["mine.py:price"]
measure = ["predicted", "nodes"]
[[variants]]
name = "none"
options = { rules = "none" }
[[variants]]
name = "mine"
options = { rules = ["none", "my.rules"] }
[[models]]
script = "make.py"
arguments = ["a"]
[[models]]
files = "bad.onnx"
""")
    return tmp_path


def test_scripts_functions_rules_and_failures(varied):
    done = command("varied.toml", cwd=varied)
    found = rows(varied / "varied.study")
    assert done.returncode == 1 and [line for line in done.stderr.splitlines() if "failed: bad" in line], done.stderr
    assert [(row["model"], row["variant"], row["nodes_after"]) for row in found if not row["failed"]] == [("neg-a", "none", "2"), ("neg-a", "mine", "0")] or found[1]["nodes_after"] == "1"
    assert found[0]["predicted_after"] == "4.0" and found[0]["family"] == "neg" and "ratio" not in found[0]
    assert [row["model"] for row in found if row["failed"]] == ["bad", "bad"]
    assert "bad.onnx" in found[2]["failed"]
    again = command("varied.toml", cwd=varied)
    assert again.returncode == 1 and not re.search(r"^\[1/", again.stderr, flags=re.M)  # failures are outcomes
    again = command("varied.toml", "--retry", cwd=varied)
    assert "[2/2] optimize bad" in again.stderr
    (varied / "my.rules").write_text((varied / "my.rules").read_text() + "\n")
    assert "[2/2] optimize bad" in command("varied.toml", cwd=varied).stderr.replace("neg-a", "bad")  # another text, another piece


def test_killed_processes_are_started_again(tmp_path):
    (tmp_path / "s.toml").write_text("measure = ['nodes']\n[[models]]\nmaker = 'encoder'\nlayers = [1, 2, 3, 4]\ndims = { batch = 1, seq = 8 }\n")
    running = subprocess.Popen([sys.executable, "-m", "onnx_saturate.study", "s.toml"], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    end, killed = time.monotonic() + 60 * patience, 0
    while not killed and time.monotonic() < end and running.poll() is None:
        for line in subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(running.pid)], capture_output=True, text=True).stdout.splitlines():
            if "study._work" in line:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)
                    killed += 1
    told = running.communicate(timeout=300 * patience)
    assert running.returncode == 0 and killed, told
    assert len(rows(tmp_path / "s.study")) == 4 and not any(row["failed"] for row in rows(tmp_path / "s.study"))


def test_one_run_at_a_time_writes_a_folder(small):
    with open(small / "small.study" / "lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = command("small.toml", cwd=small)
    assert done.returncode == 1 and "another run is writing it" in done.stderr and len(done.stderr.splitlines()) == 1


def test_ctrl_c_keeps_what_was_done(tmp_path):
    (tmp_path / "s.toml").write_text("measure = ['nodes']\n[[models]]\nmaker = 'encoder'\nlayers = [1, 2, 3, 4]\nwidth = [64, 128]\ndims = { batch = 1, seq = 8 }\n")
    running = subprocess.Popen(
        [sys.executable, "-m", "onnx_saturate.study", "s.toml"], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert running.stderr.readline().startswith("[1/8] optimize")
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=100 * patience)
    assert running.returncode == 130 and said.splitlines()[-1].startswith("onnx_saturate.study: interrupted"), said
    assert 1 <= len(parts(tmp_path / "s.study")) < 8 and not list((tmp_path / "s.study" / "parts").glob("*.part"))
    again = command("s.toml", cwd=tmp_path)
    assert again.returncode == 0 and len(rows(tmp_path / "s.study")) == 8
    assert f"[1/{8 - len([line for line in said.splitlines() if line.startswith('[')]) - 1}]" in again.stderr


def test_makers_make_the_same_bytes_everywhere():
    makers = pytest.importorskip("onnx_saturate.study._makers")
    for name, maker in makers.MAKERS.items():
        content = makers.made(name, maker.sizes)
        assert content == makers.made(name, maker.sizes)
        onnx.checker.check_model(onnx.load_from_string(content), full_check=True)


@pytest.mark.parametrize("name", ["predicted", "choices"])
def test_the_studies_that_come_along_are_read(name):
    told = study.read(name)
    assert told.about and len(told.sources) > 3 and len(told.costs) > 2
    assert (study.STUDIES / f"{name}.toml").exists()


def test_the_page_of_the_documentation(tmp_path):
    """Its study is one, and its commands are."""
    page = (ROOT / "docs" / "study.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.M | re.S)
    (tmp_path / "models").mkdir()
    shutil.copy(DATA / "bart_encoder.onnx", tmp_path / "models")
    (tmp_path / "mine.py").write_text("def price(op):\n    return 1.0\n")
    (tmp_path / "make.py").write_text("import shutil, sys\nassert sys.argv[1] == '--small'\nshutil.copy('models/bart_encoder.onnx', sys.argv[2])\n")
    (tmp_path / "my.toml").write_text(text)
    lines = study.plan(tmp_path / "my.toml", tmp_path / "out")
    assert len(lines) > 20 and all(line.startswith("to do") for line in lines)
    columns = set(re.findall(r"`(\w+)`", page)) & {"ratio", "load", "same_outputs", "time_part", "failed"}
    assert columns <= set(study.COLUMNS) and len(columns) == 5
    short = text.replace("samples = 8 ", "samples = 1 ").replace('"search", "ilp"', '"search"').replace('costs = ["measured", "nodes", ', "costs = [").replace("rounds = 12 ", "rounds = 6 ").replace("burst = 0.02 ", "burst = 0.0005 ").replace("[16, 64]", "8").replace("[1, 2]", "1")
    (tmp_path / "my.toml").write_text(short)
    commands = re.findall(r"^python -m onnx_saturate\.study (my\.toml .*?)(?:  +#.*)?$", page, flags=re.M)
    commands = [words for words in commands if "--on" not in words]
    assert len(commands) == 4
    for words in commands:
        done = command(*words.split(), cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)
    assert (tmp_path / "other" / "results.csv").read_bytes() == (tmp_path / "out" / "results.csv").read_bytes()


@pytest.mark.skipif(importlib.util.find_spec("onnx_saturate") is None, reason="the package is not installed")
def test_it_is_a_verb_of_the_package(tmp_path):
    done = subprocess.run([sys.executable, "-m", "onnx_saturate", "study", "choices", "--dry-run"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "to do  optimize-" in done.stdout and not list(tmp_path.iterdir())
