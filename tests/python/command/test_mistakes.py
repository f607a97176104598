"""What users type by mistake: each row is a command, its exit status, and words of the one line that it says. No file may be touched or left behind.

The rows are those of the newcomer's protocol behind issue 26 (sections 1.1 to 1.9), and what other tools' users type.
`python tests/python/command/test_mistakes.py` prints them with what is said now, as a table.
"""
import json
import pathlib
import struct
import subprocess
import tempfile
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import DATA, binary, listing, make_model, run, run_ok, tensor, value


def small(shape=("n", 4), op="Relu"):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node(op, ["a"], ["y"], name="act")]
    weights = [tensor("w", np.eye(4, dtype=np.float32))]
    return make_model(nodes, [value("x", TensorProto.FLOAT, shape)], [value("y", TensorProto.FLOAT, shape)], weights)


def two_inputs():
    node = helper.make_node("Add", ["left", "right"], ["y"])
    return make_model([node], [value("left", TensorProto.FLOAT, ["n", 4]), value("right", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, None)])


def zipped(path, names):
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"1234")


def make_folder(here):
    """A user's folder, with models and what is taken for models."""
    onnx.save(small(), here / "m.onnx")
    onnx.save(small(op="Tanh"), here / "n.onnx")
    onnx.save(small(shape=None), here / "noshape.onnx")
    onnx.save(two_inputs(), here / "two.onnx")
    onnx.save(small(op="Reluu"), here / "reluu.onnx")
    branches = [helper.make_graph([helper.make_node("MyOp", ["x"], [name], name="b", domain="my.ops")], name, [], [value(name, TensorProto.FLOAT, [2])]) for name in "uv"]
    onnx.save(make_model([helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
                         [value("x", TensorProto.FLOAT, [2]), value("c", TensorProto.BOOL, [])], [value("y", TensorProto.FLOAT, [2])], domains=["my.ops"]), here / "custom.onnx")
    onnx.save(make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", TensorProto.FLOAT, [2, 63])], [value("y", TensorProto.FLOAT, [2, 4])],
                         [tensor("w", np.zeros((64, 4), np.float32))]), here / "shapeerr.onnx")
    cycle = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"], name="second")]
    onnx.save(make_model(cycle, [value("x", TensorProto.FLOAT, [2])], [value("b", TensorProto.FLOAT, [2])]), here / "cycle.onnx")
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="ext.data")
    onnx.save(make_model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", TensorProto.FLOAT, [4])], [weight]), here / "nodata.onnx")
    whole = (here / "m.onnx").read_bytes()
    (here / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (here / "empty.onnx").write_bytes(b"")
    (here / "exported").mkdir()
    onnx.save(small(), here / "exported" / "model.onnx")
    (here / "nothing").mkdir()
    # What other programs write.
    zipped(here / "resnet18.pt", ["resnet18/data.pkl", "resnet18/version"])
    zipped(here / "old.keras", ["metadata.json", "config.json", "model.weights.h5"])
    zipped(here / "some.zip", ["readme.txt"])
    (here / "legacy.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    (here / "m.tflite").write_bytes(b"\x1c\0\0\0TFL3" + bytes(64))
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (here / "m.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    (here / "m.gguf").write_bytes(b"GGUF\x03\0\0\0" + bytes(64))
    (here / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    (here / "m.plan").write_bytes(b"ptrt" + bytes(64))
    (here / "lfs.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 132735\n")
    (here / "page.onnx").write_bytes(b"<!DOCTYPE html>\n<html><body>404</body></html>\n")
    node = b"\x0a\x01x\x12\x0bPlaceholder"
    (here / "frozen.pb").write_bytes(b"\x0a" + bytes([len(node)]) + node)
    meta = b"\x0a\x02\x12\x00"
    (here / "saved_model.pb").write_bytes(b"\x08\x01\x12" + bytes([len(meta)]) + meta)
    (here / "m.onnx.gz").write_bytes(b"\x1f\x8b\x08\0" + bytes(20))
    (here / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + bytes(64))
    (here / "notes.txt").write_text("some text\n")
    (here / "broken.json").write_text('{"name": "mine",\n "max_opset": }\n')
    np.savez(here / "x.npz", x=np.zeros((2, 4), np.float32))
    np.savez(here / "double.npz", x=np.zeros((2, 4), np.float64))
    np.savez(here / "other.npz", z=np.zeros((2, 4), np.float32))
    return here


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("mistakes"))


# Words, exit status, what the line says.
ROWS = [
    # 1.1 what can't be verified
    ("shapeerr.onnx", 5, ["shapeerr.onnx", "inner dims"]),
    ("shapeerr.onnx -q", 5, ["inner dims"]),
    ("noshape.onnx --input-shape x:2,5", 5, ["inner dims"]),
    # 1.3 two models
    ("m.onnx n.onnx", 1, ["n.onnx", "did not write it", "-o n.onnx", "--force"]),
    ("m.onnx n.onnx two.onnx", 2, ["3 arguments", "--output-dir"]),
    ("m.onnx n.onnx two.onnx -o out.onnx", 2, ["--output-dir"]),
    ("m.onnx n.onnx -o out.onnx", 2, ["two outputs", "n.onnx", "out.onnx"]),
    ("m.onnx n.onnx --output-dir .", 2, ["m.onnx", "would be replaced"]),
    ("m.onnx exported/model.onnx exported/../exported/model.onnx --output-dir out", 2, ["same name"]),
    ("m.onnx n.onnx --output-dir out --report r.json", 2, ["--report", "one model"]),
    ("verify - -", 2, ["standard input is one model"]),
    ("diff - -", 2, ["standard input is one model"]),
    ("extract m.onnx -o -", 2, ["--output -"]),
    # 1.4 bounds
    ("m.onnx --opset 99", 2, ["'99'", "1 to 28"]),
    ("m.onnx --opset seventeen", 2, ["'seventeen'", "1 to 28"]),
    ("m.onnx --opset 0", 2, ["'0'", "1 to 28"]),
    ("m.onnx --dim n=0", 2, ["--dim n=0", "--allow-empty"]),
    ("m.onnx --dim n=9999999999999999", 2, ["9999999999999999", "1 to 1000000000000"]),
    ("m.onnx --input-shapes x:0,4", 2, ["--input-shapes x", "--allow-empty"]),
    ("m.onnx --node-limit -3", 2, ["--node-limit", "'-3'", "1 to 1099511627776"]),
    ("m.onnx --threads many", 2, ["--threads", "'many'", "0 to 4096"]),
    ("m.onnx --threads 99999", 2, ["--threads", "'99999'", "0 to 4096"]),
    ("m.onnx --time-limit soon", 2, ["--time-limit", "'soon'"]),
    ("m.onnx --check-rtol -1", 2, ["--check-rtol", "'-1'"]),
    ("m.onnx --memory-slack 11", 2, ["--memory-slack", "0 to 10"]),
    ("m.onnx --steps 70000", 2, ["--steps", "0 to 65535"]),
    ("m.onnx --io-rank 0", 2, ["--io-rank", "from 1"]),
    ("m.onnx --iterations 2.5", 2, ["--iterations", "'2.5'"]),
    ("bench m.onnx --iterations 0", 2, ["--iterations", "1 to 1000000000"]),
    # 1.8 files
    ("nosuch.onnx", 1, ["nosuch.onnx", "cannot open"]),
    ("m2.onnx", 1, ["m2.onnx", "did you mean m.onnx?"]),
    ("exported/modle.onnx", 1, ["did you mean exported/model.onnx?"]),
    ("nowhere/m.onnx", 1, ["there is no folder nowhere"]),
    ("nothing/m.onnx", 1, ["no .onnx file"]),
    ("exported", 1, ["folder", "did you mean exported/model.onnx?"]),
    ("nothing", 1, ["folder", "no .onnx file in it"]),
    ("cut.onnx", 1, ["truncated or damaged", "again"]),
    ("empty.onnx", 1, ["empty"]),
    ("nodata.onnx", 1, ["ext.data", "no such file", "beside the model"]),
    ("cycle.onnx", 1, ["first", "second"]),
    ("reluu.onnx", 1, ["act", "Reluu", "did you mean Relu?"]),
    ("run reluu.onnx --random", 1, ["did you mean Relu?"]),
    ("verify reluu.onnx m.onnx", 1, ["did you mean Relu?"]),
    ("bench reluu.onnx", 1, ["did you mean Relu?"]),
    ("custom.onnx", 5, ["no kernel", "my.ops.MyOp", "in the body of If", "--no-verify", "--runtime onnxruntime"]),
    ("custom.onnx --runtime onnxruntime", 5, ["onnxruntime: this command knows of none", "pip install onnx-saturate onnxruntime"]),
    ("verify m.onnx n.onnx --runtime onnxruntime", 5, ["onnxruntime: this command knows of none", "pip install onnx-saturate onnxruntime"]),
    ("bench m.onnx --runtime onnx", 2, ["--runtime", "there are saturate, onnxruntime"]),
    ("transform m.onnx -o t.onnx --pass strip_metadata --runtime onnxruntime", 5, ["onnxruntime: this command knows of none"]),
    ("diff m.onnx n.onnx --runtime onnxruntime", 5, ["onnxruntime: this command knows of none"]),
    ("extract m.onnx --dump-egraph g.json --runtime onnxruntime", 5, ["onnxruntime: this command knows of none"]),
    ("slm m.onnx -o slm.onnx --runtime onnxruntime", 5, ["onnxruntime: this command knows of none"]),
    ("run m.onnx --random --custom-op-library notes.txt", 2, ["add --runtime onnxruntime"]),
    ("run m.onnx --random --runtime onnxruntime --custom-op-library no.so", 1, ["no.so", "no such file"]),
    ("resnet18.pt", 1, ["PyTorch", "torch.onnx.export"]),
    ("legacy.pt", 1, ["pickle", "torch.onnx.export"]),
    ("some.zip", 1, ["zip"]),
    ("old.keras", 1, ["Keras", "tf2onnx"]),
    ("m.tflite", 1, ["TensorFlow Lite", "--tflite"]),
    ("m.safetensors", 1, ["safetensors", "export"]),
    ("m.onnx --color blue", 2, ["'blue' is none of them", "auto, always"]),
    ("m.onnx -o o.onnx --external-data-format hdf5", 2, ["'hdf5' is none of them", "raw, safetensors"]),
    ("m.gguf", 1, ["GGUF", "export"]),
    ("m.h5", 1, ["HDF5", "tf2onnx"]),
    ("m.plan", 1, ["TensorRT", ".onnx"]),
    ("lfs.onnx", 1, ["git-lfs", "git lfs pull"]),
    ("page.onnx", 1, ["HTML", "download"]),
    ("frozen.pb", 1, ["TensorFlow", "tf2onnx"]),
    ("saved_model.pb", 1, ["TensorFlow", "tf2onnx"]),
    ("m.onnx.gz", 1, ["gzip", "gunzip"]),
    ("x.npy", 1, ["NumPy"]),
    ("notes.txt", 1, ["text"]),
    ("inspect resnet18.pt", 1, ["PyTorch"]),
    ("verify m.onnx lfs.onnx", 1, ["git-lfs"]),
    ("run m.gguf", 1, ["GGUF"]),
    # 1.8 verbs and flags
    ("optimise m.onnx", 2, ["optimise: no such verb", "did you mean 'optimize'?"]),
    ("inspet m.onnx", 2, ["did you mean 'inspect'?"]),
    ("help optimise", 2, ["did you mean 'optimize'?"]),
    ("frobnicate", 2, ["no such verb", "saturate --help"]),
    ("m.onnx --no-verfy", 2, ["--no-verfy: no such option", "did you mean --no-verify?", "saturate optimize --help"]),
    ("inspect m.onnx --targt ort-cpu", 2, ["did you mean --target?", "saturate inspect --help"]),
    ("m.onnx --zzz", 2, ["--zzz: no such option", "saturate optimize --help"]),
    ("inspect m.onnx n.onnx", 2, ["n.onnx", "no place"]),
    ("m.onnx --report", 2, ["--report needs a value"]),
    ("m.onnx -o", 2, ["--output needs a value"]),
    ("inspect", 2, ["IN.onnx"]),
    ("rules show", 2, ["which rule?"]),
    ("rules lst", 2, ["did you mean 'list'?"]),
    ("rules list zzz", 2, ["zzz", "no rule tells of this"]),
    ("targets check m.onnx", 2, ["--target"]),
    ("completion tcsh", 2, ["'tcsh'", "bash, zsh, fish"]),
    ("man optimise", 2, ["did you mean 'optimize'?"]),
    # 1.8 names
    ("m.onnx --dim N2=1", 2, ["no symbolic dim 'N2'", "did you mean 'n'?"]),
    ("m.onnx --dim batch", 2, ["--dim batch", "--dim batch=4"]),
    ("m.onnx --dim n=x", 2, ["--dim n=x"]),
    ("m.onnx --dim n=1,m=2", 2, ["several sizes", "--dim batch=4 --dim seq=128"]),
    ("m.onnx --dim n=1 --dim n=2", 2, ["n is 1 already"]),
    ("bench m.onnx --dim foo=3", 2, ["no symbolic dim 'foo'", "n"]),
    ("verify m.onnx m.onnx --dim foo=3", 2, ["no symbolic dim 'foo'"]),
    ("two.onnx --input-shape lef:2,4", 2, ["no input 'lef'", "did you mean 'left'?", "left, right"]),
    ("two.onnx --input-shape 2,4", 2, ["of which input?", "left, right"]),
    ("m.onnx --input-shape x", 2, ["--input-shapes x", "NAME:1,3,224,224"]),
    ("m.onnx --input-shape x:1,4,4", 2, ["rank 2, not 3", "[n, 4]"]),
    ("m.onnx --input-shape x:1,5", 2, ["dim 1 is 4 in the model"]),
    ("two.onnx --input-shape left:2,4 --input-shape right:3,4", 2, ["'n'", "is 2 by another option", "can't be 3"]),
    ("m.onnx --input-shape x:1,16 --dim n=2", 2, ["dim 0"]),
    ("m.onnx --target cuda", 2, ["did you mean 'ort-cuda'", "ort-cpu"]),
    ("m.onnx --target tensorrt", 2, ["'onnx'"]),
    ("m.onnx --target ort-cpi", 2, ["did you mean 'ort-cpu'?"]),
    ("m.onnx --target mine.json", 1, ["mine.json"]),
    ("m.onnx --target broken.json", 1, ["broken.json", "line 2"]),
    ("m.onnx --cost measurd", 2, ["did you mean 'measured'?"]),
    ("m.onnx --extractor serch", 2, ["did you mean 'search'?"]),
    ("m.onnx --skip-rule relu_rel", 2, ["no such rule"]),
    ("m.onnx --skip-rule sdpa_of_produc", 2, ["did you mean 'sdpa_of_product'?", "saturate rules list"]),
    ("m.onnx --skip-fusion Attenion", 2, ["did you mean 'Attention'?"]),
    ("m.onnx --assume causal_row", 2, ["did you mean 'causal_rows'?"]),
    ("m.onnx --no-assume everything", 2, ["no such assumption"]),
    ("m.onnx --prefer single-head", 2, ["did you mean 'single-heads'?"]),
    ("m.onnx --rules nosuch.rules", 1, ["nosuch.rules"]),
    ("explain m.onnx --op FooBar", 2, ["no operator of this name is known"]),
    ("explain m.onnx --op Atention", 2, ["did you mean 'Attention'?"]),
    ("explain m.onnx --rule sdpa_of_produc", 2, ["did you mean 'sdpa_of_product'?"]),
    ("explain m.onnx --value aa", 2, ["no such value", "did you mean 'a'?"]),
    ("rules show sdpa_of_produc", 2, ["did you mean 'sdpa_of_product'?"]),
    ("targets show ort-gpu", 2, ["did you mean"]),
    ("transform m.onnx --pass rename_input:x=y", 2, ["did you mean 'rename_inputs'?"]),
    ("transform m.onnx --pass last_logits:0", 2, ["window", "a whole number from 1 on"]),
    ("transform m.onnx --pass cache_dtype:int4", 2, ["one of float16, bfloat16, int8"]),
    ("transform m.onnx --pass cache_layout:nhwc", 2, ["one of bsnh, bnsh"]),
    ("transform m.onnx --pass remove_cach", 2, ["did you mean 'remove_cache'?"]),
    ("run m.onnx", 1, ["'x' is missing", "--random"]),
    ("run m.onnx --inputs other.npz", 1, ["no input of this name"]),
    ("run m.onnx --random --inputs x.npz", 2, ["--random and --inputs"]),
    ("run m.onnx --inputs double.npz", 1, ["double.npz(x)", "type double", "wants float", "convert"]),
    ("run m.onnx --inputs nosuch.npz", 1, ["nosuch.npz"]),
    # UX.md, section 2: words of peers (the table is tools/cli/words/foreign_words.cpp)
    ("convert m.onnx o.onnx", 2, ["convert: no such verb", "did you mean 'optimize'?", "saturate IN.onnx -o OUT.onnx"]),
    ("simplify m.onnx o.onnx", 2, ["did you mean 'optimize'?"]),
    ("slim m.onnx", 2, ["did you mean 'optimize'?"]),
    ("check m.onnx", 2, ["did you mean 'verify'?", "saturate inspect"]),
    ("validate m.onnx n.onnx", 2, ["did you mean 'verify'?"]),
    ("test m.onnx", 2, ["did you mean 'verify'?"]),
    ("compare m.onnx n.onnx", 2, ["did you mean 'diff'?", "saturate verify"]),
    ("benchmark m.onnx", 2, ["did you mean 'bench'?"]),
    ("quantize m.onnx", 2, ["does not quantize", "--prefer quantizable", "onnxruntime.quantization"]),
    ("fp16 m.onnx", 2, ["--pass precision"]),
    ("info m.onnx", 2, ["did you mean 'inspect'?"]),
    ("show m.onnx", 2, ["did you mean 'inspect'?"]),
    ("Summary m.onnx", 2, ["did you mean 'inspect'?"]),
    ("cut m.onnx", 2, ["--cut-inputs", "--cut-outputs"]),
    ("tune m.onnx", 2, ["python3 -m onnx_saturate tune"]),
    ("pre_post m.onnx", 2, ["python3 -m onnx_saturate pre_post"]),
    ("export m.onnx", 2, ["torch.onnx.export"]),
    ("predict m.onnx", 2, ["did you mean 'run'?"]),
    ("visualize m.onnx", 2, ["did you mean 'diff'?", "Netron"]),
    ("help convert", 2, ["did you mean 'optimize'?"]),
    ("m.onnx 2", 2, ["2: there is no place for this word", "-o 2"]),
    ("m.onnx out", 2, ["-o out"]),
    ("m.onnx -o x.ort", 2, ["x.ort: .ort is ONNX Runtime's own format", "convert_onnx_models_to_ort"]),
    ("m.onnx x.ORT", 2, ["ONNX Runtime's own format"]),
    ("m.onnx -o x.engine", 2, ["trtexec"]),
    ("m.onnx -o x.tflite", 2, ["write .onnx"]),
    ("transform m.onnx -o x.ort --pass strip_metadata", 2, ["ONNX Runtime's own format"]),
    ("m.onnx -o x.onnx --cost-at nn=1", 2, ["--cost-at nn", "no input has a dim of this name", "n"]),
    ("explain m.onnx --cost-at nn=1", 2, ["--cost-at nn", "no input has a dim of this name"]),
    ("transform m.onnx", 2, ["which pass?", "--list-passes"]),
    ("m.onnx --rules nothing", (1, 2), ["nothing: a folder", ".rules files"]),
    ("m.onnx --target CUDAExecutionProvider", 2, ["did you mean 'ort-cuda'?"]),
    ("m.onnx --target ort", 2, ["did you mean 'ort-cpu'?"]),
    ("m.onnx --target trt", 2, ["take 'onnx'"]),
    ("m.onnx --target dml", 2, ["take 'onnx'"]),
    ("m.onnx --target nnapi", 2, ["take 'onnx'"]),
    ("m.onnx --target tflite", 2, ["take 'onnx'"]),
    ("bench m.onnx --ep cuda", 2, ["--ep: no such option", "--target"]),
    ("m.onnx --backend cuda", 2, ["--target"]),
    ("transform m.onnx -o t.onnx --pass fp16", 2, ["pass fp16: no such pass", "did you mean 'precision'?"]),
    ("transform m.onnx -o t.onnx --pass float16", 2, ["did you mean 'precision'?"]),
    ("transform m.onnx -o t.onnx --pass quantize", 2, ["does not quantize"]),
    ("transform m.onnx -o t.onnx --pass simplify", 2, ["did you mean 'optimize'?"]),
    ("https://example.com/model.onnx", 2, ["models are files", "download it first"]),
    ("inspect https://example.com/model.onnx", 2, ["models are files"]),
    ("google-bert/bert-base-uncased", 2, ["a model of a hub", "optimum-cli export onnx --model google-bert/bert-base-uncased"]),
    ("bench m.onnx --runs 3", 2, ["--iterations"]),
    ("bench m.onnx --ort", 2, ["--runtime onnxruntime"]),
    ("bench m.onnx --seconds 3", 2, ["--iterations"]),
    ("run m.onnx --random -o y.json", 2, ["y.json", ".npz", "--json"]),
    ("m.onnx --in-place", 2, ["-o with the input's own name"]),
    ("m.onnx --html m.onnx", 1, ["--html", "would overwrite"]), ("transform m.onnx --pass strip_metadata --html r.html", 2, ["--html: no such option"]),
    ("cost gather m.onnx -o r.jsonl --html r.html", 2, ["--html: of cost eval"]), ("diff m.onnx m.onnx --svg m.onnx", 1, ["m.onnx"]),
    ("m.onnx --config c.yaml", 2, ["options are words"]),
    ("m.onnx --dry-run", 2, ["saturate explain"]),
    ("m.onnx -j4", 2, ["--threads"]),
    ("m.onnx -t 4", 2, ["--threads", "--target"]),
    ("m.onnx --log-level debug", 2, ["-vv"]),
    ("m.onnx --num-threads 4", 2, ["--threads N"]),
    ("m.onnx --batch-size 4", 2, ["--dim batch=N"]),
    ("verify m.onnx n.onnx --tolerance 1e-3", 2, ["--check-rtol"]),
    ("explain m.onnx atention", 2, ["did you mean 'attention'?"]),
    ("explain m.onnx layernrm", 2, ["did you mean 'layernorm'?"]),
    ("explain m.onnx attention --op Gelu", 2, ["beside a question"]),
    # what other tools' users type
    ("m.onnx --fp16", 2, ["--pass precision"]),
    ("m.onnx --float16", 2, ["--pass precision"]),
    ("m.onnx --dtype fp16", 2, ["--pass precision"]),
    ("m.onnx --optlevel 3", 2, ["there are no levels"]),
    ("m.onnx --opt_level 99", 2, ["there are no levels"]),
    ("m.onnx -O3", 2, ["there are no levels"]),
    ("m.onnx --static-quantize", 2, ["onnxruntime.quantization"]),
    ("m.onnx --inspect", 2, ["saturate inspect"]),
    ("m.onnx --outputs y", 2, ["--cut-outputs"]),
    ("m.onnx --unused-output y", 2, ["remove_outputs"]),
    ("m.onnx --input_int32", 2, ["int32_inputs"]),
    ("m.onnx --skip-optimizer", 2, ["--skip-rule"]),
    ("m.onnx --skip-fusion-patterns FusionNothing", 2, ["no rule makes"]),
    # forty more, as a newcomer would type them
    ("m.onnx --target ort-cpu:1.31", 2, ["did you mean 'ort-cpu@1.31'?"]),
    ("m.onnx --target ort-cpu-1.31", 2, ["did you mean 'ort-cpu@1.31'?"]),
    ("m.onnx --target ORT-CPU", 2, ["did you mean 'ort-cpu'?"]),
    ("m.onnx --target ort-cpu@", 2, ["no version of ONNX Runtime", "@1.20"]),
    ("m.onnx --target openvino@2025", 2, ["names no versions"]),
    ("m.onnx --target tensorrt-dla", 2, ["did you mean 'trt-dla'?"]),
    ("m.onnx --target npu", 2, ["did you mean 'npu-4d'?"]),
    ("m.onnx --target cpu,cuda", 2, ["a result is for one target"]),
    ("m.onnx --opset 17 --keep-opset", 2, ["--opset excludes --keep-opset"]),
    ("m.onnx --judge ort", 2, ["saturate, onnxruntime or onnxruntime=PATH"]),
    ("m.onnx --judge onnxruntime=no.so", 1, ["no.so", "libonnxruntime.so.VERSION"]),
    ("m.onnx --measure -o o.onnx", 2, ["--measure needs a value; -o is an option"]),
    ("m.onnx --html -o o.onnx", 2, ["--html needs a value; -o is an option"]),
    ("m.onnx --report --force", 2, ["--report needs a value; --force is an option"]),
    ("m.onnx --measure 30s", 2, ["'30s' is no number of seconds"]),
    ("m.onnx --time-limit 1m", 2, ["'1m' is no number of seconds"]),
    ("m.onnx --max-memory 4GB", 2, ["'4GB' is no whole number of MB"]),
    ("m.onnx --max-growth lots", 2, ["'lots' is no growth", "10%"]),
    ("m.onnx --cost latency", 2, ["no such cost model", "measured"]),
    ("m.onnx --extractor ilp,greedy", 2, ["'ilp,greedy' is none of them", "portfolio"]),
    ("m.onnx --report r.html", 2, ["a page, which --html writes", ".json"]),
    ("m.onnx --html r.json", 2, ["JSON, which --report writes", ".html"]),
    ("m.onnx -o m.onnx/x.onnx", 1, ["m.onnx is a file", "name a folder"]),
    ("m.onnx -o nothing", 1, ["this is a folder; name a file"]),
    ("m.onnx -o o.pt", 2, ["PyTorch's format", "write .onnx"]),
    ("m.onnx --input x:1,4 -o o.onnx", 2, ["--input-shapes x:1,4"]),
    ("m.onnx --dim n:2", 2, ["--dim batch=4"]),
    ("m.onnx --skip-rule Attention", 2, ["--skip-fusion Attention"]),
    ("m.onnx --skip-fusion sdpa_of_product", 2, ["--skip-rule sdpa_of_product"]),
    ("m.onnx --only-rule layer_norm", 2, ["all rules are applied", "--skip-rule"]),
    ("m.onnx --verify", 2, ["verified without asking", "--no-verify"]),
    ("m.onnx --external-data-name w.bin", 2, ["OUT.onnx.data"]),
    ("bench m.onnx --batch 4", 2, ["--dim batch=N"]),
    ("bench m.onnx --device cuda", 2, ["--target"]),
    ("run m.onnx --input x=1,2,3,4", 2, ["--inputs X.npz", "--random"]),
    ("run m.onnx --inputs x.npy", 1, ["x.npy", "no name of an input", "numpy.savez"]),
    ("explain m.onnx --why attention", 2, ["saturate explain IN.onnx attention"]),
    ("slm m.onnx -o s.onnx", 1, ["input_ids", "the model's are x"]),
    ("transform --list", 2, ["--list-passes"]),
    ("transform m.onnx -o t.onnx --pass precision=float16", 2, ["did you mean 'precision:float16'?"]),
    ("transform m.onnx -o t.onnx --pass precision:fp8", 2, ["float16, bfloat16"]),
    ("generate m.onnx --prompt-ids hello", 2, ["'hello' is no token's number"]),
    ("prove m.onnx", 2, ["B.onnx is required"]),
    ("targets show", 2, ["which target?"]),
]


@pytest.mark.parametrize("words, status, says", ROWS, ids=[row[0] for row in ROWS])
def test_mistake(folder, words, status, says):
    before = listing(folder)
    done = run(*words.split(), cwd=folder)
    assert done.returncode in (status if isinstance(status, tuple) else (status,)), (done.returncode, done.stderr, done.stdout)
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("saturate: error: "), done.stderr
    missing = [part for part in says if part not in lines[0]]
    assert not missing, (missing, lines[0])
    assert len(lines[0]) < 600
    assert listing(folder) == before


@pytest.mark.parametrize("words, status, says", ROWS, ids=[row[0] for row in ROWS])
def test_mistake_as_json(folder, words, status, says):
    """The same with --json: nothing on standard output, one line of JSON on standard error."""
    if words.startswith(("completion", "man ", "verify -")):
        pytest.skip("prints no tables")
    before = listing(folder)
    done = run(*words.split(), "--json", cwd=folder) if not words.endswith(("--report", " -o")) else run("--json", *words.split(), cwd=folder)
    allowed = status if isinstance(status, tuple) else (status,)
    assert done.returncode in allowed and done.stdout == "", (done.returncode, done.stdout)
    (line,) = done.stderr.splitlines()
    error = json.loads(line)["error"]
    assert error["status"] in allowed and all(part in error["message"] for part in says), error
    assert listing(folder) == before


WORKS = [
    "m.onnx out.onnx --verbose 2", "m.onnx out.onnx --verbose 0", "m.onnx -v 1 -o out.onnx",
    "explain m.onnx attention", "explain m.onnx SDPA", "explain m.onnx a",
    "help", "help inspect", "version", "--version", "-q optimize m.onnx -o out.onnx", "--json inspect m.onnx", "-v inspect m.onnx", "--threads 2 optimize m.onnx -o out.onnx",
    "m.onnx --input-shape x:2,4 -o out.onnx", "m.onnx --input-shape x=2,4 -o out.onnx", "m.onnx --input-shape 2,4 -o out.onnx",
    "noshape.onnx --input-shape x:2,4 -o out.onnx", "m.onnx --input-shape x:2,4 out.onnx", "two.onnx --input-shape left:2,4 right:2,4 out.onnx",
    "m.onnx out.onnx --skip-fusion Attention", "m.onnx out.onnx --skip-fusion-patterns FusionGelu", "run m.onnx --random", "run noshape.onnx --inputs x.npz",
    # onnxsim, onnxslim, onnxruntime.transformers.optimizer
    "m.onnx out.onnx --overwrite-input-shape x:1,4 --check-rtol 1e-3 --dynamic-input-shape --include-subgraph --save-as-external-data",
    "m.onnx out.onnx --model-check --no-shape-infer --size-threshold 1024 --input-shapes x:1,4",
    "--input m.onnx --output out.onnx --model_type bert --num_heads 12 --hidden_size 768 --disable_gelu --disable_attention --enable_gelu_approximation --use_external_data_format",
    "m.onnx out.onnx --input_shapes x:1,4 --skip_rules sdpa_of_product --target_opset 20",
]  # fmt: skip


@pytest.mark.parametrize("words", WORKS)
def test_what_is_no_mistake(folder, tmp_path, words):
    for name in ("m.onnx", "two.onnx", "noshape.onnx", "x.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    run_ok(*words.split(), cwd=tmp_path)
    if "out.onnx" in words:
        assert (tmp_path / "out.onnx").exists()


PROVIDERS = {"--provider CUDAExecutionProvider": "ort-cuda@", "--provider cpu": "ort-cpu@", "--ep cuda": "ort-cuda@", "--device cpu": "ort-cpu@", "--provider TensorrtExecutionProvider": "onnx",
             "--provider OpenVINOExecutionProvider": "openvino", "--provider DmlExecutionProvider": "onnx", "--ep QNNExecutionProvider": "qnn-htp", "--ep CoreMLExecutionProvider": "coreml"}  # fmt: skip


@pytest.mark.parametrize("words", PROVIDERS)
def test_providers_are_targets(folder, tmp_path, words):
    (tmp_path / "m.onnx").write_bytes((folder / "m.onnx").read_bytes())
    done = subprocess.run([binary(), "m.onnx", "-o", "out.onnx", "--json", "--dim", "n=2", *words.split()], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target"].startswith(PROVIDERS[words])


def test_a_level_is_no_file(folder, tmp_path):
    (tmp_path / "m.onnx").write_bytes((folder / "m.onnx").read_bytes())
    assert "stage" in run_ok("m.onnx", "--verbose", "2", cwd=tmp_path).stdout
    assert sorted(listing(tmp_path)) == ["m.onnx", "m.opt.onnx"]


def test_an_output_is_replaced_where_saturate_wrote_it(folder, tmp_path):
    (tmp_path / "m.onnx").write_bytes((folder / "m.onnx").read_bytes())
    run_ok("m.onnx", "out.onnx", cwd=tmp_path)
    run_ok("m.onnx", "out.onnx", cwd=tmp_path)  # the same command again
    (tmp_path / "out.onnx").write_bytes(b"a user's own")
    assert run("m.onnx", "out.onnx", cwd=tmp_path).returncode == 1
    assert (tmp_path / "out.onnx").read_bytes() == b"a user's own"
    run_ok("m.onnx", "out.onnx", "--force", cwd=tmp_path)
    (tmp_path / "out.onnx").write_bytes(b"a user's own")
    run_ok("m.onnx", "-o", "out.onnx", cwd=tmp_path)  # -o asks nothing
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))


def test_many_models(folder, tmp_path):
    for name in ("m.onnx", "two.onnx"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    before = listing(tmp_path)
    run_ok("m.onnx", "two.onnx", "--output-dir", "out", "-q", "--dim", "n=2", cwd=tmp_path)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"m.onnx", "two.onnx"}
    assert {name: data for name, data in listing(tmp_path).items() if not name.startswith("out")} == before
    # One that fails does not keep the others.
    (tmp_path / "bad.onnx").write_bytes(b"")
    done = run("bad.onnx", "m.onnx", "--output-dir", "two", "-q", cwd=tmp_path)
    assert done.returncode == 1 and [path.name for path in (tmp_path / "two").iterdir()] == ["m.onnx"]


def piped(*words, cwd, given):
    return subprocess.run([binary(), *words], cwd=cwd, input=given, capture_output=True, timeout=300)


@pytest.mark.parametrize("words", [["-"], ["-", "-o", "-"], ["optimize", "-", "-"], ["transform", "-", "-o", "-", "--pass", "strip_metadata"]])
def test_a_model_goes_through_pipes(folder, tmp_path, words):
    done = piped(*words, cwd=tmp_path, given=(folder / "m.onnx").read_bytes())
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load_from_string(done.stdout))
    assert done.stderr and not listing(tmp_path)  # what is said goes to standard error


def test_pipes_in_and_out_alone(folder, tmp_path):
    model = (folder / "m.onnx").read_bytes()
    assert piped("inspect", "-", "--json", cwd=tmp_path, given=model).returncode == 0
    assert piped("-", "-o", "out.onnx", cwd=tmp_path, given=model).returncode == 0 and (tmp_path / "out.onnx").exists()
    done = piped(str(folder / "m.onnx"), "-o", "-", "-q", cwd=tmp_path, given=b"")
    assert done.returncode == 0 and onnx.load_from_string(done.stdout) and done.stderr == b""
    (tmp_path / "m.onnx").write_bytes(model)
    assert piped("diff", "-", "m.onnx", cwd=tmp_path, given=model).returncode == 0
    for words in (["slm", "-", "-o", "slm.onnx"], ["generate", "-", "--prompt-ids", "1"]):  # that it is no decoder is known once it is read
        assert b"cannot open" not in piped(*words, cwd=tmp_path, given=model).stderr
    done = piped("-", cwd=tmp_path, given=b"no model")
    assert done.returncode == 1 and done.stdout == b"" and len(done.stderr.splitlines()) == 1


VERBS = {
    "optimize": ["m.onnx", "-o", "out.onnx"], "transform": ["m.onnx", "-o", "out.onnx", "--pass", "strip_metadata"], "inspect": ["m.onnx"],
    "verify": ["m.onnx", "m.onnx"], "run": ["m.onnx", "--random"], "bench": ["m.onnx", "--iterations", "1"], "rules": ["list"], "explain": ["m.onnx"],
    "extract": ["m.onnx", "--sample", "1"], "cost": ["gather", "m.onnx", "--dim", "n=1", "-o", "rows.jsonl", "--seconds", "0.001"], "targets": ["list"],
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json_and_quiet(folder, tmp_path, verb):
    (tmp_path / "m.onnx").write_bytes((folder / "m.onnx").read_bytes())
    json.loads(run_ok(verb, *VERBS[verb], "--json", cwd=tmp_path).stdout)
    assert run_ok(verb, *VERBS[verb], "-q", cwd=tmp_path).stdout == ""


def test_skip_fusion_leaves_out_what_makes_the_operator(tmp_path):
    def attentions(*words):
        run_ok(DATA / "bart_encoder.onnx", "-o", tmp_path / "out.onnx", *words)
        return sum("Attention" in node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node)

    assert attentions() == 2
    assert attentions("--skip-fusion", "Attention", "--skip-fusion", "MultiHeadAttention") == 0


def print_table():
    """The rows with what is said now, as Markdown."""
    with tempfile.TemporaryDirectory() as here:
        make_folder(pathlib.Path(here))
        print("| typed | status | said |\n|---|---|---|")
        for words, _, _ in ROWS:
            done = run(*words.split(), cwd=here)
            said = done.stderr.removeprefix("saturate: error: ").strip().replace("|", "\\|")
            print(f"| `saturate {words}` | {done.returncode} | {said} |")


if __name__ == "__main__":
    print_table()
