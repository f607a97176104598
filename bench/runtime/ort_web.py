"""Whether models written for `ort-web` load and run in the oldest onnxruntime-web that the target names.

    mkdir build/web && (cd build/web && npm init -y && npm install onnxruntime-web@1.24.1 webgpu)
    python bench/runtime/ort_web.py ZOO --web build/web --provider wasm
    VK_ICD_FILENAMES=/usr/lib/chromium/vk_swiftshader_icd.json python bench/runtime/ort_web.py ZOO --web build/web --provider webgpu

ZOO has NAME.onnx, and beside it NAME.inputs.npz and NAME.expected.npz where it is to be run, too.
Each model is written with `--target ort-web@OLDEST --cost nodes`, loaded in node, run, and compared with what is expected.
The original is run in the same build, so that what the build can't do at all is told from what our result can't.
Ends with status 1 if a result does not load, or a result fails or is off where the original is right."""
import argparse
import base64
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
import zoo  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def oldest():
    versions = json.loads((ROOT / "extract" / "targets" / "ort-web.json").read_text())["runtime"]["versions"]
    return min(versions, key=lambda version: [int(part) for part in version.split(".")])


def encoded(array):
    return {"type": str(array.dtype), "dims": list(array.shape), "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}


def decoded(tensor):
    return np.frombuffer(base64.b64decode(tensor["data"]), tensor["type"]).reshape(tensor["dims"])


def in_node(arguments, cases):
    """A row for each case; where node ends before all are done, it is started again for the rest."""
    rows = []
    while len(rows) < len(cases):
        given = "".join(json.dumps(case) + "\n" for case in cases[len(rows) :])
        script = pathlib.Path(__file__).with_suffix(".mjs")
        done = subprocess.run(["node", script, arguments.web, arguments.provider], input=given, capture_output=True, text=True, env={"XDG_RUNTIME_DIR": tempfile.gettempdir(), **os.environ})
        new = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"model"')]
        if not new and done.returncode == 1:
            sys.exit(done.stderr)
        rows += new or [{"model": cases[len(rows)]["model"], "loads": False, "error": f"node ended with {done.returncode}: {done.stderr[-300:]}"}]
    return rows


def verdict(row, expected):
    """right, off, fails or refused; and the number or the reason behind it."""
    if "error" in row:
        return ("fails" if row["loads"] else "refused"), row["error"]
    far = zoo.farthest({name: decoded(row["outputs"][name]) for name in expected}, expected)
    return ("right" if far <= zoo.RIGHT else "off"), f"{far:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--web", required=True, help="the folder with node_modules")
    parser.add_argument("--provider", default="wasm", choices=["wasm", "webgpu", "webgpu-native"])
    parser.add_argument("--binary", default=ROOT / "build" / "release" / "tools" / "saturate")
    parser.add_argument("--words", default="", help="further words for saturate")
    arguments = parser.parse_args()
    models = sorted(arguments.zoo.glob("*.onnx"))
    with tempfile.TemporaryDirectory() as here:
        results = []
        for model in models:
            result = pathlib.Path(here) / model.name
            words = [arguments.binary, model, "-o", result, "--target", f"ort-web@{oldest()}", "--cost", "nodes", "--no-verify", "-q", *arguments.words.split()]
            subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
            results.append(result)
        feeds = [{name: encoded(array) for name, array in zoo.beside(model)[0].items()} for model in models]
        before, after = (in_node(arguments, [{"model": str(path), "feeds": given} for path, given in zip(paths, feeds)]) for paths in (models, results))
    counts, worse = collections.Counter(), 0
    for model, was, now in zip(models, before, after):
        _, expected = zoo.beside(model)
        (was, why_was), (now, why) = verdict(was, expected), verdict(now, expected)
        counts[was, now] += 1
        worse += now == "refused" or was == "right" != now
        if now != "right":
            print(f"{model.stem}: original {was} ({why_was}), result {now} ({why})")
    print(f"\nonnxruntime-web {arguments.provider}, {len(models)} models")
    print("| original | result | models |\n|---|---|---|")
    for (was, now), count in counts.most_common():
        print(f"| {was} | {now} | {count} |")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
