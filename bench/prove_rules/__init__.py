"""Proves laws of rules/library over the reals, the whole numbers and truth values, for any size (docs/proofs.md)."""
