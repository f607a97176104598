"""What SECURITY.md promises of other programs, of the network and of the judge's process, as the system sees it."""
import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from conftest import SANITIZED, binary, make_model, value


def relu(folder):
    onnx.save(make_model([helper.make_node("Relu", ["x"], ["y"])], [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]), folder / "m.onnx")


def traced(folder, calls, *words):
    """What strace says of these calls, line by line, as (process, text)."""
    done = subprocess.run(["strace", "-f", "-qq", "-s", "300", "-o", "trace", "-e", f"trace={calls}", binary(), *words], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [tuple(line.split(maxsplit=1)) for line in (folder / "trace").read_text().splitlines()]


needs_strace = pytest.mark.skipif(not shutil.which("strace") or SANITIZED, reason="system calls are watched by strace, which sanitizers do not bear")


def judge_words():
    onnxruntime = pytest.importorskip("onnxruntime")
    return ["--onnxruntime", str(Path(onnxruntime.__file__).parent)]


@needs_strace
@pytest.mark.parametrize("judge", ["saturate", "onnxruntime"])
def test_no_network_and_one_other_program(tmp_path, judge):
    relu(tmp_path)
    words = judge_words() if judge == "onnxruntime" else ["--judge", "saturate"]
    lines = traced(tmp_path, "socket,connect,bind,execve", "m.onnx", "-o", "o.onnx", *words)
    assert not [text for _, text in lines if text.startswith(("socket(", "connect(", "bind("))]
    started = [re.match(r'execve\("([^"]*)"', text)[1] for _, text in lines if text.startswith("execve(") and text.endswith("= 0")]
    assert [Path(p).name for p in started] == [Path(binary()).name] + (["saturate-judge"] if judge == "onnxruntime" else [])


@needs_strace
def test_what_the_judge_does(tmp_path):
    """Files of the user, files that are made, limits; and what ONNX Runtime itself does in the user's folders."""
    relu(tmp_path)
    calls = "open,openat,creat,unlink,unlinkat,rename,renameat,mkdir,prlimit64,prctl,execve"
    lines = traced(tmp_path, calls, "m.onnx", "-o", "o.onnx", *judge_words())
    judge = next(process for process, text in lines if text.startswith("execve(") and "saturate-judge" in text)
    mine = [text for process, text in lines if process == judge]
    own = [text for text in mine if re.search(r"RLIMIT_CORE, \{rlim_cur=0, rlim_max=0\}|RLIMIT_FSIZE, \{rlim_cur=0,|RLIMIT_NOFILE, \{rlim_cur=256, rlim_max=256\}|PR_SET_PDEATHSIG, SIGKILL", text)]
    assert len(own) == 4, own
    assert not [text for text in mine if text.startswith(("creat(", "unlink", "rename", "mkdir"))]
    opened = [re.search(r'"([^"]*)"', text)[1] for text in mine if text.startswith(("open(", "openat(")) and "ENOENT" not in text]
    assert not [text for text in mine if re.search(r"O_CREAT|O_TRUNC|O_RDWR", text)]
    theirs = ("/proc/", "/sys/", "/dev/null", "/etc/ld.so", "/lib", "/usr/lib", "/etc/localtime", "/usr/share/zoneinfo")
    assert not [path for path in opened if not path.startswith(theirs) and ".so" not in Path(path).name], opened
    parent = [text for process, text in lines if process != judge]
    assert any("o.onnx" in text or "O_TMPFILE" in text for text in parent)  # what the judge may not, the command does
