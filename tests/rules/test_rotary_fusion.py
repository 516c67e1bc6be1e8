"""One kernel that rotates, under Megatron: each role gets what its own architecture needs."""

import pytest

from tuner.advise import Recommendation
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.workload import Workload

SEVEN = "Qwen/Qwen2.5-7B-Instruct"
LATENT = "deepseek-ai/DeepSeek-V2-Lite-Chat"
KEY = "megatron.override_transformer_config.apply_rope_fusion"


def job(*more: str, critic: str = SEVEN, reward: str = "") -> list[str]:
    judge = (
        "reward_model.enable=True",
        "reward_model.strategy=megatron",
        f"reward_model.model.path={reward}",
    )
    return [
        "--config-name=ppo_megatron_trainer",
        "algorithm.adv_estimator=gae",
        f"actor_rollout_ref.model.path={SEVEN}",
        f"critic.model.path={critic}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.actor.use_kl_loss=True",
        "data.train_batch_size=512",
        "data.max_prompt_length=512",
        "data.max_response_length=1024",
        "actor_rollout_ref.actor.ppo_mini_batch_size=128",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4",
        "critic.megatron.tensor_model_parallel_size=4",
        "trainer.n_gpus_per_node=8",
        *(judge if reward else ()),
        *more,
    ]


def rotation(words: list[str], release: str) -> tuple[Workload, Recommendation | None]:
    advice = consult("/dev/null", words, Premises(gpu="h200-sxm", verl_version=release)).advice
    items = (item for item in advice.recommendations if item.finding.rule.code == "KRN008")
    return advice.workload, next(items, None)


def sections(item: Recommendation) -> dict[str, str]:
    pairs = (text.lstrip("+").split("=") for text in item.overrides)
    return {key.removesuffix(f".{KEY}"): value for key, value in pairs}


@pytest.mark.parametrize("release", ["0.4.1", "0.6.1", "0.7.0"])
def test_the_critic_is_never_turned_off_and_the_reward_model_never_left_out(release: str) -> None:
    served = ("reward_model.use_reward_loop=False",) if release == "0.7.0" else ()
    before, item = rotation(job(*served, reward=SEVEN), release)
    assert before.critic is not None and not before.critic.engine.fused_rotary
    assert item is not None and item.workload is not None
    assert "False" not in sections(item).values()
    after = item.workload
    assert after.actor.engine.fused_rotary and after.reference is not None
    assert after.reference.engine.fused_rotary
    assert after.critic is not None and after.critic.engine.fused_rotary
    assert after.reward is not None and after.reward.engine is not None
    assert after.reward.engine.fused_rotary


def test_a_critic_alone_is_spoken_of() -> None:
    own = ("actor_rollout_ref.actor", "actor_rollout_ref.ref")
    _before, item = rotation(job(*(f"+{role}.{KEY}=True" for role in own)), "0.6.1")
    assert item is not None and sections(item) == {"critic": "True"}
    assert item.finding.phase is not None and item.finding.phase.value == "update_critic"


def test_latent_attention_is_left_as_it_is() -> None:
    _before, item = rotation(job(critic=LATENT), "0.6.1")
    assert item is not None and item.workload is not None and item.workload.critic is not None
    assert not item.workload.critic.engine.fused_rotary
    assert "critic" not in sections(item)
