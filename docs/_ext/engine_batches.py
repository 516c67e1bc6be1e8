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
from tuner.timing.generation.load import Load
from tuner.timing.generation.rollout import load_of as rollout_load
from tuner.timing.generation.simulation import simulate
from tuner.timing.generation.step import StepPrices, step_prices
from tuner.timing.spreads import ENDS

_SLOWEST = 0.05  # times as fast as typical
_HALVINGS = 30  # of the interval that a factor is looked for in


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
            "Cache in tokens",
            "Sequences",
            "Sequences a step",
            "Seconds",
            "Modelled seconds",
            "Beside a fast and a slow host",
            "Beside the others' host",
            "Tokens a second",
        ]
        return table(self, header, [_row(batch, recorded) for batch in recorded])


def job_of(batch: dict[str, Any]) -> RolloutInput:
    """The rollout that generated it, on one H100."""
    job = running_job.workload()
    cluster = replace(job.cluster, gpu=find_gpu("h100"), gpus_per_node=1, nodes=1)
    alone = replace(job, model=find_model(batch["model"]), cluster=cluster).with_rollout(
        tensor_parallel=1,
        max_sequences=batch["limit"],
        max_batched_tokens=batch["step_tokens"],
        chunked_prefill=True,
        prefix_caching=True,
        capture_sizes=None,
        cuda_graphs=True,
        gpus=1,
    )
    lengths = replace(job.batch.lengths, mean_prompt=batch["prompt_tokens"])
    return RolloutInput.of(
        alone.with_batch(lengths=lengths, responses_per_prompt=batch["responses_per_prompt"])
    )


def load_of(batch: dict[str, Any]) -> Load:
    """The batch as the simulation takes it, with its own responses in the cache that the engine had."""
    return replace(
        rollout_load(job_of(batch), 1),
        responses=tuple((1, tokens) for tokens in batch["responses"]),
        cache_tokens=batch["cache_blocks"] * batch["block_tokens"],
    )


def prices_of(batch: dict[str, Any]) -> StepPrices:
    """The prices of its steps."""
    return step_prices(job_of(batch))


def ends(prices: StepPrices) -> tuple[StepPrices, StepPrices]:
    """The same steps beside the fastest host and beside the slowest that the constants know."""
    fast, slow = (
        replace(prices, step=step, sequence=sequence)
        for step, sequence in zip(ENDS["ENGINE_STEP_S"], ENDS["ENGINE_SEQUENCE_S"], strict=True)
    )
    return fast, slow


def host_factor(batch: dict[str, Any]) -> float:
    """How many times as fast as typical a host prepares steps with which the batch takes what it took.

    It is what ``tuner validate`` writes into a profile, as one batch tells it.
    """
    slow, fast = _SLOWEST, 1 / _SLOWEST
    for _ in range(_HALVINGS):
        middle = (slow * fast) ** 0.5
        too_slow = seconds_beside(batch, middle) > min(batch["seconds"])
        slow, fast = (middle, fast) if too_slow else (slow, middle)
    return slow


def seconds_beside(batch: dict[str, Any], factor: float) -> float:
    """Modelled seconds of a batch beside a host that prepares steps so many times as fast as typical."""
    prices = prices_of(batch)
    return seconds(batch, replace(prices, step=prices.step / factor, sequence=prices.sequence / factor))


def seconds(batch: dict[str, Any], prices: StepPrices) -> float:
    """All steps of a batch."""
    stretches = map(astuple, simulate(load_of(batch)).stretches)
    return float(sum(steps * sum(prices.parts(*rest)) for steps, *rest in stretches))


def sequences_a_step(batch: dict[str, Any]) -> float:
    """The mean of those that get a token."""
    simulated = simulate(load_of(batch))
    return simulated.tokens / simulated.steps


def _row(batch: dict[str, Any], recorded: list[dict[str, Any]]) -> list[str]:
    beside = sorted(seconds_beside(batch, host_factor(other)) for other in recorded if other is not batch)
    prices = prices_of(batch)
    fast, slow = (seconds(batch, end) for end in ends(prices))
    taken = sorted(batch["seconds"])
    return [
        batch["model"],
        str(batch["limit"]),
        f"{batch['cache_blocks'] * batch['block_tokens']:,}",
        str(len(batch["responses"])),
        f"{sequences_a_step(batch):.0f}",
        f"{taken[0]:.1f}" + (f" … {taken[-1]:.1f}" if len(taken) > 1 else ""),
        f"{seconds(batch, prices):.1f}",
        f"{fast:.1f} … {slow:.1f}",
        f"{beside[0]:.1f} … {beside[-1]:.1f}",
        f"{sum(batch['responses']) / taken[0]:,.0f}",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("recorded-generation", Batches)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
