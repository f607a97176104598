"""SECURITY.md is true word by word: each of its sentences and rows is shown by the tests that the table names, those of this file among them."""
import re
import shutil
import subprocess
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT, SANITIZED, binary, make_model, run, run_ok, value

HOSTILE, OUTPUTS, FILES, STRINGS, INPUTS, ERRORS = (f"python/{name}.py::" for name in ("hostile/test_hostile", "hostile/test_hostile_outputs", "hostile/test_hostile_files",
                                                                                              "hostile/test_hostile_strings", "hostile/test_hostile_inputs", "command/test_errors"))
HERE, JUDGE = "python/hostile/test_security.py::", "verify/judge_test.cpp::"
# How a line begins -> the tests of what it says; a word without "::" is why there is none.
PROMISES = {
    "| models (": [f"{ERRORS}test_truncated", "onnx_bridge/io_test.cpp::SurvivesDamage", f"{HOSTILE}test_names_that_are_no_text"],
    "| external data": [f"{ERRORS}test_external_data_outside", f"{ERRORS}test_external_data_symlink", f"{ERRORS}test_external_data_hard_link",
                        "onnx_bridge/external_data_test.cpp::LinksAndOddFiles"],
    "| inputs (": [f"{INPUTS}test_inputs_are_looked_at_before_they_are_unpacked", f"{STRINGS}test_arrays_beside_a_decoder_are_looked_at_first", f"{ERRORS}test_pickle_is_refused"],
    "| rule files": [f"{ERRORS}test_broken_rule_file", "python/verify/test_verification.py::test_the_rest_is_written"],
    "| targets (": [f"{HOSTILE}test_a_target_runs_no_code", f"{HOSTILE}test_costs_beside_a_target"],
    "| files that are read whole": [f"{FILES}test_what_is_no_file_of_data_is_not_read", f"{FILES}test_what_grows_while_it_is_read_ends"],
    "| lists of passes": [f"{HOSTILE}test_a_list_of_passes_runs_no_code", f"{HOSTILE}test_what_a_list_of_passes_names_ends", f"{HOSTILE}test_a_list_of_passes_shows_no_words_of_files"],
    "| JSON of any kind": [f"{HOSTILE}test_deep_json", f"{HOSTILE}test_json_is_read_in_one_place", f"{FILES}test_json_that_cannot_be_read_tells_the_place"],
    "| cost libraries": ["the user's own code"],
    "| Python functions": ["the user's own code"],
    "| studies": ["the user's own code"],
    "| interpreters": ["python/vet/test_vet.py::test_the_command"],
    "| the environment": ["as with every program"],
    "A model is a program": ["advice"],
    "What is bounded": ["advice"],
    "saturate opens no network connection": [f"{HERE}test_no_network_and_one_other_program"],
    "By itself it starts": [f"{HERE}test_no_network_and_one_other_program"],
    "`saturate reduce` also": ["python/command/test_reduce.py::test_a_fusion_that_an_earlier_build_found"],
    "`--onnxruntime`": ["python/verify/test_judge.py::test_mistakes_are_told_in_a_line"],
    "That library and that variable": ["the user's own code"],
    "For models of strangers": [f"{HERE}test_no_network_and_one_other_program"],
    "The judge's process opens": [f"{HERE}test_what_the_judge_does"],
    "It tells nobody": [f"{HERE}test_what_the_judge_does"],
    "It may write no file": [f"{HERE}test_what_the_judge_does", f"{JUDGE}SavesNoModelOfMoreThanTheRuntimeCanWrite"],
    "It dumps no core": [f"{HERE}test_what_the_judge_does"],
    "Its memory is limited": [f"{JUDGE}TheProcessHasALimitOfMemory"],
    "A model that is hostile": [f"{JUDGE}AResultThatEndsTheProcessIsAtFault", f"{JUDGE}ADeadProcessIsFollowedByANewOne"],
    "- The result, its data file": [f"{HERE}test_what_is_written"],
    "- A file appears whole": [f"{OUTPUTS}test_cut_off_anywhere", "onnx_bridge/output_file_test.cpp::IsThereWholeOrNotAtAll"],
    "For the rename": [f"{OUTPUTS}test_cut_off_anywhere", "onnx_bridge/output_file_test.cpp::ANameThatIsTakenStaysSo"],
    "Model and data change": [f"{OUTPUTS}test_cut_off_anywhere"],
    "- No output may be": [f"{OUTPUTS}test_outputs_are_no_inputs", f"{OUTPUTS}test_data_of_another_model_stays"],
    "a second model": [f"{OUTPUTS}test_a_second_model_is_no_output"],
    "- Names in what is printed": [f"{HOSTILE}test_names_hide_nothing"],
    "Control characters": [f"{HOSTILE}test_no_control_characters", f"{HOSTILE}test_names_hide_nothing", "python/hostile/test_python_calls.py::test_names_hide_nothing"],
    "- Symbolic links stay": [f"{OUTPUTS}test_links_are_followed", f"{OUTPUTS}test_modes_are_kept", f"{OUTPUTS}test_devices_and_pipes"],
    "- SIGINT": ["python/hostile/test_hostile_signals.py::test_signals_leave_nothing", "python/hostile/test_hostile_signals.py::test_signals_while_saving"],
    "- Whoever cuts a file": ["python/hostile/test_hostile_signals.py::test_a_file_that_is_cut_while_it_is_read"],
    "| bytes of a model": [f"{HERE}test_a_model_beyond_what_protobuf_holds"],
    "| subgraphs, types": ["onnx_bridge/io_test.cpp::BoundsNesting", f"{ERRORS}test_deep_nesting"],
    "| nodes once calls": [f"{HOSTILE}test_functions_that_call_functions_twice", f"{HOSTILE}test_functions_within_bounds"],
    "| dims of a tensor": [f"{HOSTILE}test_ranks"],
    "| versions of": [f"{HOSTILE}test_versions"],
    "| size of a symbolic dim": [f"{HOSTILE}test_dims_that_grow", "onnx_bridge/dims_test.cpp::OverflowBecomesOpaque"],
    "| e-nodes that rules make": ["egraph/runner_test.cpp::NodeLimitIsNeverPassed", "python/rules/test_rewrites.py::test_the_default_node_limit_goes_with_the_size_of_the_model"],
    "| rounds of rewriting": ["egraph/runner_test.cpp::IterationTimeMemoryAndCancelStop"],
    "| memory of the e-graph": ["egraph/runner_test.cpp::IterationTimeMemoryAndCancelStop"],
    "| seconds of rewriting": ["egraph/runner_test.cpp::IterationTimeMemoryAndCancelStop", "python/verify/test_verification.py::test_time",
                               "python/command/test_time_of_stages.py::test_a_run_ends_in_the_time_that_was_given"],
    "| tokens of a run of a decoder": ["python/decoding/test_generate.py::test_runs_of_more_tokens_than_fit"],
    "| bytes of a name": ["python/hostile/test_mutants.py::test_names_of_any_length_are_refused", "python/hostile/test_mutants.py::test_names_within_bounds"],
    "| bodies of control flow": ["python/command/test_time_of_stages.py::test_of_many_bodies_the_first_are_optimized"],
    "| seconds of verifying": ["verify/verify_draws_test.cpp::ATimeThatIsGivenBoundsTheFirstCaseToo", "python/command/test_time_of_stages.py::test_inputs_are_drawn_within_the_time",
                               "python/command/test_time_of_stages.py::test_a_run_ends_in_the_time_that_was_given"],
    "| seconds of lowering, rewriting": ["python/command/test_time_of_stages.py::test_the_time_that_was_given_bounds_all_stages",
                                         "python/command/test_time_of_stages.py::test_a_run_ends_in_the_time_that_was_given"],
    "| seconds of a run": [f"{HOSTILE}test_a_run_ends_in_time"],
    "| memory of the tensors": [f"{HOSTILE}test_a_run_keeps_to_its_memory", f"{STRINGS}test_strings_keep_to_the_memory_of_a_run", f"{STRINGS}test_what_a_run_begins_with_counts",
                              f"{STRINGS}test_texts_of_a_model_count"],
    "| unpacked bytes of the inputs": [f"{INPUTS}test_inputs_are_looked_at_before_they_are_unpacked"],
    "| files that a killed process": [f"{HOSTILE}test_leftovers_of_dead_processes_go"],
    "| bytes of the header": [f"{INPUTS}test_a_long_header_of_an_array"],
    "| unpacked bytes of a": [f"{INPUTS}test_bombs_in_inputs", "tools/npz_test.cpp::NothingCountsTwice"],
    "| strings of an array": [f"{INPUTS}test_bombs_in_inputs"],
    "| memory of the process": [f"{HOSTILE}test_under_a_limit_on_memory", f"{HOSTILE}test_out_of_memory_is_an_error"],
    "`saturate optimize --help` tells": [f"{HERE}test_help_tells_the_limits_of_folding"],
    "The command uses": ["how it is built"],
    "The Python wheel": [f"{HERE}test_what_the_wheel_bundles"],
    "protobuf, ONNX's": [f"{HERE}test_what_the_wheel_bundles"],
    "glibc, libstdc++": [f"{HERE}test_what_the_wheel_bundles"],
    "Their versions are": ["how it is built"],
    "a security update": ["how it is built"],
    "`ls` of that folder": ["how it is built"],
    "Of ONNX only": [f"{HERE}test_of_onnx_only_messages_are_used"],
    "its checker": [f"{HERE}test_of_onnx_only_messages_are_used"],
    "Python code that loads": ["advice"],
}


def promised():
    text = (ROOT / "SECURITY.md").read_text()
    text = re.sub(r"\n## Reporting\n.*?(?=\n## )", "", text, flags=re.DOTALL)
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "|---", "| what |", "| of |"))]


def test_each_promise_has_tests():
    lines = promised()
    told = {line: [begin for begin in PROMISES if line.startswith(begin)] for line in lines}
    assert not [line for line, begins in told.items() if len(begins) != 1], [line for line, begins in told.items() if len(begins) != 1]
    assert not [begin for begin in PROMISES if not any(line.startswith(begin) for line in lines)]
    for begin, tests in PROMISES.items():
        for test in tests:
            place, colons, name = test.partition("::")
            if colons:
                text = (ROOT / "tests" / place).read_text()
                assert re.search(rf"def {name}\(|TEST(_F)?\(\w+, {name}\)", text), (begin, test)


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


def test_what_is_written(tmp_path):
    relu(tmp_path)
    run_ok("m.onnx", "-o", "o.onnx", "--report", "r.json", cwd=tmp_path)
    run_ok("inspect", "m.onnx", cwd=tmp_path)
    run_ok("run", "m.onnx", "--random", cwd=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "o.onnx", "r.json"]


def test_a_model_beyond_what_protobuf_holds(tmp_path):
    with open(tmp_path / "m.onnx", "wb") as file:
        file.truncate((2 << 30) + 1)
    done = run("inspect", "m.onnx", cwd=tmp_path, timeout=60)
    assert done.returncode == 1 and "protobuf messages end at 2 GB" in done.stderr, done.stderr


def test_help_tells_the_limits_of_folding():
    assert re.search(r"fold", run_ok("optimize", "--help").stdout)


def test_what_the_wheel_bundles():
    """Where the package is installed: no library of the system's that is said to stay the system's, each other one with its licence."""
    outside = re.compile(re.search(r'OUTSIDE = re.compile\(r"(.*)"\)', (ROOT / "tools" / "python" / "bundle.py").read_text())[1])
    assert all(outside.match(f"{name}.so.1") for name in ("libc", "libstdc++", "libz")) and not outside.match("libre2.so.9")
    package = pytest.importorskip("onnx_saturate")
    folder = Path(package.__file__).parent / "_lib"
    if not folder.is_dir():
        pytest.skip("this package bundles nothing")
    names = [p.name for p in folder.iterdir() if ".so" in p.name]
    assert not [n for n in names if n.startswith(("libc.", "libc-", "libstdc++", "libz.", "libz-", "libm.", "libgcc_s"))]
    assert list((folder / "licenses").iterdir())


def test_of_onnx_only_messages_are_used():
    """No source includes ONNX's checker, version converter, inference or reader of files."""
    allowed = {"onnx/onnx_pb.h", "onnx/onnx-ml.pb.h", "onnx/onnx.pb.h"}
    found = set()
    for folder in ("egraph", "onnx_bridge", "rules", "extract", "kernels", "tools"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".cpp"):
                found |= {(str(path.relative_to(ROOT)), name) for name in re.findall(r'#include [<"](onnx/[^>"]*)[>"]', path.read_text())}
    assert found and not [f for f in found if f[1] not in allowed], found
