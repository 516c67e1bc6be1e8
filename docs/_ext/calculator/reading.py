"""Reading configurations that the form describes, and the fields of what they make."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Struct

from calculator import form
from calculator.form import AMOUNTS, CHOICES, RELEASE, Answers
from tuner.consultation.cluster import NETWORK_BYTES_PER_S
from tuner.gpus import find_gpu
from tuner.hardware import Cluster, Gpu
from tuner.inputs.overrides import on_command_line
from tuner.trainers import verl
from tuner.trainers.protocol import Loaded
from tuner.workload import Workload

ABSENT = object()
"""In the place of a field of a part that is not there."""

_card: Callable[[str], Gpu] = lru_cache(maxsize=None)(find_gpu)


@lru_cache(maxsize=4096)
def _loaded(overrides: tuple[str, ...]) -> Loaded:
    return verl.parse(None, on_command_line(overrides)).on(RELEASE)


def read(answers: Answers) -> Workload:
    """The workload that ``tuner advise`` makes of these answers.

    Sequences are never ended at the model's positions, which the page's formulas leave out: they are then an
    upper bound, and what exceeds the positions is asked for by mistake.
    """
    loaded = _loaded(tuple(said for said in form.overrides(answers) if ".path=" not in said))
    engine = loaded.choose_rollout_engine(requested=None, look=False)
    job = loaded.workload(
        model=form.model_named(str(answers["model"])),
        critic_model=None,
        cluster=Cluster(
            gpu=_card(str(answers["card"])),
            gpus_per_node=int(answers["gpus"]),
            nodes=int(answers["nodes"]),
            network_bytes_per_s=NETWORK_BYTES_PER_S,
        ),
        rollout_engine_version=None if engine is None else engine.version,
    )
    return job.with_batch(engine_tokens=None)


def variables() -> dict[str, tuple[str, ...]]:
    """The names that can be chosen, by the variable that chooses among them."""
    return {
        "model": tuple(form.shapes()),
        "card": form.cards(),
        **{choice.name: tuple(choice.options) for choice in CHOICES},
    }


#: Amounts that differ from those of the start.
OTHER = {amount.name: max(amount.low, min(amount.high, amount.start // 3 + 1)) for amount in AMOUNTS}


@lru_cache(maxsize=4096)
def _read(answers: tuple[tuple[str, int | str], ...]) -> Workload:
    return read(dict(answers))


def read_once(answers: Answers) -> Workload:
    """The workload of these answers, read once."""
    return _read(tuple(answers.items()))


def at(workload: Any, path: str) -> Any:
    """A field of a workload, or nothing where a part on the way to it is None."""
    found = workload
    for name in path.split("."):
        if found is None:
            return ABSENT
        found = getattr(found, name)
    return found


def kind(value: Any) -> str:
    """Whether a value is a number, a flag or something else."""
    if isinstance(value, bool):
        return "flag"
    return "number" if isinstance(value, (int, float)) else "other"


def telling(value: Any) -> Any:
    """What tells a value from others, numbers included."""
    return value if kind(value) == "number" else code_of(value)


def code_of(value: Any) -> Any:
    """What tells a value from others: of a part of the workload only whether it is there."""
    return "number" if kind(value) == "number" else "part" if isinstance(value, Struct) else value
