"""Random small models, and who runs them: see ../fuzz_models.py."""
