"""The placements of a plan: what each comes to, what overlap brings, and how it is asked for."""

from collections.abc import Iterator, Mapping

from tuner.consultation.placement import PlacementPlan
from tuner.consultation.planning import PlanAnswer
from tuner.consultation.splits import WaitsFor
from tuner.counted import counted
from tuner.hardware import Cluster
from tuner.language import _
from tuner.plan.answer import PlannedSetting
from tuner.render.block import pasted
from tuner.render.document.marks import strong, user_text
from tuner.render.document.parts import Heading, Paragraph, Part, Paste
from tuner.render.numbers import seconds_change
from tuner.render.plan_table import cluster_words, small, table_of
from tuner.render.words import full_stop, listed, pasteable, titled
from tuner.rules.wording import around, duration
from tuner.trainers.placement import PoolSplit

_OPTION = "--"


def placement_parts(answer: PlanAnswer) -> Iterator[tuple[Part, ...]]:
    """A table of the placements, then each that has a setting, with what it needs; last other clusters."""
    here = answer.placements_on(answer.plan.cluster)
    if not here:
        return
    heading = Heading(text=_("Placement: what generates elsewhere trains on older responses"))
    yield (heading, *_where(answer), table_of([_cells(one) for one in here]))
    for one in here:
        yield tuple(_placement(one, strong(one.placement.value), answer.plan.best))
    yield from _elsewhere(answer)


def _where(answer: PlanAnswer) -> Iterator[Part]:
    """Which of the GPUs these are, where there are others."""
    if len(answer.rows) > 1:
        yield Paragraph(text=_("On {where}.").format(where=cluster_words(answer.plan.cluster)), level=1)


def _elsewhere(answer: PlanAnswer) -> Iterator[tuple[Part, ...]]:
    """What to choose on other numbers and cards: surely faster than colocated, and beaten by none."""
    points = (point for point in answer.trade_off if point.unbeaten or point.unbeaten_by_price)
    chosen = {id(point.setting) for point in points}
    rows = [row for row in answer.rows if row.plan is not answer.plan]
    for row in rows:
        one = answer.placed_best(row)
        if (
            one is None
            or id(one.setting) not in chosen
            or (one.change is not None and not one.change.is_gain)
        ):
            continue
        name = _("{placement} on {where}").format(
            placement=one.placement.value, where=cluster_words(row.cluster)
        )
        yield tuple(_placement(one, strong(name), row.plan.best))
    if any(row.elsewhere for row in rows):
        yield (Paragraph(text=_("--write has a file of each placement on each of the GPUs."), level=0),)


def _cells(plan: PlacementPlan) -> Mapping[str, str]:
    """The step of a placement, and the GPUs that train and that generate."""
    cells = {_("with"): plan.placement.value}
    if plan.setting is None:
        return {**cells, _("step, s"): "-"}
    step, split = plan.setting.step, plan.split
    cells[_("GPUs")] = str(plan.setting.workload.cluster.gpus) if split is None else _pools(split)
    cells[_("step, s")] = around(duration(step.seconds), duration(step.low_s), duration(step.high_s))
    cells[_("GPU-hours")] = small(plan.setting.gpu_hours)
    return cells


def _placement(plan: PlacementPlan, name: str, before: PlannedSetting | None) -> Iterator[Part]:
    """What a placement comes to, and how it is asked for.

    Args:
        plan: of the placement.
        name: what it is called.
        before: the setting of the job where it is, on the same GPUs.
    """
    if plan.setting is None:
        yield Paragraph(text=user_text(full_stop(titled(name, plan.reason))), further=1)
        return
    needs = plan.needs
    if needs is None:
        return  # the settings of the job as it is stand above
    yield Paragraph(text=titled(name, _brings(plan, plan.setting, before)), further=1)
    yield Paragraph(text=_waits(plan), level=1, further=1)
    if len(plan.divisions) > 1:
        yield Paragraph(text=_divisions(plan), level=1, further=1)
    yield Paragraph(text=titled(_("The training changes"), full_stop(needs.effect)), level=1, further=1)
    if needs.upper:
        text = _(
            "Its seconds are a bound: the last responses of a step are waited for in them, and not there."
        )
        yield Paragraph(text=text, level=1, further=1)
    if plan.change is not None and plan.change.is_loss:
        return  # nothing to paste that makes the step longer
    if not needs.packaged:
        text = _("{program} stands in the repository of {release}, not in what is installed of it.")
        release = plan.setting.workload.release
        yield Paragraph(text=text.format(program=needs.program, release=release), level=1)
    yield Paste(lines=placed_lines(plan, plan.setting))


def _brings(plan: PlacementPlan, setting: PlannedSetting, before: PlannedSetting | None) -> str:
    """The step beside that of the job where it is."""
    if before is None:
        return _("it fits, and the job where it is does not.")
    gpu = setting.workload.cluster.gpu.name
    words = seconds_change(before.time.seconds, setting.step, plan.change, gpu)
    if plan.change is not None and plan.change.is_gain:
        return full_stop(words)
    text = _("nothing is sure to be gained: {change}")
    if plan.change is not None and plan.change.is_loss:
        text = _("nothing is gained: {change}")
    return full_stop(text.format(change=words))


def _waits(plan: PlacementPlan) -> str:
    """Which side a step waits for, and why overlap brings no more than that."""
    split = plan.split
    assert split is not None  # asked of two pools alone
    training, generation = duration(plan.training_s or 0.0), duration(plan.generation_s or 0.0)
    text = _(
        "A step waits for training, {training} s on {trains}; generation takes {generation} s of that on "
        "{generates}, idle for the rest."
    )
    if plan.waits_for is WaitsFor.GENERATION:
        text = _(
            "A step waits for generation, {generation} s on {generates}; training takes {training} s of that "
            "on {trains}, idle for the rest: overlap takes away no more than training."
        )
    return text.format(
        training=training,
        generation=generation,
        trains=counted(split.training_gpus, "GPU"),
        generates=counted(split.generating_gpus, "GPU"),
    )


def _pools(split: PoolSplit) -> str:
    return _("{training} + {generating}").format(
        training=split.training_gpus, generating=split.generating_gpus
    )


def _of_nodes(split: PoolSplit, cluster: Cluster) -> str:
    """How the nodes are divided, where as many GPUs train in another way as well."""
    whole = split.training_gpus_per_node == cluster.gpus_per_node
    return _("(whole nodes)") if whole else _("(each node divided)")


def _divisions(plan: PlacementPlan) -> str:
    """The divisions that were planned, by the GPUs that train."""
    planned = sorted(plan.divisions, key=lambda one: (one.split.training_gpus, one.split.training_nodes))
    pools = [_pools(one.split) for one in planned]
    named = [
        f"{text} {_of_nodes(one.split, plan.cluster)}" if pools.count(text) > 1 else text
        for text, one in zip(pools, planned, strict=True)
    ]
    forms = [
        _("{pools} {seconds} s").format(pools=text, seconds=duration(one.seconds))
        if one.seconds is not None
        else _("{pools} none").format(pools=text)
        for text, one in zip(named, planned, strict=True)
    ]
    return full_stop(titled(_("Divisions planned, training + generating"), listed(forms)))


def placed_lines(plan: PlacementPlan, setting: PlannedSetting) -> tuple[str, ...]:
    """The command with a line for each override, or the overrides alone."""
    if not plan.launch:
        return tuple(pasted(setting.overrides).split("\n"))
    place = max(number for number, word in enumerate(plan.launch) if word.startswith(_OPTION)) + 1
    command = " ".join(pasteable(word) for word in plan.launch[:place])
    return tuple(f"{command} \\\n{pasted(plan.launch[place:])}".split("\n"))
