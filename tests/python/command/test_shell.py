"""Completions, each run in its shell, and man pages: all made from the definitions that the command is parsed by."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, binary, run_ok

VERBS = set(re.findall(r'Verb\{"(\w+)"', (ROOT / "tools/cli/command_line.cpp").read_text()))


def needs(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")


def shell(name, *words, **kwargs):
    needs(name)
    environment = {**os.environ, "PATH": f"{os.path.dirname(binary())}{os.pathsep}{os.environ['PATH']}", "HOME": str(kwargs["cwd"])}
    done = subprocess.run([name, *words], capture_output=True, text=True, env=environment, timeout=120, **kwargs)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split("\n")


def script(name, folder):
    path = folder / f"saturate.{name}"
    path.write_text(run_ok("completion", name).stdout)
    return path


@pytest.fixture
def folder(tmp_path):
    for name in ("bart.onnx", "my.rules", "mine.json"):
        (tmp_path / name).touch()
    (tmp_path / "models").mkdir()
    return tmp_path


# The words before the cursor, the word at it, what must be offered and what must not.
ASKED = [
    ([], "", {"optimize", "inspect", "targets"}, {"--target"}),
    ([], "tra", {"transform"}, {"inspect"}),
    (["optimize"], "--extr", {"--extractor"}, {"--target"}),
    (["bart.onnx"], "--skip-", {"--skip-rule", "--skip-fusion"}, {"--op"}),  # the verb is left out
    (["explain", "bart.onnx"], "--", {"--op", "--rule", "--json"}, {"--warmup"}),
    (["optimize", "--extractor"], "", {"search", "greedy-dag"}, {"optimize"}),
    (["optimize", "--target"], "ort-", {"ort-cpu", "ort-cuda"}, {"onnx"}),
    (["targets"], "", {"list", "show", "check"}, set()),
    (["completion"], "", {"bash", "zsh", "fish"}, set()),
    (["inspect"], "b", {"bart.onnx"}, {"my.rules"}),
    (["optimize", "--output-dir"], "", {"models"}, {"bart.onnx"}),
]


@pytest.mark.parametrize("words, word, offered, not_offered", ASKED)
def test_bash(folder, words, word, offered, not_offered):
    line = ["saturate", *words, word]
    ask = f"source {script('bash', folder)}; COMP_WORDS=({' '.join(repr(w) for w in line)}); COMP_CWORD={len(line) - 1}; _saturate; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    found = set(shell("bash", "--norc", "-c", ask, cwd=folder))
    assert offered <= found and not (not_offered & found), found


@pytest.mark.parametrize("words, word, offered, not_offered", ASKED)
def test_fish(folder, words, word, offered, not_offered):
    line = " ".join(["saturate", *words, word])
    found = {text.split("\t")[0] for text in shell("fish", "--no-config", "-c", f"source {script('fish', folder)}; complete -C '{line}'", cwd=folder)}
    found = {text.rstrip("/") for text in found}
    assert offered <= found and not (not_offered & found), found


@pytest.mark.parametrize("words, word, offered, not_offered", ASKED)
def test_zsh(folder, words, word, offered, not_offered):
    """In a terminal of its own (zsh's zpty), as somebody types: the list that a TAB shows."""
    needs("zsh")
    line = " ".join(["saturate", *words, word])
    ask = f"""
zmodload zsh/zpty
zpty asked zsh -f -i
zpty -w asked 'PS1=; autoload -Uz compinit; compinit -u -D; source {script("zsh", folder)}; LISTMAX=10000; bindkey "^I" complete-word'
zpty -w asked "zstyle ':completion:*' list-prompt ''; unsetopt zle_bracketed_paste 2>/dev/null; setopt list_ambiguous; stty cols 500 rows 500; print READY"
zpty -r asked out '*READY*READY*'
zpty -w -n asked '{line}'$'\\t'$'\\t'
zpty -w -n asked $'\\C-d'
text=
for i in {{1..150}}; do
  sleep 0.1
  while zpty -r -t asked out; do text+=$out; done
  if ((seen)); then break; fi
  seen=1
  for wanted in {" ".join(sorted(offered))}; do if [[ $text != *$wanted* ]]; then seen=0; fi; done
done
print -rn -- $text
zpty -d asked
"""
    text = "\n".join(shell("zsh", "-f", "-c", ask, cwd=folder))
    missing = [name for name in offered if name not in text]
    assert not missing, (missing, text)
    assert not [name for name in not_offered - set(words) if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)], text


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_scripts_are_read(folder, name):
    shell(name, "-n", str(script(name, folder)), cwd=folder)


def test_every_option_of_the_help_is_completed(folder):
    for name in ("bash", "zsh", "fish"):
        text = script(name, folder).read_text()
        for verb in VERBS:
            for option in set(re.findall(r"^  --([\w-]+)", run_ok(verb, "--help").stdout, re.M)):
                assert (f"-l {option}" if name == "fish" else f"--{option}") in text, (name, verb, option)


@pytest.mark.parametrize("verb", ["", *sorted(VERBS)])
def test_man_pages_say_what_the_help_says(folder, verb):
    page = run_ok("man", *([verb] if verb else [])).stdout
    assert page.startswith(".TH SATURATE") and ".SH NAME" in page and ".SH EXIT STATUS" in page
    plain = page.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
    for line in run_ok(*([verb] if verb else []), "--help").stdout.splitlines():
        for word in line.split():
            assert word in plain, (line, word)
    if shutil.which("groff"):
        (folder / "page.1").write_text(page)
        done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "page.1"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
