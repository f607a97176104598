#!/usr/bin/env python3
"""Writes the tiny decoder that comes along, tests/data/decoder.onnx: two layers of four heads, without a cache, random weights.

  python bench/export/tiny_decoder.py [OUT.onnx]

It counts positions itself and masks what comes later, as exports of language models do. The same numbers each time.
"""
import pathlib
import sys

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from decoders import Shape, decoder  # noqa: E402


def main():
    model = decoder(Shape(cache="none", positions="arange"), seed=1)
    onnx.checker.check_model(model)
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "data" / "decoder.onnx"
    path.write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
