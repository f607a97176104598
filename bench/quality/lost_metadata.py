"""Whether metadata_props of replaced nodes are lost: `python bench/quality/lost_metadata.py --saturate build/release/tools/saturate a.onnx b.onnx ...`

Each text (key and value) that a node of the original has must stand on a node of the result. Left out are nodes that no output needs, and
nodes that are computed once because all that they read is constant. A text may be missing where each node that stands for its node
(`saturate.replaces` of `--annotate`) says by `saturate.metadata_cut` that 4 kB were full.
"""
import argparse
import pathlib
import subprocess
import tempfile

import onnx


def texts(node):
    return {(entry.key, entry.value) for entry in node.metadata_props}


def bodies(node):
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nodes_of(graph):
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from nodes_of(body)


def captured(node):
    return {name for body in bodies(node) for inner in nodes_of(body) for name in inner.input}


def live_nodes(graph):
    needed = {o.name for o in graph.output}
    live = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            live.append(node)
            needed |= set(node.input) | captured(node)
    return live[::-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--saturate", default="saturate")
    args = parser.parse_args()
    all_lost = 0
    for path in args.models:
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out.onnx"
            done = subprocess.run([args.saturate, path, "-o", out, "-q", "--no-verify", "--annotate"], capture_output=True, text=True)
            if done.returncode:
                print(f"{path.name}: {done.stderr.strip()[:100]}")
                continue
            before, after = onnx.load(path, load_external_data=False), onnx.load(out, load_external_data=False)
        there, cut, standing, more = {}, 0, {}, False
        for node in nodes_of(after.graph):
            props = {e.key: e.value for e in node.metadata_props}
            full = "saturate.metadata_cut" in props
            cut += full
            listed = props.get("saturate.replaces", "")
            more |= full and listed.endswith(" more")
            for name in listed.split(", "):
                standing.setdefault(name, []).append(full)
            for entry in node.metadata_props:
                there.setdefault(entry.key, []).append("\n" + entry.value + "\n")
        constants = {i.name for i in before.graph.initializer}
        wanted, lost, folded, excused = 0, [], 0, 0
        for node in live_nodes(before.graph):
            if node.op_type == "Constant" or (node.input and all(name in constants or not name for name in node.input)):
                constants.update(node.output)
                folded += 1
                continue
            for key, text in texts(node):
                wanted += 1
                if any("\n" + text + "\n" in value for value in there.get(key, [])):
                    continue
                full = standing.get(node.name or node.output[0])
                if all(full) if full else more:
                    excused += 1
                else:
                    lost.append((node.op_type, node.output[0], key))
        all_lost += len(lost)
        print(f"{path.name:40} {wanted:>6} texts, {len(lost):>4} lost on {len({n for _, n, _ in lost}):>3} nodes, {excused} did not fit into {cut} nodes, {folded} constant nodes "
              + ", ".join(sorted({f'{op} {name}' for op, name, _ in lost})[:6]))
    print(f"{all_lost} lost")


if __name__ == "__main__":
    main()
