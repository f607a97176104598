"""The command `saturate`, as `python -m onnx_saturate` and as the scripts that the package installs, `saturate` and `onnx-saturate`."""
from __future__ import annotations

import signal
import sys

from ._core import command_line


def main() -> int:
    """Runs the command on `sys.argv`; its exit status."""
    if hasattr(signal, "SIGPIPE"):  # Python ignores it; `saturate ... | head` shall end quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = sys.argv[1:]
    if words[:1] == ["generate"] and any(word.partition("=")[0] in ("--prompt", "--encoder-prompt", "--tokenizer", "--runtime") for word in words):
        from .generate import main as generate_text  # takes text and other runtimes, which the command does not

        return generate_text(words[1:])
    from ._runtimes import MAKERS, installed_onnxruntime

    return command_line(["saturate", *words], MAKERS, installed_onnxruntime())


if __name__ == "__main__":
    sys.exit(main())
