"""Puts the shared libraries that an extension module needs beside it, under names of their own (as auditwheel does).

usage: bundle.py [--patchelf PATCHELF] PACKAGE_FOLDER

What every Linux that runs Python has (glibc, libstdc++, zlib) stays outside. Each library is renamed by a hash of its bytes, so that a
process that also loads another build of it (protobuf, TBB) has both, and neither sees the other's symbols.
"""
import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess

OUTSIDE = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|z|python3.*))\.so")


def needed(path):
    """Path by name of every library that `path` needs, directly or not."""
    found = {}
    for line in subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout.splitlines():
        name, _, place = line.strip().partition(" => ")
        if OUTSIDE.match(pathlib.Path(name.split()[0]).name):
            continue
        if not place.startswith("/"):
            raise SystemExit(f"bundle.py: error: {path} needs {name}, which was not found")
        found[name] = pathlib.Path(place.split()[0]).resolve()
    return found


def own_name(name, path):
    stem, dot, rest = name.partition(".so")
    return f"{stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}{dot}{rest}"


def copy_license(path, folder):
    """The distribution's copyright file of the package that the library comes from, where there is dpkg."""
    if not shutil.which("dpkg"):
        return
    for place in (path, pathlib.Path(str(path).removeprefix("/usr"))):
        owner = subprocess.run(["dpkg", "-S", place], capture_output=True, text=True).stdout.partition(":")[0]
        text = pathlib.Path("/usr/share/doc") / owner / "copyright"
        if owner and text.exists():
            shutil.copyfile(text, folder / f"{owner}.txt")
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("--patchelf", default="patchelf")
    args = parser.parse_args()
    modules = sorted(args.package.glob("_core*.so"))
    if not modules:
        raise SystemExit(f"bundle.py: error: no _core*.so in {args.package}")
    folder = args.package / "_lib"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "licenses").mkdir(parents=True)

    libraries = {}
    for module in modules:
        libraries.update(needed(module))
    names = {name: own_name(name, path) for name, path in libraries.items()}

    def patch(path, *words):
        subprocess.run([args.patchelf, *words, path], check=True)

    renames = [word for old, new in names.items() for word in ("--replace-needed", old, new)]
    for name, path in libraries.items():
        copy = folder / names[name]
        shutil.copyfile(path, copy)
        copy.chmod(0o755)
        patch(copy, "--set-soname", names[name], "--set-rpath", "$ORIGIN", *renames)
        copy_license(path, folder / "licenses")
    for module in modules:
        patch(module, "--set-rpath", "$ORIGIN/_lib", *renames)


main()
