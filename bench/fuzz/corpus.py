"""Part `corpus`: graphs in which something was found once (tests/corpus), optimized and judged as in the part `graphs`."""
import pathlib

import numpy as np
import onnx

from . import optimize

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "corpus"
OPTIONS = ({"target": "ort-cpu@1.20", "cost": "nodes"}, {"target": "ort-cpu@1.20", "cost": "measured", "verify": False, "no_assume": ["all"]}, {"target": "onnx", "cost": "nodes", "verify": False})


def files():
    return sorted(str(path) for path in FOLDER.glob("*.onnx"))


def work(path, settings):
    model, feed = onnx.load(path), dict(np.load(path.removesuffix("onnx") + "npz"))
    return [optimize.compared(model, feed, options, settings, label=f"{options['target']} by {options['cost']}", seed=pathlib.Path(path).stem) for options in OPTIONS]
