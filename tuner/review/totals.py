"""What is counted of all inputs of a review together, in one pass over them."""

from collections import Counter
from collections.abc import Iterable

from tuner.enumeration import Enum
from tuner.findings import Severity
from tuner.review.input_findings import CheckedGpu, Fix, InputFindings, JudgedFor, SilencedBy


class Fixable(Enum):
    """What is known of a fix."""

    FIXED = "fixed"  # --fix was tried, and leaves nothing of the finding
    UNTRIED = "untried"  # for --fix, which has not been tried
    UNSAFE = "unsafe"  # for --unsafe-fixes


class Totals:
    """How much was found in all inputs, and what they were judged for.

    Args:
        inputs: all of them, in their order.
    """

    def __init__(self, inputs: Iterable[InputFindings]) -> None:
        self.unusable = 0  # inputs
        self.quiet = 0  # inputs of which there is nothing to say
        self.severities: Counter[Severity] = Counter()  # of the findings that are reported
        self.failing = 0  # findings as bad as what makes the check of their input fail
        self.fixable: Counter[Fixable] = Counter()  # findings with a fix that was not refused
        self.silenced: Counter[SilencedBy] = Counter()  # findings
        self.left_out = 0  # findings that the settings do not ask for
        self.releases: dict[str, str] = {}  # trainers with their release, and why it was taken the last time
        self.guessed = 0  # inputs of whose release nothing says which it is
        self.engines: dict[str, str] = {}  # rollout engines in the same way
        self.cards: dict[str, CheckedGpu] = {}  # of each card the first, in the order of the last
        self.last: JudgedFor | None = None
        self.baselines: dict[str, None] = {}  # that the settings name, in the order of the inputs
        for checked in inputs:
            self._add(checked)

    def _add(self, checked: InputFindings) -> None:
        self.unusable += checked.problem is not None
        self.quiet += checked.problem is None and not checked.lines and not checked.silenced
        self.left_out += checked.left_out
        for line in checked.lines:
            self.severities[line.finding.severity] += 1
            self.failing += line.at_least(checked.fail_on)
            if line.fix is not None and not line.fix.refused:
                self.fixable[_fixable(line.fix)] += 1
        for silenced in checked.silenced:
            self.silenced[silenced.by] += 1
        if checked.baseline:
            self.baselines[checked.baseline] = None
        if checked.judged_for is not None:
            self._add_judged_for(checked.judged_for)

    def _add_judged_for(self, judged: JudgedFor) -> None:
        self.guessed += bool(judged.release_likely)
        self.releases[f"{judged.trainer} {judged.release}"] = judged.release_reason
        if judged.engine is not None:
            self.engines[judged.engine] = judged.engine_reason or ""
        self.cards[judged.gpu.name] = self.cards.pop(judged.gpu.name, judged.gpu)
        self.last = judged


def _fixable(fix: Fix) -> Fixable:
    if not fix.safe:
        return Fixable.UNSAFE
    return Fixable.FIXED if fix.removes_finding else Fixable.UNTRIED
