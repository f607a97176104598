"""bench/runtime/runtime_deaths.py finds in this release the shapes that extract/runtimes/dies_of.json has, and no others of its grid."""
import json
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("onnxruntime")
ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_what_ends_the_process_is_known():
    done = subprocess.run([sys.executable, ROOT / "bench" / "runtime" / "runtime_deaths.py", sys.executable], capture_output=True, text=True, check=True)
    dead = re.findall(r"signal \d+: (.*)", done.stdout)
    quantized, moved, reshaped, refused, summed, *_ = json.loads((ROOT / "extract" / "runtimes" / "dies_of.json").read_text())
    # The rest, units by channel, are no shapes of this grid: test_units_at_load.py has them.
    between = [re.match(r"DequantizeLinear \w+ \d, (\w+), If$", name) for name in dead if name.startswith("DequantizeLinear")]
    assert {found[1] for found in between} == set(quantized["steps"][1]["operators"])
    products = [name for name in dead if name.startswith("Transpose")]
    assert any("Reshape" in name for name in products) and any("Reshape" not in name for name in products)
    assert {re.search("MatMul with (.*)", name)[1] for name in products} == {"a matrix", "a tensor of a higher rank"}
    assert moved["steps"][1]["with_other_rank"] and reshaped["steps"][2]["with_other_rank"]
    anew = [re.match(r"DequantizeLinear (\w+) (\d), (\w+), (node|output)$", name) for name in re.findall(r"refused: (DequantizeLinear.*)", done.stdout)]
    assert {found[1] for found in anew} == set(refused["steps"][0]["from"]) and {found[2] for found in anew} == {"0", "5"} and {found[3] for found in anew} == set(refused["steps"][1]["operators"])
    sums = re.findall(r"refused: (MatMul.*)", done.stdout)
    assert sums == [f"MatMul of rank {rank} behind int8, Add of rank 1" for rank in (3, 4)] and summed["steps"][0]["from"] == ["int8"] and summed["steps"][2]["with_row"]
