"""What the trainer itself says of a setting: its overrides are read back, and its checks asked."""

from msgspec import Struct

from tuner import rules
from tuner.advise.reading import Reading
from tuner.findings import Finding, Severity
from tuner.language import _
from tuner.override_text import override_key
from tuner.plan.judge import Candidate
from tuner.plan.space import Choice, Space, same_training
from tuner.rules.case import Case, figures

UNWRITTEN = "unwritten"  # no overrides of the release bring it about


class Refused(Struct, frozen=True, kw_only=True):
    """A part of a choice that the trainer or its engine refuses, whatever else is chosen."""

    reason: str  # the code of a check
    message: str
    options: tuple[tuple[int, int], ...]  # numbers of axes with those of their options

    def holds(self, choice: Choice) -> bool:
        """Whether a choice has all of it."""
        return all(choice[one] == number for one, number in self.options)


class _No(Struct, frozen=True, kw_only=True):
    """Why a choice is not to be had."""

    reason: str
    message: str
    keys: frozenset[str] = frozenset()  # that the refusal names


class Legality:
    """Asks the trainer about settings, and remembers what it refuses."""

    def __init__(self, reading: Reading, space: Space) -> None:
        self._reading = reading
        self._space = space
        self._before = frozenset(_key(one) for one in reading.findings if one.severity is Severity.ERROR)
        self._said: dict[Choice, Candidate | _No] = {}
        self.refused: list[Refused] = []

    def refusal(self, choice: Choice) -> Refused | None:
        """What is already known to be refused of a choice."""
        return next((one for one in self.refused if one.holds(choice)), None)

    def setting(self, choice: Choice) -> Candidate | None:
        """A choice as the trainer reads it from its overrides; None where it is refused."""
        said = self._ask(choice)
        if isinstance(said, Candidate):
            return said
        self.refused.append(self._smallest(choice, said))
        return None

    def _ask(self, choice: Choice) -> "Candidate | _No":
        said = self._said.get(choice)
        if said is None:
            said = self._said[choice] = self._read_back(choice)
        return said

    def _read_back(self, choice: Choice) -> "Candidate | _No":
        """The setting as it reads back; else the code of what refuses it, and what that says."""
        try:
            written = self._reading.write(self._space.workload(choice))
            after = self._reading.adding(written.overrides) if written.overrides else self._reading
        except ValueError as error:
            return _No(reason=UNWRITTEN, message=str(error))
        workload = after.workload
        refusing = [one for one in after.findings if self._ends(one)]
        refusing += rules.refusals(Case.of(workload, headroom=0.0))
        if refusing:
            first = refusing[0]
            keys = frozenset((*first.keys, *map(override_key, first.overrides)))
            return _No(reason=first.rule.code, message=first.message, keys=keys)
        if not same_training(self._space.base, workload):
            return _No(reason=UNWRITTEN, message=_("the training would be another one"))
        return Candidate(
            choice=choice, workload=workload, figures=figures(workload), overrides=written.overrides
        )

    def _ends(self, finding: Finding) -> bool:
        """Whether a launch with it ends, or is another job than its settings say where it was not before."""
        if finding.refuses and not finding.set_aside:
            return True
        return finding.severity is Severity.ERROR and _key(finding) not in self._before

    def _smallest(self, choice: Choice, said: _No) -> Refused:
        """The options of a refused choice that are refused together, whatever the others are.

        Those count whose keys the refusal names, those without which it is lifted, and a layout where
        another one lifts it. Of what cannot be written nothing more is known.
        """
        every = tuple(enumerate(choice))
        if said.reason == UNWRITTEN:
            return Refused(reason=said.reason, message=said.message, options=every)
        needed = tuple((one, number) for one, number in every if self._matters(choice, one, said.keys))
        return Refused(reason=said.reason, message=said.message, options=needed or every)

    def _matters(self, choice: Choice, one: int, keys: frozenset[str]) -> bool:
        axis = self._space.axes[one]
        if any(option.keys & keys for option in axis.options):
            return True
        others = range(len(axis.options)) if axis.layout else (0,)
        return any(self._starts(_with(choice, one, other)) for other in others if other != choice[one])

    def _starts(self, choice: Choice) -> bool:
        return isinstance(self._ask(choice), Candidate)


def _with(choice: Choice, one: int, number: int) -> Choice:
    return (*choice[:one], number, *choice[one + 1 :])


def _key(finding: Finding) -> tuple[str, tuple[str, ...]]:
    return finding.rule.code, tuple(finding.keys)
