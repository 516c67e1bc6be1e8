"""Tries what ``--fix`` would do where nobody asked for it, so that findings can be marked with it."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner.cli.judging import Judging
from tuner.cli.mending import Mender
from tuner.inputs.several import Input
from tuner.review.checked import Checked
from tuner.review.fixes.tried import tried
from tuner.review.result_store import ResultStore
from tuner.review.review import Review
from tuner.review.totals import Fixable

MOST_TRIED = 48  # fixes: to try them takes a second or two


def with_tried_fixes(review: Review, inputs: Sequence[Input], judging: Judging) -> Review:
    """The review with what would become of each safe fix, unless there are too many to try.

    Raises:
        InputError: a baseline cannot be read.
    """
    if not 0 < review.totals.fixable[Fixable.UNTRIED] <= MOST_TRIED:
        return review
    mender = Mender.of(inputs, judging, unsafe=False)

    def with_tried(given: Input, checked: Checked) -> Checked:
        if not any(line.fix is not None and line.fix.safe for line in checked.lines):
            return checked
        outcome = mender(given)
        return checked if outcome.found.problem is not None else tried(checked, outcome.mended.checked)

    results = map(with_tried, inputs, review.inputs)
    return replace(review, inputs=ResultStore.of(Checked, results, len(review.inputs)))
