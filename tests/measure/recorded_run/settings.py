"""The job whose steps are recorded."""

from dataclasses import dataclass

from tuner.units import GIB

STEPS = 5


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of GRPO on a small model."""

    model: str
    vocabulary: int
    prompts: int  # of a step
    responses: int  # of a prompt
    world: int
    prompt_tokens: int
    response_tokens: int
    token_budget: int  # of a micro-batch
    cache_bytes: int
    generation_seconds: float
    reference: bool  # whose weights wait in pinned host memory, which needs a GPU

    @property
    def sequences(self) -> int:
        """Of one rank."""
        return self.prompts * self.responses // self.world

    def overrides(self, path: str) -> list[str]:
        """The settings as verl's trainer would be given them.

        Args:
            path: folder of the model's configuration.
        """
        actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
        return [
            "algorithm.adv_estimator=grpo",
            f"data.train_batch_size={self.prompts}",
            f"data.max_prompt_length={self.prompt_tokens}",
            f"data.max_response_length={self.response_tokens}",
            f"actor_rollout_ref.model.path={path}",
            "actor_rollout_ref.model.use_remove_padding=True",
            "actor_rollout_ref.model.enable_gradient_checkpointing=True",
            f"{actor}.strategy=fsdp2",
            "actor_rollout_ref.ref.strategy=fsdp2",
            f"{actor}.ppo_mini_batch_size={self.prompts // 2}",
            f"{actor}.use_dynamic_bsz=True",
            f"{actor}.ppo_max_token_len_per_gpu={self.token_budget}",
            f"{actor}.use_kl_loss={self.reference}",
            f"{rollout}.name=vllm",
            f"{rollout}.tensor_model_parallel_size=1",
            f"{rollout}.n={self.responses}",
            f"{rollout}.log_prob_use_dynamic_bsz=True",
            f"{rollout}.log_prob_max_token_len_per_gpu={self.token_budget}",
            "actor_rollout_ref.ref.log_prob_use_dynamic_bsz=True",
            f"actor_rollout_ref.ref.log_prob_max_token_len_per_gpu={self.token_budget}",
            f"trainer.n_gpus_per_node={self.world}",
            "trainer.nnodes=1",
            'trainer.logger=["console"]',
            f"trainer.total_training_steps={STEPS}",
        ]


def job(world: int, *, tiny: bool) -> Job:
    """The job for so many GPUs.

    Args:
        world: how many.
        tiny: for a dry run.
    """
    if tiny:
        return Job(
            model="qwen2.5-0.5b",
            vocabulary=500,
            prompts=4,
            responses=4,
            world=world,
            prompt_tokens=16,
            response_tokens=32,
            token_budget=256,
            cache_bytes=1 << 20,
            generation_seconds=0.1,
            reference=False,
        )
    return Job(
        model="qwen2.5-0.5b",
        vocabulary=151_000,
        prompts=32,
        responses=4,
        world=world,
        prompt_tokens=256,
        response_tokens=1024,
        token_budget=16_384,
        cache_bytes=8 * GIB,
        generation_seconds=1.0,
        reference=True,
    )
