"""Tries a package where nothing of ours is installed: it optimizes the bundled model, and verifies the result."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from libraries import FOLDER, run

MODEL = FOLDER.parent.parent / "tests/data/bart_encoder.onnx"
# What every Linux has; a package may ask for nothing else.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1"}

FROM_PYTHON = """
import onnx_saturate
model, report = onnx_saturate.optimize_with_report("model.onnx", cost="nodes")
types = [node.op_type for node in model.graph.node]
assert types.count("Attention") == 2 and len(types) < 60, types
exact, report = onnx_saturate.optimize_with_report("model.onnx", cost="nodes", extractor="ilp")
assert report.to_dict()["proved"] and len(exact.graph.node) <= len(types), report.to_dict()["proved"]
assert onnx_saturate.verify("model.onnx", model).equal
assert onnx_saturate.verify("model.onnx", "out.onnx").equal
"""


def needs(path):
    """The shared libraries that a file asks for."""
    told = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    return {line.split("[")[1].rstrip("]") for line in told.splitlines() if "(NEEDED)" in line}


def check_needs(path):
    more = {name for name in needs(path) if name not in EVERYWHERE and not name.startswith("ld-linux")}
    if more:
        raise SystemExit(f"tools/wheels: error: {path.name} asks for {', '.join(sorted(more))}")


def command_lines(*command):
    return [[*command, "model.onnx", "-o", "out.onnx", "--cost", "nodes"], [*command, "verify", "model.onnx", "out.onnx"]]


def clean(path="/usr/bin:/bin"):
    """An environment without what this session or a build set."""
    return {"PATH": path, "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def try_wheel_here(wheel, python):
    print(f"tools/wheels: trying {wheel.name} in a fresh environment", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(MODEL, folder / "model.onnx")
        run(python, "-m", "venv", folder / "venv")
        run(folder / "venv/bin/python", "-m", "pip", "install", "-q", wheel)
        (module,) = folder.glob("venv/lib/python*/site-packages/onnx_saturate/_core*.so")
        check_needs(module)
        for words in command_lines(folder / "venv/bin/saturate"):
            run(*words, cwd=folder, env=clean(), stdout=subprocess.DEVNULL)
        run(folder / "venv/bin/python", "-c", FROM_PYTHON, cwd=folder, env=clean())


class Place:
    """A folder in the root of another system, and commands that run there (as root only), by qemu where the root is for another processor."""

    def __init__(self, root, machine):
        self.root = root.resolve()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="saturate-", dir=self.root / "tmp"))
        self.inside = pathlib.Path("/") / self.folder.relative_to(self.root)
        self.emulator = []
        if machine != os.uname().machine:
            shutil.copy(shutil.which(f"qemu-{machine}-static"), self.folder / "qemu")
            self.emulator = [self.inside / "qemu"]

    def __enter__(self):
        shutil.copy(MODEL, self.folder / "model.onnx")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def run(self, *words):
        run("unshare", "--root", self.root, "--wd", self.inside, *self.emulator, *words, env=clean("/usr/bin:/bin:/usr/sbin:/sbin"), stdout=subprocess.DEVNULL)


def python_of(root, version, stable):
    """(interpreter as it is called there, its version) in a root: of this version, or with `stable` of a later one, too; None without one."""
    for path in sorted([*root.glob("usr/local/bin/python3.*"), *root.glob("usr/bin/python3.*")]):
        found = re.fullmatch(r"python3\.(\d+)", path.name)
        if found and (path.name == f"python{version}" or stable and int(found[1]) > int(version.partition(".")[2])):
            return f"/{path.relative_to(root)}", f"3.{found[1]}"
    return None


def download(work, version, machine):
    """A folder with pip and all packages that the wheel asks for, for this interpreter and processor."""
    folder = work / f"packages-{version}-{machine}"
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, 29)] + [f"--platform=manylinux2014_{machine}"]
    run(sys.executable, "-m", "pip", "download", "-q", "-d", folder, "--only-binary=:all:", "--python-version", version, *platforms, "pip", "numpy", "onnx", "ml_dtypes")
    return folder


def try_wheel_in(root, wheel, version, machine, work):
    """Whether the root has an interpreter for the wheel; then it is tried. Nothing there starts another program: qemu would not go along."""
    found = python_of(root, version, "-abi3-" in wheel.name)
    if found is None:
        return False
    python, its_version = found
    print(f"tools/wheels: trying {wheel.name} in {root} (CPython {its_version})", flush=True)
    packages = download(work, its_version, machine)
    with Place(root, machine) as place:
        shutil.copytree(packages, place.folder / "packages")
        shutil.copy(wheel, place.folder)
        place.run(python, "-m", "venv", "--without-pip", "venv")
        (pip,) = place.folder.glob("packages/pip-*.whl")
        inside = "venv/bin/python"
        place.run(inside, f"packages/{pip.name}/pip", "install", "-q", "--no-index", "--find-links", "packages", "--no-compile", wheel.name)
        for words in command_lines(inside, "venv/bin/saturate"):
            place.run(*words)
        place.run(inside, "-c", FROM_PYTHON)
    return True


def try_wheel(wheel, python, version, machine, roots, work):
    """Tries a wheel here and in each root that has an interpreter for it; whether there was one."""
    here = machine == os.uname().machine
    if here:
        try_wheel_here(wheel, python)
    return any([here, *(try_wheel_in(root, wheel, version, machine, work) for root in roots)])


def try_tarball(tarball, machine, roots):
    """Tries the command here, by qemu where it is for another processor, and in each root."""
    print(f"tools/wheels: trying {tarball.name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(MODEL, folder / "model.onnx")
        run("tar", "-xf", tarball, "-C", folder, "--strip-components=1")
        check_needs(folder / "bin/saturate")
        emulator = [] if machine == os.uname().machine else [f"qemu-{machine}-static", "-L", f"/usr/{machine}-linux-gnu"]
        for words in command_lines(*emulator, folder / "bin/saturate"):
            run(*words, cwd=folder, env=clean(), stdout=subprocess.DEVNULL)
    for root in roots:
        print(f"tools/wheels: trying {tarball.name} in {root}", flush=True)
        with Place(root, machine) as place:
            run("tar", "-xf", tarball, "-C", place.folder, "--strip-components=1")
            for words in command_lines("bin/saturate"):
                place.run(*words)
