#!/usr/bin/env python3
"""The standard's own backend tests (onnx.backend.test, run by its own runner) on saturate, ONNX Runtime and the reference evaluator.

usage: bench/runtime/backend_table.py [--backends saturate,onnxruntime,reference] [--suites node,simple,...] [--failures] [--json OUT.json]

Needs the packages onnx-saturate, onnx and onnxruntime. A case passes with the suite's own tolerances; a case that takes the process down counts
as a crash, and the next process goes on after it. The light models' inputs and outputs go to a temporary ONNX_HOME.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import warnings

SUITES = {
    "node": "OnnxBackendNodeModelTest",
    "simple": "OnnxBackendSimpleModelTest",
    "pytorch-converted": "OnnxBackendPyTorchConvertedModelTest",
    "pytorch-operator": "OnnxBackendPyTorchOperatorModelTest",
    "light": "OnnxBackendRealModelTest",
}
BACKENDS = ["saturate", "onnxruntime", "reference"]


class Prepared:
    """A model ready to run, as onnx.backend.base.BackendRep: `run` takes a list in the order of the inputs without a default value."""

    def __init__(self, model, run):
        defaults = {tensor.name for tensor in model.graph.initializer}
        self._names = [value.name for value in model.graph.input if value.name not in defaults]
        self._all = [value.name for value in model.graph.input]
        self._run = run

    def run(self, inputs):
        return self._run(dict(zip(self._names if len(inputs) <= len(self._names) else self._all, inputs)))


class OnnxRuntime:
    @staticmethod
    def supports_device(device):
        return device == "CPU"

    @staticmethod
    def prepare(model, device="CPU", **_):
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return Prepared(model, lambda feeds: session.run(None, feeds))


class Reference:
    supports_device = OnnxRuntime.supports_device

    @staticmethod
    def prepare(model, device="CPU", **_):
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(model)
        return Prepared(model, lambda feeds: evaluator.run(None, feeds))


def backend(name):
    if name == "saturate":
        import onnx_saturate.backend

        return onnx_saturate.backend
    return {"onnxruntime": OnnxRuntime, "reference": Reference}[name]


def run_child(name, suite):
    """Runs the cases of a suite that are not named on stdin; a line of JSON before each, and one with its outcome."""
    from onnx.backend.test.runner import Runner

    done = set(sys.stdin.read().split())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = Runner(backend(name), __name__).test_cases[SUITES[suite]]
        case_object = cases()
        for test in sorted(n for n in dir(cases) if n.startswith("test_") and n.endswith("_cpu")):
            if test in done:
                continue
            print(json.dumps([test]), flush=True)
            try:
                getattr(case_object, test)()
                outcome = "passed"
            except BaseException as error:  # one of protobuf's, NumPy's, unittest's: whatever a backend throws
                outcome = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            print(json.dumps([test, outcome]), flush=True)


def run_suite(name, suite, folder):
    outcomes = {}
    while True:
        process = subprocess.run(
            [sys.executable, __file__, "--child", name, suite],
            input="\n".join(outcomes), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "ONNX_HOME": folder},
        )
        began = None
        for line in process.stdout.splitlines():
            if not line.startswith('["test_'):
                continue
            began, *outcome = json.loads(line)
            if outcome:
                outcomes[began], began = outcome[0], None
        if began is None:
            if process.returncode != 0:
                sys.exit(f"{name}, {suite}: {process.stderr[-2000:]}")
            return outcomes
        outcomes[began] = f"crashed: {process.returncode}"


def main():
    if sys.argv[1:2] == ["--child"]:
        return run_child(*sys.argv[2:4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--failures", action="store_true", help="a line for every case that doesn't pass")
    parser.add_argument("--json", help="every outcome")
    args = parser.parse_args()
    backends = args.backends.split(",")
    everything = {}
    print(f"| suite | cases | {' | '.join(backends)} |\n|---|---|{'---|' * len(backends)}")
    with tempfile.TemporaryDirectory() as folder:
        for suite in args.suites.split(","):
            everything[suite] = {name: run_suite(name, suite, folder) for name in backends}
            counts = [collections.Counter(o.split(":")[0] for o in outcomes.values()) for outcomes in everything[suite].values()]
            cells = [str(c["passed"]) + (f" ({c['crashed']} crashed)" if c["crashed"] else "") for c in counts]
            print(f"| {suite} | {len(everything[suite][backends[0]])} | {' | '.join(cells)} |", flush=True)
    if args.failures:
        for suite, by_backend in everything.items():
            for name, outcomes in by_backend.items():
                for test, outcome in outcomes.items():
                    if outcome != "passed":
                        print(f"{suite} {name} {test} {outcome}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(everything, out, indent=1)


if __name__ == "__main__":
    main()
