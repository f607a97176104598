"""With no rules nothing is lost: what no rule touched is written back as its original message, unknown fields included."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, SHARED, make_model, onnxruntime_outputs, run, run_ok, tensor, value

UNKNOWN = b"\xfa\x3e\x03abc"  # field 1007, length-delimited: no version of ONNX has it


def bytes_of(message):
    return message.SerializeToString(deterministic=True)


def signature(node):
    """The node's message but for the names of its values (a duplicate's or an Identity's name may have gone) and its subgraphs."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    for attribute in copy.attribute:
        attribute.ClearField("g")
    return bytes_of(copy)


def subgraphs(node):
    return [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def names_read(graph):
    return {name for node in graph.node for name in node.input} | {o.name for o in graph.output} | {n for node in graph.node for g in subgraphs(node) for n in names_read(g)}


def assert_graph_kept(before, after):
    assert before.name == after.name and before.doc_string == after.doc_string
    for field in ("input", "output", "metadata_props", "quantization_annotation"):
        assert [bytes_of(v) for v in getattr(before, field)] == [bytes_of(v) for v in getattr(after, field)], field
    originals = {}
    for node in before.node:
        originals.setdefault(signature(node), []).append(node)
    ends = {o.name for o in after.output}
    for node in after.node:
        if node.op_type == "Identity" and node.output[0] in ends:
            continue  # two outputs of one value, or an input as an output
        assert signature(node) in originals, node
        bodies = [subgraphs(n) for n in originals[signature(node)] if [*n.output] == [*node.output]] or [subgraphs(originals[signature(node)][0])]
        for old, new in zip(bodies[0], subgraphs(node)):
            assert_graph_kept(old, new)
    initializers = {i.name: bytes_of(i) for i in before.initializer}
    made = {name for node in before.node for name in node.output}
    read = {name for node in after.node for name in node.input} | ends | {n for node in after.node for g in subgraphs(node) for n in names_read(g)}
    for initializer in after.initializer:
        assert initializer.name in read or initializer.name in initializers, f"initializer {initializer.name} is read by nothing"
        if initializer.name in initializers:
            assert initializers[initializer.name] == bytes_of(initializer), initializer.name
        else:
            # What is known without running the model (constant expressions, sizes) may be written as its value, under its own name.
            assert initializer.name in made, f"initializer {initializer.name} from nowhere"
    values = {bytes_of(v) for v in before.value_info}
    assert all(bytes_of(v) in values for v in after.value_info)


def opsets(model):
    return {("" if i.domain == "ai.onnx" else i.domain, i.version) for i in model.opset_import}


def assert_nothing_lost(before, after):
    """Model by model: fields, signatures, and every node and initializer that is left is one of the original's, in its own bytes."""
    for field in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        assert getattr(before, field) == getattr(after, field), field
    for field in ("metadata_props", "functions", "training_info"):
        assert sorted(map(bytes_of, getattr(before, field))) == sorted(map(bytes_of, getattr(after, field))), field
    used = {"" if n.domain == "ai.onnx" else n.domain for n in before.graph.node}
    assert opsets(before) <= opsets(after) and {d for d, _ in opsets(after) - opsets(before)} <= used  # an import that was missing may be added
    assert_graph_kept(before.graph, after.graph)


def round_trip(path, folder, *words):
    out = folder / "out.onnx"
    run_ok(path, out, "--rules", "none", "--keep-opset", *words)
    before, after = onnx.load(path, load_external_data=False), onnx.load(out, load_external_data=False)
    assert_nothing_lost(before, after)
    return before, after


def test_bart(tmp_path):
    before, after = round_trip(DATA / "bart_encoder.onnx", tmp_path)
    onnx.checker.check_model(after, full_check=True)


def with_unknown(message):
    message.MergeFromString(UNKNOWN)
    assert bytes_of(message).endswith(UNKNOWN)


def everything():
    """Functions, If, Loop, sequences, optionals, odd dtypes, metadata, a custom domain, sparse tensors, unknown fields."""
    f32, i64 = TensorProto.FLOAT, TensorProto.INT64
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 3), helper.make_opsetid("functions", 1)]
    function = helper.make_function("functions", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"], name="inner")], [helper.make_opsetid("", 21)])
    function.doc_string = "doubles"
    then_graph = helper.make_graph([helper.make_node("Add", ["x", "one"], ["then_y"], name="then_add")], "then", [], [value("then_y", f32, None)])
    else_graph = helper.make_graph([helper.make_node("Sub", ["x", "one"], ["else_y"], name="else_sub")], "else", [], [value("else_y", f32, None)])
    body = helper.make_graph(
        [helper.make_node("Identity", ["cond_in"], ["cond_out"]), helper.make_node("Mul", ["carried", "if_y"], ["next"], name="body_mul")], "body",
        [value("i", i64, []), value("cond_in", TensorProto.BOOL, []), value("carried", f32, None)], [value("cond_out", TensorProto.BOOL, []), value("next", f32, None)])
    nodes = [
        helper.make_node("If", ["c"], ["if_y"], name="if", then_branch=then_graph, else_branch=else_graph),
        helper.make_node("Loop", ["trips", "", "x"], ["loop_y"], name="loop", body=body),
        helper.make_node("Twice", ["loop_y"], ["twice"], name="call", domain="functions"),
        helper.make_node("SequenceConstruct", ["twice", "x"], ["sequence"], name="make_sequence"),
        helper.make_node("SequenceLength", ["sequence"], ["length"], name="count"),
        helper.make_node("Optional", ["x"], ["optional"], name="wrap"),
        helper.make_node("Mystery", ["twice", "", "int4", "fp8"], ["strange", "second"], name="mystery", domain="own", doc_string="nobody knows", level=7, words=["a", "b"]),
        helper.make_node("Constant", [], ["text"], name="text", value_strings=[b"x", b"\xff"]),
        helper.make_node("RandomNormal", [], ["noise1"], name="noise1", shape=[2]),
        helper.make_node("RandomNormal", [], ["noise2"], name="noise2", shape=[2]),
    ]
    nodes[6].metadata_props.add(key="namespace", value="a/b/c")
    with_unknown(nodes[6])
    with_unknown(nodes[3])
    int4 = helper.make_tensor("int4", TensorProto.INT4, [3], [1, -2, 3])
    fp8 = helper.make_tensor("fp8", TensorProto.FLOAT8E4M3FN, [2], [0.5, 2.0])
    fp8.doc_string = "eight bits"
    with_unknown(fp8)
    outputs = [value("twice", f32, None), helper.make_tensor_sequence_value_info("sequence", f32, None), value("length", i64, []),
               helper.make_value_info("optional", helper.make_optional_type_proto(helper.make_tensor_type_proto(f32, ["n"]))), value("strange", f32, None),
               value("second", f32, None), value("text", TensorProto.STRING, [2]), value("noise1", f32, [2]), value("noise2", f32, [2])]
    inputs = [value("x", f32, ["n"]), value("c", TensorProto.BOOL, []), value("trips", i64, [])]
    graph = helper.make_graph(nodes, "everything", inputs, outputs, [tensor("one", np.float32(1)), int4, fp8], doc_string="all in one", value_info=[value("loop_y", f32, ["n"])])
    graph.metadata_props.add(key="graph", value="of all")
    with_unknown(graph)
    annotation = graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="one")
    model = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10, producer_name="a test", producer_version="1.5", domain="own.models", model_version=9,
                              doc_string="a model\nof two lines")
    helper.set_model_props(model, {"key": "value", "empty": ""})
    with_unknown(model)
    return model


def test_everything(tmp_path):
    (tmp_path / "all.onnx").write_bytes(everything().SerializeToString())
    before, after = round_trip(tmp_path / "all.onnx", tmp_path, "--no-verify")
    assert {n.name for n in before.graph.node} - {n.name for n in after.graph.node} <= {"count"}  # the length of a built sequence is known
    assert {i.name for i in after.graph.initializer} >= {i.name for i in before.graph.initializer}
    assert bytes_of(after).endswith(UNKNOWN) or UNKNOWN in bytes_of(after)
    by_name = {n.name: n for n in after.graph.node}
    for node in before.graph.node:
        if not subgraphs(node) and node.name != "count":
            assert bytes_of(by_name[node.name]) == bytes_of(node), node.name
    assert UNKNOWN in bytes_of(after.graph) and UNKNOWN in bytes_of(by_name["mystery"])


def test_everything_with_rules(tmp_path):
    """The built-in rules leave what they don't know alone."""
    (tmp_path / "all.onnx").write_bytes(everything().SerializeToString())
    run_ok(tmp_path / "all.onnx", tmp_path / "out.onnx", "--no-verify")
    before, after = onnx.load(tmp_path / "all.onnx"), onnx.load(tmp_path / "out.onnx")
    by_name = {n.name: n for n in after.graph.node}
    for name in ("mystery", "noise1", "noise2"):
        original = next(n for n in before.graph.node if n.name == name)
        assert signature(by_name[name]) == signature(original)
    assert [o.name for o in after.graph.output] == [o.name for o in before.graph.output]


def with_functions(tmp_path, nodes):
    """Three functions of opset 18, of which `nodes` call what they call."""
    old = [helper.make_opsetid("", 18)]
    bodies = {"Norm": [helper.make_node("LayerNormalization", ["a", "scale"], ["b"], epsilon=1e-5)], "Left": [helper.make_node("Shape", ["a"], ["b"])], "Noise": [helper.make_node("RandomNormalLike", ["a"], ["b"])]}
    functions = [helper.make_function("own", n, ["a", "scale"] if n == "Norm" else ["a"], ["b"], body, old) for n, body in bodies.items()]
    f32 = TensorProto.FLOAT
    scale = tensor("scale", np.arange(1, 9, dtype=np.float32))
    model = make_model(nodes, [value("x", f32, ["n", 8]), value("r", f32, ["n", 8])], [value("y", f32, ["n", 8])], [scale])
    del model.opset_import[:]
    model.opset_import.extend(old + [helper.make_opsetid("own", 1)])
    model.functions.extend(functions)
    onnx.save(model, tmp_path / "f.onnx")
    run_ok(tmp_path / "f.onnx", tmp_path / "out.onnx", "--no-verify", "--cost", "nodes", "--target", "ort-cpu@1.31")
    after = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(after)
    return after


RMS = [helper.make_node("Pow", ["h", "two"], ["p"]), helper.make_node("ReduceMean", ["p", "last"], ["m"]), helper.make_node("Add", ["m", "eps"], ["e"]), helper.make_node("Sqrt", ["e"], ["s"]),
       helper.make_node("Div", ["h", "s"], ["d"]), helper.make_node("Mul", ["d", "scale"], ["y"])]
NUMBERS = [helper.make_node("Constant", [], ["two"], value=tensor("", np.float32(2))), helper.make_node("Constant", [], ["last"], value=tensor("", np.array([-1]))), helper.make_node("Constant", [], ["eps"], value=tensor("", np.float32(1e-5)))]


def test_functions_that_nothing_calls_any_more_go(tmp_path):
    """They are of the old opset, and onnx.checker refuses the model for them; one that a node calls holds the model to its opset."""
    after = with_functions(tmp_path, [*NUMBERS, helper.make_node("Norm", ["x", "scale"], ["h"], domain="own"), *RMS])
    assert not after.functions and dict((i.domain, i.version) for i in after.opset_import)[""] >= 23


def test_a_function_that_is_called_stays(tmp_path):
    after = with_functions(tmp_path, [*NUMBERS, helper.make_node("Noise", ["x"], ["h"], domain="own"), *RMS])
    assert "Noise" in [n.op_type for n in after.graph.node] and "LayerNormalization" not in [n.op_type for n in after.graph.node]
    assert len(after.functions) == 3 and dict((i.domain, i.version) for i in after.opset_import)[""] == 18


@pytest.mark.parametrize("words", [[], ["--rules", "none"]])
def test_external_data(tmp_path, words):
    rng = np.random.default_rng(0)
    weights = [tensor(f"w{i}", rng.normal(size=(64, 64)).astype(np.float32)) for i in range(3)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"]), helper.make_node("Tanh", ["a"], ["b"]), helper.make_node("MatMul", ["b", "w1"], ["c"]),
             helper.make_node("Tanh", ["c"], ["d"]), helper.make_node("MatMul", ["d", "w2"], ["y"])]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 64])], [value("y", TensorProto.FLOAT, ["n", 64])], weights)
    folder = tmp_path / "in"
    folder.mkdir()
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.weights", size_threshold=0)
    out = tmp_path / "out"
    out.mkdir()
    run_ok(folder / "m.onnx", out / "o.onnx", *words)
    assert sorted(p.name for p in out.iterdir()) == ["o.onnx", "o.onnx.data"]
    raw = onnx.load(out / "o.onnx", load_external_data=False)
    assert all(i.data_location == TensorProto.EXTERNAL for i in raw.graph.initializer)
    loaded = onnx.load(out / "o.onnx")
    onnx.checker.check_model(out / "o.onnx", full_check=True)
    got = {i.name: onnx.numpy_helper.to_array(i) for i in loaded.graph.initializer}
    for weight in weights:
        np.testing.assert_array_equal(got[weight.name], onnx.numpy_helper.to_array(weight))


def test_duplicates_and_dead_nodes_may_go(tmp_path, small_model):
    extra = helper.make_node("MatMul", ["x", "w"], ["xw2"], name="mm2")
    small_model.graph.node.insert(0, extra)
    small_model.graph.output.append(value("xw2", TensorProto.FLOAT, ["n", 4]))
    (tmp_path / "m.onnx").write_bytes(small_model.SerializeToString())
    before, after = round_trip(tmp_path / "m.onnx", tmp_path)
    assert "dead" not in [n.name for n in after.graph.node]
    assert [o.name for o in after.graph.output] == ["y", "xw2"]


def test_an_input_as_output(tmp_path):
    model = make_model([helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])], [value("x", TensorProto.FLOAT, ["n"])],
                       [value("y", TensorProto.FLOAT, ["n"]), value("z", TensorProto.FLOAT, ["n"])])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for words in ([], ["--rules", "none"]):
        run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", *words)
        result = onnx.load(tmp_path / "o.onnx")
        onnx.checker.check_model(result, full_check=True)
        assert [o.name for o in result.graph.output] == ["y", "z"] and [i.name for i in result.graph.input] == ["x"]


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("roi", ["initializer", "node", "computed"])
@pytest.mark.parametrize("words", [[], ["--rules", "none"], ["--opset", "21"]])
def test_resize_names_a_roi_that_it_does_not_take(tmp_path, opset, roi, words):
    """Exporters give an empty tensor for it; the canonical form has none."""
    none = np.zeros([0], np.float32)
    nodes = [helper.make_node("Resize", ["x", "roi", "scales"], ["r"], mode="nearest"), helper.make_node("Relu", ["r"], ["y"])]
    initializers = [tensor("scales", np.array([1, 1, 2, 2], np.float32))]
    if roi == "initializer":
        initializers.append(tensor("roi", none))
    elif roi == "node":
        nodes.insert(0, helper.make_node("Constant", [], ["roi"], value=tensor("", none)))
    elif roi == "computed":
        initializers.append(tensor("no", np.zeros([1], np.int64)))
        nodes[:0] = [helper.make_node("Slice", ["flat", "no", "no"], ["roi"]), ]
        nodes.insert(0, helper.make_node("Reshape", ["x", "all"], ["flat"]))
        initializers.append(tensor("all", np.array([-1], np.int64)))
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 2, 3, "w"])], [value("y", TensorProto.FLOAT, ["n", 2, 6, "w2"])], initializers, opset=opset, ir_version=7)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", "onnx", *words)
    after = onnx.load(tmp_path / "o.onnx")
    onnx.checker.check_model(after, full_check=True)
    assert sorted(n.op_type for n in after.graph.node if n.op_type != "Constant")[-2:] == ["Relu", "Resize"]
    inputs = {"x": np.random.default_rng(1).normal(size=(2, 2, 3, 5)).astype(np.float32)}
    np.testing.assert_array_equal(onnxruntime_outputs(tmp_path / "o.onnx", inputs)["y"], onnxruntime_outputs(tmp_path / "m.onnx", inputs)["y"])


def cases():
    zoo, suite = SHARED / "data" / "zoo" / "models", SHARED / "data" / "ort_suite"
    return sorted(zoo.glob("*.onnx")) + sorted(suite.rglob("*.onnx"))


def test_zoo_and_ort_cases(tmp_path):
    """Every model that there is; a case that is invalid in itself may be refused, with one line."""
    models = cases()
    if not models:
        pytest.skip(f"{SHARED} is not there")
    problems, refused = [], 0
    for path in models:
        out = tmp_path / "out.onnx"
        out.unlink(missing_ok=True)
        done = run(path, out, "--rules", "none", "--keep-opset", "--no-verify", "-q")
        if done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "ort_suite" in str(path):
            refused += 1
            continue
        if done.returncode != 0:
            problems.append(f"{path.name}: exit {done.returncode}: {done.stderr.strip()}")
            continue
        try:
            assert_nothing_lost(onnx.load(path, load_external_data=False), onnx.load(out, load_external_data=False))
        except AssertionError as error:
            problems.append(f"{path.name}: {str(error)[:300]}")
    assert not problems, "\n".join(problems)
    assert refused <= 0.08 * len(models)  # ill-typed graphs of that suite


def test_types_beside_what_rules_make_hold_the_numbers_that_are_known(tmp_path):
    """ONNX Runtime infers wrong shapes of an Attention whose inputs have a name where a number is known, and refuses the model."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Mul", ["m", "two"], ["r"]), helper.make_node("Mul", ["r", "two"], ["y"])]
    weights = [tensor("w", np.ones((8, 4), np.float32)), tensor("two", np.float32(2))]
    model = make_model(nodes, [value("x", TensorProto.FLOAT, ["n", 8]), value("w", TensorProto.FLOAT, [8, 4])], [value("y", TensorProto.FLOAT, ["n", 4])], weights)
    model.graph.value_info.append(value("m", TensorProto.FLOAT, ["unk__1", "unk__2"]))
    onnx.save(model, tmp_path / "m.onnx")
    run_ok(tmp_path / "m.onnx", tmp_path / "o.onnx", "--target", "onnx")
    made = onnx.load(tmp_path / "o.onnx").graph
    assert [n.op_type for n in made.node] == ["MatMul", "Mul"]
    (info,) = (v for v in made.value_info if v.name == "m")
    assert [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] == ["unk__1", 4]


# Sparse initializers: places in the flat tensor, or one for each dim.
@pytest.mark.parametrize("indices", [np.array([1, 5]), np.array([[0, 1], [1, 2]])], ids=["flat", "by dim"])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64])
def test_sparse_initializers_are_computed_with(tmp_path, indices, dtype):
    model = sparse_model(indices, [2, 3], dtype)
    onnx.save(model, tmp_path / "in.onnx")
    x = np.zeros((2, 3), onnx.helper.tensor_dtype_to_np_dtype(dtype))
    np.savez(tmp_path / "x.npz", x=x)
    run_ok("run", tmp_path / "in.onnx", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], [[0, 1, 0], [0, 0, 2]])
    run_ok(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx")
    result = onnx.load(tmp_path / "out.onnx")
    assert result.graph.sparse_initializer == model.graph.sparse_initializer


@pytest.mark.parametrize("indices, dims, why", [
    (np.array([1, 6]), [2, 3], "index 6 lies outside of its 6 elements"),
    (np.array([-1, 5]), [2, 3], "index -1 lies outside"),
    (np.array([[0, 1], [1, 3]]), [2, 3], "index 3 lies outside of dim 1"),
    (np.array([1]), [2, 3], "its indices do not fit its values"),
    (np.array([1, 5]), [1 << 40, 3], "make no tensor, or one too large"),
    (np.array([1, 5]), [1 << 40, 1 << 40], "make no tensor, or one too large"),
    (np.array([1, 5]), [-2, 3], "make no tensor, or one too large"),
])
def test_malformed_sparse_initializers_are_refused(tmp_path, indices, dims, why):
    onnx.save(sparse_model(indices, dims, TensorProto.FLOAT), tmp_path / "in.onnx")
    done = run("run", tmp_path / "in.onnx", "--random")
    assert done.returncode in (1, 5) and len(done.stderr.splitlines()) == 1 and "sparse initializer 'w'" in done.stderr and why in done.stderr
    assert run(tmp_path / "in.onnx", "-o", tmp_path / "out.onnx").returncode in (1, 5) and not (tmp_path / "out.onnx").exists()


def sparse_model(indices, dims, dtype):
    sparse = onnx.SparseTensorProto(values=onnx.helper.make_tensor("w", dtype, [2], [1, 2]), dims=dims,
                                    indices=onnx.numpy_helper.from_array(indices.astype(np.int64)))
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [value("x", dtype, [2, 3])], [value("y", dtype, [2, 3])], sparse_initializer=[sparse])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
