"""Which models a job has beside its policy, as the settings and the release decide."""

from tuner.inputs.settings import Settings
from tuner.trainers.verl.models_built import built_models
from tuner.trainers.verl.source import ReleaseSettings

_LOSS_KEYS = "actor_rollout_ref.actor.policy_loss."
_REFERENCE_MODEL = "actor_rollout_ref.ref.model.path"
_SHARING = "actor_rollout_ref.ref.ulysses_sequence_parallel_size"
_IN_REWARD_WEIGHT = "algorithm.kl_ctrl.kl_coef"  # which a copy may have before the release it carries


def uses_critic(settings: Settings) -> bool:
    """Whether there is a critic on the policy's GPUs."""
    return has_critic(settings) and "critic" not in built_models(settings).apart


def has_critic(settings: Settings) -> bool:
    """Whether there is a critic: as a copy's program says, else as asked for or needed by the advantage."""
    built = built_models(settings).critic
    if built is not None:
        return built
    enable = "critic.enable"
    if settings.get(enable) is not None:
        return settings.flag(enable)
    return settings.text("algorithm.adv_estimator") == "gae"  # null, as in recipes with no critic, is none


def uses_reference(source: ReleaseSettings) -> bool:
    """Whether there is a reference on the policy's GPUs.

    One that has GPUs of its own is none of the trainer's models.
    """
    apart = trains_apart(source) or "reference" in built_models(source.settings).apart
    return not apart and has_reference(source)


def has_reference(source: ReleaseSettings) -> bool:
    """Whether there is a KL term, in the loss or in the reward; releases before 0.4 have a reference without.

    Copies of releases before 0.4 may make one only where it is asked for.
    """
    built = source.copy.built.reference
    if built is not None:
        return built
    if not source.since("0.4.0"):
        copy = source.copy
        if copy.reference_by_weight and source.settings.number(_IN_REWARD_WEIGHT, default=0.0) > 0:
            return True
        if not copy.reference_by_kl:
            return not copy.reference_by_weight
    return source.flag("actor.use_kl_loss") or source.flag("kl_in_reward")


def weighs_kl_loss(source: ReleaseSettings) -> bool:
    """Whether the actor's loss has a KL term with a weight."""
    return source.flag("actor.use_kl_loss") and source.number("actor.kl_loss_weight", default=1.0) != 0


def weighs_kl_in_reward(source: ReleaseSettings) -> bool:
    """Whether a KL penalty with a weight is taken from the rewards, where a switch of its own says so."""
    return source.flag("kl_in_reward") and source.settings.number(_IN_REWARD_WEIGHT, default=1.0) != 0


def needs_reference(source: ReleaseSettings) -> bool:
    """Whether something may be learnt from a reference, or the release has one whatever is set.

    A copy's own loss may learn from it without a KL term: where its code reads the log-probabilities in
    other places than a release, where the policy's loss has keys that no release has, and where the
    reference is another model, as a teacher is.
    """
    by_setting = source.copy.reference_by_kl or source.copy.reference_by_weight
    if not source.since("0.4.0") and not by_setting:
        return True
    if weighs_kl_loss(source) or weighs_kl_in_reward(source) or _weighs_by_number(source):
        return True
    return source.copy.learns_from_reference or _is_teacher(source) or _has_own_loss(source.settings)


def _weighs_by_number(source: ReleaseSettings) -> bool:
    """Whether a copy takes a KL penalty from the rewards that the weight alone switches on."""
    copy = source.copy
    if not copy.reference_by_weight or source.key("kl_in_reward") is not None:
        return False
    spared = source.flag("actor.use_kl_loss") and not copy.penalty_beside_loss
    return not spared and source.settings.number(_IN_REWARD_WEIGHT, default=0.0) != 0


def _is_teacher(source: ReleaseSettings) -> bool:
    """Whether the reference is given a model of its own."""
    model = source.settings.get(_REFERENCE_MODEL)
    return model is not None and model != source.settings.get("actor_rollout_ref.model.path")


def reference_model_path(source: ReleaseSettings) -> str | None:
    """The model of a reference that is not the actor's, where the workers that make it read one.

    The model engines copy the actor's model, and so do Megatron's workers.

    Source: verl 0.6.0 to 0.7.1 ``workers/fsdp_workers.py`` (``ref_model_path``), which the strategy of the
    actor chooses (``trainer/main_ppo.py``); 0.7.1 to 0.9.1
    ``workers/engine_workers.py`` (``ref_config.model_config = deepcopy(model_config)``).
    """
    strategy = str(source.settings.get("actor_rollout_ref.actor.strategy", "fsdp"))
    if source.engine_workers or not strategy.startswith("fsdp") or not uses_reference(source):
        return None
    has = source.settings.has_statement
    reads = source.since("0.6.0") if has is None else has("ref_model_path", "fsdp_workers")
    return str(source.settings.get(_REFERENCE_MODEL)) if reads and _is_teacher(source) else None


def _has_own_loss(settings: Settings) -> bool:
    """Whether the user sets something of the policy's loss that no release has."""
    return any(key.startswith(_LOSS_KEYS) and not settings.knows(key) for key in settings.user_keys)


def reference_sharing(source: ReleaseSettings) -> str | None:
    """The key of the reference that has to say how many ranks share a sequence, as the actor's does.

    The legacy workers share by the actor's number, and multiply the reference's budget of tokens by its own.
    None where the configuration has no such key, or each role has a mesh.

    Source: verl 0.4.0 to 0.7.1 ``workers/actor/dp_actor.py`` (``compute_log_prob``: ``max_token_len =
    data.meta_info["max_token_len"] * self.ulysses_sequence_parallel_size``), whose configuration is ``ref``.
    """
    return None if source.engine_workers or _SHARING not in source.settings else _SHARING


def trains_apart(source: ReleaseSettings) -> bool:
    """Whether the actor trains on GPUs where nothing else runs: neither the rollout nor log-probabilities.

    Source: verl-recipe at commit 48ea0a7 ``async_flow/async_flow_trainer.py`` (``_init_worker_groups``),
    ``config/async_grpo.yaml``: ``trainer.n_gpus_per_node`` are the rollout's GPUs there.
    """
    return source.integer("recipe.trainer_gpus_per_node", default=0, minimum=0) > 0


def has_adapters(source: ReleaseSettings) -> bool:
    """Whether either spelling of the rank asks for low-rank adapters, whatever shards the model."""
    ranks = ("model.lora_rank", "model.megatron_lora_rank")
    return any(source.integer(meaning, default=0, minimum=0) > 0 for meaning in ranks)
