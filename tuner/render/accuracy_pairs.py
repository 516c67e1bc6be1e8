"""Runs that differ in one setting: the predicted change beside the measured one, as tables."""

from collections.abc import Sequence
from itertools import groupby

from tuner.accuracy import SettingPair
from tuner.inputs.secrets import shown_override
from tuner.language import _
from tuner.render.columns import left, right
from tuner.render.numbers import share
from tuner.render.terminal import Terminal, plain

_PHASE, _CHANGE, _INTERVAL, _ANSWER = 15, 11, 19, 9


def pairs_text(pairs: Sequence[SettingPair], terminal: Terminal) -> str:
    """Every pair with its phases, and how many changes were foreseen."""
    head = (
        "    "
        + left(_("phase"), _PHASE - 2)
        + right(_("predicted"), _CHANGE)
        + right(_("interval"), _INTERVAL)
        + right(_("measured"), _CHANGE)
        + right(_("sign"), _ANSWER)
        + right(_("inside"), _ANSWER)
    )
    lines = [terminal.style(_("Pairs: two runs that differ in one setting"), "bold")]
    lines.append(terminal.style(head, "dim"))
    for _runs, rows in groupby(pairs, key=lambda pair: (pair.first, pair.second, pair.key)):
        listed = list(rows)
        lines += [terminal.prose(_heading(listed[0]), indent="    ", first="  "), *map(_row, listed)]
    signed = [pair for pair in pairs if pair.sign_right is not None]
    summary = _("sign right in {right} of {signed}, inside the interval in {inside} of {count}").format(
        right=sum(pair.sign_right is True for pair in signed),
        signed=len(signed),
        inside=sum(pair.inside for pair in pairs),
        count=len(pairs),
    )
    note = _(
        "Changes are shares of the first run's seconds. What is uncertain of both runs alike cancels in the "
        "interval. How long the longest responses are that nobody says does not: each run has its own. How "
        "far two runs of one job differ besides is not in it."
    )
    return "\n".join([*lines, f"  {summary}", terminal.prose(note)])


def _heading(pair: SettingPair) -> str:
    before, after = (
        _("not set") if value is None else shown_override(f"{pair.key}={value}", known=True).partition("=")[2]
        for value in pair.values
    )
    text = _("{first} to {second}: {key} {before} to {after}")
    return plain(text.format(first=pair.first, second=pair.second, key=pair.key, before=before, after=after))


def _end(value: float) -> str:
    """An end of an interval; without a decimal where it is wider than the column otherwise."""
    return share(value) if abs(value) < 1 else f"{100 * value:+.0f}%"


def _row(pair: SettingPair) -> str:
    ends = _("{low} to {high}").format(low=_end(pair.low_share), high=_end(pair.high_share))
    sign = "-" if pair.sign_right is None else _("right") if pair.sign_right else _("wrong")
    return (
        "    "
        + left(pair.phase, _PHASE - 2)
        + right(share(pair.predicted_share), _CHANGE)
        + right(ends, _INTERVAL)
        + right(share(pair.measured_share), _CHANGE)
        + right(sign, _ANSWER)
        + right(_("yes") if pair.inside else _("no"), _ANSWER)
    )
