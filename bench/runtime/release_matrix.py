"""Results for all targets and opsets, each loaded and run in several releases of ONNX Runtime, without and with its optimizations.

    python bench/runtime/release_matrix.py ZOO PYTHON... [--targets npu-4d onnx] [--opsets default 13] [--word=--no-verify] [--json rows.json]

ZOO has NAME.onnx, and beside it NAME.inputs.npz; sizes are those of the inputs for targets that want fixed ones. PYTHON... are interpreters,
each with another onnxruntime. `--opsets default` asks for none. Each result is written by one command. It is then judged by each interpreter in a process of its own:
what it makes of the original without optimizations is compared with what it makes of both models at both levels. A row of the table counts the results that are
- equal: all outputs within 1e-4 of the largest element (2e-2 in 16 bits), or no farther than the original is at the same level;
- wrong, refused (does not load, or does not run), dead (the process ended by a signal): where the original at the same level is none of these;
- without a kernel: an operator of the result has none on the CPU in this release;
- unjudged: the release refuses the original, or the opset or the format came after it;
- not written, by the command's exit status.
Equal results of two targets are judged once. Ends with status 1 where a result is wrong, refused or dead, or is of `ort-cpu` and has no kernel or an opset that came later."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import rooms  # noqa: E402,F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
BAD = ("wrong", "refused", "dead")
OPSETS = ("13", "14", "17", "21", "default")
LEVELS = (True, False)  # as it is, optimized
NO_KERNEL = ("Could not find an implementation", "NOT_IMPLEMENTED", "Failed to find kernel")
TOO_NEW = ("is under development", "Unsupported model IR version", "Unknown model file format version")


def tried(work):
    """What a function gives, from a process that may die."""
    import pickle

    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            out = work()
        except Exception as error:  # of several kinds
            out = str(error).splitlines()[0][-300:]  # the path stands first
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(out, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    status = os.waitpid(child, 0)[1]
    return pickle.loads(told) if told and not os.WIFSIGNALED(status) else f"signal {os.WTERMSIG(status)}"


def outputs(model, feeds, as_it_is):
    import zoo

    return tried(lambda: list(zoo.run(zoo.session(model, as_it_is), feeds).values()))


def allowed(arrays):
    return 2e-2 if any(str(array.dtype) in ("float16", "bfloat16") for array in arrays) else 1e-4


def kind_of(why):
    if why.startswith("signal"):
        return "dead"
    if any(words in why for words in NO_KERNEL):
        return "without a kernel"
    return "unjudged" if any(words in why for words in TOO_NEW) else "refused"


class Originals:
    """What this release makes of them, asked once."""

    def __init__(self):
        self.known = {}

    def at(self, path, level):
        import zoo

        if (path, level) not in self.known:
            self.known[path, level] = outputs(path, zoo.beside(pathlib.Path(path))[0], level)
        return self.known[path, level]


def farthest(got, wanted):
    import zoo

    return max((zoo.apart(a, b) for a, b in zip(got, wanted)), default=0.0)


def verdict(originals, original, result):
    import zoo

    wanted = originals.at(original, True)
    if isinstance(wanted, str):
        return "unjudged", f"the original: {wanted}"
    feeds, far = zoo.beside(pathlib.Path(original))[0], 0.0
    for level in LEVELS:
        got, was = outputs(result, feeds, level), originals.at(original, level)
        name = "without optimizations" if level else "with optimizations"
        if isinstance(got, str):
            if isinstance(was, str):
                continue
            return kind_of(got), f"{name}: {got}"
        apart = farthest(got, wanted)
        limit = max(allowed(wanted), 0.0 if isinstance(was, str) else farthest(was, wanted))
        if not apart <= limit:
            return "wrong", f"{name}: {apart:.2e}, allowed {limit:.2e}"
        far = max(far, apart)
    return "equal", f"{far:.1e}"


def judge_here():
    """In one of the interpreters: pairs of paths come in as lines of JSON, and a verdict goes out for each."""
    import onnxruntime

    told = os.fdopen(os.dup(1), "w")
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    print(onnxruntime.__version__, file=told, flush=True)
    originals = Originals()
    for line in sys.stdin:
        print(json.dumps(verdict(originals, *json.loads(line))), file=told, flush=True)


class Release:
    def __init__(self, python):
        self.process = subprocess.Popen([python, __file__, "--judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self.process.stdout.readline().strip()
        self.known = {}  # by the original and the bytes of the result

    def judge(self, original, result, digest):
        if (original, digest) not in self.known:
            print(json.dumps([str(original), str(result)]), file=self.process.stdin, flush=True)
            self.known[original, digest] = json.loads(self.process.stdout.readline())
        return self.known[original, digest]


def wants_sizes(binary, target):
    says = json.loads(subprocess.run([binary, "targets", "show", target, "--json"], capture_output=True, text=True, check=True).stdout)
    return any(limit.get("static_shapes") for limit in says.get("limits", []))


def write(args, model, target, opset, folder):
    """The result's path, or why there is none."""
    from refused import fixed

    source, dims, _ = fixed(model, folder) if wants_sizes(args.binary, target) else (model, [], None)
    out = folder / f"{model.stem}.{target.replace('@', '_')}.{opset}.onnx"
    words = [args.binary, "optimize", source, "-o", out, "--target", target, "-q", *dims, *args.words]
    done = subprocess.run([str(word) for word in words + (["--opset", opset] if opset != "default" else [])], capture_output=True, text=True)
    return out if done.returncode == 0 else f"exit status {done.returncode}: {done.stderr.strip().splitlines()[-1][:300] if done.stderr.strip() else ''}"


def rows_of(args, releases, folder):
    models = [m for m in sorted(args.zoo.glob("*.onnx")) if m.stem.startswith(tuple(args.names))]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for target in args.targets:
            for opset in args.opsets:
                for model, out in zip(models, pool.map(lambda m: write(args, m, target, opset, folder), models)):
                    if isinstance(out, str):
                        yield target, opset, model.stem, "", "not written", out
                        continue
                    digest = hashlib.sha256(out.read_bytes()).hexdigest()
                    for release in releases:
                        yield target, opset, model.stem, release.name, *release.judge(model, out, digest)
                    if args.keep is None:
                        out.unlink()


def main():
    if sys.argv[1:] == ["--judge"]:
        return judge_here()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zoo", type=pathlib.Path)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    parser.add_argument("--binary", default=str(ROOT / "build" / "release" / "tools" / "saturate"))
    parser.add_argument("--targets", nargs="+", help="these alone")
    parser.add_argument("--opsets", nargs="+", default=OPSETS)
    parser.add_argument("--names", nargs="+", default=[""], help="what names of models begin with")
    parser.add_argument("--word", dest="words", action="append", default=[], help="a further word for saturate, as --word=--no-verify")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the results")
    parser.add_argument("--json", type=pathlib.Path, help="all rows")
    args = parser.parse_args()
    # Each with its oldest release: without one it is that of this machine.
    args.targets = args.targets or ["@".join([t["name"], *list(t.get("runtime", {}).get("versions", []))[:1]]) for t in json.loads(subprocess.run([args.binary, "targets", "list", "--json"], capture_output=True, text=True, check=True).stdout)]
    releases, rows, bad = [Release(python) for python in args.pythons], [], 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for row in rows_of(args, releases, folder):
            rows.append(row)
            target, opset, name, release, kind, why = row
            if kind in BAD or (target.startswith("ort-cpu") and (kind == "without a kernel" or any(words in why for words in TOO_NEW) and not why.startswith("the original"))):
                bad += 1
                print(f"{target} opset {opset} {name} in {release}: {kind}: {why}", file=sys.stderr, flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows))
    kinds = ("equal", *BAD, "without a kernel", "unjudged", "not written")
    counts = collections.Counter((target, opset, release, kind) for target, opset, _, release, kind, _ in rows)
    print(f"| target | opset | ONNX Runtime | {' | '.join(kinds)} |\n|{'---|' * (len(kinds) + 3)}")
    for target, opset, release in dict.fromkeys(key[:3] for key in counts if key[2]):
        numbers = [counts[target, opset, "" if kind == "not written" else release, kind] for kind in kinds]
        print(f"| `{target}` | {opset} | {release} | {' | '.join(map(str, numbers))} |")
    for (target, why), number in collections.Counter((target, why) for target, _, _, _, kind, why in rows if kind == "not written").most_common():
        print(f"{target}: {number} not written: {why}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
