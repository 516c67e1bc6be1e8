"""The engine that generates for NeMo-RL, and how new weights reach it.

Source: NeMo-RL v0.5.0 to v0.7.0 ``models/generation/vllm/vllm_worker.py`` (``llm_kwargs``,
``sleep(level=1)``), ``vllm_worker_async.py``, ``models/policy/utils.py``
(``stream_weights_via_ipc_zmq_impl``).
"""

from tuner.dtypes import DType
from tuner.errors import UnsupportedError
from tuner.hardware import Gpu
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.serving import vllm
from tuner.trainers.nemo_rl.cluster import GpuSplit
from tuner.trainers.nemo_rl.releases import VLLM
from tuner.trainers.settings_by_meaning import SettingsByMeaning
from tuner.units import GIB
from tuner.workload import Backend, Engine, Rollout, RolloutEngine, WeightSync

_ENGINES = ("vllm", "sglang", "megatron", "trtllm", "dynamo")

#: What vLLM's class for requests one after the other takes where nobody says: it is made without a usage that
#: has defaults of its own. Source: vLLM 0.11 to 0.20 ``v1/engine/async_llm.py`` (``from_engine_args``:
#: ``ENGINE_CONTEXT``), ``config/scheduler.py``.
_ASYNCHRONOUS_TOKENS, _ASYNCHRONOUS_SEQUENCES = 2048, 128
#: The class for whole batches, on large cards but the A100 and elsewhere; ``engine/arg_utils.py`` there
#: (``get_batch_defaults``: ``LLM_CLASS``).
_MANY_TOKENS, _FEW_TOKENS = 16384, 8192
_MANY_SEQUENCES = 1024

#: Of what is free on a card where nobody gives the buffer's size. Source: NeMo-RL v0.7.0
#: ``weight_sync/ipc_weight_synchronizer.py`` (``NRL_REFIT_BUFFER_MEMORY_RATIO``).
_BUFFER_SHARE = 0.3
#: Of a card that sends to others, and the most. Source: ``utils/packed_tensor.py``.
_SENT_SHARE, _MOST_SENT = 0.02, 5 * GIB


def engine_version(source: SettingsByMeaning) -> str:
    """The version of vLLM that the release pins."""
    return VLLM[source.version]


def read_rollout(
    source: SettingsByMeaning, model: ModelShape, gpu: Gpu, shares: GpuSplit, version: str | None
) -> Rollout:
    """The engine.

    Raises:
        InputError: a value has the wrong type, or a replica needs more GPUs than there are.
        UnsupportedError: another engine than vLLM generates.
    """
    _expect_vllm(source)
    served = version or engine_version(source)
    asynchronous = source.flag("rollout.asynchronous")
    sequences = _ASYNCHRONOUS_SEQUENCES if asynchronous else vllm.default_sequences(served, gpu)
    tokens = _ASYNCHRONOUS_TOKENS if asynchronous else _batched_tokens(served, gpu)
    gpus = shares.gpus_per_node * shares.nodes if shares.colocated else shares.own_gpus
    tensor, pipeline = (source.integer(f"rollout.{axis}", default=1) for axis in ("tensor", "pipeline"))
    experts = source.integer("rollout.expert", default=1)
    data = max(1, experts // tensor)
    if tensor * pipeline * data > gpus:
        raise source.error(
            "rollout.tensor",
            _("a replica needs {needed} GPUs, generation has {gpus}").format(
                needed=tensor * pipeline * data, gpus=gpus
            ),
        )
    precision = source.text("rollout.precision", default="bfloat16")
    return Rollout(
        engine=RolloutEngine.VLLM,
        engine_version=served,
        memory_fraction=source.number("rollout.fraction", default=0.6, minimum=0.0, maximum=1.0),
        tensor_parallel=tensor,
        data_parallel=data,
        pipeline_parallel=pipeline,
        expert_parallel=experts,
        weight_dtype=DType.FLOAT8
        if precision == "fp8"
        else source.dtype("precision", default=DType.BFLOAT16),
        kv_dtype=DType.FLOAT8 if "fp8" in source.text("rollout.cache", default="auto") else DType.BFLOAT16,
        max_sequences=source.integer("rollout.sequences", default=sequences),
        max_batched_tokens=source.integer("rollout.batched_tokens", default=tokens),
        max_model_tokens=source.integer(
            "rollout.model_tokens", default=source.integer("total_tokens", default=512)
        ),
        cuda_graphs=not source.flag("rollout.eager"),
        prefix_caching=source.flag("rollout.prefixes", default=True),
        frees_memory=shares.colocated,
        sleep_level=1,
        own_process=True,
        batches_at_once=_batches_at_once(source),
        returns_log_probs=True,
        log_stats=True,
        colocated=shares.colocated,
        gpus=gpus,
        node_gpus=None if shares.colocated else shares.own_gpus_per_node,
        **vllm.memory_facts(served, model),
    )


def _batches_at_once(source: SettingsByMeaning) -> int:
    """Batches whose responses are generated side by side: those that may be as old as the trainer takes them.

    Source: NeMo-RL v0.5.0 to v0.7.0 ``algorithms/async_utils`` (``_inflight_sema``).
    """
    return source.integer("asynchronous.age", default=1) if source.flag("asynchronous") else 1


def read_sync(
    source: SettingsByMeaning, model: ModelShape, actor: Engine, rollout: Rollout, gpu: Gpu
) -> WeightSync:
    """How new weights travel: through two buffers that are filled in turn and mapped by the engine.

    Together they take three tenths of what the weights of both leave free on the card, unless their size is
    given. To engines on GPUs of their own they are sent from two of a fiftieth of the card each.

    Source: NeMo-RL v0.5.0 to v0.7.0 ``utils/packed_tensor.py`` (``get_target_packed_tensor_size``).
    """
    total = int(source.number("sync.buffer", default=0.0) * GIB)
    if not rollout.colocated:
        total = 2 * min(int(_SENT_SHARE * gpu.memory_bytes), _MOST_SENT)
    elif not total:
        total = _buffers(model, actor, rollout, gpu)
    return WeightSync(
        bucket_bytes=max(1, total // 2),
        buckets=2,
        gathers_whole_model=False,
        sent_dtype=actor.compute_dtype,
        broadcasts=not rollout.colocated,
        stages_weights=True,
        offloads_first=False,
        resumes_first=True,
        collections=2,
        experts_apart=actor.backend is Backend.MEGATRON,
    )


def _buffers(model: ModelShape, actor: Engine, rollout: Rollout, gpu: Gpu) -> int:
    """Bytes of both buffers: a share of the card without the trainer's and the engine's weights."""
    held = _weights_on_a_rank(model, actor) * actor.stored_dtype.bytes
    if rollout.colocated:
        held += model.parameters * rollout.weight_dtype.bytes // rollout.replica_gpus
    return int(_BUFFER_SHARE * max(0, gpu.memory_bytes - held))


def _weights_on_a_rank(model: ModelShape, actor: Engine) -> int:
    parallel = actor.parallel
    if actor.backend is not Backend.MEGATRON:
        return model.parameters // parallel.shard
    experts = model.expert_parameters * model.sparse_layers
    apart = experts // (parallel.expert * parallel.expert_tensor * parallel.pipeline)
    return (model.parameters - experts) // (parallel.tensor * parallel.pipeline) + apart


def _expect_vllm(source: SettingsByMeaning) -> None:
    engine = source.choice("engine", _ENGINES, default="vllm")
    if engine != "vllm":
        origin = source.settings.origin("policy.generation.backend")
        raise UnsupportedError(
            _("generation by {engine} is not modelled for NeMo-RL").format(engine=engine),
            location=None if origin is None else origin.location,
            key="policy.generation.backend",
            hint=_("the phases of a job that generates by vllm are modelled"),
        )


def _batched_tokens(version: str, gpu: Gpu) -> int:
    """Tokens of a step of the class for whole batches where nobody says."""
    large = vllm.default_sequences(version, gpu) == _MANY_SEQUENCES
    return _MANY_TOKENS if large else _FEW_TOKENS
