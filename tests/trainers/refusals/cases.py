"""Launches of which verl's own validation is asked: good ones, and each with one thing wrong."""

from collections.abc import Iterator

from tests.corpus import launches
from tests.trainers.launches import ACTOR, ALL, MODEL, REF, ROLLOUT

#: One thing wrong each, by the launch of :data:`~tests.trainers.launches.ALL` that it is set in.
WRONG: dict[str, tuple[tuple[str, ...], ...]] = {
    "static": (
        (f"{ACTOR}.ppo_mini_batch_size=2048",),
        (f"{ACTOR}.ppo_micro_batch_size_per_gpu=null",),
        (f"{ACTOR}.ppo_micro_batch_size=16",),
        (f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=null",),
        (f"{ROLLOUT}.log_prob_micro_batch_size=16",),
        (f"{REF}.log_prob_micro_batch_size_per_gpu=null",),
        (f"{REF}.log_prob_micro_batch_size=16",),
        ("data.train_batch_size=511", f"{ROLLOUT}.n=1", f"{ACTOR}.ppo_mini_batch_size=73"),
        ("trainer.nnodes=3",),
        ("trainer.n_gpus_per_node=3",),
        (f"{ACTOR}.loss_agg_mode=token_mean",),
        (f"{ACTOR}.optim.lr_scheduler_type=linear",),
        (f"{ACTOR}.optim.warmup_style=linear",),
        (f"{ACTOR}.router_replay.mode=r2",),
        (f"{ACTOR}.fsdp_config.strategy=ddp",),
        (f"{ACTOR}.ulysses_sequence_parallel_size=2", f"{MODEL}.use_remove_padding=False"),
        (f"{ROLLOUT}.mode=sync",),
        (f"{ROLLOUT}.pipeline_model_parallel_size=2",),
        (f"{ROLLOUT}.expert_parallel_size=8",),
        (f"{ROLLOUT}.val_kwargs.do_sample=True", f"{ROLLOUT}.temperature=0"),
        (f"{ROLLOUT}.multi_turn.enable=True",),
        ("reward_model.enable=True",),
        ("critic.enable=True",),
        ("no_such_key=1",),
        (f"{ACTOR}.no_such_key=1",),
    ),
    "dynamic": (
        (f"{ACTOR}.loss_agg_mode=mean",),
        ("data.train_batch_size=511", f"{ROLLOUT}.n=1"),
        ("distillation.enabled=True",),
        ("distillation.enabled=True", "distillation.nnodes=1"),
        (
            "distillation.enabled=True",
            "distillation.nnodes=1",
            "distillation.teacher_models.teacher_model.model_path=m",
            "distillation.teacher_models.teacher_model.inference.max_model_len=4096",
        ),
        (
            "distillation.enabled=True",
            "distillation.nnodes=1",
            "distillation.teacher_models.teacher_model.model_path=m",
            "distillation.teacher_models.teacher_model.inference.tensor_model_parallel_size=3",
        ),
        (
            "distillation.enabled=True",
            "distillation.nnodes=1",
            "distillation.teacher_models.teacher_model.model_path=m",
            "distillation.distillation_loss.loss_mode=k1",
        ),
    ),
    "lora": ((f"{MODEL}.lora_rank=1024",),),
    "ppo": (
        ("critic.use_dynamic_bsz=False",),
        ("critic.optim.lr_scheduler_type=linear",),
        ("critic.ppo_mini_batch_size=2048", "critic.use_dynamic_bsz=False"),
    ),
    "megatron": (
        (f"{ACTOR}.megatron.dtype=float32",),
        (f"{ACTOR}.megatron.tensor_model_parallel_size=3",),
        (f"{ACTOR}.megatron.router_replay.mode=r2",),
        (f"{ACTOR}.optim.exp_avg_dtype=fp8",),
        (f"{ACTOR}.megatron.dynamic_context_parallel=True",),
        (
            f"{ACTOR}.megatron.router_replay.mode=R2",
            "algorithm.rollout_correction.bypass_mode=True",
        ),
    ),
}


def launches_of(release: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and overrides: every good launch, every one with one thing wrong, and verl's own examples."""
    for base, launch in ALL.items():
        yield base, tuple(launch)
        for wrong in WRONG.get(base, ()):
            yield f"{base} {' '.join(wrong)}", (*launch, *wrong)
    for example in launches():
        if f"v{release}" in example["tags"] and example["entry"] == "verl.trainer.main_ppo":
            named = any(override.startswith("--config-name") for override in example["overrides"])
            config = (
                () if named or not example["config_name"] else (f"--config-name={example['config_name']}",)
            )
            yield example["path"], (*config, *example["overrides"])
