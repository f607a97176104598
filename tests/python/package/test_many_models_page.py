"""docs/guide/many_models.md is run: a pool of processes, and Dask and Ray where they are installed, give what one run after the other gives."""
import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from conftest import DATA, ROOT, make_model, tensor, value
from onnx import TensorProto, helper

onnx_saturate = pytest.importorskip("onnx_saturate", reason="the package is not installed: pip install .")
PAGE = (ROOT / "docs" / "guide" / "many_models.md").read_text()
TASKS, POOL, DASK, RAY = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.M | re.S)
SERIAL = "results = [run(task) for task in tasks]\n"
TELL = """
if __name__ == "__main__":
    import hashlib, json
    told = [[path, target, hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest() if model else str(report),
             report.nodes if model else type(report).__name__, report.to_dict()["made_by_rules"] if model else None] for path, target, model, report in results]
    open("told.json", "w").write(json.dumps(told))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Nine that are optimized, and one that can't be read."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "models").mkdir()
    rng = np.random.default_rng(5)
    for n in range(8):
        nodes = [helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(n + 1)] + [helper.make_node("MatMul", [f"v{n + 1}", "w"], ["y"])]
        ends = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]
        onnx.save(make_model(nodes, *ends, [tensor("w", rng.normal(size=(4, 4)).astype(np.float32))]), folder / "models" / f"m{n}.onnx")
    (folder / "models" / "bart.onnx").write_bytes((DATA / "bart_encoder.onnx").read_bytes())
    (folder / "models" / "bad.onnx").write_bytes(b"no model")
    return folder


def told(folder, name, code):
    (folder / f"{name}.py").write_text(TASKS + code + TELL)
    done = subprocess.run([sys.executable, f"{name}.py"], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return json.loads((folder / "told.json").read_text())


@pytest.fixture(scope="module")
def serial(models):
    found = told(models, "serial", SERIAL)
    assert len(found) == 30 and sum(row[4] is None for row in found) == 3
    model = onnx_saturate.optimize(models / "models" / "bart.onnx", target="onnx")
    assert ["models/bart.onnx", "onnx", hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()] in [row[:3] for row in found]
    assert {row[3] for row in found if row[0] == "models/bad.onnx"} == {"Error"}
    return found


def test_a_pool_of_processes(models, serial):
    assert told(models, "pool", POOL) == serial


def test_dask(models, serial):
    pytest.importorskip("distributed", reason="Dask is not installed: pip install dask[distributed]")
    assert told(models, "with_dask", DASK) == serial


def test_ray(models, serial):
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    assert told(models, "with_ray", RAY) == serial
