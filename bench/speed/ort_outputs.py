"""What optimizers make of a model, for bench/speed/ort_latency.py: made once, checked once, and kept small.

NAME.TOOL.onnx in the folder of outputs is the optimizer's model without the weights that lie in the original's file just the same: those are stated as ranges of
that file (`read` puts them back). NAME.TOOL.json beside it says what was found out: the stamp of the tool that made it, the error if it made none, the
kernels that ONNX Runtime executes for it, and how far its outputs are from the original's.
"""
import collections
import functools
import hashlib
import importlib.metadata
import json
import math
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PEERS = {"onnxslim": "onnxslim", "onnxsim": "onnxsim", "onnxscript": "onnxscript", "ortpy": "onnxruntime", "ortoffline": "onnxruntime"}
MODEL_TYPES = ("bert", "gpt2", "bart", "vit", "t5")
LEAST_RANGE = 4096  # bytes of a weight that is stated as a range
LARGEST_MESSAGE = 1 << 31
RANGE = "range of the original's file"


def run_tool(tool, source, target):
    """In a process of its own."""
    import onnx

    if tool == "onnxslim":
        import onnxslim

        onnxslim.slim(source, target)
    elif tool == "onnxsim":
        import onnxsim

        model, ok = onnxsim.simplify(source)
        assert ok
        onnx.save(model, target)
    elif tool == "onnxscript":
        import onnx_ir
        import onnxscript.optimizer
        from onnxscript.rewriter.ort_fusions import optimize_for_ort

        model = onnx_ir.load(source)
        onnxscript.optimizer.optimize(model)
        model, _ = optimize_for_ort(model)
        onnx_ir.save(model, target)
    elif tool == "ortoffline":
        save_as_optimized(source, target)
    else:
        from onnxruntime.transformers import optimizer

        best = None
        for kind in MODEL_TYPES:
            try:
                model = optimizer.optimize_model(source, model_type=kind, num_heads=0, hidden_size=0, opt_level=0)
            except Exception:
                continue
            if best is None or len(model.model.graph.node) < len(best.model.graph.node):
                best = model
        best.save_model_to_file(target)


def save_as_optimized(source, target):
    """As ONNX Runtime's optimizer leaves the model, without what hangs on the machine."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def session(model, threads, saved=None):
    """As users load it. `model` is a path or bytes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    if saved:
        options.optimized_model_filepath = saved
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"])


def inputs_of(source):
    import numpy as np

    with np.load(source.parent / (source.name.split(".")[0] + ".inputs.npz")) as file:
        return dict(file)


def is_default(node, attribute):
    """Whether the schema says the same where the attribute is left out."""
    import onnx

    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
        return False
    declared = onnx.defs.get_schema(node.op_type).attributes.get(attribute.name)
    value = onnx.helper.get_attribute_value(attribute)
    if node.op_type in ("Conv", "MaxPool", "AveragePool") and attribute.name in ("dilations", "strides", "pads", "kernel_shape"):
        return attribute.name == "kernel_shape" or set(value) == {0 if attribute.name == "pads" else 1}
    return declared is not None and declared.default_value.type != 0 and onnx.helper.get_attribute_value(declared.default_value) == value


def kernels(path):
    """What ONNX Runtime executes, of the graph that it saved: operators with attributes, shapes and dtypes of weights, and which of them feed each other;
    names aside. A hash, and the number of nodes."""
    import onnx

    graph = onnx.load(path).graph
    made = {i.name: f"weight {i.data_type} {list(i.dims)}" for i in graph.initializer}
    made.update({i.name: f"input {i.name}" for i in graph.input})
    counts = collections.Counter()
    for node in graph.node:
        attributes = sorted(a.SerializeToString() for a in node.attribute if not is_default(node, a))
        key = hashlib.sha256(repr((node.domain, node.op_type, attributes, [made.get(i, "") for i in node.input])).encode()).hexdigest()
        counts[key] += 1
        made.update({o: f"{key} {k}" for k, o in enumerate(node.output)})
    return hashlib.sha256(repr(sorted(counts.items())).encode()).hexdigest(), len(graph.node)


def difference(ours, theirs):
    """Largest difference of outputs, by their scale; infinite where shapes, dtypes, integers or NaNs differ."""
    import numpy as np

    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if a.size and a.dtype.kind == "f":
            scale = max(1.0, float(np.nanmax(np.abs(a))))
            worst = max(worst, float(np.nanmax(np.abs(a - b))) / scale) if (np.isnan(a) == np.isnan(b)).all() else math.inf
        elif not np.array_equal(a, b):
            return math.inf
    return worst


def decibels(outputs, reference):
    """The signal of all outputs to their error."""
    import numpy as np

    a, b = (np.concatenate([np.asarray(o, np.float64).ravel() for o in outs]) for outs in (outputs, reference))
    return 10 * math.log10(max(float(np.square(b).sum()), 1e-300) / max(float(np.square(a - b).sum()), 1e-300))


def shrink(path, source):
    """Takes out of a model the weights that lie in the original's file."""
    import onnx

    model, last = onnx.load(path), 0
    with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as original:
        for tensor in model.graph.initializer:
            data = tensor.raw_data
            if len(data) < LEAST_RANGE:
                continue
            at = original.find(data, last)
            if at < 0:
                at = original.find(data)
            if at < 0:
                continue
            last = at + len(data)
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in ((RANGE, ""), ("offset", str(at)), ("length", str(len(data)))):
                tensor.external_data.add(key=key, value=value)
    return model


def read(path, source):
    """The bytes of a model that was kept small; the path of one that has no bytes."""
    import onnx

    if path == source:
        return path.read_bytes() if path.stat().st_size < LARGEST_MESSAGE else path
    model = onnx.load(path, load_external_data=False)
    with open(source, "rb") as file:
        for tensor in model.graph.initializer:
            stated = {e.key: e.value for e in tensor.external_data}
            if RANGE in stated:
                file.seek(int(stated["offset"]))
                tensor.raw_data = file.read(int(stated["length"]))
                tensor.ClearField("external_data")
                tensor.data_location = onnx.TensorProto.DEFAULT
    return model.SerializeToString()


def inspect(path, source, facts_path, float_model=None):
    """In a process of its own, which a model may crash: kernels and outputs, added to the facts. Where there is a float model that the source was quantized
    from, what is told of the outputs is the signal to their error against that one."""
    import numpy as np

    facts, reference = json.loads(facts_path.read_text()), facts_path.parent / f"{source.stem}.original.npz"
    fast = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        saved = os.path.join(folder, "o.onnx")
        s = session(read(path, source), 1, saved)
        facts["kernels"], facts["nodes"] = kernels(saved)
    inputs = inputs_of(source)
    names = [o.name for o in s.get_outputs()]
    if path == source:
        outputs = s.run(None, {i.name: inputs[i.name] for i in s.get_inputs()})
        np.savez(reference, *outputs, names=np.array(names))
        facts["difference"] = 0.0
    else:
        with np.load(reference) as file:
            expected, names = [file[f"arr_{k}"] for k in range(len(file.files) - 1)], [str(n) for n in file["names"]]
        outputs = s.run(names, {i.name: inputs[i.name] for i in s.get_inputs()})
        facts["difference"] = difference(expected, outputs)
    if float_model:
        s = session(str(float_model), 1)
        facts["decibels"] = decibels(outputs, s.run(names, {i.name: inputs[i.name] for i in s.get_inputs()}))
    facts_path.write_text(json.dumps(facts))


def last_line(done):
    return (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1][:200]


class Outputs:
    """The outputs of tools, by source and tool. `facts` of one has "error" or "kernels", "nodes" and "difference"."""

    def __init__(self, folder, binary, options, seconds, floats=None):
        self.folder, self.binary, self.options, self.seconds, self.floats = folder, binary, options, seconds, floats
        folder.mkdir(parents=True, exist_ok=True)

    def stamp(self, tool, source):
        """What an output depends on beside the model."""
        if tool == "original":
            return f"{source.stat().st_size} {source.stat().st_mtime_ns}"
        if tool != "saturate":
            try:
                return importlib.metadata.version(PEERS[tool])
            except importlib.metadata.PackageNotFoundError:
                return "not installed"
        return self.own_stamp

    @functools.cached_property
    def own_stamp(self):
        return hashlib.sha256(pathlib.Path(self.binary).read_bytes() + self.options.encode()).hexdigest()[:16]

    def path(self, tool, source):
        return source if tool == "original" else self.folder / f"{source.stem}.{tool}.onnx"

    def facts(self, tool, source):
        """Made where it is not there, is older than the model, or was made by another version; a model without facts beside it is taken as it is."""
        path, facts_path, stamp = self.path(tool, source), self.folder / f"{source.stem}.{tool}.json", self.stamp(tool, source)
        before = facts_path.read_text() if facts_path.exists() else None
        facts = json.loads(before) if before else None
        if facts is None and tool != "original" and path.exists():
            facts = {"stamp": "given"}
        elif facts is None or facts["stamp"] not in (stamp, "given") or facts_path.stat().st_mtime < source.stat().st_mtime:
            facts = {"stamp": stamp}
            if tool != "original":
                facts |= self.make(tool, source, path)
        if "error" not in facts and "kernels" not in facts:
            facts_path.write_text(json.dumps(facts))
            floats = sorted(self.floats.glob(source.name.split(".")[0] + ".*.onnx"))[:1] if self.floats else []
            done = self.run([sys.executable, __file__, "--inspect", path, source, facts_path, *floats])
            facts = json.loads(facts_path.read_text()) if done == "" else facts | {"error": done}
        if json.dumps(facts) != before:
            facts_path.write_text(json.dumps(facts))
        return facts

    def run(self, words):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return f"no result in {self.seconds:g} s"
        return "" if done.returncode == 0 else last_line(done)

    def make(self, tool, source, path):
        import onnx

        path.unlink(missing_ok=True)
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            whole = os.path.join(folder, "o.onnx")
            words = [sys.executable, __file__, "--tool", tool, source, whole]
            if tool == "saturate":
                words = [self.binary, "optimize", source, whole, "-q", *self.options.split()]
            error = self.run(words)
            if error or not os.path.exists(whole):
                return {"error": error or "no output"}
            seconds = time.perf_counter() - begin
            onnx.save(shrink(whole, source), path)
        return {"tool_seconds": round(seconds, 2)}

    def discard(self, source):
        for made in self.folder.glob(f"{source.stem}.*"):
            made.unlink()


if __name__ == "__main__":
    if sys.argv[1] == "--tool":
        run_tool(*sys.argv[2:5])
    else:
        inspect(*map(pathlib.Path, sys.argv[2:6]))
