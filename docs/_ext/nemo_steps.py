"""``.. nemo-steps::``: the step times that NeMo-RL publishes, beside what the model says of its recipes.

Lengths are the published means; of a sequence the prompt is taken to have ``PROMPT_TOKENS``, as problems of
OpenMathInstruct-2 about have.

Source: NeMo-RL v0.7.0 ``docs/about/performance-summary.md`` (NeMo RL v0.6, BF16), with the settings of v0.6.0
``examples/configs/recipes/llm/performance``.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from docutils import nodes
from msgspec import Struct
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from kept_answers import cached_answer
from recorded_updates import DATA
from tables import table
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.inputs.override_syntax import override
from tuner.override_text import ADDS
from tuner.timing.uncertainty import step_interval

FILE = DATA / "nemo-published-steps.jsonl"
PROMPT_TOKENS = 120
RELEASE = "0.6.0"


class ModelledStep(Struct, frozen=True, kw_only=True):
    """The modelled seconds of a step, with their interval."""

    seconds: float
    low: float
    high: float


class NemoSteps(SphinxDirective):
    """The table of the published steps."""

    def run(self) -> list[nodes.Node]:
        """One row for each recipe."""
        self.env.note_dependency(str(FILE))
        header = ["Recipe", "Card", "Mean length", "Published", "Modelled", "Over published"]
        rows = [_row(step) for step in published_steps()]
        return table(self, header, rows, prose=[], widths=[38, 12, 12, 12, 20, 12])


def published_steps() -> list[dict[str, Any]]:
    """The recipes with their settings, lengths and seconds."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@cached_answer(words=False)
def modelled(recipe: str) -> ModelledStep:
    """What the model says of a recipe."""
    (step,) = (one for one in published_steps() if one["recipe"] == recipe)
    premises = Premises(
        gpu=step["gpu"],
        verl_version=RELEASE,
        mean_prompt=PROMPT_TOKENS,
        mean_response=step["mean_tokens"] - PROMPT_TOKENS,
    )
    settings = [override(key, value, ADDS * 2) for key, value in step["settings"].items()]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "recipe.yaml"
        file.write_text("defaults: grpo_math_1B.yaml\npolicy: {precision: bfloat16}\n", encoding="utf-8")
        advice = consult(str(file), settings, premises, block=False).advice
    ends = step_interval(advice.time, advice.workload.cluster)
    return ModelledStep(seconds=advice.time.seconds, low=ends.low_s, high=ends.high_s)


def _row(step: dict[str, Any]) -> list[str]:
    found = modelled(step["recipe"])
    return [
        step["recipe"],
        step["gpu"],
        f"{step['mean_tokens']:,}",
        f"{step['seconds']:g} s",
        f"{found.seconds:.0f} s ({found.low:.0f}\N{EN DASH}{found.high:.0f})",
        f"{found.seconds / step['seconds']:.2f}",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("nemo-steps", NemoSteps)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
