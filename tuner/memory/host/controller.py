"""Host memory of the node where the controller runs: the batch it holds, and processes beside the GPUs'.

Symbols: :math:`S` sequences of a step, :math:`L` tokens of the longest, :math:`L_p` and :math:`L_r` of its
prompt and its response.
"""

from collections.abc import Mapping

from tuner.memory.batch.micro_batch import SYMBOLS as ROUTE_SYMBOLS
from tuner.memory.batch.micro_batch import route_layers
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.units import MIB
from tuner.workload import HeldBatch, Workload

SYMBOLS = {
    **ROUTE_SYMBOLS,
    "L": "tokens of the longest sequence",
    "L_p": "tokens of the longest prompt",
    "L_r": "tokens of the longest response",
    "S": "sequences of a step",
    "w_s": "bytes of the batch for each token of a sequence",
    "w_p": "further ones for each token of a prompt",
    "w_r": "further ones for each token of a response",
    "c": "copies of the batch",
    "m": "bytes of a process without data",
    "n_a": "agent-loop workers of the node",
    "n_f": "numbers in float32 for each token of a response",
}

PROCESS = Constant(
    low=400 * MIB,
    typical=800 * MIB,
    high=2048 * MIB,
    source=(
        "a process that has imported torch and transformers: 401 MiB with torch 2.13 for CPUs and "
        "transformers 5.23 (2026-11-22), more with CUDA's libraries, Ray and the rollout engine's; typical "
        "and high end not derived"
    ),
)


def copies_of(batch: HeldBatch) -> Constant:
    """How many copies of the batch there are."""
    low, typical, high = batch.copies
    return Constant(low=low, typical=typical, high=high, source=batch.copies_source)


def held_batch_bytes(
    *, c: int, S: int, L: int, L_p: int, L_r: int, n_f: int, w_s: int, w_p: int, w_r: int
) -> int:
    """A step's batch on the controller's node, padded to the longest prompt and response.

    verl has ids, mask and positions of the sequence in int64, prompts and responses once more, the mask of
    the response, and :math:`n_f` numbers in float32 for each token of it; :math:`c` copies. Images are a
    term of their own; what else is no number per token is not counted.

    Source: verl 0.9.1 ``experimental/agent_loop/agent_loop.py`` (``_postprocess``), ``protocol.py``
    (``DataProto``), ``trainer/ppo/ray_trainer.py``.
    """
    return c * S * (w_s * L + w_p * L_p + (w_r + 4 * n_f) * L_r)


def held_route_bytes(*, c: int, S: int, L: int, M: int, e: int, b_x: int) -> int:
    """The experts of each token of a step, on the controller's node, padded as the batch is.

    Source: verl 0.9.1 ``experimental/agent_loop/agent_loop.py`` (``_agent_loop_postprocess``),
    ``workers/engine/megatron/transformer_impl.py`` (``forward_backward_batch`` returns them on the host).
    """
    return c * S * L * M * e * b_x


def process_bytes(*, n_a: int, m: int) -> int:
    """The controller and the agent-loop workers of its node, a process each, without their data.

    Source: verl 0.9.1 ``experimental/agent_loop/agent_loop.py`` (``_init_agent_loop_workers``: one after the
    other on each node).
    """
    return (1 + n_a) * m


def controller_terms(workload: Workload) -> tuple[Term, ...]:
    """What the controller and the workers beside it take of the node they share."""
    controller = workload.controller
    if controller is None:
        return ()
    near = {"n_a": ceil_div(controller.agent_workers, workload.cluster.nodes)}
    batch_terms = () if controller.held is None else _batch_terms(workload, controller.held)
    return (
        *batch_terms,
        heuristic(Item.OVERHEAD, "controller_processes", process_bytes, {"m": PROCESS}, near),
    )


def _batch_terms(workload: Workload, held_batch: HeldBatch) -> tuple[Term, ...]:
    """The batch of a step, and the experts that travel with it."""
    batch = workload.batch
    sizes: dict[str, float] = {
        "S": batch.sequences,
        "L": batch.sequence_tokens,
        "L_p": batch.max_prompt_tokens,
        "L_r": batch.max_response_tokens,
        "n_f": held_batch.numbers + (workload.reference is not None) + (workload.critic is not None),
        "w_s": held_batch.sequence_bytes,
        "w_p": held_batch.prompt_bytes,
        "w_r": held_batch.response_bytes,
    }
    copies = {"c": copies_of(held_batch)}
    return (
        heuristic(Item.OVERHEAD, "controller_batch", held_batch_bytes, copies, sizes),
        *_routes(workload, sizes, copies),
    )


def _routes(
    workload: Workload, sizes: Mapping[str, float], copies: Mapping[str, Constant]
) -> tuple[Term, ...]:
    """The experts that travel with the batch."""
    replay, moe = workload.actor.replay, workload.model.moe
    if replay is None or moe is None:
        return ()
    numbers = {
        **sizes,
        "M": route_layers(workload.model, from_rollout=replay.from_rollout),
        "e": moe.experts_per_token,
        "b_x": replay.index_bytes,
    }
    return (heuristic(Item.OVERHEAD, "controller_routes", held_route_bytes, copies, numbers),)
