"""A change that the model expects to shorten the step, and that may not: named where nothing sure is."""

from tuner import rules
from tuner.advise.acceptance import Acceptance
from tuner.advise.answer import Unsure
from tuner.advise.numerics import numerics
from tuner.advise.pricing import helps
from tuner.advise.reading import Reading
from tuner.findings import Goal
from tuner.rules.case import Case


def unsure(case: Case, reading: Reading, acceptance: Acceptance) -> Unsure | None:
    """The change of most expected gain that is no gain for sure; None where none is worth a line.

    It may not lose as much as it is expected to win, costs no memory that is missing, and is as exact as a
    line of the block.
    """
    guess = case.guessing
    best: Unsure | None = None
    for finding in rules.for_goal(guess, Goal.TIME):
        proposal = finding.proposal
        if proposal is None or finding.rule.yours or finding.grounds is not None:
            continue
        change = case.change(proposal)
        if change.is_gain or not helps(guess, finding, proposal) or change.high_share >= -change.share:
            continue
        if -change.share < acceptance.least_gain or (best is not None and best.change.share <= change.share):
            continue
        try:
            written = reading.write(proposal)
        except ValueError:  # the trainer has no keys for it
            continue
        effect = numerics(finding, case.workload, written.workload, elsewhere=acceptance.elsewhere)
        if written.workload == proposal and acceptance.accepts(finding, effect):
            best = Unsure(overrides=tuple(written.overrides), change=change)
    return best
