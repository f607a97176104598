#!/usr/bin/env python3
"""Which operators quantizers know, as they say themselves: extract/runtimes/quantizers.json.

    python tools/quantizer_operators.py PYTHON... [-o extract/runtimes/quantizers.json]

Each PYTHON is an interpreter with some of onnxruntime, nncf and onnx-neural-compressor. The file has for each quantizer the operators that it quantizes by
default. Registries name an operator by its type alone; those of com.microsoft are named with their domain here.
"""
import argparse
import json
import pathlib
import subprocess
import sys

OF_MICROSOFT = {"Attention", "EmbedLayerNormalization", "FusedConv"}  # the standard's Attention is younger than the registries
ASK = {
    "ONNX Runtime": """
import json, onnxruntime
from onnxruntime.quantization import registry as r
q = set(r.QLinearOpsRegistry)
print(json.dumps([onnxruntime.__version__, {"static": sorted(q | set(r.QDQRegistry)), "static, QOperator": sorted(q), "dynamic": sorted(r.IntegerOpsRegistry)}]))
""",
    "NNCF": """
import json, nncf
from nncf.onnx.quantization.default_quantization import DEFAULT_ONNX_QUANT_TRAIT_TO_OP_DICT as traits
from nncf.common.quantization.quantizer_propagation.structs import QuantizationTrait as T
names = {n for t in (T.INPUTS_QUANTIZABLE, T.OUTPUT_QUANTIZATION_AS_WEIGHTS, T.CONCAT) for m in traits[t] for n in m.op_names}
print(json.dumps([nncf.__version__, {"": sorted(names)}]))
""",
    "Neural Compressor": """
import importlib.metadata, json
from onnx_neural_compressor import constants as c
lists = {"static": c.STATIC_QDQ_OP_LIST_MAP, "static, QOperator": c.STATIC_QOPERATOR_OP_LIST_MAP, "dynamic": c.DYNAMIC_OP_LIST_MAP}
print(json.dumps([importlib.metadata.version("onnx-neural-compressor"), {name: sorted(l["CPUExecutionProvider"]) for name, l in lists.items()}]))
""",
}


def asked(pythons):
    """Rows of quantizers by name, of the first interpreter that has each; and the versions."""
    quantizers, versions = {}, []
    for project, program in ASK.items():
        for python in pythons:
            done = subprocess.run([python, "-c", program], capture_output=True, text=True)
            if done.returncode == 0:
                version, forms = json.loads(done.stdout.splitlines()[-1])
                versions.append(f"{project} {version}")
                for form, names in forms.items():
                    quantizers[f"{project}{', ' if form else ''}{form}"] = sorted(f"com.microsoft::{n}" if n in OF_MICROSOFT else n for n in names)
                break
    return quantizers, versions


def text_of(quantizers, versions):
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(names)}" for name, names in quantizers.items())
    return f'{{\n  "sources": ["python tools/quantizer_operators.py: the registries of {", ".join(versions)}"],\n  "quantizers": {{\n{rows}\n  }}\n}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    args = parser.parse_args()
    quantizers, versions = asked(args.pythons)
    if len(versions) < len(ASK):
        print(f"no interpreter has all of {', '.join(ASK)}; there are {', '.join(versions) or 'none'}", file=sys.stderr)
        return 1
    text = text_of(quantizers, versions)
    args.output.write_text(text) if args.output else print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
