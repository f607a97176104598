"""A study as its file tells it: read, checked, and every mistake told in one line with its place."""
from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .. import _core
from .._data_files import read_text
from .._errors import Error, OptionError
from .._options import Options, checked
from .._tune_ort import one_line

STUDIES = Path(__file__).parent / "studies"
"""The studies that come with the package."""
MEASURES = ("predicted", "measured", "nodes", "seconds", "saturation", "splits")
"""What can be measured: each is a group of columns. Unasked, splits are where graphs are drawn (`samples`)."""
_APART = {"target", "cost", "cost_at", "extractor", "seed", "inputs", "progress", "base_dir", "external_data", "measure", "measured", "dims", "onnxruntime"}
"""Options of `optimize` that a study says elsewhere, or that have no place in it."""
_TOP = ("title", "about", "models", "targets", "costs", "extractors", "seeds", "options", "variants", "measure", "samples", "timing")
_OF_MODELS = ("files", "maker", "script", "arguments", "family", "dims")


@dataclass(frozen=True)
class Timing:
    """How graphs are timed."""

    threads: int = 1
    rounds: int = 12
    """Rounds in which the original and the result are timed in turns; 6 at least, with fewer no interval is bounded."""
    burst: float = 0.02
    """Seconds of runs that one figure is the median of."""
    confidence: float = 0.95
    limit: float = 600.0
    """Seconds after which a piece of the study is given up."""


@dataclass(frozen=True)
class Source:
    """Where models come from: files, a maker of this package, or a script."""

    place: str
    """In the study's file, such as models[1]."""
    files: tuple[str, ...] = ()
    maker: str = ""
    sizes: Mapping[str, Any] | None = None
    """Of the maker: a number each."""
    script: str = ""
    arguments: tuple[str, ...] = ()
    family: str = ""
    dims: tuple[Mapping[str, int], ...] = ({},)


@dataclass(frozen=True)
class Study:
    """What is tried, and what is measured."""

    path: Path
    sha256: str
    """Of the file's text."""
    title: str
    about: str
    sources: tuple[Source, ...]
    targets: tuple[str, ...] = ("ort-cpu",)
    costs: tuple[str, ...] = ("measured",)
    extractors: tuple[str, ...] = ("search",)
    seeds: tuple[int, ...] = (0,)
    variants: tuple[tuple[str, Mapping[str, Any]], ...] = (("", {}),)
    """Sets of options, by name."""
    measure: tuple[str, ...] = MEASURES[:-1]
    samples: int = 0
    """Other equal graphs of each model that are drawn, priced and timed."""
    timing: Timing = Timing()

    @property
    def folder(self) -> Path:
        """What paths of the file are relative to."""
        return self.path.parent


def found(name: str) -> Path:
    """The file of a study: a path, or the name of one that comes with the package."""
    path = Path(name)
    mine = STUDIES / f"{name.removesuffix('.toml')}.toml"
    return mine if not path.exists() and "/" not in name and mine.exists() else path


def read(name: str) -> Study:
    """The study of this file; an `Error` of one line says what is wrong with it, where, and what to do."""
    path = found(name)
    if not path.exists():
        there = ", ".join(sorted(p.stem for p in STUDIES.glob("*.toml")))
        raise Error(f"{name}: there is no such file; name a study's file, or one that comes with the package ({there})")
    text = read_text(path)
    return _Reader(name).study(path, text, _parsed(name, text))


def _parsed(name: str, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise Error(f"{name}: Python {sys.version_info[0]}.{sys.version_info[1]} reads no TOML by itself; pip install tomli") from None
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Error(f"{name}: it is no TOML: {one_line(error)}; see docs/study.md for what a study looks like") from None


class _Reader:
    """Checks what stands in a file, key by key."""

    def __init__(self, name: str) -> None:
        self._name = name

    def wrong(self, place: str, what: str) -> NoReturn:
        raise Error(f"{self._name}: {place}: {what}")

    def keys(self, place: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in given:
            if key not in known:
                self.wrong(f"{place}{key}", f"no such key; {_core.what_instead(key, list(known))}")

    def table(self, place: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.wrong(place, f"{value!r} is no table; write [{place}]")
        return value

    def text(self, place: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            self.wrong(place, f"{value!r} is no text; put it between quotes")
        return value

    def several(self, place: str, value: Any) -> list[Any]:
        """A list, or one thing by itself."""
        out = value if isinstance(value, list) else [value]
        if not out:
            self.wrong(place, "the list is empty; leave the key out, or name something")
        return out

    def texts(self, place: str, value: Any) -> tuple[str, ...]:
        out = tuple(self.text(place, item) for item in self.several(place, value))
        twice = next((item for item in out if out.count(item) > 1), None)
        if twice is not None:
            self.wrong(place, f"{twice!r} is named twice; name it once")
        return out

    def whole(self, place: str, value: Any, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.wrong(place, f"{value!r} is no whole number from {least} to {most}")
        return value

    def number(self, place: str, value: Any, least: float, most: float) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            self.wrong(place, f"{value!r} is no number from {least:g} to {most:g}")
        return float(value)

    def study(self, path: Path, text: str, given: dict[str, Any]) -> Study:
        self.keys("", given, _TOP)
        if "models" not in given:
            self.wrong("models", "it is missing; write [[models]] and below it files, maker or script")
        entries = given["models"]
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            self.wrong("models", "it is no list of tables; write [[models]] and below it files, maker or script")
        shared: dict[str, tuple[str, ...]] = {name: self.texts(name, given[name]) for name in ("targets", "costs", "extractors") if name in given}
        if "measure" in given:
            self.keys("measure: ", dict.fromkeys(self.texts("measure", given["measure"])), MEASURES)
            shared["measure"] = tuple(name for name in MEASURES if name in given["measure"])
        elif given.get("samples"):
            shared["measure"] = MEASURES
        if "splits" in shared.get("measure", ()) and "measured" not in shared["measure"]:
            self.wrong("measure", "splits are of measured times; name measured, too")
        seeds = tuple(self.whole("seeds", seed, 0, 2**32 - 1) for seed in self.several("seeds", given.get("seeds", [0])))
        if len(set(seeds)) < len(seeds):
            self.wrong("seeds", "a seed is named twice; name it once")
        return Study(
            path, hashlib.sha256(text.encode()).hexdigest(), self.text("title", given.get("title", path.stem)), str(given.get("about", "")).strip(),
            tuple(source for number, entry in enumerate(entries, 1) for source in self.sources(f"models[{number}]", entry)),
            seeds=seeds, variants=self.variants(given), samples=self.whole("samples", given.get("samples", 0), 0, 1000),
            timing=self.timing(self.table("timing", given.get("timing", {}))), **shared,
        )  # fmt: skip

    def timing(self, given: dict[str, Any]) -> Timing:
        self.keys("timing.", given, list(Timing.__annotations__))
        usual = Timing()
        return Timing(
            self.whole("timing.threads", given.get("threads", usual.threads), 1, 4096),
            self.whole("timing.rounds", given.get("rounds", usual.rounds), 6, 10000),
            self.number("timing.burst", given.get("burst", usual.burst), 0, 60),
            self.number("timing.confidence", given.get("confidence", usual.confidence), 0.5, 0.999),
            self.number("timing.limit", given.get("limit", usual.limit), 1, 86400),
        )

    def variants(self, given: dict[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """The options of each variant, those of all within them."""
        common = self.options("options", given.get("options", {}))
        entries = given.get("variants")
        if entries is None:
            return (("", common),)
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            self.wrong("variants", "it is no list of tables; write [[variants]] and below it name and options")
        out: dict[str, Mapping[str, Any]] = {}
        for number, entry in enumerate(entries, 1):
            place = f"variants[{number}]"
            self.keys(f"{place}.", entry, ("name", "options"))
            name = self.text(f"{place}.name", entry.get("name"))
            if name in out:
                self.wrong(f"{place}.name", f"{name!r} is the name of another one, too; give it another")
            out[name] = {**common, **self.options(f"{place}.options", entry.get("options", {}))}
        return tuple(out.items())

    def options(self, place: str, value: Any) -> dict[str, Any]:
        given = self.table(place, value)
        for key in sorted(_APART & given.keys()):
            self.wrong(f"{place}.{key}", "a study says this elsewhere; see targets, costs, extractors, seeds, models and timing")
        self.keys(f"{place}.", given, sorted(set(Options.__annotations__) - _APART))
        try:
            checked(given)
        except OptionError as error:
            self.wrong(place, str(error))
        return given

    def sources(self, place: str, entry: dict[str, Any]) -> list[Source]:
        kinds = [kind for kind in ("files", "maker", "script") if kind in entry]
        if len(kinds) != 1:
            self.wrong(place, f"it has {' and '.join(kinds) or 'neither files nor maker nor script'}; give exactly one of files, maker and script")
        family = self.text(f"{place}.family", entry["family"]) if "family" in entry else ""
        dims = self.dims(f"{place}.dims", entry.get("dims", {}))
        if kinds[0] == "maker":
            return [Source(place, maker=entry["maker"], sizes=sizes, family=family, dims=dims) for sizes in self.made(place, entry)]
        self.keys(f"{place}.", entry, _OF_MODELS)
        if kinds[0] == "files":
            return [Source(place, files=self.texts(f"{place}.files", entry["files"]), family=family, dims=dims)]
        arguments = tuple(str(word) for word in entry.get("arguments", []))
        return [Source(place, script=self.text(f"{place}.script", entry["script"]), arguments=arguments, family=family, dims=dims)]

    def dims(self, place: str, value: Any) -> tuple[Mapping[str, int], ...]:
        """Sizes of dims; where one has several, all combinations."""
        given = self.table(place, value)
        lists = [[self.whole(f"{place}.{name}", size, 0, 2**31) for size in self.several(f"{place}.{name}", sizes)] for name, sizes in given.items()]
        return tuple(dict(zip(given, sizes)) for sizes in itertools.product(*lists))

    def made(self, place: str, entry: dict[str, Any]) -> Iterable[Mapping[str, Any]]:
        """The sizes of each model that a maker makes; where one is a list, all combinations."""
        from ._makers import MAKERS

        maker = self.text(f"{place}.maker", entry["maker"])
        if maker not in MAKERS:
            self.wrong(f"{place}.maker", f"{maker!r} is no maker; {_core.what_instead(maker, list(MAKERS))}")
        usual = MAKERS[maker].sizes
        self.keys(f"{place}.", entry, ("maker", "family", "dims", *usual))
        lists = [
            [self.whole(f"{place}.{name}", size, 1, 1 << 16) for size in self.several(f"{place}.{name}", entry.get(name, default))]
            for name, default in usual.items()
        ]
        return [dict(zip(usual, sizes)) for sizes in itertools.product(*lists)]
