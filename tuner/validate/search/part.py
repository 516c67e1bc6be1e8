"""The search: how many tokens of one micro-batch really fit, each try in processes of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from tuner.language import _
from tuner.out_of_memory.allocator import read_message
from tuner.timing.rates import product_flop_per_s
from tuner.units import GIB
from tuner.validate.children.call import CallFailure, Failed
from tuner.validate.children.servers import ServedFunction, Server
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE
from tuner.validate.search.bisection import (
    LEAST_TOKENS,
    Search,
    longest_share,
    predicted_limit,
    resized,
    snapped,
)
from tuner.validate.search.verdicts import Tries, judge_sizes
from tuner.validate.session import NotHereError, Options, OutOfBudgetError, Planned, Session, Subject
from tuner.validate.training.configured_passes import reasons_not_here
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.settings import ModelSettings, PassFigures
from tuner.workload import Checkpointing, Phase

WORKER = ServedFunction.in_package(__package__, "worker", "attempt", Server.MODELS)
WORKERS: tuple[ServedFunction, ...] = (WORKER,)
TOLERANCE = 0.03  # of the limit in tokens
_PHASES = (Phase.UPDATE_ACTOR, Phase.OLD_LOG_PROB)
_LIKELY_TRIES = 3
_START_S = 5.0  # a process, CUDA, an empty model, compiled kernels
_FILL_BYTES_PER_S = 100e9  # random weights, and AdamW's first step over them
_SHARE_OF_PEAK = 0.45  # of the rate of large products, over a whole pass
_UNEXPECTED = 1.1  # how much longer than the last one, token by token, a try may take


def told_by_allocator(text: str) -> dict[str, int]:
    """What was asked for, free, allocated, and reserved but unallocated, as far as the message says.

    The last is what fragments hold back: a prediction of allocated bytes does not count it.
    """
    message = read_message(text)
    figures = {
        "failed_request_bytes": None if message.requested is None else round(message.requested.bytes),
        "failed_free_bytes": message.free_bytes,
        "failed_allocated_bytes": message.allocated_bytes,
        "failed_unallocated_bytes": message.unused_bytes,
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


class TryFailedError(Exception):
    """A try ended in another way than by running or by running out of memory."""


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """Three tries for each pass, as where the prediction holds."""
    return tuple(
        Planned(
            title=_("search: largest micro-batch of {phase}, about {limit:,} tokens").format(
                phase=one.phase.value, limit=limit
            ),
            seconds=_LIKELY_TRIES * _expected_s(one, limit),
        )
        for one, limit in _searched(subject, options, subject.workload.cluster.gpu.capacity_bytes)
    )


def run(session: Session) -> None:
    """One pass after the other; what is known when the budget ends is recorded."""
    capacity = session.options.capacity_bytes(session.machine)
    for one, limit in _searched(session.subject, session.options, capacity):
        _Hunt(session=session, one=one, limit=limit, capacity=capacity).run()


def _searched(subject: Subject, options: Options, capacity: int) -> list[tuple[PlannedPass, int]]:
    """The passes to search, each with the predicted limit in tokens.

    Raises:
        NotHereError: none can be.
    """
    if options.device == "cpu":
        raise NotHereError(_("memory of a CPU has no end that a process could run into safely"))
    passes = planned_passes(subject.workload, processes=options.processes)
    if any(one.case.images_per_prompt for one in passes):
        raise NotHereError(_("sizes of micro-batches with images are not searched"))
    limits = [
        (one, limit)
        for one in sorted(passes, key=lambda one: one.phase is not Phase.UPDATE_ACTOR)
        if one.phase in _PHASES
        and (limit := predicted_limit(one, capacity, longest_share(one, subject))) is not None
    ]
    if limits:
        return limits
    reasons = reasons_not_here(subject.workload)
    if Phase.UPDATE_ACTOR in reasons:
        raise NotHereError(reasons[Phase.UPDATE_ACTOR])
    least = resized(passes[0], LEAST_TOKENS, longest_share(passes[0], subject)).predicted.peak_bytes
    raise NotHereError(
        _(
            "{model} takes {least:.1f} GiB of a GPU with {least_tokens} tokens on {processes} of "
            "them, and {capacity:.1f} GiB are there"
        ).format(
            model=subject.workload.model.name,
            least=least / GIB,
            least_tokens=LEAST_TOKENS,
            processes=options.processes,
            capacity=capacity / GIB,
        )
    )


def _expected_s(one: PlannedPass, tokens: int) -> float:
    """A rough time of one try, where none was taken yet."""
    model, gpu = one.model, one.workload.cluster.gpu
    products = 2 if not one.training else 8 if one.settings.engine.checkpointing is Checkpointing.FULL else 6
    flop = products * model.parameters * tokens
    rate = _SHARE_OF_PEAK * product_flop_per_s(gpu, one.settings.engine.compute_dtype)
    return _START_S + 16 * model.parameters / _FILL_BYTES_PER_S + flop / rate


@dataclass(kw_only=True)
class _Hunt:
    """One pass, its tries, and their record."""

    session: Session
    one: PlannedPass
    limit: int  # predicted, tokens
    capacity: int
    tries: Tries = field(default_factory=Tries)
    ended: bool = False  # by itself: the limit is known as well as it is asked for
    taken: tuple[int, float] | None = None  # tokens and seconds of the last try that ran
    clock: Callable[[], float] = monotonic

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence, on one of the GPUs that share it."""
        return longest_share(self.one, self.session.subject)

    def run(self) -> None:
        """Try until the limit is known or the budget ends; then say what is known."""
        search = Search(
            self.limit,
            tolerance=TOLERANCE,
            snap=lambda tokens: snapped(tokens, self.longest),
            least=LEAST_TOKENS,
        )
        try:
            while (tokens := search.next_size()) is not None:
                search.record(tokens, fits=self.attempt(tokens))
            self.ended = True
        except OutOfBudgetError:
            self._judge()  # what did run decides about fewer tokens
            raise
        else:
            self._judge()
        finally:
            for measurement in self._measurements(search):
                self.session.add(measurement)
            self._record_case()

    def _judge(self) -> None:
        if self.one.phase is Phase.UPDATE_ACTOR:
            judge_sizes(self.session, self.one, self.tries, self.attempt)

    def attempt(self, tokens: int) -> bool:
        """Whether so many tokens run.

        Raises:
            OutOfBudgetError: there is no time for it.
            TryFailedError: it failed, and not for want of memory.
        """
        one, begun = resized(self.one, tokens, self.longest), self.clock()
        model = ModelSettings(config=self.session.subject.model_config)
        result = self.session.call(
            WORKER,
            model,
            one.settings,
            title=_("{phase} with {tokens:,} tokens").format(phase=one.phase.value, tokens=tokens),
            expected_s=self._expects(tokens),
            world=self.session.options.processes,
        )
        if isinstance(result, PassFigures):
            self.tries.ran[tokens] = result
            self.taken = (tokens, self.clock() - begun)
            return True
        assert isinstance(result, Failed)
        if result.why is CallFailure.TIMEOUT:
            raise OutOfBudgetError(
                _("{tokens:,} tokens: {result}").format(tokens=tokens, result=result.message)
            )
        if result.why is not CallFailure.OUT_OF_MEMORY:
            raise TryFailedError(
                _("{phase} with {tokens:,} tokens: {result}").format(
                    phase=one.phase.value, tokens=tokens, result=result.message
                )
            )
        self.tries.out_of_memory[tokens] = result.message
        return False

    def _expects(self, tokens: int) -> float:
        if self.taken is None:
            return _expected_s(self.one, tokens)
        before, seconds = self.taken
        return seconds * max(1.0, tokens / before) * _UNEXPECTED

    def _measurements(self, search: Search) -> Iterator[Measurement]:
        """What is known; a claim is judged only where the limit was found."""
        bracket, longest = search.bracket, self.longest
        if not bracket.fits:
            return
        name = "search." if self.one.phase is Phase.UPDATE_ACTOR else f"search.{self.one.phase.value}."
        yield Measurement(
            name=f"{name}token_budget",
            what=_("most tokens of one micro-batch with which {phase} runs").format(
                phase=self.one.phase.value
            ),
            unit="tokens",
            measured=bracket.fits,
            predicted=self.limit,
            tolerance=TOLERANCE if self.ended else None,
            details=self._details(bracket.fails),
        )
        if not self.session.subject.workload.actor.update.batching.dynamic:
            yield Measurement(
                name=f"{name}micro_batch",
                what=_("most longest sequences of one micro-batch with which {phase} runs").format(
                    phase=self.one.phase.value
                ),
                unit="sequences",
                measured=bracket.fits // longest,
                predicted=self.limit // longest,
            )
        yield from self._peak(f"{name}peak", bracket.fits)

    def _details(self, fails: int | None) -> dict[str, float | int | str | bool]:
        """What stands behind the limit, and what the allocator held back where it ended."""
        details: dict[str, float | int | str | bool] = {
            "smallest_that_failed": fails or _("none was tried"),
            "tries": self.tries.count,
            "longest_sequence": self.longest,
            "capacity_bytes": self.capacity,
            "allocator": _("expandable segments, as verl has them from its first weight sync on"),
        }
        if not self.ended:
            details["not_judged"] = _("the budget ended before the limit was known to within the tolerance")
        if fails is not None:
            details |= told_by_allocator(self.tries.out_of_memory[fails])
        return details

    def _peak(self, name: str, tokens: int) -> Iterator[Measurement]:
        """The peak of the largest try that ran: the allocator's, where fragments are at their worst."""
        figures = self.tries.ran[tokens]
        if figures.peak_allocated_bytes is None:
            return
        compared = resized(self.one, tokens, self.longest).compared(figures)
        yield Measurement(
            name=name,
            what=_("allocator's peak of {phase} with {tokens:,} tokens").format(
                phase=self.one.phase.value, tokens=tokens
            ),
            unit="bytes",
            measured=compared.measured_peak,
            predicted=compared.predicted_peak,
            tolerance=PEAK_TOLERANCE,
            details={
                "reserved_bytes": figures.peak_reserved_bytes or 0,
                "non_torch_bytes": figures.non_torch_bytes or 0,
            },
        )

    def _record_case(self) -> None:
        if not self.tries.ran:
            return
        tokens = max(self.tries.ran)
        figures, one = self.tries.ran[tokens], resized(self.one, tokens, self.longest)
        if figures.peak_allocated_bytes is None:
            return
        if one.can_be_recorded:
            self.session.add_case(one.measured_case(figures))
