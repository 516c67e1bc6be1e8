r"""Host memory per node: offloaded states, and copies that a sleeping rollout engine keeps.

Symbols as for the states on the card, and :math:`G` GPUs of a node. Nearly all of it is pinned, because
copies that do not block the host need that. PyTorch hands pinned memory out in powers of two, tensor
by tensor, and keeps what is freed: each size is at least the sum of its tensors and at most twice that. Under
FSDP1 a unit's shard is one tensor, so that its size is known (``memory/host/flat_units.py``).

Source: torch ``ATen/core/CachingHostAllocator.h``; verl ``utils/fsdp_utils.py``
(``to("cpu", non_blocking=True)``).
"""

from functools import lru_cache
from math import ceil

from tuner.memory.fsdp import states as fsdp_states
from tuner.memory.host.controller import controller_terms
from tuner.memory.host.flat_units import unit_numbers, units_on_host_bytes
from tuner.memory.host.images import images_on_host
from tuner.memory.host.loading import kept_of_loading
from tuner.memory.host.processes import gpu_processes
from tuner.memory.ledger.formula import as_written, ceil_div
from tuner.memory.ledger.stated_terms import MOST, Size, pinned, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron import states as megatron_states
from tuner.memory.rollout.services import served
from tuner.memory.rollout.weights import (
    dense_weight_bytes,
    quantized_dense_bytes,
    quantized_sparse_bytes,
    sparse_weight_bytes,
    weight_numbers,
    weight_size,
)
from tuner.memory.saving import saved_on_host
from tuner.memory.weight_sync.carrier import carried_on_host
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, RolloutEngine, Workload

SYMBOLS = {
    "G": "GPUs of a node",
    "G_E": "ranks that share the experts",
    "N_E": "parameters of routed experts",
    "N_u": "parameters of embedding and output projection, which are not quantized",
    "P_p": "pipeline stages of the rollout engine",
    "T_p": "tensor-parallel ranks of the rollout engine",
    "b": "bytes of a number in the engine's weights and activations",
    "b_u": "bytes of a number that is not quantized",
    "f": "share of the optimizer that lives on the host",
    "s_w": "swap space of the rollout engine for one GPU",
}


def shards_on_host_bytes(*, G: int, b_s: int, N: int, W: int) -> int:
    """Weights of FSDP that are offloaded between passes, or streamed from the host unit by unit.

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``); torch
    ``fsdp/_fully_shard/_fsdp_param.py`` (``offload_to_cpu``).
    """
    return G * b_s * ceil_div(N, W)


def streamed_shards_bytes(*, G: int, b_s: int, N: int, W: int) -> int:
    """Weights that FSDP1 streams from the host, and as much again for gradients that never come.

    FSDP1 lays the shard of each unit's gradient out on the host, where its weights are, as the unit is used
    for the first time, whether it is trained or not.

    Source: torch ``distributed/fsdp/_flat_param.py`` (``init_flat_param_attributes``: ``_cpu_grad``).
    """
    return 2 * G * b_s * ceil_div(N, W)


def slices_on_host_bytes(*, G: int, b_c: int, N_p: int) -> int:
    """Weights of Megatron that are offloaded between passes.

    Source: verl 0.9.1 ``utils/megatron_utils.py`` (``offload_megatron_model_to_cpu``).
    """
    return G * b_c * N_p


def weights_on_host(model: ModelShape, engine: Engine, role: str, gpus: int) -> Term | None:
    """Weights that wait on the host for their pass; None where they stay on the card."""
    if not (engine.param_offload or engine.streamed_offload):
        return None
    if engine.backend is Backend.MEGATRON:
        slices = {"b_c": engine.compute_dtype.bytes, "N_p": megatron_states.stored_parameters(model, engine)}
        return pinned(Item.PARAMETERS, f"{role}_weights", slices_on_host_bytes, {"G": gpus, **slices})
    numbers = {
        "G": gpus,
        "b_s": engine.stored_dtype.bytes,
        "N": fsdp_states.stored_parameters(model, engine),
        "W": engine.parallel.shard,
    }
    name, of_fsdp1 = f"{role}_weights", engine.streamed_offload and engine.backend is Backend.FSDP
    units = unit_numbers(
        model, engine, gpus=gpus, sets=2 if of_fsdp1 else 1, number_bytes=engine.stored_dtype.bytes
    )
    if units is not None:
        return stated(Item.PARAMETERS, name, units_on_host_bytes, units)
    size: Size = streamed_shards_bytes if of_fsdp1 else shards_on_host_bytes
    return pinned(Item.PARAMETERS, name, size, numbers)


def moments_on_host_bytes(*, G: int, b_o: int, N_t: int, W: int) -> int:
    """Optimizer states of FSDP that are offloaded between passes, or live on the host.

    Source: verl 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_optimizer``).
    """
    return 2 * G * b_o * ceil_div(N_t, W)


def megatron_optimizer_on_host_bytes(
    *, G: int, N_o: int, b_m: int, f_m: float, b_o: int, f_o: float
) -> float:
    """Optimizer states of Megatron that are offloaded between passes.

    Megatron's main weights are part of its optimizer and go with it.

    Source: verl 0.9.1 ``utils/megatron_utils.py`` (``offload_megatron_optimizer``,
    ``offload_megatron_copy_params``).
    """
    return G * ceil(
        megatron_states.main_weights_and_moments_bytes(N_o=N_o, b_m=b_m, f_m=f_m, b_o=b_o, f_o=f_o)
    )


def optimizer_on_host(model: ModelShape, engine: Engine, role: str, gpus: int) -> Term | None:
    """Optimizer states that wait on the host for the next step, or live there; None where they do not."""
    name = f"{role}_optimizer"
    if engine.backend is Backend.MEGATRON:
        if not engine.optimizer_offload:
            return None
        offloaded = {"G": gpus, **megatron_states.optimizer_numbers(model, engine)}
        return pinned(Item.OPTIMIZER, name, megatron_optimizer_on_host_bytes, offloaded)
    if not (engine.optimizer_offload or engine.streamed_offload):
        return None
    numbers = {
        "G": gpus,
        "b_o": engine.optimizer_dtype.bytes,
        "N_t": fsdp_states.trained_parameters(model, engine),
        "W": engine.parallel.shard,
    }
    units = unit_numbers(model, engine, gpus=gpus, sets=2, number_bytes=engine.optimizer_dtype.bytes)
    if units is not None:
        return stated(Item.OPTIMIZER, name, units_on_host_bytes, units)
    return pinned(Item.OPTIMIZER, name, moments_on_host_bytes, numbers)


def gradients_on_host_bytes(*, G: int, b_s: int, N_t: int, W: int) -> int:
    """Gradients of an optimizer that steps on the CPU, under FSDP2's CPU offload policy.

    FSDP2 sends the reduced gradients to the host, in the dtype of the weights.

    Source: torch ``fsdp/_fully_shard/_fsdp_collectives.py`` (``foreach_reduce``).
    """
    return G * b_s * ceil_div(N_t, W)


def hybrid_optimizer_bytes(*, G: int, f: float, N_o: int, b_o: int) -> int:
    """What Megatron's hybrid optimizer keeps on the host: main weights, gradients and moments of the share.

    Source: Megatron-Core ``optimizer/cpu_offloading/hybrid_optimizer.py`` (``_init_sub_optimizers``).
    """
    return G * ceil(as_written(f) * N_o) * (8 + 2 * b_o)


def cpu_step_on_host(model: ModelShape, engine: Engine, role: str, gpus: int) -> Term | None:
    """What an optimizer that steps on the CPU needs there beside its moments; None where none does."""
    numbers: dict[str, float] = {"G": gpus}
    if engine.backend is Backend.MEGATRON:
        if not engine.optimizer_offload_fraction:
            return None
        numbers |= {
            "f": engine.optimizer_offload_fraction,
            "N_o": megatron_states.optimizer_parameters(model, engine),
            "b_o": engine.optimizer_dtype.bytes,
        }
        return pinned(Item.OPTIMIZER, f"{role}_cpu_optimizer", hybrid_optimizer_bytes, numbers)
    if not engine.streamed_offload:
        return None
    numbers |= {
        "b_s": engine.stored_dtype.bytes,
        "N_t": fsdp_states.trained_parameters(model, engine),
        "W": engine.parallel.shard,
    }
    return pinned(Item.GRADIENTS, f"{role}_gradients", gradients_on_host_bytes, numbers)


def dense_copy_bytes(*, G: int, b: int, N: int, T_p: int, P_p: int) -> int:
    """Weights of a dense model, where the rollout engine copies them to the host while it sleeps.

    vLLM does at sleep level 1, in pinned memory that it keeps. SGLang does with a CPU backup of its
    weights, in blocks of their exact size, and so does verl 0.4 for vLLM 0.6.3; TensorRT-LLM drops its
    weights.

    Source: vLLM ``device_allocator/cumem.py`` (``sleep``), SGLang
    ``managers/scheduler_update_weights_mixin.py``;
    verl 0.9.1 ``workers/rollout/sglang_rollout/async_sglang_server.py`` (``enable_weights_cpu_backup``),
    ``workers/rollout/trtllm_rollout/trtllm_async_server.py`` (``restore_modes``); verl 0.4.1
    ``third_party/vllm/vllm_v_0_6_3/worker.py`` (``offload_model_weights``).
    """
    return G * dense_weight_bytes(b=b, N=N, T_p=T_p, P_p=P_p)


def sparse_copy_bytes(*, G: int, b: int, N: int, N_E: int, T_p: int, G_E: int, P_p: int) -> int:
    """Weights of a model with experts, where the rollout engine copies them to the host while it sleeps.

    Source: vLLM ``device_allocator/cumem.py`` (``sleep``).
    """
    return G * sparse_weight_bytes(b=b, N=N, N_E=N_E, T_p=T_p, G_E=G_E, P_p=P_p)


def quantized_dense_copy_bytes(*, G: int, b: int, N: int, b_u: int, N_u: int, T_p: int, P_p: int) -> int:
    """Quantized weights of a dense model, where the rollout engine copies them to the host while it sleeps.

    Source: vLLM ``device_allocator/cumem.py`` (``sleep``).
    """
    return G * quantized_dense_bytes(b=b, N=N, b_u=b_u, N_u=N_u, T_p=T_p, P_p=P_p)


def quantized_sparse_copy_bytes(
    *, G: int, b: int, N: int, N_E: int, b_u: int, N_u: int, T_p: int, G_E: int, P_p: int
) -> int:
    """Quantized weights of a model with experts, where the rollout engine copies them to the host.

    Source: vLLM ``device_allocator/cumem.py`` (``sleep``).
    """
    return G * quantized_sparse_bytes(b=b, N=N, N_E=N_E, b_u=b_u, N_u=N_u, T_p=T_p, G_E=G_E, P_p=P_p)


_COPIES: dict[Size, Size] = {
    dense_weight_bytes: dense_copy_bytes,
    sparse_weight_bytes: sparse_copy_bytes,
    quantized_dense_bytes: quantized_dense_copy_bytes,
    quantized_sparse_bytes: quantized_sparse_copy_bytes,
}


def engine_copy(workload: Workload, name: str = "rollout_weights") -> Term | None:
    """The copy of the rollout engine's weights; None where it keeps none."""
    rollout = workload.rollout
    if rollout is None:
        return None
    asleep = rollout.colocated and rollout.frees_memory and not rollout.sleeps_with_weights
    if not asleep or rollout.sleep_level != 1 or rollout.engine is RolloutEngine.TRANSFORMERS:
        return None
    numbers = {"G": workload.cluster.gpus_per_node, **weight_numbers(workload.model, rollout)}
    size = _COPIES[weight_size(workload.model, rollout)]
    in_pinned_memory = rollout.engine is RolloutEngine.VLLM and rollout.pins_copy
    return pinned(Item.ENGINE, name, size, numbers, most=MOST if in_pinned_memory else 1)


def engine_swap_bytes(*, G: int, s_w: int) -> int:
    """Blocks of the KV cache that the V0 core of vLLM keeps on the host for preempted sequences.

    :math:`s_w` is the engine's ``swap_space``, 4 GiB for each GPU, which verl leaves as it is. The V1
    core computes preempted sequences again and swaps nothing.

    Source: vLLM 0.7.3 ``entrypoints/llm.py`` (``swap_space``), ``worker/cache_engine.py``
    (``_allocate_kv_cache``).
    """
    return G * s_w


def engine_swap(workload: Workload) -> Term | None:
    """The rollout engine's swap space; None where it has none on these machines."""
    rollout = workload.rollout
    if rollout is None or not rollout.swap_bytes or not rollout.colocated:
        return None
    numbers = {"G": workload.cluster.gpus_per_node, "s_w": rollout.swap_bytes}
    return pinned(Item.ENGINE, "rollout_swap", engine_swap_bytes, numbers)


@lru_cache(maxsize=256)  # the passes of a job put nothing on the host
def host_terms(workload: Workload) -> tuple[Term, ...]:
    """Everything in the host memory of one node: states, copies, what carries and saves weights."""
    gpus, reference, critic = workload.cluster.gpus_per_node, workload.reference, workload.critic
    engines = [(workload.model, workload.actor.engine, "actor")]
    if reference is not None and reference.separate:
        engines.append((reference.model or workload.model, reference.engine, "reference"))
    if critic is not None:
        engines.append((critic.model, critic.engine, "critic"))
    if (scored := workload.scoring) is not None:
        engines.append((scored.model, scored.engine, "reward"))
    terms: list[Term | None] = []
    for model, engine, role in engines:
        terms.append(weights_on_host(model, engine, role, gpus))
        terms.append(kept_of_loading(model, engine, role, gpus))
        if role not in ("reference", "reward"):
            terms.append(optimizer_on_host(model, engine, role, gpus))
            terms.append(cpu_step_on_host(model, engine, role, gpus))
    terms += [
        engine_copy(workload),
        engine_swap(workload),
        *images_on_host(workload),
        *carried_on_host(workload),
        *saved_on_host(workload),
        *controller_terms(workload),
        gpu_processes(workload),
    ]
    terms += [
        engine_copy(served_workload, f"{service.role.value}_weights")
        for service, served_workload in served(workload)
    ]
    return tuple(term for term in terms if term is not None)
