"""A program that fails as `saturate optimize` would where a model shows a finding of `vet`, for `saturate reduce`: exit status 3."""
from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from ._findings import BASE, Question
from ._runtimes import Runtime


def main() -> int:
    asked = json.loads(Path(sys.argv[1]).read_text())
    words = sys.argv[2:]
    model = next((Path(word) for word in words if not word.startswith("-") and word.endswith((".onnx", ".onnxtxt")) and Path(word).exists()), None)
    if model is None:
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        runtime = Runtime(asked["runtime"], folder, 30)
        try:
            given, own = Path(asked["inputs"]), folder / "inputs.npz"
            question = Question(runtime, asked["level"], folder)
            for inputs in (given, own):  # as they were, as long as the model takes them
                if inputs is own and runtime.run(model, own, BASE, draw=1).outputs is None:
                    return 0
                kind, message = question.ask(model, inputs)
                if kind == asked["kind"]:
                    shutil.copy(inputs, Path(sys.argv[1]).with_name("inputs.npz"))
                    print(f"saturate: error: {message or kind}", file=sys.stderr)
                    return 3
                if kind != "base":
                    return 0
            return 0
        finally:
            runtime.close()


if __name__ == "__main__":
    sys.exit(main())
