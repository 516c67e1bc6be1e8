"""The machine-readable plan: structs, published as a JSON Schema."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner import __version__
from tuner.consultation.longest_responses import LayoutReach
from tuner.consultation.placement import PlacementPlan
from tuner.consultation.planning import PlanAnswer, Variant
from tuner.consultation.splits import WaitsFor
from tuner.field_marks import Bytes
from tuner.findings import Numerics
from tuner.hardware import Cluster
from tuner.plan.answer import ClusterPlan, Lacking, PlannedSetting, StrategyBest
from tuner.plan.capacity import CapacityRow
from tuner.plan.corrections import MeasuredPlan
from tuner.plan.lengthening import Lengthening
from tuner.plan.packages import PackageGain
from tuner.plan.price import JobTotals, whole_job
from tuner.plan.reasons import Relaxation
from tuner.plan.trade_off import TradePoint
from tuner.render.json_text import json_text
from tuner.render.plan_measure import measuring_commands
from tuner.render.publication import extended, publish
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion
from tuner.render.time_report import StepTimeReport
from tuner.trainers.placement import PoolSplit
from tuner.workload import Phase


class PlanClusterReport(Cluster, frozen=True, kw_only=True):
    """The GPUs that a plan is for."""

    @property
    def card(self) -> str:
        """The name of the card."""
        return self.gpu.name


class SettingReport(PlannedSetting, frozen=True, kw_only=True):
    """A setting that starts and fits for certain, with what it comes to."""

    whole: Annotated[JobTotals | None, Meta(description="the whole job; null where its steps are not known")]
    price: Annotated[
        float | None, Meta(description="of a step; null where nobody says what a GPU-hour costs")
    ]

    @property
    def seconds(self) -> Annotated[float, Meta(description="of one step, modelled")]:
        """Seconds of one step."""
        return self.time.seconds

    @property
    def step_time(self) -> StepTimeReport:
        """The seconds of the step and its phases."""
        return StepTimeReport.of(self.step, self.time, self.workload)

    @property
    def capacity_bytes(self) -> Bytes:
        """Bytes of the card."""
        return self.estimate.capacity_bytes

    @property
    def host_bytes(self) -> Annotated[int, Meta(description="bytes of host memory per node")]:
        """Bytes of a node's host memory."""
        return self.estimate.host_bytes


class StrategyReport(StrategyBest, frozen=True, kw_only=True):
    """The fastest setting of one strategy, where several were asked about."""

    setting: Annotated[SettingReport | None, Meta(description="null where there is none")] = None


class LackingReport(Lacking, frozen=True, kw_only=True):
    """What the setting that comes nearest lacks."""

    @property
    def capacity_bytes(self) -> Bytes:
        """Bytes of the card."""
        return self.estimate.capacity_bytes


class ClusterPlanReport(ClusterPlan, frozen=True, kw_only=True):
    """The best settings on one cluster."""

    cluster: PlanClusterReport
    settings: Annotated[tuple[SettingReport, ...], Meta(description="one of each layout, the fastest first")]
    lacking: Annotated[LackingReport | None, Meta(description="null where something fits")] = None
    strategies: Annotated[
        tuple[StrategyReport, ...], Meta(description="of --vary strategy=..., in its order; else empty")
    ] = ()


class PlacementReport(PlacementPlan, frozen=True, kw_only=True):
    """The best setting of one placement, over all divisions of the GPUs."""

    setting: Annotated[SettingReport | None, Meta(description="null where there is none")] = None


class CapacityReport(Struct, frozen=True, kw_only=True):
    """One number and card, with its efficiency."""

    plan: Annotated[ClusterPlanReport, Meta(description="of the job where it is")]
    placements: Annotated[
        tuple[PlacementReport, ...], Meta(description="of --vary placement=..., in its order")
    ]
    fastest: Annotated[
        str, Meta(description="the placement whose step is shortest; empty: the job where it is")
    ]
    efficiency: Annotated[
        float | None,
        Meta(
            description="GPU-hours on the fewest of the same card over those here, of whatever is fastest; "
            "null where nothing fits"
        ),
    ]


class VariantReport(Variant, frozen=True, kw_only=True):
    """The plan with other values of settings that a plan leaves alone by itself."""

    plan: ClusterPlanReport


class PlanReport(Struct, frozen=True, kw_only=True):
    """Everything that ``tuner plan`` found out."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    source: str
    trainer: str
    release: str
    model: str
    steps: Annotated[int | None, Meta(description="of the whole job; null where nobody says")]
    held: tuple[str, ...]
    prices: Annotated[dict[str, float], Meta(description="of a GPU-hour, by card")]
    plan: Annotated[ClusterPlanReport, Meta(description="on the GPUs that there are")]
    measure: Annotated[
        tuple[str, ...],
        Meta(description="commands that measure the settings of the first rank; none without a tie"),
    ]
    measured: Annotated[
        MeasuredPlan | None, Meta(description="of --validate: the settings ranked anew; null without it")
    ]
    stopped: Annotated[
        bool, Meta(description="by the user, before all that was asked for had been planned")
    ] = False
    fewest: Annotated[
        PlanClusterReport | None, Meta(description="the fewest GPUs that it fits on; null: none")
    ]
    fewest_placement: Annotated[
        str, Meta(description="with which alone it fits there; empty: the job fits where it is, or nowhere")
    ]
    capacity: tuple[CapacityReport, ...]
    more: Annotated[
        ClusterPlanReport | None,
        Meta(description="on more GPUs, or larger cards, where it fits on none that were asked about"),
    ]
    variants: Annotated[tuple[VariantReport, ...], Meta(description="of --vary, in its order")]
    trade_off: Annotated[
        tuple[TradePoint, ...],
        Meta(
            description="what there is to choose from over numbers, cards and placements, the fastest first"
        ),
    ]
    longest: Annotated[
        tuple[LayoutReach, ...],
        Meta(description="how long responses may get; empty unless --longest asks for it"),
    ]
    placements: Annotated[
        tuple[PlacementReport, ...],
        Meta(description="of --vary placement=..., in its order, on the GPUs that there are"),
    ]
    relaxations: Annotated[
        tuple[Relaxation, ...],
        Meta(description="with each of which the setting that comes nearest would fit, where nothing does"),
    ]


publish(
    SettingReport,
    "PlannedSettingReport",
    *("rank", "own", "overrides", "seconds", "step_time", "gpu_hours", "price", "whole", "capacity_bytes"),
    *("host_bytes", "phases", "fullest", "longest", "with_package", "strategy", "needs"),
    types={
        "fullest": Annotated[Phase, Meta(description="the phase with the highest peak")],
        "longest": Annotated[Phase | None, Meta(description="the phase that most of the step goes into")],
        "with_package": Annotated[
            PackageGain | None, Meta(description="what a package would bring; null but for the first setting")
        ],
        "gpu_hours": Annotated[float, Meta(description="of a step")],
        "strategy": Annotated[str, Meta(description="what shards the policy")],
    },
)
publish(StrategyReport, "StrategyReport", *("strategy", "setting", "reason"))
publish(
    PlanClusterReport,
    "PlanClusterReport",
    *("card", "gpus", "gpus_per_node", "nodes", "network_bytes_per_s", "network_assumed"),
    types={
        "gpus": Annotated[int, Meta(description="of the whole job")],
        "network_bytes_per_s": Annotated[float, Meta(description="for each GPU, one way")],
        "network_assumed": Annotated[bool, Meta(description="nobody said how fast the network is")],
    },
)
publish(
    TradePoint,
    "TradePoint",
    *("card", "gpus", "gpus_per_node", "nodes", "placement", "step", "gpu_hours", "price"),
    *("unbeaten", "unbeaten_by_price"),
)
publish(
    Lengthening,
    "Lengthening",
    *("code", "name", "message", "overrides", "numerics", "yours", "cap", "seconds_before", "step", "change"),
    types={
        "numerics": Annotated[Numerics, Meta(description="what it does to the training in this job")],
    },
)
publish(
    LayoutReach,
    "LayoutReach",
    *("place", "overrides", "tokens_now", "farthest", "cap", "lines", "lengthened"),
)
publish(
    PoolSplit,
    "PoolSplit",
    *("training_gpus", "generating_gpus", "training_nodes", "training_gpus_per_node"),
    *("generating_nodes", "generating_gpus_per_node"),
)
publish(
    PlacementReport,
    "PlacementReport",
    *("placement", "split", "setting", "waits_for", "generation_s", "training_s", "change", "needs"),
    *("launch", "divisions", "reason"),
    types={
        "waits_for": Annotated[
            WaitsFor | None, Meta(description="the side that a step waits for; null of colocated")
        ]
    },
)
publish(
    LackingReport,
    "LackingReport",
    *("phase", "missing_bytes", "problems", "capacity_bytes", "everywhere"),
)


def plan_json(answer: PlanAnswer) -> str:
    """The plan as JSON."""
    return json_text(plan_report(answer))


def plan_report(answer: PlanAnswer) -> PlanReport:
    """The whole plan."""
    loaded, least = answer.job.loaded, answer.fewest
    return PlanReport(
        tuner_version=__version__,
        source=answer.job.given.source,
        trainer=loaded.trainer.name,
        release=loaded.version,
        model=answer.job.reading.workload.model.name,
        steps=answer.steps,
        held=answer.held,
        prices=dict(answer.prices),
        plan=_plan(answer.plan, answer),
        measure=measuring_commands(answer),
        measured=answer.corrections,
        stopped=answer.stopped,
        fewest=None if least is None else extended(PlanClusterReport, least.cluster),
        fewest_placement="" if least is None or least.plan.best is not None else least.placement,
        capacity=tuple(_row(row, answer) for row in answer.rows),
        more=None if answer.more is None else _plan(answer.more, answer),
        variants=tuple(
            extended(VariantReport, one, plan=_plan(one.plan, answer, one.steps)) for one in answer.variants
        ),
        trade_off=answer.trade_off,
        longest=answer.longest,
        placements=_placements(answer, answer.plan.cluster),
        relaxations=answer.relaxations,
    )


def _row(row: CapacityRow, answer: PlanAnswer) -> CapacityReport:
    return CapacityReport(
        plan=_plan(row.plan, answer),
        placements=_placements(answer, row.cluster),
        fastest=row.placement,
        efficiency=row.efficiency,
    )


def _placements(answer: PlanAnswer, cluster: Cluster) -> tuple[PlacementReport, ...]:
    return tuple(_placement(one, answer) for one in answer.placements_on(cluster))


def _plan(plan: ClusterPlan, answer: PlanAnswer, steps: int | None = None) -> ClusterPlanReport:
    """The plan of a cluster, with the steps of a variant where it has others."""
    steps = answer.steps if steps is None else steps
    return extended(
        ClusterPlanReport,
        plan,
        cluster=extended(PlanClusterReport, plan.cluster),
        settings=tuple(_setting(setting, answer, steps) for setting in plan.settings),
        lacking=None if plan.lacking is None else extended(LackingReport, plan.lacking),
        strategies=tuple(_strategy(one, answer, steps) for one in plan.strategies),
    )


def _strategy(best: StrategyBest, answer: PlanAnswer, steps: int | None) -> StrategyReport:
    setting = None if best.setting is None else _setting(best.setting, answer, steps)
    return extended(StrategyReport, best, setting=setting)


def _placement(plan: PlacementPlan, answer: PlanAnswer) -> PlacementReport:
    setting = None if plan.setting is None else _setting(plan.setting, answer, answer.steps)
    return extended(PlacementReport, plan, setting=setting)


def _setting(setting: PlannedSetting, answer: PlanAnswer, steps: int | None) -> SettingReport:
    price = answer.prices.get(setting.workload.cluster.gpu.name)
    return extended(
        SettingReport,
        setting,
        whole=whole_job(setting, steps, price),
        price=None if price is None else price * setting.gpu_hours,
    )
