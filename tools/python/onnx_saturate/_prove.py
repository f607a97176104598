"""Whether two models are the same."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _convert, _core
from ._convert import ModelLike
from ._optimize import _core_options
from ._options import Options
from ._report import Told

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Proof(Told):
    """What was found of two models: `print(proof)` shows it, `to_dict()` has everything, and a proof is true where both are the same."""

    def __init__(self, verdict: str, text: str, details: str) -> None:
        super().__init__(text, details)
        self.verdict = verdict
        """`proven`; `different`: numbers differ; `open`: neither was found."""

    @property
    def laws(self) -> list[dict[str, Any]]:
        """The rules that the proof uses, the most used first: `rule`, `effect`, `assumes`, `times`."""
        laws: list[dict[str, Any]] = self.to_dict()["laws"]
        return laws

    @property
    def regions(self) -> list[dict[str, Any]]:
        """The places at which the models part: `outputs`, `operators` and `nodes`, a pair each, of the first and of the second model."""
        regions: list[dict[str, Any]] = self.to_dict()["regions"]
        return regions

    def __bool__(self) -> bool:
        return self.verdict == "proven"

    def __repr__(self) -> str:
        return f"<Proof: {self.verdict}, {len(self.laws)} laws, {len(self.regions)} open places>"


def prove(first: ModelLike, second: ModelLike, **options: Unpack[Options]) -> Proof:
    """Shows that two models compute the same whatever the inputs: both are rewritten in one e-graph over the same inputs and weights.

    Outputs that come to be one class are equal by the rules' laws (docs/prove.md). Where no proof is found, both are run on drawn inputs.
    Of the options: `rules`, `assume`, `no_assume`, `within_one_step`, `rescale`, `approximate`, `node_limit`, `time_limit`, `threads`;
    for the runs `dims`, `input_shapes`, `seed`, `max_memory`, `judge`, `onnxruntime`; `base_dir`.
    """
    a = _convert.to_core(first, options.get("base_dir"))
    b = _convert.to_core(second, options.get("base_dir"))
    return Proof(*_core.prove(a, b, _core_options(options, a)))
