"""Applies fixes one after another, each only if a second look at the file finds nothing at its keys."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from tuner.findings import Severity
from tuner.inputs.tree import Path
from tuner.language import _
from tuner.review.checked import Checked, Line
from tuner.review.fixes.changes import key_of
from tuner.review.fixes.edits import applied

_MOST = 100  # fixes of one file


class Left(Struct, frozen=True, kw_only=True):
    """A finding that stays, and why."""

    line: Line
    reason: str


class Mended(Struct, frozen=True, kw_only=True):
    """A file before and after its fixes."""

    before: bytes
    after: bytes
    fixed: tuple[Line, ...]  # in the order in which they were mended
    left: tuple[Left, ...]  # with overrides, and not mended
    checked: Checked  # what is found in the file afterwards


def mend(
    data: bytes,
    judge: Callable[[bytes], Checked],
    *,
    unsafe: bool,
    candidates: Callable[[Checked], Sequence[Line]] = lambda checked: checked.lines,
) -> Mended:
    """Mend what can be mended.

    What is mended is judged anew after each fix, so that the rest is found in the file as it is then. It ends
    where no fix is left that can be applied, so that a second run changes nothing.

    Args:
        data: the file.
        judge: what is found in a file with these bytes, each finding with its fix.
        unsafe: whether fixes are applied that may change the training.
        candidates: which of the findings are to be mended.
    """
    judged = _Judged(judge, candidates)
    before, seen = data, {data}
    fixed: list[Line] = []
    left: list[Left] = []
    while len(fixed) < _MOST:
        left = []
        step = next(_steps(data, judged, seen, left, unsafe=unsafe), None)
        if step is None:
            break
        line, data = step
        fixed.append(line)
        seen.add(data)
    return Mended(before=before, after=data, fixed=tuple(fixed), left=tuple(left), checked=judged.of(data))


class _Judged:
    """What was found in each state of a file, looked for once."""

    def __init__(
        self, judge: Callable[[bytes], Checked], candidates: Callable[[Checked], Sequence[Line]]
    ) -> None:
        self._judge = judge
        self.candidates = candidates
        self._known: dict[bytes, Checked] = {}

    def of(self, data: bytes) -> Checked:
        if data not in self._known:
            self._known[data] = self._judge(data)
        return self._known[data]


def _steps(
    data: bytes, judged: _Judged, seen: set[bytes], left: list[Left], *, unsafe: bool
) -> Iterator[tuple[Line, bytes]]:
    """The fixes that can be applied next, each with the file after it; the others are noted as left."""
    for line in judged.candidates(judged.of(data)):
        if line.fix is None:
            if line.overrides:
                left.append(Left(line=line, reason=line.no_fix))
            continue
        if not (unsafe or line.fix.safe):
            reason = _("it may change the training or what was meant; --unsafe-fixes applies it")
            left.append(Left(line=line, reason=reason))
            continue
        after = applied(data, line.fix.edits)
        reason = _objection(line, after, judged, judged.of(data), seen)
        if reason:
            left.append(Left(line=line, reason=reason))
        else:
            yield line, after


def _objection(line: Line, after: bytes, judged: _Judged, before: Checked, seen: set[bytes]) -> str:
    """Why a fix is not applied; empty where it is."""
    if after in seen:
        return _("it would undo another fix")
    then = judged.of(after)
    if then.problem is not None:
        return _("the file could not be used: {problem}").format(problem=then.problem.message)
    again = next((other for other in then.lines if _keys(other) & _keys(line)), None)
    if again is not None:
        return _("then {code} would be found at the same key").format(code=again.code)
    known = {other.code for other in before.lines}
    worse = next(
        (other for other in then.lines if other.at_least(Severity.ERROR) and other.code not in known), None
    )
    return "" if worse is None else _("then {code} would be found").format(code=worse.code)


def _keys(line: Line) -> set[Path]:
    """The keys that a finding would set."""
    return set(map(key_of, line.overrides))
