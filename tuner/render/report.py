"""The machine-readable answers of ``tuner advise`` and ``tuner estimate-memory``, as published models."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise import Addition, CheapestRun, ReleaseRange, Verdict, Withheld
from tuner.advise.allocation import Explanation
from tuner.consultation.head import HeadRow, HeadSizes, TokenRow
from tuner.memory import RolloutMemory
from tuner.memory.derivations import Symbol
from tuner.plan.carrying import Carrying
from tuner.render.advice_report import CombinationReport, FindingReport
from tuner.render.batches import BatchRow
from tuner.render.memory_report import MemoryReport
from tuner.render.observed_report import LogReport
from tuner.render.premises_report import LeftOutReport, PremisesReport
from tuner.render.report_values import SCHEMA_VERSION, MemoryCondition, MemoryVerdict, SchemaVersion
from tuner.render.time_report import PhaseTimeReport, SavingTimeReport, StepTimeReport, ValidationTimeReport
from tuner.workload import Workload


class Report(Struct, frozen=True, kw_only=True):
    """Everything that ``tuner advise`` found out about one configuration."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    premises: PremisesReport
    workload: Workload
    verdict: Verdict
    validates_only: Annotated[
        bool, Meta(description="the launch ends before its first update: phases of training are left out")
    ] = False
    memory_verdict: MemoryVerdict
    memory_condition: MemoryCondition = None
    cheapest_run: Annotated[
        CheapestRun | None,
        Meta(description="what seconds are compared with; null where no form of the job is known to run"),
    ]
    mean_tokens: Annotated[
        int | None, Meta(description="mean tokens per sequence that still fit; null where no length does")
    ]
    carries: Annotated[
        Carrying | None,
        Meta(description="how long responses may get for certain; null where no lengths can be asked about"),
    ] = None
    left_out: Annotated[
        tuple[LeftOutReport, ...], Meta(description="parts of the job that verdict and seconds do not count")
    ] = ()
    batches: Annotated[
        tuple[BatchRow, ...],
        Meta(description="the batch sizes of every pass, as sequences and micro-batches of one rank"),
    ] = ()
    memory: MemoryReport
    rollout: Annotated[RolloutMemory | None, Meta(description="null where nothing is generated")]
    time: tuple[PhaseTimeReport, ...]
    step_time: Annotated[
        StepTimeReport | None,
        Meta(description="null where the engine that trains is not modelled, and where no update runs"),
    ]
    saving: Annotated[SavingTimeReport | None, Meta(description="null of a job that writes no checkpoint")]
    validation: Annotated[
        ValidationTimeReport | None,
        Meta(description="null of a job that does not validate, and where its validation has no price"),
    ] = None
    findings: tuple[FindingReport, ...]
    combination: CombinationReport | None
    additions: Annotated[
        tuple[Addition, ...],
        Meta(description="what packages would bring where they are installed, beyond the combination"),
    ] = ()
    withheld: Annotated[
        tuple[Withheld, ...],
        Meta(description="what is not proposed since a copy of the trainer does otherwise than its release"),
    ] = ()
    symbols: Annotated[
        tuple[Symbol, ...],
        Meta(description="what the symbols of the formulas stand for"),
    ]
    failed_allocation: Explanation | None = None
    release_range: Annotated[ReleaseRange | None, Meta(description="null where the release is bundled")] = (
        None
    )
    log: Annotated[LogReport | None, Meta(description="null where the input is no log of a run")] = None


class HeadReport(Struct, frozen=True, kw_only=True):
    """What ``tuner estimate-memory`` computes."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    sizes: HeadSizes
    heads: tuple[HeadRow, ...]
    published_rule_bytes: Annotated[int, Meta(description="7 bytes per token and vocabulary entry")]
    model: str | None
    tokens: tuple[TokenRow, ...]
    gpu: Annotated[str | None, Meta(description="the card that it is held against; null without")] = None
    capacity_bytes: Annotated[int | None, Meta(description="of that card")] = None
    failed_allocation: Explanation | None = None
