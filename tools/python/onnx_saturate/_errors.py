"""What can go wrong, as exceptions. Every message is one line: place: what is wrong; what to do."""
from __future__ import annotations

import errno
import os
import re
import sys

from . import _core


class Error(Exception):
    """A model, rule or other file can't be read, is invalid or can't be written."""

    code = 1  # exit status of the command for the same


class MissingFileError(Error, FileNotFoundError):
    """There is no such file."""

    def __init__(self, message: str, path: str = "") -> None:
        FileNotFoundError.__init__(self, errno.ENOENT, message, path)
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[type, tuple[str, str]]:  # OSError's own would give three arguments
        return type(self), (self.message, self.filename)


def tell_error(program: str, error: Error) -> int:
    """Says on standard error what is wrong; the exit status."""
    print(f"{program}: error: {error}", file=sys.stderr)
    return error.code


class OptionError(Error, ValueError):
    """An option makes no sense."""

    code = 2


class VerificationError(Error):
    """The optimized model doesn't compute the same. Nothing was written; `report` (a `Report`) says what differs."""

    code = 3

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class UnsupportedError(Error, NotImplementedError):
    """The model needs something that can't be run here, so nothing can be verified. `verify=False` goes on without."""

    code = 5


# Options of the command by their names here, where these are not the same with "_".
_NAMES = {"dim": "dims", "skip-rule": "skip_rules", "skip-fusion": "skip_fusions", "check-rtol": "rtol", "check-atol": "atol", "no-verify": "verify=False"}


def _in_python(message: str) -> str:
    """The message with Python's names of options; what stands in backticks is to be typed as a command."""
    parts = message.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<![\w-])--([a-z][a-z-]*[a-z])", lambda found: _NAMES.get(found[1], found[1].replace("-", "_")), parts[i])
    return "`".join(parts)


def error_of(code: int, message: str, report: _core.Report | None) -> BaseException:
    """The exception for an error of the library."""
    path = message.partition(": ")[0]
    message = _core.printable(_in_python(message))
    if code == VerificationError.code:
        from ._report import Report

        return VerificationError(message, None if report is None else Report(report))
    if code == 130:
        return KeyboardInterrupt(message)
    for kind in (OptionError, UnsupportedError):
        if code == kind.code:
            return kind(message)
    if re.search(r"No such file|cannot be read|can't be opened", message) and not os.path.exists(path):
        return MissingFileError(message, path)
    return Error(message)
