#!/usr/bin/env python3
"""Wall time and anonymous memory of making a decoder of several GB half as large, file to file, beside onnxruntime.transformers.float16.

    python bench/speed/half_memory.py FOLDER --binary build/release/tools/saturate [--layers 12] [--rounds 1] [--tools precision,verified,slm,transformers]
        [--sequence 256] [--max-context 2048] [--limit SHARE]

Makes FOLDER/model.onnx once, in the manner of Llama with random weights in FOLDER/model.onnx.data: by default 12 layers of 2048, 16 heads, 5632
inside, a vocabulary of 32000, 3.0 GB, opset 17, no cache. Tools: `precision` (`transform --pass precision --no-verify`), `verified` (with
verification), `slm` (`slm --dtype fp16 --opset 14 --window 1 --sequence 256 --max-context 2048 --no-verify`), `slm_verified` (the same with
verification), `transformers`. Each run is a process of its own, and its result is removed. Told: wall seconds, the peaks of RssAnon and of all resident memory (looked at each 5 ms), both
also as shares of the result's size. With --limit SHARE tools run under `ulimit -d` of this share of half the weights.
"""
import argparse
import pathlib
import resource
import shutil
import subprocess
import sys
import time

HIDDEN, HEADS, INNER, VOCABULARY = 2048, 16, 5632, 32000


class Writer:
    """A model whose large weights go to its data file as they are made."""

    def __init__(self, folder):
        import numpy as np

        self.nodes, self.weights, self.offset, self.random = [], [], 0, np.random.default_rng(0)
        self.data = open(folder / "model.onnx.data", "wb")

    def node(self, op, inputs, output, **attributes):
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def small(self, name, value):
        import numpy as np
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def large(self, name, *shape):
        import numpy as np
        import onnx

        tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=shape, data_location=onnx.TensorProto.EXTERNAL)
        length = self.data.write((self.random.standard_normal(shape, np.float32) * np.float32(0.5 / shape[0] ** 0.5)).data)
        for key, value in (("location", "model.onnx.data"), ("offset", self.offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self.offset += length
        self.weights.append(tensor)
        return name

    def product(self, x, name, rows, columns):
        return self.node("MatMul", [x, self.large(f"{name}_weight", rows, columns)], name)


def norm(w, x, name):
    import numpy as np

    mean = w.node("ReduceMean", [w.node("Pow", [x, "two"], f"{name}_squares")], f"{name}_mean", axes=[-1], keepdims=1)
    root = w.node("Sqrt", [w.node("Add", [mean, "epsilon"], f"{name}_safe")], f"{name}_root")
    return w.node("Mul", [w.node("Div", [x, root], f"{name}_unit"), w.small(f"{name}_scale", np.ones(HIDDEN, np.float32))], name)


def turned(w, x):
    """Rotary embedding of halves."""
    from onnx import helper

    w.nodes.append(helper.make_node("Split", [x], [f"{x}_a", f"{x}_b"], axis=3))
    other = w.node("Concat", [w.node("Neg", [f"{x}_b"], f"{x}_minus"), f"{x}_a"], f"{x}_other", axis=3)
    return w.node("Add", [w.node("Mul", [x, "cosine"], f"{x}_c"), w.node("Mul", [other, "sine"], f"{x}_s")], f"{x}_turned")


def layer(w, x, i):
    n = norm(w, x, f"norm{i}")
    heads = {}
    for part in "qkv":
        apart = w.node("Reshape", [w.product(n, f"{part}{i}", HIDDEN, HIDDEN), "heads"], f"{part}{i}_heads")
        heads[part] = w.node("Transpose", [apart], f"{part}{i}_first", perm=[0, 2, 1, 3])
    keys = w.node("Transpose", [turned(w, heads["k"])], f"keys{i}", perm=[0, 1, 3, 2])
    scaled = w.node("Div", [w.node("MatMul", [turned(w, heads["q"]), keys], f"scores{i}"), "root"], f"scaled{i}")
    seen = w.node("Softmax", [w.node("Add", [scaled, "mask"], f"masked{i}")], f"seen{i}", axis=-1)
    mixed = w.node("Transpose", [w.node("MatMul", [seen, heads["v"]], f"mixed{i}")], f"mixed{i}_back", perm=[0, 2, 1, 3])
    x = w.node("Add", [x, w.product(w.node("Reshape", [mixed, "whole"], f"joined{i}"), f"o{i}", HIDDEN, HIDDEN)], f"attended{i}")
    n = norm(w, x, f"second{i}")
    gate = w.product(n, f"gate{i}", HIDDEN, INNER)
    silu = w.node("Mul", [gate, w.node("Sigmoid", [gate], f"sigmoid{i}")], f"silu{i}")
    inner = w.node("Mul", [silu, w.product(n, f"up{i}", HIDDEN, INNER)], f"inner{i}")
    return w.node("Add", [x, w.product(inner, f"down{i}", INNER, HIDDEN)], f"layer{i}")


def positions(w):
    """Angles of all positions, and a mask that hides later tokens and padding."""
    import numpy as np

    width = HIDDEN // HEADS
    w.node("Gather", [w.node("Shape", ["input_ids"], "shape"), "first"], "length", axis=0)
    w.node("Range", ["zero", "length", "first"], "positions")
    w.small("rates", (10000.0 ** (-np.arange(0, width, 2) / width)).astype(np.float32)[None])
    w.node("Mul", [w.node("Unsqueeze", [w.node("Cast", ["positions"], "numbers", to=1), "axis1"], "column"), "rates"], "angles")
    w.node("Concat", ["angles", "angles"], "both", axis=1)
    for op, name in (("Cos", "cosine"), ("Sin", "sine")):
        w.node(op, ["both"], name)
    earlier = w.node("LessOrEqual", [w.node("Unsqueeze", ["positions", "axis0"], "columns"), w.node("Unsqueeze", ["positions", "axis1"], "rows")], "earlier")
    tokens = w.node("Unsqueeze", [w.node("Cast", ["attention_mask"], "tokens", to=9), "axes12"], "each")
    w.node("Where", [w.node("And", [earlier, tokens], "visible"), "none", "lowest"], "mask")


def make(folder, layers):
    import numpy as np
    import onnx
    from onnx import helper

    folder.mkdir(parents=True, exist_ok=True)
    w = Writer(folder)
    for name, value in {"two": np.float32(2), "epsilon": np.float32(1e-5), "root": np.float32((HIDDEN // HEADS) ** 0.5), "none": np.float32(0),
                        "lowest": np.finfo(np.float32).min, "zero": np.int64(0), "first": np.int64(1), "axis0": np.array([0]), "axis1": np.array([1]),
                        "axes12": np.array([1, 2]), "heads": np.array([0, 0, HEADS, -1]), "whole": np.array([0, 0, -1])}.items():
        w.small(name, value)
    positions(w)
    x = w.node("Gather", [w.large("table", VOCABULARY, HIDDEN), "input_ids"], "embedded")
    for i in range(layers):
        x = layer(w, x, i)
    w.product(norm(w, x, "norm"), "logits", HIDDEN, VOCABULARY)
    w.data.close()
    info = lambda name, dtype, *dims: helper.make_tensor_value_info(name, dtype, ["batch", "sequence", *dims])
    inputs = [info("input_ids", onnx.TensorProto.INT64), info("attention_mask", onnx.TensorProto.INT64)]
    graph = helper.make_graph(w.nodes, "decoder", inputs, [info("logits", onnx.TensorProto.FLOAT, VOCABULARY)], w.weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")


def by_transformers(source, target):
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = convert_float_to_float16(onnx.load(source), keep_io_types=True, disable_shape_infer=True)
    onnx.save(model, target, save_as_external_data=True, location=pathlib.Path(target).name + ".data")


def words(args, tool, source, target):
    ours = [args.binary, "transform", source, "-o", target, "--pass", "precision"]
    slm = [args.binary, "slm", source, "-o", target, "--dtype", "fp16", "--opset", "14", "--window", "1", "--sequence", args.sequence, "--max-context",
           args.max_context]
    return {"precision": [*ours, "--no-verify"], "verified": ours, "slm": [*slm, "--no-verify"], "slm_verified": slm,
            "transformers": [sys.executable, __file__, "--child", "transformers", source, target]}[tool]


def resident(pid):
    """RssAnon and VmRSS in bytes."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "VmRSS"))}
    return found.get("RssAnon", 0), found.get("VmRSS", 0)


def measure(command, limit):
    """Wall seconds and the peaks of anonymous and of resident bytes; None and the error where it fails."""
    allow = None if limit is None else lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    start, peaks = time.perf_counter(), [0, 0]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=allow)
    while process.poll() is None:
        peaks = [max(pair) for pair in zip(peaks, resident(process.pid))]
        time.sleep(0.005)
    error = process.stderr.read().strip()
    return (time.perf_counter() - start, *peaks) if process.returncode == 0 else None, error[-300:]


def main():
    if sys.argv[1:2] == ["--child"]:
        return {"make": lambda folder, layers: make(pathlib.Path(folder), int(layers)), "transformers": by_transformers}[sys.argv[2]](*sys.argv[3:5])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--max-context", type=int, default=2048)
    parser.add_argument("--tools", default="precision,verified,slm,slm_verified,transformers")
    args = parser.parse_args()
    source, out = args.folder / "model.onnx", args.folder / "out"
    if not source.exists():
        subprocess.run([sys.executable, __file__, "--child", "make", str(args.folder), str(args.layers)], check=True)
    half = (args.folder / "model.onnx.data").stat().st_size // 2
    limit = None if args.limit is None else int(args.limit * half)
    failed = False
    for tool in args.tools.split(",") * args.rounds:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        told, error = measure(words(args, tool, source, out / "out.onnx"), limit)
        size = sum(path.stat().st_size for path in out.iterdir())
        shutil.rmtree(out)
        failed |= told is None
        if told is None:
            print(f"{tool:14} failed: {error}", flush=True)
            continue
        print(f"{tool:14} {told[0]:7.2f} s  anonymous {told[1] / 1e9:5.2f} GB ({told[1] / size:.2f} of the result's {size / 1e9:.2f} GB)  "
              f"resident {told[2] / 1e9:5.2f} GB ({told[2] / size:.2f})", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
