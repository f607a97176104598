"""Pieces of a study: what is done once, known by its content, and kept as a file when it is done."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._models import Given, write_whole

Key = Mapping[str, Any]
"""All that a piece depends on, as JSON: versions, hashes, options."""


@dataclass(frozen=True)
class Piece:
    """Something to do."""

    key: Key
    label: str
    """For people."""
    reads: tuple[Given, ...] = ()
    limit: float = 600.0
    """Seconds that it may take."""

    @property
    def name(self) -> str:
        """Of its part."""
        return name_of(self.key)


def name_of(key: Key) -> str:
    """Such as optimize-0123456789abcdef."""
    return f"{key['piece']}-{hashlib.sha256(_text(key).encode()).hexdigest()[:16]}"


def _text(key: Key) -> str:
    return json.dumps(key, sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True)
class Outcome:
    """What came of a piece."""

    result: Mapping[str, Any]
    failed: str = ""
    """In one line; a failure is an outcome, and stays one until it is asked for again."""
    where: Mapping[str, Any] | None = None
    """The machine and the versions that it was done with."""


class Parts:
    """The outcomes that are kept in a folder, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: Key) -> Outcome | None:
        """What came of it; None where it was not done. What is no whole part of this key does not count."""
        try:
            told = json.loads((self._folder / f"{name_of(key)}.json").read_text(encoding="utf-8"))
            if _text(told["key"]) != _text(key):
                return None
            return Outcome(told["result"], told["failed"], told["where"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, key: Key, outcome: Outcome) -> None:
        """Under its name only when it is whole."""
        told = {"key": key, "where": outcome.where, "failed": outcome.failed, "result": outcome.result}
        write_whole(self._folder / f"{name_of(key)}.json", (json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())
