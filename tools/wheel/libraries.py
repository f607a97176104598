"""Fetches the libraries of tools/wheel/sources.txt, checks them, and builds them static and hidden into one prefix."""
import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent

# What each library's CMake is told, beside what all are.
OPTIONS = {
    "fmtlib": ["-DFMT_TEST=OFF", "-DFMT_DOC=OFF"],
    "onetbb": ["-DTBB_TEST=OFF", "-DTBB_STRICT=OFF", "-DTBBMALLOC_BUILD=OFF", "-DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON"],
    "abseil": ["-DABSL_PROPAGATE_CXX_STD=ON", "-DBUILD_TESTING=OFF"],
    "protobuf": ["-Dprotobuf_BUILD_TESTS=OFF", "-Dprotobuf_BUILD_PROTOC_BINARIES=OFF", "-Dprotobuf_WITH_ZLIB=OFF"],
    "re2": ["-DRE2_BUILD_TESTING=OFF"],
    "eigen3": ["-DBUILD_TESTING=OFF", "-DEIGEN_BUILD_DOC=OFF", "-DEIGEN_TEST_CXX11=OFF"],
    "cli11": ["-DCLI11_BUILD_TESTS=OFF", "-DCLI11_BUILD_EXAMPLES=OFF", "-DCLI11_BUILD_DOCS=OFF", "-DCLI11_SINGLE_FILE=OFF"],
    "nlohmann-json3": ["-DJSON_BuildTests=OFF"],
    "onnx": [],
    "highspy": [],
}
RE2_TABLES = ("perl_groups", "unicode_casefold", "unicode_groups")


@dataclasses.dataclass
class Source:
    kind: str  # debian or sdist
    package: str
    version: str
    sha256: str
    license: str
    name: str  # in the bill of materials
    part: str = "static"  # or headers, or module

    @property
    def release(self):
        """The upstream version: without Debian's epoch and revision, and without what tells that it repacked the source."""
        return re.sub(r"[.+~](dfsg|ds)\d*$", "", self.version.partition(":")[2].rpartition("-")[0] or self.version.rpartition("-")[0] or self.version)


def read_sources():
    lines = (line.split() for line in (FOLDER / "sources.txt").read_text().splitlines() if line and not line.startswith("#"))
    return [Source(*line) for line in lines]


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


def run_quietly(*words, **options):
    """What it prints is shown only if it fails: apt and dpkg-source warn of signatures without keys, but hashes are what is checked here."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout}{done.stderr}tools/wheels: error: {words[0]} ended with status {done.returncode}")


def check_hash(path, wanted):
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != wanted:
        raise SystemExit(f"tools/wheels: error: {path.name}: its SHA-256 is {found}; tools/wheel/sources.txt says {wanted}")


def apt_options(folder):
    """Source packages are asked for beside the binary ones of this system, with lists of our own: the system's stay as they are."""
    parts = folder / "parts"
    for path in (parts, folder / "lists/partial", folder / "cache/archives/partial"):
        path.mkdir(parents=True, exist_ok=True)
    for path in [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]:
        if path.exists() and "debian" in path.read_text():
            text = re.sub(r"^Types:.*$", "Types: deb-src", path.read_text(), flags=re.M)
            (parts / path.name).with_suffix(path.suffix or ".list").write_text(re.sub(r"^deb ", "deb-src ", text, flags=re.M))
    words = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": parts, "Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache"}
    return [f"-o{key}={value}" for key, value in words.items()]


def fetch_debian(source, apt, downloads):
    dsc = downloads / f"{source.package}_{source.version.partition(':')[2] or source.version}.dsc"
    if not dsc.exists():
        run_quietly("apt-get", *apt, "source", "-q", "--download-only", f"{source.package}={source.version}", cwd=downloads)
    check_hash(dsc, source.sha256)
    return dsc


def fetch_sdist(source, downloads):
    path = downloads / f"{source.package}-{source.version}.tar.gz"
    if not path.exists():
        run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", source.package, "-d", downloads, f"{source.package}=={source.version}")
    check_hash(path, source.sha256)
    return path


def unpack(sources, work):
    """A folder of source code for each of `sources`, whose hashes were checked."""
    downloads = work / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    apt = None
    folders = {}
    for source in sources:
        folder = folders[source.package] = work / "source" / f"{source.package}-{source.sha256[:12]}"
        if folder.exists():
            continue
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        if source.kind == "debian":
            if apt is None:
                apt = apt_options(work / "apt")
                run_quietly("apt-get", *apt, "update", "-q")
            # With the distribution's own corrections: dpkg-source applies its patches.
            run_quietly("dpkg-source", "-q", "-x", fetch_debian(source, apt, downloads), part)
        else:
            part.mkdir()
            run("tar", "-xf", fetch_sdist(source, downloads), "-C", part, "--strip-components=1")
        part.rename(folder)
    return folders


def license_text(folder):
    """The license of a source, and of what it brings along in `ext` or names in a file of its own."""
    own = [folder / name for name in ("debian/copyright", "LICENSE", "LICENSE.txt") if (folder / name).exists()]
    if not own:
        raise SystemExit(f"tools/wheels: error: no license in {folder}")
    return "\n".join(path.read_text(errors="replace") for path in [own[0], *sorted(folder.glob("ext/*/LICENSE")), *folder.glob("THIRD_PARTY_NOTICES.md"), *folder.glob("extern/pdqsort/license.txt")])


def cmake_steps(source, folder, build_folder, prefix, jobs):
    more = OPTIONS[source.package]
    if source.package == "onnx":
        folder, more = FOLDER / "onnx", [f"-DONNX_SOURCE={folder}"]
    if source.package == "highspy":
        folder, more = FOLDER / "highs", [f"-DHIGHS_SOURCE={folder}", f"-DHIGHS_RELEASE={source.version}"]
    common = [
        "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={prefix}", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_INSTALL_LIBDIR=lib",
        "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON", "-DCMAKE_CXX_STANDARD=20",
        "-DCMAKE_C_VISIBILITY_PRESET=hidden", "-DCMAKE_CXX_VISIBILITY_PRESET=hidden", "-DCMAKE_VISIBILITY_INLINES_HIDDEN=ON",
        "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF",
    ]
    if shutil.which("ccache"):
        common += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    # Debian's source of RE2 lacks what is made from Unicode's tables.
    made = [["make", "-C", folder, "REBUILD_TABLES=1", *(f"re2/{name}.cc" for name in RE2_TABLES)]] if source.package == "re2" else []
    return made + [
        ["cmake", "-S", folder, "-B", build_folder, *common, *more],
        ["cmake", "--build", build_folder, "-j", jobs],
        ["cmake", "--install", build_folder],
    ]


def zlib_steps(folder, prefix, jobs):
    """Debian's source lacks a file that zlib's CMake asks for."""
    return [[folder / "configure", "--static", f"--prefix={prefix}"], ["make", f"-j{jobs}", "libz.a"], ["make", "install"]]


def build(sources, folders, work, compiler, jobs):
    """The prefix with all libraries, built by `compiler` (its environment: CC, CXX); what is built already stays."""
    prefix = work / "prefix"
    for source in (source for source in sources if source.part != "module"):
        stamp = prefix / "built" / f"{source.package}-{source.sha256[:12]}"
        if stamp.exists():
            continue
        print(f"tools/wheels: building {source.name} {source.version}", flush=True)
        build_folder = work / "libraries" / source.package
        shutil.rmtree(build_folder, ignore_errors=True)
        build_folder.mkdir(parents=True)
        folder = folders[source.package]
        environment = os.environ | compiler
        if source.package == "zlib":
            steps = zlib_steps(folder, prefix, jobs)
            environment |= {"CFLAGS": "-O2 -fPIC -fvisibility=hidden"}
        else:
            steps = cmake_steps(source, folder, build_folder, prefix, jobs)
        log = build_folder / "log"
        with open(log, "w") as out:
            try:
                for step in steps:
                    run(*step, cwd=build_folder, env=environment, stdout=out, stderr=out)
            except subprocess.CalledProcessError:
                sys.stderr.write("".join(log.read_text(errors="replace").splitlines(True)[-40:]))
                raise SystemExit(f"tools/wheels: error: {source.name} could not be built; {log} has all of it") from None
        stamp.parent.mkdir(exist_ok=True)
        stamp.touch()
    return prefix
