"""Files that are read whole, made to do harm: devices, pipes, folders, files without an end, and JSON that no one can read."""
import json
import os
import threading
import time
from pathlib import Path

import pytest

from conftest import run
from test_hostile import refused, write

LARGE = (64 << 20) + 1
READERS = {
    "target": ["m.onnx", "--target", "it.json"],
    "target of a release": ["m.onnx", "--target", "it@1.json"],
    "cost": ["m.onnx", "--cost", "it.json"],
    "rows": ["m.onnx", "--cost", "it.jsonl"],
    "rules": ["m.onnx", "--rules", "it.json"],
    "rules check": ["rules", "check", "it.json"],
    "passes": ["transform", "m.onnx", "-o", "o.onnx", "--passes", "it.json"],
    "before": ["m.onnx", "--before", "it.json"],
    "answers": ["m.onnx", "--measure", "2", "--measured", "it.json"],
    "fit": ["cost", "fit", "it.jsonl", "-o", "c.json"],
    "eval": ["cost", "eval", "it.jsonl"],
}


def make(kind, name):
    if kind == "fifo":
        os.mkfifo(name)
    elif kind == "zero":
        os.symlink("/dev/zero", name)
    elif kind == "folder":
        os.mkdir(name)
    else:
        with open(name, "wb") as file:
            file.truncate(LARGE if kind == "large" else 3 << 30)


@pytest.mark.parametrize("kind", ["fifo", "zero", "folder", "large", "huge"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_of_data_is_not_read(tmp_path, small_model, monkeypatch, reader, kind):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    words = READERS[reader]
    named = next(word for word in words if word.startswith("it"))
    if kind == "large" and reader in ("answers", "fit", "eval"):
        pytest.skip("rows of a long session may be many")
    make(kind, named)
    before = sorted(os.listdir())
    done = run(*words, timeout=30)
    assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"{named}: " in done.stderr and sorted(os.listdir()) == before
    if reader != "answers" or kind == "huge":  # (what answers go into is written, too, and no device or folder for that reason)
        assert ("bytes" if kind in ("large", "huge") else "a folder; name its .rules files" if kind == "folder" and "rules" in reader else "it is no regular file; name a file") in done.stderr


def test_what_grows_while_it_is_read_ends(tmp_path, small_model, monkeypatch):
    """A file that the system tells the size 0 of, and one that is put in the place of another meanwhile."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    done = run("m.onnx", "--target", "/proc/self/maps", timeout=30)
    assert done.returncode == 1 and "not JSON: line 1, column " in done.stderr, done.stderr
    os.symlink("/dev/zero", "zero")
    Path("text").write_text("{}")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for source in ("zero", "text"):
                os.symlink(source, "next")
                os.rename("next", "t.json")
                time.sleep(0.0005)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(25):
            done = run("m.onnx", "--target", "t.json", timeout=30)
            assert done.returncode in (1, 2) and len(done.stderr.splitlines()) == 1, done.stderr
    finally:
        stop.set()
        thread.join()


BAD = {"syntax": ('{\n "a": [1,\n  2,, 3]}', "line 3, column 5"), "deep": ('{"a":\n "]", "b": ' + "[" * 64 + "1" + "]" * 64 + "}", "line 2, column 75: it is nested more than 64 deep"),
       "overflow": ('{"1e999": 2,\n "name": 1e999}', "line 2, column 10: 1e999 is too large a number"), "utf8": ('{"a": "\x80"}', "line 1, column 8"),
       "end": ('{"a": 1', "line 1, column 8")}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("reader", [r for r in READERS if "rules" not in r])
def test_json_that_cannot_be_read_tells_the_place(tmp_path, small_model, monkeypatch, reader, kind):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, small_model, "m.onnx")
    text, place = BAD[kind]
    words = READERS[reader]
    named = next(word for word in words if word.startswith("it"))
    if reader in ("rows", "answers", "fit", "eval"):
        text = "\n" * (int(place.split()[1].strip(",")) - 1) + text.replace("\n", "" if kind == "syntax" else " ")  # one line of many
        place = place.split(",")[0] + ", column "
    Path(named).write_bytes(text.encode("latin-1"))
    refused(tmp_path, words, code=(1, 2), place=place)
    assert named in run(*words).stderr
