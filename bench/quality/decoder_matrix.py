#!/usr/bin/env python3
"""Makes caches of exported decoders by `saturate slm` in all modes, types and opsets, and steps each result in ONNX Runtime beside the export.

    python bench/export/export_decoders.py FOLDER
    python bench/quality/decoder_matrix.py FOLDER [NAME ...] [--modes growing,window,...] [--dtypes fp32,fp16] [--opsets 14,17,default] [--sample N]
                                   [--saturate BINARY] [--python INTERPRETER] [--json ROWS.jsonl]

Modes are growing, window, window4 (four tokens at a time), buffer, tensor_scatter and group_query_attention; sizes are those of the document
(--sequence 48 --max-context 64). The two last ones are what `saturate slm --cache buffer --print-passes` prints, with `write`.
`saturate` runs with its default options, so it verifies, and ONNX Runtime judges. What it writes is then stepped here, by another process and
without our code: token by token from an empty cache and in blocks, two rows of which one begins with padding, without and with all of ONNX
Runtime's optimizations. Reference is the export on the whole sequence, without optimizations.

A row is `equal`, `wrong`, `does not load`, `does not run`, `ends the process`, `refused` or, where nothing is found that speaks against a
cache, `REFUSED`; `unjudged`, where the first line does not say that ONNX Runtime judged; `fails` where `saturate` itself fails; `unfit`, of
what --no-verify has written of an export that verification refuses.
Rows that stand in --json already are not run again. The exit status is 1 where a row is neither equal nor refused.
--python names the interpreter that has the release of ONNX Runtime to step with (default: this one). Needs onnxruntime and numpy.
"""
import argparse
import collections
import functools
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

SIZES = ["--sequence", "48", "--max-context", "64"]
ROOM = ["--cache", "buffer", "--max-context", "64"]
MODES = {"growing": ["--cache", "growing"], "window": ["--window", "1", *SIZES], "window4": ["--window", "4", *SIZES], "buffer": ROOM,
         "tensor_scatter": ROOM, "group_query_attention": ROOM}
WRITERS = ("tensor_scatter", "group_query_attention")
TOLERANCES = {"fp32": 1e-4, "fp16": 2e-2}
TOKENS = 40
GOOD = ("equal", "refused", "unfit")
EXIT_CODES = (1, 2, 3, 4, 5)  # what the command's help lists


def words_of(path, made, mode, dtype, opset, args):
    """The command; a list of passes for what `slm` has no option of lies beside the result."""
    saturate, unverified = args.saturate, args.no_verify
    options = [*MODES[mode], "--dtype", dtype, *(["--opset", opset] if opset != "default" else [])]
    if mode not in WRITERS:
        return [saturate, "slm", path, "-o", made, *options, *unverified]
    printed = subprocess.run([saturate, "slm", path, *options, "--print-passes"], capture_output=True, text=True, check=True)
    passes = json.loads(printed.stdout)
    passes[0]["write"] = mode
    if mode == "tensor_scatter":
        passes[0]["opset"] = 24  # it begins there
    listed = made.with_suffix(".json")
    listed.write_text(json.dumps(passes))
    return [saturate, "transform", path, "-o", made, "--passes", listed, *unverified]


def said_of(done):
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "")[:400]


def library_of(python):
    """The shared library of the interpreter's release, which judges."""
    find = "import onnxruntime, pathlib; print(next(pathlib.Path(onnxruntime.__file__).parent.glob('capi/libonnxruntime.so*')))"
    return subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()


def is_judged(done):
    lines = [line for line in done.stdout.splitlines() if "verified" in line or "step by step as the whole" in line]
    return any("ONNX Runtime" in line and "not judged" not in line for line in lines)


def stepped(path, made, mode, dtype, python):
    """By a process of its own, for it may end."""
    done = subprocess.run([python, __file__, "--step", path, made, mode, dtype], capture_output=True, text=True, timeout=900)
    if done.returncode:
        return "ends the process", f"{done.returncode}: {done.stderr[-200:]}"
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def row(path, mode, dtype, opset, args):
    with tempfile.TemporaryDirectory() as folder:
        made = pathlib.Path(folder) / "made.onnx"
        start = time.time()
        done = subprocess.run(words_of(path, made, mode, dtype, opset, args), capture_output=True, text=True)
        seconds = round(time.time() - start, 1)
        if done.returncode:
            word = "fails" if done.returncode not in EXIT_CODES or "internal error" in done.stderr or made.exists() else "refused"
            return {"row": word, "says": f"exit {done.returncode}: {said_of(done)}", "seconds": seconds}
        word, says = stepped(path, made, mode, dtype, args.python)
        if word == "equal" and not args.no_verify and not is_judged(done):
            word = "unjudged"
        found = {"row": word, "says": says, "seconds": seconds}
        if args.no_verify:
            return found
        first = [line for line in done.stdout.splitlines() if "step by step as the whole" in line or line.startswith(("verified", "NOT"))]
        return {**found, "first": " | ".join(first)[:300]}


def step(path, made, mode, dtype):
    """The row's word and why; runs in a process of its own."""
    import kv_cache
    import numpy as np

    wanted = kv_cache.Whole(path, as_it_is=True)
    ids = wanted.draw(2, TOKENS)
    mask = np.ones_like(ids)
    mask[1, :2] = 0
    ids, mask = kv_cache.rows_that_run(wanted, ids, mask)
    cached = kv_cache.MODES[{"window4": "window"}.get(mode, mode)]
    worst = {}
    for level, as_it_is in (("none", True), ("all", False)):
        try:
            model = cached(made, as_it_is=as_it_is)
        except Exception as error:  # noqa: BLE001 (of several kinds)
            return "does not load", f"{level}: {str(error).splitlines()[0][:300]}"
        for way, steps in {"blocks": None, "single": [1] * ids.shape[1]}.items():
            if mode.startswith("window") and way == "single":
                continue  # a window has one way alone
            try:
                worst[f"{level} {way}"] = kv_cache.teacher_forced(wanted, model, ids, mask, steps=steps)
            except Exception as error:  # noqa: BLE001
                return "does not run", f"{level}, {way}: {str(error).splitlines()[0][:300]}"
    farthest = max(worst.values()) if all(w == w for w in worst.values()) else float("nan")
    return ("equal" if farthest <= TOLERANCES[dtype] else "wrong"), ", ".join(f"{k} {v:.1e}" for k, v in worst.items())


def explained(found):
    """Refused rows for which nothing speaks against a cache are shouted."""
    if found["row"] not in ("refused", "wrong"):
        return found
    lacking = found["mode"] == "tensor_scatter" and "TensorScatter: opset" in found["says"]
    why = "no such operator there" if lacking else speaks_against(found["path"], found["mode"].startswith("window"))
    if found["row"] == "wrong":
        return {**found, "row": "unfit" if why and "first" not in found else "wrong", "why": why}
    return {**found, "row": "refused" if why else "REFUSED", "why": why}


@functools.lru_cache(None)
def speaks_against(path, window):
    import kv_cache

    return kv_cache.why_refused(pathlib.Path(path), "window" if window else "growing")


def chosen(args):
    paths = [p for p in sorted(args.folder.glob("*.onnx")) if not args.names or p.stem in args.names or p.name.split(".")[0] in args.names]
    rows = list(itertools.product(args.opsets.split(","), args.dtypes.split(","), args.modes.split(","), paths))
    if args.sample and args.sample < len(rows):
        rows = random.Random(args.seed).sample(rows, args.sample)
    return rows


def main():
    if sys.argv[1:2] == ["--step"]:
        print(json.dumps(step(*sys.argv[2:])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="as llama or llama.dynamo-18-sdpa; default: all")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--dtypes", default=",".join(TOLERANCES))
    parser.add_argument("--opsets", default="14,17,default")
    parser.add_argument("--sample", type=int, help="that many rows, drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path, help="a row a line; what stands there is not run again")
    parser.add_argument("--no-verify", action="store_const", const=["--no-verify"], default=[], help="leave verifying to this script alone")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--saturate", default=os.environ.get("SATURATE_BIN", "saturate"))
    args = parser.parse_args()
    os.environ["SATURATE_ONNXRUNTIME"] = library_of(args.python)
    before = [json.loads(line) for line in args.json.read_text().splitlines()] if args.json and args.json.exists() else []
    counts = collections.Counter((r["mode"], r["dtype"], r["opset"], r["row"]) for r in before)
    done = {(r["path"], r["mode"], r["dtype"], r["opset"]) for r in before}
    for opset, dtype, mode, path in chosen(args):
        if (str(path), mode, dtype, opset) in done:
            continue
        found = explained({"path": str(path), "mode": mode, "dtype": dtype, "opset": opset, **row(path, mode, dtype, opset, args)})
        counts[mode, dtype, opset, found["row"]] += 1
        print(f"{path.stem} {mode} {dtype} opset {opset}: {found['row']}: {found.get('why', '')} {found['says']} ({found['seconds']} s)", flush=True)
        if args.json:
            with args.json.open("a") as rows:
                rows.write(json.dumps(found) + "\n")
    for (mode, dtype, opset, word), count in sorted(counts.items()):
        print(f"{mode} {dtype} opset {opset} {word}: {count}")
    return int(any(word not in GOOD for _, _, _, word in counts))


if __name__ == "__main__":
    sys.exit(main())
