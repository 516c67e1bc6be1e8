"""``.. recorded-generation::``: how long vLLM generated batches of different lengths, beside the model."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from msgspec.structs import astuple, replace
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

import running_job
from tables import table
from tuner.gpus import find_gpu
from tuner.models import find_model
from tuner.timing.decode import RolloutInput
from tuner.timing.generation.simulation import Load, simulate
from tuner.timing.generation.step import StepPrices, step_prices
from tuner.timing.spreads import ENDS

STEP_ENDS = (0.0, 3e-3)  # seconds, as ENGINE_STEP_S states them


class Batches(SphinxDirective):
    """A table of a file's batches, in seconds and tokens per second."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row per batch."""
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        recorded = json.loads(path.read_text(encoding="utf-8"))["generated"]
        header = [
            "Model",
            "At once",
            "Sequences",
            "Sequences a step",
            "Seconds",
            "Modelled seconds",
            "Beside a fast and a slow host",
            "Tokens a second",
        ]
        return table(self, header, [_row(batch) for batch in recorded])


def load_of(batch: dict[str, Any]) -> Load:
    """The batch as the simulation takes it: responses to one prompt share its blocks."""
    share, last = batch["prompt_tokens"] / batch["responses_per_prompt"], batch["block_tokens"] / 2
    return Load(
        responses=tuple((1, tokens) for tokens in batch["responses"]),
        held_prompt=share + last,
        new_prompt=share + last * (1 - 1 / batch["responses_per_prompt"]),
        cache_tokens=batch["cache_blocks"] * batch["block_tokens"],
        max_sequences=batch["limit"],
        step_tokens=batch["step_tokens"],
    )


def prices_of(batch: dict[str, Any]) -> StepPrices:
    """The prices of its steps on one H100, which generated it."""
    job = running_job.workload()
    cluster = replace(job.cluster, gpu=find_gpu("h100"), gpus_per_node=1, nodes=1)
    alone = replace(job, model=find_model(batch["model"]), cluster=cluster).with_rollout(
        tensor_parallel=1, max_sequences=batch["limit"], capture_sizes=None, cuda_graphs=True, gpus=1
    )
    return step_prices(RolloutInput.of(alone))


def ends(prices: StepPrices) -> tuple[StepPrices, StepPrices]:
    """The same steps beside the fastest host and beside the slowest that the constants know."""
    fast, slow = (
        replace(prices, step=step, sequence=sequence)
        for step, sequence in zip(STEP_ENDS, ENDS["ENGINE_SEQUENCE_S"], strict=True)
    )
    return fast, slow


def seconds(batch: dict[str, Any], prices: StepPrices) -> float:
    """All steps of a batch."""
    stretches = map(astuple, simulate(load_of(batch)).stretches)
    return float(sum(steps * sum(prices.parts(*rest)) for steps, *rest in stretches))


def sequences_a_step(batch: dict[str, Any]) -> float:
    """The mean of those that get a token."""
    simulated = simulate(load_of(batch))
    return simulated.tokens / simulated.steps


def _row(batch: dict[str, Any]) -> list[str]:
    prices = prices_of(batch)
    fast, slow = (seconds(batch, end) for end in ends(prices))
    taken = sorted(batch["seconds"])
    return [
        batch["model"],
        str(batch["limit"]),
        str(len(batch["responses"])),
        f"{sequences_a_step(batch):.0f}",
        f"{taken[0]:.1f}" + (f" … {taken[-1]:.1f}" if len(taken) > 1 else ""),
        f"{seconds(batch, prices):.1f}",
        f"{fast:.1f} … {slow:.1f}",
        f"{sum(batch['responses']) / taken[0]:,.0f}",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("recorded-generation", Batches)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
