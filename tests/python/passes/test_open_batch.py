"""`--pass open_batch`: sizes that are written into nodes follow the batch, and what mixes entries is refused."""
import numpy as np
import pytest

from test_transform import in_onnxruntime, parsed, refused, transformed


# A batch of one, written into a Reshape, and a row that is the same for every entry.
FIXED_BATCH = """
agraph (float[1,3,4] x, int64[1] ids) => (float[1,4,4] y, float[1,4] z)
<float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[1,1,4] first = {1,2,3,4}, int64[4] s = {1,3,2,2}, int64[3] v = {1,-1,4},
 float[5,4] table = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19}> {
  m = MatMul (x, w)
  r = Reshape (m, s)
  t = Transpose <perm = [0, 2, 1, 3]> (r)
  q = Reshape (t, v)
  c = Concat <axis = 1> (first, q)
  y = Softmax (c)
  z = Gather (table, ids)
}"""
# A batch of two, with a mask and an Expand for both.
FIXED_TWO = """
agraph (float[2,3,4] x) => (float[2,3,4] y)
<float[2,1,4] mask = {0,0,-9,0,0,0,-9,0}, int64[3] e = {2,3,4}, float[3,4] b = {1,2,3,4,5,6,7,8,9,10,11,12}, int64[2] s = {6,4}, int64[3] u = {2,3,4}> {
  f = Reshape (x, s)
  g = Relu (f)
  h = Reshape (g, u)
  k = Expand (b, e)
  a = Add (h, k)
  y = Add (a, mask)
}"""


# The same sizes in Constant nodes, as TorchScript writes them.
IN_CONSTANTS = """
agraph (float[1,3,4] x) => (float[1,3,4] y) {
  s = Constant <value = int64[4] {1,3,2,2}> ()
  r = Reshape (x, s)
  t = Relu (r)
  v = Constant <value_ints: ints = [1,3,4]> ()
  y = Reshape (t, v)
}"""


@pytest.mark.parametrize("text", [FIXED_BATCH, FIXED_TWO, IN_CONSTANTS], ids=["one", "two", "constants"])
def test_open_batch(tmp_path, text):
    model = parsed(text)
    result, report = transformed(tmp_path, model, "--pass", "open_batch:n")
    size = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    assert all(v.type.tensor_type.shape.dim[0].dim_param == "n" for v in [*result.graph.input, *result.graph.output])
    rng = np.random.default_rng(3)
    feeds = {v.name: rng.normal(size=[3 * size, 3, 4]).astype(np.float32) if v.name == "x" else rng.integers(0, 5, 3 * size) for v in model.graph.input}
    whole = in_onnxruntime(result, feeds)
    for part in range(3):
        alone = in_onnxruntime(model, {k: v[part * size : (part + 1) * size] for k, v in feeds.items()})
        for name, values in alone.items():
            np.testing.assert_allclose(whole[name][part * size : (part + 1) * size], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text, words, said",
    [
        ("agraph (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 0> (x) }", "", "entries of the batch do not stay apart"),
        ("agraph (float[2,3] x) => (float[3] y) <int64[1] a = {0}> { y = ReduceSum <keepdims = 0> (x, a) }", "", "output 'y' has no dim"),
        ("agraph (float[2,3] x, float[4] w) => (float[2,3] y) { y = Relu (x) }", "", "'x': dim 0 is 2, but 4"),
        ("agraph (float[2,3] x) => (float[2,3] y) <float[2,3] w = {1,2,3,4,5,6}> { y = Add (x, w) }", "", "entries of the batch do not stay apart"),
        ("agraph (float[2,3] x) => (float[2,3] y) { y = Relu (x) }", ":axes=x=2", "'x': it has no dim 2"),
        ("agraph (float[2,3] x) => (float[2,3] y) { y = Relu (x) }", ":axes=q=0", "'q': the model has no such input"),
        ("agraph (float[n,3] x) => (float[n,3] y) { y = Relu (x) }", "", "'x': dim 0 is no number"),
        ("agraph (float[2,n] x) => (float[2,n] y) { y = Relu (x) }", ":n", "another dim has this name"),
        ("agraph (float[2,3] x) => (float[2,3] y) <int64[2] s = {2,3}> { t = Transpose <perm = [1, 0]> (x)  y = Reshape (t, s) }", "", "mixes the batch"),
    ],
)
def test_open_batch_refuses(tmp_path, text, words, said):
    assert said in refused(tmp_path, parsed(text), "--pass", f"open_batch{words}", code=(1, 2, 3, 5))
