"""The passes of a step, and how much each takes into one micro-batch.

Sizes are counted in longest sequences, so that a token budget and a fixed number of sequences are
compared and proposed alike.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from tuner.batching import divisors, pass_sequences
from tuner.language import ngettext
from tuner.rules.case import Case
from tuner.rules.wording import longest
from tuner.workload import Engine, Pass, Phase, StepPass, Workload


class Site(Struct, frozen=True, kw_only=True):
    """One pass of a workload, and where a changed one goes."""

    step_pass: StepPass
    put: Callable[[Workload, Pass], Workload]

    @property
    def phase(self) -> Phase:
        """The phase that it is."""
        return self.step_pass.phase

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return self.step_pass.engine

    @property
    def one_pass(self) -> Pass:
        """How it is batched, and whether it computes the entropy."""
        return self.step_pass.settings

    @property
    def dynamic(self) -> bool:
        """Whether a token budget fills the micro-batches."""
        return self.one_pass.batching.dynamic

    def share(self, workload: Workload) -> int:
        """Tokens of one longest sequence on one GPU."""
        return ceil(workload.batch.sequence_tokens / self.engine.parallel.sequence_split)

    def sequences(self, workload: Workload) -> int:
        """Sequences of one data-parallel rank in this pass."""
        return pass_sequences(workload.batch, self.step_pass)

    def size(self, workload: Workload) -> float:
        """Longest sequences that one micro-batch holds."""
        batching = self.one_pass.batching
        if batching.dynamic:
            return batching.token_budget / self.share(workload)
        return batching.micro_batch_sequences

    def sizes(self, workload: Workload) -> Sequence[int]:
        """Sizes worth considering, ascending: whole sequences, and divisors of the local ones when static."""
        # A range is not written out, nor is each number tried as a divisor: a step may have millions of sequences.
        return range(1, self.sequences(workload) + 1) if self.dynamic else self.divisors(workload)

    def divisors(self, workload: Workload) -> list[int]:
        """The fixed sizes that divide the sequences of a rank, of whole groups where the trainer counts these."""
        group = self.one_pass.batching.group_sequences
        return [size for size in divisors(self.sequences(workload)) if size % group == 0]

    def smaller_sizes(self, workload: Workload) -> Sequence[int]:
        """The sizes of :meth:`sizes` that are smaller than the size that the pass has."""
        sizes = self.sizes(workload)
        return sizes[: bisect_left(sizes, self.size(workload))]

    def resized(self, workload: Workload, size: int) -> Workload:
        """The workload with micro-batches of ``size`` longest sequences in this pass."""
        batching = self.one_pass.batching
        if batching.dynamic:
            batching = replace(batching, token_budget=size * self.share(workload))
        else:
            batching = replace(batching, micro_batch_sequences=size)
        return self.put(workload, replace(self.one_pass, batching=batching))


def critic_sizes_agree(workload: Workload) -> bool:
    """Whether both passes of the critic are sized alike, as where one setting drives both."""
    critic = workload.critic
    return critic is not None and critic.values.batching == critic.update.batching


def _with_critic_passes(workload: Workload, one_pass: Pass, *, values: bool) -> Workload:
    """The workload with one changed pass of the critic, its size in both where they agree."""
    critic = workload.critic
    if critic is None:
        return workload
    other = critic.update if values else critic.values
    if critic_sizes_agree(workload):
        other = replace(other, batching=one_pass.batching)
    changed = (one_pass, other) if values else (other, one_pass)
    return workload.with_critic(values=changed[0], update=changed[1])


_PUT: dict[Phase, Callable[[Workload, Pass], Workload]] = {
    Phase.REWARD: lambda workload, one_pass: workload.with_reward(scoring=one_pass),
    Phase.OLD_LOG_PROB: lambda workload, one_pass: workload.with_actor(log_prob=one_pass),
    Phase.REF_LOG_PROB: lambda workload, one_pass: workload.with_reference(log_prob=one_pass),
    Phase.VALUES: partial(_with_critic_passes, values=True),
    Phase.UPDATE_CRITIC: partial(_with_critic_passes, values=False),
    Phase.UPDATE_ACTOR: lambda workload, one_pass: workload.with_actor(update=one_pass),
    Phase.TRAIN: lambda workload, one_pass: workload.with_actor(update=one_pass),
}


def all_passes(workload: Workload) -> tuple[Site, ...]:
    """Every pass, in order."""
    return tuple([_site(step_pass) for step_pass in workload.passes()])


def site_of(workload: Workload, phase: Phase) -> Site | None:
    """The pass of a phase, None where the phase is none or the step lacks it."""
    step_pass = workload.pass_of(phase)
    return None if step_pass is None else _site(step_pass)


def actor_update(workload: Workload) -> Site:
    """The actor's training pass."""
    return _site(workload.actor_update)


def _site(step_pass: StepPass) -> Site:
    return Site(step_pass=step_pass, put=_PUT[step_pass.phase])


def with_dividing_sizes(workload: Workload) -> Workload:
    """Fixed sizes lowered to divisors of what a rank has, after the number of ranks has changed."""
    for site in all_passes(workload):
        sequences, local = site.one_pass.batching.micro_batch_sequences, site.sequences(workload)
        if local % sequences:
            fitting = max((size for size in site.divisors(workload) if size <= sequences), default=1)
            batching = replace(site.one_pass.batching, micro_batch_sequences=fitting)
            workload = site.put(workload, replace(site.one_pass, batching=batching))
    return workload


def larger(case: Case, site: Site) -> int | None:
    """The size at the knee: doubled while that is affordable and makes the step a percent shorter.

    At least three longest sequences where they are affordable, so that sequences of more than half the
    length share a micro-batch. None when not even the first doubling pays.
    """
    workload, candidates = case.workload, site.sizes(case.workload)
    knee, before = None, case
    following = _next(candidates, site.size(workload))
    while following is not None:
        proposal = site.resized(workload, following)
        if not case.affords(proposal):
            return _last(case, site, before, below=following) or knee
        if not before.faster(proposal):
            break
        knee, before = following, before.with_workload(proposal)
        following = _next(candidates, knee)
    return knee


def _last(case: Case, site: Site, before: Case, *, below: int) -> int | None:
    """The largest affordable size below one that is not, if it makes the step a percent shorter."""
    now = site_of(before.workload, site.phase)
    least = site.size(case.workload) if now is None else now.size(before.workload)
    sizes = site.sizes(case.workload)
    sizes = sizes[bisect_right(sizes, least) : bisect_left(sizes, below)]
    size = case.largest(sizes, lambda size: site.resized(case.workload, size))
    return size if size is not None and before.faster(site.resized(case.workload, size)) else None


def _next(candidates: Sequence[int], size: float) -> int | None:
    """The next size to look at: twice as much and at least three, else the largest, if there is one."""
    if not candidates or candidates[-1] <= size:
        return None
    place = bisect_left(candidates, max(2 * size, 3))
    return candidates[min(place, len(candidates) - 1)]


def beyond(case: Case, site: Site, size: int) -> tuple[str, ...]:
    """What the next size would have brought, as a note on the one that is proposed."""
    workload = case.workload
    following = _next(site.sizes(workload), size)
    if following is None:
        return ()
    proposal = site.resized(workload, following)
    if not case.affords(proposal):
        text = ngettext(
            "{sequences} at a time no longer fits", "{sequences} at a time no longer fit", following
        )
        return (text.format(sequences=longest(following)),)
    gain = 1 - case.seconds(proposal) / case.seconds(site.resized(workload, size))
    if gain <= 0:
        return ()
    text = ngettext(
        "{sequences} at a time fits as well and brings another {gain:.1%} of the step",
        "{sequences} at a time fit as well and bring another {gain:.1%} of the step",
        following,
    )
    return (text.format(sequences=longest(following), gain=gain),)


def smaller(case: Case, site: Site) -> Workload | None:
    """The workload with the largest micro-batches of this pass that fit.

    Where none does, with the largest of those that peak no higher than the smallest: the peak is another
    moment's then. None when the pass is as small as it can be.
    """
    workload = case.workload
    candidates = site.smaller_sizes(workload)
    if not candidates:
        return None

    def resized(size: int) -> Workload:
        return site.resized(workload, size)

    def peak(other: Workload) -> int:
        return case.with_workload(other).peak_bytes(site.phase)

    size = case.largest(candidates, resized, accept=lambda other: case.eases(other, site.phase))
    if size is None:
        lowest = peak(resized(candidates[0]))
        size = case.largest(candidates, resized, accept=lambda other: peak(other) <= lowest)
    return resized(size or candidates[0])
