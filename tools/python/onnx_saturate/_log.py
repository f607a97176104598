"""What the package tells of its work: the logger "onnx_saturate", silent until a handler is added.

INFO has a line when a stage begins and one of each result, DEBUG the rounds of rewriting, WARNING what is a Python warning, too.
"""
from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Optional

from . import _core

logger = logging.getLogger("onnx_saturate")
logger.addHandler(logging.NullHandler())  # else Python itself prints warnings a second time where nobody listens

Told = Optional[Callable[[str, int, int], object]]


def warn(text: str, stacklevel: int = 2) -> None:
    """A RuntimeWarning for the caller's code, and a line of the log for what runs it. Names of the model in it hide nothing."""
    text = _core.printable(text)
    logger.warning("%s", text)
    warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)


def followed(shown: Told) -> Told:
    """What shows progress, and the log of it."""
    if not logger.isEnabledFor(logging.INFO):
        return shown
    last = ""

    def tell(stage: str, iteration: int, nodes: int) -> None:
        nonlocal last
        if stage != last:
            logger.info("%s", stage)
            last = stage
        if nodes:
            logger.debug("%s: round %d, %d e-nodes", stage, iteration, nodes)
        if shown is not None:
            shown(stage, iteration, nodes)

    return tell
