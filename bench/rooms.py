"""Puts the rooms of this folder on the path of modules, so that a script of one takes from the others: `import rooms` comes before that."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOMS = ("export", "gauges", "quality", "runtime", "speed")
sys.path += [str(HERE), *(str(HERE / room) for room in ROOMS)]
