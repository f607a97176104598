"""saturate from Python, step by step. Each `# %%` is a cell: editors and Jupyter (by jupytext) show this file as a notebook.

usage: quickstart.py [MODEL.onnx]      default: the BART encoder of the tests
"""
# %% A model. Anything that ONNX tools write will do: a path, bytes, an onnx.ModelProto, an onnx_ir.Model.
import pathlib
import sys
import tempfile

import numpy as np
import onnx

import onnx_saturate

path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1] / "tests/data/bart_encoder.onnx")
model = onnx.load(path)
about = onnx_saturate.inspect(model)
print(f"{path.name}: {about['nodes']} operators, opset {about['opset']}, {about['parameters']} parameters")
print("inputs:", ", ".join(f"{i['name']} {i['type']}{i['shape']}" for i in about["inputs"]))

# %% One line. The result is verified: both models were run on the same random inputs of several sizes.
optimized = onnx_saturate.optimize(model)
print(f"{len(model.graph.node)} -> {len(optimized.graph.node)} nodes")

# %% What was done. In a notebook the report shows itself as a table.
optimized, report = onnx_saturate.optimize_with_report(model, target="ort-cpu", cost="nodes")
print(report)
print("rules that fired most:", sorted(report.rules, key=lambda rule: -report.rules[rule])[:5])

# %% Why is there an Attention? Which rule made each one.
for made in onnx_saturate.explain(model, "Attention", cost="nodes")["made_by_rules"]:
    print(f"{made['op_type']} at {made['output']} by {made['rule']}")

# %% Is it right? Again, on other inputs, or on your own.
check = onnx_saturate.verify(model, optimized, seed=7)
print(check.message)
assert check

# %% Run it. Here by saturate's own runtime (for checking, not for serving) ...
rng = np.random.default_rng(0)
sizes = {}


def draw(described):
    """Ones for integers (masks, ids), normal numbers for floats; 4 for every symbolic dim."""
    shape = [dim if isinstance(dim, int) else sizes.setdefault(dim, 4) for dim in described["shape"]]
    if described["type"] == "float":
        return rng.normal(size=shape).astype(np.float32)
    return np.ones(shape, {"int64": np.int64, "int32": np.int32, "bool": bool}[described["type"]])


inputs = {described["name"]: draw(described) for described in about["inputs"]}
ours = onnx_saturate.run(optimized, inputs)
print({name: value.shape for name, value in ours.items()})

# %% ... and in ONNX Runtime, if it is installed.
try:
    import onnxruntime
except ImportError:
    print("onnxruntime is not installed")
else:
    session = onnxruntime.InferenceSession(optimized.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, theirs in zip(ours, session.run(None, inputs)):
        print(f"{name}: largest difference to ONNX Runtime {np.abs(ours[name] - theirs).max():.1e}")
        np.testing.assert_allclose(ours[name], theirs, rtol=1e-3, atol=1e-3)

# %% File to file: weights that lie outside stay outside, nothing is written unless it was verified.
with tempfile.TemporaryDirectory() as folder:
    out = onnx_saturate.optimize(path, pathlib.Path(folder) / "out.onnx", target="onnx", opset=23)
    print(f"{out.name}: opset {onnx_saturate.inspect(out)['opset']}, {out.stat().st_size} bytes")

# %% A cost model of your own: any function of an operator. This one finds SkipLayerNormalization too dear.
without = onnx_saturate.optimize(model, cost=lambda op: 20.0 if op.op_type == "SkipLayerNormalization" else 1.0)
print("SkipLayerNormalization:", sum(node.op_type == "SkipLayerNormalization" for node in without.graph.node))

# %% A rule of your own, as an equality of two ONNX functions. Both sides can be run, so a wrong rule is found out.
rules = onnx_saturate.RuleSet.builtin().add_text(
    """opset "" 20

# Negating twice does nothing.
rule my_double_negation (X) => (Y)
  { A = Neg (X)
    Y = Neg (A) }
  =>
  { Y = Identity (X) }
  example X = float[2,3]
""",
    "mine.rules",
)
print(rules, "my_double_negation" in rules)

# %% The engine alone: an e-graph over any terms.
g = onnx_saturate.EGraph()
term = g.add("(/ (* x 2) 2)")
g.run([("reassociate", "(/ (* ?a ?b) ?c)", "(* ?a (/ ?b ?c))"), ("two-by-two", "(/ 2 2)", "1"), ("times-one", "(* ?a 1)", "?a")])
print(g.extract(term), "|", repr(g))
