#!/usr/bin/env python3
"""The export commands of optimum-onnx (`--slim`) and ultralytics (`simplify=True`), with onnxslim and with `onnx_saturate.slim` in its place.

  python3 -m venv exporters
  exporters/bin/pip install "optimum-onnx" "transformers<4.58" ultralytics onnxslim onnxruntime torch torchvision
  exporters/bin/pip install WHEEL_OF_ONNX_SATURATE
  exporters/bin/python bench/export/exporters.py optimum ultralytics [--runs 3]

Models have random weights: a BERT that is saved here, YOLO from a yaml of ultralytics. Nothing is downloaded, and no exporter is changed:
the import is, by a module `onnxslim` of two lines that stands in front. Each result is loaded in ONNX Runtime and compared with the export
that nobody slimmed; the two are timed on that one in turns, each in a process of its own, import included. Status 1: a result differs, or
ours takes a tenth more of the processor's time.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

STAND_IN = "from onnx_saturate import slim, __version__\n"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true", "CUDA_VISIBLE_DEVICES": ""}

SAVE_BERT = """
import sys, torch, transformers
torch.manual_seed(0)
config = transformers.BertConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
transformers.BertModel(config, add_pooling_layer=False).eval().save_pretrained(sys.argv[1])
"""
YOLO = """
import sys, torch, ultralytics
torch.manual_seed(0)
model = ultralytics.YOLO("yolo11n.yaml")
print(model.export(format="onnx", imgsz=320, simplify=sys.argv[1] == "slim", opset=18))
"""


def run(words, folder, stand_in=None):
    environment = {**os.environ, **OFFLINE, "YOLO_CONFIG_DIR": str(folder), "HF_HOME": str(folder)}
    if stand_in:
        environment["PYTHONPATH"] = str(stand_in)
    done = subprocess.run(list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise SystemExit(f"exporters.py: error: {' '.join(map(str, words[:4]))}: {done.stderr[-3000:]}")
    return done.stdout + done.stderr


def export_optimum(folder, slim, stand_in):
    if not (folder.parent / "bert").exists():
        run([sys.executable, "-c", SAVE_BERT, folder.parent / "bert"], folder)
    words = [sys.executable, "-m", "optimum.exporters.onnx", "--model", folder.parent / "bert", "--task", "feature-extraction"]
    run([*words, *["--slim"] * slim, "--no-post-process", folder / "out"], folder, stand_in)
    return folder / "out" / "model.onnx"


def export_ultralytics(folder, slim, stand_in):
    told = run([sys.executable, "-c", YOLO, "slim" if slim else "plain"], folder, stand_in)
    if "simplifier failure" in told:
        raise SystemExit(f"exporters.py: error: ultralytics: {told[-2000:]}")
    return next(folder.rglob("*.onnx"))


def operators(path):
    """Without Constants, which some write as initializers."""
    import onnx

    return sum(node.op_type != "Constant" for node in onnx.load(path, load_external_data=False).graph.node)


def outputs(path):
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    rng, feeds = np.random.default_rng(0), {}
    for one in session.get_inputs():
        dims = [dim if isinstance(dim, int) else {0: 2, 1: 16}[axis] for axis, dim in enumerate(one.shape)]
        feeds[one.name] = rng.integers(0, 2, dims) if one.type == "tensor(int64)" else rng.random(dims).astype(np.float32)
    return session.run(None, feeds)


def error(found, wanted):
    """The largest, by the largest number of its output."""
    return max(float(abs(a - b).max() / max(abs(b).max(), 1e-9)) for a, b in zip(found, wanted))


def processor_seconds(module, model, folder, stand_in):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([sys.executable, "-c", "import onnxslim, sys; assert onnxslim.slim(sys.argv[1])", model], folder, stand_in if module == "saturate" else None)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(tool, runs):
    import onnx

    export = {"optimum": export_optimum, "ultralytics": export_ultralytics}[tool]
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        stand_in = place / "stand_in"
        (stand_in / "onnxslim").mkdir(parents=True)
        (stand_in / "onnxslim" / "__init__.py").write_text(STAND_IN)
        made = {}
        for name, slim, instead in ("plain", False, None), ("onnxslim", True, None), ("saturate", True, stand_in):
            (place / name).mkdir()
            made[name] = export(place / name, slim, instead)
        wanted = outputs(made["plain"])
        row = {"tool": tool, "nodes": {name: operators(path) for name, path in made.items()}}
        row["opset"] = {name: onnx.load(path, load_external_data=False).opset_import[0].version for name, path in made.items()}
        row["error"] = {name: error(outputs(made[name]), wanted) for name in ("onnxslim", "saturate")}
        seconds = {name: [] for name in ("onnxslim", "saturate")}
        for _ in range(runs):
            for name, taken in seconds.items():
                taken.append(processor_seconds(name, made["plain"], place, stand_in))
        row["seconds"] = {name: statistics.median(taken) for name, taken in seconds.items()}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", nargs="+", choices=["optimum", "ultralytics"])
    parser.add_argument("--runs", type=int, default=3, help="of the timing (3)")
    args = parser.parse_args()
    wrong = False
    for tool in args.tools:
        row = compare(tool, args.runs)
        print(json.dumps(row), flush=True)
        wrong = wrong or max(row["error"].values()) > 1e-3 or row["seconds"]["saturate"] > 1.1 * row["seconds"]["onnxslim"]
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
