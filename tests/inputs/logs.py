"""Logs of runs in the form in which verl, Ray and tqdm print them; none is taken from anybody.

The configuration goes through what verl calls itself: OmegaConf resolves it, ``pprint`` writes it. Metrics
have the two forms of ``verl/utils/logger/aggregate_logger.py``: ``{v:.3f}`` up to 0.4.1, ``pprint.pformat``
since.
"""

from collections.abc import Iterable, Mapping, Sequence
from pprint import pformat
from typing import Any

from omegaconf import OmegaConf

from tuner.errors import Location
from tuner.inputs.overrides import Argument, parse_overrides
from tuner.inputs.tree import split_key
from tuner.trainers.verl.defaults import read_defaults
from tuner.versions import at_least

RUNNER = "TaskRunner pid=247607"
METRICS = {
    "actor/entropy": 0.31,
    "actor/pg_loss": -0.0036091046008680547,
    "perf/mfu/actor": 0.31,
    "training/global_step": 2,
    "critic/advantages/max": 2.47,
}

#: Metrics of a step with its lengths, its seconds and its memory.
TIMED = {
    "prompt_length/mean": 180.0,
    "response_length/mean": 700.0,
    "response_length/max": 3072.0,
    "response_length/clip_ratio": 0.02,
    "timing_s/gen": 60.0,
    "timing_s/old_log_prob": 9.0,
    "timing_s/ref": 8.0,
    "timing_s/reward": 5.0,
    "timing_s/adv": 0.1,
    "timing_s/update_actor": 33.0,
    "timing_s/step": 118.0,
    "perf/max_memory_allocated_gb": 60.0,
    "perf/max_memory_reserved_gb": 66.0,
    "perf/cpu_memory_used_gb": 100.0,
}


def printed(version: str, overrides: Sequence[str] = (), *, config: str = "ppo_trainer") -> str:
    """The configuration of a release with overrides, as verl prints it."""
    tree = OmegaConf.create(dict(read_defaults(version, config).tree))
    words = [Argument(text=text, location=Location(source="test")) for text in overrides]
    for override in parse_overrides(words).overrides:
        OmegaConf.update(tree, ".".join(split_key(override.key)), override.value, force_add=True)
    return pformat(OmegaConf.to_container(tree, resolve=True))


def step_line(version: str, step: int, metrics: Mapping[str, Any]) -> str:
    """The line that verl's console logger prints for a step."""
    write = pformat if at_least(version, "0.5.0") else "{:.3f}".format
    return " - ".join([f"step:{step}", *(f"{name}:{write(value)}" for name, value in metrics.items())])


def by_ray(text: str, process: str = RUNNER, *, coloured: bool = True) -> str:
    """What Ray puts in front of each line of a process."""
    head = f"\x1b[36m({process})\x1b[0m " if coloured else f"({process}) "
    return "\n".join(head + line for line in text.splitlines())


def log(
    version: str,
    overrides: Sequence[str] = (),
    steps: Iterable[Mapping[str, Any]] = (),
    *,
    config: str = "ppo_trainer",
    tail: str = "",
) -> str:
    """A whole log: what Ray says, the configuration, a line a step with the progress bar before it."""
    lines = [
        "2025-08-02 00:35:19,831 INFO worker.py:1879 -- Started a local Ray instance.",
        by_ray("TaskRunner hostname: node-0, PID: 247607"),
        by_ray(printed(version, overrides, config=config)),
        by_ray("vLLM is using sleep mode", "WorkerDict pid=2512, ip=10.0.0.7")
        + " [repeated 7x across cluster] (Ray deduplicates logs by default.)",
        by_ray("step:0 - val-core/gsm8k/acc/mean@1:0.12"),
    ]
    for number, metrics in enumerate(steps, start=1):
        bar = f"Training Progress:   1%|          | {number}/100 [05:05<8:24:08, 305.54s/it]"
        lines.append(bar + "\r" + by_ray(step_line(version, number, {**metrics, **METRICS})))
    return "\n".join([*lines, tail]) + "\n"
