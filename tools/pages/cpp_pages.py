"""A page for each public header: its declarations, each with the comment above it.

A header is public if tools/install.cmake installs it. Ours keep to one form, which is all that is read here: comments begin with `//` (`/*` in C),
a declaration ends with the line on which its brackets are closed, and `private:` is the last part of a class."""
import re

OUTSIDE = re.compile(r'^(#|namespace\b|extern "C"|\}  // namespace|\} *$)')
NAMED = [re.compile(r"^typedef struct \{.*\}\s*(\w+);$"), re.compile(r"^(?:typedef )?(?:class|struct|union|enum(?: class| struct)?)\s+(?:\[\[\w+\]\]\s+)?(\w+)[^;]*\{"), re.compile(r"^using\s+(\w+)\s*="),
         re.compile(r"(operator\s*\S+?|\b~?\w+)\s*\("), re.compile(r"\b(\w+)\s*(?:=[^=].*|\{.*)?;")]


def public_headers(root):
    return [root / path for path in re.findall(r"\$\{PROJECT_SOURCE_DIR\}/(\S+\.h)\b", (root / "tools" / "install.cmake").read_text())]


def comment(line):
    """What a line of comment says; None if it is none."""
    found = re.match(r"\s*(?://|/\*+|\*(?!/))\s?(.*?)\s*(?:\*/)?$", line)
    return None if found is None else found[1]


def code_of(line):
    """A line without strings and comments, in which brackets count."""
    return re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*|/\*.*?\*/', "", line)


def without_private(lines):
    start = next((i for i, line in enumerate(lines) if re.match(r"\s*private:", line)), None)
    return lines if start is None else [line for line in lines[:start] if line.strip()] + lines[-1:]


def name_of(lines):
    text = " ".join(code_of(line).strip() for line in lines)
    text = re.sub(r"^template <.*?> (?=class|struct|using|\w)", "", text)
    return next((found[1] for pattern in NAMED if (found := pattern.search(text))), text)


def items(text):
    """(comment, lines of code) of each declaration at the outermost place; the first has no code: it is the header's own comment."""
    said, code, depth, begun = [], [], 0, False
    for line in text.splitlines():
        told = comment(line) if not code else None
        if not begun and told is None:
            yield said, []
            said, begun = [], True
        if told is not None:
            said.append(told)
        elif not code and (not line.strip() or OUTSIDE.match(line)):
            if not line.strip():
                said = []
        else:
            code.append(line)
            bare = code_of(line)
            depth += sum(bare.count(c) for c in "{([") - sum(bare.count(c) for c in "})]")
            if depth == 0 and re.search(r"[;}]\s*$", bare):
                yield said, code
                said, code = [], []


def prose(said):
    """Comments as Markdown: lines that are set in are code."""
    out, block = [], []
    for line in [*said, ""]:
        if line.startswith("  "):
            block.append(line[2:])
            continue
        if block:
            out += ["```cpp", *block, "```"]
            block = []
        out.append(line.replace("<", "&lt;"))
    return out


def page(path, root):
    installed = re.sub(r"^(tools/api|extract)/", "", str(path.relative_to(root)))
    lines = [f"# saturate/{installed}", ""]
    for said, code in items(path.read_text()):
        if code:
            lines += [f"## {name_of(code)}", "", *(prose(said) if said else []), "```cpp", *without_private(code), "```", ""]
        else:
            lines += prose(said)
    return "\n".join(lines) + "\n"


def write(root, out):
    """The pages; gives their titles and names."""
    out.mkdir(parents=True, exist_ok=True)
    made = []
    for path in public_headers(root):
        (out / f"{path.stem}.md").write_text(page(path, root))
        made.append((path.name, f"{path.stem}.md"))
    return made
