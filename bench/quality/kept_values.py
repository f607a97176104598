"""Whether each value of a result that has the name of a value of its original is that value.

    python bench/quality/kept_values.py ZOO [--binary build/release/tools/saturate] [--word=--target=ort-cpu@1.31 ...]

ZOO has NAME.onnx, and beside it NAME.inputs.npz. saturate gives a value of the result a name of the original only if both live in one e-class.
So each such value is cut out: it becomes an output of both models, which run in ONNX Runtime as they are (nothing fused by it), and both are compared.
Integers, truth values and strings must be equal; floats may differ by 1e-4 of the value's usual size (1e-2 in half precision), which is what sums in another order
make. A number below -1e30, or -inf, hides a score, however it is written. Bodies of If, Loop and Scan are left out.
Ends with status 1 if a value is another one."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import zoo

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDES = -1e30


def made_in(model):
    return {name for node in model.graph.node for name in node.output if name}


def values(model, names, feeds):
    """What the model makes of these inner values."""
    outputs = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(names - outputs))
    made = zoo.run(zoo.session(model.SerializeToString(), as_it_is=True), feeds)
    return {name: array for name, array in made.items() if name in names}


def difference(one, other):
    """By the value's usual size; 0 or infinite where nothing rounds."""
    if type(one) is not type(other) or not isinstance(one, np.ndarray) or one.shape != other.shape or one.dtype != other.dtype:
        return float("inf")
    if one.dtype.kind != "f":
        return 0.0 if np.array_equal(one, other) else float("inf")
    a, b = (np.maximum(array.astype(np.float64), HIDES) for array in (one, other))
    usual = np.sqrt(np.mean(np.square(a[np.isfinite(a) & (a > HIDES)]))) if np.any(np.isfinite(a) & (a > HIDES)) else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)) | ((a <= HIDES) & (b <= HIDES)), 0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        return float(np.max(apart / np.maximum(np.maximum(np.abs(a), usual), 1e-30), initial=0, where=apart > 0))


def compared(binary, path, words):
    """{name: difference} of the values that both have."""
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / path.name
        subprocess.run([binary, path, "-o", result, "-q", "--no-verify", *words], check=True, stderr=subprocess.DEVNULL)
        before, after = onnx.load(path), onnx.load(result)
    names = made_in(before) & made_in(after)
    feeds, _ = zoo.beside(path)
    one, other = (values(model, names, feeds) for model in (before, after))
    wide = lambda array: array.dtype in (np.float32, np.float64)
    return {name: (difference(one[name], other[name]), 1e-4 if wide(one[name]) else 1e-2) for name in sorted(names)}, len(made_in(after))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "tools" / "saturate"))
    parser.add_argument("--word", dest="words", action="append", default=[], help="a further word for saturate")
    args = parser.parse_args()
    all_kept, all_made, wrong, exact, farthest, models = 0, 0, 0, 0, 0.0, sorted(args.zoo.glob("*.onnx"))
    for path in models:
        found, made = compared(args.binary, path, zoo.released(args.words))
        all_kept, all_made = all_kept + len(found), all_made + made
        for name, (far, most) in found.items():
            wrong += far > most
            exact += far == 0
            farthest = max(farthest, far if far <= most else 0)
            if far > most:
                print(f"{path.stem}: '{name}' is another value: {far:.1e} apart", flush=True)
    print(f"{len(models)} models: {all_kept} of {all_made} values of the results have a name of the original; {exact} are equal to the bit, the others differ by {farthest:.1e} at most; {wrong} are another value")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
