"""The search of `onnx_saturate.tune`: which settings to try, how two are compared, when it ends. Knows nothing of ONNX Runtime."""
from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Interval = tuple[float, float, float]
"""Median, and the bounds of its interval."""

FEWEST = 6
"""Rounds of a comparison: with fewer no interval of 95 % is bounded."""
MOST = 40
TICKS = 0.03
"""Seconds of other work in a round that may be a matter of counting."""
BLOCKS = 3
"""Times that the last comparison makes both sessions anew: where their memory lies is drawn with them."""
SETTLING = 0.4
"""Share of the budget that is kept for the last comparison."""


@dataclass(frozen=True)
class Settings:
    """Settings of an ONNX Runtime session. `Settings()` is what it does unasked."""

    providers: tuple[tuple[str, Mapping[str, Any]], ...] = (("CPUExecutionProvider", {}),)
    """Execution providers in their order, with their options."""
    intra_op_num_threads: int = 0
    """Threads of one operator; 0: as many as there are cores."""
    inter_op_num_threads: int = 0
    """Threads for operators side by side, in parallel execution; 0: as many as there are cores."""
    execution_mode: str = "sequential"
    """"sequential" or "parallel"."""
    graph_optimization_level: str = "all"
    """"disable", "basic", "extended", "layout" or "all"."""
    enable_cpu_mem_arena: bool = True
    """Keep freed memory for the next run."""
    enable_mem_pattern: bool = True
    """Plan the memory of a run by the run before."""
    io_binding: bool = False
    """Run with inputs and outputs bound, instead of handed over by each run."""
    config_entries: Mapping[str, str] = field(default_factory=dict)
    """Further entries of the session's configuration."""

    def changed(self, default: Settings) -> dict[str, Any]:
        """The fields that are others than the default's."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if getattr(self, f.name) != getattr(default, f.name)}

    def describe(self, default: Settings) -> str:
        """Those in words: "intra_op_num_threads=1, io_binding=True"; "defaults"."""
        words = []
        for name, value in self.changed(default).items():
            if name == "providers":
                words.append(f"providers={'+'.join(provider for provider, _ in value)}")
            elif name == "config_entries":
                words += [f"{key}={entry}" for key, entry in value.items()]
            else:
                words.append(f"{name}={value}")
        return ", ".join(words) or "defaults"


class Refused(Exception):
    """These settings don't run, or give other results; the message says why."""


class OutOfTime(Exception):
    """The budget ended while a session was made or run."""


class Lab(Protocol):
    """Where settings are measured."""

    def clock(self) -> float:
        """Seconds."""

    def open(self, settings: Settings) -> Any:
        """A session, run once; may raise `Refused` or `OutOfTime`."""

    def close(self, session: Any) -> None:
        """Its memory is given back."""

    def time(self, session: Any) -> float:
        """Seconds of one inference, by a burst of them; may raise `OutOfTime`."""

    def others(self) -> float:
        """Seconds that other work has taken of the machine's processors together, so far."""


Change = Mapping[str, Any]
"""Fields of `Settings` to set; `config_entries` are added to those that are there, and None takes one out."""


@dataclass(frozen=True)
class Trial:
    """One comparison: `settings` over `against`."""

    settings: Settings
    against: Settings
    verdict: str
    """"faster", "slower", "within noise", "not measured: ..." or "refused: ..."."""
    ratio: Interval | None
    """Its time over the other's; the median of paired rounds with its interval."""
    rounds: int


@dataclass(frozen=True)
class Found:
    """What a search ended with."""

    settings: Settings
    trials: Sequence[Trial]
    confirmed: Trial | None
    """The last comparison with the default settings, of new sessions; None where no settings came so far."""
    seconds: tuple[float, float] | None
    """Medians of that: default settings, these settings."""
    complete: bool
    """Every change was tried on the settings that were found; else the budget ended before."""
    rounds: int
    left_out: int
    """Of them, since other work disturbed them."""


def interval(ratios: Sequence[float], confidence: float) -> Interval:
    """The median with the interval that order statistics give it; bounds are 0 and infinity where there are too few."""
    ordered, n = sorted(ratios), len(ratios)
    if n == 0:
        return math.nan, 0.0, math.inf
    tail, below = (1 - confidence) / 2 * 2**n, 0
    for k in range(n // 2 + 1):  # below: ways in which fewer than k of n lie below the median
        below += math.comb(n, k)
        if below > tail:
            break
    return statistics.median(ordered), ordered[k - 1] if k else 0.0, ordered[n - k] if k else math.inf


def apply(settings: Settings, change: Change) -> Settings:
    """The settings with this change."""
    fields = dict(change)
    if "config_entries" in fields:
        entries = {**settings.config_entries, **fields["config_entries"]}
        fields["config_entries"] = {key: value for key, value in entries.items() if value is not None}
    return dataclasses.replace(settings, **fields)


class Search:
    """Climbs from the default settings: each change is tried on the best so far, in turns with it, and kept where it is clearly faster.

    What is found is compared with the default settings once more, with new sessions, and dropped unless it is faster there, too.
    """

    def __init__(
        self, lab: Lab, default: Settings, *, budget: float, gain: float, confidence: float, load: float, seed: int, told: Callable[[Trial], object]
    ) -> None:
        """`load`: processors that other work may take; rounds in which it takes more don't count."""
        self._lab, self._default, self._gain, self._confidence, self._load, self._told = lab, default, gain, confidence, load, told
        self._all = self._left_out = 0
        self._random = random.Random(seed)
        self._begin = lab.clock()
        self._end = self._begin + budget
        self._opening = 0.0  # the longest that a session took to open

    def run(self, changes: Sequence[Change]) -> Found:
        """The best settings that these changes make."""
        trials: list[Trial] = []
        best, complete = self._climb(changes, trials, self._end - SETTLING * (self._end - self._begin))
        if best == self._default:
            return Found(best, trials, None, None, complete, self._all, self._left_out)
        last, seconds = self._settle(best)
        self._told(last)
        return Found(best if last.verdict == "faster" else self._default, trials, last, seconds, complete, self._all, self._left_out)

    def _open(self, settings: Settings) -> Any:
        begin = self._lab.clock()
        if begin + self._opening > self._end:
            raise OutOfTime
        session = self._lab.open(settings)
        self._opening = max(self._opening, self._lab.clock() - begin)
        return session

    def _climb(self, changes: Sequence[Change], trials: list[Trial], end: float) -> tuple[Settings, bool]:
        best = self._default
        session = self._open(best)
        try:
            usual = self._lab.time(session)
            tried, waiting = {_key(best)}, list(changes)
            while waiting:
                settings = apply(best, waiting.pop(0))
                if _key(settings) in tried:
                    continue
                left = end - self._lab.clock()
                fewest = self._opening + 2 * FEWEST * usual
                if left < fewest:
                    return best, False
                tried.add(_key(settings))
                allotted = max(fewest, left / (len(waiting) + 1))
                trial, other = self._try(settings, best, session, (min(end, self._lab.clock() + allotted), end))
                trials.append(trial)
                self._told(trial)
                if other is None:
                    continue
                self._lab.close(session)
                best, session = settings, other
                usual = min(usual, self._lab.time(session))
                waiting = list(changes)
        except OutOfTime:
            return best, False
        finally:
            self._lab.close(session)
        return best, True

    def _try(self, settings: Settings, best: Settings, session: Any, ends: tuple[float, float]) -> tuple[Trial, Any]:
        """The comparison, and the session where it is the better one."""
        other = None
        try:
            other = self._open(settings)
            trial = self._judge(settings, best, self._compared(other, session, ends))
            if trial.verdict == "faster":
                kept, other = other, None
                return trial, kept
        except Refused as error:
            trial = Trial(settings, best, f"refused: {error}", None, 0)
        finally:
            if other is not None:
                self._lab.close(other)
        return trial, None

    def _compared(self, one: Any, two: Any, ends: tuple[float, float]) -> list[float]:
        """Ratios of rounds, until it is clear whether the first one is faster by the gain, or how far apart they are."""
        ratios: list[float] = []
        for mine, base in self._rounds(one, two, *ends):
            ratios.append(mine / base)
            ratio = interval(ratios, self._confidence)
            if len(ratios) >= FEWEST and (self._is_faster(ratio) or ratio[1] > 1 - self._gain):
                break
            if len(ratios) == 2 and min(ratios) > 2:
                break
        return ratios

    def _rounds(self, one: Any, two: Any, end: float, last: float, fewest: int = FEWEST) -> Iterator[tuple[float, float]]:
        """Times of both in turns, in an order drawn anew for each round, until `end`; where other work disturbs, up to `last`."""
        quiet = 0
        while quiet < MOST:
            begin, others = self._lab.clock(), self._lab.others()
            if self._random.random() < 0.5:
                first = self._lab.time(one)
                times = first, self._lab.time(two)
            else:
                second = self._lab.time(two)
                times = self._lab.time(one), second
            now = self._lab.clock()
            self._all += 1
            if self._lab.others() - others > max(TICKS, self._load * (now - begin)):
                self._left_out += 1
            else:
                quiet += 1
                yield times
            if now + (now - begin) > (end if quiet >= fewest else last):
                return

    def _is_faster(self, ratio: Interval) -> bool:
        return ratio[0] <= 1 - self._gain and ratio[2] < 1

    def _judge(self, settings: Settings, against: Settings, ratios: Sequence[float]) -> Trial:
        ratio = interval(ratios, self._confidence)
        if self._is_faster(ratio):
            verdict = "faster"
        elif ratio[1] > 1 or (len(ratios) < FEWEST and ratios and min(ratios) > 2):
            verdict = "slower"
        elif len(ratios) < FEWEST:
            verdict = "not measured: other work took the machine"
        else:
            verdict = "within noise"
        return Trial(settings, against, verdict, ratio, len(ratios))

    def _settle(self, best: Settings) -> tuple[Trial, tuple[float, float] | None]:
        """The last word, by new sessions: faster as a whole and in the median of every block."""
        pairs: list[tuple[float, float]] = []
        medians: list[float] = []
        try:
            for block in range(BLOCKS):
                begin = self._lab.clock()
                times = self._block(best, begin + (self._end - begin) / (BLOCKS - block))
                pairs += times
                medians += [statistics.median(mine / base for mine, base in times)] if times else []
        except (OutOfTime, Refused):
            pass
        trial = self._judge(best, self._default, [mine / base for mine, base in pairs])
        if len(medians) < 2:
            trial = dataclasses.replace(trial, verdict="not measured: the last comparison did not come to its end")
        elif trial.verdict == "faster" and max(medians) >= 1:
            trial = dataclasses.replace(trial, verdict="within noise")
        seconds = (statistics.median(base for _, base in pairs), statistics.median(mine for mine, _ in pairs)) if pairs else None
        return trial, seconds

    def _block(self, best: Settings, end: float) -> list[tuple[float, float]]:
        sessions: list[Any] = []
        try:
            order = [best, self._default]
            if self._random.random() < 0.5:
                order.reverse()
            by = {}
            for settings in order:
                by[_key(settings)] = self._open(settings)
                sessions.append(by[_key(settings)])
            return list(self._rounds(by[_key(best)], by[_key(self._default)], end, self._end, fewest=3))
        finally:
            for session in sessions:
                self._lab.close(session)


def _key(settings: Settings) -> str:
    return repr(dataclasses.astuple(settings))
