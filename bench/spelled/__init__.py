"""Blocks of models (attention, norms, activations, rotations) written by choices: every choice names one spelling of a part."""
from . import activations, attention, norms, products, rotations, wraps  # noqa: F401
from .author import Author, Problem  # noqa: F401
