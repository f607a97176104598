"""The operators of bench/runtime/runtime_fine_print.py, the axes along which each is drawn, and who runs them."""
