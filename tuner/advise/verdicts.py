"""The verdict on a job: one of five words, and what a doubtful one hangs on."""

from msgspec import Struct

from tuner.advise.expected import peak_as_expected
from tuner.advise.reading import ReleaseRange
from tuner.enumeration import Enum
from tuner.memory import Estimate, mean_tokens_that_fit
from tuner.rules.case import Case
from tuner.workload import Workload


class Verdict(Enum):
    """What is said of a job, all sequences taken at their maximum length; from good to bad.

    Five say what is to be expected. Before them comes what a log shows: a job that ran out of memory.
    """

    RAN_OUT = "ran_out"  # the log of the job ends with an error for which it had no memory
    FITS = "fits"  # even the upper end of every phase's interval is within the card
    MAY_NOT_FIT = "may_not_fit"  # the interval crosses the card, or it fits under a condition that is named
    CANNOT_SAY = "cannot_say"  # the configuration, what the engine takes or who refuses it is not known
    DOES_NOT_FIT = "does_not_fit"  # even the low end is beyond the card, or a node has too little memory
    WILL_NOT_START = "will_not_start"  # the trainer or an engine refuses it, or no node has so many GPUs


class Condition(Enum):
    """What it hangs on whether a job fits, where the verdict is that it may not; from good to bad."""

    NOTHING_ELSE = "nothing_else"  # the expected peak is within the card: nothing else may use it
    DOUBT = "doubt"  # all peaks are; something else is not known, such as the start of an engine
    RELEASE = "release"  # as some releases run it, and the one meant is not bundled
    MEAN_LENGTH = "mean_length"  # sequences stay short in the mean
    OWN_PLAN = "own_plan"  # a plan of the user's takes less than what is counted
    ENGINE = "engine"  # what trains is not modelled, and the rest fits
    BUDGET_NOT_FILLED = (
        "budget_not_filled"  # no micro-batch fills its budget; one that does is beyond the card
    )
    LOW_END = "low_end"  # the expected peak is beyond the card, the low end of the interval is not


class Judgement(Struct, frozen=True, kw_only=True):
    """What memory says of a job."""

    verdict: Verdict
    condition: Condition | None = None  # of a verdict that it may not fit, or that nothing can be said
    mean_tokens: int | None = None  # mean sequence length that still fits; None where no length does
    engine: str = ""  # that trains and is not modelled
    expected_bytes: int | None = (
        None  # of the worst phase while no budget is filled, where that is the condition
    )

    @property
    def is_expected_to_fit(self) -> bool:
        """Whether the job is taken to run as it is, if sequences stay short.

        Not where a full micro-batch is beyond the card: over many steps there is one.
        """
        if self.verdict is Verdict.MAY_NOT_FIT:
            return self.condition not in (Condition.BUDGET_NOT_FILLED, Condition.LOW_END)
        return self.verdict is Verdict.FITS

    @property
    def is_expected_to_fit_at_full_length(self) -> bool:
        """Whether the job is taken to run whatever its sequences grow to, on the release that is meant."""
        of_no_weight = (None, Condition.NOTHING_ELSE, Condition.DOUBT)
        return self.is_expected_to_fit and self.condition in of_no_weight

    @property
    def rank(self) -> int:
        """The lower the better."""
        if self.verdict is Verdict.FITS:
            return 0
        conditions = list(Condition)
        return len(conditions) + 1 if self.condition is None else 1 + conditions.index(self.condition)


def judgement(case: Case, mean_tokens: int | None, releases: ReleaseRange | None = None) -> Judgement:
    """Whether a workload fits its card, all sequences taken at their maximum length.

    One that does not may fit while its sequences are short: unless they are known to be longer on average.
    Budgets of tokens are taken as full: one batch whose tokens fill them is enough to run out of memory, and
    over many steps there is one. Where only such a batch is beyond the card, that is the condition.
    The headroom is not asked: it is what proposals leave free, not what the job needs. Where the release is
    not bundled, a job fits if it does so whatever that release may do. Where the trainer's engine is not
    modelled, what is known can only show that the job does not fit.
    """
    condition: Condition | None
    engine = case.workload.unmodelled_engine
    if engine and case.estimate.fits():
        verdict, condition = Verdict.CANNOT_SAY, Condition.ENGINE
    elif not case.estimate.fits():
        verdict, condition = _beyond(case, mean_tokens)
    elif releases is not None and releases.against is not None:
        verdict, condition = Verdict.MAY_NOT_FIT, Condition.RELEASE
    elif case.estimate.fits_for_certain() and (releases is None or releases.fits_at_high_end()):
        verdict, condition = Verdict.FITS, None
    else:
        crosses = [
            case.estimate,
            *(one.estimate for one in ([] if releases is None else releases.considered)),
        ]
        over = any(estimate.high_bytes > estimate.capacity_bytes for estimate in crosses)
        verdict, condition = Verdict.MAY_NOT_FIT, Condition.NOTHING_ELSE if over else Condition.DOUBT
    return Judgement(
        verdict=verdict,
        condition=condition,
        mean_tokens=mean_tokens,
        engine=engine,
        expected_bytes=bytes_as_expected(condition, case.workload),
    )


def bytes_as_expected(condition: Condition | None, workload: Workload) -> int | None:
    """The worst peak while no micro-batch is full; None where that is not the condition of a verdict."""
    return peak_as_expected(workload) if condition is Condition.BUDGET_NOT_FILLED else None


def judge_memory(case: Case, releases: ReleaseRange | None) -> Judgement:
    """What memory says of a job, with the mean sequence length that still fits."""
    if case.workload.unmodelled_engine:
        return judgement(case, None, releases)
    fits = case.estimate.fits()
    mean_tokens = case.workload.batch.reached_tokens if fits else mean_tokens_that_fit([case.workload])
    return judgement(case, mean_tokens, releases)


def engine_problems(estimate: Estimate) -> int:
    """Number of reasons why an engine would not start: all problems but a node that has too little memory."""
    return len(estimate.problems) - estimate.host_is_short


def _beyond(case: Case, mean_tokens: int | None) -> tuple[Verdict, Condition | None]:
    """The verdict on a job of which a peak is expected beyond the card, or that has another problem."""
    estimate, known = case.estimate, case.workload.batch.known_mean_tokens
    if case.workload.actor.engine.plan_lowers and not estimate.problems:
        return Verdict.CANNOT_SAY, Condition.OWN_PLAN
    if mean_tokens is not None and (known is None or known <= mean_tokens):
        return Verdict.MAY_NOT_FIT, Condition.MEAN_LENGTH
    if engine_problems(estimate):
        return Verdict.WILL_NOT_START, None
    unfilled = None if estimate.problems else peak_as_expected(case.workload)
    if unfilled is not None and unfilled <= estimate.capacity_bytes:
        return Verdict.MAY_NOT_FIT, Condition.BUDGET_NOT_FILLED
    least = max(phase.interval[0] for phase in estimate.phases)
    if estimate.problems or least > estimate.capacity_bytes:
        return Verdict.DOES_NOT_FIT, None
    return Verdict.MAY_NOT_FIT, Condition.LOW_END
