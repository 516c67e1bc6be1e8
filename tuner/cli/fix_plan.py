"""What fixing inputs comes to before anything is written, also where nobody asked for it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tuner.cli.baselines import UnknownLines
from tuner.cli.judging import Judging, drafted
from tuner.files import STANDARD_INPUT, file_names_read, is_there, read_bytes
from tuner.inputs.several import Input
from tuner.inputs.yaml_file import MAX_BYTES
from tuner.language import _
from tuner.review.fixes.apply import FixedFile, UnfixedFinding, apply_fixes, refused, with_verified_fixes
from tuner.review.input_findings import FindingLine, InputFindings
from tuner.review.result_store import ResultStore
from tuner.review.review import Review
from tuner.review.totals import Fixable


class FixPlan(Struct, frozen=True, kw_only=True):
    """One input as it is, and what fixing it comes to."""

    found: InputFindings
    fixed_file: FixedFile  # no bytes where nothing can be fixed
    rests_on: tuple[str, ...] = ()  # other files that were read for it, by their real paths


class Fixer(Struct, frozen=True, kw_only=True):
    """Fixes one input after another in memory; other processes get it, as they get no function of a call."""

    judging: Judging
    unsafe: bool  # whether fixes are applied that may change the training
    twice: frozenset[str]  # files that are named more than once, by their real paths
    unknown: UnknownLines

    @classmethod
    def of(cls, inputs: Sequence[Input], judging: Judging, *, unsafe: bool) -> "Fixer":
        """One for these inputs."""
        named = Counter(map(real_path, inputs))
        return cls(
            judging=judging,
            unsafe=unsafe,
            twice=frozenset(path for path, count in named.items() if count > 1),
            unknown=UnknownLines(judging.findings),
        )

    def __call__(self, given: Input) -> FixPlan:
        """What fixing an input comes to.

        Raises:
            InputError: a baseline cannot be read.
        """
        with file_names_read() as names:
            found = drafted(given, self.judging, None).proved
            fixed_file = self._fixed_file(given, found)
        own = real_path(given)
        others = {str(Path(name).resolve()) for name in names} - {own}
        return FixPlan(found=found, fixed_file=fixed_file, rests_on=tuple(sorted(others)))

    def _fixed_file(self, given: Input, found: InputFindings) -> FixedFile:
        lines = () if found.problem is not None else self.unknown(found)
        alone = real_path(given) not in self.twice
        if not alone or all(line.fix is None for line in lines):
            return self._left_as_it_is(found, lines, "" if alone else _("the file is named twice"))
        data = read_bytes(Path(given.config), most=MAX_BYTES)
        return apply_fixes(
            data,
            lambda content: drafted(given, self.judging, content),
            unsafe=self.unsafe,
            candidates=self.unknown,
        )

    def _left_as_it_is(self, found: InputFindings, lines: Sequence[FindingLine], reason: str) -> FixedFile:
        left = tuple(
            UnfixedFinding(line=line, reason=reason or line.no_fix) for line in lines if line.overrides
        )
        checked = refused(found, left, unsafe=self.unsafe)
        return FixedFile(before=b"", after=b"", fixed=(), left=left, checked=checked)


def real_path(given: Input) -> str:
    """The file of an input, behind links; what names no file as it was named."""
    is_file = not given.pasted and given.config != STANDARD_INPUT and is_there(given.config, Path.is_file)
    return str(Path(given.config).resolve()) if is_file else given.config


MOST_TRIED = 48  # fixes: to try them takes a second or two


def with_tried_fixes(review: Review, inputs: Sequence[Input], judging: Judging) -> Review:
    """The review with what would become of each safe fix, unless there are too many to try.

    Raises:
        InputError: a baseline cannot be read.
    """
    if not 0 < review.totals.fixable[Fixable.UNTRIED] <= MOST_TRIED:
        return review
    fixer = Fixer.of(inputs, judging, unsafe=False)

    def with_tried(given: Input, checked: InputFindings) -> InputFindings:
        if not any(line.fix is not None and line.fix.safe for line in checked.lines):
            return checked
        outcome = fixer(given)
        return (
            checked
            if outcome.found.problem is not None
            else with_verified_fixes(checked, outcome.fixed_file.checked)
        )

    results = map(with_tried, inputs, review.inputs)
    return replace(review, inputs=ResultStore.of(InputFindings, results, len(review.inputs)))
