"""The placements of a plan: what each comes to, what overlap brings, and how it is asked for."""

from collections.abc import Iterator, Mapping

from tuner.consultation.placement import PlacementPlan
from tuner.consultation.planning import PlanAnswer
from tuner.consultation.splits import WaitsFor
from tuner.counted import counted
from tuner.language import _
from tuner.plan.answer import PlannedSetting
from tuner.render.block import pasted
from tuner.render.document.marks import strong, user_text
from tuner.render.document.parts import Heading, Paragraph, Part, Paste
from tuner.render.numbers import seconds_change
from tuner.render.plan_table import small, table_of
from tuner.render.words import full_stop, listed, pasteable, titled
from tuner.rules.wording import around, duration
from tuner.trainers.placement import PoolSplit

_OPTION = "--"


def placement_parts(answer: PlanAnswer) -> Iterator[tuple[Part, ...]]:
    """A table of the placements, then each that has a setting, with what it needs."""
    if not answer.placements:
        return
    cells = [_cells(one) for one in answer.placements]
    yield (Heading(text=_("Placement: what generates elsewhere trains on older responses")), table_of(cells))
    for one in answer.placements:
        yield tuple(_placement(one, answer))


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


def _placement(plan: PlacementPlan, answer: PlanAnswer) -> Iterator[Part]:
    name = strong(plan.placement.value)
    if plan.setting is None:
        yield Paragraph(text=user_text(full_stop(titled(name, plan.reason))), further=1)
        return
    needs = plan.needs
    if needs is None:
        return  # the settings of the job as it is stand above
    yield Paragraph(text=titled(name, _brings(plan, plan.setting, answer)), further=1)
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
    yield Paste(lines=tuple(_lines(plan, plan.setting)))


def _brings(plan: PlacementPlan, setting: PlannedSetting, answer: PlanAnswer) -> str:
    """The step beside that of the job where it is."""
    before = answer.plan.best
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
        "{generates}, which idle for the rest."
    )
    if plan.waits_for is WaitsFor.GENERATION:
        text = _(
            "A step waits for generation, {generation} s on {generates}; training takes {training} s of that "
            "on {trains}, which idle for the rest: overlap takes away no more than training."
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


def _divisions(plan: PlacementPlan) -> str:
    """The divisions that were planned, by the GPUs that train."""
    planned = sorted(plan.divisions, key=lambda one: (one.split.training_gpus, one.split.training_nodes))
    forms = [
        _("{pools} {seconds} s").format(pools=_pools(one.split), seconds=duration(one.seconds))
        if one.seconds is not None
        else _("{pools} none").format(pools=_pools(one.split))
        for one in planned
    ]
    return full_stop(titled(_("Divisions planned, training + generating"), listed(forms)))


def _lines(plan: PlacementPlan, setting: PlannedSetting) -> Iterator[str]:
    """The command with a line for each override, or the overrides alone."""
    if not plan.launch:
        yield from pasted(setting.overrides).split("\n")
        return
    place = max(number for number, word in enumerate(plan.launch) if word.startswith(_OPTION)) + 1
    command = " ".join(pasteable(word) for word in plan.launch[:place])
    yield from f"{command} \\\n{pasted(plan.launch[place:])}".split("\n")
