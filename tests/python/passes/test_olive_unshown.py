"""Olive's surgeons that the page of its documentation does not show: embeddings, group indices, rotary caches, packed attention."""
import numpy as np
import onnx
import onnx.parser
import pytest

from conftest import run_ok
from test_transform import assert_equal, in_onnxruntime, names, parsed, refused, transformed
from test_olive_document import ADD, RNG, made, operators, same_numbers, surgeries, weights_of, with_weights


def in_blocks(weights, bits, block):
    """The weights of [n, k] in blocks of whole numbers around the middle: data of [n, blocks, bytes], scales."""
    n, k = weights.shape
    cut = weights.reshape(n, k // block, block)
    most = 2 ** (bits - 1) - 1
    scales = (np.abs(cut).max(2) / most).astype(np.float32)
    whole = np.clip(np.round(cut / scales[..., None]) + 2 ** (bits - 1), 0, 2**bits - 1).astype(np.uint8)
    if bits == 4:
        whole = whole[..., ::2] | (whole[..., 1::2] << 4)
    return whole, scales


TABLE = RNG.standard_normal((10, 32)).astype(np.float32)
EMBEDDING = "agraph (int64[b,t] input_ids) => (float[b,t,10] logits) { h = Gather (table, input_ids)  r = Relu (h)  logits = MatMul (r, head) }"


def named(text, **weights):
    """A model whose nodes read initializers that stand beside the text."""
    return with_weights(parsed(text), **weights)


@pytest.mark.parametrize("opset", [17, 13])
def test_tie_word_embeddings(tmp_path, opset):
    model = named(EMBEDDING, table=TABLE, head=TABLE.T.copy())
    model.opset_import[0].version = opset
    result = made(tmp_path, model, "TieWordEmbeddings")
    assert list(weights_of(result)) [0] == "table" and "head" not in weights_of(result)
    assert operators(result).count("Gemm" if opset > 13 else "MatMul") == 1
    same_numbers(result, model)
    other = named(EMBEDDING, table=TABLE, head=(TABLE.T + np.float32(1e-6)).astype(np.float32))
    assert operators(made(tmp_path, other, "TieWordEmbeddings")) == ["Gather", "Relu", "MatMul"]


def quantized_embedding(bits, weights=TABLE):
    data, scales = in_blocks(TABLE, 8, 16)
    head, head_scales = in_blocks(weights, bits, 16)
    return named(f"""agraph (int64[b,t] input_ids) => (float[b,t,10] logits) {{
        h = com.microsoft.GatherBlockQuantized <bits = 8, block_size = 16, gather_axis = 0, quantize_axis = 1> (data, input_ids, scales, zeros)
        logits = com.microsoft.MatMulNBits <K = 32, N = 10, bits = {bits}, block_size = 16> (h, head, head_scales, head_zeros) }}""",
        data=data.reshape(10, 32), scales=scales, zeros=np.full((10, 2), 128, np.uint8), head=head, head_scales=head_scales,
        head_zeros=np.full((10, 2), 128, np.uint8) if bits == 8 else np.full((10, 1), 0x88, np.uint8))


def test_tie_word_embeddings_in_blocks(tmp_path):
    model = quantized_embedding(8)
    result = made(tmp_path, model, "TieWordEmbeddings")
    assert operators(result) == ["GatherBlockQuantized", "Reshape", "MatMulNBits"] and not [n for n in weights_of(result) if n.startswith("head")]
    same_numbers(result, model)
    assert operators(made(tmp_path, quantized_embedding(4), "TieWordEmbeddings")) == ["GatherBlockQuantized", "MatMulNBits"]


def test_share_embedding_lm_head(tmp_path):
    model = quantized_embedding(4)
    result = made(tmp_path, model, "ShareEmbeddingLmHead")
    assert operators(result) == ["GatherBlockQuantized", "Reshape", "MatMulNBits"] and not [n for n in weights_of(result) if n.startswith("head")]
    feeds = {"input_ids": np.array([[1, 2, 9]])}
    got, coarse = in_onnxruntime(result, feeds)["logits"], in_onnxruntime(model, feeds)["logits"]
    exact = TABLE[feeds["input_ids"]] @ TABLE.T
    assert np.abs(got - exact).max() < 0.25 * np.abs(coarse - exact).max()
    # Olive's own takes any embedding for the head's.
    other = quantized_embedding(4, RNG.standard_normal((10, 32)).astype(np.float32))
    assert operators(made(tmp_path, other, "ShareEmbeddingLmHead")) == ["GatherBlockQuantized", "MatMulNBits"]


def test_quantize_embedding_int8(tmp_path):
    model = named(EMBEDDING, table=TABLE, head=RNG.standard_normal((32, 10)).astype(np.float32))
    result, report = transformed(tmp_path, model, passes=surgeries("QuantizeEmbeddingInt8"))
    assert operators(result) == ["GatherBlockQuantized", "Relu", "MatMul"] and report["passes"][0]["compared"] == "approximate"
    held = weights_of(result)
    assert held["table_Q8"].dtype == np.uint8 and held["table_scales"].shape == (10, 1) and (held["table_zp"] == 128).all()
    back = (held["table_Q8"].astype(np.float32) - 128) * held["table_scales"]
    assert np.abs(back - TABLE).max() <= held["table_scales"].max() / 2 * 1.001
    odd = named("agraph (int64[b] i) => (float[b,10] y) { y = Gather (table, i) }", table=TABLE.T.copy())
    assert operators(made(tmp_path, odd, "QuantizeEmbeddingInt8")) == ["Gather"]


@pytest.mark.parametrize("groups, gone", [(np.arange(32) // 16, True), ((31 - np.arange(32)) // 16, False), (np.arange(32) // 20, False)])
def test_remove_g_idx(tmp_path, groups, gone):
    data, scales = in_blocks(TABLE, 4, 16)
    model = named("agraph (float[n,32] x) => (float[n,10] y) { y = com.microsoft.MatMulNBits <K = 32, N = 10, bits = 4, block_size = 16> (x, data, scales, , g_idx) }",
                  data=data, scales=scales, g_idx=groups.astype(np.int32))
    result = made(tmp_path, model, "RemoveGidxFromMatMulNBits")  # (Olive's own drops any that rises, as the third, and changes numbers.)
    assert ("g_idx" in weights_of(result)) != gone and (len(result.graph.node[0].input) == 3) == gone
    same_numbers(result, model)


TABLES = {f"{name}_{size}": RNG.standard_normal((rows, 4)).astype(np.float32) for name in ("cos", "sin") for size, rows in (("small", 8), ("large", 16))}
ROPE = """agraph (float[1,2,t,8] x, int64[1,t] p, int64 total) => (float[1,2,t,8] y, bool c) {
    limit = Constant <value = int64 {8}> ()  c = Greater (total, limit)
    cos, sin = If (c) <then_branch = big () => (float[16,4] a, float[16,4] b) { a = Identity (cos_large)  b = Identity (sin_large) },
                       else_branch = small () => (float[8,4] a, float[8,4] b) { a = Identity (cos_small)  b = Identity (sin_small) }>
    y = com.microsoft.RotaryEmbedding (x, p, cos, sin) }"""


@pytest.mark.parametrize("large", [False, True])
def test_remove_rope_multi_cache(tmp_path, large):
    model = named(ROPE, **TABLES)
    result = made(tmp_path, model, "RemoveRopeMultiCache", use_large_cache=large)
    assert "If" not in operators(result) and sorted(weights_of(result)) == sorted(f"{n}_{'large' if large else 'small'}" for n in ("cos", "sin"))
    feeds = {"x": RNG.standard_normal((1, 2, 3, 8)).astype(np.float32), "p": np.array([[0, 1, 7]])}
    wanted = in_onnxruntime(model, {**feeds, "total": np.array(9 if large else 5)})["y"]
    np.testing.assert_allclose(in_onnxruntime(result, {**feeds, "total": np.array(1)})["y"], wanted, rtol=1e-5)


def test_another_if_of_the_same_condition_keeps_its_choice(tmp_path):
    model = parsed("""agraph (bool c, float[2] x) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = a () => (float[2] p) { p = Exp (x) }, else_branch = b () => (float[2] q) { q = Neg (x) }>
        z = If (c) <then_branch = d () => (float[2] r) { r = Sin (x) }, else_branch = e () => (float[2] s) { s = Abs (x) }> }""")
    result, _ = transformed(tmp_path, model, "--pass", "choose_branch:value=y;branch=then")
    assert operators(result).count("If") == 1 and "Exp" in operators(result)
    x = np.float32([-1, 2])
    for c in (True, False):
        got = in_onnxruntime(result, {"c": np.array(c), "x": x})
        np.testing.assert_allclose(got["y"], np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(got["z"], np.sin(x) if c else np.abs(x), rtol=1e-6)


def test_a_branch_of_no_if_is_refused(tmp_path):
    model = named(ROPE, **TABLES)
    assert "pass choose_branch: value: 'y': no If of the main graph makes it" in refused(tmp_path, model, "--pass", "choose_branch:value=y;branch=then")
    assert "give one of then, else" in refused(tmp_path, model, "--pass", "choose_branch:value=cos;branch=both")


def test_attention_mask_to_sequence_lengths(tmp_path):
    model = parsed("""agraph (float[b,t,16] q, float[b,t,16] k, float[b,t,16] v, int64[b,n] attention_mask, float[b,2,s,8] past_k, float[b,2,s,8] past_v)
            => (float[b,t,16] y, float[b,2,u,8] present_k, float[b,2,u,8] present_v) <int64[1] axis = {1}, int64 one = {1}> {
        r = ReduceSum (attention_mask, axis)  d = Sub (r, one)  lengths = Cast <to = 6> (d)
        shape = Shape (attention_mask)  whole = Gather (shape, one)  total = Cast <to = 6> (whole)
        y, present_k, present_v = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (q, k, v, past_k, past_v, lengths, total) }""")
    result = made(tmp_path, model, "AttentionMaskToSequenceLengths")
    assert operators(result) == ["GroupQueryAttention"] and list(result.graph.node[0].input[5:7]) == ["past_seq_len", "total_seq_len"]
    assert names(result.graph.input) == ["q", "k", "v", "past_k", "past_v", "past_seq_len", "total_seq_len"]
    rng = np.random.default_rng(1)
    feeds = {n: rng.standard_normal((1, 1, 16)).astype(np.float32) for n in "qkv"} | {n: rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for n in ("past_k", "past_v")}
    wanted = in_onnxruntime(model, {**feeds, "attention_mask": np.ones((1, 5), np.int64)})
    assert_equal(in_onnxruntime(result, {**feeds, "past_seq_len": np.int32([[4]]), "total_seq_len": np.array(5, np.int32)}), wanted)
    assert operators(made(tmp_path, parsed(ADD), "AttentionMaskToSequenceLengths")) == ["Add"]


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_packed_attention_to_loop(tmp_path, index):
    model = parsed(f"agraph (float[1,2,5,8] q, float[1,2,5,8] k, float[1,2,5,8] v, {index}[s] cu_seqlens) => (float[1,5,2,8] y) "
                   "{ y = custom.PackedAttention <scale = 0.3, num_heads = 2> (q, k, v, cu_seqlens) }", domains=', "custom" : 1')
    result = made(tmp_path, model, "PackedAttentionToLoopMHA")
    assert operators(result).count("Loop") == 1 and "PackedAttention" not in operators(result)
    feeds = {n: RNG.standard_normal((1, 2, 5, 8)).astype(np.float32) for n in "qkv"}
    bounds = [0, 2, 5]
    got = in_onnxruntime(result, {**feeds, "cu_seqlens": np.array(bounds, index)})["y"]
    for start, end in zip(bounds, bounds[1:]):
        q, k, v = (feeds[n][:, :, start:end] for n in "qkv")
        weights = np.exp(0.3 * q @ k.swapaxes(2, 3))
        np.testing.assert_allclose(got[:, start:end], (weights / weights.sum(3, keepdims=True) @ v).swapaxes(1, 2), rtol=1e-5, atol=1e-6)


def in_saturate(tmp_path, model, feeds, value):
    """What our runtime gives for one value of the main graph."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    if value not in names(model.graph.output):
        model.graph.output.append(onnx.ValueInfoProto(name=value))
    onnx.save(model, tmp_path / "run.onnx")
    np.savez(tmp_path / "x.npz", **feeds)
    run_ok("run", tmp_path / "run.onnx", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    return np.load(tmp_path / "y.npz")[value]


# ONNX Runtime has it for CUDA alone: the kernel here is compared with the Loop over MultiHeadAttention, run by ONNX Runtime.
@pytest.mark.parametrize("opset", [12, 17, 20])
@pytest.mark.parametrize("bounds", [[0, 2, 5], [0, 5], [0, 0, 1, 1, 5], [0, 1, 2, 3, 4, 5]])
def test_packed_attention_to_packed_mha(tmp_path, bounds, opset):
    model = parsed("agraph (float[1,2,5,8] q, float[1,2,5,8] k, float[1,2,5,8] v, int32[s] cu_seqlens) => (float[1,5,2,8] y) "
                   "{ y = custom.PackedAttention <scale = 0.3, num_heads = 2> (q, k, v, cu_seqlens) }", domains=', "custom" : 1')
    next(o for o in model.opset_import if not o.domain).version = opset
    feeds = {n: RNG.standard_normal((1, 2, 5, 8)).astype(np.float32) for n in "qkv"} | {"cu_seqlens": np.array(bounds, np.int32)}
    np.savez(tmp_path / "feeds.npz", **feeds)
    result, _ = transformed(tmp_path, model, "--inputs", tmp_path / "feeds.npz", passes=surgeries("PackedAttentionToPackedMHA"))
    assert operators(result).count("PackedMultiHeadAttention") == 1 and "PackedAttention" not in operators(result)
    wanted = in_onnxruntime(made(tmp_path, model, "PackedAttentionToLoopMHA"), feeds)["y"]
    got = in_saturate(tmp_path, result, feeds, "y")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    # The offsets, by their description: a row for each segment, tokens first, then padding.
    node = next(n for n in result.graph.node if n.op_type == "PackedMultiHeadAttention")
    lengths = np.diff(bounds)
    places = np.arange(len(lengths) * max(lengths)).reshape(len(lengths), -1)
    is_token = np.arange(max(lengths)) < lengths[:, None]
    offset = in_saturate(tmp_path, result, feeds, node.input[4])
    np.testing.assert_array_equal(offset, np.concatenate([places[is_token], places[~is_token]]).reshape(places.shape))
