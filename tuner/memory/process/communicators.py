"""The NCCL communicators of the trainer's process, and what they take on the card.

A process group costs nothing until a collective runs on it. Then NCCL makes a communicator, for a group of
one GPU too, connects it as rings, and connects those that send and receive to every GPU they do it with.
"""

from functools import lru_cache

from msgspec import Struct

from tuner.workload import Backend, Engine, Parallelism, Workload


class Communicators(Struct, frozen=True, kw_only=True):
    """Communicators of one process."""

    connected: int = 0  # of several GPUs
    alone: int = 0  # of this one only
    peers: int = 0  # GPUs that are sent to and received from, over all communicators

    def __add__(self, other: "Communicators") -> "Communicators":
        return Communicators(
            connected=self.connected + other.connected,
            alone=self.alone + other.alone,
            peers=self.peers + other.peers,
        )


def fsdp_communicators(engine: Engine) -> Communicators:
    r"""What one FSDP engine adds to the communicator of all GPUs.

    .. math:: n = 2 \, [1 < W < G] + [1 < U < G] + [U > 1][D > 1] + 2 \, [T > 1] + [C > 1],
        \quad n_1 = [U > 1][D = 1], \quad p = U - 1

    Full sharding uses the group of all GPUs :math:`G`, and so does whatever else spans them all. Hybrid
    sharding adds its shard group of :math:`W` GPUs and the group of its replicas. Ulysses adds the group of
    :math:`U` GPUs that share a sequence, over which ``all_to_all`` exchanges heads, and the data-parallel
    group of :math:`D` GPUs, over which verl adds up tokens, even if that is one GPU alone. Not told apart:
    PyTorch before 2.9, where a second dimension of a mesh has a group of its own though it spans all GPUs,
    and the workers up to verl 0.7 that are no model engines, which do not use the data-parallel group. Tensor
    parallelism over :math:`T` GPUs has its group and that of ranks with the same share, context parallelism
    one of :math:`C`.

    Source: torch ``distributed/device_mesh.py`` (``_init_one_process_group``), verl 0.9.1
    ``workers/engine/fsdp/transformer_impl.py`` (``_init_device_mesh``, ``forward_backward_batch``),
    ``utils/ulysses.py`` (``all_to_all_tensor``).
    """
    parallel = engine.parallel
    hybrid = 2 if 1 < parallel.shard < parallel.gpus else 0
    hybrid += 2 * (parallel.tensor > 1) + (parallel.context > 1)
    if parallel.ulysses == 1:
        return Communicators(connected=hybrid)
    if parallel.ulysses == parallel.gpus:
        return Communicators(connected=hybrid, alone=1)
    return Communicators(connected=hybrid + 2, peers=parallel.ulysses - 1)


def megatron_communicators(parallel: Parallelism, *, tied: bool, gpus_per_node: int) -> Communicators:
    r"""What Megatron's engines add to the communicator of all GPUs.

    .. math:: n + n_1 = 1 + 2 + [P > 1](1 + [\text{tied}]) + [C > 1] + [E > 1](3 + [E_t > 1])

    The norm of the gradients is summed over a group of all GPUs; the tensor-parallel group (the vocabulary's
    cross entropy) and the group of the gradients, data and context parallelism together, are used even if
    they are one GPU alone. Pipeline stages send and receive, and weights are broadcast over the group in
    the weight sync; tied embeddings add their gradients up over the first and the last stage. Context
    parallelism sends keys and values round, expert parallelism exchanges tokens with all GPUs of its group
    and counts them over the group that experts and their tensor parallelism span, and experts have a group
    for their gradients. Peers that are sent to and received from are counted on the same machine only:
    those of other machines share network buffers. All engines of a process share the groups.

    Source: Megatron-Core 0.18.2 ``parallel_state.py`` (``initialize_model_parallel``),
    ``optimizer/__init__.py`` (``grad_stats_parallel_group``), ``tensor_parallel/cross_entropy.py``,
    ``pipeline_parallel/p2p_communication.py``, ``transformer/moe/token_dispatcher.py``; verl 0.9.1
    ``utils/megatron_utils.py`` (``broadcast_from_megatron_pp``).
    """
    near = gpus_per_node - 1
    used = [parallel.gpus, parallel.tensor, parallel.data * parallel.context]
    peers = 0
    if parallel.pipeline > 1:
        used += [parallel.pipeline, 2] if tied else [parallel.pipeline]
        peers += min(1 if parallel.pipeline == 2 else 2, near)
    if parallel.context > 1:
        used.append(parallel.context)
        peers += min(1 if parallel.context == 2 else 2, near)
    if parallel.expert > 1:
        experts = parallel.expert * parallel.expert_tensor
        used += [parallel.expert, experts, max(1, parallel.gpus // (experts * parallel.pipeline))]
        used += [parallel.expert_tensor] if parallel.expert_tensor > 1 else []
        peers += min(parallel.expert - 1, near)
    connected = sum(size > 1 for size in used)
    return Communicators(connected=connected, alone=len(used) - connected, peers=peers)


def loaded_fsdp(engine: Engine) -> Communicators:
    r"""What one FSDP engine has added when its weights are loaded, before its first pass.

    .. math:: n = 2 \, [1 < W < G] \;\text{under FSDP1, else } 0

    FSDP1 sends the weights of the first rank through the groups of hybrid sharding, FSDP2 through the
    communicator of all GPUs, which a barrier has made by then. Ulysses exchanges nothing yet.

    Source: torch ``distributed/fsdp/_init_utils.py`` (``_sync_module_params_and_buffers``), verl 0.4.1 to
    0.9.1 ``workers/fsdp_workers.py`` and ``workers/engine/fsdp/transformer_impl.py`` (``sync_module_states``,
    ``torch.distributed.barrier``), ``utils/fsdp_utils.py`` (``fsdp2_load_full_state_dict``).
    """
    parallel = engine.parallel
    hybrid = engine.backend is Backend.FSDP and 1 < parallel.shard < parallel.gpus
    return Communicators(connected=2 if hybrid else 0)


def loaded_megatron(parallel: Parallelism) -> Communicators:
    """What Megatron's engines have added when their weights are loaded, before their first pass.

    verl's own loader sends them through the group of a whole model, tensor and pipeline parallelism
    together, and from there through the data-parallel group. Not told apart: mbridge, which uses the
    tensor-parallel group alone, and a distributed checkpoint, of which each rank reads its own part.

    Source: verl 0.4.1 to 0.6.1 ``models/mcore/loader.py`` (``load_state_dict_to_megatron_gptmodel``);
    mbridge 0.15.1 ``core/bridge.py`` (``load_weights``).
    """
    used = (parallel.tensor * parallel.pipeline, parallel.data)
    connected = sum(size > 1 for size in used)
    return Communicators(connected=connected, alone=len(used) - connected)


def started_communicators(workload: Workload) -> Communicators:
    """Communicators of the trainer's process when the rollout engine starts: models are loaded, none has run.

    NCCL makes a communicator at the first collective of a group, and most groups have their first one in the
    first pass or the first weight sync. In colocated verl the rollout engine is built before that.

    Source: torch ``ProcessGroupNCCL.cpp`` (``initNCCLComm``, called by a collective where the group was made
    without ``device_id``); verl 0.5.0 ``workers/fsdp_workers.py`` and ``workers/megatron_workers.py``
    (``init_model``), 0.9.1 ``trainer/ppo/v1/trainer_base.py`` (``init_model`` before ``LLMServerManager``).
    """
    engines = _engines(workload)
    loaded = Communicators(connected=1) if engines[0].parallel.gpus > 1 else Communicators(alone=1)
    loaded = sum((loaded_fsdp(one) for one in engines if one.backend is not Backend.MEGATRON), loaded)
    megatron = [loaded_megatron(one.parallel) for one in engines if one.backend is Backend.MEGATRON]
    return loaded + max(megatron, key=lambda group: group.connected, default=Communicators())


def trainer_communicators(workload: Workload) -> Communicators:
    """Communicators of the trainer's process, in which its engines work side by side.

    One communicator spans all GPUs. Each FSDP engine adds its own, :func:`fsdp_communicators`, and Megatron's
    share theirs, :func:`megatron_communicators`. What carries weights to engines on other GPUs can add one,
    on the rank that sends. Not counted: groups that only Gloo serves.

    Source: verl ``single_controller/ray/base.py`` (``create_colocated_worker_cls``: one process per GPU),
    verl 0.9.1 ``checkpoint_engine/nccl_checkpoint_engine.py`` (``init_process_group``).
    """
    cluster, tied = workload.cluster, workload.model.tied_embeddings
    carrier = None if workload.sync is None else workload.sync.carrier
    counted = _of_engines(_engines(workload), tied=tied, gpus_per_node=cluster.gpus_per_node)
    sending = 0 if carrier is None else carrier.sender_communicators
    return counted + Communicators(connected=sending) if sending else counted


@lru_cache(maxsize=512)  # most proposals leave the engines as they are
def _of_engines(engines: tuple[Engine, ...], *, tied: bool, gpus_per_node: int) -> Communicators:
    total = engines[0].parallel.gpus
    counted = Communicators(connected=1) if total > 1 else Communicators(alone=1)
    fsdp = [engine for engine in engines if engine.backend is not Backend.MEGATRON]
    counted = sum((fsdp_communicators(engine) for engine in fsdp), counted)
    everyone = [engine.parallel.gpus for engine in fsdp if engine.parallel.ulysses == engine.parallel.gpus]
    counted += Communicators(peers=max(everyone, default=1) - 1)  # on the communicator that engines share
    megatron = [engine.parallel for engine in engines if engine.backend is Backend.MEGATRON]
    groups = [megatron_communicators(one, tied=tied, gpus_per_node=gpus_per_node) for one in megatron]
    return counted + max(groups, key=lambda group: (group.connected, group.peers), default=Communicators())


def _engines(workload: Workload) -> tuple[Engine, ...]:
    """The engines that work in one process, the actor's first."""
    engines = [workload.actor.engine]
    if workload.reference is not None and workload.reference.separate:
        engines.append(workload.reference.engine)
    if workload.critic is not None:
        engines.append(workload.critic.engine)
    if (scored := workload.scoring) is not None:
        engines.append(scored.engine)
    return tuple(engines)
