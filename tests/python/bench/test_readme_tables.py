"""bench/gauges/readme_tables.py: documents say what their commands find, and where they do not, it fails."""
import argparse
import re
import subprocess
import sys

import pytest

from conftest import ROOT, SHARED, binary

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import readme_tables  # noqa: E402

PAGE = """A table: <!-- measured: coverage -->

| | attention | norms | GELU | SiLU | rotary | wrong |
|---|---|---|---|---|---|---|
| as exported: `cp IN OUT` | 50 % | 98.1 % | 0 % | 0 % | 0 % | 0 of 3 |
| of somebody else | 1 % | 1 % | 1 % | 1 % | 1 % | 9 |

What follows.
"""
# Tells the shares that it is made to tell, as the tool that counts does in its last line.
TOOL = "import sys\nassert '{in}' in sys.argv[4] and '{out}' in sys.argv[4], sys.argv\nprint('attn 50.0% norms 98.1% gelu 0.0% silu 0.0% rope 0.0% bad BAD of 3')\n"


def tables(*words):
    return subprocess.run([sys.executable, ROOT / "bench" / "gauges" / "readme_tables.py", "--saturate", binary(), *map(str, words)], capture_output=True, text=True, timeout=3600)


def test_a_page_that_says_something_else_fails(tmp_path):
    page, tool = tmp_path / "page.md", tmp_path / "tool.py"
    of = [page, "--what", "coverage", "--zoo", tmp_path, "--coverage-tool", tool]
    page.write_text(PAGE)
    tool.write_text(TOOL.replace("BAD", "0"))
    done = tables(*of)
    assert done.returncode == 0, done.stdout + done.stderr
    tool.write_text(TOOL.replace("BAD", "2"))
    done = tables(*of)
    assert done.returncode == 1 and "cp IN OUT: shown" in done.stdout and "2 of 3" in done.stdout, done.stdout + done.stderr
    assert page.read_text() == PAGE
    done = tables(*of, "--write")
    assert done.returncode == 0 and page.read_text() == PAGE.replace("0 of 3", "2 of 3"), done.stdout + done.stderr
    assert tables(*of).returncode == 0


def test_times_may_differ_within_the_interval_that_the_page_states(monkeypatch):
    page = (ROOT / "docs" / "compare.md").read_text()
    (block,) = [page[start:end] for kind, start, end in readme_tables.blocks(page) if kind == "first_result"]
    shown = re.findall(r"([\d.]+) s \(([\d.]+) to ([\d.]+)\)", block)
    steps = ("pip install", "first result", "second result", "to the first")
    names = [name for name in ("saturate", "onnxsim==0.8.1") for _ in steps]
    assert len(shown) == len(names)

    def measured(times):
        lines = [f"{name:16} {step:14} processor {time:6.2f} ({time:.2f} to {time:.2f}) s  wall {time:6.2f} ({time:.2f} to {time:.2f}) s"
                 for name, step, time in zip(names, 2 * steps, times)]
        monkeypatch.setattr(readme_tables.subprocess, "run", lambda *words, **how: subprocess.CompletedProcess(words, 0, "\n".join(lines), ""))
        return readme_tables.first_result(block, argparse.Namespace(wheel="w", model="m"))[1]

    least, most = ([float(times[i]) for times in shown] for i in (1, 2))
    assert not measured(least) and not measured(most)
    assert [line.partition(":")[0].rpartition(", ")[2] for line in measured([time * 1.01 for time in most])] == 2 * list(steps)


def test_the_shares_in_documents_are_what_the_commands_find():
    zoo, tool = SHARED / "data" / "zoo", SHARED / "tools" / "fusion_coverage.py"
    if not tool.exists() or not zoo.exists():
        pytest.skip(f"{SHARED} is not there")
    done = tables("--what", "coverage", "--zoo", zoo, "--coverage-tool", tool)
    assert done.returncode == 0, done.stdout + done.stderr
