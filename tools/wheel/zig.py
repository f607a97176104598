"""The compiler of the package ziglang: Clang with libc++, and the symbols of an older glibc."""
import subprocess
import sys

VERSION = "0.13.0"
TARGET = "x86_64-linux-gnu.2.28"


def script(path, *words):
    path.write_text("#!/bin/sh\nexec " + " ".join(words) + ' "$@"\n')
    path.chmod(0o755)
    return str(path)


def install(folder):
    """The environment that chooses it: CC, CXX, AR, RANLIB."""
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"ziglang=={VERSION}"], check=True)
    zig = [str(python), "-m", "ziglang"]
    # Zig checks for undefined behaviour unless told not to, and names a processor of its own.
    flags = ["-target", TARGET, "-mcpu=x86_64", "-fno-sanitize=undefined"]
    return {
        "CC": script(folder / "bin/zig-cc", *zig, "cc", *flags),
        "CXX": script(folder / "bin/zig-c++", *zig, "c++", *flags),
        "AR": script(folder / "bin/zig-ar", *zig, "ar"),
        "RANLIB": script(folder / "bin/zig-ranlib", *zig, "ranlib"),
    }
