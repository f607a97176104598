"""One in four of the files of bench/quality/hostile_files.py, which gives all of them to the command."""
import sys

import pytest

from conftest import ROOT, SANITIZED, binary

sys.path.insert(0, str(ROOT / "bench"))
import rooms  # noqa: E402,F401
import hostile_files  # noqa: E402


def test_there_are_a_hundred():
    names = [name for name, _ in hostile_files.files()]
    assert len(names) == len(set(names)) >= 100


@pytest.mark.skipif(SANITIZED, reason="measures memory and time of what is shipped")
@pytest.mark.parametrize("verb", ["optimize in.onnx -o out.onnx --judge saturate", "verify in.onnx in.onnx --judge saturate"])
def test_hostile_files_end_well(verb):
    wrong = {name: (fault, took) for name, fault, took in hostile_files.run_all(binary(), every=4, words=verb) if fault}
    assert not wrong, wrong


@pytest.mark.skipif(SANITIZED, reason="measures memory and time of what is shipped")
@pytest.mark.parametrize("name", ["pool-0", "average-0", "average-1", "norm-0"])
def test_pools_of_windows_without_end(name):
    """Nothing looked at the clock while the places of a window were gone through, all of which lay beside the input: it never ended."""
    ((_, fault, took),) = hostile_files.run_all(binary(), only=[name])
    assert not fault, (fault, took)
