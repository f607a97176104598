"""The command `saturate`, as `python -m onnx_saturate` and as the scripts that the package installs, `saturate` and `onnx-saturate`."""
from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from ._core import command_line


_TEXT = ("--prompt", "--encoder-prompt", "--tokenizer", "--runtime")


def _of_python(words: list[str]) -> Callable[[list[str]], int] | None:
    """What runs verbs that are Python's own, and text for `generate`, which the compiled command does not take."""
    verb = words[0].replace("_", "-") if words else ""
    if verb == "tune":
        from .tune import main as run
    elif verb == "pre-post":
        from .pre_post import main as run
    elif verb == "vet":
        from .vet.__main__ import main as run
    elif verb == "study":
        from .study.__main__ import main as run
    elif verb == "generate" and any(word.partition("=")[0] in _TEXT for word in words):
        from .generate import main as run
    else:
        return None
    return run


def main() -> int:
    """Runs the command on `sys.argv`; its exit status."""
    if hasattr(signal, "SIGPIPE"):  # Python ignores it; `saturate ... | head` shall end quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = sys.argv[1:]
    run = _of_python(words)
    if run is not None:
        return run(words[1:])
    from ._runtimes import MAKERS, installed_onnxruntime

    return command_line(["saturate", *words], MAKERS, installed_onnxruntime())


if __name__ == "__main__":
    sys.exit(main())
