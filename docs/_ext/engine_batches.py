"""``.. recorded-generation::``: how long vLLM generated batches of different lengths, beside the model."""

import json
from functools import lru_cache
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

_LONGEST_STEP_S, _LONGEST_SEQUENCE_S = 20e-3, 200e-6  # that are looked for
_HALVINGS = 16  # of the interval that they are looked for in


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
            "Sequences a step",
            "Seconds",
            "Modelled seconds",
            "Fast to slow host",
            "Beside this host",
            "Tokens a second",
        ]
        tellers, host = teachers(recorded), host_of(recorded)
        rows = [_row(batch, None if batch in tellers else host) for batch in recorded]
        return table(self, header, rows)


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
        own_process=False,  # as vLLM's ``LLM`` has its worker: in the scheduler's process
        returns_log_probs=False,
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


def teachers(recorded: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two batches that tell a file's host: of its smallest model, the most and the fewest at once."""
    smallest = min((batch["model"] for batch in recorded), key=lambda name: find_model(name).parameters)
    whole = max(batch["cache_blocks"] for batch in recorded if batch["model"] == smallest)
    of_it = [batch for batch in recorded if (batch["model"], batch["cache_blocks"]) == (smallest, whole)]
    limits = sorted(of_it, key=lambda batch: int(batch["limit"]))
    return limits[-1], limits[0]


def host_of(recorded: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds of a step and of each of its sequences with which both teachers take what they took.

    ``tuner validate`` keeps such a pair in a profile, from steps of two numbers of sequences.
    """
    many, few = teachers(recorded)
    low, high = 0.0, _LONGEST_SEQUENCE_S
    for _ in range(_HALVINGS):
        sequence = (low + high) / 2
        step = _step_beside(many, sequence)
        # The longer each sequence takes, the shorter is the step that explains many of them, and with it few.
        too_long = not step or seconds_beside(few, (step, sequence)) < min(few["seconds"])
        low, high = (low, sequence) if too_long else (sequence, high)
    return _step_beside(many, low), low


def _step_beside(batch: dict[str, Any], sequence: float) -> float:
    """The longest step with which a batch takes no more than it took, each sequence taking so long."""
    low, high = 0.0, _LONGEST_STEP_S
    for _ in range(_HALVINGS):
        step = (low + high) / 2
        too_long = seconds_beside(batch, (step, sequence)) > min(batch["seconds"])
        low, high = (low, step) if too_long else (step, high)
    return low  # 0 where even none is too long


def seconds_beside(batch: dict[str, Any], host: tuple[float, float]) -> float:
    """Modelled seconds of a batch beside a host that takes so long for a step and for each sequence."""
    step, sequence = host
    return seconds(batch, replace(prices_of(batch), step=step, sequence=sequence))


def seconds(batch: dict[str, Any], prices: StepPrices) -> float:
    """All steps of a batch."""
    return float(sum(steps * sum(prices.parts(*rest)) for steps, *rest in _stretches(load_of(batch))))


@lru_cache(maxsize=64)
def _stretches(load: Load) -> tuple[tuple[float, ...], ...]:
    return tuple(map(astuple, simulate(load).stretches))


def sequences_a_step(batch: dict[str, Any]) -> float:
    """The mean of those that get a token."""
    simulated = simulate(load_of(batch))
    return simulated.tokens / simulated.steps


def _row(batch: dict[str, Any], host: tuple[float, float] | None) -> list[str]:
    prices = prices_of(batch)
    fast, slow = (seconds(batch, end) for end in ends(prices))
    taken = sorted(batch["seconds"])
    return [
        batch["model"].partition("/")[2],
        str(batch["limit"]),
        f"{batch['cache_blocks'] * batch['block_tokens']:,}",
        f"{sequences_a_step(batch):.0f}",
        f"{taken[0]:.1f}" + (f" … {taken[-1]:.1f}" if len(taken) > 1 else ""),
        f"{seconds(batch, prices):.1f}",
        f"{fast:.1f} … {slow:.1f}",
        "–" if host is None else f"{seconds_beside(batch, host):.1f}",
        f"{sum(batch['responses']) / taken[0]:,.0f}",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("recorded-generation", Batches)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
