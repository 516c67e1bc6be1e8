"""Verdicts on recommended sizes of the update's micro-batch: whether they run here, and what comes after."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tuner import batching
from tuner.advise import Recommendation
from tuner.language import _
from tuner.units import GIB
from tuner.validate.report.schema import Outcome
from tuner.validate.report.verdicts import verdict
from tuner.validate.search.bisection import longest_share, resized, snapped
from tuner.validate.session import OutOfBudgetError, Session
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import PassFigures
from tuner.workload import Workload


@dataclass(kw_only=True)
class Tries:
    """What was tried, by tokens."""

    ran: dict[int, PassFigures] = field(default_factory=dict)
    out_of_memory: dict[int, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many sizes were run."""
        return len(self.ran) + len(self.out_of_memory)

    def runs(self, tokens: int) -> bool | None:
        """Whether so many run, by what more or fewer did; None: not known."""
        if any(size <= tokens for size in self.out_of_memory):
            return False
        return True if any(size >= tokens for size in self.ran) else None


def proposed_sizes(session: Session) -> Iterator[tuple[Recommendation, int]]:
    """Recommendations that change nothing of the actor but the update's batching, each with its tokens."""
    workload = session.subject.workload
    for recommendation in session.subject.advice.recommendations:
        proposal = recommendation.finding.proposal
        if proposal is None or proposal.actor.update.batching == workload.actor.update.batching:
            continue
        same = proposal.actor.engine == workload.actor.engine and proposal.actor.head == workload.actor.head
        if same:
            yield recommendation, update_tokens(proposal)


def update_tokens(workload: Workload) -> int:
    """Tokens of the update's largest micro-batch on one GPU."""
    return batching.micro_batch_tokens(workload.batch, workload.actor_update)


def judge_sizes(session: Session, one: PlannedPass, tries: Tries, attempt: Callable[[int], bool]) -> None:
    """Try each recommended size.

    Args:
        session: records the verdicts.
        one: the update as configured.
        tries: all so far; ``attempt`` adds to them.
        attempt: whether so many tokens run.

    Raises:
        OutOfBudgetError: there was no time for a try.
    """
    for recommendation, tokens in proposed_sizes(session):
        size = snapped(tokens, longest_share(one, session.subject))
        measured = session.is_measured(recommendation)
        outcome, reason = _outcome(session, one, tries, size, attempt, is_measured=measured)
        session.judge(verdict(recommendation, outcome, reason))


def _outcome(
    session: Session,
    one: PlannedPass,
    tries: Tries,
    tokens: int,
    attempt: Callable[[int], bool],
    *,
    is_measured: bool,
) -> tuple[Outcome, str]:
    longest = longest_share(one, session.subject)
    capacity = session.options.capacity_bytes(session.machine)
    alone = resized(one, tokens, longest).predicted.peak_bytes
    runs = tries.runs(tokens)
    if runs is None and alone > capacity:
        reason = _(
            "{tokens:,} tokens take {alone:.1f} GiB with the states sharded over what is here, "
            "{processes} GPU(s), and {capacity:.1f} GiB are there"
        ).format(
            tokens=tokens, alone=alone / GIB, processes=session.options.processes, capacity=capacity / GIB
        )
        return Outcome.NOT_MEASURABLE, reason
    if runs is None:
        runs = attempt(tokens)
    elif runs and tokens not in tries.ran and not is_measured:
        with suppress(OutOfBudgetError):  # more tokens did run, which says the same
            runs = attempt(tokens)
    if not runs:
        outcome = Outcome.REFUTED if alone <= capacity else Outcome.NOT_MEASURABLE
        return outcome, _("{tokens:,} tokens run out of memory, where {alone:.1f} GiB were predicted").format(
            tokens=tokens, alone=alone / GIB
        )
    after = {True: _("runs as well"), False: _("runs out of memory"), None: _("was not tried")}
    next_one = _("one longest sequence more {after}").format(after=after[tries.runs(tokens + longest)])
    return Outcome.CONFIRMED, f"{_ran(tries, tokens)}; {next_one}"


def _ran(tries: Tries, tokens: int) -> str:
    """With which peak, or what else ran."""
    if tokens not in tries.ran:
        return _("{tokens:,} tokens run, as {ran:,} did").format(tokens=tokens, ran=max(tries.ran))
    peak = tries.ran[tokens].peak_allocated_bytes
    return _("{tokens:,} tokens run").format(tokens=tokens) + (
        "" if peak is None else _(", the allocator's peak {peak:.1f} GiB").format(peak=peak / GIB)
    )
