"""Which opset and which IR version of ONNX a release of ONNX Runtime loads: the rows of `runtime` in a target's file.

    for v in 1.20.1 1.23.2; do python -m venv build/$v && build/$v/bin/pip install onnxruntime==$v onnx; done
    build/1.23.2/bin/python bench/runtime_versions.py            # this interpreter's: "1.23": {"opset": 23, "ir": 11}
    build/1.20.1/bin/python bench/runtime_versions.py a.opt.onnx # also: which of these models it does not load; then ends with status 1

A model of one Neg is loaded in each opset, and in each IR version."""
import json
import sys

import onnxruntime

MOST = 40  # opsets and IR versions that are tried


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    """Of protobuf: an integer, or what is put into it."""
    return varint(number << 3) + varint(payload) if isinstance(payload, int) else varint(number << 3 | 2) + varint(len(payload)) + payload


def one_neg(opset, ir):
    """Written by hand, for onnx itself writes no opset that it does not know."""
    tensor = field(1, 1) + field(2, field(1, field(1, 2)))  # float[2]
    value = lambda name: field(1, name) + field(2, field(1, tensor))
    node = field(1, b"x") + field(2, b"y") + field(4, b"Neg")
    graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
    return field(1, ir) + field(7, graph) + field(8, field(1, b"") + field(2, opset))


def why_not(model):
    """Why a model, bytes or a path, does not load; None if it does."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of several kinds
        return str(error)
    return None


def newest(make):
    """The last number before the first that does not load."""
    loads = [why_not(make(number)) is None for number in range(7, MOST)]
    return 7 + loads.index(False) - 1


if __name__ == "__main__":
    version = ".".join(onnxruntime.__version__.split(".")[:2])
    print(f'"{version}": {json.dumps({"opset": newest(lambda opset: one_neg(opset, 8)), "ir": newest(lambda ir: one_neg(17, ir))})}')
    refused = [(path, why) for path in sys.argv[1:] if (why := why_not(path))]
    for path, why in refused:
        print(f"{path}: {why}", file=sys.stderr)
    sys.exit(bool(refused))
