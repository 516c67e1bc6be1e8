"""Where a job of verl was, by the calls of each release's own code."""

import pytest

from tuner.out_of_memory.stack import Call
from tuner.trainers.verl.memory_keys import deciding_keys
from tuner.trainers.verl.places import place_of
from tuner.trainers.verl.releases import BUNDLED
from tuner.workload import Phase
from tuner.workload.place import FailedWork, FailurePlace

W = "verl/workers"
FIT = ("verl/trainer/ppo/ray_trainer.py", "fit", "")

# Calls as (file, function, line of the program), the innermost last, with the phases and the work they tell.
STACKS: dict[str, tuple[list[tuple[str, str, str]], tuple[Phase, ...], FailedWork | None]] = {
    "0.3 log-probabilities": (
        [
            FIT,
            (f"{W}/fsdp_workers.py", "compute_log_prob", ""),
            (f"{W}/actor/dp_actor.py", "_forward_micro_batch", "logits_rmpad.div_(temperature)"),
        ],
        (Phase.OLD_LOG_PROB,),
        FailedWork.LOGITS,
    ),
    "0.5 reference": (
        [
            FIT,
            (f"{W}/fsdp_workers.py", "compute_ref_log_prob", ""),
            (f"{W}/actor/dp_actor.py", "compute_log_prob", ""),
            ("verl/utils/torch_functional.py", "logprobs_from_logits_v2", ""),
        ],
        (Phase.REF_LOG_PROB,),
        FailedWork.LOGITS,
    ),
    "0.5 entropy": (
        [
            (f"{W}/fsdp_workers.py", "update_actor", ""),
            (f"{W}/actor/dp_actor.py", "update_policy", ""),
            (
                "verl/utils/torch_functional.py",
                "entropy_from_logits",
                "pd = torch.nn.functional.softmax(logits, dim=-1)",
            ),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.ENTROPY,
    ),
    "0.7 backward": (
        [
            (f"{W}/actor/dp_actor.py", "update_policy", "loss.backward()"),
            ("torch/_tensor.py", "backward", "torch.autograd.backward("),
            ("torch/autograd/graph.py", "_engine_run_backward", ""),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.BACKWARD,
    ),
    "0.7 optimizer": (
        [
            (f"{W}/actor/dp_actor.py", "_optimizer_step", "self.actor_optimizer.step()"),
            ("torch/optim/adamw.py", "step", "self._init_group("),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.OPTIMIZER,
    ),
    "0.5 critic's optimizer": (
        [(f"{W}/critic/dp_critic.py", "_optimizer_step", "self.critic_optimizer.step()")],
        (Phase.UPDATE_CRITIC, Phase.VALUES),
        FailedWork.OPTIMIZER,
    ),
    "0.7 onloading": (
        [
            (f"{W}/fsdp_workers.py", "update_actor", "load_fsdp_optimizer(optimizer=self.actor_optimizer)"),
            ("verl/utils/fsdp_utils.py", "load_fsdp_optimizer", ""),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.LOADING,
    ),
    "0.9 update": (
        [
            FIT,
            ("verl/trainer/ppo/ray_trainer.py", "_update_actor", ""),
            (f"{W}/engine_workers.py", "train_batch", ""),
            (f"{W}/engine/fsdp/transformer_impl.py", "forward_backward_batch", "loss.backward()"),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.BACKWARD,
    ),
    "0.9 critic": (
        [
            FIT,
            ("verl/trainer/ppo/ray_trainer.py", "_update_critic", ""),
            (f"{W}/engine_workers.py", "train_mini_batch", ""),
        ],
        (Phase.UPDATE_CRITIC,),
        None,
    ),
    "0.9 inference of whichever model": (
        [(f"{W}/engine_workers.py", "infer_batch", "")],
        (Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES),
        None,
    ),
    "0.3 wake-up, all at once": (
        [
            (f"{W}/fsdp_workers.py", "generate_sequences", ""),
            (f"{W}/sharding_manager/fsdp_vllm.py", "__enter__", "self.inference_engine.wake_up()"),
        ],
        (Phase.UPDATE_WEIGHTS, Phase.WAKE_UP),
        None,
    ),
    "0.5 wake-up of weights": (
        [
            (f"{W}/fsdp_workers.py", "generate_sequences", ""),
            (
                f"{W}/sharding_manager/fsdp_vllm.py",
                "__enter__",
                'self.inference_engine.wake_up(tags=["weights"])',
            ),
        ],
        (Phase.UPDATE_WEIGHTS,),
        FailedWork.ENGINE_WEIGHTS,
    ),
    "0.5 wake-up of the cache": (
        [
            (f"{W}/fsdp_workers.py", "generate_sequences", ""),
            (
                f"{W}/sharding_manager/fsdp_vllm.py",
                "__enter__",
                'self.inference_engine.wake_up(tags=["kv_cache"])',
            ),
        ],
        (Phase.WAKE_UP,),
        FailedWork.CACHE,
    ),
    "0.9 wake-up of the cache": (
        [(f"{W}/engine_workers.py", "update_weights", 'await self.rollout.resume(tags=["kv_cache"])')],
        (Phase.WAKE_UP,),
        FailedWork.CACHE,
    ),
    "0.9 weights": (
        [
            (f"{W}/engine_workers.py", "update_weights", "await self.rollout.update_weights("),
            (f"{W}/rollout/vllm_rollout/utils.py", "update_weights_from_ipc", ""),
        ],
        (Phase.UPDATE_WEIGHTS,),
        FailedWork.SYNC,
    ),
    "generation": (
        [
            (f"{W}/fsdp_workers.py", "generate_sequences", ""),
            ("vllm/v1/worker/gpu_model_runner.py", "execute_model", ""),
        ],
        (Phase.ROLLOUT,),
        None,
    ),
    "saving": (
        [FIT, ("verl/utils/checkpoint/fsdp_checkpoint_manager.py", "save_checkpoint", "")],
        (Phase.SAVE_CHECKPOINT,),
        FailedWork.SAVING,
    ),
    "attention": (
        [
            (f"{W}/actor/dp_actor.py", "update_policy", ""),
            (
                "transformers/models/qwen2/modeling_qwen2.py",
                "eager_attention_forward",
                "attn_weights = torch.matmul(query, key)",
            ),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.ATTENTION,
    ),
    "a layer": (
        [
            (f"{W}/actor/dp_actor.py", "update_policy", ""),
            (
                "transformers/models/qwen2/modeling_qwen2.py",
                "forward",
                "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)))",
            ),
            ("torch/nn/modules/linear.py", "forward", "return F.linear(input, self.weight, self.bias)"),
        ],
        (Phase.UPDATE_ACTOR,),
        FailedWork.LAYER,
    ),
    "gathered weights": (
        [
            (f"{W}/fsdp_workers.py", "compute_ref_log_prob", ""),
            ("torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py", "unshard", ""),
        ],
        (Phase.REF_LOG_PROB,),
        FailedWork.GATHERING,
    ),
    "Ray's task alone": (
        [("", "WorkerDict.actor_rollout_compute_ref_log_prob", "")],
        (Phase.REF_LOG_PROB,),
        None,
    ),
}
STARTS = {
    "trial run": (
        [("vllm/v1/worker/gpu_worker.py", "determine_available_memory", "self.model_runner.profile_run()")],
        FailedWork.TRIAL_RUN,
    ),
    "graphs": ([("vllm/v1/worker/gpu_model_runner.py", "capture_model", "")], FailedWork.GRAPHS),
    "cache": (
        [
            (
                "vllm/v1/worker/gpu_worker.py",
                "initialize_from_config",
                "self.model_runner.initialize_kv_cache(c)",
            )
        ],
        FailedWork.CACHE,
    ),
    "models": (
        [(f"{W}/fsdp_workers.py", "init_model", ""), (f"{W}/fsdp_workers.py", "_build_model_optimizer", "")],
        FailedWork.BUILDING,
    ),
}


def place(stack: list[tuple[str, str, str]]) -> FailurePlace:
    return place_of([Call(file=file, function=function, line=1, code=code) for file, function, code in stack])


@pytest.mark.parametrize("name", STACKS)
def test_the_phase_and_the_work_of_a_stack(name: str) -> None:
    stack, phases, work = STACKS[name]
    found = place(stack)
    assert (found.phases, found.work, found.before_steps) == (phases, work, False)


@pytest.mark.parametrize("name", STARTS)
def test_a_stack_of_the_start(name: str) -> None:
    stack, work = STARTS[name]
    found = place([("verl/trainer/ppo/ray_trainer.py", "init_workers", ""), *stack])
    assert (found.phases, found.work, found.before_steps) == ((), work, True)


def test_no_stack_tells_nothing() -> None:
    assert place_of(()) == FailurePlace()
    assert place([("job.py", "main", "run()")]) == FailurePlace()


@pytest.mark.parametrize("version", BUNDLED)
@pytest.mark.parametrize("phase", Phase)
def test_keys_of_every_phase_are_keys_of_the_release(phase: Phase, version: str) -> None:
    keys = deciding_keys(FailurePlace(phases=(phase,)), version)
    assert keys or phase is Phase.REWARD
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("work", FailedWork)
def test_states_are_decided_by_offload_and_sharding_whatever_the_phase(work: FailedWork) -> None:
    keys = deciding_keys(FailurePlace(phases=(Phase.UPDATE_ACTOR,), work=work), BUNDLED[-1])
    of_states = work in (FailedWork.OPTIMIZER, FailedWork.LOADING, FailedWork.GATHERING, FailedWork.GRADIENTS)
    assert any("offload" in key for key in keys) is (
        of_states or work in (FailedWork.CACHE, FailedWork.ENGINE_WEIGHTS)
    )
    assert any("max_token_len" in key for key in keys) is not any("offload" in key for key in keys)
