"""The host memory of a node in words: all of it, what of that is page-locked, and what processes keep."""

from collections.abc import Iterable, Iterator

from tuner.advise.usual_host import is_usual
from tuner.evidence import Evidence
from tuner.language import _
from tuner.memory import Estimate
from tuner.memory.host.loading import is_kept_of_loading
from tuner.memory.ledger.terms import Term
from tuner.render.numbers import gib


def starts_where(terms: Iterable[Term]) -> str:
    """The condition of a job whose nodes have to have more host memory than is usual.

    Args:
        terms: of a node's memory, without what may be nothing.
    """
    terms = tuple(terms)
    whole, most = sum(term.bytes for term in terms), sum(term.high for term in terms)
    states = states_and_copies(terms)
    if states and len(states) < len(terms):
        return _(
            "It starts only where each node has {host} of host memory in all ({least} to {most}), of which "
            "{states} are page-locked"
        ).format(
            host=gib(whole),
            least=gib(sum(term.low for term in terms)),
            most=gib(most),
            states=_locked(states),
        )
    if most > whole:
        return _(
            "It starts only where each node has {host} of host memory, or up to {most} where pinned "
            "memory is rounded up to powers of two"
        ).format(host=gib(whole), most=gib(most))
    return _("It starts only where each node has {host} of host memory").format(host=gib(whole))


def states_and_copies(terms: Iterable[Term]) -> tuple[Term, ...]:
    """What is derived of a node's memory: offloaded states and copies of weights, in page-locked memory."""
    return tuple(term for term in terms if term.evidence is not Evidence.HEURISTIC)


def _locked(states: Iterable[Term]) -> str:
    """Page-locked memory, and what it may come to as PyTorch hands it out."""
    states = tuple(states)
    size, most = sum(term.bytes for term in states), sum(term.high for term in states)
    if most == size:
        return gib(size)
    return _("{size} (up to {most} where it is rounded up to powers of two)").format(
        size=gib(size), most=gib(most)
    )


def in_all(estimate: Estimate) -> str:
    """All of a node's memory with its interval, and the part that is page-locked; without a full stop."""
    limit, terms = estimate.host_capacity_bytes, estimate.host_terms
    ends = {"least": gib(sum(term.low for term in terms)), "most": gib(estimate.host_high_bytes)}
    host = gib(estimate.host_bytes)
    if limit is None:
        text = _("Host memory per node: {host} in all ({least} to {most})").format(host=host, **ends)
    else:
        text = _("Host memory per node: {host} of {limit} in all ({least} to {most})").format(
            host=host, limit=gib(limit), **ends
        )
    states = _locked(states_and_copies(terms))
    return _("{text}, {states} of it page-locked for offloaded states and copies").format(
        text=text, states=states
    )


def kept_of_loading(estimate: Estimate, gpus_per_node: int) -> Iterator[str]:
    """What has memory of loaded experts given back, where a node may have too little."""
    kept = [term for term in estimate.host_terms if is_kept_of_loading(term)]
    limit, most = estimate.host_capacity_bytes, estimate.host_high_bytes
    enough = is_usual(estimate.host_bytes, most, gpus_per_node) if limit is None else most <= limit
    if not kept or enough:
        return
    whole = gib(estimate.host_bytes)
    if limit is not None:
        whole = _("{host} of {limit}").format(host=whole, limit=gib(limit))
    yield _(
        "All of a node's host memory comes to {whole} ({least} to {most}), {kept} (up to {kept_most}) of it "
        "what processes keep of loading experts; MALLOC_MMAP_THRESHOLD_=1048576 where Ray is started has "
        "that given back at once."
    ).format(
        whole=whole,
        least=gib(sum(term.low for term in estimate.host_terms)),
        most=gib(most),
        kept=gib(sum(term.bytes for term in kept)),
        kept_most=gib(sum(term.high for term in kept)),
    )
