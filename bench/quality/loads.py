"""Whether ONNX Runtime loads what is written of each model of a folder: python bench/quality/loads.py FOLDER [--opsets 13 14 17] [--names llama gpt2]

Each model goes through `optimize`, through `precision` and `optimize` again, and, where it is a decoder without a cache, through `slm` (a window,
half precision), at each opset. A line for each result that does not load, and a count. Nothing is verified, for that takes the longest.
"""
import argparse
import collections
import json
import os
import subprocess
import tempfile
from pathlib import Path

import onnx

from zoo import session

SLM = ("--window", 1, "--sequence", 16, "--max-context", 24, "--dtype", "fp16")


def passes(opset):
    return [{"pass": "optimize", "target": "onnx", "avoid": ["Attention", "RotaryEmbedding"]}, {"pass": "precision"},
            {"pass": "optimize", "target": "onnx", "opset": opset}]


def ways(model, result, opset, steps):
    """The command's words for each way, by its name."""
    steps.write_text(json.dumps(passes(opset)))
    return {"optimize": (model, "-o", result, "--target", "onnx", "--opset", opset),
            "precision": ("transform", model, "-o", result, "--passes", steps),
            "slm": ("slm", model, "-o", result, *SLM, "--opset", opset)}


def outcome(words, result):
    """'loads', 'refused: WHY' by us, or 'does not load: WHY'."""
    result.unlink(missing_ok=True)
    done = subprocess.run([os.environ["SATURATE_BIN"], *map(str, words), "--no-verify"], capture_output=True, text=True)
    if done.returncode:
        return f"refused: {done.returncode}: {done.stderr.strip()[:160]}"
    try:
        session(result)
    except Exception as error:  # of several kinds
        return f"does not load: {str(error).splitlines()[0][:200]}"
    return "loads"


def is_decoder(model):
    return {i.name for i in onnx.load(model, load_external_data=False).graph.input} & {"input_ids", "decoder_input_ids"} and "past" not in model.stem


def outcomes(models, opsets, names=("optimize", "precision", "slm")):
    with tempfile.TemporaryDirectory() as folder:
        result, steps = Path(folder) / "result.onnx", Path(folder) / "passes.json"
        for model in models:
            for opset in opsets:
                for way, words in ways(model, result, opset, steps).items():
                    if way in names and (way != "slm" or is_decoder(model)):
                        yield model.stem, opset, way, outcome(words, result)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--opsets", type=int, nargs="+", default=[13, 14, 17])
    parser.add_argument("--names", nargs="+", default=[""], help="what names of models begin with")
    args = parser.parse_args()
    models = [m for m in sorted(args.folder.glob("*.onnx")) if m.stem.startswith(tuple(args.names))]
    counts = collections.Counter()
    for name, opset, way, said in outcomes(models, args.opsets):
        counts[way, said.split(":")[0]] += 1
        if said != "loads":
            print(f"{name} opset {opset} {way}: {said}", flush=True)
    for (way, said), count in sorted(counts.items()):
        print(f"{way}: {said}: {count}")


if __name__ == "__main__":
    main()
