"""A colocated job planned where it could run otherwise: one step off, fully asynchronous, in separate pools.

Each of these trains on older responses than the job does, so none is planned unless somebody names it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.advise.combine import one_per_key
from tuner.consultation.consult import job_of
from tuner.consultation.given_words import GivenWords
from tuner.consultation.job import JobReading
from tuner.consultation.premises import Premises
from tuner.consultation.splits import WaitsFor, divisions, looked_at
from tuner.errors import InputError, TunerError, UnsupportedError
from tuner.field_marks import Seconds
from tuner.hardware import Cluster
from tuner.inputs.override_syntax import has_name, override
from tuner.inputs.tree import contains, dotted, lookup
from tuner.language import _
from tuner.other_base import OtherBase
from tuner.plan.answer import ClusterPlan, PlannedSetting
from tuner.timing import StepChange, StepTime, change
from tuner.trainers.placement import PlacedLaunch, Placement, PoolSplit
from tuner.workload import Phase

KEY = "placement"  # of --vary
_INTERPRETER, _FILE = "python3", ".py"
_FORCE = "++"  # sets a key that the configuration has, and adds one that it lacks


class Planner(GivenWords, frozen=True, kw_only=True):
    """How the placements of one job are read and planned."""

    job: JobReading  # as it is, colocated
    before: tuple[str, ...]  # of the words, what the user's own configuration does not have
    undivided: tuple[str, ...]  # have every model lie on as few GPUs as there are
    plan: Callable[[JobReading, Sequence[str]], ClusterPlan]


class DivisionSeconds(Struct, frozen=True, kw_only=True):
    """One division of the GPUs that was planned."""

    split: PoolSplit
    seconds: Annotated[float | None, Meta(description="of its best step; null where there is none")]
    reason: Annotated[str, Meta(description="why there is none; empty: there is one")] = ""


class PlacementPlan(Struct, frozen=True, kw_only=True):
    """The best setting of one placement, over all divisions of the GPUs."""

    placement: Placement
    cluster: Cluster  # all GPUs, those that train and those that generate
    split: Annotated[PoolSplit | None, Meta(description="null of colocated, and where nothing fits")] = None
    setting: PlannedSetting | None = None
    generation_s: Seconds | None = None  # of its step, without the transfer of new weights
    training_s: Seconds | None = None
    needs: Annotated[PlacedLaunch | None, Meta(description="null as the split")] = None
    launch: Annotated[
        tuple[str, ...], Meta(description="the whole command; empty where overrides are enough")
    ] = ()
    change: Annotated[
        StepChange | None, Meta(description="of the step, beside colocated; null where that does not fit")
    ] = None
    divisions: tuple[DivisionSeconds, ...] = ()
    reason: Annotated[str, Meta(description="why there is no setting; empty: there is one")] = ""

    @property
    def waits_for(self) -> WaitsFor | None:
        """The side that a step waits for; None where the phases run one after the other."""
        if self.setting is None or self.split is None:
            return None
        return waits_for(self.setting.time)


def placements_named(varied: Sequence[str]) -> tuple[tuple[Placement, ...], tuple[str, ...]]:
    """The placements among what is varied, and the rest.

    Raises:
        InputError: there is no such placement.
    """
    wanted: list[Placement] = []
    others: list[str] = []
    known = {one.value: one for one in Placement}
    for text in varied:
        key, equals, values = text.partition("=")
        if key.strip() != KEY or not equals:
            others.append(text)
            continue
        for value in values.split(","):
            name = value.strip().replace("_", "-")
            if name not in known:
                raise InputError(
                    _("--vary {text}: there is no placement {name!r}").format(text=text, name=name),
                    hint=_("the placements are {names}").format(names=", ".join(known)),
                )
            wanted.append(known[name])
    return tuple(dict.fromkeys(wanted)), tuple(others)


def expect_colocated(job: JobReading, wanted: Sequence[Placement]) -> None:
    """Refuse to place what generates nothing, or has its place already.

    Raises:
        InputError: it does.
    """
    if not wanted:
        return
    rollout = job.reading.workload.rollout
    if rollout is None or rollout.is_trainer:
        raise InputError(_("--vary placement: no engine generates beside the trainer"))
    if not rollout.colocated:
        raise InputError(_("--vary placement: the job generates on GPUs of its own already"))


def placement_plans(
    planner: Planner, wanted: Iterable[Placement], colocated: ClusterPlan
) -> Iterator[PlacementPlan]:
    """The best of each placement on one cluster, in the order in which they are asked for.

    Args:
        planner: of the job.
        wanted: placements.
        colocated: the plan of the job where it is.

    Raises:
        KeyboardInterrupt: the user has ended a search.
    """
    cluster = planner.job.reading.workload.cluster
    for placement in wanted:
        if placement is Placement.COLOCATED:
            reason = "" if colocated.best is not None else _("nothing fits")
            best = colocated.best
            yield PlacementPlan(placement=placement, cluster=cluster, setting=best, reason=reason)
            continue
        yield _compared(_best(planner, placement), colocated.best)


def _compared(plan: PlacementPlan, colocated: PlannedSetting | None) -> PlacementPlan:
    """A placement with what it changes of the step of the job where it is."""
    if plan.setting is None or colocated is None:
        return plan
    cluster, then = colocated.workload.cluster, plan.setting.workload.cluster
    return replace(plan, change=change(colocated.time, plan.setting.time, cluster, then=then))


def _best(planner: Planner, placement: Placement) -> PlacementPlan:
    """The fastest setting of a placement, whichever division it is on."""
    cluster = planner.job.reading.workload.cluster
    best: PlacementPlan | None = None
    seen: list[DivisionSeconds] = []

    def look(split: PoolSplit) -> tuple[PlacementPlan | str, WaitsFor | None]:
        try:
            one = _on(planner, placement, split)
        except UnsupportedError as error:
            raise _NotOfferedError(error.message) from error
        except (TunerError, ValueError) as error:
            return str(error), None
        return one, waits_for(one.setting.time) if one.setting is not None else None

    try:
        for series in divisions(cluster.gpus_per_node, cluster.nodes):
            for split, one in looked_at(series, look):
                seen.append(_of_division(split, one))
                if not isinstance(one, str) and _seconds(one) < (
                    float("inf") if best is None else _seconds(best)
                ):
                    best = one
    except _NotOfferedError as error:
        return PlacementPlan(placement=placement, cluster=cluster, reason=str(error))
    if best is None:
        reason = seen[0].reason if seen else _("there is one GPU, and two pools need two")
        return PlacementPlan(placement=placement, cluster=cluster, divisions=tuple(seen), reason=reason)
    return replace(best, divisions=tuple(seen))


def _of_division(split: PoolSplit, plan: PlacementPlan | str) -> DivisionSeconds:
    """What a division came to."""
    if isinstance(plan, str):
        return DivisionSeconds(split=split, seconds=None, reason=plan)
    seconds = None if plan.setting is None else plan.setting.time.seconds
    return DivisionSeconds(split=split, seconds=seconds, reason=plan.reason)


class _NotOfferedError(Exception):
    """The release has no such placement, or none for this job, however the GPUs are divided."""


def _seconds(plan: PlacementPlan | None) -> float:
    return float("inf") if plan is None or plan.setting is None else plan.setting.time.seconds


def _on(planner: Planner, placement: Placement, split: PoolSplit) -> PlacementPlan:
    """The plan of a placement on one division, read back from what is shown of it.

    Raises:
        TunerError: the release does not read it, or has no such placement.
        KeyboardInterrupt: the user has ended the search.
    """
    loaded, workload = planner.job.loaded, planner.job.reading.workload
    placed = loaded.trainer.placed(loaded, workload, placement, split)
    premises = replace(
        planner.premises,
        gpus_per_node=split.training_gpus_per_node,
        nodes=split.training_nodes,
        launch=None if placed.program else planner.premises.launch,
        verl_version=planner.premises.verl_version or planner.job.release.unbundled or loaded.version,
    )
    source, words = planner.source, planner.words
    if placed.program:
        source, words = _INTERPRETER, command(placed, own_overrides(planner.job))[1:]
    added = placed.overrides
    try:
        job, _said = job_of(source, (*words, *added), premises)
    except TunerError:
        added = (*added, *planner.undivided)  # a pool has fewer GPUs than the layout of the job needs
        job, _said = job_of(source, (*words, *added), premises)
    planned = planner.plan(job, (*planner.before, *added))
    if planned.stopped:
        raise KeyboardInterrupt  # which the search has taken for its own end
    empty = PlacementPlan(
        placement=placement,
        cluster=workload.cluster,
        reason=_("nothing is sure to fit, however GPUs are divided"),
    )
    if planned.best is None:
        refusing = [f"{one.code}: {one.message}" for one in planned.decisions]
        return replace(empty, reason=refusing[0]) if refusing else empty
    setting = planned.best
    overrides = one_per_key((*(own_overrides(planner.job) if placed.program else ()), *setting.overrides))
    launch = command(placed, overrides) if placed.program else ()
    refusal = _refusal_of(planner, premises, launch, setting)
    if refusal:
        return replace(empty, reason=refusal)
    generation, training = side_seconds(setting.time)
    return PlacementPlan(
        placement=placement,
        cluster=workload.cluster,
        split=split,
        setting=setting,
        generation_s=generation,
        training_s=training,
        needs=placed,
        launch=_shown(planner.job, placed, overrides) if launch else (),
    )


def command(placed: OtherBase | PlacedLaunch, overrides: Iterable[str]) -> tuple[str, ...]:
    """The command that starts a program with overrides."""
    module = () if placed.program.endswith(_FILE) else ("-m",)
    return (_INTERPRETER, *module, placed.program, *placed.options, *overrides)


def _shown(job: JobReading, placed: PlacedLaunch, overrides: Iterable[str]) -> tuple[str, ...]:
    """The command with what is secret in it hidden."""
    return command(placed, map(job.loaded.settings.shown_override, overrides))


def _refusal_of(
    planner: Planner, premises: Premises, launch: tuple[str, ...], setting: PlannedSetting
) -> str:
    """Why what is shown is not the job that was planned, read back as it is shown; empty where it is."""
    premises = replace(premises, gpus_per_node=None, nodes=None)
    source, words = planner.source, (*planner.words, *setting.overrides)
    if launch:
        source, words = launch[0], launch[1:]
    job, _said = job_of(source, words, premises)
    refusing = [one for one in job.reading.findings if one.refuses and not one.set_aside]
    if refusing:
        return f"{refusing[0].rule.code}: {refusing[0].message}"
    if job.reading.workload != setting.workload:
        return _("read back, the lines that would be shown make another job")
    return ""


def own_overrides(job: JobReading, without: Collection[str] = ()) -> tuple[str, ...]:
    """Everything that the user sets but for some keys, as overrides of a program with the same keys.

    Raises:
        InputError: a key has a name that no override can have.
    """
    settings = job.loaded.settings
    lines = []
    for path in settings.origins:
        if not contains(settings.tree, path) or dotted(path) in without:
            continue  # deleted by what stands behind it
        if not has_name(path):
            raise InputError(_("no override can name the key {key}").format(key=dotted(path)))
        sign = "" if contains(settings.defaults, path) else _FORCE
        lines.append(override(dotted(path), lookup(settings.tree, path), sign))
    return one_per_key(lines)


def side_seconds(time: StepTime) -> tuple[float, float]:
    """Seconds of generation and of training, without the transfer of new weights that ends both."""
    generation, training = (
        sum(phase.seconds for phase in side if phase.phase is not Phase.UPDATE_WEIGHTS) for side in time.sides
    )
    return generation, training


def waits_for(time: StepTime) -> WaitsFor:
    """The longer side of two."""
    generation, training = side_seconds(time)
    return WaitsFor.GENERATION if generation > training else WaitsFor.TRAINING
