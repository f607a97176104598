"""Where nodes run (device_configurations of IR 11) outlives a fusion: what stands for nodes of one device and stage is there, too."""

import onnx
from conftest import DATA, run_ok


def field(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload


def annotated(stage_of, shards=()):
    """The encoder with a stage for each node, as bytes: the classes of older ONNX have no such field."""
    model = onnx.load(DATA / "bart_encoder.onnx")
    model.ir_version = 11
    for place, node in enumerate(model.graph.node):
        config = field(1, b"two") + b"\x18" + bytes([stage_of(node, place)])
        if place in shards:
            config += field(2, field(1, node.input[0].encode()[:100]))
        node.MergeFromString(field(10, config))
    model.MergeFromString(b"\xd2\x01" + bytes([7]) + field(1, b"two") + b"\x10\x02")  # ModelProto.configuration: two devices
    return model


def stages(path):
    model = onnx.load(path)
    assert [c.name for c in model.configuration] == ["two"]
    return {n.op_type: [(c.configuration_id, c.pipeline_stage, len(c.sharding_spec)) for c in n.device_configurations] for n in model.graph.node}


def test_a_fused_node_runs_where_its_nodes_ran(tmp_path):
    onnx.save(annotated(lambda node, place: 3), tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.23", cwd=tmp_path)
    after = stages(tmp_path / "o.onnx")
    assert after["Attention"] == after["BiasGelu"] == after["LayerNormalization"] == [("two", 3, 0)]


def test_shards_of_tensors_that_are_gone_are_not_kept(tmp_path):
    onnx.save(annotated(lambda node, place: 3, shards=range(1000)), tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.23", cwd=tmp_path)
    after = stages(tmp_path / "o.onnx")
    assert after["Attention"] == [("two", 3, 0)]
    assert after["LayerNormalization"] == [("two", 3, 1)]


def test_nodes_of_different_stages_give_none(tmp_path):
    onnx.save(annotated(lambda node, place: place % 2), tmp_path / "m.onnx")
    run_ok("m.onnx", "-o", "o.onnx", "--target", "ort-cpu@1.23", cwd=tmp_path)
    assert stages(tmp_path / "o.onnx")["Attention"] == []
