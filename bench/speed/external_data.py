#!/usr/bin/env python3
"""Wall time and peak memory of optimizing a model of several GB with external data, file to file, beside other optimizers.

    python bench/speed/external_data.py FOLDER --binary build/release/tools/saturate [--blocks 10] [--rounds 3] [--tools saturate,verified,onnxscript,onnxruntime]

Makes FOLDER/model.onnx once: --blocks feed-forward blocks of 4096 and 8192 with LayerNormalization and GELU in single operators (18 nodes and 268 MB each),
weights in FOLDER/model.onnx.data. Tools: `cp`, saturate without verification, `verified` (with it), onnxscript (optimize, ort_fusions.optimize_for_ort, as
its users save external data), onnxruntime (ENABLE_ALL, optimized_model_filepath). Rounds go through the tools in turns, each in a process of its own;
outputs are removed after each. Printed: median and range of wall seconds, largest peak of resident memory, operators left.
"""
import argparse
import collections
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

WIDTH, INNER = 4096, 8192
TOOLS = ("cp", "saturate", "verified", "onnxscript", "onnxruntime")


def external(onnx, name, shape, offset):
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=shape, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", "model.onnx.data"), ("offset", offset), ("length", 4 * shape[0] * shape[1])):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def block(helper, i, x):
    """Names of the nodes' outputs end in the block's number; returns its output and its 18 nodes."""
    node = lambda op, inputs, output, **attributes: helper.make_node(op, inputs, [f"{output}{i}"], **attributes)
    nodes = [node("ReduceMean", [x, "last"], "mean"), node("Sub", [x, f"mean{i}"], "centred"), node("Pow", [f"centred{i}", "two"], "squared"),
             node("ReduceMean", [f"squared{i}", "last"], "variance"), node("Add", [f"variance{i}", "epsilon"], "safe"), node("Sqrt", [f"safe{i}"], "deviation"),
             node("Div", [f"centred{i}", f"deviation{i}"], "unit"), node("Mul", [f"unit{i}", "scale"], "scaled"), node("Add", [f"scaled{i}", "shift"], "norm"),
             node("MatMul", [f"norm{i}", f"up{i}"], "wide"), node("Add", [f"wide{i}", "up_bias"], "biased"),
             node("Div", [f"biased{i}", "root_two"], "argument"), node("Erf", [f"argument{i}"], "erf"), node("Add", [f"erf{i}", "one"], "gate"),
             node("Mul", [f"biased{i}", f"gate{i}"], "gated"), node("Mul", [f"gated{i}", "half"], "gelu"),
             node("MatMul", [f"gelu{i}", f"down{i}"], "narrow"), node("Add", [f"narrow{i}", "down_bias"], "y")]
    return f"y{i}", nodes


def make(folder, blocks):
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    small = {"last": np.array([-1]), "two": np.float32(2), "epsilon": np.float32(1e-5), "root_two": np.float32(2**0.5), "one": np.float32(1),
             "half": np.float32(0.5), "scale": np.ones(WIDTH, np.float32), "shift": np.zeros(WIDTH, np.float32),
             "up_bias": rng.standard_normal(INNER).astype(np.float32), "down_bias": rng.standard_normal(WIDTH).astype(np.float32)}
    weights, nodes, x, offset = [numpy_helper.from_array(np.asarray(v), k) for k, v in small.items()], [], "x", 0
    with open(folder / "model.onnx.data", "wb") as data:
        for i in range(blocks):
            for name, shape in ((f"up{i}", (WIDTH, INNER)), (f"down{i}", (INNER, WIDTH))):
                weights.append(external(onnx, name, shape, offset))
                offset += data.write((rng.standard_normal(shape, np.float32) * np.float32(0.01)).data)
            x, more = block(helper, i, x)
            nodes += more
    info = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["rows", WIDTH])
    graph = helper.make_graph(nodes, "blocks", [info("x")], [info(x)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), folder / "model.onnx")


def child(task, source, target):
    """In a process of its own, so that what it imports doesn't count as the memory of the commands started later."""
    if task == "make":
        make(pathlib.Path(source), int(target))
    elif task == "count":
        print(operators(source))
    elif task == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = target
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "out.onnx.data")
        onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    else:
        import onnx_ir
        import onnxscript.optimizer
        from onnxscript.rewriter.ort_fusions import optimize_for_ort

        model = onnx_ir.load(source)
        onnxscript.optimizer.optimize(model)
        model, _ = optimize_for_ort(model)
        onnx_ir.save(model, target, external_data="out.onnx.data")


def child_words(*words):
    return [sys.executable, __file__, "--child", *map(str, words)]


def start_child(*words):
    return subprocess.run(child_words(*words), check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def words(args, tool, source, target):
    if tool == "cp":
        return ["cp", str(source), f"{source}.data", str(target.parent)]
    if tool in ("saturate", "verified"):
        return [args.binary, "optimize", str(source), "-o", str(target), "--target", "ort-cpu@1.20"] + ([] if tool == "verified" else ["--no-verify"])
    return child_words(tool, source, target)


def measure(command):
    """Wall seconds and peak of resident bytes of the command."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed: {errors.decode()[-500:]}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


def operators(path):
    import onnx

    counts = collections.Counter(n.op_type for n in onnx.load(path, load_external_data=False).graph.node)
    return f"{sum(counts.values())}: " + ", ".join(f"{n} {op}" for op, n in counts.most_common(4))


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", default=",".join(TOOLS))
    args = parser.parse_args()
    source = args.folder / "model.onnx"
    if not source.exists():
        start_child("make", args.folder, args.blocks)
    results, left = collections.defaultdict(list), {}
    for _ in range(args.rounds):
        for tool in args.tools.split(","):
            out = args.folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            results[tool].append(measure(words(args, tool, source, out / ("model.onnx" if tool == "cp" else "out.onnx"))))
            left[tool] = start_child("count", next(out.glob("*.onnx")), "")
            shutil.rmtree(out)
    for tool, runs in results.items():
        seconds = sorted(s for s, _ in runs)
        print(f"{tool:12} {statistics.median(seconds):7.2f} s ({seconds[0]:.2f}..{seconds[-1]:.2f})  peak {max(m for _, m in runs) / 1e9:5.2f} GB  {left[tool]}", flush=True)


if __name__ == "__main__":
    main()
