"""The measure of the headline: blocks found, and every output valid and equal to PyTorch's."""
import json
import os
import re
import subprocess
import sys

import pytest

from conftest import SHARED, binary

# At least so many percent of the blocks; `bad` must be 0. Raise them as the rules grow.
ZOO = {"attn": 100, "norms": 98, "gelu": 100, "silu": 100, "rope": 100}
SPELLINGS = {"attn": 100, "norms": 100, "gelu": 100, "rope": 100}


# What the oldest ONNX Runtime loads that the target names. There com.microsoft's operators stand in.
OLDEST = {name: 97 for name in ZOO}


def coverage(data, folder, *words, target="ort-cpu@1.31"):
    tool = SHARED / "tools" / "fusion_coverage.py"
    if not tool.exists() or not (SHARED / "data" / data).exists():
        pytest.skip(f"{SHARED} is not there")
    command = f"{binary()} optimize {{in}} -o {{out}} --target {target} --cost nodes -q"
    done = subprocess.run([sys.executable, str(tool), "--data", str(SHARED / "data" / data), "--command", command, "--jobs", str(os.cpu_count()),
                           "--json", str(folder / "rows.json"), *words], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    shares = {name: float(share) for name, share in re.findall(r"(\w+) ([\d.]+)%", last)}
    bad = int(re.search(r"bad (\d+)", last).group(1))
    return shares, bad, last, json.loads((folder / "rows.json").read_text()), done.stdout


@pytest.mark.parametrize("data, wanted, target", [("zoo", ZOO, "ort-cpu@1.31"), ("spellings", SPELLINGS, "ort-cpu@1.31"), ("zoo", OLDEST, "ort-cpu@1.20"),
                                                  ("spellings", {name: 97 for name in SPELLINGS}, "ort-cpu@1.20")])
def test_coverage(tmp_path, data, wanted, target):
    shares, bad, last, rows, output = coverage(data, tmp_path, target=target)
    print(last)
    assert bad == 0, output[-4000:]
    short = {name: (shares[name], least) for name, least in wanted.items() if shares[name] < least}
    assert not short, f"{last}; below the threshold (share, least): {short}"
