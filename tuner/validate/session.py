"""What a part of the validation works with: the subject, the budget, processes on the device, the record.

This is the contract between the parts and the run; :mod:`tuner.validate.run` holds what implements it.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from tuner.accuracy.measured_files import MeasuredCase
from tuner.advise import Advice, Recommendation
from tuner.validate.children.servers import ServedFunction
from tuner.validate.report.schema import JudgedRecommendation, Machine, Measurement
from tuner.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is validated."""

    source: str  # the configuration's file
    overrides: tuple[str, ...]
    workload: Workload  # as configured: all GPUs of the job
    advice: Advice
    model_config: dict[str, Any]  # the model's config.json, for transformers


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for."""

    device: str  # cuda or cpu
    processes: int  # GPUs of this node that take part; --nproc
    budget_s: float
    memory_limit_bytes: int | None  # of one GPU, for every process of ours together
    seconds_alone: bool = False  # of a plan's setting: how long its phases take, and nothing beside it

    def capacity_bytes(self, machine: Machine) -> int:
        """What one GPU has for us: what others leave of it, and no more than the limit."""
        limit = self.memory_limit_bytes
        return machine.free_bytes if limit is None else min(machine.free_bytes, limit)


#: Of the time left to a part: what one call may fill with measuring, as its process starts and ends as well.
CALL_SHARE = 0.85


class OutOfBudgetError(Exception):
    """The budget has no room for what was asked; the part ends as it is."""


class NotHereError(Exception):
    """A part's plan cannot run on this machine or for this subject at all; its text says why."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One thing that a part would run."""

    title: str
    seconds: float  # expected


class Session(Protocol):
    """Handed to each part."""

    subject: Subject
    options: Options
    machine: Machine

    @property
    def left_s(self) -> float:
        """Seconds of the budget that this part may still use."""

    def call(
        self,
        worker: ServedFunction,
        *arguments: Any,
        title: str,
        expected_s: float,
        world: int = 1,
        timeout_s: float | None = None,
    ) -> Any:
        """Run a worker's function in fresh processes; its result, or :class:`Failed`.

        Args:
            worker: with picklable arguments and result. It is called with ``device`` (a string for
                ``torch.device``) as a keyword beside the arguments.
            arguments: handed on.
            title: what the progress shows.
            expected_s: what it is likely to take.
            world: processes, one per GPU, joined in a process group (NCCL, or gloo on a CPU) of
                ``torch.distributed``, whose environment variables are set; the first one's result counts.
            timeout_s: at most; where it is None what the part has left, but at least twice
                ``expected_s``.

        Raises:
            OutOfBudgetError: too little of ``expected_s`` is left.
        """

    def add(self, measurement: Measurement) -> None:
        """Record a figure; kept even where the run is interrupted."""

    def add_case(self, case: MeasuredCase) -> None:
        """Record a measured pass for ``tuner accuracy``."""

    def judge(self, judged: JudgedRecommendation) -> None:
        """Record the verdict on a recommendation; it is joined with what other parts say of it."""

    def is_measured(self, recommendation: Recommendation) -> bool:
        """Whether another part has figures on a recommendation already."""

    def note(self, text: str) -> None:
        """Record a sentence that a reader must know, such as a scaled-down size."""
