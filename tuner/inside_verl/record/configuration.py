"""The configuration beside a record, without secrets, also where only workers can tell it.

``actor_rollout_ref.model.external_lib`` reaches the workers alone. They have their own section; what else a
prediction needs is taken from what they see, and said above the file.

Sources: verl 0.5.0 and 0.7.1 ``workers/fsdp_workers.py``, ``workers/megatron_workers.py`` (``__init__`` of
``ActorRolloutRefWorker`` writes the share of a rank over ``ppo_mini_batch_size`` and the micro-batches),
0.9.1 ``workers/engine_workers.py`` (which does not).
"""

import os
from math import prod
from pathlib import Path
from typing import Any

import yaml

from tuner.inputs.record.form import CONFIG, WORKER_CONFIG
from tuner.inputs.secrets import hidden_value
from tuner.inside_verl.record.batch import size_of
from tuner.inside_verl.record.worker import VerlWorker
from tuner.language import _

_LEGACY = ("fsdp_workers", "megatron_workers")
_SLICES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
_GLOBAL = "_micro_batch_size"  # of all ranks; verl writes the rank's share over it, and beside it
_PER_GPU = "_per_gpu"


def write_configuration(file: Path, tree: dict[str, Any], comment: str = "") -> None:
    """Write a configuration; who reads meanwhile sees the old one or the new one, never a part.

    Args:
        file: to write.
        tree: resolved, of plain values.
        comment: lines above it.

    Raises:
        OSError: it cannot be written.
    """
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    text = lines + yaml.safe_dump(_plain(hidden_value("", _plain(tree))), sort_keys=False, allow_unicode=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _plain(value: Any) -> Any:
    """A value that YAML has a form for; any other object as its text."""
    if isinstance(value, dict):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(child) for child in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def write_worker_configuration(
    folder: Path, instance: Any, worker: VerlWorker, data: Any, gpus_per_node: int | None
) -> None:
    """Write what a worker knows, unless the trainer has written all of it, or the worker knows too little.

    Args:
        folder: of the record.
        instance: the worker of verl.
        worker: the same.
        data: the batch of its update.
        gpus_per_node: where the environment says so.
    """
    section = _section(instance)
    everyone = size_of(data).all_sequences
    if section is None or not everyone or (folder / CONFIG).exists():
        return
    rollout, responses = section["rollout"], _responses(section)
    if type(instance).__module__.rpartition(".")[2] in _LEGACY:
        _undo_shares(section, worker.world, responses)
    per_node = gpus_per_node or worker.world
    tree = {
        "actor_rollout_ref": section,
        "algorithm": {"adv_estimator": "grpo"},
        "data": {
            "train_batch_size": max(1, everyone // responses),
            "max_prompt_length": rollout.get("prompt_length"),
            "max_response_length": rollout.get("response_length"),
        },
        "trainer": {"n_gpus_per_node": per_node, "nnodes": max(1, worker.world // per_node)},
    }
    write_configuration(folder / WORKER_CONFIG, tree, _comment())


def _comment() -> str:
    return _(
        "Written by a worker: the trainer's process records nothing.\n"
        "Assumed: algorithm.adv_estimator is grpo, and no critic is trained.\n"
        "From the first update: data.train_batch_size.\n"
        "From the rollout's settings: data.max_prompt_length and data.max_response_length.\n"
        "From the workers' number: trainer.n_gpus_per_node and trainer.nnodes."
    )


def _section(instance: Any) -> dict[str, Any] | None:
    """The section ``actor_rollout_ref`` of a worker; None of a worker that has another one."""
    config = getattr(instance, "config", None)
    if isinstance(config, dict):
        tree: Any = config
    else:
        try:
            from omegaconf import OmegaConf

            tree = OmegaConf.to_container(config, resolve=True)
        except Exception:  # no configuration of OmegaConf, or one with an interpolation beyond it
            return None
    whole = isinstance(tree, dict) and all(isinstance(tree.get(name), dict) for name in ("actor", "rollout"))
    return tree if whole else None


def _responses(section: dict[str, Any]) -> int:
    count = section["rollout"].get("n")
    return count if isinstance(count, int) and count > 0 else 1


def _undo_shares(section: dict[str, Any], world: int, responses: int) -> None:
    """Give the batch sizes that verl made those of a rank their values in the configuration again."""
    actor = section["actor"]
    megatron = actor.get("megatron") if actor.get("strategy") == "megatron" else None
    slices = [megatron.get(name) or 1 for name in _SLICES] if isinstance(megatron, dict) else []
    ranks = max(1, world // (prod(slices) if slices else actor.get("ulysses_sequence_parallel_size") or 1))
    if isinstance(actor.get("ppo_mini_batch_size"), int):
        actor["ppo_mini_batch_size"] = max(1, actor["ppo_mini_batch_size"] * ranks // responses)
    for role in (part for part in section.values() if isinstance(part, dict)):
        for name in [name for name in role if name.endswith(_GLOBAL) and role.get(name + _PER_GPU)]:
            role[name] = None
