#!/usr/bin/env python3
"""Runs the commands that README.md and docs/compare.md show, and compares each figure with what is printed; the status is 1 where they differ.

usage: readme_tables.py [DOCUMENT...] [--what screen,coverage,first_result] [--write] --saturate BINARY [--zoo FOLDER --coverage-tool FILE]

A comment on a line before a block says how it is measured: <!-- measured: KIND -->
  screen        a block of code: the lines after `$ COMMAND` are what the command prints on a wide terminal, but for the time that a run took, the
                last bits of its numbers, and this machine's processor. It may leave out the last rows. `bart.onnx` is
                tests/data/bart_encoder.onnx, `decoder.onnx` beside it, the others are made by question_models.py, and `NAME.opt.onnx` is
                what the command makes of one. SATURATE_ONNXRUNTIME says by what it is verified, too.
  coverage      a table: each row with a command in its first cell is run over the models of --zoo by --coverage-tool. Whole columns are
                compared: shares as they are rounded there, and how many of the models came out wrong.
  first_result  a table of medians with their smallest and largest; `bench/speed/first_result.py` is run with the command above the table
                (--wheel, --model), and its medians have to lie within what is printed. Takes minutes, and is left out unless it is named.

--write puts what was measured in the place of what differs. Rows whose tool is not installed are told and not compared.
"""
import argparse
import difflib
import fcntl
import functools
import os
import pathlib
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

import question_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("README.md", "docs/compare.md", "docs/guide/ten_questions.md")
MARK = re.compile(r"<!-- measured: (\w+) -->\n+")
COLUMNS = ("attn", "norms", "gelu", "silu", "rope")
# What a run tells, not the model: its time, and the last bits of its numbers.
VARIES = ((r"no difference|error [\d.e-]+ of [\d.e-]+ all(?:owed|\.\.\.)", "SMALL"), (r"(by up to )[\d.e-]+", r"\1SMALL"), (r"(operators, )[\d.]+ (?:us|ms|s)$", r"\1TIME"))
# What the machine tells, which a document leaves out: its processor, and where ONNX Runtime was found.
OF_MACHINE = ((r"; this machine is another:.*", ""), (r"as SATURATE_ONNXRUNTIME names it", "installed here"))
COLUMNS_OF_TERMINAL = 200


def blocks(text):
    """(kind, start, end) of each block that is measured, from the comment's end on."""
    for mark in MARK.finditer(text):
        start = mark.end()
        lines = text[start:].splitlines(keepends=True)
        if lines[0].startswith("```"):
            size = 1 + next(i for i, line in enumerate(lines[1:], 1) if line.startswith("```"))
        else:
            size = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
        yield mark[1], start, start + sum(map(len, lines[:size]))


def replaced(text, patterns):
    for pattern, word in patterns:
        text = re.sub(pattern, word, text, flags=re.M)
    return text


def on_wide_terminal(words, folder):
    """What a command prints there."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS_OF_TERMINAL, 0, 0))
    running = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"})
    os.close(writer)
    printed = b""
    while True:
        try:
            part = os.read(reader, 1 << 16)
        except OSError:  # as a terminal ends
            break
        if not part:
            break
        printed += part
    os.close(reader)
    said = running.communicate()[1].decode()
    if running.returncode not in (0, 3 if "diff" in words else 0):  # which tells that there are differences
        raise SystemExit(f"readme_tables.py: error: {shlex.join(map(str, words))}: {said[-400:]}")
    return printed.decode().replace("\r\n", "\n")


def model(word, folder, args):
    """A model that a command reads, where the word names one; a result is made by the command."""
    kept = {"bart.onnx": "bart_encoder.onnx", "decoder.onnx": "decoder.onnx"}
    if word in kept:
        shutil.copy(ROOT / "tests/data" / kept[word], folder / word)
    elif word.endswith(".opt.onnx") and (source := word.replace(".opt", "")) and model(source, folder, args):
        subprocess.run([os.path.abspath(args.saturate), source, "-o", word, "-q"], cwd=folder, check=True)
    elif word in question_models.MODELS:
        question_models.MODELS[word](folder / word)
    else:
        return False
    return True


def screen(block, args):
    """The block as it should be, and what differs. It may end before the last lines that are printed."""
    head, command, *shown, tail = block.splitlines()
    if not command.startswith("$ saturate "):
        raise SystemExit(f"readme_tables.py: error: {command!r} is no command of saturate")
    words = shlex.split(command)[2:]
    with tempfile.TemporaryDirectory() as folder:
        for word in words:
            model(word, pathlib.Path(folder), args)
        printed = on_wide_terminal([os.path.abspath(args.saturate), *words], folder)
    new = replaced(printed, OF_MACHINE).rstrip("\n").splitlines()
    last = shown[-1].split()[0] if shown else ""
    ends = [i for i, line in enumerate(new, 1) if line.split()[:1] == [last]]
    new = new[: ends[-1]] if ends else new
    if replaced("\n".join(shown), VARIES) == replaced("\n".join(new), VARIES):
        return block, []
    differs = difflib.unified_diff(shown, new, "shown", "printed", lineterm="", n=0)
    return "\n".join([head, command, *new, tail]) + "\n", list(differs)


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def percent(share):
    return f"{float(share):.1f}".removesuffix(".0") + " %"


@functools.cache
def found(command, zoo, tool, jobs):
    """Cells of a row: shares, and how many are wrong."""
    done = subprocess.run([sys.executable, tool, "--data", zoo, "--command", command, "--jobs", str(jobs)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"readme_tables.py: error: {command}: {done.stderr[-400:]}")
    last = done.stdout.strip().splitlines()[-1]
    shares = dict(re.findall(r"(\w+) ([\d.]+)%", last))
    bad, models = re.search(r"bad (\d+) of (\d+)", last).groups()
    return [*(percent(shares[name]) for name in COLUMNS), f"{bad} of {models}"]


def coverage(block, args):
    if not (args.zoo and args.coverage_tool):
        print("  coverage: not compared: --zoo and --coverage-tool say over which models and by what")
        return block, []
    out, differs = [], []
    for line in block.splitlines():
        row = cells(line)
        command = re.search(r"`([^`]+)`", row[0])
        if not command:
            out.append(line)
            continue
        name, *rest = shlex.split(command[1])
        tool = os.path.abspath(args.saturate) if name == "saturate" else shutil.which(name)
        if not tool:
            print(f"  {command[1]}: not compared: {name} is not installed")
            out.append(line)
            continue
        told = {"IN": "{in}", "OUT": "{out}"}
        new = [row[0], *found(" ".join([shlex.quote(tool), *(told.get(word, shlex.quote(word)) for word in rest)]), args.zoo, args.coverage_tool, args.jobs)]
        out.append("| " + " | ".join(new) + " |")
        if new != row:
            differs.append(f"{command[1]}: shown {row[1:]}, measured {new[1:]}")
    return "\n".join(out) + "\n", differs


def first_result(block, args):
    if not (args.wheel and args.model):
        print("  first_result: not compared: --wheel and --model say of what")
        return block, []
    done = subprocess.run([sys.executable, ROOT / "bench/speed/first_result.py", args.wheel, args.model, "--runs", "3"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"readme_tables.py: error: bench/speed/first_result.py: {done.stderr[-400:]}")
    steps = ("pip install", "first result", "second result", "to the first")
    measured = re.findall(rf"^(\S+) +({'|'.join(steps)}) +processor +([\d.]+) \(([\d.]+) to ([\d.]+)\)", done.stdout, flags=re.M)
    out, differs = [], []
    for line in block.splitlines():
        row = cells(line)
        mine = {step: tuple(map(float, times)) for name, step, *times in measured if row[0].startswith(name.partition("==")[0])}
        new = list(row)
        for column, step in enumerate(steps, 1):
            shown = re.match(r"[\d.]+ s \(([\d.]+) to ([\d.]+)\)", row[column]) if len(row) > column else None
            if not mine or not shown:
                continue
            middle, least, most = mine[step]
            new[column] = f"{middle:.1f} s ({least:.1f} to {most:.1f})"
            if not float(shown[1]) <= middle <= float(shown[2]):
                differs.append(f"{row[0]}, {step}: shown {row[column]}, measured {new[column]}")
        out.append("| " + " | ".join(new) + " |" if new != row else line)
    return "\n".join(out) + "\n", differs


KINDS = {"screen": screen, "coverage": coverage, "first_result": first_result}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", type=pathlib.Path, default=[ROOT / name for name in DOCUMENTS])
    parser.add_argument("--what", default="screen,coverage", help="kinds, with a comma between them (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write what was measured into the documents")
    parser.add_argument("--saturate", default=shutil.which("saturate"), help="the command (%(default)s)")
    parser.add_argument("--zoo", help="a folder of models with what PyTorch made of them, and a manifest.json of their blocks")
    parser.add_argument("--coverage-tool", help="counts the blocks that a command finds: --data FOLDER --command '... {in} ... {out}' --jobs N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--wheel", help="for first_result")
    parser.add_argument("--model", help="for first_result")
    args = parser.parse_args()
    if not args.saturate:
        parser.error("--saturate: where is it?")
    wanted = args.what.split(",")
    if unknown := set(wanted) - set(KINDS):
        parser.error(f"--what {','.join(sorted(unknown))}: there are {', '.join(KINDS)}")
    failed = False
    for document in args.documents:
        text = document.read_text()
        for kind, start, end in reversed(list(blocks(text))):
            if kind not in KINDS:
                raise SystemExit(f"readme_tables.py: error: {document}: measured: {kind}: there are {', '.join(KINDS)}")
            if kind not in wanted:
                continue
            print(f"{document.name}: {kind}", flush=True)
            block, differs = KINDS[kind](text[start:end], args)
            for line in differs:
                print(f"  {line}")
            failed = failed or bool(differs)
            text = text[:start] + block + text[end:]
        if args.write and text != document.read_text():
            document.write_text(text)
    return 1 if failed and not args.write else 0


if __name__ == "__main__":
    sys.exit(main())
