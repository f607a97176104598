"""Text and JSON of files that may come from strangers: regular files of bounded size, and JSON that is nested as deep as the command takes."""
from __future__ import annotations

import json
import os
import stat
from typing import Any

from ._errors import Error

_MOST = 64 << 20


def read_text(path: str | os.PathLike[str]) -> str:
    """Opened once, and looked at and read through the same descriptor."""
    name = os.fspath(path)
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Error(f"{name}: it is no regular file; name a file, no device, pipe or folder")
        with open(fd, "rb") as file:
            text = file.read(_MOST + 1)
        if len(text) > _MOST:
            raise Error(f"{name}: it has more than the {_MOST} bytes that are read at most; name a smaller file")
        return text.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Error(f"{name}: can't be read: {getattr(error, 'strerror', None) or error}; check the path") from None


def json_of(text: str) -> Any:
    """A ValueError says what is wrong, and where."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply; nest it less deeply") from None
