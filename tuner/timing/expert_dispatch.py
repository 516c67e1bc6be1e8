"""How Megatron's dispatchers bring a layer's tokens to its experts: messages, calls and waits of the host.

* All-to-all, which verl asks for: ranks tell each other how many tokens each expert gets, the host waits for
  these counts, and a copy of a token travels for each of its experts, with its weight, and back.
* All-gather: every rank gets all ranks' tokens, and the results are reduced and scattered.
* Flex, which is DeepEP: a token travels once to each *rank* that has some of its experts, however many, and
  its kernels make the counts, for which the host waits as well.

Source: Megatron-Core 0.12 to 0.16 ``transformer/moe/token_dispatcher.py``
(``MoEAlltoAllTokenDispatcher._maybe_dtoh_and_synchronize``; ``MoEAllGatherTokenDispatcher``:
``tokens_per_expert ... .cpu()``; ``_DeepepManager.dispatch``), ``transformer/moe/fused_a2a.py``.
"""

from math import comb

from tuner.model_shape import MixtureOfExperts
from tuner.workload import Dispatcher, Parallelism

_WEIGHT_BYTES = 4  # of a copy, in float32
#: Collectives of one layer that the host starts forward, and backward. All-to-all: counts, tokens, weights,
#: and results back; backward all but the counts.
_CALLS = {
    Dispatcher.ALL_TO_ALL: (4, 3),
    Dispatcher.ALL_GATHER: (4, 3),  # map of the routes, weights, tokens, and results
    Dispatcher.FLEX: (3, 2),  # layout, dispatch, combine
}
#: What expert tensor parallelism adds to an all-to-all in each direction: tokens and weights are gathered,
#: results reduced.
_SHARED_CALLS = 3
#: How often the host waits for the GPU in one forward pass of a layer: for how many tokens each expert gets.
WAITS = 1


def expert_ranks(parallel: Parallelism) -> int:
    """Ranks between which tokens of a layer travel to its experts."""
    return parallel.expert * parallel.expert_tensor


def dispatch_calls(dispatcher: Dispatcher, parallel: Parallelism, *, backward: bool, recomputes: bool) -> int:
    """Collectives that the host starts for one sparse layer in one direction.

    Args:
        dispatcher: which of them.
        parallel: the engine's grid.
        backward: which direction.
        recomputes: whether the backward direction has the forward pass in it once more.
    """
    if expert_ranks(parallel) == 1:
        return 0
    shared = _SHARED_CALLS if dispatcher is Dispatcher.ALL_TO_ALL and parallel.expert_tensor > 1 else 0
    forward_calls, backward_calls = (calls + shared for calls in _CALLS[dispatcher])
    if not backward:
        return forward_calls
    return backward_calls + (forward_calls if recomputes else 0)


def reached_ranks(moe: MixtureOfExperts, parallel: Parallelism) -> float:
    r"""Ranks that a token reaches on average, where all experts are as likely as each other.

    .. math:: E_p \Bigl(1 - \binom{E - E / E_p}{K} \Big/ \binom{E}{K}\Bigr)
    """
    ranks = parallel.expert
    elsewhere = moe.experts - moe.experts // ranks
    missed = comb(elsewhere, moe.experts_per_token) / comb(moe.experts, moe.experts_per_token)
    return ranks * (1 - missed)


def sent_copies(dispatcher: Dispatcher, moe: MixtureOfExperts, parallel: Parallelism) -> float:
    """Copies of a token that travel to experts: one for each of them, or for each rank with some of them."""
    if dispatcher is Dispatcher.FLEX:
        return reached_ranks(moe, parallel)
    return moe.experts_per_token


def copy_bytes(hidden: int, bytes_per_value: int) -> int:
    """One copy with its weight."""
    return hidden * bytes_per_value + _WEIGHT_BYTES
