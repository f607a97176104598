"""Another CMake project can find_package(saturate) and use the library."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import DATA, ROOT


def test_consumer_project(tmp_path):
    build = os.environ.get("SATURATE_BUILD")
    if not build or not shutil.which("cmake"):
        pytest.skip("SATURATE_BUILD (a CMake build folder with everything built) is not set")

    def command(*words):
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    prefix = tmp_path / "prefix"
    command("cmake", "--install", build, "--prefix", prefix)
    assert command(prefix / "bin" / "saturate", "--version").startswith("saturate ")
    for shell in ("bash-completion/completions/saturate", "zsh/site-functions/_saturate", "fish/vendor_completions.d/saturate.fish"):
        assert "--skip-fusion" in (prefix / "share" / shell).read_text() or "-l skip-fusion" in (prefix / "share" / shell).read_text()
    assert {"saturate.1", "saturate-optimize.1", "saturate-man.1"} <= {page.name for page in (prefix / "share" / "man" / "man1").iterdir()}
    headers = sorted((prefix / "include").rglob("*.h"))
    assert sorted(h.name for h in headers) == ["egraph.h", "explain.h", "rewrite.h", "saturate.h", "saturate_cost.h", "scheduler.h"], headers
    for header in headers:  # the standard library and each other, nothing else
        for included in re.findall(r'#include (\S+)', header.read_text()):
            assert re.fullmatch(r'<\w+>|"egraph/\w+\.h"', included), (header, included)
    command("cmake", "-S", ROOT / "tests" / "consumer", "-B", tmp_path / "consumer", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}")
    command("cmake", "--build", tmp_path / "consumer")
    out = tmp_path / "out.onnx"
    printed = command(tmp_path / "consumer" / "consumer", DATA / "bart_encoder.onnx", out)
    assert "nodes" in printed and out.stat().st_size > 1000
