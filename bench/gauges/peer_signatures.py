#!/usr/bin/env python3
"""Tells whether onnxslim and onnxsim still have the arguments that `onnx_saturate.slim` and `.simplify` were written for.

  python3 -m venv peers && peers/bin/pip install onnxslim onnxsim
  peers/bin/python bench/gauges/peer_signatures.py            compares with tests/data/peer_signatures.json; status 1 where they differ
  peers/bin/python bench/gauges/peer_signatures.py --write    writes them there

tests/python/package/test_drop_in.py holds the package to that file.
"""
import argparse
import importlib.metadata
import inspect
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "peer_signatures.json"


def of_onnxslim():
    """`slim` takes what it knows out of **kwargs, whose names a TypedDict tells; all of them are optional."""
    import onnxslim
    from onnxslim.argparser import OnnxSlimKwargs

    (first, *rest) = inspect.signature(onnxslim.slim).parameters.values()
    assert [p.kind for p in rest] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD], "slim has other parameters now"
    return {"positional": [first.name, "output_model"], "named": sorted(OnnxSlimKwargs.__annotations__)}


def of_onnxsim():
    import onnxsim

    parameters = inspect.signature(onnxsim.simplify).parameters.values()
    by_place = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return {
        "positional": [p.name for p in by_place],
        "named": sorted(p.name for p in parameters if p not in by_place),
        "defaults": {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = {name: {"version": importlib.metadata.version(name), **of()} for name, of in (("onnxslim", of_onnxslim), ("onnxsim", of_onnxsim))}
    if args.write:
        DATA.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    known, changed = json.loads(DATA.read_text()), False
    for name, now in found.items():
        then = known[name]
        keys = [key for key in now if key != "version" and now[key] != then[key]]
        for key in keys:
            new, gone = [x for x in now[key] if x not in then[key]], [x for x in then[key] if x not in now[key]]
            print(f"{name} {now['version']}: {key}: new {new}, gone {gone}" if new or gone else f"{name} {now['version']}: {key}: moved or changed")
        print(f"{name} {now['version']} (written for {then['version']}): {'other arguments' if keys else 'the same'}")
        changed = changed or bool(keys)
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())
