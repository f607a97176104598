"""The package's names: they are its own, beside a package of another project that is called `saturate`, and no document tells older ones."""
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
BART = DATA / "bart_encoder.onnx"
OURS = "saturate " + onnx_saturate.__version__


def test_what_is_installed():
    distribution = importlib.metadata.distribution("onnx-saturate")
    assert distribution.version == onnx_saturate.__version__ and distribution.metadata["Name"] == "onnx-saturate"
    scripts = {e.name: e.value for e in distribution.entry_points if e.group == "console_scripts"}
    assert scripts == dict.fromkeys(["saturate", "onnx-saturate"], "onnx_saturate.__main__:main")
    roots = {path.parts[0] for path in distribution.files if path.parts[0] != ".."}  # scripts are at ../../../bin
    assert {re.sub(r"-.*", "", root) for root in roots} == {"onnx_saturate"}, roots


@pytest.fixture
def beside(tmp_path):
    """Runs words in an environment in which package, distribution and script `saturate` are another project's."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    scripts = tmp_path / "venv" / "bin"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    files = {
        site / "saturate" / "__init__.py": "owner = 'another'\n",
        site / "saturate" / "__main__.py": "raise SystemExit('the other one')\n",
        site / "saturate-0.2.0.dist-info" / "METADATA": "Metadata-Version: 2.1\nName: saturate\nVersion: 0.2.0\n",
        site / "saturate-0.2.0.dist-info" / "entry_points.txt": "[console_scripts]\nsaturate = saturate.__main__:main\n",
        scripts / "saturate": "#!/bin/sh\necho the other one >&2\nexit 7\n",
        # Ours and what it needs, behind that.
        site / "ours.pth": "".join(f"{folder}\n" for folder in {str(pathlib.Path(m.__file__).parents[1]) for m in (onnx_saturate, onnx, np)}),
    }
    for path, text in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (scripts / "saturate").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"

    def run(*words):
        return subprocess.run([scripts / "python", *map(str, words)], capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)

    return run


@pytest.mark.parametrize("order", [("saturate", "onnx_saturate"), ("onnx_saturate", "saturate")], ids="-".join)
def test_both_packages_are_imported(beside, order):
    code = f"""
import {", ".join(order)}
import importlib.metadata, sys
import onnx_saturate.backend
assert saturate.owner == "another" and not hasattr(saturate, "optimize")
assert [importlib.metadata.version(name) for name in ("saturate", "onnx-saturate")] == ["0.2.0", onnx_saturate.__version__]
onnx_saturate.optimize(sys.argv[1], "out.onnx")
try:
    onnx_saturate.optimize("missing.onnx")
except onnx_saturate.Error as error:  # the compiled part finds its own package
    print(type(error).__module__, sorted(name for name in sys.modules if name.partition(".")[0] == "saturate"))
"""
    done = beside("-c", code, BART)
    assert done.returncode == 0 and done.stdout == "onnx_saturate._errors ['saturate']\n", done.stdout + done.stderr


@pytest.mark.parametrize("words", [["-m", "onnx_saturate"], [pathlib.Path(sys.executable).parent / "onnx-saturate"]], ids=["module", "script"])
def test_the_command_beside_another_one(beside, words):
    done = beside(*words, "--version")
    assert done.returncode == 0 and done.stdout.startswith(OURS), done.stdout + done.stderr
    done = beside(*words, BART, "out.onnx")
    assert done.returncode == 0 and "verified" in done.stdout, done.stdout + done.stderr


def test_documents_and_examples_have_the_name():
    public = "|".join([*onnx_saturate.__all__, "backend", "interop", "olive", "pre_post", "tune"])
    old = re.compile(
        rf"""^\s*(?:>>>\s|\.\.\.\s)?(?:import|from)\s(?:[\w.,\ ]+,\s)?saturate\b(?!\.h)
        | (?<![\w/.:])saturate\.(?:{public})\b(?![/.]h)(?<!saturate\.rules)
        | -m\ssaturate\b | pip\ install\ saturate\b | tools/python/saturate\b | \bsaturate-[\d*]""",
        re.MULTILINE | re.VERBOSE,
    )
    folders = ["bench", "docs", "rules", "tests/python", "tools"]
    files = [*ROOT.glob("*.md"), ROOT / "pyproject.toml", *(p for folder in folders for p in (ROOT / folder).rglob("*"))]
    texts = {p: p.read_text() for p in files if p.suffix in (".md", ".py", ".pyi", ".toml", ".txt", ".h", ".cpp") and p != pathlib.Path(__file__)}
    found = [f"{p.relative_to(ROOT)}: {match.group().strip()}" for p, text in texts.items() for match in old.finditer(text)]
    assert len(texts) > 100
    assert not found
