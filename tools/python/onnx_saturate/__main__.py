"""The command `saturate`, as `python -m onnx_saturate` and as the scripts that the package installs, `saturate` and `onnx-saturate`."""
from __future__ import annotations

import signal
import sys

from ._core import command_line


def main() -> int:
    """Runs the command on `sys.argv`; its exit status."""
    if hasattr(signal, "SIGPIPE"):  # Python ignores it; `saturate ... | head` shall end quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return command_line(["saturate", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
