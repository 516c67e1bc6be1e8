"""Which keys reading a launch looks at."""

from collections.abc import Sequence
from unittest.mock import patch

from msgspec.structs import replace

from tests.loading import load
from tests.trainers.launches import ACTOR, ALL, DYNAMIC, MEGATRON, MODEL, REF, ROLLOUT, STATIC, VEOMNI
from tests.workloads import QWEN25_7B, cluster
from tuner.errors import TunerError
from tuner.inputs.interpolation import Resolver
from tuner.inputs.tree import Path, dotted

_CRITIC = ("algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B-Instruct")
_RECOMPUTE = "megatron.override_transformer_config.recompute"
_ENABLED = tuple(f"{model}.enable_gradient_checkpointing=True" for model in (MODEL, "critic.model"))
_BRIDGED = tuple(f"{role}.megatron.use_mbridge=True" for role in (ACTOR, "critic"))

_SCORED = ("reward_model.enable=True", "reward_model.model.path=judge", "reward_model.rollout.name=vllm")
_SERVED = ("reward.reward_model.enable=True", "reward.reward_model.rollout.name=vllm")
_POOL = ("enable_resource_pool=True", "n_gpus_per_node=8", "nnodes=1")
_JUDGED: tuple[Sequence[str], ...] = (
    (*STATIC, *_SCORED, "reward_model.use_reward_loop=False"),
    (*STATIC, *_SCORED, "reward_model.micro_batch_size=16", "reward_model.use_reward_loop=False"),
    (*DYNAMIC, *_SCORED, "reward_model.strategy=fsdp2", "reward_model.use_reward_loop=False"),
    (*MEGATRON, *_SCORED, "reward_model.strategy=megatron", "reward_model.use_reward_loop=False"),
    (*DYNAMIC, *_SCORED, *(f"reward_model.{override}" for override in _POOL)),
    (*DYNAMIC, *_SERVED),
    (*DYNAMIC, *_SERVED, *(f"reward.reward_model.{override}" for override in _POOL)),
    (*DYNAMIC, "distillation.enabled=True", "distillation.nnodes=1"),
    (*DYNAMIC, "distillation.enabled=True", "distillation.teacher_models.other.model_path=judge"),
)
#: Launches that between them ask for everything that is modelled, on releases that have the keys.
LAUNCHES: tuple[Sequence[str], ...] = (
    *ALL.values(),
    VEOMNI,
    (*VEOMNI, *_CRITIC),
    (*VEOMNI, f"{ACTOR}.entropy_coeff=0.001"),
    (*STATIC, *_CRITIC, "critic.ppo_micro_batch_size_per_gpu=2", "critic.forward_micro_batch_size_per_gpu=2"),
    (*STATIC, *_CRITIC, "critic.ppo_micro_batch_size=16", "critic.forward_micro_batch_size=16"),
    (*DYNAMIC, *_CRITIC, "critic.model.lora_rank=8", "critic.strategy=fsdp"),
    (*MEGATRON, *_CRITIC, "critic.strategy=megatron"),
    (*MEGATRON, *_CRITIC, "critic.strategy=megatron", "critic.model.lora.rank=8"),
    (*MEGATRON, f"{MODEL}.lora.rank=8"),
    (*MEGATRON, f"{ACTOR}.{_RECOMPUTE}_granularity=full", f"critic.{_RECOMPUTE}_granularity=full", *_CRITIC),
    (*MEGATRON, "trainer.use_legacy_worker_impl=disable", f"{MODEL}.lora.rank=8"),
    (*MEGATRON, "trainer.use_legacy_worker_impl=disable"),
    (*MEGATRON, "trainer.use_legacy_worker_impl=disable", *_CRITIC, "critic.strategy=megatron"),
    (*MEGATRON, *_CRITIC, "critic.strategy=megatron", "critic.optim.use_precision_aware_optimizer=True"),
    (*MEGATRON, *_CRITIC, "critic.strategy=megatron", *_ENABLED),
    (*MEGATRON, f"{ROLLOUT}.name=sglang"),
    (*MEGATRON, *_CRITIC, "critic.strategy=megatron", f"{ACTOR}.optim.use_precision_aware_optimizer=True"),
    (*DYNAMIC, "trainer.use_legacy_worker_impl=disable", *_CRITIC),
    (*STATIC, "trainer.use_legacy_worker_impl=disable", *_CRITIC),
    (*DYNAMIC, f"{ACTOR}.use_kl_loss=False", "algorithm.use_kl_in_reward=True"),
    (*DYNAMIC, f"{MODEL}.use_fused_kernels=True"),
    (*DYNAMIC, f"{ROLLOUT}.multi_turn.enable=True"),
    (*DYNAMIC, f"{ACTOR}.entropy_from_logits_with_chunking=True", f"{ACTOR}.entropy_coeff=0.001"),
    (*DYNAMIC, f"{ACTOR}.fsdp_config.entropy_from_logits_with_chunking=True", f"{REF}.strategy=fsdp2"),
    (
        *DYNAMIC,
        "trainer.v1.trainer_mode=separate_async",
        f"{ROLLOUT}.nnodes=1",
        f"{ROLLOUT}.n_gpus_per_node=8",
    ),
    (*DYNAMIC, *_CRITIC, "trainer.use_v1=False", "trainer.save_freq=10"),
    (*STATIC, *_CRITIC, "trainer.save_freq=10"),
    (*MEGATRON, *_CRITIC, "critic.strategy=megatron", "trainer.save_freq=10", *_BRIDGED),
    (*DYNAMIC, "+rollout.nnodes=1", "+rollout.n_gpus_per_node=8"),
    (*DYNAMIC, f"{ROLLOUT}.name=trtllm"),
    (*DYNAMIC, f"{ROLLOUT}.name=hf"),
    (*DYNAMIC, f"{ROLLOUT}.max_model_len=null"),
    (*DYNAMIC, "++algorithm.filter_groups.enable=True"),
    (*DYNAMIC, "++algorithm.filter_groups.enable=True", "trainer.use_v1=False"),
    *_JUDGED,
)


#: The program that goes on taking the old sections of rewards, and launches of it that have them.
STILL_MOVES = "verl.experimental.fully_async_policy.fully_async_main"
WITH_OLD_REWARDS: tuple[Sequence[str], ...] = (
    (*DYNAMIC, *_SCORED, *(f"reward_model.{override}" for override in _POOL)),
    (*DYNAMIC, "custom_reward_function.path=/rewards.py"),
)


def keys_read(
    overrides: Sequence[str], version: str, engine_version: str | None = None, *, program: str = ""
) -> set[str]:
    """Every key that is looked at, with those that its value comes from; none of a launch that is refused."""
    looked: set[Path] = set()
    resolve = Resolver.read

    def record(resolver: Resolver, path: Path) -> tuple[object, tuple[Path, ...]]:
        looked.add(path)
        value, way = resolve(resolver, path)
        looked.update(way)
        return value, way

    try:
        loaded = load(None, overrides, version=version, program=program)
    except TunerError:
        return set()
    loaded = replace(loaded, settings=replace(loaded.settings))  # of a copy nothing has been read before
    with patch.object(Resolver, "read", record):
        try:
            gpus, nodes = loaded.cluster_size()
            loaded.model_path()
            loaded.critic_model_path()
            judges = loaded.service_paths()
            loaded.workload(
                model=QWEN25_7B,
                critic_model=None,
                cluster=cluster(gpus_per_node=gpus, nodes=nodes),
                rollout_engine_version=engine_version,
                service_models={path: QWEN25_7B for _, path in judges},
            )
        except TunerError:
            return set()
    return {dotted(path) for path in looked}
