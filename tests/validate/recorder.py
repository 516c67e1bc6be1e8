"""A session that answers calls from a list and keeps what a part records."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tests.workloads import H200, grpo_7b
from tuner.accuracy.measured_files import MeasuredCase
from tuner.advise import Advice, Recommendation
from tuner.models import find_config
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Machine, Measurement
from tuner.validate.session import Options, Subject
from tuner.workload import Workload


def machine(*, used_bytes: int = 0) -> Machine:
    return Machine(
        device="NVIDIA H200",
        devices=2,
        profile="h200-sxm",
        total_bytes=139 * GIB,
        free_bytes=139 * GIB - used_bytes,
        versions={"driver": "580.1", "torch": "2.11.0"},
    )


def subject(workload: Workload | None = None) -> Subject:
    workload = workload or grpo_7b(gpu=H200, gpus_per_node=2)
    return Subject(
        source="c.yaml",
        overrides=(),
        workload=workload,
        advice=cast(Advice, None),
        model_config=dict(find_config("Qwen/Qwen2.5-7B").values),
    )


def options(*, device: str = "cuda", processes: int = 2, memory_limit_bytes: int | None = None) -> Options:
    return Options(device=device, processes=processes, budget_s=120.0, memory_limit_bytes=memory_limit_bytes)


@dataclass(kw_only=True)
class Recorder:
    """Implements :class:`tuner.validate.session.Session`."""

    answers: Sequence[Any]
    subject: Subject = field(default_factory=subject)
    options: Options = field(default_factory=options)
    machine: Machine = field(default_factory=machine)
    left_s: float = 100.0
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def call(self, function: Any, *arguments: Any, title: str, expected_s: float, **options: Any) -> Any:
        self.calls.append((function, arguments, options))
        return self.answers[len(self.calls) - 1]

    def add(self, measurement: Measurement) -> None:
        assert measurement.name not in self.measurements
        self.measurements[measurement.name] = measurement

    def add_case(self, case: MeasuredCase) -> None:
        raise AssertionError("no passes of the whole model are measured here")

    def judge(self, judged: JudgedRecommendation) -> None:
        raise AssertionError("no recommendation is judged here")

    def is_measured(self, found: Recommendation) -> bool:
        return False

    def note(self, text: str) -> None:
        self.notes.append(text)
