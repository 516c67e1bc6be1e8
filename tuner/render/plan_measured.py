"""The settings of a plan as measuring some of them ranks them."""

from collections.abc import Iterator, Mapping

from tuner.language import _
from tuner.plan.corrections import CorrectedSetting, MeasuredPlan
from tuner.render.document.marks import user_text
from tuner.render.document.parts import Heading, Paragraph, Part
from tuner.render.plan_table import table_of
from tuner.render.words import listed
from tuner.rules.wording import around, duration


def measured_parts(plan: MeasuredPlan) -> Iterator[Part]:
    """A row for each setting, with what was measured of it and of others like it."""
    yield Heading(text=_("Measured on {device}").format(device=user_text(plan.device)))
    yield table_of([_cells(one) for one in plan.settings])
    text = _(
        "A phase takes what is modelled of it times measured over modelled seconds, in every setting whose "
        "phase has the same shape: the same engine, parallel sizes, recomputation, packing, head and "
        "micro-batch, wherever states lie between passes; of the rollout the same engine, whatever its share "
        "of the card. A star marks what was measured with the setting itself, a tilde the mean of a phase's "
        "other shapes where none of its own was measured: it may as well take what is modelled, or be as far "
        "on the other side, and its interval has both. What has no figure stays as modelled."
    )
    yield Paragraph(text=text, level=1, further=1)
    text = _("Measuring took {spent} s of the {budget} s that it was given.").format(
        spent=f"{plan.spent_s:.0f}", budget=f"{plan.budget_s:.0f}"
    )
    yield Paragraph(text=text, level=1, further=1)
    for note in plan.notes:
        yield Paragraph(text=user_text(note), level=1, further=1)


def _cells(setting: CorrectedSetting) -> Mapping[str, str]:
    step = setting.step
    ratios = [
        f"{one.phase.value} {'~' if one.borrowed else ''}{one.ratio:.2f}{'*' if one.own else ''}"
        for one in setting.ratios
    ]
    return {
        _("rank"): str(setting.rank),
        _("was"): str(setting.place),
        _("step, s"): around(duration(step.seconds), duration(step.low_s), duration(step.high_s)),
        _("modelled, s"): duration(setting.modelled_s),
        _("with"): listed(ratios) if ratios else _("nothing measured"),
    }
