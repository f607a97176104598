"""Attention of both domains, and rotary embeddings."""
import numpy as np

from .cases import F16, F32, F64, LOWEST, MS, Made, given, need, operator

I32, I64 = np.int32, np.int64
MASKS = [None, "right", "left", "hidden", "values", "of the new keys", "lengths", "a length of 0", "lengths and starts", "3 b + 2", "3-D", "3-D hidden"]
BIASES = [None, (1, 1), (1, "h"), ("b", 1), ("b", "h"), "-inf", "lowest", "row of -inf", "row of lowest"]
SHAPES = dict(batch=[2, 1, 3, 0], heads=[2, 1, 3], size=[8, 1, 5, 64], dtype=[F32, F16])
SCORES = dict(scale=[None, 0.25, 0.0, -0.5], unidirectional=[None, 0, 1], mask_filter_value=[None, -500.0, LOWEST, -np.inf, 0.0])


def padding_mask(source, kind, b, queries, keys, past):
    """The masks of com.microsoft's operators, int32."""
    if kind is None:
        return None
    places = np.arange(keys)
    lengths = source.ints(I32, min(1, keys), keys, b)
    if kind in ("lengths", "a length of 0"):
        lengths[:1] *= kind == "lengths"
        return lengths
    if kind == "lengths and starts":
        return np.concatenate([np.full(b, keys, I32), source.ints(I32, 0, max(0, keys - 1), b)])
    if kind == "3 b + 2":
        ends = np.arange(b + 1, dtype=I32)
        return np.concatenate([lengths, ends * queries, ends * keys]).astype(I32)
    if kind.startswith("3-D"):
        mask = source.ints(I32, 0, 1, b, queries, keys)
        mask[..., :1] = kind == "3-D"
        mask[:1, :1] *= kind == "3-D"
        return mask
    mask = (places < lengths[:, None] if kind != "left" else places >= keys - lengths[:, None]).astype(I32)
    if kind == "hidden":
        mask[:1] = 0
    if kind == "values":
        mask = source.ints(I32, -1, 2, b, keys)
        mask[:, :1] = 2
    return mask[:, past:] if kind == "of the new keys" else mask


def attention_bias(source, kind, dtype, b, heads, queries, keys):
    if kind is None:
        return None
    shape = (1, 1) if isinstance(kind, str) else [{"b": b, "h": heads}.get(d, d) for d in kind]
    bias = source.floats(dtype, *shape, queries, keys)
    fill = dtype(-np.inf) if "-inf" in kind else np.finfo(dtype).min
    if isinstance(kind, str):
        bias[..., -1:] = fill
        bias[..., :1, :] = fill if kind.startswith("row") else bias[..., :1, :]
    return bias


@operator("MultiHeadAttention", **SHAPES, layout=["separate", "packed_kv", "packed_qkv", "heads_first"], queries=[4, 1, 0, 17], keys=["same", 1, 2, 7, 0, 33], value_size=["same", 6, 1],
          past=[None, 0, 3], present=[False, True], bias=[False, True], mask=MASKS, attention_bias=BIASES, qk=[False, True], **SCORES)
def multi_head(source, s):
    dtype, b, n, h, q = s["dtype"], s["batch"], s["heads"], s["size"], s["queries"]
    k = q if s["keys"] == "same" else s["keys"]
    v = h if s["value_size"] == "same" else s["value_size"]
    layout, past = s["layout"], s["past"] or 0
    need(layout in ("separate", "heads_first") or v == h)
    need(layout == "separate" or s["past"] is None and not s["present"])
    need(layout != "packed_qkv" or s["keys"] == "same")
    shapes = {"separate": ((b, q, n * h), (b, k, n * h), (b, k, n * v)), "packed_kv": ((b, q, n * h), (b, k, n, 2, h)), "packed_qkv": ((b, q, n, 3, h),),
              "heads_first": ((b, q, n * h), (b, n, k, h), (b, n, k, v))}[layout]
    inputs = [source.floats(dtype, *shape) for shape in shapes] + [None] * (3 - len(shapes))
    inputs.append(source.floats(dtype, n * (2 * h + v)) if s["bias"] else None)
    inputs.append(padding_mask(source, s["mask"], b, q, past + k, past))
    inputs.append(attention_bias(source, s["attention_bias"], dtype, b, n, q, past + k))
    if s["past"] is not None:
        inputs += [source.floats(dtype, b, n, past, size) for size in (h, v)]
    outputs = [True] + [s["present"]] * 2 + [s["qk"]]
    return Made(inputs, dict(num_heads=n) | given(s, "scale", "unidirectional", "mask_filter_value"), outputs, weights=(3,), data=(0, 1, 2, 3))


@operator("Attention", **SHAPES, queries=[4, 1, 0, 17], value_size=["same", 6], past=[None, 0, 3], present=[False, True], bias=[True, False],
          mask=[*MASKS, "4-D", "[b, 1]", "[1, 1]"], attention_bias=BIASES, do_rotary=[None, 1], **SCORES)
def packed_attention(source, s):
    dtype, b, n, h, q, past = s["dtype"], s["batch"], s["heads"], s["size"], s["queries"], s["past"] or 0
    v = h if s["value_size"] == "same" else s["value_size"]
    wide, columns, keys = 6, n * (2 * h + v), past + q
    mask = {"4-D": lambda: np.tril(np.ones((b, 1, 24, 24), I32)), "[b, 1]": lambda: np.ones((b, 1), I32), "[1, 1]": lambda: np.zeros((1, 1), I32)}.get(
        s["mask"], lambda: padding_mask(source, s["mask"], b, q, keys, past))()
    inputs = [source.floats(dtype, b, q, wide), source.floats(dtype, wide, columns), source.floats(dtype, columns) if s["bias"] else None, mask,
              None if s["past"] is None else source.floats(dtype, 2, b, n, past, h), attention_bias(source, s["attention_bias"], dtype, b, n, q, keys)]
    attributes = dict(num_heads=n) | given(s, "scale", "unidirectional", "mask_filter_value", "do_rotary") | ({} if v == h else {"qkv_hidden_sizes": [n * h, n * h, n * v]})
    return Made(inputs, attributes, [True, s["present"]], weights=(1, 2), data=(0, 1, 2))


@operator("GroupQueryAttention", batch=[2, 1, 3], kv=[1, 2, 3], group=[2, 1, 3], size=[16, 8, 32, 64], dtype=[F32, F16], stage=["prompt", "short prompt", "token", "short token", "tokens", "buffer", "empty past"],
          rows=[5, 1, 17], packed=[False, True], rotary=[None, "halves", "interleaved", "part", "positions"], local_window_size=[None, -1, 0, 1, 2, 100], softcap=[None, 0.0, 2.5],
          smooth_softmax=[None, 0, 1], attention_bias=[None, (1, 1), (1, "h"), ("b", 1), ("b", "h"), "-inf", "row of -inf", "wide"], head_sink=[False, True], scale=[None, 0.25, 0.0, -0.5], qk=[None, 0, 1, 2],
          causal=[None, 1, 0])
def grouped(source, s):
    dtype, b, g, n, h, stage = s["dtype"], s["batch"], s["kv"], s["kv"] * s["group"], s["size"], s["stage"]
    prompt = "prompt" in stage or stage == "empty past"
    rows, past = (s["rows"], 0) if prompt else (3 if stage == "tokens" else 1, 6)
    need(prompt or s["rows"] == 5)
    need(stage != "tokens" or b == 1)
    total = rows + past
    lengths = np.full(b, total, I32)
    if stage.startswith("short"):
        lengths[1:] -= np.minimum(np.arange(1, b, dtype=I32) + 1, total - rows if not prompt else total - 1).astype(I32)
        need(b > 1)
    room = past + 4 if stage == "buffer" else past
    q = source.floats(dtype, b, rows, (n + 2 * g if s["packed"] else n) * h)
    inputs = [q] + [None if s["packed"] else source.floats(dtype, b, rows, g * h) for _ in range(2)]
    inputs += [source.floats(dtype, b, g, room, h) if past or stage == "empty past" else None for _ in range(2)] + [lengths - 1, np.array([total], I32)]
    half = h // 4 if s["rotary"] == "part" else h // 2
    inputs += [source.floats(dtype, 32, half) if s["rotary"] else None for _ in range(2)]
    inputs.append(source.ints(I64, 0, 20, b, rows) if s["rotary"] == "positions" else None)
    wide = s["attention_bias"] == "wide"
    inputs.append(attention_bias(source, (1, 1) if wide else s["attention_bias"], dtype, b, n, rows, total + 3 * wide))
    inputs.append(source.floats(dtype, n) if s["head_sink"] else None)
    attributes = dict(num_heads=n, kv_num_heads=g) | given(s, "local_window_size", "softcap", "smooth_softmax", "scale", "causal")
    attributes |= {"do_rotary": 1} if s["rotary"] else {}
    attributes |= {"rotary_interleaved": 1} if s["rotary"] == "interleaved" else {}
    attributes |= {} if s["qk"] is None else {"qk_output": s["qk"]}
    return Made(inputs, attributes, [True, True, True] + ([True] if s["qk"] else []), data=(0, 1, 2))


STANDARD_MASKS = [None, "bool", "bool 1", "bool b", "bool b1", "bool hidden", "bool all hidden", "float", "float 3-D", "float b", "float heads", "-inf", "-inf row", "lowest", "lowest row", "short", "int64"]


def standard_mask(source, kind, dtype, b, n, q, keys):
    if kind is None:
        return None
    if kind.startswith("bool") or kind == "int64":
        shape = {"bool 1": (1, 1, q, keys), "bool b": (b, 1, 1, keys), "bool b1": (b, 1, q, keys)}.get(kind, (q, keys))
        mask = source.rng.random(shape) < 0.6
        mask[..., :1] = "hidden" not in kind
        if "hidden" in kind:
            mask[:1] = False
        mask &= kind != "bool all hidden"
        return mask.astype(I64) if kind == "int64" else mask
    shape = {"float 3-D": (n, q, keys), "float b": (b, 1, q, keys), "float heads": (b, n, q, keys), "short": (q, max(keys - 2, 0))}.get(kind, (q, keys))
    mask = source.floats(dtype, *shape)
    if kind.startswith(("-inf", "lowest")):
        fill = dtype(-np.inf) if "inf" in kind else np.finfo(dtype).min
        mask[..., -1:] = fill
        mask[:1] = fill if kind.endswith("row") else mask[:1]
    return mask


@operator("Attention", domain="", opset=[23, 24, 25], batch=[2, 1, 0], heads=[2, 1, 3], group=[1, 2], size=[8, 1, 5, 64], dtype=[F32, F16, F64], rank=[4, 3], queries=[4, 1, 0, 17], keys=["same", 1, 2, 7, 0, 33],
          value_size=["same", 6], past=[None, 0, 3], mask=STANDARD_MASKS, is_causal=[None, 0, 1], scale=[None, 0.25, 1.0, 0.0, -0.5], softcap=[None, 0.0, 2.5], softmax_precision=[None, 1, 10, 11],
          present=[False, True], qk=[None, 0, 1, 2, 3], nonpad=[False, True])
def standard_attention(source, s):
    dtype, b, g, h, q, past = s["dtype"], s["batch"], s["heads"], s["size"], s["queries"], s["past"] or 0
    n = g * s["group"]
    k = q if s["keys"] == "same" else s["keys"]
    v = h if s["value_size"] == "same" else s["value_size"]
    def heads(count, rows, size):
        return source.floats(dtype, *((b, count, rows, size) if s["rank"] == 4 else (b, rows, count * size)))
    inputs = [heads(n, q, h), heads(g, k, h), heads(g, k, v), standard_mask(source, s["mask"], dtype, b, n, q, past + k)]
    need(s["past"] is None or not s["nonpad"])
    inputs += [None] * 2 if s["past"] is None else [source.floats(dtype, b, g, past, size) for size in (h, v)]
    if s["nonpad"]:
        need(s["opset"] >= 24)
        inputs.append(source.ints(I64, min(1, k), k, b))
    attributes = given(s, "is_causal", "scale", "softcap", "softmax_precision") | ({"q_num_heads": n, "kv_num_heads": g} if s["rank"] == 3 else {})
    attributes |= {} if s["qk"] is None else {"qk_matmul_output_mode": s["qk"]}
    return Made(inputs, attributes, [True] + [s["present"]] * 2 + [s["qk"] is not None], opset=s["opset"], data=(0, 1, 2))


@operator("RotaryEmbedding", dtype=[F32, F16], batch=[2, 1, 0], heads=[2, 1, 3], size=[8, 2, 16, 64], rows=[4, 1, 0], rank=[3, 4], positions=["each", "offset", "offset above 0", "ends"], interleaved=[None, 0, 1],
          part=[None, "with heads", "with heads 4"], scale=[None, 2.0], is_packed_batching=[None, 1])
def rotary(source, s):
    dtype, b, n, h, rows = s["dtype"], s["batch"], s["heads"], s["size"], s["rows"]
    turned = h // 2 if s["part"] else h
    need(turned % 2 == 0 and (s["part"] != "with heads 4" or s["rank"] == 4))
    positions = {"each": lambda: source.ints(I64, 0, 19, b, rows), "offset": lambda: np.array([0], I64), "offset above 0": lambda: np.array([3], I64),
                 "ends": lambda: np.full((b, rows), 19, I64)}[s["positions"]]()
    inputs = [source.floats(dtype, *((b, n, rows, h) if s["rank"] == 4 else (b, rows, n * h))), positions] + [source.floats(dtype, 20, turned // 2) for _ in range(2)]
    return Made(inputs, given(s, "interleaved", "scale", "is_packed_batching") | ({"num_heads": n, "rotary_embedding_dim": turned} if s["part"] else {}), weights=(2, 3))


@operator("RotaryEmbedding", domain="", dtype=[F32, F16], batch=[2, 1, 0], heads=[2, 1, 3], size=[8, 2, 16, 64], rows=[4, 1, 0], rank=[4, 3], positions=["each", None, "ends"], interleaved=[None, 0, 1],
          part=[None, True], num_heads=["as needed", "always"])
def standard_rotary(source, s):
    dtype, b, n, h, rows = s["dtype"], s["batch"], s["heads"], s["size"], s["rows"]
    turned = h // 2 if s["part"] else h
    need(turned % 2 == 0)
    positions = None if s["positions"] is None else source.ints(I64, 0, 19, b, rows) if s["positions"] == "each" else np.full((b, rows), 19, I64)
    tables = (20, turned // 2) if positions is not None else (b, rows, turned // 2)
    inputs = [source.floats(dtype, *((b, n, rows, h) if s["rank"] == 4 else (b, rows, n * h)))] + [source.floats(dtype, *tables) for _ in range(2)] + [positions]
    attributes = given(s, "interleaved") | ({"num_heads": n} if s["rank"] == 3 or s["num_heads"] == "always" else {}) | ({"rotary_embedding_dim": turned} if s["part"] else {})
    return Made(inputs, attributes, opset=23, weights=(1, 2))


@operator("LinearAttention", update_rule=["gated_delta", "gated", "delta", "linear"], rows=[4, 1, 0, 65], batch=[2, 1, 0], heads=[(2, 2), (4, 2), (1, 1)], sizes=[(8, 4), (1, 1), (16, 33)], dtype=[F32, F16],
          state=[False, True], decay=["each head", "each key"], scale=[None, 0.0, 0.5], chunk_size=[None, 1, 16], outputs=[2, 1])
def linear_attention(source, s):
    dtype, b, t, (q, kv), (wide, long) = s["dtype"], s["batch"], s["rows"], s["heads"], s["sizes"]
    rule = s["update_rule"]
    x = lambda *shape: source.floats(dtype, b, t, *shape)
    key = x(kv * wide)
    key /= np.maximum(np.sqrt(np.square(key.astype(F32)).sum(-1, keepdims=True)), dtype(1e-3)).astype(dtype)
    decay = -np.abs(x(kv * (wide if s["decay"] == "each key" else 1))) if "gated" in rule else None
    inputs = [x(q * wide), key, x(kv * long), source.floats(dtype, b, kv, wide, long) if s["state"] else None, decay, np.abs(x(kv)) / dtype(4) if "delta" in rule else None]
    need("gated" in rule or s["decay"] == "each head")
    return Made(inputs, dict(q_num_heads=q, kv_num_heads=kv, update_rule=rule) | given(s, "scale", "chunk_size"), [True] * s["outputs"], data=(0, 2))


@operator("CausalConvWithState", rows=[5, 1, 0, 33], batch=[2, 1, 0], channels=[4, 1, 33], kernel=[4, 1, 2, 7], dtype=[F32, F16], bias=[True, False], state=[True, False], activation=[None, "none", "silu", "swish"], outputs=[2, 1])
def causal_convolution(source, s):
    dtype, b, c, k = s["dtype"], s["batch"], s["channels"], s["kernel"]
    inputs = [source.floats(dtype, b, c, s["rows"]), source.floats(dtype, c, 1, k), source.floats(dtype, c) if s["bias"] else None, source.floats(dtype, b, c, k - 1) if s["state"] else None]
    return Made(inputs, given(s, "activation"), [True] * s["outputs"], weights=(1, 2), data=(0, 3) if s["state"] else (0,))
