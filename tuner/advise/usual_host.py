"""How much host memory a node has where nobody says: what a job asks for beyond it has to be told."""

from collections.abc import Sequence

from tuner.memory import Estimate
from tuner.memory.host.loading import is_kept_of_loading
from tuner.memory.ledger.terms import Term
from tuner.units import GIB

# For each GPU of a node: NVIDIA's DGX A100 comes with 1 TB or 2 TB for eight, DGX H100 with 2 TB.
LEAST_USUAL_BYTES, MOST_USUAL_BYTES = 128 * GIB, 256 * GIB


def is_usual(host_bytes: int, most_bytes: int, gpus_per_node: int) -> bool:
    """Whether most nodes have as much host memory: what is expected, and at most.

    What is expected is held to the smaller of usual nodes, and what it may come to to the larger ones.
    """
    expected_fits = host_bytes <= LEAST_USUAL_BYTES * gpus_per_node
    return expected_fits and most_bytes <= MOST_USUAL_BYTES * gpus_per_node


def may_lack_host(estimate: Estimate, gpus_per_node: int) -> bool:
    """Whether a node may have too little host memory: less than is known of it, else than is usual."""
    return may_hold_too_much(estimate.host_terms, estimate.host_capacity_bytes, gpus_per_node)


def may_hold_too_much(host_terms: Sequence[Term], capacity_bytes: int | None, gpus_per_node: int) -> bool:
    """Whether a node may have too little host memory for what it holds.

    What processes keep of loading experts is left out where nothing is known: it may be nothing.

    Args:
        host_terms: what it holds.
        capacity_bytes: that it has; None where nobody said.
        gpus_per_node: by which nodes are usual.
    """
    if capacity_bytes is not None:
        expected, most = sum(term.bytes for term in host_terms), sum(term.high for term in host_terms)
        return max(expected, most) > capacity_bytes
    terms = [term for term in host_terms if not is_kept_of_loading(term)]
    return not is_usual(sum(term.bytes for term in terms), sum(term.high for term in terms), gpus_per_node)
