"""Pages that are made from what the command and the package say of themselves."""
import json
import re
import subprocess
import sys


def command(binary, out):
    """A page for each verb, from its --help."""
    out.mkdir(parents=True, exist_ok=True)

    def help_of(*words):
        return subprocess.run([binary, *words, "--help"], check=True, capture_output=True, text=True).stdout.rstrip()

    whole = help_of()
    verbs = re.findall(r"^  (\w+) ", re.search(r"^VERBS\n(.*?)\n\n", whole, flags=re.M | re.S)[1], flags=re.M)
    verbs = [v for v in verbs if v != "saturate"]
    (out / "index.md").write_text(f"# saturate\n\n```text\n{whole}\n```\n")
    for verb in verbs:
        (out / f"{verb}.md").write_text(f"# saturate {verb}\n\n```text\n{help_of(verb)}\n```\n")
    return verbs


# Run by a Python that has the package; prints {module: [[name, signature, doc, [[member, signature, doc], ...]], ...]}.
LIST = r"""
import importlib, inspect, json, sys

def told(thing):
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = ""
    return signature, inspect.getdoc(thing) or ""

pages = {}
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    rows = []
    for key in getattr(module, "__all__", [k for k, v in vars(module).items() if not k.startswith("_") and getattr(v, "__module__", "") == name]):
        thing = getattr(module, key)
        members = []
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, (property, staticmethod, classmethod))):
                    members.append([member, *told(value.__func__ if isinstance(value, (staticmethod, classmethod)) else value)])
        rows.append([key, *told(thing), members] if callable(thing) else [key, "", "", []])
    pages[name] = [inspect.getdoc(module) or "", rows]
json.dump(pages, sys.stdout)
"""

MODULES = ("onnx_saturate", "onnx_saturate.backend", "onnx_saturate.interop", "onnx_saturate.pre_post", "onnx_saturate.study", "onnx_saturate.tune")


def text_block(text):
    return ["```text", text, "```", ""] if text else []


def python(interpreter, out):
    """A page for each module, from its doc strings; False where the package is not installed."""
    done = subprocess.run([interpreter, "-c", LIST, *MODULES], capture_output=True, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        return False
    out.mkdir(parents=True, exist_ok=True)
    for module, (doc, rows) in json.loads(done.stdout).items():
        lines = [f"# {module}", "", *text_block(doc)]
        for name, signature, what, members in rows:
            lines += [f"## {name}", "", *([f"```python\n{name}{signature}\n```", ""] if signature else []), *text_block(what)]
            for member, signature, what in members:
                lines += [f"### {name}.{member}", "", *([f"```python\n{member}{signature}\n```", ""] if signature else []), *text_block(what)]
        (out / f"{module}.md").write_text("\n".join(lines) + "\n")
    return True


def keys(value, at=""):
    """Each key of a JSON value with the kind of what it holds; of a list the first element."""
    if isinstance(value, dict):
        for key, inner in value.items():
            kind = {dict: "object", list: "list", str: "text", bool: "true or false", int: "number", float: "number", type(None): "null"}[type(inner)]
            yield f"{at}{key}", kind
            yield from keys(inner, f"{at}{key}.")
    elif isinstance(value, list) and value:
        yield from keys(value[0], at.removesuffix(".") + "[].")


def json_page(binary, model, root, out):
    """The JSON that verbs print, key by key, from a run on the bundled model; and JSON Schemas where the repository has them."""
    def run(*words):
        return json.loads(subprocess.run([binary, *map(str, words)], check=True, capture_output=True, text=True).stdout)

    result = out / "result.onnx"
    asked = [("optimize", [model, "-o", result, "--json"]), ("verify", ["verify", model, result, "--json"]), ("inspect", ["inspect", model, "--json"]),
             ("explain", ["explain", model, "--op", "Attention", "--json"]), ("targets show", ["targets", "show", "npu-4d", "--json"])]
    lines = ["# JSON", "", "What `--json` prints, key by key, in a run on the bundled model. A list is shown by its first element.", ""]
    for schema in sorted(root.glob("docs/**/*.schema.json")):
        lines += [f"`{schema.relative_to(root)}` is a JSON Schema.", ""]
    for title, words in asked:
        lines += [f"## {title}", "", "| key | holds |", "|---|---|", *(f"| `{key}` | {kind} |" for key, kind in dict(keys(run(*words))).items()), ""]
    result.unlink()
    (out / "json.md").write_text("\n".join(lines))
