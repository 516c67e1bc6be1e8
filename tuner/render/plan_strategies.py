"""The strategies of a plan: which one is the best, and how a setting of another than the job's is started."""

from collections.abc import Iterator

from tuner.language import _
from tuner.plan.answer import ClusterPlan, LaunchNeeds, PlannedSetting
from tuner.render.block import pasted
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Paragraph, Part, Paste
from tuner.render.numbers import seconds
from tuner.render.words import clauses, full_stop, listed, pasteable, titled
from tuner.timing import change

_OPTION = "--"


def strategies_compared(plan: ClusterPlan) -> Iterator[Part]:
    """The best of each strategy beside that of the others, and why one has none."""
    fitting = sorted(
        (one.setting for one in plan.strategies if one.setting is not None), key=lambda one: one.time.seconds
    )
    if fitting:
        forms = [
            _("best under {strategy}: a step takes {step}").format(
                strategy=one.strategy, step=seconds(one.step, one.workload.cluster.gpu.name)
            )
            for one in fitting
        ]
        if len(fitting) > 1:
            first, second = fitting[:2]
            between = change(first.time, second.time, first.workload.cluster, then=second.workload.cluster)
            forms.append(
                _("{strategy} is faster by more than is uncertain").format(strategy=first.strategy)
                if between.is_loss
                else _("what is between the first two is smaller than what is uncertain of it")
            )
        yield Paragraph(text=full_stop(clauses(forms)), level=1, further=1)
    for one in plan.strategies:
        if one.setting is None:
            text = titled(_("nothing under {strategy}").format(strategy=one.strategy), full_stop(one.reason))
            yield Paragraph(text=user_text(text), level=1, further=1)


def started_otherwise(setting: PlannedSetting, needs: LaunchNeeds) -> Iterator[Part]:
    """What starts a setting that rests on another configuration: its lines with the option, or a command."""
    yield Paragraph(text=user_text(_needed(needs)), level=1, further=1)
    yield Paste(lines=tuple(_lines(setting, needs)))


def _needed(needs: LaunchNeeds) -> str:
    """The program, what has to be installed, and what of the launch has to go."""
    text = _("It rests on another configuration: start {program} with {options}")
    if needs.packages:
        text = _(
            "It rests on another configuration: start {program} with {options}, with {packages} installed"
        )
    words = text.format(
        program=needs.program, options=" ".join(needs.options), packages=listed(needs.packages)
    )
    if not needs.without:
        return full_stop(words)
    left = _("without these keys, which that one does not have: {keys}")
    return full_stop(clauses([words, left.format(keys=listed(needs.without))]))


def _lines(setting: PlannedSetting, needs: LaunchNeeds) -> Iterator[str]:
    """The lines with the option behind them, as Hydra takes them at a launch's end; else the command."""
    if not needs.launch:
        yield from pasted((*setting.overrides, *needs.options)).split("\n")
        return
    place = max(number for number, word in enumerate(needs.launch) if word.startswith(_OPTION)) + 1
    command = " ".join(pasteable(word) for word in needs.launch[:place])
    yield from f"{command} \\\n{pasted(needs.launch[place:])}".split("\n")
