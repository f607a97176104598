"""What a package holds: a software bill of materials (CycloneDX), and the licenses."""
import hashlib
import json
import pathlib
import re
import urllib.parse
import uuid

import libraries

ROOT = libraries.FOLDER.parent.parent


def version():
    return re.search(r"project\(saturate VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def component(name, version, license, purl, part, **more):
    if part == "headers":
        more["description"] = "headers only"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "licenses": [{"expression": license}], "purl": purl,
            "scope": "required", **more}  # yapf: disable


def of_source(source):
    version = urllib.parse.quote(source.version, safe="~")
    if source.kind == "sdist":
        purl, told = f"pkg:pypi/{source.package}@{version}", "the source distribution"
    else:
        purl, told = f"pkg:deb/debian/{source.package}@{version}?arch=source&distro=bookworm", "the .dsc, which names the SHA-256 of each file"
    properties = {"saturate:sha256": source.sha256, "saturate:sha256-of": told, "saturate:linked": source.part}
    return component(source.name, source.release, source.license, purl, source.part, properties=[{"name": k, "value": v} for k, v in properties.items()])


def held(sources, python):
    """What a package holds: the extension module all, the command what is not for modules."""
    return [source for source in sources if python or source.part != "module"]


def bill(sources, compiler, python, stamp):
    """A CycloneDX document. `compiler`: (name, version, its libraries that are linked); `python`: whether the extension module is meant."""
    parts = [of_source(source) for source in held(sources, python)]
    for nanobind in (source for source in held(sources, python) if source.part == "module"):
        parts.append(component("tsl-robin-map", nanobind.release, "MIT", f"pkg:pypi/nanobind@{nanobind.release}#ext/robin_map", "headers"))
    name, number, runtime = compiler
    parts += [component(library, number, license, f"pkg:generic/{library}@{number}", "static") for library, license in runtime]
    mine = f"pkg:pypi/onnx-saturate@{version()}" if python else f"pkg:generic/saturate@{version()}"
    text = json.dumps([mine, name, number, parts], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)}",
        "version": 1,
        "metadata": {
            "timestamp": stamp,
            "tools": {"components": [{"type": "application", "name": name, "version": number}]},
            "component": {"type": "library" if python else "application", "bom-ref": mine, "name": "onnx-saturate" if python else "saturate",
                          "version": version(), "purl": mine, "licenses": [{"expression": "Apache-2.0"}]},
        },
        "components": parts,
        "dependencies": [{"ref": mine, "dependsOn": [part["bom-ref"] for part in parts]}],
    }  # yapf: disable


def licenses(sources, folders, compiler, python):
    """Path and text of each library's license, and of the compiler's, whose libstdc++ is linked."""
    _, number, _ = compiler
    of_compiler = pathlib.Path(f"/usr/share/doc/gcc-{number.partition('.')[0]}-base/copyright")
    texts = {source.package: libraries.license_text(folders[source.package]) for source in held(sources, python)}
    return {f"licenses/{name}.txt": text for name, text in (texts | {"gcc": of_compiler.read_text()}).items()}
