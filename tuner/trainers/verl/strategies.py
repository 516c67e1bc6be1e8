"""How a release of verl is told to shard with another engine, and which models that engine takes.

Source: verl 0.4.0 to 0.6.1 ``models/mcore/registry.py`` (``SupportedModel``, by the class of a model: any
other raises NotImplementedError); from 0.7.0 on ``get_mcore_forward_fn`` there takes every model that a
bridge builds, ``trainer/config/_generated_ppo_megatron_trainer.yaml`` (``use_mbridge``, ``vanilla_mbridge``).
What clips and schedules has other keys there: ``utils/megatron/optimizer.py`` (``clip_grad``,
``lr_decay_style``). Adapters under Megatron: 0.7.0 to 0.9.1 ``workers/config/megatron_peft.py``
(``get_peft_cls``: of ``model.lora`` alone), ``trainer/config/model/hf_model.yaml`` (``type``,
``target_modules``).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.errors import UnsupportedError
from tuner.inputs.override_syntax import override
from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, dotted, lookup, split_key
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.trainers.protocol import Loaded
from tuner.trainers.verl.defaults import CONFIGS, read_defaults
from tuner.versions import at_least
from tuner.workload import Backend, Workload

NAMES = {"fsdp": (Backend.FSDP, Backend.FSDP2), "fsdp2": (Backend.FSDP2,), "megatron": (Backend.MEGATRON,)}
_CORE, _TRANSFORMER_ENGINE = "megatron-core", "Transformer Engine"
_ADAPTED = "0.7.0"  # the first release that trains adapters under Megatron
_BRIDGED = "0.7.0"  # the first release whose default builds models by mbridge
_OTHER_BRIDGE = "0.9.0"  # the first one whose default is Megatron-Bridge
_ACTOR = "actor_rollout_ref.actor"
_OTHERS = ("actor_rollout_ref.ref", "critic")
_OPTIMIZER = "optim"  # the section of what decides the training
#: Keys below a role that decide its training, with those that do so in the other configuration.
_CARRIED = {
    "grad_clip": "optim.clip_grad",
    "optim.clip_grad": "grad_clip",
    "optim.warmup_style": "optim.lr_decay_style",
    "optim.lr_scheduler_type": "optim.lr_decay_style",
}
_SCHEDULES = ("constant", "cosine")  # that both have
_FIRST_MODELS = frozenset(
    (
        *("llama", "qwen2", "qwen2_moe", "deepseek_v3", "kimi_k2", "mixtral", "qwen2_5_vl", "llama4"),
        *("qwen3", "qwen3_moe"),
    )
)
#: ``model_type`` of the classes that were added, by the release that added them.
_ADDED_MODELS = {"0.6.0": ("glm4_moe", "qwen3_vl_moe"), "0.6.1": ("qwen3_vl",)}


def strategy_lines(loaded: Loaded, workload: Workload, name: str) -> tuple[str, ...]:
    """What has a job shard so, see :meth:`tuner.trainers.protocol.Trainer.strategy_lines`."""
    if name not in NAMES:
        raise UnsupportedError(
            _("there is no strategy {name!r}").format(name=name),
            hint=_("the strategies are {names}").format(names=", ".join(NAMES)),
        )
    if loaded.base.name not in CONFIGS:
        text = _("its program is another than verl's PPO trainer ({name})")
        raise UnsupportedError(text.format(name=loaded.base.name))
    if workload.actor.engine.backend in NAMES[name]:
        return ()
    if name == "megatron":
        models = (workload.model, *(() if workload.critic is None else (workload.critic.model,)))
        for model in models:
            _expect_built(model, loaded.version)
    _expect_no_adapters(workload, loaded.version, name)
    settings = loaded.settings
    set_too = [
        section
        for section in _OTHERS
        if settings.is_set(f"{section}.strategy")
        and contains(settings.defaults, split_key(f"{section}.strategy"))
    ]
    lines = tuple(override(f"{section}.strategy", name) for section in (_ACTOR, *set_too))
    config = CONFIGS[1] if name == "megatron" else CONFIGS[0]
    if config == loaded.base.name:
        return lines
    sections = (_ACTOR, *(() if workload.critic is None else ("critic",)))
    return (*lines, *_same_training(settings, read_defaults(loaded.version, config).tree, sections))


def _same_training(settings: Settings, other: Mapping[str, Any], sections: tuple[str, ...]) -> Iterator[str]:
    """What has the optimizer do the same under another configuration.

    Raises:
        UnsupportedError: a key that is set decides the training, and has no counterpart there.
    """
    carried = {}
    for section in sections:
        for key, there in _CARRIED.items():
            path = split_key(f"{section}.{key}")
            if settings.is_set(dotted(path)) and contains(settings.defaults, path):
                value = settings.get(dotted(path))
                if there != "optim.lr_decay_style" or value in _SCHEDULES:
                    carried[dotted(path)] = override(f"{section}.{there}", value)
        rate = f"{section}.optim.lr"
        theirs = lookup(other, split_key(rate)) if contains(other, split_key(rate)) else None
        if not settings.is_set(rate) and settings.get(rate) != theirs:
            carried[rate] = override(rate, settings.get(rate))
    lost = [
        dotted(path)
        for path in settings.origins
        if _OPTIMIZER in path
        and dotted(path).startswith(sections)
        and contains(settings.defaults, path)
        and not contains(other, path)
        and dotted(path) not in carried
    ]
    if lost:
        text = _(
            "the other configuration has no counterpart of {keys}, and the training would be another one"
        )
        raise UnsupportedError(text.format(keys=", ".join(lost)))
    yield from carried.values()


def _expect_no_adapters(workload: Workload, version: str, name: str) -> None:
    """Refuse adapters, which are others under another engine.

    Raises:
        UnsupportedError: a model that is trained has some.
    """
    trained = (workload.actor, workload.critic)
    if all(role is None or role.engine.lora is None for role in trained):
        return
    if name == "megatron" and not at_least(version, _ADAPTED):
        raise UnsupportedError(_("verl {version} trains no adapters under Megatron").format(version=version))
    raise UnsupportedError(
        _(
            "adapters under Megatron stand on fused projections, one for queries, keys and values together, "
            "and under FSDP on each projection: it would be another training "
            "(model.lora.type=canonical_lora, with separate ones, is not modelled)"
        )
    )


def _expect_built(model: ModelShape, version: str) -> None:
    """Refuse a model that a release has no Megatron form of.

    Raises:
        UnsupportedError: it has none.
    """
    if at_least(version, _BRIDGED):
        return  # the bridge says what it builds
    added = (kinds for since, kinds in _ADDED_MODELS.items() if at_least(version, since))
    if model.architecture not in _FIRST_MODELS.union(*added):
        text = _("verl {version} builds no {architecture} under Megatron")
        raise UnsupportedError(text.format(version=version, architecture=model.architecture))


def packages_of_megatron(version: str) -> tuple[str, ...]:
    """The packages that a release imports to train under Megatron."""
    if not at_least(version, _BRIDGED):
        return _CORE, _TRANSFORMER_ENGINE
    return _CORE, _TRANSFORMER_ENGINE, "Megatron-Bridge" if at_least(version, _OTHER_BRIDGE) else "mbridge"
