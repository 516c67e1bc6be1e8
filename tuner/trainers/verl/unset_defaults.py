"""Settings that decide the estimate and that nobody set: they rest on a release's defaults."""

from collections.abc import Iterable

from tuner.inputs.settings import Layer, Settings
from tuner.trainers.verl.keys import KEYS, key
from tuner.trainers.verl.programs import Program, program_of
from tuner.versions import at_least
from tuner.workload import Backend, Quantity, Workload

# What a person changes first when a job does not fit. A number that rests on one of these is only
# as good as the default is true.
_DECISIVE = (
    "advantage",
    "batch.prompts",
    "batch.responses_per_prompt",
    "batch.mini_batch_prompts",
    "batch.max_prompt_tokens",
    "batch.max_response_tokens",
    "rollout.memory_fraction",
    "rollout.tensor_parallel",
    "actor.fsdp.param_offload",
    "actor.fsdp.optimizer_offload",
    "model.gradient_checkpointing",
    "model.packed",
    "actor.entropy_coeff",
    "gpus_per_node",
    "nodes",
)
#: What an engine that is not modelled has keys of its own for.
_OF_TRAINING = (
    "actor.fsdp.param_offload",
    "actor.fsdp.optimizer_offload",
    "model.gradient_checkpointing",
    "model.packed",
    "actor.entropy_coeff",
    "actor.token_budget",
    "actor.micro_batch",
)
#: What an engine beside the trainer reads, and transformers in the trainer does not.
_OF_ENGINE = ("rollout.memory_fraction", "rollout.tensor_parallel")
_BATCHING = {True: "actor.token_budget", False: "actor.micro_batch"}
_QUANTITIES = {
    "batch.max_prompt_tokens": Quantity.MAX_PROMPT_TOKENS,
    "batch.max_response_tokens": Quantity.MAX_RESPONSE_TOKENS,
    "rollout.memory_fraction": Quantity.MEMORY_FRACTION,
    "actor.fsdp.param_offload": Quantity.PARAM_OFFLOAD,
    "actor.fsdp.optimizer_offload": Quantity.OPTIMIZER_OFFLOAD,
    "model.gradient_checkpointing": Quantity.CHECKPOINTING,
    "model.packed": Quantity.PACKED,
    "actor.token_budget": Quantity.TOKEN_BUDGET,
    "actor.micro_batch": Quantity.MICRO_BATCH_SEQUENCES,
}


def resting_on_defaults(
    settings: Settings, workload: Workload, *, version: str
) -> tuple[tuple[str, object], ...]:
    """Decisive keys that neither the file nor an override sets, with the default that is used.

    Args:
        settings: the loaded settings.
        workload: what was read from them: whether the update's micro-batches are packed by tokens decides
            whether the budget or the micro-batch size matters, and a cluster that was named beside the
            settings leaves nothing to their defaults.
        version: the release whose keys count.
    """
    cluster = workload.cluster
    named = {"gpus_per_node": cluster.gpus_per_node, "nodes": cluster.nodes}
    resting = []
    program = program_of(settings.defaults)
    megatron = workload.actor.engine.backend is Backend.MEGATRON
    unread = _unread_by_megatron(version) if megatron else ()
    if not workload.actor.engine.modelled:
        unread = _OF_TRAINING
    if workload.rollout is not None and workload.rollout.is_trainer:
        unread = (*unread, *_OF_ENGINE)
    for meaning in (*_DECISIVE, _BATCHING[workload.actor.update.batching.dynamic]):
        name = key(meaning, version, program) if meaning in KEYS else None
        origin = None if name is None else settings.origin(name)
        if name is None or origin is None or origin.layer is not Layer.DEFAULT or meaning in unread:
            continue
        if settings.as_reader_takes_it(f"{name}=0") is None:
            continue  # the user's program has no key for it
        value = settings.get(name)
        if value is not None and value == named.get(meaning, value):  # a missing one is a check's business
            resting.append((name, value))
    return tuple(resting)


def _unread_by_megatron(version: str) -> tuple[str, ...]:
    """Switches of the model that Megatron's workers have keys of their own for.

    Source: verl 0.4.1 ``single_controller/base/megatron/worker.py:95``, 0.7.1
    ``workers/actor/megatron_actor.py:683``, 0.8.0 ``workers/engine_workers.py:113``.
    """
    recomputation = ("model.gradient_checkpointing",) if at_least(version, "0.5.0") else ()
    packing = () if at_least(version, "0.8.0") else ("model.packed",)
    return recomputation + packing


def quantities(keys: Iterable[str], *, version: str) -> dict[str, Quantity]:
    """The quantity behind each of these keys, where the memory model can vary it."""
    wanted = tuple(keys)
    meanings: dict[str | None, str] = {}
    for program in Program:  # no two of them call different quantities the same
        if not meanings.keys() >= set(wanted):
            meanings |= {key(meaning, version, program): meaning for meaning in _QUANTITIES}
    return {name: _QUANTITIES[meanings[name]] for name in wanted if name in meanings}
