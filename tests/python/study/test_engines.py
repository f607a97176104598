"""The same study here, on Ray and on Dask: pieces of a worker that is killed are done again, and each is once in the table."""
import collections
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import patience
from test_study import command, parts, rows, tables

pytest.importorskip("onnx_saturate.study", reason="the package is not installed: pip install .")
pytest.importorskip("onnxruntime")

STUDY = """
costs = ["measured", "nodes"]
extractors = ["search", "bottom-up"]
samples = 2
[timing]
rounds = 6
burst = 0.0005
[[models]]
maker = "encoder"
layers = [1, 2]
dims = { batch = 1, seq = 8 }
[[models]]
maker = "mlp"
dims = { batch = 2 }
"""
SAME = ("model", "dims", "target", "cost", "extractor", "model_sha256", "result_sha256", "predicted_before", "predicted_after", "nodes_after", "optimize_part", "time_part")


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    (folder / "s.toml").write_text(STUDY)
    done = command("s.toml", "-j", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def begun(local, out, address):
    """A run on an engine, after its first piece."""
    words = [sys.executable, "-m", "onnx_saturate.study", "s.toml", "-o", str(out), "--on", address]
    running = subprocess.Popen(words, cwd=local, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    said = []
    while not re.match(r"\[1/", said[-1] if said else ""):
        said.append(running.stderr.readline())
        assert said[-1], said
    return running


def assert_agrees(local, out, running):
    """The run came to its end, with each piece once, and all but times as they are here."""
    stdout, stderr = running.communicate(timeout=400 * patience)
    assert running.returncode == 0, stdout + stderr
    mine, other = rows(local / "s.study"), rows(out)
    assert [[row[name] for name in SAME] for row in other] == [[row[name] for name in SAME] for row in mine]
    assert parts(out).keys() == parts(local / "s.study").keys()
    times = collections.Counter(re.findall(r"^\[(\d+/\d+)\] time", stderr, flags=re.M))
    assert max(times.values()) == 1 and len(times) == sum(name.startswith("time-") for name in parts(out))


def assert_replayed(local, tmp_path, engine):
    done = command("s.toml", "-o", tmp_path / "again", "--on", engine, "-j", "3", "--replay", "s.study", cwd=local)
    assert done.returncode == 0 and " time " not in done.stderr, done.stderr
    assert tables(tmp_path / "again") == tables(local / "s.study")


def test_dask_gives_the_same_tables(local, tmp_path):
    pytest.importorskip("distributed")
    assert_replayed(local, tmp_path, "dask")


def test_dask_loses_a_worker(local, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, resources={"timing": 1}, dashboard_address=None, silence_logs=50) as cluster, distributed.Client(cluster) as client:
        running = begun(local, tmp_path / "out", cluster.scheduler_address)
        process_of, end = client.run(os.getpid), time.monotonic() + 60
        busy = [worker for worker, tasks in client.processing().items() if tasks]
        while not busy and time.monotonic() < end:
            busy = [worker for worker, tasks in client.processing().items() if tasks]
        os.kill(process_of[busy[0]], signal.SIGKILL)
        assert_agrees(local, tmp_path / "out", running)


def test_dask_without_the_resource(local, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        done = command("s.toml", "-o", tmp_path / "out", "--on", cluster.scheduler_address, cwd=local)
    assert done.returncode == 1 and "no worker of this Dask cluster has the resource timing" in done.stderr.splitlines()[-1]
    assert parts(tmp_path / "out").keys() == {name for name in parts(local / "s.study") if not name.startswith("time-")}  # what was done is kept


def test_ray_gives_the_same_tables(local, tmp_path):
    pytest.importorskip("ray")
    assert_replayed(local, tmp_path, "ray")


def test_ray_loses_a_node(local, tmp_path):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1, resources={"timing": 1}) for _ in range(3)]
        running = begun(local, tmp_path / "out", f"ray:{cluster.address}")
        cluster.remove_node(nodes[0], allow_graceful=False)
        assert_agrees(local, tmp_path / "out", running)
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("name", ["slurm", "ray:", "dask://x", "tcp:1"])
def test_engines_that_are_not_there(name, local):
    done = command("s.toml", "--on", name, cwd=local)
    assert done.returncode == 2 and done.stderr.startswith(f"onnx_saturate.study: error: --on: {name} is no engine; give local, ray"), done.stderr


@pytest.mark.parametrize("engine, package", [("ray", "ray"), ("dask", "distributed")])
def test_packages_that_are_missing_are_named(engine, package, local, tmp_path):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("raise ImportError")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = command("s.toml", "--on", engine, cwd=local, env=environment)
    assert done.returncode == 5 and f"pip install onnx-saturate[{engine}]" in done.stderr and len(done.stderr.splitlines()) == 1
