"""Two configurations side by side, as a person reads them: in short, or all of it."""

from collections.abc import Iterator, Sequence

from tuner.advise.comparison import Difference
from tuner.consultation.comparison import ConfigurationDiff, KeyEntry, Side
from tuner.language import _, ngettext
from tuner.render.comparison_table import phase_table
from tuner.render.comparison_words import CHANGES, VERDICTS, is_told, peak_words
from tuner.render.difference_words import difference_words, effect_words, shows, state_words, value_of
from tuner.render.input_notes import lost, not_followed, open_values
from tuner.render.left_out import named
from tuner.render.terminal import Terminal, plain
from tuner.render.words import (
    SEVERITY_COLOURS,
    clauses,
    full_stop,
    listed,
    pasteable,
    sentence,
    shown_overrides,
    titled,
    with_note,
)
from tuner.trainers.key_facts import KeyChange, KeyFate

# Fields by which the training itself is another one: told whatever they cost.
_OF_TRAINING = frozenset({"loss_averages_micro_batches"})


def comparison_text(comparison: ConfigurationDiff, terminal: Terminal, *, full: bool) -> str:
    """What changes, and what that does to the job.

    Args:
        comparison: to be told.
        terminal: where.
        full: all keys and behaviours, not those alone that change memory or seconds.
    """
    sections = [
        "\n".join(_head(comparison, terminal)),
        "\n".join(phase_table(comparison, terminal)),
        "\n".join(_keys(comparison, terminal, full=full)),
        "\n".join(_behaviours(comparison, terminal, full=full)),
        "\n".join(_findings(comparison, terminal)),
        "" if full else _rest(comparison, terminal),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(comparison: ConfigurationDiff, terminal: Terminal) -> Iterator[str]:
    for name, side in ((_("before"), comparison.before), (_("after"), comparison.after)):
        yield terminal.prose(plain(titled(name, _side(side))), indent="  ", first="")
        yield from _verdict(side, terminal)
        if side.left_out:
            yield terminal.prose(titled(_("left out"), named(side.left_out)), indent="    ", first="  ")
    yield from _engines(comparison, terminal)
    yield from _premises(comparison, terminal)


def _engines(comparison: ConfigurationDiff, terminal: Terminal) -> Iterator[str]:
    """Says that the two sides run different versions of the rollout engine, which nobody asked for."""
    before, after = comparison.before.rollout_engine, comparison.after.rollout_engine
    if None not in (before, after) and before != after and not comparison.engines_named:
        text = _(
            "Each release is taken with the newest engine that it allows: {before}, {after}. "
            "--engine-version names one for both, or two."
        ).format(before=before, after=after)
        yield terminal.prose(plain(text), indent="  ", first="")


def _premises(comparison: ConfigurationDiff, terminal: Terminal) -> Iterator[str]:
    """The card that was assumed, and what scripts lose and leave open, each thing once."""
    before, after = comparison.before, comparison.after
    texts = []
    if after.gpu_assumed:
        text = _("no GPU was named and none was found; {gpus} are taken. Give --gpu NAME.")
        texts.append(titled(_("ASSUMED"), text.format(gpus=after.gpus)))
    for given in (before.given, after.given):
        said = [(_("LOST"), lost(given)), (_("open"), open_values(given))]
        said += [(_("script"), text) for text in not_followed(given)]
        texts += [titled(name, plain(text)) for name, text in said if text]
    for text in dict.fromkeys(texts):
        yield terminal.prose(text, indent="  ", first="")


def _side(side: Side) -> str:
    words = [f"{side.loaded.trainer.name} {side.loaded.version}"]
    words += [side.rollout_engine] if side.rollout_engine is not None else []
    source = " ".join([_(side.given.source), *map(pasteable, side.words)])
    return listed([source, *words, side.model, side.gpus])


def _verdict(side: Side, terminal: Terminal) -> Iterator[str]:
    job = side.job
    words = [titled(_(VERDICTS[job.verdict]), peak_words(side)), *job.case.estimate.problems]
    yield terminal.prose(full_stop(plain(clauses(words))), indent="    ", first="  ")
    for refusal in job.refusals:
        finding = refusal.finding
        text = titled(f"{finding.rule.code} {finding.rule.name}", sentence(plain(finding.message)))
        yield terminal.prose(text, indent="      ", first="    ")
        yield from (
            f"      {pasteable(override)}" for override in shown_overrides(finding, refusal.overrides)
        )


def _keys(comparison: ConfigurationDiff, terminal: Terminal, *, full: bool) -> Iterator[str]:
    entries = [entry for entry in comparison.keys if full or is_told(entry)]
    if not entries:
        return
    yield terminal.style(_("Keys"), "bold")
    for entry in entries:
        yield from _key(entry, terminal, full=full)


def _key(entry: KeyEntry, terminal: Terminal, *, full: bool) -> Iterator[str]:
    change = entry.change
    if change.change is KeyFate.RENAMED:
        line = f"{change.before.key} {terminal.arrow} {change.after.key}"
    else:
        line = change.after.key
    yield terminal.prose(plain(line), indent="      ", first="  ")
    words = [_(CHANGES[change.change]), _values(entry, terminal)]
    if change.reason:
        words.append(_(change.reason).rstrip("."))
    if full:
        words += [
            difference_words(difference, terminal)
            for difference in entry.differences
            if change.change is KeyFate.MEANING or not shows(difference.effect)
        ]
    elif change.change is KeyFate.MEANING:
        words += [difference_words(difference, terminal) for difference in entry.differences]
    if entry.together:
        others = listed(f"{other.after.key} {_short(other, terminal)}" for other in entry.together)
        words.append(_("together with {keys}").format(keys=others))
    yield terminal.prose(plain(clauses(word for word in words if word)), indent="    ")
    for difference in entry.differences:
        if shows(difference.effect):
            yield terminal.prose(effect_words(difference.effect), indent="      ", first="    ")
        if difference.overrides and (full or shows(difference.effect)):
            yield terminal.prose(_("as before:"), indent="      ", first="    ")
            yield from (f"      {pasteable(override)}" for override in difference.overrides)


def _values(entry: KeyEntry, terminal: Terminal) -> str:
    before, after = entry.change.before, entry.change.after
    if before.origin is None and after.origin is None:
        return ""
    first, second = state_words(before), state_words(after)
    return first if first == second else f"{first} {terminal.arrow} {second}"


def _behaviours(comparison: ConfigurationDiff, terminal: Terminal, *, full: bool) -> Iterator[str]:
    told = [one for one in comparison.behaviours if full or _is_behaviour_told(one)]
    if not told:
        return
    yield terminal.style(_("Without a key that shows it"), "bold")
    for behaviour in told:
        text = plain(difference_words(behaviour, terminal))
        yield terminal.prose(text, indent="    ", first="  ")
        if _changes_training(behaviour):
            yield "    " + _("the training itself is another one")
        if shows(behaviour.effect):
            yield terminal.prose(effect_words(behaviour.effect), indent="      ", first="    ")


def _is_behaviour_told(behaviour: Difference) -> bool:
    return shows(behaviour.effect) or _changes_training(behaviour)


def _changes_training(behaviour: Difference) -> bool:
    return any(field.path[-1] in _OF_TRAINING for field in behaviour.fields)


def _findings(comparison: ConfigurationDiff, terminal: Terminal) -> Iterator[str]:
    refused = {refusal.finding.rule.code for refusal in comparison.after.job.refusals}
    spoken = [finding for finding in comparison.spoken if finding.rule.code not in refused]
    if spoken:
        yield terminal.style(_("Said of the second alone"), "bold")
    for finding in spoken:
        severity = terminal.style(_(finding.severity.value), SEVERITY_COLOURS[finding.severity])
        text = titled(f"{severity} {finding.rule.code} {finding.rule.name}", plain(finding.message))
        yield terminal.prose(text, indent="    ", first="  ")


def _rest(comparison: ConfigurationDiff, terminal: Terminal) -> str:
    """The keys that are named alone, and how many of what is not even named."""
    lines = []
    together = {change.after.key for entry in comparison.keys for change in entry.together}
    entries = [
        entry for entry in comparison.keys if not is_told(entry) and entry.change.after.key not in together
    ]
    named = [
        f"{entry.change.after.key} {_short(entry.change, terminal)}"
        for entry in entries
        if entry.change.change in _NAMED_CHANGES
    ]
    if named:
        text = titled(_("Changed as well, without effect on memory or seconds here"), listed(named))
        lines.append(terminal.prose(full_stop(plain(text)), indent="  ", first=""))
    unnamed = sum(entry.change.change not in _NAMED_CHANGES for entry in entries)
    silent = sum(not _is_behaviour_told(one) for one in comparison.behaviours)
    if not lines and not unnamed and not silent and not any(comparison.keys):
        return _("Nothing differs that touches the job.") if not comparison.behaviours else ""
    if unnamed or silent:
        lines.append(
            terminal.prose(
                _("{keys} and {behaviours} change neither: --full.").format(
                    keys=ngettext("{count} further key", "{count} further keys", unnamed).format(
                        count=unnamed
                    ),
                    behaviours=ngettext("{count} behaviour", "{count} behaviours", silent).format(
                        count=silent
                    ),
                ),
                indent="  ",
                first="",
            )
        )
    return "\n".join(lines)


_NAMED_CHANGES = (
    KeyFate.VALUE,
    KeyFate.DEFAULT,
    KeyFate.RENAMED,
    KeyFate.READ,
    KeyFate.MEANING,
    KeyFate.UNREAD,
)


def _short(change: KeyChange, terminal: Terminal) -> str:
    values = [
        _("none") if state.origin is None else value_of(state) for state in (change.before, change.after)
    ]
    same: Sequence[str] = values[:1] if values[0] == values[1] else values
    words = f" {terminal.arrow} ".join(same)
    return with_note(words, _(CHANGES[change.change]))
