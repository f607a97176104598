"""Runs models in turn: ours (fast kernels), ours by reference kernels, ONNX Runtime, the standard's reference evaluator. Each in a process
of its own, so that a crash or a hang is one case's outcome and no more."""
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import warnings

SECONDS_A_CASE = 20
BYTES = 6 << 30  # a wild shape must not take the machine down


def _ours(model, feed, reference):
    import onnx_saturate

    return list(onnx_saturate.Session(model, reference=reference).run(feed).values())


def _ort(model, feed, optimized=False):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def _standard(model, feed):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, feed)


JUDGES = {
    "ours": lambda m, f: _ours(m, f, False),
    "ours_reference": lambda m, f: _ours(m, f, True),
    "ort": _ort,
    "ort_optimized": lambda m, f: _ort(m, f, True),
    "standard": _standard,
}


def child(judge, path):
    """Reads pickled (model bytes, feed) pairs, writes a pickled outcome for each: ("ran", outputs) or ("refused", why)."""
    import numpy as np
    import onnx

    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with open(path, "rb") as f:
        cases = pickle.load(f)
    out = sys.stdout.buffer
    for data, feed in cases:
        try:
            model = onnx.ModelProto.FromString(data)
            outcome = ("ran", [np.asarray(v) if isinstance(v, (np.generic, int, float, bool)) else v for v in JUDGES[judge](model, feed)])
        except Exception as e:
            outcome = ("refused", " ".join(f"{type(e).__name__}: {e}".split())[:300])
        pickle.dump(outcome, out)
        out.flush()


def _outcomes(process, file, expected):
    """What the process wrote so far; stops where it ends early, or stands still for too long."""
    done, last, size = [], time.monotonic(), 0
    while True:
        ended = process.poll() is not None
        file.seek(0, 2)
        if file.tell() != size:
            size, last = file.tell(), time.monotonic()
        if ended or time.monotonic() - last > SECONDS_A_CASE:
            break
        time.sleep(0.02)
    hung = process.poll() is None
    if hung:
        process.kill()
        process.wait()
    file.seek(0)
    while len(done) < expected:
        try:
            done.append(pickle.load(file))
        except (EOFError, pickle.UnpicklingError):
            break
    if len(done) < expected:
        done.append(("hang", f"nothing for {SECONDS_A_CASE} s") if hung else ("crash", f"exit status {process.returncode}"))
    return done


def run(judge, cases, python=sys.executable):
    """The outcome of each case, by this interpreter."""
    results = []
    while len(results) < len(cases):
        with tempfile.NamedTemporaryFile() as given, tempfile.TemporaryFile() as out:
            pickle.dump(cases[len(results):], given)
            given.flush()
            with tempfile.TemporaryFile() as errors:
                process = subprocess.Popen([python, __file__, judge, given.name], stdout=out, stderr=errors)
                results += _outcomes(process, out, len(cases) - len(results))
    return results


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2])
