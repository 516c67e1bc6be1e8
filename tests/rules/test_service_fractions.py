"""Engines of teachers and reward models that cannot start: the block gives them the fraction they need."""

import pytest

from tuner.advise import Advice
from tuner.advise.verdicts import Verdict
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.workload import ServiceRole

pytestmark = pytest.mark.sampled(6)

JOB = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "data.train_batch_size=512",
    "data.max_prompt_length=1024",
    "data.max_response_length=2048",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "trainer.n_gpus_per_node=8",
)
POOL = ("distillation.enabled=True", "distillation.n_gpus_per_node=4", "distillation.nnodes=1")
SINGLE = "distillation.teacher_models.teacher_model"


def advised(*more: str, release: str = "0.9.1") -> Advice:
    return consult("/dev/null", [*JOB, *more], Premises(gpu="h100-sxm", verl_version=release)).advice


def teacher(section: str, model: str, fraction: str, *more: str, sign: str = "") -> tuple[str, ...]:
    mine = (f"model_path={model}", "inference.name=vllm", "inference.tensor_model_parallel_size=2", *more)
    return tuple(f"{sign}{section}.{it}" for it in (*mine, f"inference.gpu_memory_utilization={fraction}"))


def fractions(overrides: tuple[str, ...]) -> dict[str, float]:
    key = ".gpu_memory_utilization"
    pairs = (text.lstrip("+").split("=") for text in overrides if key in text)
    return {name.removesuffix(key): float(value) for name, value in pairs}


@pytest.mark.parametrize("release", ["0.8.0", "0.9.1"])
def test_a_teacher_without_room_for_its_cache_gets_a_line_of_the_block(release: str) -> None:
    words = (*POOL, *teacher(SINGLE, "Qwen/Qwen2.5-32B-Instruct", "0.4"))
    advice = advised(*words, release=release)
    assert advice.verdict is Verdict.WILL_NOT_START
    together = advice.combination
    assert together is not None and together.verdict is Verdict.FITS
    (part,) = (it for it in together.contributions if it.finding.rule.code == "ROL029")
    assert part.needed
    enough = fractions(part.overrides)[f"{SINGLE}.inference"]
    assert 0.4 < enough < 0.95
    (item,) = (it for it in advice.recommendations if it.finding.rule.code == "ROL029")
    assert item.price is not None and item.price.worst_after_bytes == item.price.worst_before_bytes
    after = advised(*words, *together.overrides, release=release)
    assert after.verdict is Verdict.FITS and after.combination is None


def test_each_of_several_teachers_gets_its_own_fraction() -> None:
    small, large = (f"distillation.teacher_models.{name}" for name in ("small", "large"))
    one_more = ("num_replicas=1", "key=a")
    words = (
        *POOL,
        *teacher(small, "Qwen/Qwen2.5-7B-Instruct", "0.6", *one_more, sign="+"),
        *teacher(large, "Qwen/Qwen2.5-32B-Instruct", "0.4", "num_replicas=1", "key=b", sign="+"),
    )
    advice = advised(*words)
    assert advice.combination is not None
    assert fractions(advice.combination.overrides).keys() >= {f"{large}.inference"}
    assert f"{small}.inference" not in fractions(advice.combination.overrides)
    servers = [it.server for it in advice.combination.workload.services if it.role is ServiceRole.TEACHER]
    assert [it is not None and it.memory_fraction >= 0.42 for it in servers] == [True, True]


def test_a_teacher_that_no_fraction_helps_gets_no_line() -> None:
    words = (*POOL, *teacher(SINGLE, "Qwen/Qwen2.5-72B-Instruct", "0.4"))
    advice = advised(*words)
    assert advice.verdict is Verdict.WILL_NOT_START
    assert "ROL029" not in {item.finding.rule.code for item in advice.recommendations}
    assert advice.combination is None


@pytest.mark.parametrize("own", [(), ("reward.reward_model.enable_resource_pool=True",)])
def test_a_reward_model_without_room_for_its_cache_gets_a_line_of_the_block(own: tuple[str, ...]) -> None:
    section = "reward.reward_model"
    pool = (*own, f"{section}.n_gpus_per_node=4", f"{section}.nnodes=1") if own else ()
    words = (
        f"{section}.enable=True",
        f"{section}.model_path=Qwen/Qwen2.5-7B-Instruct",
        f"{section}.rollout.name=vllm",
        f"{section}.rollout.tensor_model_parallel_size=1",
        f"{section}.rollout.gpu_memory_utilization=0.15",
        *pool,
    )
    advice = advised(*words)
    assert advice.verdict is Verdict.WILL_NOT_START
    assert advice.combination is not None and advice.combination.verdict is Verdict.FITS
    assert fractions(advice.combination.overrides)[f"{section}.rollout"] > 0.15
