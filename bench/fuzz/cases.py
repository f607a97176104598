"""Compares the results of cases, and keeps those in which something is wrong."""
import argparse
import pathlib

import numpy as np

TOLERANCE = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-6}


def close(a, b):
    """Of one shape and type, and within TOLERANCE of the largest number of `a`; integers equal."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    bound = TOLERANCE.get(a.dtype.name, 0)
    scale = max(1.0, float(np.abs(a).max(initial=0))) if bound else 0
    return np.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=bool(bound))


def keep(folder, seed, model, feed=None):
    """Writes FOLDER/SEED.onnx, of a ModelProto or bytes, and SEED.npz; nothing where the folder is None."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{seed}.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    if feed is not None:
        np.savez(folder / f"{seed}.npz", **feed)


def parser(doc, flags):
    """Of a program that draws random graphs: `flags` maps its own switches to their help."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--cases", type=int, default=500)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--dtype", choices=sorted(TOLERANCE), default="float32")
    for flag, text in flags.items():
        made.add_argument(flag, action="store_true", help=text)
    made.add_argument("--save", type=pathlib.Path, help="folder for the models (and inputs) in which something is wrong")
    return made
