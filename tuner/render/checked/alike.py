"""Findings of an input that say the same of several keys: they are told once, with the keys."""

import re
from collections.abc import Iterator

from msgspec import Struct

from tuner.findings import Finding
from tuner.language import _, ngettext
from tuner.render.terminal import plain
from tuner.render.words import clauses, listed
from tuner.review.input_findings import FindingLine, InputFindings

_UNKNOWN = "unknown-key"  # whose keys are all that differs, whatever is near to each
_TECHNICAL = re.compile(r"[^\s;:,]*[._=\d][^\s;:,]*")  # keys, values, sizes


class AlikeFindings(Struct, frozen=True, kw_only=True):
    """Findings of one rule that differ in their keys alone."""

    lines: tuple[FindingLine, ...]
    release: str  # that they were judged for, such as "verl 0.9.1"

    @property
    def _are_unknown(self) -> bool:
        return len(self.lines) > 1 and _is_unknown(self.lines[0].finding)

    @property
    def ending(self) -> str:
        """What following it costs or gains and does to the training, or what else there is to do."""
        if self._are_unknown:
            return _("a fork? give its configuration")
        return clauses(filter(None, (self.lines[0].gain, self.lines[0].effect)))

    @property
    def message(self) -> str:
        """What is found, with the keys."""
        line, keys = self.lines[0], [line.key for line in self.lines]
        if self._are_unknown:
            return _unknown(keys, self.release)
        message = _without_release(plain(line.finding.message), self.release, plain(line.finding.only_in))
        if line.section and not line.overrides:
            message += _(" (not set: {key})").format(key=plain(line.key))
        others = [_("the same of {keys}").format(keys=listed(map(plain, keys[1:])))] if keys[1:] else []
        return clauses([message, *others])


def alike(checked: InputFindings) -> Iterator[AlikeFindings]:
    """The findings of an input, in their order, like ones beside the first of them."""
    judged = checked.judged_for
    release = "" if judged is None else f"{judged.trainer} {judged.release}"
    groups: dict[object, list[FindingLine]] = {}
    for number, line in enumerate(checked.lines):
        groups.setdefault(_likeness(line) if line.key else number, []).append(line)
    for lines in groups.values():
        yield AlikeFindings(lines=tuple(lines), release=release)


def _likeness(line: FindingLine) -> object:
    """What is the same of findings that are told as one."""
    fixed = line.fix is not None and line.fix.removes_finding
    finding = line.finding
    unknown = _is_unknown(finding)
    wording = "" if unknown else _TECHNICAL.sub("", finding.message)
    apart = line.overrides if unknown else (line.gain, line.effect)
    return line.code, finding.severity, line.location.source, fixed, wording, apart


def _is_unknown(finding: Finding) -> bool:
    """Whether it says that a key is unknown, and no more."""
    return finding.rule.name == _UNKNOWN and not finding.only_in


def _unknown(keys: list[str], release: str) -> str:
    """What to say of several keys that a release does not have."""
    return ngettext(
        "{count} key that {release} does not have: {keys}",
        "{count} keys that {release} does not have: {keys}",
        len(keys),
    ).format(count=len(keys), release=release, keys=listed(map(plain, keys)))


def _without_release(message: str, release: str, condition: str) -> str:
    """A message without the number of the release, which the last line of the command says of all.

    Args:
        message: of a finding.
        release: that it was judged for.
        condition: the releases that it holds in, which stand in front of it and keep their numbers.
    """
    before, condition, text = message.partition(condition) if condition else ("", "", message)
    trainer = release.partition(" ")[0]
    told = re.sub(rf"{re.escape(release)}(?![.\w]*\w)", trainer, text) if release else text
    return f"{before}{condition}{told}"
