"""Models of many thousand parts, and how long the command takes over each within --time-limit.

  python bench/speed/large_models.py [--count N] [--seconds S] [--only NAME...] [--keep FOLDER] [--words "..."]
"""
import argparse
import os
import re
import resource
import shlex
import subprocess
import tempfile
import time
from pathlib import Path

from onnx import TensorProto, helper

F32, BOOL, I64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def value(name, shape=(2,), dtype=F32):
    return helper.make_tensor_value_info(name, dtype, list(shape))


def model(nodes, inputs, outputs, constants=(), functions=()):
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, list(constants)), opset_imports=OPSETS, ir_version=8, functions=list(functions))


def constants(n):
    return [helper.make_tensor(f"c{k}", F32, [2], [k, k + 1]) for k in range(n)]


def added(values):
    return helper.make_node("Sum", values, ["y"])


def row(n, ops):
    return model([helper.make_node(ops[k % len(ops)], [f"v{k}"], [f"v{k + 1}"]) for k in range(n)], [value("v0")], [value(f"v{n}")])


def chain(n):
    return row(n, ["Tanh"])


def mixed_chain(n):
    """What rules match more of: products, sums, views and their inverses."""
    nodes, inner = [], "v0"
    for k in range(n // 4):
        names = [f"a{k}", f"b{k}", f"c{k}", f"d{k}"]
        nodes += [helper.make_node("Mul", [inner, "w"], names[:1]), helper.make_node("Sigmoid", names[:1], names[1:2]),
                  helper.make_node("Mul", names[:2], names[2:3]), helper.make_node("Add", [names[2], inner], names[3:])]
        inner = names[3]
    return model(nodes, [value("v0")], [value(inner)], [helper.make_tensor("w", F32, [2], [0.5, 0.25])])


def wide(n):
    nodes = [helper.make_node(op, ["x" if op == "Mul" else f"r{k}", f"c{k}"][: 2 if op == "Mul" else 1], [f"r{k}" if op == "Mul" else f"s{k}"]) for k in range(n // 2) for op in ("Mul", "Relu")]
    return model([*nodes, added([f"s{k}" for k in range(n // 2)])], [value("x")], [value("y")], constants(n // 2))


def inputs(n):
    return model([helper.make_node("Relu", [f"i{k}"], [f"r{k}"]) for k in range(n)] + [added([f"r{k}" for k in range(n)])], [value(f"i{k}") for k in range(n)], [value("y")])


def outputs(n):
    return model([helper.make_node("Add", ["x", f"c{k}"], [f"r{k}"]) for k in range(n)], [value("x")], [value(f"r{k}") for k in range(n)], constants(n))


def initializers(n):
    """None of which is read but for the last, with those that are folded."""
    nodes = [helper.make_node("Mul", [f"c{k}", f"c{k + 1}"], [f"p{k}"]) for k in range(0, n - 1, 2)]
    nodes += [helper.make_node("Add", ["x", f"p{k}"], [f"s{k}"]) for k in range(0, n - 1, 2)]
    return model([*nodes, added([f"s{k}" for k in range(0, n - 1, 2)])], [value("x")], [value("y")], constants(n))


def equal_values(n):
    return model([helper.make_node("Sigmoid", ["x"], [f"r{k}"]) for k in range(n)] + [added([f"r{k}" for k in range(n)])], [value("x")], [value("y")])


def equal_initializers(n):
    made = outputs(n)
    for tensor in made.graph.initializer:
        tensor.CopyFrom(helper.make_tensor(tensor.name, F32, [2], [1, 2]))
    return made


def bodies(n):
    """n nodes in Ifs of a branch of five operators each."""
    nodes, inner = [], "x"
    for k in range(n // 10):
        def branch(op, inner=inner, k=k):
            names = [inner, *(f"{op}{k}_{i}" for i in range(5))]
            return helper.make_graph([helper.make_node(op, [names[i]], [names[i + 1]]) for i in range(5)], "b", [], [value(names[-1])])
        nodes.append(helper.make_node("If", ["c"], [f"o{k}"], then_branch=branch("Tanh"), else_branch=branch("Sigmoid")))
        inner = f"o{k}"
    return model(nodes, [value("x"), value("c", (), BOOL)], [value(inner)])


def loops(n):
    """n nodes in Loops of ten."""
    nodes, inner = [], "x"
    for k in range(n // 10):
        names = ["s", *(f"l{k}_{i}" for i in range(9))]
        body = [helper.make_node(["Tanh", "Relu"][i % 2], [names[i]], [names[i + 1]]) for i in range(9)] + [helper.make_node("Identity", ["k"], ["kk"])]
        graph = helper.make_graph(body, "b", [value("i", (), I64), value("k", (), BOOL), value("s")], [value("kk", (), BOOL), value(names[-1])])
        nodes.append(helper.make_node("Loop", ["trips", "", inner], [f"o{k}"], body=graph))
        inner = f"o{k}"
    return model(nodes, [value("x")], [value(inner)], [helper.make_tensor("trips", I64, [], [3])])


def deep_bodies(n):
    """Ifs of 12 levels, the innermost of them large."""
    inner = [helper.make_node("Tanh", ["x" if k == 0 else f"t{k}"], [f"t{k + 1}"]) for k in range(n)]
    graph = helper.make_graph(inner, "b", [], [value(f"t{n}")])
    for depth in range(12):
        other = helper.make_graph([helper.make_node("Relu", ["x"], [f"e{depth}"])], "e", [], [value(f"e{depth}")])
        graph = helper.make_graph([helper.make_node("If", ["c"], [f"o{depth}"], then_branch=graph, else_branch=other)], "b", [], [value(f"o{depth}")])
    return model(list(graph.node), [value("x"), value("c", (), BOOL)], [value("o11")])


def calls(n):
    """n nodes once the calls of one function are written out."""
    body = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Erf", ["a"], ["m"]), helper.make_node("Add", ["m", "a"], ["b"])], OPSETS[:1])
    return model([helper.make_node("F", [f"v{k}"], [f"v{k + 1}"], domain="own") for k in range(n // 2)], [value("v0")], [value(f"v{n // 2}")], functions=[body])


def functions(n):
    """Each called once."""
    made = [helper.make_function("own", f"F{k}", ["a"], ["b"], [helper.make_node("Erf", ["a"], ["m"]), helper.make_node("Add", ["m", "a"], ["b"])], OPSETS[:1]) for k in range(n // 2)]
    return model([helper.make_node(f"F{k}", [f"v{k}"], [f"v{k + 1}"], domain="own") for k in range(n // 2)], [value("v0")], [value(f"v{n // 2}")], functions=made)


def matmuls(n):
    weights = [helper.make_tensor(f"w{k}", F32, [2, 2], [1, 0.1 * (k % 7), 0, 1]) for k in range(64)]
    nodes = []
    for k in range(n // 3):
        nodes += [helper.make_node("MatMul", [f"v{k}", f"w{k % 64}"], [f"m{k}"]), helper.make_node("Add", [f"m{k}", f"b{k % 64}"], [f"a{k}"]), helper.make_node("Relu", [f"a{k}"], [f"v{k + 1}"])]
    return model(nodes, [value("v0", (3, 2))], [value(f"v{n // 3}", (3, 2))], weights + [helper.make_tensor(f"b{k}", F32, [2], [k, 1]) for k in range(64)])


SHAPES = {f.__name__: f for f in (chain, mixed_chain, matmuls, wide, inputs, outputs, initializers, equal_values, equal_initializers, bodies, loops, deep_bodies, calls, functions)}


def status_of(folder, words, seconds):
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run([os.environ.get("SATURATE_BIN", "saturate"), *words], cwd=folder, capture_output=True, text=True, timeout=20 * seconds + 60)
        status, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, said = "late", ""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, time.monotonic() - began, after.ru_utime - before.ru_utime, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", nargs="*", default=list(SHAPES))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--words", default="optimize MODEL -o out.onnx")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        for name in args.only:
            path = folder / f"{name}-{args.count}.onnx"
            if not path.exists():
                path.write_bytes(SHAPES[name](args.count).SerializeToString())
            words = shlex.split(args.words.replace("MODEL", path.name)) + ["--time-limit", f"{args.seconds:g}"]
            status, wall, user, said = status_of(folder, words, args.seconds)
            told = re.findall(r"warning: .*|error: .*", said)
            print(f"{name:20} {status!s:>5} {wall:7.1f} s  {user:7.1f} s of processors  {' | '.join(told)[:150]}", flush=True)


if __name__ == "__main__":
    main()
