"""Draws options of `optimize`: every target, and what few ask for."""
import numpy as np

from . import optimize

TARGETS = ("ort-cpu@1.31", "ort-cpu@1.31", "onnx", "onnx", "ort-cpu@1.20", "ort-cpu@1.24", "ort-cuda", "ort-web", "coreml", "openvino", "npu-4d", "qnn-htp", "qnn-htp-generic", "trt-dla")
OPSETS = tuple(range(11, 24))
COSTS = ("nodes", "flops", "bytes", "roofline", "measured")
EXTRACTORS = ("bottom-up", "greedy-dag", "search", "heuristic", "local", "ilp", "portfolio")
FUSIONS = ("Attention", "MultiHeadAttention", "LayerNormalization", "Gelu", "RMSNormalization", "RotaryEmbedding", "SkipLayerNormalization", "Gemm", "Conv")
SECONDS = 10.0


def open_dims(model):
    """{symbol: (input, axis)} of the model's inputs."""
    found = {}
    for info in model.graph.input:
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.dim_param:
                found.setdefault(dim.dim_param, (info.name, axis))
    return found


class Drawn:
    def __init__(self, rng):
        self.rng, self.chosen = rng, {}

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def at_times(self, p, name, options):
        if self.chance(p):
            self.chosen[name] = self.pick(options)


def limits(d):
    d.at_times(0.06, "iterations", (0, 1, 2, 3, 5))
    d.at_times(0.05, "node_limit", (1, 20, 100, 500))
    d.at_times(0.04, "time_limit", (0.0, 0.01, 0.05))
    d.at_times(0.02, "memory_limit", (1 << 18, 1 << 22))
    d.at_times(0.02, "max_memory", (1 << 10, 1 << 16))
    d.chosen.setdefault("time_limit", SECONDS)


def rules_left_out(d, names):
    if d.chance(0.07):
        d.chosen["skip_rules"] = sorted({d.pick(names) for _ in range(d.pick((1, 5, 50, 300)))})
    d.at_times(0.05, "skip_fusions", [[f] for f in FUSIONS])
    if d.chance(0.01):
        d.chosen["rules"] = type(d.chosen["rules"]).none()
        d.chosen.pop("skip_rules", None)


def effects(d):
    d.at_times(0.03, "approximate", (True,))
    d.at_times(0.06, "rescale", (True,))
    d.at_times(0.12, "within_one_step", (True, False))
    if d.chance(0.3):
        d.chosen["no_assume"] = ["all"]
    elif d.chance(0.1):
        d.chosen["assume"] = list(optimize.RISKY)


def interface(d, model, feed):
    """What changes sizes and ranks."""
    symbols = open_dims(model)
    if symbols and d.chance(0.4):
        share = d.pick((0.5, 1.0))
        d.chosen["dims"] = {s: int(feed[name].shape[axis]) for s, (name, axis) in symbols.items() if name in feed and d.chance(share)}
        d.chosen["allow_empty"] = True
    elif feed and d.chance(0.05):
        name = d.pick(list(feed))
        d.chosen["input_shapes"] = {name: list(feed[name].shape)}
        d.chosen["allow_empty"] = True
    d.at_times(0.03, "io_rank", (4, 5))


def drawn(rng, model, feed, rules, names, asked):
    """`rules`: a RuleSet, of these `names`; `asked`: what rules of patterns ask of the options (optimize.needs)."""
    d = Drawn(rng)
    d.chosen = {"rules": rules, "target": d.pick(TARGETS), "verify": d.chance(0.2)}
    d.at_times(0.5, "cost", COSTS)
    d.at_times(0.1, "extractor", EXTRACTORS)
    d.at_times(0.4, "opset", OPSETS)
    d.at_times(0.05, "memory_slack", (0.02, 0.5))
    d.at_times(0.05, "prefer", ("single-heads",))
    d.at_times(0.03, "threads", (2,))
    for name in ("keep_functions", "annotate"):
        d.at_times(0.1, name, (True,))
    if "opset" not in d.chosen:
        d.at_times(0.1, "keep_opset", (True,))
    limits(d)
    rules_left_out(d, names)
    effects(d)
    interface(d, model, feed)
    if asked and d.chance(0.7):
        d.chosen.update({"approximate": True} if "approximates" in asked else {})
        if "assume" in asked:
            d.chosen.pop("no_assume", None)
            d.chosen["assume"] = list(optimize.RISKY)
        if asked & {"if_unsupported", "if_any_unsupported"}:
            d.chosen["opset"] = d.pick(optimize.OLDER_OPSETS)
            d.chosen.pop("keep_opset", None)
    if d.chosen["target"] == "onnx" and d.chosen.get("cost") == "measured":
        d.chosen.pop("cost")
    return d.chosen


def text(options):
    return " ".join(f"{name}={value if np.ndim(value) == 0 or len(value) < 8 else f'{len(value)} of them'}" for name, value in options.items() if name != "rules" and (name, value) != ("time_limit", SECONDS))
