"""Two configurations side by side as Markdown, for the summary of a step or a comment on a pull request."""

from collections.abc import Iterator

from tuner.consultation.comparison import ConfigurationDiff, KeyEntry, PhaseChange, Side
from tuner.language import _
from tuner.render.checked.markdown import bar, cell, code, table
from tuner.render.checked.wording import path_of
from tuner.render.comparison_table import (
    SHOWN_BYTES,
    amounts,
    below_uncertainty,
    same_seconds,
    step_words,
    times,
)
from tuner.render.comparison_words import CHANGES, VERDICTS, is_told, peak_words
from tuner.render.difference_words import effect_words, shows, value_of
from tuner.render.lengths import assumed_lengths
from tuner.render.numbers import gib
from tuner.render.terminal import Terminal
from tuner.render.words import clauses, full_stop, pasteable, sentence, shown_overrides, titled, with_note
from tuner.trainers.key_facts import KeyFate

_TERMINAL = Terminal()  # for its arrow
_UNIT = "GiB"


def comparison_markdown(comparison: ConfigurationDiff) -> str:
    """What changes and what that does to each phase; one sentence where that is nothing."""
    sections = [
        f"### {code(path_of(comparison.after.given.source))}",
        full_stop(_verdict(comparison)),
        *_refusals(comparison.after),
        *(_of_phases(comparison) if _changes(comparison) else [_unchanged()]),
        "\n".join(_keys(comparison)),
        "\n".join(_findings(comparison)),
    ]
    return "\n\n".join(section for section in sections if section)


def _verdict(comparison: ConfigurationDiff) -> str:
    first, second = (_(VERDICTS[side.job.verdict]) for side in (comparison.before, comparison.after))
    words = f"**{first}**" if first == second else f"**{first}** {_TERMINAL.arrow} **{second}**"
    problems = comparison.after.job.case.estimate.problems
    return clauses([titled(words, peak_words(comparison.after)), *map(cell, problems)])


def _refusals(side: Side) -> Iterator[str]:
    """What keeps the job from starting. The figures are those of the job with that lifted."""
    for refusal in side.job.refusals:
        rule = refusal.finding.rule
        text = titled(f"**{rule.code} {rule.name}**", sentence(cell(refusal.finding.message)))
        lifted = " ".join(map(pasteable, shown_overrides(refusal.finding, refusal.overrides)))
        yield (
            _("{text} It starts with {overrides}.").format(text=text, overrides=code(lifted))
            if lifted
            else text
        )


def _changes(comparison: ConfigurationDiff) -> bool:
    """Whether a figure of the table would change."""
    before, after = comparison.before.job.case.time, comparison.after.job.case.time
    if not same_seconds(before.seconds, after.seconds):
        return True
    return any(abs(one.change_bytes) >= SHOWN_BYTES for one in comparison.phases)


def _unchanged() -> str:
    return _("Memory and seconds of every phase stay as they are.")


def _of_phases(comparison: ConfigurationDiff) -> Iterator[str]:
    before, after = comparison.before.job.case, comparison.after.job.case
    capacity = after.estimate.capacity_bytes
    rows = [_phase(phase, capacity) for phase in comparison.phases]
    step = times(before.time.seconds, after.time.seconds, comparison.change)
    host = amounts(before.estimate.host_bytes, after.estimate.host_bytes)
    rows.append((_("host, per node"), *host, "", "", "", ""))
    name = _("step")
    rows.append((f"**{name}**", "", "", "", "", *step))
    memory = (_("before, {unit}").format(unit=_UNIT), _("after, {unit}").format(unit=_UNIT), _("change"))
    seconds = (_("before, s"), _("after, s"), _("change"))
    yield table((_("Phase"), *memory, _("Share of the card"), *seconds), rows)
    yield " ".join(map(full_stop, _notes(comparison)))


def _phase(phase: PhaseChange, capacity: int) -> tuple[str, ...]:
    peaks = [None if one is None else one.peak_bytes for one in (phase.before, phase.after)]
    name = f"`{phase.phase.value}`"
    timed = ("", "", "")
    if phase.before_seconds is not None or phase.after_seconds is not None:
        timed = times(phase.before_seconds, phase.after_seconds, phase.change)
    if (phase.after_bytes or 0) > capacity:
        name = f"**{name}**"
    return (name, *amounts(*peaks), bar((phase.after_bytes or 0) / capacity), *timed)


def _notes(comparison: ConfigurationDiff) -> Iterator[str]:
    after = comparison.after
    job = _("On one of {gpus}, with {capacity} each").format(
        gpus=cell(after.gpus), capacity=gib(after.job.case.estimate.capacity_bytes)
    )
    assumed = [_("the card is assumed, since none was named")] if after.gpu_assumed else []
    yield clauses([job, *assumed])
    yield clauses([step_words(comparison, _TERMINAL), *assumed_lengths(after.job.case.workload)])
    if note := below_uncertainty(comparison):
        yield note


def _keys(comparison: ConfigurationDiff) -> Iterator[str]:
    """The keys that change a figure, and those that the user set to something else."""
    told = [entry for entry in comparison.keys if is_told(entry) or entry.change.by_user]
    yield from (f"- {_key(entry)}" for entry in told)
    for behaviour in comparison.behaviours:
        if shows(behaviour.effect):
            yield "- " + titled(_("Without a key that shows it"), effect_words(behaviour.effect))


def _key(entry: KeyEntry) -> str:
    change = entry.change
    states = [_("none") if one.origin is None else value_of(one) for one in (change.before, change.after)]
    values = f" {_TERMINAL.arrow} ".join(code(state) for state in dict.fromkeys(states))
    what = values if change.change is KeyFate.VALUE else with_note(values, _(CHANGES[change.change]))
    effects = [effect_words(one.effect) for one in entry.differences if shows(one.effect)]
    return clauses([titled(code(change.after.key), what), *effects])


def _findings(comparison: ConfigurationDiff) -> Iterator[str]:
    """Errors and warnings that come, but those that are told as refusals, and those that go."""
    refused = {refusal.finding.rule.code for refusal in comparison.after.job.refusals}
    for finding in comparison.spoken:
        if finding.rule.code not in refused:
            named = titled(f"**{finding.rule.code} {finding.rule.name}**", cell(finding.message))
            yield "- " + titled(_("New"), named)
    for finding in comparison.silent:
        yield "- " + titled(_("Gone"), f"{finding.rule.code} {finding.rule.name}")
