"""Reads the two sides of a rule's text as graphs to be drawn. It knows less than the language: what it can't read has no picture."""
import re

from draw import Box

TOKEN = re.compile(r'"[^"]*"|#[^\n]*|<=>|=>|\.\.\w+|@?[A-Za-z_][\w.]*|-?\d[\w.+-]*|[(){}\[\]<>,=?|;:]|[^\s\w]|\n')
WITH_WORD = {"effect", "rounding", "budget", "phase", "tolerance", "yields_to"}
ALONE = {"if_unsupported", "if_any_unsupported", "if_lacking", "if_refused", "moves_quantizers"}
ENDS = {"where", "let", "example", "counterexample", "=>", "<=>", "backward"} | WITH_WORD | ALONE | {"assume"}


class Unread(Exception):
    pass


class Side:
    """A reader of one side; values are boxes by name."""

    def __init__(self, tokens, values, kind):
        self.tokens, self.values, self.kind, self.boxes = tokens, dict(values), kind, []

    def peek(self):
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted=None):
        if not self.tokens or (wanted and self.tokens[0] != wanted):
            raise Unread(f"{wanted} expected, {self.peek()!r} found")
        return self.tokens.pop(0)

    def box(self, label, kind, inputs=()):
        self.boxes.append(Box(label, kind, list(inputs)))
        return self.boxes[-1]

    def skip_attributes(self):
        depth = 0
        while True:
            token = self.take()
            depth += token in "([<" if token in ("(", "[", "<") else -(token in (")", "]", ">"))
            if depth == 0:
                return

    def value(self, name):
        if name not in self.values:
            self.values[name] = self.box(name, "constant")
        return self.values[name]

    def expression(self):
        token = self.take()
        if token == "[":
            words = ["["]
            while words[-1] != "]":
                words.append(self.take())
            return self.box("".join(words), "constant")
        if re.match(r"-?\d", token) or token == "-":
            return self.box(token, "constant")
        if not re.match(r"@?[A-Za-z_]", token):
            raise Unread(token)
        if self.peek() == "?":
            self.take()
        if self.peek() == "<":
            self.skip_attributes()
            if self.peek() not in ("(",) and not self.peek().startswith("@"):
                raise Unread(self.peek())
        elif self.peek() != "(" and not self.peek().startswith("@"):
            return self.value(token)
        if self.peek().startswith("@"):  # operands that a table of instances gives
            return self.box(token, self.kind, [self.value(self.take())])
        self.take("(")
        inputs = self.arguments()
        if token == "Identity" and len(inputs) == 1:
            return inputs[0]
        return self.box(token, self.kind, inputs)

    def arguments(self):
        inputs = []
        while self.peek() != ")":
            if self.peek() in (",", "|"):
                self.take()
            else:
                inputs.append(self.expression())
            if self.peek() == "?":
                self.take()
        self.take(")")
        return inputs

    def nodes(self):
        self.take("{")
        while self.peek() != "}":
            names = []
            while self.peek() != "=":
                token = self.take()
                names += [token] if token != "," else []
            self.take("=")
            made = self.expression()
            if self.peek() == "?":
                self.take()
            self.values.update({name: made for name in names})
        self.take("}")

    def read(self, outputs):
        """All boxes, an output box below what makes it."""
        if self.peek() == "{":
            self.nodes()
            made = [self.values[name] for name in outputs if name in self.values]
        else:
            made = [self.expression()]
        if not made:
            raise Unread("no output")
        for name, box in zip(outputs, made):
            self.box(name, "output", [box])
        return self.boxes


def reachable(boxes):
    """Without inputs that this side does not read."""
    seen, stack = {}, [b for b in boxes if b.kind == "output"]
    while stack:
        box = stack.pop()
        if id(box) not in seen:
            seen[id(box)] = box
            stack += box.inputs
    return list(reversed(list(seen.values())))


def names_in(tokens):
    """`(A, B?, C)` at the front, taken off."""
    names = []
    if tokens.pop(0) != "(":
        raise Unread("no list of names")
    while (token := tokens.pop(0)) != ")":
        if token not in (",", "?", "|"):
            names.append(token)
    return names


def skip_flags(tokens):
    """What stands between the header and the left side; a condition of `assume ... unless` ends with its line."""
    while tokens:
        if tokens[0] == "\n":
            tokens.pop(0)
        elif tokens[0] in WITH_WORD:
            del tokens[:2]
            while tokens and re.match(r"\d", tokens[0]):
                tokens.pop(0)
        elif tokens[0] in ALONE:
            tokens.pop(0)
        elif tokens[0] == "assume":
            while tokens and tokens[0] != "\n":
                tokens.pop(0)
        else:
            return


def sides(text):
    """Two lists of boxes, and the arrow between them. Raises Unread."""
    tokens = [t for t in TOKEN.findall(text) if not t.startswith("#")]
    if "rule" not in tokens:
        raise Unread("no rule")
    tokens = tokens[tokens.index("rule") + 2:]
    try:
        if tokens[0] == "<":
            del tokens[:tokens.index(">") + 1]
        inputs = names_in(tokens) if tokens[0] == "(" else [tokens.pop(0)]
        while tokens[0] == "\n":
            tokens.pop(0)
        if tokens.pop(0) not in ("=>", "<=>"):
            raise Unread("no outputs")
        outputs = names_in(tokens)
        skip_flags(tokens)
        tokens = [t for t in tokens if t != "\n"]
        values = {name: Box(name, "input") for name in inputs}
        left = Side(tokens, values, "old")
        old = left.read(outputs)
        while tokens[0] not in ("=>", "<=>"):
            tokens.pop(0)
        arrow = tokens.pop(0)
        right = Side(tokens, {name: Box(name, "input") for name in inputs}, "new")
        new = right.read(outputs)
    except (IndexError, ValueError) as error:
        raise Unread(str(error)) from None
    return reachable(old), reachable(new), "=" if arrow == "<=>" else "→"
