"""Which opset and which IR version of ONNX a release of ONNX Runtime loads: the rows of `runtime` in a target's file. And what it makes of results.

    for v in 1.20.1 1.23.2; do python -m venv build/$v && build/$v/bin/pip install onnxruntime==$v onnx; done
    build/1.23.2/bin/python bench/runtime/runtime_versions.py            # this interpreter's: "1.23": {"opset": 23, "ir": 11}
    build/1.20.1/bin/python bench/runtime/runtime_versions.py a.opt.onnx # also: which of these models it does not load; then ends with status 1
    python bench/runtime/runtime_versions.py --zoo ZOO build/1.20.1/bin/python build/1.23.2/bin/python    # writes, loads, runs and compares

A model of one Neg is loaded in each opset, and in each IR version.
ZOO has NAME.onnx, and beside it NAME.inputs.npz and NAME.expected.npz where it is to be run, too.
With --zoo each model is written for ort-cpu@1.20, or the target that a --word names, and originals and results are loaded and run by each of these interpreters.
Then the status is 1 if a result does not load, or a result fails or is off (by 1e-3 of the largest element) where the original is right."""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401
import zoo  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]

MOST = 40  # opsets and IR versions that are tried


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    """Of protobuf: an integer, or what is put into it."""
    return varint(number << 3) + varint(payload) if isinstance(payload, int) else varint(number << 3 | 2) + varint(len(payload)) + payload


def one_neg(opset, ir):
    """Written by hand, for onnx itself writes no opset that it does not know."""
    tensor = field(1, 1) + field(2, field(1, field(1, 2)))  # float[2]
    value = lambda name: field(1, name) + field(2, field(1, tensor))
    node = field(1, b"x") + field(2, b"y") + field(4, b"Neg")
    graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
    return field(1, ir) + field(7, graph) + field(8, field(1, b"") + field(2, opset))


def why_not(model):
    """Why a model, bytes or a path, does not load; None if it does."""
    try:
        zoo.session(model)
    except Exception as error:  # of several kinds
        return str(error)
    return None


def newest(make):
    """The last number before the first that does not load."""
    loads = [why_not(make(number)) is None for number in range(7, MOST)]
    return 7 + loads.index(False) - 1


def tell_this_release(models):
    version = ".".join(onnxruntime.__version__.split(".")[:2])
    print(f'"{version}": {json.dumps({"opset": newest(lambda opset: one_neg(opset, 8)), "ir": newest(lambda ir: one_neg(17, ir))})}')
    refused = [(path, why) for path in models if (why := why_not(path))]
    for path, why in refused:
        print(f"{path}: {why}", file=sys.stderr)
    return bool(refused)


def judge_here(pairs):
    """In one of the interpreters: a line of JSON for each pair of an original and its result."""
    for original, result in pairs:
        feeds, expected = zoo.beside(pathlib.Path(original))
        print(json.dumps([zoo.verdict(path, feeds, expected) for path in (original, result)]))


def judged_by(python, pairs):
    """The release, and the rows of `judge_here`."""
    ask = [python, "-c", "import onnxruntime; print(onnxruntime.__version__)"]
    release = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run([python, __file__, "--judge"], input=json.dumps(pairs), capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if len(rows) != len(pairs):
        sys.exit(f"{release}: ended at {pairs[len(rows)]}: {done.stderr[-500:]}")
    return release, rows


def run_zoo(args):
    args.words = zoo.released(args.words)
    models, bad = sorted(args.zoo.glob("*.onnx")), 0
    print(f"{len(models)} models, {' '.join(args.words)}\n| ONNX Runtime | results that load | right | originals that are right | farthest |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as here:
        pairs = [(str(model), str(pathlib.Path(here) / model.name)) for model in models]
        for original, result in pairs:
            subprocess.run([args.binary, original, "-o", result, "-q", *args.words], check=True, stderr=subprocess.DEVNULL)
        for python in args.given:
            release, rows = judged_by(python, pairs)
            was, now = (collections.Counter(row[side][0] for row in rows) for side in (0, 1))
            far = max((row[1] for row in rows if row[1][0] == "right" and row[1][1][0].isdigit()), key=lambda row: float(row[1]), default=("", "-"))[1]
            print(f"| {release} | {len(rows) - now['refused']} | {now['right']} | {was['right']} | {far} |", flush=True)
            for (original, _), ((verdict_before, _), (verdict, why)) in zip(pairs, rows):
                worse = verdict == "refused" or verdict_before == "right" != verdict
                bad += worse
                if worse:
                    print(f"{release} {pathlib.Path(original).stem}: {verdict}, the original {verdict_before}: {why}", file=sys.stderr)
    return bool(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", nargs="*", help="models; with --zoo interpreters, each with its onnxruntime")
    parser.add_argument("--zoo", type=pathlib.Path)
    parser.add_argument("--binary", default=ROOT / "build" / "release" / "tools" / "saturate")
    parser.add_argument("--word", dest="words", action="append", default=[], help="with --zoo: a further word for saturate, as --word=--target=ort-cpu@1.23")
    parser.add_argument("--judge", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.judge:
        return judge_here(json.load(sys.stdin))
    return run_zoo(args) if args.zoo else tell_this_release(args.given)


if __name__ == "__main__":
    sys.exit(main())
