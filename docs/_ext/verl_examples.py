"""``.. verl-examples:: FILE BACKEND``: verl's own examples that do not fit, computed while the page is built.

The file has the overrides of scripts of verl's main branch. They rest on the newest bundled release; what the
branch does of its own accord, and that release only where a key asks for it, is asked for.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from msgspec import Struct
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from kept_answers import cached_answer
from tables import table
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.memory import Item
from tuner.units import GIB

DATA = Path(__file__).resolve().parents[1] / "validation" / "data"
GPU, RELEASE = "h100-sxm", "0.9.1"
#: What the branch does under FSDP without a key: gradients are reduced with the last micro-batch alone.
#: Source: verl's main ``workers/engine/fsdp/transformer_impl.py`` (``no_sync``,
#: ``set_requires_gradient_sync``).
_KEY = "use_no_sync_for_gradient_accumulation=True"
DEFERRED = {
    "actor_rollout_ref.": (f"actor_rollout_ref.actor.fsdp_config.{_KEY}",),
    "engine": (f"engine.{_KEY}",),
}
_PARTS = 3  # the largest that are named


class Priced(Struct, frozen=True, kw_only=True):
    """One script as the tool prices it: the phase with the highest peak, its parts, and the answer."""

    gpus: int
    phase: str
    peak_bytes: int
    fits: bool
    parts: tuple[tuple[str, int], ...]
    advised_bytes: int | None  # with the block to paste; None without one


def examples(file: str) -> list[dict[str, Any]]:
    """The scripts of a file: path, commit, overrides."""
    return [json.loads(line) for line in (DATA / file).read_text(encoding="utf-8").splitlines()]


def shards(overrides: Sequence[str]) -> bool:
    """Whether FSDP trains, and not Megatron."""
    return not any(".megatron." in override for override in overrides)


def as_the_branch(overrides: Sequence[str]) -> tuple[str, ...]:
    """The overrides, with what the branch does of its own accord."""
    if not shards(overrides):
        return tuple(overrides)
    fine_tunes = not any("actor_rollout_ref." in override for override in overrides)
    return (*overrides, *DEFERRED["engine" if fine_tunes else "actor_rollout_ref."])


@cached_answer(words=False)
def priced(*overrides: str) -> Priced:
    """What the tool says of a job on the card of this page."""
    answered = consult(overrides[0], overrides[1:], Premises(gpu=GPU, verl_version=RELEASE)).advice
    worst, block = answered.estimate.worst, answered.combination
    parts = sorted(((worst.bytes_of(item), item.value) for item in Item), reverse=True)[:_PARTS]
    return Priced(
        gpus=answered.workload.cluster.gpus,
        phase=worst.phase.value,
        peak_bytes=worst.peak_bytes,
        fits=worst.peak_bytes <= answered.estimate.capacity_bytes,
        parts=tuple((name, size) for size, name in parts),
        advised_bytes=None if block is None else block.estimate.worst.peak_bytes,
    )


@cached_answer(words=False)
def peak_and_fit(*overrides: str) -> tuple[int, bool]:
    """The worst peak and whether the card holds it, for which nothing to paste is looked for."""
    premises = Premises(gpu=GPU, verl_version=RELEASE)
    found = consult(overrides[0], overrides[1:], premises, block=False).advice.estimate
    return found.worst.peak_bytes, found.worst.peak_bytes <= found.capacity_bytes


def _gib(size: int | None) -> str:
    return "–" if size is None else f"{size / GIB:.1f}"


def row(example: dict[str, Any]) -> list[str]:
    """One script."""
    overrides = tuple(example["overrides"])
    whole = priced(*as_the_branch(overrides))
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in whole.parts)
    folder, name = example["path"].removeprefix("examples/").rsplit("/", 1)
    script = f"``{folder}/`` ``{name}``"  # two words, so that the column is no wider than the longer one
    cells = [script, str(whole.gpus), f"``{whole.phase}``"]
    cells += [_gib(whole.peak_bytes), parts]
    if shards(overrides):
        cells.append(_gib(peak_and_fit(*overrides)[0]))
    return [*cells, _gib(whole.advised_bytes)]


class VerlExamples(SphinxDirective):
    """A row for each script of a backend."""

    required_arguments = 2
    option_spec: ClassVar[OptionSpec] = {}

    def run(self) -> list[nodes.Node]:
        """The table."""
        file, backend = self.arguments
        self.env.note_dependency(str(DATA / file))
        header = ["Script", "GPUs", "Phase", "Peak, GiB", "Largest parts, GiB"]
        widths = [34, 8, 18, 10, 34]
        if backend == "fsdp":
            header.append("Reduced each time, GiB")
            widths.append(12)
        rows = [row(one) for one in examples(file) if shards(one["overrides"]) is (backend == "fsdp")]
        return table(self, [*header, "Advised, GiB"], rows, widths=[*widths, 10])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("verl-examples", VerlExamples)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
