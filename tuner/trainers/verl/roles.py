"""Which models a job has beside its policy, as the settings and the release decide."""

from tuner.inputs.settings import Settings
from tuner.trainers.verl.source import ReleaseSettings


def uses_critic(settings: Settings) -> bool:
    """Whether there is a critic: asked for, or needed by the advantage estimator."""
    enable = "critic.enable"
    if settings.get(enable) is not None:
        return settings.flag(enable)
    return settings.text("algorithm.adv_estimator") == "gae"  # null, as in recipes with no critic, is none


def uses_reference(source: ReleaseSettings) -> bool:
    """Whether there is a KL term, in the loss or in the reward; before 0.4 there always is one.

    A reference that has GPUs of its own is none of the trainer's models.
    """
    if trains_apart(source):
        return False
    if source.since("0.4.0"):
        return source.flag("actor.use_kl_loss") or source.flag("kl_in_reward")
    in_reward = "algorithm.use_kl_in_reward"  # a key of the copy, which its release does not have
    return not source.reference_for_kl or source.flag("actor.use_kl_loss") or source.settings.flag(in_reward)


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
