"""Random cases of every kind, and who judges them: `python bench/fuzz` (docs/fuzz.md)."""
