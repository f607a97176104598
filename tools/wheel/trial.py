"""Tries a package where nothing of ours is installed: it optimizes the bundled model, and verifies the result."""
import pathlib
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


def command_lines(command):
    return [[command, "model.onnx", "-o", "out.onnx", "--cost", "nodes"], [command, "verify", "model.onnx", "out.onnx"]]


def clean(path="/usr/bin:/bin"):
    """An environment without what this session or a build set."""
    return {"PATH": path, "HOME": "/nonexistent", "LANG": "C.UTF-8"}


def try_wheel(wheel, python, work):
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


def try_tarball(tarball, work):
    print(f"tools/wheels: trying {tarball.name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(MODEL, folder / "model.onnx")
        run("tar", "-xf", tarball, "-C", folder, "--strip-components=1")
        check_needs(folder / "bin/saturate")
        for words in command_lines(folder / "bin/saturate"):
            run(*words, cwd=folder, env=clean(), stdout=subprocess.DEVNULL)


class Place:
    """A folder in the root of another system, and commands that run there (chroot, so as root only)."""

    def __init__(self, root):
        self.root = root
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="saturate-", dir=root / "tmp"))
        self.inside = pathlib.Path("/") / self.folder.relative_to(root)

    def __enter__(self):
        shutil.copy(MODEL, self.folder / "model.onnx")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def run(self, *words):
        script = 'cd "$1"; shift; exec "$@"'
        run("chroot", self.root, "/bin/sh", "-c", script, "sh", self.inside, *words, env=clean("/usr/bin:/bin:/usr/sbin:/sbin"), stdout=subprocess.DEVNULL)


def python_of(root, version):
    """The interpreter of this version in a root, as it is called there; None without one."""
    return next((f"/{folder}/python{version}" for folder in ("usr/local/bin", "usr/bin") if (root / folder / f"python{version}").exists()), None)


def try_wheel_in(root, wheel, version, work):
    python = python_of(root, version)
    if python is None:
        return
    print(f"tools/wheels: trying {wheel.name} in {root}", flush=True)
    packages = work / f"packages-{version}"
    run(sys.executable, "-m", "pip", "download", "-q", "-d", packages, "--only-binary=:all:", "--python-version", version, "numpy", "onnx", "ml_dtypes")
    with Place(root) as place:
        shutil.copytree(packages, place.folder / "packages")
        shutil.copy(wheel, place.folder)
        place.run(python, "-m", "venv", "venv")
        place.run("venv/bin/python", "-m", "pip", "install", "-q", "--no-index", "--find-links", "packages", place.inside / wheel.name)
        for words in command_lines("venv/bin/saturate"):
            place.run(*words)
        place.run("venv/bin/python", "-c", FROM_PYTHON)


def try_tarball_in(root, tarball, work):
    print(f"tools/wheels: trying {tarball.name} in {root}", flush=True)
    with Place(root) as place:
        run("tar", "-xf", tarball, "-C", place.folder, "--strip-components=1")
        for words in command_lines("bin/saturate"):
            place.run(*words)
