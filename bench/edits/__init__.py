"""Edits that keep the meaning of a model: each rewrites the nodes of some kind to equal ones."""
from . import arithmetic, constants, operators, rarer, structure, views  # noqa: F401
from .editor import EDITS, WRAPS, Editor, Facts, apply, run, sites  # noqa: F401
