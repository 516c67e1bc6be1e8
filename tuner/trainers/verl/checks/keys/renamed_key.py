"""A setting under the name of another release

What it checks
--------------
Keys that this release does not have, but that another release has under the same meaning: sections that moved, keys that got a new name, in either direction.
The override repeats the value under the name of this release.

Why it matters
--------------
Scripts outlive releases.
Hydra refuses a key that the configuration does not have; written with ``+`` it is accepted, and then either the section's dataclass refuses it in the worker, minutes later, or nothing reads it.
From 0.9.0 on ``main_ppo`` has the old sections of rewards in its YAML and no longer reads them: the launch's own reward function is left out, and verl's raises ``NotImplementedError`` for data that it does not know.

When it does not apply
----------------------
Keys that a release keeps for compatibility under both names, and reads under both, are not reported, and neither is a key whose counterpart already has the same value.
Keys that no release ever had are reported apart, with the nearest known key.

Sources
-------
The YAML of the releases themselves, composed: ``trainer/config/_generated_ppo_trainer.yaml`` and ``_generated_ppo_megatron_trainer.yaml`` of verl 0.5.0 to 0.9.1, ``trainer/config/ppo_trainer.yaml`` of 0.4.1.
``critic.model.fsdp_config`` became ``critic.fsdp`` in 0.8.0, ``reward_model`` became ``reward`` in 0.7.1, ``actor.router_replay`` moved into ``actor.megatron`` in 0.9.1.
verl 0.8.0 ``trainer/main_ppo.py:47`` (``migrate_legacy_reward_impl``), which 0.9.0 and 0.9.1 call in ``fully_async_main.py:237`` alone; 0.9.1 ``utils/reward_score/__init__.py:107``.
``rollout.tensor_parallel_size`` is the name that verl's performance guide uses; no release has it.
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.inputs.tree import dotted
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import ACTOR, CRITIC, REFERENCE, ROLLOUT, in_release
from tuner.trainers.verl.service_keys import FUNCTION, is_unread
from tuner.workload import Workload

RULE = Rule(
    code="CFG102",
    name="renamed-key",
    summary=N_("a setting under the name of another release"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

#: Names of one thing, older first. A name that ends in a dot stands for a whole section.
SAME: tuple[tuple[str, ...], ...] = (
    (f"{ROLLOUT}.tensor_parallel_size", f"{ROLLOUT}.tensor_model_parallel_size"),
    (
        f"{ROLLOUT}.update_weights_bucket_megabytes",
        f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes",
    ),
    (f"{ROLLOUT}.skip_rollout", f"{ROLLOUT}.skip.enable"),
    (f"{ROLLOUT}.skip_dump_dir", f"{ROLLOUT}.skip.dump_dir"),
    (f"{CRITIC}.model.fsdp_config.", f"{CRITIC}.fsdp."),
    (
        f"{CRITIC}.ulysses_sequence_parallel_size",
        f"{CRITIC}.model.fsdp_config.ulysses_sequence_parallel_size",
    ),
    (f"{CRITIC}.ulysses_sequence_parallel_size", f"{CRITIC}.fsdp.ulysses_sequence_parallel_size"),
    (f"{ACTOR}.ulysses_sequence_parallel_size", f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size"),
    (f"{ACTOR}.use_torch_compile", f"{ACTOR}.fsdp_config.use_torch_compile"),
    (f"{ACTOR}.grad_clip", f"{ACTOR}.optim.clip_grad"),
    (f"{CRITIC}.grad_clip", f"{CRITIC}.optim.clip_grad"),
    (
        f"{ACTOR}.entropy_from_logits_with_chunking",
        f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking",
        f"{ACTOR}.megatron.entropy_from_logits_with_chunking",
    ),
    (f"{ACTOR}.entropy_checkpointing", f"{ACTOR}.fsdp_config.entropy_checkpointing"),
    (f"{ACTOR}.router_replay.", f"{ACTOR}.megatron.router_replay."),
    (f"{REFERENCE}.router_replay.", f"{REFERENCE}.megatron.router_replay."),
    ("reward_model.model.path", "reward.reward_model.model_path"),
    ("reward_model.enable", "reward.reward_model.enable"),
    ("reward_model.reward_manager", "reward.reward_manager.name"),
    ("reward_model.sandbox_fusion.", "sandbox_fusion.", "reward.sandbox_fusion."),
    ("custom_reward_function.", "reward.custom_reward_function."),
    ("ray_init.", "ray_kwargs.ray_init."),
)

_NO_REWARD = N_(
    "The first step then ends in NotImplementedError where verl has no reward of its own for the "
    "data_source of a row."
)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per key that this release knows under another name."""
    for key in settings.user_keys:
        unread = is_unread(key, version, settings.started) and settings.get(key) is not None
        unread = unread and settings.has_statement is None  # a copy may read what it likes
        if in_release(settings, key) and not unread:
            continue
        name = next((other for other in _other_names(key) if in_release(settings, other)), None)
        value = settings.get(key)
        if name is not None and settings.get(name) != value:
            text = _("{key}={value} is not a setting of {release}, which calls it {name}")
            if unread and in_release(settings, key):
                text = _("nothing reads {key}={value} in {release}, which calls it {name}")
            message = text.format(key=key, value=value, release=workload.release, name=name)
            notes = [_(_NO_REWARD)] if unread and key == dotted(FUNCTION) else []
            yield report(
                RULE,
                settings,
                message,
                keys=[key, name],
                overrides=[assign(settings, name, value)],
                notes=notes,
            )


def _other_names(key: str) -> Iterator[str]:
    """The names that other releases give this key, the newest first."""
    for names in SAME:
        held = next(
            (name for name in names if key == name or (name.endswith(".") and key.startswith(name))), None
        )
        if held is not None:
            yield from (name + key.removeprefix(held) for name in reversed(names) if name != held)
