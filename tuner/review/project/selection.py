"""Which rules' findings are wanted: by code, by name, or by the letters of a group."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property

from msgspec import Struct

from tuner.errors import InputError, Location
from tuner.evidence import Evidence
from tuner.findings import Finding, Rule
from tuner.language import _

ALL = "ALL"
_SURENESS = {evidence: rank for rank, evidence in enumerate(Evidence)}


class KnownRules(Struct, frozen=True, dict=True):
    """All rules there are, by their codes and names."""

    rules: tuple[Rule, ...]

    @cached_property
    def codes(self) -> dict[str, str]:
        """Codes by everything that names one rule, in small letters."""
        return {word.lower(): rule.code for rule in self.rules for word in (rule.code, rule.name)}

    @cached_property
    def groups(self) -> frozenset[str]:
        """The letters of codes, and the word for all of them."""
        return frozenset({ALL} | {rule.code.rstrip("0123456789") for rule in self.rules})

    def code(self, word: str) -> str | None:
        """The code of a rule by its code or name, in any case; None where there is no such rule."""
        return self.codes.get(word.strip().lower())

    def near(self, word: str) -> str | None:
        """The code or name that a word is nearly."""
        wanted = word.strip().lower()
        matches = get_close_matches(wanted, [*self.codes, *map(str.lower, self.groups)], 1, cutoff=0.6)
        if not matches:
            return None
        return matches[0] if "-" in matches[0] else matches[0].upper()

    def resolved(self, words: Iterable[str], place: Location | None) -> tuple[str, ...]:
        """Codes and groups.

        Raises:
            InputError: a word is none of them.
        """
        return tuple(self._resolved(word, place) for word in words)

    def _resolved(self, word: str, place: Location | None) -> str:
        known = word.strip().upper() if word.strip().upper() in self.groups else self.code(word)
        if known is None:
            near = self.near(word)
            hint = (
                _("did you mean {near}?").format(near=near)
                if near
                else _("'tuner rule --all' lists all of them; {groups} are groups").format(
                    groups=", ".join(sorted(self.groups))
                )
            )
            raise InputError(_("there is no rule {wanted!r}").format(wanted=word), location=place, hint=hint)
        return known


class Selection(Struct, frozen=True, kw_only=True):
    """Which findings are wanted."""

    select: tuple[str, ...] = (ALL,)  # codes and groups
    ignore: tuple[str, ...] = ()
    min_evidence: Evidence = Evidence.HEURISTIC

    def wants_rule(self, code: str) -> bool:
        """Whether findings of a rule are wanted; a code is heard before its group, the group before ALL."""
        selected, ignored = _closeness(code, self.select), _closeness(code, self.ignore)
        return selected > 0 and selected > ignored

    def wants(self, finding: Finding) -> bool:
        """Whether a finding is wanted."""
        sure = _SURENESS[finding.evidence] <= _SURENESS[self.min_evidence]
        return sure and self.wants_rule(finding.rule.code)


def _closeness(code: str, words: Sequence[str]) -> int:
    """How closely any of the words names a rule, from 3 for its code; 0 where none does."""
    if code in words:
        return 3
    if code.rstrip("0123456789") in words:
        return 2
    return 1 if ALL in words else 0
