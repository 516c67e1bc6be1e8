"""What a process keeps of the host once it has loaded a mixture of experts and its weights went to the card.

The matrices of single experts are freed one by one, and the C library keeps what is freed of such sizes,
unless nothing lies above it.
"""

from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.model_shape import ModelShape
from tuner.units import MIB
from tuner.workload import Backend, Engine

_NAME = "_loading"  # how the names of these terms end

SYMBOLS = {
    "G": "GPUs of a node",
    "N_E": "parameters of routed experts",
    "c_l": "bytes that a process keeps for each number of the experts, where it loads them in float32",
}

#: The largest size that glibc serves from its heap, and may keep: ``DEFAULT_MMAP_THRESHOLD_MAX``.
_HEAP_BYTES = 32 * MIB

KEPT_BY_EACH = Constant(
    low=0,
    typical=2,
    high=5,
    source=(
        "with transformers 5, for each time that a model is loaded: 0.2 to 5.0 for one time and 1.4 to 3.5 "
        "for each of two, over processes on four hosts (2026-11-30)"
    ),
)
KEPT_BY_FIRST = Constant(
    low=0,
    typical=4,
    high=4,
    source=(
        "with transformers 4: as many as they had, which the next model that is loaded is given again; 4.0 "
        "with transformers 4.57.1 (2026-11-30)"
    ),
)


def is_kept_of_loading(term: Term) -> bool:
    """Whether a term is what is kept of loading, which a variable of the environment has given back."""
    return term.name.endswith(_NAME)


def kept_by_each_bytes(*, G: int, b_s: int, c_l: int, N_E: int) -> int:
    """What every rank keeps of loading experts where transformers puts those of a layer together.

    Four threads read the matrices of single experts, in the dtype that is asked for, and the main thread
    makes one tensor of a layer's. Ranks that are to have no weights read them as well, since accelerate
    drops a parameter only as it is registered. The threads have heaps of their own.

    Source: transformers 5.10.4 ``core_model_loading.py`` (``convert_and_load_state_dict_in_model``,
    ``MergeModulelist``); accelerate ``big_modeling.py`` (``init_empty_weights``); verl 0.9.1
    ``utils/fsdp_utils.py`` (``get_init_weight_context_manager``); glibc ``malloc/malloc.c``
    (``DEFAULT_MMAP_THRESHOLD_MAX``), ``malloc/arena.c`` (``heap_trim``).
    """
    return ceil_div(G * c_l * b_s * N_E, 4)


def kept_by_first_bytes(*, b_s: int, c_l: int, N_E: int) -> int:
    """What rank 0 keeps of loading experts where each of them is a module of its own.

    Source: transformers 4.57.1 ``modeling_utils.py`` (``_load_state_dict_into_meta_model``); verl 0.8.0
    ``utils/fsdp_utils.py`` (``get_init_weight_context_manager``); glibc ``malloc/malloc.c``
    (``DEFAULT_MMAP_THRESHOLD_MAX``, ``systrim``).
    """
    return ceil_div(c_l * b_s * N_E, 4)


def kept_of_loading(model: ModelShape, engine: Engine, role: str, gpus: int) -> Term | None:
    """What the processes of a node keep of a model that they have loaded; None where it is nothing.

    Args:
        model: that was loaded.
        engine: that trains it, or runs it.
        role: what it is to the job.
        gpus: of the node.
    """
    if model.moe is None or not engine.keeps_loaded_experts or engine.backend is Backend.MEGATRON:
        return None
    number = engine.stored_dtype.bytes
    if model.hidden * model.moe.expert_intermediate * number > _HEAP_BYTES:
        return None
    numbers = {"b_s": number, "N_E": model.sparse_layers * model.expert_parameters}
    name = role + _NAME
    if not engine.loops_experts:
        by_each = {"c_l": KEPT_BY_EACH}
        return heuristic(Item.PARAMETERS, name, kept_by_each_bytes, by_each, {"G": gpus, **numbers})
    if role != "actor":  # which is loaded first, and what it leaves is used for the others
        return None
    return heuristic(Item.PARAMETERS, name, kept_by_first_bytes, {"c_l": KEPT_BY_FIRST}, numbers)
